"""Constant transitions: scores of labels after labels that are the same at all positions.

Each iteration adds a Newton step to them, which follows from the examples that the trees grow on.
"""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import true_contexts
from treecrf.chains.objectives import ChainLabels
from treecrf.chains.partial_labels import unknown_contexts
from treecrf.chains.sampling import ExampleList
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


def grow_transitions(
    forest: Forest,
    growth: Growth,
    lists: list[ExampleList],  # for each label
    depths: np.ndarray,  # number of labels before each position that define its context
    of_contexts: np.ndarray | None,  # sums of `ContextWeights`; None if there is a curvature
) -> None:
    """Add a Newton step of constant transitions to the forest, from the examples of its trees.

    Without a curvature, a step is divided by the weight of the positions at which the context of
    the transition is the true one. The values of the examples must be rounded such that sums are
    exact, as `ListGrowers.grow` rounds them. Then the order of the examples does not matter.
    """
    shape = forest.order + 1, forest.n_labels**forest.order
    bound = min(growth.max_leaf_value, MAX_TRANSITION)
    rate = min(growth.learning_rate, MAX_TRANSITION_RATE)
    true_weights = None
    if of_contexts is not None:
        true_weights = of_contexts[:, :-1].copy()
        for depth, weight in enumerate(of_contexts[:, -1]):  # of contexts that are not known
            n_contexts = forest.n_labels**depth
            true_weights[depth, :n_contexts] += weight / n_contexts
    added = []
    for examples in lists:
        groups = depths[examples.positions].astype(np.int64) * shape[1] + examples.contexts
        totals = np.bincount(groups, examples.residuals, np.prod(shape))
        if true_weights is None:
            weights = np.bincount(groups, examples.curvatures, np.prod(shape))
        else:
            weights = true_weights.ravel()
        weights = weights + growth.l2_regularization
        steps = np.divide(totals, weights, out=np.zeros_like(totals), where=weights > 0)
        units = np.rint(np.clip(steps, -bound, bound) * (rate / LEAF_UNIT))
        added.append(units.astype(np.int32).reshape(shape))
    forest.transitions.append(np.stack(added, axis=1))


class ContextWeights:
    """Weights of the positions by their true contexts."""

    def __init__(self, data: ChainLabels):
        offsets, n_labels, order = data.offsets, data.n_labels, data.order
        self.shape = order + 1, n_labels**order + 1
        depths, contexts = true_contexts(offsets, data.codes, n_labels, order)
        if data.candidates is not None:
            contexts[unknown_contexts(data.candidates, offsets, order)] = n_labels**order
        self.groups = depths * self.shape[1] + contexts

    def sums(self, weights: np.ndarray | None) -> np.ndarray:
        """Sum the weights of the positions, all 1 if None; float64 (order + 1, n_contexts + 1).

        Rows are numbers of previous labels, at most ``order``, and columns are contexts; the last
        column is for positions whose context is unknown. The sums of parts of the data are exact
        and can be added.
        """
        if weights is not None:
            weights = np.rint(weights / WEIGHT_UNIT) * WEIGHT_UNIT
        sums = np.bincount(self.groups, weights, np.prod(self.shape))
        return sums.astype(np.float64).reshape(self.shape)
