"""The average of several models is one model with the mean of their scores."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier
from support.family import assert_equal_arrays, scores_of
from support.settings import FIXED

import treecrf
from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
    average,
    flatten,
)
from treecrf.inspection import likelihood_curve, strongest_rules
from treecrf.utils.exact import LEAF_UNIT

SMALL = FIXED | {"window": 1, "max_iter": 3, "max_features": 0.5, "l2_regularization": 1.0}
MODELS = {
    "CRF": TreeCRF(**SMALL),
    "CRF of order 2": TreeCRF(order=2, **SMALL),
    "CRF with a linear start": TreeCRF(init="linear", **SMALL),
    "MEMM": TreeMEMM(**SMALL),
    "window": SlidingWindowClassifier(**SMALL),
    "backward": RecurrentSlidingWindowClassifier(direction="right-to-left", **SMALL),
}


def fitted(model, X, y, seeds=3, **settings):
    return [
        type(model)(**model.get_params() | {"random_state": seed} | settings).fit(X, y)
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("name", ["CRF", "CRF of order 2", "CRF with a linear start"])
def test_scores_are_means(name, letters):
    X, y = letters
    models = fitted(MODELS[name], X, y)
    scores = [scores_of(model, X) for model in models]
    assert (scores[0] != scores[1]).any()
    found = scores_of(average(models), X)
    # Each of the nine trees, and each linear part, is rounded.
    np.testing.assert_allclose(found, np.mean(scores, axis=0), atol=20 * LEAF_UNIT)
    np.testing.assert_array_equal(found, np.rint(found / LEAF_UNIT) * LEAF_UNIT)


@pytest.mark.parametrize("name", MODELS)
def test_an_average_is_an_ordinary_model(name, letters, tmp_path):
    X, y = letters
    models = fitted(MODELS[name], X, y)
    before = [model.predict_proba(X) for model in models]
    mean = average(models)
    assert type(mean) is type(models[0])
    expected = mean.predict_proba(X)
    mean.save(tmp_path / "model")
    for same in (treecrf.load(tmp_path / "model"), flatten(mean), average([mean])):
        assert_equal_arrays(same.predict_proba(X), expected)
    *_, last = mean.staged_predict_proba(X)
    assert_equal_arrays(last, expected)
    assert mean.n_iter_ == 9
    assert mean.feature_importances_.sum() == pytest.approx(1.0)
    assert np.isnan(likelihood_curve(mean).train).all()
    with warnings.catch_warnings(action="ignore"):  # rules leave out a linear start
        assert strongest_rules(mean)
    for model, probabilities in zip(models, before, strict=True):
        assert_equal_arrays(model.predict_proba(X), probabilities)
        assert model.n_iter_ == 3
    n = len(X)
    likelihoods = [model.predict_log_likelihood(X, y).sum() / n for model in [mean, *models]]
    assert likelihoods[0] > np.mean(likelihoods[1:])


def test_iterations_take_turns(letters):
    X, y = letters
    one, two = fitted(TreeCRF(**SMALL), X, y, 2)
    two.set_params(max_iter=5, warm_start=True).fit(X, y)
    mean = average([one, two])
    assert mean.n_iter_ == 8
    stages = list(mean.staged_predict_proba(X))
    halves = [list(model.staged_predict_proba(X)) for model in (one, two)]
    early = average([fitted(TreeCRF(**SMALL), X, y, 2, max_iter=2)[k] for k in range(2)])
    assert_equal_arrays(stages[3], early.predict_proba(X))
    assert len(halves[0]) + len(halves[1]) == len(stages)


def test_a_warm_start_continues_an_average(letters):
    X, y = letters
    mean = average(fitted(TreeCRF(**SMALL), X, y))
    mean.set_params(warm_start=True, max_iter=11).fit(X, y)
    assert mean.n_iter_ == 11
    assert np.isnan(mean.train_score_[:9]).all()
    assert mean.train_score_[11] > mean.train_score_[9]


def test_models_must_match(letters, tables):
    X, y = letters
    crf = TreeCRF(**SMALL).fit(X, y)

    def refused(error, message, other):
        with pytest.raises(error, match=message):
            average([crf, other])

    refused(NotFittedError, "not fitted", TreeCRF())
    refused(TypeError, "model 1 is a LinearCRF; expected a model of boosted", LinearCRF())
    refused(TypeError, "is a TreeMEMM; expected a TreeCRF", TreeMEMM(**SMALL).fit(X, y))
    others = {
        "labels": TreeCRF(**SMALL).fit(X, [labels.replace("z", "x") for labels in y]),
        "order": TreeCRF(order=2, **SMALL).fit(X, y),
        "objective": TreeCRF(objective="hamming_log", **SMALL).fit(X, y),
        "window": TreeCRF(**SMALL | {"window": 2}).fit(X, y),
        "linear start": TreeCRF(init="linear", **SMALL).fit(X, y),
    }
    for name, other in others.items():
        refused(ValueError, f"models 0 and 1 differ in {name}", other)
    refused(
        ValueError,
        "differ in columns",
        TreeCRF(**SMALL).fit([w + "e" for w in X], [labels + "x" for labels in y]),
    )
    with pytest.raises(ValueError, match="models is empty"):
        average([])
    around = SlidingWindowClassifier(DecisionTreeClassifier(max_depth=2)).fit(X, y)
    with pytest.raises(TypeError, match="model 0 wraps another estimator"):
        average([around, around])
    starts = [TreeCRF(init=LinearCRF(window=w), **SMALL).fit(X, y) for w in (1, 2)]
    with pytest.raises(ValueError, match="the linear models have different attributes"):
        average(starts)


def test_future_features_must_be_the_same(letters):
    X, y = letters
    settings = {"window": 1, "max_iter": 2, "instance_max_iter": 2, "max_future_features": 1}
    memm = FutureFeatureMEMM(early_stopping=False, bag_size=2, random_state=0, **settings).fit(X, y)
    mean = average([memm, memm])
    assert_equal_arrays(mean.predict(X), memm.predict(X))
