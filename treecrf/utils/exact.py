"""Rounding that makes sums exact, so that they do not depend on the order of summation.

Values are rounded to multiples of a unit, a power of 2. A double has 53 bits, so a sum of fewer
than 2**53 units is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treecrf.utils._exact import sum_block

# Residuals and position weights are multiples of this unit, the smallest one of examples.
# The kernels in chains round to it too.
UNIT_LOG2 = -32
UNIT = 2.0**UNIT_LOG2
# Exact sums have at most this many units: one bit of a double is spare.
MAX_UNITS_LOG2 = 52
# Leaf values are multiples of this unit; `round_value` in _sets.pxd uses the same.
LEAF_UNIT = 2.0**-20
# Bits left for a sum of fractions of rows: 16 bits hold a fraction, and one bit is spare.
FRACTION_SUM_BITS = 53 - 16 - 1
BLOCK = 1 << 16
# Greatest absolute value in an exact sum by 64-bit integers, and the bits after the point.
MAX_EXACT = 2.0**29
SUM_BITS = 50


def rounded(values: np.ndarray, rounding: np.ufunc = np.rint) -> np.ndarray:
    """Round values to multiples of `UNIT`."""
    units = values / UNIT
    rounding(units, out=units)
    units *= UNIT
    return units


def rounded_leaves(values: np.ndarray) -> np.ndarray:
    """Round leaf values as the trees' own leaves are rounded."""
    return np.rint(values / LEAF_UNIT) * LEAF_UNIT


def unit_of(total: float, bits: int = MAX_UNITS_LOG2) -> float:
    """Return the unit at which values with this absolute sum have exact sums, of 2**bits units."""
    exponent = 0
    if math.isfinite(total):
        exponent = math.frexp(total)[1]
    return 2.0 ** max(UNIT_LOG2, exponent - bits)


def unit_for(values: np.ndarray, times: int = 1, bits: int = MAX_UNITS_LOG2) -> float:
    """Return the unit at which values have exact sums; it does not depend on their order.

    Each value may occur several times in a sum.
    """
    total = times * math.fsum(np.abs(block).sum() for block in _blocks(values))
    # Far from a power of 2, rounding of the sum changes nothing.
    units = {unit_of(total * (1 + error), bits) for error in (-1e-9, 1e-9)}
    if len(units) > 1:
        total = times * math.fsum(np.abs(values).ravel().tolist())
    return unit_of(total, bits)


def leave_room(values: np.ndarray, times: int = 1, rounding: np.ufunc = np.rint) -> None:
    """Round values in place so that sums of fractions of them are exact, as in `unit_for`."""
    round_to(values, unit_for(values, times, FRACTION_SUM_BITS), rounding)


def round_to(values: np.ndarray, unit: float, rounding: np.ufunc = np.rint) -> None:
    """Round values in place to multiples of a unit."""
    values /= unit
    rounding(values, out=values)
    values *= unit


def _blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield blocks of values, so that intermediate results stay in the cache."""
    values = values.ravel()
    for start in range(0, len(values), BLOCK):
        yield values[start : start + BLOCK]


# A value is the sum of two integers, in units of 2**-30 and of 2**-62.
HIGH_BITS = 30
LOW_BITS = 32


def integer_parts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round values up to 1 to multiples of 2**-62, as two int64 arrays with exact sums.

    `from_integers` takes the arrays, or sums of up to 2**31 values.
    """
    scaled = values * 2.0**HIGH_BITS
    high = np.rint(scaled)
    low = np.rint((scaled - high) * 2.0**LOW_BITS)
    return high.astype(np.int64), low.astype(np.int64)


def from_integers(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the values or sums of values that `integer_parts` describes, each rounded once."""
    units = high.astype(object) * 2**LOW_BITS + low
    return (units / 2 ** (HIGH_BITS + LOW_BITS)).astype(np.float64)


@dataclass(frozen=True)
class ExactSum:
    """Sum of values, each rounded to a multiple of 2**-50, to which other sums can be added.

    However the values are divided into parts, the sums of the parts have the same total.
    """

    units: int = 0  # sum of the finite values, in units of 2**-50
    other: float = 0.0  # sum of the infinite values and NaN

    @classmethod
    def of(cls, values: np.ndarray) -> ExactSum:
        """Sum the values of an array."""
        total = 0
        other = 0.0
        for block in _blocks(values.astype(np.float64, copy=False)):
            high, low, n_large = sum_block(block, MAX_EXACT)
            total += (high << LOW_BITS) + low
            if n_large:
                large = block[~(np.abs(block) <= MAX_EXACT)].tolist()
                # They are multiples of the unit unless they are infinite.
                finite = [value.as_integer_ratio() for value in large if math.isfinite(value)]
                total += sum((n << SUM_BITS) // d for n, d in finite)
                other += sum(value for value in large if not math.isfinite(value))
        return cls(total, other)

    @classmethod
    def from_integer(cls, value: int) -> ExactSum:
        """Return the sum of a single integer."""
        return cls(value << SUM_BITS)

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.units + other.units, self.other + other.other)

    def __float__(self) -> float:
        if self.other != 0.0:  # or NaN
            return self.other
        try:
            return self.units / 2**SUM_BITS
        except OverflowError:
            if self.units > 0:
                return math.inf
            return -math.inf


def exact_sum(values: np.ndarray) -> float:
    """Sum values, each rounded to a multiple of 2**-50, in any order; the sum may be inf or NaN."""
    return float(ExactSum.of(values))
