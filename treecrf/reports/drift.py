"""Whether inputs are distributed as in the training data."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.schema import CATEGORY
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import column_values

# Columns that are listed, those that differ the most.
N_LISTED = 30
# With more columns, such as the attributes of a text, none are compared.
MAX_COLUMNS = 1000
# Random halves of the training sequences.
N_HALVES = 10


def drift(training: Sequences, new: Sequences, names: list[str]) -> list[dict[str, Any]] | None:
    """Compare each column of the input with that of the training data, the most different first.

    The distance of numbers is that of Kolmogorov and Smirnov: the largest difference of the two
    distribution functions. That of categories and symbols is the total variation: half of the sum
    of the differences of all frequencies. Both lie between 0 and 1, and leave out missing values,
    whose shares are compared by themselves. For comparison, each row has the distance that is usual
    within the training data. Returns None if there are more than `MAX_COLUMNS`.
    """
    if len(names) > MAX_COLUMNS:
        return None
    found = []
    for j, name in enumerate(names):
        columns = column_values(training, j), column_values(new, j)
        is_number = _is_number(new, j)
        row = _compared(*columns, is_number)
        within = _usual_distance(columns[0], training.offsets, is_number)
        found.append({"name": name, "within": within, **row})
    found.sort(key=lambda row: -max(row["distance"], abs(np.diff(row["missing"])[0])))
    return found[:N_LISTED]


def _is_number(sequences: Sequences, j: int) -> bool:
    return sequences.form != "symbols" and sequences.column_kinds[j] != CATEGORY


def _compared(before: np.ndarray, after: np.ndarray, is_number: bool) -> dict[str, Any]:
    """Return the distance of two columns, the shares of missing values, and the medians."""
    missing = [float(np.mean(_is_missing(values))) for values in (before, after)]
    known = [values[~_is_missing(values)] for values in (before, after)]
    medians = None
    if is_number and all(len(values) for values in known):
        medians = [float(np.median(values.astype(float))) for values in known]
    is_before = np.repeat([True, False], [len(values) for values in known])
    distance = _distance(_ranks(np.concatenate(known)), is_before, is_number)
    return {"missing": missing, "distance": distance or 0.0, "medians": medians}


def _usual_distance(values: np.ndarray, offsets: np.ndarray, is_number: bool) -> float | None:
    """Return the largest distance of two halves of the sequences, among random halves."""
    n_sequences = len(offsets) - 1
    is_known = ~_is_missing(values)
    sequence = np.repeat(np.arange(n_sequences), np.diff(offsets))[is_known]
    ranks = _ranks(values[is_known])
    rng = np.random.default_rng(0)
    distances = []
    for _ in range(N_HALVES):
        is_first = rng.permutation(n_sequences) < n_sequences // 2
        distances.append(_distance(ranks, is_first[sequence], is_number))
    return max((distance for distance in distances if distance is not None), default=None)


def _is_missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.zeros(len(values), dtype=bool)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the place of each value among the different ones."""
    return np.unique(values, return_inverse=True)[1]


def _distance(ranks: np.ndarray, is_first: np.ndarray, is_number: bool) -> float | None:
    """Return the distance of some values from the others; None if one side has none."""
    if is_first.all() or not is_first.any():
        return None
    first, second = (
        np.bincount(ranks[chosen], minlength=ranks.max() + 1) / chosen.sum()
        for chosen in (is_first, ~is_first)
    )
    if is_number:
        return float(np.abs(np.cumsum(first - second)).max())
    return float(np.abs(first - second).sum() / 2)
