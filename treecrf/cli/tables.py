"""Contents of files, options for reading them, and tables of CSV and Parquet files."""

from __future__ import annotations

import difflib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from treecrf.inputs.columns import ColumnValues, table_of
from treecrf.inputs.dataset import NO_NAMES, ColumnNames, as_sequences
from treecrf.inputs.large.arrow_values import ArrowConverter
from treecrf.inputs.large.column_types import (
    AS_BOOLEAN,
    AS_NUMBER,
    AS_TEXT,
    AS_WHOLE,
    find_kinds,
)
from treecrf.inputs.large.group_boundaries import GroupBoundaries
from treecrf.inputs.large.scanned_tables import ScannedTables
from treecrf.inputs.large.table_sources import (
    Table,
    TableOptions,
    naming,
    separator_hint,
    temporary_file,
    temporary_space,
)
from treecrf.inputs.offsets import Segmentation, split_sequences
from treecrf.inputs.sequences import CATEGORY, KINDS, InputSchema, Sequences
from treecrf.inputs.values import (
    CategoryEncoder,
    index_columns,
    refuse_infinite,
    short_list,
    string_array,
)

# Maximum number of columns that an error message lists.
MAX_COLUMNS = 30
# Kinds of labels, by the types of the classes of a model; others are whole numbers.
KINDS_OF_CLASSES = {"U": AS_TEXT, "b": AS_BOOLEAN}
EXPECTED = {AS_NUMBER: "a number", AS_BOOLEAN: "true, false, 0 or 1", AS_WHOLE: "a whole number"}

NO_SEQUENCES = as_sequences([], segmentation=Segmentation(may_be_empty=True))


@dataclass(frozen=True)
class Reading(TableOptions):
    """Options for reading a file."""

    format: str | None = None  # by default, the file determines it
    label: str | None = None  # by default, as in the model
    group: str | None = None  # by default, as in the model; without one, all rows are one sequence
    no_group: bool = False
    with_labels: bool = True
    may_be_empty: bool = False

    def advice_of_separator(self, separator: str) -> str:
        """Return the option for a separator."""
        return f"try --separator '{separator}'".replace("\t", "\\t")

    def advice_of_encoding(self) -> str:
        """Return the option for another encoding."""
        return "if the file has another one, try --encoding latin-1"

    def advice_of_column(self, name: str) -> str:
        """Return the option for a column that is no feature as it is."""
        return f"--drop {name} leaves it out"


@dataclass(frozen=True)
class ModelInput:
    """Requirements of a trained model on a file; ``columns`` are the columns in training."""

    schema: InputSchema
    classes: np.ndarray
    columns: ColumnNames = NO_NAMES


@dataclass(frozen=True)
class FileData:
    """Sequences of a file, their labels, and the groups and columns of a table."""

    sequences: Sequences
    labels: list[np.ndarray] | None  # None if missing
    groups: list[str] | None = None
    is_table: bool = False
    columns: ColumnNames = NO_NAMES
    missing_label: str | None = None  # the place of the first
    # Columns that can be copied to an output, and the texts of some of them, which are read again.
    text_names: Sequence[str] = ()
    text_rows: Callable[[Sequence[str]], Iterator[Sequence[str]]] = lambda _: iter(())
    # The same columns of a table as record batches of pyarrow, with their types.
    typed_rows: Callable[[Sequence[str]], Iterator[Any]] = lambda _: iter(())

    def as_symbols(self) -> FileData:
        """Return the same data with the values of the only column, a category, as symbols."""
        sequences = self.sequences
        if sequences.n_features != 1 or sequences.column_kinds[0] != CATEGORY:
            raise ValueError(
                f"the file has {sequences.n_features} features; expected symbols: a single column "
                "of words, or of whole numbers if --category names it"
            )
        return replace(self, sequences=replace(sequences, names=None, of_symbols=True))


# Tables


def read_table(file: Table, reading: Reading, model: ModelInput | None) -> FileData:
    """Read a table in two passes, of which the first finds the kinds of columns.

    With a model, the model determines the kinds; columns are matched by name, and others are
    ignored. The message of an error states which column is missing or invalid.
    """
    reading = _with_columns_of(model, file, reading)
    converter = ArrowConverter(reading.missing if file.schema is None else None)
    features = _features(file, reading, model)
    label, group = reading.label if reading.with_labels else None, reading.group
    plain = [name for name in features if name not in reading.category]
    needed = [*features, *(name for name in (label, group) if name is not None)]
    scanned = ScannedTables([file], plain)
    if model is None:
        # In a typed column, the first batch determines the kind.
        batches = islice(scanned.scan(file, needed), None if file.schema is None else 1)
        chosen = [*reading.category, *filter(None, [label])]
        kinds = find_kinds(converter, plain, chosen, ((file, b) for b in batches), reading)
    else:
        kinds = _kinds_of(model, features, label)
    scanned.finish(name for name in plain if kinds[name] in (AS_WHOLE, AS_TEXT))
    columns = [_Column(converter, kinds[name], name, name in reading.category) for name in features]
    labels = None if label is None else _Column(converter, kinds[label], label, True)
    codes, groups = [np.zeros(0, dtype=np.int32)], None if group is None else []
    boundaries = GroupBoundaries(converter, group, lambda i: f"row {i + file.first_row}")
    rows = RowFile([column.dtype for column in columns])
    for batch in scanned.batches(needed):
        row = rows.n_rows + file.first_row
        with naming(file.name):
            if labels:
                codes.append(labels.read(batch.column(label), row))
            if groups is not None:
                groups += boundaries.add(converter.text(batch.column(group)))
            rows.append([column.read(batch.column(column.name), row) for column in columns])
    data = FileData(
        NO_SEQUENCES,
        None if label is None else [],
        groups,
        is_table=True,
        columns=ColumnNames(reading.label, group),
        text_names=file.names,
        text_rows=partial(_copied_columns, file, converter),
        typed_rows=file.batches,
    )
    if not rows.n_rows:
        if reading.may_be_empty:
            return data
        raise ValueError(f"{file.name}: the table has no rows")
    offsets = np.array([0, rows.n_rows])
    with naming(file.name):
        if groups is not None:
            starts = np.concatenate(boundaries.starts).tolist()
            offsets = boundaries.checked(dict(zip(starts, groups, strict=True)).__getitem__)
        data = replace(data, sequences=_sequences_in(rows, columns, offsets, tuple(features)))
        if labels is None:
            return data
        values = ColumnValues(CATEGORY, np.concatenate(codes), labels.values())
    missing = None
    if not values.data.all():
        missing = f"row {int(np.argmin(values.data)) + file.first_row}, column {label!r}"
    return replace(data, labels=split_sequences(values.decoded(), offsets), missing_label=missing)


def _copied_columns(
    file: Table, converter: ArrowConverter, names: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield some columns of each row as text."""
    for batch in file.batches(list(dict.fromkeys(names))):
        yield from zip(*(converter.copied(batch.column(name)) for name in names), strict=True)


def _sequences_in(
    rows: RowFile, columns: list[_Column], offsets: np.ndarray, names: tuple[str, ...]
) -> Sequences:
    """Return sequences whose rows stay in a file."""
    described = [ColumnValues(column.kind, np.zeros(0), column.categories()) for column in columns]
    sequences = table_of(described, offsets, names)
    stored = replace(sequences.table, columns=rows)
    # Categories are recoded while the rows are read.
    known = {j: np.sort(values) for j, values in sequences.categories.items()}
    return replace(sequences, table=stored).with_categories(known)


def _with_columns_of(model: ModelInput | None, file: Table, reading: Reading) -> Reading:
    """Return the options with the columns of the labels and groups that the model stores."""
    if model is None:
        return reading
    label, group = reading.label, reading.group
    if label is None and model.columns.label in _others(file, model):
        label = model.columns.label
    if group is None and not reading.no_group:
        group = model.columns.group
        if group is not None and group not in file.names:
            raise ValueError(
                f"{file.name}: there is no column {group!r}, which identified the sequences in "
                "training; specify another with --group, or --no-group if all rows are one "
                f"sequence; {_columns(file, reading)}"
            )
    return replace(reading, label=label, group=group)


def _others(file: Table, model: ModelInput) -> set[str]:
    """Return the columns that are not features of the model."""
    return set(file.names) - set(model.schema.names or ())


def _features(file: Table, reading: Reading, model: ModelInput | None) -> list[str]:
    """Return the names of the columns that are features."""
    named = [reading.label, reading.group, *reading.drop, *reading.category]
    _require_columns(file, [name for name in named if name is not None], reading)
    if reading.label is not None and reading.label == reading.group:
        raise ValueError(f"--label and --group both name {reading.label!r}; expected two columns")
    others = {reading.label, reading.group, *reading.drop}
    if model is not None and model.schema.names is not None:
        _require_columns(file, model.schema.names, reading)
        if reading.label is not None and reading.label not in _others(file, model):
            stored = model.columns.label
            hint = "" if stored is None else f"; the labels of its training data were in {stored!r}"
            raise ValueError(f"--label names {reading.label!r}, a feature of the model{hint}")
        return list(model.schema.names)
    others |= index_columns(file.names)
    features = [name for name in file.names if name not in others]
    if model is not None and len(features) != model.schema.n_features:
        raise ValueError(
            f"{file.name}: {len(features)} columns are features; the model was trained with "
            f"{model.schema.n_features} features without names"
        )
    if not features:
        raise ValueError(f"{file.name}: no columns are left as features; {_columns(file, reading)}")
    return features


def _require_columns(file: Table, names: Iterable[str], reading: Reading) -> None:
    known = set(file.names)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, file.names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"{file.name}: there is no column {name!r}; {hint}{_columns(file, reading)}"
            )


def _columns(file: Table, reading: Reading) -> str:
    hint = separator_hint(file.names, reading).removeprefix("; ")
    return hint or f"the columns are: {short_list(file.names, MAX_COLUMNS)}"


def _kinds_of(model: ModelInput, features: list[str], label: str | None) -> dict[str, str]:
    """Return the kinds of the features and the label in the training data of a model."""
    kinds = {}
    for j, name in enumerate(features):
        kind = KINDS[model.schema.kinds[j]]
        if kind == "category":
            kind = AS_WHOLE if model.schema.categories[j].dtype.kind == "i" else AS_TEXT
        kinds[name] = kind
    if label is not None:
        kinds[label] = KINDS_OF_CLASSES.get(model.classes.dtype.kind, AS_WHOLE)
    return kinds


class _Column:
    """A column of numbers or booleans, read as floats, or of categories, read as codes."""

    def __init__(self, converter: ArrowConverter, kind: str, name: str, is_category: bool):
        self.name = name
        self.is_category = is_category or kind in (AS_WHOLE, AS_TEXT)
        self.kind = CATEGORY if self.is_category else KINDS.index(kind)
        # Half floats can represent 0, 1 and NaN.
        types = {AS_BOOLEAN: np.float16, AS_NUMBER: np.float64}
        self.dtype = np.dtype(np.int32 if self.is_category else types[kind])
        self._converter = converter
        self._kind = kind
        self._encoder = CategoryEncoder()

    def read(self, array: Any, row: int) -> np.ndarray:
        """Convert an array that begins at a row; ValueError if a value does not fit."""
        try:
            values = self._codes(array) if self.is_category else self._numbers(array)
        except ValueError:
            raise self._refusal(array, row) from None
        if not self.is_category:
            refuse_infinite(values, lambda i: f"row {row + i}, column {self.name!r}")
        return values

    def _numbers(self, array: Any) -> np.ndarray:
        """Return floats; booleans stand for 0 and 1, and the reverse."""
        numbers = self._converter.numbers
        booleans = self._converter.booleans
        first, second = (numbers, booleans) if self._kind == AS_NUMBER else (booleans, numbers)
        try:
            return first(array)
        except ValueError:
            values = second(array)
            if not np.isin(values[~np.isnan(values)], (0, 1)).all():
                raise
            return values

    def _codes(self, array: Any) -> np.ndarray:
        kind = {AS_BOOLEAN: bool, AS_WHOLE: int, AS_TEXT: str}[self._kind]
        values, indices = self._converter.categories(self._plain(array))
        if kind is bool and not {0, 1}.issuperset(values):
            raise ValueError("not a boolean")
        return np.append(self._encoder.codes(map(kind, values), len(values)), np.int32(0))[indices]

    def _plain(self, array: Any) -> Any:
        """Return text, whole numbers, or booleans, which also stand for 0 and 1."""
        if self._kind == AS_TEXT:
            return array
        try:
            return self._converter.whole(array)
        except ValueError:
            return self._converter.flags(array)

    def _refusal(self, array: Any, row: int) -> ValueError:
        for i in range(len(array)):
            part = array.slice(i, 1)
            try:
                self._codes(part) if self.is_category else self._numbers(part)
            except ValueError:
                break
        value, problem = array[i].as_py(), f"not {EXPECTED[self._kind]}"
        if self._kind == AS_WHOLE and type(value) is int:
            problem = "larger than 64 bits"
        return ValueError(f"row {row + i}, column {self.name!r}: {value!r} is {problem}")

    def values(self) -> np.ndarray:
        """Return the values of a category in the order of their codes."""
        values = self._encoder.values
        if self._kind == AS_TEXT:
            return string_array(values)
        return np.array(values, dtype=bool if self._kind == AS_BOOLEAN else np.int64)

    def categories(self) -> np.ndarray:
        """Return the values of a category as those of a feature, which are not booleans."""
        values = self.values()
        return values.astype(np.int64) if values.dtype.kind == "b" else values


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
