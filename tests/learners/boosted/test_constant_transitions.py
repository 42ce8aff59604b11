"""Constant transitions: trees that test the input only, and one matrix for labels after labels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.family import assert_equal_arrays, assert_same_forest, scores_of
from support.settings import PLAIN

from treecrf import TreeCRF, average
from treecrf.chains.factored.constant_likelihood import TransitionSums
from treecrf.inspection import likelihood_curve, transition_scores
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted.constant.transitions import transition_step
from treecrf.trees.forest import LABEL, check_forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils.exact import LEAF_UNIT
from treecrf.utils.threads import Threads

SETTINGS = [
    {},
    {"second_order": True},
    {"second_order": True, "curvature": "diagonal"},
    {"order": 2, "second_order": True},
    {"order": 3, "l2_regularization": 0.0},
    {"init": "linear", "second_order": True},
    {"init": "linear", "order": 2},
    {"class_weight": {"a": 3.0, "b": 0.5, "c": 0.1}},
    {"subsample": 0.6, "min_samples_leaf": 3},
    {"missing": "surrogate", "second_order": True},
    {"missing": "weighting", "order": 2},
    {"transitions": ((True, True, False), (True, True, True), (False, True, True))},
    {"sampling": 0.1, "max_examples": 300, "second_order": True},
]


def labeled(seed, n_sequences=15, missing=0.0):
    """Return noisy numbers of a label that moves by at most one step at a time."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        n = int(rng.integers(1, 30))
        codes = [int(rng.integers(3))]
        for _ in range(n - 1):
            step = int(rng.choice([-1, 0, 1], p=[0.2, 0.6, 0.2]))
            codes.append(int(np.clip(codes[-1] + step, 0, 2)))
        x = np.array(codes)[:, None] + rng.normal(size=(n, 2))
        x[rng.random(x.shape) < missing] = np.nan
        X.append(np.round(x, 1))
        y.append(np.array(list("abc"))[codes])
    return X, y


def model(**settings):
    plain = {"max_iter": 5, "max_leaf_nodes": 6, "l2_regularization": 1.0, "learning_rate": 0.5}
    return TreeCRF(**{"constant_transitions": True, "random_state": 0} | PLAIN | plain | settings)


def mean_likelihood(crf, X, y):
    return np.sum(crf.predict_log_likelihood(X, y)) / sum(map(len, y))


@pytest.mark.parametrize("settings", SETTINGS)
def test_scores_are_a_state_and_a_transition(settings):
    X, y = labeled(1, missing=0.1 * ("missing" in settings))
    crf = model(**settings).fit(X, y)
    assert crf.train_score_[-1] == pytest.approx(mean_likelihood(crf, X, y), abs=1e-9)
    assert crf.train_score_[-1] > crf.train_score_[0]
    packed, order = crf._forest.pack(), crf._forest.order
    assert not (packed["column"][packed["true_child"] >= 0] == LABEL).any()
    assert crf._forest.sum_of_transitions((0, 5)).any()
    scores = scores_of(crf, X)
    offsets = np.cumsum([0, *map(len, y)])
    deep = np.concatenate([np.arange(a + order, b) for a, b in pairwise(offsets)])
    differences = scores[:, deep] - scores[:, deep[:1]]
    np.testing.assert_array_equal(differences, differences[:, :, :1] + 0 * differences)


@pytest.mark.parametrize("settings", SETTINGS)
def test_inference_does_not_depend_on_how_scores_are_stored(settings, monkeypatch):
    X, y = labeled(2, missing=0.1 * ("missing" in settings))
    crf = model(**settings).fit(X, y)
    masks = [np.ones((len(x), 3), dtype=bool) for x in X]
    for mask in masks:
        mask[::2, 1] = False
    sequences, allowed = fitted_model(crf).predictor.read(X, allowed=masks)
    codes = np.searchsorted(crf.classes_, np.concatenate(y)).astype(np.int32)
    monkeypatch.setattr("treecrf.chains.lattice.MAX_BYTES", 2000)  # several runs of sequences
    with Threads(2) as threads:
        constraints = fitted_model(crf).chain.constraints(sequences.offsets, allowed)
        parts = fitted_model(crf).chain.lattice(sequences, constraints, threads)
        table = fitted_model(crf).chain.constrained(
            fitted_model(crf).chain.scores(sequences, threads),
            sequences.offsets,
            constraints,
            threads,
        )
        for method in ("marginals", "pairwise"):
            one, other = getattr(parts, method)(), getattr(table, method)()
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(parts.log_likelihoods(codes), table.log_likelihoods(codes))
        assert_equal_arrays(parts.best(), table.best())
        for one, other in zip(parts.n_best(3), table.n_best(3), strict=True):
            np.testing.assert_array_equal(np.array(one[0]), np.array(other[0]))
            np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("init", ["zero", "linear"])
def test_staged_predictions_are_those_of_shorter_fits(init):
    X, y = labeled(7)
    crf = model(init=init).fit(X, y)
    for k, stage in enumerate(list(crf.staged_predict_proba(X)), 1):
        shorter = model(init=init, max_iter=k).fit(X, y)
        assert_same_forest(shorter, crf.truncated(k))
        assert_equal_arrays(stage, shorter.predict_proba(X))
    np.testing.assert_allclose(likelihood_curve(crf, X, y).given[1:], crf.train_score_[1:])


def test_averages():
    X, y = labeled(10)
    models = [model(max_iter=k, subsample=0.5, random_state=k).fit(X, y) for k in (3, 5)]
    mean = average(models)
    assert len(mean._forest.transitions) == mean.n_iter_ == 8
    expected = (scores_of(models[0], X) + scores_of(models[1], X)) / 2
    np.testing.assert_allclose(scores_of(mean, X), expected, rtol=0, atol=100 * LEAF_UNIT)
    with pytest.raises(ValueError, match="differ in constant transitions"):
        average([models[0], model(constant_transitions=False, sampling=0.1).fit(X, y)])


def test_transitions_are_learned():
    X, y = labeled(11, 40)
    unseen = labeled(12, 40)
    for second_order in (False, True):
        settings = {"second_order": second_order, "max_iter": 40, "l2_regularization": 5.0}
        crf = model(**settings).fit(X, y)
        alone = model(order=0, constant_transitions=False, **settings).fit(X, y)
        assert mean_likelihood(crf, *unseen) > mean_likelihood(alone, *unseen) + 0.1
        found = transition_scores(crf, X).scores
        assert found[0, 2] < found[0, 0]
        assert found[2, 0] < found[2, 2]


@pytest.mark.parametrize("bound_share", [None, 0.0, 0.3])
def test_steps_are_newton_steps(bound_share):
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(2, 3, 3))
    own, influence = rng.random((2, 2, 3, 3))
    residuals[0, 1, 1] = own[0, 1, 1] = influence[0, 1, 1] = 0.0
    sums = TransitionSums(residuals, own, influence if bound_share else None)
    for l2, rate in ((0.0, 0.1), (2.5, 0.5)):
        tree_settings = TreeSettings(
            max_leaf_nodes=4, l2_regularization=l2, learning_rate=rate, max_leaf_value=0.3, seed=0
        )
        found = transition_step(sums, bound_share, tree_settings) * LEAF_UNIT
        for index in np.ndindex(residuals.shape):
            weight = own[index]
            if bound_share:
                weight = max(weight, bound_share * (weight + influence[index]))
            step = residuals[index] / (l2 + weight) if residuals[index] else 0.0
            expected = min(rate, 0.2) * np.clip(step, -0.3, 0.3)
            assert found[index] == pytest.approx(expected, abs=LEAF_UNIT)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order=0 with constant_transitions=True; expected 1 or higher"),
        ({"objective": "hamming_log"}, "objective='hamming_log' with .*; expected 'log'"),
        ({"init": "pseudo_likelihood"}, "init='pseudo_likelihood' with .*; expected 'zero'"),
        ({"beam_width": 2}, "beam_width=2 with constant_transitions=True; expected None"),
    ],
)
def test_settings_that_do_not_work(settings, message):
    with pytest.raises(ValueError, match=message):
        model(**settings).fit(*labeled(13))


def test_steps_of_higher_orders_do_not_overshoot():
    """By the diagonal of the curvature alone, training would diverge where labels rarely change."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(20):
        codes = np.repeat(rng.integers(3, size=60), rng.geometric(0.1, size=60))[:60]
        X.append((codes[:, np.newaxis] == np.arange(3)) + rng.normal(size=(60, 3)))
        y.append(codes)
    settings = {"order": 3, "max_iter": 15, "learning_rate": 0.3, "second_order": True}
    safe, diagonal = (model(**settings, curvature=name).fit(X, y) for name in ("auto", "diagonal"))
    assert np.all(np.diff(diagonal.train_score_) > 0)
    assert_same_forest(safe, diagonal)


def test_transitions_out_of_range_are_refused():
    X, y = labeled(13)
    crf = model().fit(X, y)
    crf._forest.transitions[0][1, 2, 0] = 2046.9 / LEAF_UNIT
    with pytest.raises(ValueError, match="expected less than 2047"):
        crf.predict([np.concatenate(X * 200)])  # too many positions for the short form


def test_beams_are_refused():
    X, y = labeled(14)
    crf = model().fit(X, y)
    crf.set_params(beam_width=2)
    for method in (crf.predict, lambda X: list(crf.staged_predict_proba(X))):
        with pytest.raises(ValueError, match="constant transitions needs all contexts"):
            method(X)


def test_damaged_transitions_are_refused():
    X, y = labeled(15)
    crf = model().fit(X, y)
    good = crf._forest.pack()
    for bad in (good["transitions"][:-1], good["transitions"].astype(float)):
        with pytest.raises(ValueError, match="transitions"):
            check_forest(good | {"transitions": bad}, 5, 3, 1, crf._encoder)
    check_forest(good, 5, 3, 1, crf._encoder)
    tests_labels = model(constant_transitions=False, sampling=None).fit(X, y)
    packed = tests_labels._forest.pack() | {"transitions": good["transitions"]}
    with pytest.raises(ValueError, match="tests"):
        check_forest(packed, 5, 3, 1, tests_labels._encoder)
