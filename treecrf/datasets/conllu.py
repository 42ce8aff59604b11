"""CoNLL-U, the format of Universal Dependencies: ten columns with names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treecrf.datasets.conll import Columns, split_rows, splitter
from treecrf.datasets.lines import Lines, TextSource, as_lists

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNSPECIFIED = "_"
# Columns of lists, in which an underscore is a value: the list is empty.
LISTS = ("feats", "deps", "misc")


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
        Files that start with the gzip magic bytes are decompressed.
    columns : sequence of str, default=("form",)
        Columns to read as features. All but ``form`` are annotations, which new text does not have.
    label : str, default="upos"
        Column with the labels.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    X : list of lists of dict
        The column values of each word by name.
    y : list of lists of str or None
        The labels. None stands for an underscore, an unspecified value, except in ``feats``,
        ``deps`` and ``misc``.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line does not have ten columns separated by tabs, there is no column with a name, or
        the encoding is wrong; the message names the file and the line.

    See Also
    --------
    iter_conllu : Reads one sentence at a time.
    read_conll : Reads columns without names.

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
        As in `read_conllu`.
    columns, label, encoding : optional
        As in `read_conllu`.

    Yields
    ------
    x : list of dict
        The column values of each word by name.
    y : list of str or None
        The labels, as in `read_conllu`.

    Raises
    ------
    OSError, ValueError
        As in `read_conllu`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_conllu
    >>> row = ["1", "Stop", "stop", "VERB", *"______"]
    >>> list(iter_conllu(io.StringIO("\t".join(row))))
    [([{'form': 'Stop'}], ['VERB'])]
    """
    chosen = [(name, index_of(name, f"columns={columns!r}")) for name in columns]
    target = index_of(label, f"label={label!r}")
    for words in words_of(Lines(file, encoding)):
        x = [{name: word[j] for name, j in chosen} for word in words]
        yield x, [label_of(word, target) for word in words]


def index_of(name: str, where: str) -> int:
    """Return the index of a column; raises ValueError if there is none."""
    if name not in NAMES:
        raise ValueError(f"{where}: {name!r} is not a column of CoNLL-U: {', '.join(NAMES)}")
    return NAMES.index(name)


def words_of(lines: Lines) -> Iterator[list[list[str]]]:
    """Yield the columns of the words of one sentence at a time, without ranges and empty nodes."""
    for rows in split_rows(lines, splitter("\t"), len(NAMES), ("#",)):
        words = [row for row in rows if "-" not in row[0] and "." not in row[0]]
        if words:
            yield words


def label_of(word: Sequence[str], column: int) -> str | None:
    """Return the label of a word, None if it is not specified."""
    is_unknown = word[column] == UNSPECIFIED and NAMES[column] not in LISTS
    return None if is_unknown else word[column]
