"""The oracle of tree growth agrees with hand-computed cases."""

from __future__ import annotations

import numpy as np
from support.tree_oracle import grow_naive_tree, window_test_truth


def test_window_tests_on_symbols_and_tables():
    symbols = window_test_truth(
        ["aba", "b"], [("category", 0, -1, "a"), ("boundary", 0, 1, None), ("category", 0, 0, "b")]
    )
    assert symbols.astype(int).tolist() == [[0, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]]
    table = [np.array([[1.0, 0.0], [2.0, 1.0], [np.nan, 1.0]])]
    tests = [("number", 0, 0, 1.0), ("boolean", 1, 1, None), ("at most", 0, -1, 1.0)]
    assert window_test_truth(table, tests).astype(int).tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 0]]


def test_naive_tree_by_hand():
    """Three examples: the first position, target 1/2, and the second after labels 0 and 1."""
    targets = np.array([[0.5, 99.0], [1.0, -1.0]])  # there is no example at 99
    tree = grow_naive_tree(
        np.array([[False, True]]),
        np.array([0, 1]),
        2,
        1,
        targets,
        np.ones((2, 2)),
        max_leaf_nodes=10,
        l2=0.0,
        learning_rate=0.5,
    )
    # Test 0 is the window test, 1 and 2 are "the previous label is 0" and "is 1", 3 the start.
    # Root: test 2 scores 1 + 1.5**2 / 2. Below, tests 0, 1 and 3 are equally good: 0 is first.
    root, after_one, rest, after_zero, start = tree.nodes
    assert (root.test, root.true_child, root.false_child, root.weight) == (2, 1, 2, 3.0)
    assert root.gain == 2.125 - 0.25 / 3
    assert (rest.test, rest.true_child, rest.false_child, rest.gain) == (0, 3, 4, 0.125)
    assert [leaf.value for leaf in (after_one, after_zero, start)] == [-0.5, 0.5, 0.25]
    assert tree.leaves.tolist() == [[4, -1], [3, 1]]
    assert tree.increments.tolist() == [[0.25, 0.0], [0.5, -0.5]]


def test_label_tests_are_numbered_by_lag_then_symbol():
    """Only "lag 2 is before the sequence", the sixth label test, separates these targets."""
    targets = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    no_window_tests = np.zeros((0, 3), dtype=bool)
    depth = np.array([0, 1, 2])
    weights = np.ones((3, 4))
    tree = grow_naive_tree(no_window_tests, depth, 2, 2, targets, weights, max_leaf_nodes=9, l2=0.0)
    assert [node.test for node in tree.nodes] == [5, -1, -1]
    assert tree.leaves.tolist() == [[1, -1, -1, -1], [1, 1, -1, -1], [2, 2, 2, 2]]


def grow_four(**changes):
    """Grow a tree on four positions without contexts, with targets 3, 1, -1, -3."""
    parameters = {"max_leaf_nodes": 3, "l2": 0.0} | changes
    window_tests = np.array([[True, True, False, False], [True, False, True, False]])
    targets = np.array([[3.0], [1.0], [-1.0], [-3.0]])
    depth = np.zeros(4, dtype=int)
    return grow_naive_tree(window_tests, depth, 2, 0, targets, np.ones((4, 1)), **parameters)


def test_equal_gains_go_to_the_oldest_leaf():
    tree = grow_four()
    assert [node.test for node in tree.nodes] == [0, 1, -1, -1, -1]
    assert [node.gain for node in tree.nodes] == [16.0, 2.0, 0.0, 0.0, 0.0]
    assert tree.increments.ravel().tolist() == [3.0, 1.0, -2.0, -2.0]


def test_limits_on_growth():
    assert len(grow_four(max_leaf_nodes=10).nodes) == 7
    assert len(grow_four(max_leaf_nodes=10, min_gain=2.0).nodes) == 3
    assert len(grow_four(max_leaf_nodes=10, min_samples_leaf=2).nodes) == 3
    assert len(grow_four(max_leaf_nodes=10, min_samples_leaf=3).nodes) == 1
    counts = np.array([[1], [0], [1], [1]])
    assert len(grow_four(max_leaf_nodes=10, example_counts=counts).nodes) == 5
    assert grow_four(allowed=lambda path, test: test == 1 and not path).nodes[0].gain == 4.0


def test_leaf_values_are_clipped_shrunken_and_rounded():
    assert grow_four(l2=2.0, max_leaf_nodes=2).increments[0, 0] == 1.0
    clipped = grow_four(max_leaf_nodes=2, max_leaf_value=1.5, learning_rate=0.1).increments[0, 0]
    assert clipped * 2.0**20 == round(clipped * 2.0**20)
    assert abs(clipped - 0.15) <= 2.0**-21
