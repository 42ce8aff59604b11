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


def drift(training: Sequences, new: Sequences, names: list[str]) -> list[dict[str, Any]]:
    """Compare each column of the input with that of the training data, the most different first.

    The distance of numbers is that of Kolmogorov and Smirnov: the largest difference of the two
    distribution functions. That of categories and symbols is the total variation: half of the sum
    of the differences of all frequencies. Both lie between 0 and 1, and leave out missing values,
    whose shares are compared by themselves.
    """
    if len(names) > MAX_COLUMNS:
        return []
    found = [
        _compared(name, column_values(training, j), column_values(new, j), _is_number(new, j))
        for j, name in enumerate(names)
    ]
    found.sort(key=lambda row: -max(row["distance"], abs(np.diff(row["missing"])[0])))
    return found[:N_LISTED]


def _is_number(sequences: Sequences, j: int) -> bool:
    return sequences.form != "symbols" and sequences.column_kinds[j] != CATEGORY


def _compared(name: str, before: np.ndarray, after: np.ndarray, is_number: bool) -> dict[str, Any]:
    """Return the distance of two columns, the shares of missing values, and the medians."""
    missing = [float(np.mean(_is_missing(values))) for values in (before, after)]
    known = [values[~_is_missing(values)] for values in (before, after)]
    row: dict[str, Any] = {"name": name, "missing": missing, "distance": 0.0, "medians": None}
    if not all(len(values) for values in known):
        return row
    if is_number:
        numbers = [values.astype(float) for values in known]
        row["distance"] = float(ks_2samp(*numbers, method="asymp").statistic)
        row["medians"] = [float(np.median(values)) for values in numbers]
        return row
    row["distance"] = _total_variation(*known)
    return row


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
