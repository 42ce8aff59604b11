"""Files read by the command line: tables, and files with one line per position."""

import datetime
import decimal
import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treecrf import TreeCRF
from treecrf.cli.files import ModelInput, Reading, Source, format_of, read_file
from treecrf.inputs.large import csv_file, table_sources
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER
from treecrf.learners.base.fitted import fitted_model

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402


@pytest.fixture(params=["one block", "small blocks"])
def _blocks(request, monkeypatch):
    """Files are read in one block, or in blocks of a few rows."""
    if request.param == "small blocks":
        monkeypatch.setattr(csv_file, "BLOCK_BYTES", 64)
        monkeypatch.setattr(csv_file, "LINES_IN_BLOCK", 3)
        monkeypatch.setattr(csv_file, "LINES_IN_WIDE_BLOCK", 3)
        monkeypatch.setattr(table_sources, "BATCH_ROWS", 3)


def read_csv(tmp_path, text, model=None, **reading):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(Source(str(path)), Reading(**reading), model)


def column(data, name):
    """Values of a column, with categories instead of codes, and None if missing."""
    sequences = data.sequences
    j = sequences.names.index(name)
    values = np.concatenate([piece[:, j] for _, _, piece in sequences.pieces()])
    if sequences.kinds[j] != CATEGORY:
        return [None if np.isnan(value) else value for value in values.tolist()]
    known = sequences.categories[j].tolist()
    return [None if np.isnan(code) else known[int(code) - 1] for code in values]


def kind(data, name):
    return data.sequences.kinds[data.sequences.names.index(name)]


def rows(name, values):
    return "".join(f"{line}\n" for line in [f"{name},y", *(f"{v},A" for v in values)])


# Kinds of columns


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("1", "2", NUMBER),
        ("1", "0.5", NUMBER),
        ("1", "-1e-3", NUMBER),
        ("1", "NA", NUMBER),
        ("1", "", NUMBER),
        ("1", " 2 ", NUMBER),
        ("1", "x", CATEGORY),
        ("1", "true", CATEGORY),
        ("1", "1_0", CATEGORY),
        ("1", "0x10", CATEGORY),
        ("true", "False", BOOLEAN),
        ("true", "null", BOOLEAN),
        ("true", "1", CATEGORY),
        ("true", "yes", CATEGORY),
        ("a", "b", CATEGORY),
    ],
)
def test_the_kind_of_a_column_depends_on_all_values(first, last, expected, tmp_path):
    values = [first] * 40 + [last]
    data = read_csv(tmp_path, rows("x", values), label="y")
    assert kind(data, "x") == expected
    read = column(data, "x")
    assert len(read) == 41
    if expected == CATEGORY:
        assert read == values


def test_missing_values(tmp_path):
    text = 'n,b,c,y\n1,true,NA,A\n,,,A\nNaN,n/a,"",A\n?,None,u,A\n-,-,-,B\n'
    data = read_csv(tmp_path, text, label="y", missing=("-",))
    assert [kind(data, name) for name in "nbc"] == [NUMBER, BOOLEAN, CATEGORY]
    assert column(data, "n") == [1, None, None, None, None]
    assert column(data, "b") == [1, None, None, None, None]
    assert column(data, "c") == ["NA", None, None, "u", None]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["3", "10", "3"], [3, 10, 3]),
        (["3", "10", "x"], ["3", "10", "x"]),
        (["3", "010", "3"], ["3", "010", "3"]),
        (["3", "1.0", "3"], [3, 1, 3]),
        (["1.0", "", "-2."], [1, None, -2]),
        (["9007199254740993", "+2", "1.0"], [9007199254740993, 2, 1]),
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
        (["0.5", "x"], ["0.5", "x"]),
        (["true", "false", "true"], [True, False, True]),
        (["True", "", "FALSE"], [True, None, False]),
        (["true", "1"], ["true", "1"]),
        (["1", "true"], ["1", "true"]),
        (["true", "NA"], ["true", "NA"]),
        (["1", "NA"], ["1", "NA"]),
        (["#N/A", "a", "1.#IND"], [None, "a", None]),
        (["NA", "nan", "null"], ["NA", "nan", "null"]),
    ],
)
def test_labels_are_whole_numbers_or_text(values, expected, tmp_path):
    text = "x,y\n" + "".join(f"{t},{value}\n" for t, value in enumerate(values))
    [labels] = read_csv(tmp_path, text, label="y").labels
    assert labels.tolist() == expected


def test_whole_numbers_can_be_categories(tmp_path):
    data = read_csv(tmp_path, "k,x,y\n10,1,A\n9,2,B\n,3,B\n", label="y", category=("k",))
    assert column(data, "k") == [10, 9, None]
    assert data.sequences.categories[0].tolist() == [9, 10]
    assert kind(data, "x") == NUMBER


def test_columns_that_are_not_features(tmp_path):
    data = read_csv(tmp_path, "id,a,y,d\n1,2,A,x\n", label="y", group="id", drop=("d",))
    assert data.sequences.names == ("a",)
    data = read_csv(tmp_path, "id,a,y,d\n1,2,A,x\n")
    assert data.sequences.names == ("id", "a", "y", "d")
    assert data.labels is None


@pytest.mark.usefixtures("_blocks")
def test_groups_are_sequences(tmp_path):
    lengths = [1, 7, 2, 30, 1]
    names = np.repeat(list("edcba"), lengths)
    text = "id,x,y\n" + "".join(f"{name},{t},L{t}\n" for t, name in enumerate(names))
    data = read_csv(tmp_path, text, label="y", group="id")
    assert np.diff(data.sequences.offsets).tolist() == lengths
    assert data.groups == list("edcba")
    assert [len(labels) for labels in data.labels] == lengths
    assert data.labels[2].tolist() == ["L8", "L9"]


def test_text_files_of_other_forms(tmp_path):
    plain = column(read_csv(tmp_path, "a,b\n1,x\n2,é\n"), "b")
    for text, reading in (
        (b"a;b\n1;x\n2;\xc3\xa9\n", {"separator": ";"}),
        (b"a,b\n1,x\n2,\xe9\n", {"encoding": "latin-1"}),
        (b"\xef\xbb\xbfa,b\r\n1,x\r\n2,\xc3\xa9", {}),
        (b'"a","b"\n1,"x"\n"2",\xc3\xa9\n', {}),
        ("a,b\n1,x\n2,é\n".encode("utf-16"), {"encoding": "utf-16"}),
    ):
        assert column(read_csv(tmp_path, text, **reading), "b") == plain
    with pytest.raises(ValueError, match=r"csv: the text is encoded in UTF-16; expected utf-8$"):
        read_csv(tmp_path, "a,b\n1,x\n2,é\n".encode("utf-16"))
    quoted = read_csv(tmp_path, 'a,b\n1,"x, ""y""\nz"\n')
    assert column(quoted, "b") == ['x, "y"\nz']


def test_compressed_and_tab_separated_files(tmp_path):
    path = tmp_path / "table.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n1\tx\n"))
    assert column(read_file(Source(str(path)), Reading()), "b") == ["x"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OSError, match=r"table\.tsv\.gz"):
        read_file(Source(str(path)), Reading())


def test_rows_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 64)
    wide = ",".join(f"column{j}" for j in range(50)) + "\n" + ",".join("1" * 50) + "\n"
    assert read_csv(tmp_path, wide).sequences.n_features == 50
    with pytest.raises(ValueError, match="a closing quotation mark may be missing"):
        read_csv(tmp_path, 'a,b\n"' + "1,2\n" * 200)


# Parquet


@pytest.mark.usefixtures("_blocks")
def test_parquet_columns_have_types(tmp_path):
    n = 8
    table = pa.table(
        {
            "i": pa.array([1, None] * 4, pa.int16()),
            "f": pa.array([0.5, None] * 4),
            "d": pa.array([decimal.Decimal("1.5"), None] * 4),
            "b": pa.array([True, None] * 4),
            "s": pa.array(["NA", None] * 4),
            "k": pa.array(["u", None] * 4).dictionary_encode(),
            "c": pa.array([7, None] * 4),
            "none": pa.nulls(n),
            "y": pa.array(["A", "B"] * 4),
            "id": pa.array([5] * 3 + [4] * 5),
        }
    )
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table, path)
    data = read_file(Source(str(path)), Reading(label="y", group="id", category=("c",)))
    expected = {
        "i": (NUMBER, [1, None]),
        "f": (NUMBER, [0.5, None]),
        "d": (NUMBER, [1.5, None]),
        "b": (BOOLEAN, [1, None]),
        "s": (CATEGORY, ["NA", None]),
        "k": (CATEGORY, ["u", None]),
        "c": (CATEGORY, [7, None]),
        "none": (NUMBER, [None, None]),
    }
    for name, (column_kind, values) in expected.items():
        assert kind(data, name) == column_kind, name
        assert column(data, name) == values * 4, name
    assert data.groups == ["5", "4"]
    assert data.sequences.offsets.tolist() == [0, 3, 8]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([datetime.date(2020, 1, 1)] * 2, "column 'x' is of type date32"),
        ([[1], [2]], "column 'x' is of type list"),
        ([b"1", b"2"], "column 'x' is of type binary"),
        ([0.5, float("inf")], "row 2, column 'x': inf is infinite"),
    ],
)
def test_parquet_columns_that_are_refused(values, message, tmp_path):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"x": values, "y": ["A", "B"]}), path)
    with pytest.raises((TypeError, ValueError), match=message):
        read_file(Source(str(path)), Reading(label="y"))


# Invalid files


@pytest.mark.parametrize(
    ("text", "reading", "message"),
    [
        ("", {}, "the file is empty; expected a line with the names of the columns"),
        ("\n\n", {}, "the file holds no names of columns"),
        ("a,b\n", {}, "the table has no rows"),
        ("a,b\n1,2\n3\n", {}, r"row 3 has 1 field: '3'; the first line, .*, has 2 fields: a, b$"),
        ("a,a\n1,2\n", {}, "more than one column is named 'a'"),
        (b"a,b\n1,\xff\n", {}, r"row 2, column 'b': .*invalid UTF8.*--encoding latin-1$"),
        ("a,b\n1,2\n", {"label": "c"}, "there is no column 'c'; the columns are: a, b"),
        ("a,b\n1,2\n", {"group": "c"}, "there is no column 'c'; the columns are: a, b"),
        ("a,b\n1,2\n", {"drop": ("c",)}, "there is no column 'c'; the columns are: a, b"),
        ("a,b\n1,2\n", {"label": "b", "group": "b"}, "--label and --group both name 'b'"),
        ("a,b\n1,2\n", {"label": "b", "drop": ("a",)}, "no columns are left as features"),
        ("a,b\n1,2\n2,\n", {"group": "b"}, "row 3, column 'b': the group is missing"),
        ("a,b\n1,2\n2,1\n3,2\n", {"group": "b"}, "begins at row 2 and comes back at row 4"),
        (b"a,b\n1,x\0\n", {}, "ends with a NUL character"),
        ("a,b\n1,2\ninf,1\n", {}, "row 3, column 'a': inf is infinite"),
    ],
)
def test_tables_that_are_refused(text, reading, message, tmp_path):
    with pytest.raises(ValueError, match=rf"table\.csv: .*{message}|{message}"):
        read_csv(tmp_path, text, **reading)


def test_options_of_tables_are_refused_for_other_formats(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("a X\n")
    with pytest.raises(ValueError, match="--label requires a table with named columns"):
        read_file(Source(str(path)), Reading(label="y"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.csv", "csv"), ("a.b.TSV", "tsv"), ("a.conll.gz", "conll"), ("a.pq", "parquet")],
)
def test_the_extension_determines_the_format(name, expected, tmp_path):
    (tmp_path / name).write_bytes(b"")
    assert format_of(Source(str(tmp_path / name))) == expected


TABS = "\ta=b" * 9
CONTENTS = {
    "csv": ['a,b\n1,"x, y"\n', "a,b,c\n"],
    "tsv": ["a\tb\n1\tx y\n2\t\n"],
    "conll": ["He PRP B\nruns VB O\n\nNo UH O\n", "a X\n, Y\n", "a\tX\n\nb\tY\n"],
    "conllu": [f"# a = b : c\n1-2{TABS}\n1{TABS}\n\n1{TABS}\n", f"1{TABS}\n"],
    "crfsuite": ["B\tw=He\tcap\nO\tw=runs\n\nO\tw=no\n"],
    None: [
        "",
        "one\ntwo\n",
        "a,b\n1,2,3\n",
        "B\tw=He\nO\tw=No\n\nO\tw=a\n",
        "2 2 4\n1 1 2 0 3 1\n1 2 1 1 0\n",
        "binary\0,\0\n",
        'a\rb,"\n',
    ],
}


@pytest.mark.parametrize(
    ("text", "expected"), [(text, name) for name, texts in CONTENTS.items() for text in texts]
)
@pytest.mark.parametrize(
    ("name", "ending"), [("a.txt", "\n"), ("a", "\r\n"), ("a.gz", "\n"), (".csv", "\n")]
)
def test_without_a_known_extension_the_content_determines_the_format(
    text, expected, ending, name, tmp_path
):
    content = text.replace("\n", ending).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name == "a.gz" else content)
    if expected is None:
        with pytest.raises(ValueError, match="specify it with --format: csv, tsv"):
            format_of(Source(str(tmp_path / name)))
    else:
        assert format_of(Source(str(tmp_path / name))) == expected


@pytest.mark.parametrize("text", ['{"id": 1, "x": 2}\n{"id": 1, "x": 3}\n', '[{"a": "b", "c": 1}]'])
def test_files_of_json(text, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"JSON is not supported; convert .*read_json"):
        format_of(Source(str(path)))


def test_long_files_without_an_extension(tmp_path):
    path = tmp_path / "long"
    path.write_text("a,b\n" + "1,2\n" * 40_000)
    assert format_of(Source(str(path))) == "csv"
    pyarrow.parquet.write_table(pa.table({"x": [1]}), path)
    assert format_of(Source(str(path))) == "parquet"
    path.write_bytes(b"\x1f\x8bdamaged")
    with pytest.raises(ValueError, match="long: damaged"):
        format_of(Source(str(path)))


def test_compressed_tables_need_no_extension(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(gzip.compress(b"a,b\n1,x\n"))
    assert column(read_file(Source(str(path)), Reading()), "b") == ["x"]


def test_the_error_without_pyarrow_explains_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "treecrf\[cli\]"'):
        read_csv(tmp_path, "a\n1\n")


@given(st.lists(st.sampled_from(["1", "x", "", "NA", '"', "é", "\n", ",", "1e999", "\0", "true"])))
def test_any_table_is_read_or_refused_by_name(tmp_path_factory, cells):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(("a,b,y\n" + ",".join(cells)).encode())
    try:
        data = read_file(Source(str(path)), Reading(label="y"))
    except ValueError as error:
        assert str(error).startswith(str(path))
    else:
        assert len(data.labels[0]) == data.sequences.n_positions > 0


# With a model


TRAINING = "id,y,n,b,c,k\n" + "1,A,0.5,true,red,1\n1,B,2,false,blue,2\n1,A,1,true,red,3\n" * 3


@pytest.fixture
def model(tmp_path):
    data = read_csv(tmp_path, TRAINING, label="y", drop=("id",), category=("k",))
    fitted = TreeCRF(max_iter=2, l2_regularization=1.0).fit(data.sequences, data.labels)
    return ModelInput(fitted_model(fitted).chain.schema, fitted.classes_)


def test_columns_are_found_by_the_names_of_the_model(tmp_path, model):
    text = "k,odd,c,b,n\n3,x,green,FALSE,7\n2,x,blue,TRUE,NA\n"
    data = read_csv(tmp_path, text, model)
    assert data.sequences.names == ("n", "b", "c", "k")
    assert column(data, "n") == [7, None]
    assert column(data, "b") == [0, 1]
    known = data.sequences.for_model(model.schema)
    _, _, piece = next(known.pieces())
    np.testing.assert_equal(piece[:, 2:], [[0, 3], [1, 2]])  # green was not in training


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.5", "much", "row 2, column 'n': 'much' is not a number"),
        ("false", "no", "row 3, column 'b': 'no' is not true, false, 0 or 1"),
        ("false", "2", "row 3, column 'b': '2' is not true, false, 0 or 1"),
        ("red,3", "red,three", "row 4, column 'k': 'three' is not a whole number"),
        (",n,", ",m,", "there is no column 'n'; the columns are: id, y, m, b, c, k"),
    ],
)
def test_files_that_do_not_fit_the_model(old, new, message, tmp_path, model):
    with pytest.raises(ValueError, match=message):
        read_csv(tmp_path, TRAINING.replace(old, new), model)


def test_labels_are_read_as_in_training(tmp_path, model):
    text = TRAINING.replace("A", "7").replace("B", "8")
    data = read_csv(tmp_path, text, model, label="y")
    assert set(data.labels[0].tolist()) == {"7", "8"}


def test_models_without_names_take_columns_in_order(tmp_path):
    fitted = TreeCRF(max_iter=2).fit([np.eye(2)], ["ab"])
    model = ModelInput(fitted_model(fitted).chain.schema, fitted.classes_)
    data = read_csv(tmp_path, "u,y,v\n1,a,0\n", model, label="y")
    assert data.sequences.names == ("u", "v")
    with pytest.raises(ValueError, match="3 columns are features; the model was trained with 2"):
        read_csv(tmp_path, "u,y,v\n1,2,0\n", model)


def test_a_table_trains_the_same_model_as_a_data_frame(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "n": rng.normal(size=n).round(2),
            "c": rng.choice(["u", "v", "w"], n),
            "b": rng.choice([True, False], n),
            "id": np.repeat(np.arange(n // 10), 10),
        }
    )
    frame.loc[::7, ["n", "c"]] = None
    y = np.where(frame["b"] ^ (frame["n"] > 0), "P", "Q")
    frame.assign(y=y).to_csv(tmp_path / "frame.csv", index=False)
    frame.assign(y=y).to_parquet(tmp_path / "frame.parquet")
    crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
    groups = [part.drop(columns="id") for _, part in frame.groupby("id")]
    expected = crf.fit(groups, np.split(y, n // 10)).predict_proba(groups)
    for name in ("frame.csv", "frame.parquet"):
        data = read_file(Source(str(tmp_path / name)), Reading(label="y", group="id"))
        found = crf.fit(data.sequences, data.labels).predict_proba(data.sequences)
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(expected))


# Lines


def read_lines(tmp_path, name, text, model=None, **reading):
    path = tmp_path / name
    path.write_text(text)
    return read_file(Source(str(path)), Reading(**reading), model)


def test_conll_columns_are_categories(tmp_path):
    data = read_lines(tmp_path, "a.conll", "b 1 X\na 2 Y\n\nb 10 Y\n")
    assert column(data, "x0") == ["b", "a", "b"]
    assert column(data, "x1") == ["1", "2", "10"]
    assert [labels.tolist() for labels in data.labels] == [["X", "Y"], ["Y"]]
    assert data.sequences.offsets.tolist() == [0, 2, 3]


def test_conll_files_with_and_without_labels(tmp_path):
    data = read_lines(tmp_path, "a.conll", "b 1 X\na 2 Y\n")
    model = ModelInput(data.sequences.schema, np.array(["X", "Y"]))
    assert read_lines(tmp_path, "b.conll", "b 1\n", model).labels is None
    assert read_lines(tmp_path, "b.conll", "b 1 Y\n", model).labels[0].tolist() == ["Y"]
    with pytest.raises(ValueError, match="line 1: 4 columns; the model was trained with 2"):
        read_lines(tmp_path, "b.conll", "b 1 Y Z\n", model)
    with pytest.raises(ValueError, match="1 column; expected at least one more column before"):
        read_lines(tmp_path, "b.conll", "b\n")
    with pytest.raises(ValueError, match="holds no sequences"):
        read_lines(tmp_path, "b.conll", "\n\n")


def test_crfsuite_attributes_are_columns(tmp_path):
    data = read_lines(tmp_path, "a.crfsuite", "X\tb\ta:2\nY\tb\tz:0\n\nY\tc:-1\n")
    assert data.sequences.names == ("a", "b", "c")
    assert data.sequences.kinds.tolist() == [NUMBER, BOOLEAN, NUMBER]
    table = np.concatenate([piece.toarray() for _, _, piece in data.sequences.pieces()])
    assert table.tolist() == [[2, 1, 0], [0, 1, 0], [0, 0, -1]]
    model = ModelInput(data.sequences.schema, np.array(["X", "Y"]))
    known = read_lines(tmp_path, "b.crfsuite", "X\tnew\n\nX\tc:3\n", model)
    table = np.concatenate([piece.toarray() for _, _, piece in known.sequences.pieces()])
    assert table.tolist() == [[0, 0, 0], [0, 0, 3]]


def test_crfsuite_files_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="attribute 'a': inf is infinite"):
        read_lines(tmp_path, "a.crfsuite", "X\ta:inf\n")
    with pytest.raises(ValueError, match="no line has an attribute"):
        read_lines(tmp_path, "a.crfsuite", "X\n")
    with pytest.raises(ValueError, match="holds no sequences"):
        read_lines(tmp_path, "a.crfsuite", "\n")


def test_sparse_rows_are_booleans(tmp_path):
    data = read_lines(tmp_path, "a.sparse", "2 2 4\n1 1 2 0 3 1\n1 2 1 1 0\n\n2 1 0 1\n")
    assert data.sequences.dtype == bool
    assert data.sequences.offsets.tolist() == [0, 2, 3]
    with pytest.raises(ValueError, match="holds no sequences"):
        read_lines(tmp_path, "a.sparse", "0 2 4\n")
