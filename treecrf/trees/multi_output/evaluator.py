"""Evaluation of multi-output trees at encoded positions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.trees.multi_output._vector_blocks import VectorBlockEvaluator
from treecrf.trees.multi_output._vector_evaluator import VectorEvaluator, vectors_of
from treecrf.trees.scoring._context_walker import ContextWalker
from treecrf.trees.scoring.packed_trees import ContextTrees, PackedTrees

if TYPE_CHECKING:
    from treecrf.trees.scoring.batch import Batch

# Sums, in units of leaf values, are integers of 32 bits. The rounded fractions of a value may add
# up to slightly more than the value.
MAX_SUM = 2.0**30


class MultiOutputEvaluator:
    """Multi-output trees, and the evaluators for them.

    They give the same scores as `treecrf.trees.evaluators.ForestEvaluator` for the trees of each
    label. The trees test no previous labels, so it does not matter whether these are given.
    """

    @staticmethod
    def supports(packed: PackedTrees) -> bool:
        """Return whether integers hold all sums, as they do for nearly all trees."""
        return packed.largest_sum < MAX_SUM

    def __init__(self, packed: PackedTrees, encoder: Encoder):
        self.trees = ContextTrees(packed, 0, 0)
        self.follows_surrogates = encoder.missing == "surrogate"

    @cached_property
    def vectors(self) -> np.ndarray:
        """Values of leaves as integers."""
        return vectors_of(self.trees.packed)

    @cached_property
    def by_sets(self) -> VectorEvaluator:
        """Evaluator of all positions."""
        return VectorEvaluator(self.trees.packed, self.vectors, self.follows_surrogates)

    @cached_property
    def walker(self) -> ContextWalker:
        """Evaluator of short sequences, which need not have all values."""
        return ContextWalker(self.trees, self.follows_surrogates)

    @cached_property
    def block_evaluator(self) -> VectorBlockEvaluator:
        """Evaluator of short sequences with all values."""
        return VectorBlockEvaluator(self.trees.packed, self.vectors)

    def columns_evaluator(self, n_positions: int, n_steps: int) -> None:
        """Return None: long sequences are evaluated block by block."""
        return None

    def add_scores(self, batch: Batch) -> None:
        """Add the trees' values to the scores."""
        batch.run(self.by_sets)
