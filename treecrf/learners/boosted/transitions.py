"""Constant transitions: scores of labels after labels that are the same at all positions.

Each iteration adds a Newton step to them, which follows from the examples that the trees grow on.
"""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import true_contexts
from treecrf.chains.partial_labels import unknown_contexts
from treecrf.chains.sampling import Draw, ExampleList
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.utils.exact import LEAF_UNIT

# Maximum learning rate of constant transitions. Each of them changes the scores of most sequences
# many times, and long steps overshoot.
MAX_TRANSITION_RATE = 0.2
# Position weights are rounded to multiples of this unit, so that their sums are exact.
WEIGHT_UNIT = 2.0**-10
# Bounds the scores of constant transitions in first order, far above useful values.
MAX_TRANSITION = 64.0


class TransitionGrowth:
    """Newton steps of constant transitions, from the examples that the trees grow on.

    Parameters
    ----------
    forest : Forest
        Receives the steps.
    growth : Growth
    offsets, codes : int arrays
        Starts of the sequences and codes of their labels.
    has_curvature : bool
        Whether the weights of examples are curvature. Otherwise a step is divided by the weight of
        the positions whose true context is that of the transition. A position whose context is not
        known belongs to all contexts in equal parts.
    candidates : bool array (n_positions, n_labels), optional
        The possible labels of each position, if not all labels are known.
    """

    def __init__(
        self,
        forest: Forest,
        growth: Growth,
        offsets: np.ndarray,
        codes: np.ndarray,
        has_curvature: bool,
        candidates: np.ndarray | None = None,
    ):
        self.forest = forest
        self.growth = growth
        self.has_curvature = has_curvature
        self.learning_rate = growth.learning_rate
        self.shape = forest.order + 1, forest.n_labels**forest.order
        self.depths = np.minimum(positions_in_sequences(offsets), forest.order)
        depths, contexts = true_contexts(offsets, codes, forest.n_labels, forest.order)
        self.true_groups = self._groups(depths, contexts)
        self.unknown = None
        if candidates is not None:
            self.unknown = unknown_contexts(candidates, offsets, forest.order)

    def grow(self, draw: Draw, weights: np.ndarray | None) -> None:
        """Add a step to the forest.

        The values of the examples must be rounded such that sums are exact, as `ListGrowth.round`
        rounds them: the order of the examples does not matter then.

        Parameters
        ----------
        draw : Draw
        weights : float64 array (n_positions,) or None
            Weights of the positions in this iteration; None stands for ones.
        """
        of_contexts = None
        if not self.has_curvature:
            units = None if weights is None else np.rint(weights / WEIGHT_UNIT) * WEIGHT_UNIT
            of_contexts = self._weights_of_contexts(units)
        steps = [self._step(examples, of_contexts) for examples in draw.lists]
        self.forest.transitions.append(np.stack(steps, axis=1))

    def _weights_of_contexts(self, weights: np.ndarray | None) -> np.ndarray:
        """Sum the weights of the positions by depth and true context."""
        if self.unknown is None:
            return self._sums(self.true_groups, weights)
        weights = np.ones(len(self.unknown)) if weights is None else weights
        known = np.where(self.unknown, 0.0, weights)
        sums = self._sums(self.true_groups, known).reshape(self.shape)
        unknown = np.bincount(self.depths, weights - known, minlength=len(sums))
        for depth, weight in enumerate(unknown):
            n_contexts = self.forest.n_labels**depth
            sums[depth, :n_contexts] += weight / n_contexts
        return sums.ravel()

    def _groups(self, depths: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        return depths * self.shape[1] + contexts

    def _sums(self, groups: np.ndarray, values: np.ndarray | None) -> np.ndarray:
        """Sum values by depth and context."""
        return np.bincount(groups, values, np.prod(self.shape)).astype(np.float64)

    def _step(self, examples: ExampleList, weights: np.ndarray | None) -> np.ndarray:
        """Return the step of a label; int32 array (order + 1, n_contexts)."""
        groups = self._groups(self.depths[examples.positions], examples.contexts)
        totals = self._sums(groups, examples.residuals)
        if weights is None:
            weights = self._sums(groups, examples.curvatures)
        weights = weights + self.growth.l2_regularization
        steps = np.divide(totals, weights, out=np.zeros_like(totals), where=weights > 0)
        bound = min(self.growth.max_leaf_value, MAX_TRANSITION)
        rate = min(self.learning_rate, MAX_TRANSITION_RATE)
        units = np.rint(np.clip(steps, -bound, bound) * (rate / LEAF_UNIT))
        return units.astype(np.int32).reshape(self.shape)
