"""`PerSequence`: transformers of scikit-learn on lists of sequences, alone and in pipelines."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils import get_tags

from treecrf import LinearCRF, PerSequence, TreeCRF


@pytest.fixture
def frames(tables):
    pandas = pytest.importorskip("pandas")
    X, y = tables
    frames = [pandas.DataFrame(table, columns=["a", "b", "c"]) for table in X]
    for i, frame in enumerate(frames):
        frame["kind"] = ["uvw"[(i + t) % 3] for t in range(len(frame))]
        frame.index = range(100 * i, 100 * i + len(frame))
    return frames, y


def test_fits_all_positions_and_transforms_each_sequence(tables):
    X, y = tables
    found = PerSequence(StandardScaler()).fit(X, y)
    scaler = StandardScaler().fit(np.concatenate(X))
    np.testing.assert_array_equal(found.transformer_.mean_, scaler.mean_)
    for ours, table in zip(found.transform(X[:5]), X, strict=False):
        np.testing.assert_array_equal(ours, scaler.transform(table))
    assert found.transform([]) == []
    stacked = PerSequence(StandardScaler()).fit_transform(np.array([X[0][:4], X[1][:4]]))
    assert [len(table) for table in stacked] == [4, 4]


def test_transformers_may_use_the_neighbors_in_the_sequence():
    differences = FunctionTransformer(lambda x: np.diff(x, axis=0, prepend=x[:1]))
    found = PerSequence(differences).fit_transform([[[1.0], [3.0]], [[7.0], [8.0], [6.0]]])
    assert [table.ravel().tolist() for table in found] == [[0, 2], [0, 1, -2]]


def test_forms_of_sequences():
    lists = [[[1, 2], [3, 4]], [[5, 6]]]
    expected = StandardScaler().fit_transform(np.concatenate(lists))
    np.testing.assert_array_equal(
        np.concatenate(PerSequence(StandardScaler()).fit_transform(lists)), expected
    )
    matrices = [sparse.csr_array(np.array(table, dtype=float)) for table in lists]
    scaled = PerSequence(StandardScaler(with_mean=False)).fit_transform(matrices)
    assert all(sparse.issparse(table) for table in scaled)
    dicts = [[{"a": 1.0}, {"b": 2.0}], [{"a": 3.0, "c": 1.0}]]
    tables = PerSequence(DictVectorizer(sparse=False)).fit_transform(dicts)
    assert [table.shape for table in tables] == [(2, 3), (1, 3)]
    letters = CountVectorizer(analyzer="char", ngram_range=(2, 2))
    for words in ([["cat", "dog"], ["catch"]], [np.array(["cat", "dog"]), np.array(["catch"])]):
        assert [table.shape[0] for table in PerSequence(letters).fit_transform(words)] == [2, 1]
    assert PerSequence(CountVectorizer(analyzer="char")).fit_transform(["ab", "c"])[0].shape == (
        2,
        3,
    )


def test_frames_remain_frames(frames):
    pandas = pytest.importorskip("pandas")
    pandas_frames, y = frames
    columns = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), remainder="passthrough",
        verbose_feature_names_out=False,
    )  # fmt: skip
    found = PerSequence(columns).fit_transform(pandas_frames, y)
    for ours, frame in zip(found, pandas_frames, strict=True):
        assert isinstance(ours, pandas.DataFrame)
        assert ours.columns.tolist() == ["a", "b", "c", "kind"]
        assert ours["kind"].tolist() == frame["kind"].tolist()
        assert ours.index.equals(frame.index)
        assert ours["a"].dtype == float
    crf = LinearCRF(tol=1e-3).fit(found, y)
    assert crf.feature_names_in_.tolist() == ["a", "b", "c", "kind"]


def test_frames_of_polars(frames):
    polars = pytest.importorskip("polars")
    numbers = [frame[["a", "b"]] for frame in frames[0]]
    ours = PerSequence(StandardScaler()).fit_transform(numbers)
    theirs = PerSequence(StandardScaler()).fit_transform(list(map(polars.from_pandas, numbers)))
    for one, other in zip(ours, theirs, strict=True):
        assert isinstance(other, polars.DataFrame)
        assert other.columns == ["a", "b"]
        np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-14, atol=1e-14)


def test_sparse_results_of_frames_remain_sparse(frames):
    X, y = frames
    kinds = [frame[["kind"]] for frame in X]
    assert all(map(sparse.issparse, PerSequence(OneHotEncoder()).fit_transform(kinds, y)))


def test_output_as_set(frames, tables):
    pandas = pytest.importorskip("pandas")
    numbers = [frame[["a", "b"]] for frame in frames[0]]
    scaler = PerSequence(StandardScaler()).set_output(transform="default").fit(numbers)
    assert isinstance(scaler.transform(numbers)[0], np.ndarray)
    assert isinstance(scaler.set_output(transform="pandas").transform(numbers)[0], pandas.DataFrame)
    assert isinstance(scaler.set_output().transform(numbers)[0], pandas.DataFrame)
    scaler = PerSequence(StandardScaler().set_output(transform="pandas")).fit(tables[0])
    assert isinstance(scaler.transform(tables[0])[0], pandas.DataFrame)
    with config_context(transform_output="pandas"):
        found = PerSequence(StandardScaler()).fit(tables[0]).transform(tables[0])
    assert isinstance(found[0], pandas.DataFrame)
    assert PerSequence(StandardScaler()).fit(numbers).transform(numbers)[0].columns[1] == "b"


def test_names_of_features(frames, tables):
    numbers = [frame[["a", "b"]] for frame in frames[0]]
    scaler = PerSequence(StandardScaler()).fit(numbers)
    assert scaler.get_feature_names_out().tolist() == ["a", "b"]
    assert scaler.feature_names_in_.tolist() == ["a", "b"]
    assert scaler.n_features_in_ == 2
    scaler = PerSequence(StandardScaler()).fit(tables[0])
    assert not hasattr(scaler, "feature_names_in_")
    assert scaler.get_feature_names_out(["u", "v", "w"]).tolist() == ["u", "v", "w"]
    pipe = make_pipeline(PerSequence(StandardScaler()), PerSequence(PCA(2))).fit(numbers)
    assert pipe.get_feature_names_out().tolist() == ["pca0", "pca1"]


def test_supervised_transformers_get_the_labels_of_all_positions(tables, frames):
    X, y = tables
    best = PerSequence(SelectKBest(k=1)).fit(X, y)
    assert best.transformer_.get_support().tolist() == [False, True, False]
    with pytest.raises(ValueError, match="sequence 0: 3 labels for"):
        PerSequence(SelectKBest(k=1)).fit(X, [labels[:3] for labels in y])
    kinds = [frame[["kind"]] for frame in frames[0]]
    encoder = PerSequence(TargetEncoder(target_type="multiclass", random_state=0)).fit(kinds, y)
    assert encoder.transform(kinds)[0].shape[1] == 3
    unknown = [np.where(np.arange(len(labels)) == 1, np.nan, labels) for labels in y]
    scaler = PerSequence(StandardScaler()).fit(X, unknown)
    np.testing.assert_array_equal(scaler.transformer_.mean_, np.concatenate(X).mean(axis=0))


def test_pipelines_of_lists(tables):
    X, y = tables
    pipe = make_pipeline(PerSequence(StandardScaler()), LinearCRF())
    scores = cross_val_score(pipe, X, y, cv=4, error_score="raise")
    scaler = StandardScaler().fit(np.concatenate(X[6:]))
    crf = LinearCRF().fit([scaler.transform(table) for table in X[6:]], y[6:])
    assert scores[0] == crf.score([scaler.transform(table) for table in X[:6]], y[:6])
    assert pipe.fit(X, y).predict([]) == []
    grid = {"persequence__transformer__with_mean": [True, False], "linearcrf__window": [0, 1]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.best_estimator_[0].transformer_.with_mean in (True, False)


def test_clones_copies_and_parameters(tables):
    X, y = tables
    scaler = PerSequence(StandardScaler(with_mean=False)).fit(X, y)
    assert scaler.get_params()["transformer__with_mean"] is False
    twin = clone(scaler)
    assert not hasattr(twin, "transformer_")
    assert not hasattr(scaler.transformer, "mean_")
    assert twin.set_params(transformer__with_mean=True).transformer.with_mean
    assert scaler.transformer.with_mean is False
    for again in (copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        np.testing.assert_array_equal(again.transform(X)[0], scaler.transform(X)[0])
    assert "PerSequence" in scaler._repr_html_()
    assert get_tags(PerSequence(TargetEncoder())).target_tags.required
    assert not get_tags(scaler).target_tags.required
    assert get_tags(scaler).input_tags.allow_nan


def test_weights_without_routing(tables):
    X, _ = tables
    weights = np.arange(len(X)) + 1.0
    scaler = PerSequence(StandardScaler()).fit(X, sample_weight=weights)
    repeated = np.repeat(weights, [len(table) for table in X])
    expected = StandardScaler().fit(np.concatenate(X), sample_weight=repeated)
    np.testing.assert_array_equal(scaler.transformer_.mean_, expected.mean_)
    split = np.split(repeated, np.cumsum([len(table) for table in X])[:-1])
    again = PerSequence(StandardScaler()).fit(X, sample_weight=split)
    np.testing.assert_array_equal(again.transformer_.mean_, expected.mean_)
    ones = PerSequence(StandardScaler()).fit(X, sample_weight=np.ones(len(X)))
    np.testing.assert_allclose(ones.transformer_.mean_, np.concatenate(X).mean(axis=0))


def test_metadata_routing(tables):
    X, y = tables
    weights = np.arange(len(X)) + 1.0
    with config_context(enable_metadata_routing=True):
        for requested in (True, False):
            scaler = PerSequence(StandardScaler().set_fit_request(sample_weight=requested))
            crf = TreeCRF(max_iter=2).set_fit_request(sample_weight=True)
            pipe = make_pipeline(scaler, crf).fit(X, y, sample_weight=weights)
            inner = StandardScaler().set_fit_request(sample_weight=True)
            expected = PerSequence(inner).fit(X, **{"sample_weight": weights} if requested else {})
            mean = expected.transformer_.mean_
            np.testing.assert_array_equal(pipe[0].transformer_.mean_, mean)
            direct = TreeCRF(max_iter=2).fit(expected.transform(X), y, sample_weight=weights)
            np.testing.assert_array_equal(pipe.predict_proba(X)[0], direct.predict_proba(
                expected.transform(X))[0])  # fmt: skip
            # scikit-learn passes the weights of `score`, which none of the steps requests.
            assert pipe.score(X, y) == direct.score(expected.transform(X), y)


# Errors


def test_one_row_for_each_position():
    first_rows = PerSequence(FunctionTransformer(lambda x: x[:1]))
    with pytest.raises(ValueError, match="sequence 1: the transformer returned 1 rows for 2 pos"):
        first_rows.fit_transform([[[1.0]], [[2.0], [3.0]]])


@pytest.mark.parametrize("form", ["array", "frame", "matrix", "string"])
def test_long_tables_are_refused(form):
    pandas = pytest.importorskip("pandas")
    X = {
        "array": np.zeros((3, 1)), "frame": pandas.DataFrame({"a": [1.0]}),
        "matrix": sparse.csr_array(np.zeros((2, 2))), "string": "abc",
    }[form]  # fmt: skip
    message = "expected a list of sequences; a long table needs no PerSequence"
    with pytest.raises(TypeError, match=message):
        PerSequence(StandardScaler()).fit(X)
    fitted = PerSequence(StandardScaler()).fit([np.zeros((3, 1))])
    with pytest.raises(TypeError, match=message):
        fitted.transform(X)


def test_sequences_of_different_forms_are_refused(frames):
    frame = frames[0][0][["a", "b"]]
    with pytest.raises(TypeError, match="sequence 1 is a data frame of pandas, sequence 0 is"):
        PerSequence(StandardScaler()).fit([np.zeros((3, 2)), frame])
    with pytest.raises(ValueError, match="sequence 1 and sequence 0 do not have the same columns"):
        PerSequence(StandardScaler()).fit([frame, frame[["a"]]])
    reordered = PerSequence(StandardScaler()).fit([frame, frame[["b", "a"]]])
    np.testing.assert_allclose(reordered.transformer_.mean_, frame.mean())
    with pytest.raises(ValueError, match="X holds no sequences"):
        PerSequence(StandardScaler()).fit([])
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        PerSequence(StandardScaler()).fit([np.zeros((3, 2)), np.zeros((0, 2))])


BIG = 2**53
OF_INTEGERS = {
    "list": [[[BIG], [BIG + 1]], [[1], [2]]],
    "beside floats": [[[BIG, 0.5], [BIG + 1, 0.5]], [[1, 0.5], [2, 0.5]]],
    "floats in another sequence": [[[BIG], [BIG + 1]], [[1.0], [2.0]]],
    "arrays of two types": [np.array([[BIG], [BIG + 1]]), np.array([[1.0], [2.0]])],
    "unsigned": [np.array([[BIG], [BIG + 1]]), np.array([[1], [2]], dtype=np.uint64)],
    "objects": [np.array([[BIG], [BIG + 1]], dtype=object), np.array([[1.0], [2.0]])],
    "rows of arrays": [[np.array([BIG, 1]), np.array([BIG + 1, 1])], [[1, 0.5], [2, 0.5]]],
}


@pytest.mark.parametrize("X", OF_INTEGERS.values(), ids=OF_INTEGERS.keys())
def test_large_integers_remain_what_they_are(X):
    found = PerSequence(OrdinalEncoder()).fit(X)
    assert found.transformer_.categories_[0].tolist() == [1, 2, BIG, BIG + 1]
    assert [part[:, 0].tolist() for part in found.transform(X)] == [[2, 3], [0, 1]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_large_integers_that_frames_cannot_join_are_refused(library):
    frames = pytest.importorskip(library)
    X = [frames.DataFrame({"id": values}) for values in ([BIG, BIG + 1], [1.0, None])]
    with pytest.raises(ValueError, match=r"sequence 0, column 'id' holds integers beyond 2\*\*53"):
        PerSequence(OrdinalEncoder()).fit(X)


def test_numbers_beside_strings_remain_numbers():
    encoder = PerSequence(OrdinalEncoder()).fit([[["a", 9], ["b", 10]]])
    assert [values.tolist() for values in encoder.transformer_.categories_] == [["a", "b"], [9, 10]]


@pytest.mark.parametrize("as_rows", [False, True])
def test_values_under_a_mask_are_missing(as_rows):
    X = [np.ma.array([[1.0], [99.0]], mask=[[False], [True]]), np.array([[3.0], [5.0]])]
    X = [list(X[0]), X[1]] if as_rows else X
    scaler = PerSequence(StandardScaler()).fit(X)
    assert scaler.transformer_.mean_ == 3
    assert np.isnan(scaler.transform(X)[0]).tolist() == [[False], [True]]


def test_not_fitted():
    with pytest.raises(NotFittedError):
        PerSequence(StandardScaler()).transform([[[1.0]]])
