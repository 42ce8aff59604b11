"""Inference agrees with enumeration, and in long sequences with plain recursions in logarithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chains import SENTINEL, STEP, Chains, kinds, possible_kinds, seeds, shapes
from support.oracles import hessian_row_sums, indicator, log_forward_backward, sequence_score
from support.sweeps import sweep


@given(kinds, seeds, shapes)
def test_probabilities_agree_with_enumeration(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    log_likelihood = case.per_sequence(case.log_likelihood())
    unary, log_z = case.marginals()
    log_z, joint = case.per_sequence(log_z), case.joint_marginals()
    for i, (oracle, _, labels, where) in enumerate(case.oracles()):
        expected = oracle.log_probability(labels)
        np.testing.assert_allclose(log_z[i], oracle.log_z, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(log_likelihood[i], expected, rtol=1e-11, atol=1e-9)
        if oracle.log_z > -np.inf or case.order:  # with order 0 other positions may be possible
            np.testing.assert_allclose(unary[where], oracle.unary, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(joint[:, where], oracle.joint, rtol=0, atol=STEP)


@given(kinds, seeds, shapes.filter(lambda shape: shape[1] > 0))
def test_pairwise_marginals_agree_with_enumeration(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    pairwise = case.pairwise()
    for oracle, _, _, where in case.oracles():
        np.testing.assert_allclose(pairwise[where], oracle.pairwise, rtol=1e-9, atol=1e-11)


@given(possible_kinds, seeds, shapes)
def test_residuals_are_rounded_indicators_less_probabilities(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    residuals, _, log_likelihoods = case.residuals()
    assert (residuals / STEP % 1 == 0).all()
    assert not residuals[np.isneginf(case.scores)].any()
    np.testing.assert_array_equal(residuals, case.residuals(curved=False)[0])
    np.testing.assert_array_equal(log_likelihoods, case.log_likelihood())
    for oracle, _, labels, where in case.oracles():
        expected = indicator(labels, case.n_labels, case.order) - oracle.joint
        np.testing.assert_allclose(residuals[:, where], expected, rtol=0, atol=STEP / 2 + 1e-11)


@given(possible_kinds, seeds, shapes)
def test_curvature_bounds_the_rows_of_the_hessian(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    curvature = case.residuals()[1]
    assert (curvature / STEP % 1 == 0).all()
    assert not curvature[np.isneginf(case.scores)].any()
    for _, piece, _, where in case.oracles():
        exact = hessian_row_sums(piece, case.n_labels, case.order)
        assert (curvature[:, where] >= exact - STEP).all()
        # The bound is exact without contexts, and not loose with them.
        assert (curvature[:, where] <= (3 if case.order else 1) * exact + STEP).all()


@pytest.mark.parametrize(
    ("n_labels", "order", "length"), [(2, 1, 10), (2, 2, 10), (2, 3, 10), (2, 4, 10), (3, 2, 6)]
)
@pytest.mark.parametrize("stay", [0.0, 3.0])
@pytest.mark.parametrize("scale", sweep([3.0, 0.0, 1.0], 2))
def test_curvature_of_high_orders_is_a_tight_bound(n_labels, order, length, stay, scale):
    """The sequences are long enough for contexts that share no labels to be compared."""
    rng = np.random.default_rng(order)
    case = Chains("moderate", rng, n_labels, order, [length])
    case.scores *= scale
    for v in range(n_labels):
        case.scores[v, :, v::n_labels] += stay
    exact = hessian_row_sums(case.scores, n_labels, order)
    found = case.residuals()[1]
    # Probabilities that are rounded to about 1e-16 are divided by small ones.
    assert (found >= exact - 16 * STEP).all()
    assert found.sum() <= 1.9 * exact.sum()


def curvature_per_position(order, n_labels, length, stay=2.0, scale=1.0):
    """Sums of the curvature over the pairs of a position in the middle third, on average."""
    case = Chains("moderate", np.random.default_rng(0), n_labels, order, [length])
    case.scores *= scale
    for v in range(n_labels):
        case.scores[v, :, v::n_labels] += stay
    curvature = case.residuals()[1]
    return curvature[:, length // 3 : -length // 3].sum(axis=(0, 2)).mean()


@pytest.mark.parametrize(("order", "n_labels"), [(2, 2), (2, 5), (3, 2), (3, 4), (4, 2), (4, 3)])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_curvature_does_not_grow_with_the_length(order, n_labels, scale):
    short, long = (curvature_per_position(order, n_labels, n, scale=scale) for n in (120, 600))
    assert long <= 1.25 * short


@pytest.mark.parametrize("order", [2, 3, 4])
def test_curvature_hardly_grows_with_the_order(order):
    """Scores of 0 make labels independent; only the labels that contexts share connect pairs."""
    one, more = (curvature_per_position(m, 3, 90, stay=0.0, scale=0.0) for m in (1, order))
    assert more <= 1.6 * order * one


@given(possible_kinds, seeds, shapes, st.floats(0, 1))
def test_curvature_is_the_diagonal_but_at_least_a_share_of_the_bound(kind, rng, shape, share):
    case = Chains(kind, rng, *shape)
    found = case.residuals(bound_share=share)[1]
    p = case.joint_marginals()
    expected = np.maximum(2 * p * (1 - p), share * case.residuals()[1])
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * STEP)
    assert (found / STEP % 1 == 0).all()


@pytest.mark.parametrize("order", range(4))
def test_impossible_sequences_do_not_affect_the_others(order):
    case = Chains("moderate", np.random.default_rng(order), 2, order, [3, 4, 2])
    case.scores[:, 4] = -np.inf  # the second position of the second sequence
    impossible = np.isneginf(case.marginals()[1])
    assert (impossible == np.isnan(case.log_likelihood())).all()
    assert (case.chains[:-1][impossible] == (3 if order else 4)).all()
    here = slice(3, 7) if order else slice(4, 5)
    assert not case.marginals()[0][here].any()
    assert not case.joint_marginals()[:, here].any()
    unary = case.marginals()[0]
    unary[here] = 0.5
    np.testing.assert_allclose(unary.sum(axis=1), 1.0)


@pytest.mark.parametrize("order", range(4))
def test_only_the_chosen_sequences_are_written(order):
    case = Chains("moderate", np.random.default_rng(order), 2, order, [3, 1, 4, 2, 5])
    part = (1, 3)
    positions = np.zeros(case.offsets[-1], dtype=bool)
    positions[case.chains[part[0]] : case.chains[part[1]]] = True
    sequences = np.zeros(len(case.chains) - 1, dtype=bool)
    sequences[slice(*part)] = True
    cells = np.broadcast_to(positions[None, :, None], case.scores.shape)
    rows = np.broadcast_to(positions[:, None], (case.offsets[-1], 2))

    def check(some, all_of_it, inside):
        np.testing.assert_array_equal(some[inside], all_of_it[inside])
        assert (some[~inside] == SENTINEL).all()

    check(case.log_likelihood(part), case.log_likelihood(), sequences)
    pairs = np.broadcast_to(positions[:, None, None], (case.offsets[-1], 2, 2))
    check(case.pairwise(part), case.pairwise(), pairs)
    layouts = {
        case.marginals: (rows, sequences),
        case.residuals: (cells, cells, sequences),
        case.pseudo_residuals: (cells, cells),
        case.viterbi: (positions, sequences),
    }
    for function, insides in layouts.items():
        for arrays in zip(function(part), function(), insides, strict=True):
            check(*arrays)


@pytest.mark.parametrize("order", range(4))
def test_empty_ranges_of_sequences_write_nothing(order):
    case = Chains("moderate", np.random.default_rng(0), 2, order, [3, 2])
    for values in (case.log_likelihood((1, 1)), case.marginals((1, 1))[0], case.viterbi((1, 1))[1]):
        assert (values == SENTINEL).all()


# Factors are kept in range where logarithms within a position differ by no more than this.
WIDE = 195.0


def forbidden_at_random(scores):
    """Forbid labels at random, but never the label sequence 0, 1, ..."""
    n_labels, n_positions, _ = scores.shape
    forbidden = np.random.default_rng(0).random(scores.shape) < 0.6
    forbidden[np.arange(n_positions) % n_labels, np.arange(n_positions)] = False
    return np.where(forbidden, -np.inf, scores)


def without_steps(scores, forbidden):
    """Forbid some pairs (label, previous label)."""
    n_labels, _, n_contexts = scores.shape
    scores = scores.copy()
    np.copyto(scores[:, 1:], -np.inf, where=np.tile(forbidden, n_contexts // n_labels)[:, None])
    return scores


def no_change_of_label(scores):
    """Labels never change: weights far behind halfway catch up later and must not be lost."""
    n_labels, n_positions, _ = scores.shape
    scores = scores.copy()
    scores[0] += np.where(np.arange(n_positions) < n_positions // 2, 40.0, -40.0)[:, None]
    return without_steps(scores, ~np.eye(n_labels, dtype=bool))


def left_to_right(scores):
    n_labels = len(scores)
    scores = without_steps(3.0 * scores, np.tri(n_labels, k=-1, dtype=bool).T)
    scores[1:, 0] = -np.inf
    return scores


def unreachable(scores):
    """Label 0 cannot be reached, though its scores are by far the best."""
    n_labels = len(scores)
    scores = scores.copy()
    scores[0] += 90.0
    scores[0, 0] = -np.inf
    forbidden = np.zeros((n_labels, n_labels), dtype=bool)
    forbidden[0, 1:] = True
    return without_steps(scores, forbidden)


def one_extreme_position(scores):
    scores = scores.copy()
    scores[:, scores.shape[1] // 2] *= 400.0
    return scores


def all_but_one_low(scores):
    low = np.full(scores.shape, -WIDE / 2)
    low[0, 0] = WIDE / 2
    return low


PATTERNS = {
    "moderate": lambda scores: scores,
    "wide": lambda scores: np.where(scores > 0, WIDE / 2, -WIDE / 2),
    "nearly wide": lambda scores: WIDE / 2 * np.tanh(scores),
    "too wide": lambda scores: WIDE * np.sign(np.trunc(2 * scores)),
    "all but one low": all_but_one_low,
    "one extreme position": one_extreme_position,
    "drifting": lambda scores: scores + 10.0 * np.arange(scores.shape[1])[:, None],
    "forbidden": forbidden_at_random,
    "forbidden, wide": lambda scores: 60.0 * forbidden_at_random(scores),
    "no change of label": no_change_of_label,
    "left to right": left_to_right,
    "unreachable": unreachable,
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("n_labels", sweep([2, 3], 1))
def test_both_recursions_agree_with_plain_logarithms(pattern, order, n_labels):
    agrees_with_plain_logarithms(pattern, order, n_labels, 300)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("n_labels", sweep([8, 9, 4, 5, 6, 7, 12], 2))
def test_any_number_of_labels(pattern, n_labels):
    """Few labels have specialized loops."""
    agrees_with_plain_logarithms(pattern, 1, n_labels, 300)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_several_tiles(pattern):
    agrees_with_plain_logarithms(pattern, 1, 33, 300)


@pytest.mark.parametrize("n_labels", [7, 9])
def test_second_order_with_many_labels(n_labels):
    agrees_with_plain_logarithms("forbidden", 2, n_labels, 60)


def agrees_with_plain_logarithms(pattern, order, n_labels, n_positions):
    case = Chains("moderate", np.random.default_rng(order), n_labels, order, [n_positions])
    case.scores = np.ascontiguousarray(PATTERNS[pattern](case.scores))
    log_z, log_joint = log_forward_backward(case.scores, n_labels, order)
    assert log_z > -np.inf
    unary, found = case.marginals()
    joint = np.exp(log_joint)
    np.testing.assert_allclose(found, log_z, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(unary, joint.sum(axis=2).T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(case.joint_marginals(), joint, rtol=0, atol=1e-9)
    best, through = log_forward_backward(case.scores, n_labels, order, np.maximum)
    labels, found = case.viterbi()
    np.testing.assert_allclose(found, best, rtol=1e-12)
    np.testing.assert_allclose(sequence_score(case.scores, labels, n_labels, order), best)
    assert through.max() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("weight", [-1.0, -50.0])
def test_dead_ends(weight):
    """The only allowed sequence repeats label 1, whose weight vanishes compared with label 0."""
    n = 40
    scores = np.full((2, n, 2), -np.inf)
    scores[0, :, 0], scores[1, :, 1] = 0.0, weight
    scores[:, 0, 0] = 0.0
    scores[0, -1, 0] = -np.inf
    case = Chains("moderate", np.random.default_rng(0), 2, 1, [n])
    case.scores, case.labels = scores, np.ones(n, dtype=np.int32)
    assert case.log_likelihood()[0] == pytest.approx(0.0, abs=1e-9)
    marginals, log_z = case.marginals()
    assert log_z[0] == pytest.approx(weight * (n - 1))
    np.testing.assert_allclose(marginals[:, 1], 1.0)


@pytest.mark.parametrize("kind", ["moderate", "large", "forbidden steps", "large, forbidden"])
@pytest.mark.parametrize("order", sweep([1, 0, 2], 1))
def test_hundred_thousand_positions(kind, order):
    case = Chains(kind, np.random.default_rng(order), 2, order, [100_000])
    marginals, log_z = case.marginals()
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)
    assert (marginals >= 0).all()
    assert np.isfinite(log_z).all()
    residuals, curvature, log_likelihood = case.residuals()
    assert np.isfinite(residuals).all()
    assert np.isfinite(log_likelihood).all()
    assert (log_likelihood <= 0).all()
    assert (curvature >= 0).all()
    best = case.viterbi()[1].sum()
    assert best <= log_z.sum() + 1e-9 * abs(best)


def test_tiles_that_are_not_kept_are_computed_again():
    """The scores of 90 labels at 600 positions do not fit in the memory for factors."""
    rng = np.random.default_rng(0)
    case = Chains("moderate", rng, 90, 1, [600])
    case.scores[rng.random(case.scores.shape) < 0.2] = -np.inf
    log_z, log_joint = log_forward_backward(case.scores, 90, 1)
    unary, found = case.marginals()
    np.testing.assert_allclose(found, log_z, rtol=1e-12)
    np.testing.assert_allclose(unary, np.exp(log_joint).sum(axis=2).T, rtol=0, atol=1e-9)
    case.scores[0, 150] = -900.0  # requires logarithms
    unary, found = case.marginals()
    log_z, log_joint = log_forward_backward(case.scores, 90, 1)
    np.testing.assert_allclose(found, log_z, rtol=1e-12)
    np.testing.assert_allclose(unary, np.exp(log_joint).sum(axis=2).T, rtol=0, atol=1e-9)
