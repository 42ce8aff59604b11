"""Thresholds of numbers: between distinct values, or at quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.sequence_keys import input_hashes, keys_of
from treecrf.inputs.offsets import positions_in_sequences, runs
from treecrf.inputs.sequences import Description, Sequences
from treecrf.utils.hashing import likely_bound, mix, smallest
from treecrf.utils.partitions import Partitions, PerPartition

# Maximum number of positions from which quantiles are computed.
MAX_SAMPLES = 200_000
# Bins hold at least this number of positions on average, unless a column has fewer bins than this.
MIN_POSITIONS_OF_BIN = 16
MIN_BINS = 16
# Samples of parts are joined in blocks of columns of about this size.
MAX_BYTES = 1 << 28
# About this many values are sorted at a time, of many short columns or of a few long ones.
RUN_VALUES = 1 << 18


def learn_thresholds(
    partitions: Partitions, described: Description, columns: np.ndarray, max_bins: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Learn the thresholds of some columns, as if all of them were numbers.

    Returns the number of thresholds of each column, and all of them, one column after another.
    Few positions lower ``max_bins``.
    """
    if not len(columns):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    max_bins = min(max_bins, max(MIN_BINS, described.n_positions // MIN_POSITIONS_OF_BIN))
    chosen = PerPartition(_choose(partitions, described.n_positions, seed))
    n_columns, n_rows = described.schema.n_features, min(described.n_positions, MAX_SAMPLES)
    n_blocks = 1
    if partitions.n_parts > 1 and described.form == "dense":
        n_blocks = -(-8 * n_rows * len(columns) // MAX_BYTES)
    learned = [
        partitions.derive(_sample, None if len(block) == n_columns else block, chosen).reduce(
            _learn, max_bins
        )
        for block in np.array_split(columns, n_blocks)
    ]
    return tuple(np.concatenate(parts) for parts in zip(*learned, strict=True))


def _choose(partitions: Partitions, n_positions: int, seed: int) -> list[np.ndarray | None]:
    """Choose enough positions for quantiles in each part: those with the smallest hashes.

    None stands for all of them.
    """
    if n_positions <= MAX_SAMPLES:
        return [None] * partitions.n_parts
    keys = PerPartition(partitions.derive(input_hashes).reduce(keys_of))
    for bound in (likely_bound(MAX_SAMPLES, n_positions), None):
        found = partitions.map(_find_smallest, keys, seed, bound)
        hashes = np.concatenate([of_part for _, of_part in found])
        if len(hashes) >= MAX_SAMPLES:
            break
    is_chosen = np.split(
        smallest(hashes, MAX_SAMPLES), np.cumsum([len(of_part) for _, of_part in found])
    )
    return [positions[kept] for (positions, _), kept in zip(found, is_chosen, strict=False)]


def _learn(samples: list, max_bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Learn the thresholds of all columns of samples."""
    sampled = _stacked(samples)
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


def _find_smallest(
    sequences: Sequences, keys: np.ndarray, seed: int, bound: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions with a hash up to a bound, and their hashes."""
    of_positions = np.repeat(keys, np.diff(sequences.offsets))
    hashes = mix(seed, of_positions, positions_in_sequences(sequences.offsets))
    if bound is None:
        return np.arange(len(hashes)), hashes
    found = np.flatnonzero(hashes <= np.uint64(bound))
    return found, hashes[found]


def _sample(sequences: Sequences, columns: np.ndarray | None, chosen: np.ndarray | None) -> Any:
    """Return the rows of the chosen positions, and their values in some columns, or all of them."""
    parts = []
    for start, stop, piece in sequences.pieces():
        if chosen is not None:
            first, last = np.searchsorted(chosen, [start, stop])
            piece = piece[chosen[first:last] - start]
        parts.append(piece if columns is None else piece[:, columns])
    return _stacked(parts)


def _stacked(tables: list) -> Any:
    """Join tables one below another."""
    if len(tables) == 1:
        return tables[0]
    if sparse.issparse(tables[0]):
        return sparse.vstack(tables, format="csr")
    return np.concatenate(tables)


def _sorted_values(table: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns, counted from the first, and the values of a run, sorted by both.

    Missing values are omitted. All zeros of a sparse column count as one value, so that they do not
    take up the quantiles.
    """
    values = table[:, first:last]
    if not sparse.issparse(values):
        columns = np.repeat(np.arange(last - first), len(values))
        values = np.sort(values.astype(np.float64), axis=0).ravel(order="F")
        present = ~np.isnan(values)
        return (columns, values) if present.all() else (columns[present], values[present])
    sizes = np.diff(values.indptr)
    with_zero = np.flatnonzero(sizes < values.shape[0])
    # Complex numbers sort by their real parts, then by their imaginary parts.
    pairs = np.zeros(len(values.data) + len(with_zero), dtype=np.complex128)
    pairs.real = np.append(np.repeat(np.arange(last - first), sizes), with_zero)
    pairs.imag[: len(values.data)] = values.data
    pairs = pairs[~np.isnan(pairs.imag)]
    pairs.sort()
    return pairs.real.astype(np.int64), pairs.imag


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
    # The indices of the quantiles of each column with many values among the sorted values.
    sizes = np.bincount(columns, minlength=n_columns)
    steps = np.linspace(0, sizes[many] - 1, max_bins + 1, axis=1)[:, 1:-1].astype(np.int64)
    quantiles = (np.cumsum(sizes) - sizes)[many][:, np.newaxis] + steps
    is_below[np.minimum(ranks[quantiles], last[many][:, np.newaxis] - 1)] = True
    below = np.flatnonzero(is_below)
    low, high = distinct[below], distinct[below + 1]
    middle = low / 2 + high / 2
    # Neighboring doubles have no middle.
    middle = np.where((middle >= high) | (middle < low), low, middle)
    return np.bincount(owners[below], minlength=n_columns), middle
