"""CoNLL columns, one position per line, CoNLL-U, and two shared tasks: chunks and entities."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from treecrf.datasets.lines import BYTE_ORDER_MARK, Lines, TextSource, as_lists, read_label

_BLANKS = re.compile("[ \t]+")
# A column of the lines that separate documents in the data of CoNLL-2003; in some data, the first
# one continues with the name of the document.
DOCUMENT = "-DOCSTART-"

Columns = dict[str, str]
Sentences = list[list[Columns]]
CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNSPECIFIED = "_"
# Columns of lists, in which an underscore is a value: the list is empty.
LISTS = ("feats", "deps", "misc")
# Numbers of words, of ranges of words that are written as one, and of empty nodes after a word.
_WORD_NUMBER = re.compile("[1-9][0-9]*")
_RANGE = re.compile("([1-9][0-9]*)-([1-9][0-9]*)")
_EMPTY_NODE = re.compile("([0-9]+)[.][1-9][0-9]*")


def read_conll(
    file: TextSource,
    *,
    names: Sequence[str] | None = None,
    label: int | str | None = -1,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[list[Columns]], list[list[str | None]] | None]:
    r"""Read the sequences of a file of CoNLL columns.

    A line holds the columns of one position, the label last. Blank lines end a sequence. A line
    with a column ``-DOCSTART-`` starts a document, and ends the sequence before it. This is the
    format of the CoNLL shared tasks of 2000, 2002 and 2003, of CRF++, and of Wapiti.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.
    names : sequence of str, optional
        Names of the columns, all different. The default is ``x0``, ``x1``, and so on. The column of
        the labels has a name only if ``label`` is one of the names.
    label : int, str or None, default=-1
        Index or name of the column with the labels. None if there are no labels.
    separator : str, optional
        Separator of the columns. The default is any run of spaces and tabs. With a separator,
        columns can be empty and contain blanks, and a line of empty columns is a blank line.
    comment : str, optional
        Start of the lines to skip.
    encoding : str, default="utf-8"
        Encoding of the file, in which a line feed must be one byte. Pass a file in UTF-16 as an
        open text file. Its own encoding then counts.

    Returns
    -------
    X : list of lists of dict
        The column values of each position by name.
    y : list of lists of str or None, or None
        The labels, without blanks around them. An empty label is None, which is a missing label to
        ``fit``. If ``label`` is None, y is None.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one of these cases. The message names the file and the line.

        - A line does not have as many columns as the first line or as ``names``.
        - Spaces and tabs divide a line differently than tabs alone.
        - There is no column ``label``, or no other column.
        - A name occurs twice, or ``separator`` or ``comment`` is empty.
        - A line begins another file without a blank line before it.
        - The file is not text in the encoding, or its name ends with ``.conllu``.
    TypeError
        If ``names`` is a str.

    See Also
    --------
    iter_conll : Read one sequence at a time.
    read_conllu : Read CoNLL-U, where some lines are not words.
    treecrf.preprocessing.AttributeTemplates : Make attributes of columns.

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
) -> Iterator[tuple[list[Columns], list[str | None] | None]]:
    r"""Read sequences from CoNLL columns, one at a time.

    Parameters
    ----------
    file : path-like or file object
        File to read, as in `read_conll`.
    names : sequence of str, optional
        Names of the columns, as in `read_conll`.
    label : int, str or None, default=-1
        Index or name of the column with the labels. None if there are no labels.
    separator : str, optional
        Separator of the columns. The default is any run of spaces and tabs.
    comment : str, optional
        Start of the lines to skip.
    encoding : str, default="utf-8"
        Encoding of the file.

    Yields
    ------
    x : list of dict
        The column values of each position by name.
    y : list of str or None, or None
        The labels. None if ``label`` is None.

    Raises
    ------
    OSError, ValueError, TypeError
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
    _check_options(names, label, separator, comment)
    lines = Lines(file, encoding)
    refuse_conllu(lines.name, "read_conllu")
    n_columns = None
    if names is not None:
        n_columns = len(names) + isinstance(label, int)
    hint = "" if comment else 'comment="#" skips such lines'
    for rows in split_rows(lines, separator, n_columns, comment, comment_hint=hint):
        target, keys = _label_column(label, names, len(rows[0]), lines)
        columns = [j for j in range(len(rows[0])) if j != target]
        x = [{key: row[j] for key, j in zip(keys, columns, strict=True)} for row in rows]
        yield x, None if target is None else [read_label(row[target]) for row in rows]


def refuse_conllu(name: str, reader: str) -> None:
    """Raise ValueError if a file has the ending of CoNLL-U; the message names its reader."""
    if name.lower().removesuffix(".gz").endswith(".conllu"):
        raise ValueError(f"{name}: in CoNLL-U, some lines are not words; {reader} leaves them out")


def check_column_names(names: Sequence[str], parameter: str) -> None:
    """Check a parameter that holds the names of columns; each may occur once."""
    if isinstance(names, str):
        raise TypeError(f"{parameter}={names!r} is a str; expected a list of names")
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(
                f"{parameter}={list(names)!r}: {name!r} occurs {count} times; expected a name for "
                "each column"
            )


def _check_options(
    names: Sequence[str] | None, label: int | str | None, separator: str | None, comment: str | None
) -> None:
    if names is not None:
        check_column_names(names, "names")
    if isinstance(label, str) and (names is None or label not in names):
        raise ValueError(f"label={label!r} is not in names={names!r}")
    if separator == "":
        raise ValueError("separator=''; expected a text, or None for any run of spaces and tabs")
    if comment == "":
        raise ValueError("comment=''; expected a text, or None if no line is a comment")


def _label_column(
    label: int | str | None, names: Sequence[str] | None, n: int, lines: Lines
) -> tuple[int | None, list[str]]:
    """Return the index of the column of labels, and the names of the other columns."""
    if label is None:
        return None, list(names) if names is not None else default_names(n)
    if n == 1:
        raise lines.error(
            "1 column; expected at least one more column before the label, or label=None for a "
            "file without labels"
        )
    if isinstance(label, str):
        target = list(names).index(label)
        return target, [name for j, name in enumerate(names) if j != target]
    if not -n <= label < n:
        raise lines.error(f"{n} columns; there is no column label={label}")
    return label % n, list(names) if names is not None else default_names(n - 1)


def default_names(n: int) -> list[str]:
    """Return the names of columns that have none."""
    return [f"x{j}" for j in range(n)]


def split_rows(
    lines: Lines,
    separator: str | None = None,
    n_columns: int | None = None,
    comment: str | None = None,
    has_documents: bool = True,
    comment_hint: str = "",
    problem_after: Callable[[list[str] | None, list[str]], str] | None = None,
) -> Iterator[list[list[str]]]:
    """Yield the rows of columns of one sequence at a time.

    A sequence ends at a blank line, and at the start of a document. All other lines must have
    n_columns columns, or as many as the first one, but those that start with the comment, which are
    left out. If other lines look like comments, errors give the hint about them. If a function
    finds a problem of a row after the row before it in the sequence, it is an error.
    """
    rows: list[list[str]] = []
    expected = f"expected {n_columns}"
    hint = ""
    for line in lines:
        is_document = has_documents and DOCUMENT in line and starts_document(line, separator)
        if is_document or is_empty_row(line, separator):
            if rows:
                yield rows
            rows = []
            continue
        if rows and lines.is_joint:
            raise lines.joint()
        if comment is not None and line.startswith(comment):
            continue
        if comment_hint and not hint and line.startswith("#"):
            hint = f"; line {lines.number} starts with #: {comment_hint}"
        row = split_line(line, separator)
        if n_columns is None:
            n_columns = len(row)
            expected = f"expected {len(row)}, as in line {lines.number}"
        if len(row) != n_columns:
            problem = _problem(line, separator)
            raise lines.error(f"{len(row)} columns; {expected}{hint}{problem}")
        if separator is None and "\t" in line:
            _refuse_blanks_within(line, row, lines)
        if problem_after is not None:
            problem = problem_after(rows[-1] if rows else None, row)
            if problem:
                raise lines.error(problem)
        rows.append(row)
    if rows:
        yield rows


def is_empty_row(line: str, separator: str | None) -> bool:
    """Return whether all columns of a line are empty, as blank lines of spreadsheets are."""
    if separator is not None:
        line = line.replace(separator, "")
    return not line.strip(" \t")


def starts_document(line: str, separator: str | None = None) -> bool:
    """Return whether one of the columns of a line is the mark of a document."""
    columns = [column.strip() for column in split_line(line, separator)]
    return columns[0].startswith(DOCUMENT) or DOCUMENT in columns


def split_line(line: str, separator: str | None = None) -> list[str]:
    """Split a line into columns, by default at runs of spaces and tabs."""
    if separator is None:
        return _BLANKS.split(line.strip(" \t"))
    return line.split(separator)


def _refuse_blanks_within(line: str, row: list[str], lines: Lines) -> None:
    """Raise ValueError if tabs alone divide a line into as many, but other columns."""
    columns = [column.strip(" ") for column in line.split("\t")]
    if len(columns) == len(row) and columns != row:
        raise lines.error(
            f"with tabs as separators, the columns are {columns}, and with spaces as well, {row}; "
            "specify the separator, or use only one"
        )


def _problem(line: str, separator: str | None) -> str:
    """Describe what may be wrong with a line that has another number of columns."""
    if BYTE_ORDER_MARK in line:
        return "; it contains a byte order mark: a file was appended to one without a final newline"
    unusual = [c for c in line if c.isspace() and c not in " \t"]
    if unusual and separator is None:
        return f"; the character U+{ord(unusual[0]):04X} in it does not separate columns"
    if separator is None and "\t" in line:
        return "; a tab as the separator keeps empty columns and spaces"
    return ""


def read_conllu(
    file: TextSource,
    *,
    columns: Sequence[str] = ("form",),
    label: str = "upos",
    encoding: str = "utf-8",
) -> tuple[list[list[Columns]], list[list[str | None]]]:
    r"""Read the sentences of a CoNLL-U file, such as a treebank of Universal Dependencies.

    The positions are the words. Comments, ranges of words that are written as one (``5-6``) and
    empty nodes (``8.1``) are left out. The columns are ``id``, ``form``, ``lemma``, ``upos``,
    ``xpos``, ``feats``, ``head``, ``deprel``, ``deps`` and ``misc``.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.
    columns : sequence of str, default=("form",)
        Columns to read as features, at least one, and all different. All columns but ``form`` are
        annotations, which new text does not have.
    label : str, default="upos"
        Column with the labels.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    X : list of lists of dict
        The column values of each word by name.
    y : list of lists of str or None
        The labels. None stands for an unspecified value, which is an underscore in the file. In
        ``feats``, ``deps`` and ``misc``, underscores remain.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one of these cases. The message names the file and the line.

        - A line does not have ten columns separated by tabs.
        - The words of a sentence are not numbered 1, 2, 3, and so on, for example because a blank
          line between two sentences is missing.
        - There is no column with a name, or a name occurs twice.
        - The file is not text in the encoding.
    TypeError
        If ``columns`` is a str.

    See Also
    --------
    iter_conllu : Read one sentence at a time.
    read_conll : Read columns without names.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_conllu
    >>> rows = ["1-2 Don't _ _", "1 Do do AUX", "2 n't not PART", "3 stop stop VERB"]
    >>> lines = ["\t".join([*row.split(), *"______"]) + "\n" for row in rows]
    >>> read_conllu(io.StringIO("# text = Don't stop\n" + "".join(lines)))
    ([[{'form': 'Do'}, {'form': "n't"}, {'form': 'stop'}]], [['AUX', 'PART', 'VERB']])
    """
    X, y = as_lists(iter_conllu(file, columns=columns, label=label, encoding=encoding))
    return X, y


def iter_conllu(
    file: TextSource,
    *,
    columns: Sequence[str] = ("form",),
    label: str = "upos",
    encoding: str = "utf-8",
) -> Iterator[tuple[list[Columns], list[str | None]]]:
    r"""Read sentences from a CoNLL-U file, one at a time.

    Parameters
    ----------
    file : path-like or file object
        File to read, as in `read_conllu`.
    columns : sequence of str, default=("form",)
        Columns to read as features.
    label : str, default="upos"
        Column with the labels.
    encoding : str, default="utf-8"
        Encoding of the file.

    Yields
    ------
    x : list of dict
        The column values of each word by name.
    y : list of str or None
        The labels, as in `read_conllu`.

    Raises
    ------
    OSError, ValueError, TypeError
        As in `read_conllu`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_conllu
    >>> row = ["1", "Stop", "stop", "VERB", *"______"]
    >>> list(iter_conllu(io.StringIO("\t".join(row))))
    [([{'form': 'Stop'}], ['VERB'])]
    """
    check_column_names(columns, "columns")
    if not columns:
        raise ValueError("columns is empty; expected the name of at least one column")
    chosen = [(name, index_of(name, f"columns={columns!r}")) for name in columns]
    target = index_of(label, f"label={label!r}")
    for words in words_of(Lines(file, encoding)):
        x = [{name: word[j] for name, j in chosen} for word in words]
        yield x, [label_of(word, target) for word in words]


def index_of(name: str, where: str) -> int:
    """Return the index of a column; raises ValueError if there is none."""
    if name not in CONLLU_NAMES:
        raise ValueError(f"{where}: {name!r} is not a column of CoNLL-U: {', '.join(CONLLU_NAMES)}")
    return CONLLU_NAMES.index(name)


def words_of(lines: Lines) -> Iterator[list[list[str]]]:
    """Yield the columns of the words of one sentence at a time, without ranges and empty nodes."""
    sentences = split_rows(
        lines, "\t", len(CONLLU_NAMES), "#", has_documents=False, problem_after=_number_problem
    )
    for rows in sentences:
        words = [row for row in rows if _WORD_NUMBER.fullmatch(row[0])]
        for row in rows:
            joined = _RANGE.fullmatch(row[0])
            if joined and int(joined[2]) > len(words):
                raise lines.error(f"the sentence ends after word {len(words)} of {row[0]}")
        if words:
            yield words


def _number_problem(before: list[str] | None, row: list[str]) -> str:
    """Return what is wrong with the number of a word, a range or a node; nothing if it is right.

    Words count from 1. A range stands before its first word, and empty nodes after a word.
    """
    number = row[0]
    n_words = _words_until(before)
    joined = _RANGE.fullmatch(number)
    empty = _EMPTY_NODE.fullmatch(number)
    if empty:
        is_right = int(empty[1]) == n_words
    elif joined:
        is_right = int(joined[1]) == n_words + 1 <= int(joined[2])
    elif _WORD_NUMBER.fullmatch(number):
        is_right = int(number) == n_words + 1
    else:
        return f"{number!r} is not the number of a word, such as 8, 8-9 or 8.1"
    if is_right:
        return ""
    first = "the first one of a sentence"
    if before is not None:
        first = f"after {before[0]}"
    return f"the number of the word is {number}, {first}; expected {n_words + 1}" + (
        "" if before is None else ", or a blank line, which ends a sentence"
    )


def _words_until(row: list[str] | None) -> int:
    """Return the number of words of a sentence until a row."""
    if row is None:
        return 0
    joined = _RANGE.fullmatch(row[0])
    if joined:
        return int(joined[1]) - 1
    return int(row[0].partition(".")[0])


def label_of(word: Sequence[str], column: int) -> str | None:
    """Return the label of a word, None if it is not specified."""
    label = read_label(word[column])
    is_unknown = label == UNSPECIFIED and CONLLU_NAMES[column] not in LISTS
    if is_unknown:
        return None
    return label
