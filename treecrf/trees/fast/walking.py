"""Evaluation of trees at few positions, each of which takes one step after another."""

from __future__ import annotations

from functools import cached_property

from treecrf.trees.fast import costs
from treecrf.trees.fast._walker import Walker
from treecrf.trees.fast.contexts import numbers_of_contexts, passing_contexts
from treecrf.trees.scoring.fast_evaluator import FastEvaluator
from treecrf.trees.scoring.packed_trees import MAX_CONTEXTS


class Walking(FastEvaluator):
    """Evaluator that takes one position at a time down each tree, in all contexts at once."""

    name = "walking"

    def supports(self, n_positions: int) -> bool:
        """Return whether the contexts are few enough, and there is enough to do."""
        if self.trees.n_contexts > MAX_CONTEXTS:
            return False
        has_enough = costs.is_worth_setup(self.trees, n_positions)
        return has_enough and self.trees.packed.has_exact_sums

    def cost(self, n_positions: int) -> float:
        """Estimate the time that it takes, in relation to the time of the reference."""
        time = costs.walking_time(self.trees, n_positions)
        return time / costs.reference_time(self.trees, n_positions)

    def kernel(self, depth: int) -> Walker:
        """Return the compiled evaluator, which is the same for all numbers of labels before."""
        return self.walker

    @cached_property
    def walker(self) -> Walker:
        """The compiled evaluator."""
        return Walker(self.trees, passing_contexts(self.trees), numbers_of_contexts(self.trees))
