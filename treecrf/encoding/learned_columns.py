"""Columns learned from training data: categories, thresholds, density and missing values.

Thresholds of numbers lie between distinct values or, if there are many, at quantiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.encoding._codes import narrow_dense, narrow_sparse
from treecrf.encoding.columns import BinLimits, Columns, count_missing
from treecrf.encoding.sequence_keys import Content, keys_in
from treecrf.inputs.offsets import positions_in_sequences, runs
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER
from treecrf.inputs.sequences import Description, Sequences
from treecrf.utils.hashing import likely_bound, mix, smallest
from treecrf.utils.partitions import Partitions, PerPartition
from treecrf.utils.scipy_sparse import sparse

# Maximum number of positions from which quantiles are computed.
MAX_SAMPLES = 200_000
# Values that recur this often on average are codes or counts. They have a bin each if possible,
# because trees cannot distinguish the values of a bin.
MIN_RECURRENCES = 4
# Samples of parts are joined in blocks of columns of about this size.
MAX_BYTES = 1 << 28
# About this many values are sorted at a time, of many short columns or of a few long ones.
RUN_VALUES = 1 << 18


def learn_columns(
    partitions: Partitions, described: Description, limits: BinLimits, seed: int
) -> tuple[Columns, np.ndarray, np.ndarray]:
    """Learn categories, thresholds, density and missing values of all columns.

    The second array is the fraction of the positions at which a list would hold each column, which
    is only meaningful for columns with a single test; the last one is the fraction of the positions
    at which the value is missing.
    """
    kinds = described.schema.kinds
    categories = described.schema.categories
    none_missing = np.zeros(len(kinds))
    sizes = np.zeros(len(kinds), dtype=np.int64)
    if described.form == "symbols":
        sizes[0] = len(categories[0])
        return Columns(kinds, sizes, np.zeros(0), categories), np.ones(1), none_missing
    if described.is_boolean:
        counted = partitions.map(_count_listed, np.zeros(len(kinds)))
        fractions = np.sum(counted, axis=0)[0] / described.n_positions
        # Constant booleans become numbers without thresholds.
        kinds = np.where((fractions > 0) & (fractions < 1), BOOLEAN, NUMBER).astype(np.uint8)
        return Columns(kinds, sizes, np.zeros(0), {}), fractions, none_missing
    no_categories = np.flatnonzero(kinds != CATEGORY)
    sizes[no_categories], thresholds = _learn_thresholds(
        partitions, described, no_categories, limits, seed
    )
    kinds = np.where((kinds == BOOLEAN) & (sizes == 0), NUMBER, kinds).astype(np.uint8)
    thresholds = thresholds[np.repeat(kinds == NUMBER, sizes)]
    sizes[kinds != NUMBER] = 0
    for j, values in categories.items():
        sizes[j] = len(values)
    columns = Columns(kinds, sizes, thresholds, categories)
    counted, margins = zip(*partitions.map(_count_and_measure, columns), strict=True)
    fractions, missing = np.sum(counted, axis=0) / described.n_positions
    return columns.with_margins(margins), fractions, missing


def _count_and_measure(sequences: Sequences, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of `_count_listed`, and the margins of all thresholds."""
    return _count_listed(sequences, columns.only_thresholds), margins_in(sequences, columns)


def margins_in(sequences: Sequences, columns: Columns) -> np.ndarray:
    """Return the distance of each threshold from the nearest value of its column; float64.

    It is infinite if there are no values.
    """
    margins = np.full(len(columns.thresholds), np.inf)
    if not len(margins):
        return margins
    for _, _, piece in sequences.pieces():
        if sparse.issparse(piece):
            entries = piece.tocoo()
            n_entries = np.bincount(entries.col, minlength=len(columns))
            with_zero = np.flatnonzero(n_entries < piece.shape[0])
            values = np.append(entries.data.astype(np.float64), np.zeros(len(with_zero)))
            owners = np.append(entries.col.astype(np.int64), with_zero)
            narrow_sparse(columns.thresholds, columns.starts, owners, values, margins)
        else:
            values = piece.astype(np.float64, copy=False)
            narrow_dense(columns.thresholds, columns.starts, values, margins)
    return margins


def _count_listed(sequences: Sequences, thresholds: np.ndarray) -> np.ndarray:
    """Count the values above their column's threshold, or with a negative one, and missing values.

    Zeros of sparse columns do not count as values.
    """
    counts, missing = np.zeros((2, sequences.n_features))
    for _, _, piece in sequences.pieces():
        missing += count_missing(piece)
        if sparse.issparse(piece):
            coo = piece.tocoo()
            limits = thresholds[coo.col]
            listed = (coo.data > limits) | (limits < 0)
            counts += np.bincount(coo.col[listed], minlength=len(counts))
        elif piece.dtype.kind == "b":
            counts += piece.sum(axis=0)
        else:
            counts += ((piece > thresholds) | (thresholds < 0)).sum(axis=0)
    return np.stack([counts, missing])


# Thresholds


def _learn_thresholds(
    partitions: Partitions,
    described: Description,
    columns: np.ndarray,
    limits: BinLimits,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Learn the thresholds of some columns, as if all of them were numbers.

    Returns the number of thresholds of each column, and all of them, one column after another.
    """
    if not len(columns):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    n_bins = limits.quantiles(described.n_positions)
    chosen = None
    if described.n_positions > MAX_SAMPLES:
        chosen = PerPartition(_choose(partitions, described.n_positions, seed))
    n_columns = described.schema.n_features
    n_rows = min(described.n_positions, MAX_SAMPLES)
    n_blocks = -(-8 * n_rows * len(columns) // MAX_BYTES)
    if n_blocks > 1 and (described.form != "dense" or partitions.n_parts == 1):
        n_blocks = 1
    learned = [
        partitions.derive(_sample, None if len(block) == n_columns else block, chosen).reduce(
            _learn, n_bins, limits.recurring
        )
        for block in np.array_split(columns, n_blocks)
    ]
    return tuple(np.concatenate(parts) for parts in zip(*learned, strict=True))


def _choose(partitions: Partitions, n_positions: int, seed: int) -> list[np.ndarray]:
    """Choose enough positions for quantiles in each part: those with the smallest hashes."""
    keys = PerPartition(keys_in(partitions.view(Content)))
    for bound in (likely_bound(MAX_SAMPLES, n_positions), None):
        positions, hashes = zip(*partitions.map(_find_smallest, keys, seed, bound), strict=True)
        joined = np.concatenate(hashes)
        if len(joined) >= MAX_SAMPLES:
            break
    ends = np.cumsum([len(part_hashes) for part_hashes in hashes])
    are_chosen = np.split(smallest(joined, MAX_SAMPLES), ends)
    return [
        part_positions[chosen]
        for part_positions, chosen in zip(positions, are_chosen, strict=False)
    ]


def _learn(samples: list, n_bins: int, max_bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Learn the thresholds of all columns of samples."""
    sampled = _stacked(samples)
    if sparse.issparse(sampled):
        sampled = sampled.tocsc()
        sizes = np.diff(sampled.indptr) + 1
    else:
        sizes = np.full(sampled.shape[1], len(sampled))
    learned = [
        _thresholds(*_sorted_values(sampled, first, last), last - first, n_bins, max_bins)
        for first, last in runs(np.append(0, np.cumsum(sizes)), RUN_VALUES)
    ]
    return tuple(np.concatenate(parts) for parts in zip(*learned, strict=True))


def _find_smallest(
    sequences: Sequences, keys: np.ndarray, seed: int, bound: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions with a hash up to a bound, and their hashes."""
    position_keys = np.repeat(keys, np.diff(sequences.offsets))
    hashes = mix(seed, position_keys, positions_in_sequences(sequences.offsets))
    if bound is None:
        return np.arange(len(hashes)), hashes
    positions = np.flatnonzero(hashes <= np.uint64(bound))
    return positions, hashes[positions]


def _sample(sequences: Sequences, columns: np.ndarray | None, chosen: np.ndarray | None) -> Any:
    """Return the rows of the chosen positions, and their values in some columns, or all of them."""
    tables = []
    for start, stop, piece in sequences.pieces():
        if chosen is not None:
            first, last = np.searchsorted(chosen, [start, stop])
            piece = piece[chosen[first:last] - start]
        if columns is not None:
            piece = piece[:, columns]
        tables.append(piece)
    return _stacked(tables)


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
        if present.all():
            return columns, values
        return columns[present], values[present]
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
    columns: np.ndarray, values: np.ndarray, n_columns: int, n_bins: int, max_bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find thresholds between all distinct values of a column or, if there are many, at quantiles.

    Many are more than ``n_bins``, or more than ``max_bins`` if values recur. Columns and values are
    sorted. Returns the number of thresholds of each column, and the thresholds of one column after
    another.
    """
    if not len(values):
        return np.zeros(n_columns, dtype=np.int64), np.zeros(0)
    is_new = (values[1:] != values[:-1]) | (columns[1:] != columns[:-1])
    ranks = np.append(0, np.cumsum(is_new))
    is_first = np.append(True, is_new)
    distinct = values[is_first]
    owners = columns[is_first]
    n_distinct = np.bincount(owners, minlength=n_columns)
    last = np.cumsum(n_distinct) - 1
    sizes = np.bincount(columns, minlength=n_columns)
    many = n_distinct > np.where(sizes >= MIN_RECURRENCES * n_distinct, max_bins, n_bins)
    is_below = ~many[owners] & (np.arange(len(owners)) < last[owners])
    # The indices of the quantiles of each column with many values among the sorted values.
    steps = np.linspace(0, sizes[many] - 1, n_bins + 1, axis=1)[:, 1:-1].astype(np.int64)
    quantiles = (np.cumsum(sizes) - sizes)[many][:, np.newaxis] + steps
    is_below[np.minimum(ranks[quantiles], last[many][:, np.newaxis] - 1)] = True
    below = np.flatnonzero(is_below)
    low = distinct[below]
    high = distinct[below + 1]
    middle = low / 2 + high / 2
    # Neighboring doubles have no middle.
    middle = np.where((middle >= high) | (middle < low), low, middle)
    return np.bincount(owners[below], minlength=n_columns), middle


# Categories as numbers
