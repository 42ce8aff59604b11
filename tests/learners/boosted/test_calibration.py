"""Temperatures that cross-validation chooses, and models whose scores are divided by them."""

from __future__ import annotations

import copy
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from support.family import assert_equal_arrays, scores_of
from support.training import prepared

import treecrf
from treecrf import TreeCRF
from treecrf.learners.base.folds import make_folds
from treecrf.learners.boosted import calibration, race
from treecrf.learners.boosted.calibration import LOGARITHMS, PENALTY, UNIT, best_temperatures
from treecrf.utils.exact import LEAF_UNIT

SETTINGS = {
    "calibration": "auto", "window": 0,
    "max_iter": 12, "l2_regularization": 1.0, "max_leaf_nodes": 16, "learning_rate": 0.6,
    "init": "zero", "random_state": 0,
}  # fmt: skip
# What is chosen on people; all are scored by marginal probabilities.
MODELS = {
    "zero": {"constant_transitions": False},
    "constant transitions": {"constant_transitions": True},
    "linear start": {"init": "linear"},
    "order 0": {"order": 0},
    "order 2": {"order": 2, "constant_transitions": False},
    "samples": {"sampling": 0.2, "constant_transitions": True},
    "multi-output trees": {"multi_strategy": "multi_output_tree"},
    "rules": {"transitions": [[1, 1, 0], [1, 1, 1], [0, 1, 1]]},
}


def people(n=12, length=40, seed=0, scale=0.4):
    """Sequences of persons: what a number says about the label differs from person to person."""
    rng = np.random.RandomState(seed)
    means = np.array([[0.0, -0.5, 0.3], [1.0, 0.0, 0.0], [2.0, 0.5, -0.3]])
    X, y = [], []
    for _ in range(n):
        steps = rng.randint(4) + np.cumsum(rng.rand(length) < 0.15)
        codes = np.abs(steps % 4 - 2)
        own = rng.normal(means, scale)
        X.append(own[codes] + rng.normal(size=(length, 3)) / 3)
        y.append(np.array(list("abc"))[codes])
    return X, y


def mean_log(model, X, y, temperature=1.0):
    """The mean log-probability of a label, of scores divided by a temperature."""
    divided = copy.copy(model)
    divided._forest = model._forest.divided(temperature)
    if model.init_ is not None:
        divided.init_ = treecrf.learners.linear.start.rounded_linear(model.init_, 1 / temperature)
    codes = np.searchsorted(model.classes_, np.concatenate(y))
    return np.log(np.concatenate(divided.predict_proba(X))[np.arange(len(codes)), codes]).mean()


def folds_of(crf, X, y):
    """The numbers of the sequences in each fold: for training, and held out."""
    number = {x.tobytes(): i for i, x in enumerate(X)}
    for fold in make_folds(prepared(crf, X, y)):
        parts = fold.training.sequences, fold.held_out.sequences
        yield tuple(
            [number[rows.tobytes()] for rows in np.split(s.rows(0, s.n_sequences), s.offsets[1:-1])]
            for s in parts
        )


def test_the_best_temperature_is_that_of_a_grid():
    rng = np.random.default_rng(0)
    for scale, n in ((0.7, 3), (1.1, 20), (1.7, 1), (2.2, 1000)):
        logits = rng.normal(size=(2000, 3))
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        labels = (rng.random((2000, 1)) > np.cumsum(p, axis=1)).sum(axis=1)

        def score(logarithm, logits=scale * logits, labels=labels):
            z = logits / np.exp(logarithm)
            return (z[np.arange(2000), labels] - np.log(np.exp(z).sum(axis=1))).mean()

        rows = np.array([[score(t) for t in LOGARITHMS]] * 2)
        values, temperatures = best_temperatures(rows, n)
        grid = np.linspace(LOGARITHMS[0], LOGARITHMS[-1], 1001)
        curve = [score(t) - PENALTY / (2 * n) * t**2 for t in grid]
        np.testing.assert_allclose(temperatures, np.exp(grid[np.argmax(curve)]), rtol=0.05)
        np.testing.assert_allclose(values, max(curve), atol=2e-3)
        assert (temperatures == np.rint(temperatures / UNIT) * UNIT).all()


def test_scores_without_a_best_temperature():
    flat = np.zeros((1, len(LOGARITHMS)))
    assert best_temperatures(flat, 5)[1] == 1.0
    for direction, end in ((1, LOGARITHMS[-1]), (-1, LOGARITHMS[0])):
        steep = direction * LOGARITHMS[None, :]
        assert best_temperatures(steep, 1000)[1] == pytest.approx(np.exp(end), abs=UNIT)


@pytest.mark.parametrize("name", MODELS)
def test_temperatures_are_those_of_separate_fits(name):
    X, y = people()
    settings = SETTINGS | MODELS[name] | {"n_iter_no_change": 40}
    if name not in ("zero", "linear start"):
        crf = TreeCRF(**settings).fit(X, y)
        assert crf.temperature_ > 1.0
        assert_is_divided(crf, X)
        return
    settings["constant_transitions"] = False
    crf = TreeCRF(**settings).fit(X, y)
    rows, sizes, n_units = [], [], 0
    for fitted, held_out in folds_of(clone(crf), X, y):
        plain = clone(crf).set_params(early_stopping=False)
        plain.fit([X[i] for i in fitted], [y[i] for i in fitted])
        pair = [X[i] for i in held_out], [y[i] for i in held_out]
        rows.append(
            [[mean_log(plain.truncated(n), *pair, t) for t in np.exp(LOGARITHMS)]
             for n in range(13)]
        )  # fmt: skip
        sizes.append(sum(map(len, pair[1])))
        n_units += len(held_out)
    values, temperatures = best_temperatures(np.average(rows, axis=0, weights=sizes), n_units)
    n_iter = int(values.argmax())
    assert crf.n_iter_ == n_iter
    assert crf.temperature_ == temperatures[n_iter]
    assert name == "linear start" or crf.temperature_ > 1.0
    np.testing.assert_allclose(crf.validation_score_, values[: n_iter + 1], rtol=1e-4)


def assert_is_divided(crf, X):
    """Check that the scores are those of the undivided model, divided."""
    found = scores_of(crf, X)
    undivided = copy.copy(crf)
    undivided._forest = crf._forest.divided(1 / crf.temperature_)
    if crf.init_ is not None:
        undivided.init_ = treecrf.learners.linear.start.rounded_linear(crf.init_, crf.temperature_)
    n_terms = 4 * (crf.n_iter_ + 10)
    expected = scores_of(undivided, X) / crf.temperature_
    np.testing.assert_allclose(found, expected, atol=n_terms * LEAF_UNIT)


def test_the_temperature_makes_probabilities_of_others_better():
    gains = []
    for seed in range(5):
        X, y = people(40, seed=seed)
        gains.append(0.0)
        for value, sign in ((None, -1), ("auto", 1)):
            crf = TreeCRF(**SETTINGS | {"calibration": value}, constant_transitions=False)
            crf.fit(X[:10], y[:10])
            gains[-1] += sign * mean_log(crf, X[10:], y[10:])
            assert value is not None or crf.temperature_ == 1.0
    assert np.mean(gains) > 0.005


@pytest.mark.parametrize(
    "settings",
    [
        {"calibration": None},
        {"decoding": "viterbi"},
        {"scoring": "accuracy"},
        {"objective": "hamming_log"},
        {"early_stopping": False},
        {"early_stopping": True},
        {"warm_start": True},
    ],
)
def test_there_is_no_temperature(settings):
    X, y = people()
    assert TreeCRF(**SETTINGS | settings).fit(X, y).temperature_ == 1.0


def test_parts_of_sequences_give_no_temperature():
    X, y = people(3, length=200)
    assert TreeCRF(**SETTINGS).fit(X, y).temperature_ == 1.0


def test_groups_count_as_one_sequence():
    X, y = people()
    groups = [f"person {i // 4}" for i in range(len(X))]
    counted = []

    def count(folds):
        counted.append(calibration.count_units(folds))
        return counted[-1]

    with mock.patch.object(race, "count_units", count):
        TreeCRF(**SETTINGS).fit(X, y, fold_groups=groups)
        assert set(counted) == {3}


def test_scores_of_the_user_are_not_divided():
    X, y = people()
    crf = TreeCRF(**SETTINGS).fit(X, y, init_score=[np.zeros((len(x), 3)) for x in X])
    assert crf.temperature_ == 1.0
    assert TreeCRF(**SETTINGS).fit(X, y, X[:3], y[:3]).temperature_ == 1.0


def test_threads_and_the_order_of_sequences_make_no_difference(tmp_path):
    X, y = people()
    crf = TreeCRF(**SETTINGS).fit(X, y)
    assert crf.temperature_ > 1.0
    others = [
        TreeCRF(**SETTINGS, n_jobs=2).fit(X, y),
        TreeCRF(**SETTINGS).fit(X[::-1], y[::-1]),
        TreeCRF(**SETTINGS).fit(X, y, scratch=tmp_path),
    ]
    for other in others:
        assert other.temperature_ == crf.temperature_
        assert_equal_arrays(other._forest.pack(), crf._forest.pack())
        assert_equal_arrays(other.predict_proba(X), crf.predict_proba(X))


@pytest.mark.parametrize("name", ["zero", "constant transitions", "linear start"])
def test_divided_models_are_ordinary_models(name, tmp_path):
    X, y = people(seed=2, scale=0.6) if name == "linear start" else people()
    crf = TreeCRF(**SETTINGS | MODELS[name]).fit(X, y)
    assert crf.temperature_ > 1.0
    crf.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model")
    assert loaded.temperature_ == crf.temperature_
    assert_equal_arrays(loaded.predict_proba(X), crf.predict_proba(X))
    stages = list(crf.staged_predict_proba(X))
    assert_equal_arrays(stages[-1], crf.predict_proba(X))
    first = crf.truncated(1)
    assert first.temperature_ == crf.temperature_
    np.testing.assert_allclose(np.vstack(stages[0]), np.vstack(first.predict_proba(X)))
    mean = treecrf.average([crf, crf])
    assert mean.temperature_ == 1.0
    np.testing.assert_allclose(
        np.vstack(mean.predict_proba(X)), np.vstack(crf.predict_proba(X)), atol=1e-3
    )
    more = clone(crf).set_params(calibration="auto").fit(X, y)
    n_iter = more.n_iter_
    more.set_params(warm_start=True, max_iter=n_iter + 2).fit(X, y)
    assert more.n_iter_ == n_iter + 2
    assert more.temperature_ == crf.temperature_
    assert_equal_arrays(more.truncated(n_iter).predict_proba(X), crf.predict_proba(X))
