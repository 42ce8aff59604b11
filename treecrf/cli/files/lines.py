"""Files of lines, a position each, as sequences and labels."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from scipy import sparse

from treecrf.cli.files.data import FileData, ModelInput, Reading, array_of_words
from treecrf.datasets.conll import split_rows, splitter
from treecrf.datasets.crfsuite import read_crfsuite
from treecrf.datasets.lines import Lines
from treecrf.datasets.sparse_rows import read_sparse
from treecrf.inputs.sequences import (
    BOOLEAN,
    CATEGORY,
    NUMBER,
    ColumnTable,
    ListedSequences,
    LongSequences,
    offsets_of,
)


class Codes:
    """Codes of values in the order in which they come up, from 1."""

    def __init__(self) -> None:
        self._index: dict[str, int] = defaultdict(lambda: len(self._index) + 1)
        self._codes = array("i")

    def extend(self, values: Iterable[str]) -> None:
        """Take values."""
        self._codes.extend(map(self._index.__getitem__, values))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """The sorted values, and for each position the place of its own, from 1."""
        values = array_of_words(list(self._index))
        order = np.argsort(values)
        ranks = np.zeros(len(values) + 1, dtype=np.int32)
        ranks[order + 1] = np.arange(1, len(values) + 1)
        return values[order], ranks[np.array(self._codes)]


def read_columns(path: str, reading: Reading, model: ModelInput | None) -> FileData:
    """Read CoNLL columns: the last is the label, the others are categories.

    With a model, a file that has as many columns as it has features holds no labels.
    """
    lines = Lines(path, reading.encoding)
    columns: list[Codes] = []
    lengths = []
    for rows in split_rows(lines, splitter(reading.separator), None):
        if not columns:
            has_labels = _has_labels(len(rows[0]), lines, model)
            columns = [Codes() for _ in rows[0]]
        for codes, values in zip(columns, zip(*rows, strict=True), strict=True):
            codes.extend(values)
        lengths.append(len(rows))
    _check_any(path, lengths)
    offsets = offsets_of(lengths)
    labels = _split(columns.pop(), offsets) if has_labels else None
    return FileData(_column_sequences(columns, offsets), labels)


def _has_labels(n_columns: int, lines: Lines, model: ModelInput | None) -> bool:
    """Whether the last of the columns is the label."""
    if model is None:
        if n_columns == 1:
            raise lines.error("there is one column; expected others before the label")
        return True
    n_features = model.trained.n_features
    if n_columns not in (n_features, n_features + 1):
        raise lines.error(
            f"{n_columns} columns; the model was trained with {n_features}, beside the label"
        )
    return n_columns > n_features


def _column_sequences(columns: list[Codes], offsets: np.ndarray) -> LongSequences:
    known, codes = zip(*(column.finish() for column in columns), strict=True)
    n = len(columns)
    return LongSequences.of(
        ColumnTable(list(codes), np.ones(n, dtype=bool)),
        offsets,
        form="dense",
        n_features=n,
        dtype=np.dtype(np.float64),
        names=tuple(f"x{j}" for j in range(n)),
        kinds=np.full(n, CATEGORY, dtype=np.uint8),
        categories=dict(enumerate(known)),
    )


class Attributes:
    """Rows of a sparse table whose columns are named by attributes.

    Parameters
    ----------
    names : tuple of str, optional
        The columns of a model; others are left out.
    """

    def __init__(self, names: tuple[str, ...] | None):
        self.names = names
        self._index = {name: j for j, name in enumerate(names or ())}
        self._columns, self._values, self._ends = array("i"), array("d"), array("q", [0])

    def append(self, attributes: dict[str, float]) -> None:
        """Take a row; 0 is the same as no attribute."""
        for name, value in attributes.items():
            if value and (self.names is None or name in self._index):
                self._columns.append(self._index.setdefault(name, len(self._index)))
                self._values.append(value)
        self._ends.append(len(self._columns))

    def finish(self) -> tuple[tuple[str, ...], sparse.csr_array]:
        """The names of the columns, sorted or as in the model, and the table."""
        names = self.names
        if names is None:
            names = tuple(array_of_words(sorted(self._index)).tolist())
        ranks = np.empty(len(names), dtype=np.int32)
        ranks[[self._index[name] for name in names]] = np.arange(len(names))
        entries = (np.array(self._values), ranks[np.array(self._columns)], np.array(self._ends))
        return names, sparse.csr_array(entries, shape=(len(self._ends) - 1, len(names)))


def read_attributes(path: str, reading: Reading, model: ModelInput | None) -> FileData:
    """Read CRFsuite's format: attributes become columns of a sparse table."""
    if model is not None and model.trained.names is None:
        raise ValueError(f"{path}: the model was trained on columns without names")
    attributes = Attributes(None if model is None else model.trained.names)
    labels, lengths = Codes(), []
    for x, y in read_crfsuite(path, encoding=reading.encoding):
        for row in x:
            attributes.append(row)
        labels.extend(y)
        lengths.append(len(y))
    _check_any(path, lengths)
    names, table = attributes.finish()
    if not names:
        raise ValueError(f"{path}: no line has an attribute")
    if np.isinf(table.data).any():
        j = table.indices[np.argmax(np.isinf(table.data))]
        raise ValueError(f"{path}: a value of the attribute {names[j]!r} is not finite")
    offsets = offsets_of(lengths)
    return FileData(_attribute_sequences(names, table, offsets), _split(labels, offsets))


def _attribute_sequences(
    names: tuple[str, ...], table: sparse.csr_array, offsets: np.ndarray
) -> LongSequences:
    is_number = np.zeros(len(names), dtype=bool)
    is_number[table.indices[table.data != 1]] = True
    return LongSequences.of(
        table,
        offsets,
        form="sparse",
        n_features=len(names),
        dtype=np.dtype(np.float64),
        names=names,
        kinds=np.where(is_number, NUMBER, BOOLEAN).astype(np.uint8),
    )


def read_windows(path: str, reading: Reading, model: ModelInput | None) -> FileData:
    """Read the sparse format of the papers: booleans of a sparse table."""
    pairs = list(read_sparse(path))
    _check_any(path, pairs)
    items, labels = map(list, zip(*pairs, strict=True))
    sequences = ListedSequences(
        form="sparse",
        items=items,
        offsets=offsets_of([len(y) for y in labels]),
        n_features=items[0].shape[1],
        dtype=np.dtype(bool),
    )
    return FileData(sequences, labels)


def _check_any(path: str, sequences: list) -> None:
    if not sequences:
        raise ValueError(f"{path} holds no sequences")


def _split(labels: Codes, offsets: np.ndarray) -> list[np.ndarray]:
    """The labels of each sequence."""
    values, codes = labels.finish()
    return np.split(values[codes - 1], offsets[1:-1])
