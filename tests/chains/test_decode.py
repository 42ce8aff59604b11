"""Decoding agrees with the enumeration of all label sequences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chains import SENTINEL, Chains, kinds, seeds, shapes
from support.oracles import n_best, sequence_score


@given(kinds, seeds, shapes)
def test_viterbi_finds_a_best_sequence(kind, rng, shape):
    case = Chains(kind, rng, *shape)
    best_labels, best = case.viterbi()
    best = case.per_sequence(best)
    for i, (piece, _, where) in enumerate(case.slices()):
        expected = n_best(piece, case.n_labels, case.order, 1)
        np.testing.assert_allclose(best[i], expected[0][0] if expected else -np.inf, rtol=1e-12)
        if expected:
            found = sequence_score(piece, best_labels[where], case.n_labels, case.order)
            np.testing.assert_allclose(found, expected[0][0], rtol=1e-12)


@given(seeds, shapes)
def test_viterbi_breaks_ties_as_documented(rng, shape):
    case = Chains("tied", rng, *shape)
    labels, _ = case.viterbi()
    for piece, _, where in case.slices():
        ((_, expected),) = n_best(piece, case.n_labels, case.order, 1)
        assert labels[where].tolist() == list(expected)


@given(kinds, seeds, shapes, st.integers(1, 20))
def test_n_best_agree_with_enumeration(kind, rng, shape, n):
    case = Chains(kind, rng, *shape)
    labels, best = case.n_best(n)
    for i, (piece, _, where) in enumerate(case.slices()):
        expected = n_best(piece, case.n_labels, case.order, n)
        found = len(expected)
        np.testing.assert_allclose(best[i, :found], [score for score, _ in expected], rtol=1e-12)
        assert (best[i, found:] == -np.inf).all()
        assert (labels[found:, where] == -1).all()
        if kind != "large":  # the oracle sums in another order and may break ties differently
            assert labels[:found, where].tolist() == [list(path) for _, path in expected]


@pytest.mark.parametrize("order", range(4))
def test_n_best_of_some_sequences_only(order):
    case = Chains("moderate", np.random.default_rng(order), 2, order, [3, 1, 4, 2, 5])
    labels, best = case.n_best(4, (1, 3))
    all_labels, all_best = case.n_best(4)
    inside = slice(case.offsets[1], case.offsets[3])
    np.testing.assert_array_equal(labels[:, inside], all_labels[:, inside])
    np.testing.assert_array_equal(best[1:3], all_best[1:3])
    assert (np.delete(labels, inside, axis=1) == 7).all()
    assert (np.delete(best, [1, 2], axis=0) == SENTINEL).all()


def test_many_best_of_a_long_sequence():
    """They are distinct and sorted, and their scores are sums along the labels."""
    case = Chains("moderate", np.random.default_rng(0), 12, 1, [2000])
    labels, best = case.n_best(200)
    assert len({path.tobytes() for path in labels}) == 200
    assert (np.diff(best[0]) <= 0).all()
    for path, score in zip(labels[::40], best[0, ::40], strict=True):
        np.testing.assert_allclose(sequence_score(case.scores, path, 12, 1), score, rtol=1e-12)
