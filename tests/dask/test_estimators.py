"""Estimators without a cluster: parameters, copies, and predictions that are computed later."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
import dask.array
import dask.bag
import dask.dataframe
from dask.sizeof import sizeof
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from support.dask_data import cut, frame, sequences
from support.family import assert_equal_arrays

import treecrf
from treecrf.dask import DaskSlidingWindowClassifier, DaskTreeCRF, DaskTreeMEMM, cluster
from treecrf.dask.estimators import count_correct
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import RawData
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.base.training_data import LabeledSequences

CLASSES = [DaskTreeCRF, DaskTreeMEMM, DaskSlidingWindowClassifier]
FRAME = frame().drop(columns="weight")


@pytest.fixture(scope="module")
def local():
    settings = {"max_iter": 4, "window": 1, "early_stopping": False, "random_state": 0}
    return treecrf.TreeCRF(**settings).fit(FRAME, "tag", groups="doc")


@pytest.fixture
def fitted(local):
    return DaskTreeCRF.from_local(local)


@pytest.fixture(autouse=True)
def in_this_process():
    with dask.config.set(scheduler="synchronous"):
        yield


def collection(table=FRAME, n=4):
    return dask.dataframe.from_map(lambda part: part, cut(table, n), meta=table[:0])


@pytest.mark.parametrize("kind", CLASSES)
def test_constructors_are_those_of_the_local_classes_and_a_client(kind):
    own, local = (inspect.signature(c).parameters for c in (kind, kind._local_class))
    assert list(own.items())[:-1] == list(local.items())
    assert list(own)[-1] == "client"
    assert own["client"].default is None
    assert kind().get_params() == kind._local_class().get_params() | {"client": None}
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.__init__\(\) got an .*'windows'"):
        kind(windows=3)


@pytest.mark.parametrize("kind", CLASSES)
def test_docstrings_describe_all_parameters(kind):
    for name in inspect.signature(kind).parameters:
        assert f"\n{name} : " in kind.__doc__
    assert f"to a `{kind._local_class.__name__}` trained on all data" in kind.__doc__
    assert kind.__doc__.count("Parameters\n----------") == 1
    assert kind.__doc__.index("\nclient : ") < kind.__doc__.index("\nAttributes\n----------")


def test_copies_keep_the_parameters_and_pickles_lose_the_client(fitted):
    client = object()
    fitted.set_params(client=client, max_iter=9)
    cloned = clone(fitted)
    assert type(cloned) is DaskTreeCRF
    assert cloned.get_params() == fitted.get_params()
    assert cloned.client is client
    assert not hasattr(cloned, "classes_")
    restored = pickle.loads(pickle.dumps(fitted))
    assert restored.client is None
    assert restored.get_params() == fitted.get_params() | {"client": None}
    X, _ = sequences(FRAME)
    assert restored.predict(X)[0].tolist() == fitted.predict(X)[0].tolist()
    assert "object" in repr(fitted)


def test_local_estimators(fitted, local, tmp_path):
    same = fitted.to_local()
    assert type(same) is treecrf.TreeCRF
    assert not hasattr(same, "client")
    assert same.get_params() == local.get_params()
    fitted.save(tmp_path / "model.treecrf")
    loaded = treecrf.load(tmp_path / "model.treecrf")
    assert type(loaded) is treecrf.TreeCRF
    assert DaskTreeCRF.from_local(loaded).n_iter_ == 4
    with pytest.raises(TypeError, match="TreeMEMM; expected TreeCRF"):
        DaskTreeCRF.from_local(treecrf.TreeMEMM())
    assert not hasattr(DaskTreeCRF().to_local(), "classes_")


def test_predictions_of_a_frame_keep_index_and_order(fitted, local):
    table = FRAME.set_index(np.arange(len(FRAME))[::-1])
    lazy = fitted.predict(collection(table))
    assert lazy.npartitions == 4
    found = lazy.compute()
    assert found.index.equals(table.index)
    assert found.name == "tag"
    assert found.tolist() == local.predict(FRAME).tolist()
    found = fitted.predict_proba(collection(table)).compute()
    assert found.index.equals(table.index)
    assert found.columns.tolist() == ["M", "N", "P"]
    np.testing.assert_array_equal(found.to_numpy(), local.predict_proba(FRAME))


def test_names_of_columns_are_strings_for_integer_labels_without_a_name():
    X, y = sequences(FRAME)
    y = [["MNP".index(label) for label in labels] for labels in y]
    crf = DaskTreeCRF.from_local(treecrf.TreeCRF(max_iter=1, sampling=None).fit(X, y))
    table = collection(FRAME.drop(columns="tag"), 2)
    labels, proba = crf.predict(table, groups="doc"), crf.predict_proba(table, groups="doc")
    assert labels.name == "label"
    for found in (labels.to_frame(), proba):
        assert all(isinstance(name, str) for name in found.columns)
        assert found.compute().columns.tolist() == found.columns.tolist()
    assert proba.columns.tolist() == ["0", "1", "2"]


def test_decoded_frames(fitted, local):
    found = fitted.decode(collection()).compute()
    labels, logs = local.decode(FRAME)
    assert found["label"].tolist() == labels.tolist()
    repeats = FRAME.groupby("doc", sort=False).size()
    np.testing.assert_array_equal(found["log_probability"], np.repeat(logs, repeats))
    with pytest.raises(ValueError, match="n_best=2; expected 1"):
        fitted.decode(collection(), n_best=2)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decode"])
def test_types_are_those_of_the_metadata(fitted, method):
    lazy = getattr(fitted, method)(collection())
    part = lazy.partitions[3].compute()
    assert len(part) == 0
    for found in (part, lazy.partitions[0].compute()):
        if method == "predict":
            assert found.dtype == lazy.dtype
        else:
            assert found.dtypes.tolist() == lazy.dtypes.tolist()
            assert found.columns.tolist() == lazy.columns.tolist()


def test_bags(fitted, local):
    X, _ = sequences(FRAME)
    bag = dask.bag.from_sequence(X, npartitions=3)
    for found, expected in zip(fitted.predict(bag).compute(), local.predict(X), strict=True):
        assert found.tolist() == expected.tolist()
    assert len(fitted.predict_proba(bag).compute()) == len(X)
    labels, logs = local.decode(X)
    found = fitted.decode(bag).compute()
    assert [log for _, log in found] == logs.tolist()
    assert found[0][0].tolist() == labels[0].tolist()
    assert fitted.predict(bag.filter(lambda x: False)).compute() == []


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decode"])
def test_empty_sequences_and_partitions(fitted, local, method):
    X, _ = sequences(FRAME)
    gaps = [X[0], X[0][:0], [], *X[1:]]
    for parts in ([gaps], [[], gaps], [gaps[:2], [[]], gaps[3:]]):
        bag = dask.bag.from_delayed([dask.delayed(part) for part in parts])
        found = getattr(fitted, method)(bag).compute()
        expected = getattr(local, method)(gaps)
        expected = list(zip(*expected, strict=True)) if method == "decode" else expected
        for ours, theirs in zip(found, expected, strict=True):
            assert_equal_arrays(ours, theirs)
    empty = collection(FRAME, 4).map_partitions(lambda part: part[:0], meta=FRAME[:0])
    assert len(getattr(fitted, method)(empty).compute()) == 0
    (part,) = dask.compute(*getattr(fitted, method)([dask.delayed(FRAME[:0])]))
    assert len(part[0] if method == "decode" else part) == 0


def test_empty_sequences_have_no_part_in_scores(local):
    X, y = sequences(FRAME)
    gaps = RawData([[], *X, X[0][:0]], [[], *y, []], Segmentation())
    assert count_correct(gaps, local) == count_correct(RawData(X, y, Segmentation()), local)
    assert count_correct(RawData([[]], [[]], Segmentation()), local) == (0, 0, 0, 0)


def test_delayed_parts_and_files(fitted, local, tmp_path):
    X, _ = sequences(FRAME)
    parts = [dask.delayed(X[:20]), dask.delayed(X[20:])]
    found = [labels for part in dask.compute(*fitted.predict(parts)) for labels in part]
    for a, b in zip(found, local.predict(X), strict=True):
        assert a.tolist() == b.tolist()
    for i, part in enumerate(cut(FRAME, 3)[:2]):
        part.to_parquet(tmp_path / f"part-{i}.parquet")
    found = fitted.predict(str(tmp_path / "*.parquet")).compute()
    assert found.tolist() == local.predict(FRAME).tolist()


def test_the_model_is_one_task(fitted):
    lazy = fitted.predict(collection())
    keys = [key for key in lazy.__dask_graph__() if "treecrf-model" in str(key)]
    assert len(keys) == 1


def test_local_data_are_predicted_here(fitted, local):
    X, y = sequences(FRAME)
    assert fitted.predict(X)[0].tolist() == local.predict(X)[0].tolist()
    assert fitted.decode(X)[1].tolist() == local.decode(X)[1].tolist()
    assert fitted.score(X, y) == local.score(X, y)


def test_errors_without_a_cluster(monkeypatch):
    # Clients of other tests.
    monkeypatch.setattr("distributed.client._global_clients", {})
    crf = DaskTreeCRF()
    with pytest.raises(NotFittedError):
        crf.predict(collection())
    with pytest.raises(NotFittedError):
        crf.score(collection(), "tag")
    with pytest.raises(TypeError, match=r"X is of type list; expected a dask .*TreeCRF fits local"):
        crf.fit([FRAME], "tag")
    with pytest.raises(TypeError, match="X is of type DataFrame"):
        crf.fit(FRAME, "tag", groups="doc")
    with pytest.raises(ValueError, match="there is no Dask client; make one"):
        crf.fit(collection(), "tag", groups="doc")
    with pytest.raises(TypeError, match=r"client is of type str; expected distributed\.Client"):
        crf.set_params(client="tcp://127.0.0.1:8786").fit(collection(), "tag", groups="doc")
    with pytest.raises(ValueError, match="'max_iter' parameter of DaskTreeCRF"):
        DaskTreeCRF(max_iter=0).fit(collection(), "tag", groups="doc")
    with pytest.raises(ValueError, match="expected None on a cluster"):
        DaskSlidingWindowClassifier(estimator=treecrf.TreeCRF()).fit(collection(), "tag")


def test_errors_of_unsupported_methods_and_arguments(fitted):
    with pytest.raises(TypeError, match=r"Dask data frame has no rows .*frame\.compute\(\)"):
        fitted.predict_pairwise_proba(collection())
    for method in (fitted.predict, fitted.score):
        with pytest.raises(TypeError, match=r"X is a single Delayed.*; pass it in a list"):
            method(dask.delayed(FRAME))
    with pytest.raises(TypeError, match=r"estimator of treecrf\.dask$"):
        treecrf.TreeCRF().fit(collection(), "tag", groups="doc")
    with pytest.raises(TypeError, match=r"DaskTreeCRF\.fit does not support eval_set or lengths; "):
        DaskTreeCRF().fit(collection(), "tag", groups="doc", eval_set=[], lengths=[])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decode"])
def test_missing_columns_are_found_before_anything_is_computed(fitted, method):
    with pytest.raises(ValueError, match="X lacks the column 'number' of the training data"):
        getattr(fitted, method)(collection().drop(columns="number"))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decode"])
def test_arguments_are_checked_before_anything_is_computed(fitted, method):
    call, X = getattr(fitted, method), collection()
    with pytest.raises(TypeError, match=f"^{method} has no argument 'knwon'.*mean 'known'"):
        call(X, knwon=1)
    for name in ("known", "lengths", "allowed", "init_score"):
        with pytest.raises(TypeError, match=f"^{name} has values for positions or sequences"):
            call(X, **{name: [1, 2]})
    with pytest.raises(ValueError, match="groups='doc' is not a column of X"):
        call(X.drop(columns="doc"))
    with pytest.raises(ValueError, match=r"groups='dc' is not a column of X.*mean 'doc'"):
        call(X, groups="dc")
    with pytest.raises(TypeError, match="groups is of type Series; expected the name"):
        call(X, groups=X["doc"])


def test_data_without_groups_in_training():
    model = treecrf.TreeCRF(max_iter=1, sampling=None).fit(*sequences(FRAME))
    with pytest.raises(TypeError, match="groups is not given; expected the name of the column"):
        DaskTreeCRF.from_local(model).predict(collection().drop(columns="tag"))


@pytest.mark.parametrize("kind", ["array", "series"])
def test_other_collections(fitted, kind):
    X = dask.array.ones((3, 2)) if kind == "array" else collection()["number"]
    message = f"X is of type {kind.capitalize()}; expected a dask data frame"
    for call in (fitted.predict, fitted.decode, fitted.score):
        with pytest.raises(TypeError, match=message):
            call(X)
    with pytest.raises(TypeError, match=message):
        DaskTreeCRF().fit(X, "tag", groups="doc")


def test_index_of_a_file_is_a_column_as_in_training(tmp_path):
    """Tables of pyarrow have no index, which data frames of pandas restore."""
    FRAME.set_index(["doc", "number"]).to_parquet(tmp_path / "0.parquet")
    model = treecrf.TreeCRF(max_iter=2, sampling=None).fit(tmp_path, "tag", groups="doc")
    assert sorted(model.feature_names_in_) == ["number", "word"]
    found = DaskTreeCRF.from_local(model).predict(tmp_path).compute()
    assert found.tolist() == model.predict(FRAME).tolist()


def test_sizes_that_dask_sees():
    """Dask places and spills results by their sizes, which include arrays in attributes."""
    X = [np.zeros((100, 8)) for _ in range(10)]
    raw = RawData(X, [np.zeros(100, dtype=int)] * 10, Segmentation())
    assert sum(x.nbytes for x in X) < sizeof(raw) < 1.3 * sum(x.nbytes for x in X)
    sequences, _ = raw.read()
    labeled = LabeledSequences(sequences, np.zeros(1000, dtype=np.int32))
    assert sum(x.nbytes for x in X) < sizeof(labeled) < 1.3 * sum(x.nbytes for x in X)
    encoded = Encoder((0, 0), 255, "weighting").fit(sequences, 0).encode(sequences)
    assert sizeof(encoded) >= encoded.codes.nbytes


def test_sizes_of_long_lists_are_estimated(monkeypatch):
    rng = np.random.default_rng(0)
    X = [[{"word": "x" * n} for n in rng.integers(1, 50, 10)] for _ in range(3000)]
    raw = RawData(X, [["a"] * 10 for _ in X], Segmentation())
    estimate = sizeof(raw)
    measured = []
    monkeypatch.setattr(cluster, "sizeof", lambda value: measured.append(value) or 100)
    sizeof(raw)
    assert len(measured) < 10_000
    monkeypatch.undo()
    monkeypatch.setattr(cluster, "MAX_ITEMS", 100_000)
    assert estimate == pytest.approx(sizeof(raw), rel=0.1)
