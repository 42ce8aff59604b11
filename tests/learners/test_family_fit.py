"""Training, saved models and errors of all learners."""

from __future__ import annotations

import copy
import pickle
import re

import joblib
import numpy as np
import pytest
from fuzz.calls import check_call, garbage, labels_for, sequences
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from support.family import (
    BOOSTED,
    CORE,
    COUNTED,
    ESTIMATED,
    FAMILY,
    FAST,
    FLAT,
    GROWN,
    LINEAR,
    PREDICTING,
    STARTED,
    assert_close_arrays,
    assert_equal_arrays,
    assert_predicts_the_same,
    every,
    objective_of,
    value_of,
    variant,
)
from support.model_files import read, sealed
from support.settings import FIXED

import treecrf
from treecrf import LinearCRF, ModelFileError, RecurrentSlidingWindowClassifier, TreeCRF

TABULAR = BOOSTED | STARTED | LINEAR | ESTIMATED
SAVED = BOOSTED | STARTED | LINEAR | COUNTED
# One variant for each kind of content of a model file.
STORED = {
    "CRF of order 2", "recurrent window, backward", "flat CRF of order 2", "HMM of order 1",
    "linear CRF", "perceptron", "support vector machine with a kernel", "boosted features",
}  # fmt: skip
METHODS = ("predict", "predict_proba", "predict_pairwise_proba", "decode")


# Input


@every(FAMILY, fast=CORE)
@pytest.mark.parametrize("labels", [["x", "longer"], [3, -7], [False, True]])
def test_forms_of_labels(name, labels):
    X = ["ab" * 4, "ba" * 3, "b", "a"]
    y = [[labels["ab".index(letter)] for letter in word] for word in X]
    model = clone(FAMILY[name]).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert [one.tolist() for one in model.predict(X)] == y
    assert model.score(X, y) == 1
    known = model.predict(["ab"], known=[[None, labels[0]]])[0]
    assert known[1] == labels[0]
    assert known.dtype == model.classes_.dtype


# Errors

ABC = ["ab", "abc"]
T = np.zeros((2, 2))
# A few of the cases in the tests of the inputs, which all estimators read in the same way.
BAD_X = [
    [],
    [T, np.zeros((0, 2))],
    [T, np.zeros((2, 3))],
    [T, np.array([[1.0, np.nan], [np.inf, 4]])],
    T,
    "ab",
    None,
    [[["a"], ["b\0"]]],
]
BAD_Y = [["xy", "xy"], ["xy"], None, ["xx", "xxx"], [["x", 1], "xyz"], ["xy", [0, np.nan, 1]]]


def refusal(function, *arguments) -> tuple[type, str]:
    """Type and message of the error that a call raises."""
    with pytest.raises((ValueError, TypeError)) as refused:
        function(*arguments)
    return type(refused.value), str(refused.value)


@every(TABULAR, fast=CORE)
def test_bad_input_gives_the_same_error_for_all_learners(name, tables):
    model = clone(FAMILY[name]).fit(*tables)
    for X in BAD_X:
        expected = refusal(TreeCRF().fit, X, [[0, 1], [1, 0]])
        assert refusal(model.fit, X, [[0, 1], [1, 0]]) == expected
        for method in METHODS if X is not BAD_X[0] else ():  # an empty list has no predictions
            with pytest.raises((ValueError, TypeError)):
                getattr(model, method)(X)
    with pytest.raises(ValueError, match="sequence 1 has 4 features, the model was trained with 3"):
        model.predict([np.zeros((2, 3)), np.zeros((2, 4))])


@every(FAMILY, fast=CORE)
def test_bad_labels_give_the_same_error_for_all_learners(name, fitted):
    model = copy.copy(fitted(name))
    for y in BAD_Y:
        assert refusal(model.fit, ABC, y) == refusal(TreeCRF().fit, ABC, y)
    unseen = r"^sequence 1, position 2: label '\?' was not seen in training"
    with pytest.raises(ValueError, match=unseen):
        model.predict_log_likelihood(ABC, ["xy", "xy?"])
    for method in (model.predict_log_likelihood, model.score):
        with pytest.raises(ValueError, match="y holds integers, but the labels of the model"):
            method(["ab"], [[0, 1]])
        with pytest.raises(ValueError, match=r"^sequence 1: 2 labels for 3 positions$"):
            method(ABC, ["xy", "xy"])


@every(FAMILY, fast=CORE)
def test_an_unfitted_model_is_reported(name, letters, tmp_path):
    model = clone(FAMILY[name])
    message = f"This {type(model).__name__} instance is not fitted yet"
    for method in METHODS:
        with pytest.raises(NotFittedError, match=message):
            getattr(model, method)(letters[0])
    for method in (model.score, model.predict_log_likelihood):
        with pytest.raises(NotFittedError, match=message):
            method(*letters)
    with pytest.raises(NotFittedError, match=message):
        model.save(tmp_path / "model")


BAD_GIVEN = [
    ({"known": [[None] * 2]}, ValueError, "X has 2 sequences, known has 1"),
    ({"known": [["x", None, None], None]}, ValueError, "sequence 0: 3 known labels for 2 posit"),
    ({"known": [None, [None, None, "?"]]}, ValueError, "sequence 1, position 2: known label '?'"),
    ({"known": [None, [None, None, 1]]}, ValueError, "sequence 1, position 2: known label 1 was"),
    ({"known": [None, [["x"], None, None]]}, ValueError,
     "sequence 1, position 0: known label ['x'] is a collection; expected one label, or None;"),
    ({"known": [[{"x"}, None], None]}, ValueError,
     "sequence 0, position 0: known label {'x'} is a collection; expected one label, or None;"),
    ({"known": [None, 3]}, TypeError, "sequence 1: known is of type int; expected a list of lab"),
    ({"known": 3}, TypeError, "known is of type int; expected a list of label sequences"),
    ({"known": "xy"}, TypeError, "known is a string; expected a list of label sequences"),
    ({"allowed": [None]}, ValueError, "X has 2 sequences, allowed has 1"),
    ({"allowed": True}, TypeError, "allowed is of type bool; expected a list of masks"),
    ({"allowed": [None, np.ones((2, 3))]}, ValueError, "sequence 1: allowed has the shape (2, 3);"),
    ({"allowed": [np.full((2, 3), 2), None]}, ValueError, "sequence 0: allowed has other values"),
    ({"allowed": [[["q"] * 3] * 2, None]}, ValueError,
     "sequence 0, position 0: allowed label 'q' was not seen in training; expected labels in ["),
    ({"allowed": [None, [None, {"x"}, {"y", 1}]]}, ValueError,
     "sequence 1, position 2: allowed label 1 was not seen in training"),
    ({"allowed": [["x", None], None]}, ValueError,
     "sequence 0, position 0: allowed is 'x'; expected a set or a list of labels"),
    ({"allowed": [None, [{"x"}, None]]}, ValueError,
     "sequence 1: allowed has labels for 2 positions; expected 3"),
    ({"allowed": [[[1], [1, 0, 1]], None]}, ValueError,
     "sequence 0: allowed has rows of different lengths; expected a mask of shape (2, 3), or for"),
    ({"allowed": [None, [[1, 1, 1], [0, 0, 0], [1, 1, 1]]]}, ValueError,
     "sequence 1, position 1: no label is allowed"),
    ({"allowed": [[[1, 1, 1], [0, 1, 1]], None], "known": [[None, "x"], None]}, ValueError,
     "sequence 0, position 1: no label is allowed"),
]  # fmt: skip


@every(PREDICTING)
def test_bad_conditions_are_named(name, fitted):
    model = fitted(name)
    for given_, error, message in BAD_GIVEN:
        for method in METHODS:
            with pytest.raises(error, match=f"^{re.escape(message)}") as refused:
                getattr(model, method)(ABC, **given_)
            assert type(refused.value) is error
    for n_best in (0, -1, 1.5, "2", None):
        with pytest.raises(ValueError, match=r"n_best=.*; expected a positive integer"):
            model.decode(ABC, n_best)


@pytest.mark.parametrize("kind", [int, bool])
@pytest.mark.parametrize("row", [[1, 0], (True, False), np.array([False, True]), [1, 1]])
def test_rows_of_masks_between_sets_of_labels_are_refused(kind, row):
    """They would be read as the labels 0 and 1, both of which are then allowed."""
    labels = [np.array([0, 1, 1]).astype(kind), np.array([1, 0]).astype(kind)]
    crf = LinearCRF().fit([["a", "b", "b"], ["b", "a"]], labels)
    for other in None, {kind(1)}:
        with pytest.raises(ValueError, match=r"position 0: allowed is .*, labels or a row of a ma"):
            crf.predict([["a", "b"]], allowed=[[row, other]])
    found = crf.predict([["a", "b"]], allowed=[[[kind(1)], {kind(0), kind(1)}]])
    assert found[0].tolist() == [1, 1]


BAD_PARAMETERS = {
    "order": [-1, 1.5, "1", None], "calibration": ["isotonic", True],
    "window": [-1, 1.5, "ab", None, (1,), (1, 2, 3), (1, -1), (1.0, 1), ("a", 1), 10**30],
    "max_iter": [0, 1.5, "10", None], "max_leaf_nodes": [1, 2.5, None],
    "max_depth": [0, 2.5, "none"], "l2_regularization": [-1, np.nan, np.inf, "1", None],
    "learning_rate": [0, -1, np.nan, np.inf, "1"], "objective": ["hinge", None],
    "second_order": [1, "yes", None], "curvature": ["full", None], "min_gain": [-1, np.nan],
    "min_samples_leaf": [0, 1.5], "max_features": [0, 1.1, "sqrt", None],
    "max_features_per_tree": [0, 1.1, None], "subsample": [0, 1.1, None],
    "sampling": [0, -1, np.nan, "all"], "max_examples": [0, 1.5, "all"],
    "max_bins": [1, 256, 10.0, "all"], "categorical_features": ["from_type", 3],
    "missing": ["mean", None], "multi_strategy": ["both", None],
    "monotonic_cst": ["up", 1], "interaction_cst": ["none", 2],
    "init": ["one", None], "beam_width": [0, -1, 1.5, "10"], "beam": ["one-pass", None],
    "decoding": ["best", None],
    "cost_matrix": [3, "even", [[1]], [[0, 1], [1, 0]], [["a"] * 3] * 3, {("x", "?"): 1},
                    {"x": 1}],
    "transitions": ["iob", "bio", [[True] * 3] * 2, [[2] * 3] * 3, 1],
    "constant_transitions": [1, "yes", None], "early_stopping": ["always", 1],
    "validation_fraction": [0, 1, -0.1], "n_iter_no_change": [0, None],
    "scoring": ["f1", None, 3], "tol": [-1.0, np.nan], "warm_start": [1, None],
    "class_weight": ["even", [1, 2]], "n_jobs": [0, 1.5, "all"], "random_state": [-1, "seed"],
    "verbose": [-1, "yes"],
    # Of other learners
    "estimator": ["tree", 3, DecisionTreeClassifier], "direction": ["up", None],
    "laplace": [0, "1"], "C": [0],
    "kernel": ["sigmoid"], "gamma": [-1.0, "wide"], "degree": [0], "coef0": [np.inf],
    "average": ["no"], "cache_size": [0], "shuffle": [2], "bound": ["tight"],
    "line_search": ["yes"], "max_step": [0], "piece_length": [0], "bag_size": [0, "end"],
    "bag_direction": ["ahead"], "n_bins": [1, 255], "initial_score": [-31],
    "initial_effect": [0], "multiclass": ["none"],
}  # fmt: skip


@every(FAMILY, fast=CORE | STORED | {"future features of order 1"})
def test_bad_parameters_are_rejected_before_training(name, letters):
    model = FAMILY[name]
    for parameter in BAD_PARAMETERS.keys() & model.get_params():
        for value in BAD_PARAMETERS[parameter]:
            broken = clone(model).set_params(**{parameter: value})
            with pytest.raises((ValueError, TypeError), match=parameter):
                broken.fit(*letters)
            assert not any(attribute.endswith("_") for attribute in vars(broken))


def test_every_parameter_has_a_bad_value():
    assert set(TreeCRF().get_params()) <= set(BAD_PARAMETERS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(FAMILY)), st.data())
def test_almost_right_input_works_or_is_explained(name, data):
    X = data.draw(sequences)
    y = data.draw(labels_for(X))
    if name in BOOSTED | LINEAR:
        check_call(lambda: clone(FAMILY[name]).fit(X, y).predict_proba(X))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(FAMILY)), garbage, garbage)
def test_garbage_conditions_work_or_are_explained(fitted, name, allowed, known):
    model = fitted(name)
    check_call(lambda: model.predict_proba(ABC, allowed=allowed))
    check_call(lambda: model.predict_proba(ABC, known=known))
    check_call(lambda: model.predict_proba(ABC, known=[known, None], allowed=[allowed, None]))


# Tools of scikit-learn


@every(FAMILY, fast=CORE)
def test_it_works_with_tools_of_scikit_learn(name, fitted, letters):
    X, y = letters
    model = fitted(name)
    twin = clone(model)
    assert vars(twin).keys() == twin.get_params(deep=False).keys()
    assert repr(twin) == repr(FAMILY[name])
    assert_predicts_the_same(twin.fit(X, y), model, X)
    grid = {"decoding": ["marginal", "minimum_risk"], "n_jobs": [1, 2]}
    search = GridSearchCV(clone(model), grid, cv=2, error_score="raise").fit(X, y)
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    scores = cross_val_score(clone(model), X, y, cv=KFold(4), error_score="raise")
    assert scores[0] == clone(model).fit(X[6:], y[6:]).score(X[:6], y[:6])
    upper = FunctionTransformer(lambda words: [word.upper() for word in words])
    pipe = Pipeline([("upper", upper), ("model", clone(model))]).fit(X, y)
    assert pipe.score(X, y) == model.score(X, y)
    assert_equal_arrays(pipe.predict_proba(X), model.predict_proba(X))


@every(ESTIMATED)
def test_parameters_of_the_estimator_are_reached(name, letters):
    model = clone(FAMILY[name]).set_params(estimator=DecisionTreeClassifier(random_state=0))
    search = GridSearchCV(model, {"estimator__max_depth": [1, 4]}, cv=3).fit(*letters)
    assert (
        search.best_estimator_.estimator_.get_depth() <= search.best_params_["estimator__max_depth"]
    )
    assert not hasattr(search.best_estimator_.estimator, "tree_")


@every(PREDICTING)
def test_copies_predict_the_same(name, fitted, letters, tmp_path):
    model = fitted(name)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        copy.deepcopy(model),
    ):
        assert repr(again.get_params()) == repr(model.get_params())
        assert_predicts_the_same(model, again, letters[0])


@every(SAVED, fast=STORED)
def test_saved_models_predict_the_same(name, letters, tmp_path):
    X, y = letters
    costs = np.array([[0, 1, 9], [1, 0, 1], [2, 1, 0.5]])
    parameters = [
        {"decoding": "minimum_risk", "cost_matrix": costs},
        {"decoding": "minimum_risk", "cost_matrix": {("x", "z"): 9.0, ("z", "y"): np.float32(3)}},
    ]
    if getattr(FAMILY[name], "order", 0):
        parameters.append(
            {"transitions": np.ones((4, 3), dtype=bool), "cost_matrix": costs.tolist()}
        )
    for given_ in parameters:
        model = clone(FAMILY[name]).set_params(**given_).fit(X, y)
        model.save(tmp_path / "model")
        again = treecrf.load(tmp_path / "model")
        assert type(again) is type(model)
        assert_predicts_the_same(model, again, X)
        for parameter, value in given_.items():
            found = again.get_params()[parameter]
            if isinstance(value, dict):
                assert found == value
            elif not isinstance(value, str):
                np.testing.assert_array_equal(np.asarray(found), np.asarray(value))
        public = {n for n in vars(model) if n.endswith("_")}
        assert public == {n for n in vars(again) if n.endswith("_")}
        clone(again).fit(X, y)


def test_cost_matrices_of_pandas_are_saved(letters, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = letters
    costs = pandas.DataFrame(np.eye(3) * 4, index=list("xyz"), columns=list("xyz"))
    model = clone(FAMILY["HMM of order 1"]).set_params(cost_matrix=costs, decoding="minimum_risk")
    model.fit(X, y).save(tmp_path / "model")
    again = treecrf.load(tmp_path / "model")
    np.testing.assert_array_equal(again.cost_matrix, costs)
    assert_equal_arrays(again.predict(X), model.predict(X))


@every(ESTIMATED)
def test_a_model_around_an_estimator_is_not_saved(name, fitted, tmp_path):
    with pytest.raises(TypeError, match=r"around .* cannot be saved .* use joblib"):
        fitted(name).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# These arrays are not used in prediction.
UNCHECKED = {"feature_importances"}
# Names of columns are not in all files, and margins of thresholds and temperatures not in earlier
# ones.
OPTIONAL = {"columns", "columns.margins", "temperature"}


@every(SAVED | FLAT, fast=STORED)
def test_forged_files_are_rejected(name, fitted, tmp_path):
    path = tmp_path / "model"
    fitted(name).save(path)
    values, arrays = read(path)
    forged = [({part: None}, {}) for part in values]
    for number in values.keys() & {"order", "n_iter", "seed"}:
        forged += [({number: value}, {}) for value in (-1, 2**40, "1", 0.5, True)]
    forged += [({"order": 10**6}, {})]
    forged += [({"direction": "up"}, {})] if "direction" in values else []
    forged += [({"parameters": values["parameters"] | {"decoding": "best"}}, {})]
    forged += [({"parameters": values["parameters"] | {"depth": 3}}, {})]
    for part in arrays.keys() - UNCHECKED:
        forged += [({}, {part: np.zeros(0)}), ({}, {part: np.array([["a"]])})]
    forged += [({}, {"classes": arrays["classes"][::-1]}), ({}, {"classes": arrays["classes"][:2]})]
    for changed_values, changed_arrays in forged:
        if any(np.array_equal(arrays[part], array) for part, array in changed_arrays.items()):
            continue
        path.write_bytes(sealed(values | changed_values, arrays | changed_arrays))
        with pytest.raises(ModelFileError):
            treecrf.load(path)
    for part in {*values, *arrays} - OPTIONAL:
        path.write_bytes(sealed(
            {n: v for n, v in values.items() if n != part},
            {n: a for n, a in arrays.items() if n != part},
        ))  # fmt: skip
        with pytest.raises(ModelFileError):
            treecrf.load(path)


@every(SAVED | FLAT, fast=STORED)
def test_a_file_of_another_class_is_rejected_or_works(name, fitted, letters, tmp_path):
    path = tmp_path / "model"
    fitted(name).save(path)
    values, arrays = read(path)
    for other in {type(model).__name__ for model in FAMILY.values()}:
        path.write_bytes(sealed(values | {"class": other, "parameters": {}}, arrays))
        try:
            model = treecrf.load(path)
        except ModelFileError:
            continue
        assert np.isfinite(np.concatenate(model.predict_proba(letters[0]))).all()


# Training


def test_a_warm_start_keeps_its_direction(letters):
    model = RecurrentSlidingWindowClassifier(max_iter=2, warm_start=True).fit(*letters)
    model.set_params(max_iter=3, direction="right-to-left")
    with pytest.raises(ValueError, match="the model has direction='left-to-right', which cannot"):
        model.fit(*letters)


@every(GROWN)
def test_early_stopping_keeps_the_best_iteration(name, noisy):
    X, y = noisy
    model = clone(FAMILY[name]).set_params(early_stopping=True, n_iter_no_change=3, max_iter=60)
    if "scoring" in model.get_params():
        model.set_params(scoring="loss")
    model.fit(X[:20], y[:20], X[20:], y[20:])
    assert 0 <= model.n_iter_ < 57
    assert len(model.train_score_) == len(model.validation_score_) == model.n_iter_ + 1
    assert model.validation_score_.argmax() == model.n_iter_
    assert len(list(model.staged_predict_proba(X[:2]))) == model.n_iter_
    if name == "CRF in a beam of all contexts":
        # Validation in a beam uses single labels, since likelihoods are too high there.
        proba = np.concatenate(model.predict_proba(X[20:]))
        log_p = np.log(proba[np.arange(100), np.concatenate(y[20:])]).mean()
        assert model.validation_score_[-1] == pytest.approx(log_p)
        return
    assert model.validation_score_[-1] == pytest.approx(value_of(model, X[20:], y[20:]))
    if "exponential" in getattr(model, "objective", ""):
        return  # a logarithm of a mean is not a mean of logarithms
    held = clone(model).set_params(validation_fraction=0.2).fit(X, y)
    both = 0.8 * held.train_score_[-1] + 0.2 * held.validation_score_[-1]
    assert value_of(held, X, y) == pytest.approx(both)


@every(BOOSTED)
def test_a_truncated_model_is_that_of_a_shorter_fit(name, fitted, letters, tmp_path):
    X, y = letters
    whole = fitted(name)
    before = whole.predict_proba(X)
    for n, stage in enumerate(whole.staged_predict_proba(X), 1):
        assert_close_arrays(stage, whole.truncated(n).predict_proba(X), atol=1e-12)
    short = whole.truncated(1)
    expected = clone(whole).set_params(max_iter=1).fit(X, y)
    assert short.get_params() == whole.get_params()
    assert {attribute for attribute in vars(short) if attribute.endswith("_")} == {
        attribute for attribute in vars(whole) if attribute.endswith("_")
    }
    assert short.n_iter_ == 1
    for attribute in ("train_score_", "validation_score_", "feature_importances_"):
        np.testing.assert_allclose(getattr(short, attribute), getattr(expected, attribute))
    assert_predicts_the_same(short, expected, X)
    for kept, fresh in zip(short.decode(X), expected.decode(X), strict=True):
        assert_equal_arrays(kept, fresh)
    short.save(tmp_path / "short")
    assert_predicts_the_same(treecrf.load(tmp_path / "short"), expected, X)
    assert_predicts_the_same(whole.truncated(whole.n_iter_), whole, X)
    assert whole.truncated(0).truncated(0).n_iter_ == 0
    assert_equal_arrays(whole.predict_proba(X), before)


def test_a_truncated_model_keeps_the_scores_of_its_iterations(tables):
    X, y = tables
    settings = FIXED | {"l2_regularization": 1.0, "scoring": "accuracy"}
    crf = TreeCRF(max_iter=4, **settings).fit(X, y, eval_set=[(X[:5], y[:5]), (X, y)])
    short = crf.truncated(2)
    expected = TreeCRF(max_iter=2, **settings).fit(X, y, eval_set=[(X[:5], y[:5]), (X, y)])
    assert short.evals_result_.keys() == expected.evals_result_.keys() == {"valid_0", "valid_1"}
    for of_set, scores in short.evals_result_.items():
        for metric, values in scores.items():
            np.testing.assert_allclose(values, expected.evals_result_[of_set][metric])
    np.testing.assert_array_equal(short.validation_score_, expected.validation_score_)
    np.testing.assert_array_equal(short.feature_importances_, expected.feature_importances_)
    assert (short.feature_importances_ != crf.feature_importances_).any()
    # A warm start continues after the iterations kept.
    longer = short.set_params(max_iter=4, warm_start=True).fit(X, y)
    assert_predicts_the_same(longer, crf, X)


def test_invalid_numbers_of_iterations_raise(letters):
    crf = TreeCRF(max_iter=2)
    with pytest.raises(NotFittedError):
        crf.truncated(1)
    crf.fit(*letters)
    for n_iter in (-1, 3):
        with pytest.raises(ValueError, match=f"n_iter={n_iter}; expected 0 to 2, the iterations"):
            crf.truncated(n_iter)
    for n_iter in (1.0, True, None, "1"):
        with pytest.raises(TypeError, match="expected an integer"):
            crf.truncated(n_iter)


@every(ESTIMATED)
def test_a_wrapped_estimator_has_no_iterations(name, fitted, letters):
    for method in ("staged_predict_proba", "truncated"):
        with pytest.raises(AttributeError) as refused:
            getattr(fitted(name), method)
        assert "has no boosting iterations" in str(refused.value.__cause__)
    X, y = letters
    clone(FAMILY[name]).set_params(early_stopping="auto").fit(X, y)
    for given_ in (
        {"early_stopping": True}, {"warm_start": True}, {"class_weight": "balanced"},
        {"monotonic_cst": [1]}, {"interaction_cst": "pairwise"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{next(iter(given_))} cannot be used with"):
            clone(FAMILY[name]).set_params(**given_).fit(X, y)
    with pytest.raises(ValueError, match="X_val, y_val cannot be used with an estimator"):
        clone(FAMILY[name]).fit(X, y, X, y)
    with pytest.raises(ValueError, match="allowed cannot be used with an estimator"):
        clone(FAMILY[name]).fit(X, y, allowed=[None] * len(X))


@every(GROWN)
def test_allowed_labels_hold_in_training(name, letters):
    X, y = letters
    codes = [np.array(["xyz".index(v) for v in labels]) for labels in y]
    allowed = [np.eye(3, dtype=bool)[c] | (np.arange(len(c)) % 2 == 0)[:, None] for c in codes]
    model = clone(FAMILY[name]).fit(X, y, allowed=allowed)
    log_q = [-np.log(3) * mask.all(axis=1) for mask in allowed]
    free = objective_of(model, np.array([logs.sum() for logs in log_q]), np.concatenate(log_q))
    assert model.train_score_[0] == pytest.approx(free)
    assert model.train_score_[-1] > free
    masks = [None, *allowed[1:]]
    assert clone(model).fit(X, y, allowed=masks).train_score_[0] < free
    wrong = [np.ones((len(c), 3), dtype=bool) for c in codes]
    wrong[2][1, codes[2][1]] = False
    with pytest.raises(
        ValueError, match=f"^sequence 2, position 1: '{y[2][1]}' is forbidden by al"
    ):
        clone(model).fit(X, y, allowed=wrong)


@every()
def test_a_failed_fit_leaves_the_model_unchanged(name, fitted, letters):
    X, y = letters
    model = copy.copy(fitted(name))
    proba = model.predict_proba(X)
    before = dict(vars(model))
    for bad_X, bad_y in ((X, y[1:]), (X, [1] * len(y)), (X, None), (["", *X[1:]], y), ([], [])):
        with pytest.raises((ValueError, TypeError)):
            model.fit(bad_X, bad_y)
    if name in ESTIMATED:

        class Broken(DecisionTreeClassifier):
            def fit(self, *_):
                raise RuntimeError("broken")

        model.estimator = Broken()
        with pytest.raises(RuntimeError, match="broken"):
            model.fit(X, y)
        model.estimator = before["estimator"]
    assert vars(model).keys() == before.keys()
    assert all(value is before[n] for n, value in vars(model).items())
    assert_equal_arrays(model.predict_proba(X), proba)


@pytest.mark.parametrize("direction", ["left-to-right", "right-to-left"])
def test_a_fit_removes_the_results_of_the_previous_fit(direction, letters):
    X, y = letters
    trees = RecurrentSlidingWindowClassifier(max_iter=2, decoding="marginal", direction=direction)
    estimated = clone(trees).set_params(estimator=DecisionTreeClassifier(random_state=0))
    changed = clone(trees).fit(X, y).set_params(estimator=estimated.estimator).fit(X, y)
    assert vars(changed).keys() == vars(estimated.fit(X, y)).keys()
    changed.set_params(estimator=None).fit(X, y)
    assert vars(changed).keys() == vars(trees.fit(X, y)).keys()
    assert_predicts_the_same(changed, trees, X)


@every()
def test_settings_changed_after_the_fit_do_not_affect_the_model(name, fitted, letters):
    model = fitted(name)
    other = {"order": 1, "window": 3, "max_iter": 1, "estimator": None, "laplace": 9.0,
             "direction": "left-to-right", "max_bins": 3}  # fmt: skip
    changed = variant(model, **{n: v for n, v in other.items() if n in model.get_params()})
    assert_predicts_the_same(model, changed, letters[0])


@every(FAMILY, fast=FAST - {"support vector machine with a kernel"})
def test_threads_do_not_change_the_result(name):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcd"), n)) for n in (2500, 300, 1, 17, 900)]
    y = ["".join("xyz"["abcd".index(a) % 3] if rng.random() < 0.8 else "x" for a in w) for w in X]
    one, two = (clone(FAMILY[name]).set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    assert_predicts_the_same(one, two, X)
    if name in BOOSTED:
        np.testing.assert_array_equal(one.train_score_, two.train_score_)


# From right to left


def turned(items) -> list:
    return [item[::-1] for item in items]


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=4, random_state=0)])
@pytest.mark.parametrize("order", [0, pytest.param(1, marks=pytest.mark.exhaustive), 2])
@pytest.mark.parametrize(
    "decoding", [pytest.param("marginal", marks=pytest.mark.exhaustive), "greedy"]
)
def test_right_to_left_is_left_to_right_of_reversed_data(order, estimator, decoding, letters):
    X, y = letters
    left, right = (
        RecurrentSlidingWindowClassifier(
            estimator, direction=direction, window=window, order=order, max_iter=5,
            l2_regularization=1.0, decoding=decoding,
        ).fit(data, labels)
        for direction, window, data, labels in (
            ("left-to-right", (2, 1), turned(X), turned(y)), ("right-to-left", (1, 2), X, y),
        )
    )  # fmt: skip
    known = [[v if t % 3 == 1 else None for t, v in enumerate(labels)] for labels in y]
    known[0] = None
    allowed = [np.random.default_rng(0).random((len(x), 3)) < 0.7 for x in X]
    for mask, labels in zip(allowed, y, strict=True):
        mask[np.arange(len(labels)), ["xyz".index(v) for v in labels]] = True
    back = [None if labels is None else labels[::-1] for labels in known]
    for given_, reversed_ in (
        ({}, {}), ({"known": known}, {"known": back}),
        ({"allowed": allowed}, {"allowed": turned(allowed)}),
    ):  # fmt: skip
        for method in ("predict", "predict_proba"):
            ours, theirs = (getattr(m, method) for m in (right, left))
            assert_equal_arrays(ours(X, **given_), turned(theirs(turned(X), **reversed_)))
        assert_equal_arrays(
            right.predict_pairwise_proba(X, **given_),
            [pairs[::-1].transpose(0, 2, 1)
             for pairs in left.predict_pairwise_proba(turned(X), **reversed_)],
        )  # fmt: skip
        for n in (1, 3):
            ours, theirs = right.decode(X, n, **given_), left.decode(turned(X), n, **reversed_)
            labels = turned(theirs[0]) if n == 1 else list(map(turned, theirs[0]))
            for one, other in zip(ours[0], labels, strict=True):
                assert_equal_arrays(one if n > 1 else [one], other if n > 1 else [other])
            assert_equal_arrays(ours[1], theirs[1])
    np.testing.assert_array_equal(
        right.predict_log_likelihood(X, y), left.predict_log_likelihood(turned(X), turned(y))
    )
    if estimator is None:
        np.testing.assert_array_equal(right.train_score_, left.train_score_)
        for ours, theirs in zip(
            right.staged_predict_proba(X), left.staged_predict_proba(turned(X)), strict=True
        ):
            assert_equal_arrays(ours, turned(theirs))
