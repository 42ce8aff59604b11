"""Pruning of small weights of a flat forest, with a bound on the change of its scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.learners.flat.forest import FlatForest
from treecrf.trees.forest import Forest

# Maximum number of leaf values times contexts; beyond it, one bound covers all contexts.
MAX_VALUES = 1 << 22


@dataclass(frozen=True)
class Pruned:
    """Number of weights that pruning has removed, and bounds on the resulting changes.

    Attributes
    ----------
    n_weights, n_conjunctions : int
        Number of weights and of conjunctions removed.
    score_change : float
        Bound on the change of any score: of any label in any context, at any position of any input.
    log_probability_change : float
        Bound on the change of log-probabilities given the input, per position of the sequence. It
        holds for whole label sequences and for labels at one or more of the positions.
    """

    n_weights: int
    n_conjunctions: int
    score_change: float
    log_probability_change: float

    def __add__(self, other: Pruned) -> Pruned:
        mine, others = vars(self), vars(other)
        return Pruned(**{name: mine[name] + others[name] for name in mine})


NOTHING = Pruned(0, 0, 0.0, 0.0)


def prune(forest: FlatForest, tolerance: float) -> tuple[Forest, Pruned]:
    """Remove as many of the smallest weights as possible without changing any score too much.

    Each position in each context reaches one leaf of a tree. A tree therefore changes the score by
    at most its largest removed leaf value, and all trees together by at most the sum of these. If
    values are missing and fractions of a position reach several leaves, the tree contributes a mean
    of their values. In the pruned forest, the removed leaves have the value 0.
    """
    limits = _Limits(forest)
    ranking = np.argsort(np.abs(forest.flat.weights), kind="stable")
    rank = np.empty(len(ranking) + 1, dtype=np.int64)
    rank[ranking] = np.arange(len(ranking))
    rank[-1] = len(ranking)  # of leaves whose sum is 0, which remain unchanged
    of_leaf = rank[forest.flat.entry_of_leaf]
    few, many = 0, len(ranking)
    while few < many:
        middle = (few + many + 1) // 2
        low, high = limits.of(of_leaf < middle)
        few, many = (middle, many) if max(high, -low) <= tolerance else (few, middle - 1)
    dropped = of_leaf < few
    low, high = limits.of(dropped)
    remaining = np.unique(forest.flat.conjunctions[ranking[few:]])
    pruned = Pruned(few, len(forest.flat) - len(remaining), max(high, -low), high - low)
    return _without(forest, dropped), pruned


class _Limits:
    """Bounds on the sums of the values of some leaves at any position."""

    def __init__(self, forest: FlatForest):
        packed, flat = forest.pack(), forest.flat
        is_leaf = packed["true_child"] < 0
        self.values = packed["leaf"][is_leaf]
        sizes = np.add.reduceat(is_leaf, packed["starts"][:-1]) if len(is_leaf) else np.zeros(0)
        self.starts = np.cumsum(sizes) - sizes
        self.n_labels = forest.n_labels
        self.reached = np.ones((len(self.values), 1), dtype=bool)
        n_contexts = sum(forest.n_labels**d for d in range(forest.order + 1))
        if n_contexts * len(self.values) <= MAX_VALUES:
            symbols, _ = extended_contexts(forest.n_labels, forest.order)
            lags = np.arange(forest.order)
            contexts = flat.masks[:, lags, symbols].all(axis=2)
            # The contexts of leaves whose sum is 0 are not recorded: assume all of them.
            contexts = np.vstack([contexts, np.ones(contexts.shape[1], dtype=bool)])
            self.reached = contexts[np.append(flat.sets, -1)[flat.entry_of_leaf]]

    def of(self, chosen: np.ndarray) -> tuple[float, float]:
        """Bound the sums of some of the leaves over all labels and contexts from both sides."""
        if not len(self.values):
            return 0.0, 0.0
        values = np.where(chosen, self.values, 0.0)[:, np.newaxis] * self.reached
        low, high = (self._extreme(values, which) for which in (np.minimum, np.maximum))
        return float(low.min()), float(high.max())

    def _extreme(self, values: np.ndarray, which: np.ufunc) -> np.ndarray:
        """Sum, over the trees of each label, the extreme values of their leaves and 0."""
        of_trees = which(which.reduceat(values, self.starts, axis=0), 0.0)
        return of_trees.reshape(-1, self.n_labels, values.shape[1]).sum(axis=0)


def _without(forest: Forest, dropped: np.ndarray) -> Forest:
    """Copy the forest, with 0 in the dropped leaves."""
    packed = forest.pack()
    leaves = np.flatnonzero(packed["true_child"] < 0)
    packed["leaf"] = packed["leaf"].copy()
    packed["leaf"][leaves[dropped]] = 0.0
    return Forest.unpack(forest.n_labels, forest.order, packed)
