"""Contents of files, options for reading them, and tables of CSV and Parquet files."""

from __future__ import annotations

import difflib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.inputs.column_names import NO_NAMES, ColumnNames
from treecrf.inputs.columns import ColumnValues, table_of
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.large.arrow_values import ArrowConverter
from treecrf.inputs.large.column_types import (
    AS_BOOLEAN,
    AS_NUMBER,
    AS_TEXT,
    AS_WHOLE,
    TypedColumn,
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
from treecrf.inputs.large.tables import feature_columns
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.schema import BOOLEAN, CATEGORY, KINDS, NUMBER, InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import (
    CategoryEncoder,
    refuse_infinite,
    short_list,
    string_array,
)

if TYPE_CHECKING:
    from treecrf.preprocessing.templates import AttributeTemplates

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
    fold_groups: str | None = None
    with_labels: bool = True
    may_be_empty: bool = False
    # How columns of a CoNLL file become attributes in training; afterwards, the model knows it.
    templates: AttributeTemplates | None = None

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
    fold_groups: list[str] | None = None  # of all positions
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
        return replace(self, sequences=replace(sequences, names=None, are_symbols=True))


# Tables


def read_table(file: Table, reading: Reading, model: ModelInput | None) -> FileData:
    """Read a table in two passes, of which the first finds the kinds of columns.

    With a model, the model determines the kinds; columns are matched by name, and others are
    ignored. The message of an error states which column is missing or invalid.
    """
    reading = _with_columns_of(model, file, reading)
    features = _features(file, reading, model)
    label = None
    if reading.with_labels:
        label = reading.label
    rows = RowReader(file, reading, features, label)
    if model is None:
        rows.find_kinds()
    else:
        rows.take_kinds(_kinds_of(model, features, label))
    rows.read()
    data = FileData(
        NO_SEQUENCES,
        None if label is None else [],
        rows.groups,
        fold_groups=rows.fold_groups,
        is_table=True,
        columns=ColumnNames(reading.label, reading.group),
        text_names=file.names,
        text_rows=partial(_copied_columns, file, rows.converter),
        typed_rows=file.batches,
    )
    if not rows.stored.n_rows:
        if reading.may_be_empty:
            return data
        raise ValueError(f"{file.name}: the table has no rows")
    with naming(file.name):
        offsets = rows.offsets()
        data = replace(data, sequences=rows.sequences(offsets))
        if label is None:
            return data
        labels = rows.label_values()
    missing = None
    if not labels.data.all():
        missing = f"row {int(np.argmin(labels.data)) + file.first_row}, column {label!r}"
    return replace(data, labels=split_sequences(labels.decoded(), offsets), missing_label=missing)


class RowReader:
    """The features, the labels and the groups of the rows of one table.

    Kinds and values are those of `inputs/large`, as in `fit`. What differs is that the kinds may be
    those of a model, and that the rows are stored in a file, with codes for categories, from which
    sequences are taken in any order.
    """

    def __init__(self, file: Table, reading: Reading, features: list[str], label: str | None):
        missing = None
        if file.schema is None:
            missing = reading.missing
        self.converter = ArrowConverter(missing)
        self.groups: list[str] | None = None  # the group of each sequence
        self.fold_groups: list[str] | None = None  # of each row
        self.stored: RowFile  # the features of all rows
        self._file = file
        self._reading = reading
        self._features = features
        self._label = label
        self._numbers = [name for name in features if name not in reading.category]
        others = label, reading.group, reading.fold_groups
        self._names = list(dict.fromkeys([*features, *(name for name in others if name)]))
        self._twice_read = ScannedTables([file], self._numbers)
        self._columns: list[_Column]
        self._label_column: _Column
        self._label_codes = [np.zeros(0, dtype=np.int32)]
        self._boundaries: GroupBoundaries
        if reading.group is not None:
            self.groups = []
        if reading.fold_groups is not None:
            self.fold_groups = []

    def find_kinds(self) -> None:
        """Find the kinds of the columns in all values of a text file."""
        n_batches = None
        if self._file.schema is not None:
            n_batches = 1  # in a typed column, the first batch determines the kind
        scanned = islice(self._twice_read.scan(self._file, self._names), n_batches)
        batches = ((self._file, batch) for batch in scanned)
        categories = list(self._reading.category)
        if self._label is not None:
            categories.append(self._label)
        self.take_kinds(
            find_kinds(self.converter, self._numbers, categories, batches, self._reading)
        )

    def take_kinds(self, kinds: dict[str, str]) -> None:
        """Take the kinds of the columns, and end the first pass if there was one."""
        self._twice_read.finish(
            name for name in self._numbers if kinds[name] in (AS_WHOLE, AS_TEXT)
        )

        def column(name: str, is_category: bool) -> _Column:
            is_category = is_category or kinds[name] in (AS_WHOLE, AS_TEXT)
            return _Column(TypedColumn(self.converter, name, kinds[name], is_category))

        self._columns = [column(name, name in self._reading.category) for name in self._features]
        if self._label is not None:
            self._label_column = column(self._label, True)

    def read(self) -> None:
        """Read all rows."""
        self.stored = RowFile([column.dtype for column in self._columns])
        self._boundaries = GroupBoundaries(
            self.converter, self._reading.group, lambda i: f"row {i + self._file.first_row}"
        )
        for batch in self._twice_read.batches(self._names):
            with naming(self._file.name):
                self._add(batch)

    def _add(self, batch: Any) -> None:
        row = self.stored.n_rows + self._file.first_row
        if self._label is not None:
            self._label_codes.append(self._label_column.read(batch.column(self._label), row))
        if self.groups is not None:
            groups = self.converter.text(batch.column(self._reading.group))
            self.groups += self._boundaries.add(groups)
        if self.fold_groups is not None:
            self.fold_groups += batch.column(self._reading.fold_groups).to_pylist()
        self.stored.append(
            [column.read(batch.column(column.name), row) for column in self._columns]
        )

    def offsets(self) -> np.ndarray:
        """Return the first row of each sequence, and the number of rows."""
        if self.groups is None:
            return np.array([0, self.stored.n_rows])
        starts = np.concatenate(self._boundaries.starts).tolist()
        group_at = dict(zip(starts, self.groups, strict=True))
        return self._boundaries.checked(group_at.__getitem__)

    def sequences(self, offsets: np.ndarray) -> Sequences:
        """Return sequences whose rows stay in a file."""
        described = [
            ColumnValues(column.kind, np.zeros(0), column.categories()) for column in self._columns
        ]
        sequences = table_of(described, offsets, tuple(self._features))
        stored = replace(sequences.table, columns=self.stored)
        # Categories are recoded while the rows are read.
        known = {j: np.sort(values) for j, values in sequences.categories.items()}
        return replace(sequences, table=stored).with_categories(known)

    def label_values(self) -> ColumnValues:
        """Return the labels of all rows as a category."""
        codes = np.concatenate(self._label_codes)
        return ColumnValues(CATEGORY, codes, self._label_column.values())


def _copied_columns(
    file: Table, converter: ArrowConverter, names: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Yield some columns of each row as text."""
    for batch in file.batches(list(dict.fromkeys(names))):
        yield from zip(*(converter.copied(batch.column(name)) for name in names), strict=True)


def _with_columns_of(model: ModelInput | None, file: Table, reading: Reading) -> Reading:
    """Return the options with the columns of the labels and groups that the model stores."""
    if model is None:
        return reading
    reading = replace(reading, fold_groups=None)
    label = reading.label
    group = reading.group
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
    named = [
        reading.label, reading.group, reading.fold_groups, *reading.drop, *reading.category
    ]  # fmt: skip
    _require_columns(file, [name for name in named if name is not None], reading)
    if reading.label is not None and reading.label == reading.group:
        raise ValueError(f"--label and --group both name {reading.label!r}; expected two columns")
    if reading.fold_groups is not None and reading.fold_groups in (reading.label, reading.group):
        raise ValueError(
            f"--fold-groups names {reading.fold_groups!r}, as another option does; expected "
            "another column"
        )
    others = {reading.label, reading.group, reading.fold_groups}
    if model is not None and model.schema.names is not None:
        _require_columns(file, model.schema.names, reading)
        if reading.label is not None and reading.label not in _others(file, model):
            stored = model.columns.label
            hint = ""
            if stored is not None:
                hint = f"; the labels of its training data were in {stored!r}"
            raise ValueError(f"--label names {reading.label!r}, a feature of the model{hint}")
        return list(model.schema.names)
    features = feature_columns(file.names, others, reading.drop)
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
            hint = ""
            if near:
                hint = f"did you mean {near[0]!r}? "
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
    """A column of numbers or booleans, read as floats, or of categories, read as codes.

    Values of files may differ from those that a model was trained on: booleans stand for 0 and 1,
    and the reverse.
    """

    def __init__(self, typed: TypedColumn):
        self.name = typed.name
        self._typed = typed
        self._encoder = CategoryEncoder()
        if typed.is_category:
            self.kind = CATEGORY
            self.dtype = np.dtype(np.int32)
        elif typed.kind == AS_BOOLEAN:
            self.kind = BOOLEAN
            self.dtype = np.dtype(np.float16)  # which can represent 0, 1 and NaN
        else:
            self.kind = NUMBER
            self.dtype = np.dtype(np.float64)

    def read(self, array: Any, row: int) -> np.ndarray:
        """Convert an array that begins at a row; ValueError if a value does not fit."""
        try:
            values = self._values(array)
        except ValueError:
            raise self._refusal(array, row) from None
        if not self._typed.is_category:
            refuse_infinite(values, lambda i: f"row {row + i}, column {self.name!r}")
        return values

    def _values(self, array: Any) -> np.ndarray:
        if self._typed.is_category:
            return self._codes(array)
        return self._floats(array)

    def _floats(self, array: Any) -> np.ndarray:
        try:
            return self._typed.floats(array)
        except ValueError:
            other = AS_NUMBER if self._typed.kind == AS_BOOLEAN else AS_BOOLEAN
            values = replace(self._typed, kind=other).floats(array)
            if not np.isin(values[~np.isnan(values)], (0, 1)).all():
                raise
            return values

    def _codes(self, array: Any) -> np.ndarray:
        kind = {AS_BOOLEAN: bool, AS_WHOLE: int, AS_TEXT: str}[self._typed.kind]
        values, indices = self._typed.converter.categories(self._names_in(array))
        if kind is bool and not {0, 1}.issuperset(values):
            raise ValueError("not a boolean")
        codes = self._encoder.codes(map(kind, values), len(values))
        return np.append(codes, np.int32(0))[indices]

    def _names_in(self, array: Any) -> Any:
        """Return text, whole numbers, or booleans."""
        converter = self._typed.converter
        if self._typed.kind == AS_TEXT:
            return array
        try:
            return converter.whole(array)
        except ValueError:
            return converter.flags(array)

    def _refusal(self, array: Any, row: int) -> ValueError:
        """Return the error for the first value that does not fit."""
        for i in range(len(array)):
            try:
                self._values(array.slice(i, 1))
            except ValueError:
                break
        value = array[i].as_py()
        problem = f"not {EXPECTED[self._typed.kind]}"
        if self._typed.kind == AS_WHOLE and type(value) is int:
            problem = "larger than 64 bits"
        return ValueError(f"row {row + i}, column {self.name!r}: {value!r} is {problem}")

    def values(self) -> np.ndarray:
        """Return the values of a category in the order of their codes."""
        values = self._encoder.values
        if self._typed.kind == AS_TEXT:
            return string_array(values)
        if self._typed.kind == AS_BOOLEAN:
            return np.array(values, dtype=bool)
        return np.array(values, dtype=np.int64)

    def categories(self) -> np.ndarray:
        """Return the values of a category as those of a feature, which are not booleans."""
        values = self.values()
        if values.dtype.kind == "b":
            return values.astype(np.int64)
        return values


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
