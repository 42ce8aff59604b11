"""Rounding that makes sums exact, so that they do not depend on the order of summation.

Values are rounded to multiples of a unit, a power of 2. A double has 53 bits, so a sum of fewer
than 2**53 units is exact.
"""

from __future__ import annotations

import math

import numpy as np

# Residuals and position weights are multiples of this unit, the smallest one of examples.
# The kernels in chains round to it too.
UNIT_LOG2 = -32
UNIT = 2.0**UNIT_LOG2
# Exact sums have at most this many units: one bit of a double is spare.
MAX_UNITS_LOG2 = 52
# Leaf values are multiples of this unit; `round_value` in _row_sets.pxd uses the same.
LEAF_UNIT = 2.0**-20
# Bits left for a sum of fractions of rows: 16 bits hold a fraction, and one bit is spare.
FRACTION_SUM_BITS = 53 - 16 - 1


def rounded(values: np.ndarray, rounding: np.ufunc = np.rint) -> np.ndarray:
    """Round values to multiples of `UNIT`."""
    units = values / UNIT
    rounding(units, out=units)
    units *= UNIT
    return units


def rounded_leaves(values: np.ndarray) -> np.ndarray:
    """Round leaf values as the trees' own leaves are rounded."""
    return np.rint(values / LEAF_UNIT) * LEAF_UNIT


def unit_of(total: float) -> float:
    """Return the unit at which values with this absolute sum have exact sums."""
    exponent = math.frexp(total)[1] if math.isfinite(total) else 0
    return 2.0 ** max(UNIT_LOG2, exponent - MAX_UNITS_LOG2)


def leave_room(values: np.ndarray, times: int = 1, rounding: np.ufunc = np.rint) -> None:
    """Round values in place so that sums of fractions of them are exact.

    Parameters
    ----------
    values : float64 array
    times : int, default=1
        How often each value may occur in the sum.
    rounding : ufunc, default=np.rint
    """
    _, exponent = math.frexp(times * np.abs(values).sum())
    unit = 2.0 ** max(UNIT_LOG2, exponent - FRACTION_SUM_BITS)
    rounding(values / unit, out=values)
    values *= unit
