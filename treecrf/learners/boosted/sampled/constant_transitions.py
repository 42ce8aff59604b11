"""Constant transitions that are fitted to samples.

Each iteration adds a Newton step to one matrix of transition scores, from the samples that its
trees grow on.
"""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import true_contexts
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.partial_labels import unknown_contexts
from treecrf.chains.sampled.sampling import ExampleList
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils.exact import LEAF_UNIT

# Maximum learning rate of constant transitions. Each of them changes the scores of most sequences
# many times, and long steps overshoot.
MAX_TRANSITION_RATE = 0.2
# Bounds the scores of constant transitions in first order, far above useful values.
MAX_TRANSITION = 64.0
# Position weights are rounded to multiples of this unit, so that their sums are exact.
WEIGHT_UNIT = 2.0**-10


class ContextWeights:
    """Weights of the positions by their true contexts."""

    def __init__(self, labels: ChainLabels):
        order = labels.order
        n_contexts = labels.n_labels**order
        # Numbers of previous labels, and contexts, of which the last is for unknown ones.
        self.shape = order + 1, n_contexts + 1
        depths, contexts = true_contexts(labels.offsets, labels.codes, labels.n_labels, order)
        if labels.candidates is not None:
            is_unknown = unknown_contexts(labels.candidates, labels.offsets, order)
            contexts[is_unknown] = n_contexts
        self.groups = depths * self.shape[1] + contexts

    def sums(self, weights: np.ndarray | None) -> np.ndarray:
        """Sum the weights of the positions, all 1 if None; float64 (order + 1, n_contexts + 1).

        Rows are numbers of previous labels, at most ``order``, and columns are contexts; the last
        column is for positions whose context is unknown. The sums of partitions of the data are
        exact and can be added.
        """
        if weights is not None:
            weights = np.rint(weights / WEIGHT_UNIT) * WEIGHT_UNIT
        sums = np.bincount(self.groups, weights, np.prod(self.shape))
        return sums.astype(np.float64).reshape(self.shape)


def grow_transitions(
    forest: Forest,
    tree_settings: TreeSettings,
    lists: list[ExampleList],  # for each label
    depths: np.ndarray,  # number of labels before each position that define its context
    context_weights: np.ndarray | None,  # sums of `ContextWeights`; None if there is a curvature
) -> None:
    """Add a Newton step of constant transitions to the forest, from the examples of its trees.

    Without a curvature, a step is divided by the weight of the positions at which the context of
    the transition is the true one. The values of the examples must be rounded such that sums are
    exact, as `ListGrowers.grow` rounds them. Then the order of the examples does not matter.
    """
    shape = forest.order + 1, forest.n_labels**forest.order
    n_groups = np.prod(shape)
    bound = min(tree_settings.max_leaf_value, MAX_TRANSITION)
    rate = min(tree_settings.learning_rate, MAX_TRANSITION_RATE)
    true_weights = None
    if context_weights is not None:
        true_weights = _shared_weights(context_weights, forest.n_labels).ravel()
    added = []
    for examples in lists:
        groups = depths[examples.positions].astype(np.int64) * shape[1] + examples.contexts
        totals = np.bincount(groups, examples.residuals, n_groups)
        if true_weights is None:
            weights = np.bincount(groups, examples.curvatures, n_groups)
        else:
            weights = true_weights
        weights = weights + tree_settings.l2_regularization
        steps = np.divide(totals, weights, out=np.zeros_like(totals), where=weights > 0)
        units = np.rint(np.clip(steps, -bound, bound) * (rate / LEAF_UNIT))
        added.append(units.astype(np.int32).reshape(shape))
    forest.transitions.append(np.stack(added, axis=1))


def _shared_weights(context_weights: np.ndarray, n_labels: int) -> np.ndarray:
    """Share the weight of positions whose context is unknown among all contexts of their depth."""
    weights = context_weights[:, :-1].copy()
    for depth, unknown in enumerate(context_weights[:, -1]):
        n_contexts = n_labels**depth
        weights[depth, :n_contexts] += unknown / n_contexts
    return weights
