"""The window tests that a tree can ask, numbered by the bins of its histograms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding import BITS, BOUNDARY, CODES, LISTS, Encoder, Plan

# How the tests of a run of bins follow from the bins; the kernel uses the same numbers.
EACH, SUFFIX, PREFIX = 0, 1, 2

# Joint histograms of two codes must stay in the nearest caches.
MOST_PAIR_BINS = 1024
MOST_JOINT_BINS = 8192


@dataclass(frozen=True)
class TestTable:
    """The window tests, numbered by the bin of the histogram that judges them.

    The bins of all code columns at all offsets come first (offsets outermost), then those of the
    bits, then those of the lists. ``columns``, ``offsets`` and ``values`` say what a test means;
    ``kinds``, ``slots``, ``lows`` and ``highs`` where to look. Runs are stretches of bins whose
    tests follow from the bins in the same way; bins outside them belong to no test.
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    left: int
    width: int
    code_bins: np.ndarray
    bit_bins: np.ndarray
    list_bins: np.ndarray
    run_starts: np.ndarray
    run_ends: np.ndarray
    run_kinds: np.ndarray
    feature_starts: np.ndarray
    columns: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    kinds: np.ndarray
    slots: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @property
    def n_bins(self) -> int:
        """Number of bins of a histogram."""
        return len(self.kinds)

    @property
    def n_features(self) -> int:
        """Number of columns times offsets, as far as they have bins."""
        return len(self.feature_starts) - 1


def number_tests(encoder: Encoder, plan: Plan | None = None) -> TestTable:
    """Number all tests at all offsets of the encoder's window, where the plan has the columns."""
    return _TableBuilder(encoder, plan or encoder.plan).build()


def pair_codes(table: TestTable) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Choose neighbouring codes of the window to be counted in joint histograms.

    Returns
    -------
    places : int64 array (n_pairs,)
        The first code of each pair, counted through the window.
    widths : int64 array (n_pairs,)
        Number of bins of the second code.
    bins : int64 array (n_pairs + 1,)
        First joint bin of each pair, and the number of all.
    unpaired : int64 array
        The other codes.
    """
    end = table.bit_bins[0] if len(table.bit_bins) else table.list_bins[0]
    sizes = np.diff(table.code_bins, append=end).tolist()
    places, unpaired, bins = [], [], [0]
    j = 0
    while j < len(sizes):
        joint = sizes[j] * sizes[j + 1] if j + 1 < len(sizes) else MOST_PAIR_BINS + 1
        if joint <= MOST_PAIR_BINS and bins[-1] + joint <= MOST_JOINT_BINS:
            places.append(j)
            bins.append(bins[-1] + joint)
            j += 2
        else:
            unpaired.append(j)
            j += 1
    widths = [sizes[j + 1] for j in places]
    return tuple(np.array(part, dtype=np.int64) for part in (places, widths, bins, unpaired))


class _TableBuilder:
    """Lays out the bins of a histogram and the tests that they judge."""

    def __init__(self, encoder: Encoder, plan: Plan):
        self.encoder = encoder
        self.plan = plan
        self.left, self.right = encoder.window
        self.offsets = range(-self.left, self.right + 1)
        self.runs: list[tuple[int, int, int]] = []
        self.tests: list[tuple[int, int, int, int]] = []  # bin, column, offset, value
        self.feature_starts: list[int] = []
        self.n_bins = 0

    def build(self) -> TestTable:
        code_bins = [b for offset in self.offsets for b in self._add_codes(offset)]
        bit_bins = [b for offset in self.offsets for b in self._add_bits(offset)]
        list_bins = [self._add_lists(offset) for offset in self.offsets] + [self.n_bins]
        bins, columns, offsets, values = (
            np.array(self.tests, dtype=np.int32).reshape(-1, 4).T.copy()
        )
        kinds, slots, lows, highs = self.encoder.storage_of(columns, values, self.plan)
        runs = np.array(_merged(self.runs), dtype=np.int64).reshape(-1, 3)
        full = {
            name: _spread(array, bins, self.n_bins)
            for name, array in {
                "columns": columns,
                "offsets": offsets,
                "values": values,
                "slots": slots,
                "lows": lows,
                "highs": highs,
            }.items()
        }
        return TestTable(
            left=self.left,
            width=len(self.offsets),
            code_bins=np.array(code_bins, dtype=np.int64),
            bit_bins=np.array(bit_bins, dtype=np.int64),
            list_bins=np.array(list_bins, dtype=np.int64),
            run_starts=runs[:, 0].copy(),
            run_ends=runs[:, 1].copy(),
            run_kinds=runs[:, 2].astype(np.uint8),
            feature_starts=np.array([*self.feature_starts, self.n_bins], dtype=np.int64),
            kinds=_spread(kinds, bins, self.n_bins).astype(np.uint8),
            **full,
        )

    def _stored(self, storage: int) -> np.ndarray:
        """Columns in a storage, by slot."""
        columns = np.flatnonzero(self.plan.storage == storage)
        return columns[np.argsort(self.plan.slots[columns], kind="stable")]

    def _run(self, kind: int, start: int, column: int, offset: int, values: range) -> None:
        """A stretch of bins, one test a bin."""
        self.tests.extend((start + k, column, offset, v) for k, v in enumerate(values))
        if len(values):
            self.runs.append((start, start + len(values), kind))

    def _add_codes(self, offset: int) -> list[int]:
        stored: dict[int, list[int]] = {}
        for j in self._stored(CODES):
            stored.setdefault(int(self.plan.slots[j]), []).append(int(j))
        bins = []
        for slot, n_codes in enumerate(self.plan.n_codes):
            start = self.n_bins
            bins.append(start)
            if slot == 0 and offset != 0:
                self._run(EACH, start, BOUNDARY, offset, range(1))
            self._add_code_tests(stored.get(slot, []), offset, start)
            self.n_bins += int(n_codes)
        return bins

    def _add_code_tests(self, columns: list[int], offset: int, start: int) -> None:
        """Tests of the columns that share a code; the first feature begins with the code's bins."""
        ordered = sorted(columns, key=lambda j: self.plan.first_codes[j])
        self.feature_starts.append(start)
        for place, j in enumerate(ordered):
            first = int(self.plan.first_codes[j])
            if place:
                self.feature_starts.append(start + first)
            kind = EACH if first else SUFFIX
            self._run(kind, start + first, j, offset, range(self.encoder.columns[j].n_tests))

    def _add_bits(self, offset: int) -> list[int]:
        start = self.n_bins
        for bit, j in enumerate(self._stored(BITS)):
            self.feature_starts.append(start + bit)
            self._run(EACH, start + bit, int(j), offset, range(1))
        n_bytes = -(-self.plan.n_bits // 8)
        self.n_bins += 8 * n_bytes
        return [start + 8 * byte for byte in range(n_bytes)]

    def _add_lists(self, offset: int) -> int:
        start = self.n_bins
        single = self.encoder.is_single()
        for j in self._stored(LISTS):
            first = start + int(self.plan.slots[j])
            self.feature_starts.append(first)
            column, zero = self.encoder.columns[j], int(self.plan.zeros[j])
            if column.kind == "category" or single[j]:
                self._run(EACH, first, int(j), offset, range(column.n_tests))
            else:
                self._run(PREFIX, first, int(j), offset, range(zero))
                self._run(SUFFIX, first + zero, int(j), offset, range(zero, column.n_tests))
        self.n_bins += self.plan.n_ids
        return start


def _merged(runs: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Join neighbouring runs in which every bin is a test by itself."""
    merged: list[tuple[int, int, int]] = []
    for start, end, kind in runs:
        if merged and kind == EACH == merged[-1][2] and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end, EACH)
        else:
            merged.append((start, end, kind))
    return merged


def _spread(values: np.ndarray, bins: np.ndarray, n_bins: int) -> np.ndarray:
    out = np.full(n_bins, BOUNDARY - 1, dtype=np.int32)
    out[bins] = values
    return out
