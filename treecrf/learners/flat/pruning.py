"""Small weights of a flat forest dropped, with a bound on what that can change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.learners.flat.forest import FlatForest
from treecrf.trees.forest import Forest

# Most values to look through for a bound; with more, contexts are not told apart.
MAX_VALUES = 1 << 22


@dataclass(frozen=True)
class Pruned:
    """What pruning has dropped, and how much that can change.

    Attributes
    ----------
    n_weights, n_conjunctions : int
        How many were dropped.
    score_change : float
        No score of a label in a context changes by more than this, at any position of any input.
    log_probability_change : float
        The logarithm of the probability of labels given their input changes by no more than this
        times the number of positions of the sequence: that of a whole label sequence, of a label
        at one position, or of labels at some.
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
    """Drop as many of the smallest weights as change no score by more than a tolerance.

    At a position and in a context a tree has one leaf, so that it changes the score by no more than
    its largest dropped leaf, and all trees together by the sum of these. Where values are missing
    and a position reaches several leaves of a tree in part, it receives a mean of theirs.

    Returns
    -------
    forest : Forest
        The same trees with 0 in the leaves that were dropped.
    pruned : Pruned
    """
    limits = _Limits(forest)
    ranking = np.argsort(np.abs(forest.flat.weights), kind="stable")
    rank = np.empty(len(ranking) + 1, dtype=np.int64)
    rank[ranking] = np.arange(len(ranking))
    rank[-1] = len(ranking)  # of leaves that came to nothing, which stay as they are
    of_leaf = rank[forest.flat.entry_of_leaf]
    few, many = 0, len(ranking)
    while few < many:
        middle = (few + many + 1) // 2
        low, high = limits.of(of_leaf < middle)
        few, many = (middle, many) if max(high, -low) <= tolerance else (few, middle - 1)
    dropped = of_leaf < few
    low, high = limits.of(dropped)
    kept = np.unique(forest.flat.conjunctions[ranking[few:]])
    pruned = Pruned(few, len(forest.flat) - len(kept), max(high, -low), high - low)
    return _without(forest, dropped), pruned


class _Limits:
    """Bounds on the sums of some leaves' values at any position."""

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
            # Where the sum of a set is nothing, that set is not told: any context may be meant.
            contexts = np.vstack([contexts, np.ones(contexts.shape[1], dtype=bool)])
            self.reached = contexts[np.append(flat.sets, -1)[flat.entry_of_leaf]]

    def of(self, chosen: np.ndarray) -> tuple[float, float]:
        """Least and largest sum that a label can get in a context from some of the leaves."""
        if not len(self.values):
            return 0.0, 0.0
        values = np.where(chosen, self.values, 0.0)[:, np.newaxis] * self.reached
        low, high = (self._extreme(values, which) for which in (np.minimum, np.maximum))
        return float(low.min()), float(high.max())

    def _extreme(self, values: np.ndarray, which: np.ufunc) -> np.ndarray:
        """Sums over the trees of each label of their most extreme leaves, 0 at least."""
        of_trees = which(which.reduceat(values, self.starts, axis=0), 0.0)
        return of_trees.reshape(-1, self.n_labels, values.shape[1]).sum(axis=0)


def _without(forest: Forest, dropped: np.ndarray) -> Forest:
    """The trees with 0 in some leaves."""
    packed = forest.pack()
    leaves = np.flatnonzero(packed["true_child"] < 0)
    packed["leaf"] = packed["leaf"].copy()
    packed["leaf"][leaves[dropped]] = 0.0
    return Forest.unpack(forest.n_labels, forest.order, packed)
