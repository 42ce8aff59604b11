"""Attributes in rows, in the form that the kernels of linear learners read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from treecrf.encoding.layout import RowLayout
from treecrf.inputs.offsets import runs
from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear.attributes import Attributes

# Sequences and attributes are processed in parts of about this many positions or values. The size
# does not depend on the number of threads, and so neither do sums over the parts.
PART_POSITIONS = 4096


@dataclass(frozen=True)
class Table:
    """Rows of attributes: one per position, and boundary rows between and around the sequences.

    With a window there is one more attribute, "outside", the last one. Boundary rows have only this
    attribute. The window of a position is therefore the range of rows around its own row.

    Attributes
    ----------
    layout : RowLayout
    by_row : (int64 array, int32 array, float64 array)
        Start of each row's entries, and the attributes and values of the entries.
    n_attributes : int
        Number of attributes, including "outside".
    """

    layout: RowLayout
    by_row: tuple[np.ndarray, np.ndarray, np.ndarray]
    n_attributes: int

    @classmethod
    def of(cls, attributes: Attributes, sequences: Sequences) -> Table:
        """Make the rows of some sequences.

        Raises
        ------
        ValueError
            If the number or the width of the source's rows is wrong.
        """
        rows, offsets = attributes.rows(sequences), sequences.offsets
        # Kernels do not check bounds.
        if rows.shape != (offsets[-1], attributes.n_attributes):
            raise ValueError(
                f"{type(attributes).__name__} returns rows of shape {rows.shape}; expected "
                f"({offsets[-1]}, {attributes.n_attributes})"
            )
        layout = RowLayout(offsets, tuple(attributes.window))
        starts, indices, data = rows.indptr, rows.indices, rows.data
        n_attributes = rows.shape[1]
        if any(layout.window):
            starts, indices, data = _with_boundary_rows(rows, layout)
            n_attributes += 1
        return cls(layout, _kernel_arrays(starts, indices, data), n_attributes)

    @property
    def offsets(self) -> np.ndarray:
        """Start of each sequence, and the end of the last; int64 array (n_sequences + 1,)."""
        return self.layout.offsets

    @property
    def window(self) -> tuple[int, int]:
        """Number of positions to the left and to the right."""
        return self.layout.window

    @cached_property
    def first_rows(self) -> np.ndarray:
        """Row of the first position of each sequence; int64 array (n_sequences,)."""
        return self.layout.first_rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.by_row[0]) - 1

    @property
    def n_offsets(self) -> int:
        """Number of positions of a window."""
        return sum(self.window) + 1

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return int(self.offsets[-1])

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The rows as a matrix, float64 CSR array (n_rows, n_attributes)."""
        starts, indices, data = self.by_row
        return sparse.csr_array((data, indices, starts), shape=(self.n_rows, self.n_attributes))

    @cached_property
    def by_attribute(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start of each attribute's entries, and the rows (ascending) and values of the entries."""
        columns = sparse.csc_array(self.matrix)
        return _kernel_arrays(columns.indptr, columns.indices, columns.data)

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """Ranges of sequences that threads work on."""
        return list(runs(self.offsets, PART_POSITIONS))

    @cached_property
    def attribute_parts(self) -> list[tuple[int, int]]:
        """Ranges of attributes that threads work on."""
        return list(runs(self.by_attribute[0] + np.arange(self.n_attributes + 1), PART_POSITIONS))

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of rows of the sequences ``first`` to ``last - 1``."""
        length = int(self.offsets[last] - self.offsets[last - 1])
        return int(self.first_rows[first]), int(self.first_rows[last - 1]) + length


def _kernel_arrays(
    starts: np.ndarray, indices: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of a sparse matrix, with the dtypes that kernels take."""
    starts, indices = starts.astype(np.int64, copy=False), indices.astype(np.int32, copy=False)
    return starts, indices, np.ascontiguousarray(values, dtype=np.float64)


def _with_boundary_rows(
    rows: sparse.csr_array, layout: RowLayout
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the starts, attributes and values of all rows; boundary rows have "outside"."""
    position_rows = layout.rows
    is_boundary = np.ones(layout.n_rows, dtype=bool)
    is_boundary[position_rows] = False
    counts = np.ones(layout.n_rows, dtype=np.int64)
    counts[position_rows] = np.diff(rows.indptr)
    starts = np.zeros(layout.n_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    of_positions = np.repeat(~is_boundary, counts)
    attributes = np.full(starts[-1], rows.shape[1], dtype=np.int32)
    attributes[of_positions] = rows.indices
    values = np.ones(starts[-1])
    values[of_positions] = rows.data
    return starts, attributes, values
