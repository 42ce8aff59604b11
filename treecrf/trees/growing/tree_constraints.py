"""Constraints on trees: the order of values, and the features of a branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.trees.growing.window_tests import TestTable


@dataclass(frozen=True)
class TreeConstraints:
    """Monotonic constraints and interaction constraints on trees.

    Attributes
    ----------
    features : int32 array (n_columns,)
        The feature of the input that each encoded column comes from.
    signs : int8 array (n_labels, n_columns) or None
        1 if higher values of a column may not lower the score of a label, -1 if they may not raise
        it, 0 otherwise.
    groups : uint8 array (n_groups, n_features) or None
        Sets of features, one of which must contain all features that a branch tests.
    max_in_branch : int
        Maximum number of features that a branch tests, in place of sets; 0 for no limit.
    """

    features: np.ndarray
    signs: np.ndarray | None = None
    groups: np.ndarray | None = None
    max_in_branch: int = 0

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
