"""Importance by permutation, on every form of input and for every learner."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from support.cases import random_with_missing
from support.family import COUNTED, FAMILY, GROWN, every
from support.settings import FIXED

from treecrf import FutureFeatureMEMM, HMMClassifier, TreeCRF
from treecrf.datasets import make_future_bags
from treecrf.inputs.offsets import offsets_of
from treecrf.inspection import permutation_importance
from treecrf.inspection.fitted import ReplacedSequences, column_values
from treecrf.inspection.importance import features_in_use, shuffled_positions
from treecrf.metrics import log_likelihood, token_accuracy

RNG = np.random.default_rng(7)
LENGTHS = RNG.integers(2, 12, 20)
N = int(LENGTHS.sum())
GROUPS = np.repeat(np.arange(20), LENGTHS)
HEAT = RNG.integers(0, 5, N) / 2
OPEN = RNG.random(N) < 0.4
ROOM = RNG.choice(["attic", "bath", "cellar"], N)
NOISE = RNG.integers(0, 3, N) * 1.0
Y = np.where(ROOM == "bath", "x", np.where((HEAT > 1) == OPEN, "y", "z"))


def cut(items) -> list:
    ends = np.cumsum(LENGTHS)
    return [items[a:b] for a, b in zip(ends - LENGTHS, ends, strict=True)]


def small(**parameters) -> TreeCRF:
    return TreeCRF(
        **{"max_iter": 4, "l2_regularization": 1.0, "window": (1, 0)} | FIXED | parameters
    )


def sources_of(seed, feature, repeat, offsets, within=False):
    """Positions from which a shuffle takes its values."""
    drawn = np.random.RandomState(seed).randint(np.iinfo(np.int32).max)
    rng = np.random.default_rng([drawn, feature, repeat])
    return shuffled_positions(offsets, rng, within)


# What it is


@pytest.mark.parametrize("within", [False, True])
@every()
def test_it_is_the_loss_of_score_on_shuffled_input(name, within, fitted, letters):
    """The input is shuffled by hand and read again."""
    model, (X, y) = fitted(name), letters
    found = permutation_importance(
        model, X, y, scoring="log_likelihood", n_repeats=2, random_state=3, within_sequences=within
    )
    offsets = offsets_of(np.array([len(x) for x in X]))
    whole = np.array(list("".join(X)))
    assert found.score == pytest.approx(log_likelihood(model, X, y))
    for i in range(2):
        mixed = whole[sources_of(3, 0, i, offsets, within)]
        again = ["".join(mixed[a:b]) for a, b in pairwise(offsets)]
        if within:
            assert [sorted(x) for x in again] == [sorted(x) for x in X]
        loss = found.score - log_likelihood(model, again, y)
        assert found.importances[0, i] == pytest.approx(loss)
    assert found.importances.shape == (1, 2)
    assert found.importances_mean == pytest.approx(found.importances.mean(axis=1))
    assert found.importances_std == pytest.approx(found.importances.std(axis=1))
    assert found.feature_names.tolist() == ["symbol"]


@every(GROWN)
def test_features_are_shuffled_one_by_one(name):
    """Of a table, one column at a time, in all offsets of the window."""
    X, y = cut(np.column_stack([HEAT, OPEN, NOISE])), cut(Y)
    model = clone(FAMILY[name]).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=1, random_state=0)
    offsets = offsets_of(LENGTHS)
    for j in range(3):
        table = np.concatenate(X)
        table[:, j] = table[sources_of(0, j, 0, offsets), j]
        assert found.importances[j, 0] == pytest.approx(
            model.score(X, y) - model.score(cut(table), y)
        )


def test_a_feature_of_whole_sequences_has_none_within_them():
    speaker = np.repeat(RNG.random(20) < 0.5, LENGTHS)
    X, y = cut(np.column_stack([speaker, NOISE])), cut(np.where(speaker, "y", "z"))
    model = small(order=0).fit(X, y)
    within = permutation_importance(model, X, y, within_sequences=True, random_state=0)
    across = permutation_importance(model, X, y, random_state=0)
    assert within.importances[0].tolist() == [0.0] * 5
    assert across.importances[0].min() > 0.2


# Forms of input


def forms() -> dict:
    """The same cells in every form, as X and the arguments that define its sequences."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    cells = {"heat": HEAT + 1, "noise": NOISE + 1, "open": OPEN, "room": ROOM}
    frame, rows = pd.DataFrame(cells), pd.DataFrame(cells).to_dict("records")
    lists = [list(row.values()) for row in rows]
    return {
        "lists": (cut(lists), {}),
        "arrays": (cut(np.array(lists, dtype=object)), {}),
        "pandas": (cut(frame), {}),
        "polars": ([pl.DataFrame(part.to_dict("list")) for part in cut(frame)], {}),
        "dicts": (cut(rows), {}),
        "long frame": (frame, {"lengths": LENGTHS}),
        "long frame with groups": (frame.assign(id=GROUPS), {"groups": "id"}),
        "long list of dicts": (rows, {"groups": GROUPS}),
    }


@pytest.mark.parametrize("learner", ["CRF of order 1", "recurrent window of a tree"])
def test_all_forms_of_the_same_cells_have_the_same_importances(learner):
    made = forms()
    options = {"scoring": "log_likelihood", "random_state": 0}
    named, plain = (clone(FAMILY[learner]).fit(made[f][0], cut(Y)) for f in ("dicts", "lists"))
    expected = permutation_importance(named, made["dicts"][0], cut(Y), **options)
    assert expected.feature_names.tolist() == ["heat", "noise", "open", "room"]
    assert expected.importances_mean.argmax() == 3
    for form, (X, given) in made.items():
        if form not in ("lists", "arrays"):
            found = permutation_importance(named, X, Y if given else cut(Y), **options, **given)
            np.testing.assert_allclose(found.importances, expected.importances, atol=1e-9)
    ours, theirs = (
        permutation_importance(plain, made[form][0], cut(Y), **options)
        for form in ("lists", "arrays")
    )
    np.testing.assert_array_equal(ours.importances, theirs.importances)
    assert ours.feature_names.tolist() == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize("name", COUNTED)
def test_symbols_that_are_missing_or_new(name, fitted):
    X, y = [["a", None, "q", "b"], ["c", "d"]], ["xxyy", "zz"]
    found = permutation_importance(
        fitted(name), X, y, scoring="log_likelihood", random_state=0, n_repeats=3
    )
    offsets, whole = np.array([0, 4, 6]), np.array(X[0] + X[1], dtype=object)
    for i in range(3):
        mixed = whole[sources_of(0, 0, i, offsets)].tolist()
        again = log_likelihood(fitted(name), [mixed[:4], mixed[4:]], y)
        assert found.importances[0, i] == pytest.approx(found.score - again)


@pytest.mark.parametrize("missing", ["weighting", "surrogate", "impute", "indicator"])
@pytest.mark.parametrize("kind", ["numbers", "mixture", "sparse", "sparse mixture"])
def test_missing_values_are_shuffled_like_others(kind, missing):
    X = random_with_missing(kind, np.random.default_rng(0), LENGTHS, 0.3)
    model = small(missing=missing).fit(X, cut(Y))
    found = permutation_importance(model, X, cut(Y), scoring="log_likelihood", random_state=0)
    assert np.isfinite(found.importances).all()
    whole = X.rows(0, X.n_sequences)
    whole = whole.toarray() if sparse.issparse(whole) else whole
    for j in range(X.n_features):
        np.testing.assert_array_equal(column_values(X, j), whole[:, j])
        indices = sources_of(0, j, 0, X.offsets)
        mixed = ReplacedSequences.of(X, j, whole[indices, j])
        rows = mixed.rows(0, X.n_sequences)
        expected = whole.copy()
        expected[:, j] = whole[indices, j]
        np.testing.assert_array_equal(rows.toarray() if sparse.issparse(rows) else rows, expected)


# Features that are not scored, and the choice of features


def test_unused_features_are_not_scored():
    X, y = cut(np.column_stack([HEAT, np.zeros(N), NOISE])), cut(np.where(HEAT > 1, "y", "z"))
    model = small(order=0, max_iter=1, max_leaf_nodes=2).fit(X, y)
    calls = []

    def scorer(model, X, y):
        calls.append(X)
        return model.score(X, y)

    found = permutation_importance(model, X, y, scoring=scorer, n_repeats=3, random_state=0)
    assert features_in_use(model).tolist() == [True, False, False]
    assert len(calls) == 1 + 3
    assert found.importances[1:].tolist() == [[0.0] * 3] * 2


def test_surrogates_count_as_use():
    X = [np.column_stack([part, part]) for part in cut(HEAT)]
    for table in X:
        table[0, 0] = np.nan
    model = small(missing="surrogate", order=0, window=0, max_iter=1, max_leaf_nodes=2)
    model.fit(X, cut(np.where(HEAT > 1, "y", "z")))
    packed = model._forest.pack()
    tested = {*packed["column"][packed["true_child"] >= 0], *packed["surrogate_column"]}
    assert features_in_use(model).tolist() == [j in tested for j in range(2)]


def test_features_of_discovered_features_count_as_use():
    X, y = make_future_bags("or", n_sequences=60, random_state=0)
    settings = {"bag_size": 6, "max_iter": 20, "max_future_features": 1}
    memm = FutureFeatureMEMM(order=0, random_state=0, **settings).fit(X, y)
    assert memm.future_features_
    found = permutation_importance(memm, X, y, n_repeats=2, random_state=0)
    assert features_in_use(memm)[:6].all()
    assert (found.importances_mean[:6] > 0).all()


def test_importances_do_not_depend_on_the_chosen_features():
    X, y = cut(np.column_stack([HEAT, OPEN, NOISE])), cut(Y)
    model = small().fit(X, y)
    every_one = permutation_importance(model, X, y, random_state=0)
    some = permutation_importance(model, X, y, features=[2, "x0"], random_state=0)
    np.testing.assert_array_equal(some.importances, every_one.importances[[2, 0]])
    assert some.feature_names.tolist() == ["x2", "x0"]
    again = permutation_importance(model, X, y, random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(again.importances, every_one.importances)


def test_scorers_may_be_functions(trained, letters):
    by_name = permutation_importance(trained, *letters, scoring="token_accuracy", random_state=0)
    for scoring in (token_accuracy, None):
        found = permutation_importance(trained, *letters, scoring=scoring, random_state=0)
        np.testing.assert_array_equal(found.importances, by_name.importances)


def test_bad_parameters_are_refused(trained, letters):
    X, y = letters
    with pytest.raises(NotFittedError):
        permutation_importance(TreeCRF(), X, y)
    with pytest.raises(TypeError, match="model is of type str; expected a fitted classifier"):
        permutation_importance("crf", X, y)
    for error, options, message in (
        (ValueError, {"n_repeats": 0}, "n_repeats=0; expected a positive integer"),
        (ValueError, {"scoring": "accuracy"}, "unknown scorer 'accuracy'; expected one of"),
        (TypeError, {"scoring": 3}, "scoring is of type int; expected a name in"),
        (TypeError, {"features": "symbol"}, "features is a string; expected a list of names or"),
        *((ValueError, {"features": [wrong]}, f"features: {wrong!r}; expected the name of a feat")
          for wrong in ("color", 1, True, -1, 0.5)),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            permutation_importance(trained, X, y, **options)
    with pytest.raises(ValueError, match="X has 24 sequences, y has 23"):
        permutation_importance(trained, X, y[1:])


def test_a_score_of_minus_infinity_is_refused():
    X, y = ["ab", "ba"] * 3, ["xy", "xy"] * 3
    model = HMMClassifier(transitions=[[1, 1], [0, 1]]).fit(X, y)
    with pytest.raises(ValueError, match="the score of the original data is -inf; expected"):
        permutation_importance(model, X, ["yx"] * 6, scoring="log_likelihood")
