"""Tables read column by column, and how their columns are matched with those of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.column_reader import ColumnReader, ColumnSpec, ColumnValues
from treecrf.inputs.offsets import position_name
from treecrf.inputs.schema import BOOLEAN, CATEGORY, InputSchema, column_name
from treecrf.inputs.sequences import ColumnTable, LongSequences
from treecrf.inputs.values import short_list, short_repr


def table_of(
    columns: list[ColumnValues],
    offsets: np.ndarray,
    names: tuple[str, ...] | None,
    of_symbols: bool = False,
) -> LongSequences:
    """Combine columns into sequences of a dense table."""
    kinds = np.array([column.kind for column in columns], dtype=np.uint8)
    return LongSequences.of(
        ColumnTable([column.data for column in columns], kinds == CATEGORY),
        offsets,
        form="dense",
        n_features=len(columns),
        dtype=np.dtype(np.float64),
        names=names,
        kinds=kinds,
        categories={j: c.values for j, c in enumerate(columns) if c.kind == CATEGORY},
        of_symbols=of_symbols,
    )


def sparse_table_of(
    table: sparse.csc_array,
    offsets: np.ndarray,
    names: tuple[str, ...] | None,
    kinds: np.ndarray,
    categories: dict[int, np.ndarray] | None = None,
) -> LongSequences:
    """Combine columns into sequences of a sparse table."""
    table = sparse.csr_array(table)
    table.eliminate_zeros()
    return LongSequences.of(
        table,
        offsets,
        form="sparse",
        n_features=len(kinds),
        dtype=np.dtype(np.float64),
        names=names,
        kinds=kinds,
        categories=categories or {},
    )


@dataclass(frozen=True)
class CellNames:
    """Descriptions of the values of a column in error messages.

    Attributes
    ----------
    offsets : int64 array (n_sequences + 1,)
    column : str
    positions : int array, optional
        The position of each value, if some positions have none.
    """

    offsets: np.ndarray
    column: str
    positions: np.ndarray | None = None

    def __call__(self, i: int) -> str:
        """Name the sequence, position and column of the i-th value."""
        position = i if self.positions is None else int(self.positions[i])
        return f"{position_name(position, self.offsets)}, {self.column}"


def column_readers(
    names: tuple[str, ...] | None,
    n: int,
    schema: InputSchema | None,
    categorical: Any,
    offsets: np.ndarray,
) -> Iterator[ColumnReader]:
    """Make a reader for each of the ``n`` columns of a table of concatenated sequences."""
    specs = ColumnSpecs(names, n, schema, categorical)
    for j in range(n):
        yield ColumnReader(specs[j], CellNames(offsets, column_name(names, j)))


class ColumnSpecs:
    """The values that each column may hold: as in training, or as the user specifies.

    Attributes
    ----------
    is_category, is_not_category : bool arrays (n_columns,)
        Columns that are categories, and those that cannot be; of others the values decide.
    is_boolean : bool array (n_columns,)
        Columns in which 0 and 1 are the only numbers allowed.
    """

    def __init__(
        self, names: tuple[str, ...] | None, n: int, schema: InputSchema | None, categorical: Any
    ):
        self._schema = schema
        self.is_category = self.is_not_category = self.is_boolean = np.zeros(n, dtype=bool)
        if schema is not None:
            self.is_category = schema.kinds == CATEGORY
            self.is_boolean = schema.kinds == BOOLEAN
            self.is_not_category = ~self.is_category
        elif (selected := selected_columns(categorical, names, n)) is not None:
            self.is_category, self.is_not_category = selected, ~selected

    def __getitem__(self, j: int) -> ColumnSpec:
        if self._schema is not None:
            return ColumnSpec.of_schema(self._schema, j)
        if not (self.is_category[j] or self.is_not_category[j]):
            return ColumnSpec()
        reason = "the column is not in categorical_features; expected numbers"
        return ColumnSpec(bool(self.is_category[j]), reason=reason)


def check_width(n: int, where: str, first: int, schema: InputSchema | None) -> None:
    """Raise ValueError unless a table has as many columns as the model, or as the first table."""
    width = first if schema is None else schema.n_features
    if n != width:
        other = "sequence 0 has" if schema is None else "the model was trained with"
        raise ValueError(f"{where} has {n} features, {other} {width}")
    if n == 0:
        raise ValueError("the sequences have 0 features; expected at least 1")


def category_columns(n: int, schema: InputSchema | None, categorical: Any) -> list[int]:
    """Return the indices of the categorical columns of a table of numbers without names."""
    if schema is not None:
        return sorted(schema.categories)
    selected = selected_columns(categorical, None, n)
    return [] if selected is None else np.flatnonzero(selected).tolist()


def selected_columns(categorical: Any, names: tuple[str, ...] | None, n: int) -> np.ndarray | None:
    """Return a mask of ``categorical_features``; None if types determine the categories.

    Raises
    ------
    ValueError
        If there is no such column, or a mask has the wrong length.
    """
    if isinstance(categorical, str) and categorical == "from_dtype":
        return None
    selected = np.zeros(n, dtype=bool)
    if categorical is None:
        return selected
    array = np.asarray(categorical, dtype=None if hasattr(categorical, "dtype") else object)
    items = array.tolist() if array.ndim == 1 else [None]
    kinds = set(map(type, items))
    if len(kinds) > 1 or kinds - {bool, int, str}:
        raise ValueError(
            f"categorical_features={short_repr(categorical)}; expected 'from_dtype', None, or a "
            "list of names, of indices, or of one boolean per column"
        )
    if kinds == {bool}:
        if len(items) != n:
            raise ValueError(f"categorical_features has {len(items)} booleans for {n} columns")
        return np.array(items)
    indices = {name: j for j, name in enumerate(names or ())}
    selected[[_index_of(item, indices, n) for item in items]] = True
    return selected


def _index_of(item: int | str, indices: dict[str, int], n: int) -> int:
    if isinstance(item, int):
        if not -n <= item < n:
            raise ValueError(f"categorical_features: no column has index {item}; X has {n} columns")
        return item
    if item not in indices:
        there = f"X has {quoted(list(indices))}" if indices else "the columns of X have no names"
        raise ValueError(f"categorical_features: there is no column {item!r}; {there}")
    return indices[item]


def order_of(
    names: tuple[str, ...], expected: tuple[str, ...], where: str, owner: str, mend: str = ""
) -> Sequence[int]:
    """Return the indices of the expected columns; ``mend`` ends the message about others.

    Raises
    ------
    ValueError
        If a column is missing, or is not expected.
    """
    if names == expected:
        return range(len(names))
    indices = {name: j for j, name in enumerate(names)}
    missing = [name for name in expected if name not in indices]
    if missing:
        raise ValueError(f"{where} lacks {quoted(missing)} of {owner}")
    extra = set(names) - set(expected)
    if extra:
        found = [name for name in names if name in extra]
        raise ValueError(f"{where} has {quoted(found)}, not among the columns of {owner}{mend}")
    return [indices[name] for name in expected]


def quoted(names: Sequence[str]) -> str:
    """List names of columns in error messages."""
    what = "the column" if len(names) == 1 else "the columns"
    return f"{what} {short_list(list(map(repr, names)))}"
