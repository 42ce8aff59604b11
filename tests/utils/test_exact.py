"""Rounding that makes sums exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from treecrf.utils.exact import (
    UNIT,
    ExactSum,
    exact_sum,
    from_integers,
    integer_parts,
    leave_room,
    round_to,
    rounded,
    rounded_leaves,
    unit_for,
    unit_of,
)


def is_exact(values, rng):
    """Return whether sums of the values are the same in any order."""
    # From Python 3.12 on, `sum` makes up for the errors of rounding.
    sums = {float(np.cumsum(rng.permutation(values))[-1]) for _ in range(20)}
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


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e9])
def test_values_have_exact_sums_at_their_unit(scale):
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * scale
    unit = unit_for(values, 3)
    assert unit == unit_for(rng.permutation(values), 3)
    assert unit in {unit_of(3 * np.abs(values).sum()), unit_of(6 * np.abs(values).sum())}
    round_to(values, unit)
    assert is_exact(np.tile(values, 3), rng)


def test_the_unit_does_not_depend_on_the_order_near_a_power_of_2():
    rng = np.random.default_rng(1)
    values = rng.random(1000)
    values *= 2.0**30 / math.fsum(values.tolist())
    float_sums = {rng.permutation(values).sum() < 2.0**30 for _ in range(100)}
    assert float_sums == {True, False}
    assert len({unit_for(rng.permutation(values)) for _ in range(100)}) == 1


@pytest.mark.parametrize("n", [0, 1, 1000, 70_000])
def test_exact_sums(n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n) * 10.0 ** rng.uniform(-9, 8, n)
    expected = sum(round(Fraction(x) * 2**50) for x in values.tolist()) / 2**50
    assert exact_sum(values) == expected
    assert exact_sum(rng.permutation(values)) == expected


@pytest.mark.parametrize("bad", [-np.inf, np.inf, np.nan])
def test_sums_that_are_not_finite(bad):
    np.testing.assert_equal(exact_sum(np.array([1.0, bad, 2.0])), bad)


def test_integer_parts_of_values():
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (500, 3)) * np.array([1.0, 1e-3, 1e-6])
    high, low = integer_parts(values)
    expected = [sum(round(Fraction(x) * 2**62) for x in column) for column in values.T.tolist()]
    found = from_integers(high.sum(axis=0), low.sum(axis=0))
    assert found.tolist() == [units / 2**62 for units in expected]
    extremes = np.array([1.0, -1.0, 0.0, 1 / 3, -1 / 3])
    assert from_integers(*integer_parts(extremes)).tolist() == extremes.tolist()
    many = np.full((1000, 1), 2.0**21)  # as large as the sum of 2**31 values
    high, low = (part.sum(axis=0) for part in integer_parts(many))
    assert from_integers(high, low).tolist() == [1000 * 2.0**21]


@pytest.mark.parametrize("large", [2.0**29 + 1, 1e30, 1e308])
def test_sums_of_large_values_do_not_depend_on_the_order(large):
    rng = np.random.default_rng(2)
    values = np.append(rng.normal(size=1000) * (large / 1e5), large)
    assert {exact_sum(rng.permutation(values)) for _ in range(5)} == {math.fsum(values.tolist())}


def test_sums_beyond_all_numbers():
    assert exact_sum(np.array([1e308, 1e308])) == np.inf
    assert np.isnan(exact_sum(np.array([np.inf, -np.inf])))


@pytest.mark.parametrize("extreme", [0.0, 2.0**31, 1e300, np.inf])
def test_sums_of_parts_can_be_added(extreme):
    rng = np.random.default_rng(4)
    values = np.append(rng.normal(size=1000) * 10.0 ** rng.uniform(-9, 8, 1000), extreme)
    for _ in range(5):
        cuts = np.sort(rng.integers(0, len(values), 6))
        parts = np.split(rng.permutation(values), cuts)
        assert float(sum(map(ExactSum.of, parts), ExactSum())) == exact_sum(values)
