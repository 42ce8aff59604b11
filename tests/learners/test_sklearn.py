"""`TreeCRF` with the tools of scikit-learn: clone, search, pipelines, copies."""

from __future__ import annotations

import copy
import inspect
from dataclasses import fields

import joblib
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import check_is_fitted
from support.family import FAMILY, assert_equal_arrays, every
from support.settings import FIXED

from treecrf import FutureFeatures, PerSequence, SlidingWindowClassifier, TreeCRF, flatten

CHANGED = {
    "order": 2, "window": (2, 1), "max_iter": 3, "max_leaf_nodes": 7, "max_depth": 4,
    "l2_regularization": 0.5, "learning_rate": 0.5, "objective": "log", "second_order": True,
    "curvature": "diagonal",
    "min_gain": 0.01, "min_samples_leaf": 2, "max_features": 0.9, "max_features_per_tree": 0.7,
    "subsample": 0.8, "sampling": 0.5, "max_examples": 1000, "max_bins": 9,
    "missing": "impute", "categorical_features": None,
    "monotonic_cst": {}, "interaction_cst": "pairwise", "init": "pseudo_likelihood",
    "beam_width": None, "beam": "forward-only", "decoding": "minimum_risk",
    "cost_matrix": {("x", "y"): 2.0}, "transitions": ((True, True, True),) * 3,
    "constant_transitions": False, "multi_strategy": "one_output_per_tree",
    "early_stopping": True, "validation_fraction": 0.3,
    "n_iter_no_change": 2, "tol": 0.01, "scoring": "accuracy", "calibration": None,
    "warm_start": True,
    "class_weight": {"x": 2.0}, "n_jobs": 2, "random_state": 5, "verbose": 0,
}  # fmt: skip


def small(**parameters) -> TreeCRF:
    return TreeCRF(**{"max_iter": 3, "l2_regularization": 1.0} | FIXED | parameters)


def test_parameters_are_kept_as_given():
    window = [1, 2]
    crf = TreeCRF(window=window)
    assert crf.window is window
    assert TreeCRF(**CHANGED).get_params() == CHANGED
    assert TreeCRF().set_params(**CHANGED).get_params() == CHANGED
    assert set(CHANGED) == set(inspect.signature(TreeCRF).parameters)


def test_parameters_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        TreeCRF(1)
    with pytest.raises(ValueError, match="Invalid parameter 'depth' for estimator TreeCRF"):
        TreeCRF().set_params(depth=3)


def test_repr_shows_changed_parameters():
    assert repr(TreeCRF()) == "TreeCRF()"
    assert repr(TreeCRF(window=(1, 2), order=0)) == "TreeCRF(order=0, window=(1, 2))"
    assert "TreeCRF" in TreeCRF()._repr_html_()


def test_fitted_attributes_end_with_an_underscore(trained):
    check_is_fitted(trained)
    public = {name for name in vars(trained) if not name.startswith("_")}
    attributes = public - set(trained.get_params())
    assert attributes == {
        "classes_", "constant_transitions_", "feature_importances_", "init_", "n_features_in_",
        "n_iter_", "train_score_", "validation_score_", "evals_result_", "multi_strategy_",
        "temperature_", "window_",
    }  # fmt: skip


def test_a_copy_is_trained_independently(letters):
    X, y = letters
    crf = small(warm_start=True).fit(X, y)
    before = [p.copy() for p in crf.predict_proba(X)]
    for twin in (copy.copy(crf), copy.deepcopy(crf)):
        twin.set_params(max_iter=9).fit(X, y)
        assert (crf.n_iter_, twin.n_iter_) == (3, 9)
        assert_equal_arrays(before, crf.predict_proba(X))


def test_models_train_in_parallel(letters):
    X, y = letters
    search = GridSearchCV(small(n_jobs=2), {"max_iter": [1, 2]}, cv=2, n_jobs=2)
    with joblib.parallel_backend("threading"):
        search.fit(X, y)
    alone = GridSearchCV(small(), {"max_iter": [1, 2]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )


# Pipelines on long tables, metadata routing


def long_table():
    rng = np.random.default_rng(2)
    lengths = rng.integers(3, 7, 12)
    y = rng.integers(0, 2, lengths.sum())
    X = np.column_stack([y + rng.normal(scale=0.5, size=len(y)), rng.normal(size=len(y))])
    return X, y, np.repeat(np.arange(12), lengths)


def test_score_of_a_pipeline_with_metadata_routing():
    X, y, groups = long_table()
    weights = np.arange(len(y)) % 3 + 1.0
    with config_context(enable_metadata_routing=True):
        crf = small().set_fit_request(groups=True, sample_weight=True)
        crf = crf.set_score_request(groups=True, sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), crf)
        pipe.fit(X, y, groups=groups, sample_weight=weights)
        scaled = StandardScaler().fit_transform(X)
        direct = small().fit(scaled, y, groups=groups, sample_weight=weights)
        assert pipe.score(X, y, groups=groups) == direct.score(scaled, y, groups=groups)
        weighted = pipe.score(X, y, sample_weight=weights, groups=groups)
        assert weighted == direct.score(scaled, y, weights, groups=groups)
        if parse_version(sklearn.__version__) < parse_version("1.8"):
            return  # does not route metadata to the score of a pipeline
        scores = cross_val_score(
            pipe, X, y, cv=GroupKFold(3), params={"groups": groups}, error_score="raise"
        )
    assert (scores > 0.6).all()


# Tags


LONG = {"lengths": [5] * 6}
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 2, (6, 5))
TABLES = np.stack([CODES + RNG.normal(size=(6, 5)), RNG.normal(size=(6, 5))], axis=-1)
GAPS = np.where(RNG.random(TABLES.shape) < 0.1, np.nan, TABLES)
WORDS = np.where(CODES, "a", "b").astype(object)
# Data that an estimator accepts if and only if the tag of this name is true.
DATA = {
    "one_d_array": (RNG.integers(0, 3, 30), CODES.ravel(), LONG),
    "two_d_array": (TABLES.reshape(30, 2), CODES.ravel(), LONG),
    "three_d_array": (TABLES, CODES, {}),
    "sparse": (sparse.csr_array(TABLES.reshape(30, 2)), CODES.ravel(), LONG),
    "categorical": (RNG.integers(0, 3, 30), CODES.ravel(), LONG),
    "string": (WORDS.ravel(), CODES.ravel(), LONG),
    "dict": ([[{"a": value, "b": "u"} for value in row] for row in TABLES[..., 0]], CODES, {}),
    "allow_nan": (GAPS, CODES, {}),
}
GAPS_IN_SYMBOLS = (np.where(CODES.ravel(), None, WORDS.ravel()), CODES.ravel(), LONG)


@every(FAMILY)
def test_tags_are_true(name):
    tags = get_tags(FAMILY[name])
    accepts_tables = tags.input_tags.two_d_array
    for field in fields(tags.input_tags):
        X, y, cuts = DATA.get(field.name, (None, None, None))
        if field.name == "allow_nan" and not accepts_tables:
            X, y, cuts = GAPS_IN_SYMBOLS
        if X is None:
            assert getattr(tags.input_tags, field.name) is False
        elif getattr(tags.input_tags, field.name):
            clone(FAMILY[name]).fit(X, y, **cuts).predict(X, **cuts)
        else:
            with pytest.raises((ValueError, TypeError)):
                clone(FAMILY[name]).fit(X, y, **cuts)


@every(FAMILY)
def test_tags_of_labels_are_true(name):
    tags = get_tags(FAMILY[name])
    assert tags.requires_fit
    assert not tags.non_deterministic
    assert tags.target_tags.required
    assert tags.target_tags.one_d_labels
    assert tags.target_tags.two_d_labels
    with pytest.raises(TypeError):
        clone(FAMILY[name]).fit(DATA["string"][0], **LONG)
    for X, y in ((DATA["string"][0], CODES.ravel()), (DATA["one_d_array"][0], WORDS.ravel())):
        clone(FAMILY[name]).fit(X, y, **LONG)


def test_tags_of_a_wrapped_estimator_are_its_own():
    def allows_nan(estimator, **parameters):
        wrapped = SlidingWindowClassifier(estimator, **parameters)
        return get_tags(wrapped).input_tags.allow_nan

    assert allows_nan(DecisionTreeClassifier())
    assert not allows_nan(LogisticRegression())
    assert allows_nan(LogisticRegression(), missing="impute")
    model = SlidingWindowClassifier(LogisticRegression(), missing="impute").fit(GAPS, CODES)
    assert len(model.predict(GAPS)) == 6


def test_tags_of_flat_models(trained):
    tags = get_tags(flatten(trained))
    assert not tags.target_tags.required
    assert tags.transformer_tags is not None
    assert tags.input_tags.string


# No estimator is a classifier in the sense of scikit-learn


def test_folds_are_not_stratified_by_labels(letters):
    X, y = letters
    assert not is_classifier(TreeCRF())
    assert not is_regressor(TreeCRF())
    scores = cross_val_score(small(), X, y, cv=3)
    np.testing.assert_array_equal(scores, cross_val_score(small(), X, y, cv=KFold(3)))


# Documentation


@pytest.mark.parametrize(
    "estimator",
    [
        *{type(m): m for m in FAMILY.values()}.values(),
        PerSequence(StandardScaler()),
        FutureFeatures(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_html_links_to_the_documentation(estimator):
    name = type(estimator).__name__
    link = f"https://treecrf.readthedocs.io/en/latest/api/generated/treecrf.{name}.html"
    assert estimator._get_doc_link() == link
    assert f'href="{link}"' in estimator._repr_html_()
