"""Rounding that makes sums exact."""

from __future__ import annotations

import numpy as np
import pytest

from treecrf.utils.exact import UNIT, leave_room, rounded, rounded_leaves, unit_of


def is_exact(values, rng):
    """Return whether sums of the values are the same in any order."""
    sums = {sum(rng.permutation(values).tolist()) for _ in range(20)}
    return len(sums) == 1


@pytest.mark.parametrize("rounding", [np.rint, np.ceil])
def test_rounded_values_are_multiples_of_the_unit(rounding):
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    found = rounded(values, rounding)
    assert (found / UNIT == np.rint(found / UNIT)).all()
    assert np.abs(found - values).max() < UNIT
    assert (found >= values).all() or rounding is np.rint
    assert is_exact(found, rng)
    assert not is_exact(values, rng)


def test_sums_of_leaves_are_exact():
    rng = np.random.default_rng(0)
    assert is_exact(rounded_leaves(rng.normal(size=1000)), rng)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_a_unit_suits_the_sum(scale):
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * scale
    unit = unit_of(np.abs(values).sum())
    assert unit >= UNIT
    assert is_exact(np.rint(values / unit) * unit, rng)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_fractions_of_values_have_exact_sums(scale):
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * scale
    leave_room(values)
    assert is_exact(values * (rng.integers(0, 1 << 16, 1000) / (1 << 16)), rng)
