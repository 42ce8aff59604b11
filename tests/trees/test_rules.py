"""Leaves of trees as conditions, shortened without a change of meaning."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf import TreeCRF
from treecrf.encoding.column_layout import BOUNDARY
from treecrf.encoding.names import conjunction
from treecrf.trees.explain.conjunctions import Literals, leaf_values, window_literals


def shortened(encoder, tests):
    """Tests of one leaf without those that follow from others."""
    (columns, offsets, values), holds = (
        np.array([test for test, _ in tests]).T,
        [h for _, h in tests],
    )
    literals = Literals(np.zeros_like(columns), columns, offsets, values, np.array(holds))
    short = window_literals(literals, encoder)
    return [((c, o, v), h) for c, o, v, h in zip(*list(vars(short).values())[1:], strict=True)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x0[0] > 1.5 and x0[0] > 0.5", "x0[0] > 1.5"),
        ("not x0[0] > 1.5 and not x0[0] > 0.5", "not x0[0] > 0.5"),
        ("x0[0] > 0.5 and not x0[0] > 1.5", "0.5 < x0[0] <= 1.5"),
        ("x0[-1] > 1.5 and x0[0] > 0.5", "x0[-1] > 1.5 and x0[0] > 0.5"),
        ("x1[0] is 'b' and not x1[0] is 'a'", "x1[0] is 'b'"),
        ("x1[+1] is 'b' and not x1[0] is 'a'", "not x1[0] is 'a' and x1[+1] is 'b'"),
        ("outside[-1] and outside[-2]", "outside[-1]"),
        ("not outside[-1] and not outside[-2]", "not outside[-2]"),
        ("outside[-2] and not outside[-1]", "outside[-2] and not outside[-1]"),
        ("outside[-2] and not outside[+2]", "outside[-2] and not outside[+2]"),
        ("outside[-1] and not x1[-2] is 'a'", "outside[-1]"),
        ("outside[-2] and not x1[-1] is 'a'", "outside[-2] and not x1[-1] is 'a'"),
        ("x1[-2] is 'a' and not outside[-1]", "x1[-2] is 'a'"),
        ("x1[-2] is 'a' and not outside[-2]", "x1[-2] is 'a'"),
        ("x1[-1] is 'a' and not outside[-2]", "not outside[-2] and x1[-1] is 'a'"),
        ("not x1[-2] is 'a' and not outside[-1]", "not outside[-1] and not x1[-2] is 'a'"),
    ],
)
def test_implied_tests_are_left_out(given, expected):
    rows = [[0, "a"], [1, "b"], [2, "c"]]
    encoder = TreeCRF(window=2, max_iter=1).fit([rows] * 3, ["xyx"] * 3)._encoder
    values = [0, 0], [1, 0], [0, 1], [1, 1], [1, 2]
    every = [(column, offset, value) for column, value in values for offset in range(-2, 3)]
    every += [(BOUNDARY, offset, 0) for offset in (-2, -1, 1, 2)]
    known = {conjunction(encoder, [(test, True)]): test for test in every}
    tests = [(known[t.removeprefix("not ")], t[:4] != "not ") for t in given.split(" and ")]
    for some in (tests, tests[::-1]):
        short = conjunction(encoder, shortened(encoder, some))
        assert set(short.split(" and ")) == set(expected.split(" and "))


def test_numbers_of_sparse_columns_are_limited_from_both_sides():
    """Tests below 0 hold for smaller values, those above 0 for larger ones of the same number."""
    column = np.array([[-2.0], [-1.0], [0], [0], [0], [0], [0], [0], [0], [0], [1.0], [2.0]])
    model = TreeCRF(max_iter=1).fit([sparse.csr_array(column)] * 2, ["xxxxxxyyyyyy"] * 2)
    encoder = model._encoder
    tests = [(0, 0, value) for value in range(4)]
    names = [conjunction(encoder, [(test, True)]) for test in tests]
    assert names == ["x0 <= -1.5", "x0 <= -0.5", "x0 > 0.5", "x0 > 1.5"]
    below = [(tests[0], True), (tests[1], True), (tests[2], False)]
    assert conjunction(encoder, shortened(encoder, below)) == "x0 <= -1.5"
    between = [(tests[0], False), (tests[1], False), (tests[2], False), (tests[3], False)]
    assert conjunction(encoder, shortened(encoder, between)) == "not x0 <= -0.5 and not x0 > 0.5"


def test_leaves_with_the_same_condition_are_one():
    model = TreeCRF(max_iter=4, max_leaf_nodes=2, order=0).fit(["ab"] * 9, ["xy"] * 9)
    rules = leaf_values(model._forest, model._encoder)
    assert len(rules) == 4
    leaves = [tree["leaf"][tree["true_child"] < 0] for tree in model._forest.trees]
    np.testing.assert_allclose(sum(map(abs, rules.values())), np.abs(leaves).sum())
