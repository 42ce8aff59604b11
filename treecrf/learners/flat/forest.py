"""Forests with a flat form, which scores positions by conjunctions, and pruning of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from treecrf.chains.contexts import extended_contexts
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.flat._flat import FlatEvaluator
from treecrf.trees.conjunctions import conjunctions_of
from treecrf.trees.forest import LABEL, TEST, Forest
from treecrf.trees.scoring.scorer import PART, Scoring, find_distinct_tests
from treecrf.utils.threads import Threads

# The evaluation of a conjunction takes as long as this number of tree nodes.
NODES_PER_CONJUNCTION = 12
# Maximum number of leaf values times contexts; beyond it, one bound covers all contexts.
MAX_VALUES = 1 << 22


class FlatForest(Forest):
    """A forest that can also compute its scores with its conjunctions.

    At positions with missing values, fractions go to both children of a test, and the fractions
    differ from tree to tree. These positions are left to the trees.
    """

    def __init__(self, forest: Forest, encoder: Encoder):
        if forest.transitions is not None:
            raise ValueError(
                "the model has constant transitions; expected all its scores to be those of trees"
            )
        super().__init__(forest.n_labels, forest.order)
        self.trees = forest.trees
        self.encoder = encoder
        self.flat = conjunctions_of(forest, encoder)
        self.n_nodes = sum(len(tree["leaf"]) for tree in forest.trees)
        self._flat_evaluators: dict[bool, FlatEvaluator] = {}

    def __getstate__(self) -> dict:
        return {**super().__getstate__(), "_flat_evaluators": {}}

    def scores(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        threads: Threads,
        iterations: tuple[int, int] | None = None,
        start: np.ndarray | None = None,
        given: np.ndarray | None = None,
        depth: np.ndarray | None = None,
    ) -> np.ndarray:
        """Sum of the weights for every label, position and context; see `Forest.scores`.

        The conjunctions are used for all iterations at once, if they are so few that they are
        faster than the trees.
        """
        is_whole = iterations in (None, (0, self.n_iter)) and depth is None
        if is_whole and len(self.flat) * NODES_PER_CONJUNCTION < self.n_nodes:
            return self.flat_scores(encoder, encoded, threads, start, given)
        return super().scores(encoder, encoded, threads, iterations, start, given, depth)

    def flat_scores(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        threads: Threads,
        start: np.ndarray | None = None,
        given: np.ndarray | None = None,
    ) -> np.ndarray:
        """Compute the same scores by conjunctions, except at positions with missing values."""
        scores = self.zeros(encoded, given) if start is None else start
        depth = self.depth_of(encoded, given)
        scoring = Scoring(encoded, depth, given, scores, threads)
        scoring.run(self._conjunctions(given is not None))
        scorer = self.scorer(encoder, 0, self.n_iter, given is not None)
        with_missing = scorer.with_missing(encoded)
        if len(with_missing):
            scorer.add_with_missing(scoring, with_missing)
        return scores

    def matrix(self, encoded: EncodedSequences, threads: Threads) -> sparse.csr_array:
        """Find the conjunctions that hold at each position; float64 (n_positions, n_conjunctions).

        An entry is 1, or at positions with missing values the mean fraction of the position that
        reaches the leaves of the conjunction.
        """
        flat, n = self._conjunctions(True), encoded.n_positions
        parts, counts = threads.even_parts(n, PART), np.zeros(n, dtype=np.int64)
        threads.map(lambda part: flat.list_members(encoded, *part, counts, None), parts)
        starts = np.append(0, np.cumsum(counts))
        ends, indices = starts[:-1].copy(), np.empty(starts[-1], dtype=np.int32)
        threads.map(lambda part: flat.list_members(encoded, *part, ends, indices), parts)
        shape = (n, len(self.flat))
        matrix = sparse.csr_array((np.ones(len(indices)), indices, starts), shape=shape)
        scorer = self.scorer(self.encoder, 0, self.n_iter, False)
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

    def _conjunctions(self, is_given: bool) -> FlatEvaluator:
        """Return an evaluator for all contexts of each position, or for one context each."""
        if is_given in self._flat_evaluators:
            return self._flat_evaluators[is_given]
        packed, flat = self.pack(), self.flat
        on_window = (packed["true_child"] >= 0) & (packed["column"] != LABEL)
        # Tests that no conjunction uses any more still mark rows with missing values.
        nodes = np.stack([packed[name][on_window] for name in TEST]).astype(np.int64)
        used = flat.literals[:, :3].T.astype(np.int64)
        tests, _, indices = find_distinct_tests(nodes, used, self.encoder)
        literals = 2 * indices + flat.literals[:, 3]
        # Positive literals first: they exclude more positions.
        owners = np.repeat(np.arange(len(flat)), np.diff(flat.starts))
        literals = literals[np.lexsort((1 - literals % 2, owners))]
        evaluator = FlatEvaluator(
            tests,
            (flat.starts, np.append(literals, 0).astype(np.int32)),  # there may be none
            (flat.entry_starts.astype(np.int64), flat.labels, flat.sets, flat.weights),
            flat.masks.astype(np.uint8),
            *extended_contexts(self.n_labels, 0 if is_given else self.order),
        )
        self._flat_evaluators[is_given] = evaluator
        return evaluator


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
    limits = _limits(forest)
    ranking = np.argsort(np.abs(forest.flat.weights), kind="stable")
    rank = np.empty(len(ranking) + 1, dtype=np.int64)
    rank[ranking] = np.arange(len(ranking))
    rank[-1] = len(ranking)  # of leaves whose sum is 0, which remain unchanged
    of_leaf = rank[forest.flat.entry_of_leaf]
    few, many = 0, len(ranking)
    while few < many:
        middle = (few + many + 1) // 2
        low, high = limits(of_leaf < middle)
        few, many = (middle, many) if max(high, -low) <= tolerance else (few, middle - 1)
    low, high = limits(of_leaf < few)
    remaining = np.unique(forest.flat.conjunctions[ranking[few:]])
    pruned = Pruned(few, len(forest.flat) - len(remaining), max(high, -low), high - low)
    packed = forest.pack()
    leaves = np.flatnonzero(packed["true_child"] < 0)
    packed["leaf"] = packed["leaf"].copy()
    packed["leaf"][leaves[of_leaf < few]] = 0.0
    return Forest.unpack(forest.n_labels, forest.order, packed), pruned


def _limits(forest: FlatForest) -> Callable[[np.ndarray], tuple[float, float]]:
    """Return a function that bounds the sums of the values of some leaves at any position."""
    packed, flat, n_labels = forest.pack(), forest.flat, forest.n_labels
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
