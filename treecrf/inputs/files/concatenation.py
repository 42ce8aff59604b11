"""Several tables, one after another, as one long table with common columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from treecrf.inputs.files.arrow import ArrowConverter
from treecrf.inputs.files.blocks import import_pyarrow
from treecrf.inputs.files.kinds import BOOLEAN, NUMBER, TEXT
from treecrf.inputs.values import closest_name, short_list

Arrays = Mapping[str, Any]


class Table(Protocol):
    """A table that can be read more than once, from any row on.

    Attributes
    ----------
    name : str
        Name in messages.
    first_row : int
        Number of the first row in messages.
    """

    name: str
    first_row: int

    def batches(self, names: Sequence[str], first: int = 0) -> Iterator[Any]:
        """Yield some columns, from row ``first`` on, as record batches."""


class LongTable:
    """Tables one after another.

    Reading is fastest in the order of the rows.

    Parameters
    ----------
    tables : list of Table
    names : list of str
        The columns to read.
    convert : callable
        Converts arrays by name to a record batch, the same in all tables.
    n_rows : list of int
        Number of rows of each table.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        names: list[str],
        convert: Callable[[Arrays], Any],
        n_rows: list[int],
    ):
        self._pa = import_pyarrow()
        self._tables = tables
        self._names = names
        self._convert = convert
        self._offsets = np.cumsum([0, *n_rows])
        self._position = 0
        self._batches = self._from_row(0)
        self._rest: Any = None  # of the last batch

    @property
    def n_rows(self) -> int:
        """Number of rows of all tables."""
        return int(self._offsets[-1])

    def read(self, start: int, stop: int) -> Any:
        """Return rows as a table of pyarrow."""
        if start != self._position:
            self._batches, self._rest = self._from_row(start), None
        parts, missing = [], stop - start
        while missing:
            batch = next(self._batches) if self._rest is None else self._rest
            parts.append(batch[:missing])
            self._rest = batch[missing:] if len(batch) > missing else None
            missing -= len(parts[-1])
        self._position = stop
        return self._pa.Table.from_batches(parts)

    def _from_row(self, first: int) -> Iterator[Any]:
        for i, table in enumerate(self._tables):
            start, stop = self._offsets[i : i + 2].tolist()
            if first < stop:
                for batch in table.batches(self._names, max(0, first - start)):
                    yield self._convert({name: batch.column(name) for name in self._names})


def check_names(tables: Sequence[Any], names: Sequence[str], argument: str) -> None:
    """Raise ValueError if a column is not in the first table."""
    first = tables[0]
    for name in names:
        if name not in first.names:
            hint = closest_name(name, first.names)
            raise ValueError(f"{argument}={name!r} is not a column of {first.name}{hint}")


def check_same_names(tables: Sequence[Any]) -> None:
    """Raise ValueError if two tables have different columns; their order does not matter."""
    first = tables[0]
    for table in tables[1:]:
        others = set(table.names) ^ set(first.names)
        if others:
            raise ValueError(
                f"{table.name} and {first.name} do not have the same columns: only one of them has "
                f"{short_list(sorted(map(repr, others)))}"
            )


class TextConversion:
    """Conversion of columns of text, such as those of CSV files, to columns with types.

    Parameters
    ----------
    kinds : dict of str to str
        The kind of each column.
    categories : sequence of str
        Columns of which whole numbers become categories.
    """

    def __init__(
        self, converter: ArrowConverter, kinds: Mapping[str, str], categories: Sequence[str]
    ):
        self._pa = import_pyarrow()
        self._converter = converter
        self._kinds = kinds
        self._categories = frozenset(categories)

    def __call__(self, arrays: Arrays) -> Any:
        """Return a record batch."""
        columns = {name: self._typed(kind, arrays[name]) for name, kind in self._kinds.items()}
        for name in self._categories:
            columns[name] = columns[name].dictionary_encode()
        return self._pa.record_batch(columns)

    def _typed(self, kind: str, array: Any) -> Any:
        if kind == BOOLEAN:
            values = self._converter.booleans(array)
            return self._pa.array(values == 1, mask=np.isnan(values))
        if kind == NUMBER:
            return self._pa.array(self._converter.numbers(array))
        array = self._converter.plain(array)
        return array if kind == TEXT else array.cast(self._pa.int64())


class TypeConversion:
    """Conversion of columns to types that they have in common in all tables.

    Parameters
    ----------
    tables : list of Table
        Tables with a schema.
    names : list of str

    Raises
    ------
    TypeError
        If a column has different types that cannot be combined.
    """

    def __init__(self, tables: Sequence[Any], names: list[str]):
        self._pa = import_pyarrow()
        self._types = {name: self._common(tables, name) for name in names}

    def __call__(self, arrays: Arrays) -> Any:
        """Return a record batch."""
        columns = {name: self.of_column(name, arrays[name]) for name in self._types}
        return self._pa.record_batch(columns)

    def of_column(self, name: str, array: Any) -> Any:
        """Convert the values of one column."""
        return _cast(array, self._types[name])

    def _common(self, tables: Sequence[Any], name: str) -> Any:
        is_null = self._pa.types.is_null
        common, owner = tables[0].schema.field(name).type, tables[0]
        for table in tables[1:]:
            kind = table.schema.field(name).type
            if is_null(kind) or kind == common:
                continue
            if is_null(common):
                common, owner = kind, table
                continue
            both = self._combined(common, kind)
            if both is None:
                raise TypeError(
                    f"{table.name}: column {name!r} is of type {kind}, but in {owner.name} of type "
                    f"{common}"
                )
            common = both
        return common

    def _combined(self, one: Any, other: Any) -> Any:
        """Return a type for the values of two types, or None."""
        types = self._pa.types
        values = [kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other)]
        if all(types.is_string(kind) or types.is_large_string(kind) for kind in values):
            return self._pa.large_string()
        if any(map(types.is_dictionary, (one, other))):
            is_same = types.is_dictionary(one) == types.is_dictionary(other)
            same = is_same and values[0] == values[1]
            return self._pa.dictionary(self._pa.int32(), values[0]) if same else None
        if not all(map(self._is_numeric, values)):
            return None
        is_float = [types.is_floating(kind) or types.is_uint64(kind) for kind in values]
        return self._pa.float64() if any(is_float) else self._pa.int64()

    def _is_numeric(self, kind: Any) -> bool:
        types = self._pa.types
        numeric = (types.is_integer, types.is_floating, types.is_boolean)
        return any(is_numeric(kind) for is_numeric in numeric)


def _cast(array: Any, kind: Any) -> Any:
    return array if array.type == kind else array.cast(kind, safe=False)
