"""Files of sequences and labels: their formats, and how each is read."""

from __future__ import annotations

import contextlib
import csv
import re
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treecrf.cli.tables import FileData, ModelInput, Reading, read_table
from treecrf.datasets.conll import (
    CONLLU_NAMES,
    default_names,
    index_of,
    label_of,
    refuse_conllu,
    split_line,
    split_rows,
    starts_document,
    words_of,
)
from treecrf.datasets.crfsuite import ends_sequence, iter_crfsuite, split_fields
from treecrf.datasets.lines import CONVERT_UTF_16, Lines, read_label
from treecrf.datasets.sparse import read_sparse
from treecrf.inputs.columns import ColumnValues, sparse_table_of, table_of
from treecrf.inputs.dataset import as_sequences, named
from treecrf.inputs.large.table_sources import HEAD_BYTES, SEPARATORS, Source
from treecrf.inputs.large.tables import table_file
from treecrf.inputs.offsets import offsets_of, position_name, split_sequences
from treecrf.inputs.paths import FORMAT_OF_ENDING, UTF_16_MARKS
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import CategoryEncoder, refuse_infinite, string_array
from treecrf.utils.scipy_sparse import sparse

if TYPE_CHECKING:
    from treecrf.preprocessing.templates import AttributeTemplates

# Columns of CoNLL-U: the only one in texts without annotations, and the label by default.
WORD = "form"
UPOS = "upos"
# Name of all attributes of a position in a file without columns.
ATTRIBUTES = "attributes"


class CodedStrings:
    """Strings, or None if missing, stored as codes; in `finish`, unknown ones are `UNSEEN`."""

    def __init__(self, known: Sequence[str] | None = None):
        self._known = known
        self._encoder = CategoryEncoder(known)
        self._codes = array("i")

    def extend(self, strings: Iterable[str | None]) -> None:
        """Append strings."""
        self._codes.extend(self._encoder.lookup(strings))

    def finish(self) -> ColumnValues:
        """Return all strings as a category; raises ValueError if one ends with NUL."""
        codes = np.array(self._codes)
        if self._known is not None:
            return ColumnValues(CATEGORY, codes, np.array(self._known))
        values, ranks = self._encoder.ranks()
        return ColumnValues(CATEGORY, ranks[codes], string_array(values))

    def split(self, offsets: np.ndarray) -> tuple[list[np.ndarray], str | None]:
        """Return the strings of each sequence, and the place of the first that is missing."""
        column = self.finish()
        is_whole = column.data.all()
        missing = None
        if not is_whole:
            missing = position_name(int(np.argmin(column.data)), offsets)
        return split_sequences(column.decoded(), offsets), missing


def read_conll_file(source: Source, reading: Reading, model: ModelInput | None) -> FileData:
    """Read CoNLL columns: the last is the label, the others are categories or make attributes.

    With a model, a file with as many columns as its training data had before the label has no
    labels.
    """
    refuse_conllu(source.name, "--format conllu")
    columns: list[CodedStrings] = []
    lengths: list[int] = []
    with source.open() as file:
        lines = Lines(file, reading.encoding)
        for rows in _conll_rows(lines, reading):
            if not columns:
                has_labels = _has_labels(len(rows[0]), lines, model)
                columns = [CodedStrings() for _ in rows[0]]
            *features, last = zip(*rows, strict=True)
            if has_labels:
                last = map(read_label, last)
            for column, values in zip(columns, [*features, last], strict=True):
                column.extend(values)
            lengths.append(len(rows))
    offsets = _offsets(source, lengths)
    if has_labels:
        labels, missing = columns.pop().split(offsets)
    else:
        labels = None
        missing = None
    names = tuple(default_names(len(columns)))
    rows = _rows_of(source, reading, partial(_conll_rows, reading=reading), names)
    values = [column.finish() for column in columns]
    templates = _templates_of(reading, model)
    if templates is None:
        sequences = table_of(values, offsets, names)
    else:
        with named(source.name):
            sequences = _templated(templates, values, offsets, model)
    return FileData(sequences, labels, missing_label=missing, text_names=names, text_rows=rows)


def _templates_of(reading: Reading, model: ModelInput | None) -> AttributeTemplates | None:
    """Return the templates that make attributes of columns, if there are any."""
    if model is None or model.columns.templates is None:
        return reading.templates
    from treecrf.preprocessing.templates import AttributeTemplates

    stored = model.columns.templates
    return AttributeTemplates(list(stored.templates), syntax=stored.syntax)


def _templated(
    templates: AttributeTemplates,
    columns: list[ColumnValues],
    offsets: np.ndarray,
    model: ModelInput | None,
) -> Sequences:
    """Return the attributes that templates make of columns, as a sparse table of booleans."""
    known = None
    if model is not None:
        known = model.schema.names
    attributes = CodedStrings(known)
    made = templates.expanded([column.decoded().tolist() for column in columns], offsets.tolist())
    for strings in made:
        attributes.extend(strings)
    column = attributes.finish()
    names = known or tuple(column.values.tolist())
    codes = column.data.reshape(len(made), -1).T.ravel()
    ends = np.arange(offsets[-1] + 1) * len(made)
    table = _table_of_attributes(codes, np.ones(len(codes)), ends, len(names))
    table.sum_duplicates()
    table.data[:] = 1
    return sparse_table_of(table, offsets, names, np.full(len(names), BOOLEAN, dtype=np.uint8))


def _conll_rows(lines: Lines, reading: Reading) -> Iterator[list[list[str]]]:
    hint = "only the format conllu has comments"
    return split_rows(lines, reading.separator, comment_hint=hint)


def _rows_of(
    source: Source,
    reading: Reading,
    read: Callable[[Lines], Iterator[list]],
    columns: Sequence[str],
) -> Callable[[Sequence[str]], Iterator[Sequence[str]]]:
    """Return a function that reads the texts of chosen columns."""

    def rows(chosen: Sequence[str]) -> Iterator[Sequence[str]]:
        indices = list(map(columns.index, chosen))
        with source.open() as file:
            for rows in read(Lines(file, reading.encoding)):
                yield from ([row[j] for j in indices] for row in rows)

    return rows


def _has_labels(n_columns: int, lines: Lines, model: ModelInput | None) -> bool:
    """Return whether the last column is the label."""
    if model is None:
        if n_columns == 1:
            raise lines.error("1 column; expected at least one more column before the label")
        return True
    n_features = model.schema.n_features
    if model.columns.templates is not None:
        n_features = model.columns.templates.n_columns
    if n_columns not in (n_features, n_features + 1):
        raise lines.error(
            f"{n_columns} columns; the model was trained with {n_features} and the label"
        )
    return n_columns > n_features


def read_conllu_file(source: Source, reading: Reading, model: ModelInput | None) -> FileData:
    """Read CoNLL-U: the words are a category, and one of the other columns is the label."""
    stored = None
    if model is not None:
        stored = model.columns.label
    name = reading.label or (stored if stored in CONLLU_NAMES else UPOS)
    column = index_of(name, f"--label {name}")
    words = CodedStrings()
    tags = CodedStrings()
    lengths = []
    with source.open() as file:
        for rows in words_of(Lines(file, reading.encoding)):
            words.extend(row[CONLLU_NAMES.index(WORD)] for row in rows)
            tags.extend(label_of(row, column) for row in rows)
            lengths.append(len(rows))
    offsets = _offsets(source, lengths)
    labels, missing = _labels_of(tags, offsets)
    others = [other for other in CONLLU_NAMES if other != name]
    rows = _rows_of(source, reading, words_of, CONLLU_NAMES)
    sequences = table_of([words.finish()], offsets, (WORD,))
    return FileData(sequences, labels, missing_label=missing, text_names=others, text_rows=rows)


def _labels_of(tags: CodedStrings, offsets: np.ndarray) -> tuple[list | None, str | None]:
    """Return the labels of each sequence, None if there are none, and the first missing place."""
    labels, missing = tags.split(offsets)
    if all(label is None for items in labels for label in items):
        return None, missing
    return labels, missing


def read_crfsuite_file(source: Source, reading: Reading, model: ModelInput | None) -> FileData:
    """Read CRFsuite's format: attributes become columns of a sparse table."""
    if model is not None and model.schema.names is None:
        raise ValueError(f"{source.name}: the columns of the training data have no names")
    # With the names of the columns of a model, other attributes are ignored.
    known = None
    if model is not None:
        known = model.schema.names
    attributes = CodedStrings(known)
    values = array("d")
    ends = array("q", [0])
    tags = CodedStrings()
    lengths = []
    with source.open() as file:
        for x, y in iter_crfsuite(file, encoding=reading.encoding):
            for row in x:
                # An attribute with value 0 is the same as no attribute.
                present = {name: value for name, value in row.items() if value}
                attributes.extend(present)
                values.extend(present.values())
                ends.append(len(values))
            tags.extend(y)
            lengths.append(len(y))
    offsets = _offsets(source, lengths)
    column = attributes.finish()
    names = known or tuple(column.values.tolist())
    if not names:
        raise ValueError(f"{source.name}: no line has an attribute")
    table = _table_of_attributes(column.data, np.array(values), np.array(ends), len(names))
    refuse_infinite(table.data, lambda i: f"{source.name}: attribute {names[table.indices[i]]!r}")
    kinds = np.full(len(names), BOOLEAN, dtype=np.uint8)
    kinds[table.indices[table.data != 1]] = NUMBER
    labels, missing = _labels_of(tags, offsets)
    return FileData(
        sparse_table_of(table, offsets, names, kinds),
        labels,
        missing_label=missing,
        text_names=[ATTRIBUTES],
        text_rows=_rows_of(source, reading, _attributes_of, [ATTRIBUTES]),
    )


def _table_of_attributes(
    codes: np.ndarray, values: np.ndarray, ends: np.ndarray, n_columns: int
) -> sparse.csr_array:
    """Make a table of the attributes with positive codes, which count the columns from 1."""
    is_known = codes > 0
    starts = np.append(0, np.cumsum(is_known))[ends]
    shape = (len(ends) - 1, n_columns)
    return sparse.csr_array((values[is_known], codes[is_known] - 1, starts), shape=shape)


def _attributes_of(lines: Lines) -> Iterator[list]:
    """Yield the attributes of each position as a row with one column."""
    for line in lines:
        if not ends_sequence(line):
            yield [["\t".join(split_fields(line)[1])]]


def read_sparse_file(source: Source, reading: Reading, model: ModelInput | None) -> FileData:
    """Read the sparse format of the TREECRF papers: booleans of a sparse table."""
    with source.open() as file:
        items, labels = read_sparse(file)
    _offsets(source, list(map(len, labels)))  # refuses a file without sequences
    return FileData(as_sequences(items), labels)


def _offsets(source: Source, lengths: list[int]) -> np.ndarray:
    if not lengths:
        raise ValueError(f"{source.name}: the file holds no sequences")
    return offsets_of(lengths)


# Formats

JSON_ADVICE = "JSON is not supported; convert it with pandas.read_json(...).to_parquet(...)"
PARQUET_MAGIC = b"PAR1"

READERS = {
    "conll": read_conll_file,
    "conllu": read_conllu_file,
    "crfsuite": read_crfsuite_file,
    "sparse": read_sparse_file,
}
TABLES = ("csv", "tsv", "parquet")
FORMATS = (*TABLES, *READERS)
# Where the label is in the formats without names.
LABELS = {
    "conll": "has the label in the last column",
    "crfsuite": "has the label first",
    "sparse": "has the label first",
}


def read_file(source: Source, reading: Reading, model: ModelInput | None = None) -> FileData:
    """Read sequences, and labels if the file has them, as a trained model requires."""
    name = reading.format or format_of(source)
    if name in TABLES:
        if reading.templates is not None:
            raise ValueError(f"{source.name}: templates are for files of the format conll")
        data = read_table(table_file(source, reading, name), reading, model)
    else:
        for option in ("label", "group", "drop", "category", "missing"):
            if getattr(reading, option) and (option, name) != ("label", "conllu"):
                raise ValueError(
                    f"--{option} requires a table with named columns; the format {name} "
                    f"{LABELS[name] if option == 'label' else 'is none'}"
                )
        if reading.separator is not None and name != "conll":
            raise ValueError(
                f"{source.name}: --separator is for csv, tsv and conll; the columns of the format "
                f"{name} have their own separator"
            )
        if reading.templates is not None and name != "conll":
            raise ValueError(f"{source.name}: templates are for files of the format conll")
        data = READERS[name](source, reading, model)
    are_symbols = model is not None and model.schema.form == "symbols"
    if are_symbols:
        return data.as_symbols()
    return data


def format_of(source: Source) -> str:
    """Return the format that the extension of a file determines, or else its content."""
    name = _format_of_ending(source)
    if name is None:
        head = source.head()
        if head.startswith(UTF_16_MARKS):
            raise ValueError(f"{source.name}: the encoding of the file is UTF-16; {CONVERT_UTF_16}")
        if head.lstrip().startswith((b'{"', b"[{")):
            raise ValueError(f"{source.name}: {JSON_ADVICE}")
        name = format_of_content(head.removeprefix(BOM_UTF8), len(head) < HEAD_BYTES)
    if name is None:
        raise ValueError(
            f"{source.name}: neither the extension nor the content determines the format; specify "
            f"it with --format: {', '.join(FORMATS)}"
        )
    return name


def is_blank(source: Source, reading: Reading) -> bool:
    """Return whether a text file other than a table holds blank lines alone.

    ValueError if it holds nothing at all, as after a failed export.
    """
    head = source.head()
    if not head:
        raise ValueError(f"{source.name}: the file is empty")
    form = reading.format or _format_of_ending(source)
    return form not in TABLES and len(head) < HEAD_BYTES and not head.strip()


def _format_of_ending(source: Source) -> str | None:
    endings = [ending for ending in Path(source.path).suffixes if ending != ".gz"]
    others = {f".{name}": name for name in READERS}
    if endings:
        return (FORMAT_OF_ENDING | others).get(endings[-1].lower())
    return None


def format_of_content(head: bytes, is_whole: bool) -> str | None:
    """Return the format that the first bytes of a file have, or None if it is not certain.

    A table has the same separators in all lines, and no blank lines. CoNLL files have the same
    number of columns in all lines, and CRFsuite's have tabs and different numbers of attributes.
    """
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if b"\0" in head:
        return None
    lines = head.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not is_whole:
        lines.pop()
    text = "\n".join(lines).strip("\n")
    rows = [line for line in text.split("\n") if line.strip()]
    if _is_conllu(rows):
        return "conllu"
    has_blank_lines = len(rows) < text.count("\n") + 1
    if not has_blank_lines:
        for name, separator in SEPARATORS.items():
            with contextlib.suppress(csv.Error):
                if _common_width(list(csv.reader(rows, delimiter=separator))):
                    return name
    has_attributes = any("\t" in row and ("=" in row or ":" in row) for row in rows)
    if _common_width([split_line(row) for row in rows if not starts_document(row)]):
        if has_attributes:
            return None
        return "conll"
    if has_attributes and has_blank_lines:
        return "crfsuite"
    return None


def _is_conllu(rows: list[str]) -> bool:
    """Return whether all rows are comments or words of CoNLL-U, which count from 1."""
    words = [row.split("\t") for row in rows if not row.startswith("#")]
    ids = [re.split("[-.]", word[0])[0] for word in words if len(word) == len(CONLLU_NAMES)]
    return bool(ids) and len(ids) == len(words) and "1" in ids and all(map(str.isdigit, ids))


def _common_width(rows: list[list[str]]) -> bool:
    """Return whether all rows have the same number of fields, and more than one."""
    widths = set(map(len, rows))
    return len(widths) == 1 and max(widths) > 1
