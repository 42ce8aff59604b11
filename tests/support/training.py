"""What learners train on, for tests of losses, rounds and folds."""

from __future__ import annotations

import copy
from dataclasses import replace
from unittest import mock

import pytest

from treecrf.learners.boosted import training
from treecrf.learners.linear.likelihoods import Loss


class Stopped(Exception):
    """Raised in place of training."""


def training_of(model, X, y, **given):
    """A copy of the model, its training data and the weights that training would start from."""
    caught = []

    class Catching(type(model)):
        def _learn(self, data, held_out, start, run):
            caught.extend([self, data, start])
            raise Stopped

    with pytest.raises(Stopped):
        Catching(**model.get_params()).fit(X, y, **given)
    return caught


def loss_of(model, X, y, **given):
    """The loss that training would minimize, as a function of the vector of weights."""
    copied, data, _ = training_of(model, X, y, **given)
    return Loss(copied._likelihood(data), copied.l2_regularization), data


def prepared(crf, X, y, **arguments):
    """The training data as `fit` reads them, with the seed of cross-validation."""
    caught = []

    def choose(spec, data):
        caught.append(data)
        raise Stopped

    with mock.patch.object(training, "choose", choose), pytest.raises(Stopped):
        copy.copy(crf).fit(X, y, **arguments)
    return replace(caught[0].without_data(), training=caught[0].training, seed=0)
