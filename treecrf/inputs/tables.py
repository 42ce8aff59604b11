"""Tables whose columns have been read one by one, and how columns are matched with a model's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.column_reader import ColumnReader, ColumnValues, Rule
from treecrf.inputs.sequences import (
    CATEGORY,
    ColumnTable,
    InputSchema,
    LongSequences,
    column_name,
    position_name,
)
from treecrf.inputs.values import shown

MAX_SHOWN = 5


def table_of(
    cells: list[ColumnValues], offsets: np.ndarray, names: tuple[str, ...] | None, **others: Any
) -> LongSequences:
    """Put columns together."""
    kinds = np.array([column.kind for column in cells], dtype=np.uint8)
    return LongSequences.of(
        ColumnTable([column.data for column in cells], kinds == CATEGORY),
        offsets,
        form="dense",
        n_features=len(cells),
        dtype=np.dtype(np.float64),
        names=names,
        kinds=kinds,
        categories={j: c.values for j, c in enumerate(cells) if c.kind == CATEGORY},
        **others,
    )


def sparse_table_of(
    table: sparse.csc_array,
    offsets: np.ndarray,
    names: tuple[str, ...] | None,
    kinds: np.ndarray,
    categories: dict[int, np.ndarray],
) -> LongSequences:
    """Sequences of a sparse table whose columns have been read."""
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
        categories=categories,
    )


@dataclass(frozen=True)
class Places:
    """What messages call the values of a column.

    Attributes
    ----------
    offsets : int64 array (n_sequences + 1,)
    column : str
    positions : int array, optional
        The position of each value, if not all positions have one.
    """

    offsets: np.ndarray
    column: str
    positions: np.ndarray | None = None

    def __call__(self, i: int) -> str:
        """What messages call a value."""
        position = i if self.positions is None else int(self.positions[i])
        return f"{position_name(position, self.offsets)}, {self.column}"


def readers_of(
    names: tuple[str, ...] | None,
    n: int,
    schema: InputSchema | None,
    categorical: Any,
    offsets: np.ndarray,
) -> Iterator[ColumnReader]:
    """A reader for each of ``n`` columns of a table that holds the sequences one after another."""
    for j, rule in enumerate(rules_of(names, n, schema, categorical)):
        yield ColumnReader(rule, Places(offsets, column_name(names, j)))


def rules_of(
    names: tuple[str, ...] | None, n: int, schema: InputSchema | None, categorical: Any
) -> list[Rule]:
    """What each column may hold: as in training, or as the user says."""
    if schema is not None:
        return [Rule.trained(schema, j) for j in range(n)]
    chosen = chosen_columns(categorical, names, n)
    if chosen is None:
        return [Rule()] * n
    reason = "the column is not among categorical_features, so numbers are expected"
    return [Rule(bool(is_category), reason=reason) for is_category in chosen]


def check_width(n: int, what: str, first: int, schema: InputSchema | None) -> None:
    """Refuse a table of ``n`` columns if the model, or else the first table, has others."""
    width = first if schema is None else schema.n_features
    if n != width:
        other = "sequence 0 has" if schema is None else "the model was trained with"
        raise ValueError(f"{what} has {n} features, {other} {width}")
    if n == 0:
        raise ValueError("the sequences have 0 features; at least 1 is needed")


def category_columns(n: int, schema: InputSchema | None, categorical: Any) -> list[int]:
    """Which columns of a table without names and strings are categories."""
    if schema is not None:
        return np.flatnonzero(schema.kinds == CATEGORY).tolist()
    chosen = chosen_columns(categorical, None, n)
    return [] if chosen is None else np.flatnonzero(chosen).tolist()


def chosen_columns(categorical: Any, names: tuple[str, ...] | None, n: int) -> np.ndarray | None:
    """Which columns the user says are categories; None where their types decide.

    Raises
    ------
    ValueError
        If there is no such column, or a mask has another length.
    """
    if isinstance(categorical, str) and categorical == "from_dtype":
        return None
    chosen = np.zeros(n, dtype=bool)
    if categorical is None:
        return chosen
    array = np.asarray(categorical, dtype=None if hasattr(categorical, "dtype") else object)
    given = array.tolist() if array.ndim == 1 else [None]
    kinds = set(map(type, given))
    if len(kinds) > 1 or kinds - {bool, int, str}:
        raise ValueError(
            f"categorical_features={shown(categorical)}; expected 'from_dtype', None, or a list of "
            "names, of indices, or of one boolean for each column"
        )
    if kinds == {bool}:
        if len(given) != n:
            raise ValueError(f"categorical_features has {len(given)} booleans for {n} columns")
        return np.array(given)
    places = {name: j for j, name in enumerate(names or ())}
    chosen[[_place(item, places, n) for item in given]] = True
    return chosen


def _place(item: int | str, places: dict[str, int], n: int) -> int:
    if isinstance(item, int):
        if not -n <= item < n:
            raise ValueError(f"categorical_features: there is no column {item} among {n}")
        return item
    if item not in places:
        there = f"X has {listing(list(places))}" if places else "the columns of X have no names"
        raise ValueError(f"categorical_features: there is no column {item!r}; {there}")
    return places[item]


def order_of(
    names: tuple[str, ...], expected: tuple[str, ...], what: str, owner: str
) -> Sequence[int]:
    """Places of the expected columns.

    Raises
    ------
    ValueError
        If a column is missing, or was not expected.
    """
    if names == expected:
        return range(len(names))
    places = {name: j for j, name in enumerate(names)}
    missing = [name for name in expected if name not in places]
    if missing:
        raise ValueError(f"{what} lacks {listing(missing)} of {owner}")
    extra = set(names) - set(expected)
    if extra:
        found = [name for name in names if name in extra]
        raise ValueError(f"{what} has {listing(found)}, not among the columns of {owner}")
    return [places[name] for name in expected]


def listing(names: Sequence[str]) -> str:
    """Some names for messages."""
    what = "the column" if len(names) == 1 else "the columns"
    text = ", ".join(map(repr, names[:MAX_SHOWN]))
    return f"{what} {text}" + (", ..." if len(names) > MAX_SHOWN else "")
