"""Writing of sequences into rows, piece by piece."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding._codes import find_codes, write_bins
from treecrf.encoding.categories import Vocabulary
from treecrf.encoding.columns import Columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.layout import RowLayout
from treecrf.encoding.plan import CODES, LISTS, Plan

# Columns of a sparse matrix are made dense in groups of about this many values.
DENSE_VALUES_LOG2 = 22
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
        # Pairs of arrays: rows, and the ids that they list.
        self._lists: list[tuple[np.ndarray, np.ndarray]] = []
        self._thresholds = columns.only_thresholds
        if boundary_code:
            self.codes[self.rows, 0] = 1

    @cached_property
    def _has_one_id(self) -> np.ndarray:
        return self.plan.has_one_id(self.columns)

    def write(self, part: tuple[int, int, Any]) -> None:
        """Encode values: the first position, the one after the last, and a piece of the input.

        Several threads may write different positions.
        """
        start, stop, piece = part
        rows = self.rows[start:stop]
        if piece.ndim == 1:
            self._write_symbols(piece, rows)
        elif sparse.issparse(piece):
            self._write_sparse(piece, rows)
        else:
            self._write_dense(piece, rows)

    def finish(self) -> EncodedSequences:
        """Return all that has been written."""
        starts, ids = _join_lists(self._lists, (len(self.codes), self.plan.n_all_ids))
        return EncodedSequences(
            row_of_position=self.rows,
            offsets=self.offsets,
            codes=self.codes,
            bits=self.bits,
            list_starts=starts,
            list_ids=ids,
            n_ids=self.plan.n_all_ids,
            has_missing=self._find_missing(ids),
        )

    def _find_missing(self, ids: np.ndarray) -> np.ndarray:
        """Mark the columns that have missing values."""
        plan = self.plan
        found = np.zeros(len(self.columns), dtype=bool)
        coded = plan.columns_in[CODES]
        find_codes(self.codes, coded, plan.slots, plan.missing_codes, found.view(np.uint8))
        if len(ids):
            of_id = np.flatnonzero(plan.missing_ids >= 0)
            of_id = of_id[np.argsort(plan.missing_ids[of_id])]
            found[of_id[np.unique(ids[ids >= plan.n_ids]) - plan.n_ids]] = True
        return found

    def _write_symbols(self, piece: np.ndarray, rows: np.ndarray) -> None:
        symbols = self.columns[0].values
        indices = Vocabulary(symbols).codes(piece)
        seen = indices < len(symbols)
        if self.plan.storage[0] == CODES:
            self.codes[rows, 0] = np.where(seen, indices + 1, self.no_category)
        else:
            self._lists.append((rows[seen], indices[seen].astype(np.int32)))

    def _write_dense(self, piece: np.ndarray, rows: np.ndarray) -> None:
        _, in_bits, in_lists = self.plan.columns_in
        self._write_codes(piece, rows)
        if len(in_bits):
            values = piece[:, in_bits]
            # Booleans may be passed to a model that was trained on numbers.
            is_bool = piece.dtype.kind == "b" and not self.columns.is_number[in_bits].any()
            passed = values if is_bool else values > self._thresholds[in_bits]
            self.bits[rows] = np.packbits(passed, axis=1, bitorder="little")
            self._list_missing(values, in_bits, rows)
        if len(in_lists):
            values = piece[:, in_lists]
            where, which = np.nonzero(self._is_listed(values, in_lists))
            self._list_values(values[where, which], in_lists[which], rows[where])
            self._list_missing(values, in_lists, rows)

    def _write_codes(self, piece: np.ndarray, rows: np.ndarray) -> None:
        plan, columns = self.plan, self.columns
        coded = plan.columns_in[CODES]
        is_binned = columns.is_number[coded] & (piece.dtype.itemsize <= 8)
        binned = coded[is_binned]
        if len(binned):
            values = piece.astype(np.float64, copy=False)
            tables = (columns.thresholds, columns.starts, plan.slots, plan.missing_codes)
            write_bins(values, rows, binned, *tables, self.codes)
        for j in coded[~is_binned]:
            self.codes[rows, plan.slots[j]] = self._codes_of(j, piece[:, j])

    def _write_sparse(self, piece: Any, rows: np.ndarray) -> None:
        plan = self.plan
        dense = np.flatnonzero(plan.storage < LISTS)
        n_groups = max(1, piece.shape[0] * len(dense) >> DENSE_VALUES_LOG2)
        for group in np.array_split(dense, n_groups):
            if len(group):
                self._write_columns(piece[:, group].toarray(), group, rows)
        entries = piece.tocoo()
        values, columns, rows = entries.data, entries.col, rows[entries.row]
        listed = (plan.storage[columns] == LISTS) & self._is_listed(values, columns)
        self._list_values(values[listed], columns[listed], rows[listed])
        if values.dtype.kind == "f":
            missing = np.isnan(values) & (plan.missing_ids[columns] >= 0)
            self._lists.append((rows[missing], plan.missing_ids[columns[missing]]))

    def _write_columns(self, values: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> None:
        """Write codes and bits of a few columns of a sparse matrix."""
        for k, j in enumerate(columns):
            slot = self.plan.slots[j]
            if self.plan.storage[j] == CODES:
                self.codes[rows, slot] = self._codes_of(j, values[:, k])
            else:
                passed = values[:, k] > self._thresholds[j]
                self.bits[rows, slot >> 3] |= passed.astype(np.uint8) << np.uint8(slot & 7)

    def _codes_of(self, j: int, values: np.ndarray) -> np.ndarray:
        """Return codes of values: index of a category, value of a boolean, bin of a number."""
        if self.columns.is_category[j]:
            codes = np.where(values == 0, self.no_category, values)
        elif self.columns.is_number[j]:
            codes = np.searchsorted(self.columns[j].values, values, side="left")
        else:
            codes = values > 0
        if values.dtype.kind == "f":
            codes = np.where(np.isnan(values), self.plan.missing_codes[j], codes)
        return codes.astype(np.uint8)

    def _is_listed(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Mark values that pass the only test or, for categories and most numbers, are not 0."""
        above = values > self._thresholds[columns]
        listed = np.where(self._has_one_id[columns], above, values != 0)
        return listed & ~np.isnan(values) if values.dtype.kind == "f" else listed

    def _list_values(self, values: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> None:
        """List the ids of values: one per bin or category, or one per column with a single test."""
        ids = self.plan.slots[columns]
        is_category = self.columns.is_category[columns]
        ids[is_category] += values[is_category].astype(np.int32) - 1
        several = ~self._has_one_id[columns] & ~is_category
        ids[several] += self.columns.bins_of(columns[several], values[several])
        self._lists.append((rows, ids))

    def _list_missing(self, values: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> None:
        """List the missing values of a dense piece."""
        if values.dtype.kind == "f":
            where, which = np.nonzero(np.isnan(values))
            self._lists.append((rows[where], self.plan.missing_ids[columns[which]]))


def _join_lists(
    lists: list[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Convert pairs of rows and ids in any order to row starts and ascending ids."""
    if not any(len(ids) for _, ids in lists):
        # Nothing writes to these zeros, so the system need not find memory for them.
        return np.zeros(shape[0] + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    rows, ids = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    by_row = sparse.csr_array((np.ones(len(ids), dtype=np.uint8), (rows, ids)), shape=shape)
    by_row.sort_indices()
    return by_row.indptr.astype(np.int64), by_row.indices.astype(np.int32, copy=False)
