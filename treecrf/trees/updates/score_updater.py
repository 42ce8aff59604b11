"""Factored scores of encoded positions, to which trees are added as they grow."""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.encoding.encoded import EncodedColumns, EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.forest import Forest
from treecrf.trees.scoring.batch import MIN_TAKEN
from treecrf.trees.scoring.packed_trees import PackedTrees
from treecrf.trees.updates._factored import FactoredEvaluator
from treecrf.utils.allocation import Allocate, relocated
from treecrf.utils.threads import Threads


class ScoreUpdater:
    """Positions to whose factored scores trees are added."""

    def __init__(self, encoder: Encoder, encoded: EncodedSequences, order: int):
        self._encoder = encoder
        self._columns = EncodedColumns.of(encoded)
        self._rows = encoded.row_of_position
        self._depth = encoded.depth_of(order)
        self._has_missing = bool(encoded.has_missing.any())
        self._order = order

    def keep_in(self, allocate: Allocate) -> None:
        """Move the columns to arrays from a function such as `Scratch.allocate`."""
        self._columns = relocated(self._columns, allocate)

    def add(self, forest: Forest, scores: FactoredScores, threads: Threads, first: int = 0) -> None:
        """Add the values of the trees of a forest, from iteration ``first`` on, to the scores."""
        forest = forest.one_output_per_tree()
        for i in range(first, forest.n_iter):
            self._add_trees(forest.packed(self._encoder, i, i + 1), scores, threads)
        if forest.transitions is not None:
            scores.add(forest.sum_of_transitions((first, forest.n_iter)))

    def _add_trees(self, packed: PackedTrees, scores: FactoredScores, threads: Threads) -> None:
        evaluator = FactoredEvaluator(
            packed,
            *extended_contexts(packed.n_labels, self._order),
            self._encoder.missing == "surrogate",
            self._columns,
            self._has_missing,
        )
        scores.make_room(_largest_values(packed))
        if evaluator.tests_labels:
            scores.ensure_rest()
        evaluator.add_defaults(scores.transitions)
        n = len(self._rows)
        if n:
            threads.map(
                lambda limits: evaluator.add(scores, self._rows, self._depth, *limits),
                threads.even_parts(n, MIN_TAKEN),
            )


def _largest_values(packed: PackedTrees) -> np.ndarray:
    """Bound the absolute sum of the trees' values of each label: of each tree, the largest leaf."""
    is_leaf = packed.nodes["true_child"] < 0
    values = np.where(is_leaf, np.abs(packed.nodes["leaf"]), 0)
    largest = np.maximum.reduceat(values, packed.starts[:-1])
    return np.bincount(packed.classes, largest, packed.n_labels)
