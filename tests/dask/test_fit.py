"""Fits on a cluster are equal, array for array, to those in one process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
import dask.bag
import dask.dataframe
from distributed import Client, Future
from support.dask_data import (
    SAMPLED,
    assert_equal_models,
    cancel_all,
    cut,
    frame,
    pair,
    part,
    sequences,
    spill,
)
from support.echoes import echoes
from support.persistent import LONG_STEPS, persistent
from support.sweeps import sweep

import treecrf
from treecrf.callbacks import Checkpoint
from treecrf.dask import DaskSlidingWindowClassifier, DaskTreeCRF, WorkersLostError
from treecrf.metrics import get_scorer

N = 4
FRAME = frame()
FEATURES = FRAME.drop(columns="weight")


def frames(crash=None):
    meta = FRAME[:0]
    table = dask.dataframe.from_map(part, range(N), n=N, crash=crash, meta=meta)
    return {"X": table[list(FEATURES.columns)], "y": "tag", "groups": "doc"}


def expected(kind=treecrf.TreeCRF, **settings):
    return kind(**SAMPLED | settings).fit(FEATURES, "tag", groups="doc")


def pairs():
    return {"X": dask.bag.from_delayed([dask.delayed(_zipped)(i) for i in range(N)])}


def _zipped(i):
    return list(zip(*pair(i), strict=True))


def two_bags():
    X = dask.bag.from_delayed([dask.delayed(_item)(i, 0) for i in range(N)])
    return {"X": X, "y": dask.bag.from_delayed([dask.delayed(_item)(i, 1) for i in range(N)])}


def _item(i, j):
    return pair(i)[j]


def delayed():
    return {"X": [dask.delayed(pair)(i) for i in range(N)]}


@pytest.mark.parametrize("inputs", [frames, pairs, two_bags])
def test_inputs(workers, inputs):
    found = DaskTreeCRF(**SAMPLED).fit(**inputs())
    assert_equal_models(found, expected())
    assert type(found) is DaskTreeCRF


def test_futures_and_validation_data(workers):
    futures = [workers.submit(pair, i, pure=False) for i in range(N)]
    X, y = sequences(frame(seed=1))
    local = treecrf.TreeCRF(**SAMPLED).fit(*sequences(FRAME), X, y)
    found = DaskTreeCRF(**SAMPLED).fit(futures, None, X, y)
    assert_equal_models(found, local)
    found = DaskTreeCRF(**SAMPLED).fit(futures, X_val=[dask.delayed((X, y))])
    assert_equal_models(found, local)
    assert all(future.status == "finished" for future in futures)


def test_files(workers, tmp_path):
    for i, table in enumerate(cut(FRAME, N)):
        # An index that does not count the rows is stored as a column.
        backward = list(reversed(range(len(table))))
        table.set_axis(backward).to_parquet(tmp_path / f"part-{i}.parquet")
    weighted = treecrf.TreeCRF(**SAMPLED).fit(
        FEATURES, "tag", groups="doc", sample_weight=FRAME["weight"].to_numpy()
    )
    for path in (tmp_path, f"{tmp_path}/*.parquet", f"file://{tmp_path}"):
        found = DaskTreeCRF(**SAMPLED).fit(path, "tag", groups="doc", sample_weight="weight")
        assert_equal_models(found, weighted)
    weights = FRAME["weight"].to_numpy()
    score = found.to_local().score(FEATURES, "tag", weights)
    assert found.score(tmp_path, "tag", "weight") == pytest.approx(score, abs=1e-12)


def test_local_validation_data(workers):
    """A list of sequences has no column of groups; a data frame may have one."""
    validation = sequences(frame(seed=1))
    found = DaskTreeCRF(**SAMPLED).fit(**frames(), X_val=validation[0], y_val=validation[1])
    local = treecrf.TreeCRF(**SAMPLED).fit(FEATURES, "tag", *validation, groups="doc")
    assert_equal_models(found, local)
    table = frame(seed=1).drop(columns="weight")
    assert_equal_models(DaskTreeCRF(**SAMPLED).fit(**frames(), X_val=table, y_val="tag"), local)
    with pytest.raises(ValueError, match=r"^validation data: sequence 0: "):
        DaskTreeCRF(**SAMPLED).fit(**frames(), X_val=validation[0], y_val=[["P"] * 99] * 60)


def test_series_of_labels_and_groups(workers):
    given = frames()
    X, crf = given["X"], DaskTreeCRF(**SAMPLED | {"max_iter": 1})
    with pytest.warns(UserWarning, match="y has the name of the column 'tag' of X"):
        crf.fit(X, X["tag"], groups="doc")
    assert crf.predict(X).name == "tag"
    with pytest.warns(UserWarning, match="groups has the name of the column 'doc' of X"):
        crf.fit(X, "tag", groups=X["doc"])


OPTIONS = [
    (DaskTreeCRF, {"subsample": 0.5, "max_examples": 200}),
    (DaskTreeCRF, {"early_stopping": True, "scoring": get_scorer("token_f1_macro")}),
    (DaskTreeCRF, {"window": 1000, "early_stopping": True}),
]


@pytest.mark.parametrize(("kind", "settings"), OPTIONS)
def test_options(workers, kind, settings):
    found = kind(**SAMPLED | settings).fit(**frames())
    assert_equal_models(found, expected(kind._local_class, **settings))


@pytest.mark.parametrize("is_constant", [False, True])
def test_steps_that_are_halved(workers, is_constant):
    X, y = persistent()
    settings = LONG_STEPS | {"sampling": 0.1, "constant_transitions": is_constant}
    found = DaskTreeCRF(**settings).fit(dask.bag.from_sequence(zip(X, y, strict=True), 3))
    local = treecrf.TreeCRF(**settings).fit(X, y)
    assert (np.diff(local.train_score_) > 0).all()
    assert_equal_models(found, local)


@pytest.mark.parametrize("distance", [0, 1, 3])
def test_choice_of_a_window(workers, distance):
    X, y = echoes(distance)
    settings = {"max_leaf_nodes": 8, "max_iter": 10, "sampling": 0.1, "random_state": 0}
    found = DaskTreeCRF(**settings).fit(dask.bag.from_sequence(zip(X, y, strict=True), 5))
    local = treecrf.TreeCRF(**settings).fit(X, y)
    assert found.window_ == local.window_
    assert (found.window_ == (0, 0)) == (distance == 0)
    assert_equal_models(found, local)


def test_callbacks_checkpoints_and_warm_starts(workers, tmp_path):
    path = tmp_path / "model.treecrf"
    calls = []
    callbacks = [lambda info: calls.append(info.n_iter) or info.n_iter == 4, Checkpoint(path)]
    DaskTreeCRF(**SAMPLED).fit(**frames(), callbacks=callbacks)
    assert calls == [1, 2, 3, 4]
    resumed = DaskTreeCRF.from_local(treecrf.load(path)).set_params(warm_start=True)
    assert resumed.n_iter_ == 4
    assert_equal_models(resumed.fit(**frames()), expected())


def test_lost_workers(workers, tmp_path):
    """Workers die while they read, and in an iteration."""
    crash = tmp_path / "crash"
    crash.touch()

    def kill_some(info):
        if info.n_iter == 3:
            pids = workers.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    with pytest.warns(UserWarning, match="was lost"):
        found = DaskTreeCRF(**SAMPLED).fit(**frames(str(crash)), callbacks=[kill_some])
    assert_equal_models(found, expected())
    assert not crash.exists()


@pytest.mark.parametrize("kind", sweep([DaskTreeCRF, DaskSlidingWindowClassifier], 1))
def test_spilled_and_copied_shards(workers, kind):
    """Arrays of a shard that comes from the disk, or from another worker, can be changed."""

    def act(info):
        shards = [key for key in workers.futures if "make-shard" in key]
        if info.n_iter == 2:
            workers.replicate([Future(key, workers) for key in shards])
        elif info.n_iter >= 3:
            workers.run(spill)

    settings = {"early_stopping": True, "max_iter": 8}
    found = kind(**SAMPLED | settings).fit(**frames(), callbacks=[act])
    assert_equal_models(found, expected(kind._local_class, **settings))


@pytest.mark.parametrize(
    "restart", [cancel_all, pytest.param(Client.restart, marks=pytest.mark.exhaustive)]
)
def test_restart(workers, restart):
    def restart_once(info):
        if info.n_iter == 3:
            restart(workers)

    with pytest.warns(UserWarning, match="restarted"):
        found = DaskTreeCRF(**SAMPLED).fit(**frames(), callbacks=[restart_once])
    assert_equal_models(found, expected())


@pytest.mark.exhaustive
@pytest.mark.parametrize(("tenths", "n"), [(1, 1), (8, 2), (15, 1), (22, 2)])
def test_death_at_any_time(workers, tenths, n):
    """Workers die at some time in the fit, or after it."""
    pids = list(workers.run(os.getpid).values())[:n]

    def kill():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(tenths / 10, kill)
    timer.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = DaskTreeCRF(**SAMPLED | {"early_stopping": True, "max_iter": 12}).fit(**frames())
    timer.join()
    assert_equal_models(found, expected(early_stopping=True, max_iter=12))


def test_lost_futures_and_the_estimator_stays(workers, tmp_path):
    """A failed fit leaves the estimator as it was, and its checkpoint."""

    def restart(info):
        if info.n_iter == 3:
            cancel_all(workers)

    path = tmp_path / "model.treecrf"
    crf = DaskTreeCRF(**SAMPLED | {"max_iter": 2}).fit(**frames())
    before = crf._forest
    futures = [workers.submit(pair, i, pure=False) for i in range(N)]
    crf.set_params(max_iter=6)
    with (
        pytest.warns(UserWarning, match="restarted"),
        pytest.raises(WorkersLostError, match=r"a future of X was lost .* pass delayed objects"),
    ):
        crf.fit(futures, callbacks=[Checkpoint(path), restart])
    assert crf._forest is before
    assert crf.n_iter_ == 2
    resumed = DaskTreeCRF.from_local(treecrf.load(path)).set_params(warm_start=True)
    assert_equal_models(resumed.fit(**delayed()), expected())


def test_errors_name_partitions(workers):
    crf = DaskTreeCRF(**SAMPLED)
    halves = [dask.delayed(FEATURES[:100]), dask.delayed(FEATURES[100:])]
    with pytest.raises(ValueError, match=r"'d\d+'.* partition"):
        crf.fit(halves, "tag", groups="doc")
    X, y = sequences(FRAME)
    with pytest.raises(ValueError, match="partition 1: sequence 0: "):
        crf.fit([dask.delayed((X, y)), dask.delayed((X[:1], [["P"] * 99]))])
    with pytest.raises(ValueError, match="X has 2 partitions, y has 1"):
        crf.fit([dask.delayed(X), dask.delayed(X)], [dask.delayed(y)])
    with pytest.raises(TypeError, match=r"partition 1: X holds an item .* list; without y, "):
        crf.fit([dask.delayed((X, y)), dask.delayed(X)])
    items = [
        dask.bag.from_sequence([(X[0], y[0]), item], npartitions=1) for item in ((1,), (1, 2, 3))
    ]
    with pytest.raises(TypeError, match="partition 0: X holds an item of type tuple of 1; without"):
        crf.fit(items[0])
    with pytest.raises(TypeError, match="partition 0: X holds both pairs and triples"):
        crf.fit(items[1])
    with pytest.raises(ValueError, match=r"partition [01]: sample_weight='w' is not a column"):
        crf.fit(halves, "tag", groups="doc", sample_weight="w")
    with pytest.raises(ValueError, match="partition 1: sequence 0: 99 labels"):
        DaskTreeCRF.from_local(expected(max_iter=1)).score(
            [dask.delayed((X, y)), dask.delayed((X[:1], [["P"] * 99]))]
        )
    with pytest.raises(TypeError, match="y is not given; expected the name of the column"):
        crf.fit(frames()["X"], groups="doc")
    with pytest.raises(ValueError, match="y_val is given without X_val"):
        crf.fit(**frames(), y_val=y)
    assert not hasattr(crf, "classes_")


def test_errors_in_names_of_columns(workers):
    """They are found in the metadata, before any partition is read."""
    X, crf = frames()["X"], DaskTreeCRF(**SAMPLED)
    kind = "expected the name of one column, or a collection of Dask with the partitions of X"
    cases = [
        (ValueError, r"y='tags' is not .* of X; .*did you mean 'tag'", X, "tags", "doc", None),
        (ValueError, "groups='a' is not a column of X; expected one of 'num", X, "tag", "a", None),
        (ValueError, "weight='w' is not a column of X; expected one of", X, "tag", "doc", "w"),
        (TypeError, "groups is not given; expected the name", X, "tag", None, None),
        (TypeError, f"groups is of type list; {kind}; join several", X, "tag", ["doc", "b"], None),
        (TypeError, f"y is of type list; {kind}$", X, ["M", "P"], "doc", None),
        (TypeError, f"weight is of type Series; {kind}$", X, "tag", "doc", FRAME["weight"]),
        (ValueError, "y and groups both name the column 'tag'", X, "tag", "tag", None),
        (ValueError, "groups and sample_weight both name .* 'doc'", X, "tag", "doc", "doc"),
        (TypeError, "groups is given, but X is a bag", pairs()["X"], None, "doc", None),
        (TypeError, "weight='w' names a column, but X is a bag", pairs()["X"], None, None, "w"),
        (TypeError, "X is an empty list; expected", [], "tag", "doc", None),
        (TypeError, "X is a single .*; pass it in a list", dask.delayed(0), "tag", "doc", None),
    ]
    for error, message, given, y, groups, weight in cases:
        with pytest.raises(error, match=message):
            crf.fit(given, y, groups=groups, sample_weight=weight)
    indexed = X.map_partitions(lambda part: part.set_index("doc"))
    with pytest.raises(ValueError, match=r"groups='doc' is the index of X, .* X\.reset_index\(\)"):
        crf.fit(indexed, "tag", groups="doc")
    assert_equal_models(crf.fit(indexed.reset_index(), "tag", groups="doc"), expected())


def test_groups_of_different_types(workers):
    """The same group would be two sequences."""
    number = FEATURES.assign(doc=FEATURES["doc"].str[1:].astype(int))
    text = number.assign(doc=number["doc"].astype(str))
    halves = [dask.delayed(number[:100]), dask.delayed(text[100:])]
    message = "groups holds numbers in partition 0, but groups holds strings in partition 1"
    with pytest.raises(TypeError, match=message):
        DaskTreeCRF(**SAMPLED).fit(halves, "tag", groups="doc")


def test_closed_client(cluster):
    client = Client(cluster, set_as_default=False)
    client.close()
    with pytest.raises(ValueError, match="client is closed; make one"):
        DaskTreeCRF(**SAMPLED, client=client).fit(**frames())


def test_errors_in_paths(workers, tmp_path):
    crf = DaskTreeCRF(**SAMPLED)
    (tmp_path / "t.csv").write_text("a,b\n")
    for path, message in [
        (tmp_path / "t.csv", r"t\.csv: expected Parquet files; pass dask\.dataframe\.read_csv"),
        (f"file://{tmp_path}/t.csv", r"t\.csv: expected Parquet files"),
        (f"file://{tmp_path}/no/*.parquet", r"no/\*\.parquet: no file matches"),
        (f"file://{tmp_path}/no", "no: there is no such file"),
        (f"file://{tmp_path}", "no file matches"),
    ]:
        with pytest.raises((OSError, ValueError), match=message):
            crf.fit(path, "tag", groups="doc")


def test_unreadable_files_are_named(workers, tmp_path):
    for i, table in enumerate(cut(FEATURES, N)):
        table.to_parquet(tmp_path / f"part-{i}.parquet")
    broken = tmp_path / "part-1.parquet"
    content = broken.read_bytes()
    for end in (0, len(content) - 9):
        broken.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"part-1\.parquet: .*Parquet"):
            DaskTreeCRF(**SAMPLED).fit(tmp_path, "tag", groups="doc")
    broken.write_bytes(content[:100] + bytes(200) + content[300:])
    for path in (tmp_path, f"file://{tmp_path}"):
        with pytest.raises(OSError, match=r"part-1\.parquet: "):
            DaskTreeCRF(**SAMPLED).fit(path, "tag", groups="doc")


def test_errors_in_values_name_the_file(workers, tmp_path):
    FEATURES[:100].to_parquet(tmp_path / "a.parquet")
    rest = FEATURES[FEATURES["doc"] > FEATURES["doc"][100]]
    for changed, message in (
        (rest.assign(number="x"), r"in .*b\.parquet, but numbers in .*a\.parquet"),
        (rest.drop(columns="word"), r"b\.parquet lacks the column 'word' of .*a\.parquet"),
        (rest.assign(number=np.inf), r"b\.parquet: .*infinite"),
        (FEATURES[100:], r"group 'd\d+' is in .*a\.parquet and in .*b\.parquet"),
    ):
        changed.to_parquet(tmp_path / "b.parquet")
        for path in (tmp_path, f"file://{tmp_path}"):
            with pytest.raises((ValueError, TypeError), match=message) as caught:
                DaskTreeCRF(**SAMPLED).fit(path, "tag", groups="doc")
            assert str(path) in str(caught.value)


def test_futures_of_another_client(workers, cluster):
    with Client(cluster, set_as_default=False) as other:
        futures = [other.submit(pair, i, pure=False) for i in range(N)]
        with pytest.raises(ValueError, match=r"X holds a future of another client, <Client: "):
            DaskTreeCRF(**SAMPLED, client=workers).fit(futures)
        assert_equal_models(DaskTreeCRF(**SAMPLED, client=other).fit(futures), expected())


def test_groups_of_a_score(workers):
    """They may be a series. Lists of sequences have none, whatever the training data had."""
    given = frames()
    X, crf = given["X"], DaskTreeCRF.from_local(expected())
    score = crf.to_local().score(FEATURES, "tag")
    assert crf.score(X, X["tag"], groups=X["doc"]) == score
    assert crf.score(pairs()["X"]) == score
    assert crf.score(delayed()["X"]) == score
    assert crf.score([dask.delayed(FEATURES)], "tag") == score


def test_mixed_versions(workers, monkeypatch):
    monkeypatch.setattr("treecrf.dask.cluster.fingerprint", lambda: "treecrf 0.0")
    with pytest.raises(RuntimeError, match=r"has treecrf .* the client has treecrf 0\.0\..*config"):
        DaskTreeCRF(**SAMPLED).fit(**frames())
    with dask.config.set({"treecrf.check-versions": False}):
        assert_equal_models(DaskTreeCRF(**SAMPLED).fit(**frames()), expected())


def test_names_of_tasks(workers, cluster):
    DaskTreeCRF(**SAMPLED).fit(**frames())
    names = {name for name in cluster.scheduler.task_prefixes if name.startswith("treecrf")}
    assert {"treecrf-draw", "treecrf-grow", "treecrf-encode-part", "treecrf-read-raw"} <= names


def test_score_of_weighted_sequences(workers):
    X, y = sequences(FRAME)
    crf = DaskTreeCRF(**SAMPLED).fit(**delayed())
    weights = np.arange(len(X)) + 1.0
    triples = [
        dask.delayed((X[:30], y[:30], weights[:30])),
        dask.delayed((X[30:], y[30:], weights[30:])),
    ]
    assert crf.score(triples) == pytest.approx(crf.to_local().score(X, y, weights), abs=1e-12)
    weights[:30] = 0  # the first partition has none
    triples[0] = dask.delayed((X[:30], y[:30], weights[:30]))
    assert crf.score(triples) == pytest.approx(crf.to_local().score(X, y, weights), abs=1e-12)
    with pytest.raises(ValueError, match="sample_weight is 0 at all known labels"):
        crf.score([dask.delayed((X[:2], [[None] * len(X[0]), y[1]], [1.0, 0.0]))])
    with pytest.raises(ValueError, match=r"partition 0: y holds .*, but the labels of the model"):
        crf.score([dask.delayed((X, [[0] * len(labels) for labels in y]))])


def test_most_labels_are_unknown(workers):
    X, y = sequences(FRAME)
    sparse_y = [[label if t == 0 else None for t, label in enumerate(labels)] for labels in y]
    parts = [dask.delayed((X[a:b], sparse_y[a:b])) for a, b in ((0, 30), (30, len(X)))]
    local = treecrf.TreeCRF(**SAMPLED)
    with pytest.warns(UserWarning, match="y holds no label for .* positions, and training") as one:
        local.fit(X, sparse_y)
    with pytest.warns(UserWarning, match="y holds no label for .* positions, and training") as two:
        crf = DaskTreeCRF(**SAMPLED).fit(parts)
    assert [str(each.message) for each in one] == [str(each.message) for each in two]
    with pytest.warns(UserWarning, match="y holds no label for .* and the score counts") as one:
        expected = local.score(X, sparse_y)
    with pytest.warns(UserWarning, match="y holds no label for .* and the score counts") as two:
        assert crf.score(parts) == expected
    assert [str(each.message) for each in one] == [str(each.message) for each in two]


def test_memory_is_predicted(workers, monkeypatch):
    monkeypatch.setattr("treecrf.dask.partitions.FIXED_BYTES", 1 << 30)
    with pytest.raises(MemoryError, match=r"3\d\d positions needs about \d+ GB on worker tcp://.*"):
        DaskTreeCRF(**SAMPLED).fit(**delayed())
