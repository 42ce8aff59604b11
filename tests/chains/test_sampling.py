"""Samples of examples are unbiased, and the same whatever the order of the work."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.chains import STEP, draw_candidates, seeds
from support.factored_scores import draw_case, lengths_of, rules, scales, shapes, shuffled_case
from support.samples import (
    TINY,
    as_tables,
    check_same,
    check_unbiased,
    draw,
    exists,
    floor_of,
    keys_of,
)  # fmt: skip
from support.sweeps import pairs

from treecrf import _inference
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import chains_of, extended_contexts, true_contexts
from treecrf.chains.likelihood import ChainLabels, ExampleTable, LogLikelihood
from treecrf.chains.sampled._samples import EXAMPLE, Sample
from treecrf.chains.sampled._sampling import log_likelihood
from treecrf.chains.sampled.sampling import (
    EXAMPLE_UNIT,
    FLOOR,
    KEEP_NONE,
    SUM_UNIT,
    LikelihoodSampler,
    RawSample,
    TableSampler,
    floor_for,
    mu_for,
    probable_decrease,
)
from treecrf.inputs.offsets import offsets_of
from treecrf.utils.exact import exact_sum
from treecrf.utils.threads import Threads

ONE = Threads(None)
BOUND_SHARES = [1.0, 0.3, 0.0, None]
every_share = pytest.mark.parametrize("bound_share", BOUND_SHARES)
bound_shares = st.sampled_from(BOUND_SHARES)
known_or_not = pytest.mark.parametrize("all_known", [True, False])
FREE = Constraints(None, None)


def sampler_of(parts, labels, bound_share, candidates=None):
    keys = keys_of(parts.offsets)
    return LikelihoodSampler(parts.offsets, labels, parts.order, ONE, keys, bound_share, candidates)


def rounded(values, unit=EXAMPLE_UNIT):
    return np.rint(values / unit) * unit


def tables_of(parts, labels, bound_share):
    """Residuals and curvature of all examples, and the log-likelihoods."""
    chains = chains_of(parts.offsets, parts.order)
    residuals, bound = np.zeros((2, parts.n_labels, parts.n_positions, parts.n_contexts))
    likelihoods = np.zeros(len(chains) - 1)
    _inference.residuals(parts, chains, labels, 0, len(chains) - 1, residuals, bound, likelihoods)
    if bound_share is None:
        bound = exists(parts).astype(float) * np.ones((parts.n_labels, 1, 1))
    else:
        bound = np.maximum(2 * np.abs(residuals) * (1 - np.abs(residuals)), bound_share * bound)
    return residuals, bound, likelihoods


def check_contexts(lists, parts):
    """Check the order of the examples, and their previous labels."""
    symbols, depth_starts = extended_contexts(parts.n_labels, parts.order)
    nothing = np.zeros(parts.n_positions, dtype=np.int64)
    depths, _ = true_contexts(parts.offsets, nothing, parts.n_labels, parts.order)
    for examples in lists:
        numbers = depth_starts[depths[examples.positions]] + examples.contexts
        np.testing.assert_array_equal(examples.labels, symbols[numbers])
        index = examples.positions * np.int64(parts.n_contexts) + examples.contexts
        assert (np.diff(index) > 0).all()


@given(seeds, shapes, lengths_of, scales, rules, bound_shares)
def test_all_examples_are_the_tables_of_the_exact_engine(
    rng, shape, lengths, scale, constraints, bound_share
):
    assume(shape != (9, 1))
    parts, labels = draw_case(rng, *shape, lengths, scale, True, constraints)
    check_all_examples(parts, labels, bound_share, error=0.0)


def test_curvature_of_nearly_impossible_contexts_is_finite():
    """Their probabilities are denormal numbers, whose inverses are infinite."""
    for seed in (62, 84, 140, 223):
        rng = np.random.default_rng(seed)
        parts, labels = draw_case(rng, 6, 2, [9, 5], "large")
        residuals, bounds, _ = tables_of(parts, labels, 1.0)
        assert np.isfinite(residuals).all()
        assert np.isfinite(bounds).all()


def check_all_examples(parts, labels, bound_share, error):
    """Compare a draw of all examples with the exact engine; ``error`` is that of probabilities."""
    sampler = sampler_of(parts, labels, bound_share)
    drawn = draw(sampler, parts, 0, 0, TINY, floor=float(bound_share is None))
    likelihoods = np.zeros(len(sampler.likelihoods))
    log_likelihood(parts, sampler.chains, labels, 0, len(likelihoods), likelihoods)
    np.testing.assert_array_equal(likelihoods, sampler.likelihoods)
    residuals, bounds, likelihoods = tables_of(parts, labels, bound_share)
    # Examples are rounded once, tables twice.
    found = as_tables(drawn.lists, parts, "residuals")
    np.testing.assert_allclose(found, residuals, rtol=0, atol=0.51 * EXAMPLE_UNIT + error)
    bounds = np.where(found != 0, bounds, 0) if bound_share is not None else bounds
    found = as_tables(drawn.lists, parts, "curvatures")
    np.testing.assert_allclose(found, bounds, rtol=0, atol=0.6 * EXAMPLE_UNIT + 20 * error)
    value = sampler.likelihoods.sum() / len(labels)
    assert value == pytest.approx(likelihoods.sum() / len(labels), abs=1e-8 + error)
    size = np.abs(residuals).sum()
    assert drawn.size * SUM_UNIT == pytest.approx(size, abs=(1e-8 + error) * (1 + found.size))
    check_contexts(drawn.lists, parts)


@given(
    seeds, st.sampled_from([9, 16, 22, 35]), lengths_of, scales, st.booleans(), rules, bound_shares
)
@settings(max_examples=60)
def test_many_labels_in_single_precision(
    rng, n_labels, lengths, scale, rest, constraints, bound_share
):
    parts, labels = draw_case(rng, n_labels, 1, lengths, scale, rest, constraints)
    check_all_examples(parts, labels, bound_share, error=max(lengths) * 2.0**-19)


@every_share
def test_error_of_single_precision_grows_slowly_with_the_length(bound_share):
    parts, labels = draw_case(np.random.default_rng(0), 9, 1, [5000])
    check_all_examples(parts, labels, bound_share, error=2.0**-18)


@pytest.mark.parametrize("scale", [40, 60, 100, 500])
def test_improbable_contexts_with_a_future(scale):
    """Weights leave the range of single precision, though they matter later."""
    parts, labels = draw_case(np.random.default_rng(0), 10, 1, [4], "none")
    unit = 2**20
    parts.state[1:, 0] -= scale * unit
    parts.rest[:, 1, 1] += scale * unit
    parts.rest[0, 1, 0] += unit // 2
    check_all_examples(parts, labels, 1.0, error=2.0**-17)


@pytest.mark.parametrize(
    ("n_labels", "order", "bound_share"),
    pairs(
        [(n, order, share) for n, order in [(12, 1), (3, 2), (3, 0)] for share in (1.0, None)],
        lambda n_labels, order, share: (share is None) == (order == 2),
    ),
)
def test_long_sequences_are_computed_tile_by_tile(n_labels, order, bound_share):
    """The tiles of the sampler are computed twice here, those of the tables are not."""
    rng = np.random.default_rng(0)
    parts, labels = draw_case(rng, n_labels, order, [30_000, 6000])
    sampler, floor = sampler_of(parts, labels, bound_share), float(bound_share is None)
    raw = RawSample(sampler.sample(parts, 0, 0, TINY, floor=floor), TINY, floor)
    lists = raw.lists(TINY, ONE, STEP)
    residuals, bounds, _ = tables_of(parts, labels, bound_share)
    found = as_tables(lists, parts, "residuals")
    np.testing.assert_array_equal(found, residuals)
    bounds = np.where(found != 0, bounds, 0) if bound_share is not None else bounds
    found = as_tables(lists, parts, "curvatures")
    np.testing.assert_allclose(found, bounds, rtol=1e-10, atol=2 * STEP)
    check_contexts(lists, parts)


@known_or_not
@every_share
@pytest.mark.parametrize(
    ("order", "mu"),
    pairs([(1, 0.3), (2, 0.05), (0, 0.3), (3, 0.05)], lambda order, _: order == 2),
)
def test_sums_over_examples_are_unbiased(order, bound_share, mu, all_known):
    rng = np.random.default_rng(order)
    parts, labels = draw_case(rng, 3, order, [4, 1, 5])
    candidates = None if all_known else draw_candidates(rng, labels, 3, 0.8)
    weights = rng.choice([0.25, 1.0, 3.0], len(labels))
    sampler = sampler_of(parts, labels, bound_share, candidates=candidates)
    floor = floor_of(bound_share)
    draws = [draw(sampler, parts, i, 7, mu, weights, floor=floor).lists for i in range(2000)]
    data = ChainLabels(parts.offsets, labels, 3, order, FREE, candidates)
    residuals, bounds, _ = LogLikelihood(data, ONE, bound_share).examples(parts.table(), 0)
    if bound_share is None:
        bounds = exists(parts) * np.ones((3, 1, 1))
    check_unbiased(draws, parts, (residuals, bounds), weights, mu, bound_share is None)


def test_expectation_over_all_random_numbers_is_exact():
    """Each of the 2**31 random numbers below the threshold keeps an example with its weight."""
    residuals = np.array([0.3, -0.01, 2.0**-20, 1e-11, -1e-12]).reshape(5, 1, 1)
    mu, unit = 0.1, 2.0**-50
    sampler = TableSampler(np.array([0, 1]), 1, ONE, np.zeros(1, np.uint64))
    seen = {}
    for iteration in range(2000):
        samples = sampler.sample(ExampleTable(residuals), iteration, 0, mu)
        for label, examples in enumerate(RawSample(samples, mu, 0.0).lists(mu, ONE, unit, True)):
            for residual, count in zip(examples.residuals, examples.counts, strict=True):
                seen[label] = residual, count
    assert set(seen) >= {0, 1}
    assert seen[0] == (rounded(0.3, unit), 1.0)
    for label, (residual, count) in seen.items():
        threshold = 2**31 / count
        assert threshold == min(2**31, np.ceil(abs(residuals[label, 0, 0]) / mu * 2**31))
        expectation = threshold * residual / 2**31
        assert expectation == pytest.approx(residuals[label, 0, 0], abs=unit)


@given(seeds, shapes, lengths_of, bound_shares, st.sampled_from([0.001, 0.1, 0.5]))
def test_increasing_mu_equals_a_new_draw(rng, shape, lengths, bound_share, mu):
    parts, labels = draw_case(rng, *shape, lengths)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], len(labels))
    sampler = sampler_of(parts, labels, bound_share)
    floor = floor_of(bound_share)
    raw = RawSample(sampler.sample(parts, 3, 5, mu, weights, floor), mu, floor)
    for larger in (mu, 1.1 * mu, 3 * mu, 100 * mu):
        fresh = RawSample(sampler.sample(parts, 3, 5, larger, weights, floor), larger, floor)
        check_same(raw.lists(larger, ONE, counted=True), fresh.lists(larger, ONE, counted=True))
    with pytest.raises(ValueError, match="expected at least"):
        raw.lists(0.9 * mu, ONE)
    check_same(raw.lists(mu, ONE, counted=True), raw.lists(mu, ONE, counted=True, release=True))
    assert not any(len(examples.positions) for examples in raw.lists(mu, ONE))


@given(seeds, shapes, lengths_of, bound_shares)
def test_packed_samples_are_the_same(rng, shape, lengths, bound_share):
    parts, labels = draw_case(rng, *shape, lengths)
    sampler = sampler_of(parts, labels, bound_share)
    samples = sampler.sample(parts, 3, 5, 0.1, floor=floor_of(bound_share))
    marks = np.zeros(len(labels) + 1, dtype=np.uint8)
    samples[0].mark_positions(marks)
    numbers = 7 + np.arange(len(labels), dtype=np.int32)
    starts = offsets_of([samples[0].n_examples(label) for label in range(parts.n_labels)])
    packed = np.empty(starts[-1], dtype=EXAMPLE)
    for label, (start, stop) in enumerate(pairwise(starts)):
        samples[0].pack(label, numbers, packed[start:stop])
    packed.flags.writeable = False
    unpacked = Sample.unpack(packed, starts, samples[0].order, samples[0].size, -7)
    raw, found = RawSample(samples, 0.1, 0.0), RawSample([unpacked], 0.1, 0.0)
    assert samples[0].size == unpacked.size
    lists = raw.lists(0.1, ONE, counted=True)
    check_same(lists, found.lists(0.1, ONE, counted=True))
    positions = packed["position"] - 7
    assert sorted(set(positions.tolist())) == np.flatnonzero(marks).tolist()


@pytest.mark.parametrize("bound_share", BOUND_SHARES[:3])
def test_budget_limits_the_number_of_examples(bound_share):
    parts, labels = draw_case(np.random.default_rng(0), 5, 1, [9] * 500)
    sampler = sampler_of(parts, labels, bound_share)
    size = draw(sampler, parts, 0, 0, KEEP_NONE).size
    assert mu_for(0.01, size, 2000) == size * SUM_UNIT / 2000 > 0.01
    drawn = draw(sampler, parts, 0, 0, mu_for(0.01, size, 2000))
    assert drawn.size == size
    assert 1500 < sum(len(examples.positions) for examples in drawn.lists) < 2200
    assert mu_for(0.5, size, 10**9) == 0.5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_labels", "max_examples"), [(5, 2000), (15, 2000), (15, None)])
def test_weights_alone_keep_few_examples(n_labels, max_examples, weighted):
    """In first order, examples are also kept for their weight."""
    rng = np.random.default_rng(0)
    parts, labels = draw_case(rng, n_labels, 1, [9] * 500)
    weights = rng.choice([0.5, 1.0, 4.0], len(labels)) if weighted else None
    sampler = sampler_of(parts, labels, None)
    mu = mu_for(0.1, draw(sampler, parts, 0, 0, KEEP_NONE, weights).size, max_examples)
    total = len(labels) if weights is None else weights.sum()
    floor = floor_for(0.1, max_examples, total, n_labels**2)
    drawn = draw(sampler, parts, 0, 0, mu, weights, floor=floor)
    for_residuals = drawn.size * SUM_UNIT / mu
    limit = max_examples or 2 * total / 0.1
    n_kept = sum(len(examples.positions) for examples in drawn.lists)
    assert n_kept < 1.05 * (for_residuals + limit / 4)
    assert for_residuals <= limit
    # The weights of those that are kept still stand for all.
    expected = (exists(parts) * (1.0 if weights is None else weights[:, None])).sum() * n_labels
    found = sum(examples.curvatures.sum() for examples in drawn.lists)
    assert found == pytest.approx(expected, rel=0.15)
    table = TableSampler(parts.offsets, 1, ONE, keys_of(parts.offsets))
    residuals = tables_of(parts, labels, None)[0]
    residuals *= 1.0 if weights is None else weights[:, None]
    lists = draw(table, ExampleTable(residuals, None, weights), 0, 0, mu, floor=floor).lists
    assert sum(len(examples.positions) for examples in lists) == pytest.approx(n_kept, abs=3)


@known_or_not
@every_share
@pytest.mark.parametrize(("n_labels", "order"), [(3, 0), (3, 1), (3, 2), (11, 1)])
def test_threads_and_order_change_nothing(n_labels, order, bound_share, all_known):
    rng = np.random.default_rng(0)
    parts, labels = draw_case(rng, n_labels, order, [3000, *rng.integers(1, 9, 50)])
    candidates = None if all_known else draw_candidates(rng, labels, n_labels)
    keys = keys_of(parts.offsets)

    def drawn(threads, parts, labels, keys, candidates):
        sampler = LikelihoodSampler(
            parts.offsets, labels, order, threads, keys, bound_share, candidates
        )
        result = draw(sampler, parts, 1, 1, 0.2, floor=floor_of(bound_share))
        return result, exact_sum(sampler.likelihoods)

    one, value = drawn(ONE, parts, labels, keys, candidates)
    with Threads(3) as threads:
        other, other_value = drawn(threads, parts, labels, keys, candidates)
    check_same(one.lists, other.lists)
    assert (one.size, value) == (other.size, other_value)
    shuffled, old, moved = shuffled_case(rng, parts)
    candidates = None if all_known else candidates[old]
    other, other_value = drawn(ONE, moved, labels[old], keys[shuffled], candidates)
    assert (one.size, value) == (other.size, other_value)
    for field in ("residuals", "curvatures"):
        before, after = as_tables(one.lists, parts, field), as_tables(other.lists, moved, field)
        np.testing.assert_array_equal(before[:, old], after)


def test_seed_iteration_and_key_matter():
    parts, labels = draw_case(np.random.default_rng(0), 3, 1, [50] * 20)
    sampler = sampler_of(parts, labels, 0.0)
    draws = [draw(sampler, parts, *which, 0.3).lists for which in [(0, 0), (1, 0), (0, 1)]]
    kept = [as_tables(lists, parts, "residuals") != 0 for lists in draws]
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        uncertain = np.abs(tables_of(parts, labels, None)[0]) < 0.15
        agreement = (kept[a] == kept[b])[uncertain].mean()
        assert 0.3 < agreement < 0.9


@given(seeds, shapes, lengths_of, st.booleans(), st.booleans())
def test_tables_are_sampled_in_the_same_way(rng, shape, lengths, curved, counted):
    parts, labels = draw_case(rng, *shape, lengths)
    residuals, bound, _ = tables_of(parts, labels, 1.0)
    counts = rng.choice([1.0, 2.5], len(labels)) if counted and not curved else None
    offsets, order, keys = parts.offsets, parts.order, keys_of(parts.offsets)
    table, floor = TableSampler(offsets, order, ONE, keys), 0.0 if curved else FLOOR
    all_examples = ExampleTable(residuals, bound if curved else None, counts)
    drawn = draw(table, all_examples, 4, 5, 0.1, floor=floor)
    assert drawn.size == pytest.approx(np.abs(residuals).sum() / SUM_UNIT, rel=1e-6, abs=1e3)
    if counts is None:
        expected = sampler_of(parts, labels, 1.0 if curved else None)
        expected = draw(expected, parts, 4, 5, 0.1, floor=floor)
        for field, atol in ("residuals", 1e-6), ("curvatures", 1e-4):
            np.testing.assert_allclose(
                as_tables(drawn.lists, parts, field),
                as_tables(expected.lists, parts, field),
                rtol=0,
                atol=atol,
            )
    everything = draw(table, all_examples, 4, 5, TINY, floor=float(not curved))
    found = as_tables(everything.lists, parts, "residuals")
    np.testing.assert_array_equal(found, rounded(residuals))
    if not curved:
        weights = 1.0 if counts is None else counts[:, None]
        expected = weights * exists(parts) * np.ones((parts.n_labels, 1, 1))
        np.testing.assert_array_equal(as_tables(everything.lists, parts, "curvatures"), expected)


def test_tables_with_one_given_context():
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(3, 20, 1)) / 4
    keys = np.arange(2, dtype=np.uint64)
    sampler = TableSampler(np.array([0, 5, 20]), 2, ONE, keys)
    drawn = draw(sampler, ExampleTable(residuals), 0, 0, TINY, floor=1.0)
    for label, examples in enumerate(drawn.lists):
        np.testing.assert_array_equal(examples.positions, np.arange(20))
        assert not examples.contexts.any()
        assert examples.labels.shape == (20, 0)
        np.testing.assert_array_equal(examples.residuals, rounded(residuals[label, :, 0]))


@every_share
def test_many_positions(bound_share):
    parts, labels = draw_case(np.random.default_rng(0), 3, 1, [20] * 5000)
    sampler = sampler_of(parts, labels, bound_share)
    drawn = draw(sampler, parts, 0, 0, 0.1, floor=floor_of(bound_share))
    residuals, bounds, likelihoods = tables_of(parts, labels, bound_share)
    assert sampler.likelihoods.mean() == pytest.approx(likelihoods.mean())
    np.testing.assert_allclose(drawn.size * SUM_UNIT, np.abs(residuals).sum(), rtol=1e-6)
    for label, examples in enumerate(drawn.lists):
        n = len(residuals[label][residuals[label] != 0])
        assert abs(examples.residuals.sum() - residuals[label].sum()) < 5 * 0.1 * np.sqrt(n)
        assert examples.curvatures.sum() == pytest.approx(bounds[label].sum(), rel=0.05)


def test_impossible_sequences_have_no_value():
    parts, labels = draw_case(np.random.default_rng(0), 2, 1, [3, 4])
    scores = parts.table()
    scores[:, 4] = -np.inf
    sampler = sampler_of(parts, labels, 1.0)
    sampler.sample(scores, 0, 0, 0.1)
    assert np.isnan(sampler.likelihoods).any()


def test_probable_decrease_is_below_the_latest_one():
    assert [probable_decrease(100, size) for size in (100, 120, 90, 10)] == [
        0.95, 0.95, pytest.approx(0.81), 0.7
    ]  # fmt: skip
    assert probable_decrease(0, 0) == 0.7
