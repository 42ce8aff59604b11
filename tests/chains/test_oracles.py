"""The oracles agree with each other and with hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracles import (
    brute_force,
    context_at,
    extended_contexts,
    finite_difference_gradient,
    grow_naive_tree,
    hessian_row_sums,
    indicator,
    log_forward_backward,
    pseudo_likelihood_curvature,
    pseudo_likelihood_gradient,
    pseudo_log_likelihood,
    window_test_truth,
)

SHAPES = [(2, 4, 0), (3, 4, 1), (2, 5, 2), (2, 2, 3)]  # labels, positions, order


def make_scores(n_labels, n_positions, order):
    rng = np.random.default_rng(n_labels + 10 * order)
    return rng.normal(size=(n_labels, n_positions, n_labels**order))


def make_labels(n_labels, n_positions):
    return np.random.default_rng(7).integers(n_labels, size=n_positions)


def test_contexts_of_order_two():
    assert extended_contexts(2, 2) == [
        (2, 0, (0, 0)),
        (2, 1, (1, 0)),
        (2, 2, (0, 1)),
        (2, 3, (1, 1)),
        (1, 0, (0, 2)),
        (1, 1, (1, 2)),
        (0, 0, (2, 2)),
    ]


def test_context_puts_the_previous_label_in_the_lowest_digit():
    labels = [2, 0, 1, 0]
    assert [context_at(labels, t, 3, 2) for t in range(4)] == [0, 2, 0 + 3 * 2, 1 + 3 * 0]


@pytest.mark.parametrize("shape", SHAPES)
def test_marginals_sum_to_one(shape):
    n_labels, n_positions, order = shape
    result = brute_force(make_scores(*shape), n_labels, order)
    np.testing.assert_allclose(result.unary.sum(axis=1), 1.0)
    np.testing.assert_allclose(result.joint.sum(axis=2).T, result.unary)
    np.testing.assert_allclose(np.exp(result.log_probabilities).sum(), 1.0)
    for t in range(min(order, n_positions)):
        assert not result.joint[:, t, n_labels**t :].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_joint_sums_over_labels_to_the_previous_contexts(shape):
    """Count each context once by its own labels, and once by the step that leads to it."""
    n_labels, n_positions, order = shape
    joint = brute_force(make_scores(*shape), n_labels, order).joint
    for t in range(n_positions - 1):
        arriving = np.zeros(n_labels**order)
        for v in range(n_labels):
            for c in range(n_labels ** min(t, order)):
                arriving[(c * n_labels + v) % n_labels**order] += joint[v, t, c]
        np.testing.assert_allclose(joint[:, t + 1].sum(axis=0), arriving)


def test_large_scores_stay_exact():
    scores = np.full((2, 3, 2), -500.0)
    scores[1] = 500.0
    result = brute_force(scores, 2, 1)
    assert result.log_z == 1500.0
    assert result.best.tolist() == [1, 1, 1]
    assert result.best_log_probability == 0.0
    assert result.log_probability([1, 0, 1]) == -1000.0


@pytest.mark.parametrize("shape", SHAPES)
def test_log_likelihood_gradient_is_indicator_minus_joint(shape):
    n_labels, n_positions, order = shape
    scores, labels = make_scores(*shape), make_labels(n_labels, n_positions)
    numeric = finite_difference_gradient(
        lambda s: brute_force(s, n_labels, order).log_probability(labels), scores
    )
    analytic = indicator(labels, n_labels, order) - brute_force(scores, n_labels, order).joint
    np.testing.assert_allclose(numeric, analytic, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_hessian_row_sums_match_differences_of_the_joint(shape):
    """The derivative of one joint probability by all scores is a row of covariances."""
    n_labels, _, order = shape
    scores = make_scores(*shape)
    row_sums = hessian_row_sums(scores, n_labels, order)
    rows = [np.unravel_index(i, scores.shape) for i in range(0, scores.size, 11)]
    for entry in rows:
        row = finite_difference_gradient(
            lambda s, entry=entry: brute_force(s, n_labels, order).joint[entry], scores
        )
        np.testing.assert_allclose(row_sums[entry], np.abs(row).sum(), atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_pseudo_likelihood_is_a_ratio_of_probabilities(shape):
    n_labels, n_positions, order = shape
    scores, labels = make_scores(*shape), make_labels(n_labels, n_positions)
    result = brute_force(scores, n_labels, order)
    expected = 0.0
    for t in range(n_positions):
        same = (np.delete(result.sequences, t, axis=1) == np.delete(labels, t)).all(axis=1)
        others = np.logaddexp.reduce(result.log_probabilities[same])
        expected += result.log_probability(labels) - others
    value = pseudo_log_likelihood(scores, labels, n_labels, order)
    np.testing.assert_allclose(value, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_pseudo_likelihood_gradient_matches_finite_differences(shape):
    n_labels, n_positions, order = shape
    scores, labels = make_scores(*shape), make_labels(n_labels, n_positions)
    numeric = finite_difference_gradient(
        lambda s: pseudo_log_likelihood(s, labels, n_labels, order), scores
    )
    analytic = pseudo_likelihood_gradient(scores, labels, n_labels, order)
    np.testing.assert_allclose(numeric, analytic, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_pseudo_likelihood_curvature_bounds_the_hessian(shape):
    n_labels, n_positions, order = shape
    scores, labels = make_scores(*shape), make_labels(n_labels, n_positions)
    curvature = pseudo_likelihood_curvature(scores, labels, n_labels, order)
    for i in range(0, scores.size, 5):
        entry = np.unravel_index(i, scores.shape)
        row = finite_difference_gradient(
            lambda s, entry=entry: pseudo_likelihood_gradient(s, labels, n_labels, order)[entry],
            scores,
        )
        assert np.abs(row).sum() <= curvature[entry] + 1e-8


@pytest.mark.parametrize("shape", SHAPES)
def test_recursions_in_logarithms_agree_with_enumeration(shape):
    n_labels, _, order = shape
    scores = make_scores(*shape)
    result = brute_force(scores, n_labels, order)
    log_z, joint = log_forward_backward(scores, n_labels, order)
    np.testing.assert_allclose(log_z, result.log_z)
    np.testing.assert_allclose(np.exp(joint), result.joint)
    best, through = log_forward_backward(scores, n_labels, order, np.maximum)
    np.testing.assert_allclose(best, result.best_log_probability + result.log_z)
    np.testing.assert_allclose(through.max(axis=(0, 2)), 0.0, atol=1e-12)


def test_window_tests_on_symbols_and_tables():
    symbols = window_test_truth(
        ["aba", "b"], [("category", 0, -1, "a"), ("boundary", 0, 1, None), ("category", 0, 0, "b")]
    )
    assert symbols.astype(int).tolist() == [[0, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]]
    table = [np.array([[1.0, 0.0], [2.0, 1.0], [np.nan, 1.0]])]
    tests = [("number", 0, 0, 1.0), ("boolean", 1, 1, None), ("at most", 0, -1, 1.0)]
    assert window_test_truth(table, tests).astype(int).tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 0]]


def test_naive_tree_by_hand():
    """Three examples: the start with target 1/2, and the next position after label 0 and 1."""
    targets = np.array([[0.5, 99.0], [1.0, -1.0]])  # 99 is no example
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
    """Only "lag 2 is before the sequence", the sixth label test, tells these targets apart."""
    targets = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    no_window_tests = np.zeros((0, 3), dtype=bool)
    depth = np.array([0, 1, 2])
    weights = np.ones((3, 4))
    tree = grow_naive_tree(no_window_tests, depth, 2, 2, targets, weights, max_leaf_nodes=9, l2=0.0)
    assert [node.test for node in tree.nodes] == [5, -1, -1]
    assert tree.leaves.tolist() == [[1, -1, -1, -1], [1, 1, -1, -1], [2, 2, 2, 2]]


def grow_four(**changes):
    """Grow on four positions without label context, with targets 3, 1, -1, -3."""
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
    assert grow_four(allowed=lambda node, test: test == 1 and node == 0).nodes[0].gain == 4.0


def test_leaf_values_are_clipped_shrunken_and_rounded():
    assert grow_four(l2=2.0, max_leaf_nodes=2).increments[0, 0] == 1.0
    clipped = grow_four(max_leaf_nodes=2, max_leaf_value=1.5, learning_rate=0.1).increments[0, 0]
    assert clipped * 2.0**40 == round(clipped * 2.0**40)
    assert abs(clipped - 0.15) <= 2.0**-41
