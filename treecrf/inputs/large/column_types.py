"""Kinds of the columns of tables, which all values of text files determine, or a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.large.arrow_values import ArrowConverter
from treecrf.inputs.large.table_sources import DEFAULTS, Table, TableOptions, import_pyarrow

# Dates, times and durations, as programs export columns that hold nothing else. Such columns of
# files are refused, and therefore every value must match; for data in memory,
# `inputs/data_warnings.py` has looser patterns, which only cause a warning.
_DATE = r"([0-9]{4}([-/.])[0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/][0-9]{1,2}[-/][0-9]{2,4})"
_TIME = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp][Mm])?"
_ZONE = r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?"
TIME = rf"^({_DATE}([T ]{_TIME}{_ZONE})?|{_TIME}{_ZONE}|-?[0-9]+ days( [+-]?{_TIME})?)$"
# Whole numbers and text are categories, of integers and of strings; fractions are none.
AS_BOOLEAN = "boolean"
AS_NUMBER = "number"
AS_WHOLE = "whole"
AS_TEXT = "text"
# A column gets the first kind that fits all of its values.
FEATURE_KINDS = (AS_BOOLEAN, AS_NUMBER, AS_TEXT)
CATEGORY_KINDS = (AS_BOOLEAN, AS_WHOLE, AS_NUMBER, AS_TEXT)


# Finding the kind of a column


@dataclass
class ColumnKind:
    """The kinds that fit the values of a column so far, batch by batch."""

    converter: ArrowConverter
    is_category: bool  # whether it holds labels, or was chosen as a category
    kinds: tuple[str, ...] = ()  # those that fit all values so far; the first is that of the column
    has_booleans: bool = False  # whether a value was a boolean, so that no number fits
    may_be_time: bool = True  # whether all texts so far are dates or times
    example: Any = None  # a date, a time, or a number that is not whole, for an error message

    def __post_init__(self) -> None:
        self.kinds = FEATURE_KINDS
        if self.is_category:
            self.kinds = CATEGORY_KINDS

    def add(self, array: Any) -> None:
        """Leave out the kinds that do not fit an array; TypeError if none is left."""
        types = self.converter.pa.types
        is_of_text = self.converter.is_of_text
        if array.null_count == len(array) and (is_of_text or types.is_null(array.type)):
            return
        if is_of_text:
            if self.kinds[0] == AS_NUMBER and types.is_floating(array.type):
                return
            array = array.unique()
        if types.is_dictionary(array.type) and not self.is_category:
            self.is_category = True
            self.kinds = CATEGORY_KINDS
        while not self._fits(array):
            self._leave_out_first(array)
        self._find_time(array)

    def _leave_out_first(self, array: Any) -> None:
        if self.has_booleans:
            self.kinds = self.kinds[-1:]
            self.has_booleans = False
        else:
            self.kinds = self.kinds[1:]
        if not self.kinds:
            raise TypeError(f"of type {array.type}")

    def _fits(self, array: Any) -> bool:
        kind = self.kinds[0]
        converter = self.converter
        is_text = converter.is_text(converter.plain(array).type)
        if kind == AS_TEXT:
            return is_text
        if is_text and not converter.is_of_text:
            return False
        try:
            if kind == AS_BOOLEAN:
                self._read_booleans(array)
            elif kind == AS_WHOLE:
                converter.whole(array)
            else:
                self._read_numbers(array)
        except ValueError:
            return False
        return True

    def _read_booleans(self, array: Any) -> None:
        if self.is_category:
            flags = self.converter.flags(array)
            self.has_booleans |= flags.null_count < len(flags)
        else:
            self.has_booleans |= not np.isnan(self.converter.booleans(array)).all()

    def _read_numbers(self, array: Any) -> None:
        """Find a number that is not whole among categories; ValueError if one is not a number."""
        converter = self.converter
        if not self.is_category:
            converter.numbers(array)
            return
        array = converter.plain(array)
        if converter.is_of_text:
            array = converter.numerals(array)
        numbers = converter.numbers(array)
        if self.example is None:
            self.example = next((x for x in numbers.tolist() if x % 1 != 0 and x == x), None)

    def _find_time(self, array: Any) -> None:
        if self.kinds[0] != AS_TEXT or self.is_category or not self.may_be_time:
            return
        pc = self.converter.pc
        text = self.converter.plain(array)
        self.may_be_time = pc.all(pc.match_substring_regex(text, TIME)).as_py() is not False
        present = text.drop_null()
        if len(present):
            self.example = present[0].as_py()

    def final(self) -> str:
        """Return the kind of the column; TypeError or ValueError if it cannot be used."""
        kind = self.kinds[0]
        if kind == AS_BOOLEAN and not self.has_booleans:
            return self._kind_without_values()
        if self.is_category and kind == AS_NUMBER:
            return self._kind_of_large_numbers()
        if kind == AS_TEXT and not self.is_category and self.may_be_time and self.example:
            raise TypeError(f"dates or times, such as {self.example!r}")
        return kind

    def _kind_without_values(self) -> str:
        if self.is_category:
            return AS_WHOLE
        return AS_NUMBER

    def _kind_of_large_numbers(self) -> str:
        """Return the kind of whole numbers that are too large; ValueError if one is not whole.

        In text files, they are names; in typed tables, they are refused when they are read.
        """
        if self.example is not None:
            raise ValueError(f"{self.example} is not a whole number")
        if self.converter.is_of_text:
            return AS_TEXT
        return AS_WHOLE


def find_kinds(
    converter: ArrowConverter,
    features: Iterable[str],
    categories: Sequence[str],
    batches: Iterable[tuple[Table, Any]],
    options: TableOptions = DEFAULTS,
) -> dict[str, str]:
    """Return the first kind of each column that fits all of its values, in batches of tables.

    TypeError if a type is not supported, or a column of text holds times. ValueError if numbers of
    a category are not whole.
    """
    is_category = dict.fromkeys(features, False) | dict.fromkeys(categories, True)
    columns = {name: ColumnKind(converter, chosen) for name, chosen in is_category.items()}
    last_table = ""
    for table, batch in batches:
        last_table = table.name
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name not in columns:
                continue
            try:
                columns[name].add(array)
            except TypeError as error:
                raise _unsupported(table, name, error, is_category[name], options) from None
    return {
        name: _final_kind(last_table, name, column, options) for name, column in columns.items()
    }


def _unsupported(
    table: Table, name: str, error: TypeError, is_category: bool, options: TableOptions
) -> TypeError:
    """Return the error for a column whose type no kind fits."""
    numbers = "numbers"
    hint = f"; {options.advice_of_column(name)}"
    if is_category:
        numbers = "whole numbers"
        hint = ""
    return TypeError(
        f"{table.name}: column {name!r} is {error}; expected {numbers}, booleans or strings{hint}"
    )


def _final_kind(table: str, name: str, column: ColumnKind, options: TableOptions) -> str:
    """Return the kind of a column of which all values were seen, up to those of a last table."""
    try:
        return column.final()
    except TypeError as error:
        raise TypeError(
            f"{table}: column {name!r} holds {error}; add the parts that matter as "
            "numbers or categories, such as the hour or the weekday; "
            f"{options.advice_of_column(name)}"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"{table}: column {name!r}: {error}; expected whole numbers, booleans or text"
        ) from None


# Reading values of a known kind


@dataclass(frozen=True)
class TypedColumn:
    """A column of a table whose kind is known, from all of its values or from a trained model."""

    converter: ArrowConverter
    name: str
    kind: str  # one of the kinds at the top of this module
    is_category: bool = False  # whether whole numbers and booleans are names instead of numbers

    def floats(self, array: Any) -> np.ndarray:
        """Convert numbers, or booleans as 0 and 1, to floats; ValueError if a value is none."""
        if self.kind == AS_BOOLEAN:
            return self.converter.booleans(array)
        return self.converter.numbers(array)

    def typed(self, array: Any) -> Any:
        """Convert to an array of pyarrow of the kind, which is coded for a category."""
        typed = self._plain(array)
        if not self.is_category:
            return typed
        pa = self.converter.pa
        if pa.types.is_boolean(typed.type):
            typed = typed.cast(pa.int64())
        return typed.dictionary_encode()

    def _plain(self, array: Any) -> Any:
        """Convert an array, of text if its values were not parsed while the file was read."""
        pa = self.converter.pa
        if self.kind == AS_TEXT:
            return self.converter.plain(array)
        if self.kind == AS_WHOLE:
            return self.converter.whole(array)
        if self.kind == AS_NUMBER:
            is_parsed = pa.types.is_floating(array.type)
            if is_parsed:
                return array
            return pa.array(self.floats(array))
        values = self.floats(array)
        return pa.array(values == 1, mask=np.isnan(values))


def typed_batch(columns: Mapping[str, TypedColumn], batch: Any) -> Any:
    """Convert a record batch of text to the kinds of its columns."""
    arrays = {
        name: columns[name].typed(array)
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    }
    return import_pyarrow().record_batch(arrays)
