"""Steps of boosting that lower the objective are halved until they do not."""

from __future__ import annotations

import numpy as np
import pytest
from support.parts import assert_equal_fits, dealt, fit_parts_of
from support.persistent import LONG_STEPS, persistent

from treecrf import TreeCRF
from treecrf.learners.boosted import booster
from treecrf.learners.boosted.booster import MAX_HALVINGS, halve_while_worse
from treecrf.learners.boosted.kinds import ExactKind

ROUNDING = 1e-9
CASES = {
    "tables": {},
    "order 2": {"order": 2},
    "samples": {"sampling": 0.1},
    "constant transitions": {"constant_transitions": True},
    "constant transitions, samples": {"constant_transitions": True, "sampling": 0.1},
    "trees for all labels": {
        "constant_transitions": "auto",
        "multi_strategy": "multi_output_tree",
    },
    "subsamples": {"subsample": 0.6},
}


def model(**settings):
    return TreeCRF(**LONG_STEPS | settings)


def largest_fall(crf):
    return -np.diff(crf.train_score_).min()


@pytest.mark.parametrize("name", CASES)
def test_the_likelihood_never_falls(name, monkeypatch):
    X, y = persistent()
    crf = model(**CASES[name]).fit(X, y)
    assert largest_fall(crf) < ROUNDING
    value = np.sum(crf.predict_log_likelihood(X, y)) / sum(map(len, y))
    assert crf.train_score_[-1] == pytest.approx(value, abs=1e-9)
    # All leaf values are multiples of this unit, like those of trees that were not halved.
    leaves = np.concatenate([tree["leaf"].ravel() for tree in crf._forest.trees])
    assert (leaves * 2.0**20 == np.rint(leaves * 2.0**20)).all()

    monkeypatch.setattr(ExactKind, "halves_steps", False)
    assert largest_fall(model(**CASES[name]).fit(X, y)) > 0.1


@pytest.mark.parametrize("name", CASES)
def test_scores_of_other_data_are_those_of_the_halved_trees(name):
    X, y = persistent()
    X_val, y_val = persistent(seed=7)
    settings = {"early_stopping": True, "n_iter_no_change": 8, "scoring": "log_likelihood"}
    crf = model(**CASES[name] | settings).fit(
        X, y, X_val=X_val, y_val=y_val, eval_set=[(X_val, y_val), (X[:3], y[:3])]
    )
    n_positions = sum(map(len, y_val))
    value = np.sum(crf.predict_log_likelihood(X_val, y_val)) / n_positions
    assert crf.validation_score_[crf.n_iter_] == pytest.approx(value, abs=1e-9)
    scores = crf.evals_result_["valid_1"]["log_likelihood"]
    value = np.sum(crf.predict_log_likelihood(X[:3], y[:3])) / sum(map(len, y[:3]))
    assert scores[crf.n_iter_] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("name", ["tables", "samples", "constant transitions", "subsamples"])
def test_warm_starts(name):
    X, y = persistent()
    settings = CASES[name] | {"warm_start": True}
    whole = model(**settings).fit(X, y)
    crf = model(**settings).set_params(max_iter=3).fit(X, y)
    assert_equal_fits(whole, crf.set_params(max_iter=8).fit(X, y))


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("name", ["samples", "constant transitions, samples"])
@pytest.mark.parametrize("weights", [False, True])
def test_parts_and_threads(name, missing, weights):
    X, y = persistent()
    rng = np.random.default_rng(0)
    for table in X:
        table[rng.random(table.shape) < 0.1] = np.nan
    given = {}
    if weights:
        given["sample_weight"] = [np.full(len(labels), rng.exponential()) for labels in y]
    settings = CASES[name] | {"missing": missing}
    whole = model(**settings).fit(X, y, **given)
    assert largest_fall(whole) < ROUNDING
    assert_equal_fits(whole, model(**settings, n_jobs=2).fit(X, y, **given))
    assert_equal_fits(whole, fit_parts_of(model(**settings), X, y, dealt(X, 3), 2, **given))


def test_weights_that_the_objective_lacks(monkeypatch):
    """The likelihood may then fall, while trees raise something else."""
    X, y = persistent()
    settings = {"class_weight": "balanced"}
    free = model(**settings).fit(X, y)
    monkeypatch.setattr(booster, "MAX_HALVINGS", -1)
    assert_equal_fits(free, model(**settings).fit(X, y))


def test_weights_of_positions_are_not_those_of_the_objective(monkeypatch):
    X, y = persistent()
    weights = [np.linspace(0.1, 1, len(labels)) for labels in y]
    free = model().fit(X, y, sample_weight=weights)
    monkeypatch.setattr(booster, "MAX_HALVINGS", -1)
    assert_equal_fits(free, model().fit(X, y, sample_weight=weights))


def test_steps_are_halved_until_they_are_not_worse():
    lengths = [1.0]

    def halve():
        lengths.append(lengths[-1] / 2)

    halve_while_worse(-1.0, lambda: -1.0 + lengths[-1] - 3 * lengths[-1] ** 2, halve)
    assert lengths == [1.0, 0.5, 0.25]
    halve_while_worse(-1.0, lambda: -2.0, halve)
    assert len(lengths) == 3 + MAX_HALVINGS
    halve_while_worse(-np.inf, lambda: -np.inf, halve)
    assert len(lengths) == 3 + MAX_HALVINGS
