"""Models that discover features: discovery, early stopping, descriptions, saved models."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from support.cases import random_sequences
from support.family import assert_equal_arrays
from support.model_files import read
from support.settings import PLAIN
from support.sweeps import pairs, sweep

from treecrf import FutureFeatureMEMM, ModelFileError, TreeMEMM, load
from treecrf.datasets import make_future_bags
from treecrf.inputs.offsets import offsets_of
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.future.features import DIRECTIONS, Bags, bins_of, thresholds_of
from treecrf.learners.future.training import tree_of_bins
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils import model_file


def small(**parameters) -> FutureFeatureMEMM:
    defaults = {"order": 0, "bag_size": 6, "random_state": 0}
    return FutureFeatureMEMM(**defaults | parameters)


def five_labels(X, y):
    """Labels of which four depend on the bag, in different ways."""
    labels = []
    for x, xor in zip(X, y, strict=True):
        n_true = x[:, :6].sum(axis=1)
        bag = (n_true >= 4) ^ xor.astype(bool)
        labels.append(np.where(x[:, 0], np.where(bag, 2, n_true % 2), np.where(bag, 3, 4)))
    return labels


def positive(X):
    return np.concatenate(X)[:, :6].sum(axis=1) <= 1


# Discovery


@pytest.fixture(scope="module")
def bags():
    """Sequences to train on and others, and a model of the hardest kind of labels."""
    X, y = make_future_bags("xor", n_sequences=300, random_state=1)
    return X, y, small().fit(X[:180], y[:180], X[180:240], y[180:240])


def test_the_pattern_is_found(bags):
    X, y, model = bags
    assert model.score(X[240:], y[240:]) > 0.999
    assert TreeMEMM(order=0, max_iter=20).fit(X, y).score(X, y) < 0.7
    (feature,) = model._encoder.features
    encoded = model._encoder.base.encode(fitted_model(model).predictor.read(X[240:])[0])
    score = feature.scores(model._encoder.base, encoded)
    np.testing.assert_array_equal(score > 0, positive(X[240:]))
    in_bag = Bags(encoded.offsets, 6).sum_members(positive(X[240:]).astype(float)) > 0
    np.testing.assert_allclose(feature.values(model._encoder.base, encoded), in_bag, atol=0.01)


@pytest.mark.parametrize("multiclass", sweep(["shared", "all", "best"], 1))
def test_many_labels(multiclass):
    X, y = make_future_bags("xor", n_sequences=180, random_state=0)
    y = five_labels(X, y)
    model = small(multiclass=multiclass, max_future_features=1, max_iter=40)
    model.fit(X[:120], y[:120], X[120:150], y[120:150])
    assert model.score(X[150:], y[150:]) > 0.95
    features = model.future_features_
    assert len(features) == (5 if multiclass == "all" else 1)
    n_affected = 5 if multiclass == "shared" else 1
    assert [len(feature.effects) for feature in features] == [n_affected] * len(features)


def test_the_size_of_the_bags_is_found():
    X, y = make_future_bags("or", n_sequences=120, bag_size=3, random_state=0)
    model = small(bag_size="auto", max_iter=30, max_future_features=1).fit(X, y)
    assert [feature.bag_size for feature in model.future_features_] == [3]


@pytest.mark.parametrize(
    ("size", "direction"),
    pairs(
        product((4, "to_end"), DIRECTIONS), lambda *pair: pair in {(4, "both"), ("to_end", "past")}
    ),
)
def test_bags_of_every_direction(size, direction):
    rng = np.random.default_rng(0)
    X = [rng.random((rng.integers(3, 20), 4)) < 0.15 for _ in range(200)]
    offsets = offsets_of(np.array([len(x) for x in X]))
    bag = Bags(offsets, None if size == "to_end" else size, direction)
    shows = bag.sum_members(np.concatenate(X)[:, 2].astype(float)) > 0
    y = np.split(shows.astype(int), offsets[1:-1])
    parameters = {"bag_size": size, "bag_direction": direction, "max_future_features": 1}
    model = small(max_iter=30, **parameters).fit(X[:160], y[:160])
    assert model.score(X[160:], y[160:]) > 0.99
    assert {(f.bag_size, f.bag_direction) for f in model.future_features_} == {(size, direction)}


def test_without_rounds_it_is_the_plain_model(letters):
    X, y = letters
    settings = PLAIN | {"window": 1, "max_iter": 4, "max_leaf_nodes": 9, "l2_regularization": 5.0}
    model, plain = (
        kind(**settings, **more).fit(X, y)
        for kind, more in ((FutureFeatureMEMM, {"max_future_features": 0}), (TreeMEMM, {}))
    )
    np.testing.assert_allclose(model.train_score_, plain.train_score_)
    assert_equal_arrays(model.predict_proba(X), plain.predict_proba(X))
    assert model.future_features_ == []


def test_noise_has_no_features():
    rng = np.random.default_rng(0)
    X = [rng.random((20, 5)) < 0.5 for _ in range(60)]
    y = [rng.integers(0, 2, 20) for _ in X]
    assert small(max_iter=20).fit(X[:40], y[:40], X[40:], y[40:]).future_features_ == []


# Scores, stages, saved models


@pytest.mark.parametrize(
    ("kind", "order"),
    pairs(
        product(("letters", "words", "floats", "sparse booleans"), (0, 2)),
        lambda *pair: pair in {("letters", 2), ("floats", 0), ("sparse booleans", 2)},
    ),
)
def test_scores_of_training_are_those_of_prediction(kind, order):
    """The likelihoods recorded in training are those of the model."""
    rng = np.random.default_rng(order)
    lengths = [9, 1, 14, 3, 20, 11, 17]
    X = random_sequences(kind, rng, lengths)
    y = [rng.integers(0, 3, n) for n in lengths]
    y[0][:3] = 0, 1, 2
    model = FutureFeatureMEMM(
        order=order, window=(1, 2), bag_size=3, max_iter=3, max_future_features=2,
        instance_l2_regularization=1.0, l2_regularization=1.0, early_stopping=False,
    ).fit(X, y, X[2:], y[2:])  # fmt: skip
    assert model.future_features_
    for i, scores in (slice(None), model.train_score_), (slice(2, None), model.validation_score_):
        log_p = model.predict_log_likelihood(X[i], y[i]).sum() / sum(lengths[i])
        assert log_p == pytest.approx(scores[-1], abs=1e-12)
        assert len(scores) == model.n_iter_ + 1
    together, alone = model.predict_proba(X), [model.predict_proba([x])[0] for x in X]
    assert_equal_arrays(together, alone)


def test_a_saved_model_has_its_features(bags, tmp_path):
    X, _, model = bags
    path = tmp_path / "model.treecrf"
    model.save(path)
    again = load(path)
    assert_equal_arrays(model.predict_proba(X[:9]), again.predict_proba(X[:9]))
    ours, theirs = model.future_features_[0], again.future_features_[0]
    assert ours.describe() == theirs.describe()
    assert ours.effects == theirs.effects


def beyond(arrays, trees, n):
    """Let the tests of saved trees read other columns."""
    arrays[trees + "column"] += n * (arrays[trees + "true_child"] >= 0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda v, a: v["encoder"].update(n_future_bins=1), "bins"),
        (lambda v, a: v["encoder"].update(n_future_bins=300), "bins"),
        (lambda v, a: v["encoder"]["features"][0].update(size=0), "bags"),
        (lambda v, a: v["encoder"]["features"][0].update(size=2.5), "numbers"),
        (lambda v, a: v["encoder"]["features"][0].update(direction="up"), "bags"),
        (lambda v, a: v["encoder"]["features"][0].update(gain=None), "features"),
        (lambda v, a: a.update({"future.0.effects": np.zeros((2, 3))}), "features"),
        (lambda v, a: a.update({"future.0.effects": np.full((2, 2), np.nan)}), "features"),
        (lambda v, a: beyond(a, "future.0.trees.", 50), "tests"),
        (lambda v, a: beyond(a, "forest.", 9), "tests"),
        (lambda v, a: v["encoder"].update(features=[]), "tests"),
    ],
)
def test_features_that_do_not_fit_are_refused(change, what, bags, tmp_path):
    path = tmp_path / "model.treecrf"
    bags[2].save(path)
    values, arrays = read(path)
    change(values, arrays)
    model_file.write(path, values, arrays)
    with pytest.raises(ModelFileError, match=f"invalid {what}"):
        load(path)


def test_the_columns_of_the_instances_are_important(bags):
    importances = bags[2].feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[:6].min() > 0.05 > 0.01 > importances[6:].max()


# Descriptions


def test_rules_add_up_to_the_score(bags):
    X, _, model = bags
    (feature,) = model.future_features_
    encoder = model._encoder.base
    score = model._encoder.features[0].scores(
        encoder, encoder.encode(fitted_model(model).predictor.read(X[:3])[0])
    )
    for x, expected in zip(np.concatenate(X[:3])[:40], score[:40], strict=True):
        names = {f"x{j}": bool(value) for j, value in enumerate(x)}
        held = [value for value, tests in feature.rules if eval(tests, {}, names)]
        assert feature.initial_score + sum(held) == pytest.approx(expected)


def test_the_description_of_a_feature(bags):
    (feature,) = bags[2].future_features_
    lines = feature.describe(3).splitlines()
    assert lines[0] == "any of the next 6 positions, with log-odds of -5.0 plus"
    assert len(lines) == 5
    assert lines[-1].endswith(f"and {len(feature.rules) - 3} smaller rules")
    assert len(feature.describe(len(feature.rules)).splitlines()) == 1 + len(feature.rules)
    sizes = [abs(value) for value, _ in feature.rules]
    assert sizes == sorted(sizes, reverse=True)
    assert list(feature.effects) == [1]
    assert feature.gain > 0.04
    assert 0 < len(feature.thresholds) < 20


# Derived columns


def test_a_tree_of_bins_has_a_leaf_for_each():
    weights = np.array([5.0, 0, 0, 2, 1, 0])
    tree = tree_of_bins(7, np.arange(6.0), weights)
    for value, leaf in ((0, 0), (1, 0), (2, 3), (3, 3), (4, 4), (5, 4)):
        node = 0
        while tree["true_child"][node] >= 0:
            assert tree["column"][node] == 7
            passes = value > tree["value"][node]
            node = tree["true_child" if passes else "false_child"][node]
        assert tree["leaf"][node] == leaf
    assert tree["weight"][0] == 8
    mean = np.average(np.arange(6), weights=weights)
    spread = (weights * (np.arange(6) - mean) ** 2).sum()
    assert tree["gain"].sum() == pytest.approx(spread)


def test_bins_are_even():
    values = np.array([0, 0.05, 0.051, 0.5, 0.951, 1])
    assert bins_of(values, 20).tolist() == [0, 0, 1, 9, 19, 19]
    assert (bins_of(values, 2) == (values > thresholds_of(2)[0])).all()


def test_derived_columns_have_tests_at_the_position_alone():
    X, y = make_future_bags("or", n_sequences=60, random_state=0)
    model = small(window=(2, 1), max_iter=15, max_future_features=1)
    model.fit(X, y)
    table = number_tests(model._encoder)
    derived = table.columns == 8
    assert derived.sum() == 19
    assert (table.offsets[derived] == 0).all()
    assert table.values[derived].tolist() == list(range(19))
    packed = model._forest.pack()
    assert (packed["offset"][packed["column"] == 8] == 0).all()
    assert (packed["column"] == 8).any()


# Refitting on all sequences


@pytest.mark.parametrize("form", sweep(["strings", "missing values", "booleans", "sparse"], 1))
def test_refit_trains_on_the_held_out_sequences(form):
    X, y = make_future_bags("or", n_sequences=80, random_state=0)
    if form == "strings":
        X = [["".join("01"[int(value)] for value in row[:6]) for row in x] for x in X]
    elif form == "missing values":
        X = [x.astype(float) for x in X]
        X[70][3, 2] = np.nan
    elif form == "sparse":
        X = [sparse.csr_array(x.astype(float)) for x in X]
    data = X[:60], y[:60], X[60:], y[60:]
    model = small(max_iter=20, max_future_features=1).fit(*data)
    again = clone(model).set_params(refit=True).fit(*data)
    assert again.n_iter_ == model.n_iter_
    assert len(again.future_features_) == len(model.future_features_)
    assert len(again.validation_score_) == 0
    log_p = again.predict_log_likelihood(X, y).sum() / sum(map(len, y))
    assert log_p == pytest.approx(again.train_score_[-1])


@pytest.mark.parametrize("of_training", [True, False])
def test_refit_on_symbols_of_which_some_are_missing(of_training):
    gapped, whole = [["a", None, "b", "c"]] * 20, [list("abca")] * 20
    X, X_val = (gapped, whole) if of_training else (whole, gapped)
    y = [list("xyxy")] * 20
    model = small(max_iter=3, refit=True).fit(X, y, X_val, y)
    log_p = model.predict_log_likelihood([*X, *X_val], [*y, *y]).sum() / 160
    assert log_p == pytest.approx(model.train_score_[-1])


def test_refit_keeps_the_size_of_bags(bags):
    X, y, _ = bags
    allowed = [np.ones((len(labels), 2), dtype=bool) for labels in y[:60]]
    model = small(
        refit=True, bag_size="auto", max_iter=3, max_future_features=1, instance_max_iter=5
    )
    model.fit(X[:60], y[:60], allowed=allowed)
    assert len(model.future_features_) == 1
    assert len(model.fit(X[:40], y[:40], X[60:80], y[60:80], allowed=allowed[:40]).classes_) == 2


@pytest.mark.parametrize("missing", sweep(["weighting", "indicator", "surrogate", "impute"], 1))
def test_missing_values(missing):
    X, y = make_future_bags("or", n_sequences=150, random_state=0)
    rng = np.random.default_rng(0)
    X = [np.where(rng.random(x.shape) < 0.02, np.nan, x) for x in X]
    model = small(missing=missing, max_iter=40, max_future_features=1).fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > 0.9
    assert [f.bag_size for f in model.future_features_] == [6]
    assert "x0" in model.future_features_[0].describe(99)
