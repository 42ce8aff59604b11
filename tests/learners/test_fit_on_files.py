"""Training on files and Arrow batches: the same model as with the data in memory."""

import errno
import gc
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from support.family import assert_same_forest
from support.open_files import open_files

from treecrf import LinearCRF, TreeCRF, split
from treecrf.inputs.large import scratch, tables

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

SETTINGS = {"window": 1, "max_iter": 4, "init": "zero", "early_stopping": False, "random_state": 0}


def make_table(seed=0, n_sequences=40):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 20, n_sequences)
    n = lengths.sum()
    number, word = rng.normal(size=n), rng.choice(["a", "b", "c"], n)
    tag = np.where((number > 0) ^ (word == "a"), "V", "N")
    return pa.table({
        "doc": np.repeat(np.arange(n_sequences), lengths),
        "number": pa.array(number, mask=rng.random(n) < 0.1),
        "word": word,
        "flag": rng.random(n) < 0.5,
        "tag": tag,
        "weight": rng.choice([0.5, 1.0, 2.0], n),
    })  # fmt: skip


TABLE = make_table()
FEATURES = ["doc", "number", "word", "flag", "tag"]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(tables, "MAX_PIECE_ROWS", 50)


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i, (start, stop) in enumerate([(0, 130), (130, 131), (131, len(TABLE))]):
        table = TABLE.select(FEATURES).slice(start, stop - start)
        parquet.write_table(table, data / f"{i}.parquet", row_group_size=37)
        csv.write_csv(table, data / f"{i}.csv")
    (tmp_path / "scratch").mkdir()
    return tmp_path


def assert_same_model(one, other):
    assert vars(one).keys() == vars(other).keys()
    for name, value in vars(one).items():
        if name == "init_" and value is not None:
            assert value.train_score_.tolist() == other.init_.train_score_.tolist()
        elif name.endswith("_") and not isinstance(value, dict):
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)
    assert_same_forest(one, other)
    assert one._encoder.state()[0] == other._encoder.state()[0]
    assert one._columns == other._columns


def source_of(folder, name):
    table = TABLE.select(FEATURES)
    sources = {
        "batches": lambda: table.to_batches(64),
        "reader": lambda: table.to_reader(64),
        "pandas": table.to_pandas,
    }
    return sources.get(name, lambda: str(folder / "data" / name))()


# The recorded fits are to files and to data in memory as well.
@pytest.mark.parametrize(
    ("source", "with_scratch", "sampling"),
    [
        ("*.csv", True, 0.2),
        ("batches", False, None),
        ("reader", True, None),
        ("reader", False, 0.2),
    ],
)
def test_the_model_is_that_of_the_table_in_memory(folder, source, with_scratch, sampling):
    where = folder / "scratch" if with_scratch else None
    crf = TreeCRF(**SETTINGS, sampling=sampling)
    fitted = clone(crf).fit(source_of(folder, source), "tag", groups="doc", scratch=where)
    assert_same_model(fitted, crf.fit(TABLE.select(FEATURES), "tag", groups="doc"))
    assert list((folder / "scratch").iterdir()) == []


@pytest.mark.parametrize("is_long", [False, True])
def test_scratch_files_with_masks_of_labels(folder, is_long):
    """Data in memory are cut into parts, and so are their masks."""
    frame, masks = TABLE.select(FEATURES).to_pandas(), np.ones((len(TABLE), 2), dtype=bool)
    masks[TABLE["flag"].to_numpy() & (TABLE["tag"].to_numpy() == "N"), 1] = False
    X, groups = frame, "doc"
    if not is_long:
        X, _ = split(frame, groups="doc")
        masks, groups = np.split(masks, np.cumsum(list(map(len, X)))[:-1]), None
    crf, arguments = TreeCRF(**SETTINGS), {"groups": groups, "allowed": masks}
    fitted = clone(crf).fit(X, "tag", scratch=folder / "scratch", **arguments)
    assert_same_model(fitted, crf.fit(X, "tag", **arguments))
    assert (crf.train_score_ > clone(crf).fit(X, "tag", groups=groups).train_score_).all()


@pytest.mark.parametrize("source", ["one file", "two files", "batches", "table"])
def test_the_index_of_pandas_is_not_a_feature(tmp_path, source):
    """pandas writes the index as a column unless it counts the rows."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.normal(size=40),
        "tag": rng.choice(["N", "V"], 40),
        "doc": [1, 2, 3, 4] * 10,
    }
    frame = pandas.DataFrame(columns).sort_values("doc", kind="stable")
    table = pa.Table.from_pandas(frame)
    assert "__index_level_0__" in table.column_names
    frame.iloc[:20].to_parquet(tmp_path / "a.parquet")
    frame.iloc[20:].reset_index(drop=True).to_parquet(tmp_path / "b.parquet")
    frame.to_parquet(tmp_path / "all.parquet")
    X = {
        "one file": tmp_path / "all.parquet",
        "two files": [tmp_path / "a.parquet", tmp_path / "b.parquet"],
        "batches": table.to_batches(),
        "table": table,
    }[source]
    crf = TreeCRF(**SETTINGS)
    fitted = clone(crf).fit(X, "tag", groups="doc")
    assert_same_model(fitted, crf.fit(frame, "tag", groups="doc"))
    assert fitted.feature_names_in_.tolist() == ["a"]
    found = fitted.predict(table.drop(["tag"]), groups="doc")
    assert found.tolist() == fitted.predict(frame[["a"]], groups=frame["doc"]).tolist()


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("sampling", [None, 0.2])
def test_pieces_are_read_twice_if_there_is_space(folder, monkeypatch, is_full, sampling):
    """With early stopping, sequences are held out: a further use of all pieces."""
    reads = []
    read = tables.TableReader.read

    def counted(pieces, i):
        reads.append(i)
        return read(pieces, i)

    def no_space(self, items):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(tables.TableReader, "read", counted)
    if is_full:
        monkeypatch.setattr(scratch.Scratch, "store", no_space)
    crf = TreeCRF(**SETTINGS | {"early_stopping": True}, sampling=sampling)
    fitted = clone(crf).fit(folder / "data" / "*.parquet", "tag", groups="doc")
    counts = {reads.count(i) for i in reads}
    assert counts == {2} if not is_full else min(counts) > 2
    assert_same_model(fitted, crf.fit(TABLE.select(FEATURES), "tag", groups="doc"))


def test_sample_weights_are_a_column(folder):
    fitted = TreeCRF(**SETTINGS).fit(
        TABLE.to_batches(), "tag", groups="doc", sample_weight="weight"
    )
    local = TreeCRF(**SETTINGS).fit(TABLE, "tag", groups="doc", sample_weight="weight")
    assert_same_model(fitted, local)


@pytest.mark.parametrize(
    ("with_scratch", "sampling", "scoring"), [(False, None, "accuracy"), (True, 0.2, "loss")]
)
def test_validation_data_may_be_files(folder, with_scratch, sampling, scoring):
    other = make_table(seed=1).select(FEATURES)
    parquet.write_table(other, folder / "other.parquet")
    files = folder / "data" / "*.parquet", "tag", folder / "other.parquet", "tag"
    settings = SETTINGS | {"early_stopping": True, "n_iter_no_change": 2, "scoring": scoring}
    crf = TreeCRF(**settings, sampling=sampling)
    groups = {"groups": "doc", "groups_val": "doc"}
    fitted = clone(crf).fit(*files, groups="doc", scratch=folder if with_scratch else None)
    assert_same_model(fitted, crf.fit(TABLE.select(FEATURES), "tag", other, "tag", **groups))
    local = clone(crf).fit(TABLE.select(FEATURES), "tag", *files[2:], **groups)
    assert_same_model(local, crf)
    # Sets to evaluate may be files, too.
    fitted.fit(*files[:2], groups="doc", eval_set=[files[2:]])
    crf.fit(TABLE.select(FEATURES), "tag", groups="doc", eval_set=[(other, "tag")])
    scores, expected = (model.evals_result_["valid_0"]["objective"] for model in (fitted, crf))
    assert scores.tolist() == expected.tolist()


def test_other_estimators_read_files_entirely(folder):
    crf = LinearCRF().fit(folder / "data" / "*.parquet", "tag", groups="doc")
    local = LinearCRF().fit(TABLE.select(FEATURES), "tag", groups="doc")
    np.testing.assert_array_equal(
        crf.predict(TABLE.select(FEATURES)), local.predict(TABLE.select(FEATURES))
    )


def test_masks_of_labels_need_data_in_memory():
    with pytest.raises(TypeError, match="allowed cannot be combined with files"):
        TreeCRF().fit(TABLE.to_batches(), "tag", groups="doc", allowed=[None])


@pytest.fixture
def fitted(folder):
    """A fitted model, which must stay as it is; nothing may be left of the scratch files."""
    crf = TreeCRF(**SETTINGS, sampling=0.2).fit(TABLE.select(FEATURES), "tag", groups="doc")
    before, files = dict(vars(crf)), open_files()
    yield crf
    assert vars(crf) == before
    assert list((folder / "scratch").iterdir()) == []
    gc.collect()
    assert open_files() <= files


def fit_again(crf, folder, **arguments):
    files = folder / "data" / "*.parquet"
    crf.fit(files, "tag", groups="doc", scratch=folder / "scratch", **arguments)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
class TestFailures:
    """Fits that do not end as planned."""

    def test_folders_that_are_not_there(self, fitted, folder):
        with pytest.raises(FileNotFoundError, match="there is no such file"):
            fitted.fit("missing.parquet", "tag", groups="doc")
        with pytest.raises(FileNotFoundError, match="no such folder for temporary files"):
            fitted.fit(TABLE, "tag", groups="doc", scratch=folder / "nowhere")

    @pytest.mark.parametrize("n_before", [0, 1, 2, 3])
    def test_full_disks(self, fitted, folder, monkeypatch, n_before):
        """The disk is full when the first file is written, or a later one."""
        fill, files = scratch._fill, iter(range(100))
        monkeypatch.setattr("treecrf.utils.allocation.MIN_BYTES", 1)

        def full(file, n_bytes):
            if next(files) >= n_before:
                raise OSError(errno.ENOSPC, "full")
            fill(file, n_bytes)

        monkeypatch.setattr(scratch, "_fill", full)
        with pytest.raises(OSError, match=r"need [\d,]+ more bytes, but [\d,]+ are free") as caught:
            fit_again(fitted, folder)
        assert caught.value.filename == str(folder / "scratch")

    @pytest.mark.parametrize("iteration", [0, 2])
    def test_interrupts(self, fitted, folder, iteration):
        def interrupt(info):
            if info.n_iter == iteration + 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit_again(fitted, folder, callbacks=[interrupt])

    def test_interrupts_while_files_are_read(self, fitted, folder, monkeypatch):
        read = tables.TableReader.read

        def interrupted(self, i):
            if i == 3:
                raise KeyboardInterrupt
            return read(self, i)

        monkeypatch.setattr(tables.TableReader, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit_again(fitted, folder)

    def test_values_that_are_not_valid(self, fitted, folder):
        table = TABLE.select(FEATURES).to_pandas()
        table.loc[200, "number"] = np.inf
        parquet.write_table(pa.Table.from_pandas(table), folder / "bad.parquet")
        scratch = folder / "scratch"
        match = r"^\S*bad.parquet, row 201, column 'number': inf is infinite"
        with pytest.raises(ValueError, match=match):
            fitted.fit(folder / "bad.parquet", "tag", groups="doc", scratch=scratch)
        match = r"^part from sequence \d+ on: sequence \d+, position \d+, column 'number': inf is"
        with pytest.raises(ValueError, match=match):
            fitted.fit(table, "tag", groups="doc", scratch=scratch)


LIMITED = """
import re, resource, sys
from pathlib import Path
from treecrf import TreeCRF

path, scratch, limit = sys.argv[1:]
settings = dict(window=1, max_iter=2, init="zero", early_stopping=False, sampling=0.5,
                max_examples=20_000, max_leaf_nodes=8, n_jobs=1, random_state=0)
import pyarrow.parquet
TreeCRF(**settings).fit(pyarrow.parquet.read_table(path).slice(0, 1000), "tag", groups="doc")
data = 1024 * int(re.search(r"VmData:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (data + int(limit), data + int(limit)))
crf = TreeCRF(**settings).fit(path, "tag", groups="doc", scratch=scratch or None)
print(crf.train_score_.tolist())
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and its limits")
def test_memory_may_be_smaller_than_the_arrays(tmp_path):
    """Scores of 20 labels at 200,000 positions have 336 MB; the process may allocate 120 MB."""
    rng = np.random.default_rng(0)
    n, n_labels = 200_000, 20
    codes = rng.integers(0, n_labels, n)
    table = pa.table({
        "doc": np.arange(n) // 50,
        "x": codes + rng.normal(size=n),
        "tag": np.char.add("t", codes.astype(str)),
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "a.parquet")

    def run(scratch, limit):
        arguments = [sys.executable, "-c", LIMITED, str(tmp_path / "a.parquet"), scratch, limit]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    limited = run(str(tmp_path), str(120 * 10**6))
    free = run("", str(10**10))
    assert limited.stderr == ""
    assert limited.stdout == free.stdout != ""
    assert "MemoryError" in run("", str(120 * 10**6)).stderr
