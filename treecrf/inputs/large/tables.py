"""Tables of files, Arrow data, or data in memory in pieces: runs of whole sequences.

In text files, the values of a column in all rows determine its type.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from treecrf.inputs.large.column_types import AS_NUMBER, AS_TEXT, find_kinds, typed_text
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
from treecrf.inputs.offsets import Segmentation, offsets_of, runs
from treecrf.inputs.paths import FORMAT_OF_ENDING, are_batches, are_tables
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
    contents = {"y": "labels", "groups": "sequences", "sample_weight": "weights"}
    for argument, name in names.items():
        if not isinstance(name, str):
            problem = "is not given" if name is None else f"is {short_repr(name)}"
            raise TypeError(
                f"{argument} {problem}; with files or batches as X, expected the name of the "
                f"column of {contents[argument]}"
            )
    require_different_names(names)
    return names


class TableReader:
    """Reader of some columns of tables, one table after another, in pieces of whole sequences.

    ``columns`` are not features, see `other_columns`. The tables are scanned before they are read.
    """

    reads_tables = True  # see `are_tables`
    names: list[str]  # of all columns but the groups, which the lengths of sequences replace
    offsets: np.ndarray  # the first row of each sequence, and the number of rows
    pieces: list[tuple[int, int]]  # the first sequence of each piece, and the one after its last
    convert: Callable[[Any], Any]  # of record batches, to the same types in all tables

    def __init__(
        self,
        tables: Sequence[Table],
        names: list[str],
        columns: dict[str, str],
        scanned: ScannedTables,
    ):
        self.names = [name for name in names if name != columns["groups"]]
        self.n_rows = 0  # of the tables that have been scanned
        self._pa = import_pyarrow()
        self._tables = tables
        self._scanned = scanned
        self._columns = columns
        self._ends: list[int] = []  # of the tables that have been scanned
        self._position = 0  # of the next row
        self._batches: Iterator[Any] = iter(())
        self._rest: Any = None  # of the last batch

    def scan(self, names: list[str]) -> Iterator[tuple[Table, Any]]:
        """Yield all record batches as they are, with their tables, and count the rows."""
        for table in self._tables:
            for batch in self._scanned.scan(table, names):
                yield table, batch
                self.n_rows += batch.num_rows
            self._ends.append(self.n_rows)

    def place_of(self, row: int) -> str:
        """Describe a row in messages."""
        i = int(np.searchsorted(self._ends, row, side="right"))
        table, start = self._tables[i], self._ends[i - 1] if i else 0
        return f"{table.name}, row {row - start + table.first_row}"

    def group_at(self, row: int) -> Any:
        """Return the group of a row."""
        for batch in self._converted([self._columns["groups"]]):
            if row < len(batch):
                return batch.column(0)[row].as_py()
            row -= len(batch)

    def rows(self, start: int, stop: int) -> Any:
        """Return rows as a table of pyarrow; reading is fastest in the order of the rows."""
        if start < self._position or not start:
            self._position, self._batches, self._rest = 0, self._converted(self.names), None
        batches = []
        while self._position < stop:
            batch = next(self._batches) if self._rest is None else self._rest
            part, first = batch[: stop - self._position], start - self._position
            self._rest = batch[len(part) :] if len(part) < len(batch) else None
            self._position += len(part)
            if first < len(part):
                batches.append(part[max(0, first) :])
        if stop == self.n_rows:
            self._batches = iter(())  # closes the file
        # A column of many parts takes long to read.
        return self._pa.Table.from_batches(batches).combine_chunks()

    def _converted(self, names: list[str]) -> Iterator[Any]:
        return map(self.convert, self._scanned.batches(names))

    def read(self, i: int) -> RawData:
        """Read piece i; ValueError if a number is infinite."""
        # Pools keep the memory of the piece before.
        self._pa.default_memory_pool().release_unused()
        first, last = self.pieces[i]
        offsets = self.offsets[first : last + 1]
        start, stop = offsets[[0, -1]].tolist()
        rows, weight = self.rows(start, stop), None
        labels = rows.column(self._columns["y"]).to_pylist()
        if "sample_weight" in self._columns:
            weight = rows.column(self._columns["sample_weight"]).to_numpy()
        rows = rows.drop_columns([name for name in self._columns.values() if name in self.names])
        self._refuse_infinite(rows, start)
        return RawData(
            rows,
            labels,
            Segmentation(np.diff(offsets)),
            weight,
            place=f"rows from {self.place_of(start)} to {self.place_of(stop - 1)}",
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
    """Find the types of the columns and the starts of the sequences, in one pass.

    Batches that can be read only once are copied to a temporary file in the folder.
    """
    if isinstance(raw.X, TableReader):
        return raw.X
    files = [] if are_batches(raw.X) else find_files(raw.X)
    columns = other_columns(raw)
    tables: list[Table] = [table_file(Source(path), options) for path in files]
    tables = tables or [table_of_batches(raw.X, folder)]
    first, group, others = tables[0], columns["groups"], columns.values()
    for table in tables[1:]:
        require_same_names(table.name, table.names, first.name, first.names)
    named = [*columns.items(), *(("drop", name) for name in options.drop)]
    for argument, name in [*named, *(("category", name) for name in options.category)]:
        if name not in first.names:
            hint = separator_hint(first.names, options) or closest_name(name, first.names)
            raise ValueError(f"{argument}={name!r} is not a column of {first.name}{hint}")
    names = [name for name in first.names if name not in options.drop]
    excluded = {*others, *index_columns(names)}
    features = [name for name in names if name not in excluded]
    if not features:
        raise ValueError(f"{first.name}: no columns are left as features")
    names = [name for name in names if name in others or name not in excluded]
    categories = _categories(features, options, categorical_features)
    plain = [name for name in features if name not in categories]
    scanned = ScannedTables(tables, plain, folder)
    reader = TableReader(tables, names, columns, scanned)
    converter = ArrowConverter(options.missing if first.schema is None else None)
    groups = GroupBoundaries(converter, group, reader.place_of)
    if first.schema is None:
        batches = groups.added(reader.scan(names))
        kinds = find_kinds(converter, plain, [*categories, columns["y"]], batches, options)
        kinds[group] = AS_TEXT
        if "sample_weight" in columns:
            kinds[columns["sample_weight"]] = AS_NUMBER
        scanned.finish(name for name in plain if kinds[name] == AS_TEXT)
        reader.convert = partial(typed_text, converter, kinds, frozenset(categories))
    else:
        types = common_types(tables, names, {*categories, columns["y"]})
        # Groups are compared one by one, and need no common type.
        del types[group]
        reader.convert = partial(cast_columns, types)
        for _, batch in reader.scan([group]):
            groups.add(reader.convert(batch).column(0))
        scanned.finish()
    if not reader.n_rows:
        raise ValueError(f"{first.name}: the table has no rows")
    reader.offsets = groups.checked(reader.group_at)
    sample = reader.rows(0, min(reader.n_rows, SAMPLE_ROWS))
    reader.pieces = list(runs(reader.offsets, piece_rows(sample.nbytes / len(sample))))
    return reader


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


def _categories(features: list[str], options: TableOptions, categorical: Any) -> list[str]:
    """Return the columns whose whole numbers are categories."""
    selected = selected_columns(categorical, tuple(features), len(features))
    chosen = [] if selected is None else [features[j] for j in np.flatnonzero(selected)]
    named = dict.fromkeys([*chosen, *options.category])
    return [name for name in named if name not in options.drop]


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
    weights = np.concatenate([piece.sample_weight for piece in pieces]) if has_weights else None
    cuts = Segmentation(lengths)
    return replace(pieces[0], X=table, y=labels, segmentation=cuts, sample_weight=weights, place="")


# Partitions in one process


def partitions_of(
    raw: RawData, scratch: str | PathLike | None, categorical_features: Any
) -> LocalPartitions:
    """Return the parts of files and batches, or of data in memory.

    Parts that are derived from them are in temporary files in the folder ``scratch``, if any.
    """
    files = None if scratch is None else Scratch(scratch)
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
    names = "y", "sample_weight", "init_score", "allowed"
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
            of_sequences = len(values) == len(offsets) - 1
            cut[name] = values[i:j] if of_sequences else values[int(offsets[i]) : int(offsets[j])]
        place = "" if len(bounds) == 1 else f"part from sequence {i} on"
        parts.append(replace(raw, X=X, place=place, **cut))
    return parts


def n_values(raw: RawData) -> int:
    """Return the number of values of a position; 1 if it is not certain."""
    items = raw.X if isinstance(raw.X, (list, tuple)) else [raw.X]
    shape = getattr(items[0], "shape", ()) if items else ()
    return int(shape[1]) if len(shape) == 2 else 1


def _known_offsets(raw: RawData) -> np.ndarray | None:
    """Return the starts of the sequences, and the end of the last one; None for other data."""
    X, name = raw.X, raw.segmentation.column
    if raw.segmentation.is_long:
        is_cut = name is not None and is_frame(X) and name in column_names(X)
        return raw.segmentation.offsets(len(X), column_of(X, name)) if is_cut else None
    if not isinstance(X, (list, tuple)) or not X:
        return None
    lengths = []
    for item in X:
        shape = getattr(item, "shape", None) or (len(item) if hasattr(item, "__len__") else 0,)
        lengths.append(int(shape[0]))
    return None if min(lengths) == 0 else offsets_of(lengths)


def _matches(raw: RawData, offsets: np.ndarray, argument: Any) -> bool:
    """Return whether an argument has an item for each sequence or for each position."""
    if argument is None:
        return True
    if isinstance(argument, str):
        frames = [raw.X] if raw.segmentation.is_long else raw.X
        return all(is_frame(frame) and argument in column_names(frame) for frame in frames)
    if not hasattr(argument, "__len__"):
        return False
    expected = (len(offsets) - 1, *([int(offsets[-1])] if raw.segmentation.is_long else []))
    return len(argument) in expected
