"""Detection of the format of a file from its first lines."""

from __future__ import annotations

import contextlib
import csv
import re

from treecrf.datasets.conll import splitter
from treecrf.datasets.conllu import NAMES

PARQUET_MAGIC = b"PAR1"
TABLE_SEPARATORS = {"csv": ",", "tsv": "\t"}


def format_of_content(head: bytes, is_whole: bool) -> str | None:
    """Return the format that the first bytes of a file have, or None if it is not certain.

    Parameters
    ----------
    head : bytes
    is_whole : bool
        Whether these are all bytes of the file; otherwise, the last line is ignored.

    Notes
    -----
    A table has the same separators in all lines, and no blank lines. CoNLL files have the same
    number of columns in all lines, CoNLL-U has ten and comments, and CRFsuite's have tabs and
    different numbers of attributes.
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
        for name, separator in TABLE_SEPARATORS.items():
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
    ids = [re.split("[-.]", word[0])[0] for word in words if len(word) == len(NAMES)]
    return bool(ids) and len(ids) == len(words) and "1" in ids and all(map(str.isdigit, ids))


def _common_width(rows: list[list[str]]) -> bool:
    """Return whether all rows have the same number of fields, and more than one."""
    widths = set(map(len, rows))
    return len(widths) == 1 and max(widths) > 1
