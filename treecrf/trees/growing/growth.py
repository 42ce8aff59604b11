"""Settings of tree growth, and constraints on trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.trees.growing.window_tests import TestTable

# Deeper than any tree.
MAX_DEPTH = 1 << 30


@dataclass(frozen=True)
class TreeConstraints:
    """Monotonic constraints and interaction constraints on trees."""

    features: np.ndarray  # int32; the input's feature behind each encoded column
    # int8 (n_labels, n_columns): 1 if higher values may not lower the score, -1 if they may not
    # raise it, 0 otherwise.
    signs: np.ndarray | None = None
    # uint8 (n_groups, n_features): one group must contain all features that a branch tests.
    groups: np.ndarray | None = None
    max_in_branch: int = 0  # most features of a branch, in place of groups; 0 for no limit

    @property
    def n_features(self) -> int:
        """Number of features of the input."""
        return int(self.features.max(initial=-1)) + 1 if self.groups is None else len(self.groups.T)

    def sources_of(self, table: TestTable) -> np.ndarray:
        """Return the feature of the input behind each windowed one, -1 for ends of sequences."""
        if not table.n_features:
            return np.zeros(0, dtype=np.int32)
        columns = np.maximum.reduceat(table.columns, table.feature_starts[:-1])
        return np.where(columns >= 0, self.features[np.maximum(columns, 0)], -1).astype(np.int32)


@dataclass(frozen=True)
class Growth:
    """Settings of tree growth, most of them named like the parameters of the estimators.

    ``max_features_per_tree``, ``subsample`` and ``seed`` concern the training loop, all others the
    grower of single trees.
    """

    max_leaf_nodes: int
    l2_regularization: float
    learning_rate: float = 1.0
    depth_limit: int = -1  # maximum number of tests from the root to a leaf; -1 for no limit
    min_gain: float = 0.0
    # In each child of a split; 0 for no minimum. It has an example anyway, or with missing values a
    # fraction of one.
    min_examples: int = 0
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    max_leaf_value: float = np.inf
    seed: int = 0
    constraints: TreeConstraints | None = None
