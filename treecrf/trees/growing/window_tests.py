"""The window tests of trees, numbered by the bins of histograms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import BITS, BOUNDARY, CODES, LISTS, Plan

# How the tests of a run of bins follow from the bins; `_tests.pxd` has the same numbers.
EACH, SUFFIX, PREFIX = 0, 1, 2

# Joint histograms of two codes must stay in the nearest caches.
MAX_PAIR_BINS = 1024
MAX_JOINT_BINS = 8192


@dataclass(frozen=True)
class TestTable:
    """The window tests, each numbered by its bin in a histogram.

    The bins of all code columns at all offsets come first (offsets outermost; derived columns have
    bins at offset 0 only), then those of the bits, then those of the lists. Runs are ranges of bins
    whose tests follow from the bins in the same way; bins outside the runs belong to no test.
    """

    __test__ = False  # pytest must not collect it as a test case

    left: int
    width: int
    code_bins: np.ndarray
    bit_bins: np.ndarray
    list_bins: np.ndarray
    run_starts: np.ndarray
    run_ends: np.ndarray
    run_kinds: np.ndarray
    run_missing: np.ndarray  # bin of rows that lack the run's value; -1 if there are none
    feature_starts: np.ndarray
    # A column, an offset and a value define a test.
    columns: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    # How a test is evaluated.
    kinds: np.ndarray
    slots: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    # Code of a missing value, or its listed id if the column is not in codes; -1 if training data
    # have none.
    missing: np.ndarray

    @property
    def n_bins(self) -> int:
        """Number of bins of a histogram."""
        return len(self.kinds)

    @property
    def has_missing(self) -> bool:
        """Whether the training data have missing values."""
        return bool((self.run_missing >= 0).any())

    @property
    def n_features(self) -> int:
        """Number of pairs of a column and an offset that have bins."""
        return len(self.feature_starts) - 1

    @cached_property
    def pairs(self) -> Pairs:
        """Adjacent codes that are counted together."""
        return pair_codes(self)

    @cached_property
    def units(self) -> Units:
        """Bins that a histogram has together or not at all."""
        return join_units(self)


@dataclass(frozen=True)
class Pairs:
    """Pairs of adjacent codes of the window."""

    firsts: np.ndarray  # int64; first code of each pair, counted through the window
    widths: np.ndarray  # int64; number of bins of the second code
    bins: np.ndarray  # int64; first joint bin of each pair, and the number of all
    unpaired: np.ndarray  # int64; the other codes


@dataclass(frozen=True)
class Units:
    """Runs of bins that a histogram has together or not at all, ascending.

    A unit has the bins of a code or of a pair of codes, of a byte of bits, of a feature in lists,
    or of a listed missing value. The units of codes come first.
    """

    starts: np.ndarray  # int64; first bin of each unit
    of_features: np.ndarray  # int32; unit with the bins of each feature
    features_of: np.ndarray  # int32; feature of each bin, n_features for missing values in lists
    of_missing: np.ndarray  # int32; units of missing values
    codes: np.ndarray  # int64; first code of each unit of codes
    pairs: np.ndarray  # int32; pair of each unit of codes, -1 for a single code


def number_tests(encoder: Encoder, plan: Plan | None = None) -> TestTable:
    """Number all tests at all offsets of the encoder's window, with columns stored by the plan."""
    return _TableBuilder(encoder, plan or encoder.plan).build()


def missing_values(plan: Plan, columns: np.ndarray) -> np.ndarray:
    """Return the code of a missing value in each column, or its listed id; -1 if it has none."""
    real, outside = np.maximum(columns, 0), columns == BOUNDARY
    in_codes = plan.storage[real] == CODES
    values = np.where(in_codes, plan.missing_codes[real], plan.missing_ids[real])
    return np.where(outside, -1, values).astype(np.int32)


def pair_codes(table: TestTable) -> Pairs:
    """Choose adjacent codes of the window to be counted in joint histograms."""
    sizes = _code_sizes(table).tolist()
    firsts, unpaired, bins = [], [], [0]
    j = 0
    while j < len(sizes):
        joint = sizes[j] * sizes[j + 1] if j + 1 < len(sizes) else 0
        if 0 < joint <= MAX_PAIR_BINS and bins[-1] + joint <= MAX_JOINT_BINS:
            firsts.append(j)
            bins.append(bins[-1] + joint)
            j += 2
        else:
            if sizes[j]:
                unpaired.append(j)
            j += 1
    widths = [sizes[j + 1] for j in firsts]
    return Pairs(*(np.array(part, dtype=np.int64) for part in (firsts, widths, bins, unpaired)))


def join_units(table: TestTable) -> Units:
    """Join the bins that a histogram has together."""
    pairs, of_lists = table.pairs, table.list_bins[0]
    codes = np.sort(np.append(pairs.firsts, pairs.unpaired))
    numbers = np.where(np.isin(codes, pairs.firsts), np.searchsorted(pairs.firsts, codes), -1)
    features = table.feature_starts[:-1]
    missing = np.unique(table.run_missing[table.run_missing >= of_lists])
    listed = np.unique(np.append(features[features >= of_lists], missing))
    features_of = np.repeat(np.arange(len(features)), np.diff(table.feature_starts))
    features_of[missing] = len(features)
    starts = np.concatenate([table.code_bins[codes], table.bit_bins, listed]).astype(np.int64)
    return Units(
        starts=starts,
        of_features=(np.searchsorted(starts, features, side="right") - 1).astype(np.int32),
        features_of=features_of.astype(np.int32),
        of_missing=np.searchsorted(starts, missing).astype(np.int32),
        codes=codes,
        pairs=numbers.astype(np.int32),
    )


def joint_codes(codes: np.ndarray, firsts: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Join each code that begins a pair with the next one; see `pair_codes`.

    Joint bins are uint16, counted from the first one of the pair, and the same at all offsets.
    Without pairs there are none.
    """
    joint = np.zeros(codes.size if len(firsts) else 0, dtype=np.uint16)
    flat, n_columns = codes.ravel(), codes.shape[1]
    for column, width in set(zip((firsts % n_columns).tolist(), widths.tolist(), strict=True)):
        seconds = flat[column + 1 :: n_columns]
        codes_before = flat[column::n_columns][: len(seconds)].astype(np.uint16)
        pairs = codes_before * np.uint16(width) + seconds
        joint[column::n_columns][: len(seconds)] = pairs
    return joint


def _code_sizes(table: TestTable) -> np.ndarray:
    """Return the number of bins of each code of the window."""
    end = table.bit_bins[0] if len(table.bit_bins) else table.list_bins[0]
    return np.diff(table.code_bins, append=end)


class _TableBuilder:
    """Builder of a test table: it lays out the bins of a histogram and their tests."""

    def __init__(self, encoder: Encoder, plan: Plan):
        self.encoder = encoder
        self.plan = plan
        self.left, self.right = encoder.window
        self.offsets = range(-self.left, self.right + 1)
        self.runs: list[np.ndarray] = []  # start, end, kind, bin of missing values
        self.tests: list[np.ndarray] = []  # bin, column, offset, value
        self.feature_starts: list[np.ndarray] = []
        self.n_bins = 0

    def build(self) -> TestTable:
        code_bins = [self._add_codes(offset) for offset in self.offsets]
        self.n_code_bins = self.n_bins
        bit_bins = [self._add_bits(offset) for offset in self.offsets]
        list_bins = [self._add_lists(offset) for offset in self.offsets]
        bins, columns, offsets, values = np.hstack(self.tests).astype(np.int32)
        kinds, slots, lows, highs = self.plan.lookups(self.encoder.columns, columns, values)
        run_starts, run_ends, run_kinds, run_missing = _merged(np.hstack(self.runs))
        full = {
            name: _spread(array, bins, self.n_bins)
            for name, array in {
                "columns": columns,
                "offsets": offsets,
                "values": values,
                "slots": slots,
                "lows": lows,
                "highs": highs,
                "missing": self._missing_values(columns),
            }.items()
        }
        return TestTable(
            left=self.left,
            width=len(self.offsets),
            code_bins=np.concatenate(code_bins),
            bit_bins=np.concatenate(bit_bins),
            list_bins=np.array([*list_bins, self.n_bins]),
            run_starts=run_starts,
            run_ends=run_ends,
            run_kinds=run_kinds.astype(np.uint8),
            run_missing=run_missing,
            feature_starts=np.append(np.concatenate(self.feature_starts), self.n_bins),
            kinds=_spread(kinds, bins, self.n_bins).astype(np.uint8),
            **full,
        )

    def _missing_values(self, columns: np.ndarray) -> np.ndarray:
        """Return the codes or ids that stand for the missing values of training data."""
        known = (columns >= 0) & self.plan.has_missing[columns]
        return np.where(known, missing_values(self.plan, columns), -1)

    def _stored(self, storage: int) -> np.ndarray:
        """Return the columns in a storage, by slot."""
        columns = np.flatnonzero(self.plan.storage == storage)
        return columns[np.lexsort((self.plan.first_codes[columns], self.plan.slots[columns]))]

    def _add(
        self,
        offset: int,
        columns: np.ndarray,
        firsts: np.ndarray,
        kinds: np.ndarray,
        missing_from: np.ndarray | int,
    ) -> None:
        """Add the tests of some columns, one for each bin from the column's first bin on.

        The codes or ids of missing values have bins from ``missing_from`` on.
        """
        n_tests = self.encoder.columns.n_tests[columns]
        values = np.arange(n_tests.sum()) - np.repeat(np.cumsum(n_tests) - n_tests, n_tests)
        bins = np.repeat(firsts, n_tests) + values
        of_test = np.repeat(columns, n_tests)
        self.tests.append(np.stack([bins, of_test, np.full_like(bins, offset), values]))
        # The tests of a number in a list point away from 0.
        zeros = firsts + self.plan.zeros[columns]
        missing = self._missing_values(columns)
        missing = np.where(missing >= 0, missing_from + missing, -1)
        below = np.stack([firsts, zeros, np.full_like(firsts, PREFIX), missing])
        above = np.stack([zeros, firsts + n_tests, kinds, missing])
        runs = np.stack([below, above], axis=2).reshape(4, -1)
        self.runs.append(runs[:, runs[0] < runs[1]])

    def _add_codes(self, offset: int) -> np.ndarray:
        columns = self._stored(CODES)
        n_codes = self.plan.n_codes.copy()
        if offset != 0 and self.encoder.n_derived:
            is_derived = columns >= self.encoder.n_own_columns
            n_codes[self.plan.slots[columns[is_derived]]] = 0
            columns = columns[~is_derived]
        starts = self.n_bins + np.cumsum(n_codes) - n_codes
        if offset != 0:
            self.tests.append(np.array([[starts[0]], [BOUNDARY], [offset], [0]]))
            self.runs.append(np.array([[starts[0]], [starts[0] + 1], [EACH], [-1]]))
        slots, first_codes = self.plan.slots[columns], self.plan.first_codes[columns]
        firsts = starts[slots] + first_codes
        self._add(offset, columns, firsts, np.where(first_codes, EACH, SUFFIX), starts[slots])
        # Of the columns that share a code, the first feature begins with the code's bins.
        later = firsts[1:][slots[1:] == slots[:-1]]
        self.feature_starts.append(np.sort(np.append(starts[n_codes > 0], later)))
        self.n_bins += int(n_codes.sum())
        return starts

    def _add_bits(self, offset: int) -> np.ndarray:
        columns = self._stored(BITS)
        starts = self.n_bins + np.arange(len(columns))
        self._add(offset, columns, starts, np.full_like(starts, EACH), self._list_bin(offset))
        self.feature_starts.append(starts)
        n_bytes = -(-self.plan.n_bits // 8)
        byte_starts = self.n_bins + 8 * np.arange(n_bytes)
        self.n_bins += 8 * n_bytes
        return byte_starts

    def _add_lists(self, offset: int) -> int:
        start = self.n_bins
        columns = self._stored(LISTS)
        firsts = start + self.plan.slots[columns].astype(np.int64)
        each = self.plan.has_one_id | self.encoder.columns.is_category
        self._add(offset, columns, firsts, np.where(each[columns], EACH, SUFFIX), start)
        self.feature_starts.append(firsts)
        self.n_bins += self._n_ids()
        return start

    def _n_ids(self) -> int:
        """Return the number of ids that training data list."""
        return self.plan.n_ids + self.plan.n_missing_ids

    def _list_bin(self, offset: int) -> int:
        """Return the first bin of the lists at an offset."""
        n_before = self.n_code_bins + 8 * -(-self.plan.n_bits // 8) * len(self.offsets)
        return n_before + self._n_ids() * (offset + self.left)


def _merged(runs: np.ndarray) -> np.ndarray:
    """Join adjacent runs in which every bin is a separate test and no value is missing."""
    starts, ends, kinds, missing = runs
    simple = (kinds == EACH) & (missing < 0)
    joined = simple[1:] & simple[:-1] & (starts[1:] == ends[:-1])
    first, last = np.append(True, ~joined)[: len(kinds)], np.append(~joined, True)[: len(kinds)]
    return np.stack([starts[first], ends[last], kinds[first], missing[first]])


def _spread(values: np.ndarray, bins: np.ndarray, n_bins: int) -> np.ndarray:
    out = np.full(n_bins, BOUNDARY - 1, dtype=np.int32)
    out[bins] = values
    return out
