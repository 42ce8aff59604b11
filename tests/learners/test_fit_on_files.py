"""Training on files and Arrow batches: the same model as with the data in memory."""

import numpy as np
import pytest

from treecrf import LinearCRF, TreeCRF
from treecrf.inputs.files import pieces
from treecrf.utils import scratch

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
    monkeypatch.setattr(pieces, "MAX_PIECE_ROWS", 50)


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
        if name.endswith("_") and not isinstance(value, dict):
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)
    packed = [model._forest.pack() for model in (one, other)]
    for name, array in packed[0].items():
        np.testing.assert_array_equal(array, packed[1][name], err_msg=name)
    assert one._encoder.state()[0] == other._encoder.state()[0]
    assert one._columns == other._columns


@pytest.mark.parametrize("with_scratch", [False, True])
@pytest.mark.parametrize("source", ["*.parquet", "*.csv", "batches", "reader", "table"])
def test_the_model_is_that_of_the_table_in_memory(folder, source, with_scratch):
    table = TABLE.select(FEATURES)
    X = {"batches": table.to_batches(64), "reader": table.to_reader(64), "table": table}.get(
        source, str(folder / "data" / source)
    )
    where = folder / "scratch" if with_scratch else None
    fitted = TreeCRF(**SETTINGS).fit(X, "tag", groups="doc", scratch=where)
    assert_same_model(fitted, TreeCRF(**SETTINGS).fit(table, "tag", groups="doc"))
    assert list((folder / "scratch").iterdir()) == []


def test_sample_weights_are_a_column(folder):
    fitted = TreeCRF(**SETTINGS).fit(
        TABLE.to_batches(), "tag", groups="doc", sample_weight="weight"
    )
    table, weights = TABLE.drop_columns("weight"), TABLE["weight"].to_numpy()
    local = TreeCRF(**SETTINGS).fit(table, "tag", groups="doc", sample_weight=weights)
    assert_same_model(fitted, local)


def test_validation_data_may_be_files(folder):
    other = make_table(seed=1).select(FEATURES)
    parquet.write_table(other, folder / "other.parquet")
    fitted, local = (
        TreeCRF(**SETTINGS | {"early_stopping": True, "n_iter_no_change": 2}).fit(
            *data, groups="doc", groups_val="doc", eval_set=[(data[2], "tag")]
        )
        for data in (
            (folder / "data" / "*.parquet", "tag", folder / "other.parquet", "tag"),
            (TABLE.select(FEATURES), "tag", other, "tag"),
        )
    )
    assert_same_model(fitted, local)
    assert len(local.evals_result_) == 1
    for name, of_set in local.evals_result_.items():
        for metric, scores in of_set.items():
            np.testing.assert_array_equal(fitted.evals_result_[name][metric], scores)


def test_other_estimators_read_files_entirely(folder):
    crf = LinearCRF().fit(folder / "data" / "*.parquet", "tag", groups="doc")
    local = LinearCRF().fit(TABLE.select(FEATURES), "tag", groups="doc")
    np.testing.assert_array_equal(
        crf.predict(TABLE.select(FEATURES)), local.predict(TABLE.select(FEATURES))
    )


def test_masks_of_labels_need_data_in_memory():
    with pytest.raises(TypeError, match="allowed cannot be combined with files"):
        TreeCRF().fit(TABLE.to_batches(), "tag", groups="doc", allowed=[None])


def test_errors_leave_the_model_as_it_was(folder, monkeypatch):
    crf = TreeCRF(**SETTINGS).fit(TABLE, "tag", groups="doc")
    before = dict(vars(crf))

    def full(file, n_bytes):
        raise OSError(28, "full")

    monkeypatch.setattr(scratch, "_fill", full)
    with pytest.raises(FileNotFoundError, match="no such file"):
        crf.fit("missing.parquet", "tag", groups="doc")
    with pytest.raises(FileNotFoundError, match="no such folder for temporary files"):
        crf.fit(TABLE, "tag", groups="doc", scratch=folder / "nowhere")
    assert vars(crf) == before
