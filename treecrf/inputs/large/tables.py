"""Tables of files, Arrow data, or data in memory in pieces: runs of whole sequences.

In text files, the values of a column in all rows determine its type.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from treecrf.inputs.columns import selected_columns
from treecrf.inputs.dataset import RawData
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import column_of, rows_of
from treecrf.inputs.large.arrow_values import ArrowConverter
from treecrf.inputs.large.column_types import (
    AS_NUMBER,
    AS_TEXT,
    TypedColumn,
    find_kinds,
    typed_batch,
)
from treecrf.inputs.large.common_types import cast_columns, common_types
from treecrf.inputs.large.csv_file import CsvFile
from treecrf.inputs.large.group_boundaries import GroupBoundaries
from treecrf.inputs.large.local_partitions import LocalPartitions
from treecrf.inputs.large.scanned_tables import ScannedTables
from treecrf.inputs.large.scratch import Scratch
from treecrf.inputs.large.table_sources import (
    DEFAULTS,
    SEPARATORS,
    ParquetFile,
    Source,
    Table,
    TableOptions,
    find_files,
    import_pyarrow,
    separator_hint,
    table_of_batches,
)
from treecrf.inputs.offsets import offsets_of, runs
from treecrf.inputs.paths import FORMAT_OF_ENDING, are_batches, are_tables
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import (
    closest_name,
    column_names,
    index_columns,
    refuse_infinite,
    require_different_names,
    require_same_names,
    short_repr,
)
from treecrf.utils.partitions import identity

# Size of a piece, unless it is a single sequence: while it is read, it takes several times as much.
READ_BYTES = 1 << 24
MAX_PIECE_ROWS = 1 << 18
# Size of a value that has been read.
VALUE_BYTES = 8
# Number of rows from which the size of a row is estimated.
SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class TableColumns:
    """The columns of tables that are read for training."""

    others: dict[str, str]  # those that are not features, by the arguments of `fit`
    names: list[str]  # all of them, in the order of the first table
    numbers: list[str]  # features whose whole numbers are numbers
    categories: list[str]  # features whose whole numbers are categories

    @property
    def named_values(self) -> list[str]:
        """Columns of labels and categories, whose whole numbers are names."""
        return [*self.categories, self.others["y"]]

    @property
    def without_groups(self) -> list[str]:
        """All columns but the groups, which the lengths of sequences replace."""
        return [name for name in self.names if name != self.others["groups"]]


def other_columns(raw: RawData) -> dict[str, str]:
    """Return the names of the columns that are not features, by the arguments of `fit`."""
    segmentation = raw.segmentation
    others = {"lengths": segmentation.lengths, "init_score": raw.init_score, "allowed": raw.allowed}
    for argument, value in others.items():
        if value is not None:
            raise TypeError(f"{argument} cannot be combined with files or batches as X")
    names = {"y": raw.y, "groups": segmentation.groups}
    if raw.sample_weight is not None:
        names["sample_weight"] = raw.sample_weight
    if raw.fold_groups is not None:
        names["fold_groups"] = raw.fold_groups
    contents = {
        "y": "labels",
        "groups": "sequences",
        "sample_weight": "weights",
        "fold_groups": "groups of sequences",
    }
    for argument, name in names.items():
        if isinstance(name, str):
            continue
        problem = f"is {short_repr(name)}"
        if name is None:
            problem = "is not given"
        raise TypeError(
            f"{argument} {problem}; with files or batches as X, expected the name of the "
            f"column of {contents[argument]}"
        )
    require_different_names(names)
    return names


def feature_columns(
    names: Sequence[str], others: Container[str], drop: Container[str]
) -> list[str]:
    """Return the columns of a file that are features: no index of pandas, no other use."""
    indices = index_columns(names)
    return [
        name for name in names if name not in others and name not in drop and name not in indices
    ]


def _columns_of(
    table: Table, others: dict[str, str], options: TableOptions, categorical_features: Any
) -> TableColumns:
    """Select the columns that are read; ValueError if one that is named does not exist."""
    named = [
        *others.items(),
        *(("drop", name) for name in options.drop),
        *(("category", name) for name in options.category),
    ]
    for argument, name in named:
        if name not in table.names:
            hint = separator_hint(table.names, options) or closest_name(name, table.names)
            raise ValueError(f"{argument}={name!r} is not a column of {table.name}{hint}")
    features = feature_columns(table.names, others.values(), options.drop)
    if not features:
        raise ValueError(f"{table.name}: no columns are left as features")
    read = {*features, *others.values()}.difference(options.drop)
    names = [name for name in table.names if name in read]
    categories = _categories(features, options, categorical_features)
    numbers = [name for name in features if name not in categories]
    return TableColumns(others, names, numbers, categories)


def _categories(features: list[str], options: TableOptions, categorical: Any) -> list[str]:
    """Return the columns whose whole numbers are categories."""
    selected = selected_columns(categorical, tuple(features), len(features))
    chosen = []
    if selected is not None:
        chosen = [features[j] for j in np.flatnonzero(selected)]
    named = dict.fromkeys([*chosen, *options.category])
    return [name for name in named if name not in options.drop]


class TableReader:
    """Reader of some columns of tables, one table after another, in pieces of whole sequences.

    The tables are scanned before they are read: once for the types of their columns and the starts
    of their sequences.
    """

    reads_tables = True  # see `are_tables`
    offsets: np.ndarray  # the first row of each sequence, and the number of rows
    pieces: list[tuple[int, int]]  # the first sequence of each piece, and the one after its last

    def __init__(
        self,
        tables: Sequence[Table],
        columns: TableColumns,
        folder: str | None,
        options: TableOptions,
    ):
        self.n_rows = 0  # of the tables that have been scanned
        self._pa = import_pyarrow()
        self._tables = tables
        self._columns = columns
        self._options = options
        self._twice_read = ScannedTables(tables, columns.numbers, folder)
        self._ends: list[int] = []  # rows up to the end of each table that has been scanned
        self._convert: Callable[[Any], Any]  # converts record batches to types of all tables
        self._position = 0  # of the next row
        self._batches: Iterator[Any] = iter(())  # those from the next row on
        self._rest: Any = None  # rows of the last batch that have not been read
        self._scan()

    def _scan(self) -> None:
        """Find the types of the columns, the sequences, and the pieces."""
        if self._tables[0].schema is None:
            groups = self._scan_text()
        else:
            groups = self._scan_typed()
        if not self.n_rows:
            raise ValueError(f"{self._tables[0].name}: the table has no rows")
        self.offsets = groups.checked(self._group_at)
        sample = self._rows(0, min(self.n_rows, SAMPLE_ROWS))
        self.pieces = list(runs(self.offsets, piece_rows(sample.nbytes / len(sample))))

    def _scan_text(self) -> GroupBoundaries:
        """Scan text files: all values of a column determine its kind."""
        columns = self._columns
        converter = ArrowConverter(self._options.missing)
        groups = GroupBoundaries(converter, columns.others["groups"], self.place_of)
        batches = groups.added(self._scanned(columns.names))
        kinds = find_kinds(converter, columns.numbers, columns.named_values, batches, self._options)
        kinds[columns.others["groups"]] = AS_TEXT
        if "sample_weight" in columns.others:
            kinds[columns.others["sample_weight"]] = AS_NUMBER
        if "fold_groups" in columns.others:
            kinds[columns.others["fold_groups"]] = AS_TEXT
        self._twice_read.finish(name for name in columns.numbers if kinds[name] == AS_TEXT)
        typed = {
            name: TypedColumn(converter, name, kind, is_category=name in columns.categories)
            for name, kind in kinds.items()
        }
        self._convert = partial(typed_batch, typed)
        return groups

    def _scan_typed(self) -> GroupBoundaries:
        """Scan tables whose columns have types, which may differ between the tables."""
        columns = self._columns
        name = columns.others["groups"]
        types = common_types(self._tables, columns.names, {*columns.named_values})
        # Groups are compared one by one, and need no common type.
        del types[name]
        self._convert = partial(cast_columns, types)
        groups = GroupBoundaries(ArrowConverter(None), name, self.place_of)
        for _, batch in self._scanned([name]):
            groups.add(self._convert(batch).column(0))
        self._twice_read.finish()
        return groups

    def _scanned(self, names: list[str]) -> Iterator[tuple[Table, Any]]:
        """Yield all record batches as they are, with their tables, and count the rows."""
        for table in self._tables:
            for batch in self._twice_read.scan(table, names):
                yield table, batch
                self.n_rows += batch.num_rows
            self._ends.append(self.n_rows)

    def place_of(self, row: int) -> str:
        """Describe a row in messages."""
        i = int(np.searchsorted(self._ends, row, side="right"))
        table = self._tables[i]
        start = 0
        if i:
            start = self._ends[i - 1]
        return f"{table.name}, row {row - start + table.first_row}"

    def _group_at(self, row: int) -> Any:
        """Return the group of a row."""
        for batch in self._converted([self._columns.others["groups"]]):
            if row < len(batch):
                return batch.column(0)[row].as_py()
            row -= len(batch)

    def _converted(self, names: list[str]) -> Iterator[Any]:
        return map(self._convert, self._twice_read.batches(names))

    def _rows(self, start: int, stop: int) -> Any:
        """Return rows as a table of pyarrow; reading is fastest in the order of the rows."""
        if start < self._position or not start:
            self._position = 0
            self._batches = self._converted(self._columns.without_groups)
            self._rest = None
        batches = []
        while self._position < stop:
            batch = self._rest
            if batch is None:
                batch = next(self._batches)
            taken = batch[: stop - self._position]
            self._rest = None
            if len(taken) < len(batch):
                self._rest = batch[len(taken) :]
            first = start - self._position
            if first < len(taken):
                batches.append(taken[max(0, first) :])
            self._position += len(taken)
        if stop == self.n_rows:
            self._batches = iter(())  # closes the file
        # A column of many blocks takes long to read.
        return self._pa.Table.from_batches(batches).combine_chunks()

    def read(self, i: int) -> RawData:
        """Read piece i; ValueError if a number is infinite."""
        # Pools keep the memory of the piece before.
        self._pa.default_memory_pool().release_unused()
        first, last = self.pieces[i]
        offsets = self.offsets[first : last + 1]
        start, stop = offsets[[0, -1]].tolist()
        rows = self._rows(start, stop)
        others = self._columns.others
        labels = rows.column(others["y"]).to_pylist()
        weight = None
        if "sample_weight" in others:
            weight = rows.column(others["sample_weight"]).to_numpy()
        folds = None
        if "fold_groups" in others:
            folds = rows.column(others["fold_groups"]).to_pylist()
        read = self._columns.without_groups
        features = rows.drop_columns([name for name in others.values() if name in read])
        self._refuse_infinite(features, start)
        return RawData(
            features,
            labels,
            Segmentation(np.diff(offsets)),
            weight,
            place=f"rows from {self.place_of(start)} to {self.place_of(stop - 1)}",
            fold_groups=folds,
        )

    def _refuse_infinite(self, rows: Any, start: int) -> None:
        """Raise ValueError for an infinite number, with its file and row."""
        for column in rows.schema:
            if self._pa.types.is_floating(column.type):

                def where(i: int, name: str = column.name) -> str:
                    return f"{self.place_of(start + i)}, column {name!r}"

                refuse_infinite(rows.column(column.name).to_numpy(), where)


def open_tables(
    raw: RawData,
    categorical_features: Any = "from_dtype",
    folder: str | None = None,
    options: TableOptions = DEFAULTS,
) -> TableReader:
    """Open files or batches, which are scanned once.

    Batches that can be read only once are copied to a temporary file in the folder.
    """
    if isinstance(raw.X, TableReader):
        return raw.X
    if are_batches(raw.X):
        others = other_columns(raw)
        tables = [table_of_batches(raw.X, folder)]
    else:
        files = find_files(raw.X)
        others = other_columns(raw)
        tables = [table_file(Source(path), options) for path in files]
    for table in tables[1:]:
        require_same_names(table.name, table.names, tables[0].name, tables[0].names)
    columns = _columns_of(tables[0], others, options, categorical_features)
    return TableReader(tables, columns, folder, options)


def table_file(source: Source, options: TableOptions, form: str | None = None) -> Table:
    """Open a file of a form, one of ``FORMAT_OF_ENDING``; by default, that of its ending.

    ValueError if columns have the same name.
    """
    if form is None:
        ending = os.path.splitext(source.path.lower().removesuffix(".gz"))[1]
        form = FORMAT_OF_ENDING[ending]
    table: Table
    if form == "parquet":
        table = ParquetFile(source)
    else:
        table = CsvFile(source, options.separator or SEPARATORS[form], options)
    for name, n in Counter(table.names).most_common(1):
        if n > 1:
            raise ValueError(f"{table.name}: more than one column is named {name!r}")
    return table


def piece_rows(row_bytes: float) -> int:
    """Return the maximum number of rows of a piece."""
    return max(1, min(MAX_PIECE_ROWS, int(READ_BYTES / max(1, row_bytes))))


def in_memory(raw: RawData, categorical_features: Any = "from_dtype") -> RawData:
    """Return the data, with tables in files read."""
    if not are_tables(raw):
        return raw
    reader = open_tables(raw, categorical_features)
    return joined_pieces([reader.read(i) for i in range(len(reader.pieces))])


def joined_pieces(pieces: Sequence[RawData]) -> RawData:
    """Return the data of all pieces, which are tables."""
    if len(pieces) == 1:
        return pieces[0]
    table = import_pyarrow().concat_tables([piece.X for piece in pieces])
    labels = list(chain.from_iterable(piece.y for piece in pieces))
    lengths = np.concatenate([piece.segmentation.lengths for piece in pieces])
    has_weights = pieces[0].sample_weight is not None
    weights = None
    if has_weights:
        weights = np.concatenate([piece.sample_weight for piece in pieces])
    folds = None
    if pieces[0].fold_groups is not None:
        folds = list(chain.from_iterable(piece.fold_groups for piece in pieces))
    return RawData(table, labels, Segmentation(lengths), weights, fold_groups=folds)


# Partitions in one process


def partitions_of(
    raw: RawData, scratch: str | PathLike | None, categorical_features: Any
) -> LocalPartitions:
    """Return the parts of files and batches, or of data in memory.

    Parts that are derived from them are in temporary files in the folder ``scratch``, if any.
    """
    files = None
    if scratch is not None:
        files = Scratch(scratch)
    if are_tables(raw):
        pieces = open_tables(raw, categorical_features, None if files is None else files.folder)
        return LocalPartitions.reading(
            [partial(pieces.read, i) for i in range(len(pieces.pieces))], files
        )
    parts = partitioned(raw, piece_rows(VALUE_BYTES * n_values(raw)))
    return LocalPartitions.reading([partial(identity, part) for part in parts], files)


def partitioned(raw: RawData, n_rows: int) -> list[RawData]:
    """Cut a list of sequences, or a data frame with groups, into runs of whole sequences.

    Runs have at most ``n_rows`` positions, unless a single sequence has more. Other data, and data
    that the arguments do not match, are one piece.
    """
    offsets = _known_offsets(raw)
    names = "y", "sample_weight", "init_score", "allowed", "fold_groups"
    arguments = {name: getattr(raw, name) for name in names}
    if offsets is None or not all(_matches(raw, offsets, a) for a in arguments.values()):
        return [raw]
    for name, values in arguments.items():
        if values is not None and not isinstance(values, (str, list, tuple, np.ndarray)):
            dtype = None if hasattr(values, "dtype") else object
            arguments[name] = np.asarray(values, dtype=dtype)
    bounds = list(runs(offsets, n_rows))
    if raw.segmentation.is_long:
        tables = rows_of(raw.X, [(int(offsets[i]), int(offsets[j])) for i, j in bounds])
    else:
        tables = [raw.X[i:j] for i, j in bounds]
    parts = []
    for X, (i, j) in zip(tables, bounds, strict=True):
        cut = {}
        for name, values in arguments.items():
            if values is None or isinstance(values, str):
                continue
            per_sequence = len(values) == len(offsets) - 1
            if per_sequence:
                cut[name] = values[i:j]
            else:
                cut[name] = values[int(offsets[i]) : int(offsets[j])]
        place = ""
        if len(bounds) != 1:
            place = f"part from sequence {i} on"
        parts.append(replace(raw, X=X, place=place, **cut))
    return parts


def n_values(raw: RawData) -> int:
    """Return the number of values of a position; 1 if it is not certain."""
    if isinstance(raw.X, (list, tuple)):
        items = raw.X
    else:
        items = [raw.X]
    shape = ()
    if items:
        shape = getattr(items[0], "shape", ())
    if len(shape) == 2:
        return int(shape[1])
    return 1


def _known_offsets(raw: RawData) -> np.ndarray | None:
    """Return the starts of the sequences, and the end of the last one; None for other data."""
    X = raw.X
    name = raw.segmentation.column
    if raw.segmentation.is_long:
        is_cut = name is not None and is_frame(X) and name in column_names(X)
        if is_cut:
            return raw.segmentation.offsets(len(X), column_of(X, name))
        return None
    if not isinstance(X, (list, tuple)) or not X:
        return None
    lengths = []
    for item in X:
        shape = getattr(item, "shape", None) or (len(item) if hasattr(item, "__len__") else 0,)
        lengths.append(int(shape[0]))
    if min(lengths) == 0:
        return None
    return offsets_of(lengths)


def _matches(raw: RawData, offsets: np.ndarray, argument: Any) -> bool:
    """Return whether an argument has an item for each sequence or for each position."""
    if argument is None:
        return True
    if isinstance(argument, str):
        if raw.segmentation.is_long:
            frames = [raw.X]
        else:
            frames = raw.X
        return all(is_frame(frame) and argument in column_names(frame) for frame in frames)
    if not hasattr(argument, "__len__"):
        return False
    expected = (len(offsets) - 1, *([int(offsets[-1])] if raw.segmentation.is_long else []))
    return len(argument) in expected
