"""Ensembles, calibration, scorers and displays of scikit-learn: right results, or errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn import metrics as of_sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE, RFECV, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.family import PREDICTING, every
from support.sweeps import pairs

from treecrf import (
    HMMClassifier,
    LinearCRF,
    PerSequence,
    SlidingWindowClassifier,
    StructuredPerceptron,
    TreeCRF,
    TreeMEMM,
)
from treecrf.metrics import get_scorer, token_f1_score

QUICK = {"max_iter": 3, "max_leaf_nodes": 4, "early_stopping": False}
MODELS = {
    "TreeCRF": TreeCRF(**QUICK),
    "TreeMEMM": TreeMEMM(**QUICK),
    "SlidingWindowClassifier": SlidingWindowClassifier(**QUICK),
    "LinearCRF": LinearCRF(),
    "StructuredPerceptron": StructuredPerceptron(random_state=0),
}
LABELS = {"two": ["off", "on"], "three": ["a", "b", "c"], "numbers": [0, 1]}


@pytest.fixture(scope="module", params=sorted(LABELS))
def table(request):
    """A data frame with the column of groups "day", its labels, and folds of whole days."""
    rng = np.random.default_rng(0)
    labels = np.array(LABELS[request.param])
    codes = np.concatenate([np.cumsum(rng.random(20) < 0.2) % len(labels) for _ in range(24)])
    days = np.repeat(np.arange(24), 20)
    frame = pd.DataFrame({"heat": codes + rng.normal(scale=0.8, size=480), "day": days})
    frame["light"] = rng.normal(size=480)
    return frame, labels[codes], list(GroupKFold(3).split(frame, codes, days))


@pytest.fixture(scope="module")
def lists(table):
    """The same days in a list, all of equal length."""
    frame, y, _ = table
    X = frame.drop(columns="day").to_numpy()
    return list(X.reshape(24, 20, 2)), list(y.reshape(24, 20))


@pytest.fixture(params=sorted(MODELS))
def model(request, table):
    frame, y, _ = table
    return clone(MODELS[request.param]).fit(frame, y, groups="day")


# Log-odds


@every(PREDICTING)
def test_decision_functions_are_the_logits_of_probabilities(name, fitted, letters):
    model, (X, _) = fitted(name), letters
    for p, odds in zip(model.predict_proba(X), model.decision_function(X), strict=True):
        expected = logit(p[:, 1] if p.shape[1] == 2 else p)
        inside = np.abs(expected) < 20
        np.testing.assert_allclose(odds[inside], expected[inside], rtol=1e-5, atol=1e-9)
        assert np.isfinite(odds).all()


def test_log_odds_of_certain_labels_are_finite():
    crf = TreeCRF(transitions={None: ["x"], "x": ["y"], "y": ["x"]}, max_iter=2)
    crf.fit(["abab", "ba"], ["xyxy", "xy"])
    odds = crf.decision_function(["ab"])[0]
    assert odds[0] < -700
    assert odds[1] > 700
    known = crf.decision_function(["ab", ""], known=[["x", "y"], []])
    np.testing.assert_array_equal(known[0], odds)
    assert known[1].shape == (0,)


# Calibration


@pytest.mark.parametrize(
    ("method", "whole"),
    pairs(
        product(["sigmoid", "isotonic"], [False, True]),
        lambda method, whole: whole == (method == "sigmoid"),
    ),
)
def test_calibration_keeps_the_order_of_probabilities(model, table, method, whole):
    """Scikit-learn once took the probabilities of the first of two labels for the second's."""
    frame, y, folds = table
    options = {"cv": folds} if whole else {}
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method=method, **options)
    found, proba = calibrated.fit(frame, y).predict_proba(frame), model.predict_proba(frame)
    np.testing.assert_array_equal(calibrated.classes_, model.classes_)
    for k in range(proba.shape[1]):
        assert np.corrcoef(found[:, k], proba[:, k])[0, 1] > 0.7
    assert np.mean(calibrated.predict(frame) == y) > np.mean(model.predict(frame) == y) - 0.05


def test_calibration_on_folds_of_whole_sequences_is_exact(model, table):
    frame, y, folds = table
    if len(model.classes_) > 2:
        return
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method="isotonic", cv=folds)
    found = calibrated.fit(frame, y).predict_proba(frame)[:, 1]
    odds = model.decision_function(frame)
    expected = IsotonicRegression(out_of_bounds="clip").fit(odds, y == model.classes_[1])
    np.testing.assert_allclose(found, expected.predict(odds), atol=1e-12)


def test_calibration_of_models_of_folds(table):
    frame, y, folds = table
    calibrated = CalibratedClassifierCV(LinearCRF(), cv=folds).fit(frame, y, groups="day")
    proba = LinearCRF().fit(frame, y, groups="day").predict_proba(frame)
    assert np.corrcoef(calibrated.predict_proba(frame)[:, 1], proba[:, 1])[0, 1] > 0.9


# Scorers by name


SCORINGS = ["accuracy", "f1_macro", "balanced_accuracy", "neg_log_loss", "matthews_corrcoef"]


@pytest.mark.parametrize("scoring", [*SCORINGS, "roc_auc", "roc_auc_ovr"])
def test_scorers_of_scikit_learn_score_data_frames(table, scoring):
    frame, y, folds = table
    crf = LinearCRF().fit(frame, y, groups="day")
    if scoring == "roc_auc" and len(crf.classes_) > 2:
        return
    labels, proba = crf.predict(frame), crf.predict_proba(frame)
    expected = {
        "accuracy": lambda: of_sklearn.accuracy_score(y, labels),
        "f1_macro": lambda: of_sklearn.f1_score(y, labels, average="macro"),
        "balanced_accuracy": lambda: of_sklearn.balanced_accuracy_score(y, labels),
        "neg_log_loss": lambda: -of_sklearn.log_loss(y, proba),
        "matthews_corrcoef": lambda: of_sklearn.matthews_corrcoef(y, labels),
        "roc_auc": lambda: of_sklearn.roc_auc_score(y, proba[:, 1]),
        "roc_auc_ovr": lambda: of_sklearn.roc_auc_score(y, proba, multi_class="ovr"),
    }[scoring]
    if scoring == "roc_auc_ovr" and len(crf.classes_) == 2:
        return
    assert of_sklearn.get_scorer(scoring)(crf, frame, y) == pytest.approx(expected())
    options = {"cv": folds, "params": {"groups": "day"}, "error_score": "raise"}
    assert np.isfinite(cross_val_score(LinearCRF(), frame, y, scoring=scoring, **options)).all()


FOR_LISTS = r"scoring by scikit-learn's \w+ compares labels of rows, but X is no data frame"


@pytest.mark.parametrize(
    ("scoring", "estimator"),
    pairs(
        product(SCORINGS, [LinearCRF(), HMMClassifier(), TreeCRF(**QUICK)]),
        lambda scoring, estimator: scoring == "f1_macro" or isinstance(estimator, LinearCRF),
    ),
)
def test_scorers_of_scikit_learn_refuse_sequences_before_training(lists, scoring, estimator):
    """Label sequences of equal length would be sets of labels; others would end as NaN."""
    X, y = lists
    X = [np.round(x[:, 0]).astype(int).astype(str).tolist() for x in X]
    model = clone(estimator)
    with pytest.raises(ValueError, match=FOR_LISTS):
        cross_val_score(model, X, y, cv=3, scoring=scoring)
    grid = {"decoding": ["marginal", "viterbi"]}
    ours = {"token": get_scorer("token_accuracy"), "rows": scoring}
    for several in (scoring, [scoring, "r2"], of_sklearn.get_scorer(scoring), ours):
        search = GridSearchCV(model, grid, cv=3, scoring=several, refit=False)
        with pytest.raises(ValueError, match=FOR_LISTS):
            search.fit(X, y)
    with pytest.raises(ValueError, match=FOR_LISTS):
        of_sklearn.get_scorer(scoring)(model.fit(X, y), X, y)


def test_scorers_of_scikit_learn_refuse_sequences_in_pipelines_and_processes(lists):
    X, y = lists
    pipe = make_pipeline(PerSequence(StandardScaler()), LinearCRF())
    for n_jobs in (None, 2):
        with pytest.raises(ValueError, match=FOR_LISTS):
            cross_val_score(pipe, X, y, cv=3, scoring="f1_macro", n_jobs=n_jobs)


def test_other_scorers_take_sequences(lists):
    """Those of this package, and those that scikit-learn makes of its metrics or of others."""
    X, y = lists
    crf = LinearCRF().fit(X, y)
    expected = token_f1_score(y, crf.predict(X))
    made = of_sklearn.make_scorer(token_f1_score)
    assert made(crf, X, y) == get_scorer("token_f1_macro")(crf, X, y) == expected
    options = {"cv": 3, "error_score": "raise"}
    found = cross_val_score(LinearCRF(), X, y, scoring=made, **options)
    several = {"made": made, "ours": get_scorer("token_f1_macro")}
    both = cross_validate(LinearCRF(), X, y, scoring=several, **options)
    np.testing.assert_array_equal(both["test_made"], found)
    np.testing.assert_array_equal(both["test_ours"], found)
    assert cross_val_score(LinearCRF(), X, y, **options).min() > 0.5


# Other tools


def test_stacks_of_fitted_models(table):
    frame, y, _ = table
    models = [(name, clone(MODELS[name]).fit(frame, y, groups="day"))
              for name in ("LinearCRF", "TreeCRF")]  # fmt: skip
    stack = StackingClassifier(models, cv="prefit").fit(frame, y)
    assert np.mean(stack.predict(frame) == y) > 0.7


def test_curves_and_predictions_of_folds(table):
    frame, y, folds = table
    options = {"cv": folds, "params": {"groups": "day"}}
    found = cross_val_predict(LinearCRF(), frame, y, **options)
    proba = cross_val_predict(LinearCRF(), frame, y, method="predict_proba", **options)
    for train, test in folds:
        crf = LinearCRF().fit(frame.iloc[train], y[train], groups="day")
        np.testing.assert_array_equal(found[test], crf.predict(frame.iloc[test]))
        np.testing.assert_array_equal(proba[test], crf.predict_proba(frame.iloc[test]))
    scores = cross_val_score(LinearCRF(), frame, y, **options)
    curve = validation_curve(
        LinearCRF(), frame, y, param_name="window", param_range=[0], **options
    )[1]
    np.testing.assert_array_equal(curve[0], scores)
    sizes = learning_curve(LinearCRF(), frame, y, train_sizes=[1.0], **options)[2]
    np.testing.assert_array_equal(sizes[0], scores)


REFUSING = {
    "VotingClassifier": lambda m: VotingClassifier([("a", m), ("b", m)]),
    "StackingClassifier": lambda m: StackingClassifier([("a", m), ("b", m)]),
    "OneVsRestClassifier": OneVsRestClassifier,
    "OneVsOneClassifier": OneVsOneClassifier,
    "BaggingClassifier": lambda m: BaggingClassifier(m, n_estimators=2),
    "AdaBoostClassifier": AdaBoostClassifier,
    "TunedThresholdClassifierCV": TunedThresholdClassifierCV,
    "RFE": RFE,
    "RFECV": RFECV,
    "SequentialFeatureSelector": lambda m: SequentialFeatureSelector(m, n_features_to_select=1),
}


@pytest.mark.parametrize("tool", sorted(REFUSING))
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_ensembles_and_selectors_refuse_sequences(table, lists, tool):
    frame, y, _ = table
    for data in ((frame, y), lists, (lists[0], ["".join(map(str, part)) for part in lists[1]])):
        with pytest.raises((TypeError, ValueError, NotImplementedError, AttributeError)):
            REFUSING[tool](LinearCRF()).fit(*data)


DISPLAYS = {
    "ConfusionMatrixDisplay": of_sklearn.ConfusionMatrixDisplay.from_estimator,
    "RocCurveDisplay": of_sklearn.RocCurveDisplay.from_estimator,
    "PrecisionRecallDisplay": of_sklearn.PrecisionRecallDisplay.from_estimator,
    "CalibrationDisplay": CalibrationDisplay.from_estimator,
    "partial_dependence": lambda m, X, _: partial_dependence(m, X, ["heat"]),
    "PartialDependenceDisplay": lambda m, X, _: PartialDependenceDisplay.from_estimator(
        m, X, ["heat"], target=m.classes_[0]
    ),
    "permutation_importance": lambda m, X, y: permutation_importance(m, X, y, random_state=0),
}


@pytest.mark.parametrize("tool", sorted(DISPLAYS))
def test_displays_refuse_estimators(table, tool):
    pytest.importorskip("matplotlib")
    frame, y, _ = table
    crf = LinearCRF().fit(frame, y, groups="day")
    with pytest.raises(ValueError, match=r"classifier|contiguous"):
        DISPLAYS[tool](crf, frame, y)


def test_thresholds_of_a_fitted_model_are_refused(table):
    frame, y, _ = table
    crf = LinearCRF().fit(frame, y, groups="day")
    with pytest.raises(ValueError, match="binary"):
        FixedThresholdClassifier(FrozenEstimator(crf), threshold=0.9).fit(frame, y).predict(frame)
