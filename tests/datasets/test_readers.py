"""Readers of file formats: their results, and errors for invalid files."""

import gzip
import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from treecrf.datasets import (
    iter_conll,
    iter_conllu,
    iter_crfsuite,
    iter_nettalk,
    iter_protein,
    iter_sparse,
    read_conll,
    read_conllu,
    read_crfsuite,
    read_nettalk,
    read_protein,
    read_sparse,
)

READERS = {
    "conll": iter_conll,
    "conllu": iter_conllu,
    "crfsuite": iter_crfsuite,
    "nettalk": iter_nettalk,
    "protein": iter_protein,
    "sparse": iter_sparse,
}
SMALL = {
    "conll": "a b X\nc d Y\n\ne f X\n",
    "conllu": "# c\n1\ta\ta\tX\t_\t_\t0\t_\t_\t_\n\n1\tb\tb\tY\t_\t_\t0\t_\t_\t_\n",
    "crfsuite": "X\ta:2\tb\nY\tc\n\nX\td\n",
    "nettalk": "aback\txb@k-\t0>1<<\t0\nto\ttx\t>0\t0\n",
    "protein": "# notice\n<>\nG _\nV e\nend\n<>\nL h\n<end>\n",
    "sparse": "2 2 4\n1 1 2 0 3 1\n1 2 1 1 0\n\n2 1 0 1\n",
}


def read(name, text, **options):
    return list(READERS[name](io.StringIO(text), **options))


def plain(sequences):
    """Sequences as lists, so that they can be compared."""
    return [
        [part.toarray().tolist() if sparse.issparse(part) else list(part) for part in parts]
        for parts in sequences
    ]


# Files


@pytest.mark.parametrize("name", READERS)
def test_paths_and_files_of_text_and_bytes_X(name, tmp_path):
    text = SMALL[name]
    expected = plain(read(name, text))
    path = tmp_path / "file"
    path.write_text(text)
    (tmp_path / "packed").write_bytes(gzip.compress(text.encode()))
    sources = [path, str(path), io.BytesIO(text.encode()), io.StringIO(text), tmp_path / "packed"]
    assert len(expected) == 2
    for source in sources:
        assert plain(READERS[name](source)) == expected
    with path.open("rb") as file:
        assert plain(READERS[name](file)) == expected
        assert not file.closed


@pytest.mark.parametrize("name", READERS)
def test_ends_of_lines_and_byte_order_marks_do_not_matter(name):
    expected = plain(read(name, SMALL[name]))
    assert plain(read(name, SMALL[name].replace("\n", "\r\n"))) == expected
    assert plain(read(name, SMALL[name].rstrip("\n"))) == expected
    marked = io.BytesIO(b"\xef\xbb\xbf" + SMALL[name].encode())
    assert plain(READERS[name](marked)) == expected


@pytest.mark.parametrize("name", READERS)
def test_files_are_read_in_pieces(name):
    """The first sequence is returned before the rest of the file is read."""

    def lines():
        yield from SMALL[name].splitlines(keepends=True)
        raise AssertionError("read to the end")

    assert plain([next(READERS[name](lines()))]) == plain(read(name, SMALL[name]))[:1]


@pytest.mark.parametrize("name", READERS)
def test_bytes_of_another_encoding_are_refused_with_their_line(name):
    broken = SMALL[name].encode().replace(b"\n", b"\n\xff\n", 1)
    with pytest.raises(ValueError, match="the file, line 2: byte 0 is not utf-8"):
        list(READERS[name](io.BytesIO(broken)))


def test_encodings_other_than_utf_8():
    sequences = iter_conll(io.BytesIO("Coruña X\n".encode("latin-1")), encoding="latin-1")
    assert list(sequences) == [([{"x0": "Coruña"}], ["X"])]


@pytest.mark.parametrize("cut", [5, 30, -3])
def test_damaged_gzip_files_are_refused(cut, tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(SMALL["conll"].encode() * 9)[:cut])
    with pytest.raises(ValueError, match=r"cut\.gz: damaged after line"):
        list(iter_conll(path))


def test_missing_files_are_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(iter_conll(tmp_path / "none"))


# CoNLL columns


def test_conll_columns_are_named():
    text = "He \t PRP  B-NP \nreckons VBZ B-VP\n \t\n\nYes UH O"
    assert read("conll", text, names=["word", "tag"]) == [
        ([{"word": "He", "tag": "PRP"}, {"word": "reckons", "tag": "VBZ"}], ["B-NP", "B-VP"]),
        ([{"word": "Yes", "tag": "UH"}], ["O"]),
    ]


def test_conll_columns_without_labels_and_with_another_separator():
    assert read("conll", "a b\n", label=None) == [([{"x0": "a", "x1": "b"}], None)]
    rows = read("conll", "New York\t\tX\n", separator="\t")
    assert rows == [([{"x0": "New York", "x1": ""}], ["X"])]


def test_lines_that_separate_documents_and_comments_are_skipped():
    text = "-DOCSTART- -X- O\n\nHe PRP X\n# a comment of many words\n# # Y\n"
    X, y = read_conll(io.StringIO(text), comment="# a")
    assert X == [[{"x0": "He", "x1": "PRP"}, {"x0": "#", "x1": "#"}]]
    assert y == [["X", "Y"]]


TREEBANK = """\
# newdoc id = weblog
# sent_id = 1
# text = I don't like 1 000 ...
1\tI\tI\tPRON\tPRP\tCase=Nom\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\tMood=Ind\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tlike\tlike\tVERB\tVB\t_\t0\troot\t_\t_
5\t1 000\t1000\tNUM\tCD\t_\t4\tobj\t_\t_

# text = # _
1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
1.1\tis\tbe\tVERB\t_\t_\t_\t_\t1:x\t_
2\t_\t_\t_\t_\t_\t1\tdep\t_\t_
"""


def test_conllu_words_are_without_ranges_and_empty_nodes():
    X, y = read_conllu(io.StringIO(TREEBANK))
    words = [["I", "do", "n't", "like", "1 000"], ["#", "_"]]
    assert [[{"form": word} for word in sentence] for sentence in words] == X
    assert y == [["PRON", "AUX", "PART", "VERB", "NUM"], ["SYM", None]]
    X, y = read_conllu(io.StringIO(TREEBANK), columns=["lemma", "upos"], label="feats")
    assert X[0][2] == {"lemma": "not", "upos": "PART"}
    assert y == [["Case=Nom", "Mood=Ind", "_", "_", "_"], ["_", "_"]]  # no features, not unknown
    for wrong in ({"label": "tag"}, {"columns": ["form", "tag"]}):
        with pytest.raises(
            ValueError, match="'tag' is not a column of CoNLL-U: id, form, lemma, u"
        ):
            read_conllu(io.StringIO(TREEBANK), **wrong)
    with pytest.raises(ValueError, match="line 4: 1 columns; expected 10"):
        read_conllu(io.StringIO(TREEBANK.replace("\t", " ")))


@pytest.mark.parametrize("name", ["a.conllu", "a.CoNLLu", "a.conllu.gz"])
def test_conllu_is_not_read_as_conll(name, tmp_path):
    path, text = tmp_path / name, TREEBANK.encode()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert read_conllu(path) == read_conllu(io.StringIO(TREEBANK))
    with pytest.raises(ValueError, match="some lines are not words; read_conllu leaves them out"):
        read_conll(path, comment="#", label=3)


def test_the_error_of_a_comment_names_the_parameter():
    hint = 'starts with #: comment="#" skips such lines'
    for text, message in (
        ("# id = 1\na b c\n", f"line 2: 3 columns; expected 4, as in line 1; line 1 {hint}"),
        ("a b c\n# id\n", f"line 2: 2 columns; expected 3, as in line 1; line 2 {hint}"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            read_conll(io.StringIO(text))
        assert read_conll(io.StringIO(text), comment="#")[1] == [["c"]]
    with pytest.raises(ValueError, match=r"line 2: 2 columns; expected 3, as in line 1$"):
        read_conll(io.StringIO("a b c\n# id\n"), comment="//")


@pytest.mark.parametrize(
    ("label", "names"), [(1, ["word", "lemma"]), ("tag", ["word", "tag", "lemma"]), (-2, None)]
)
def test_conll_labels_may_be_any_column(label, names):
    X, y = read_conll(io.StringIO("He PRP he\n\nis VBZ be\n"), names=names, label=label)
    keys = ("x0", "x1") if names is None else ("word", "lemma")
    assert [[list(row.items()) for row in x] for x in X] == [
        [list(zip(keys, values, strict=True))] for values in (("He", "he"), ("is", "be"))
    ]
    assert y == [["PRP"], ["VBZ"]]


@pytest.mark.parametrize(
    ("label", "names", "message"),
    [
        (2, None, "the file, line 1: 2 columns; there is no column label=2"),
        (-3, None, "the file, line 1: 2 columns; there is no column label=-3"),
        (-1, ["word", "tag"], "the file, line 1: 2 columns; expected 3"),
        (None, ["word"], "the file, line 1: 2 columns; expected 1"),
        ("tag", None, "label='tag' is not in names=None"),
        ("tag", ["a", "b"], r"label='tag' is not in names=\['a', 'b'\]"),
    ],
)
def test_columns_of_labels_that_are_not_there_are_refused(label, names, message):
    with pytest.raises(ValueError, match=message):
        read_conll(io.StringIO("He PRP\n"), names=names, label=label)


LISTS = {
    "conll": read_conll,
    "crfsuite": read_crfsuite,
    "nettalk": read_nettalk,
    "protein": read_protein,
    "sparse": read_sparse,
}


@pytest.mark.parametrize("name", LISTS)
def test_readers_return_lists_of_what_iterators_yield(name):
    lists = LISTS[name](io.StringIO(SMALL[name]))
    assert plain(zip(*lists, strict=True)) == plain(read(name, SMALL[name]))


def test_lists_of_empty_files_and_of_files_without_labels():
    assert read_conll(io.StringIO("")) == ([], [])
    assert read_conll(io.StringIO("a b\n"), label=None) == ([[{"x0": "a", "x1": "b"}]], None)


def test_spaces_that_are_not_ascii_are_part_of_a_word():
    assert read("conll", "10\xa0000 X\n") == [([{"x0": "10\xa0000"}], ["X"])]


# CRFsuite


def test_crfsuite_attributes_have_names_and_values():
    text = "X\ta:0.5\tb\tc:-1e3\tb:2\n\nY\n"
    assert read("crfsuite", text) == [([{"a": 0.5, "b": 3.0, "c": -1000.0}], ["X"]), ([{}], ["Y"])]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (r"\:", ":"),
        (r"a\:b:2", "a:b"),
        (r"\\:2", "\\"),
        (r"\\\::2", "\\:"),
        (r"\n", r"\n"),
        ("a\\", "a\\"),
    ],
)
def test_crfsuite_escapes(field, name):
    [([attributes], _)] = read("crfsuite", f"X\t{field}\n")
    assert list(attributes) == [name]


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t\0"), min_size=1), st.floats()
)
def test_crfsuite_reads_escaped_names(name, value):
    escaped = name.replace("\\", "\\\\").replace(":", "\\:")
    [([attributes], _)] = read("crfsuite", f"X\t{escaped}:{value!r}\n")
    assert list(attributes) == [name]
    np.testing.assert_equal(attributes[name], value)


# The sparse format


def test_sparse_rows():
    (x, y), (x2, y2) = read("sparse", SMALL["sparse"])
    assert x.dtype == bool
    assert x.toarray().astype(int).tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]
    assert (y.tolist(), y2.tolist()) == ([1, 0], [1])
    assert x2.shape == (1, 4)


# Proteins and words


def test_proteins_end_where_the_next_begins():
    assert read("protein", "<>\nG _\n<>\nV e\nL h\nend\n<>\n<end>\n") == [("G", "_"), ("VL", "eh")]


def test_nettalk_notice_and_incomplete_word_are_left_out():
    notice = "The NETtalk corpus\n\t\tCopyright\n---------\n\n"
    gun = "gunpowder\tg^npW-d-R\t0\t\n"
    assert read("nettalk", notice + SMALL["nettalk"] + gun) == read("nettalk", SMALL["nettalk"])


# Damaged files


DAMAGED = {
    "conll": [
        ("a X\n\nb c X\n", "line 3: 3 columns; expected 2, as in line 1"),
    ],
    "crfsuite": [
        ("X\ta\nX\ta:one\n", "line 2: the value 'one' of 'a' is not a number"),
        ("X\ta\nX\ta:1_0\n", "line 2: the value '1_0' of 'a' is not a number"),
        ("X\ta\nX\ta:b:1\n", "line 2: too many colons in 'a:b:1'"),
        ("X\ta\nX:2\ta\n", "line 2: the label 'X:2' has a value"),
        ("X\ta\n\t\n", "line 2: no label"),
        ("X\ta\n@weight:2\n", "line 2: declarations such as '@weight:2' are not supported"),
    ],
    "nettalk": [
        *((f"{SMALL['nettalk']}{line}\n", "line 3: .*; expected a word, its phonemes, and its str")
          for line in ("to\ttx", "to\ttx\t>\t0", "\t\t\t0", "to tx >0")),
    ],
    "protein": [
        ("G _\n", "line 1: 'G _'; expected <>, the start of a protein"),
        ("<>\nG _\nend\nV e\n", "line 4: 'V e'; expected <>, the start of a protein"),
        ("<>\nG x\n", "line 2: 'G x'; expected a residue and its structure"),
        ("<>\nGV _\n", "line 2: 'GV _'; expected a residue and its structure"),
        ("<>\nG _ h\n", "line 2: 'G _ h'; expected a residue and its structure"),
    ],
    "sparse": [
        ("", "line 0: expected the numbers of sequences, labels, and features"),
        ("1 2\n", "line 1: expected the numbers of sequences, labels, and features"),
        ("1 2 9999999999\n", "line 1: 9999999999 features; expected at most 2147483647"),
        ("1 2 4\n1 1 1 x 0\n", "line 2: '1 1 1 x 0' is not a line of whole numbers"),
        ("1 2 4\n1 1 1 -1 0\n", "line 2: '1 1 1 -1 0' is not a line of whole numbers"),
        ("1 2 4\n1 1 2 1 0\n", "line 2: expected sequence, position, number of features"),
        ("1 2 4\n1 1\n", "line 2: expected sequence, position, number of features"),
        ("1 2 4\n1 1 1 4 0\n", "line 2: feature 4; the first line declares 4 features"),
        ("1 2 4\n1 1 2 3 3 0\n", "line 2: a feature occurs twice"),
        ("1 2 4\n1 1 1 3 2\n", "line 2: label 2; the first line declares 2 labels"),
        ("1 2 4\n1 2 1 3 0\n", r"line 2: sequence and position are \[1, 2\]; expected \[1, 1\]"),
        ("2 2 4\n1 1 0 0\n1 3 0 0\n", r"line 3: .* \[1, 3\]; expected \[1, 2\] or \[2, 1\]"),
        ("2 2 4\n2 1 0 0\n", r"line 2: .* \[2, 1\]; expected \[1, 1\]"),
        ("3 2 4\n1 1 0 0\n2 1 0 0\n", "line 3: the file ends after 2 of 3 sequences"),
        ("1 2 4\n", "line 1: the file ends after 0 of 1 sequences"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [(name, *damage) for name, some in DAMAGED.items() for damage in some],
)
def test_damaged_files_are_refused_with_their_line(name, text, message):
    with pytest.raises(ValueError, match=f"^the file, {message}"):
        read(name, text)


# Any lines


@pytest.mark.parametrize("name", READERS)
@given(st.data())
def test_any_damage_ends_in_sequences_or_an_error_that_names_a_line(name, data):
    pieces = st.sampled_from(SMALL[name].splitlines()) | st.text(max_size=12)
    text = "\n".join(data.draw(st.lists(pieces, max_size=9)))
    try:
        for _, *rest in READERS[name](io.BytesIO(text.encode("utf-8", "surrogatepass"))):
            assert rest
    except ValueError as error:
        assert str(error).startswith("the file, line ")


# Real data


def test_proteins_of_the_archive_lack_one_residue(data_folder):
    proteins = list(iter_protein(data_folder / "protein" / "protein-secondary-structure.train"))
    assert (len(proteins), sum(len(residues) for residues, _ in proteins)) == (111, 18104)
    windows = iter_sparse(data_folder / "protein" / "sparse.protein.11.train")
    labels = ["".join("_eh"[code] for code in y) for _, y in windows]
    assert [structures for _, structures in proteins[:-1]] == labels[:-1]


def test_nettalk_dictionary(data_folder):
    words = list(iter_nettalk(data_folder / "nettalk" / "nettalk.data"))
    assert (len(words), words[0]) == (20007, ("aardvark", "a-rdvark", "1<<<>2<<"))
