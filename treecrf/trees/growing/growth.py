"""Settings of tree growth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.trees.growing.tree_constraints import TreeConstraints

# Deeper than any tree.
MAX_DEPTH = 1 << 30


@dataclass(frozen=True)
class Growth:
    """Settings of tree growth, named like the parameters of the estimators.

    ``max_features_per_tree``, ``subsample`` and ``seed`` concern the training loop, all others the
    grower of single trees.
    """

    max_leaf_nodes: int
    l2_regularization: float
    learning_rate: float = 1.0
    max_depth: int | None = None
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    max_leaf_value: float = np.inf
    seed: int = 0
    constraints: TreeConstraints | None = None

    @property
    def depth_limit(self) -> int:
        """Maximum number of tests from the root to a leaf; -1 for no limit."""
        return -1 if self.max_depth is None else min(self.max_depth, MAX_DEPTH)

    @property
    def min_examples(self) -> int:
        """Minimum number of examples in each child, 0 for no minimum.

        Each child of a split has an example anyway, or with missing values a fraction of one.
        """
        return 0 if self.min_samples_leaf == 1 else self.min_samples_leaf
