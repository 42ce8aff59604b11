"""Constraints on trees: the order of values, and the features of a branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.trees.growing.window_tests import TestTable


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
