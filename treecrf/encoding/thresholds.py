"""Thresholds of numbers: between distinct values, or at quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.sequence_keys import input_keys
from treecrf.inputs.offsets import positions_in_sequences, runs
from treecrf.inputs.sequences import Sequences
from treecrf.utils.hashing import mix, smallest

# Maximum number of positions from which quantiles are computed.
MAX_SAMPLES = 200_000
# About this many values are sorted at a time, of many short columns or of a few long ones.
RUN_VALUES = 1 << 18


def learn_thresholds(
    sequences: Sequences, columns: np.ndarray, max_bins: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Learn the thresholds of some columns, as if all of them were numbers.

    Parameters
    ----------
    sequences : Sequences
        Tables.
    columns : int array (n_columns,)
    max_bins : int
        Maximum number of bins per column; columns with more distinct values have thresholds at
        quantiles.
    seed : int
        Seed for the choice of the positions from which quantiles are computed, if there are many.

    Returns
    -------
    sizes : int64 array (n_columns,)
        Number of thresholds of each column.
    thresholds : float64 array
        Ascending thresholds, one column after another.
    """
    if not len(columns):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    sampled = _sample(sequences, columns, seed)
    if sparse.issparse(sampled):
        sampled = sampled.tocsc()
        sizes = np.diff(sampled.indptr) + 1
    else:
        sizes = np.full(sampled.shape[1], len(sampled))
    learned = [
        _thresholds(*_sorted_values(sampled, first, last), last - first, max_bins)
        for first, last in runs(np.append(0, np.cumsum(sizes)), RUN_VALUES)
    ]
    return tuple(np.concatenate(parts) for parts in zip(*learned, strict=True))


def _sample(sequences: Sequences, columns: np.ndarray, seed: int) -> Any:
    """Return all rows, or enough of them for quantiles: those with the smallest hashes."""
    is_whole = len(columns) == sequences.n_features
    chosen = None
    if sequences.n_positions > MAX_SAMPLES:
        keys = np.repeat(input_keys(sequences), np.diff(sequences.offsets))
        hashes = mix(seed, keys, positions_in_sequences(sequences.offsets))
        chosen = np.flatnonzero(smallest(hashes, MAX_SAMPLES))
    parts = []
    for start, stop, piece in sequences.pieces():
        if chosen is not None:
            first, last = np.searchsorted(chosen, [start, stop])
            piece = piece[chosen[first:last] - start]
        parts.append(piece if is_whole else piece[:, columns])
    if sequences.form == "sparse":
        return sparse.vstack(parts, format="csr")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _sorted_values(table: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns, counted from the first, and the values of a run, sorted by both.

    Missing values are omitted. All zeros of a sparse column count as one value, so that they do not
    take up the quantiles.
    """
    values = table[:, first:last]
    if not sparse.issparse(values):
        columns = np.repeat(np.arange(last - first), len(values))
        return _present(columns, np.sort(values.astype(np.float64), axis=0).ravel(order="F"))
    sizes = np.diff(values.indptr)
    with_zero = np.flatnonzero(sizes < values.shape[0])
    # Complex numbers sort by their real parts, then by their imaginary parts.
    pairs = np.zeros(len(values.data) + len(with_zero), dtype=np.complex128)
    pairs.real = np.append(np.repeat(np.arange(last - first), sizes), with_zero)
    pairs.imag[: len(values.data)] = values.data
    pairs = pairs[~np.isnan(pairs.imag)]
    pairs.sort()
    return pairs.real.astype(np.int64), pairs.imag


def _present(columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop missing values from columns and values."""
    present = ~np.isnan(values)
    return (columns, values) if present.all() else (columns[present], values[present])


def _thresholds(
    columns: np.ndarray, values: np.ndarray, n_columns: int, max_bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find thresholds between all distinct values of a column or, if there are many, at quantiles.

    Columns and values are sorted. Returns the number of thresholds of each column, and the
    thresholds of one column after another.
    """
    if not len(values):
        return np.zeros(n_columns, dtype=np.int64), np.zeros(0)
    is_new = (values[1:] != values[:-1]) | (columns[1:] != columns[:-1])
    ranks = np.append(0, np.cumsum(is_new))
    distinct, owners = (array[np.append(True, is_new)] for array in (values, columns))
    n_distinct = np.bincount(owners, minlength=n_columns)
    last = np.cumsum(n_distinct) - 1
    many = n_distinct > max_bins
    is_below = ~many[owners] & (np.arange(len(owners)) < last[owners])
    quantiles = _quantile_indices(np.bincount(columns, minlength=n_columns), many, max_bins)
    is_below[np.minimum(ranks[quantiles], last[many][:, np.newaxis] - 1)] = True
    below = np.flatnonzero(is_below)
    low, high = distinct[below], distinct[below + 1]
    middle = low / 2 + high / 2
    # Neighboring doubles have no middle.
    middle = np.where((middle >= high) | (middle < low), low, middle)
    return np.bincount(owners[below], minlength=n_columns), middle


def _quantile_indices(sizes: np.ndarray, chosen: np.ndarray, max_bins: int) -> np.ndarray:
    """Return the indices of the quantiles among the sorted values; one row per chosen column."""
    steps = np.linspace(0, sizes[chosen] - 1, max_bins + 1, axis=1)[:, 1:-1]
    return (np.cumsum(sizes) - sizes)[chosen][:, np.newaxis] + steps.astype(np.int64)
