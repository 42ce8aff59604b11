"""The columns of data frames: numbers of short frames at once, all others one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.columns import CHUNK, ColumnReader, ColumnSpecs, ColumnValues, table_of
from treecrf.inputs.schema import BOOLEAN, NUMBER
from treecrf.inputs.sequences import LongSequences
from treecrf.inputs.values import IGNORE_OVERFLOW, first_infinite

# The numbers of frames with at most this many rows are copied to one array, because finding a
# column takes longer than copying it. The columns of longer frames are used in place.
MAX_COPIED = 1 << 12
# Columns that are neither booleans nor numbers, beside the kinds `BOOLEAN` and `NUMBER`.
OTHER = 255


def read_parts(
    parts: list, offsets: np.ndarray, names: tuple[str, ...] | None, specs: ColumnSpecs
) -> LongSequences:
    """Read the rows of data frames of narwhals, which have the same columns in the same order."""
    block = None
    if offsets[-1] <= MAX_COPIED:
        block = NumberBlock.of(parts, specs)
    if block is None:
        return table_of(_read_columns(parts, specs, offsets), offsets, names)
    others = np.flatnonzero(block.kinds == OTHER)
    if not len(others):
        return block.sequences(offsets, names)
    others_of_parts = [part[:, others.tolist()] for part in parts]
    read = iter(_read_columns(others_of_parts, specs, offsets, others.tolist()))
    columns = [
        next(read) if kind == OTHER else ColumnValues(kind, block.table[:, j])
        for j, kind in enumerate(block.kinds.tolist())
    ]
    return table_of(columns, offsets, names)


# Numbers, all at once


@dataclass(frozen=True)
class NumberBlock:
    """The numbers and booleans of data frames as one array."""

    table: np.ndarray  # float64 (n_rows, n_columns), arbitrary in other columns
    kinds: np.ndarray  # uint8 (n_columns,): `BOOLEAN`, `NUMBER` or `OTHER`

    @classmethod
    def of(cls, parts: list, specs: ColumnSpecs) -> NumberBlock | None:
        """Read the columns that hold numbers or booleans in all data frames.

        None if some values are not allowed: their columns raise the error that names them.
        """
        table = np.empty((sum(map(len, parts)), parts[0].shape[1]), order="F")
        kinds_of_parts = []
        start = 0
        for part in parts:
            rows = slice(start, start + len(part))
            kinds_of_parts.append(_copy_numbers(part, ~specs.is_category, table[rows]))
            start = rows.stop
        kinds = np.max(kinds_of_parts, axis=0)
        block = cls(table, kinds)
        if block.is_valid(specs.is_boolean):
            return block
        return None

    def is_valid(self, is_boolean: np.ndarray) -> bool:
        """Return whether numbers are finite, and 0 or 1 in some of the columns."""
        for j in np.flatnonzero((self.kinds == NUMBER) & is_boolean).tolist():
            values = self.table[:, j]
            if not ((values == 0) | (values == 1) | np.isnan(values)).all():
                return False
        if (self.kinds != OTHER).all():
            numbers = self.table
        else:
            numbers = self.table[:, self.kinds != OTHER]
        with np.errstate(**IGNORE_OVERFLOW):
            return first_infinite(numbers) is None

    def sequences(self, offsets: np.ndarray, names: tuple[str, ...] | None) -> LongSequences:
        """Make sequences of the rows, if there are no other columns."""
        return LongSequences.of(
            self.table,
            offsets,
            form="dense",
            n_features=len(self.kinds),
            dtype=self.table.dtype,
            names=names,
            kinds=self.kinds,
        )


def _copy_numbers(frame: Any, chosen: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Copy numbers and booleans among the chosen columns to a table; return the kinds of all."""
    kinds = np.where(chosen, _kinds_of(frame), OTHER).astype(np.uint8)
    for kind in (BOOLEAN, NUMBER):
        columns = np.flatnonzero(kinds == kind)
        if not len(columns):
            continue
        is_all = len(columns) == len(kinds)
        values = _as_array(frame if is_all else frame[:, columns.tolist()], kind)
        if values.dtype.kind == "O":  # booleans, some of which are missing
            kinds[columns] = OTHER
            continue
        with np.errstate(over="ignore"):  # wider floats may be too large
            table[:, slice(None) if is_all else columns] = values
    return kinds


def _kinds_of(frame: Any) -> np.ndarray:
    """Return the kind of each column that its type implies."""
    native = frame.to_native()
    if hasattr(native, "dtypes"):
        types = list(native.dtypes)
    else:
        types = native.schema.types
    # There are few different types, and it takes long to convert those of all columns.
    examples = {dtype: j for j, dtype in enumerate(types)}
    dtypes = frame[:, list(examples.values())].schema.values()
    kinds = {dtype: _kind_of(known) for dtype, known in zip(examples, dtypes, strict=True)}
    return np.array([kinds[dtype] for dtype in types], dtype=np.uint8)


def _kind_of(dtype: Any) -> int:
    import narwhals.stable.v2 as narwhals

    if dtype == narwhals.Boolean:
        return BOOLEAN
    if dtype.is_numeric() and dtype not in _wide_types():
        return NUMBER
    return OTHER


def _wide_types() -> tuple:
    """Return the types of numbers that NumPy has no type for."""
    import narwhals.stable.v2 as narwhals

    return narwhals.Decimal, narwhals.Int128, narwhals.UInt128


def _as_array(frame: Any, kind: int) -> np.ndarray:
    """Convert a data frame of numbers, or of booleans, to an array."""
    if not frame.implementation.is_pandas_like():
        return frame.to_numpy()
    if kind == BOOLEAN:
        return frame.to_native().to_numpy()
    return frame.to_native().to_numpy(dtype=np.float64, na_value=np.nan)


# Columns, one by one


def _read_columns(
    parts: list, specs: ColumnSpecs, offsets: np.ndarray, indices: Iterable[int] | None = None
) -> list[ColumnValues]:
    """Read all columns of data frames, which have the given indices among all features."""
    # One selection of a column may cost as much as all columns.
    columns = zip(*(part.iter_columns() for part in parts), strict=True)
    if indices is None:
        indices = range(parts[0].shape[1])
    return [
        _read_column(column, specs.reader(j, offsets))
        for j, column in zip(indices, columns, strict=True)
    ]


def _read_column(parts: Iterable, reader: ColumnReader) -> ColumnValues:
    """Read a column that consists of several series of narwhals."""
    import narwhals.stable.v2 as narwhals

    typed = any(series.dtype in (narwhals.Categorical, narwhals.Enum) for series in parts)
    if typed and reader.is_category is None:
        reader.is_category = True
    for series in parts:
        dtype = series.dtype
        is_full = dtype == narwhals.Boolean and series.null_count() == 0
        if (is_full or dtype.is_numeric()) and not reader.is_category:
            is_wide = dtype in _wide_types()
            reader.add_numbers((series.cast(narwhals.Float64) if is_wide else series).to_numpy())
            continue
        for start in range(0, len(series), CHUNK):
            reader.add_objects(series[start : start + CHUNK].to_list())
    return reader.finish()
