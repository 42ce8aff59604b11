"""Monotonic constraints and interaction constraints of boosted trees."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from support.family import scores_of
from support.settings import PLAIN

import treecrf
from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.trees.forest import LABEL

SETTINGS = PLAIN | {
    "window": 1, "max_iter": 6, "max_leaf_nodes": 20, "l2_regularization": 0.5
}  # fmt: skip
LEARNERS = [TreeCRF, TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]
GROWERS = [None, 0.2]


def tables(n_labels=2, seed=0, n=15, missing=0.0):
    """Tables of three numbers, with effects that are not monotonic, and labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        x = rng.normal(size=(20, 3)).round(1)
        effect = np.sin(3 * x[:, 0]) + x[:, 1] * np.roll(x[:, 2], 1) + rng.normal(size=20)
        effect[1:] += effect[:-1]  # neighboring labels depend on each other
        y.append(np.clip(np.floor(effect + n_labels / 2), 0, n_labels - 1).astype(int))
        x[rng.random(x.shape) < missing] = np.nan
        X.append(x)
    return X, y


def changes(model, X, feature, at):
    """Differences of the scores of a position when a feature there or next to it grows."""
    grid = np.linspace(-3, 3, 40)
    varied = []
    for x in X:
        for value in grid:
            varied.append(x.copy())
            varied[-1][at, feature] = value
    scores = scores_of(model, varied)
    shape = (len(scores), len(X), len(grid), -1, scores.shape[2])
    return np.diff(scores.reshape(shape), axis=2)


@pytest.mark.parametrize("sampling", GROWERS)
@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("kind", LEARNERS)
def test_scores_of_two_labels_are_monotonic(kind, second_order, sampling):
    X, y = tables()
    settings = SETTINGS | {"second_order": second_order, "sampling": sampling}
    free, bound = (kind(**settings, monotonic_cst=signs).fit(X, y) for signs in (None, [1, -1, 0]))
    for feature, sign in ((0, 1), (1, -1)):
        steps = changes(bound, X[:3], feature, 10)
        assert (sign * steps[1] >= 0).all()
        assert (sign * steps[0] <= 0).all()
        assert (changes(free, X[:3], feature, 10)[1] * sign < 0).any()
        assert (steps[1] != 0).any()
    assert (changes(bound, X[:3], 2, 10)[1] > 0).any()
    assert (changes(bound, X[:3], 2, 10)[1] < 0).any()


@pytest.mark.parametrize("sampling", GROWERS)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_signs_by_label(order, sampling):
    X, y = tables(3)
    signs = {0: {2: 1, 0: -1}, 2: {1: -1}, 1: 0}
    crf = TreeCRF(order=order, **SETTINGS, sampling=sampling, monotonic_cst=signs).fit(X, y)
    first, third = changes(crf, X[:3], 0, 10), changes(crf, X[:3], 2, 10)
    assert (first[2] >= 0).all()
    assert (first[0] <= 0).all()
    assert (third[1] <= 0).all()
    free = np.concatenate([first[1].ravel(), third[2].ravel()])
    assert (free < 0).any()
    assert (free > 0).any()


def test_lists_booleans_beams_and_constant_transitions():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(20):
        numbers = rng.normal(size=(20, 2)) * (rng.random((20, 2)) < 0.3)
        x = np.column_stack([rng.random(20) < 0.5, numbers])
        noise = rng.random(20) < 0.3
        X.append(x)
        y.append((~noise & (x[:, 0] + np.abs(x[:, 1]) > 0.6)).astype(int))
    dicts = [[dict(zip("abc", row, strict=True)) for row in x.tolist()] for x in X]
    for settings in ({}, {"beam_width": 2}, {"constant_transitions": True}):
        crf = TreeCRF(**SETTINGS, **settings, monotonic_cst={"a": 1, "b": -1}).fit(dicts, y)
        for name, sign, values in (("a", 1, [0.0, 1.0]), ("b", -1, [-2.0, -0.5, 0.0, 0.5, 2.0])):
            varied = [[[row | {name: value} for row in x] for x in dicts[:4]] for value in values]
            steps = np.diff([scores_of(crf, one) for one in varied], axis=0)
            assert (sign * steps[:, 1] >= 0).all()
            assert (sign * steps[:, 1] > 0).any()
            assert (sign * steps[:, 0] <= 0).all()


# Interactions


def branches_of(tree, node=0, above=frozenset()):
    """Yield the set of columns that each branch tests, and whether it tests a label."""
    if tree["true_child"][node] < 0:
        yield above
        return
    for child in (tree["true_child"][node], tree["false_child"][node]):
        yield from branches_of(tree, child, above | {int(tree["column"][node])})


@pytest.mark.parametrize("sampling", GROWERS)
@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(
    ("sets", "possible"),
    [
        ("no_interactions", [{0}, {1}, {2}, {3}]),
        ("pairwise", [{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}]),
        ([{0, 1}, {1, 2}], [{0, 1}, {1, 2}, {3}]),
        ([[0]], [{0}, {1, 2, 3}]),
        ([], [{0, 1, 2, 3}]),
    ],
)
def test_branches_test_features_of_one_set(sets, possible, kind, sampling):
    X, y = tables()
    X = [np.column_stack([x, x[:, 0] > 0]) for x in X]
    for max_features in (1.0, 0.5):
        settings = SETTINGS | {"sampling": sampling, "max_features": max_features, "max_iter": 10}
        model = kind(**settings, interaction_cst=sets, random_state=0).fit(X, y)
        found = {branch for tree in model._forest.trees for branch in branches_of(tree)}
        features = {frozenset(column for column in branch if column >= 0) for branch in found}
        assert all(any(branch <= one for one in possible) for branch in features)
        assert max(map(len, features)) >= min(2, max(map(len, possible)))
        tests_labels = any(LABEL in branch and len(branch) > 1 for branch in found)
        assert tests_labels == (model.order > 0)


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_names_of_features():
    X, y = tables()
    frames = [pd.DataFrame(x, columns=["a", "b", "c"]) for x in X]
    by_name = TreeCRF(**SETTINGS, monotonic_cst={"b": -1}, interaction_cst=[("a", "b")])
    by_index = TreeCRF(**SETTINGS, monotonic_cst=np.array([0, -1, 0]), interaction_cst=[{0, 1}])
    one, two = by_name.fit(frames, y), by_index.fit(X, y)
    np.testing.assert_array_equal(scores_of(one, X), scores_of(two, X))


def test_a_saved_model_keeps_its_constraints(tmp_path):
    X, y = tables(3)
    crf = TreeCRF(**SETTINGS, monotonic_cst={0: {1: -1}}, interaction_cst=[{0, 1}, {2}]).fit(X, y)
    crf.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model")
    assert loaded.monotonic_cst == {0: {1: -1}}
    assert loaded.interaction_cst == ((0, 1), (2,))
    loaded.fit(X, y)
    np.testing.assert_array_equal(scores_of(loaded, X), scores_of(crf, X))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"monotonic_cst": [1, 0]}, ValueError, "has the shape (2,); expected (3,), a sign for"),
        ({"monotonic_cst": [1, 0, 2]}, ValueError, "feature 2: 2; expected -1, 0 or 1"),
        ({"monotonic_cst": {"a": 1}}, ValueError, "monotonic_cst: the feature 'a' is not in X"),
        ({"monotonic_cst": {3: 1}}, ValueError, "feature 3; expected an index from 0 to 2"),
        ({"monotonic_cst": {1.5: 1}}, TypeError, "feature 1.5 is of type float; expected a name"),
        ({"monotonic_cst": {0: {7: 1}}}, ValueError, "feature 0: the label 7 is not in y"),
        ({"monotonic_cst": {0: {1: None}}}, ValueError, "feature 0: None; expected -1, 0 or 1"),
        ({"monotonic_cst": [1, 0, 0], "init": "linear"}, ValueError, "with a linear start"),
        ({"interaction_cst": [[0, 3]]}, ValueError, "interaction_cst: feature 3; expected an"),
        ({"interaction_cst": [0, 1]}, TypeError, "interaction_cst, item 0 is of type int"),
        ({"interaction_cst": ["ab"]}, TypeError, "interaction_cst, item 0 is of type str"),
    ],
)
def test_invalid_constraints_raise(settings, error, message):
    X, y = tables()
    with pytest.raises(error, match=re.escape(message)):
        TreeCRF(max_iter=1, **settings).fit(X, y)


def test_no_linear_start_is_chosen_or_continued():
    X, y = tables()
    crf = TreeCRF(max_iter=2, init="auto", early_stopping=True, monotonic_cst=[1, 0, 0]).fit(X, y)
    assert crf.init_ is None
    crf.set_params(early_stopping="auto", interaction_cst="pairwise").fit(X, y)
    assert crf.init_ is None
    crf = TreeCRF(max_iter=2, init="linear").fit(X, y)
    crf.set_params(init="auto", warm_start=True, max_iter=3, monotonic_cst=[1, 0, 0])
    with pytest.raises(ValueError, match="monotonic_cst with a linear start"):
        crf.fit(X, y)


def test_signs_need_labels_and_an_order():
    X, y = tables(3)
    with pytest.raises(ValueError, match=re.escape("sign 1 with 3 labels; expected a dict {label")):
        TreeCRF(max_iter=1, monotonic_cst=[0, 1, 0]).fit(X, y)
    assert TreeCRF(max_iter=1, monotonic_cst=[0, 0, 0]).fit(X, y).n_iter_ == 1
    with pytest.raises(ValueError, match="symbol is categorical; expected numbers or booleans"):
        TreeCRF(max_iter=1, monotonic_cst=[1]).fit(["abab", "ba"], ["xyxy", "yx"])
