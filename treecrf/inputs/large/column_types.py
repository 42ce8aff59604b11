"""Kinds of the columns of text files, which all of their values determine, and of typed tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.large.arrow_values import ArrowConverter
from treecrf.inputs.large.table_sources import DEFAULTS, Table, TableOptions

# Dates, times and durations, as programs export columns that hold nothing else.
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


@dataclass
class ColumnKind:
    """The kinds that fit the values of a column so far, batch by batch."""

    converter: ArrowConverter
    is_category: bool  # whether it holds labels, or was chosen as a category
    kinds: tuple[str, ...] = ()  # the first one is that of the column
    has_booleans: bool = False
    may_be_time: bool = True
    example: Any = None  # a date, a time, or a number that is not whole

    def __post_init__(self) -> None:
        self.kinds = CATEGORY_KINDS if self.is_category else FEATURE_KINDS

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
            # Where a value was a boolean, no number fits.
            self.kinds = self.kinds[-1:] if self.has_booleans else self.kinds[1:]
            self.has_booleans = False
            if not self.kinds:
                raise TypeError(f"of type {array.type}")
        self._find_time(array)

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
        if self.is_category:
            array = converter.plain(array)
            array = converter.numerals(array) if converter.is_of_text else array
        numbers = converter.numbers(array)
        if self.is_category and self.example is None:
            self.example = next((x for x in numbers.tolist() if x % 1 != 0 and x == x), None)

    def _find_time(self, array: Any) -> None:
        if self.kinds[0] != AS_TEXT or self.is_category or not self.may_be_time:
            return
        pc = self.converter.pc
        text = self.converter.plain(array)
        self.may_be_time = pc.all(pc.match_substring_regex(text, TIME)).as_py() is not False
        present = text.drop_null()
        self.example = present[0].as_py() if len(present) else self.example

    def found(self) -> str:
        """Return the kind of the column; TypeError or ValueError if it cannot be used."""
        kind = self.kinds[0]
        is_of_text = self.converter.is_of_text
        if kind == AS_BOOLEAN and not self.has_booleans:
            # All values are missing.
            return AS_WHOLE if self.is_category else AS_NUMBER
        if self.is_category and kind == AS_NUMBER:
            # Numbers that are whole, but too large, are names, or are refused when they are read.
            if self.example is None:
                return AS_TEXT if is_of_text else AS_WHOLE
            raise ValueError(f"{self.example} is not a whole number")
        if kind == AS_TEXT and not self.is_category and self.may_be_time and self.example:
            raise TypeError(f"dates or times, such as {self.example!r}")
        return kind


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
    for table, batch in batches:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name not in columns:
                continue
            try:
                columns[name].add(array)
            except TypeError as error:
                numbers = "numbers"
                hint = f"; {options.advice_of_column(name)}"
                if is_category[name]:
                    numbers = "whole numbers"
                    hint = ""
                raise TypeError(
                    f"{table.name}: column {name!r} is {error}; expected {numbers}, booleans or "
                    f"strings{hint}"
                ) from None
    kinds = {}
    for name, column in columns.items():
        try:
            kinds[name] = column.found()
        except TypeError as error:
            raise TypeError(
                f"{table.name}: column {name!r} holds {error}; add the parts that matter as "
                "numbers or categories, such as the hour or the weekday; "
                f"{options.advice_of_column(name)}"
            ) from None
        except ValueError as error:
            raise ValueError(
                f"{table.name}: column {name!r}: {error}; expected whole numbers, booleans or text"
            ) from None
    return kinds


def typed_text(
    converter: ArrowConverter, kinds: Mapping[str, str], categories: frozenset[str], batch: Any
) -> Any:
    """Convert a record batch of text to the kinds of its columns; ``categories`` become coded."""
    columns = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        array = _typed(converter, kinds[name], array)
        if name in categories:
            is_boolean = converter.pa.types.is_boolean(array.type)
            array = array.cast(converter.pa.int64()) if is_boolean else array
            array = array.dictionary_encode()
        columns[name] = array
    return converter.pa.record_batch(columns)


def _typed(converter: ArrowConverter, kind: str, array: Any) -> Any:
    """Convert an array, of text if its values were not parsed, to a kind."""
    pa = converter.pa
    if kind == AS_BOOLEAN:
        values = converter.booleans(array)
        return pa.array(values == 1, mask=np.isnan(values))
    if kind == AS_NUMBER:
        is_parsed = pa.types.is_floating(array.type)
        return array if is_parsed else pa.array(converter.numbers(array))
    return converter.whole(array) if kind == AS_WHOLE else converter.plain(array)
