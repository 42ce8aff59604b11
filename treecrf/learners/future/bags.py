"""Bags: the neighbors of each position in one direction or both, with sums in linear time."""

from __future__ import annotations

import numpy as np

from treecrf.utils.exact import UNIT

# Gradients that are larger, as with huge learning rates, count as this.
MAX_VALUE = 2.0**30
# Larger scores do not change the probability of an instance noticeably.
MAX_SCORE = 30.0
DIRECTIONS = ("future", "past", "both")


class Bags:
    """The bag of each position: up to ``size`` neighbors to a side, within its sequence."""

    def __init__(self, offsets: np.ndarray, size: int | None, direction: str = "future"):
        positions = np.arange(offsets[-1])
        starts, ends = (np.repeat(side, np.diff(offsets)) for side in (offsets[:-1], offsets[1:]))
        reach = int(offsets[-1]) if size is None else size
        ahead = positions + 1, np.minimum(positions + 1 + reach, ends)
        behind = np.maximum(positions - reach, starts), positions
        # With bags of the future, a position is in the bags of the positions before it.
        ranges = {"future": (ahead,), "past": (behind,), "both": (behind, ahead)}
        self._members = ranges[direction]
        self._holders = ranges[{"future": "past", "past": "future"}.get(direction, direction)]
        # Number of bags that contain each position.
        self.n_holders = sum(last - first for first, last in self._holders)

    def sum_members(self, values: np.ndarray) -> np.ndarray:
        """Sum, for each bag, of the values of its positions."""
        return _sums(values, self._members)

    def sum_holders(self, values: np.ndarray) -> np.ndarray:
        """Sum, for each position, of the values of the bags that contain it."""
        return _sums(values, self._holders)


def bag_probabilities(bags: Bags, score: np.ndarray) -> np.ndarray:
    """Compute the probability that each bag is positive from the scores of the instances."""
    score = np.clip(score, -MAX_SCORE, MAX_SCORE)
    return -np.expm1(bags.sum_members(-np.log1p(np.exp(score))))


def _sums(values: np.ndarray, ranges: tuple) -> np.ndarray:
    """Sum over ranges of positions; the sums do not depend on the positions before a range."""
    values = np.clip(values, -MAX_VALUE, MAX_VALUE)
    # Cumulative sums of integers that wrap around still have exact differences.
    until = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.rint(values / UNIT).astype(np.int64), out=until[1:])
    return sum(until[last] - until[first] for first, last in ranges) * UNIT
