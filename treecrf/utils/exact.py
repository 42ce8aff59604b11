"""Rounding that makes sums exact, so that they do not depend on the order of summation."""

from __future__ import annotations

import math

import numpy as np

# Leaf values are multiples of this unit; `round_value` in trees/growing/_members.pxd uses the same.
LEAF_UNIT = 2.0**-40

# A double holds sums of up to 2**52 units exactly. The smallest unit is that of all residuals.
MAX_UNITS_LOG2 = 52
UNIT_LOG2 = -32


def rounded_leaves(values: np.ndarray) -> np.ndarray:
    """Round leaf values as the trees' own leaves are rounded."""
    return np.rint(values / LEAF_UNIT) * LEAF_UNIT


def unit_of(total: float) -> float:
    """Unit, a power of 2, for numbers with this sum of absolute values whose sums are exact."""
    exponent = math.frexp(total)[1] if math.isfinite(total) else 0
    return 2.0 ** max(UNIT_LOG2, exponent - MAX_UNITS_LOG2)
