"""Types of the columns of tables, and conversion of arrays of pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.large.table_sources import DEFAULTS, Table, TableOptions, import_pyarrow

# Texts in text files that stand for a missing value in any column: these are not words.
MARKS = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>")
# Texts that stand for a missing number or boolean. Among categories, they may be values.
MISSING = (
    *MARKS, "-NaN", "-nan", "?", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"
)  # fmt: skip
# Texts of numbers that are not codes: without zeros before the digits.
NUMERAL = r"^[+-]?(0|[1-9][0-9]*|)(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
FRACTION_OF_ZEROS = r"^([+-]?[0-9]+)\.0*$"
WHOLE_NUMBER = r"^[+-]?(0|[1-9][0-9]*)$"
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


class ArrowConverter:
    """Converter of pyarrow arrays to NumPy.

    In text files, texts in ``missing``, and those that mark missing values in any table, are
    missing; elsewhere, pass None.
    """

    def __init__(self, missing: tuple[str, ...] | None = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.is_of_text = missing is not None
        self.missing = None if missing is None else self.pa.array([*MARKS, *missing])
        self.missing_number = self.pa.array([*MISSING, *(missing or ())])

    def numbers(self, array: Any) -> np.ndarray:
        """Convert to floats, NaN if missing; ValueError if a value is not a number."""
        if self.is_text(array.type):
            array = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
        elif not self.is_number(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def booleans(self, array: Any) -> np.ndarray:
        """Convert to floats 0 and 1, NaN if missing; ValueError if a value is not a boolean."""
        if self.is_text(array.type):
            text = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
            text = self.pc.utf8_lower(text)
            array = self.pc.equal(text, "true")
            others = self.pc.not_equal(text, "false")
            if self.pc.any(self.pc.and_not(others, array)).as_py():
                raise ValueError("neither true nor false")
        elif array.null_count == len(array):
            return np.full(len(array), np.nan)
        elif not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64()).to_numpy(zero_copy_only=False)

    def whole(self, array: Any) -> Any:
        """Convert to an array of int64, null if missing; ValueError if a value is not whole.

        Texts must be numerals, which have no zeros before their digits.
        """
        pc = self.pc
        int64 = self.pa.int64()
        if self.is_text(array.type):
            # There are few different labels.
            encoded = array.dictionary_encode()
            return self._whole_texts(self.plain(encoded.dictionary)).take(encoded.indices)
        array = self.plain(array)
        if self.pa.types.is_floating(array.type):
            values = array.to_numpy(zero_copy_only=False)
            return self.pa.array(values, int64, mask=np.isnan(values), safe=True)
        if not self.is_number(array.type) and not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return pc.cast(array, int64)

    def _whole_texts(self, array: Any) -> Any:
        pc = self.pc
        int64 = self.pa.int64()
        text = pc.replace_substring_regex(self.numerals(array), FRACTION_OF_ZEROS, r"\1")
        is_plain = pc.fill_null(pc.match_substring_regex(text, WHOLE_NUMBER), True)
        text = pc.replace_substring_regex(text, r"^\+", "")
        others = pc.cast(self._masked(text, is_plain), self.pa.float64())
        exact = pc.cast(self._masked(text, pc.invert(is_plain)), int64)
        return pc.coalesce(exact, pc.cast(others, int64))

    def flags(self, array: Any) -> Any:
        """Return an array of booleans; ValueError if a value is none, or a word for a missing one.

        Other than in `booleans`, words such as NA are values.
        """
        array = self.plain(array)
        if self.is_text(array.type):
            text = self.pc.utf8_lower(self.pc.utf8_trim_whitespace(array.unique()))
            is_flag = self.pc.is_in(text, value_set=self.pa.array(["true", "false", None]))
            if not self.pc.all(is_flag).as_py():
                raise ValueError("neither true nor false")
        values = self.booleans(array)
        return self.pa.array(values == 1, mask=np.isnan(values))

    def numerals(self, array: Any) -> Any:
        """Return trimmed texts of numbers; ValueError if a text is none, or begins with zeros."""
        text = self.pc.utf8_trim_whitespace(array)
        if self.pc.all(self.pc.match_substring_regex(text, NUMERAL)).as_py() is False:
            raise ValueError("not a numeral")
        return text

    def categories(self, array: Any) -> tuple[list, np.ndarray]:
        """Return the distinct values of an array, and the index of each value, -1 if missing."""
        if self.pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        encoded = self.pc.dictionary_encode(array)
        values = encoded.dictionary
        is_marked = self.missing is not None and self.is_text(values.type)
        if is_marked and self.pc.any(self.pc.is_in(values, value_set=self.missing)).as_py():
            encoded = self.pc.dictionary_encode(self.plain(array))
        indices = self.pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices

    def copied(self, array: Any) -> list[str]:
        """Return values of any type as text for an output, empty if missing."""
        if not self.is_text(array.type):
            with contextlib.suppress(NotImplementedError, ValueError):
                array = self.pc.cast(array, self.pa.string())
        return ["" if value is None else str(value) for value in array.to_pylist()]

    def plain(self, array: Any) -> Any:
        """Return the values of a category: text, numbers or booleans, null if missing."""
        if self.pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        is_marked = self.missing is not None and self.is_text(array.type)
        return self._present(array, self.missing) if is_marked else array

    def text(self, array: Any) -> Any:
        """Convert values of any type to text."""
        array = self.plain(array)
        return array if self.is_text(array.type) else self.pc.cast(array, self.pa.string())

    def is_text(self, array_type: Any) -> bool:
        """Return whether a type is a string type."""
        types = self.pa.types
        kinds = (types.is_string, types.is_large_string, types.is_string_view)
        return any(is_kind(array_type) for is_kind in kinds)

    def is_number(self, array_type: Any) -> bool:
        """Return whether a type is numeric, or the null type of a column without values."""
        types = self.pa.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        return any(is_numeric(array_type) for is_numeric in numeric)

    def _present(self, array: Any, missing: Any) -> Any:
        is_missing = self.pc.is_in(array, value_set=missing)
        return self._masked(array, is_missing) if self.pc.any(is_missing).as_py() else array

    def _masked(self, array: Any, mask: Any) -> Any:
        # PyArrow before version 24 returns wrong text for slices if if_else gets a null.
        return self.pc.replace_with_mask(array, mask, self.pa.scalar(None, array.type))


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
