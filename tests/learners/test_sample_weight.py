"""Sample weights of all learners: repeated sequences, scores, validation data and errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from support.family import (
    BOOSTED,
    COUNTED,
    ESTIMATED,
    FAMILY,
    NEWTON,
    TREES,
    assert_close_arrays,
    assert_equal_arrays,
    every,
    marked,
    objective_of,
)

import treecrf
from treecrf import (
    LinearCRF,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
)

# All examples are in the samples.
SAMPLED = {"sampling": 1e-9, "max_examples": None, **NEWTON}
REPEATED = {
    **BOOSTED,
    **COUNTED,
    "balanced labels": TreeCRF(class_weight="balanced", **TREES),
    "order 0, exponential": TreeCRF(order=0, objective="exponential", **TREES),
    "order 0, single labels": TreeCRF(order=0, objective="hamming_exponential", **TREES),
    "a tree around windows": ESTIMATED["recurrent window of a tree"],
}
# Examples are rounded after the weights.
ROUNDED = {
    "samples": TreeCRF(**SAMPLED),
    "samples of a table": TreeMEMM(**SAMPLED),
    "constant transitions": TreeCRF(constant_transitions=True, **SAMPLED),
    "features that are chosen by sequence": SequenceBoostingClassifier(
        bound="sequence", max_iter=30
    ),
}
LINEAR = {
    "linear CRF": LinearCRF(window=1, tol=1e-12, l2_regularization=0.1),
    "transition features": LinearCRF(window=1, transition_features=True, tol=1e-12),
    "balanced": LinearCRF(transition_features=True, class_weight="balanced", tol=1e-12),
    **{
        objective: LinearCRF(objective=objective, tol=1e-12)
        for objective in ("exponential", "hamming_log", "hamming_exponential")
    },
    "vectors": StructuredSVM(tol=1e-4, max_iter=10_000, random_state=0),
}


@pytest.fixture(scope="module")
def repeated(letters):
    """Sequences, labels, weights, and the sequences repeated as often as their weights state."""
    X, y = letters
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    often = np.repeat(np.arange(len(X)), weights)
    return X, y, weights, ([X[i] for i in often], [y[i] for i in often])


def scores_of(model) -> dict:
    names = ("train_score_", "validation_score_", "loss_", "train_accuracy_", "objective_")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def check_scores(one, other) -> None:
    for name, value in scores_of(one).items():
        np.testing.assert_allclose(value, getattr(other, name), rtol=1e-10, err_msg=name)


# How much probabilities, likelihoods and losses may differ.
TOLERANCES = (
    dict.fromkeys(REPEATED, (0, 1e-10, 1e-10))
    | dict.fromkeys(ROUNDED, (1e-6, 1e-6, None))
    | dict.fromkeys(LINEAR, (1e-5, 1e-4, 1e-3))
    | {"vectors": (1e-3, None, 1e-3)}
)


@pytest.mark.parametrize("name", marked(sorted(REPEATED)) + sorted(ROUNDED | LINEAR))
def test_a_weight_stands_for_equal_sequences(name, repeated):
    X, y, weights, (all_X, all_y) = repeated
    model, expected = (clone((REPEATED | ROUNDED | LINEAR)[name]) for _ in range(2))
    expected.fit(all_X, all_y)
    model.fit(X, y, sample_weight=weights)
    of_proba, of_likelihood, of_loss = TOLERANCES[name]
    assert_close_arrays(
        model.predict_proba(X), expected.predict_proba(X), rtol=of_proba, atol=of_proba
    )
    if of_likelihood and hasattr(model, "train_score_"):
        kept = slice(None) if name not in LINEAR else slice(-1, None)
        ours, theirs = model.train_score_[kept], expected.train_score_[kept]
        np.testing.assert_allclose(ours, theirs, rtol=of_likelihood)
    for loss in ("loss_", "objective_"):
        if of_loss and hasattr(model, loss):
            np.testing.assert_allclose(getattr(model, loss), getattr(expected, loss), rtol=of_loss)
    if name in REPEATED:
        assert model.score(X, y, sample_weight=weights) == pytest.approx(model.score(all_X, all_y))


@every(FAMILY)
def test_equal_weights_of_positions_are_those_of_the_sequence(name, letters):
    X, y = letters
    weights = np.random.default_rng(1).choice([0, 0.5, 1.25, 3], len(X))
    model = clone(FAMILY[name]).fit(X, y, sample_weight=weights)
    per_position = [np.full(len(x), w) for x, w in zip(X, weights, strict=True)]
    same = clone(FAMILY[name]).fit(X, y, sample_weight=per_position)
    assert_equal_arrays(same.predict_proba(X), model.predict_proba(X))
    kept = np.flatnonzero(weights)
    without = clone(FAMILY[name]).fit(
        [X[i] for i in kept], [y[i] for i in kept], sample_weight=weights[kept]
    )
    assert_equal_arrays(without.predict_proba(X), model.predict_proba(X))
    check_scores(without, model)
    unweighted = clone(FAMILY[name]).fit(X, y, sample_weight=np.ones(len(X)))
    assert_equal_arrays(unweighted.predict_proba(X), clone(model).fit(X, y).predict_proba(X))
    assert any((p != q).any() for p, q in zip(
        unweighted.predict_proba(X), model.predict_proba(X), strict=True
    ))  # fmt: skip


@every(BOOSTED)
def test_reported_scores_are_weighted_means(name, letters):
    X, y = letters
    weights = np.random.default_rng(1).choice([0.5, 1, 3], len(X))
    model = clone(BOOSTED[name]).set_params(scoring="loss")
    model.fit(X, y, X, y, sample_weight=weights, sample_weight_val=weights)
    log_p = model.predict_log_likelihood(X, y)
    codes = [np.searchsorted(model.classes_, list(labels)) for labels in y]
    q = [p[np.arange(len(p)), c] for p, c in zip(model.predict_proba(X), codes, strict=True)]
    # Weights that are multiples of 0.5 are numbers of copies.
    often = np.repeat(np.arange(len(X)), (2 * weights).astype(int))
    expected = objective_of(model, log_p[often], np.log(np.concatenate([q[i] for i in often])))
    assert model.train_score_[-1] == pytest.approx(expected)
    if "beam" not in name:
        assert model.validation_score_[-1] == pytest.approx(expected)


def test_weights_of_positions_in_a_local_model(letters):
    X, y = letters
    rng = np.random.default_rng(2)
    weights = [rng.choice([0, 1, 2], len(x)) for x in X]
    memm = TreeMEMM(order=0, **TREES).fit(X, y, sample_weight=weights)
    codes = [np.searchsorted(memm.classes_, list(labels)) for labels in y]
    q = [p[np.arange(len(p)), c] for p, c in zip(memm.predict_proba(X), codes, strict=True)]
    expected = np.average(np.log(np.concatenate(q)), weights=np.concatenate(weights))
    assert memm.train_score_[-1] == pytest.approx(expected)
    # Positions of order 0 are independent, so that a weight repeats a position.
    crf = TreeCRF(order=0, **TREES).fit(X, y, sample_weight=weights)
    assert_close_arrays(crf.predict_proba(X), memm.predict_proba(X), atol=1e-12)


def test_a_position_of_weight_0_is_a_part_of_its_sequence(letters):
    X, y = letters
    weights = [np.r_[0.0, np.ones(len(x) - 1)] for x in X]
    crf = TreeCRF(**TREES).fit(X, y, sample_weight=weights)
    assert not np.array_equal(
        crf.predict_proba(X)[0], TreeCRF(**TREES).fit(X, y).predict_proba(X)[0]
    )
    # Its label has no weight either, except through the labels after it.
    other = [labels.replace("x", "z")[:1] + labels[1:] for labels in y]
    memm = [
        TreeMEMM(order=0, **TREES).fit(X, labels, sample_weight=weights) for labels in (y, other)
    ]
    assert_equal_arrays(memm[0].predict_proba(X), memm[1].predict_proba(X))


@pytest.mark.parametrize("name", ["TreeCRF", "LinearCRF"])
def test_class_weights_multiply_sample_weights(name, letters):
    X, y = letters
    kind, settings = {"TreeCRF": (TreeCRF, TREES), "LinearCRF": (LinearCRF, {})}[name]
    weights = np.random.default_rng(3).choice([0.5, 1, 2], len(X))
    both = kind(class_weight={"x": 3.0}, **settings).fit(X, y, sample_weight=weights)
    products = [
        [w * (3 if label == "x" else 1) for label in labels]
        for labels, w in zip(y, weights, strict=True)
    ]
    product = kind(**settings).fit(X, y, sample_weight=products)
    assert_equal_arrays(both.predict_proba(X), product.predict_proba(X))


def test_validation_sequences_keep_their_weights(letters):
    X, y = letters
    weights = np.random.default_rng(4).choice([1, 5], len(X))
    settings = TREES | {"early_stopping": True, "validation_fraction": 0.3, "init": "zero"}
    crf = TreeCRF(**settings).fit(X, y, sample_weight=weights)
    unweighted = TreeCRF(**settings).fit(X, y)
    assert unweighted.validation_score_[0] == pytest.approx(crf.validation_score_[0])
    # Weights do not decide which sequences are held out.
    log_p = crf.predict_log_likelihood(X, y)
    lengths = np.array([len(x) for x in X])
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(X))
    again = TreeCRF(**settings).fit(
        [X[i] for i in shuffled], [y[i] for i in shuffled], sample_weight=weights[shuffled]
    )
    np.testing.assert_array_equal(again.validation_score_, crf.validation_score_)
    values = (log_p * weights).sum() / (lengths * weights).sum()
    assert crf.validation_score_[-1] != pytest.approx(values)  # of all sequences


def test_equal_sequences_of_different_weights_in_any_order():
    X, y = ["abca"] * 12 + ["bcab"] * 12, ["xyzx"] * 12 + ["yzxx"] * 12
    weights = np.random.default_rng(5).choice([1, 2, 5], 24)
    settings = TREES | {
        "subsample": 0.4, "early_stopping": True, "validation_fraction": 0.4, "init": "zero",
    }  # fmt: skip
    crf = TreeCRF(**settings).fit(X, y, sample_weight=weights)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(24)
        same = TreeCRF(**settings).fit(
            [X[i] for i in order], [y[i] for i in order], sample_weight=weights[order]
        )
        assert_equal_arrays(same.predict_proba(X), crf.predict_proba(X))


def test_labels_of_weight_0_are_classes(letters):
    X, y = letters
    model = TreeCRF(**TREES).fit([*X, "ab"], [*y, "ww"], sample_weight=[1] * len(X) + [0])
    assert model.classes_.tolist() == ["w", "x", "y", "z"]


def test_the_accuracy_of_perceptrons_is_weighted(letters):
    X, y = letters
    weights = np.random.default_rng(6).choice([0.5, 4], len(X))
    settings = {"max_iter": 1, "average": False, "shuffle": False}
    model = StructuredPerceptron(**settings).fit(
        X, y, X, y, sample_weight=weights, sample_weight_val=weights
    )
    expected = model.score(X, y, sample_weight=weights)
    assert model.validation_accuracy_.tolist() == [pytest.approx(expected)]
    assert expected != pytest.approx(model.score(X, y))
    assert 0 < model.train_accuracy_[0] < 1


def test_weights_of_accuracy(letters):
    X, y = letters
    model = TreeMEMM(**TREES).fit(X, y)
    wrong = [
        [int(a != b) for a, b in zip(predicted, labels, strict=True)]
        for predicted, labels in zip(model.predict(X), y, strict=True)
    ]
    assert model.score(X, y, sample_weight=wrong) == 0
    with pytest.raises(ValueError, match=r"sequence 1 has weight -1\.0"):
        model.score(X, y, sample_weight=[1, -1] + [1] * (len(X) - 2))


def test_estimators_without_weights_are_refused(letters):
    model = SlidingWindowClassifier(KNeighborsClassifier())
    with pytest.raises(ValueError, match=r"KNeighborsClassifier.fit does not support it"):
        model.fit(*letters, sample_weight=np.arange(24) + 1)
    model = SlidingWindowClassifier(LogisticRegression()).fit(*letters, sample_weight=np.ones(24))
    assert hasattr(model, "estimator_")


def test_invalid_weights_of_validation_data(letters):
    with pytest.raises(ValueError, match="validation data: X has 24 sequences, sample_weight has"):
        TreeCRF(**TREES).fit(*letters, *letters, sample_weight_val=[1])
    with pytest.raises(ValueError, match="sample_weight_val is given without X_val and y_val"):
        TreeCRF(**TREES).fit(*letters, sample_weight_val=[1] * 24)


@pytest.mark.parametrize("settings", [{}, {"order": 0}, {"class_weight": "balanced"}])
def test_weights_of_partly_labeled_sequences(settings, repeated):
    X, y, weights, _ = repeated
    rng = np.random.default_rng(7)
    y = [[None if rng.random() < 0.3 else label for label in labels] for labels in y]
    often = np.repeat(np.arange(len(X)), weights)
    expected = TreeCRF(**settings, **TREES).fit([X[i] for i in often], [y[i] for i in often])
    model = TreeCRF(**settings, **TREES).fit(X, y, sample_weight=weights)
    assert_equal_arrays(model.predict_proba(X), expected.predict_proba(X))
    check_scores(model, expected)
    score = model.score(X, y, sample_weight=weights)
    assert score == pytest.approx(model.score([X[i] for i in often], [y[i] for i in often]))


def test_a_wrapped_estimator_needs_a_weighted_example_of_each_label():
    from sklearn.tree import DecisionTreeClassifier

    model = SlidingWindowClassifier(DecisionTreeClassifier())
    with pytest.raises(ValueError, match=r"label 'y' occurs at no position .* weight is above 0"):
        model.fit(["ab", "ba"], ["xx", "yx"], sample_weight=[[1.0, 2.0], [0.0, 1.0]])
    model.fit(["ab", "ba"], ["xx", "yx"], sample_weight=[[1.0, 0.0], [3.0, 1.0]])
    for proba in model.predict_proba(["ab", "bb"]):
        np.testing.assert_allclose(proba.sum(axis=1), 1)


FRAME = pd.DataFrame(
    {
        "doc": [1, 1, 1, 2, 2, 3],
        "tag": list("abaabb"),
        "value": [0.1, 0.9, 0.2, 0.3, 0.4, 0.8],
        "w": [1.0, 2.0, 0.0, 3.0, 1.0, 0.5],
    }
)


@pytest.mark.parametrize("library", ["pandas", "polars", "list"])
def test_weights_may_be_a_column_of_data_frames(library, tmp_path):
    pytest.importorskip("narwhals")
    frame, names = FRAME, {"sample_weight": "w", "groups": "doc"}
    values = {"sample_weight": FRAME["w"].to_numpy(), "groups": "doc"}
    plain = FRAME.drop(columns="w")
    if library == "polars":
        polars = pytest.importorskip("polars")
        frame, plain = (polars.DataFrame(each.to_dict("list")) for each in (frame, plain))
    elif library == "list":
        frame, plain = ([g for _, g in each.groupby("doc")] for each in (frame, plain))
        names, values = {"sample_weight": "w"}, {"sample_weight": [g["w"] for g in frame]}
    crf = TreeCRF(**TREES).fit(frame, "tag", **names)
    expected = TreeCRF(**TREES).fit(plain, "tag", **values)
    crf.save(tmp_path / "m.treecrf")
    loaded = treecrf.load(tmp_path / "m.treecrf")
    assert loaded._columns == crf._columns
    for model in crf, loaded:
        assert model.get_feature_names_out().tolist()[-1] == "value"
        # The column is left out of predictions, too.
        assert_equal_arrays(
            np.vstack(model.predict_proba(frame)), np.vstack(expected.predict_proba(plain))
        )
        assert model.score(frame, "tag", **names) == expected.score(plain, "tag", **values)
    scratched = TreeCRF(**TREES).fit(frame, "tag", scratch=tmp_path, **names)
    assert_equal_arrays(
        np.vstack(scratched.predict_proba(frame)), np.vstack(crf.predict_proba(frame))
    )


def test_weights_of_validation_data_may_be_columns():
    for held_out in (
        {"X_val": FRAME, "y_val": "tag", "sample_weight_val": "w"},
        {"eval_set": [(FRAME, "tag", "w")]},
    ):
        crf = TreeCRF(scoring="loss", **TREES)
        crf.fit(FRAME, "tag", sample_weight="w", groups="doc", **held_out)
        assert crf.validation_score_[-1] == crf.train_score_[-1]


def test_errors_of_weights_that_name_columns():
    crf = TreeCRF(**TREES)
    with pytest.raises(ValueError, match=r"sample_weight='W' is not a column of X; .*'w'"):
        crf.fit(FRAME, "tag", sample_weight="W", groups="doc")
    with pytest.raises(ValueError, match="y and sample_weight both name the column 'tag'"):
        crf.fit(FRAME, "tag", sample_weight="tag", lengths=[3, 2, 1])
    with pytest.raises(ValueError, match="sample_weight and groups both name the column 'doc'"):
        crf.fit(FRAME, list("abaabb"), sample_weight="doc", groups="doc")
    with pytest.raises(TypeError, match="sample_weight is a string; expected a list of weights"):
        crf.fit(["ab"], ["xy"], sample_weight="w")
