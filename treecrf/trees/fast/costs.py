"""Estimated times of the evaluators, on which the choice among them depends.

A time is a sum over what an evaluator does, each part with the nanoseconds that it takes. ``python
benchmarks/evaluators.py --constants`` measures the constants: it times all evaluators, for models
of different trees, tests and labels, and fits the sums to the times. They decide about speed alone,
as all evaluators give the same scores.
"""

from __future__ import annotations

import numpy as np

from treecrf.trees.scoring.packed_trees import ContextTrees

# Positions of a block of the reference, and of a word of its sets.
REFERENCE_BLOCK = 4096
WORD = 64
# Positions of a block of the lookup, which are processed in such units.
LOOKUP_BLOCK = 2048
UNIT = 512

# Fewer trees at fewer positions are evaluated before another evaluator has been set up.
MIN_TREES = 50
MANY_POSITIONS = 1 << 13

# Nanoseconds of each kind of work, in the order of `reference_work`, `walking_work` and
# `lookup_work`. They fit times in vectors of 256 bits (AVX2) and of 128 bits, both measured on an
# AMD EPYC processor without AVX-512; either of the two alone leads to about the same choices.
REFERENCE_TIMES = np.array([9.0, 2.0, 1.0, 0.26, 0.49])
WALKING_TIMES = np.array([7.2, 0.23, 1.8])
LOOKUP_TIMES = np.array([15.0, 740.0, 940.0, 1800.0])

# Nanoseconds of a tree at a position, and of a node whose test holds, where only these are visited.
QUICK_TIMES = np.array([3.0, 2.0])

# Number of tests that hold at a position, in relation to the number of trees, up to which a short
# sequence takes less time by these tests than by walking down the trees: nearly all that trees of
# 64 leaves have. In large models, walking waits for memory, and takes two to ten times as long.
MAX_STEPS = 32.0


def is_worth_setup(trees: ContextTrees, n_positions: int) -> bool:
    """Return whether there is enough to do for an evaluator that must be set up."""
    return trees.packed.n_trees >= MIN_TREES or n_positions >= MANY_POSITIONS


def reference_time(trees: ContextTrees, n_positions: int) -> float:
    """Estimate the time of the evaluator by sets, in nanoseconds."""
    return float(REFERENCE_TIMES @ reference_work(trees, n_positions))


def walking_time(trees: ContextTrees, n_positions: int) -> float:
    """Estimate the time of walking down the trees, in nanoseconds."""
    return float(WALKING_TIMES @ walking_work(trees, n_positions))


def lookup_time(trees: ContextTrees, n_positions: int) -> float:
    """Estimate the time of the lookup of values in memory, in nanoseconds."""
    return float(LOOKUP_TIMES @ lookup_work(trees, n_positions))


def short_time(trees: ContextTrees, n_positions: int, n_steps: int) -> float:
    """Estimate the time of short sequences, block by block, in nanoseconds.

    ``n_steps`` is the number of nodes whose tests hold, over all positions; -1 if it is unknown.
    """
    walking = walking_time(trees, n_positions)
    n_visits = trees.packed.n_trees * n_positions
    if n_steps < 0 or n_steps > MAX_STEPS * n_visits:
        return walking
    return float(QUICK_TIMES @ [n_visits, n_steps])


def reference_work(trees: ContextTrees, n_positions: int) -> np.ndarray:
    """Return what the evaluator by sets does: the numbers that go with `REFERENCE_TIMES`."""
    n_blocks = -(-n_positions // REFERENCE_BLOCK)
    n_words = -(-n_positions // WORD)
    n_leaf_sets = trees.packed.n_trees + trees.n_label_tests  # that a position is in, at most
    return np.array([
        trees.n_nodes * n_blocks,
        trees.n_nodes * n_words,
        n_leaf_sets * n_positions,
        trees.n_scores * n_positions,
        trees.n_tests * n_positions,
    ])  # fmt: skip


def walking_work(trees: ContextTrees, n_positions: int) -> np.ndarray:
    """Return what walking does: the numbers that go with `WALKING_TIMES`."""
    n_trees = trees.packed.n_trees
    return n_positions * np.array([n_trees, trees.n_nodes, n_trees * trees.n_contexts])


def lookup_work(trees: ContextTrees, n_positions: int) -> np.ndarray:
    """Return what the lookup does: the numbers that go with `LOOKUP_TIMES`."""
    n_blocks, rest = divmod(n_positions, LOOKUP_BLOCK)
    n_units = n_blocks * (LOOKUP_BLOCK // UNIT) + -(-rest // UNIT)
    counts = [trees.n_nodes, trees.packed.n_trees, trees.n_label_tests, trees.n_scores]
    return n_units * np.array(counts)
