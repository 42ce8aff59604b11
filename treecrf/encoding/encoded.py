"""Encoded sequences: the rows that trees read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.offsets import positions_in_sequences
from treecrf.utils.scratch import Allocate, moved

# Kernels that read a column in whole words of 64 rows may read so far beyond its last row.
SLACK = 64


@dataclass(frozen=True)
class EncodedSequences:
    """Encoded positions of some sequences.

    Attributes
    ----------
    row_of_position : int32 array (n_positions,)
        Row of each position; the other rows are boundary rows.
    offsets : int64 array (n_sequences + 1,)
        Start of each sequence among the positions, and the end of the last.
    codes : uint8 array (n_rows, n_code_columns)
    bits : uint8 array (n_rows, n_bytes)
    list_starts : int64 array (n_rows + 1,)
        Row r lists the ids ``list_ids[list_starts[r] : list_starts[r + 1]]``, ascending.
    list_ids : int32 array
    n_ids : int
        All ids are below this number.
    has_missing : bool array (n_columns,)
        Whether a value of the column is missing in these sequences.
    """

    row_of_position: np.ndarray
    offsets: np.ndarray
    codes: np.ndarray
    bits: np.ndarray
    list_starts: np.ndarray
    list_ids: np.ndarray
    n_ids: int
    has_missing: np.ndarray

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return len(self.row_of_position)

    @cached_property
    def rows_from_first(self) -> np.ndarray:
        """Row of each position, counted from the first row of a position."""
        return self.row_of_position - self.row_of_position[:1]

    @property
    def n_padded_rows(self) -> int:
        """Number of rows from that of the first position on, in whole words of 64 rows.

        Bit sets of rows, and tables with an entry for each row, have this size.
        """
        return -(-int(self.rows_from_first.max() + 1) // 64) * 64

    def __getstate__(self) -> dict[str, Any]:
        # Without lists, their starts are zeros, of more bytes than a row with few codes.
        state = {name: value for name, value in vars(self).items() if name != "rows_from_first"}
        if not len(self.list_ids):
            state["list_starts"] = len(self.list_starts)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        starts = state["list_starts"]
        if not isinstance(starts, np.ndarray):
            state["list_starts"] = np.zeros(starts, dtype=np.int64)
        vars(self).update(state)

    def postings(self) -> tuple[np.ndarray, np.ndarray]:
        """Invert the lists: starts of the ids, and the rows that list each id, ascending."""
        if not len(self.list_ids):
            return np.zeros(self.n_ids + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        shape = len(self.list_starts) - 1, self.n_ids
        values = np.ones(len(self.list_ids), dtype=np.uint8)
        by_id = sparse.csr_array((values, self.list_ids, self.list_starts), shape=shape).tocsc()
        return by_id.indptr.astype(np.int64), by_id.indices.astype(np.int32, copy=False)

    def depth_of(self, order: int) -> np.ndarray:
        """Count the labels before each position, at most ``order``; uint8."""
        return np.minimum(positions_in_sequences(self.offsets), order).astype(np.uint8)


@dataclass(frozen=True)
class EncodedColumns:
    """The rows of encoded sequences, column by column.

    Attributes
    ----------
    codes : uint8 array (n_code_columns, n_rows + SLACK)
    bits : uint8 array (n_bytes, n_rows + SLACK)
    posting_starts : int64 array (n_ids + 1,)
    postings : int32 array
        The rows that list id i, ascending, are ``postings[posting_starts[i] :
        posting_starts[i + 1]]``.
    """

    codes: np.ndarray
    bits: np.ndarray
    posting_starts: np.ndarray
    postings: np.ndarray

    @classmethod
    def of(cls, encoded: EncodedSequences) -> EncodedColumns:
        """Transpose rows."""
        return cls(_transposed(encoded.codes), _transposed(encoded.bits), *encoded.postings())

    def kept_in(self, allocate: Allocate) -> EncodedColumns:
        """Copy the arrays to arrays from a function such as `Scratch.allocate`."""
        return EncodedColumns(
            **{name: moved(value, allocate) for name, value in vars(self).items()}
        )


def _transposed(table: np.ndarray) -> np.ndarray:
    columns = np.zeros((table.shape[1], len(table) + SLACK), dtype=np.uint8)
    columns[:, : len(table)] = table.T
    return columns
