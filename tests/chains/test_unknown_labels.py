"""Likelihoods with unknown labels agree with enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.chains import STEP, Chains, draw_candidates, possible_kinds, seeds, shapes
from support.factored_scores import draw_case, lengths_of, rules, scales
from support.factored_scores import shapes as shapes_of_parts
from support.objectives_oracle import inverse_weights, log_mean_inverse
from support.oracles import brute_force, indicator, log_sum_exp
from support.samples import (
    TINY,
    as_tables,
    keys_of,
    size_of,
)  # fmt: skip
from support.sweeps import pairs

from treecrf import _inference
from treecrf.chains.constraints import Constraints, Transitions
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.objectives import OBJECTIVES, make_objective
from treecrf.chains.partial_labels import UnknownLabels, completed, label_paths
from treecrf.chains.sampled.likelihood import SampledLikelihood
from treecrf.chains.sampled.sampling import SUM_UNIT, LikelihoodSampler, RawSample
from treecrf.utils.exact import rounded
from treecrf.utils.threads import Threads

FREE = Constraints(None, None)
ONE = Threads(None)


class Given:
    """The distribution over the label sequences of one sequence, given the possible labels."""

    def __init__(self, everything, candidates):
        positions = np.arange(len(candidates))
        possible = candidates[positions, everything.sequences].all(axis=1)
        sequences, logs = everything.sequences[possible], everything.log_probabilities[possible]
        self.log_probability = log_sum_exp(logs)
        self.joint = np.zeros(everything.joint.shape)
        for labels, log_p in zip(sequences, logs, strict=True):
            p = np.exp(log_p - self.log_probability)
            self.joint += p * indicator(labels, everything.n_labels, everything.order)


class Expected:
    """Value and gradient of an objective of sequences by enumeration."""

    def __init__(self, name, case, candidates):
        self.gradient = np.zeros(case.scores.shape)
        known = []  # what is known together, and where
        for oracle, _, _, where in case.oracles():
            for mask in masks_of(candidates[where]) if "hamming" in name else [candidates[where]]:
                known.append((Given(oracle, mask), oracle, where))
        logs = np.array([one.log_probability for one, _, _ in known])
        n_positions = len(case.labels)
        self.value, weights = logs.sum() / n_positions, np.ones(len(logs))
        if name == "exponential":
            self.value = -log_mean_inverse(logs) * len(logs) / n_positions
        elif name == "hamming_exponential":
            self.value = -log_mean_inverse(logs)
        if "exponential" in name:
            weights = inverse_weights(logs)
        for weight, (one, oracle, where) in zip(weights, known, strict=True):
            self.gradient[:, where] += weight * (one.joint - oracle.joint)


def masks_of(candidates):
    """Return what is known about each position of which something is known."""
    for t in np.flatnonzero(~candidates.all(axis=1)):
        mask = np.ones_like(candidates)
        mask[t] = candidates[t]
        yield mask


def objective_of(name, case, candidates, threads=ONE, **options):
    shape = case.n_labels, case.order
    data = ChainLabels(case.offsets, case.labels, *shape, FREE, candidates)
    return make_objective(name, data, threads, **options)


@pytest.mark.parametrize("name", OBJECTIVES)
@given(possible_kinds, seeds, shapes)
def test_values_and_residuals_agree_with_enumeration(name, kind, rng, shape):
    case = Chains(kind, rng, *shape)
    candidates = draw_candidates(rng, case.labels, case.n_labels)
    if candidates.all():  # at least something is known
        candidates[0] = np.arange(case.n_labels) == case.labels[0]
    assume(not candidates.all())
    objective = objective_of(name, case, candidates)
    residuals, _, value = objective.examples(case.scores, 0)
    expected = Expected(name, case, candidates)
    assert value == objective_of(name, case, candidates).value(case.scores)
    np.testing.assert_allclose(value, expected.value, rtol=1e-11, atol=1e-10)
    atol = STEP * (4 + len(case.labels)) + 1e-10
    np.testing.assert_allclose(residuals, expected.gradient, rtol=0, atol=atol)
    assert (residuals / STEP % 1 == 0).all()
    assert (np.abs(residuals) <= 1 + 4 * STEP).all() or name != "log"


BOUND_SHARES = [1.0, 0.3, 0.0]


@pytest.mark.parametrize("bound_share", BOUND_SHARES)
@given(possible_kinds, seeds, shapes)
def test_curvature_is_in_proportion_to_what_is_known(bound_share, kind, rng, shape):
    case = Chains(kind, rng, *shape)
    candidates = draw_candidates(rng, case.labels, case.n_labels)
    of_known, of_all = (
        objective_of("log", case, masks, bound_share=bound_share).examples(case.scores, 0)
        for masks in (candidates, None)
    )
    p = np.concatenate([oracle.joint for oracle, _, _, _ in case.oracles()], axis=1)
    smallest = np.maximum(np.minimum(p, 1 - p), 1e-300)
    expected = of_all[1] * np.minimum(np.abs(of_known[0]) / smallest, 1)
    # Shares of tiny probabilities are not exact, but their curvature is as tiny.
    np.testing.assert_allclose(of_known[1], expected, rtol=0, atol=80 * len(case.labels) * STEP)
    assert (of_known[1] / STEP % 1 == 0).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_curvature_is_at_least_the_second_derivative(order):
    rng = np.random.default_rng(order)
    case = Chains("moderate", rng, 3, order, [4, 1])
    candidates = draw_candidates(rng, case.labels, 3, 0.8)
    objective = objective_of("log", case, candidates, bound_share=0.0)
    curvature = objective.examples(case.scores, 0)[1].copy()
    eps = 1e-3
    for index in np.ndindex(*case.scores.shape):
        values = []
        for step in (-eps, 0.0, eps):
            scores = case.scores.copy()
            scores[index] += step
            values.append(len(case.labels) * objective.value(scores))
        second = -(values[0] - 2 * values[1] + values[2]) / eps**2
        assert curvature[index] >= 2 * second - 1e-5


@given(seeds, shapes)
def test_newton_steps_of_full_length_raise_the_likelihood(rng, shape):
    case = Chains("moderate", rng, *shape)
    candidates = draw_candidates(rng, case.labels, case.n_labels, 0.8)
    objective = objective_of("log", case, candidates, bound_share=1.0)
    residuals, curvature, value = objective.examples(case.scores, 0)
    exists = (np.abs(residuals) > 1e-7) & (curvature > 0)
    steps = np.divide(residuals, curvature, where=exists, out=np.zeros(residuals.shape))
    assert objective.value(case.scores + steps) >= value


@given(possible_kinds, seeds, shapes)
def test_nothing_known_contributes_nothing(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    everything = np.ones((len(case.labels), case.n_labels), dtype=bool)
    for name in ("log", "hamming_log"):
        residuals, _, value = objective_of(name, case, everything).examples(case.scores, 0)
        assert not residuals.any()
        assert value == 0 or (case.n_labels == 1 and abs(value) < 1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
@given(possible_kinds, seeds, shapes)
def test_known_labels_give_the_residuals_of_complete_labels(name, kind, rng, shape):
    case = Chains(kind, rng, *shape)
    assume(case.n_labels > 1)
    one = np.eye(case.n_labels, dtype=bool)[case.labels]
    ours, theirs = (
        objective_of(name, case, masks).examples(case.scores, 0) for masks in (one, None)
    )
    if name == "hamming_exponential":  # the terms are multiplied by weights of 1
        np.testing.assert_allclose(ours[0], theirs[0], atol=1e-8)
        np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-12)
        return
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("order", [0, 1, 2])
def test_order_threads_and_blocks_change_nothing(order, monkeypatch):
    rng = np.random.default_rng(order)
    case = Chains("moderate", rng, 3, order, rng.integers(1, 9, 60).tolist())
    candidates = draw_candidates(rng, case.labels, 3)
    expected = objective_of("log", case, candidates).examples(case.scores, 0)
    monkeypatch.setattr("treecrf.chains.partial_labels.MAX_BYTES", 20 * 8 * 3 ** (order + 1))
    with Threads(3) as threads:
        objective = objective_of("log", case, candidates, threads)
        found = objective.examples(case.scores, 0)
        assert objective.value(case.scores) == expected[2]
    np.testing.assert_array_equal(found[0], expected[0])
    shuffled = rng.permutation(60)
    old = np.concatenate([np.arange(*case.offsets[i : i + 2]) for i in shuffled])
    offsets = np.append(0, np.cumsum(np.diff(case.offsets)[shuffled]))
    data = ChainLabels(offsets, case.labels[old], 3, order, FREE, candidates[old])
    moved = make_objective("log", data, ONE).examples(np.ascontiguousarray(case.scores[:, old]), 0)
    np.testing.assert_array_equal(moved[0], expected[0][:, old])
    assert moved[2] == expected[2]


@given(seeds, shapes_of_parts, lengths_of, scales, rules)
def test_scores_in_parts(rng, shape, lengths, scale, constraints):
    parts, labels = draw_case(rng, *shape, lengths, scale, True, constraints)
    candidates = draw_candidates(rng, labels, parts.n_labels)
    data = ChainLabels(parts.offsets, labels, *shape, FREE, candidates)
    factored, table = SampledLikelihood(data, ONE), make_objective("log", data, ONE)
    np.testing.assert_allclose(
        factored.value(parts), table.value(parts.table()), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("scale", [1, 500])
def test_long_sequences(scale):
    rng = np.random.default_rng(0)
    case = Chains("moderate", rng, 3, 1, [30_000, 40])
    scores = scale * case.scores
    candidates = draw_candidates(rng, case.labels, 3)
    residuals, _, value = objective_of("log", case, candidates).examples(scores, 0)
    assert np.isfinite(value) and value < 0
    np.testing.assert_allclose(residuals.sum(axis=(0, 2)), 0, atol=1e-6)


# Samples


@given(seeds, shapes_of_parts, lengths_of, scales, rules, st.sampled_from([*BOUND_SHARES, None]))
def test_all_examples_are_the_tables_of_the_exact_engine(
    rng, shape, lengths, scale, constraints, bound_share
):
    parts, labels = draw_case(rng, *shape, lengths, scale, True, constraints)
    check_all_examples(parts, labels, draw_candidates(rng, labels, shape[0]), bound_share)


def check_all_examples(parts, labels, candidates, bound_share):
    """Compare a draw of all examples with the tables of the exact engine."""
    sampler = LikelihoodSampler(
        parts.offsets, labels, parts.order, ONE, keys_of(parts.offsets), bound_share, candidates
    )
    floor = float(bound_share is None)
    raw = RawSample(sampler.sample(parts, 0, 0, TINY, floor=floor), TINY, floor)
    lists = raw.lists(TINY, ONE, STEP)
    data = ChainLabels(parts.offsets, labels, parts.n_labels, parts.order, FREE, candidates)
    objective = make_objective("log", data, ONE, bound_share)
    residuals, curvatures, value = objective.examples(parts.table(), 0)
    assert bound_share is None or np.isfinite(curvatures).all()
    # Chains with known labels only may be computed in single precision.
    error = (parts.n_labels > 8) * len(labels) * 2.0**-19
    found = as_tables(lists, parts, "residuals")
    np.testing.assert_allclose(found, residuals, rtol=0, atol=2 * STEP + 1e-11 + error)
    if bound_share is not None:
        expected = np.where(found != 0, curvatures, 0)
        # That of the tables is in proportion to residuals that have been rounded.
        rounding = 2 * STEP * np.divide(expected, np.abs(found), where=found != 0, out=expected * 0)
        found = as_tables(lists, parts, "curvatures")
        wrong = np.abs(found - expected) - rounding
        assert (wrong <= 1e-9 * expected + 1e-7 + 20 * error).all()
    likelihoods = sampler.likelihoods.sum() / len(labels)
    np.testing.assert_allclose(likelihoods, value, rtol=1e-9, atol=1e-9 + error)
    assert size_of(raw.samples) * SUM_UNIT == pytest.approx(
        np.abs(residuals).sum(), abs=(1e-8 + error) * (1 + found.size)
    )
    for examples in lists:
        index = examples.positions * np.int64(parts.n_contexts) + examples.contexts
        assert (np.diff(index) > 0).all()


@pytest.mark.parametrize(
    ("n_labels", "order", "bound_share"),
    pairs(
        [(n, order, share) for n, order in [(12, 1), (3, 2)] for share in (1.0, None)],
        lambda n_labels, order, share: (share is None) == (order == 2),
    ),
)
def test_samples_of_long_sequences(n_labels, order, bound_share):
    """There are too many tiles to keep them all."""
    rng = np.random.default_rng(0)
    parts, labels = draw_case(rng, n_labels, order, [30_000, 6000, 7])
    check_all_examples(parts, labels, draw_candidates(rng, labels, n_labels), bound_share)


# Paths of possible labels


def draw_transitions(rng, n_labels):
    follows = rng.random((n_labels + 1, n_labels)) < 0.5
    return Transitions(follows, rng.random(n_labels) < 0.7)


def is_path(labels, transitions):
    before = [len(transitions.ends), *labels[:-1]]
    return transitions.follows[before, labels].all() and transitions.ends[labels[-1]]


@given(seeds)
def test_paths_exist_where_enumeration_finds_one(rng):
    n_labels = int(rng.integers(2, 4))
    offsets = np.cumsum([0, *rng.integers(1, 5, 4)])
    transitions = draw_transitions(rng, n_labels)
    candidates = rng.random((offsets[-1], n_labels)) < 0.6
    candidates[np.arange(offsets[-1]), rng.integers(n_labels, size=offsets[-1])] = True
    before = candidates.copy()
    codes, found = label_paths(candidates, transitions, offsets)
    np.testing.assert_array_equal(candidates, before)
    for i, (start, stop) in enumerate(itertools.pairwise(offsets)):
        every = brute_force(np.zeros((n_labels, stop - start, 1)), n_labels, 0).sequences
        inside = candidates[np.arange(start, stop), every].all(axis=1)
        paths = [path.tolist() for path in every[inside] if is_path(path, transitions)]
        assert found[i] == bool(paths)
        if paths:
            assert codes[start:stop].tolist() == min(paths)


def test_only_allowed_labels_are_possible():
    classes, offsets = np.array(["x", "y", "z"]), np.array([0, 2])
    allowed = np.array([[True, False, True], [True, True, False]])
    candidates = np.array([[True, True, False], [True, False, True]])
    codes, left = completed(candidates, allowed, None, classes, offsets)
    assert left is None
    assert codes.tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"sequence 0, position 1: 'x' or 'z' is forbidden by al"):
        completed(candidates, np.array([[True] * 3, [False, True, False]]), None, classes, offsets)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 4), (3, 7, 1)])
@pytest.mark.parametrize("curved", [False, True])
def test_passes_over_tables_equal_formulas(shape, curved):
    rng = np.random.RandomState(0)
    _, n_positions, _ = shape
    residuals, of_codes = (rounded(rng.uniform(-1, 1, shape)) for _ in range(2))
    residuals[rng.rand(*shape) < 0.2] = 0.0
    residuals[rng.rand(*shape) < 0.2] = 1.0
    of_codes[rng.rand(*shape) < 0.2] = 0.0
    positions = np.flatnonzero(rng.rand(n_positions) < 0.6)
    before = residuals.copy()
    sizes = np.abs(before)
    expected = rounded(2.0 * sizes * (1.0 - sizes))
    curvature = expected.copy()
    part = np.ascontiguousarray(of_codes[:, positions])
    _inference.subtract_residuals(residuals, curvature if curved else None, positions, part)
    known = before.copy()
    known[:, positions] -= part
    np.testing.assert_array_equal(residuals, known)
    sizes = np.minimum(sizes, 1.0 - sizes)
    shares = np.minimum(np.abs(known), sizes) / np.where(sizes > 0, sizes, 1.0)
    shares[sizes == 0] = 1.0
    expected = rounded(expected * shares) if curved else expected
    np.testing.assert_array_equal(curvature, expected)


def test_blocks_hold_the_chains_with_unknown_labels():
    candidates = np.ones((6, 2), dtype=bool)
    candidates[[0, 1, 4], 0] = False
    chains = np.array([0, 2, 3, 5, 6])
    unknown = UnknownLabels(chains, np.zeros(6, np.int32), candidates, 2, ONE)
    assert unknown.numbers.tolist() == [1, 2, 3]
