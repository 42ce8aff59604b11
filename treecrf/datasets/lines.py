"""Text files line by line, the format of CRFsuite, and the sparse format of the TREECRF papers."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

TextSource = str | os.PathLike | IO


class Lines:
    """The lines of a file, without line endings.

    A file object yields bytes or text and stays open. Bytes that start with the gzip magic bytes
    are decompressed. In the encoding, a line feed must be one byte, as in UTF-8 and Latin-1.
    """

    def __init__(self, source: TextSource, encoding: str = "utf-8"):
        self.source = source
        self.encoding = encoding
        is_path = isinstance(source, (str, os.PathLike))
        # Of the file in messages, and of the current line, from 1.
        self.name = os.fspath(source) if is_path else str(getattr(source, "name", "the file"))
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        """Read the lines; a byte order mark at the start is skipped."""
        with self._opened() as file:
            try:
                for line in file:
                    self.number += 1
                    text = line if isinstance(line, str) else self._decoded(line)
                    yield text.rstrip("\r\n")
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{self.name}: damaged after line {self.number}: {error}"
                ) from error

    def error(self, message: str) -> ValueError:
        """Make an error that names the current line."""
        return ValueError(f"{self.name}, line {self.number}: {message}")

    def _decoded(self, line: bytes) -> str:
        try:
            text = line.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self.error(
                f"byte {error.start} is not {self.encoding}: {error.reason}; try another encoding="
            ) from None
        return text.removeprefix("\ufeff") if self.number == 1 else text

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        if not isinstance(self.source, (str, os.PathLike)):
            yield _decompressed(self.source)
            return
        with open(self.source, "rb") as file:
            yield _decompressed(file)


def _decompressed(file: Any) -> Any:
    """Return the file, decompressed if it is gzip; streams that cannot peek are taken as plain."""
    is_gzip = hasattr(file, "peek") and file.peek(2)[:2] == b"\x1f\x8b"
    return gzip.GzipFile(fileobj=file) if is_gzip else file


def as_lists(sequences: Iterable[tuple], n_parts: int = 2) -> tuple[list, ...]:
    """Return a list of the first parts of all tuples, a list of the second parts, and so on."""
    lists = tuple(map(list, zip(*sequences, strict=True)))
    return lists or tuple([] for _ in range(n_parts))


# A backslash escapes a colon or a backslash; before any other character it is literal.
_PART = re.compile(r"(?:\\[:\\]|[^:])*")
_ESCAPED = re.compile(r"\\([:\\])")
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.IGNORECASE)

Attributes = dict[str, float]


def read_crfsuite(
    file: TextSource, *, encoding: str = "utf-8"
) -> tuple[list[list[Attributes]], list[list[str]]]:
    r"""Read the sequences of a file in the format of CRFsuite.

    Parameters
    ----------
    file, encoding
        As in `iter_crfsuite`, which also describes the format.

    Returns
    -------
    X : list of lists of dict
        The attribute values of each position by name.
    y : list of lists of str
        The labels.

    Raises
    ------
    OSError, ValueError
        As in `iter_crfsuite`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_crfsuite
    >>> X, y = read_crfsuite(io.StringIO("B-NP\tw=He\tcap\n\nO\tw=\\:\n"))
    >>> X, y
    ([[{'w=He': 1.0, 'cap': 1.0}], [{'w=:': 1.0}]], [['B-NP'], ['O']])
    """
    return as_lists(iter_crfsuite(file, encoding=encoding))


def iter_crfsuite(
    file: TextSource, *, encoding: str = "utf-8"
) -> Iterator[tuple[list[Attributes], list[str]]]:
    r"""Read sequences in the format of CRFsuite, one at a time.

    The fields of a line are separated by tabs: the label, then the attributes, ``name`` or
    ``name:value``. Blank lines end a sequence. In names ``\:`` is a colon and ``\\`` a backslash.

    Parameters
    ----------
    file : path-like or file object
        Files that start with the gzip magic bytes are decompressed.
    encoding : str, default="utf-8"
        Encoding of the file.

    Yields
    ------
    x : list of dict
        The attribute values of each position by name: 1.0 if no value is given, and the sum if an
        attribute is repeated.
    y : list of str
        The labels.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line has no label, a value is not a number, a field has too many colons, or the file
        has sequence weights (``@weight``), which are not supported; the message names the file and
        the line.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_crfsuite
    >>> text = "B-NP\tw=He\tcap\nB-VP\tw=reckons\tlength:7\n\nO\tw=\\:\n"
    >>> for x, y in iter_crfsuite(io.StringIO(text)):
    ...     print(x, y)
    [{'w=He': 1.0, 'cap': 1.0}, {'w=reckons': 1.0, 'length': 7.0}] ['B-NP', 'B-VP']
    [{'w=:': 1.0}] ['O']
    """
    lines = Lines(file, encoding)
    x: list[Attributes] = []
    y: list[str] = []
    for line in lines:
        if line:
            label, attributes = _parse(line, lines)
            x.append(attributes)
            y.append(label)
        elif x:
            yield x, y
            x, y = [], []
    if x:
        yield x, y


def _parse(line: str, lines: Lines) -> tuple[str, Attributes]:
    """Return the label and the attributes of a line."""
    fields = [field for field in line.split("\t") if field]
    if not fields:
        raise lines.error("no label")
    label, value = _split(fields[0], lines)
    if label.startswith("@"):
        raise lines.error(f"declarations such as {fields[0]!r} are not supported")
    if value is not None:
        raise lines.error(rf"the label {fields[0]!r} has a value; escape a colon in a label as \:")
    attributes: Attributes = {}
    for field in fields[1:]:
        name, value = _split(field, lines)
        if value and not _NUMBER.fullmatch(value):
            raise lines.error(f"the value {value!r} of {name!r} is not a number")
        attributes[name] = attributes.get(name, 0.0) + (float(value) if value else 1.0)
    return label, attributes


def _split(field: str, lines: Lines) -> tuple[str, str | None]:
    """Return the name and the value of a field."""
    if "\\" not in field:
        name, colon, value = field.partition(":")
    else:
        end = _PART.match(field).end()
        name, colon, value = field[:end], field[end : end + 1], field[end + 1 :]
        name = _ESCAPED.sub(r"\1", name)
    if ":" in value:
        raise lines.error(rf"too many colons in {field!r}; escape a colon in a name as \:")
    return name, value if colon else None


MAX_FEATURES = np.iinfo(np.int32).max
_WHOLE = re.compile("[0-9]{1,18}")


def read_sparse(file: TextSource) -> tuple[list[sparse.csr_array], list[np.ndarray]]:
    r"""Read the sequences of a file in the sparse format of the TREECRF papers.

    Parameters
    ----------
    file
        As in `iter_sparse`, which also describes the format.

    Returns
    -------
    X : list of bool CSR arrays (n_positions, n_features)
        Features.
    y : list of int arrays (n_positions,)
        Labels.

    Raises
    ------
    OSError, ValueError
        As in `iter_sparse`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_sparse
    >>> X, y = read_sparse(io.StringIO("1 2 4\n1 1 2 0 3 1\n1 2 1 1 0\n"))
    >>> X[0].toarray().astype(int).tolist(), y
    ([[1, 0, 0, 1], [0, 1, 0, 0]], [array([1, 0])])
    """
    return as_lists(iter_sparse(file))


def iter_sparse(file: TextSource) -> Iterator[tuple[sparse.csr_array, np.ndarray]]:
    r"""Read sequences in the sparse format of the TREECRF papers, one at a time.

    The first line holds the numbers of sequences, labels, and features. Every other line is a
    position: the number of the sequence and of the position within it, both from 1; the number of
    true features and their indices, from 0; and the label, from 0. Blank lines are ignored.

    Parameters
    ----------
    file : path-like or file object
        Files that start with the gzip magic bytes are decompressed.

    Yields
    ------
    x : bool CSR array (n_positions, n_features)
        Features.
    y : int array (n_positions,)
        Labels.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line does not have this format, or sequences are missing; the message names the file
        and the line.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_sparse
    >>> text = "2 2 4\n1 1 2 0 3 1\n1 2 1 1 0\n\n2 1 0 1\n"
    >>> for x, y in iter_sparse(io.StringIO(text)):
    ...     print(x.toarray().astype(int).tolist(), y)
    [[1, 0, 0, 1], [0, 1, 0, 0]] [1 0]
    [[0, 0, 0, 0]] [1]
    """
    lines = Lines(file)
    rows = (_integers(line, lines) for line in lines if line.strip())
    n_sequences, n_labels, n_features = _header(next(rows, None), lines)
    number = 1
    features: list[list[int]] = []
    labels: list[int] = []
    for row in rows:
        if labels and row[:2] == [number + 1, 1]:
            yield _matrix(features, n_features), np.array(labels)
            number, features, labels = number + 1, [], []
        if row[:2] != [number, len(labels) + 1]:
            raise lines.error(
                f"sequence and position are {row[:2]}; expected {[number, len(labels) + 1]}"
                + (f" or {[number + 1, 1]}" if labels else "")
            )
        features.append(_features(row, n_features, lines))
        if row[-1] >= n_labels:
            raise lines.error(f"label {row[-1]}; the first line declares {n_labels} labels")
        labels.append(row[-1])
    if labels:
        yield _matrix(features, n_features), np.array(labels)
    n_read = number if labels else 0
    if n_read != n_sequences:
        raise lines.error(f"the file ends after {n_read} of {n_sequences} sequences")


def _integers(line: str, lines: Lines) -> list[int]:
    words = line.split()
    if not all(map(_WHOLE.fullmatch, words)):
        raise lines.error(f"{line!r} is not a line of whole numbers")
    return list(map(int, words))


def _header(row: list[int] | None, lines: Lines) -> list[int]:
    if row is None or len(row) != 3:
        raise lines.error("expected the numbers of sequences, labels, and features")
    if row[2] > MAX_FEATURES:
        raise lines.error(f"{row[2]} features; expected at most {MAX_FEATURES}")
    return row


def _features(row: list[int], n_features: int, lines: Lines) -> list[int]:
    features = row[3:-1]
    if len(row) < 4 or row[2] != len(features):
        raise lines.error(
            "expected sequence, position, number of features, that many features, and label"
        )
    if max(features, default=0) >= n_features:
        raise lines.error(f"feature {max(features)}; the first line declares {n_features} features")
    if len(set(features)) < len(features):
        raise lines.error("a feature occurs twice")
    return features


def _matrix(features: list[list[int]], n_features: int) -> sparse.csr_array:
    ends = np.cumsum([0, *map(len, features)])
    columns = np.array([column for row in features for column in sorted(row)], dtype=np.int32)
    values = np.ones(len(columns), dtype=bool)
    return sparse.csr_array((values, columns, ends), shape=(len(features), n_features))


def read_windows(path: Path, alphabet: str, left: int) -> tuple[list[str], list[str]]:
    """Recover sequences of letters and labels from a file of windows of letters.

    Each position of a window has a block of features: one for each letter of the alphabet, and a
    last one for "beyond the end". Exactly one feature per block is true.

    A window has ``left`` letters before the labeled one. The letters of a sequence can be more than
    its labels, one digit each, since the last windows reach ahead.
    """
    letters, labels = [], []
    for i, (x, y) in enumerate(iter_sparse(path), start=1):
        symbols = _symbols(x, len(alphabet) + 1)
        if symbols is None:
            raise ValueError(f"{path}, sequence {i}: the rows are not windows of {alphabet!r}")
        codes = np.append(symbols[:, left], symbols[-1, left + 1 :])
        letters.append("".join(alphabet[code] for code in codes if code < len(alphabet)))
        labels.append("".join(map(str, y)))
    return letters, labels


def _symbols(x: sparse.csr_array, n_symbols: int) -> np.ndarray | None:
    """Return the symbol of each block of each row, or None if a block does not have exactly one."""
    n_blocks, rest = divmod(x.shape[1], n_symbols)
    if rest or np.any(np.diff(x.indptr) != n_blocks):
        return None
    columns = x.indices.reshape(len(x.indptr) - 1, n_blocks)
    blocks, symbols = np.divmod(columns, n_symbols)
    return symbols if np.all(blocks == np.arange(n_blocks)) else None
