"""Names of tests and of their conjunctions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf import TreeMEMM
from treecrf.encoding.column_layout import BOUNDARY
from treecrf.encoding.names import (
    conjunction,
    feature_names,
    name_of_label_test,
    name_of_labels,
    name_of_test,
)


def encoder_of(X, y, **parameters):
    return TreeMEMM(max_iter=1, **parameters).fit(X, y)._encoder


def test_symbols():
    encoder = encoder_of(["abab", "ba"], ["xyxy", "yx"], window=2)
    tests = [((0, 0, 1), False), ((0, -2, 0), True), ((BOUNDARY, 1, 0), False)]
    expected = "not outside[+1] and symbol[-2] is 'a' and not symbol[0] is 'b'"
    assert conjunction(encoder, tests) == expected
    assert conjunction(encoder, []) == "anything"


def test_values_that_are_excluded_are_merged():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"day": ["Mo", "Tu", "is 'We'"] * 2, "light": np.arange(6.0)})
    encoder = encoder_of([table] * 3, ["xyxyxy"] * 3, window=(1, 0))
    tests = [((0, 0, k), False) for k in range(3)] + [((0, -1, 0), False), ((1, 0, 2), False)]
    written = conjunction(encoder, tests)
    days = """('Mo', 'Tu', "is 'We'")"""
    assert written == f"not day[-1] is 'Mo' and day[0] not in {days} and not light[0] > 2.5"
    tests = [((1, 0, 3), False), ((1, 0, 1), True), ((1, -1, 0), True), ((1, -1, 2), True)]
    expected = "light[-1] > 0.5 and light[-1] > 2.5 and 1.5 < light[0] <= 3.5"
    assert conjunction(encoder, tests) == expected
    tests = [((0, 0, 0), True), ((0, 0, 1), False), ((0, 0, 2), False)]
    assert conjunction(encoder, tests[:2]) == "day[0] is 'Mo' and not day[0] is 'Tu'"
    assert conjunction(encoder, tests) == """day[0] is 'Mo' and day[0] not in ('Tu', "is 'We'")"""


def test_columns_have_the_names_of_the_input():
    pd = pytest.importorskip("pandas")
    room = pd.DataFrame(
        {"light": [0.5, 2.5, 4.5], "day": ["Mo", "Tu", "Mo"], "on": [True, False, True]}
    )
    encoder = encoder_of([room] * 3, ["xyx"] * 3)
    names = [name_of_test(encoder, *test) for test in [(0, 0, 0), (1, 0, 1), (2, 0, 0)]]
    assert names == ["light > 1.5", "day is 'Tu'", "on"]


def test_indicator_columns():
    X = [np.array([[1.0, np.nan], [2.0, 0.0], [3.0, 1.0]])] * 3
    encoder = encoder_of(X, ["xyx"] * 3, missing="indicator", window=(1, 0))
    names = [name_of_test(encoder, *test) for test in [(0, -1, 1), (1, 0, 0), (2, 0, 0)]]
    assert names == ["x0[-1] > 2.5", "x1[0] > 0.5", "x1[0] is missing"]


def test_tests_on_sparse_numbers_may_point_down():
    column = sparse.csr_array(np.array([[-2.0], [0], [0], [0], [0], [0], [0], [0], [0], [3.0]]))
    encoder = encoder_of([column] * 3, ["xxxxxyyyyy"] * 3)
    assert [name_of_test(encoder, 0, 0, k) for k in range(2)] == ["x0 <= -1", "x0 > 1.5"]
    both = [((0, 0, 0), False), ((0, 0, 1), False)]
    assert conjunction(encoder, both) == "not x0 <= -1 and not x0 > 1.5"
    assert conjunction(encoder, [((0, 0, 0), True), both[1]]) == "x0 <= -1 and not x0 > 1.5"


def test_sequences_read_from_their_end():
    encoder = encoder_of(["abab", "ba"], ["xyxy", "yx"], window=2)
    assert name_of_test(encoder, 0, -2, 0, backward=True) == "symbol[+2] is 'a'"
    tests = [((0, 1, 1), True), ((BOUNDARY, 2, 0), True)]
    assert conjunction(encoder, tests, backward=True) == "outside[-2] and symbol[-1] is 'b'"


def test_previous_labels():
    classes = np.array(["B", "I", "O"])
    assert name_of_label_test(classes, 1, 2) == "label[-1] is 'O'"
    assert name_of_label_test(classes, 2, 3, backward=True) == "label[+2] is none"
    masks = [0b0010, 0b1101, 0b0101, 0b1110, 0b1001]
    assert [name_of_labels(classes, 1, mask) for mask in masks] == [
        "label[-1] is 'I'", "not label[-1] is 'I'", "label[-1] in ('B', 'O')",
        "not label[-1] is 'B'", "label[-1] in ('B', none)",
    ]  # fmt: skip
    assert name_of_labels(np.arange(5), 1, 0b110111) == "not label[-1] is 3"
    assert name_of_labels(np.arange(5), 1, 0b110101) == "label[-1] not in (1, 3)"


def test_features_have_names():
    assert feature_names(encoder_of(["ab"], ["xy"]).schema).tolist() == ["symbol"]
    tables = [np.array([[1.0, 2.0], [3.0, 4.0]])]
    assert feature_names(encoder_of(tables, ["xy"]).schema).tolist() == ["x0", "x1"]
