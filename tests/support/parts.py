"""Data in many forms, and fits on parts of them, compared with those on all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse
from support.family import assert_equal_arrays, assert_same_forest

from treecrf.inputs.dataset import RawData
from treecrf.inputs.large.local_partitions import LocalPartitions
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.base.callbacks import as_callbacks
from treecrf.learners.base.opening import VALIDATION_DATA, FitArguments
from treecrf.learners.boosted import training
from treecrf.learners.boosted.sampled import engine
from treecrf.learners.boosted.sampled.booster import LocalShards
from treecrf.learners.large.partitioned import UnreadPartitions

FORMS = ("symbols", "missing symbols", "numbers", "booleans", "sparse", "dicts", "attributes",
         "pandas", "polars")  # fmt: skip


def data_of(form: str, seed: int = 0, n: int = 18) -> tuple[list, list]:
    """Make sequences of one form with labels that depend on them; one of them three times."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10, n)
    lengths[0] = 1
    y = [rng.choice(list("xyz"), length) for length in lengths]
    tables = [np.round(rng.normal(size=(len(labels), 3)) + (labels == "x")[:, None], 1)
              for labels in y]  # fmt: skip
    for table in tables:
        table[:, 1] = table[:, 1] > 0
        table[rng.random(table.shape) < 0.2] = np.nan
    words = [np.where(rng.random(len(some)) < 0.5, some, rng.choice(list("abcdefg"), len(some)))
             for some in y]  # fmt: skip
    X = {
        "symbols": lambda: ["".join(some) for some in words],
        "missing symbols": lambda: [[None if w == "a" else str(w) for w in some] for some in words],
        "numbers": lambda: tables,
        "booleans": lambda: [table > 0 for table in tables],
        "sparse": lambda: [sparse.csr_array(np.where(table > 0.5, table, 0)) for table in tables],
        "dicts": lambda: [
            [{f"w={w}": True, "number": row[0]} | ({"word": str(w)} if row[1] else {})
             for w, row in zip(some, table, strict=True)]
            for some, table in zip(words, tables, strict=True)
        ],
        "attributes": lambda: [[[str(w), "one"] if w in "xyz" else [str(w)] for w in some]
                               for some in words],
        "pandas": lambda: [_frame(pd, *both) for both in zip(words, tables, strict=True)],
        "polars": lambda: [_frame(pl, *both) for both in zip(words, tables, strict=True)],
    }[form]()  # fmt: skip
    labels = ["".join(some) for some in y]
    return [*X, X[3], X[3]], [*labels, labels[3], labels[3]]


def _frame(module: Any, words: Any, table: np.ndarray) -> Any:
    return module.DataFrame(
        {"word": [None if w == "a" else str(w) for w in words], "number": table[:, 0].tolist()}
    )


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
    training, unread = UnreadPartitions(LocalPartitions(raws)), None
    if validation is not None:
        unread = UnreadPartitions(LocalPartitions(validation), VALIDATION_DATA)
    calls = as_callbacks(callbacks)
    fitted = model._train(FitArguments(raws[0], training, unread, (), calls))
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

    def local_shards(partitions: Any, setup: Any, allocate: Any) -> Any:
        return make(partitions, setup, n_shards, n_threads)

    joins = AssertionError("partitions are joined")
    with (
        patch.object(training, "train_on_all", side_effect=joins),
        patch.object(engine, "local_shards", local_shards),
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
