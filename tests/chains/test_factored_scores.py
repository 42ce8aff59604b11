"""Inference from scores in parts equals inference from their table to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chains import seeds
from support.factored_scores import draw_case, lengths_of, rules, scales, shapes
from support.family import assert_equal_arrays

from treecrf import _inference
from treecrf.chains.contexts import chains_of, true_contexts
from treecrf.chains.factored.factored_scores import SCORE_UNIT, FactoredScores
from treecrf.chains.losses import _gradients, _pseudo_likelihood


def outputs(scores, labels, n_labels, order, offsets):
    """Everything that inference computes."""
    chains = chains_of(offsets, order)
    every, n = (0, len(chains) - 1), offsets[-1]
    like, log_z, log_likelihoods = np.zeros((3, len(chains) - 1))
    unary, pairs = np.zeros((n, n_labels)), np.zeros((n, n_labels, n_labels))
    residuals, curvature, slopes = np.zeros((3, n_labels, n, n_labels**order))
    log_q, sizes = np.zeros((2, n))
    _inference.log_likelihood(scores, chains, labels, *every, like)
    _inference.marginals(scores, chains, *every, unary, log_z)
    if order:
        _inference.pairwise(scores, chains, *every, pairs)
    _inference.residuals(scores, chains, labels, *every, residuals, curvature, log_likelihoods)
    pseudo, pseudo_curvature = np.zeros((2, *residuals.shape))
    _pseudo_likelihood.pseudo_residuals(scores, chains, labels, *every, pseudo, pseudo_curvature)
    _gradients.label_probabilities(
        chains, labels, False, log_q, sizes, None, None, scores, *every, slopes
    )
    exact = like, log_z, unary, pairs, residuals, curvature, log_likelihoods
    return *exact, log_q, sizes, slopes, pseudo, pseudo_curvature


def check_equal(parts, labels):
    shape = parts.n_labels, parts.order, parts.offsets
    from_parts = outputs(parts, labels, *shape)
    from_table = outputs(parts.table(), labels, *shape)
    assert_equal_arrays(from_parts, from_table)


@given(seeds, shapes, lengths_of, scales, st.booleans(), rules)
def test_inference_equals_that_on_the_table(rng, shape, lengths, scale, rest, constraints):
    check_equal(*draw_case(rng, *shape, lengths, scale, rest, constraints))


@pytest.mark.parametrize(("n_labels", "order"), [(30, 1), (22, 1), (16, 1), (11, 2), (33, 2)])
def test_many_labels(n_labels, order):
    rng = np.random.default_rng(0)
    check_equal(*draw_case(rng, n_labels, order, [1, 12, 5], constraints="follows allowed"))
    check_equal(*draw_case(rng, n_labels, order, [25], "large"))


@pytest.mark.parametrize("scale", ["moderate", "large"])
@pytest.mark.parametrize(("n_labels", "order"), [(1, 0), (1, 2), (3, 0), (3, 1), (2, 3)])
def test_long_sequences(n_labels, order, scale):
    rng = np.random.default_rng(0)
    check_equal(*draw_case(rng, n_labels, order, [30_000, 1], scale))


@given(seeds, shapes, lengths_of, st.booleans(), rules)
def test_table_adds_the_parts(rng, shape, lengths, rest, constraints):
    parts, _ = draw_case(rng, *shape, lengths, "moderate", rest, constraints)
    scores, rules = parts.table(), parts.constraints
    n_labels, order = shape
    for start, end in zip(parts.offsets[:-1], parts.offsets[1:], strict=True):
        for t in range(start, end):
            depth = min(t - start, order)
            for c in range(n_labels**depth):
                for v in range(n_labels):
                    units = int(parts.state[v, t]) + int(parts.transitions[depth, v, c])
                    units += int(parts.rest[v, t, c]) if rest else 0
                    before = c % n_labels if t > start else n_labels
                    expected = units * SCORE_UNIT
                    if rules.follows is not None and not rules.follows[before, v]:
                        expected = -np.inf
                    if rules.allowed is not None and not rules.allowed[t, v]:
                        expected = -np.inf
                    assert scores[v, t, c] == expected


def test_scores_out_of_range_are_refused():
    parts = FactoredScores(2, 1, np.array([0, 3]))
    parts.start_from(np.array([[0.0, 1.0, -2.0], [0.0, 3.0, 0.0]]), np.full((3, 2), -1000.0))
    parts.make_room(np.array([1000.0, 0.0]))
    # The bounds of label 0 add up to too much, but its scores do not.
    parts.make_room(np.array([1044.0, 0.0]))
    for added in (2046.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="expected less than 2047: lower"):
            parts.make_room(np.array([0.0, added]))
    with pytest.raises(ValueError, match="scores may reach 4000"):
        FactoredScores(2, 1, np.array([0, 3])).start_from(np.full((2, 3), 4e3), np.zeros((3, 2)))


def test_contexts_that_do_not_exist_have_no_bound():
    parts = FactoredScores(2, 1, np.array([0, 3]))
    parts.ensure_rest()[0, :, 1] = [2**31 - 1, 2**20, -(2**21)]
    parts.make_room(np.array([2046.0, 0.0]))
    parts.make_room(np.array([2044.5, 0.0]))
    with pytest.raises(ValueError, match="scores may reach 2047"):
        parts.make_room(np.array([2045.0, 0.0]))


def test_memory_of_long_sequences_is_bounded():
    """Tiles that are computed again give what tiles in memory give."""
    rng = np.random.default_rng(0)
    whole, labels = draw_case(rng, 4, 2, [100_000])
    depths, contexts = true_contexts(whole.offsets, labels, 4, 2)
    assert depths.max() == 2
    residuals = np.zeros((4, 100_000, 16))
    likelihood = np.zeros(1)
    _inference.residuals(whole, whole.offsets, labels, 0, 1, residuals, None, likelihood)
    assert (residuals[labels, np.arange(100_000), contexts] >= 0).all()
    np.testing.assert_allclose(residuals.sum(axis=(0, 2)), 0, atol=64 * 2.0**-32)
