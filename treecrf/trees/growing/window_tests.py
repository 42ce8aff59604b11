"""The window tests of trees, numbered by the bins of histograms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from treecrf.encoding.column_layout import BITS, BOUNDARY, CODES, LISTS, MISSING, ColumnLayout
from treecrf.encoding.encoder import Encoder

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

    n_bins: int  # of a histogram
    n_features: int  # pairs of a column and an offset that have bins
    has_missing: bool  # whether the training data have missing values
    left: int
    width: int
    code_bins: np.ndarray
    bit_bins: np.ndarray
    list_bins: np.ndarray
    run_starts: np.ndarray
    run_ends: np.ndarray
    run_kinds: np.ndarray
    run_missing: np.ndarray  # bin of rows that lack the run's value; -1 if there are none
    run_features: np.ndarray  # -1 for runs of several features, or of none
    feature_starts: np.ndarray
    feature_columns: np.ndarray
    # A column, an offset and a value define a test. A value that is missing is one as well, and in
    # lists its bin is outside of its feature's.
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

    @cached_property
    def pairs(self) -> Pairs:
        """Adjacent codes of the window that are counted together, in joint histograms."""
        sizes = np.diff(self.code_bins, append=np.append(self.bit_bins, self.list_bins)[0]).tolist()
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

    @cached_property
    def units(self) -> Units:
        """Bins that a histogram has together or not at all."""
        pairs, of_lists = self.pairs, self.list_bins[0]
        codes = np.sort(np.append(pairs.firsts, pairs.unpaired))
        numbers = np.where(np.isin(codes, pairs.firsts), np.searchsorted(pairs.firsts, codes), -1)
        features = self.feature_starts[:-1]
        # A column may have no other test than that a value is missing.
        missing = np.union1d(self.run_missing, np.flatnonzero(self.values == MISSING))
        missing = missing[missing >= of_lists]
        listed = np.unique(np.append(features[features >= of_lists], missing))
        features_of = np.repeat(np.arange(len(features)), np.diff(self.feature_starts))
        features_of[missing] = len(features)
        starts = np.concatenate([self.code_bins[codes], self.bit_bins, listed]).astype(np.int64)
        return Units(
            starts=starts,
            of_features=(np.searchsorted(starts, features, side="right") - 1).astype(np.int32),
            features_of=features_of.astype(np.int32),
            of_missing=np.searchsorted(starts, missing).astype(np.int32),
            codes=codes,
            pairs=numbers.astype(np.int32),
        )


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


def missing_values(
    layout: ColumnLayout, columns: np.ndarray, values: np.ndarray | int
) -> np.ndarray:
    """Return the code of a value that is missing to each test, or its listed id; -1 for none."""
    real, never = np.maximum(columns, 0), (columns == BOUNDARY) | (values == MISSING)
    in_codes = layout.storage[real] == CODES
    found = np.where(in_codes, layout.missing_codes[real], layout.missing_ids[real])
    return np.where(never, -1, found).astype(np.int32)


def joint_codes(codes: np.ndarray, firsts: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Join each code that begins a pair with the next one; see `TestTable.pairs`.

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


def number_tests(encoder: Encoder, layout: ColumnLayout | None = None) -> TestTable:
    """Number all tests at all offsets of the encoder's window, for columns stored by a layout."""
    layout = layout or encoder.layout
    left, right = encoder.window
    offsets = range(-left, right + 1)
    n_bytes, n_ids = -(-layout.n_bits // 8), layout.n_ids + layout.n_missing_ids
    # The codes or ids that stand for the missing values of training data.
    found = missing_values(layout, np.arange(len(layout.storage)), 0)
    missing_of = np.where(layout.has_missing, found, -1)
    tests_of = partial(_tests_of, encoder, layout, missing_of)
    stored = []  # the columns of each storage, by slot
    for storage in (CODES, BITS, LISTS):
        columns = np.flatnonzero(layout.storage == storage)
        stored.append(columns[np.lexsort((layout.first_codes[columns], layout.slots[columns]))])
    # Offset, tests (bin, column, value) and runs (start, end, kind, bin of missing values, first
    # bin of the feature or -1).
    parts: list[tuple[int, np.ndarray, np.ndarray]] = []
    features: list[np.ndarray] = []  # first bins and columns
    code_bins, bit_bins, list_bins = [], [], []
    n_bins = 0

    for offset in offsets:
        columns, n_codes = stored[0], layout.n_codes
        if offset != 0 and encoder.n_derived:
            is_derived = columns >= encoder.n_own_columns
            n_codes = n_codes.copy()
            n_codes[layout.slots[columns[is_derived]]] = 0
            columns = columns[~is_derived]
        starts = n_bins + np.cumsum(n_codes) - n_codes
        if offset != 0:
            test, run = [starts[0], BOUNDARY, 0], [starts[0], starts[0] + 1, EACH, -1, -1]
            parts.append((offset, np.array([test]).T, np.array([run]).T))
        slots, first_codes = layout.slots[columns], layout.first_codes[columns]
        firsts = starts[slots] + first_codes
        parts.append(
            (offset, *tests_of(columns, firsts, np.where(first_codes, EACH, SUFFIX), starts[slots]))
        )
        # Of the columns that share a code, the first feature begins with the code's bins. The code
        # of boundaries may have no column.
        begins = np.where(np.diff(slots, prepend=-1) > 0, starts[slots], firsts)
        if len(n_codes) and n_codes[0] and 0 not in slots:
            begins, columns = np.append(starts[0], begins), np.append(BOUNDARY, columns)
        features.append(np.stack([begins, columns]))
        code_bins.append(starts)
        n_bins += int(n_codes.sum())
    first_list = n_bins + 8 * n_bytes * len(offsets)
    for j, offset in enumerate(offsets):
        if len(stored[1]):
            firsts = n_bins + np.arange(len(stored[1]))
            parts.append((offset, *tests_of(stored[1], firsts, EACH, first_list + n_ids * j)))
            features.append(np.stack([firsts, stored[1]]))
        bit_bins.append(n_bins + 8 * np.arange(n_bytes))
        n_bins += 8 * n_bytes
    is_each = (layout.has_one_id | encoder.columns.is_category)[stored[2]]
    for offset in offsets:
        if len(stored[2]):
            firsts = n_bins + layout.slots[stored[2]].astype(np.int64)
            parts.append(
                (offset, *tests_of(stored[2], firsts, np.where(is_each, EACH, SUFFIX), n_bins))
            )
            features.append(np.stack([firsts, stored[2]]))
        list_bins.append(n_bins)
        n_bins += n_ids

    of_parts = [np.full(part.shape[1], offset) for offset, part, _ in parts]
    tests = np.insert(np.hstack([part for _, part, _ in parts]), 2, np.hstack(of_parts), axis=0)
    runs = _merged(np.hstack([runs for *_, runs in parts]))
    run_starts, run_ends, run_kinds, run_missing, begins = runs
    firsts, feature_columns = np.hstack(features)
    return TestTable(
        n_bins=n_bins,
        n_features=len(firsts),
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
        run_features=np.searchsorted(firsts, begins, side="right") - 1,
        feature_starts=np.append(firsts, n_bins),
        feature_columns=feature_columns,
        **_by_bin(encoder, layout, missing_of, tests, n_bins),
    )


def _tests_of(
    encoder: Encoder,
    layout: ColumnLayout,
    missing_of: np.ndarray,  # code or id of the missing values of each column, -1 if it has none
    columns: np.ndarray,
    firsts: np.ndarray,
    kinds: Any,
    start: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tests of columns at one offset: bin, column and value of each, and their runs.

    There is one test for each bin from the column's first bin on. The codes or ids of missing
    values have bins from ``start`` on; each may be a test as well.
    """
    n_tests = encoder.columns.n_tests[columns]
    values = np.arange(n_tests.sum()) - np.repeat(np.cumsum(n_tests) - n_tests, n_tests)
    tests = np.stack([np.repeat(firsts, n_tests) + values, np.repeat(columns, n_tests), values])
    # The tests of a number in a list point away from 0.
    zeros = firsts + layout.zeros[columns]
    missing = np.where(missing_of[columns] >= 0, start + missing_of[columns], -1)
    kinds = np.broadcast_to(kinds, firsts.shape)
    begins = np.where(kinds == EACH, -1, firsts)
    below = np.stack([firsts, zeros, np.full_like(firsts, PREFIX), missing, firsts])
    above = np.stack([zeros, firsts + n_tests, kinds, missing, begins])
    both = np.stack([below, above], axis=2).reshape(5, -1)
    both = both[:, both[0] < both[1]]
    if not encoder.tests_missing:
        return tests, both
    lacking = np.flatnonzero(missing >= 0)
    bins, never = missing[lacking], np.full(len(lacking), -1)
    of_missing = np.stack([bins, columns[lacking], np.full_like(bins, MISSING)])
    runs = np.stack([bins, bins + 1, np.full_like(bins, EACH), never, firsts[lacking]])
    return np.hstack([tests, of_missing]), np.hstack([both, runs])


def _by_bin(
    encoder: Encoder, layout: ColumnLayout, missing_of: np.ndarray, tests: np.ndarray, n_bins: int
) -> dict[str, np.ndarray]:
    """Describe the test of each bin, in arrays that are fields of `TestTable`."""
    bins, columns, offsets, values = tests.astype(np.int32)
    kinds, slots, lows, highs = layout.lookups(encoder.columns, columns, values)
    by_bin = {
        "columns": columns,
        "offsets": offsets,
        "values": values,
        "kinds": kinds,
        "slots": slots,
        "lows": lows,
        "highs": highs,
        "missing": np.where((columns >= 0) & (values != MISSING), missing_of[columns], -1),
    }
    for name, of_tests in by_bin.items():
        by_bin[name] = np.full(n_bins, BOUNDARY - 1, dtype=np.int32)
        by_bin[name][bins] = of_tests
    return by_bin | {"kinds": by_bin["kinds"].astype(np.uint8)}


def _merged(runs: np.ndarray) -> np.ndarray:
    """Join adjacent runs in which every bin is a separate test and no value is missing."""
    starts, ends, kinds, missing, begins = runs
    simple = (kinds == EACH) & (missing < 0) & (begins < 0)
    joined = simple[1:] & simple[:-1] & (starts[1:] == ends[:-1])
    first, last = np.append(True, ~joined)[: len(kinds)], np.append(~joined, True)[: len(kinds)]
    return np.stack([starts[first], ends[last], kinds[first], missing[first], begins[first]])
