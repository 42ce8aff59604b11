"""Tests of trees in words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf import TreeMEMM
from treecrf.encoding import BOUNDARY
from treecrf.wording import conjunction, name_of_test


def encoder_of(X, y, **parameters):
    return TreeMEMM(max_iter=1, **parameters).fit(X, y)._encoder


def test_symbols():
    encoder = encoder_of(["abab", "ba"], ["xyxy", "yx"], window=2)
    tests = [((0, 0, 1), False), ((0, -2, 0), True), ((BOUNDARY, 1, 0), False)]
    told = "not outside[+1] and symbol[-2] is 'a' and not symbol[0] is 'b'"
    assert conjunction(encoder, tests) == told
    assert conjunction(encoder, []) == "anything"


def test_columns_have_the_names_of_the_input():
    pd = pytest.importorskip("pandas")
    room = pd.DataFrame(
        {"light": [0.5, 2.5, 4.5], "day": ["Mo", "Tu", "Mo"], "on": [True, False, True]}
    )
    encoder = encoder_of([room] * 3, ["xyx"] * 3)
    told = [name_of_test(encoder, *test) for test in [(0, 0, 0), (1, 0, 1), (2, 0, 0)]]
    assert told == ["light > 1.5", "day is 'Tu'", "on"]


def test_filled_columns():
    X = [np.array([[1.0, np.nan], [2.0, 0.0], [3.0, 1.0]])] * 3
    encoder = encoder_of(X, ["xyx"] * 3, missing="indicator", window=(1, 0))
    told = [name_of_test(encoder, *test) for test in [(0, -1, 1), (1, 0, 0), (2, 0, 0)]]
    assert told == ["x0[-1] > 2.5", "x1[0] > 0.5", "x1[0] is missing"]


def test_negative_numbers_of_sparse_tables():
    """Their tests ask from the other side: a zero that is not stored passes none."""
    X = [sparse.csr_array([[-2.0], [0.0], [0.0], [-1.0], [3.0], [0.0]])] * 3
    encoder = encoder_of(X, ["xyyxzy"] * 3)
    told = [name_of_test(encoder, 0, 0, value) for value in range(3)]
    assert told == ["x0 <= -1.5", "x0 <= -0.5", "x0 > 1.5"]
