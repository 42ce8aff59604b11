"""A Newton step of the constant transitions, from exact sums over all positions."""

from __future__ import annotations

import numpy as np

from treecrf.chains.factored.constant_likelihood import TransitionSums
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils.exact import LEAF_UNIT

# Maximum learning rate of constant transitions. Each of them changes the scores of most sequences
# many times, and long steps overshoot.
MAX_TRANSITION_RATE = 0.2
# Bounds the scores of constant transitions in first order, far above useful values.
MAX_TRANSITION = 64.0


def transition_step(
    sums: TransitionSums, bound_share: float | None, tree_settings: TreeSettings
) -> np.ndarray:
    """Return what an iteration adds to the transitions, int32 in units of leaf values.

    The array has the shape of the sums: (order + 1, n_labels, n_contexts).
    """
    bound = min(tree_settings.max_leaf_value, MAX_TRANSITION)
    rate = min(tree_settings.learning_rate, MAX_TRANSITION_RATE)
    weights = sums.curvature(bound_share) + tree_settings.l2_regularization
    totals = sums.residuals
    steps = np.divide(totals, weights, out=np.zeros_like(totals), where=weights > 0)
    return np.rint(np.clip(steps, -bound, bound) * (rate / LEAF_UNIT)).astype(np.int32)
