"""Evaluation of trees at encoded positions, by the evaluator that takes the least time.

All evaluators give the same scores to the last bit: leaf values are multiples of 2**-20, so their
sums are exact in any order. The reference, `SetEvaluator`, takes all trees, contexts and positions,
also positions with missing values. Those of `treecrf.trees.fast` are faster for some trees and
numbers of positions. No other module imports them, and without them all is done by the reference.
"""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.scoring._answers import mark_missing
from treecrf.trees.scoring._block_evaluator import BlockEvaluator, ColumnsEvaluator
from treecrf.trees.scoring._context_walker import ContextWalker
from treecrf.trees.scoring._set_evaluator import SetEvaluator
from treecrf.trees.scoring.fast_evaluator import FastEvaluator
from treecrf.trees.scoring.packed_trees import MAX_CONTEXTS, ContextTrees, PackedTrees

if TYPE_CHECKING:
    from treecrf.trees.scoring.batch import Batch

# The fast evaluators; none in a package without the folder ``fast``.
if find_spec("treecrf.trees.fast"):
    from treecrf.trees.fast import EVALUATORS, short_evaluator
else:
    EVALUATORS = ()
    short_evaluator = None
# The evaluator of trees of all labels. Those that it does not support, and all in a package without
# the folder ``multi_output``, are divided into trees of one label.
if find_spec("treecrf.trees.multi_output"):
    from treecrf.trees.multi_output.evaluator import MultiOutputEvaluator
else:
    MultiOutputEvaluator = None

# Maximum fraction of positions with missing values for the others to be scored separately. The
# reference scores both kinds in one pass; with few of the others, separate passes save little.
MAX_MISSING = 1 / 4


def is_supported(packed: PackedTrees) -> bool:
    """Return whether there is an evaluator of trees as they are; of trees of one label, always."""
    if not packed.is_multi_output:
        return True
    return MultiOutputEvaluator is not None and MultiOutputEvaluator.supports(packed)


def make_evaluator(
    packed: PackedTrees, encoder: Encoder, order: int, is_given: bool
) -> ForestEvaluator | MultiOutputEvaluator:
    """Make the evaluator of trees, which depends on whether they are trees of all labels."""
    if packed.is_multi_output:
        return MultiOutputEvaluator(packed, encoder)
    return ForestEvaluator(packed, encoder, order, is_given)


class ForestEvaluator:
    """Trees, the contexts in which they are evaluated, and the evaluators for them."""

    def __init__(self, packed: PackedTrees, encoder: Encoder, order: int, is_given: bool):
        n_given = order if is_given else 0
        self.trees = ContextTrees(packed, order - n_given, n_given)
        self.follows_surrogates = encoder.missing == "surrogate"

    @cached_property
    def reference(self) -> SetEvaluator:
        """Evaluator of all positions in all contexts."""
        return self._set_evaluator(*extended_contexts(self.trees.packed.n_labels, self.trees.order))

    @cached_property
    def members(self) -> SetEvaluator:
        """Evaluator that lists the members of leaves in any context."""
        order = self.trees.order
        return self._set_evaluator(np.zeros((1, order), np.int32), np.zeros(order + 1, np.int64))

    def _set_evaluator(self, symbols: np.ndarray, depth_starts: np.ndarray) -> SetEvaluator:
        n_given = self.trees.n_given
        return SetEvaluator(
            self.trees.packed, symbols, depth_starts, n_given, self.follows_surrogates
        )

    @cached_property
    def walker(self) -> ContextWalker:
        """Evaluator of short sequences, which need not have all values."""
        return ContextWalker(self.trees, self.follows_surrogates)

    @cached_property
    def block_evaluator(self) -> BlockEvaluator:
        """Evaluator of short sequences with all values."""
        if short_evaluator is None or self.trees.n_contexts > MAX_CONTEXTS:
            return self.walker
        return short_evaluator(self.trees)

    @cached_property
    def fast_evaluators(self) -> list[FastEvaluator]:
        """The evaluators that may take less time than the reference."""
        return [evaluator(self.trees) for evaluator in EVALUATORS]

    def columns_evaluator(self, n_positions: int, n_steps: int) -> ColumnsEvaluator | None:
        """Return the evaluator of a long sequence whose tests have been computed.

        None if `block_evaluator` takes less time, given the number of nodes whose tests hold, over
        all positions; -1 if it is unknown.
        """
        for evaluator in self.fast_evaluators:
            found = evaluator.columns_evaluator(n_positions, n_steps)
            if found is not None:
                return found
        return None

    def fastest(self, n_positions: int) -> FastEvaluator | None:
        """Return the evaluator that takes the least time; None for the reference."""
        fastest = None
        least = 1.0
        for evaluator in self.fast_evaluators:
            if not evaluator.supports(n_positions):
                continue
            cost = evaluator.cost(n_positions)
            if cost < least:
                fastest = evaluator
                least = cost
        return fastest

    def add_scores(self, batch: Batch) -> None:
        """Add the trees' values to the scores."""
        n_positions = batch.n_positions
        if self.fastest(n_positions) is None:
            batch.run(self.reference)
            return
        missing = self.lacking(batch.encoded)
        if len(missing) > MAX_MISSING * n_positions:
            batch.run(self.reference)
            return
        self._add_by_reference(batch, missing)
        is_complete = np.ones(n_positions, dtype=bool)
        is_complete[missing] = False
        self._add_complete(batch, is_complete)

    def lacking(self, encoded: EncodedSequences) -> np.ndarray:
        """Find the positions that lack the value of any test."""
        is_lacking = np.zeros(encoded.n_positions, dtype=np.uint8)
        if encoded.has_missing.any():
            mark_missing(self.trees.packed.tests, encoded, is_lacking)
        return np.flatnonzero(is_lacking)

    def _add_complete(self, batch: Batch, is_complete: np.ndarray) -> None:
        """Add the values at positions without missing values."""
        # The positions for each kernel; None is the reference.
        positions_of: dict[Any, list[np.ndarray]] = {}
        for depth in range(self.trees.order + 1):
            positions = np.flatnonzero(is_complete & (batch.depth == depth)).astype(np.int32)
            if len(positions) == 0:
                continue
            evaluator = self.fastest(len(positions))
            kernel = None
            if evaluator is not None:
                kernel = evaluator.kernel(depth)
            positions_of.setdefault(kernel, []).append(positions)
        for kernel, arrays in positions_of.items():
            positions = np.concatenate(arrays)
            if kernel is None:
                self._add_by_reference(batch, positions)
            else:
                batch.take(positions, batch.scores).run(kernel, positions)

    def _add_by_reference(self, batch: Batch, positions: np.ndarray) -> None:
        """Add the values at some of the positions."""
        if len(positions) == 0:
            return
        n_labels, _, n_contexts = batch.scores.shape
        added = np.zeros((n_labels, len(positions), n_contexts))
        batch.take(positions, added).run(self.reference)
        batch.scores[:, positions] += added
