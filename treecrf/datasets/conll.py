"""CoNLL columns, one position per line, CoNLL-U, and two shared tasks: chunks and entities."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from sklearn.utils import Bunch

from treecrf.datasets.lines import Lines, TextSource, as_lists
from treecrf.datasets.sources import fetching, labeled, locate
from treecrf.utils.validation import StrOptions

_BLANKS = re.compile("[ \t]+")
# The first column of lines that separate documents in the data of CoNLL-2003.
DOCUMENT = "-DOCSTART-"

# Columns and files of the shared tasks.
TASK_NAMES = ("word", "tag")
FILES_2002 = {"train": "esp.train", "validation": "esp.testa", "test": "esp.testb"}

Columns = dict[str, str]
Sentences = list[list[Columns]]
CONLLU_NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNSPECIFIED = "_"
# Columns of lists, in which an underscore is a value: the list is empty.
LISTS = ("feats", "deps", "misc")


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
    """Return the index of the column of labels, and the names of the other columns."""
    if isinstance(label, str):
        if names is None or label not in names:
            raise ValueError(f"label={label!r} is not in names={names!r}")
        target = list(names).index(label)
        return target, [name for j, name in enumerate(names) if j != target]
    if label is not None and not -n <= label < n:
        raise lines.error(f"{n} columns; there is no column label={label}")
    target = None if label is None else label % n
    n_others = n - (target is not None)
    return target, [f"x{j}" for j in range(n_others)] if names is None else list(names)


def split_rows(
    lines: Lines,
    split: Callable[[str], list[str]],
    n_columns: int | None,
    skipped: tuple[str, ...] = (),
    comment_hint: str = "",
) -> Iterator[list[list[str]]]:
    """Yield the rows of columns of one sequence at a time.

    All lines must have n_columns columns, or as many as the first line. Lines that start with a
    skipped text are left out. If other lines look like comments, errors give the hint about them.
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
        if comment_hint and not hint and line.startswith("#"):
            hint = f"; line {lines.number} starts with #: {comment_hint}"
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


@fetching(subset=[StrOptions({"train", "test"})])
def fetch_conll2000(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[Sentences, list[list[str]]]:
    """Load sentences with their chunks.

    The shared task of [1]_: 8936 sentences with 211,727 words for training and 2012 with 47,377 for
    testing, from the Wall Street Journal, with part-of-speech tags from the Brill tagger.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Part of the data.
    data_home : path-like, optional
        Folder to read ``conll2000/train.txt`` and ``test.txt`` from.
        $home

    $returns
        - data : list of lists of dicts, the ``word`` and ``tag`` of each word;
        - target : list of lists of str, the label of each word: ``B-NP``, ``I-NP``, ..., or ``O``;
        - feature_names : list of str, ``["word", "tag"]``;
        - filename : the path that was read.

    $raises

    Notes
    -----
    The text is from the Penn Treebank, licensed by the Linguistic Data Consortium; the task was
    published for research.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz, "Introduction to the CoNLL-2000 shared task:
       Chunking", CoNLL 2000.

    Examples
    --------
    >>> from treecrf.datasets import fetch_conll2000
    >>> sentences = fetch_conll2000()  # doctest: +SKIP
    >>> sentences.data[0][0], sentences.target[0][0]  # doctest: +SKIP
    ({'word': 'Confidence', 'tag': 'NN'}, 'B-NP')
    """
    return _fetch(f"conll2000/{subset}.txt", data_home, return_X_y)


@fetching(subset=[StrOptions(set(FILES_2002))])
def fetch_conll2002(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[Sentences, list[list[str]]]:
    """Load Spanish sentences with their named entities.

    The shared task of [1]_: 8323 sentences with 264,715 words for training, 1915 with 52,923 for
    validation (``esp.testa``), and 1517 with 51,533 for testing (``esp.testb``), from EFE news.

    Parameters
    ----------
    subset : {"train", "validation", "test"}, default="train"
        Part of the data.
    data_home : path-like, optional
        Folder to read ``conll2002/esp.train``, ``esp.testa`` and ``esp.testb`` from, in UTF-8.
        $home

    $returns
        - data : list of lists of dicts, the ``word`` and ``tag`` of each word;
        - target : list of lists of str, the label of each word: ``O``, or ``B-`` or ``I-`` followed
          by ``LOC``, ``MISC``, ``ORG`` or ``PER``;
        - feature_names : list of str, ``["word", "tag"]``;
        - filename : the path that was read.

    $raises

    Notes
    -----
    The task was published for research; the text is copyright of the EFE news agency.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, "Introduction to the CoNLL-2002 shared task: Language-independent
       named entity recognition", CoNLL 2002.

    Examples
    --------
    >>> from treecrf.datasets import fetch_conll2002
    >>> sentences = fetch_conll2002()  # doctest: +SKIP
    >>> sentences.data[0][0], sentences.target[0][0]  # doctest: +SKIP
    ({'word': 'Melbourne', 'tag': 'NP'}, 'B-LOC')
    """
    return _fetch(f"conll2002/{FILES_2002[subset]}", data_home, return_X_y)


def _fetch(name: str, data_home: str | os.PathLike | None, return_X_y: bool) -> Bunch | tuple:
    path = locate(name, data_home)
    data, target = read_conll(path, names=TASK_NAMES)
    return labeled(data, target, return_X_y, feature_names=list(TASK_NAMES), filename=str(path))


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
    if name not in CONLLU_NAMES:
        raise ValueError(f"{where}: {name!r} is not a column of CoNLL-U: {', '.join(CONLLU_NAMES)}")
    return CONLLU_NAMES.index(name)


def words_of(lines: Lines) -> Iterator[list[list[str]]]:
    """Yield the columns of the words of one sentence at a time, without ranges and empty nodes."""
    for rows in split_rows(lines, splitter("\t"), len(CONLLU_NAMES), ("#",)):
        words = [row for row in rows if "-" not in row[0] and "." not in row[0]]
        if words:
            yield words


def label_of(word: Sequence[str], column: int) -> str | None:
    """Return the label of a word, None if it is not specified."""
    is_unknown = word[column] == UNSPECIFIED and CONLLU_NAMES[column] not in LISTS
    return None if is_unknown else word[column]
