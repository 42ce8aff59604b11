"""The sparse format of the TREECRF papers: indices of true features."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from treecrf.datasets.lines import Lines, TextSource, as_lists
from treecrf.utils.scipy_sparse import sparse

MAX_FEATURES = np.iinfo(np.int32).max
_WHOLE = re.compile("[0-9]{1,18}")


def read_sparse(file: TextSource) -> tuple[list[sparse.csr_array], list[np.ndarray]]:
    r"""Read the sequences of a file in the sparse format of the TREECRF papers.

    Parameters
    ----------
    file : path-like or file object
        File to read, as in `iter_sparse`, which also describes the format.

    Returns
    -------
    X : list of bool CSR arrays of shape (n_positions, n_features)
        Features.
    y : list of int arrays of shape (n_positions,)
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
        File to read. It is decompressed if it starts with the gzip magic bytes.

    Yields
    ------
    x : bool CSR array of shape (n_positions, n_features)
        Features.
    y : int array of shape (n_positions,)
        Labels.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line does not have this format, or sequences are missing. The message names the file
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
            number = number + 1
            features = []
            labels = []
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
        hint = ""
        if ":" in line:
            hint = "; svmlight files are read by sklearn.datasets.load_svmlight_file"
        raise lines.error(f"{line!r} is not a line of whole numbers{hint}")
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
    letters = []
    labels = []
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
    if np.all(blocks == np.arange(n_blocks)):
        return symbols
    return None
