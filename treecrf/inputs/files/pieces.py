"""Files and Arrow data in pieces: runs of whole sequences of limited size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from treecrf.inputs.files.arrow import ArrowConverter
from treecrf.inputs.files.batches import are_batches, table_of_batches
from treecrf.inputs.files.blocks import CsvFile, ParquetFile, import_pyarrow
from treecrf.inputs.files.concatenation import (
    Arrays,
    LongTable,
    TextConversion,
    TypeConversion,
    check_names,
    check_same_names,
)
from treecrf.inputs.files.kinds import NUMBER, TEXT, KindFinder
from treecrf.inputs.files.paths import (
    PARQUET,
    SEPARATORS,
    are_path_strings,
    are_paths,
    find_files,
    is_path_string,
)
from treecrf.inputs.files.runs import RunFinder
from treecrf.inputs.files.source import Source
from treecrf.inputs.labels import RawData
from treecrf.inputs.offsets import runs
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.tables import selected_columns
from treecrf.inputs.values import refuse_infinite, require_different_names, short_repr

# Size of a piece, unless it is a single sequence: while it is read, it takes several times as much.
PIECE_BYTES = 1 << 24
MAX_PIECE_ROWS = 1 << 18
# Number of rows from which the size of a row is estimated.
SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class TableOptions:
    """How to read tables from files.

    Attributes
    ----------
    drop : tuple of str
        Columns to leave out.
    category : tuple of str
        Columns of text files whose whole numbers are categories.
    missing : tuple of str
        Additional texts that mark a missing value in text files.
    separator : str, optional
        Separator between the columns of text files; by default, the ending determines it.
    encoding : str
        Encoding of text files.
    """

    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    separator: str | None = None
    encoding: str = "utf-8"


DEFAULTS = TableOptions()


def are_tables(raw: RawData) -> bool:
    """Return whether data are tables that can be read in pieces, instead of objects in memory.

    Strings may also be sequences of characters. In a list, they are paths if they are like paths
    and ``y`` can only be the name of a column. A single one is a path if ``groups`` is a name, or
    if it is like a path and neither ``lengths`` nor ``groups`` define sequences of its characters.
    """
    segmentation = raw.segmentation
    if isinstance(raw.X, str):
        if segmentation.column is not None and segmentation.lengths is None:
            return True
        return is_path_string(raw.X, are_characters=segmentation.is_long)
    if isinstance(raw.X, Pieces) or are_batches(raw.X):
        return True
    names_column = isinstance(raw.y, str) and segmentation.lengths is None
    has_array = segmentation.is_long and segmentation.column is None
    if names_column and not has_array and are_path_strings(raw.X):
        return True
    return are_paths(raw.X, with_strings=names_column)


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are not features.

    Attributes
    ----------
    label, group : str
    weight : str, optional
    """

    label: str
    group: str
    weight: str | None = None

    @classmethod
    def of_data(cls, raw: RawData) -> Columns:
        """Check arguments of `fit`, which are names of columns.

        Raises
        ------
        TypeError, ValueError
            If one is not, two are the same, or there are arguments without a column.
        """
        segmentation = raw.segmentation
        for argument, value in (("lengths", segmentation.lengths), ("init_score", raw.init_score)):
            if value is not None:
                raise TypeError(f"{argument} cannot be combined with files or batches as X")
        groups, weight = segmentation.groups, raw.sample_weight
        named = {"y": (raw.y, "labels"), "groups": (groups, "sequences")}
        if weight is not None:
            named["sample_weight"] = (weight, "weights")
        for argument, (value, content) in named.items():
            if not isinstance(value, str):
                given = "is not given" if value is None else f"is {short_repr(value)}"
                raise TypeError(
                    f"{argument} {given}; with files or batches as X, expected the name of the "
                    f"column of {content}"
                )
        columns = cls(raw.y, groups, weight)
        require_different_names(columns.named)
        return columns

    @property
    def named(self) -> dict[str, str]:
        """The arguments that are given."""
        names = {"y": self.label, "groups": self.group, "sample_weight": self.weight}
        return {argument: name for argument, name in names.items() if name is not None}


class Pieces:
    """The pieces of tables.

    Parameters
    ----------
    table : LongTable
    columns : Columns
    bounds : int64 array (n_pieces + 1,)
        The first row of each piece, and the number of rows.
    place_of : callable
        Description of a row in error messages.
    """

    def __init__(
        self,
        table: LongTable,
        columns: Columns,
        bounds: np.ndarray,
        place_of: Callable[[int], str],
    ):
        self._table = table
        self._columns = columns
        self._place_of = place_of
        self.bounds = bounds

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def read(self, i: int) -> RawData:
        """Read piece i.

        Raises
        ------
        ValueError
            If a number is infinite.
        """
        # Pools keep the memory of the piece before.
        import_pyarrow().default_memory_pool().release_unused()
        start, stop = self.bounds[i : i + 2].tolist()
        rows = self._table.read(start, stop)
        weight = None
        if self._columns.weight is not None:
            weight = rows.column(self._columns.weight).to_numpy()
            rows = rows.drop_columns(self._columns.weight)
        segmentation = Segmentation(groups=self._columns.group)
        self._refuse_infinite(rows, start)
        place = f"rows from {self._place_of(start)} to {self._place_of(stop - 1)}"
        return RawData(rows, self._columns.label, segmentation, weight, place=place)

    def _refuse_infinite(self, rows: Any, start: int) -> None:
        """Raise ValueError for an infinite number, with its file and row."""
        is_floating = import_pyarrow().types.is_floating
        for name in rows.column_names:
            if name in self._columns.named.values() or not is_floating(
                rows.schema.field(name).type
            ):
                continue
            first = start
            for chunk in rows.column(name).chunks:
                values = chunk.to_numpy(zero_copy_only=False)
                refuse_infinite(values, partial(self._cell, first, name))
                first += len(values)

    def _cell(self, first: int, name: str, i: int) -> str:
        return f"{self._place_of(first + i)}, column {name!r}"

    def loads(self) -> list[Callable[[], RawData]]:
        """Return a function for each piece that reads it."""
        return [partial(self.read, i) for i in range(len(self))]


def open_pieces(
    raw: RawData,
    categorical_features: Any = "from_dtype",
    folder: str | None = None,
    options: TableOptions = DEFAULTS,
) -> Pieces:
    """Find the sequences of tables, in one pass over the column of groups, and cut pieces.

    Text files are read entirely, to find the types of the columns.

    Parameters
    ----------
    raw : RawData
        Paths, batches or opened pieces, and names of columns.
    categorical_features : "from_dtype", None, or list
        The parameter of estimators.
    folder : str, optional
        Folder of temporary files, to which batches that can be read only once are copied.
    options : TableOptions, optional

    Raises
    ------
    OSError
        If a file cannot be read, or the disk has too little space.
    ImportError
        If pyarrow is not installed.
    ValueError, TypeError
        If tables or columns are not valid, or rows of a group are not contiguous.
    """
    if isinstance(raw.X, Pieces):
        return raw.X
    files = [] if are_batches(raw.X) else find_files(raw.X)
    columns = Columns.of_data(raw)
    tables = [_open(path, options) for path in files] or [table_of_batches(raw.X, folder)]
    check_same_names(tables)
    for argument, name in columns.named.items():
        check_names(tables, [name], argument)
    check_names(tables, options.drop, "drop")
    names = [name for name in tables[0].names if name not in options.drop]
    if not set(names) - set(columns.named.values()):
        raise ValueError(f"{tables[0].name}: no columns are left as features")
    converter = ArrowConverter(options.missing)
    plan = _Plan(tables, names, columns, converter)
    if isinstance(tables[0], CsvFile):
        convert = plan.of_text(_categories(names, columns, options, categorical_features))
    else:
        convert = plan.of_types()
    return plan.pieces(convert)


def _open(path: str, options: TableOptions) -> CsvFile | ParquetFile:
    lower = path.lower()
    if lower.endswith(PARQUET):
        return ParquetFile(Source(path))
    ending = next(ending for ending in SEPARATORS if lower.removesuffix(".gz").endswith(ending))
    return CsvFile(Source(path), options.separator or SEPARATORS[ending], options.encoding)


def _categories(
    names: list[str], columns: Columns, options: TableOptions, categorical_features: Any
) -> list[str]:
    """Return the columns of which whole numbers are categories."""
    features = [name for name in names if name not in columns.named.values()]
    selected = selected_columns(categorical_features, tuple(features), len(features))
    chosen = [] if selected is None else [features[j] for j in np.flatnonzero(selected)]
    return [*dict.fromkeys([*chosen, *options.category])]


class _Plan:
    """Rows, groups and types of tables, found in one pass."""

    def __init__(
        self, tables: list[Any], names: list[str], columns: Columns, converter: ArrowConverter
    ):
        self.tables = tables
        self.names = names
        self.columns = columns
        self.converter = converter
        self.n_rows: list[int] = []  # of the tables that have been read to the end
        self.runs = RunFinder(converter, columns.group, self.place_of)

    def of_text(self, categories: Sequence[str]) -> TextConversion:
        """Read text files, and find the kinds of their columns."""
        group, weight = self.columns.group, self.columns.weight
        labeled = [*categories, self.columns.label]
        features = [name for name in self.names if name not in (*labeled, group, weight)]
        finder = KindFinder(self.converter, features, labeled)
        for table in self.tables:
            for block in table.blocks(self.names):
                finder.add(block, table)
                self.runs.add(block[group])
            self._end_table()
        kinds = finder.kinds() | {group: TEXT} | ({} if weight is None else {weight: NUMBER})
        kinds = {name: kinds[name] for name in self.names}
        return TextConversion(self.converter, kinds, categories)

    def of_types(self) -> TypeConversion:
        """Read the groups of tables with types."""
        group = self.columns.group
        convert = TypeConversion(self.tables, self.names)
        for table in self.tables:
            for batch in table.batches([group]):
                self.runs.add(convert.of_column(group, batch.column(group)))
            self._end_table()
        return convert

    def _end_table(self) -> None:
        self.n_rows.append(self.runs.n_rows - sum(self.n_rows))

    def place_of(self, row: int) -> str:
        """Describe a row of all tables."""
        ends = np.cumsum(self.n_rows)
        i = int(np.searchsorted(ends, row, side="right"))
        table, start = self.tables[i], ends[i - 1] if i else 0
        return f"{table.name}, row {row - start + table.first_row}"

    def pieces(self, convert: Callable[[Arrays], Any]) -> Pieces:
        """Cut pieces at the starts of sequences.

        Raises
        ------
        ValueError
            If there are no rows, or rows of a group are not contiguous.
        """
        if not self.runs.n_rows:
            raise ValueError(f"{self.tables[0].name}: the table has no rows")
        table = LongTable(self.tables, self.names, convert, self.n_rows)
        group = self.columns.group
        self.runs.check(lambda row: table.read(row, row + 1).column(group)[0].as_py())
        offsets = self.runs.offsets()
        first = [start for start, _ in runs(offsets, piece_rows(_row_bytes(table)))]
        bounds = np.append(offsets[first], table.n_rows)
        return Pieces(table, self.columns, bounds, self.place_of)


def piece_rows(row_bytes: float) -> int:
    """Return the maximum number of rows of a piece."""
    return max(1, min(MAX_PIECE_ROWS, int(PIECE_BYTES / max(1, row_bytes))))


def _row_bytes(table: LongTable) -> float:
    sample = table.read(0, min(table.n_rows, SAMPLE_ROWS))
    return sample.nbytes / len(sample)


def in_memory(raw: RawData, categorical_features: Any = "from_dtype") -> RawData:
    """Return data of which tables in files have been read."""
    if not are_tables(raw):
        return raw
    return joined_pieces([load() for load in open_pieces(raw, categorical_features).loads()])


def joined_pieces(pieces: Sequence[RawData]) -> RawData:
    """Return the data of all pieces, which are tables."""
    if len(pieces) == 1:
        return pieces[0]
    table = import_pyarrow().concat_tables([piece.X for piece in pieces])
    has_weights = pieces[0].sample_weight is not None
    weights = np.concatenate([piece.sample_weight for piece in pieces]) if has_weights else None
    return replace(pieces[0], X=table, sample_weight=weights)
