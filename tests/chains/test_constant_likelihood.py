"""Gradient, curvature and sums with constant transitions, against tables of all contexts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.factored_scores import draw_case, lengths_of, rules, scales

from treecrf.chains.contexts import true_contexts
from treecrf.chains.factored import _gradients
from treecrf.chains.factored.constant_likelihood import ConstantLikelihood
from treecrf.chains.likelihood import ChainLabels, LogLikelihood
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.utils.threads import Threads

shapes = st.tuples(st.integers(1, 11), st.integers(1, 3)).filter(lambda s: s[0] ** s[1] <= 81)
seeds = st.integers(0, 2**32 - 1)
shares = st.sampled_from([None, 0.0, 0.3, 1.0])


def case_of(seed, shape, lengths, scale="moderate", rule=""):
    """Return random scores, and labels that they allow."""
    rng = np.random.default_rng(seed)
    parts, codes = draw_case(rng, *shape, lengths, scale, rest=False, constraints=rule)
    labels = ChainLabels(parts.offsets, codes, *shape, parts.constraints)
    return rng, parts, labels


def with_unknown(rng, labels):
    """Return labels some of which are unknown."""
    candidates = rng.random((len(labels.codes), labels.n_labels)) < 0.4
    candidates[np.arange(len(labels.codes)), labels.codes] = True
    allowed = labels.constraints.allowed
    if allowed is not None:
        candidates &= allowed
    return ChainLabels(**{**vars(labels), "candidates": candidates})


def by_depth(labels, values):
    """Sum a table (n_labels, n_positions, n_contexts) over positions of each depth."""
    depths = np.minimum(positions_in_sequences(labels.offsets), labels.order)
    return np.stack([values[:, depths == d].sum(axis=1) for d in range(labels.order + 1)])


@given(seeds, shapes, lengths_of, scales, rules, shares, st.booleans(), st.booleans())
def test_sums_and_residuals_are_those_of_tables(
    seed, shape, lengths, scale, rule, share, is_weighted, has_unknown
):
    rng, parts, labels = case_of(seed, shape, lengths, scale, rule)
    if has_unknown:
        labels = with_unknown(rng, labels)
    weights = rng.integers(0, 4, len(labels.codes)).astype(float) if is_weighted else None
    factor = 1.0 if weights is None else weights[None, :, None]
    table = parts.table()
    objective = ConstantLikelihood(labels, Threads(1), share)
    residuals, curvature, value = objective.examples(parts, 0, weights)
    expected = LogLikelihood(labels, Threads(1), share)
    expected_residuals, _, expected_value = expected.examples(table, 0, weights)
    if not np.isfinite(expected.likelihoods).all():
        return
    assert value == pytest.approx(expected_value, rel=1e-9, abs=1e-9)
    assert objective.value(parts) == value
    used = np.ones(len(labels.codes), dtype=bool) if weights is None else weights > 0
    np.testing.assert_allclose(
        residuals[:, used, 0], expected_residuals[:, used].sum(axis=2), rtol=0, atol=1e-7
    )
    sums = objective.transition_sums
    np.testing.assert_allclose(
        sums.residuals, by_depth(labels, expected_residuals * factor), rtol=0, atol=1e-6
    )
    if share is None:
        return
    own = LogLikelihood(labels, Threads(1), 0.0).examples(table, 0)[1]
    np.testing.assert_allclose(sums.own, by_depth(labels, own * factor), rtol=1e-5, atol=1e-5)
    assert (curvature >= 0).all()
    if share:
        bound = LogLikelihood(labels, Threads(1), 1.0).examples(table, 0)[1]
        influence = by_depth(labels, (bound - own) * factor)
        np.testing.assert_allclose(sums.influence, influence, rtol=1e-3, atol=1e-3)


def marginals(parts, labels):
    """Return P(label) at each position, by the table's residuals."""
    objective = LogLikelihood(labels, Threads(1))
    residuals = objective.examples(parts.table(), 0)[0].sum(axis=2)
    residuals[labels.codes, np.arange(len(labels.codes))] -= 1.0
    return -residuals


@given(seeds, st.integers(2, 4), st.integers(1, 6), st.sampled_from([1, 2]))
def test_bound_exceeds_the_rows_of_the_hessian(seed, n_labels, length, order):
    """The bound of a label is at least the sum of absolute covariances with all labels."""
    _, parts, labels = case_of(seed, (n_labels, order), [length])
    curvature = ConstantLikelihood(labels, Threads(1), 1.0).examples(parts, 0)[1][:, :, 0]
    q = marginals(parts, labels)
    for t in range(length):
        for v in range(n_labels):
            fixed = np.ones((length, n_labels), dtype=bool)
            fixed[t] = np.arange(n_labels) == v
            allowed = parts.restricted(fixed)
            codes = labels.codes.copy()
            codes[t] = v
            given_label = ChainLabels(labels.offsets, codes, n_labels, order, allowed.constraints)
            row = q[v, t] * np.abs(marginals(allowed, given_label) - q).sum()
            assert curvature[v, t] >= row - 1e-6


@given(seeds, shapes, st.lists(st.integers(1, 12), min_size=2, max_size=12), shares)
def test_results_do_not_depend_on_the_order_of_sequences_or_threads(seed, shape, lengths, share):
    rng, parts, labels = case_of(seed, shape, lengths)
    objective = ConstantLikelihood(labels, Threads(1), share)
    residuals, curvature, _ = objective.examples(parts, 0)
    order = rng.permutation(len(lengths))
    positions = np.concatenate([np.arange(*parts.offsets[i : i + 2]) for i in order])
    moved = parts.at(positions, np.cumsum([0, *np.array(lengths)[order]]))
    others = ChainLabels(moved.offsets, labels.codes[positions], *shape, moved.constraints)
    with Threads(2) as threads:
        shuffled = ConstantLikelihood(others, threads, share)
        other_residuals, other_curvature, _ = shuffled.examples(moved, 0)
    np.testing.assert_array_equal(other_residuals, residuals[:, positions])
    if share is not None:
        np.testing.assert_array_equal(other_curvature, curvature[:, positions])
    for name in ("residuals", "own", "influence"):
        one = getattr(objective.transition_sums, name)
        other = getattr(shuffled.transition_sums, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


def test_sums_of_partitions_are_those_of_all_sequences():
    _, parts, labels = case_of(3, (4, 2), [3, 1, 7, 2, 9, 5])
    whole = ConstantLikelihood(labels, Threads(1), 0.3)
    whole.examples(parts, 0)
    sums = []
    for first, last in ((0, 2), (2, 6)):
        taken = parts.take(first, last)
        codes = labels.codes[slice(*parts.offsets[[first, last]])]
        part = ChainLabels(taken.offsets, codes, 4, 2, taken.constraints)
        objective = ConstantLikelihood(part, Threads(1), 0.3)
        objective.total_weight = whole.total_weight
        objective.examples(taken, 0)
        sums.append(objective.transition_sums)
    total = sums[0] + sums[1]
    for name in ("residuals", "own", "influence"):
        np.testing.assert_array_equal(getattr(total, name), getattr(whole.transition_sums, name))


@pytest.mark.parametrize("share", [None, 0.3])
def test_long_chains_are_computed_one_by_one(share, monkeypatch):
    """Chains that are not computed side by side have the same results."""
    _, parts, labels = case_of(5, (5, 1), [1, 40, 7, 300])
    beside = ConstantLikelihood(labels, Threads(1), share)
    results = beside.examples(parts, 0)
    monkeypatch.setattr(_gradients, "short_chains", lambda lengths, n_labels: lengths < 0)
    single = ConstantLikelihood(labels, Threads(1), share)
    others = single.examples(parts, 0)
    np.testing.assert_allclose(results[0], others[0], rtol=0, atol=1e-9)
    assert results[2] == pytest.approx(others[2], rel=1e-12)
    if share is not None:
        np.testing.assert_allclose(results[1], others[1], rtol=0, atol=1e-8)
        np.testing.assert_allclose(
            beside.transition_sums.influence, single.transition_sums.influence, rtol=1e-4
        )


@pytest.mark.parametrize("order", [1, 2])
def test_weights_of_contexts_are_shared_where_labels_are_unknown(order):
    _, _, labels = case_of(7, (3, order), [1, 6, 2, 4])
    candidates = np.zeros((13, 3), dtype=bool)
    candidates[np.arange(13), labels.codes] = True
    candidates[4] = True
    labels = ChainLabels(**{**vars(labels), "candidates": candidates})
    weights = np.arange(13.0)
    found = ConstantLikelihood(labels, Threads(1))._context_weights(weights)
    depths, contexts = true_contexts(labels.offsets, labels.codes, 3, order)
    expected = np.zeros((order + 1, 3**order))
    for t in range(13):
        if t in range(5, 5 + order):  # the label at position 4 is one of those before
            expected[depths[t], : 3 ** depths[t]] += weights[t] / 3 ** depths[t]
        else:
            expected[depths[t], contexts[t]] += weights[t]
    for label in range(3):
        np.testing.assert_allclose(found[:, label], expected, atol=1e-8)
