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


@every
def test_transitions_are_learned_without_attributes(name):
    X, y = ["abc", "cab"], ["xyx", "xyx"]
    model = clone(LEARNERS[name]).set_params(min_count=3).fit(X, y)
    assert model.state_weights_.shape == (0, 2)
    assert model.score(X, y) == 1


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


@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
@pytest.mark.parametrize("name", [name for name in LINEAR if name != "max margin"])
def test_early_stopping_keeps_the_best_weights(name):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcd"), 8)) for _ in range(40)]
    y = ["".join("xy"[a in "ab"] if rng.random() < 0.7 else rng.choice(["x", "y"]) for a in word)
         for word in X]  # fmt: skip
    data, settings = (X[:20], y[:20], X[20:], y[20:]), {"max_iter": 300, "n_iter_no_change": 10}
    model = clone(LINEAR[name]).set_params(window=3, early_stopping=True, **settings)
    if isinstance(model, LinearCRF):
        model.set_params(l2_regularization=0.01)
    model.fit(*data)
    assert 0 < model.n_iter_ < 290
    if name == "perceptron":
        scores, value = model.validation_accuracy_, model.score(*data[2:])
        assert len(model.train_accuracy_) == len(scores) == model.n_iter_
    else:
        scores, value = model.validation_score_, model.predict_log_likelihood(*data[2:]).sum() / 160
        assert len(model.train_score_) == len(scores) == model.n_iter_ + 1
    assert scores.argmax() == len(scores) - 1
    assert scores[-1] == pytest.approx(value)
    shorter = clone(model).set_params(early_stopping=False, max_iter=model.n_iter_).fit(*data[:2])
    np.testing.assert_array_equal(shorter.state_weights_, model.state_weights_)
