"""Columns of tables: numbers, booleans or codes of categories, matched with those of a model."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np

from treecrf.inputs.offsets import position_name
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER, InputSchema, column_name
from treecrf.inputs.sequences import TYPES, ColumnTable, LongSequences
from treecrf.inputs.values import (
    IGNORE_OVERFLOW,
    CategoryEncoder,
    find_missing,
    is_huge,
    is_number,
    refuse_final_nul,
    refuse_infinite,
    short_list,
    short_repr,
    whole_decimals,
)
from treecrf.utils.scipy_sparse import sparse

# Number of values that are Python objects at the same time.
CHUNK = 1 << 16
DATES = (datetime.date, datetime.time, np.datetime64)
DURATIONS = (datetime.timedelta, np.timedelta64)


@dataclass(frozen=True)
class ColumnValues:
    """A column after reading: its kind, its values, and the sorted values of a category."""

    kind: int
    data: np.ndarray  # NaN if missing; of a category, ranks from 1, 0 if missing, and `UNSEEN`
    values: np.ndarray | None = None

    def decoded(self) -> np.ndarray:
        """Return the values of a category: objects if some are missing, which are None."""
        if self.data.all():
            return self.values[self.data - 1]
        return np.array([None, *self.values.tolist()], dtype=object)[self.data]


class ColumnReader:
    """Reader of one column, part by part."""

    def __init__(
        self,
        where: Callable[[int], str],  # names the i-th value in error messages
        is_category: bool | None = None,  # None: if it holds strings
        is_boolean: bool = False,  # 0 and 1 are the only numbers allowed
        known: np.ndarray | None = None,  # the sorted categories of a model
        reason: str = "",  # why only these values are allowed, in error messages
    ):
        self.where = where
        self.is_category = is_category
        self.is_boolean = is_boolean
        self.known = known
        self.reason = reason
        # Kind, first position and array of each part; the kind is None if all values are missing.
        self.parts: list[tuple[int | None, int, np.ndarray]] = []
        self.n = 0
        self.encoder = CategoryEncoder(None if known is None else known.tolist())
        # Position and value of the first string and the first number among categories.
        self.seen: dict[bool, tuple[int, Any]] = {}

    def add(self, array: np.ndarray) -> None:
        """Add an array of numbers, booleans, strings or objects."""
        if array.dtype.kind not in "OU":
            return self.add_numbers(array)
        for start in range(0, len(array), CHUNK):
            self.add_objects(array[start : start + CHUNK].tolist())

    def add_numbers(self, array: np.ndarray) -> None:
        """Add an array of booleans, integers or floats."""
        if self.is_category:
            for start in range(0, max(len(array), 1), CHUNK):  # an empty array is a part, too
                part = array[start : start + CHUNK]
                values = part.astype(object)
                if part.dtype.kind == "f":
                    values[np.isnan(part)] = None
                self._add_category(values.tolist())
            return
        if array.dtype.itemsize > 8:
            with np.errstate(over="ignore"):
                array = array.astype(np.float64)
        self._add(BOOLEAN if array.dtype.kind == "b" else NUMBER, array)

    def add_objects(self, values: list) -> None:
        """Add Python objects: strings, numbers, booleans, and None or NaN if missing."""
        missing = find_missing(values)
        if missing is not None:
            values = [None if gone else value for value, gone in zip(values, missing, strict=True)]
        kinds = set(map(type, values)) - {type(None)}
        if Decimal in kinds:
            return self._add_decimals(values)
        strings = {kind for kind in kinds if issubclass(kind, str)}
        numbers = {kind for kind in kinds if is_number(kind)}
        if kinds - strings - numbers:
            t, value = _first(values, kinds - strings - numbers)
            kind = type(value).__name__
            self._refuse(t, f"{short_repr(value)} is of type {kind}; {_mend(value)}")
        if strings and numbers:
            t_string, string = _first(values, strings)
            t_number, number = _first(values, numbers)
            self._refuse_mixture((self.n + t_string, string), (self.n + t_number, number))
        if not kinds:
            self._add(None, np.zeros(len(values), dtype=np.int32))
        elif strings or self.is_category:
            self._add_category(values)
        else:
            are_booleans = all(issubclass(kind, (bool, np.bool_)) for kind in kinds)
            is_full = are_booleans and None not in values
            try:
                array = np.array(values, dtype=bool if is_full else np.float64)
            except OverflowError:
                t = next(t for t, v in enumerate(values) if v is not None and is_huge(v))
                message = f"{short_repr(values[t])} is outside the range of float64"
                self._refuse(t, message, ValueError)
            self._add(BOOLEAN if are_booleans else NUMBER, array)

    def _add_decimals(self, values: list) -> None:
        """Add objects some of which are decimals: whole numbers if the column is a category."""
        if not self.is_category:
            return self.add_objects([float(v) if type(v) is Decimal else v for v in values])
        numbers = whole_decimals(values)
        fraction = next((t for t, v in enumerate(numbers) if type(v) is Decimal), None)
        if fraction is not None:
            self._refuse_category(fraction, values[fraction])
        self.add_objects(numbers)

    def finish(self) -> ColumnValues:
        """Determine the kind of the whole column; errors if parts do not fit together."""
        kinds = {kind for kind, _, _ in self.parts} - {None}
        if CATEGORY not in kinds and (kinds or self.is_category is False):
            kind = BOOLEAN if kinds == {BOOLEAN} else NUMBER
            arrays = [np.full(len(a), np.nan) if k is None else a for k, _, a in self.parts]
            return ColumnValues(kind, _joined(arrays))
        codes = _joined([self._codes_of(*part) for part in self.parts])
        if self.known is not None:
            return ColumnValues(CATEGORY, codes, self.known)
        values = self.encoder.values
        are_strings = not values or isinstance(values[0], str)
        if are_strings:
            refuse_final_nul(
                values,
                lambda i: f"{self.where(int(np.argmax(codes == i + 1)))}: {short_repr(values[i])}",
            )
        values, ranks = self.encoder.ranks()
        values = np.array(values, dtype=np.str_ if are_strings else np.int64)
        return ColumnValues(CATEGORY, ranks[codes], values)

    def _codes_of(self, kind: int | None, start: int, part: np.ndarray) -> np.ndarray:
        """Return the codes of a part of a category; numbers must be all missing."""
        if kind not in (BOOLEAN, NUMBER):
            return part
        present = np.ones(len(part), bool)
        if part.dtype.kind == "f":
            present = ~np.isnan(part)
        if present.any():
            t = int(np.argmax(present))
            self._refuse_mixture(self.seen[True], (start + t, part[t]))
        return np.zeros(len(part), dtype=np.int32)

    def _add(self, kind: int | None, array: np.ndarray) -> None:
        """Add a part; numbers must be finite, and 0 or 1 if the column is boolean."""
        if kind in (BOOLEAN, NUMBER):
            refuse_infinite(array, lambda t: self.where(self.n + t))
        if kind == NUMBER and self.is_boolean:
            bad = ~((array == 0) | (array == 1) | np.isnan(array))
            if bad.any():
                t = int(np.argmax(bad))
                self._refuse(t, f"{array[t]} is neither 0 nor 1; {self.reason}")
        self.parts.append((kind, self.n, array))
        self.n += len(array)

    def _add_category(self, values: list) -> None:
        """Add strings or whole numbers, None if missing."""
        t, value = _first(values)
        known = self.known
        is_string = isinstance(value, str)
        # If the training data had no value, every value is unseen.
        if value is not None and (known is None or len(known)):
            is_other = known is not None and (known.dtype.kind == "U") != is_string
            if self.is_category is False or is_other:
                what = "a string" if is_string else "a number"
                self._refuse(t, f"{short_repr(value)} is {what}; {self.reason}")
            first = self.seen.setdefault(is_string, (self.n + t, value))
            if (not is_string) in self.seen:
                self._refuse_mixture(self.seen[not is_string], first)
            if not is_string:
                self._refuse_fractions(values)
        self._add(CATEGORY, self.encoder.codes(values, len(values)))

    def _refuse_fractions(self, values: list) -> None:
        with np.errstate(**IGNORE_OVERFLOW):
            if all(map(_fits_integer, set(values) - {None})):
                return
            t = next(t for t, v in enumerate(values) if v is not None and not _fits_integer(v))
        self._refuse_category(t, values[t])

    def _refuse_category(self, t: int, value: Any) -> NoReturn:
        """Raise ValueError for a number that is no category."""
        self._refuse(
            t,
            f"{short_repr(value)} cannot be a category; expected strings or whole numbers in the "
            "range of int64",
            ValueError,
        )

    def _refuse_mixture(self, one: tuple[int, Any], other: tuple[int, Any]) -> NoReturn:
        """Raise TypeError for a string and a number in one column, given with their positions."""
        (earlier, before), (later, value) = sorted([one, other], key=lambda item: item[0])
        kind = "a number"
        other_kind = "a string"
        if isinstance(value, str):
            kind = "a string"
            other_kind = "a number"
        raise TypeError(
            f"{self.where(later)}: {short_repr(value)} is {kind}, but {short_repr(before)} at "
            f"{self.where(earlier)} is {other_kind}"
        )

    def _refuse(self, t: int, message: str, kind: type[Exception] = TypeError) -> NoReturn:
        raise kind(f"{self.where(self.n + t)}: {message}")


def _mend(value: Any) -> str:
    """Return the end of an error message about a value of an unsupported type."""
    if isinstance(value, DURATIONS):
        return "convert durations to numbers, such as with .dt.total_seconds()"
    if isinstance(value, DATES):
        return "add the parts that matter as numbers or categories, such as the hour or the weekday"
    if type(value).__name__ == "Period":
        return "add the parts that matter as numbers or categories, such as .dt.month"
    if isinstance(value, bytes):
        return "decode bytes to strings"
    return "expected strings, numbers or booleans, or None or NaN for a missing value"


def _first(values: list, kinds: Container[type] | None = None) -> tuple[int, Any]:
    """Return the index and value of the first value of some types, or of the first present one."""
    for t, value in enumerate(values):
        if kinds is None:
            is_match = value is not None
        else:
            is_match = type(value) in kinds
        if is_match:
            return t, value
    return 0, None


def _fits_integer(value: Any) -> bool:
    return value % 1 == 0 and -(2**63) <= int(value) < 2**63


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays)


def table_of(
    columns: list[ColumnValues],
    offsets: np.ndarray,
    names: tuple[str, ...] | None,
    are_symbols: bool = False,
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
        are_symbols=are_symbols,
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


class ColumnSpecs:
    """The values that each column may hold: as in training, or as the user specifies."""

    def __init__(
        self,
        names: tuple[str, ...] | None,
        n: int,
        schema: InputSchema | None,
        categorical: Any,
        are_weights: bool = False,  # whether booleans may have other values than 0 and 1
    ):
        self._names = names  # in error messages
        self.schema = schema
        selected = None
        if schema is None:
            selected = selected_columns(categorical, names, n)
        # Otherwise, columns are categories if their values are strings.
        self.are_fixed = schema is not None or selected is not None
        if schema is not None:
            selected = schema.kinds == CATEGORY
        self.is_category = selected
        if selected is None:
            self.is_category = np.zeros(n, dtype=bool)
        # Columns whose only numbers are 0 and 1.
        if schema is None or are_weights:
            self.is_boolean = np.zeros(n, dtype=bool)
        else:
            self.is_boolean = schema.kinds == BOOLEAN

    def reader(
        self, j: int, offsets: np.ndarray, positions: np.ndarray | None = None
    ) -> ColumnReader:
        """Make a reader of a column, whose values may be at some positions only."""

        def where(i: int) -> str:
            position = i
            if positions is not None:
                position = int(positions[i])
            return f"{position_name(position, offsets)}, {column_name(self._names, j)}"

        if self.schema is None and self.are_fixed:
            reason = "the column is not in categorical_features; expected numbers"
            return ColumnReader(where, bool(self.is_category[j]), reason=reason)
        if self.schema is None:
            return ColumnReader(where)
        # The same kind of values as in training.
        kind = self.schema.kinds[j]
        known = self.schema.categories.get(j)
        held = "booleans" if kind == BOOLEAN else "numbers"
        if kind == CATEGORY:
            held = TYPES[known.dtype.kind]
        reason = f"in training the column held {held}"
        return ColumnReader(where, bool(kind == CATEGORY), bool(self.is_boolean[j]), known, reason)


def check_width(n: int, where: str, first: int, schema: InputSchema | None) -> None:
    """Raise ValueError unless a table has as many columns as the model, or as the first table."""
    width = first
    if schema is not None:
        width = schema.n_features
    if n != width:
        other = "sequence 0 has" if schema is None else "the model was trained with"
        raise ValueError(f"{where} has {n} features, {other} {width}")
    if n == 0:
        raise ValueError("the sequences have 0 features; expected at least 1")


def selected_columns(categorical: Any, names: tuple[str, ...] | None, n: int) -> np.ndarray | None:
    """Return a mask of ``categorical_features``; None if types determine the categories."""
    if isinstance(categorical, str) and categorical == "from_dtype":
        return None
    if categorical is None:
        return np.zeros(n, dtype=bool)
    array = np.asarray(categorical, dtype=None if hasattr(categorical, "dtype") else object)
    items = [None]
    if array.ndim == 1:
        items = array.tolist()
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
    if kinds == {str}:
        items = _indices_of_names(items, names or ())
    selected = np.zeros(n, dtype=bool)
    for j in items:
        if not -n <= j < n:
            raise ValueError(f"categorical_features: no column has index {j}; X has {n} columns")
        selected[j] = True
    return selected


def _indices_of_names(chosen: list[str], names: tuple[str, ...]) -> list[int]:
    """Return the indices of the columns that ``categorical_features`` names."""
    indices = {name: j for j, name in enumerate(names)}
    for name in chosen:
        if name not in indices:
            known = "the columns of X have no names"
            if indices:
                known = f"X has {quoted(list(indices))}"
            raise ValueError(f"categorical_features: there is no column {name!r}; {known}")
    return [indices[name] for name in chosen]


def order_of(
    names: tuple[str, ...], expected: tuple[str, ...], where: str, owner: str, mend: str = ""
) -> Sequence[int]:
    """Return the indices of the expected columns; ``mend`` ends the message about others."""
    if names == expected:
        return range(len(names))
    indices = {name: j for j, name in enumerate(names)}
    missing = [name for name in expected if name not in indices]
    if missing:
        raise ValueError(f"{where} lacks {quoted(missing)} of {owner}")
    extra = set(names) - set(expected)
    if extra:
        listed = quoted([name for name in names if name in extra])
        raise ValueError(f"{where} has {listed}, not among the columns of {owner}{mend}")
    return [indices[name] for name in expected]


def quoted(names: Sequence[str]) -> str:
    """List names of columns in error messages."""
    what = "the column" if len(names) == 1 else "the columns"
    return f"{what} {short_list(list(map(repr, names)))}"
