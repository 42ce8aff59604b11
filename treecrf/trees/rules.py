"""Leaves of trees as conditions, without redundant tests."""

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
    """The condition under which a leaf is reached.

    Attributes
    ----------
    window : frozenset of ((int, int, int), bool)
        Column, offset and value of each window test, and whether it must hold.
    labels : tuple of int
        Previous labels possible at each lag, from lag 1: bit k stands for label k, and the bit
        after the last label for no label.
    """

    window: Tests
    labels: tuple[int, ...]


def leaf_values(forest: Forest, encoder: Encoder) -> dict[tuple[int, Condition], float]:
    """Sum the leaf values that have the same label and condition.

    Conditions that differ only in tests implied by others are the same; this is exact if no value
    is missing.
    """
    flat = conjunctions_of(forest, encoder)
    windows = [frozenset(flat.tests_of(k)) for k in range(len(flat))]
    sets = [tuple(bits_of(lag) for lag in mask) for mask in flat.masks]
    entries = zip(flat.conjunctions, flat.sets, flat.labels.tolist(), flat.weights, strict=True)
    return {
        (label, Condition(windows[k], sets[s])): float(weight) for k, s, label, weight in entries
    }


def bits_of(mask: np.ndarray) -> int:
    """Convert a mask to an integer, with bit k for element k."""
    return sum(1 << int(symbol) for symbol in np.flatnonzero(mask))
