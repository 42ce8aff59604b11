"""How the trees see the input: columns stored as codes, bits and lists.

A column is boolean, a category or a number. Its tests are ``x``, ``x is category`` and
``x > threshold``, at each offset of the window. Beyond the ends of a sequence every test is false
but one: a boundary test at each offset tells whether the sequence has ended.

Three kinds of storage hold the columns, row by row:

codes
    One byte a column: the category (1, 2, ...; 0 beyond the ends) or the bin of a number.
bits
    One bit a column with a single test.
lists
    The ids of the values that are present, for sparse columns and for categories with many
    values.

A missing value has a code of its own, the last of its column, or in the other two kinds an id.
Between the sequences lie empty rows, as many as the window reaches beyond the ends, so that the
window of a position is the run of rows around it; no windowed copy is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.columns import Columns, ColumnStatistics, learn_columns
from treecrf.encoding.imputation import FILLED, Imputation, ImputedSequences, learn_filling
from treecrf.encoding.vocabulary import Vocabulary
from treecrf.inputs.sequences import Sequences, Trained, places_in_sequences

# What may happen to missing values.
METHODS = ("weighting", "surrogate", *FILLED)

# Storage of a column.
CODES, BITS, LISTS, NOWHERE = 0, 1, 2, 3
# How a test is judged at a row; the kernels use the same numbers.
CODE_EQUAL, CODE_ABOVE, BIT, LISTED = 0, 1, 2, 3
# The column of the boundary tests.
BOUNDARY = -1

# A bit is dearer than a list entry where fewer positions than this share have it set.
SPARSE_SHARE = 1 / 8
MAX_CODES = 254


@dataclass(frozen=True)
class Plan:
    """Where each column is stored.

    ``slots`` holds a code column, a bit, or the first id of a list; ``first_codes`` the code of a
    column's first value; ``zeros`` the bin of the value 0 of a number in a list, whose tests point
    away from 0. ``n_ids`` counts the ids of values.

    A column is in ``has_missing`` if a value is missing in the training data. A missing value has
    the code ``missing_codes``, or the id ``missing_ids``; these ids follow those of values, first
    those of columns in ``has_missing``.
    """

    storage: np.ndarray
    slots: np.ndarray
    first_codes: np.ndarray
    zeros: np.ndarray
    has_missing: np.ndarray
    missing_codes: np.ndarray
    missing_ids: np.ndarray
    n_codes: np.ndarray
    n_bits: int
    n_ids: int

    @classmethod
    def of(cls, columns: Columns, *, storage: np.ndarray, **parts: Any) -> Plan:
        """The plan of some columns, given all but the codes and ids of missing values."""
        # A category has codes to spare behind its values, a number gets one if need be.
        codes = np.where(storage == CODES, columns.n_tests + 1, -1).astype(np.int32)
        in_need = (storage == BITS) | (storage == LISTS)
        ids = _missing_ids(in_need, parts["has_missing"], parts["n_ids"])
        return cls(storage=storage, missing_codes=codes, missing_ids=ids, **parts)

    @property
    def n_missing_ids(self) -> int:
        """Number of the ids of missing values that training data may list."""
        return int((self.has_missing & (self.missing_ids >= 0)).sum())

    @property
    def n_all_ids(self) -> int:
        """Number of the ids of values and of missing values."""
        return self.n_ids + int((self.missing_ids >= 0).sum())


@dataclass(frozen=True)
class EncodedSequences:
    """Encoded positions of some sequences.

    ``row_of_position`` gives the row of each position. Row r lists the ids
    ``list_ids[list_starts[r] : list_starts[r + 1]]``, ascending, all below ``n_ids``.
    ``has_missing`` tells the columns of which values are missing here.
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

    @property
    def rows_from_first(self) -> np.ndarray:
        """Row of each position, counted from the first that a position has."""
        return self.row_of_position - self.row_of_position[:1]

    def postings(self) -> tuple[np.ndarray, np.ndarray]:
        """Turn the lists around: starts of the ids, and the rows that list each, ascending."""
        rows = np.repeat(np.arange(len(self.list_starts) - 1), np.diff(self.list_starts))
        starts = np.cumsum(np.bincount(self.list_ids, minlength=self.n_ids))
        by_id = rows[np.argsort(self.list_ids, kind="stable")]
        return np.append(0, starts), by_id.astype(np.int32)

    def depth_of(self, order: int) -> np.ndarray:
        """Number of labels before each position, at most ``order``; uint8."""
        return np.minimum(places_in_sequences(self.offsets), order).astype(np.uint8)


class Encoder:
    """Learns the columns of some sequences and encodes these and others.

    Parameters
    ----------
    window : (int, int)
        Number of positions to the left and to the right that tests may look at.
    max_bins : int
        Most bins of a number, 2 to 255.
    missing : {"weighting", "surrogate", "impute", "indicator"}
        What happens to missing values. The first two leave it to the trees.
    """

    columns: Columns
    plan: Plan
    form: str
    names: tuple[str, ...] | None
    filling: Imputation | None

    # Number of trailing columns derived in training; their tests read the current position only.
    n_derived = 0

    def __init__(self, window: tuple[int, int], max_bins: int = 255, missing: str = METHODS[0]):
        self.window = window
        self.max_bins = max_bins
        self.missing = missing

    def fit(self, sequences: Sequences, rng: np.random.Generator) -> Encoder:
        """Learn categories, thresholds and where to store each column."""
        self.form = "symbols" if sequences.form == "symbols" or sequences.of_symbols else "table"
        self.names = sequences.names
        self.filling = None
        if self.missing in FILLED:
            self.filling, sequences = learn_filling(sequences, self.missing)
        learned = learn_columns(sequences, self.max_bins, rng)
        self.columns = learned.columns
        self.plan = self._make_plan(learned, sequences.form == "sparse")
        return self

    def restore(
        self,
        form: str,
        names: tuple[str, ...] | None,
        columns: Columns,
        plan: Plan,
        filling: Imputation | None,
    ) -> Encoder:
        """Take over what an earlier encoder has learned."""
        self.form, self.names, self.columns, self.plan = form, names, columns, plan
        self.filling = filling
        return self

    @property
    def n_features(self) -> int:
        """Number of columns of the input."""
        return len(self.columns) if self.filling is None else len(self.filling.values)

    def by_feature(self, gains: np.ndarray) -> np.ndarray:
        """Sums over the columns that come from the same column of the input."""
        if self.filling is None:
            return gains
        return np.bincount(self.filling.sources, weights=gains, minlength=self.n_features)

    def _make_plan(self, learned: ColumnStatistics, is_sparse: bool) -> Plan:
        columns, has_missing = self.columns, learned.has_missing
        used = columns.n_tests > 0
        in_codes = used & (self._fit_codes() | self._need_codes(has_missing, is_sparse))
        in_bits = used & columns.is_single & (learned.shares >= SPARSE_SHARE) & ~in_codes
        in_lists = used & ~in_bits & ~in_codes
        storage = np.select([in_codes, in_bits, in_lists], [CODES, BITS, LISTS], NOWHERE)
        zeros = np.where(in_lists, columns.n_negative(), 0)
        n_ids = columns.n_tests + (columns.is_number & ~(columns.is_single & (zeros == 0)))
        # Categories first: bin 0 of the first code column is the boundary test.
        coded = np.flatnonzero(in_codes)
        coded = coded[np.argsort(~columns.is_category[coded], kind="stable")]
        n_codes = (columns.n_tests + 1 + (columns.is_category | has_missing))[coded]
        if self.has_boundary_code():
            n_codes = np.append(2, n_codes)
        slots = np.zeros(len(columns), dtype=np.int32)
        slots[coded] = np.arange(len(n_codes) - len(coded), len(n_codes))
        slots[in_bits] = np.arange(in_bits.sum())
        slots[in_lists] = np.cumsum(n_ids[in_lists]) - n_ids[in_lists]
        return Plan.of(
            columns,
            storage=storage.astype(np.int8),
            slots=slots,
            first_codes=(in_codes & columns.is_category).astype(np.int32),
            zeros=zeros.astype(np.int32),
            has_missing=used & has_missing,
            n_codes=n_codes,
            n_bits=int(in_bits.sum()),
            n_ids=int(n_ids[in_lists].sum()),
        )

    def _need_codes(self, has_missing: np.ndarray, is_sparse: bool) -> np.ndarray:
        """Which columns of dense tables have more to tell than a bit can."""
        columns = self.columns
        if is_sparse:
            return np.zeros(len(columns), dtype=bool)
        return ~columns.is_category & (~columns.is_single | has_missing)

    def _fit_codes(self) -> np.ndarray:
        """Which columns are categories with so few values that a byte tells them apart."""
        n_tests = self.columns.n_tests
        return self.columns.is_category & (n_tests > 0) & (n_tests <= MAX_CODES)

    def has_boundary_code(self) -> bool:
        """Whether a code column of its own tells the boundary.

        The code of symbols does, for none is ever absent.
        """
        of_symbols = self.form == "symbols" and self.filling is None and self._fit_codes().any()
        return any(self.window) and not of_symbols

    @property
    def trained_on(self) -> Trained:
        """What sequences must be like to be encoded."""
        columns, n = self.columns, self.n_features
        of_input = {j: values for j, values in columns.categories.items() if j < n}
        return Trained(self.form, n, self.names, columns.kinds[:n], of_input)

    def prepared(self, sequences: Sequences) -> Sequences | ImputedSequences:
        """Sequences of the columns that are encoded, with the codes of the model's categories."""
        sequences = sequences.for_model(self.trained_on)
        return sequences if self.filling is None else ImputedSequences(sequences, self.filling)

    def encode(self, sequences: Sequences) -> EncodedSequences:
        """Encode sequences; an unseen symbol or category counts as missing."""
        sequences = self.prepared(sequences)
        gap = max(self.window)
        rows = _rows_of_positions(sequences.offsets, self.window[0], gap)
        n_rows = sequences.n_positions + gap * (sequences.n_sequences - 1) + sum(self.window)
        codes = np.zeros((n_rows, len(self.plan.n_codes)), dtype=np.uint8)
        bits = np.zeros((n_rows, -(-self.plan.n_bits // 8)), dtype=np.uint8)
        if self.has_boundary_code():
            codes[rows, 0] = 1
        lists = []
        for start, stop, piece in sequences.pieces():
            self._encode_piece(piece, rows[start:stop], codes, bits, lists)
        starts, ids = _join_lists(lists, n_rows)
        missing = self._find_missing(codes, ids)
        n_ids = self.plan.n_all_ids
        return EncodedSequences(rows, sequences.offsets, codes, bits, starts, ids, n_ids, missing)

    def _find_missing(self, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Which columns have missing values among encoded ones."""
        plan = self.plan
        found = np.zeros(len(self.columns), dtype=bool)
        for j in np.flatnonzero(plan.storage == CODES):
            found[j] = (codes[:, plan.slots[j]] == plan.missing_codes[j]).any()
        of_id = np.flatnonzero(plan.missing_ids >= 0)
        of_id = of_id[np.argsort(plan.missing_ids[of_id])]
        found[of_id[np.unique(ids[ids >= plan.n_ids]) - plan.n_ids]] = True
        return found

    def _encode_piece(
        self, piece: Any, rows: np.ndarray, codes: np.ndarray, bits: np.ndarray, lists: list
    ) -> None:
        if piece.ndim == 1:
            self._encode_symbols(piece, rows, codes, lists)
        elif sparse.issparse(piece):
            self._encode_sparse(piece, rows, codes, bits, lists)
        else:
            self._encode_dense(piece, rows, codes, bits, lists)

    def _encode_symbols(
        self, piece: np.ndarray, rows: np.ndarray, codes: np.ndarray, lists: list
    ) -> None:
        symbols = self.columns[0].values
        places = Vocabulary(symbols).codes(piece)
        if self.plan.storage[0] == CODES:
            codes[rows, 0] = places + 1
        else:
            known = places < len(symbols)
            lists.append((rows, np.where(known, places, self.plan.missing_ids[0]).astype(np.int32)))

    def _encode_dense(
        self, piece: np.ndarray, rows: np.ndarray, codes: np.ndarray, bits: np.ndarray, lists: list
    ) -> None:
        plan = self.plan
        for j in np.flatnonzero(plan.storage == CODES):
            codes[rows, plan.slots[j]] = self._codes_of(j, piece[:, j])
        thresholds = self.columns.only_thresholds()
        in_bits = np.flatnonzero(plan.storage == BITS)
        if len(in_bits):
            values = piece[:, in_bits]
            # A model of numbers may be given booleans.
            is_bool = piece.dtype.kind == "b" and not self.columns.is_number[in_bits].any()
            passed = values if is_bool else values > thresholds[in_bits]
            bits[rows] = np.packbits(passed, axis=1, bitorder="little")
            self._list_missing(values, in_bits, rows, lists)
        in_lists = np.flatnonzero(plan.storage == LISTS)
        if len(in_lists):
            values = piece[:, in_lists]
            where, which = np.nonzero(self._is_listed(values, in_lists))
            self._list_values(values[where, which], in_lists[which], rows[where], lists)
            self._list_missing(values, in_lists, rows, lists)

    def _codes_of(self, j: int, values: np.ndarray) -> np.ndarray:
        """Codes of a column's values: places of categories, truth of booleans, bins of numbers."""
        if self.columns.is_category[j]:
            codes = values
        elif self.columns.is_number[j]:
            codes = np.searchsorted(self.columns[j].values, values, side="left")
        else:
            codes = values > 0
        if values.dtype.kind == "f":
            codes = np.where(np.isnan(values), self.plan.missing_codes[j], codes)
        return codes.astype(np.uint8)

    def _is_listed(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Whether values pass the only test, or else differ from 0 (categories, most numbers)."""
        single = self.has_one_id()[columns]
        listed = np.where(single, values > self.columns.only_thresholds()[columns], values != 0)
        return listed & ~np.isnan(values) if values.dtype.kind == "f" else listed

    def _list_values(
        self, values: np.ndarray, columns: np.ndarray, rows: np.ndarray, lists: list
    ) -> None:
        """List values by their ids: one a column with a single test, else one a bin or category."""
        ids = self.plan.slots[columns]
        is_category = self.columns.is_category[columns]
        ids[is_category] += values[is_category].astype(np.int32) - 1
        several = ~self.has_one_id()[columns] & ~is_category
        ids[several] += self.columns.bins_of(columns[several], values[several])
        lists.append((rows, ids))

    def _list_missing(
        self, values: np.ndarray, columns: np.ndarray, rows: np.ndarray, lists: list
    ) -> None:
        """List the missing values of a dense piece."""
        if values.dtype.kind == "f":
            where, which = np.nonzero(np.isnan(values))
            lists.append((rows[where], self.plan.missing_ids[columns[which]]))

    def _encode_sparse(
        self, piece: Any, rows: np.ndarray, codes: np.ndarray, bits: np.ndarray, lists: list
    ) -> None:
        plan = self.plan
        dense = np.flatnonzero(plan.storage < LISTS)
        for some in np.array_split(dense, max(1, piece.shape[0] * len(dense) >> 22)):
            if len(some):
                self._encode_some_dense(piece[:, some].toarray(), some, rows, codes, bits)
        entries = piece.tocoo()
        values, columns, rows = entries.data, entries.col, rows[entries.row]
        listed = (plan.storage[columns] == LISTS) & self._is_listed(values, columns)
        self._list_values(values[listed], columns[listed], rows[listed], lists)
        if values.dtype.kind == "f":
            missing = np.isnan(values) & (plan.missing_ids[columns] >= 0)
            lists.append((rows[missing], plan.missing_ids[columns[missing]]))

    def _encode_some_dense(
        self,
        values: np.ndarray,
        columns: np.ndarray,
        rows: np.ndarray,
        codes: np.ndarray,
        bits: np.ndarray,
    ) -> None:
        """Codes and bits of a few columns of a sparse matrix."""
        thresholds = self.columns.only_thresholds()
        for k, j in enumerate(columns):
            slot = self.plan.slots[j]
            if self.plan.storage[j] == CODES:
                codes[rows, slot] = self._codes_of(j, values[:, k])
            else:
                passed = values[:, k] > thresholds[j]
                bits[rows, slot >> 3] |= passed.astype(np.uint8) << np.uint8(slot & 7)

    def has_one_id(self) -> np.ndarray:
        """Which columns have one id in a list: those whose only test is false at 0."""
        return self.columns.is_single & (self.plan.zeros == 0)

    def storage_of(
        self, columns: np.ndarray, values: np.ndarray, plan: Plan | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Where to look for the answer to tests: kinds, slots, lows and highs (int32 arrays)."""
        plan, real, outside = plan or self.plan, np.maximum(columns, 0), columns == BOUNDARY
        is_number, is_category = self.columns.is_number[real], self.columns.is_category[real]
        storage = np.where(outside, CODES, plan.storage[real])
        slots, zeros = np.where(outside, 0, plan.slots[real]), plan.zeros[real]
        above = ~is_category & ~outside & (plan.first_codes[real] == 0)
        codes = np.where(outside, 0, plan.first_codes[real] + values)
        # Numbers in lists: ids below 0's bin say yes to `x <= threshold`, those above to the rest.
        ids, below = plan.slots[real] + values, values < zeros
        ends = plan.slots[real] + self.columns.n_tests[real] + 1
        one_id = self.has_one_id()[real] | ~is_number
        lows = np.where(one_id, ids, np.where(below, plan.slots[real], ids + 1))
        highs = np.where(one_id | below, ids + 1, ends)
        kinds = np.choose(storage, [np.where(above, CODE_ABOVE, CODE_EQUAL), BIT, LISTED, LISTED])
        lows = np.choose(storage, [codes, slots & 7, lows, lows])
        slots = np.choose(storage, [slots, slots >> 3, 0, 0])
        return tuple(a.astype(np.int32) for a in (kinds, slots, lows, highs))


def _rows_of_positions(offsets: np.ndarray, left: int, gap: int) -> np.ndarray:
    lengths = np.diff(offsets)
    shifts = np.repeat(left + gap * np.arange(len(lengths)), lengths)
    rows = np.arange(offsets[-1]) + shifts
    if len(rows) and rows[-1] > np.iinfo(np.int32).max - gap:
        raise ValueError(f"{len(rows)} positions are more than 2**31 rows can hold")
    return rows.astype(np.int32)


def _missing_ids(in_need: np.ndarray, has_missing: np.ndarray, first: int) -> np.ndarray:
    """Ids from ``first`` on, those of columns with missing values before the others."""
    ids = np.full(len(in_need), -1, dtype=np.int32)
    columns = np.flatnonzero(in_need)
    columns = columns[np.argsort(~has_missing[columns], kind="stable")]
    ids[columns] = first + np.arange(len(columns))
    return ids


def _join_lists(lists: list, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Row starts and ascending ids, from (rows, ids) in any order."""
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    if not lists:
        return starts, np.zeros(0, dtype=np.int32)
    rows = np.concatenate([rows for rows, _ in lists])
    np.cumsum(np.bincount(rows, minlength=n_rows), out=starts[1:])
    pairs = rows.astype(np.int64) << 32 | np.concatenate([ids for _, ids in lists])
    pairs.sort()
    return starts, (pairs & 0xFFFFFFFF).astype(np.int32)
