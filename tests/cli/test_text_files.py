"""Doubtful text files: Python and the command line repair or refuse them alike."""

import gzip
import io
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treecrf import LinearCRF, load
from treecrf.cli.files import format_of, read_file
from treecrf.cli.tables import Reading
from treecrf.datasets import read_conll, read_conllu, read_crfsuite, read_sparse
from treecrf.inputs.large.table_sources import Source

MARK = "\ufeff"


def word(number, form="a", tag="X"):
    """A line of CoNLL-U."""
    return "\t".join([str(number), form, "_", tag, *"______"]) + "\n"


def sentence(*numbers):
    return "".join(map(word, numbers))


READERS = {
    "conll": read_conll,
    "conllu": read_conllu,
    "crfsuite": read_crfsuite,
    "sparse": read_sparse,
}
# Of each file: the format, options, the text, and the labels of its sequences.
REPAIRED = {
    # Ends of lines, and files that were joined
    "carriage returns": ("conll", {}, "a X\rb Y\r\rc X\r", [["X", "Y"], ["X"]]),
    "carriage returns of treebanks": ("conllu", {}, sentence(1).replace("\n", "\r"), [["X"]]),
    "carriage returns of attributes": ("crfsuite", {}, "X\ta\r\rY\tb", [["X"], ["Y"]]),
    "carriage returns of the papers": ("sparse", {}, "1 2 2\r1 1 1 0 1\r", [[1]]),
    "two kinds of line ends": ("conll", {}, "a X\r\nb Y\n\r\nc X\rd Y", [["X", "Y"], ["X", "Y"]]),
    "mark": ("conll", {}, MARK + "a X\n\nb Y\n", [["X"], ["Y"]]),
    "mark before a comment": ("conllu", {}, MARK + "# text\n" + sentence(1), [["X"]]),
    "mark before a label": ("crfsuite", {}, MARK + "X\ta\n\nY\tb\n", [["X"], ["Y"]]),
    "mark before numbers": ("sparse", {}, MARK + "1 2 2\n1 1 1 0 1\n", [[1]]),
    "mark of a joined file": ("conll", {}, f"a X\n\n{MARK}b Y\n", [["X"], ["Y"]]),
    "mark of a joined treebank": ("conllu", {}, f"{sentence(1)}\n{MARK}{word(1)}", [["X"], ["X"]]),
    "mark in an empty line": ("crfsuite", {}, f"X\ta\n{MARK}\nY\tb\n", [["X"], ["Y"]]),
    "mark that is a word": ("conll", {}, f"a X\n{MARK} Y\n", [["X", "Y"]]),
    "no final newline": ("conll", {}, "a X\nb Y", [["X", "Y"]]),
    # Documents, in any column and without blank lines
    "document": ("conll", {}, "a b X\n-DOCSTART- -X- O\nc d Y\n", [["X"], ["Y"]]),
    "document of one column": ("conll", {}, "a b X\n-DOCSTART-\nc d Y\n", [["X"], ["Y"]]),
    "document with a name": ("conll", {}, "a X\n-DOCSTART-(7) O\nc Y\n", [["X"], ["Y"]]),
    "document after numbers": ("conll", {}, "1 a X\n0 -DOCSTART- O\n1 b Y\n", [["X"], ["Y"]]),
    "document last": ("conll", {}, "X a\nO -DOCSTART-\nY b\n\n", [["a"], ["b"]]),
    "document of tabs": (
        "conll", {"separator": "\t"}, "a\tX\n-DOCSTART- \tO\nb\tY\n", [["X"], ["Y"]]
    ),
    "documents only at the ends": ("conll", {}, "-DOCSTART- O\na X\n-DOCSTART- O\n", [["X"]]),
    # Missing labels, and blanks around labels and columns
    "empty label": ("conll", {"separator": "\t"}, "a\tX\nb\t\n", [["X", None]]),
    "empty label of commas": ("conll", {"separator": ","}, "a,X\nb,\n", [["X", None]]),
    "blank label": ("conll", {"separator": ","}, "a,X\nb, \t\n", [["X", None]]),
    "blanks around labels": ("conll", {"separator": ","}, "a,X \nb, X\n", [["X", "X"]]),
    "non-breaking spaces after labels": ("conll", {}, "a X\xa0\nb X\n", [["X", "X"]]),
    "blanks after attributes' labels": ("crfsuite", {}, "X \ta\nX\tb\n", [["X", "X"]]),
    "no label but attributes": ("crfsuite", {}, "X\ta\n\tb\n", [["X", None]]),
    "blanks after tags": ("conllu", {}, word(1, tag="X ") + word(2, tag=" _"), [["X", None]]),
    "empty tag": ("conllu", {}, word(1) + word(2, tag=""), [["X", None]]),
    "rows of empty columns": ("conll", {"separator": "\t"}, "a\tX\n\t\nb\tY\n", [["X"], ["Y"]]),
    "rows of commas": ("conll", {"separator": ","}, "a,X\n , \nb,Y\n", [["X"], ["Y"]]),
    "lines of spaces": ("crfsuite", {}, "X\ta\n  \nY\tb\n", [["X"], ["Y"]]),
    "tabs and spaces": ("conll", {}, "a\tb X\nc d\tY\ne\t\tf\tZ\n", [["X", "Y", "Z"]]),
    # What a treebank may hold
    "range and empty nodes": (
        "conllu", {}, sentence("0.1", "1-2", 1, "1.1", "1.2", 2, 3), [["X"] * 3]
    ),
    "comments only": ("conllu", {}, f"# a\n\n# b\n{sentence(1)}\n# c\n", [["X"]]),
    "empty words": ("conll", {"separator": "\t"}, "a\tX\n\tY\nc\tX\n", [["X", "Y", "X"]]),
    # Attributes
    "escapes and values": (
        "crfsuite", {}, "X\ta\\:b:2.0\tc:nan\t__BOS__\nY\tc:2\n", [["X", "Y"]]
    ),
    "values": ("crfsuite", {}, "X\ta:0\ta:2\tb\nY\tc:-1e1\n\nX\n", [["X", "Y"], ["X"]]),
    "features in any order": ("sparse", {}, "1 2 4\n1 1 3 3 0 2 1\n", [[1]]),
}  # fmt: skip
# Of each file: the format, options, the text, and the error.
REFUSED = {
    "mark within a sequence": (
        "conll", {}, f"a X\n{MARK}b Y\n", "line 2: the line starts with a byte order mark"
    ),
    "mark within a sentence": (
        "conllu", {}, f"{sentence(1)}{MARK}# text\n", "line 2: the line starts with a byte order m"
    ),
    "mark within attributes": (
        "crfsuite", {}, f"X\ta\n{MARK}Y\tb\n", "line 2: the line starts with a byte order mark"
    ),
    "mark within a line": (
        "conll", {}, f"a X\nb Y{MARK}a X\n", "line 2: 3 columns; .*appended to one without a final"
    ),
    "one column": ("conll", {}, "a\nb\n\nc\n", "1 column; expected at least one more column"),
    "one column of a document": ("conll", {}, "-DOCSTART-\na\n", "1 column; expected at least on"),
    "rows of different widths": ("conll", {}, "a b X\nc Y\n", "line 2: 2 columns; expected 3"),
    "spaces within tabs": (
        "conll", {}, "a\tb\tX\nNew York\t\tY\n", r"line 2: with tabs as separators.*specify the se"
    ),
    "empty column": ("conll", {}, "a\tb\tX\nc\t\tY\n", "line 2: 2 columns; .*a tab as the separa"),
    "non-breaking spaces": ("conll", {}, "a b X\nc\xa0d Y\n", r"line 2: 2 columns; .*U\+00A0 in i"),
    "line of a non-breaking space": ("conll", {}, "a X\n\xa0\nb Y\n", r"line 2: .*U\+00A0 in it"),
    "NUL": ("conll", {}, "a X\nb\0 Y\n", "line 2: character 1 is NUL"),
    "NUL in attributes": ("crfsuite", {}, "X\0\ta\n", "line 1: character 1 is NUL"),
    "NULs at the end": ("sparse", {}, "1 2 2\n1 1 1 0 1\n\0\0", "line 3: character 0 is NUL"),
    "joined treebanks": ("conllu", {}, sentence(1, 2, 1, 2), "line 3: .*number of the word is 1"),
    "repeated number": ("conllu", {}, sentence(1, 2, 2), "line 3: the number of the word is 2"),
    "skipped number": ("conllu", {}, sentence(1, 3), "line 2: the number of the word is 3"),
    "cut sentence": ("conllu", {}, sentence(2, 3), "line 1: .*the first one of a sentence"),
    "number from 0": ("conllu", {}, sentence(0, 1), "line 1: '0' is not the number of a word"),
    "no number": ("conllu", {}, sentence(1, "_"), "line 2: '_' is not the number of a word"),
    "negative number": ("conllu", {}, sentence(1, "-2"), "line 2: '-2' is not the number"),
    "range that goes back": ("conllu", {}, sentence(1, "1-2", 2), "line 2: the number .* is 1-2"),
    "range backwards": ("conllu", {}, sentence("1-0", 1), "line 1: '1-0' is not|number .* is 1-0"),
    "range without words": ("conllu", {}, sentence("1-2", 1), "sentence ends after word 1 of"),
    "node that goes back": ("conllu", {}, sentence(1, 2, "1.1"), "line 3: the number .* is 1.1"),
    "no label and no attributes": ("crfsuite", {}, "X\ta\n\t\n", "line 2: no label"),
    "attribute without a name": ("crfsuite", {}, "X\ta\t:2\n", "line 1: an attribute has no name"),
    "escapes of the label": ("crfsuite", {}, "X:2\ta\n", "line 1: the label 'X:2' has a value"),
    "infinite value": ("crfsuite", {}, "X\ta:1e\n", "line 1: the value '1e' of 'a'"),
    "sequence that goes back": (
        "sparse", {}, "2 2 2\n2 1 0 1\n1 1 0 0\n", r"line 2: sequence and position are \[2, 1\]"
    ),
    "svmlight": ("sparse", {}, "1 2 2\n1 qid:1 1:0.5\n", "line 2: .*load_svmlight_file"),
    "comment of the papers": ("sparse", {}, "1 2 2\n1 1 0 1 # a\n", "line 2: .* not a line of who"),
}  # fmt: skip


def write(path, text):
    path.write_bytes(text.encode())
    return path


def labels_of(sequences):
    return [np.asarray(labels).tolist() for labels in sequences]


def sources(path):
    """The same file as a path, as bytes, as text, and compressed."""
    content = path.read_bytes()
    packed = path.with_name("packed")
    packed.write_bytes(gzip.compress(content))
    yield from (path, str(path), io.BytesIO(content), packed, io.BytesIO(packed.read_bytes()))
    yield io.StringIO(content.decode(), newline="")
    with path.open("rb", buffering=0) as file:
        yield file
    with path.open(encoding="utf-8", newline="") as file:
        yield file


def read_on_command_line(path, name, options):
    data = read_file(Source(str(path)), Reading(format=name, **options))
    n_positions = np.diff(data.sequences.offsets).tolist()
    return n_positions, None if data.labels is None else labels_of(data.labels)


@pytest.mark.parametrize("case", REPAIRED)
def test_files_are_read_alike_by_all_readers(case, tmp_path):
    name, options, text, expected = REPAIRED[case]
    path = write(tmp_path / "file", text)
    for source in sources(path):
        X, y = READERS[name](source, **options)
        assert labels_of(y) == expected
        assert [x.shape[0] if name == "sparse" else len(x) for x in X] == list(map(len, expected))
    assert read_on_command_line(path, name, options) == (list(map(len, expected)), expected)


@pytest.mark.parametrize("case", REFUSED)
def test_files_are_refused_alike_by_all_readers(case, tmp_path, run):
    name, options, text, message = REFUSED[case]
    path = write(tmp_path / "file", text)
    for source in sources(path):
        with pytest.raises(ValueError, match=message):
            READERS[name](source, **options)
    with pytest.raises(ValueError, match=message):
        read_on_command_line(path, name, options)
    status, _, errors = run("train", path, "--format", name, "--model", tmp_path / "m", "--quiet")
    assert (status, errors.count("\n")) == (1, 1)
    assert not (tmp_path / "m").exists()


TRAINED = [
    case
    for case, (name, _, _, labels) in REPAIRED.items()
    if name != "sparse" and len({label for some in labels for label in some} - {None}) > 1
]


@pytest.mark.parametrize("case", TRAINED)
def test_models_of_python_and_of_the_command_line_agree(case, tmp_path, run):
    name, options, text, _ = REPAIRED[case]
    path, model = write(tmp_path / "file", text), tmp_path / "m"
    X, y = READERS[name](path, **options)
    fitted = LinearCRF(l2_regularization=1).fit(X, y)
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    settings = ["--learner", "linear", "--quiet", "--set", "l2_regularization=1"]
    run("train", path, "--format", name, "--model", model, *words, *settings)
    trained = load(model)
    assert trained.classes_.tolist() == fitted.classes_.tolist()
    for by_command, by_python in zip(
        trained.predict_proba(X), fitted.predict_proba(X), strict=True
    ):
        np.testing.assert_allclose(by_command, by_python, atol=1e-6)
    status, output, _ = run("evaluate", path, "--format", name, "--model", model, *words)
    assert status == 0
    assert f"sequences          {len(y)}\n" in output


PIECES = {
    "conll": ["a X", "b c Y", "\tX", "a\t", "-DOCSTART- O", "# c", " ", "a\tb X", "a\xa0X", "X"],
    "conllu": [
        word(1).strip(),
        word(2).strip(),
        word("1-2").strip(),
        word("1.1").strip(),
        "#",
        "1",
    ],
    "crfsuite": ["X\ta", "\ta:2", "Y", "Y\t", "X\ta:b", " ", "\t", "@x", "X \tb\ta\\:"],
    "sparse": ["1 2 3", "2 2 3", "1 1 1 0 1", "1 2 0 1", "2 1 1 2 0", "1 1 1 3 1", "x", "1 1"],
}


@pytest.mark.parametrize("name", PIECES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_lines_are_read_or_refused_alike(name, tmp_path, data):
    line = st.sampled_from([*PIECES[name], "", MARK, "\0"])
    ends = st.sampled_from(["\n", "\n\n", "\r\n", "\r", f"\n{MARK}"])
    text = "".join(data.draw(st.lists(line | ends, max_size=9)))
    path = write(tmp_path / "file", text)
    try:
        X, y = READERS[name](path)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error).partition("; ")[0][:60])):
            read_on_command_line(path, name, {})
        return
    has_attributes = any(x.shape[1] if name == "sparse" else any(x) for x in X)
    if not X or not has_attributes:
        with pytest.raises(ValueError, match=r"holds no sequences|no line has an attribute"):
            read_on_command_line(path, name, {})
        return
    labels = labels_of(y)
    if name in ("conllu", "crfsuite") and not any(label for some in labels for label in some):
        labels = None
    assert read_on_command_line(path, name, {}) == (list(map(len, y)), labels)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp037"])
def test_encodings_without_lines_of_bytes_are_refused(encoding, tmp_path, run):
    path = tmp_path / "file"
    path.write_bytes("a X\nb Y\n".encode(encoding))
    with pytest.raises(ValueError, match=f"encoding='{encoding}': .*iconv -f {encoding} -t UTF-8"):
        read_conll(path, encoding=encoding)
    with path.open(encoding=encoding) as file:
        assert read_conll(file, encoding=encoding)[1] == [["X", "Y"]]
    words = ["--format", "conll", "--model", tmp_path / "m", "--encoding", encoding]
    status, _, errors = run("train", path, *words)
    assert status == 1
    assert "expected an encoding in which a line feed is one byte" in errors


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", READERS)
def test_files_in_utf_16_are_recognized(name, encoding, tmp_path, run):
    path = tmp_path / "file"
    path.write_bytes("a X\nb Y\n".encode(encoding))
    for option in ("utf-8", "latin-1"):
        with pytest.raises(ValueError, match="UTF-16"):
            READERS[name](path, **({} if name == "sparse" else {"encoding": option}))
    errors = run("train", path, "--format", name, "--model", tmp_path / "m")[2]
    assert "UTF-16" in errors


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "shift_jis"])
def test_marks_of_utf_8_are_not_read_as_another_encoding(encoding, tmp_path, run):
    path = write(tmp_path / "file", f"{MARK}a X\nb Y\n")
    message = f"the file starts with the byte order mark of UTF-8, and is not {encoding}"
    with pytest.raises(ValueError, match=message):
        read_conll(path, encoding=encoding)
    words = ["--format", "conll", "--model", tmp_path / "m", "--encoding", encoding]
    assert "starts with the byte order mark of UTF-8" in run("train", path, *words)[2]
    for utf_8 in ("utf-8", "UTF8", "utf-8-sig", "U8"):
        assert read_conll(path, encoding=utf_8)[0] == [[{"x0": "a"}, {"x0": "b"}]]


def test_encodings_that_do_not_exist_are_refused():
    for encoding in ("utf-9", "rot13"):
        with pytest.raises(ValueError, match=f"encoding='{encoding}'"):
            read_conll(io.BytesIO(b"a X\n"), encoding=encoding)
    assert read_conll(io.BytesIO(b"\xef\xbb\xbfa X\n"), encoding="utf-8-sig")[1] == [["X"]]


def test_text_files_of_another_encoding_are_refused_with_their_name(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a X\n" * 5000 + b"\xff X\n")
    with (
        path.open(encoding="utf-8") as file,
        pytest.raises(ValueError, match=r"file, after line .*'utf-8' codec can't decode"),
    ):
        read_conll(file)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"names": ["w", "w"]}, ValueError, r"names=\['w', 'w'\]: 'w' occurs 2 times"),
        ({"names": ["w", "t", "w"], "label": "t"}, ValueError, "'w' occurs 2 times"),
        ({"names": ["t", "t"], "label": "t"}, ValueError, "'t' occurs 2 times"),
        ({"names": ["w", "w"], "label": None}, ValueError, "'w' occurs 2 times"),
        ({"names": "wt"}, TypeError, "names='wt' is a str; expected a list of names"),
        ({"comment": ""}, ValueError, "comment=''; expected a text, or None"),
        ({"separator": ""}, ValueError, "separator=''; expected a text, or None"),
    ],
)
def test_options_that_lose_columns_or_lines_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        read_conll(io.StringIO("a b X\n"), **options)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ((), ValueError, "columns is empty"),
        (("form", "form"), ValueError, "'form' occurs 2 times"),
        ("form", TypeError, "columns='form' is a str"),
    ],
)
def test_columns_of_treebanks_are_named_once(columns, error, message):
    with pytest.raises(error, match=message):
        read_conllu(io.StringIO(word(1)), columns=columns)


def test_long_lines_are_read():
    text = "a" * 10**6
    assert read_conll(io.StringIO(f"{text} X\n"))[0] == [[{"x0": text}]]
    assert len(read_crfsuite(io.StringIO("X" + "\ta" * 10**5))[0][0][0]) == 1


def test_attributes_without_labels_are_predicted_and_kept(tmp_path, run):
    path, new = write(tmp_path / "a", "X\ta\n\nY\tb\n"), write(tmp_path / "b", "\ta:2\tb\n\n\tb\n")
    words = ["--format", "crfsuite", "--model", tmp_path / "m"]
    run("train", path, *words, "--quiet", "--learner", "linear")
    status, output, _ = run("predict", new, *words, "--keep-all")
    assert status == 0
    assert [line.rpartition("\t")[0] for line in output.splitlines()] == ["a:2\tb", "", "b", ""]
    assert "no labels" in run("evaluate", new, *words)[2]


@pytest.mark.parametrize("name", ["conllu", "crfsuite", "sparse"])
def test_separators_of_formats_that_have_their_own_are_refused(name, tmp_path, run):
    path = write(tmp_path / "file", "X\ta\n")
    words = ["--format", name, "--separator", ",", "--model", tmp_path / "m"]
    assert (
        f"--separator is for csv, tsv and conll; the columns of the format {name} have"
        in (run("train", path, *words)[2])
    )


@pytest.mark.parametrize(
    ("text", "name"), [(MARK + "# a\n" + sentence(1, 2), "conllu"), ("a X\rb Y\r\rc Z\r", "conll"),
                       ("-DOCSTART-\n\na b X\n\n-DOCSTART- O\n\nc d Y\n", "conll")],
)  # fmt: skip
def test_formats_of_repaired_files_are_recognized(text, name, tmp_path):
    assert format_of(Source(str(write(tmp_path / "file", text)))) == name


def test_files_in_utf_16_without_an_extension_are_recognized(tmp_path):
    (tmp_path / "file").write_bytes("a X\n".encode("utf-16"))
    with pytest.raises(ValueError, match="the encoding of the file is UTF-16; convert"):
        format_of(Source(str(tmp_path / "file")))
