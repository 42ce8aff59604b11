"""What an evaluator must offer that is faster than the reference for some trees and positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from treecrf.trees.scoring._block_evaluator import ColumnsEvaluator
from treecrf.trees.scoring.packed_trees import ContextTrees


class FastEvaluator(ABC):
    """Evaluator of some trees at positions without missing values.

    It gives the same scores as the reference, `treecrf.trees.scoring._set_evaluator.SetEvaluator`.
    `treecrf.trees.evaluators` chooses the one that takes the least time.
    """

    name: ClassVar[str]

    def __init__(self, trees: ContextTrees):
        self.trees = trees

    @abstractmethod
    def supports(self, n_positions: int) -> bool:
        """Return whether it can, and should, evaluate the trees at so many positions."""

    @abstractmethod
    def cost(self, n_positions: int) -> float:
        """Estimate the time that it takes, in relation to the time of the reference."""

    @abstractmethod
    def kernel(self, depth: int) -> Any:
        """Return the compiled evaluator for positions with this many labels before them.

        It has a method ``add_scores(batch, positions, first, last)``, which adds the values of the
        trees at the positions of a `Batch` from ``first`` to ``last - 1`` to its scores; those of
        its i-th position are the entries ``positions[i]``.
        """

    def columns_evaluator(self, n_positions: int, n_steps: int) -> ColumnsEvaluator | None:
        """Return an evaluator of positions whose tests have been computed, if it is worth it.

        ``n_steps`` is the number of nodes whose tests hold, over all positions; -1 if it is
        unknown.
        """
        return None
