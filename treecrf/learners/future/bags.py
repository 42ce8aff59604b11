"""Bags of the positions ahead of each position, or behind it: sums over them in linear time."""

from __future__ import annotations

import numpy as np

from treecrf.utils.exact import UNIT

DIRECTIONS = ("future", "past", "both")


class Bags:
    """The bag of each position: its neighbors in a direction, as far as its sequence goes.

    Parameters
    ----------
    offsets : int64 array (n_sequences + 1,)
        Starts of the sequences.
    size : int or None
        Most positions on a side; None for all to the end.
    direction : {"future", "past", "both"}

    Attributes
    ----------
    n_holding : int64 array (n_positions,)
        Number of bags that hold each position.
    """

    def __init__(self, offsets: np.ndarray, size: int | None, direction: str = "future"):
        places = np.arange(offsets[-1])
        starts, ends = (np.repeat(side, np.diff(offsets)) for side in (offsets[:-1], offsets[1:]))
        reach = int(offsets[-1]) if size is None else size
        ahead = places + 1, np.minimum(places + 1 + reach, ends)
        behind = np.maximum(places - reach, starts), places
        # A position ahead of others is in the bags of those behind it.
        ranges = {"future": (ahead,), "past": (behind,), "both": (behind, ahead)}
        self._members = ranges[direction]
        self._holders = ranges[{"future": "past", "past": "future"}.get(direction, direction)]
        self.n_holding = sum(last - first for first, last in self._holders)

    def sum_of(self, values: np.ndarray) -> np.ndarray:
        """Sum of the values of the positions in each bag."""
        return _sums(values, self._members)

    def sum_holding(self, values: np.ndarray) -> np.ndarray:
        """Sum of the values of the bags that hold each position."""
        return _sums(values, self._holders)


def _sums(values: np.ndarray, ranges: tuple) -> np.ndarray:
    """Sums over ranges of positions."""
    # Cumulative sums of integers that wrap around still have exact differences.
    until = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.rint(values / UNIT).astype(np.int64), out=until[1:])
    return sum(until[last] - until[first] for first, last in ranges) * UNIT
