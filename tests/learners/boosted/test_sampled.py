"""Boosting on samples: with all examples the same as without, and in any order."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import random_with_missing
from support.family import assert_same_forest
from support.settings import PLAIN
from support.sweeps import sweep

from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.inputs.offsets import split_sequences
from treecrf.learners.boosted.sampled.growth import ListGrowers

# A threshold at which every example with a residual is kept.
ALL = 1e-8
SETTINGS = [
    {},
    {"second_order": True, "learning_rate": 0.5},
    {"second_order": True, "curvature": "diagonal", "learning_rate": 0.5},
    {"order": 0},
    {"order": 2, "second_order": True},
    {"order": 3, "max_leaf_nodes": 20},
    {"class_weight": "balanced"},
    {"class_weight": {"a": 3.0, "b": 0.5, "c": 0.1}, "second_order": True},
    {"subsample": 0.5},
    {"max_features": 0.5, "second_order": True},
    {"max_features_per_tree": 0.4},
    {"min_samples_leaf": 5},
    {"objective": "exponential"},
    {"objective": "hamming_log"},
    {"objective": "hamming_exponential"},
    {"init": "pseudo_likelihood", "second_order": True},
    {"init": "linear", "second_order": True},
    # In first order, examples without a residual are sampled: those of forbidden labels.
    {
        "second_order": True,
        "transitions": ((True, True, False), (True, True, True), (False, True, True)),
    },
]


def labeled(rng, n_sequences=12, longest=30):
    """Sequences of numbers and categories, with labels that depend on both and on each other."""
    X, y = [], []
    for _ in range(n_sequences):
        n = int(rng.integers(1, longest))
        x = np.stack([rng.normal(size=n), rng.integers(0, 4, n), rng.normal(size=n)], axis=1)
        codes = [0]
        for t in range(n):
            step = int(x[t, 0] > 0.3) - int(x[t, 1] == 2)
            codes.append(int(np.clip(codes[-1] + step, 0, 2)))
        X.append(np.round(x, 1))
        y.append(np.array(list("abc"))[codes[1:]])
    return X, y


def model(kind=TreeCRF, **settings):
    plain = {"window": 1, "max_iter": 4, "max_leaf_nodes": 8, "l2_regularization": 1.0}
    return kind(**PLAIN | plain | {"random_state": 0} | settings)


def assert_same_fit(a, b):
    assert_same_forest(a, b)
    np.testing.assert_allclose(a.train_score_, b.train_score_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", SETTINGS)
def test_all_examples_give_the_trees_of_the_exact_engine(settings):
    X, y = labeled(np.random.default_rng(1))
    exact = model(sampling=None, **settings).fit(X, y)
    listed = model(sampling=ALL, max_examples=None, **settings).fit(X, y)
    assert_close_fit(exact, listed)


def assert_close_fit(exact, listed):
    """Compare fits whose residuals are rounded to different units."""
    np.testing.assert_allclose(exact.train_score_, listed.train_score_, rtol=0, atol=1e-4)


@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("missing", ["weighting", "surrogate", "impute", "indicator"])
def test_missing_values(missing, second_order):
    rng = np.random.default_rng(2)
    lengths = (20, 1, 13, 30, 9)
    sequences = random_with_missing("mixture", rng, lengths, 0.2)
    X = [np.asarray(item) for item in sequences.items]
    y = split_sequences(rng.choice(list("ab"), sum(lengths)), np.append(0, np.cumsum(lengths)))
    settings = {"missing": missing, "second_order": second_order, "l2_regularization": 3.0}
    exact = model(sampling=None, **settings).fit(X, y)
    listed = model(sampling=ALL, max_examples=None, **settings).fit(X, y)
    assert_close_fit(exact, listed)


@pytest.mark.parametrize(
    "kind", [TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]
)
@pytest.mark.parametrize("second_order", [False, True])
def test_local_models(kind, second_order):
    X, y = labeled(np.random.default_rng(3))
    exact = model(kind, sampling=None, second_order=second_order).fit(X, y)
    listed = model(kind, sampling=ALL, max_examples=None, second_order=second_order).fit(X, y)
    assert_close_fit(exact, listed)
    sampled = model(kind, sampling=0.3, second_order=second_order, max_iter=20).fit(X, y)
    assert sampled.train_score_[-1] > sampled.train_score_[0] + 0.2


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("settings", [{}, {"init": "linear"}, {"missing": "surrogate"}])
def test_training_scores_are_those_of_the_model(order, settings):
    if order == 0 and "init" in settings:
        pytest.skip("a linear start needs previous labels")
    X, y = labeled(np.random.default_rng(6))
    X[0][::3, 0] = X[3][::2, 2] = np.nan
    crf = model(sampling=0.3, order=order, second_order=True, max_iter=6, **settings).fit(X, y)
    n_positions = sum(map(len, y))
    value = np.sum(crf.predict_log_likelihood(X, y)) / n_positions
    assert crf.train_score_[-1] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("seed", sweep(range(10), 2))
def test_a_budget_limits_the_examples(seed, monkeypatch):
    X, y = labeled(np.random.default_rng(seed), 40)
    sizes = []
    grow = ListGrowers.grow

    def counting(self, lists, *arguments):
        sizes.append(sum(len(examples.positions) for examples in lists))
        return grow(self, lists, *arguments)

    monkeypatch.setattr(ListGrowers, "grow", counting)
    model(sampling=0.01, max_examples=300, second_order=True, max_iter=5).fit(X, y)
    assert len(sizes) >= 5  # trees also grow after a step that is then halved
    assert max(sizes) < 300 + 6 * np.sqrt(300)


def test_a_beam_needs_all_examples():
    X, y = labeled(np.random.default_rng(8))
    with pytest.raises(ValueError, match="a beam requires None"):
        model(sampling=0.5, beam_width=2).fit(X, y)
    model(beam_width=2).fit(X, y)


def test_labels_must_fit_in_a_byte():
    rng = np.random.default_rng(9)
    X = [rng.normal(size=(300, 1))]
    y = [np.arange(300) % 256]
    with pytest.raises(ValueError, match="at most 255 labels, and y has 256"):
        model(sampling=0.5, constant_transitions=False).fit(X, y)
    model(sampling=0.5, order=0, max_iter=1).fit(X, y)
    model(sampling=0.5, constant_transitions=True, max_iter=1).fit(X, y)
