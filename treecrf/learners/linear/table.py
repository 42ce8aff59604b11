"""Attributes in rows, as the kernels of linear learners read them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from treecrf.encoding.layout import RowLayout
from treecrf.inputs.sequences import Sequences, runs
from treecrf.learners.linear.attributes import Attributes

# Work is parted in runs of about so many positions, whatever the number of threads: sums over the
# parts are the same then.
PART_POSITIONS = 4096


@dataclass(frozen=True)
class Table:
    """Rows of attributes: those of the positions, and boundary rows around the sequences.

    With a window the last attribute is "outside", the only one that boundary rows have.

    Attributes
    ----------
    layout : RowLayout
    matrix : CSR array (n_rows, n_attributes)
    """

    layout: RowLayout
    matrix: sparse.csr_array

    @classmethod
    def of(cls, attributes: Attributes, sequences: Sequences) -> Table:
        """The rows of some sequences.

        Raises
        ------
        ValueError
            If the source gives rows of another number or width than it should.
        """
        rows, offsets = attributes.rows(sequences), sequences.offsets
        # The kernels would read beyond what they are given.
        if rows.shape != (offsets[-1], attributes.n_attributes):
            raise ValueError(
                f"{type(attributes).__name__} gives rows of the shape {rows.shape}; expected "
                f"({offsets[-1]}, {attributes.n_attributes})"
            )
        layout = RowLayout(offsets, attributes.window)
        starts, indices, data = rows.indptr, rows.indices, rows.data
        n_attributes = rows.shape[1]
        if layout.n_boundary_rows:
            starts, indices, data = _with_boundary_rows(rows, layout)
            n_attributes += 1
        matrix = sparse.csr_array((data, indices, starts), shape=(layout.n_rows, n_attributes))
        return cls(layout, matrix)

    @property
    def offsets(self) -> np.ndarray:
        """Position at which each sequence starts; int64 array (n_sequences + 1,)."""
        return self.layout.offsets

    @property
    def window(self) -> tuple[int, int]:
        """Number of positions to the left and to the right in a window."""
        return self.layout.window

    @cached_property
    def first_rows(self) -> np.ndarray:
        """Row of the first position of each sequence; int64 array (n_sequences,)."""
        return self.layout.first_rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    @property
    def n_attributes(self) -> int:
        """Number of attributes, "outside" among them."""
        return self.matrix.shape[1]

    @property
    def n_offsets(self) -> int:
        """Number of positions of a window."""
        return sum(self.window) + 1

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return int(self.offsets[-1])

    @cached_property
    def by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts of the rows, and the attributes and values of each."""
        return _typed(self.matrix)

    @cached_property
    def by_attribute(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts of the attributes, and the rows and values of each, rows ascending."""
        return _typed(sparse.csc_array(self.matrix))

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """Runs of sequences for threads to share."""
        return list(runs(self.offsets, PART_POSITIONS))

    @cached_property
    def attribute_parts(self) -> list[tuple[int, int]]:
        """Runs of attributes for threads to share."""
        return list(runs(self.by_attribute[0] + np.arange(self.n_attributes + 1), PART_POSITIONS))

    def length(self, i: int) -> int:
        """Number of positions of a sequence."""
        return int(self.offsets[i + 1] - self.offsets[i])

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """First row of some sequences, and the one after their last."""
        return int(self.first_rows[first]), int(self.first_rows[last - 1]) + self.length(last - 1)


def _typed(
    matrix: sparse.csr_array | sparse.csc_array,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of a sparse matrix, of the types that the kernels take."""
    starts, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return starts, indices, np.ascontiguousarray(matrix.data, dtype=np.float64)


def _with_boundary_rows(
    rows: sparse.csr_array, layout: RowLayout
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, attributes and values of all rows; boundary rows have the attribute "outside"."""
    row_of = layout.rows
    is_outside = np.ones(layout.n_rows, dtype=bool)
    is_outside[row_of] = False
    counts = np.ones(layout.n_rows, dtype=np.int64)
    counts[row_of] = np.diff(rows.indptr)
    starts = np.append(0, np.cumsum(counts))
    of_positions = np.repeat(~is_outside, counts)
    attributes = np.full(starts[-1], rows.shape[1], dtype=np.int32)
    attributes[of_positions] = rows.indices
    values = np.ones(starts[-1])
    values[of_positions] = rows.data
    return starts, attributes, values
