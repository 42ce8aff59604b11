"""Means per position of the values of sequences, weighted by sample weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treecrf.utils.exact import ExactSum, exact_sum


@dataclass(frozen=True)
class MeanSums:
    """The two sums whose quotient is a mean; the sums of parts of the data can be added."""

    values: ExactSum  # weighted
    positions: ExactSum  # their weights

    def __add__(self, other: MeanSums) -> MeanSums:
        return MeanSums(self.values + other.values, self.positions + other.positions)

    def __float__(self) -> float:
        return float(self.values) / float(self.positions) if self.positions.units else math.nan


@dataclass(frozen=True)
class WholeValue:
    """Value of all data, which cannot be joined from values of their parts."""

    value: float

    def __float__(self) -> float:
        return self.value


class WeightedMean:
    """Mean per position of values that are sums over the positions of items.

    The weight of an item is the mean weight of its positions. Means do not depend on the order of
    the items.
    """

    def __init__(
        self, weights: np.ndarray | None, offsets: np.ndarray, largest: float | None = None
    ):
        self._weights, self._offsets = weights, offsets
        self.of_items = None  # weight of each item, at most 1: divided by a power of 2
        self.n_items = float(len(offsets) - 1)
        self._positions = ExactSum.of(np.array([offsets[-1]], dtype=np.float64))
        if weights is not None:
            lengths = np.diff(offsets)
            scale = 2.0 ** math.frexp(weights.max() if largest is None else largest)[1]
            self.of_items = np.add.reduceat(weights, offsets[:-1]) / (lengths * scale)
            self.n_items = exact_sum(self.of_items)
            self._positions = ExactSum.of(self.of_items * lengths)
        self.n_positions = float(self._positions)

    def of_part(self, largest: float | None) -> WeightedMean:
        """Return this mean for data that are a part of others, with this largest weight."""
        return WeightedMean(self._weights, self._offsets, largest)

    def __call__(self, values: np.ndarray) -> float:
        """Compute the mean per position, given one value per item."""
        return float(self.sums(values))

    def sums(self, values: np.ndarray) -> MeanSums:
        """Return the two sums whose quotient is the mean."""
        if self.of_items is not None:
            values = np.where(self.of_items > 0, values, 0.0) * self.of_items
        return MeanSums(ExactSum.of(values), self._positions)
