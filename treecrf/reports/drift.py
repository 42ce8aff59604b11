"""Whether inputs are distributed as in the training data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from treecrf.inputs.schema import CATEGORY
from treecrf.inputs.sequences import Sequences
from treecrf.inspection.fitted import column_values

# Columns that are listed, those that differ the most.
N_LISTED = 30
# With more columns, such as the attributes of a text, none are compared.
MAX_COLUMNS = 1000


def drift(training: Sequences, new: Sequences, names: list[str]) -> list[dict[str, Any]] | None:
    """Compare each column of the input with that of the training data, the most different first.

    None if there are more than `MAX_COLUMNS`.

    The distance of numbers is that of Kolmogorov and Smirnov: the largest difference of the two
    distribution functions. That of categories and symbols is the total variation: half of the sum
    of the differences of all frequencies. Both lie between 0 and 1, and leave out missing values,
    whose shares are compared by themselves. For comparison, each row has the distance of two halves
    of the training data.
    """
    if len(names) > MAX_COLUMNS:
        return None
    found = []
    for j, name in enumerate(names):
        values = column_values(training, j)
        is_number = _is_number(new, j)
        row = _compared(name, values, column_values(new, j), is_number)
        found.append(row | {"within": _distance_of_halves(values, training.offsets, is_number)})
    found.sort(key=lambda row: -max(row["distance"], abs(np.diff(row["missing"])[0])))
    return found[:N_LISTED]


def _is_number(sequences: Sequences, j: int) -> bool:
    return sequences.form != "symbols" and sequences.column_kinds[j] != CATEGORY


def _compared(name: str, before: np.ndarray, after: np.ndarray, is_number: bool) -> dict[str, Any]:
    """Return the distance of two columns, the shares of missing values, and the medians."""
    missing = [float(np.mean(_is_missing(values))) for values in (before, after)]
    known = [values[~_is_missing(values)] for values in (before, after)]
    medians = None
    if is_number and all(len(values) for values in known):
        medians = [float(np.median(values.astype(float))) for values in known]
    distance = _distance(before, after, is_number)
    return {"name": name, "missing": missing, "distance": distance or 0.0, "medians": medians}


def _distance(before: np.ndarray, after: np.ndarray, is_number: bool) -> float | None:
    """Return the distance of known values; None if one side has none."""
    known = [values[~_is_missing(values)] for values in (before, after)]
    if not all(len(values) for values in known):
        return None
    if is_number:
        numbers = [values.astype(float) for values in known]
        return float(ks_2samp(*numbers, method="asymp").statistic)
    return _total_variation(*known)


def _distance_of_halves(values: np.ndarray, offsets: np.ndarray, is_number: bool) -> float | None:
    """Return the distance of every second sequence from the others: what is usual in training."""
    is_even = np.repeat(np.arange(len(offsets) - 1) % 2 == 0, np.diff(offsets))
    return _distance(values[is_even], values[~is_even], is_number)


def _is_missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.zeros(len(values), dtype=bool)


def _total_variation(before: np.ndarray, after: np.ndarray) -> float:
    """Return half of the sum of absolute differences of frequencies."""
    kinds, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    shares = [
        np.bincount(part, minlength=len(kinds)) / len(part)
        for part in (codes[: len(before)], codes[len(before) :])
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
