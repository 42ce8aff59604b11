"""Beams agree with enumeration of their paths, and wide beams with exact inference."""

from __future__ import annotations

from functools import cached_property
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.beam_oracle import naive_beam, paths_in
from support.beams import LIKE_PLAIN_GROWTH, KnownScores, context_numbers, everything, lattice_of
from support.cases import STORAGES, STORAGES_WITH_MISSING, random_sequences, random_with_missing
from support.chains import STEP, Chains, seeds
from support.family import (
    assert_close_arrays,
    assert_equal_arrays,
    assert_predicts_the_same,
    assert_same_forest,
)
from support.forests import Trained
from support.sweeps import pairs

from treecrf import TreeCRF, _inference
from treecrf.chains import _decode
from treecrf.chains.beam import _beam, _beam_gradients
from treecrf.chains.beam._beam import BeamChains
from treecrf.chains.constraints import Constraints
from treecrf.learners.boosted.beams.beam import Beam
from treecrf.trees.contexts.context_scores import ScoreCache
from treecrf.trees.forest import Forest

KINDS = ["moderate", "large", "tied", "forbidden"]


def draw_scores(kind, rng, n_labels, n_positions, order):
    """Return scores, and a label sequence that they may forbid."""
    shape, labels = (
        (n_labels, n_positions, n_labels**order),
        rng.integers(n_labels, size=n_positions),
    )
    scores = rng.normal(size=shape)
    if kind == "large":
        scores += rng.choice([-500.0, 500.0], shape)
    if kind == "tied":  # exact sums: ties do not depend on the order of summation
        scores = rng.choice([0.0, -1000.0], shape)
    if kind == "forbidden":
        forbidden = rng.random(shape) < 0.3
        forbidden[rng.integers(shape[0], size=shape[1]), np.arange(shape[1])] = False
        scores[forbidden] = -np.inf
    return scores, labels


class Beams(Chains):
    """Sequences whose inference is restricted to a beam."""

    def __init__(self, kind, rng, n_labels, order, lengths, width):
        super().__init__(kind, rng, n_labels, order, lengths, draw_scores)
        self.width, self.whole = width, self.everything

    def beam(self, forward_only=False):
        return BeamChains(self.known.source, self.chains, self.width, forward_only)

    @cached_property
    def known(self):
        return KnownScores(self.scores, self.offsets, self.order)

    def marginals(self, forward_only=False, part=None):
        out, log_z = (np.full((self.offsets[-1], self.n_labels), 7.0), np.full(self.whole[1], 7.0))
        part = part or self.whole
        _beam.marginals(self.beam(forward_only), *part, out, log_z)
        return out, log_z

    def pairs(self):
        out = np.full((self.offsets[-1], self.n_labels, self.n_labels), 7.0)
        log_z = np.zeros(self.whole[1])
        _beam.pair_marginals(self.beam(), *self.whole, out, log_z)
        return out

    def log_likelihood(self, part=None):
        out = np.full(self.whole[1], 7.0)
        part = part or self.whole
        _beam.log_likelihood(self.beam(), self.labels, *part, out)
        return out

    def residuals(self, forward_only=False, curved=True, part=None, bound_share=1.0):
        """Residuals, curvature and log-likelihoods; NaN for contexts outside the beam."""
        known = self.known
        out, curvature = np.full((2, self.n_labels, known.source.n_entries), np.nan)
        log_likelihoods = np.full(self.whole[1], 7.0)
        _beam_gradients.residuals(
            BeamChains(known.source, self.chains, self.width, forward_only),
            self.labels,
            *(part or self.whole),
            out,
            curvature if curved else None,
            log_likelihoods,
            bound_share,
        )
        exists = known.entries >= 0
        out, curvature = (
            np.where(exists, array[:, known.entries], np.nan) for array in (out, curvature)
        )
        return out, curvature, log_likelihoods

    def best_paths(self, n, part=None):
        codes = np.full((n, self.offsets[-1]), -1, dtype=np.int32)
        best, log_z = np.full((self.whole[1], n), 7.0), np.full(self.whole[1], 7.0)
        part = part or self.whole
        _beam.best_paths(self.beam(), *part, codes, best, log_z)
        return codes, best, log_z

    def naive(self, labeled):
        """Yield the beam of each sequence, its log Z, scores, labels and slice of positions."""
        for piece, labels, where in self.slices():
            shape = self.n_labels, self.order, self.width
            kept, log_z = naive_beam(piece, *shape, labels if labeled else None)
            yield kept, log_z, piece, labels, where

    def paths(self, kept, piece, length=None):
        return paths_in(kept, piece, self.n_labels, self.order, length)

    def past_joint(self, kept, piece):
        """P(label and context) given the positions up to each."""
        joint = np.zeros(piece.shape)
        for t in range(piece.shape[1]):
            joint[:, t] = self.paths(kept, piece, t + 1).joint[:, t]
        return joint


def shapes_of(n_labels, order):
    return st.tuples(
        st.just(n_labels),
        st.just(order),
        st.lists(st.integers(1, 6 if n_labels < 3 else 4), min_size=1, max_size=3),
        st.integers(1, n_labels ** max(order, 1) + 1),
    )


shapes = st.tuples(st.integers(1, 3), st.integers(0, 3)).flatmap(lambda shape: shapes_of(*shape))
kinds = st.sampled_from(KINDS)
free_kinds = st.sampled_from(KINDS[:3])


# Kernels


@given(free_kinds, seeds, shapes)
def test_probabilities_agree_with_enumeration(kind, rng, shape):
    case = Beams(kind, rng, *shape)
    unary, log_z = case.marginals()
    filtered, _ = case.marginals(forward_only=True)
    pairs = case.pairs()
    log_z = case.per_sequence(log_z)
    for i, (kept, expected_log_z, piece, _, where) in enumerate(case.naive(labeled=False)):
        joint = case.paths(kept, piece).joint
        np.testing.assert_allclose(log_z[i], expected_log_z, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(unary[where], joint.sum(axis=2).T, rtol=1e-9, atol=1e-11)
        past = case.past_joint(kept, piece).sum(axis=2).T
        np.testing.assert_allclose(filtered[where], past, rtol=1e-9, atol=1e-11)
        assert not pairs[where.start].any()
        if case.order:
            by_label = joint.reshape(case.n_labels, len(past), -1, case.n_labels).sum(axis=2)
            expected = by_label.transpose(1, 2, 0)[1:]
            np.testing.assert_allclose(pairs[where][1:], expected, rtol=1e-9, atol=1e-11)


@given(kinds, seeds, shapes, st.booleans())
def test_residuals_are_rounded_indicators_less_probabilities(kind, rng, shape, forward_only):
    case = Beams(kind, rng, *shape)
    if kind == "forbidden":  # the labels must be allowed
        best, case.width = case.width, case.n_labels ** max(case.order, 1)
        case.labels, case.width = case.best_paths(1)[0][0], best
    residuals, _, log_likelihoods = case.residuals(forward_only)
    np.testing.assert_array_equal(residuals, case.residuals(forward_only, curved=False)[0])
    np.testing.assert_array_equal(log_likelihoods, case.log_likelihood())
    log_likelihoods = case.per_sequence(log_likelihoods)
    for i, (kept, log_z, piece, labels, where) in enumerate(case.naive(labeled=True)):
        paths = case.paths(kept, piece)
        truth = paths.sequences.index(tuple(labels.tolist()))
        expected = paths.totals[truth] - log_z
        np.testing.assert_allclose(log_likelihoods[i], expected, rtol=1e-11, atol=1e-9)
        joint = case.past_joint(kept, piece) if forward_only else paths.joint
        exists = np.zeros(piece.shape, dtype=bool)
        for t, contexts in enumerate(kept):
            exists[:, t, contexts] = True
        found = residuals[:, where]
        assert np.isnan(found[~exists]).all()
        assert (found[exists] / STEP % 1 == 0).all()
        expected = (paths.events[truth] - joint)[exists]
        np.testing.assert_allclose(found[exists], expected, rtol=0, atol=STEP / 2 + 1e-11)


@given(free_kinds, seeds, shapes, st.booleans(), st.floats(0, 1))
def test_curvature_is_the_diagonal_but_at_least_a_share_of_the_bound(
    kind, rng, shape, forward_only, share
):
    case = Beams(kind, rng, *shape)
    found = case.residuals(forward_only, bound_share=share)[1]
    bound, diagonal = (case.residuals(forward_only, bound_share=limit)[1] for limit in (1.0, 0.0))
    np.testing.assert_allclose(found, np.maximum(diagonal, share * bound), rtol=0, atol=2 * STEP)


@given(free_kinds, seeds, shapes, st.booleans())
def test_curvature_bounds_the_rows_of_the_hessian(kind, rng, shape, forward_only):
    """Forward only, it is a bound at the position itself and approximate at earlier ones."""
    case = Beams(kind, rng, *shape)
    curvature = case.residuals(forward_only)[1]
    for kept, _, piece, _, where in case.naive(labeled=True):
        exact = np.zeros(piece.shape)
        for t in range(piece.shape[1]):
            paths = case.paths(kept, piece, t + 1 if forward_only else None)
            exact[:, t] = paths.sums_of_covariance[:, t]
        lowest = exact
        if forward_only:
            joint = case.past_joint(kept, piece)
            lowest = 2 * joint * (1 - joint)
        found = curvature[:, where]
        exists = ~np.isnan(found)
        assert (found[exists] / STEP % 1 == 0).all()
        assert (found[exists] >= lowest[exists] - STEP).all()
        assert (found[exists] <= (3 if case.order else 1) * exact[exists] + STEP).all()


@given(kinds, seeds, shapes, st.integers(1, 5))
def test_best_paths_in_the_beam(kind, rng, shape, n):
    case = Beams(kind, rng, *shape)
    codes, best, log_z = case.best_paths(n)
    if not case.order:  # every position is a sequence
        ranked = -np.sort(-case.scores[:, :, 0], axis=0).T
        expected = np.full((len(ranked), n), -np.inf)
        expected[:, : case.n_labels] = ranked[:, :n]
        np.testing.assert_allclose(best, expected)
        return
    for i, (kept, expected_log_z, piece, _, where) in enumerate(case.naive(labeled=False)):
        paths = case.paths(kept, piece)
        ranked = -np.sort(-paths.totals[paths.totals > -np.inf])[:n]
        np.testing.assert_allclose(best[i, : len(ranked)], ranked, rtol=1e-12, atol=1e-12)
        assert (best[i, len(ranked) :] == -np.inf).all()
        np.testing.assert_allclose(log_z[i], expected_log_z, rtol=1e-11, atol=1e-9)
        found = [tuple(labels.tolist()) for labels in codes[: len(ranked), where]]
        assert len(set(found)) == len(found)
        totals = [paths.totals[paths.sequences.index(labels)] for labels in found]
        np.testing.assert_allclose(totals, ranked, rtol=1e-12, atol=1e-12)


@given(kinds, seeds, shapes)
def test_wide_beams_are_exact(kind, rng, shape):
    case = Beams(kind, rng, *shape)
    case.width = case.n_labels ** max(case.order, 1)
    n = len(case.chains) - 1
    marginals, log_z = np.zeros((case.offsets[-1], case.n_labels)), np.zeros(n)
    arguments = case.scores, case.chains
    _inference.marginals(*arguments, *case.whole, marginals, log_z)
    np.testing.assert_allclose(case.marginals()[0], marginals, atol=1e-9)
    np.testing.assert_allclose(case.marginals()[1], log_z, rtol=1e-12, atol=1e-12)
    codes, best = np.zeros(case.offsets[-1], dtype=np.int32), np.zeros(n)
    _decode.viterbi(*arguments, *case.whole, codes, best)
    found, found_best, _ = case.best_paths(1)
    np.testing.assert_array_equal(found[0], codes)
    np.testing.assert_array_equal(found_best[:, 0], best)
    residuals, curvature = np.zeros((2, *case.scores.shape))
    likelihoods = np.zeros(n)
    _inference.residuals(*arguments, case.labels, *case.whole, residuals, curvature, likelihoods)
    found, bound, found_likelihoods = case.residuals()
    np.testing.assert_allclose(found_likelihoods, likelihoods, rtol=1e-11, atol=1e-9)
    if np.isfinite(likelihoods).all():
        np.testing.assert_allclose(np.nan_to_num(found), residuals, atol=1e-9)
        np.testing.assert_allclose(np.nan_to_num(bound), curvature, atol=1e-8)


@pytest.mark.parametrize(("n_labels", "order"), [(2, 2), (3, 2), (2, 3), (3, 3), (2, 4)])
@pytest.mark.parametrize("kind", ["moderate", "tied"])
def test_curvature_in_wide_beams_is_exact_in_longer_sequences(kind, n_labels, order):
    """They are long enough for contexts that share no labels to be compared."""
    rng = np.random.default_rng(order)
    case = Beams(kind, rng, n_labels, order, [3 * order + 2, 20], n_labels**order)
    residuals, curvature = np.zeros((2, *case.scores.shape))
    arguments = case.scores, case.chains, case.labels, *case.whole
    _inference.residuals(*arguments, residuals, curvature, np.zeros(case.whole[1]))
    np.testing.assert_allclose(np.nan_to_num(case.residuals()[1]), curvature, atol=1e-8)


def test_ties_go_to_the_lowest_contexts():
    case = Beams("moderate", np.random.default_rng(0), 4, 1, [6], 3)
    case.scores[:] = 0.0
    case.labels[:] = 3
    residuals = case.residuals()[0]
    for t in range(1, 6):
        assert np.flatnonzero(~np.isnan(residuals[0, t])).tolist() == [0, 1, 3]
    codes, best, _ = case.best_paths(3)
    assert not codes[0].any()
    assert len(np.unique(codes, axis=0)) == 3
    assert not best.any()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_only_the_chosen_sequences_are_written(order):
    case = Beams("moderate", np.random.default_rng(order), 2, order, [3, 1, 4, 2, 5], 2)
    part = (1, 3)
    positions = np.zeros(case.offsets[-1], dtype=bool)
    positions[case.offsets[1] : case.offsets[3]] = True
    sequences = np.isin(np.arange(5), [1, 2])

    def check(function, *axes):
        for some, all_of_it, axis in zip(function(part=part), function(), axes, strict=True):
            inside = positions if len(positions) == some.shape[axis] else sequences
            kept = np.compress(inside, some, axis)
            np.testing.assert_array_equal(kept, np.compress(inside, all_of_it, axis))
            rest = np.compress(~inside, some, axis)
            assert (np.isnan(rest) | (rest == 7.0) | (rest == -1)).all()

    check(case.marginals, 0, 0)
    check(case.residuals, 1, 1, 0)
    check(lambda **part: case.best_paths(2, **part), 1, 0, 0)
    check(lambda **part: [case.log_likelihood(**part)], 0)
    assert (case.log_likelihood(part=(2, 2)) == 7.0).all()


@pytest.mark.parametrize(
    ("kind", "order"),
    pairs(product(["moderate", "large"], [1, 2, 3]), lambda *pair: pair == ("large", 2)),
)
def test_many_positions(kind, order):
    n = 20_000
    case = Beams(kind, np.random.default_rng(order), 2, order, [n], 2**order)
    marginals, log_z = np.zeros((n, 2)), np.zeros(1)
    _inference.marginals(case.scores, case.chains, 0, 1, marginals, log_z)
    found, found_log_z = case.marginals()
    np.testing.assert_allclose(found, marginals, atol=1e-9)
    np.testing.assert_allclose(found_log_z, log_z, rtol=1e-12)
    case.width = 2
    found, found_log_z = case.marginals()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
    expected = naive_beam(case.scores, 2, order, 2)[1]
    np.testing.assert_allclose(found_log_z, expected, rtol=1e-12)
    residuals, curvature, log_likelihood = case.residuals()
    assert log_likelihood[0] <= 0
    exists = ~np.isnan(residuals)
    assert np.isfinite(residuals[exists]).all()
    assert (curvature[exists] >= 0).all()


# Scores of contexts


def grown(kind, missing, order, **options):
    """A forest, and new sequences; ``missing`` is None if no value is missing."""
    some = {} if missing is None else {"rate": 0.2, "missing": missing}
    trained = Trained(kind, order, order=order, n_labels=3, max_leaf_nodes=30, **some, **options)
    rng, lengths = np.random.default_rng(1), [7, 1, 20]
    if missing is None:
        return trained, random_sequences(kind, rng, lengths, new=True)
    return trained, random_with_missing(kind, rng, lengths, 0.4, new=True)


@pytest.mark.parametrize(
    ("order", "window"),
    pairs(product([1, 2, 3], [(1, 1), (0, 0), (0, 3)]), lambda *pair: pair == (2, (1, 1))),
)
@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        *((kind, None) for kind in STORAGES),
        *product(STORAGES_WITH_MISSING, ("weighting", "surrogate")),
    ],
)
def test_scores_of_single_contexts_are_those_of_the_forest(kind, missing, order, window, few_codes):
    trained, new = grown(kind, missing, order, window=window)
    for sequences in (None, new):
        scores = trained.scores(sequences)
        for width in (1, 4, 3**order):
            lattice = lattice_of(trained, sequences, width)
            walked = everything(lattice.scores, lattice.offsets, width)
            known = KnownScores(scores, lattice.offsets, order)
            expected = everything(known.source, lattice.offsets, width)
            assert_equal_arrays(walked, expected)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("letters", None),
        ("sparse", None),
        ("letters", "surrogate"),
        ("sparse mixture", "weighting"),
    ],
)
def test_cached_scores_are_those_of_the_forest(kind, missing, order):
    """Contexts enter, stay, leave and return between iterations; their scores are current."""
    trained, _ = grown(kind, missing, order, n_iter=12)
    encoded, n = trained.encoded, trained.encoded.n_positions
    forest, rng = Forest(3, order), np.random.default_rng(order)
    remembered = ScoreCache(forest, trained.encoder, trained.encoder.layout, encoded, 2)
    rows = encoded.rows_from_first
    position_of = np.full(remembered.n_rows, -1)
    position_of[rows] = np.arange(n)
    offsets = encoded.offsets
    for i in [0, 1, 2, 2, 5, 6, 7, 8, 9, 10, 11, 12]:
        forest.trees = trained.forest.trees[: 3 * i]
        labels = rng.integers(3, size=n).astype(np.int32)
        chains = BeamChains(remembered.begin_pass(), offsets, 2)
        _beam.log_likelihood(chains, labels, 0, len(offsets) - 1, np.zeros(99))
        scores = remembered.scores
        seen = np.flatnonzero(scores.seen())
        positions = position_of[seen % remembered.n_rows]
        assert np.bincount(positions, minlength=n).min() >= 1
        assert np.bincount(positions, minlength=n).max() <= 2
        contexts = context_numbers(scores.labels[:, seen], 3)
        assert len(set(zip(positions, contexts, strict=True))) == len(seen)
        dense = trained.scores(iterations=(0, i))
        np.testing.assert_array_equal(scores.values[:, seen, 0], dense[:, positions, contexts])
        depth = (scores.labels[:, seen] < 3).sum(axis=0)
        np.testing.assert_array_equal(depth, encoded.depth_of(order)[positions])


# Training


def draw_task(rng, n_labels=3, lengths=(9, 1, 14, 3, 20, 7)):
    """Letters, and labels that depend on the letter and on previous labels."""
    sequences = random_sequences("letters", rng, lengths)
    labels = []
    for sequence in sequences:
        previous, own = 0, []
        for letter in sequence:
            noise = rng.random() < 0.2
            previous = int((previous + ord(letter) + noise) % n_labels)
            own.append(previous)
        labels.append(own)
    return sequences, labels


# Trees that grow from scores of 0.
SETTINGS = LIKE_PLAIN_GROWTH | {
    "window": 1, "max_iter": 6, "init": "zero", "sampling": None, "random_state": 0
}  # fmt: skip
STEPS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=bool)
FIRST_ORDER = {"second_order": False}


@pytest.mark.parametrize(
    "options",
    [
        FIRST_ORDER,
        FIRST_ORDER | {"subsample": 0.5},
        FIRST_ORDER | {"class_weight": {0: 0.5, 1: 2.0, 2: 0.5}},
        {"curvature": "auto"},
        {"curvature": "bound"},
        {"curvature": "bound", "transitions": STEPS},
        {"curvature": "diagonal", "subsample": 0.5},
        {"curvature": "diagonal", "min_samples_leaf": 3},
    ],
)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_training_with_all_contexts_is_exact(order, options):
    """Seeded: both ways round probabilities differently, and one subsample in thousands shows it.

    Gradients are rounded to a grid, which hides differences in the last bits unless a gradient
    lies within them of a boundary of the grid.
    """
    rng = np.random.default_rng(order)
    X, y = draw_task(rng)
    if "transitions" in options:
        y = [rng.integers(2, size=len(x)).cumsum() % 3 for x in X]
    exact, beam = (
        TreeCRF(order=order, beam_width=width, **SETTINGS | options).fit(X, y)
        for width in (None, 100)
    )
    ours, theirs = beam._forest.pack(), exact._forest.pack()
    if "transitions" in options:  # without a beam, forbidden contexts count as examples
        del ours["share"], theirs["share"]
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values, err_msg=name)
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(beam.train_score_, exact.train_score_, **close)
    assert_close_arrays(beam.predict_proba(X), exact.predict_proba(X), **close)
    likelihoods = (model.predict_log_likelihood(X, y) for model in (beam, exact))
    np.testing.assert_allclose(*likelihoods, **close)
    (labels, found), (best, log_probabilities) = (model.decode(X) for model in (beam, exact))
    assert_equal_arrays(labels, best)
    np.testing.assert_allclose(found, log_probabilities, **close)


@pytest.mark.parametrize("beam", ["two-pass", "forward-only"])
@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_narrow_beams_learn_and_threads_change_nothing(order, second_order, beam):
    X, y = draw_task(np.random.default_rng(order))
    options = {"order": order, "second_order": second_order, "beam": beam, "beam_width": 2}
    one, two = (TreeCRF(n_jobs=n, **SETTINGS | options).fit(X, y) for n in (1, 2))
    assert one.train_score_[-1] > 0.7 * one.train_score_[0]
    assert_same_forest(one, two)
    assert one.train_score_.tolist() == two.train_score_.tolist()
    assert_predicts_the_same(one, two, X)
    # The training likelihood is that of the beam at prediction.
    mean = one.predict_log_likelihood(X, y).sum() / sum(map(len, y))
    np.testing.assert_allclose(mean, one.train_score_[-1], rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_validation_scores_are_those_of_single_labels(order):
    X, y = draw_task(np.random.default_rng(order))
    X_val, y_val = draw_task(np.random.default_rng(order + 10))
    crf = TreeCRF(order=order, beam_width=2, **SETTINGS).fit(X, y, X_val, y_val)
    codes = np.concatenate(y_val)
    for i, value in enumerate(crf.validation_score_):
        proba = np.concatenate(crf.truncated(i).predict_proba(X_val))
        true = proba[np.arange(len(codes)), codes]
        assert i or (true == 0).any()  # the beam leaves some labels out
        np.testing.assert_allclose(value, np.log(np.maximum(true, 1e-4)).mean(), rtol=1e-12)


# Prediction


FOLLOWS = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 1, 0]], dtype=bool)


@pytest.mark.parametrize("width", [2, 100])
@pytest.mark.parametrize("order", [1, 2])
def test_constraints_hold_in_the_beam(order, width):
    trained = Trained("letters", order, order=order, n_labels=3)
    rng = np.random.default_rng(0)
    allowed = rng.random((trained.encoded.n_positions, 3)) < 0.7
    allowed[:, 1] = True  # a label sequence is always allowed
    constraints = Constraints(np.arange(3), FOLLOWS, allowed)
    lattice = lattice_of(trained, width=width, constraints=constraints)
    offsets, scores = lattice.offsets, trained.scores()
    constraints.forbid(scores, offsets)
    expected = everything(KnownScores(scores, offsets, order).source, offsets, width)
    assert_equal_arrays(everything(lattice.scores, offsets, width), expected)
    marginals = lattice.marginals()
    assert not marginals[~allowed].any()
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0)


def test_a_beam_without_an_allowed_sequence_raises():
    trained = Trained("letters", 0, order=1, n_labels=3)
    allowed = np.ones((trained.encoded.n_positions, 3), dtype=bool)
    allowed[trained.encoded.offsets[2] + 3] = False
    lattice = lattice_of(trained, constraints=Constraints(np.arange(3), None, allowed))
    for infer in (lattice.marginals, lattice.best, lattice.pairwise):
        with pytest.raises(ValueError, match="sequence 2: no label sequence in the beam"):
            infer()
    likelihoods = lattice.log_likelihoods(np.zeros(len(allowed), dtype=np.int32))
    assert np.flatnonzero(likelihoods == -np.inf).tolist() == [2]


def test_orders_without_contexts_or_with_too_many_are_refused():
    with pytest.raises(ValueError, match="order=0 has only one context"):
        Beam(3).width_for(4, 0)
    with pytest.raises(ValueError, match=r"order=9 with 200 labels gives 200\*\*9 contexts"):
        Beam(3).width_for(200, 9)
    assert Beam(3).width_for(255, 7) == 3
    assert Beam(300).width_for(2, 3) == 8
