"""What linear learners train on, for tests of their losses and rounds."""

from __future__ import annotations

import pytest

from treecrf.learners.linear.likelihoods import Loss


class Stopped(Exception):
    """Raised in place of training."""


def training_of(model, X, y, **given):
    """A copy of the model, its training data and the weights that training would start from."""
    caught = []

    class Catching(type(model)):
        def _learn(self, training, held_out, start, run):
            caught.extend([self, training, start])
            raise Stopped

    with pytest.raises(Stopped):
        Catching(**model.get_params()).fit(X, y, **given)
    return caught


def loss_of(model, X, y, **given):
    """The loss that training would minimize, as a function of the vector of weights."""
    copied, data, _ = training_of(model, X, y, **given)
    return Loss(copied._likelihood(data), copied.l2_regularization), data
