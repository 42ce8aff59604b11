"""Fits on parts of the data, compared with those on all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from support.family import assert_equal_arrays, assert_same_forest

from treecrf.inputs.dataset import RawData
from treecrf.inputs.offsets import Segmentation
from treecrf.learners.boosted import engine, training
from treecrf.learners.boosted.sampled_booster import LocalShards
from treecrf.learners.iterations import as_callbacks
from treecrf.learners.learner import FitArguments
from treecrf.utils.partitions import LocalPartitions


def raw_parts(X: list, y: list, parts: list[np.ndarray], **others: list | None) -> list[RawData]:
    """Return the sequences with the indices of each part, with their weights and so on."""

    def chosen(items: list | None, indices: np.ndarray) -> Any:
        return None if items is None else [items[i] for i in indices]

    return [
        RawData(
            chosen(X, indices),
            chosen(y, indices),
            Segmentation(),
            **{name: chosen(items, indices) for name, items in others.items()},
            place=f"partition {i}",
        )
        for i, indices in enumerate(parts)
    ]


def cut(n: int, n_parts: int, seed: int | None = None) -> list[np.ndarray]:
    """Cut n sequences into parts, in their order or in a random one; parts may be empty."""
    order, bounds = np.arange(n), np.linspace(0, n, n_parts + 1).astype(int)[1:-1]
    if seed is not None:
        rng = np.random.default_rng(seed)
        order, bounds = rng.permutation(n), np.sort(rng.integers(0, n + 1, n_parts - 1))
    return np.split(order, bounds)


def dealt(X: list, n_parts: int) -> list[np.ndarray]:
    """Deal sequences out in turn."""
    return [np.arange(len(X))[i::n_parts] for i in range(n_parts)]


def fit_raw_parts(model: Any, raws: list, validation: list | None = None, callbacks=None) -> Any:
    """Return the model, fitted to parts."""
    given = None if validation is None else LocalPartitions(validation)
    calls, partitions = as_callbacks(callbacks), LocalPartitions(raws)
    fitted = model._train(FitArguments(raws[0], given, (), calls, partitions))
    return model._fitted_copy(fitted | {"_columns": raws[0].columns})


def fit_parts_of(
    model: Any,
    X: list,
    y: list,
    parts: list[np.ndarray],
    n_shards: int = 2,
    n_threads: int = 1,
    start: Callable | None = None,  # makes the shards
    callbacks: list | None = None,
    **others: list | None,
) -> Any:
    """Return the model, fitted to partitions of these sequences, without joining them."""
    validation, make = None, start or LocalShards
    if (X_val := others.pop("X_val", None)) is not None:
        halves = cut(len(X_val), 2)
        weights = {"sample_weight": others.pop("sample_weight_val", None)}
        validation = raw_parts(X_val, others.pop("y_val"), halves, **weights)

    def shards_of(partitions: Any, setup: Any, allocate: Any) -> Any:
        return make(partitions, setup, n_shards, n_threads)

    joins = AssertionError("partitions are joined")
    with (
        patch.object(training, "train_on_all", side_effect=joins),
        patch.object(engine, "shards_of", shards_of),
    ):
        return fit_raw_parts(model, raw_parts(X, y, parts, **others), validation, callbacks)


def assert_equal_fits(a: Any, b: Any) -> None:
    """Check that the forests and all scores are equal to the bit."""
    assert_same_forest(a, b)
    for name in ("train_score_", "validation_score_", "feature_importances_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def assert_same_model(one: Any, other: Any, X: list) -> None:
    """Check that all that fits have learned is equal to the bit."""
    assert_equal_fits(one, other)
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.n_iter_ == other.n_iter_
    (values, arrays), (other_values, other_arrays) = one._state(), other._state()
    assert values == other_values
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)
    assert_equal_arrays(one.predict_proba(X), other.predict_proba(X))
