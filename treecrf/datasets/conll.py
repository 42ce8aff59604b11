"""CoNLL columns: one position per line, blank lines between sequences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from treecrf.datasets.lines import Lines, TextSource

_BLANKS = re.compile("[ \t]+")

Columns = dict[str, str]


def read_conll(
    file: TextSource,
    *,
    names: Sequence[str] | None = None,
    labeled: bool = True,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[tuple[list[Columns], list[str] | None]]:
    r"""Read sequences from CoNLL columns, one at a time.

    A line holds the columns of one position, the label last. Blank lines end a sequence. This is
    the format of the CoNLL shared tasks of 2000, 2002 and 2003, of CRF++, and of Wapiti.

    Parameters
    ----------
    file : path-like or file object
        Files that start with the gzip magic bytes are decompressed.
    names : sequence of str, optional
        Names of the columns before the label; ``x0``, ``x1``, ... by default.
    labeled : bool, default=True
        Whether the last column is the label.
    separator : str, optional
        Separator of the columns; by default any run of spaces and tabs.
    encoding : str, default="utf-8"
        Encoding of the file.

    Yields
    ------
    x : list of dict
        The column values of each position by name.
    y : list of str or None
        The labels, or None if `labeled` is False.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line has a different number of columns than the first line or than `names`, or the
        encoding is wrong; the message names the file and the line.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_conll
    >>> text = "He PRP B-NP\nreckons VBZ B-VP\n\nYes UH O\n"
    >>> for x, y in read_conll(io.StringIO(text), names=["word", "tag"]):
    ...     print(x, y)
    [{'word': 'He', 'tag': 'PRP'}, {'word': 'reckons', 'tag': 'VBZ'}] ['B-NP', 'B-VP']
    [{'word': 'Yes', 'tag': 'UH'}] ['O']
    """
    lines = Lines(file, encoding)
    n_columns = None if names is None else len(names) + labeled
    for rows in split_rows(lines, splitter(separator), n_columns):
        width = len(rows[0]) - labeled
        keys = names if names is not None else [f"x{j}" for j in range(width)]
        x = [dict(zip(keys, row[:width], strict=True)) for row in rows]
        yield x, [row[-1] for row in rows] if labeled else None


def split_rows(
    lines: Lines, split: Callable[[str], list[str]], n_columns: int | None
) -> Iterator[list[list[str]]]:
    """Yield the rows of columns of one sequence at a time.

    Parameters
    ----------
    lines : Lines
    split : callable
        Splits a line into columns.
    n_columns : int or None
        Expected number of columns; None for that of the first line.

    Raises
    ------
    ValueError
        If a line has a different number of columns.
    """
    rows: list[list[str]] = []
    expected = f"expected {n_columns}"
    for line in lines:
        if not line.strip(" \t"):
            if rows:
                yield rows
            rows = []
            continue
        row = split(line)
        if n_columns is None:
            n_columns, expected = len(row), f"expected {len(row)}, as in line {lines.number}"
        if len(row) != n_columns:
            raise lines.error(f"{len(row)} columns; {expected}")
        rows.append(row)
    if rows:
        yield rows


def splitter(separator: str | None) -> Callable[[str], list[str]]:
    """Return a function that splits a line into columns, by default at runs of spaces and tabs."""
    if separator is None:
        return lambda line: _BLANKS.split(line.strip(" \t"))
    return lambda line: line.split(separator)
