"""Model selection of scikit-learn on lists of sequences, on long tables, and in pipelines."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treecrf
from treecrf import FutureFeatureMEMM, FutureFeatures, HMMClassifier, LinearCRF, TreeCRF
from treecrf.metrics import get_scorer, make_scorer, span_f1_score, token_recall_score

TAGS = np.array(["B-X", "I-X", "O"])


def small(**parameters) -> TreeCRF:
    settings = {"max_iter": 3, "max_leaf_nodes": 4, "init": "zero", "early_stopping": False}
    return TreeCRF(**settings | parameters)


@pytest.fixture(scope="module")
def table():
    """A long table of two numbers, its labels, and the group of each position."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 8, 18)
    y = np.concatenate([rng.permutation(np.arange(length) % 3) for length in lengths])
    X = np.column_stack([y + rng.normal(scale=0.4, size=len(y)), rng.normal(size=len(y))])
    return X, TAGS[y], np.repeat([f"g{i}" for i in range(18)], lengths)


@pytest.fixture(scope="module")
def lists(table):
    """The sequences of the table, in a list."""
    X, y, groups = table
    cuts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    return np.split(X, cuts), np.split(y, cuts)


# One of each kind; the metrics have tests of their own.
@pytest.fixture(params=["log_likelihood", "span_f1", "token_f1_macro"])
def name(request):
    if request.param.startswith("span"):
        pytest.importorskip("seqeval")
    return request.param


# With metadata routing, scikit-learn 1.6.0 does not accept None.
NO_METADATA = {}


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def folds_of(X, y, groups, n=3) -> list:
    """Folds of the sequences of a list that are those of the positions in a long table."""
    names = list(dict.fromkeys(groups.tolist()))
    parts = GroupKFold(n).split(X, y, groups)
    return [
        tuple([names.index(g) for g in dict.fromkeys(groups[rows])] for rows in p) for p in parts
    ]


# Scores


@pytest.mark.parametrize("estimator", [small(), HMMClassifier(), LinearCRF(tol=1e-3)])
def test_scores_of_a_long_table_are_those_of_the_list(estimator, name, table, lists):
    X, y, groups = table
    if isinstance(estimator, HMMClassifier):
        X, lists = np.round(X[:, :1]).astype(int).ravel(), lists
        lists = [np.round(x[:, 0]).astype(int) for x in lists[0]], lists[1]
    fitted = clone(estimator).fit(*lists)
    scorer = get_scorer(name)
    expected = scorer(fitted, *lists)
    assert type(expected) is float
    assert scorer(fitted, X, y, groups=groups) == expected
    assert scorer(fitted, X, y, lengths=[len(labels) for labels in lists[1]]) == expected


def test_groups_may_be_a_column(table):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y, groups = table
    columns = {"a": X[:, 0], "b": X[:, 1], "day": groups}
    model = small().fit(pandas.DataFrame(columns), y, groups="day")
    scorer = get_scorer("log_likelihood")
    expected = scorer(model, pandas.DataFrame(columns).drop(columns="day"), y, groups=groups)
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        assert scorer(model, frame, frame["a"].__class__(y), groups="day") == expected
    with pytest.raises(ValueError, match="groups='month' is not a column of X"):
        scorer(model, pandas.DataFrame(columns), y, groups="month")


@pytest.mark.usefixtures("routing")
def test_cross_validation_of_a_long_table(name, table, lists):
    X, y, groups = table
    scorer = get_scorer(name).set_score_request(groups=True)
    crf = small().set_fit_request(groups=True)
    scores = cross_val_score(
        crf, X, y, cv=GroupKFold(3), params={"groups": groups}, scoring=scorer, error_score="raise"
    )
    expected = cross_val_score(
        small(), *lists, cv=folds_of(X, y, groups), scoring=get_scorer(name), error_score="raise",
        params=NO_METADATA,
    )  # fmt: skip
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.usefixtures("routing")
def test_transformers_of_sequences_in_a_pipeline(table, lists):
    """The scorer passes groups to the transformers that request them."""
    X, y, groups = table
    bags = FutureFeatureMEMM(
        order=0, bag_size=2, max_iter=2, max_future_features=1, instance_max_iter=2,
        early_stopping=False, random_state=0,
    )  # fmt: skip
    features = FutureFeatures(bags, append=True)
    requests = features.set_fit_request(groups=True).set_transform_request(groups=True)
    pipe = make_pipeline(requests, small().set_fit_request(groups=True))
    fitted, listed = pipe.fit(X, y, groups=groups), make_pipeline(clone(features), small())
    listed.fit(*lists)
    for name in ("log_likelihood", "sequence_accuracy"):
        scorer = get_scorer(name).set_score_request(groups=True)
        assert scorer(fitted, X, y, groups=groups) == scorer(listed, *lists)
    scores = cross_val_score(
        pipe, X, y, cv=GroupKFold(2), params={"groups": groups}, scoring=scorer, error_score="raise"
    )
    assert np.isfinite(scores).all()


@pytest.mark.usefixtures("routing")
def test_nested_search(table):
    X, y, groups = table
    scorer = get_scorer("token_f1_macro").set_score_request(groups=True)
    pipe = make_pipeline(StandardScaler(), small().set_fit_request(groups=True))
    grid = {"treecrf__max_iter": [1, 3]}
    search = GridSearchCV(pipe, grid, cv=GroupKFold(2), scoring=scorer, error_score="raise")
    scores = cross_val_score(
        search, X, y, cv=GroupKFold(3), params={"groups": groups}, scoring=scorer,
        error_score="raise",
    )  # fmt: skip
    assert np.isfinite(scores).all()
    search.fit(X, y, groups=groups)
    assert search.score(X, y, groups=groups) == scorer(search, X, y, groups=groups)
    assert search.score(X, y, groups=groups) == scorer(search.best_estimator_, X, y, groups=groups)


# Requests of metadata


@pytest.mark.usefixtures("routing")
def test_groups_that_are_not_requested_are_refused(table):
    X, y, groups = table
    crf, scorer = small().set_fit_request(groups=True), get_scorer("token_accuracy")
    message = "groups.*are not explicitly set as requested or not requested for "
    with pytest.raises(UnsetMetadataPassedError, match=message):
        cross_val_score(crf, X, y, cv=GroupKFold(3), params={"groups": groups}, scoring=scorer)


def test_requests_of_a_copy_are_its_own(routing, name):
    scorer = get_scorer(name).set_score_request(groups=True)
    requested = scorer.get_metadata_routing().score.requests
    assert requested == {"groups": True, "lengths": None}
    assert get_scorer(name).get_metadata_routing().score.requests["groups"] is None
    again = pickle.loads(pickle.dumps(scorer))
    assert again.get_metadata_routing().score.requests == requested
    assert repr(again) == repr(scorer)


def test_scorers_with_sample_weights_of_the_fit(lists):
    """Without metadata routing, weights are passed to `fit` alone; some versions warn."""
    X, y = lists
    grid = GridSearchCV(small(), {"window": [0, 1]}, scoring=get_scorer("token_f1_macro"), cv=2)
    weights = np.arange(1.0, len(X) + 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The scoring .* does not support sample_weight")
        grid.fit(X, y, sample_weight=weights)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


# Scorers with options


def test_scorers_of_other_metrics(table, lists, seqeval):
    X, y, groups = table
    model = small().fit(*lists)
    scorer = make_scorer(span_f1_score, scheme="iob2")
    predicted = model.predict(X, groups=groups)
    # True labels must follow the scheme, predicted ones need not.
    in_scheme = np.char.replace(y, "I-", "B-")
    expected = span_f1_score(in_scheme, predicted, scheme="iob2", groups=groups)
    listed = [np.char.replace(labels, "I-", "B-") for labels in lists[1]]
    assert scorer(model, X, in_scheme, groups=groups) == expected
    assert scorer(model, lists[0], listed) == expected
    for labels in ((X, y), (lists[0], lists[1])):
        cuts = {"groups": groups} if labels[0] is X else {}
        with pytest.raises(ValueError, match=r"^sequence \d of y_true, position \d: 'I-"):
            scorer(model, *labels, **cuts)
    assert repr(scorer) == "make_scorer(span_f1_score, scheme='iob2')"
    recall = make_scorer(token_recall_score, labels=["O"], average="macro")
    assert recall(model, X, y, groups=groups) == recall(model, *lists)

    def n_right(y_true, y_pred):
        return sum(map(np.sum, np.equal(y_true, y_pred)))

    assert make_scorer(n_right)(model, X, y, groups=groups) == (predicted == y).sum()


@pytest.fixture
def seqeval():
    return pytest.importorskip("seqeval")


# Unknown labels


def test_log_likelihood_of_partly_labeled_sequences(lists, table):
    X, y = lists
    model = small().fit(X, y)
    scorer = get_scorer("log_likelihood")
    partial = [labels.astype(object) for labels in y]
    partial[0][1] = None
    partial[1][:] = None
    partial[2][0] = {"B-X", "O"}
    partial[3] = None
    counted = sum(len(labels) for i, labels in enumerate(y) if i not in (1, 3))
    expected = model.predict_log_likelihood(X, partial).sum() / counted
    assert scorer(model, X, partial) == expected
    flat = np.concatenate([np.full(len(y[3]), None) if p is None else p for p in partial])
    assert scorer(model, table[0], flat, groups=table[2]) == expected
    with pytest.raises(ValueError, match=r"^y holds no known labels$"):
        scorer(model, X[:2], [None, np.full(len(y[1]), np.nan)])


# Data frames with a column of groups


@pytest.fixture
def frame(table):
    pandas = pytest.importorskip("pandas")
    X, _, groups = table
    return pandas.DataFrame({"a": X[:, 0], "day": groups, "b": X[:, 1]})


def test_the_column_of_groups_is_remembered(frame, table):
    _, y, groups = table
    model = small(random_state=0).fit(frame, y, groups="day")
    polars = pytest.importorskip("polars").from_pandas(frame)
    for table in (frame, frame[["b", "day", "a"]], polars, polars.to_arrow()):
        np.testing.assert_array_equal(model.predict(table), model.predict(frame, groups="day"))
    assert model.predict_proba(frame).shape == (len(y), 3)
    assert len(model.predict_pairwise_proba(frame)) == 18
    assert model.predict_log_likelihood(frame, y).shape == (18,)
    assert model.decode(frame)[0].shape == y.shape
    assert next(iter(model.staged_predict_proba(frame))).shape == (len(y), 3)
    assert model.score(frame, y) == model.score(frame, y, groups="day")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    features = frame[["a", "b"]]
    one = model.predict([features.iloc[:4]])
    assert len(one) == 1
    assert len(model.predict(features, lengths=[len(y)])) == len(y)
    with pytest.raises(TypeError, match="X is one DataFrame"):
        model.predict(features)
    unnamed = small().fit(features, y, groups=groups)
    with pytest.raises(TypeError, match="X is one DataFrame"):
        unnamed.predict(frame)


def test_scores_of_frames_without_metadata_routing(name, frame, table):
    _, y, groups = table
    scorer, folds = get_scorer(name), list(GroupKFold(3).split(frame, y, groups))
    crf = small(random_state=0)
    scores = cross_val_score(
        crf, frame, y, cv=folds, scoring=scorer, params={"groups": "day"}, error_score="raise"
    )
    train, test = folds[0]
    fitted = clone(crf).fit(frame.iloc[train], y[train], groups="day")
    expected = scorer(fitted, frame.iloc[test][["a", "b"]], y[test], groups=groups[test])
    assert scores[0] == scorer(fitted, frame.iloc[test], y[test]) == expected


@pytest.mark.parametrize("cv", [3, GroupKFold(3)])
def test_a_search_on_the_sequences_of_a_frame(cv, frame, table):
    _, y, groups = table
    X, labels = treecrf.split(frame.assign(state=y), "state", groups="day")
    people = {"groups": np.arange(18) // 3} if isinstance(cv, GroupKFold) else {}
    search = GridSearchCV(small(random_state=0), {"order": [0, 1]}, cv=cv, error_score="raise")
    search.fit(X, labels, **people)
    folds = GroupKFold(3).split(X, labels, **people) if people else KFold(3).split(X)
    for k, (train, test) in enumerate(folds):
        rows = [np.isin(groups, [f"g{i}" for i in part]) for part in (train, test)]
        for order in (0, 1):
            crf = small(random_state=0, order=order).fit(frame[rows[0]], y[rows[0]], groups="day")
            expected = crf.score(frame[rows[1]], y[rows[1]])
            assert search.cv_results_[f"split{k}_test_score"][order] == expected
    best = clone(search.best_estimator_).fit(frame, y, groups="day")
    predicted = search.best_estimator_.predict(frame, groups="day")
    np.testing.assert_array_equal(predicted, best.predict(frame))


def test_a_search_on_a_table_says_what_to_write(frame, table):
    X, y, groups = table
    folds = list(GroupKFold(3).split(frame, y, groups))
    advice = (
        r"searches of scikit-learn do not pass groups on: give them treecrf.split\(X, y, groups="
    )
    for table, cut, cv in (
        (frame, "day", folds),
        (frame, groups, GroupKFold(3)),
        (frame, frame["day"], GroupKFold(3)),
        (X, groups, GroupKFold(3)),
    ):
        search = GridSearchCV(small(), {"order": [0, 1]}, cv=cv, error_score="raise")
        with pytest.raises(TypeError, match=advice):
            search.fit(table, y, groups=cut)
    with pytest.raises(TypeError, match=advice):
        cross_val_score(small(), frame, y, cv=3, error_score="raise")


def test_predictions_of_all_folds_of_a_frame(frame, table):
    _, y, groups = table
    folds, crf = list(GroupKFold(3).split(frame, y, groups)), small(random_state=0)
    arguments = {"cv": folds, "params": {"groups": "day"}}
    predicted = cross_val_predict(crf, frame, y, **arguments)
    proba = cross_val_predict(crf, frame, y, method="predict_proba", **arguments)
    assert predicted.shape == y.shape
    assert proba.shape == (len(y), 3)
    for train, test in folds:
        fitted = clone(crf).fit(frame.iloc[train], y[train], groups="day")
        np.testing.assert_array_equal(predicted[test], fitted.predict(frame.iloc[test]))
        np.testing.assert_array_equal(proba[test], fitted.predict_proba(frame.iloc[test]))
