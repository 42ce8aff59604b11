"""Models depend neither on the order of the training sequences nor on the number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from support.parts import assert_equal_fits
from support.sweeps import sweep

import treecrf.encoding.columns
from treecrf import (
    FutureFeatureMEMM,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)

LENGTHS = [7, 1, 12, 3, 9, 15, 2, 8, 11, 4, 6, 10]
SETTINGS = {"max_iter": 5, "max_leaf_nodes": 8, "l2_regularization": 2.0, "learning_rate": 0.3,
            "random_state": 0}  # fmt: skip
STOPPING = {"early_stopping": True, "validation_fraction": 0.4, "n_iter_no_change": 3}


def symbols(rng, codes):
    return "".join(
        "abcde"[code + step] for code, step in zip(codes, steps(rng, codes), strict=True)
    )


def steps(rng, codes):
    return rng.integers(3, size=len(codes))


def numbers(rng, codes):
    return np.round(codes[:, None] + rng.normal(size=(len(codes), 3)), 1)


def with_missing(rng, codes):
    table = numbers(rng, codes) / 3
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def sparse_table(rng, codes):
    table = np.where(rng.random((len(codes), 40)) < 0.1, rng.random((len(codes), 40)), 0)
    table[np.arange(len(codes)), 5 * codes] = rng.random(len(codes))
    return sparse.csr_array(table)


def sparse_with_missing(rng, codes):
    table = sparse_table(rng, codes)
    table.data[rng.random(len(table.data)) < 0.2] = np.nan
    return table


def dicts(rng, codes):
    words = np.array(["a", "bird", "cat", "dog", "eel"])[codes + steps(rng, codes)]
    values = codes + rng.normal(size=len(codes))
    return [
        {"word": str(word), "x": float(x)} if x < 1 else {"x": float(x), "last": True}
        for word, x in zip(words, values, strict=True)
    ]


KINDS = [symbols, with_missing, numbers, sparse_table, dicts, sparse_with_missing]
INPUTS = [(make, {}) for make in KINDS] + [
    (make, {"missing": missing})
    for make in (with_missing, sparse_with_missing)
    for missing in ("surrogate", "impute", "indicator")
]
CHANCE = {"subsample": 0.7, "max_features": 0.5, "class_weight": "balanced"}
# Other settings are those of the recorded fits, which are in reversed order, too.
OPTIONS = [
    {"class_weight": {"x": 1 / 3, "y": 7.7, "z": 1e6}},
    {"class_weight": "balanced", "second_order": True},
    {"max_bins": 3} | STOPPING,
    {"objective": "exponential", "subsample": 0.7, "min_samples_leaf": 5} | STOPPING,
    {"objective": "hamming_log", "init": "pseudo_likelihood", "class_weight": {"x": 1 / 3}},
    {"init": "pseudo_likelihood", "order": 2, "second_order": True},
    {"constant_transitions": True, "second_order": True},
    {"beam_width": 2, "beam": "forward-only", "second_order": True} | STOPPING,
]
OTHERS = [TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]


def random_data(make, seed):
    """Sequences, labels and masks; three sequences are the same, one with another label."""
    rng = np.random.default_rng(seed)
    codes = [np.cumsum(rng.random(n) < 0.3) % 3 for n in LENGTHS]
    X = [make(rng, of_sequence) for of_sequence in codes]
    X, codes = [*X, X[3], X[3]], [*codes, codes[3], np.append(codes[3][:-1], 2 - codes[3][-1])]
    masks = [(rng.random((len(c), 3)) < 0.7) | np.eye(3, dtype=bool)[c] for c in codes]
    return X, [np.array(["x", "y", "z"])[c] for c in codes], masks, rng.permutation(len(X))


def assert_order_does_not_matter(model, make, seed, masked=False):
    """Compare a fit with one to the same sequences in another order, by two threads."""
    X, y, masks, order = random_data(make, seed)
    model.fit(X, y, allowed=masks if masked else None)
    X, y, masks = ([values[i] for i in order] for values in (X, y, masks))
    other = clone(model).set_params(n_jobs=2).fit(X, y, allowed=masks if masked else None)
    assert_equal_fits(other, model)
    trees = model._forest.pack()
    assert len(trees["leaf"]) > len(trees["starts"]) or not model.n_iter_


@pytest.mark.parametrize("make, missing", INPUTS)
def test_conditional_random_fields(make, missing):
    model = TreeCRF(**SETTINGS | {"window": 1} | missing | CHANCE | STOPPING)
    assert_order_does_not_matter(model, make, 0)


@pytest.mark.parametrize("options", OPTIONS)
def test_options(options):
    assert_order_does_not_matter(TreeCRF(**SETTINGS | options), numbers, 1)


@pytest.mark.parametrize("make", sweep(KINDS, 2))
@pytest.mark.parametrize("learner", OTHERS)
def test_local_models(learner, make):
    options = CHANCE | STOPPING | {"second_order": make is symbols}
    assert_order_does_not_matter(learner(**SETTINGS | {"window": 1} | options), make, 2)


@pytest.mark.parametrize("make", sweep(KINDS, 1))
def test_discovered_features(make):
    settings = {"order": 0, "window": 1, "bag_size": 2, "max_future_features": 1}
    model = FutureFeatureMEMM(**SETTINGS | settings)
    assert_order_does_not_matter(model, make, 6)


def test_masks():
    model = TreeCRF(**SETTINGS | {"subsample": 0.5} | STOPPING)
    assert_order_does_not_matter(model, symbols, 3, masked=True)


@pytest.mark.parametrize("make", [numbers, with_missing, sparse_table])
def test_thresholds_from_a_sample(make, monkeypatch):
    monkeypatch.setattr(treecrf.encoding.columns, "MAX_SAMPLES", 30)
    assert_order_does_not_matter(TreeCRF(max_bins=4, **SETTINGS), make, 4)
