"""Forests with a flat form: the conjunctions that hold at positions, and pruning of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from treecrf.chains.contexts import extended_contexts
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.flat._flat import Conjunctions
from treecrf.trees.conjunctions import WeightedConjunctions, conjunctions_of
from treecrf.trees.forest import LABEL, TEST, Forest
from treecrf.trees.scoring.scorer import PART, find_distinct_tests
from treecrf.utils.threads import Threads

# Maximum number of leaf values times contexts; beyond it, one bound covers all contexts.
MAX_VALUES = 1 << 22


class FlatForest:
    """A forest with its flat form.

    At positions with missing values, fractions go to both children of a test, and the fractions
    differ from tree to tree. At these positions, conjunctions are evaluated by the trees.
    """

    def __init__(self, forest: Forest, encoder: Encoder):
        if forest.transitions is not None:
            raise ValueError(
                "the model has constant transitions; expected all its scores to be those of trees"
            )
        self.forest = forest
        self.encoder = encoder
        self.flat = conjunctions_of(forest, encoder)

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_conjunctions"}

    def matrix(self, encoded: EncodedSequences, threads: Threads) -> sparse.csr_array:
        """Find the conjunctions that hold at each position; float64 (n_positions, n_conjunctions).

        An entry is 1, or at positions with missing values the mean fraction of the position that
        reaches the leaves of the conjunction.
        """
        flat, n = self._conjunctions, encoded.n_positions
        parts, counts = threads.even_parts(n, PART), np.zeros(n, dtype=np.int64)
        threads.map(lambda part: flat.list_members(encoded, *part, counts, None), parts)
        starts = np.append(0, np.cumsum(counts))
        ends, indices = starts[:-1].copy(), np.empty(starts[-1], dtype=np.int32)
        threads.map(lambda part: flat.list_members(encoded, *part, ends, indices), parts)
        shape = (n, len(self.flat))
        matrix = sparse.csr_array((np.ones(len(indices)), indices, starts), shape=shape)
        scorer = self.forest.scorer(self.encoder, 0, self.forest.n_iter, False)
        with_missing = scorer.with_missing(encoded)
        if not len(with_missing):
            return matrix
        of_leaf, evaluator = self.flat.conjunction_of_leaf, scorer.members
        at_missing = replace(encoded, row_of_position=encoded.row_of_position[with_missing])
        n_parts = evaluator.list_parts(at_missing, None, None, None)
        leaves, positions = np.empty((2, n_parts), np.int32)
        values = np.empty(n_parts)
        evaluator.list_parts(at_missing, leaves, positions, values)
        has_weight = of_leaf[leaves] >= 0
        entries = with_missing[positions[has_weight]], of_leaf[leaves[has_weight]]
        sums = sparse.csr_array(sparse.coo_array((values[has_weight], entries), shape=shape))
        sums.data /= np.bincount(of_leaf[of_leaf >= 0], minlength=shape[1])[sums.indices]
        return matrix + sums

    @cached_property
    def _conjunctions(self) -> Conjunctions:
        """The conjunctions in the form for encoded positions."""
        packed, flat = self.forest.pack(), self.flat
        on_window = (packed["true_child"] >= 0) & (packed["column"] != LABEL)
        # Tests that no conjunction uses any more still mark rows with missing values.
        nodes = np.stack([packed[name][on_window] for name in TEST]).astype(np.int64)
        used = flat.literals[:, :3].T.astype(np.int64)
        tests, _, indices = find_distinct_tests(nodes, used, self.encoder)
        literals = 2 * indices + flat.literals[:, 3]
        # Positive literals first: they exclude more positions.
        owners = np.repeat(np.arange(len(flat)), np.diff(flat.starts))
        literals = literals[np.lexsort((1 - literals % 2, owners))]
        return Conjunctions(tests, flat.starts, np.append(literals, 0).astype(np.int32))


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


def prune(flat_forest: FlatForest, tolerance: float) -> tuple[Forest, Pruned]:
    """Remove as many of the smallest weights as possible without changing any score too much.

    Each position in each context reaches one leaf of a tree. A tree therefore changes the score by
    at most its largest removed leaf value, and all trees together by at most the sum of these. If
    values are missing and fractions of a position reach several leaves, the tree contributes a mean
    of their values. In the pruned forest, the removed leaves have the value 0.
    """
    forest, flat = flat_forest.forest, flat_forest.flat
    limits = _limits(forest, flat)
    ranking = np.argsort(np.abs(flat.weights), kind="stable")
    rank = np.empty(len(ranking) + 1, dtype=np.int64)
    rank[ranking] = np.arange(len(ranking))
    rank[-1] = len(ranking)  # of leaves whose sum is 0, which remain unchanged
    of_leaf = rank[flat.entry_of_leaf]
    few, many = 0, len(ranking)
    while few < many:
        middle = (few + many + 1) // 2
        low, high = limits(of_leaf < middle)
        few, many = (middle, many) if max(high, -low) <= tolerance else (few, middle - 1)
    low, high = limits(of_leaf < few)
    remaining = np.unique(flat.conjunctions[ranking[few:]])
    pruned = Pruned(few, len(flat) - len(remaining), max(high, -low), high - low)
    packed = forest.pack()
    leaves = np.flatnonzero(packed["true_child"] < 0)
    packed["leaf"] = packed["leaf"].copy()
    packed["leaf"][leaves[of_leaf < few]] = 0.0
    return Forest.unpack(forest.n_labels, forest.order, packed), pruned


def _limits(
    forest: Forest, flat: WeightedConjunctions
) -> Callable[[np.ndarray], tuple[float, float]]:
    """Return a function that bounds the sums of the values of some leaves at any position."""
    packed, n_labels = forest.pack(), forest.n_labels
    is_leaf = packed["true_child"] < 0
    leaf_values = packed["leaf"][is_leaf]
    sizes = np.add.reduceat(is_leaf, packed["starts"][:-1]) if len(is_leaf) else np.zeros(0)
    starts = np.cumsum(sizes) - sizes
    reached = np.ones((len(leaf_values), 1), dtype=bool)
    n_contexts = sum(n_labels**d for d in range(forest.order + 1))
    if n_contexts * len(leaf_values) <= MAX_VALUES:
        symbols, _ = extended_contexts(n_labels, forest.order)
        contexts = flat.masks[:, np.arange(forest.order), symbols].all(axis=2)
        # The contexts of leaves whose sum is 0 are not recorded: assume all of them.
        contexts = np.vstack([contexts, np.ones(contexts.shape[1], dtype=bool)])
        reached = contexts[np.append(flat.sets, -1)[flat.entry_of_leaf]]

    def limits_of(chosen: np.ndarray) -> tuple[float, float]:
        if not len(leaf_values):
            return 0.0, 0.0
        values = np.where(chosen, leaf_values, 0.0)[:, np.newaxis] * reached
        low, high = (
            # Each tree adds the extreme value of its leaves, or 0, to the score of its label.
            which(which.reduceat(values, starts, axis=0), 0.0)
            .reshape(-1, n_labels, values.shape[1])
            .sum(axis=0)
            for which in (np.minimum, np.maximum)
        )
        return float(low.min()), float(high.max())

    return limits_of
