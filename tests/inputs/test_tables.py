"""Tables of files and Arrow batches in pieces of whole sequences."""

import errno
import gzip
import io
import threading
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.open_files import FOLDER, open_files
from support.sweeps import pairs

from treecrf.cli.tables import RowFile
from treecrf.inputs.dataset import RawData
from treecrf.inputs.large import csv_file, scanned_tables, table_sources, tables
from treecrf.inputs.large.tables import TableOptions, feature_columns, open_tables
from treecrf.inputs.paths import are_tables
from treecrf.inputs.segmentation import Segmentation

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")

LENGTHS = [1, 7, 2, 30, 1, 1, 12, 5, 3, 9]
N_ROWS = sum(LENGTHS)


def make_table(with_nulls=True):
    rng = np.random.default_rng(5)
    missing = rng.random((4, N_ROWS)) < (0.2 if with_nulls else 0)
    values = {
        "doc": [f"d{i}" for i in np.repeat(np.arange(len(LENGTHS)), LENGTHS)],
        "number": pa.array(rng.normal(size=N_ROWS), mask=missing[0]),
        "word": pa.array(rng.choice(["a", "b b", "ü"], N_ROWS), mask=missing[1]),
        "flag": pa.array(rng.random(N_ROWS) < 0.5, mask=missing[2]),
        "whole": pa.array(rng.integers(0, 5, N_ROWS), mask=missing[3]),
        "tag": rng.choice(["N", "V"], N_ROWS),
        "weight": np.repeat(rng.choice([0.5, 2.0], len(LENGTHS)), LENGTHS),
    }
    return pa.table(values)


TABLE = make_table()
ROWS = TABLE.drop_columns(["doc", "tag"])


def raw_of(X, y="tag", groups="doc", **arguments):
    return RawData(X, y, Segmentation(groups=groups), **arguments)


def opened(X, options=tables.DEFAULTS, **arguments):
    return open_tables(raw_of(X, **arguments), options=options)


def write(folder, name, table, **arguments):
    path = str(folder / name)
    if ".csv" in name:
        csv.write_csv(table, path, **arguments)
    else:
        parquet.write_table(table, path, **arguments)
    return path


def read_all(found):
    """Read all pieces, which are checked to hold whole sequences and to be small."""
    parts = [found.read(i) for i in range(len(found.pieces))]
    lengths = []
    for part in parts:
        lengths += part.segmentation.lengths.tolist()
        assert len(part.segmentation.lengths) == 1 or len(part.X) <= tables.MAX_PIECE_ROWS
    assert lengths == LENGTHS
    assert [label for part in parts for label in part.y] == TABLE["tag"].to_pylist()
    return pa.concat_tables([part.X for part in parts])


@pytest.fixture(params=[1, 8, 40, 1000])
def _sizes(request, monkeypatch):
    monkeypatch.setattr(tables, "MAX_PIECE_ROWS", request.param)
    monkeypatch.setattr(table_sources, "BATCH_ROWS", 5)
    monkeypatch.setattr(scanned_tables, "MAX_KEPT_BYTES", 300 * request.param)
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 200)
    monkeypatch.setattr(csv_file, "LINES_IN_BLOCK", 3)
    monkeypatch.setattr(csv_file, "LINES_IN_WIDE_BLOCK", 3)


# Reading


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("cuts", [[], [20], [9, 10, 38, 50], [0, 5, 5]])
@pytest.mark.parametrize("row_group_size", [4, 1000])
def test_parquet_files(tmp_path, cuts, row_group_size):
    ends = [0, *cuts, N_ROWS]
    for i in range(len(ends) - 1):
        part = TABLE.slice(ends[i], ends[i + 1] - ends[i])
        write(tmp_path, f"part-{i + 7}.parquet", part, row_group_size=row_group_size)
    assert read_all(opened(tmp_path)).equals(ROWS)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("cuts", [[], [20], [9, 38]])
def test_text_files(tmp_path, cuts):
    ends = [0, *cuts, N_ROWS]
    paths = [
        write(tmp_path, f"{i}.csv", TABLE.slice(ends[i], ends[i + 1] - ends[i]))
        for i in range(len(ends) - 1)
    ]
    found = read_all(opened(paths)).to_pydict()
    expected = TABLE.to_pydict()
    for name in ("flag", "word"):
        assert found[name] == expected[name]
    for name in ("number", "whole", "weight"):
        values = np.array(expected[name], dtype=float)
        np.testing.assert_array_equal(np.array(found[name], dtype=float), values)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize(
    ("late", "n_late", "full"),
    pairs(
        product(["word", " NA ", "-NAN", "true", ""], [0, 1, 3, 9], [False, True]),
        lambda late, n_late, full: n_late == 3 or (late == "word" and not full),
    ),
)
def test_values_that_fit_only_at_first(late, n_late, full, tmp_path, monkeypatch):
    """Columns that turn out not to hold numbers are read again, as text from the first row on."""
    if full:
        monkeypatch.setattr(scanned_tables.tempfile, "TemporaryFile", no_space)
    rng = np.random.default_rng(0)
    n = 60
    columns = {f"x{j}": [f"{j}.{i}" for i in range(n)] for j in range(10)}
    for j in rng.permutation(10)[:n_late].tolist():
        columns[f"x{j}"][int(rng.integers(20, n))] = late
    path = tmp_path / "a.csv"
    csv.write_csv(pa.table({"doc": ["d"] * n, **columns, "tag": ["N", "V"] * (n // 2)}), path)
    table = opened(path).read(0).X
    for name, values in columns.items():
        if late in values and late in ("word", "true"):
            assert table[name].to_pylist() == values
        else:
            expected = [None if value == late else float(value) for value in values]
            found = [None if x is None or x != x else x for x in table[name].to_pylist()]
            assert found == expected


def no_space(*args, **kwargs):
    raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_threads_of_pyarrow_do_not_read_text_through_python(name, tmp_path, monkeypatch):
    """They abort the process if it exits meanwhile, such as after an error in the header."""
    threads = set()

    class File(io.FileIO):
        def readinto(self, buffer):
            threads.add(threading.get_ident())
            return super().readinto(buffer)

        def read(self, size=-1):
            threads.add(threading.get_ident())
            return super().read(size)

    path = tmp_path / name
    with (gzip.open if name.endswith(".gz") else open)(path, "wt") as file:
        file.write("doc,x,tag\n" + "1,2,N\n" * 100_000)
    monkeypatch.setattr(table_sources, "open", lambda path, mode: File(path), raising=False)
    assert opened(str(path)).n_rows == 100_000
    assert threads <= {threading.get_ident()}


def test_types_of_text_are_those_of_all_files(tmp_path):
    (tmp_path / "1.csv").write_text("doc,x,k,tag\n1,true,1,7\n")
    (tmp_path / "2.csv").write_text("doc,x,k,tag\n2,maybe,2,8\n")
    piece = opened(tmp_path, TableOptions(category=("k",))).read(0)
    table = piece.X
    assert (str(table["x"].type), piece.y) == ("string", [7, 8])
    raw = raw_of(tmp_path)
    chosen = open_tables(raw, categorical_features=["k"]).read(0).X["k"].type
    assert chosen == table["k"].type == pa.dictionary(pa.int32(), pa.int64())
    assert str(open_tables(raw).read(0).X["k"].type) == "double"


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("source", ["batches", "reader", "dataset", "batch"])
def test_sources_of_arrow(tmp_path, source):
    def make():
        if source == "batches":
            return TABLE.to_batches(11)
        if source == "reader":
            return TABLE.to_reader(11)
        if source == "batch":
            return TABLE.combine_chunks().to_batches()[0]
        write(tmp_path, "a.parquet", TABLE.slice(0, 13))
        write(tmp_path, "b.parquet", TABLE.slice(13))
        return dataset.dataset(tmp_path)

    assert read_all(opened(make())).equals(ROWS)


def test_columns_in_the_names_of_folders(tmp_path):
    dataset.write_dataset(TABLE, tmp_path, format="parquet", partitioning=["tag"],
                          partitioning_flavor="hive")  # fmt: skip
    found = opened(dataset.dataset(tmp_path, partitioning="hive"), y="word", groups="tag").read(0)
    tags = TABLE["tag"].to_pylist()
    assert sorted(found.segmentation.lengths) == sorted([tags.count("N"), tags.count("V")])
    assert found.X.num_columns == TABLE.num_columns - 2


def test_a_reader_is_copied_to_the_folder_and_leaves_nothing(tmp_path):
    found = open_tables(raw_of(TABLE.to_reader(11)), folder=str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert read_all(found).equals(ROWS)
    with pytest.raises(OSError, match="nowhere"):
        open_tables(raw_of(TABLE.to_reader(11)), folder=str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("_sizes")
def test_pieces_can_be_read_in_any_order(tmp_path):
    found = opened([
        write(tmp_path, "a.parquet", TABLE.slice(0, 25), row_group_size=4),
        write(tmp_path, "b.parquet", TABLE.slice(25), row_group_size=7),
    ])  # fmt: skip
    expected = [found.read(i).X for i in range(len(found.pieces))]
    for i in np.random.default_rng(0).permutation(np.repeat(np.arange(len(found.pieces)), 2)):
        assert found.read(i).X.equals(expected[i])


@pytest.mark.skipif(not Path(FOLDER).exists(), reason="files of a process as Linux lists them")
@pytest.mark.usefixtures("_sizes")
def test_files_are_closed_after_the_last_piece(tmp_path):
    found = opened(write(tmp_path, "a.csv", TABLE))
    read_all(found)
    assert not any(str(tmp_path) in name for name in open_files())


def test_columns_with_weights(tmp_path):
    raw = opened(write(tmp_path, "a.parquet", TABLE), sample_weight="weight").read(0)
    assert "weight" not in raw.X.column_names
    assert raw.sample_weight.tolist() == TABLE["weight"].to_pylist()


def test_columns_can_be_left_out_and_ordered_differently(tmp_path):
    write(tmp_path, "a.parquet", TABLE.slice(0, 8))
    write(tmp_path, "b.parquet", TABLE.slice(8).select(TABLE.column_names[::-1]))
    table = opened(tmp_path, TableOptions(drop=("weight", "flag"))).read(0).X
    assert table.equals(ROWS.drop_columns(["weight", "flag"]))


def test_types_of_files_are_combined(tmp_path):
    def typed(start, number, whole, word, nothing):
        part = TABLE.slice(start, 8).select(["doc", "number", "whole", "word", "flag", "tag"])
        kinds = part.column("number").cast(number), part.column("whole").cast(whole)
        part = part.set_column(1, "number", kinds[0]).set_column(2, "whole", kinds[1])
        part = part.set_column(3, "word", part.column("word").cast(word))
        return part.set_column(4, "flag", pa.nulls(8)) if nothing else part

    codes = pa.dictionary(pa.int8(), pa.string())
    write(tmp_path, "a.parquet", typed(0, pa.float32(), pa.int8(), pa.string(), True))
    write(tmp_path, "b.parquet", typed(8, pa.float64(), pa.int64(), codes, False))
    schema = opened(tmp_path).read(0).X.schema
    kinds = {name: str(schema.field(name).type) for name in ("number", "whole", "word", "flag")}
    assert kinds == {"number": "double", "whole": "int64", "word": "large_string", "flag": "bool"}


def test_batches_with_different_dictionaries():
    parts = [["x", "y"], ["z", "x"]]
    columns = [pa.array(part).dictionary_encode() for part in parts]
    made = [pa.record_batch({"doc": [1, 1], "w": c, "tag": ["N", "V"]}) for c in columns]
    assert opened(made).read(0).X["w"].to_pylist() == ["x", "y", "z", "x"]


# What is a table in files


def test_strings_are_paths_only_if_y_is_a_name(tmp_path):
    assert are_tables(raw_of("a.csv"))
    assert are_tables(raw_of(["a.csv", "b.Parquet"]))
    assert are_tables(raw_of(Path("a.txt")))
    assert are_tables(raw_of(str(tmp_path)))
    assert are_tables(raw_of("a.csv", y=["N"]))
    assert not are_tables(raw_of(["a.csv"], y=["vcvcv"]))
    assert not are_tables(RawData("a.csv", "vcvcv", Segmentation(lengths=[5])))
    assert are_tables(raw_of("banana"))
    assert are_tables(raw_of("none/", groups=None))
    assert are_tables(raw_of("a*", None, groups=None))
    assert are_tables(raw_of("a.jsonl", None, groups=None))
    assert are_tables(RawData(str(tmp_path), "tag", Segmentation(lengths=[5])))
    assert not are_tables(RawData("a/b.c", "vcvcv", Segmentation(lengths=[5])))
    assert not are_tables(RawData("a/b.c", "vcvcv", Segmentation(groups=[1, 1, 2, 2, 2])))
    assert not are_tables(raw_of("banana", "vcvcvc", groups=None))
    assert are_tables(raw_of(["data/one", "data/two"]))
    assert are_tables(raw_of(["data/one", "data/two"], groups=None))
    assert not are_tables(raw_of(["data/one", "data/two"], groups=["b", "c"]))
    assert not are_tables(raw_of(["data/one", "two"]))
    assert not are_tables(raw_of(["banana"]))
    assert not are_tables(raw_of([]))
    assert not are_tables(raw_of(TABLE))
    assert not are_tables(raw_of(pa.array([1, 2])))


def test_files_of_a_folder_are_in_natural_order(tmp_path):
    for i in (10, 9, 1):
        write(tmp_path, f"part-{i}.parquet", pa.table({"doc": [i], "x": [i], "tag": ["N"]}))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-2.parquet").write_text("hidden")
    for X in (tmp_path, str(tmp_path / "*.parquet")):
        assert opened(X).read(0).X["x"].to_pylist() == [1, 9, 10]


# Errors


def test_files_that_are_not_there(tmp_path):
    for X, match in (
        ("no.parquet", "^no.parquet: there is no such file"),
        (
            "s3://b/no.parquet",
            "^s3://b/no.parquet: there is no such file or folder; a URL is",
        ),
        ("~/no.parquet", "^~/no.parquet: there is no such file or folder; expand ~ with os.path"),
        ("*.nothing.csv", "no file matches this pattern"),
    ):
        with pytest.raises(FileNotFoundError, match=match):
            opened(X)
    with pytest.raises(ValueError, match="holds no tables, and is empty; expected a file with"):
        opened(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"holds no tables; it contains notes.txt; expected"):
        opened(tmp_path)
    with pytest.raises(ValueError, match=r"notes.txt: the ending is not that of a table; expect"):
        opened(tmp_path / "notes.txt")
    (tmp_path / "year=1999").mkdir()
    write(tmp_path / "year=1999", "a.parquet", TABLE)
    with pytest.raises(ValueError, match=r"'year=1999' holds a value of a column.*partitioning"):
        opened(tmp_path)


def test_files_of_several_formats(tmp_path):
    paths = [write(tmp_path, "a.parquet", TABLE), write(tmp_path, "b.csv", TABLE)]
    with pytest.raises(ValueError, match=r"a.parquet is a Parquet file, and .*b.csv is a text"):
        opened(paths)


def test_damaged_and_empty_files(tmp_path):
    (tmp_path / "a.parquet").write_text("PAR1 and so on")
    with pytest.raises(ValueError, match=r"a\.parquet: .*[Pp]arquet"):
        opened(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(ValueError, match=r"a\.csv: the file is empty"):
        opened(tmp_path / "a.csv")
    for path in (write(tmp_path, "b.parquet", TABLE[:0]), write(tmp_path, "b.csv", TABLE[:0])):
        with pytest.raises(ValueError, match="the table has no rows"):
            opened(path)


@pytest.mark.parametrize(
    ("argument", "match"),
    [
        ({"y": "tga"}, r"y='tga' is not a column of .*a.parquet; .*did you mean 'tag'"),
        ({"groups": "dco"}, r"groups='dco' is not a column of .*did you mean 'doc'"),
        ({"sample_weight": "w"}, "sample_weight='w' is not a column"),
        ({"y": ["N"] * N_ROWS}, r"y is \['N', .*expected the name of the column of labels"),
        (
            {"y": np.zeros((9, 2))},
            r"y is array\(\[\[0\., 0\.\], \[0\., .*; with files or batches as X",
        ),
        ({"groups": None}, "groups is not given; .*expected the name of the column of sequences"),
        ({"sample_weight": [1.0]}, "expected the name of the column of weights"),
        ({"y": "doc"}, "y and groups both name the column 'doc'"),
        ({"init_score": [0]}, "init_score cannot be combined with files"),
    ],
)
def test_columns_that_are_not_there(tmp_path, argument, match):
    path = Path(write(tmp_path, "a.parquet", TABLE))
    with pytest.raises((ValueError, TypeError), match=match):
        opened(path, **argument)
    with pytest.raises(TypeError, match="lengths cannot be combined with files"):
        open_tables(RawData(path, "tag", Segmentation([1], "doc")))


def test_tables_without_features():
    table = pa.table({"doc": [1], "tag": ["N"]})
    with pytest.raises(ValueError, match="no columns are left as features"):
        opened(table.to_batches())


def test_columns_that_differ_between_files(tmp_path):
    paths = [
        write(tmp_path, "a.parquet", TABLE),
        write(tmp_path, "b.parquet", TABLE.rename_columns({"word": "other"})),
        write(tmp_path, "c.parquet", TABLE.set_column(1, "number", TABLE["word"])),
        write(tmp_path, "d.parquet", TABLE.set_column(2, "word", TABLE["whole"])),
    ]
    match = r"b.parquet and .*a.parquet do not have the same columns: .*'other', 'word'"
    with pytest.raises(ValueError, match=match):
        opened(paths[:2])
    match = r"c.parquet: column 'number' is of type string, but in .*a.parquet of type double"
    with pytest.raises(TypeError, match=match):
        opened([paths[0], paths[2]])
    match = r"d.parquet: column 'word' is of type int64, but in .*a.parquet of type string"
    with pytest.raises(TypeError, match=match):
        opened([paths[0], paths[3]])
    batches = [TABLE[:3].to_batches()[0], TABLE.select(["doc"]).to_batches()[0]]
    with pytest.raises(ValueError, match="batches 1 and 0 have different columns: doc: string"):
        opened(batches)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_groups_that_come_back(tmp_path, form):
    again = pa.concat_tables([TABLE, TABLE.slice(3, 2)])  # rows of d1
    paths = [
        write(tmp_path, f"a.{form}", again.slice(0, 60)),
        write(tmp_path, f"b.{form}", again.slice(60)),
    ]
    first = 1 if form == "parquet" else 2
    match = (
        rf"group 'd1' begins at .*a\.{form}, row {1 + first} and comes back at "
        rf".*b\.{form}, row {N_ROWS - 60 + first}; .*sort the data by 'doc'"
    )
    with pytest.raises(ValueError, match=match):
        opened(paths)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_groups(missing):
    table = pa.table({"doc": [1.0, 1.0, missing], "x": [1, 2, 3], "tag": list("NVN")})
    with pytest.raises(ValueError, match="X, row 2, column 'doc': the group is missing"):
        opened(table.to_reader())


def test_groups_of_an_unsupported_type(tmp_path):
    table = pa.table({"doc": [[1], [1], [2]], "x": [1, 2, 3], "tag": list("NVN")})
    path = write(tmp_path, "a.parquet", table)
    with pytest.raises(TypeError, match=r"a.parquet, row 1, column 'doc': groups are of type list"):
        opened(path)


def test_groups_of_equal_hashes_are_told_apart():
    # The hashes of -1 and -2 are equal in Python.
    table = pa.table({"doc": [-1, -1, -2], "x": [1, 2, 3], "tag": list("NVN")})
    assert hash(-1) == hash(-2)
    assert len(opened(table.to_batches()).read(0).X) == 3
    again = pa.concat_tables([table, table])
    with pytest.raises(ValueError, match="group -1 begins at X, row 0 and comes back at X, row 3"):
        opened(again.to_batches())


def test_sources_in_other_methods_are_an_error_with_advice():
    from treecrf import HMMClassifier, TreeCRF

    crf = TreeCRF(max_iter=1, init="zero", early_stopping=False).fit(TABLE, "tag", groups="doc")
    for X in (Path("a.csv"), [Path("a.csv")], "a.csv", TABLE.to_reader()):
        with pytest.raises(TypeError, match=r"X is .*read by fit .*pass a table in memory"):
            crf.predict(X)
    for X in (Path("a.csv"), "a.csv", TABLE.to_reader()):
        with pytest.raises(TypeError, match=r"X is .*read by fit .*pass a table in memory"):
            HMMClassifier().fit(X, "tag", groups="doc")


@pytest.mark.parametrize("X", ["none/", "none/*.pq", "none.jsonl", "/none/such.parquet"])
def test_paths_that_do_not_exist(X):
    from treecrf import TreeCRF

    crf = TreeCRF(max_iter=1, init="zero", early_stopping=False)
    for y, groups in (("tag", "doc"), ("tag", None), (None, "doc"), (["N"], "doc")):
        with pytest.raises(FileNotFoundError, match=r"no such file or folder|no file matches"):
            crf.fit(X, y, groups=groups)
    with pytest.raises(FileNotFoundError, match=r"no such file or folder|no file matches"):
        crf.fit(TABLE, "tag", X, "tag", groups="doc")
    crf.fit(TABLE, "tag", groups="doc")
    with pytest.raises(TypeError, match=r"there is no such file or folder.*read by fit"):
        crf.predict(X)
    with pytest.raises(TypeError, match=r"there is no such file or folder.*read by fit"):
        crf.score(X, "tag", groups="doc")


def test_lists_of_paths_without_endings(tmp_path):
    from treecrf import TreeCRF

    paths = [str(tmp_path / name) for name in ("one", "two")]
    for groups in ("doc", None):
        with pytest.raises(FileNotFoundError, match="one: there is no such file or folder"):
            TreeCRF().fit(paths, "tag", groups=groups)
    for path in paths:
        Path(path).touch()
    with pytest.raises(ValueError, match="one: the ending is not that of a table; expected"):
        TreeCRF().fit(paths, "tag", groups="doc")


def test_groups_of_validation_data_have_the_same_name_by_default(tmp_path):
    from treecrf import TreeCRF

    path = write(tmp_path, "a.parquet", TABLE)
    crf = TreeCRF(max_iter=2, init="zero", early_stopping=False)
    expected = crf.fit(TABLE, "tag", TABLE, "tag", groups="doc", groups_val="doc")
    scores = expected.validation_score_.tolist()
    for X_val in (TABLE, path):
        found = crf.fit(TABLE, "tag", X_val, "tag", groups="doc").validation_score_
        assert found.tolist() == scores


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_under_a_copy_of_batches(monkeypatch, tmp_path, code):
    class Full(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            raise OSError(code, "full")

    monkeypatch.setattr(
        table_sources.tempfile, "TemporaryFile", lambda dir: io.BufferedWriter(Full())
    )
    for size in (1, 100):
        with pytest.raises(OSError, match=r"[0-9] more bytes.*test_a_full_disk") as caught:
            table_sources.table_of_batches(TABLE.to_reader(size), str(tmp_path))
        assert caught.value.errno == code


def test_infinite_numbers_are_found_in_their_file(tmp_path):
    write(tmp_path, "0.parquet", pa.table({"doc": [1, 1], "x": [1.0, None], "tag": ["N", "V"]}))
    write(tmp_path, "1.parquet", pa.table({"doc": [1, 2], "x": [1, -np.inf], "tag": ["N", "V"]}))
    with pytest.raises(ValueError, match=r"1.parquet, row 2, column 'x': -inf is infinite"):
        opened(tmp_path).read(0)


def test_pieces_of_one_batch(monkeypatch):
    """More pieces of one batch than Python's limit of recursion."""
    monkeypatch.setattr(tables, "MAX_PIECE_ROWS", 1)
    n = 3000
    table = pa.table({"doc": np.arange(n), "x": np.arange(n), "tag": ["N"] * n})
    found = opened(table.to_batches())
    assert [found.read(i).X["x"][0].as_py() for i in range(len(found.pieces))] == list(range(n))


# Temporary rows


@given(st.lists(st.integers(0, 6), max_size=5))
def test_files_of_rows_return_the_written_columns(sizes):
    table = np.column_stack([np.arange(sum(sizes)) / 4, np.arange(sum(sizes)) % 3])
    rows = RowFile([np.dtype(np.float64), np.dtype(np.int32)])
    for part in np.split(table, np.cumsum(sizes)):
        rows.append(list(part.T))
    assert rows.n_rows == len(table)
    if len(table):
        columns = list(rows)
        del rows  # The columns remain.
        assert [column.dtype for column in columns] == [np.float64, np.int32]
        np.testing.assert_array_equal(np.column_stack(columns), table)


@pytest.mark.parametrize(
    ("names", "drop", "features"),
    [
        (["Unnamed: 0", "x", "y"], [], ["x"]),
        (["id", "Unnamed: 1", "x", "y"], ["id"], ["Unnamed: 1", "x"]),
        (["Unnamed: 0", "Unnamed: 1", "x", "y"], ["Unnamed: 0"], ["x"]),
    ],
)
def test_an_index_is_in_the_leading_columns_of_the_file(names, drop, features):
    assert feature_columns(names, {"y"}, drop) == features
