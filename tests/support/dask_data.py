"""Labeled sequences as data frames, bags, delayed objects and files, and functions of them."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import Future
from support.parts import assert_equal_fits

# Few iterations of trees on samples, as for large data.
SAMPLED = {
    "max_iter": 6,
    "sampling": 0.1,
    "window": 1,
    "early_stopping": False,
    "max_leaf_nodes": 8,
    "random_state": 0,
}


def frame(n_groups=60, seed=0):
    """A table with a number, a category with missing values, weights, labels and groups."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, n_groups)
    n = int(lengths.sum())
    numbers = rng.normal(size=n).round(2)
    words = rng.choice([*"xyz", None], n)
    labels = np.where(numbers + rng.normal(size=n) > 0, "P", np.where(words == "x", "N", "M"))
    return pd.DataFrame(
        {
            "number": numbers,
            "word": words,
            "weight": np.repeat(rng.integers(1, 3, n_groups), lengths).astype(float),
            "doc": np.repeat([f"d{i:03}" for i in range(n_groups)], lengths),
            "tag": labels,
        }
    )


def cut(table, n, column="doc"):
    """Cut a table into parts of whole groups; one of them is empty."""
    groups = np.array_split(table[column].unique(), n - 1)
    return [*(table[table[column].isin(some)] for some in groups), table[:0]]


def sequences(table, columns=("number", "word")):
    """The sequences of a table, and their labels."""
    groups = [group for _, group in table.groupby("doc", sort=False)]
    return [group[list(columns)] for group in groups], [group["tag"].tolist() for group in groups]


def part(i, n=4, crash=None):
    """Part i of the table."""
    if crash is not None and take(crash):
        os.kill(os.getpid(), signal.SIGKILL)
    return cut(frame(), n)[i]


def pair(i, n=4):
    """Sequences of a part, and their labels."""
    return sequences(part(i, n))


def cancel_all(client):
    """Cancel all tasks, as a restart of the cluster does, which takes several seconds."""
    client.cancel([Future(key, client) for key in list(client.futures)])


def spill(dask_worker):
    """Move all results of a worker to the disk."""
    with contextlib.suppress(KeyError):
        while True:
            dask_worker.data.evict()


def take(path):
    """Remove a file; return whether this process did."""
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    return True


def assert_equal_models(found, expected):
    """Check that the classes, the forests and all scores are equal to the bit."""
    assert_equal_fits(found, expected)
    np.testing.assert_array_equal(found.classes_, expected.classes_)
