"""Rounding that makes sums exact, so that they do not depend on the order of summation."""

from __future__ import annotations

import numpy as np

# Leaf values are multiples of this unit; `round_value` in trees/growing/_members.pxd uses the same.
LEAF_UNIT = 2.0**-40


def rounded_leaves(values: np.ndarray) -> np.ndarray:
    """Round leaf values as the trees' own leaves are rounded."""
    return np.rint(values / LEAF_UNIT) * LEAF_UNIT
