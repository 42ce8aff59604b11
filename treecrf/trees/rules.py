"""Leaves of trees as conditions, each as short as it can be said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import Test
from treecrf.trees.conjunctions import conjunctions_of
from treecrf.trees.forest import Forest

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
    flat = conjunctions_of(forest, encoder)
    windows = [frozenset(flat.tests_of(k)) for k in range(len(flat))]
    sets = [tuple(bits_of(lag) for lag in mask) for mask in flat.masks]
    entries = zip(flat.conjunctions, flat.sets, flat.labels.tolist(), flat.weights, strict=True)
    return {
        (label, Condition(windows[k], sets[s])): float(weight) for k, s, label, weight in entries
    }


def bits_of(mask: np.ndarray) -> int:
    """A mask of symbols as a number, bit k for symbol k."""
    return sum(1 << int(symbol) for symbol in np.flatnonzero(mask))
