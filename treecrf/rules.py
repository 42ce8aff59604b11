"""Leaves of trees as conditions, each as short as it can be said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from treecrf.encoding import BOUNDARY, Encoder
from treecrf.forest import LABEL, Forest
from treecrf.wording import Test, points_down

Tests = frozenset[tuple[Test, bool]]


@dataclass(frozen=True)
class Condition:
    """When a leaf is reached.

    Attributes
    ----------
    window : frozenset of ((int, int, int), bool)
        Column, offset and value of tests of the window, and whether each must hold.
    labels : tuple of int
        For each lag, from 1 on, which labels are meant: bit k for label k, and the bit after the
        last one for none.
    """

    window: Tests
    labels: tuple[int, ...]


def leaf_values(forest: Forest, encoder: Encoder) -> dict[tuple[int, Condition], float]:
    """Sum of the leaves of each label that have the same condition.

    They are the same where no value is missing: what follows from the other tests is left out.
    """
    shortened = Shortener(encoder)
    total: defaultdict[tuple[int, Condition], float] = defaultdict(float)
    everything = ((1 << forest.n_labels + 1) - 1,) * forest.order
    for k, tree in enumerate(forest.trees):
        for window, labels, value in _leaves(tree, everything):
            total[k % forest.n_labels, Condition(shortened(window), labels)] += value
    return total


def _leaves(tree: dict, everything: tuple[int, ...]) -> Iterator[tuple[tuple, tuple, float]]:
    """Tests of the window, previous labels and value of each leaf."""
    fields = ("column", "offset", "value", "true_child", "false_child", "leaf")
    columns, offsets, values, passed, failed, leaves = (tree[name].tolist() for name in fields)
    windows: list[tuple] = [()] * len(leaves)
    labels = [everything] * len(leaves)
    for node, leaf in enumerate(leaves):
        children = passed[node], failed[node]
        if children[0] < 0:
            yield windows[node], labels[node], leaf
        elif columns[node] == LABEL:
            for child, holds in zip(children, (True, False), strict=True):
                windows[child] = windows[node]
                labels[child] = _narrowed(labels[node], offsets[node], values[node], holds)
        else:
            test = columns[node], offsets[node], values[node]
            for child, holds in zip(children, (True, False), strict=True):
                windows[child] = (*windows[node], (test, holds))
                labels[child] = labels[node]


def _narrowed(labels: tuple[int, ...], lag: int, symbol: int, holds: bool) -> tuple[int, ...]:
    """Previous labels of which one is known to be a symbol, or not to be."""
    bit = 1 << symbol
    mask = labels[lag - 1] & (bit if holds else ~bit)
    return (*labels[: lag - 1], mask, *labels[lag:])


class Shortener:
    """Leaves out of a conjunction what follows from its other tests.

    A number above 3 is above 1, one category is no other, and what holds of a position holds within
    the sequence.

    Parameters
    ----------
    encoder : Encoder
    """

    def __init__(self, encoder: Encoder):
        self.encoder = encoder
        self.is_number = encoder.columns.is_number.tolist()
        self.is_category = encoder.columns.is_category.tolist()

    def __call__(self, tests: Iterable[tuple[Test, bool]]) -> Tests:
        """The tests that say all."""
        tests = list(tests)
        known = _Known()
        for (column, offset, value), holds in tests:
            if column == BOUNDARY:
                known.add_end(offset, holds)
            else:
                known.add_value(offset, holds)
                if self.is_number[column]:
                    known.add_limit(self._limit(column, offset, value, holds), value)
                elif holds:
                    known.chosen.add((column, offset))
        return frozenset(test for test in tests if self._says_more(*test, known))

    def _limit(self, column: int, offset: int, value: int, holds: bool) -> tuple[int, int, bool]:
        """What a test limits: a number at an offset, from below or not."""
        return column, offset, holds != points_down(self.encoder, column, value)

    def _says_more(self, test: Test, holds: bool, known: _Known) -> bool:
        column, offset, value = test
        if column == BOUNDARY:
            return known.is_nearest(offset) if holds else known.is_farthest(offset)
        if not holds and known.is_beyond(offset):
            return False
        if self.is_number[column]:
            return known.limits[self._limit(column, offset, value, holds)] == value
        return holds or not self.is_category[column] or (column, offset) not in known.chosen


class _Known:
    """What is known of the ends of a sequence, of categories and of numbers.

    Sides are told by signs. ``ends`` holds the nearest offset on each side that is beyond the end,
    ``insides`` the farthest that is not, and whether this follows from a value.
    """

    def __init__(self):
        self.ends: dict[bool, int] = {}
        self.insides: dict[bool, tuple[int, bool]] = {}
        self.chosen: set[tuple[int, int]] = set()
        self.limits: dict[tuple[int, int, bool], int] = {}

    def add_end(self, offset: int, is_outside: bool) -> None:
        side, distance = offset > 0, abs(offset)
        if is_outside:
            self.ends[side] = min(self.ends.get(side, distance), distance)
        else:
            self.insides[side] = max(self.insides.get(side, (0, False)), (distance, False))

    def add_value(self, offset: int, holds: bool) -> None:
        if holds and offset:
            side, found = offset > 0, (abs(offset), True)
            self.insides[side] = max(self.insides.get(side, found), found)

    def add_limit(self, key: tuple[int, int, bool], value: int) -> None:
        tighter = max if key[2] else min
        self.limits[key] = tighter(self.limits.get(key, value), value)

    def is_nearest(self, offset: int) -> bool:
        return self.ends[offset > 0] == abs(offset)

    def is_farthest(self, offset: int) -> bool:
        return self.insides[offset > 0] == (abs(offset), False)

    def is_beyond(self, offset: int) -> bool:
        return offset != 0 and self.ends.get(offset > 0, abs(offset) + 1) <= abs(offset)
