"""Training of one tree an iteration for all labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from support.family import assert_same_forest
from support.settings import FIXED, PLAIN

from treecrf import SlidingWindowClassifier, TreeCRF, load

SETTINGS = {
    "max_iter": 6,
    "learning_rate": 0.3,
    "max_leaf_nodes": 8,
    "l2_regularization": 1.0,
    "multi_strategy": "multi_output_tree",
    **FIXED,
}
MODELS = {
    "window": SlidingWindowClassifier(window=1, **SETTINGS),
    "first order": SlidingWindowClassifier(window=1, **SETTINGS | PLAIN),
    "crf": TreeCRF(order=0, window=0, **SETTINGS),
    "hamming": TreeCRF(order=0, window=0, objective="hamming_log", **SETTINGS),
    "class weights": TreeCRF(order=0, window=0, class_weight="balanced", **SETTINGS),
    "draws": SlidingWindowClassifier(
        subsample=0.7, max_features=0.5, max_features_per_tree=0.9, random_state=3, **SETTINGS
    ),
    "leaves of three": SlidingWindowClassifier(min_samples_leaf=3, max_depth=2, **SETTINGS),
    "constant transitions": TreeCRF(window=0, constant_transitions=True, **SETTINGS),
    "constant transitions of order 2": TreeCRF(
        order=2,
        window=0,
        constant_transitions=True,
        init="linear",
        class_weight="balanced",
        **SETTINGS,
    ),
}


def labeled(seed=0, n_labels=11, n_sequences=12, missing=0.05):
    """Numbers that depend on the label; some are missing."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(99).normal(size=(n_labels, 4))
    X, y = [], []
    for _ in range(n_sequences):
        codes = rng.integers(0, n_labels, rng.integers(1, 20))
        x = np.round(means[codes] + 0.5 * rng.normal(size=(len(codes), 4)), 1)
        x[rng.random(x.shape) < missing] = np.nan
        X.append(x)
        y.append([f"l{code}" for code in codes])
    return X, y


def mean_log_probability(model, X, y):
    index = {label: k for k, label in enumerate(model.classes_)}
    probabilities = np.concatenate(model.predict_proba(X))
    codes = [index[label] for labels in y for label in labels]
    return np.log(probabilities[np.arange(len(codes)), codes]).mean()


def trees_of(model):
    return model._forest.trees


@pytest.mark.parametrize("name", MODELS)
def test_training_scores_are_those_of_the_model(name):
    """What is added to the scores in training is what the trees say afterwards."""
    X, y = labeled()
    model = clone(MODELS[name])
    model.set_params(early_stopping=True, n_iter_no_change=6, scoring="loss")
    model.fit(X, y, X_val=X, y_val=y)
    forest = model._forest
    assert forest.is_multi_output
    assert len(forest.trees) == model.n_iter_ == 6
    assert all(tree["leaf"].shape[1] == 11 for tree in forest.trees)
    np.testing.assert_allclose(model.train_score_, model.validation_score_, atol=1e-9)
    assert model.train_score_[-1] > model.train_score_[0] + 0.1
    if model.order == 0:
        expected = mean_log_probability(model, X, y)
        assert model.train_score_[-1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_threads_and_order_of_sequences_do_not_matter(name):
    X, y = labeled()
    expected = clone(MODELS[name]).fit(X, y)
    other = clone(MODELS[name]).set_params(n_jobs=2).fit(X[::-1], y[::-1])
    assert_same_forest(expected, other)


@pytest.mark.parametrize("name", ["window", "constant transitions"])
def test_two_labels_have_the_trees_of_one_output(name):
    X, y = labeled(n_labels=2)
    # A penalty would have another share in trees for all labels.
    model = clone(MODELS[name]).set_params(l2_regularization=0.0).fit(X, y)
    for tree in trees_of(model):  # residuals sum to 0 over the labels
        np.testing.assert_array_equal(tree["leaf"][:, 0], -tree["leaf"][:, 1])
    one_output = clone(model).set_params(multi_strategy="one_output_per_tree").fit(X, y)
    np.testing.assert_allclose(model.train_score_, one_output.train_score_, atol=1e-6)


def test_warm_start_saving_and_truncation(tmp_path):
    X, y = labeled()
    model = SlidingWindowClassifier(window=1, warm_start=True, **SETTINGS).set_params(max_iter=3)
    model.fit(X, y)
    model.save(tmp_path / "model")
    resumed = load(tmp_path / "model").set_params(max_iter=6).fit(X, y)
    assert_same_forest(resumed, MODELS["window"].fit(X, y))
    assert_same_forest(resumed.truncated(3), model)
    # "auto" has what the earlier model has.
    assert_same_forest(model.set_params(max_iter=6, multi_strategy="auto").fit(X, y), resumed)
    with pytest.raises(ValueError, match="multi_strategy='multi_output_tree', which cannot"):
        model.set_params(multi_strategy="one_output_per_tree").fit(X, y)


def test_unknown_labels_and_validation_data():
    X, y = labeled()
    y[3] = [None] * len(y[3])
    y[4] = [{"l1", "l2"}] * len(y[4])
    settings = SETTINGS | {"early_stopping": True, "max_iter": 40}
    model = SlidingWindowClassifier(**settings).fit(X, y, X_val=labeled(1)[0], y_val=labeled(1)[1])
    assert 0 < model.n_iter_ < 40
    assert mean_log_probability(model, *labeled(1)) == pytest.approx(
        model.validation_score_[model.n_iter_], abs=1e-9
    )


def test_iterations_are_chosen_by_cross_validation():
    X, y = labeled(n_sequences=40)
    model = SlidingWindowClassifier(multi_strategy="multi_output_tree", max_iter=30).fit(X, y)
    assert model._forest.is_multi_output
    assert len(trees_of(model)) == model.n_iter_ > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"missing": "surrogate"}, "missing='surrogate' with .*; expected 'weighting'"),
        ({"monotonic_cst": {0: {"l0": 1}}}, "monotonic_cst=.* with .*; expected None"),
        ({"sampling": 0.2}, "sampling=0.2 with .*; expected None or 'auto'"),
        ({"order": 1, "constant_transitions": False}, "order=1 with .*; expected 0"),
        ({"multi_strategy": "both"}, "multi_strategy"),
    ],
)
def test_settings_that_cannot_be_combined(parameters, message):
    with pytest.raises(ValueError, match=message):
        TreeCRF(order=0, window=0, **SETTINGS).set_params(**parameters).fit(*labeled())


def phonemes(n_labels, n_sequences=150, seed=0):
    """Symbols that determine the label together with their neighbors."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        symbols = rng.integers(0, n_labels, rng.integers(5, 12))
        labels = (symbols + (np.roll(symbols, 1) % 2)) % n_labels
        X.append(symbols.astype(float)[:, None])
        y.append(labels)
    return X, y


def chosen_trees(n_labels, **parameters):
    model = TreeCRF(window=1, max_iter=6, init="zero", random_state=0, **parameters)
    return model.fit(*phonemes(n_labels)).multi_strategy_


def test_cross_validation_chooses_the_trees():
    """The chosen trees are those of the better model on held-out data."""
    X, y = phonemes(40)
    scores = {}
    for strategy in ("one_output_per_tree", "multi_output_tree", "auto"):
        model = TreeCRF(
            window=1, max_iter=6, init="zero", multi_strategy=strategy, constant_transitions=True
        ).fit(X, y)
        scores[strategy] = model.validation_score_.max()
        if strategy == "auto":
            assert scores[model.multi_strategy_] == scores["auto"]
    assert scores["auto"] == max(scores.values())


def test_few_labels_and_parameters_leave_no_choice():
    assert chosen_trees(8) == "one_output_per_tree"
    assert chosen_trees(40, early_stopping=False) == "one_output_per_tree"
    assert chosen_trees(40, multi_strategy="multi_output_tree") == "multi_output_tree"
    assert chosen_trees(40, missing="surrogate") == "one_output_per_tree"
    assert chosen_trees(40, constant_transitions=False) == "one_output_per_tree"


def test_trees_for_all_labels_make_transitions_constant():
    X, y = labeled()
    model = TreeCRF(window=1, **SETTINGS).fit(X, y)
    assert model.constant_transitions_
    assert model.multi_strategy_ == "multi_output_tree"
    with pytest.raises(ValueError, match=r"order=1 with .*; expected 0, or constant_transitions"):
        TreeCRF(constant_transitions=False, **SETTINGS).fit(X, y)


def test_very_many_labels_have_constant_transitions():
    X, y = phonemes(300)
    for settings in {"early_stopping": False}, {"init": "zero"}:
        model = TreeCRF(max_iter=1, **settings).fit(X, y)
        assert len(model.classes_) > 255
        assert model.constant_transitions_
    with pytest.raises(ValueError, match="255"):
        TreeCRF(max_iter=1, constant_transitions=False, sampling=0.1).fit(X, y)


def test_measurements_are_no_labels():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(20, 1)) for _ in range(20)]
    y = [rng.normal(size=20) for _ in range(20)]
    with pytest.raises(ValueError, match="y looks like measurements: 400 labels at 400 positions"):
        TreeCRF().fit(X, [list(map(str, labels)) for labels in y])
