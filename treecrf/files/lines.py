"""Files of lines, a position each, as sequences and labels."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from scipy import sparse

from treecrf.datasets.conll import split_rows, splitter
from treecrf.datasets.crfsuite import read_crfsuite
from treecrf.datasets.lines import Lines
from treecrf.datasets.sparse_rows import read_sparse
from treecrf.files.data import FileData, ModelInput, Reading, array_of_words
from treecrf.sequences import (
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
    n_features = None if model is None else model.trained.n_features
    columns: list[Codes] = []
    lengths = []
    for rows in split_rows(lines, splitter(reading.separator), None):
        if not columns:
            columns = [Codes() for _ in rows[0]]
            if n_features is not None and len(columns) not in (n_features, n_features + 1):
                raise lines.error(
                    f"{len(columns)} columns; the model was trained with {n_features}, beside the "
                    "label"
                )
        for codes, values in zip(columns, zip(*rows, strict=True), strict=True):
            codes.extend(values)
        lengths.append(len(rows))
    _check_any(path, lengths)
    has_labels = n_features is None or len(columns) > n_features
    if len(columns) == has_labels:
        raise ValueError(f"{path}: there is one column; expected others before the label")
    labels, codes = columns[-1].finish()
    values = [column.finish() for column in columns[: len(columns) - has_labels]]
    offsets = offsets_of(lengths)
    sequences = LongSequences.of(
        ColumnTable([codes for _, codes in values], np.ones(len(values), dtype=bool)),
        offsets,
        form="dense",
        n_features=len(values),
        dtype=np.dtype(np.float64),
        names=tuple(f"x{j}" for j in range(len(values))),
        kinds=np.full(len(values), CATEGORY, dtype=np.uint8),
        categories={j: known for j, (known, _) in enumerate(values)},
    )
    return FileData(sequences, _split(labels[codes - 1], offsets) if has_labels else None)


def read_attributes(path: str, reading: Reading, model: ModelInput | None) -> FileData:
    """Read CRFsuite's format: attributes become columns of a sparse table.

    With a model, attributes that it does not know are left out.
    """
    known = None if model is None else model.trained.names
    if model is not None and known is None:
        raise ValueError(f"{path}: the model was trained on columns without names")
    index: dict[str, int] = {name: j for j, name in enumerate(known or ())}
    columns, values, ends, lengths = array("i"), array("d"), array("q", [0]), []
    labels = Codes()
    for x, y in read_crfsuite(path, encoding=reading.encoding):
        for attributes in x:
            for name, value in attributes.items():
                if value and (known is None or name in index):
                    columns.append(index.setdefault(name, len(index)))
                    values.append(value)
            ends.append(len(columns))
        labels.extend(y)
        lengths.append(len(y))
    _check_any(path, lengths)
    if not index:
        raise ValueError(f"{path}: no line has an attribute")
    array_of_words(list(index))
    names = sorted(index) if known is None else known
    ranks = np.empty(len(index), dtype=np.int32)
    ranks[[index[name] for name in names]] = np.arange(len(names))
    entries = (np.array(values), ranks[np.array(columns)], np.array(ends))
    table = sparse.csr_array(entries, shape=(len(ends) - 1, len(names)))
    known_labels, codes = labels.finish()
    offsets = offsets_of(lengths)
    return FileData(
        _attribute_sequences(table, offsets, tuple(names), path),
        _split(known_labels[codes - 1], offsets),
    )


def _attribute_sequences(
    table: sparse.csr_array, offsets: np.ndarray, names: tuple[str, ...], path: str
) -> LongSequences:
    if np.isinf(table.data).any():
        j = table.indices[np.argmax(np.isinf(table.data))]
        raise ValueError(f"{path}: a value of the attribute {names[j]!r} is not finite")
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


def _split(labels: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    return np.split(labels, offsets[1:-1])
