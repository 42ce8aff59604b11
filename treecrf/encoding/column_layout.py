"""Storage of the columns, and how tests are evaluated there.

Three kinds of storage hold the columns, row by row:

codes
    One byte per column: the category (1, 2, ...; 0 for no category) or the bin of a number.
bits
    One bit per column with a single test.
lists
    The ids of the values that are present, for sparse columns and for categories with many
    values.

A missing value has a separate code, after the codes of values, or an id in the other two kinds. A
category that did not occur in training is stored as no category. If sequences consist of symbols,
however, 0 marks the boundary rows, and the last code stands for all symbols that are unseen.

Trees grow on sparse input in another storage: columns of which at most one is true at any position,
such as the indicators of a category, share one byte instead of taking a list entry each (exclusive
feature bundling: Ke and others, "LightGBM", 2017). New sequences may violate the exclusion, so
prediction keeps the lists. The tests of a tree have the same meaning in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from treecrf.encoding._codes import look_up
from treecrf.encoding.columns import Columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.utils.model_file import check_counts, require

# Storage of a column.
CODES = 0
BITS = 1
LISTS = 2
NOWHERE = 3
# How a test is evaluated on a row: the code in a slot is the low or above it, bit ``low`` of the
# byte in a slot is set, or an id from the low up to the high, exclusive, is listed. The kernels use
# the same numbers.
CODE_EQUAL = 0
CODE_ABOVE = 1
BIT = 2
LISTED = 3
# The column of boundary tests.
BOUNDARY = -1
# The value of tests of whether a value is missing.
MISSING = -1

# A column that is true at a smaller fraction of the positions is cheaper in lists than in bits.
MIN_BIT_FRACTION = 1 / 8
MAX_CODES = 254
# Maximum numbers of bundles, which have a code column each, and of columns that are tried. The
# fullest columns come first; more would not fill a bundle.
MAX_BUNDLES = 32
MAX_TRIED = 2 * MAX_BUNDLES * MAX_CODES
# A bundle whose code is mostly 0 is slower than the lists.
MIN_FILL = 0.5

ARRAYS = ("storage", "slots", "first_codes", "zeros", "n_codes", "has_missing")


@dataclass(frozen=True)
class ColumnLayout:
    """Where each column is stored in a row; arrays have an item for each column."""

    storage: np.ndarray  # int8; `CODES`, `BITS`, `LISTS` or `NOWHERE`
    slots: np.ndarray  # int32; code column, bit, or first id in the lists
    first_codes: np.ndarray  # int32; code of a column's first value
    zeros: np.ndarray  # int32; for a number in lists the bin of 0: lower ids are negative values
    has_missing: np.ndarray  # bool; whether a value is missing in the training data
    missing_codes: np.ndarray  # int32; code of a missing value, -1 in columns without codes
    # int32; the id of a missing value in lists, -1 in columns that need none. These ids follow the
    # ids of values; the columns in ``has_missing`` come first.
    missing_ids: np.ndarray
    # bool; whether the column has one id in lists: its only test is false at 0.
    has_one_id: np.ndarray
    n_codes: np.ndarray  # number of codes of each code column
    n_bits: int  # number of bits of a row
    n_ids: int  # number of ids of values

    @property
    def unseen_symbol(self) -> int:
        """Code of symbols that did not occur in training, if sequences consist of symbols."""
        # Models of earlier versions have no such code: they treat these symbols as missing.
        return int(self.n_codes[self.slots[0]]) - 1

    @classmethod
    def of(cls, columns: Columns, *, storage: np.ndarray, **parts: Any) -> ColumnLayout:
        """Complete a layout that lacks only the codes and ids of missing values."""
        # A category has spare codes after its values; a number gets one if it needs it.
        codes = np.where(storage == CODES, columns.n_tests + 1, -1).astype(np.int32)
        # Columns with missing values come first.
        ids = np.full(len(storage), -1, dtype=np.int32)
        in_need = np.flatnonzero((storage == BITS) | (storage == LISTS))
        keys = parts["slots"][in_need], storage[in_need], ~parts["has_missing"][in_need]
        in_need = in_need[np.lexsort(keys)]
        ids[in_need] = parts["n_ids"] + np.arange(len(in_need))
        one_id = columns.is_single & (parts["zeros"] == 0)
        return cls(
            storage=storage, missing_codes=codes, missing_ids=ids, has_one_id=one_id, **parts
        )

    @property
    def n_missing_ids(self) -> int:
        """Number of ids of missing values that training data may list."""
        return int((self.has_missing & (self.missing_ids >= 0)).sum())

    @cached_property
    def n_all_ids(self) -> int:
        """Number of ids of values and of missing values."""
        return self.n_ids + int((self.missing_ids >= 0).sum())

    def lookups(
        self, columns: Columns, tested: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Define how tests are evaluated on a row: int32 arrays of kinds, slots, lows and highs.

        ``tested`` holds the column of each test, or `BOUNDARY`; ``values`` the index of its
        category or threshold in this column, or `MISSING`.
        """
        tested = np.ascontiguousarray(tested, dtype=np.int32)
        values = np.ascontiguousarray(values, dtype=np.int32)
        return tuple(look_up(columns, self, tested, values))

    # Saved models

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return {"n_bits": self.n_bits, "n_ids": self.n_ids}, arrays

    @classmethod
    def from_state(
        cls, columns: Columns, values: dict, arrays: dict[str, np.ndarray]
    ) -> ColumnLayout:
        """Restore an object from its `state`."""
        parts = {name: arrays[name] for name in ARRAYS}
        layout = cls.of(columns, **parts, n_bits=values["n_bits"], n_ids=values["n_ids"])
        layout._check(columns)
        return layout

    def _check(self, columns: Columns) -> None:
        shape = (len(columns),)
        require(self.storage.shape == shape and self.storage.dtype == np.int8, "plan")
        for array in (self.slots, self.first_codes, self.zeros):
            require(array.shape == shape and array.dtype == np.int32, "plan")
        require(self.has_missing.shape == shape and self.has_missing.dtype == bool, "plan")
        require(self.n_codes.ndim == 1 and self.n_codes.dtype.kind == "i", "plan")
        require(((self.n_codes >= 0) & (self.n_codes <= 256)).all(), "plan")
        check_counts(self.n_bits, self.n_ids)
        self._check_storage(columns)

    def _check_storage(self, columns: Columns) -> None:
        """Check that each column has a place where its kind of storage has room for it."""
        n_tests = columns.n_tests
        is_category = columns.is_category
        require(np.isin(self.storage, (CODES, BITS, LISTS, NOWHERE)).all(), "plan")
        require((self.slots >= 0).all() and (self.zeros >= 0).all(), "plan")
        coded = self.storage == CODES
        require((self.slots[coded] < len(self.n_codes)).all(), "plan")
        require((n_tests[coded] + 2 <= 256).all(), "plan")
        require((self.first_codes == (coded & is_category)).all(), "plan")
        # No more than needed, because encoded sequences and tables of ids have this size.
        bits = self.storage == BITS
        listed = self.storage == LISTS
        require((self.slots[bits] < self.n_bits).all() and self.n_bits == bits.sum(), "plan")
        n_ids = n_tests + (~is_category & ~self.has_one_id)
        require((self.slots[listed] + n_ids[listed] <= self.n_ids).all(), "plan")
        require(self.n_ids == n_ids[listed].sum(), "plan")


def make_layout(
    columns: Columns,
    fractions: np.ndarray,  # see `treecrf.encoding.columns.learn_columns`
    missing: np.ndarray,  # likewise
    *,
    order: np.ndarray,  # of the columns in their storage
    is_sparse: bool,
    are_symbols: bool,
    has_window: bool,
    tests_missing: bool,
) -> ColumnLayout:
    """Choose the storage of columns."""
    has_missing = missing > 0
    used = ((columns.n_tests > 0) | (has_missing & tests_missing)) & (missing < 1)
    # One more code is for unseen symbols.
    fits_codes = columns.is_category & (columns.n_tests <= MAX_CODES - are_symbols)
    in_codes = used & fits_codes
    if not is_sparse:
        # The columns that are not categories and do not fit into one bit.
        in_codes |= used & ~columns.is_category & (~columns.is_single | has_missing)
    in_bits = used & columns.is_single & (fractions >= MIN_BIT_FRACTION) & ~in_codes
    in_lists = used & ~in_bits & ~in_codes
    storage = np.select([in_codes, in_bits, in_lists], [CODES, BITS, LISTS], NOWHERE)
    # The bin of 0 of numbers in lists, and the number of ids of all columns.
    n_below = np.append(0, np.cumsum(columns.thresholds < 0))[columns.starts]
    zeros = np.where(in_lists, np.diff(n_below), 0)
    n_ids = columns.n_tests + (columns.is_number & ~(columns.is_single & (zeros == 0)))
    # Categories first: code 0 of the first code column is the boundary test.
    coded = order[in_codes[order]]
    coded = coded[np.argsort(~columns.is_category[coded], kind="stable")]
    n_codes = (columns.n_tests + 1 + (columns.is_category | has_missing))[coded] + are_symbols
    if has_window and not (are_symbols and in_codes[0]):
        n_codes = np.append(2, n_codes)
    slots = np.zeros(len(columns), dtype=np.int32)
    slots[coded] = np.arange(len(n_codes) - len(coded), len(n_codes))
    slots[order[in_bits[order]]] = np.arange(in_bits.sum())
    listed = order[in_lists[order]]
    slots[listed] = np.cumsum(n_ids[listed]) - n_ids[listed]
    return ColumnLayout.of(
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


# Bundles


def bundle(
    layout: ColumnLayout, encoded: EncodedSequences
) -> tuple[ColumnLayout, EncodedSequences]:
    """Move exclusive columns without missing values from the lists to codes."""
    columns = np.flatnonzero((layout.storage == LISTS) & layout.has_one_id & ~layout.has_missing)
    if not len(columns):
        return layout, encoded
    columns = columns[np.argsort(layout.slots[columns])]
    starts, postings = encoded.postings()
    counts = np.diff(starts)[layout.slots[columns]]
    fullest = np.argsort(-counts, kind="stable")[:MAX_TRIED]
    columns = columns[fullest[counts[fullest] > 0]]
    rows = [postings[starts[i] : starts[i + 1]] for i in layout.slots[columns]]
    codes, members = _pack(columns, rows, len(encoded.codes))
    are_full = (codes != 0).sum(axis=0) >= MIN_FILL * encoded.n_positions
    useful = [k for k in np.flatnonzero(are_full) if len(members[k]) > 1]
    if not useful:
        return layout, encoded
    return _move(layout, encoded, codes[:, useful], [members[k] for k in useful])


def _pack(
    columns: np.ndarray, rows: list[np.ndarray], n_rows: int
) -> tuple[np.ndarray, list[list[int]]]:
    """Put each column into the first bundle that has no value in its rows."""
    codes = np.zeros((n_rows, MAX_BUNDLES), dtype=np.uint8)
    members: list[list[int]] = [[] for _ in range(MAX_BUNDLES)]
    room = np.ones(MAX_BUNDLES, dtype=bool)
    for j, column_rows in zip(columns.tolist(), rows, strict=True):
        free = np.flatnonzero(room & ~codes[column_rows].any(axis=0))
        if len(free):
            k = int(free[0])
            members[k].append(j)
            codes[column_rows, k] = len(members[k])
            room[k] = len(members[k]) < MAX_CODES
    return codes, members


def _move(
    layout: ColumnLayout, encoded: EncodedSequences, codes: np.ndarray, members: list[list[int]]
) -> tuple[ColumnLayout, EncodedSequences]:
    """Store the members of bundles as codes, and remove them from the lists."""
    storage = layout.storage.copy()
    slots = layout.slots.copy()
    first_codes = layout.first_codes.copy()
    missing_ids = layout.missing_ids.copy()
    listed = np.ones(layout.n_all_ids, dtype=bool)
    for k, bundled in enumerate(members):
        listed[slots[bundled]] = listed[missing_ids[bundled]] = False
        missing_ids[bundled] = -1
        storage[bundled] = CODES
        slots[bundled] = len(layout.n_codes) + k
        first_codes[bundled] = 1 + np.arange(len(bundled))
    new_ids = np.cumsum(listed) - listed
    in_lists = storage == LISTS
    slots[in_lists] = new_ids[slots[in_lists]]
    in_need = missing_ids >= 0
    missing_ids[in_need] = new_ids[missing_ids[in_need]]
    stay = listed[encoded.list_ids]
    n_staying = np.append(0, np.cumsum(stay))
    moved = replace(
        layout,
        storage=storage,
        slots=slots,
        first_codes=first_codes,
        n_codes=np.append(layout.n_codes, [len(bundled) + 1 for bundled in members]),
        missing_ids=missing_ids,
        n_ids=int(listed[: layout.n_ids].sum()),
    )
    return moved, replace(
        encoded,
        codes=np.ascontiguousarray(np.hstack([encoded.codes, codes])),
        list_starts=n_staying[encoded.list_starts],
        list_ids=new_ids[encoded.list_ids[stay]].astype(np.int32),
        n_ids=moved.n_all_ids,
    )


def missing_values(
    layout: ColumnLayout, columns: np.ndarray, values: np.ndarray | int
) -> np.ndarray:
    """Return the code of a value that is missing to each test, or its listed id; -1 for none."""
    is_never_missing = (columns == BOUNDARY) | (values == MISSING)
    real = np.maximum(columns, 0)
    in_codes = layout.storage[real] == CODES
    codes_or_ids = np.where(in_codes, layout.missing_codes[real], layout.missing_ids[real])
    return np.where(is_never_missing, -1, codes_or_ids).astype(np.int32)
