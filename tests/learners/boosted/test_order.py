"""Models depend neither on the order of the training sequences nor on the number of threads.

The recorded fits are repeated in reversed order and with more threads, too; here some sequences are
equal, and training draws sequences and features at random.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from support.parts import assert_equal_fits, data_of

import treecrf.encoding.learned_columns
from treecrf import (
    FutureFeatureMEMM,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)

SETTINGS = {"max_iter": 5, "max_leaf_nodes": 8, "l2_regularization": 2.0, "learning_rate": 0.3,
            "window": 1, "random_state": 0}  # fmt: skip
STOPPING = {"early_stopping": True, "validation_fraction": 0.4, "n_iter_no_change": 3}
CHANCE = {"subsample": 0.7, "max_features": 0.5, "class_weight": "balanced"} | STOPPING
MODELS = [
    TreeCRF(**SETTINGS | CHANCE),
    TreeCRF(**SETTINGS | CHANCE, missing="surrogate"),
    TreeCRF(**SETTINGS | CHANCE, missing="impute"),
    TreeCRF(**SETTINGS | STOPPING, max_bins=3, class_weight={"x": 1 / 3, "y": 7.7, "z": 1e6}),
    TreeCRF(**SETTINGS, init="pseudo_likelihood", order=2, second_order=True),
    TreeCRF(**SETTINGS | STOPPING, objective="exponential", subsample=0.7, min_samples_leaf=5),
    TreeCRF(**SETTINGS, objective="hamming_log", class_weight={"x": 1 / 3}),
    TreeCRF(**SETTINGS, constant_transitions=True, second_order=True),
    TreeCRF(**SETTINGS | STOPPING, beam_width=2, beam="forward-only", second_order=True),
    TreeMEMM(**SETTINGS | CHANCE),
    SlidingWindowClassifier(**SETTINGS | CHANCE),
    RecurrentSlidingWindowClassifier(**SETTINGS | CHANCE),
]


def assert_order_does_not_matter(model, form, masked=False):
    """Compare a fit with one to the same sequences in another order, by two threads."""
    X, y = data_of(form)
    # Equal values with other labels.
    X, y = [*X, X[3]], [*y, y[3][:-1] + "y"]
    rng = np.random.default_rng(0)
    order, masks = rng.permutation(len(X)), None
    if masked:
        masks = [(rng.random((len(labels), 3)) < 0.7) for labels in y]
        for mask, labels in zip(masks, y, strict=True):
            mask[np.arange(len(labels)), ["xyz".index(label) for label in labels]] = True
    model = clone(model).fit(X, y, allowed=masks)
    X, y, masks = (values and [values[i] for i in order] for values in (X, y, masks))
    other = clone(model).set_params(n_jobs=2).fit(X, y, allowed=masks)
    assert_equal_fits(other, model)
    trees = model._forest.pack()
    assert len(trees["leaf"]) > len(trees["starts"]) or not model.n_iter_


@pytest.mark.parametrize("model", MODELS)
def test_equal_sequences_have_equal_chances(model):
    assert_order_does_not_matter(model, "numbers")


@pytest.mark.parametrize("form", ["symbols", "sparse", "dicts"])
def test_other_forms_and_masks(form):
    assert_order_does_not_matter(MODELS[0], form, masked=True)


def test_discovered_features():
    model = FutureFeatureMEMM(**SETTINGS, order=0, bag_size=2, max_future_features=1)
    assert_order_does_not_matter(model, "symbols")


@pytest.mark.parametrize("form", ["numbers", "sparse"])
def test_thresholds_from_a_sample(form, monkeypatch):
    monkeypatch.setattr(treecrf.encoding.learned_columns, "MAX_SAMPLES", 30)
    assert_order_does_not_matter(TreeCRF(**SETTINGS, max_bins=4), form)
