"""Means per position of the values of sequences, weighted by sample weights."""

from __future__ import annotations

import math

import numpy as np

from treecrf.utils.exact import exact_sum


class WeightedMean:
    """Mean per position of values that are sums over the positions of items.

    The weight of an item is the mean weight of its positions. Means do not depend on the order of
    the items.

    Parameters
    ----------
    weights : float64 array (n_positions,) or None
        None stands for ones.
    offsets : int64 array (n_items + 1,)
        Positions of each item: a sequence, or a single position.

    Attributes
    ----------
    of_items : float64 array (n_items,) or None
        Weight of each item, at most 1: divided by a power of 2.
    n_items, n_positions : float
        Sums of the weights of the items and of the positions, divided likewise.
    """

    def __init__(self, weights: np.ndarray | None, offsets: np.ndarray):
        self.of_items = None
        self.n_items, self.n_positions = float(len(offsets) - 1), float(offsets[-1])
        if weights is not None:
            lengths, scale = np.diff(offsets), 2.0 ** math.frexp(weights.max())[1]
            self.of_items = np.add.reduceat(weights, offsets[:-1]) / (lengths * scale)
            self.n_items = exact_sum(self.of_items)
            self.n_positions = exact_sum(self.of_items * lengths)

    def __call__(self, values: np.ndarray) -> float:
        """Compute the mean per position, given one value per item."""
        if self.of_items is not None:
            values = np.where(self.of_items > 0, values, 0.0) * self.of_items
        return exact_sum(values) / self.n_positions
