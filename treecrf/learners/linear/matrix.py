"""Attributes of sequences as sparse rows, in the form that kernels multiply by weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.encoding.encoded import RowLayout, rows_of_positions
from treecrf.inputs.offsets import runs
from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear.attributes import Attributes
from treecrf.utils.hashing import mix
from treecrf.utils.scipy_sparse import sparse

# Threads take ranges of sequences of about this many positions. The size does not depend on the
# number of threads, and so neither do sums over the ranges.
RANGE_POSITIONS = 4096
# Rows are computed by way of distinct rows if that leaves at most this share of the entries.
MAX_SHARE_OF_ENTRIES = 0.5

# Start of each row's entries (or each column's), and the indices and values of the entries; the
# values are None if all are 1.
SparseArrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]


@dataclass
class AttributeMatrix:
    """Attributes of sequences: one row per position, and boundary rows between and around them.

    With a window there is one more attribute, "outside", the last one. Boundary rows have only this
    attribute. The window of a position is therefore the range of rows around its own row.
    """

    # The row of each position.
    layout: RowLayout
    # The attributes of each row, and their values.
    by_row: SparseArrays
    # Number of attributes, including "outside".
    n_attributes: int

    @classmethod
    def of(cls, attributes: Attributes, sequences: Sequences) -> AttributeMatrix:
        """Make the rows; raises ValueError if a source's rows have another shape than it says."""
        rows = attributes.rows(sequences)
        offsets = sequences.offsets
        # Kernels do not check bounds.
        if rows.shape != (offsets[-1], attributes.n_attributes):
            raise ValueError(
                f"{type(attributes).__name__} returns rows of shape {rows.shape}; expected "
                f"({offsets[-1]}, {attributes.n_attributes})"
            )
        layout = RowLayout(offsets, tuple(attributes.window))
        if not any(layout.window):
            return cls(layout, _entries(rows.indptr, rows.indices, rows.data), rows.shape[1])
        return cls(layout, _with_boundary_rows(rows, layout), rows.shape[1] + 1)

    def __post_init__(self) -> None:
        self.offsets = self.layout.offsets
        self.window = self.layout.window
        self.first_rows = self.layout.first_rows
        self.n_rows = len(self.by_row[0]) - 1
        self.n_offsets = sum(self.window) + 1
        self.n_positions = int(self.offsets[-1])

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The rows as a matrix, float64 CSR array (n_rows, n_attributes)."""
        starts, indices, _ = self.by_row
        shape = (self.n_rows, self.n_attributes)
        return sparse.csr_array((self.values, indices, starts), shape=shape)

    @property
    def values(self) -> np.ndarray:
        """The values of the entries of ``by_row``, also if all are 1."""
        _, indices, values = self.by_row
        return np.ones(len(indices)) if values is None else values

    @property
    def numbers_in_window(self) -> float:
        """Mean number of values in a window other than 0 and 1."""
        values = self.by_row[2]
        n_numbers = 0 if values is None else np.count_nonzero(values != 1)
        return n_numbers * self.n_offsets / self.n_positions

    @cached_property
    def by_attribute(self) -> SparseArrays:
        """The entries of each attribute, with ascending rows."""
        starts, indices, values = self.by_row
        shape = (self.n_rows, self.n_attributes)
        if values is None:
            ones = np.ones(len(indices), dtype=bool)
            columns = sparse.csc_array(sparse.csr_array((ones, indices, starts), shape=shape))
            return _entries(columns.indptr, columns.indices, None)
        columns = sparse.csc_array(sparse.csr_array((values, indices, starts), shape=shape))
        return _entries(columns.indptr, columns.indices, columns.data)

    # Ranges of sequences

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges of sequences that threads take: the first one, and the one after the last."""
        return list(runs(self.offsets, RANGE_POSITIONS))

    def layout_within(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets and first rows of a range of sequences, counted from its first one."""
        offsets = self.offsets[first : last + 1]
        first_rows = self.first_rows[first:last]
        return offsets - offsets[0], first_rows - first_rows[0]

    def range_rows(self, values: np.ndarray, k: int) -> np.ndarray:
        """Return the rows of range k, given values of all positions; boundary rows are 0."""
        first, last = self.ranges[k]
        positions = rows_of_positions(*self.layout_within(first, last))
        rows = np.zeros((positions[-1] + 1, values.shape[1]))
        rows[positions] = values[self.offsets[first] : self.offsets[last]]
        return rows


@dataclass(frozen=True)
class DistinctRows:
    """Rows without repetitions: in text, all rows of a word have the same attributes."""

    # The attributes of each distinct row.
    by_row: SparseArrays
    # The number of the distinct row of each row, as a matrix with a 1 in each row.
    numbers: SparseArrays

    @classmethod
    def of(cls, by_row: SparseArrays) -> DistinctRows | None:
        """Find the distinct rows; None if there are too many of them, or values other than 1."""
        starts, indices, values = by_row
        if values is not None or len(indices) * MAX_SHARE_OF_ENTRIES < len(starts) - 1:
            return None
        keys = np.concatenate([_keys(starts[k], indices) for k in _pieces(starts)])
        _, firsts, numbers = np.unique(keys, return_index=True, return_inverse=True)
        lengths = np.diff(starts)
        n_entries = int(lengths[firsts].sum()) + len(numbers)
        if n_entries > MAX_SHARE_OF_ENTRIES * len(indices):
            return None
        if not _are_equal(starts, indices, firsts[numbers]):
            return None
        distinct = (np.append(0, np.cumsum(lengths[firsts])), indices[_spans(starts, firsts)], None)
        return cls(distinct, (np.arange(len(starts)), numbers.astype(np.int32), None))


def _pieces(starts: np.ndarray) -> list[slice]:
    """Return the starts, and the end, of some rows at a time: all at once would need memory."""
    n_rows = len(starts) - 1
    firsts = range(0, n_rows, RANGE_POSITIONS)
    return [slice(first, min(first + RANGE_POSITIONS, n_rows) + 1) for first in firsts]


def _keys(starts: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return hashes of the attributes of rows."""
    hashes = mix(0, indices[starts[0] : starts[-1]])
    sums = np.append(np.uint64(0), np.cumsum(hashes))[starts - starts[0]]
    return sums[1:] - sums[:-1]


def _spans(starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the indices of all entries of the given rows."""
    lengths = starts[rows + 1] - starts[rows]
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts[rows] - (ends - lengths), lengths)


def _are_equal(starts: np.ndarray, indices: np.ndarray, rows: np.ndarray) -> bool:
    """Return whether each row has the same attributes as another one; their hashes are equal."""
    lengths = np.diff(starts)
    if not np.array_equal(lengths, lengths[rows]):
        return False
    for k in _pieces(starts):
        first = starts[k][0]
        last = starts[k][-1]
        others = _spans(starts, rows[k.start : k.stop - 1])
        if not np.array_equal(indices[first:last], indices[others]):
            return False
    return True


def _entries(starts: np.ndarray, indices: np.ndarray, values: np.ndarray | None) -> SparseArrays:
    """Convert the arrays of a sparse matrix to the dtypes that kernels take."""
    starts = starts.astype(np.int64, copy=False)
    indices = indices.astype(np.int32, copy=False)
    if values is None or (values == 1).all():
        return starts, indices, None
    return starts, indices, np.ascontiguousarray(values, dtype=np.float64)


def _with_boundary_rows(rows: sparse.csr_array, layout: RowLayout) -> SparseArrays:
    """Return the entries of all rows; boundary rows have "outside"."""
    position_rows = layout.rows
    is_boundary = np.ones(layout.n_rows, dtype=bool)
    is_boundary[position_rows] = False
    counts = np.ones(layout.n_rows, dtype=np.int64)
    counts[position_rows] = np.diff(rows.indptr)
    starts = np.zeros(layout.n_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    is_inside = np.repeat(~is_boundary, counts)
    attributes = np.full(starts[-1], rows.shape[1], dtype=np.int32)
    attributes[is_inside] = rows.indices
    values = np.ones(starts[-1], dtype=rows.dtype)
    values[is_inside] = rows.data
    return _entries(starts, attributes, values)
