"""The kernels of linear learners agree with plain loops, and with the general inference."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from support.training import training_of

from treecrf import LinearCRF, _inference
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.linear import matrix
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.linear.model import WeightLayout
from treecrf.learners.linear.scores import LinearFunction
from treecrf.utils.threads import Threads

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
windows = st.sampled_from([(0, 0), (1, 0), (0, 2), (2, 1), (3, 3)])
spreads = st.sampled_from([0.0, 1.0, 30.0, 60.0, 300.0, 400.0])


class Rows:
    """A source of attributes with fixed rows."""

    def __init__(self, window, rows):
        self.window = window
        self.given = rows
        self.n_attributes = rows.shape[1]

    def rows(self, sequences):
        return self.given


class Lengths:
    """Sequences of given lengths, as far as a table needs them."""

    def __init__(self, lengths):
        self.offsets = offsets_of(lengths)


class Case:
    """Random attributes and weights of some sequences."""

    def __init__(self, rng, window, n_labels, transition_features, lengths, n_jobs=1):
        self.rng, self.window, self.lengths = rng, window, lengths
        n = sum(lengths)
        self.x = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.6)
        self.x[:, 2] = self.x[:, 2] != 0
        source = Rows(window, sparse.csr_array(self.x))
        self.table = AttributeMatrix.of(source, Lengths(lengths))
        n_attributes, n_offsets = self.table.n_attributes, self.table.n_offsets
        layout = WeightLayout(n_attributes, n_offsets, n_labels, transition_features)
        self.scores = LinearFunction(self.table, layout, Threads(n_jobs))
        self.weights = layout.weights(rng.normal(size=layout.size))
        self.labels = rng.integers(n_labels, size=n).astype(np.int32)

    def expected_scores(self):
        """The definition, term by term."""
        left, right = self.window
        k, w = self.scores.layout.n_labels, self.weights
        out = np.zeros((k, len(self.x), k))
        for start, length in zip(self.table.offsets, self.lengths, strict=False):
            for t in range(length):
                for v in range(k):
                    for u in range(k if t else 1):
                        total = w.transitions[u if t else k, v]
                        for offset in range(-left, right + 1):
                            inside = 0 <= t + offset < length
                            x = [*self.x[start + t + offset], 0.0] if inside else [0.0] * 4 + [1.0]
                            for a in range(w.layout.n_attributes):
                                total += x[a] * w.labels[a, right - offset, v]
                                if w.layout.transition_features and t:
                                    total += x[a] * w.pairs[a, right - offset, u, v]
                        out[v, start + t, u] = total
        return out


@given(seeds, windows, st.sampled_from([2, 3, 9]), st.booleans())
def test_scores_and_gradient_agree_with_their_definition(rng, window, n_labels, pairs):
    lengths = rng.integers(1, 6, rng.integers(1, 4)).tolist()
    case = Case(rng, window, n_labels, pairs, lengths)
    scores = case.scores.scores(case.weights)
    np.testing.assert_allclose(scores, case.expected_scores(), atol=1e-12)
    residuals = rng.normal(size=scores.shape)
    residuals[:, case.table.offsets[:-1], 1:] = 0.0
    gradient = case.scores.gradient(residuals)
    # The gradient is the transpose of the linear function from weights to scores.
    assert (residuals * scores).sum() == pytest.approx(gradient.vector @ case.weights.vector)
    other = case.scores.layout.weights(rng.normal(size=case.scores.layout.size))
    product = (residuals * case.scores.scores(other)).sum()
    assert product == pytest.approx(gradient.vector @ other.vector)


@pytest.mark.parametrize("pairs", [False, True])
def test_ranges_and_threads_do_not_matter(pairs, monkeypatch):
    lengths = np.random.default_rng(0).integers(1, 9, 150).tolist()
    found = []
    for n_jobs, size in ((1, 256), (2, 256), (2, 256), (1, 50)):
        monkeypatch.setattr("treecrf.learners.linear.matrix.RANGE_POSITIONS", size)
        case = Case(np.random.default_rng(1), (2, 1), 3, pairs, lengths, n_jobs)
        scores = case.scores.scores(case.weights)
        found.append((scores, case.scores.gradient(np.sin(scores)).vector))
    for scores, gradient in found[1:]:
        np.testing.assert_array_equal(scores, found[0][0])
        np.testing.assert_allclose(gradient, found[0][1], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_rows_of_the_wrong_shape_are_refused():
    source = Rows((1, 1), sparse.csr_array(np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"Rows returns rows of shape \(3, 2\); expected \(4, 2\)"):
        AttributeMatrix.of(source, Lengths([3, 1]))
    source.n_attributes = 5
    with pytest.raises(ValueError, match=r"expected \(3, 5\)"):
        AttributeMatrix.of(source, Lengths([3]))


# Chains with the same transitions everywhere


class ChainCase:
    """Random scores by position, and transitions."""

    def __init__(self, rng, n_labels, lengths, spread):
        self.lengths, self.offsets = lengths, offsets_of(lengths)
        n, n_boundary = int(self.offsets[-1]), 2
        self.n_labels = n_labels
        self.first_rows = self.offsets[:-1] + 1 + n_boundary * np.arange(len(lengths))
        self.rows = rng.normal(size=(n + n_boundary * len(lengths) + 1, n_labels)) * spread
        self.transitions = rng.normal(size=(n_labels + 1, n_labels)) * spread
        self.labels = rng.integers(n_labels, size=n).astype(np.int32)
        self.chains = StateChains(self.offsets, self.first_rows, self.labels)
        self.weights = rng.random(len(lengths)) + 0.5
        self.position_rows = np.concatenate(
            [np.arange(n) + row for row, n in zip(self.first_rows, lengths, strict=True)]
        )

    def general(self):
        """The same scores, in the form of the general inference."""
        rows = self.rows[self.position_rows]
        scores = rows.T[:, :, None] + self.transitions[:-1].T[:, None, :]
        starts = self.offsets[:-1]
        scores[:, starts, :] = 0.0
        scores[:, starts, 0] = (rows[starts] + self.transitions[-1]).T
        return np.ascontiguousarray(scores)

    def residuals(self):
        rows, summed = self.rows.copy(), np.empty_like(self.transitions)
        log_p = np.empty(len(self.lengths))
        self.chains.residuals(
            rows, self.transitions, self.weights, 0, len(self.lengths), summed, log_p
        )
        return rows, summed, log_p

    def log_likelihoods(self):
        log_p = np.empty(len(self.lengths))
        rows = self.rows.copy()
        self.chains.log_likelihoods(rows, self.transitions, 0, len(self.lengths), log_p)
        return log_p

    def marginals(self):
        rows = self.rows.copy()
        chains = StateChains(self.offsets, self.first_rows)
        chains.marginals(rows, self.transitions, 0, len(self.lengths))
        return rows[self.position_rows]


@given(seeds, st.sampled_from([2, 3, 5, 8, 9, 11]), spreads)
def test_chains_agree_with_general_inference(rng, n_labels, spread):
    """The general inference agrees with enumeration."""
    case = ChainCase(rng, n_labels, rng.integers(1, 9, 3).tolist(), spread)
    scores, everything = case.general(), (0, 3)
    expected, log_p = np.empty(scores.shape), np.empty(3)
    _inference.residuals(scores, case.offsets, case.labels, *everything, expected, None, log_p)
    expected *= np.repeat(case.weights, case.lengths)[:, None]
    rows, summed, found = case.residuals()
    np.testing.assert_allclose(found, log_p, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(case.log_likelihoods(), found, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(rows[case.position_rows], expected.sum(axis=2).T, atol=1e-8)
    between = np.setdiff1d(
        np.arange(case.position_rows[0], case.position_rows[-1]), case.position_rows
    )
    assert not rows[between].any()
    starts = case.offsets[:-1]
    np.testing.assert_allclose(summed[-1], expected[:, starts, 0].sum(axis=1), atol=1e-8)
    expected[:, starts] = 0.0
    np.testing.assert_allclose(summed[:-1], expected.sum(axis=1).T, atol=1e-8)
    unary, log_z = np.zeros((len(case.labels), n_labels)), np.zeros(3)
    _inference.marginals(scores, case.offsets, *everything, unary, log_z)
    np.testing.assert_allclose(case.marginals(), unary, atol=1e-9)


@pytest.mark.parametrize("high", [1.0, 500.0])
def test_long_sequences_and_high_scores_stay_in_range(high):
    case = ChainCase(np.random.default_rng(0), 4, [20_000], 1.0)
    case.rows += np.random.default_rng(1).choice([-high, high], case.rows.shape)
    case.transitions[:-1] += np.random.default_rng(2).choice([-high, high], (4, 4))
    scores = case.general()
    expected, log_p = np.empty(scores.shape), np.empty(1)
    _inference.residuals(scores, case.offsets, case.labels, 0, 1, expected, None, log_p)
    rows, summed, found = case.residuals()
    np.testing.assert_allclose(found, log_p, rtol=1e-12)
    tolerance = 2.0**-31 * case.weights[0]
    expected *= case.weights[0]
    np.testing.assert_allclose(rows[case.position_rows], expected.sum(axis=2).T, atol=8 * tolerance)
    np.testing.assert_allclose(summed[:-1], expected[:, 1:].sum(axis=1).T, atol=2e4 * tolerance)


# Distinct rows


def text_rows(rng):
    """Training data with ten attributes at each position, which are those of one of five words."""
    words = [{f"key {k}": str(rng.integers(3)) for k in range(10)} for _ in range(5)]
    X = [[words[i] for i in rng.integers(0, 5, n)] for n in (30, 1, 25, 9)]
    y = [[str(label) for label in rng.integers(0, 3, len(x))] for x in X]
    return X, y


@pytest.mark.parametrize("window", [0, (2, 1)])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_distinct_rows_give_the_same_scores_and_gradient(window, n_jobs):
    rng = np.random.default_rng(0)
    X, y = text_rows(rng)
    _, fast, _ = training_of(LinearCRF(window=window, n_jobs=n_jobs), X, y)
    assert 5 <= len(fast.distinct.by_row[0]) - 1 <= 6  # with that of boundary rows
    slow = copy.copy(fast)
    slow.distinct = None
    weights = fast.layout.weights(rng.normal(size=fast.layout.size))
    np.testing.assert_allclose(fast.scores(weights), slow.scores(weights), rtol=1e-12)
    deltas = [rng.normal(size=(len(fast.codes), 3)) for _ in fast.table.ranges]
    gradients = [
        data.gradient_of_rows(lambda k, _: fast.table.range_rows(deltas[k], k))
        for data in (fast, slow)
    ]
    np.testing.assert_allclose(gradients[0].vector, gradients[1].vector, atol=1e-12)


def test_rows_with_equal_hashes_are_compared(monkeypatch):
    X, y = text_rows(np.random.default_rng(1))
    monkeypatch.setattr(matrix, "mix", lambda seed, values: np.zeros(len(values), np.uint64))
    _, data, _ = training_of(LinearCRF(window=1), X, y)
    assert data.distinct is None
