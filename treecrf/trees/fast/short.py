"""Evaluators of short sequences whose tests have been computed."""

from __future__ import annotations

import numpy as np

from treecrf.trees.fast._quick import MAX_LEAVES, QuickScorer
from treecrf.trees.fast._walker import Walker
from treecrf.trees.fast.contexts import numbers_of_contexts, passing_contexts
from treecrf.trees.scoring.packed_trees import ContextTrees


def short_evaluators(trees: ContextTrees) -> tuple[Walker, QuickScorer | None]:
    """Return the evaluators of trees; the second is None if some tree has too many leaves."""
    passing = passing_contexts(trees)
    n_contexts = numbers_of_contexts(trees)
    is_leaf = trees.packed.test_of_node < 0
    n_leaves = np.add.reduceat(is_leaf, trees.packed.starts[:-1])
    walker = Walker(trees, passing, n_contexts)
    if n_leaves.max() > MAX_LEAVES:
        return walker, None
    return walker, QuickScorer(trees.packed, passing, n_contexts)
