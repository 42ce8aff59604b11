"""Files of sequences and labels: their formats, and how each is read."""

from __future__ import annotations

import contextlib
import csv
import re
from pathlib import Path

from treecrf.cli.files.data import FileData, ModelInput, Reading
from treecrf.cli.files.lines import (
    read_conll_file,
    read_conllu_file,
    read_crfsuite_file,
    read_sparse_file,
)
from treecrf.cli.files.tables import read_table
from treecrf.datasets.conll import CONLLU_NAMES, splitter
from treecrf.inputs.forms import FORMAT_OF_ENDING
from treecrf.inputs.table_sources import HEAD_BYTES, SEPARATORS, Source
from treecrf.inputs.tables import table_file

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
        data = read_table(table_file(source, reading, name), reading, model)
    else:
        for option in ("label", "group", "drop", "category", "missing"):
            if getattr(reading, option) and (option, name) != ("label", "conllu"):
                raise ValueError(
                    f"--{option} requires a table with named columns; the format {name} "
                    f"{LABELS[name] if option == 'label' else 'is none'}"
                )
        data = READERS[name](source, reading, model)
    of_symbols = model is not None and model.schema.form == "symbols"
    return data.as_symbols() if of_symbols else data


def format_of(source: Source) -> str:
    """Return the format that the extension of a file determines, or else its content."""
    name = _format_of_ending(source)
    if name is None:
        head = source.head()
        if head.lstrip().startswith((b'{"', b"[{")):
            raise ValueError(f"{source.name}: {JSON_ADVICE}")
        name = format_of_content(head, len(head) < HEAD_BYTES)
    if name is None:
        raise ValueError(
            f"{source.name}: neither the extension nor the content determines the format; specify "
            f"it with --format: {', '.join(FORMATS)}"
        )
    return name


def is_blank(source: Source, reading: Reading) -> bool:
    """Return whether a text file holds no characters but spaces and line ends."""
    head = source.head()
    is_text = "parquet" not in (reading.format, _format_of_ending(source))
    return is_text and len(head) < HEAD_BYTES and not head.strip()


def _format_of_ending(source: Source) -> str | None:
    endings = [ending for ending in Path(source.path).suffixes if ending != ".gz"]
    others = {f".{name}": name for name in READERS}
    return (FORMAT_OF_ENDING | others).get(endings[-1].lower()) if endings else None


def format_of_content(head: bytes, is_whole: bool) -> str | None:
    """Return the format that the first bytes of a file have, or None if it is not certain.

    A table has the same separators in all lines, and no blank lines. CoNLL files have the same
    number of columns in all lines, and CRFsuite's have tabs and different numbers of attributes.
    """
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if b"\0" in head:
        return None
    lines = head.decode("latin-1").replace("\r\n", "\n").split("\n")
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
    if _common_width(list(map(splitter(None), rows))):
        return None if has_attributes else "conll"
    return "crfsuite" if has_attributes and has_blank_lines else None


def _is_conllu(rows: list[str]) -> bool:
    """Return whether all rows are comments or words of CoNLL-U, which count from 1."""
    words = [row.split("\t") for row in rows if not row.startswith("#")]
    ids = [re.split("[-.]", word[0])[0] for word in words if len(word) == len(CONLLU_NAMES)]
    return bool(ids) and len(ids) == len(words) and "1" in ids and all(map(str.isdigit, ids))


def _common_width(rows: list[list[str]]) -> bool:
    """Return whether all rows have the same number of fields, and more than one."""
    widths = set(map(len, rows))
    return len(widths) == 1 and max(widths) > 1
