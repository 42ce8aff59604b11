"""Tables that are read once, into a temporary file from which their rows are read in pieces."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from treecrf.inputs.columns import CategoryEncoder, ColumnValues
from treecrf.inputs.csv_types import AS_BOOLEAN, AS_NUMBER, AS_TEXT, AS_WHOLE, ArrowConverter
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.schema import CATEGORY, KINDS
from treecrf.inputs.sequences import ColumnTable, LongSequences, Sequences
from treecrf.inputs.table_sources import TableFile, naming, temporary_file, temporary_space
from treecrf.inputs.tables import GroupBoundaries
from treecrf.inputs.values import refuse_infinite, string_array

EXPECTED = {AS_NUMBER: "a number", AS_BOOLEAN: "true, false, 0 or 1", AS_WHOLE: "a whole number"}


@dataclass(frozen=True)
class StoredTable:
    """The sequences of a table, None without rows, their labels, and the names of their groups."""

    sequences: Sequences | None
    labels: list[np.ndarray] | None  # None where a label is missing
    groups: list[str] | None
    missing_label: str | None = None  # the place of the first


def read_stored(
    file: TableFile,
    converter: ArrowConverter,
    kinds: Mapping[str, str],
    features: Sequence[str],
    label: str | None,
    group: str | None,
) -> StoredTable:
    """Read a file, given the kinds of its columns; without groups, all rows are one sequence."""
    columns = [_Column(converter, kinds[name], name) for name in features]
    labels = None if label is None else _Column(converter, kinds[label], label)
    codes = [np.zeros(0, dtype=np.int32)]
    boundaries, groups = None, None
    if group is not None:
        boundaries, groups = GroupBoundaries(converter, group, partial(_row_name, file)), []
    rows = RowFile([column.dtype for column in columns])
    needed = dict.fromkeys([*features, *(name for name in (label, group) if name is not None)])
    for batch in file.batches(list(needed)):
        row = rows.n_rows + file.first_row
        with naming(file.name):
            if labels:
                codes.append(labels.read(batch.column(label), row))
            if boundaries:
                groups += boundaries.add(converter.text(batch.column(group)))
            rows.append([column.read(batch.column(column.name), row) for column in columns])
    if not rows.n_rows:
        return StoredTable(None, None if label is None else [], groups)
    offsets = boundaries.offsets() if boundaries else np.array([0, rows.n_rows])
    with naming(file.name):
        if boundaries:
            boundaries.check(dict(zip(offsets.tolist(), groups, strict=False)).__getitem__)
        sequences = _sequences(rows, columns, offsets)
        if labels is None:
            return StoredTable(sequences, None, groups)
        found = ColumnValues(CATEGORY, np.concatenate(codes), labels.values())
    place = f"{_row_name(file, int(np.argmin(found.data)))}, column {label!r}"
    of_sequences = split_sequences(found.decoded(), offsets)
    return StoredTable(sequences, of_sequences, groups, None if found.data.all() else place)


def _sequences(rows: RowFile, columns: list[_Column], offsets: np.ndarray) -> Sequences:
    """Return the sequences of rows, whose categories are recoded while they are read."""
    categories = {j: column.values() for j, column in enumerate(columns) if column.is_category}
    coded = LongSequences.of(
        ColumnTable(rows, np.array([column.is_category for column in columns])),
        offsets,
        form="dense",
        n_features=len(columns),
        dtype=np.dtype(np.float64),
        names=tuple(column.name for column in columns),
        kinds=np.array([column.kind for column in columns], dtype=np.uint8),
        categories=categories,
    )
    return coded.with_categories({j: np.sort(values) for j, values in categories.items()})


def _row_name(file: TableFile, i: int) -> str:
    return f"row {i + file.first_row}"


def copied_columns(
    file: TableFile, converter: ArrowConverter, names: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield some columns of each row as text."""
    for batch in file.batches(list(dict.fromkeys(names))):
        columns = [converter.copied(batch.column(name)) for name in names]
        yield from zip(*columns, strict=True)


class _Column:
    """A column of numbers or booleans, read as floats, or of categories, read as codes."""

    def __init__(self, converter: ArrowConverter, kind: str, name: str):
        self.name = name
        self.is_category = kind in (AS_WHOLE, AS_TEXT)
        self.kind = CATEGORY if self.is_category else KINDS.index(kind)
        # Half floats can represent 0, 1 and NaN.
        types = {AS_BOOLEAN: np.float16, AS_NUMBER: np.float64}
        self.dtype = np.dtype(types.get(kind, np.int32))
        self._converter = converter
        self._kind = kind
        self._encoder = CategoryEncoder()

    def read(self, array: Any, row: int) -> np.ndarray:
        """Convert an array that begins at a row; ValueError if a value does not fit."""
        try:
            values = self._converted(array)
        except ValueError:
            raise self._refusal(array, row) from None
        if not self.is_category:
            refuse_infinite(values, lambda i: f"row {row + i}, column {self.name!r}")
        return values

    def _converted(self, array: Any) -> np.ndarray:
        if self._kind == AS_NUMBER:
            return self._converter.numbers(array)
        if self._kind == AS_BOOLEAN:
            return self._booleans(array)
        if self._kind == AS_WHOLE and not self._converter.are_whole(array):
            raise ValueError("not whole")
        values, indices = self._converter.categories(array)
        kind = int if self._kind == AS_WHOLE else str
        return np.append(self._encoder.codes(map(kind, values), len(values)), np.int32(0))[indices]

    def _booleans(self, array: Any) -> np.ndarray:
        try:
            return self._converter.booleans(array)
        except ValueError:
            values = self._converter.numbers(array)
            if not np.isin(values[~np.isnan(values)], (0, 1)).all():
                raise
            return values

    def _refusal(self, array: Any, row: int) -> ValueError:
        for i in range(len(array)):
            try:
                self._converted(array.slice(i, 1))
            except ValueError:
                break
        value, problem = array[i].as_py(), f"not {EXPECTED[self._kind]}"
        if self._kind == AS_WHOLE and isinstance(value, int):
            problem = "larger than 64 bits"
        return ValueError(f"row {row + i}, column {self.name!r}: {value!r} is {problem}")

    def values(self) -> np.ndarray:
        """Return the values of a category in the order of their codes."""
        values, is_whole = self._encoder.values, self._kind == AS_WHOLE
        return np.array(values, dtype=np.int64) if is_whole else string_array(values)


class RowFile:
    """Rows of columns of several types in a temporary file; iterated, it yields the columns."""

    def __init__(self, types: Sequence[np.dtype]):
        self.dtype = np.dtype([(f"column{j}", kind) for j, kind in enumerate(types)])
        self.n_rows = 0
        self._file = temporary_file()
        weakref.finalize(self, self._file.close)

    def append(self, columns: Sequence[np.ndarray]) -> None:
        """Append rows."""
        records = np.empty(len(columns[0]), dtype=self.dtype)
        for name, column in zip(self.dtype.names, columns, strict=True):
            records[name] = column
        with temporary_space():
            self._file.write(records.data)
            self._file.flush()
        self.n_rows += len(records)

    def __iter__(self) -> Iterator[np.ndarray]:
        # The file is mapped into memory only while its columns are in use.
        mapped = np.memmap(self._file, self.dtype, "r")
        return iter([np.asarray(mapped[name]) for name in self.dtype.names])
