"""Costs of errors: matrices, dicts, and invalid values."""

from __future__ import annotations

import re

import numpy as np
import pytest

from treecrf.learners.base.label_arguments import cost_table

XYZ = np.array(["x", "y", "z"])
COSTS = [[0, 1, 4], [2.5, 0, 1], [-1, 3, 0]]


def test_without_a_matrix_every_error_costs_1():
    np.testing.assert_array_equal(cost_table(None, XYZ), 1 - np.eye(3))
    np.testing.assert_array_equal(cost_table({}, XYZ), 1 - np.eye(3))


@pytest.mark.parametrize("convert", [list, tuple, np.array, lambda c: np.array(c, np.float32)])
def test_forms_of_matrices(convert):
    found = cost_table(convert(COSTS), XYZ)
    np.testing.assert_array_equal(found, COSTS)
    assert found.dtype == np.float64


def test_pairs_are_true_and_predicted_labels():
    found = cost_table({("x", "z"): 5, ("z", "x"): 0.5, ("y", "y"): -2}, XYZ)
    np.testing.assert_array_equal(found, [[0, 1, 5], [1, -2, 1], [0.5, 1, 0]])
    found = cost_table({(0, 7): 3, (np.int64(7), True): 2}, np.array([0, 1, 7]))
    np.testing.assert_array_equal(found, [[0, 1, 3], [1, 0, 1], [1, 2, 0]])


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([[0, 1], [1, 0]], "cost_matrix has shape (2, 2); expected (3, 3), with a row for each"),
        ([1, 2, 3], "cost_matrix has shape (3,); expected (3, 3)"),
        (3, "cost_matrix has shape (); expected (3, 3)"),
        ([[0, 1, 2], [3]], "cost_matrix is not numeric; expected"),
        ([["a"] * 3] * 3, "cost_matrix is not numeric; expected"),
        ([[None] * 3] * 3, "cost_matrix has NaN or infinite values"),
        ([[np.nan] * 3] * 3, "cost_matrix has NaN or infinite values"),
        ([[np.inf] * 3] * 3, "cost_matrix has NaN or infinite values"),
        ({("x", "?"): 1}, "cost_matrix has the key ('x', '?'); expected a pair (true label, pre"),
        ({"x": 1}, "cost_matrix has the key 'x'; expected a pair"),
        ({("x", "y", "z"): 1}, "cost_matrix has the key ('x', 'y', 'z'); expected a pair"),
        ({("x", 1): 1}, "of labels in ['x', 'y', 'z']"),
        ({("x", "y"): "much"}, "cost_matrix: ('x', 'y') has cost 'much'; expected a number"),
        ({("x", "y"): None}, "cost_matrix: ('x', 'y') has cost None; expected a number"),
        ({("x", "y"): np.nan}, "cost_matrix has NaN or infinite values"),
    ],
)
def test_bad_costs_are_named(costs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        cost_table(costs, XYZ)


def test_labels_that_are_not_allowed_are_not_predicted(letters):
    """Even if they have the least expected cost."""
    from treecrf import TreeCRF

    X, y = letters
    model = TreeCRF(
        max_iter=1, decoding="minimum_risk", cost_matrix=[[0, 9, 9], [0, 9, 9], [0, 9, 9]]
    )
    model.fit(X, y)
    assert set(np.concatenate(model.predict(X))) == {"x"}
    allowed = [np.tile([False, True, True], (len(word), 1)) for word in X]
    assert "x" not in np.concatenate(model.predict(X, allowed=allowed))
    for found, labels in zip(model.predict(X, known=y), y, strict=True):
        assert "".join(found) == labels
