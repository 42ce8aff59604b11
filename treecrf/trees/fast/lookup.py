"""Evaluation of trees at many positions, by lookup of leaf values."""

from __future__ import annotations

from functools import cached_property
from threading import Lock

from treecrf.trees.fast import costs
from treecrf.trees.fast._lookup import LookupEvaluator, can_run, has_permutes
from treecrf.trees.fast.contexts import group_contexts
from treecrf.trees.scoring.fast_evaluator import FastEvaluator
from treecrf.trees.scoring.packed_trees import MAX_CONTEXTS, ContextTrees

# Where the processor looks up bytes in registers (AVX-512 VBMI), the lookup takes less time than
# the others from this number of positions on, and about this fraction of the time of the reference:
# measured by ``python benchmarks/prediction.py``, see its tables in benchmarks/README.md.
MIN_POSITIONS_BY_PERMUTES = 16
COST_BY_PERMUTES = 0.15
# The time that it takes there, in relation to that of the lookup in memory.
TIME_BY_PERMUTES = 0.25


class Lookup(FastEvaluator):
    """Evaluator that computes the numbers of leaves bit by bit, and looks up their values."""

    name = "lookup"

    def __init__(self, trees: ContextTrees):
        super().__init__(trees)
        self._kernels: dict[tuple[int, bool], LookupEvaluator] = {}
        self._lock = Lock()

    @cached_property
    def has_program(self) -> bool:
        """Whether there is a program of bit operations for the trees, as for nearly all."""
        return self.trees.packed.has_exact_sums and can_run(self.trees)

    def supports(self, n_positions: int) -> bool:
        """Return whether there is a program, and enough to do."""
        if self.trees.n_contexts > MAX_CONTEXTS:
            return False
        if has_permutes() and n_positions < MIN_POSITIONS_BY_PERMUTES:
            return False
        return costs.is_worth_setup(self.trees, n_positions) and self.has_program

    def cost(self, n_positions: int) -> float:
        """Estimate the time that it takes, in relation to the time of the reference."""
        if has_permutes():
            return COST_BY_PERMUTES
        time = costs.lookup_time(self.trees, n_positions)
        return time / costs.reference_time(self.trees, n_positions)

    def columns_evaluator(self, n_positions: int, n_steps: int) -> LookupEvaluator | None:
        """Return the evaluator of a long sequence, if it takes less time than block by block.

        ``n_steps`` is the number of nodes whose tests hold, over all positions; -1 if it is
        unknown.
        """
        if not self.supports(n_positions):
            return None
        time = costs.lookup_time(self.trees, n_positions)
        if has_permutes():
            time *= TIME_BY_PERMUTES
        if time >= costs.short_time(self.trees, n_positions, n_steps):
            return None
        return self.kernel(self.trees.order)

    def kernel(self, depth: int) -> LookupEvaluator:
        """Return the compiled evaluator for positions with this many labels before them."""
        key = depth, has_permutes()
        with self._lock:  # threads should not make the same evaluator twice
            if key not in self._kernels:
                groups = group_contexts(self.trees, depth)
                self._kernels[key] = LookupEvaluator(self.trees, groups, has_permutes())
            return self._kernels[key]
