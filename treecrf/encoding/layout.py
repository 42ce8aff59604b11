"""Rows of positions, with boundary rows around every sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.utils.checks import check_counts, require

# Memory and time grow with the window, and offsets must fit the kernels' integers.
MAX_WINDOW = 10_000


@dataclass(frozen=True)
class RowLayout:
    """Assignment of positions to rows.

    Boundary rows lie before the first sequence, between sequences and after the last one, as many
    as the window reaches beyond the ends. The window of a position is then a run of rows, and no
    windowed copy is made. Neighboring sequences share their boundary rows.
    """

    offsets: np.ndarray
    window: tuple[int, int]  # positions to the left and to the right

    @property
    def n_boundary_rows(self) -> int:
        """Number of boundary rows between two sequences."""
        return max(self.window)

    @property
    def n_rows(self) -> int:
        """Number of rows, boundary rows included."""
        n_gaps = len(self.offsets) - 2
        return int(self.offsets[-1]) + self.n_boundary_rows * n_gaps + sum(self.window)

    @property
    def first_rows(self) -> np.ndarray:
        """Row of the first position of each sequence; int64 array (n_sequences,)."""
        before = self.n_boundary_rows * np.arange(len(self.offsets) - 1)
        return self.offsets[:-1] + self.window[0] + before

    @property
    def rows(self) -> np.ndarray:
        """Row of each position; int64 array (n_positions,)."""
        if len(self.offsets) == 2:
            return np.arange(self.window[0], self.window[0] + self.offsets[-1])
        return rows_of_positions(self.offsets, self.first_rows)


def window_within(max_window: tuple[int, int], longest: int) -> tuple[int, int]:
    """Cut a window to the offsets that may lie inside of a sequence.

    At offsets beyond them, all positions are alike. Nothing can be learned there, but every offset
    takes time and memory. A side of the window keeps at least one position, so that the sequences
    do not determine whether there are boundary rows.
    """
    farthest = max(longest - 1, 1)
    return min(max_window[0], farthest), min(max_window[1], farthest)


def widest(*windows: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest window that contains all of them."""
    lefts, rights = zip(*windows, strict=True)
    return max(lefts), max(rights)


def check_windows(window: tuple[int, ...], max_window: tuple[int, ...]) -> None:
    """Raise ValueError unless these are the window of a saved model, and that before the cut."""
    require(len(window) == len(max_window) == 2, "window")
    check_counts(*window, *max_window)
    require(max(max_window) <= MAX_WINDOW, "window")
    sides = zip(window, max_window, strict=True)
    require(all(min(most, 1) <= side <= most for side, most in sides), "window")


def rows_of_positions(offsets: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Compute the row of each position, given the row at which each sequence starts."""
    return np.arange(offsets[-1]) + np.repeat(first_rows - offsets[:-1], np.diff(offsets))
