"""The distinct window tests of some trees, and where to read their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import CODE_EQUAL, CODES, LISTED
from treecrf.trees.growing.window_tests import missing_values


@dataclass(frozen=True)
class DistinctTests:
    """Distinct tests of rows: tests of nodes, of surrogates alone, and of missing values.

    A missing-value test holds where the value of a column is missing. Tests of nodes are the first
    ``n_plain``; only these matter where no value is missing. Tests that read the same bytes are
    adjacent.
    """

    kinds: np.ndarray  # int32, like the next four; see `treecrf.encoding.plan.Plan.lookups`
    offsets: np.ndarray
    slots: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    missing: np.ndarray  # missing-value test of each test, -1 where no value can be missing
    n_plain: int
    window: tuple[int, int]
    n_ids: int  # in lists

    def __len__(self) -> int:
        """Return the number of distinct tests."""
        return len(self.kinds)

    @cached_property
    def by_id(self) -> np.ndarray:
        """The test for one listed id, by offset and id; -1 where there is none."""
        n_ids = self.n_ids if (self.kinds == LISTED).any() else 0
        table = np.full((sum(self.window) + 1, n_ids), -1, dtype=np.int32)
        of_one_id = np.flatnonzero((self.kinds == LISTED) & (self.highs == self.lows + 1))
        table[self.offsets[of_one_id] + self.window[0], self.lows[of_one_id]] = of_one_id
        return table


def find_distinct_tests(
    nodes: np.ndarray, surrogates: np.ndarray, encoder: Encoder
) -> tuple[DistinctTests, np.ndarray, np.ndarray]:
    """Find the distinct tests of some nodes and surrogates, and the index of each of these.

    ``nodes`` and ``surrogates`` hold columns, offsets and values of window tests, int64 (3, n).
    """
    tests = np.hstack([nodes, surrogates])
    keys = _keys(tests[0], tests[1], encoder) * (1 << 32) + tests[2]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    columns, offsets, values = tests[:, first]
    is_plain = first < nodes.shape[1]
    kinds, slots, lows, highs = encoder.plan.lookups(encoder.columns, columns, values)
    order = np.lexsort((lows, slots, kinds, offsets, ~is_plain))
    indices = np.empty(len(order), dtype=np.int32)
    indices[order] = np.arange(len(order))
    lookups = np.stack([kinds, offsets, slots, lows, highs])[:, order]
    of_missing, missing = _missing_value_tests(columns[order], offsets[order], encoder)
    lookups = np.ascontiguousarray(np.hstack([lookups, of_missing]), dtype=np.int32)
    distinct = DistinctTests(
        *lookups,
        missing=np.append(missing, np.full(of_missing.shape[1], -1)).astype(np.int32),
        n_plain=int(is_plain.sum()),
        window=encoder.window,
        n_ids=encoder.plan.n_all_ids,
    )
    return distinct, indices[which[: nodes.shape[1]]], indices[which[nodes.shape[1] :]]


def _keys(columns: np.ndarray, offsets: np.ndarray, encoder: Encoder) -> np.ndarray:
    """Return one number for each column and offset."""
    left, right = encoder.window
    return (columns + 1) * (left + right + 1) + offsets + left


def _missing_value_tests(
    columns: np.ndarray, offsets: np.ndarray, encoder: Encoder
) -> tuple[np.ndarray, np.ndarray]:
    """Return the missing-value tests of some tests, and the index of the one that belongs to each.

    Missing-value tests follow the tests themselves.
    """
    plan, index = encoder.plan, np.full(len(columns), -1)
    can_miss = missing_values(plan, columns) >= 0
    keys = _keys(columns, offsets, encoder)[can_miss]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    columns, offsets = columns[can_miss][first], offsets[can_miss][first]
    index[can_miss] = len(index) + which
    values = missing_values(plan, columns)
    in_codes = plan.storage[columns] == CODES
    kinds = np.where(in_codes, CODE_EQUAL, LISTED)
    slots = np.where(in_codes, plan.slots[columns], 0)
    return np.stack([kinds, offsets, slots, values, values + 1]), index
