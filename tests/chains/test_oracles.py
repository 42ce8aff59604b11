"""The oracles agree with each other and with hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracles import (
    brute_force,
    context_at,
    extended_contexts,
    finite_difference_gradient,
    hessian_row_sums,
    indicator,
    log_forward_backward,
    pseudo_likelihood_curvature,
    pseudo_likelihood_gradient,
    pseudo_log_likelihood,
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
    """The gradient of one joint probability is a row of covariances."""
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
