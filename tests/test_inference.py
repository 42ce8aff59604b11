"""Inference agrees with enumeration, and in long sequences with plain recursions in logarithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    brute_force,
    finite_difference_gradient,
    hessian_row_sums,
    indicator,
    log_forward_backward,
    pseudo_likelihood_curvature,
    pseudo_likelihood_gradient,
    sequence_score,
)

from treecrf import _decode, _inference, _local
from treecrf.lattice import chains_of

SENTINEL = 7.0
STEP = 2.0**-32  # residuals and curvatures are multiples of this
KINDS = ["moderate", "large", "tied", "forbidden labels", "forbidden steps"]


def draw_scores(kind, rng, n_labels, n_positions, order):
    shape = (n_labels, n_positions, n_labels**order)
    if kind == "large":
        return rng.choice([-500.0, 500.0], shape) + rng.normal(size=shape)
    if kind == "tied":
        return rng.integers(-1, 2, shape).astype(float)
    scores = rng.normal(size=shape)
    if kind.startswith("forbidden"):
        size = shape if kind == "forbidden steps" else (n_labels, n_positions, 1)
        forbidden = np.broadcast_to(rng.random(size) < 0.3, shape).copy()
        allowed = rng.integers(n_labels, size=n_positions)
        forbidden[allowed, np.arange(n_positions)] = False
        scores[forbidden] = -np.inf
    return scores


class Chains:
    """Several sequences in the arrays that the kernels work on."""

    def __init__(self, kind, rng, n_labels, order, lengths):
        self.n_labels, self.order = n_labels, order
        self.pieces = [draw_scores(kind, rng, n_labels, n, order) for n in lengths]
        self.scores = np.ascontiguousarray(np.concatenate(self.pieces, axis=1))
        self.offsets = np.cumsum([0, *lengths])
        self.labels = rng.integers(n_labels, size=self.offsets[-1]).astype(np.int32)
        self.chains = chains_of(self.offsets, order)
        self.everything = (0, len(self.chains) - 1)

    def blank(self, *shape):
        return np.full(shape, SENTINEL)

    def per_sequence(self, values):
        """Sum the values of the chains; with order 0 each position is one."""
        return values if self.order else np.add.reduceat(values, self.offsets[:-1])

    def log_likelihood(self, part=None):
        out = self.blank(len(self.chains) - 1)
        part = part or self.everything
        _inference.log_likelihood(self.scores, self.chains, self.labels, *part, out)
        return out

    def marginals(self, part=None):
        out, log_z = self.blank(self.offsets[-1], self.n_labels), self.blank(len(self.chains) - 1)
        _inference.marginals(self.scores, self.chains, *(part or self.everything), out, log_z)
        return out, log_z

    def joint_marginals(self, part=None):
        out = self.blank(*self.scores.shape)
        _inference.joint_marginals(self.scores, self.chains, *(part or self.everything), out)
        return out

    def residuals(self, part=None, curved=True):
        out, log_likelihoods = self.blank(*self.scores.shape), self.blank(len(self.chains) - 1)
        curvature = self.blank(*self.scores.shape) if curved else None
        part = part or self.everything
        _inference.residuals(
            self.scores, self.chains, self.labels, *part, out, curvature, log_likelihoods
        )
        return out, curvature, log_likelihoods

    def pseudo_residuals(self, part=None, curved=True):
        out = self.blank(*self.scores.shape)
        curvature = self.blank(*self.scores.shape) if curved else None
        part = part or self.everything
        _local.pseudo_residuals(self.scores, self.chains, self.labels, *part, out, curvature)
        return out, curvature

    def viterbi(self, part=None):
        out = np.full(self.offsets[-1], 7, dtype=np.int32)
        best = self.blank(len(self.chains) - 1)
        _decode.viterbi(self.scores, self.chains, *(part or self.everything), out, best)
        return out, best

    def oracles(self):
        """Yield the enumeration of each sequence with its labels and the slice of its positions."""
        for piece, start, stop in zip(
            self.pieces, self.offsets[:-1], self.offsets[1:], strict=True
        ):
            result = brute_force(piece, self.n_labels, self.order)
            yield result, piece, self.labels[start:stop], slice(start, stop)


shapes = st.tuples(st.integers(1, 4), st.integers(0, 3)).flatmap(
    lambda shape: st.tuples(
        st.just(shape[0]),
        st.just(shape[1]),
        st.lists(st.integers(1, 6 if shape[0] < 3 else 4), min_size=1, max_size=3),
    )
)
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
kinds = st.sampled_from(KINDS)


@settings(max_examples=80, deadline=None)
@given(kinds, seeds, shapes)
def test_probabilities_agree_with_enumeration(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    log_likelihood = case.per_sequence(case.log_likelihood())
    unary, log_z = case.marginals()
    log_z, joint = case.per_sequence(log_z), case.joint_marginals()
    for i, (oracle, _, labels, where) in enumerate(case.oracles()):
        expected = oracle.log_probability(labels)
        np.testing.assert_allclose(log_likelihood[i], expected, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(log_z[i], oracle.log_z, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(unary[where], oracle.unary, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(joint[:, where], oracle.joint, rtol=1e-9, atol=1e-11)


@settings(max_examples=60, deadline=None)
@given(kinds, seeds, shapes)
def test_viterbi_finds_a_best_sequence(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    best_labels, best = case.viterbi()
    best = case.per_sequence(best)
    for i, (oracle, piece, _, where) in enumerate(case.oracles()):
        found = sequence_score(piece, best_labels[where], case.n_labels, case.order)
        np.testing.assert_allclose(found, oracle.best_log_probability + oracle.log_z, rtol=1e-12)
        np.testing.assert_allclose(best[i], found, rtol=1e-12, atol=1e-12)


def test_viterbi_breaks_ties_toward_the_first_label():
    for order in range(4):
        case = Chains("moderate", np.random.default_rng(0), 3, order, [5, 1])
        case.scores[:] = 0.0
        labels, best = case.viterbi()
        assert not labels.any()
        assert not best.any()


@settings(max_examples=60, deadline=None)
@given(kinds, seeds, shapes)
def test_residuals_are_rounded_indicators_less_probabilities(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    residuals, _, log_likelihoods = case.residuals()
    assert (residuals / STEP % 1 == 0).all()
    np.testing.assert_array_equal(residuals, case.residuals(curved=False)[0])
    np.testing.assert_array_equal(log_likelihoods, case.log_likelihood())
    for oracle, _, labels, where in case.oracles():
        expected = indicator(labels, case.n_labels, case.order) - oracle.joint
        np.testing.assert_allclose(residuals[:, where], expected, rtol=0, atol=STEP / 2 + 1e-11)


@pytest.mark.parametrize("order", range(4))
def test_residuals_are_the_slope_of_the_log_likelihood(order):
    case = Chains("moderate", np.random.default_rng(order), 2, order, [5, 1])
    residuals = case.residuals()[0]

    def log_likelihood(scores):
        case.scores = scores
        return case.log_likelihood().sum()

    numeric = finite_difference_gradient(log_likelihood, case.scores, eps=1e-4)
    np.testing.assert_allclose(residuals, numeric, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(kinds, seeds, shapes)
def test_curvature_bounds_the_rows_of_the_hessian(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    curvature = case.residuals()[1]
    assert (curvature / STEP % 1 == 0).all()
    for _, piece, _, where in case.oracles():
        exact = hessian_row_sums(piece, case.n_labels, case.order)
        assert (curvature[:, where] >= exact - STEP).all()
        # The bound is exact without contexts, and not loose with them.
        assert (curvature[:, where] <= (3 if case.order else 1) * exact + STEP).all()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["moderate", "large", "tied"]), seeds, shapes)
def test_pseudo_residuals_agree_with_the_oracle(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    residuals, curvature = case.pseudo_residuals()
    assert (residuals / STEP % 1 == 0).all()
    assert (curvature / STEP % 1 == 0).all()
    np.testing.assert_array_equal(residuals, case.pseudo_residuals(curved=False)[0])
    n_seeing = case.order + 1
    for _, piece, labels, where in case.oracles():
        shape = case.n_labels, case.order
        gradient = pseudo_likelihood_gradient(piece, labels, *shape)
        bound = pseudo_likelihood_curvature(piece, labels, *shape)
        np.testing.assert_allclose(
            residuals[:, where], gradient, rtol=0, atol=n_seeing * STEP / 2 + 1e-11
        )
        np.testing.assert_allclose(
            curvature[:, where], bound, rtol=0, atol=n_seeing**2 * STEP / 2 + 1e-11
        )


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
    check(case.joint_marginals(part), case.joint_marginals(), cells)
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
def test_no_sequences_are_no_work(order):
    case = Chains("moderate", np.random.default_rng(0), 2, order, [3, 2])
    for values in (case.log_likelihood((1, 1)), case.marginals((1, 1))[0]):
        assert (values == SENTINEL).all()


# The scaled recursion takes spreads below 500 / (2 order + 1), logarithms take the others.
WIDE = {1: 166.0, 2: 99.0, 3: 71.0}


def long_scores(pattern, rng, n_labels, n_positions, order):
    shape = (n_labels, n_positions, n_labels**order)
    half = WIDE[order] / 2
    if pattern == "moderate":
        return rng.normal(size=shape)
    if pattern == "wide":
        return rng.choice([-half, half], shape)
    if pattern == "nearly wide":
        return rng.uniform(-half, half, shape)
    if pattern == "too wide":
        return rng.choice([-2 * half, 0.0, 2 * half], shape)
    if pattern == "all but one low":
        scores = np.full(shape, -half)
        scores[0, 0] = half
        return scores
    scores = rng.normal(size=shape)
    scores[:, n_positions // 2] *= 400.0  # one position sends the sequence to the logarithms
    return scores


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "pattern",
    ["moderate", "wide", "nearly wide", "too wide", "all but one low", "one extreme position"],
)
@pytest.mark.parametrize("n_labels", [2, 3])
def test_both_recursions_agree_with_plain_logarithms(pattern, order, n_labels):
    rng = np.random.default_rng(order)
    case = Chains("moderate", rng, n_labels, order, [300])
    case.scores = long_scores(pattern, rng, n_labels, 300, order)
    log_z, log_joint = log_forward_backward(case.scores, n_labels, order)
    np.testing.assert_allclose(case.marginals()[1], log_z, rtol=1e-12)
    np.testing.assert_allclose(case.joint_marginals(), np.exp(log_joint), rtol=0, atol=1e-9)
    best, through = log_forward_backward(case.scores, n_labels, order, np.maximum)
    labels, found = case.viterbi()
    np.testing.assert_allclose(found, best, rtol=1e-12)
    np.testing.assert_allclose(sequence_score(case.scores, labels, n_labels, order), best)
    assert through.max() == pytest.approx(0.0, abs=1e-9)


def test_dead_ends_are_survived():
    """The only way through keeps to label 1, whose weight dwindles beside that of label 0."""
    n = 40
    scores = np.full((2, n, 2), -np.inf)
    scores[0, :, 0], scores[1, :, 1] = 0.0, -50.0
    scores[:, 0, 0] = 0.0
    scores[0, -1, 0] = -np.inf
    case = Chains("moderate", np.random.default_rng(0), 2, 1, [n])
    case.scores, case.labels = scores, np.ones(n, dtype=np.int32)
    assert case.log_likelihood()[0] == pytest.approx(0.0, abs=1e-9)
    marginals, log_z = case.marginals()
    assert log_z[0] == pytest.approx(-50.0 * (n - 1))
    np.testing.assert_allclose(marginals[:, 1], 1.0)


@pytest.mark.parametrize("kind", ["moderate", "large"])
@pytest.mark.parametrize("order", [0, 1, 2])
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
