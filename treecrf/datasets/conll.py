"""CoNLL columns: one position per line, blank lines between sequences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from treecrf.datasets.lines import Lines, TextSource

_BLANKS = re.compile("[ \t]+")
# The first column of lines that separate documents in the data of CoNLL-2003.
DOCUMENT = "-DOCSTART-"

Columns = dict[str, str]


def read_conll(
    file: TextSource,
    *,
    names: Sequence[str] | None = None,
    label: int | str | None = -1,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[list[Columns]], list[list[str]] | None]:
    r"""Read the sequences of a file of CoNLL columns.

    A line holds the columns of one position, the label last. Blank lines end a sequence. This is
    the format of the CoNLL shared tasks of 2000, 2002 and 2003, of CRF++, and of Wapiti. Lines that
    start with ``-DOCSTART-`` are skipped.

    Parameters
    ----------
    file : path-like or file object
        Files that start with the gzip magic bytes are decompressed.
    names : sequence of str, optional
        Names of the columns; ``x0``, ``x1``, ... by default. The label has a name only if ``label``
        is one of the names.
    label : int, str or None, default=-1
        Index or name of the column with the labels. None if there are no labels.
    separator : str, optional
        Separator of the columns; by default any run of spaces and tabs.
    comment : str, optional
        Lines that start with it are skipped.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    X : list of lists of dict
        The column values of each position by name.
    y : list of lists of str, or None
        The labels; None if ``label`` is None.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line has a different number of columns than the first line or than `names`, there is
        no column ``label``, the encoding is wrong, or the name of the file ends with ``.conllu``;
        the message names the file and the line.

    See Also
    --------
    iter_conll : Reads one sequence at a time.
    read_conllu : Reads CoNLL-U, where some lines are not words.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_conll
    >>> text = "He PRP B-NP\nreckons VBZ B-VP\n\nYes UH O\n"
    >>> X, y = read_conll(io.StringIO(text), names=["word", "tag"])
    >>> X[0]
    [{'word': 'He', 'tag': 'PRP'}, {'word': 'reckons', 'tag': 'VBZ'}]
    >>> y
    [['B-NP', 'B-VP'], ['O']]
    """
    options = {"separator": separator, "comment": comment, "encoding": encoding}
    X, y = as_lists(iter_conll(file, names=names, label=label, **options))
    return X, None if label is None else y


def iter_conll(
    file: TextSource,
    *,
    names: Sequence[str] | None = None,
    label: int | str | None = -1,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[tuple[list[Columns], list[str] | None]]:
    r"""Read sequences from CoNLL columns, one at a time.

    Parameters
    ----------
    file : path-like or file object
        As in `read_conll`.
    names, label, separator, comment, encoding : optional
        As in `read_conll`.

    Yields
    ------
    x : list of dict
        The column values of each position by name.
    y : list of str or None
        The labels; None if ``label`` is None.

    Raises
    ------
    OSError, ValueError
        As in `read_conll`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_conll
    >>> text = "He PRP B-NP\nreckons VBZ B-VP\n\nYes UH O\n"
    >>> for x, y in iter_conll(io.StringIO(text), names=["word", "tag"]):
    ...     print(x, y)
    [{'word': 'He', 'tag': 'PRP'}, {'word': 'reckons', 'tag': 'VBZ'}] ['B-NP', 'B-VP']
    [{'word': 'Yes', 'tag': 'UH'}] ['O']
    """
    lines = Lines(file, encoding)
    if lines.name.lower().removesuffix(".gz").endswith(".conllu"):
        raise ValueError(
            f"{lines.name}: in CoNLL-U, some lines are not words; read_conllu leaves them out"
        )
    skipped = (DOCUMENT,) if comment is None else (DOCUMENT, comment)
    n_columns = None if names is None else len(names) + isinstance(label, int)
    hint = "" if comment else 'comment="#" skips such lines'
    for rows in split_rows(lines, splitter(separator), n_columns, skipped, hint):
        target, keys = _label_column(label, names, len(rows[0]), lines)
        columns = [j for j in range(len(rows[0])) if j != target]
        x = [{key: row[j] for key, j in zip(keys, columns, strict=True)} for row in rows]
        yield x, None if target is None else [row[target] for row in rows]


def _label_column(
    label: int | str | None, names: Sequence[str] | None, n: int, lines: Lines
) -> tuple[int | None, list[str]]:
    """Return the index of the column of labels, and the names of the others."""
    if isinstance(label, str):
        if names is None or label not in names:
            raise ValueError(f"label={label!r} is not in names={names!r}")
        target = list(names).index(label)
        return target, [name for j, name in enumerate(names) if j != target]
    if label is not None and not -n <= label < n:
        raise lines.error(f"{n} columns; there is no column label={label}")
    target = None if label is None else label % n
    others = n - (target is not None)
    return target, [f"x{j}" for j in range(others)] if names is None else list(names)


def as_lists(sequences: Iterable[tuple], n_parts: int = 2) -> tuple[list, ...]:
    """Return a list of the first parts of all tuples, one of the second parts, and so on."""
    lists: tuple[list, ...] = tuple([] for _ in range(n_parts))
    for parts in sequences:
        for items, part in zip(lists, parts, strict=True):
            items.append(part)
    return lists


def split_rows(
    lines: Lines,
    split: Callable[[str], list[str]],
    n_columns: int | None,
    skipped: tuple[str, ...] = (),
    of_comments: str = "",
) -> Iterator[list[list[str]]]:
    """Yield the rows of columns of one sequence at a time.

    Parameters
    ----------
    lines : Lines
    split : callable
        Splits a line into columns.
    n_columns : int or None
        Expected number of columns; None for that of the first line.
    skipped : tuple of str
        Lines that start with one of these are left out.
    of_comments : str
        Hint for errors if other lines look like comments.

    Raises
    ------
    ValueError
        If a line has a different number of columns.
    """
    rows: list[list[str]] = []
    expected, hint = f"expected {n_columns}", ""
    for line in lines:
        if not line.strip(" \t"):
            if rows:
                yield rows
            rows = []
            continue
        if line.startswith(skipped):
            continue
        if of_comments and not hint and line.startswith("#"):
            hint = f"; line {lines.number} starts with #: {of_comments}"
        row = split(line)
        if n_columns is None:
            n_columns, expected = len(row), f"expected {len(row)}, as in line {lines.number}"
        if len(row) != n_columns:
            raise lines.error(f"{len(row)} columns; {expected}{hint}")
        rows.append(row)
    if rows:
        yield rows


def splitter(separator: str | None) -> Callable[[str], list[str]]:
    """Return a function that splits a line into columns, by default at runs of spaces and tabs."""
    if separator is None:
        return lambda line: _BLANKS.split(line.strip(" \t"))
    return lambda line: line.split(separator)
