"""Writing of sequences into rows, piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding._codes import ColumnTable, write_dense, write_sparse
from treecrf.encoding.categories import Vocabulary
from treecrf.encoding.columns import Columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.layout import RowLayout
from treecrf.encoding.plan import CODES, Plan

MAX_ROW = (1 << 31) - 1


class RowWriter:
    """Writer of the values of columns as codes, bits and lists."""

    def __init__(
        self,
        columns: Columns,
        plan: Plan,
        layout: RowLayout,
        *,
        boundary_code: bool,  # whether the first code column marks the boundary rows
        no_category: int = 0,  # code of no category, or of an unseen one
    ):
        self.columns = columns
        self.plan = plan
        self.no_category = no_category
        self.offsets = layout.offsets
        rows = layout.rows
        if len(rows) and rows[-1] > MAX_ROW - layout.n_boundary_rows:
            raise ValueError(f"{len(rows)} positions need more than 2**31 rows; expected fewer")
        self.rows = rows.astype(np.int32)  # the type that kernels read
        self.codes = np.zeros((layout.n_rows, len(plan.n_codes)), dtype=np.uint8)
        self.bits = np.zeros((layout.n_rows, -(-plan.n_bits // 8)), dtype=np.uint8)
        # The first position of each piece, how many ids each row lists, and the ids.
        self._lists: list[tuple[int, np.ndarray, np.ndarray]] = []
        self._has_missing = np.zeros(len(columns), dtype=bool)
        self._target = self.codes, self.bits, self._has_missing.view(np.uint8)
        self._table = ColumnTable(columns, plan, no_category)
        if boundary_code:
            self.codes[self.rows, 0] = 1

    def write(self, part: tuple[int, int, Any]) -> None:
        """Encode values: the first position, the one after the last, and a piece of the input.

        Several threads may write different positions.
        """
        start, stop, piece = part
        rows = self.rows[start:stop]
        if piece.ndim == 1:
            found = self._write_symbols(piece, rows)
        elif sparse.issparse(piece):
            matrix = (
                piece.data.astype(np.float64, copy=False),
                piece.indices.astype(np.int32, copy=False),
                piece.indptr.astype(np.int64, copy=False),
            )
            found = write_sparse(self._table, matrix, rows, *self._target)
        else:
            kind = np.uint8 if piece.dtype.kind == "b" else np.float64
            values = piece.view(kind) if kind is np.uint8 else piece.astype(kind, copy=False)
            found = write_dense(self._table, values, rows, *self._target)
        self._lists.append((start, *found))

    def finish(self) -> EncodedSequences:
        """Return all that has been written."""
        starts, ids = _join_lists(self._lists, self.rows, len(self.codes))
        return EncodedSequences(
            row_of_position=self.rows,
            offsets=self.offsets,
            codes=self.codes,
            bits=self.bits,
            list_starts=starts,
            list_ids=ids,
            n_ids=self.plan.n_all_ids,
            has_missing=self._has_missing,
        )

    def _write_symbols(self, piece: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        symbols = self.columns[0].values
        indices = Vocabulary(symbols).codes(piece)
        seen = indices < len(symbols)
        if self.plan.storage[0] != CODES:
            return seen.astype(np.int32), indices[seen].astype(np.int32)
        self.codes[rows, 0] = np.where(seen, indices + 1, self.no_category)
        if self.no_category == self.plan.missing_codes[0] and not seen.all():
            self._has_missing[0] = True
        return np.zeros(len(rows), dtype=np.int32), np.zeros(0, dtype=np.int32)


def _join_lists(
    lists: list[tuple[int, np.ndarray, np.ndarray]], rows: np.ndarray, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Join the lists of pieces, each with its first position, in the order of the positions."""
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    if not any(len(ids) for _, _, ids in lists):
        # Nothing writes to these zeros, so the system need not find memory for them.
        return starts, np.zeros(0, dtype=np.int32)
    _, counts, ids = zip(*sorted(lists, key=lambda part: part[0]), strict=True)
    starts[1:][rows] = np.concatenate(counts)
    return np.cumsum(starts, out=starts), np.concatenate(ids)
