"""Conversion of arrays of pyarrow, whose values are text in text files, to NumPy."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from treecrf.inputs.large.table_sources import import_pyarrow

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


class ArrowConverter:
    """Converter of pyarrow arrays to NumPy.

    In text files, texts in ``missing``, and those that mark missing values in any table, are
    missing; elsewhere, pass None.
    """

    def __init__(self, missing: tuple[str, ...] | None = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.is_of_text = missing is not None
        self.missing = None
        if missing is not None:
            self.missing = self.pa.array([*MARKS, *missing])
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
        if is_marked:
            return self._present(array, self.missing)
        return array

    def text(self, array: Any) -> Any:
        """Convert values of any type to text."""
        array = self.plain(array)
        if self.is_text(array.type):
            return array
        return self.pc.cast(array, self.pa.string())

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
        if self.pc.any(is_missing).as_py():
            return self._masked(array, is_missing)
        return array

    def _masked(self, array: Any, mask: Any) -> Any:
        # PyArrow before version 24 returns wrong text for slices if if_else gets a null.
        return self.pc.replace_with_mask(array, mask, self.pa.scalar(None, array.type))
