"""Hashes of integers."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from support.tree_oracle import mix_one

from treecrf.utils.hashing import mix, ranks_of_equals, smallest

MASK = 2**64 - 1


def test_the_first_numbers_of_splitmix():
    assert int(mix(0)) == 0xE220A8397B1DCDAF
    assert int(mix(0x9E3779B97F4A7C15)) == 0x6E789E6AA1B965F4


def test_mix_equals_the_definition_whatever_the_shape():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, MASK, (2, 50), dtype=np.uint64, endpoint=True)
    expected = [reduce(mix_one, (7, x, y), 0) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert mix(7, a, b).tolist() == expected
    table = mix(7, a[:, None], b[None])
    assert table.shape == (50, 50)
    assert np.diag(table).tolist() == expected
    assert mix(7, -1).tolist() == reduce(mix_one, (7, MASK), 0)
    assert mix(np.array([-1], dtype=np.int32)).tolist() == [mix_one(0, MASK)]


def test_mix_leaves_its_arguments_unchanged():
    parts = np.arange(5, dtype=np.uint64)
    mix(parts, parts)
    assert parts.tolist() == [0, 1, 2, 3, 4]


def test_ranks_count_the_equal_values_before():
    values = np.array([3, 1, 3, 3, 1, 2], dtype=np.uint64)
    assert ranks_of_equals(values).tolist() == [0, 0, 1, 2, 1, 0]
    assert ranks_of_equals(values[:0]).tolist() == []


@pytest.mark.parametrize("n", [0, 1, 3, 5, 6])
def test_the_smallest_are_chosen(n):
    hashes = np.array([3, 1, 9, 7, 5], dtype=np.uint64)
    assert hashes[smallest(hashes, n)].tolist() == [
        x for x in hashes.tolist() if x in sorted(hashes.tolist())[:n]
    ]
