"""Local models and the pseudo-likelihood agree with the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chains import SENTINEL, STEP, Chains, possible_kinds, seeds, shapes
from support.oracles import log_sum_exp, pseudo_likelihood_curvature, pseudo_likelihood_gradient

from treecrf.chains.local import _softmax


@given(possible_kinds, seeds, shapes)
def test_pseudo_residuals_agree_with_the_oracle(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    residuals, curvature = case.pseudo_residuals()
    assert (residuals / STEP % 1 == 0).all()
    assert (curvature / STEP % 1 == 0).all()
    forbidden = np.isneginf(case.scores)
    assert not residuals[forbidden].any()
    assert not curvature[forbidden].any()
    np.testing.assert_array_equal(residuals, case.pseudo_residuals(curved=False)[0])
    n_seeing = case.order + 1
    for piece, labels, where in case.slices():
        shape = case.n_labels, case.order
        gradient = pseudo_likelihood_gradient(piece, labels, *shape)
        bound = pseudo_likelihood_curvature(piece, labels, *shape)
        np.testing.assert_allclose(
            residuals[:, where], gradient, rtol=0, atol=n_seeing * STEP / 2 + 1e-11
        )
        np.testing.assert_allclose(
            curvature[:, where], bound, rtol=0, atol=n_seeing**2 * STEP / 2 + 1e-11
        )


@given(possible_kinds, seeds, shapes)
def test_normalized_scores_are_log_probabilities(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    expected = case.scores - np.apply_along_axis(log_sum_exp, 0, case.scores)
    _softmax.normalize(case.scores, case.offsets, 0, len(case.offsets) - 1)
    np.testing.assert_allclose(case.scores, expected, rtol=1e-13, atol=1e-13)
    # Z of a local model is 1.
    np.testing.assert_allclose(case.marginals()[1], 0.0, atol=1e-9)


def test_normalize_does_not_change_forbidden_scores_and_other_sequences():
    scores = np.zeros((3, 1000, 3))
    scores[:, 700, 1] = -np.inf
    scores[1, 701] = -np.inf
    _softmax.normalize(scores, np.array([0, 100, 900, 1000]), 1, 2)
    assert not scores[:, :100].any()
    assert not scores[:, 900:].any()
    assert (scores[:, 700, 1] == -np.inf).all()
    np.testing.assert_allclose(scores[0, 701], -np.log(2.0))
    np.testing.assert_allclose(np.exp(scores[:, 100:700]).sum(axis=0), 1.0)


def draw_local(rng, n_labels, lengths, forbid):
    scores = rng.normal(scale=3.0, size=(n_labels, sum(lengths)))
    labels = rng.integers(n_labels, size=sum(lengths)).astype(np.int32)
    forbidden = rng.random(scores.shape) < 0.3 * forbid
    forbidden[labels, np.arange(len(labels))] = False
    scores[forbidden] = -np.inf
    return scores, labels, np.cumsum([0, *lengths])


@given(
    seeds,
    st.integers(1, 9),
    st.lists(st.sampled_from([1, 2, 5, 255, 300, 700]), min_size=1, max_size=4),
    st.booleans(),
)
def test_local_residuals_are_rounded_indicators_less_the_softmax(rng, n_labels, lengths, forbid):
    scores, labels, offsets = draw_local(rng, n_labels, lengths, forbid)
    out, curvature = np.full(scores.shape, SENTINEL), np.full(scores.shape, SENTINEL)
    log_likelihoods = np.full(len(lengths), SENTINEL)
    _softmax.local_residuals(
        scores, offsets, labels, 0, len(lengths), out, curvature, log_likelihoods
    )
    log_p = scores - np.logaddexp.reduce(scores, axis=0)
    p = np.exp(log_p)
    true = np.arange(n_labels)[:, None] == labels
    assert (out / STEP % 1 == 0).all()
    assert (curvature / STEP % 1 == 0).all()
    np.testing.assert_allclose(out, true - p, rtol=0, atol=STEP / 2 + 1e-14)
    np.testing.assert_allclose(curvature, 2 * p * (1 - p), rtol=0, atol=STEP / 2 + 1e-14)
    assert not out[np.isneginf(scores)].any()
    assert not curvature[np.isneginf(scores)].any()
    expected = np.add.reduceat(log_p[labels, np.arange(len(labels))], offsets[:-1])
    np.testing.assert_allclose(log_likelihoods, expected, rtol=1e-12)


@given(seeds, st.sampled_from([1, 300, 700]), st.sampled_from([1.0, 500.0]), st.booleans())
def test_residuals_of_two_labels_differ_in_sign_only(rng, n, scale, forbid):
    scores, labels, offsets = draw_local(rng, 2, [n], forbid)
    scores *= scale
    out, curvature = np.full(scores.shape, SENTINEL), np.full(scores.shape, SENTINEL)
    _softmax.local_residuals(scores, offsets, labels, 0, 1, out, curvature, np.zeros(1))
    np.testing.assert_array_equal(out[0], -out[1])
    np.testing.assert_array_equal(curvature[0], curvature[1])


def test_local_residuals_of_some_sequences_do_not_depend_on_the_others():
    scores, labels, offsets = draw_local(np.random.default_rng(0), 4, [300, 400, 20, 600], False)

    def of(first, last):
        out, values = np.full(scores.shape, SENTINEL), np.full(4, SENTINEL)
        _softmax.local_residuals(scores, offsets, labels, first, last, out, None, values)
        return out, values

    some, values = of(1, 3)
    everything, all_values = of(0, 4)
    np.testing.assert_array_equal(some[:, 300:720], everything[:, 300:720])
    np.testing.assert_array_equal(values[1:3], all_values[1:3])
    assert (np.delete(some, np.s_[300:720], axis=1) == SENTINEL).all()
    assert (values[[0, 3]] == SENTINEL).all()


@pytest.mark.parametrize("label", [0, 1])
def test_forbidden_labels_have_likelihood_minus_infinity(label):
    scores = np.array([[0.0], [-np.inf]])
    out, values = np.zeros((2, 1)), np.zeros(1)
    labels = np.array([label], dtype=np.int32)
    _softmax.local_residuals(scores, np.array([0, 1]), labels, 0, 1, out, None, values)
    assert values[0] == (-np.inf if label else 0.0)
