"""The window tests of trees, numbered by the bins of histograms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.encoding.column_layout import (
    BITS,
    BOUNDARY,
    CODES,
    LISTS,
    MISSING,
    ColumnLayout,
    missing_values,
)
from treecrf.encoding.encoder import Encoder

# How the tests of a run of bins follow from the bins; `_tests.pxd` has the same numbers.
EACH = 0  # test b: the value is in bin b
SUFFIX = 1  # test b: the value is in a bin above b
PREFIX = 2  # test b: the value is in bin b or below

# Maximum number of joint bins of a pair of codes, and of all pairs. A joint bin has 16 bytes: one
# pair fills half of a first-level cache of 32 kB, and all pairs together stay in the second level.
MAX_PAIR_BINS = 1024
MAX_JOINT_BINS = 8192

# Column of bins without a test, an index below those of all columns.
NO_TEST = BOUNDARY - 1


@dataclass(frozen=True)
class TestTable:
    """The window tests, each numbered by its bin in a histogram.

    The bins of all code columns at all offsets come first (offsets outermost; derived columns have
    bins at offset 0 only), then those of the bits, then those of the lists. Runs are ranges of bins
    whose tests follow from the bins in the same way; bins outside the runs belong to no test.
    """

    __test__ = False  # pytest must not collect it as a test case

    n_bins: int  # of a histogram
    n_features: int  # pairs of a column and an offset that have bins
    has_missing: bool  # whether the training data have missing values
    left: int  # number of rows of the window before the position
    width: int  # number of rows of the window
    code_bins: np.ndarray  # first bin of each code at each offset
    bit_bins: np.ndarray  # first bin of each byte of bits at each offset
    list_bins: np.ndarray  # first bin of the lists at each offset, and the number of bins
    # Runs of bins.
    run_starts: np.ndarray  # first bin of each run
    run_ends: np.ndarray  # end of the bins that are tests; a SUFFIX run has one bin more
    run_kinds: np.ndarray  # uint8; EACH, SUFFIX or PREFIX
    run_missing: np.ndarray  # bin of rows that lack the run's value; -1 if there are none
    run_features: np.ndarray  # -1 for runs of several features, or of none
    # Features, in the order of their bins.
    feature_starts: np.ndarray  # first bin of each feature, and the number of bins
    feature_columns: np.ndarray  # column of each feature
    # A column, an offset and a value define the test of a bin. "The value is missing" is also a
    # test; for listed columns, its bin lies outside the feature's bins.
    columns: np.ndarray  # `NO_TEST` for bins without a test
    offsets: np.ndarray
    values: np.ndarray
    # How the test of a bin is evaluated, see `treecrf.encoding.column_layout.ColumnLayout.lookups`.
    kinds: np.ndarray  # uint8; how the value is stored, and how it is compared
    slots: np.ndarray  # index of the stored column
    lows: np.ndarray  # the code or bit to compare with, or the first of the ids to look for
    highs: np.ndarray  # end of these ids
    # Code of a missing value, or its listed id if the column is not in codes; -1 if training data
    # have none.
    missing: np.ndarray

    @cached_property
    def pairs(self) -> Pairs:
        """Adjacent codes of the window that are counted together, in joint histograms."""
        end_of_codes = np.append(self.bit_bins, self.list_bins)[0]
        sizes = np.diff(self.code_bins, append=end_of_codes).tolist()
        firsts = []
        unpaired = []
        bins = [0]
        code = 0
        while code < len(sizes):
            joint = sizes[code] * sizes[code + 1] if code + 1 < len(sizes) else 0
            if 0 < joint <= MAX_PAIR_BINS and bins[-1] + joint <= MAX_JOINT_BINS:
                firsts.append(code)
                bins.append(bins[-1] + joint)
                code += 2
            else:
                if sizes[code]:
                    unpaired.append(code)
                code += 1
        widths = [sizes[first + 1] for first in firsts]
        return Pairs(
            firsts=np.array(firsts, dtype=np.int64),
            widths=np.array(widths, dtype=np.int64),
            bins=np.array(bins, dtype=np.int64),
            unpaired=np.array(unpaired, dtype=np.int64),
        )

    @cached_property
    def bin_groups(self) -> BinGroups:
        """Bins that a histogram has together or not at all."""
        pairs = self.pairs
        first_list = self.list_bins[0]
        codes = np.sort(np.append(pairs.firsts, pairs.unpaired))
        pair_numbers = np.searchsorted(pairs.firsts, codes)
        pair_numbers = np.where(np.isin(codes, pairs.firsts), pair_numbers, -1)
        features = self.feature_starts[:-1]
        # A column may have no other test than that a value is missing.
        missing = np.union1d(self.run_missing, np.flatnonzero(self.values == MISSING))
        missing = missing[missing >= first_list]
        listed = np.unique(np.append(features[features >= first_list], missing))
        bin_features = np.repeat(np.arange(len(features)), np.diff(self.feature_starts))
        bin_features[missing] = len(features)
        starts = np.concatenate([self.code_bins[codes], self.bit_bins, listed]).astype(np.int64)
        feature_groups = np.searchsorted(starts, features, side="right") - 1
        return BinGroups(
            starts=starts,
            feature_groups=feature_groups.astype(np.int32),
            bin_features=bin_features.astype(np.int32),
            missing_groups=np.searchsorted(starts, missing).astype(np.int32),
            codes=codes,
            pairs=pair_numbers.astype(np.int32),
        )


@dataclass(frozen=True)
class Pairs:
    """Pairs of adjacent codes of the window."""

    firsts: np.ndarray  # int64; first code of each pair, counted through the window
    widths: np.ndarray  # int64; number of bins of the second code
    bins: np.ndarray  # int64; first joint bin of each pair, and the number of all
    unpaired: np.ndarray  # int64; the other codes


@dataclass(frozen=True)
class BinGroups:
    """Groups of neighboring bins that a histogram has together or not at all, ascending.

    A group has the bins of a code or of a pair of codes, of a byte of bits, of a feature in lists,
    or of a listed missing value. The groups of codes come first.
    """

    starts: np.ndarray  # int64; first bin of each group
    feature_groups: np.ndarray  # int32; group with the bins of each feature
    bin_features: np.ndarray  # int32; feature of each bin, n_features for missing values in lists
    missing_groups: np.ndarray  # int32; groups of missing values
    codes: np.ndarray  # int64; first code of each group of codes
    pairs: np.ndarray  # int32; pair of each group of codes, -1 for a single code


def joint_codes(codes: np.ndarray, firsts: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Join each code that begins a pair with the next one; see `TestTable.pairs`.

    Joint bins are uint16, counted from the first one of the pair, and the same at all offsets.
    Without pairs there are none.
    """
    joint = np.zeros(codes.size if len(firsts) else 0, dtype=np.uint16)
    flat = codes.ravel()
    n_columns = codes.shape[1]
    for column, width in set(zip((firsts % n_columns).tolist(), widths.tolist(), strict=True)):
        seconds = flat[column + 1 :: n_columns]
        codes_before = flat[column::n_columns][: len(seconds)].astype(np.uint16)
        pairs = codes_before * np.uint16(width) + seconds
        joint[column::n_columns][: len(seconds)] = pairs
    return joint


def number_tests(encoder: Encoder, layout: ColumnLayout | None = None) -> TestTable:
    """Number all tests at all offsets of the encoder's window, for columns stored by a layout."""
    numbering = Numbering(encoder, layout or encoder.layout)
    left, right = encoder.window
    offsets = range(-left, right + 1)
    code_bins = [numbering.add_codes(offset) for offset in offsets]
    bit_bins = numbering.add_bits(offsets)
    list_bins = [numbering.add_lists(offset) for offset in offsets]
    n_bins = numbering.n_bins
    run_starts, run_ends, run_kinds, run_missing, run_features = numbering.merged_runs()
    feature_starts, feature_columns = np.hstack(numbering.features)
    return TestTable(
        n_bins=n_bins,
        n_features=len(feature_starts),
        has_missing=bool((run_missing >= 0).any()),
        left=left,
        width=len(offsets),
        code_bins=np.concatenate(code_bins),
        bit_bins=np.concatenate(bit_bins),
        list_bins=np.array([*list_bins, n_bins]),
        run_starts=run_starts,
        run_ends=run_ends,
        run_kinds=run_kinds.astype(np.uint8),
        run_missing=run_missing,
        run_features=np.searchsorted(feature_starts, run_features, side="right") - 1,
        feature_starts=np.append(feature_starts, n_bins),
        feature_columns=feature_columns,
        **numbering.tests_by_bin(),
    )


class Numbering:
    """The tests that have been numbered so far: those of the bins from 0 to ``n_bins - 1``."""

    def __init__(self, encoder: Encoder, layout: ColumnLayout):
        self.encoder = encoder
        self.layout = layout
        self.n_bins = 0
        # Arrays (4, n_tests): bin, column, offset and value of each test.
        self.tests: list[np.ndarray] = []
        # Arrays (5, n_runs): start and end of each run, its kind, the bin of rows that lack its
        # value (or -1), and the first bin of its feature (-1 for a run that may be joined with the
        # next one).
        self.runs: list[np.ndarray] = []
        # Arrays (2, n_features): first bin and column of each feature.
        self.features: list[np.ndarray] = []
        # Code or id that stands for the missing values of each column in the training data; -1 if
        # they have none.
        codes_or_ids = missing_values(layout, np.arange(len(layout.storage)), 0)
        self.missing = np.where(layout.has_missing, codes_or_ids, -1)
        self.n_bytes = -(-layout.n_bits // 8)
        self.n_ids = layout.n_ids + layout.n_missing_ids

    def add_codes(self, offset: int) -> np.ndarray:
        """Number the tests of codes at an offset; return the first bin of each code."""
        columns = self._columns_in(CODES)
        n_codes = self.layout.n_codes
        if offset != 0 and self.encoder.n_derived:
            # Columns derived in training have bins at offset 0 only.
            is_derived = columns >= self.encoder.n_own_columns
            n_codes = n_codes.copy()
            n_codes[self.layout.slots[columns[is_derived]]] = 0
            columns = columns[~is_derived]
        starts = self.n_bins + np.cumsum(n_codes) - n_codes
        if offset != 0:
            self._add_boundary(offset, starts[0])
        slots = self.layout.slots[columns]
        first_codes = self.layout.first_codes[columns]
        first_bins = starts[slots] + first_codes
        kinds = np.where(first_codes, EACH, SUFFIX)
        self._add_tests(offset, columns, first_bins, kinds, starts[slots])
        # Of the columns that share a code, the first feature begins with the code's bins. The code
        # of boundaries may have no column.
        is_first = np.diff(slots, prepend=-1) > 0
        feature_starts = np.where(is_first, starts[slots], first_bins)
        if len(n_codes) and n_codes[0] and 0 not in slots:
            feature_starts = np.append(starts[0], feature_starts)
            columns = np.append(BOUNDARY, columns)
        self.features.append(np.stack([feature_starts, columns]))
        self.n_bins += int(n_codes.sum())
        return starts

    def add_bits(self, offsets: range) -> list[np.ndarray]:
        """Number the tests of bits; return the first bin of each byte at each offset."""
        columns = self._columns_in(BITS)
        bit_bins = []
        # Missing values of bits are ids in lists, whose bins follow those of all bits.
        first_id = self.n_bins + 8 * self.n_bytes * len(offsets)
        for offset in offsets:
            if len(columns):
                first_bins = self.n_bins + np.arange(len(columns))
                kinds = np.full(len(columns), EACH)
                self._add_tests(offset, columns, first_bins, kinds, first_id)
                self.features.append(np.stack([first_bins, columns]))
            bit_bins.append(self.n_bins + 8 * np.arange(self.n_bytes))
            self.n_bins += 8 * self.n_bytes
            first_id += self.n_ids
        return bit_bins

    def add_lists(self, offset: int) -> int:
        """Number the tests of listed ids at an offset; return the first bin."""
        columns = self._columns_in(LISTS)
        first_id = self.n_bins
        if len(columns):
            first_bins = first_id + self.layout.slots[columns].astype(np.int64)
            is_each = (self.layout.has_one_id | self.encoder.columns.is_category)[columns]
            kinds = np.where(is_each, EACH, SUFFIX)
            self._add_tests(offset, columns, first_bins, kinds, first_id)
            self.features.append(np.stack([first_bins, columns]))
        self.n_bins += self.n_ids
        return first_id

    def _columns_in(self, storage: int) -> np.ndarray:
        """Return the columns that are stored in one way, by slot and first code."""
        columns = np.flatnonzero(self.layout.storage == storage)
        return columns[np.lexsort((self.layout.first_codes[columns], self.layout.slots[columns]))]

    def _add_boundary(self, offset: int, b: int) -> None:
        """Add the test of whether the sequence has ended, in bin b."""
        self.tests.append(np.array([[b], [BOUNDARY], [offset], [0]]))
        self.runs.append(np.array([[b], [b + 1], [EACH], [-1], [-1]]))

    def _add_tests(
        self,
        offset: int,
        columns: np.ndarray,
        first_bins: np.ndarray,
        kinds: np.ndarray,
        first_missing: np.ndarray | int,
    ) -> None:
        """Add the tests of columns at an offset, and their runs.

        There is one test for each bin from the column's first bin on. The codes or ids of missing
        values have bins from ``first_missing`` on; each may be a test as well.
        """
        n_tests = self.encoder.columns.n_tests[columns]
        values = np.arange(n_tests.sum()) - np.repeat(np.cumsum(n_tests) - n_tests, n_tests)
        bins = np.repeat(first_bins, n_tests) + values
        offsets = np.full(len(values), offset)
        self.tests.append(np.stack([bins, np.repeat(columns, n_tests), offsets, values]))
        missing = self.missing[columns]
        missing = np.where(missing >= 0, first_missing + missing, -1)
        # The tests of a number in a list point away from 0.
        zeros = first_bins + self.layout.zeros[columns]
        features = np.where(kinds == EACH, -1, first_bins)
        below = np.stack([first_bins, zeros, np.full_like(first_bins, PREFIX), missing, first_bins])
        above = np.stack([zeros, first_bins + n_tests, kinds, missing, features])
        runs = np.stack([below, above], axis=2).reshape(5, -1)
        self.runs.append(runs[:, runs[0] < runs[1]])
        if self.encoder.tests_missing:
            has_missing = missing >= 0
            self._add_missing(
                offset, columns[has_missing], missing[has_missing], first_bins[has_missing]
            )

    def _add_missing(
        self, offset: int, columns: np.ndarray, bins: np.ndarray, features: np.ndarray
    ) -> None:
        """Add the tests of whether values are missing."""
        offsets = np.full(len(bins), offset)
        self.tests.append(np.stack([bins, columns, offsets, np.full_like(bins, MISSING)]))
        kinds = np.full_like(bins, EACH)
        never = np.full(len(bins), -1)
        self.runs.append(np.stack([bins, bins + 1, kinds, never, features]))

    def merged_runs(self) -> np.ndarray:
        """Join adjacent runs in which every bin is a separate test and no value is missing."""
        starts, ends, kinds, missing, features = np.hstack(self.runs)
        is_simple = (kinds == EACH) & (missing < 0) & (features < 0)
        is_joined = is_simple[1:] & is_simple[:-1] & (starts[1:] == ends[:-1])
        first = np.append(True, ~is_joined)[: len(kinds)]
        last = np.append(~is_joined, True)[: len(kinds)]
        return np.stack([starts[first], ends[last], kinds[first], missing[first], features[first]])

    def tests_by_bin(self) -> dict[str, np.ndarray]:
        """Describe the test of each bin, in arrays that are fields of `TestTable`."""
        bins, columns, offsets, values = np.hstack(self.tests).astype(np.int32)
        kinds, slots, lows, highs = self.layout.lookups(self.encoder.columns, columns, values)
        may_lack = (columns >= 0) & (values != MISSING)
        fields = {
            "columns": columns,
            "offsets": offsets,
            "values": values,
            "kinds": kinds,
            "slots": slots,
            "lows": lows,
            "highs": highs,
            "missing": np.where(may_lack, self.missing[columns], -1),
        }
        by_bin = {}
        for name, values_of_tests in fields.items():
            by_bin[name] = np.full(self.n_bins, NO_TEST, dtype=np.int32)
            by_bin[name][bins] = values_of_tests
        return by_bin | {"kinds": by_bin["kinds"].astype(np.uint8)}
