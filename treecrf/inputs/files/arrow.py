"""Conversion of pyarrow arrays to numbers, booleans and categories."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from treecrf.inputs.files.blocks import import_pyarrow

# Texts that stand for a missing number or boolean. Among categories, only the empty text does: "NA"
# and "None" may be values.
MISSING = ("", "?", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
MAX_WHOLE = np.iinfo(np.int64).max
WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"


class ArrowConverter:
    """Converter of pyarrow arrays, typed or text, to NumPy arrays.

    Parameters
    ----------
    missing : sequence of str
        Texts that stand for a missing value in every column, in addition to the empty text.
    """

    def __init__(self, missing: tuple[str, ...] = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.missing = self.pa.array(["", *missing])
        self.missing_number = self.pa.array([*MISSING, *missing])

    def numbers(self, array: Any) -> np.ndarray:
        """Convert to floats, NaN if missing.

        Raises
        ------
        ValueError
            If a text is not a number, or the type is not numeric.
        """
        if self.is_text(array.type):
            array = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
        elif not self.is_number(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def booleans(self, array: Any) -> np.ndarray:
        """Convert to floats 0 and 1, NaN if missing.

        Raises
        ------
        ValueError
            If a text is neither true nor false, or the type is not boolean.
        """
        if self.is_text(array.type):
            text = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
            text = self.pc.utf8_lower(text)
            array, others = self.pc.equal(text, "true"), self.pc.not_equal(text, "false")
            if self.pc.any(self.pc.and_not(others, array)).as_py():
                raise ValueError("neither true nor false")
        elif not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64()).to_numpy(zero_copy_only=False)

    def categories(self, array: Any) -> tuple[list, np.ndarray]:
        """Return the distinct values of a block, and for each row the index of its value, or -1."""
        encoded = self.pc.dictionary_encode(self.plain(array))
        indices = self.pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices

    def are_whole(self, array: Any) -> bool:
        """Return whether all values are integers of 64 bits, texts of integers, or missing."""
        array = self.plain(array)
        if not self.is_text(array.type):
            largest = self.pc.max(array).as_py() if self.is_whole(array.type) else None
            return self.is_whole(array.type) and (largest is None or largest <= MAX_WHOLE)
        fits = self.pc.match_substring_regex(array, WHOLE_NUMBER)
        return self.pc.all(fits).as_py() is not False

    def is_whole(self, array_type: Any) -> bool:
        """Return whether a type is that of integers."""
        return self.pa.types.is_integer(array_type)

    def copied(self, array: Any) -> list[str]:
        """Return values of any type as text for an output, empty if missing."""
        if not self.is_text(array.type):
            with contextlib.suppress(NotImplementedError, ValueError):
                array = self.pc.cast(array, self.pa.string())
        return ["" if value is None else str(value) for value in array.to_pylist()]

    def plain(self, array: Any) -> Any:
        """Return the values of a category: text, null if missing, or integers."""
        types = self.pa.types
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if types.is_boolean(array.type):
            array = self.pc.cast(array, self.pa.string())
        return self._present(array, self.missing) if self.is_text(array.type) else array

    def text(self, array: Any) -> Any:
        """Convert values of any type to text."""
        array = self.plain(array)
        return array if self.is_text(array.type) else self.pc.cast(array, self.pa.string())

    def is_text(self, array_type: Any) -> bool:
        """Return whether a type is a string type."""
        return self.pa.types.is_string(array_type) or self.pa.types.is_large_string(array_type)

    def is_number(self, array_type: Any) -> bool:
        """Return whether a type is numeric, or the null type of a column without values."""
        types = self.pa.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        return any(is_numeric(array_type) for is_numeric in numeric)

    def _present(self, array: Any, missing: Any) -> Any:
        # PyArrow before version 24 returns wrong text for slices if if_else gets a null.
        are_missing = self.pc.is_in(array, value_set=missing)
        return self.pc.replace_with_mask(array, are_missing, self.pa.scalar(None, array.type))
