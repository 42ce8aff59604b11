"""Properties that all structured learners share."""

from __future__ import annotations

import copy

import pytest
from sklearn.base import clone

from treecrf import SequenceBoostingClassifier, StructuredPerceptron, StructuredSVM
from treecrf.utils.progress import Progress

LEARNERS = {
    "max margin": StructuredSVM(C=10, random_state=0),
    "perceptron": StructuredPerceptron(random_state=0),
    "sequence boosting": SequenceBoostingClassifier(max_iter=50),
}
every = pytest.mark.parametrize("name", LEARNERS)


@every
def test_transitions_are_learned_without_attributes(name):
    X, y = ["abc", "cab"], ["xyx", "xyx"]
    model = clone(LEARNERS[name]).set_params(min_count=3).fit(X, y)
    assert model.state_weights_.shape == (0, 2)
    assert model.score(X, y) == 1


@every
def test_an_interrupted_fit_leaves_the_model(name, letters, monkeypatch):
    model = clone(LEARNERS[name]).fit(["ab", "ba"], ["xy", "yx"])
    before = copy.copy(vars(model))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*letters)
    assert all(value is before[name] for name, value in vars(model).items())
