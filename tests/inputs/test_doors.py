"""One table through every door: files, frames of each library, and the command line.

All doors find equal features, with equal kinds and categories, and equal labels.
"""

import io
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from support.sweeps import pairs

import treecrf
from treecrf.cli import main
from treecrf.inputs.dataset import RawData
from treecrf.inputs.large.tables import open_tables
from treecrf.inputs.schema import KINDS
from treecrf.inputs.segmentation import Segmentation
from treecrf.learners.base.fitted import fitted_model

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

N = 8
SETTINGS = {"max_iter": 2, "init": "zero", "early_stopping": False}
AB = ["a", "b"] * 4
NUMBERS = [0.5, 1.5] * 4


def crf():
    return treecrf.TreeCRF(**SETTINGS)


def by_command(path):
    """Train with the command line, and evaluate, which reads the labels as the model has them."""
    model = path.with_suffix(".treecrf")
    settings = [word for item in SETTINGS.items() for word in ("--set", "=".join(map(str, item)))]
    words = ["train", path, "--label", "y", "--group", "g", "--model", model, "--quiet", *settings]
    assert main([str(word) for word in words]) == 0
    assert main(["evaluate", str(path), "--model", str(model)]) == 0
    return treecrf.load(model)


def by_folder(path):
    """Train on a folder with the parts of a table, one for each sequence."""
    folder = path.with_suffix("")
    folder.mkdir()
    if path.suffix == ".csv":
        header, *rows = path.read_text().splitlines(keepends=True)
        for i in range(2):
            part = header + "".join(rows[i * N // 2 : (i + 1) * N // 2])
            (folder / f"{i}.csv").write_text(part)
    else:
        table = parquet.read_table(path)
        for i in range(2):
            parquet.write_table(table.slice(i * N // 2, N // 2), folder / f"{i}.parquet")
    return crf().fit(folder, "y", groups="g")


def by_frame(read):
    return lambda path: crf().fit(read(path), "y", groups="g")


OF_FILES = {
    "path": lambda path: crf().fit(path, "y", groups="g"),
    "scratch": lambda path: crf().fit(path, "y", groups="g", scratch=path.parent),
    "folder": by_folder,
    "command": by_command,
}
OF_CSV = OF_FILES | {
    "pandas": by_frame(pd.read_csv),
    "polars": by_frame(lambda path: pl.read_csv(path)),
    "arrow": by_frame(csv.read_csv),
}
OF_PARQUET = OF_FILES | {
    "pandas": by_frame(pd.read_parquet),
    "polars": by_frame(lambda path: pl.read_parquet(path)),
    "arrow": by_frame(parquet.read_table),
}


def description(model):
    """The features with their kinds, or their categories, and the classes of a model."""
    schema = fitted_model(model).chain.schema
    found = {}
    for j, name in enumerate(schema.names):
        kind = KINDS[schema.kinds[j]]
        found[name] = schema.categories[j].tolist() if kind == "category" else kind
    return found, [(type(label), label) for label in model.classes_.tolist()]


@dataclass
class Case:
    """Columns of a text file, and what is read of them."""

    x: list = field(default_factory=lambda: NUMBERS)
    y: list = field(default_factory=lambda: AB)
    kind: str | list = "number"  # of x, or its categories
    classes: list = field(default_factory=lambda: ["a", "b"])
    others: tuple = ()  # doors of libraries that read other values


CASES = {
    "text": Case(),
    "booleans": Case(y=["True", "False"] * 4, classes=[False, True]),
    "booleans in lower case": Case(y=["true", "false"] * 4, classes=[False, True]),
    "booleans with gaps": Case(y=["True", "False", "", "True"] * 2, classes=[False, True]),
    "integers": Case(y=["3", "10"] * 4, classes=[3, 10]),
    "integers with gaps": Case(y=["0.0", "1.0", "", "0.0"] * 2, classes=[0, 1]),
    "whole floats": Case(y=["0.0", "1.0"] * 4, classes=[0, 1]),
    "large integers": Case(
        y=["9007199254740992", "9007199254740993"] * 4, classes=[2**53, 2**53 + 1]
    ),
    "large whole floats": Case(
        y=["9007199254740992.0", "+9007199254740993.00"] * 4,
        classes=[2**53, 2**53 + 1],
        others=("pandas", "polars", "arrow"),  # which read floats
    ),
    "large integers with gaps": Case(
        y=["9007199254740992", "9007199254740993", "", "9007199254740992"] * 2,
        classes=[2**53, 2**53 + 1],
        others=("pandas",),  # which reads floats
    ),
    "integers in spaces": Case(y=[" 1", " 2"] * 4, classes=[1, 2], others=("polars",)),
    "empty": Case(y=["a", "", "b", ""] * 2, others=("arrow",)),
    "codes with zeros": Case(
        y=["01", "02"] * 4, classes=["01", "02"], others=("pandas", "polars", "arrow")
    ),
    "numbers and text": Case(y=["1", "x"] * 4, classes=["1", "x"]),
    "booleans and numbers": Case(y=["true", "1"] * 4, classes=["1", "true"], others=("arrow",)),
    "words for missing": Case(y=["NA", "None"] * 4, classes=["NA", "None"], others=("pandas",)),
    "marks among labels": Case(y=["a", "#N/A", "b", "<NA>"] * 2, others=("polars", "arrow")),
    "boolean feature": Case(x=["True", "False"] * 4, kind="boolean"),
    "boolean feature with gaps": Case(x=["True", "", "False", ""] * 2, kind="boolean"),
    "whole numbers": Case(x=["1", "2"] * 4),
    "zeros before digits": Case(x=["01", "02"] * 4),
    "numbers and a word": Case(x=["1", "2", "x", "3"] * 2, kind=["1", "2", "3", "x"]),
    "nothing": Case(x=[""] * N, others=("polars", "arrow")),
    "categories": Case(x=["u", "", "v", "u"] * 2, kind=["u", "v"], others=("arrow",)),
    "word NA": Case(x=["u", "NA"] * 4, kind=["NA", "u"], others=("pandas",)),
}
# What pandas reads as a missing number, and other texts that stand for none.
MARKS = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"]
MARKS += ["1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
OTHER_MARKS = ["NAN", "-NAN", "?"]
CASES |= {
    f"mark {mark}": Case(x=["1", mark, "2.5", "3"] * 2, others=("polars", "arrow"))
    for mark in MARKS
}
CASES |= {
    f"mark {mark}": Case(x=["1", mark, "2.5", "3"] * 2, others=("pandas", "polars", "arrow"))
    for mark in OTHER_MARKS
}


def text_of(case):
    rows = [f"{i // 4},{x},{y}\n" for i, (x, y) in enumerate(zip(case.x, case.y, strict=True))]
    return "g,x,y\n" + "".join(rows)


def expected_of(case):
    return {"x": case.kind}, [(type(label), label) for label in case.classes]


# The doors share one list of marks, so each mark goes through a file and pandas in the fast tests.
@pytest.mark.parametrize(
    ("name", "door"),
    pairs(
        [(name, door) for name in CASES for door in OF_CSV if door not in CASES[name].others],
        lambda name, door: not name.startswith("mark") or door in ("path", "pandas"),
    ),
)
def test_text_files(name, door, tmp_path):
    case, path = CASES[name], tmp_path / "table.csv"
    path.write_text(text_of(case))
    features, classes = description(OF_CSV[door](path))
    expected = expected_of(case)
    assert features == expected[0]
    assert classes == expected[1]


TABLES = {
    "strings": {"y": AB},
    "empty strings": {"y": ["", "b"] * 4},
    "booleans": {"y": [True, False] * 4},
    "booleans with gaps": {"y": pd.array([True, False, None, True] * 2, dtype="boolean")},
    "whole floats": {"y": [0.0, 1.0] * 4},
    "floats with gaps": {"y": [0.0, 1.0, None, 0.0] * 2},
    "nullable integers": {"y": pd.array([7, 9, None, 7] * 2, dtype="Int64")},
    "large integers": {"y": pd.array([2**53, 2**53 + 1, None, 2**53] * 2, dtype="Int64")},
    "codes with zeros": {"y": ["01", "02"] * 4},
    "categorical labels": {"y": pd.Categorical(AB)},
    "integers": {"x": np.arange(N) % 2},
    "nullable feature": {"x": pd.array([1, None] * 4, dtype="Int64")},
    "nullable booleans": {"x": pd.array([True, None] * 4, dtype="boolean")},
    "small floats": {"x": np.array([0.5, 1] * 4, dtype="float32")},
    "text": {"x": ["u", None] * 4},
    "empty text": {"x": ["u", ""] * 4},
    "categories": {"x": pd.Categorical(["u", "v"] * 4)},
    "categories of integers": {"x": pd.Categorical([3, 12] * 4)},
    "categories of booleans": {"x": pd.Categorical([True, False] * 4)},
}


@pytest.mark.parametrize("name", TABLES)
def test_parquet_files(name, tmp_path):
    path = tmp_path / "table.parquet"
    columns = {"g": np.repeat([1, 2], N // 2), "x": NUMBERS, "y": AB} | TABLES[name]
    pd.DataFrame(columns).to_parquet(path)
    found = {door: description(fit(path)) for door, fit in OF_PARQUET.items()}
    assert dict.fromkeys(found, found["path"]) == found


@pytest.mark.parametrize("column", ["g", "x", "y"])
def test_views_of_strings(column, tmp_path):
    path = tmp_path / "table.parquet"
    columns = {"g": ["1"] * 4 + ["2"] * 4, "x": NUMBERS, "y": AB} | {column: ["s", "t"] * 4}
    columns["g"] = sorted(columns["g"])
    columns[column] = pa.array(columns[column], pa.string_view())
    parquet.write_table(pa.table(columns), path)
    found = {door: description(fit(path)) for door, fit in OF_PARQUET.items()}
    assert dict.fromkeys(found, found["pandas"]) == found


@pytest.mark.parametrize(
    "name", ["text", "integers", "booleans", "boolean feature", "whole floats"]
)
def test_text_and_parquet_files_of_a_frame(name, tmp_path):
    frame = pd.read_csv(io.StringIO(text_of(CASES[name])))
    frame.to_csv(tmp_path / "text.csv", index=False)
    frame.to_parquet(tmp_path / "typed.parquet")
    for door in OF_FILES:
        models = [OF_FILES[door](tmp_path / file) for file in ("text.csv", "typed.parquet")]
        assert description(models[0]) == description(models[1]), door


# An index, and columns without a name


@pytest.mark.parametrize("door", OF_CSV)
@pytest.mark.parametrize("names", [[None], ["Unnamed: 0"], [None, "Unnamed: 0"], [None, None]])
def test_an_index_is_not_a_feature(names, door, tmp_path):
    frame = pd.read_csv(io.StringIO(text_of(CASES["text"])))
    frame.index = pd.RangeIndex(5, 5 + N)
    if names[0] is None and len(names) == 2 and names[1] is None:
        frame.index = pd.MultiIndex.from_arrays([frame.index, frame.index])
    elif names[-1] is not None:
        frame.insert(0, names[-1], range(N))
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=names[0] is None)
    if door in ("polars", "arrow") and names == [None, None]:
        pytest.skip("the library does not number columns")
    model = OF_CSV[door](path)
    assert description(model) == expected_of(CASES["text"])
    # In predictions, it may be there or not, and anywhere.
    read = pd.read_csv(path)
    expected = model.predict(frame[["g", "x"]]).tolist()
    assert model.predict(read[read.columns[::-1]]).tolist() == expected


@pytest.mark.parametrize("door", ["path", "folder", "command", "pandas"])
def test_other_columns_without_a_name_are_numbered(door, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("g,x,,y\n" + "".join(f"{i // 4},{i % 2},{i % 3},{AB[i]}\n" for i in range(N)))
    features, _ = description(OF_CSV[door](path))
    assert features == {"x": "number", "Unnamed: 2": "number"}


def test_an_unnamed_column_may_be_the_group(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text_of(CASES["text"]).replace("g,", ",", 1))
    for X in (path, pd.read_csv(path)):
        model = crf().fit(X, "y", groups="Unnamed: 0")
        assert description(model) == expected_of(CASES["text"])


# Forms of text


@pytest.mark.parametrize("door", OF_CSV)
@pytest.mark.parametrize("form", ["byte order mark", "line ends", "blank lines", "quoted"])
def test_forms_of_text(form, door, tmp_path):
    text, path = text_of(CASES["text"]), tmp_path / "table.csv"
    forms = {
        "byte order mark": "\ufeff" + text,
        "line ends": text.replace("\n", "\r\n"),
        "blank lines": text.replace("a\n", "a\n\n"),
        "quoted": text.replace("a\n", '"a"\n'),
    }
    if door == "folder" or (door == "polars" and form == "blank lines"):
        pytest.skip("lines are rows")
    path.write_bytes(forms[form].encode())
    assert description(OF_CSV[door](path)) == expected_of(CASES["text"])


@pytest.mark.parametrize("door", ["path", "scratch", "command", "pandas", "polars"])
def test_line_ends_in_quotation_marks(door, tmp_path):
    path = tmp_path / "table.csv"
    words = ['"u\nv"', '"w ""x"""'] * 4
    path.write_text(text_of(Case(x=words)))
    assert description(OF_CSV[door](path))[0] == {"x": ["u\nv", 'w "x"']}


# What is refused


TIMES = {
    "times": [f"2021-01-01 0{i}:00:00" for i in range(N)],
    "times of a zone": [f"2021-01-01T0{i}:00:00+01:00" for i in range(N)],
    "dates": [f"2021-01-0{i + 1}" for i in range(N)],
    "dates of other countries": [f"{i + 1}/12/2021" for i in range(N)],
    "times of a day": [f"0{i}:30" for i in range(N)],
    "durations": [f"0 days 0{i}:30:00" for i in range(N)],
}
REFUSED = {name: (Case(x=values), "'x' holds dates or times") for name, values in TIMES.items()}
REFUSED["fractions"] = Case(y=["0.5", "1.0"] * 4), "'y': 0.5 is not a whole number"
REFUSED["infinity"] = Case(x=["1", "inf"] * 4), "inf is infinite"
REFUSED["group"] = Case(), "the group is missing"


@pytest.mark.parametrize("door", OF_FILES)
@pytest.mark.parametrize("name", REFUSED)
def test_values_that_are_refused(name, door, tmp_path, capsys):
    case, match = REFUSED[name]
    path, text = tmp_path / "table.csv", text_of(case)
    path.write_text(text.replace("\n1,", "\n#N/A,") if name == "group" else text)
    if door == "command":
        with pytest.raises(AssertionError):
            by_command(path)
        assert match in capsys.readouterr().err
    else:
        with pytest.raises((TypeError, ValueError), match=match):
            OF_CSV[door](path)


def test_times_may_be_chosen_as_categories(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text_of(Case(x=TIMES["dates"])))
    model = treecrf.TreeCRF(**SETTINGS, categorical_features=["x"]).fit(path, "y", groups="g")
    assert description(model)[0] == {"x": TIMES["dates"]}


BROKEN = {
    "comment": ("# made by a logger\n{}", "row 2 has 3 fields: 'g,x,y'; the first line, .* lines"),
    "short row": ("{}9,1\n", "row 10 has 2 fields: '9,1'; the first line, .*, has 3 fields: g, x"),
    "long row": ("{}9,1,2,3\n", r"row 10 has 4 fields: '9,1,2,3'; .*quotation marks must enclose"),
    "empty": ("", "the file is empty"),
    "blank": ("\n\n", "the file holds no names of columns"),
    "two of a name": ("g,x,x,y\n1,2,3,a\n", "more than one column is named 'x'"),
    "separator": ("g;x;y\n1;2;a\n", "the only column is 'g;x;y'; .*sep.*;"),
    "separator and commas": ("g;x;y\n1;2,5;a\n", "row 2 has 2 fields.*sep.*;"),
    "no rows": ("g,x,y\n", "the table has no rows"),
    "open quotes": ('{}1,0.5,"a\n1,1.5,b\n', r"is 'a\\n1,1.5,b\\n'; a closing quotation mark is"),
}


@pytest.mark.parametrize("door", ["path", "command"])
@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_refused(name, door, tmp_path, capsys):
    form, match = BROKEN[name]
    path = tmp_path / "table.csv"
    path.write_text(form.format(text_of(CASES["text"])))
    with pytest.raises((AssertionError, ValueError)) as caught:
        OF_CSV[door](path)
    message = capsys.readouterr().err if door == "command" else str(caught.value)
    assert re.search(match, message)
    assert ("--separator" in message) == (door == "command" and "separator" in name)
    assert ("pandas.read_csv" in message) == (door == "path" and "separator" in name)


# Files of one table whose columns have different types

B = 2**53
OF_TYPES = {
    "floats with gaps": pd.Series([1.0, None, 2.0, 1.0]),
    "unsigned": pd.Series([1, 2, 1, 2], dtype="uint64"),
    "nullable unsigned": pd.Series([1, None, 1, 2], dtype="UInt64"),
    "booleans": pd.Series([True, False] * 2),
    "nothing": pd.Series([None] * 4, dtype=pd.ArrowDtype(pa.null())),
}


def parts_of(column, values, folder):
    """Write a folder of two files, of which the first one has large integers in a column."""
    for i, part in enumerate([pd.Series([B, B + 1, B + 1, B]), values]):
        table = {"g": [i] * 4, "x": [0.0, 1.0] * 2, "y": ["a", "b"] * 2, column: part}
        pd.DataFrame(table).to_parquet(folder / f"{i}.parquet")
    return folder


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("name", OF_TYPES)
@pytest.mark.parametrize("column", ["x", "y"])
def test_integers_of_files_of_several_types_remain_what_they_are(column, name, scratch, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    parts_of(column, OF_TYPES[name], folder)
    others = sorted({int(value) for value in OF_TYPES[name].dropna()})
    settings = {"categorical_features": ["x"]} if column == "x" else {}
    model = treecrf.TreeCRF(**SETTINGS, **settings)
    model.fit(folder, "y", groups="g", scratch=tmp_path if scratch else None)
    features, classes = description(model)
    found = features["x"] if column == "x" else [label for _, label in classes]
    assert found == [*others, B, B + 1]


def test_groups_of_files_of_several_types_remain_what_they_are(tmp_path):
    parts_of("g", pd.Series([1.0, 1.0, 2.0, 2.5]), tmp_path)
    with pytest.raises(ValueError, match=r"group 9007199254740992 begins .* comes back"):
        crf().fit(tmp_path, "y", groups="g")
    for i, groups in enumerate([[B, B, B + 1, B + 1], [float(B + 2)] * 4]):
        table = {"g": groups, "x": [0.0, 1.0] * 2, "y": ["a", "b"] * 2}
        pd.DataFrame(table).to_parquet(tmp_path / f"{i}.parquet")
    reader = open_tables(RawData(str(tmp_path), "y", Segmentation(None, "g")))
    assert reader.offsets.tolist() == [0, 2, 4, 8]


@pytest.mark.parametrize("column", ["x", "y"])
def test_fractions_beside_whole_numbers_in_other_files_are_refused(column, tmp_path):
    parts_of(column, pd.Series([0.5, 1, 2, 3]), tmp_path)
    model = treecrf.TreeCRF(**SETTINGS, categorical_features=["x"])
    with pytest.raises(ValueError, match=rf"column '{column}' holds whole numbers in one table"):
        model.fit(tmp_path, "y", groups="g")
