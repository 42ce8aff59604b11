"""Predictions of all learners agree with each other and respect constraints."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from support.family import (
    BOOSTED,
    CHAINS,
    EXACT,
    FAMILY,
    FAST,
    FLAT_SEARCHING,
    PREDICTING,
    SEARCHING,
    Enumeration,
    assert_equal_arrays,
    every,
    value_of,
    variant,
)

QUERIES = ["abca", "d", "ba?", "cd"]
LABELS = np.array(list("xyz"))


# Predictions agree with each other


def assert_agrees(model, X, masks, **given) -> None:
    """Compare all predictions for short sequences with an enumeration of the label sequences."""
    truths = [Enumeration(model, x, mask) for x, mask in zip(X, masks, strict=True)]
    for found, truth in zip(model.predict_proba(X, **given), truths, strict=True):
        np.testing.assert_allclose(found, truth.marginals, atol=1e-10)
    for found, truth in zip(model.predict_pairwise_proba(X, **given), truths, strict=True):
        np.testing.assert_allclose(found, truth.pairs, atol=1e-10)
    labels, log_p = model.decode(X, **given)
    for one, value, truth in zip(labels, log_p, truths, strict=True):
        assert value == pytest.approx(truth.log_p.max())
        assert value == pytest.approx(truth.by_labels[tuple(one.tolist())])
    for n in (2, 1000):
        for paths, values, truth in zip(*model.decode(X, n, **given), truths, strict=True):
            possible = np.sort(truth.log_p[truth.log_p > -np.inf])[::-1]
            np.testing.assert_allclose(values, possible[:n], atol=1e-9)
            assert len({tuple(path.tolist()) for path in paths}) == len(paths)
            expected = [truth.by_labels[tuple(path.tolist())] for path in paths]
            np.testing.assert_allclose(values, expected, atol=1e-9)


@every(PREDICTING)
def test_all_predictions_agree_with_one_distribution(name, fitted):
    model = fitted(name)
    for x in QUERIES:
        assert Enumeration(model, x).total == pytest.approx(1)
    assert_agrees(model, QUERIES, [None] * len(QUERIES))


KNOWN = [[None, "y", None, "z"], ["z"], None, ["x", None]]
ALLOWED = [
    np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 0]], dtype=bool),
    None,
    np.array([[0, 1, 0], [1, 0, 1], [1, 1, 0]]),
    [[True, True, False], [False, True, True]],
]


def mask_of(known) -> np.ndarray | None:
    if known is None:
        return None
    return np.array([[label in (None, v) for v in "xyz"] for label in known])


@every(PREDICTING)
def test_known_labels_and_masks_are_conditions(name, fitted):
    model = fitted(name)
    of_known = [mask_of(known) for known in KNOWN]
    of_allowed = [None if mask is None else np.array(mask, dtype=bool) for mask in ALLOWED]
    assert_agrees(model, QUERIES, of_known, known=KNOWN)
    assert_agrees(model, QUERIES, of_allowed, allowed=ALLOWED)
    known = [None, ["y"], [None, "x", None], None]
    both = [b if a is None else a if b is None else a & b
            for a, b in zip(of_allowed, map(mask_of, known), strict=True)]  # fmt: skip
    assert_agrees(model, QUERIES, both, allowed=ALLOWED, known=known)


def decoders(model) -> list[str]:
    (options,) = model._parameter_constraints["decoding"]
    return sorted(options.options)


@pytest.mark.parametrize(
    ("name", "decoding"),
    [
        pytest.param(name, d, marks=[] if name in FAST else pytest.mark.exhaustive)
        for name, model in PREDICTING.items()
        for d in decoders(model)
    ],
)
def test_known_labels_are_kept_by_every_decoder(name, decoding, fitted):
    model = variant(fitted(name), decoding=decoding)
    for labels, known in zip(model.predict(QUERIES, known=KNOWN), KNOWN, strict=True):
        if known is not None:
            assert all(k in (None, label) for k, label in zip(known, labels, strict=True))
    everything = [list(labels) for labels in model.predict(QUERIES)]
    assert_equal_arrays(model.predict(QUERIES, known=everything), everything)


@every(PREDICTING)
def test_predict_follows_the_probabilities(name, fitted, letters):
    model = fitted(name)
    proba = model.predict_proba(QUERIES)
    marginal = variant(model, decoding="marginal").predict(QUERIES)
    assert_equal_arrays(marginal, [LABELS[p.argmax(axis=1)] for p in proba])
    costs = np.array([[0, 1, 4], [2, 0, 1], [0.5, 3, 0]])
    expected = [
        [min(range(3), key=lambda v: sum(p[u] * costs[u, v] for u in range(3))) for p in rows]
        for rows in proba
    ]
    named = {(u, v): costs[i, j] for i, u in enumerate("xyz") for j, v in enumerate("xyz")}
    for cost_matrix in (costs, costs.tolist(), named):
        risk = variant(model, decoding="minimum_risk", cost_matrix=cost_matrix)
        assert_equal_arrays(risk.predict(QUERIES), [LABELS[codes] for codes in expected])
    plain = variant(model, decoding="minimum_risk").predict(QUERIES)
    assert_equal_arrays(plain, marginal)
    if "viterbi" in decoders(model):
        viterbi = variant(model, decoding="viterbi").predict(QUERIES)
        assert_equal_arrays(viterbi, model.decode(QUERIES)[0])
    X, y = letters
    right = np.concatenate(model.predict(X)) == np.array(list("".join(y)))
    assert model.score(X, y) == right.mean() > 0.5


@every(PREDICTING)
def test_sequences_do_not_affect_each_other(name, fitted, letters):
    X, y = letters[0][:6], letters[1][:6]
    model = fitted(name)
    together = model.predict_proba(X)
    log_p = model.predict_log_likelihood(X, y)
    for i in range(6):
        alone = model.predict_proba(X[i : i + 1])[0]
        np.testing.assert_allclose(alone, together[i], rtol=0, atol=0 if name in EXACT else 1e-6)
        value = model.predict_log_likelihood(X[i : i + 1], y[i : i + 1])[0]
        assert value == pytest.approx(log_p[i], rel=0, abs=0 if name in EXACT else 1e-5)


@every(SEARCHING | FLAT_SEARCHING)
def test_search_finds_the_best_sequence_if_the_beam_is_wide_enough(name, fitted):
    model = fitted(name)
    exact = model.decode(QUERIES)[1]
    for decoding, width in (("greedy", 1), ("beam", 1), ("beam", 2), ("beam", 100)):
        searching = variant(model, decoding=decoding, beam_width=width)
        labels, log_p = searching.decode(QUERIES)
        assert_equal_arrays(searching.predict(QUERIES), labels)
        np.testing.assert_allclose(log_p, model.predict_log_likelihood(QUERIES, labels))
        assert (log_p <= exact + 1e-9).all()
        if width == 100:
            np.testing.assert_allclose(log_p, exact)


@every(PREDICTING)
def test_no_sequences_have_no_predictions(name, fitted):
    model = fitted(name)
    for none in ([], (), np.zeros(0, dtype=object)):
        for method in (model.predict, model.predict_proba, model.predict_pairwise_proba):
            assert method(none) == method(none, allowed=[], known=[]) == []
        labels, log_p = model.decode(none)
        assert labels == [] and log_p.shape == (0,)
        assert model.decode(none, 2) == ([], [])
        assert model.predict_log_likelihood(none, none).shape == (0,)
    with pytest.raises(ValueError, match="X has 0 sequences, allowed has 1"):
        model.predict([], allowed=[None])
    with pytest.raises(ValueError, match="X has 0 sequences, y has 1"):
        model.predict_log_likelihood([], ["x"])
    assert model.predict("", lengths=[]).shape == (0,)
    assert model.predict_proba("", lengths=[]).shape == (0, 3)
    with pytest.raises(ValueError, match="y holds no known labels"):
        model.score([], [])


# Sequences without positions, and others; and those of them that have positions.
GAPS, GAP_LENGTHS = ["", "abca", [], "d", ""], [0, 4, 0, 1, 0]
PRESENT = [1, 3]
GAP_LABELS = ["", "xyzx", [], "z", np.array([])]


def of_present(items) -> list:
    return [items[i] for i in PRESENT]


@every(PREDICTING)
def test_empty_sequences_have_empty_predictions(name, fitted):
    model = fitted(name)
    known = [[], None, None, ["y"], ()]
    allowed = [np.ones((0, 3)), None, [], None, None]
    of_others = {"known": of_present(known), "allowed": of_present(allowed)}
    for gaps, given in (({}, {}), ({"known": known, "allowed": allowed}, of_others)):
        for method, shape in (
            ("predict", ()),
            ("predict_proba", (3,)),
            ("predict_pairwise_proba", (3, 3)),
        ):
            predict = getattr(model, method)
            found, expected = predict(GAPS, **gaps), predict(of_present(GAPS), **given)
            assert_equal_arrays(of_present(found), expected)
            for empty in (*found[::2], *predict(["", []])):
                assert empty.shape == (0, *shape)
                assert empty.dtype == expected[0].dtype
        (labels, log_p), expected = model.decode(GAPS, **gaps), model.decode(["abca", "d"], **given)
        assert_equal_arrays([*of_present(labels), log_p[PRESENT]], [*expected[0], expected[1]])
        assert [len(path) for path in labels[::2]] == log_p[::2].tolist() == [0, 0, 0]
        (paths, values), expected = (
            model.decode(X, 3, **options) for X, options in ((GAPS, gaps), (["abca", "d"], given))
        )
        for ours, theirs in zip(of_present(paths), expected[0], strict=True):
            assert_equal_arrays(ours, theirs)
        assert_equal_arrays(of_present(values), expected[1])
        assert [[len(path) for path in found] for found in paths[::2]] == [[0]] * 3
        assert [found.tolist() for found in values[::2]] == [[0]] * 3


@every(PREDICTING)
def test_empty_sequences_have_no_part_in_scores(name, fitted):
    model = fitted(name)
    X, y = of_present(GAPS), of_present(GAP_LABELS)
    log_p = model.predict_log_likelihood(GAPS, GAP_LABELS)
    np.testing.assert_array_equal(log_p[PRESENT], model.predict_log_likelihood(X, y))
    assert log_p[::2].tolist() == [0, 0, 0]
    assert model.predict_log_likelihood(["", ""], ["", []]).tolist() == [0, 0]
    assert model.score(GAPS, GAP_LABELS) == model.score(X, y)
    weights = [[], [1, 2, 3, 4], [], [5], []]
    assert model.score(GAPS, GAP_LABELS, weights) == model.score(X, y, of_present(weights))
    with pytest.raises(ValueError, match="sequence 1: 2 labels for 0 positions"):
        model.score(["ab", ""], ["xy", "xy"])


@every(PREDICTING)
def test_sequences_of_a_long_table_may_be_empty(name, fitted):
    model = fitted(name)
    long, y = {"X": "abcad", "lengths": GAP_LENGTHS}, "xyzxz"
    assert_equal_arrays([model.predict(**long)], [np.concatenate(model.predict(GAPS))])
    assert_equal_arrays([model.predict_proba(**long)], [np.concatenate(model.predict_proba(GAPS))])
    expected = model.decode(GAPS)
    assert_equal_arrays(model.decode(**long), [np.concatenate(expected[0]), expected[1]])
    assert len(model.predict_pairwise_proba(**long)) == 5
    assert model.score(**long, y=y) == model.score(GAPS, GAP_LABELS)
    assert model.predict_log_likelihood(**long, y=y)[::2].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="sequence 1 has length -1; expected at least 0"):
        model.predict("ab", lengths=[3, -1])


@every(PREDICTING)
def test_other_methods_accept_empty_sequences(name, fitted):
    model, X = fitted(name), of_present(GAPS)
    if hasattr(model, "staged_predict_proba"):
        for stage, expected in zip(
            model.staged_predict_proba(GAPS), model.staged_predict_proba(X), strict=True
        ):
            assert_equal_arrays(of_present(stage), expected)
            assert stage[2].shape == (0, 3)
        shapes = [[p.shape for p in stage] for stage in model.staged_predict_proba([""])]
        assert shapes == [[(0, 3)]] * model.n_iter_
    if hasattr(model, "transform"):
        assert [rows.shape[0] for rows in model.transform(GAPS)] == GAP_LENGTHS
        assert (model.matrix(GAPS) != model.matrix(X)).nnz == 0
        assert model.matrix([""]).shape == (0, model.n_conjunctions_)
        assert of_present(model.attributes(GAPS)) == model.attributes(X)


# Transitions


# y must not follow x, only z may follow z, and x must not come first.
FOLLOWS = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]], dtype=bool)


def breaks(labels, follows=FOLLOWS) -> bool:
    codes = [len(follows) - 1, *("xyz".index(label) for label in labels)]
    return not all(follows[u, v] for u, v in pairwise(codes))


@pytest.fixture(scope="module")
def constrained():
    """Letters with labels that respect FOLLOWS."""
    rng = np.random.default_rng(3)
    y = []
    for n in rng.integers(1, 9, 30):
        codes = [3]
        for _ in range(n):
            codes.append(int(rng.choice(np.flatnonzero(FOLLOWS[codes[-1]]))))
        y.append("".join("xyz"[code] for code in codes[1:]))
    noise = rng.random(sum(map(len, y))) < 0.2
    letters = ["abc"["xyz".index(label)] for label in "".join(y)]
    flat = np.where(noise, "d", letters)
    return ["".join(part) for part in np.split(flat, np.cumsum([len(v) for v in y])[:-1])], y


@every(CHAINS)
def test_transitions_hold(name, constrained):
    X, y = constrained
    model = clone(FAMILY[name]).set_params(transitions=FOLLOWS).fit(X, y)
    assert_agrees(model, ["cab", "dd", "a"], [None] * 3)
    for x in ("cab", "dd", "a"):
        truth = Enumeration(model, x)
        assert truth.total == pytest.approx(1)
        for labels, log_p in truth.by_labels.items():
            assert (log_p == -np.inf) == breaks(labels)
    assert not any(map(breaks, model.decode(X)[0]))
    masks = [np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=bool), None]
    assert_agrees(model, ["bab", "ba"], masks, allowed=masks)
    if hasattr(model, "train_score_"):
        assert model.train_score_[-1] == pytest.approx(value_of(model, X, y))
        if name in BOOSTED and "beam" not in name:
            held = clone(model).set_params(scoring="loss").fit(X, y, X[:9], y[:9])
            assert held.validation_score_[-1] == pytest.approx(value_of(held, X[:9], y[:9]))
        # A single label may become less probable where others are forbidden.
        free = clone(FAMILY[name]).fit(X, y)
        single = "hamming" in getattr(model, "objective", "")
        assert single or model.train_score_[0] > free.train_score_[0]


@every(SEARCHING)
def test_search_respects_transitions_and_masks(name, constrained):
    X, y = constrained
    model = clone(FAMILY[name]).set_params(transitions=FOLLOWS, decoding="greedy").fit(X, y)
    for searching in (model, variant(model, decoding="beam", beam_width=2)):
        assert not any(map(breaks, searching.predict(X)))
        # A z cannot precede an x, even if the letters indicate one.
        labels = searching.predict(["cccca", "acc"], known=[[None] * 4 + ["x"], ["y", "x", None]])
        assert not any(map(breaks, labels))
        assert labels[0][-1] == "x"
        assert labels[1][:2].tolist() == ["y", "x"]


@every(CHAINS)
def test_labels_that_transitions_forbid_are_named(name, constrained):
    X, y = constrained
    model = clone(FAMILY[name]).set_params(transitions=FOLLOWS)
    with pytest.raises(ValueError, match=r"^sequence 1, position 2: 'y' after 'x' is forbidden by"):
        model.fit(["ab", "abcd", *X], ["yz", "yxyz", *y])
    with pytest.raises(ValueError, match=r"^sequence 1, position 0: 'x' at the start is forbidden"):
        model.fit(["ab", "abcd", *X], ["yz", "xzzz", *y])
    if name in BOOSTED:
        with pytest.raises(
            ValueError, match=r"^validation data: sequence 1, position 2: 'y' after"
        ):
            model.fit(X, y, ["ab", "abc"], ["yz", "yxy"])
