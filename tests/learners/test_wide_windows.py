"""Windows wider than the training sequences: they are cut, and the model does not change."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from support.family import assert_equal_arrays, assert_same_forest, scores_of
from support.model_files import read, sealed
from support.settings import FIXED
from support.sweeps import pairs

import treecrf
from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
    average,
)
from treecrf.encoding import encoder as encoder_module
from treecrf.encoding.encoded import MAX_WINDOW, window_within
from treecrf.inspection import gain_importance, partial_dependence
from treecrf.learners.base.fitted import fitted_model

WIDE = FIXED | {
    "window": (30, 20), "max_iter": 3, "max_leaf_nodes": 6, "l2_regularization": 0.5,
    "random_state": 0,
}  # fmt: skip
ZERO = WIDE | {"init": "zero"}
MODELS = {
    "CRF": TreeCRF(**ZERO),
    "order 0": TreeCRF(order=0, **ZERO),
    "order 2, first order": TreeCRF(order=2, second_order=False, **ZERO),
    "sampled": TreeCRF(sampling=0.1, max_examples=60, **ZERO),
    "constant transitions": TreeCRF(constant_transitions=True, **ZERO),
    "no penalty": TreeCRF(**ZERO | {"l2_regularization": 0.0}),
    "one example": TreeCRF(min_samples_leaf=1, **ZERO),
    "another objective": TreeCRF(objective="hamming_log", **ZERO),
    "subsample": TreeCRF(subsample=0.5, **ZERO),
    "surrogate": TreeCRF(missing="surrogate", **ZERO),
    "impute": TreeCRF(missing="impute", **ZERO),
    "indicator": TreeCRF(missing="indicator", **ZERO),
    "held out": TreeCRF(**ZERO | {"early_stopping": True, "validation_fraction": 0.3}),
    "cross-validated": TreeCRF(**ZERO | {"early_stopping": "auto"}),
    "MEMM": TreeMEMM(order=2, **WIDE),
    "window": SlidingWindowClassifier(**WIDE),
    "backward": RecurrentSlidingWindowClassifier(direction="right-to-left", **WIDE),
    "future": FutureFeatureMEMM(**WIDE, bag_size=2, max_future_features=1, instance_max_iter=2),
}  # fmt: skip
LINEAR = {
    "L-BFGS": LinearCRF(window=9),
    "SGD": LinearCRF(window=(9, 2), solver="sgd", max_iter=3, random_state=0),
    "perceptron": StructuredPerceptron(window=(0, 9), max_iter=2, random_state=0),
    "SVM": StructuredSVM(window=9, random_state=0),
    "kernel": StructuredSVM(window=9, kernel="rbf", random_state=0),
    "sequence boosting": SequenceBoostingClassifier(window=9, max_iter=3, random_state=0),
}


def data_of(form, lengths, seed=0):
    """Make sequences whose labels depend on a neighbor and on the end."""
    rng = np.random.default_rng(seed)
    words = [rng.choice(list("abc"), n) for n in lengths]
    y = [np.where(np.roll(some, 1) == "a", "x", some) for some in words]
    for labels in y:
        labels[-1] = "z"
    if form == "symbols":
        return ["".join(some) for some in words], y
    X = [np.round((some == "a")[:, None] + rng.normal(size=(len(some), 2)), 1) for some in words]
    for table in X:
        table[rng.random(table.shape) < 0.1] = np.nan
    return X, y


SHORT = [5, 1, 4, 2, 5, 3, 5, 1, 4, 5, 2, 3]
LONG = [40, 1, 7, 60]


@pytest.fixture
def uncut(monkeypatch):
    """Return a function that fits trees without the cut."""

    def fit(model, *data):
        with monkeypatch.context() as patch:
            patch.setattr(encoder_module, "window_within", lambda max_window, _: max_window)
            return model.fit(*data)

    return fit


def assert_equal_trees(model, other, X):
    """Compare trees, and predictions on longer sequences."""
    assert_same_forest(model, other)
    assert_equal_arrays(model.predict_proba(X), other.predict_proba(X))


def test_offsets_outside_of_all_sequences_are_cut():
    assert window_within((30, 20), 5) == (4, 4)
    assert window_within((2, 20), 5) == (2, 4)
    assert window_within((4, 0), 5) == (4, 0)
    # Boundary rows remain.
    assert window_within((3, 0), 1) == (1, 0)


# Each setting has one form of data in the fast tests.
@pytest.mark.parametrize(
    ("name", "form"),
    pairs(
        product(MODELS, ["symbols", "numbers"]),
        lambda name, form: (list(MODELS).index(name) % 2 == 0) == (form == "numbers"),
    ),
)
def test_the_model_does_not_change(name, form, uncut):
    data, X = data_of(form, SHORT), data_of(form, LONG, 1)[0]
    model, other = clone(MODELS[name]).fit(*data), uncut(clone(MODELS[name]), *data)
    assert (max(model._encoder.window), max(other._encoder.window)) == (4, 30)
    assert model._forest.n_iter
    assert_equal_trees(model, other, X)


@pytest.mark.parametrize("form", ["symbols", "numbers"])
def test_sequences_of_one_position(form, uncut):
    data, X = data_of(form, [1] * 20), data_of(form, LONG, 1)[0]
    data = data[0], [labels if i % 3 else ["x"] for i, labels in enumerate(data[1])]
    model, other = TreeCRF(**ZERO).fit(*data), uncut(TreeCRF(**ZERO), *data)
    assert model._encoder.window == (1, 1)
    assert_equal_trees(model, other, X)


def test_an_estimator_of_rows_gets_no_constant_columns():
    data = data_of("symbols", SHORT)
    model, other = (
        SlidingWindowClassifier(LogisticRegression(), window=window).fit(*data) for window in (9, 4)
    )
    assert model.estimator_.coef_.tolist() == other.estimator_.coef_.tolist()


@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_are_those_of_the_narrower_window(name):
    """Indicators of the outside would all be 1 there, and share the weight of a constant."""
    (X, y), longer = data_of("symbols", SHORT), data_of("symbols", LONG, 1)[0]
    model = clone(LINEAR[name]).fit(X, y)
    narrow = tuple(min(side, 4) for side in model._window())
    other = clone(LINEAR[name]).set_params(window=narrow).fit(X, y)
    for labels, others in zip(model.predict(longer), other.predict(longer), strict=True):
        assert labels.tolist() == others.tolist()
    assert_equal_arrays(model.predict_proba(longer), other.predict_proba(longer))


def test_a_linear_start_is_cut():
    data, X = data_of("symbols", SHORT), data_of("symbols", LONG, 1)[0]
    model, other = (
        TreeCRF(**WIDE | {"init": "linear", "window": window}).fit(*data) for window in (50, 4)
    )
    assert model.init_.get_attribute_names().tolist() == other.init_.get_attribute_names().tolist()
    assert_equal_trees(model, other, X)


# Warm starts


@pytest.mark.parametrize("form", ["symbols", "numbers"])
@pytest.mark.parametrize("name", ["CRF", "sampled", "MEMM", "backward"])
def test_a_warm_start_reaches_as_far_as_the_longer_sequences(name, form, uncut, tmp_path):
    short, long = data_of(form, SHORT), data_of(form, [7, 1, *SHORT], 1)
    model = clone(MODELS[name]).set_params(warm_start=True).fit(*short)
    other = uncut(clone(MODELS[name]).set_params(warm_start=True), *short)
    model.save(tmp_path / "model")
    for grown in (model, treecrf.load(tmp_path / "model")):
        grown.set_params(max_iter=6).fit(*long)
        assert sorted(grown._encoder.window) == [6, 6]
    uncut(other.set_params(max_iter=6), *long)
    assert_equal_trees(model, other, long[0])
    assert_equal_trees(grown, other, long[0])
    grown.set_params(max_iter=7).fit(*short)
    assert grown._encoder.window == (6, 6)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_warm_start_of_a_linear_model_adds_the_offsets(pairs):
    short, long = data_of("symbols", SHORT), data_of("symbols", [7, 1, *SHORT], 1)
    settings = {"max_iter": 2000, "tol": 1e-10, "transition_features": pairs}
    settings["all_possible_states"] = True  # otherwise, a warm start keeps the earlier weights
    model = LinearCRF(window=(9, 2), warm_start=True, **settings).fit(*short)
    before = model.predict_log_likelihood(*long).sum() / sum(map(len, long[1]))
    model.fit(*long)
    assert model.train_score_[0] == pytest.approx(before)
    whole = LinearCRF(window=(6, 2), **settings).fit(*long)
    assert model.get_attribute_names().tolist() == whole.get_attribute_names().tolist()
    np.testing.assert_allclose(model.state_weights_, whole.state_weights_, atol=1e-2)


def test_a_warm_start_needs_the_same_parameter(tmp_path):
    data = data_of("symbols", SHORT)
    for model in (TreeCRF(**ZERO), LinearCRF(window=(30, 20))):
        model.set_params(warm_start=True).fit(*data).save(tmp_path / "model")
        for other in (model, treecrf.load(tmp_path / "model")):
            other.set_params(max_iter=other.max_iter + 1).fit(*data)
            with pytest.raises(ValueError, match=r"has window=\(30, 20\), which cannot change"):
                other.set_params(window=4).fit(*data)


# Averages, streams and inspection


@pytest.mark.parametrize("init", ["zero", "linear"])
def test_models_with_windows_cut_to_other_sequences_are_averaged(init):
    X, y = data_of("symbols", [*SHORT, 7, 6])
    settings = WIDE | {"early_stopping": True, "validation_fraction": 0.2, "init": init}
    models = [TreeCRF(**settings | {"random_state": seed}).fit(X, y) for seed in range(12)]
    models.sort(key=lambda model: model._encoder.window)
    windows = {model._encoder.window for model in models}
    assert len(windows) > 1
    mean = average(models)
    assert mean._encoder.window == max(windows)
    longer = data_of("symbols", LONG, 1)[0]
    scores = [scores_of(model, longer) for model in models]
    np.testing.assert_allclose(scores_of(mean, longer), np.mean(scores, axis=0), atol=2e-4)


def test_offsets_of_the_window_that_is_used():
    X, y = data_of("symbols", SHORT)
    model, linear = TreeCRF(**ZERO).fit(X, y), LinearCRF(window=(9, 1)).fit(X, y)
    assert gain_importance(model).offsets.tolist() == [*range(-4, 5)]
    for each, right in ((model, 4), (linear, 1)):
        with pytest.raises(ValueError, match=f"an integer from -4 to {right}, the window of"):
            partial_dependence(each, X, "symbol", -5)


# Saved models


@pytest.mark.parametrize("model", [TreeCRF(**ZERO), LinearCRF(window=(30, 20))])
def test_saved_windows_are_checked(model, tmp_path):
    path, data = tmp_path / "model", data_of("symbols", SHORT)
    clone(model).fit(*data).save(path)
    for bad in (
        {"window": [4, 21]}, {"window": [0, 4]}, {"max_window": [4, 3]}, {"max_window": [4, 0]},
        {"max_window": [4]}, {"max_window": [4, MAX_WINDOW + 1]}, {"max_window": [4, -1]},
        {"max_window": [4, 4.0]}, {"max_window": None},
    ):  # fmt: skip
        values, arrays = read(path)
        of_window = values["encoder" if "encoder" in values else "attributes"]
        assert (of_window["window"], of_window["max_window"]) == ([4, 4], [30, 20])
        of_window |= bad
        (tmp_path / "bad").write_bytes(sealed(values, arrays))
        with pytest.raises(treecrf.ModelFileError):
            treecrf.load(tmp_path / "bad")


@pytest.mark.parametrize("model", [TreeCRF(**ZERO), LinearCRF(window=(30, 20))])
def test_models_of_earlier_versions_have_one_window(model, tmp_path):
    path, (X, y) = tmp_path / "model", data_of("symbols", SHORT)
    clone(model).fit(X, y).save(path)
    values, arrays = read(path)
    del values["encoder" if "encoder" in values else "attributes"]["max_window"]
    path.write_bytes(sealed(values, arrays))
    loaded = treecrf.load(path)
    assert fitted_model(loaded).chain.reach() == (4, 4)
    loaded.set_params(warm_start=True, window=4, max_iter=model.max_iter + 1).fit(X, y)
