"""The evaluator of short sequences whose tests have been computed."""

from __future__ import annotations

import numpy as np

from treecrf.trees.fast._quick import MAX_LEAVES, QuickScorer
from treecrf.trees.fast._short import ShortEvaluator
from treecrf.trees.fast._walker import Walker
from treecrf.trees.fast.contexts import numbers_of_contexts, passing_contexts
from treecrf.trees.fast.costs import MAX_STEPS
from treecrf.trees.scoring.packed_trees import ContextTrees


def short_evaluator(trees: ContextTrees) -> ShortEvaluator:
    """Make the evaluator of trees in at most 64 contexts."""
    passing = passing_contexts(trees)
    n_contexts = numbers_of_contexts(trees)
    walker = Walker(trees, passing, n_contexts)
    is_leaf = trees.packed.test_of_node < 0
    n_leaves = np.add.reduceat(is_leaf, trees.packed.starts[:-1])
    quick = None
    if n_leaves.max() <= MAX_LEAVES:
        quick = QuickScorer(trees.packed, passing, n_contexts)
    return ShortEvaluator(walker, quick, trees.n_contexts, MAX_STEPS)
