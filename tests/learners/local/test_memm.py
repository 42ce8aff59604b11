"""Local models: gradients, trees, and the effects of normalization at each position."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.cases import random_sequences
from support.family import assert_equal_arrays
from support.growing import Positions, Setting
from support.oracles import finite_difference_gradient
from support.settings import PLAIN
from support.tree_oracle import grow_naive_tree

from treecrf import SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.chains.constraints import Constraints, Transitions
from treecrf.chains.contexts import previous_labels
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.local.objective import LocalObjective
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted.booster import Booster
from treecrf.learners.local import chains
from treecrf.learners.local.rows import beam_search
from treecrf.utils.threads import Threads


def small(**parameters) -> TreeMEMM:
    defaults = {"window": 1, "max_iter": 6, "l2_regularization": 1.0, "random_state": 0}
    return TreeMEMM(**PLAIN | defaults | parameters)


# The objective


FOLLOWS = np.array([[1, 0, 1], [1, 1, 1], [1, 1, 0], [1, 1, 0]], dtype=bool)


def draw_objective(seed, order, threads, constrained=False):
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(1, 9, 5))
    codes = np.zeros(offsets[-1], dtype=np.int32)
    for start, stop in pairwise(offsets.tolist()):
        before = 3
        for p in range(start, stop):
            codes[p] = before = rng.choice(np.flatnonzero(FOLLOWS[before]))
    transitions = Transitions(FOLLOWS, np.ones(3, dtype=bool)) if constrained else None
    constraints = Constraints.of(transitions, np.arange(3), offsets)
    data = ChainLabels(offsets, codes, 3, order, constraints)
    return LocalObjective(data, threads, second_order=True), rng


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("order", [0, 1, 3])
def test_residuals_are_the_gradient(order, n_jobs):
    with Threads(n_jobs) as threads:
        objective, rng = draw_objective(order, order, threads)
        n = len(objective.codes)
        scores = rng.normal(size=(3, n, 1)) * 2
        residuals, curvature, value = objective.examples(scores, 0)
        p = np.exp(scores[:, :, 0])
        p /= p.sum(axis=0)
        assert value == pytest.approx(np.log(p[objective.codes, np.arange(n)]).mean())
        assert objective.value(scores) == value
        residuals, curvature = residuals.copy(), curvature.copy()
        expected = finite_difference_gradient(lambda s: n * objective.value(s), scores)
    np.testing.assert_allclose(residuals, expected, atol=1e-8)
    np.testing.assert_array_equal(residuals * 2.0**32 % 1, 0)
    np.testing.assert_allclose(curvature[:, :, 0], 2 * p * (1 - p), atol=1e-9)


def test_forbidden_labels_have_no_gradient():
    with Threads(1) as threads:
        objective, rng = draw_objective(0, 1, threads, constrained=True)
        scores = rng.normal(size=(3, len(objective.codes), 1))
        objective.constrain(scores)
        residuals, _, value = objective.examples(scores, 0)
    before = objective.given[0]
    np.testing.assert_array_equal(scores[:, :, 0] == -np.inf, ~FOLLOWS[before].T)
    np.testing.assert_array_equal(residuals[scores == -np.inf], 0)
    np.testing.assert_allclose(residuals.sum(axis=0), 0, atol=1e-8)
    assert np.isfinite(value)


# The trees


def naive_learner(X, codes, n_labels, order, **growth):
    """Boost trees on the table of windows and true previous labels."""
    setting = Setting(n_labels=n_labels, order=0, window=(1, 1))
    positions = Positions(X, np.random.default_rng(0), setting)
    flat = np.concatenate(codes)
    given = previous_labels(flat, positions.encoded.offsets, n_labels, order)
    on_labels = [lag == v for lag in given for v in range(n_labels + 1)]
    tests = np.vstack([positions.truth, *(row[None] for row in on_labels)])
    scores = np.zeros((n_labels, len(flat)))
    forest, log_likelihoods = [], []
    for _ in range(3):
        p = np.exp(scores) / np.exp(scores).sum(axis=0)
        log_likelihoods.append(np.log(p[flat, np.arange(len(flat))]).mean())
        residuals = np.rint((np.eye(n_labels)[flat].T - p) * 2.0**32) / 2.0**32
        for v in range(n_labels):
            tree = grow_naive_tree(
                tests, np.zeros(len(flat), dtype=int), n_labels, 0, residuals[v][:, None],
                np.ones((len(flat), 1)), **growth,
            )  # fmt: skip
            forest.append(tree)
            scores[v] += tree.increments[:, 0]
    return forest, log_likelihoods


@pytest.mark.parametrize("kind", ["letters", "words", "floats", "sparse booleans"])
@pytest.mark.parametrize("order", [1, 2])
def test_trees_are_those_of_a_table_of_previous_labels(kind, order):
    rng = np.random.default_rng(order)
    lengths = [19, 1, 34, 3, 50]
    X = random_sequences(kind, rng, lengths)
    y = [rng.integers(0, 3, n) for n in lengths]
    y[0][:3] = 0, 1, 2
    memm = small(order=order, max_iter=3, max_leaf_nodes=8).fit(X, y)
    expected, log_likelihoods = naive_learner(X, y, 3, order, max_leaf_nodes=8, l2=1.0)
    np.testing.assert_allclose(memm.train_score_[:3], log_likelihoods)
    for tree, naive in zip(memm._forest.trees, expected, strict=True):
        children = [(node.true_child, node.false_child) for node in naive.nodes]
        found = zip(tree["true_child"].tolist(), tree["false_child"].tolist(), strict=True)
        assert list(found) == children
        leaves = tree["true_child"] < 0
        values = np.array([node.value for node in naive.nodes])
        np.testing.assert_allclose(tree["leaf"][leaves], values[leaves], atol=1e-8)


@pytest.mark.parametrize("second_order", [False, True])
def test_order_0_equals_the_other_models(second_order, letters):
    X, y = letters
    memm, crf, sliding = (
        kind(window=1, learning_rate=0.3, max_iter=6, second_order=second_order, **order).fit(X, y)
        for kind, order in (
            (TreeMEMM, {"order": 0}), (TreeCRF, {"order": 0}), (SlidingWindowClassifier, {}),
        )
    )  # fmt: skip
    for other in (crf, sliding):
        np.testing.assert_allclose(memm.train_score_, other.train_score_)
        for p, q in zip(memm.predict_proba(X), other.predict_proba(X), strict=True):
            np.testing.assert_allclose(p, q, atol=1e-9)


@pytest.mark.parametrize("order", [0, 1, 2, 40])
def test_newton_steps_never_lower_the_likelihood(order, letters):
    memm = small(order=order, second_order=True, max_iter=20).fit(*letters)
    assert np.diff(memm.train_score_).min() > -1e-9


# Local normalization


def test_label_bias():
    """If only the second letter determines the first label, only a random field can use it."""
    X, y = ["rib"] * 6 + ["rob"] * 4, ["123"] * 6 + ["453"] * 4
    memm, crf = (kind(max_iter=30, l2_regularization=1.0).fit(X, y) for kind in (TreeMEMM, TreeCRF))
    first = [p[0] for p in memm.predict_proba(["rib", "rob"])]
    np.testing.assert_allclose(*first, atol=1e-12)
    assert first[0].tolist() == pytest.approx([0.6, 0, 0, 0.4, 0], abs=0.1)
    assert memm.score(X, y) < 1 == crf.score(X, y)


# Greedy and beam search


@pytest.mark.parametrize("order", [1, 3])
def test_greedy_takes_the_best_label_at_each_position(order, letters):
    X, y = letters
    memm = small(order=order, window=(1, 0), decoding="greedy").fit(X, y)
    for word, found in zip(X[:6], memm.predict(X[:6]), strict=True):
        labels = ""
        for t in range(1, len(word) + 1):
            longer = [labels + v for v in "xyz"]
            labels = longer[memm.predict_log_likelihood([word[:t]] * 3, longer).argmax()]
        assert "".join(found) == labels


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_a_beam_of_all_contexts_is_viterbi(order, letters):
    X, y = letters
    memm = small(order=order, decoding="beam", beam_width=3**order).fit(X, y)
    _, exact = memm.set_params(decoding="viterbi").decode(X)
    labels, log_p = memm.set_params(decoding="beam").decode(X)
    np.testing.assert_allclose(log_p, exact)
    np.testing.assert_allclose(log_p, memm.predict_log_likelihood(X, labels))
    narrow = memm.set_params(beam_width=1).decode(X)
    greedy = memm.set_params(decoding="greedy").decode(X)
    np.testing.assert_array_equal(np.concatenate(narrow[0]), np.concatenate(greedy[0]))
    assert (greedy[1] <= exact + 1e-9).all()


def by_steps(memm, sequences, masks):
    """Decode by a loop over positions, in which trees score one context of each sequence."""
    constraints = fitted_model(memm).chain.constraints(sequences.offsets, masks)
    conditionals = fitted_model(memm).chain.conditionals(sequences, Threads(1))

    def step(positions, previous):
        log_p = conditionals(positions, previous)
        constraints.forbid_given(log_p[:, :, None], previous, positions)
        return log_p.T

    width = memm.beam_width if memm.decoding == "beam" else 1
    n_labels, order = len(memm.classes_), memm.order
    return beam_search(step, sequences.offsets, n_labels, order, width)


SEARCHED = {
    "plain": {},
    "constrained": {"transitions": FOLLOWS},
    "surrogates": {"missing": "surrogate"},
}


@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize("order", [1, 2, 4])
def test_search_by_table_and_by_context_is_that_by_steps(name, order, monkeypatch):
    rng = np.random.default_rng(order)
    X = [rng.integers(0, 3, (n, 2)).astype(float) for n in rng.integers(1, 9, 70)]
    for x in X:
        x[rng.uniform(size=x.shape) < 0.2] = np.nan
    y = []
    for x in X:
        before, labels = 3, []
        for row in x:
            before = rng.choice(np.flatnonzero(FOLLOWS[before] & (row[0] != np.arange(3))))
            labels.append(before)
        y.append(labels)
    memm = small(order=order, max_iter=3, **SEARCHED[name]).fit(X, y)
    masks = [np.pad(rng.uniform(size=(len(x), 2)) < 0.7, [(0, 0), (1, 0)], constant_values=True)
             for x in X]  # fmt: skip
    for allowed in (None, masks if name != "constrained" else None):
        sequences, mask = fitted_model(memm).predictor.read(X, allowed=allowed)
        for decoding, width in (("greedy", 7), ("beam", 3), ("beam", 50)):
            memm.set_params(decoding=decoding, beam_width=width)
            codes, log_p = by_steps(memm, sequences, mask)
            for max_contexts, max_bytes, n_jobs in ((64, 1 << 26, 1), (81, 1000, 2), (0, 0, 2)):
                monkeypatch.setattr(chains, "MAX_CONTEXTS", max_contexts)
                monkeypatch.setattr(chains, "MAX_BYTES", max_bytes)
                labels, values = memm.set_params(n_jobs=n_jobs).decode(X, allowed=allowed)
                np.testing.assert_array_equal(np.concatenate(labels), codes)
                np.testing.assert_array_equal(values, log_p)


@pytest.fixture(scope="module")
def periodic():
    """Labels with a period of seven positions, and uninformative input."""
    rng = np.random.default_rng(0)
    y = [np.tile(rng.integers(0, 5, 7), 4)[: rng.integers(14, 28)] for _ in range(40)]
    return ["o" * len(labels) for labels in y], y


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_a_high_order_learns_long_periods(decoding, periodic):
    X, y = periodic
    memm = TreeMEMM(order=20, max_iter=12, l2_regularization=1.0, decoding=decoding, beam_width=3)
    memm.fit(X[:30], y[:30])
    known = [[*labels[:7], *[None] * (len(labels) - 7)] for labels in y[30:]]
    assert_equal_arrays(memm.predict(X[30:], known=known), y[30:])
    labels, log_p = memm.decode(X[30:])
    np.testing.assert_allclose(log_p, memm.predict_log_likelihood(X[30:], labels))
    assert memm.train_score_[-1] > -1.0
    memm.predict_log_likelihood(X[30:], y[30:])


def test_a_high_order_has_too_many_contexts_for_exact_inference(periodic):
    X, y = periodic
    memm = TreeMEMM(order=20, max_iter=1).fit(X, y)
    message = (
        r"^order=20 with 5 labels needs 5\*\*21 scores per position; at most 2\*\*24 are "
        "supported: lower the order, or predict with decoding='greedy' or 'beam'"
    )
    for call in (
        memm.predict, memm.predict_proba, memm.predict_pairwise_proba, memm.decode,
        lambda X: list(memm.staged_predict_proba(X)), lambda X: memm.score(X, y),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call(X)
    assert memm.set_params(decoding="greedy").score(X, y) > 0.1


@pytest.mark.parametrize("order", [256, 10**6, 10**18])
def test_too_many_previous_labels_are_rejected(order, letters):
    with pytest.raises(ValueError, match=f"^order={order}; expected at most 255"):
        small(order=order, decoding="greedy").fit(*letters)


def test_the_highest_order_works(letters):
    X, y = letters
    assert small(order=255, max_iter=2, decoding="greedy").fit(X, y).score(X, y) > 0.5


def test_more_labels_than_a_byte_can_hold_are_rejected():
    X, y = ["a" * 256], [np.arange(256)]
    with pytest.raises(ValueError, match=r"^y has 256 labels; TreeMEMM supports at most 255"):
        small().fit(X, y)
    assert len(small(max_iter=1).fit(["a" * 255], [np.arange(255)]).classes_) == 255


# Two labels


def mirrored_pairs(forest):
    """Return whether the two trees of each iteration differ in the signs of their leaves only."""
    return [
        np.array_equal(one["leaf"], -other["leaf"])
        and all(np.array_equal(one[name], other[name]) for name in one if name != "leaf")
        for one, other in zip(forest.trees[::2], forest.trees[1::2], strict=True)
    ]


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"second_order": True, "l2_regularization": 1.0},
        {"class_weight": {0: 1.0, 1: 0.3}, "subsample": 0.7},
        {"missing": "surrogate"},
        {"transitions": np.array([[True, True], [True, False]])},
    ],
)
def test_one_tree_for_two_labels_gives_the_model_of_two(monkeypatch, order, settings):
    if order == 0:
        settings = {name: value for name, value in settings.items() if name != "transitions"}
    rng = np.random.default_rng(order)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(1, 30, 20)]
    for x in X:
        x[rng.random(x.shape) < 0.2] = np.nan
    y = [np.append(0, np.diff(np.nan_to_num(x[:, 0]) > 0.3)).astype(int) for x in X]
    y = [labels * np.append(1, 1 - labels[:-1]) for labels in y]

    def fit():
        model = TreeMEMM(
            **PLAIN | {"window": 1, "max_iter": 5, "max_leaf_nodes": 8, "order": order}
        )
        return model.set_params(random_state=0, **settings).fit(X, y)

    one = fit()
    monkeypatch.setattr(Booster, "_needs_one_tree", lambda *_: False)
    two = fit()
    assert all(mirrored_pairs(one._forest)) and len(one._forest.trees) == 10
    assert_equal_arrays(one._forest.pack().values(), two._forest.pack().values())
    np.testing.assert_array_equal(one.train_score_, two.train_score_)
    np.testing.assert_array_equal(
        np.concatenate(one.predict_proba(X)), np.concatenate(two.predict_proba(X))
    )


def test_two_labels_have_trees_of_their_own_where_features_are_random():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(30, 3)) for _ in range(5)]
    y = [(x[:, 0] + rng.normal(size=30) > 0).astype(int) for x in X]
    model = small(random_state=0, max_features=0.5).fit(X, y)
    assert not all(mirrored_pairs(model._forest))
