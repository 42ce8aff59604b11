"""Properties that all structured learners share, some of them with other linear models."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import clone

from treecrf import LinearCRF, SequenceBoostingClassifier, StructuredPerceptron, StructuredSVM
from treecrf.utils.messages import Progress

LEARNERS = {
    "max margin": StructuredSVM(C=10, random_state=0),
    "perceptron": StructuredPerceptron(random_state=0),
    "sequence boosting": SequenceBoostingClassifier(max_iter=50),
}
every = pytest.mark.parametrize("name", LEARNERS)
BAD = {
    "max margin": [
        {"C": 0}, {"kernel": "sigmoid"}, {"gamma": -1.0}, {"gamma": "wide"}, {"degree": 0},
        {"coef0": np.inf}, {"tol": -1}, {"max_iter": 0}, {"average": "no"}, {"cache_size": 0},
    ],
    "perceptron": [{"max_iter": 0}, {"average": "yes"}, {"shuffle": 2}],
    "sequence boosting": [
        {"max_iter": 0}, {"bound": "tight"}, {"line_search": "yes"}, {"max_step": 0},
        {"piece_length": 0}, {"tol": -1.0},
    ],
}  # fmt: skip


@every
def test_transitions_are_learned_without_attributes(name):
    X, y = ["abc", "cab"], ["xyx", "xyx"]
    model = clone(LEARNERS[name]).set_params(min_count=3).fit(X, y)
    assert model.state_weights_.shape == (0, 2)
    assert model.score(X, y) == 1


@pytest.mark.parametrize(("name", "given"), [(n, given) for n in BAD for given in BAD[n]])
def test_bad_parameters(name, given, letters):
    model = clone(LEARNERS[name]).set_params(**given)
    message = f"'{next(iter(given))}' parameter of {type(model).__name__}"
    with pytest.raises(ValueError, match=message):
        model.fit(*letters)


LINEAR = LEARNERS | {
    "gradient steps": LinearCRF(solver="sgd", max_iter=5, random_state=0),
    "L-BFGS": LinearCRF(),
}


@pytest.mark.parametrize("name", LINEAR)
def test_an_interrupted_fit_leaves_the_model(name, letters, monkeypatch):
    model = clone(LINEAR[name]).fit(["ab", "ba"], ["xy", "yx"])
    before = copy.copy(vars(model))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*letters)
    assert all(value is before[name] for name, value in vars(model).items())
