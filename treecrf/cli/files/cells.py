"""Values of table columns, text or typed, as numbers, booleans and categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.cli.files.blocks import import_pyarrow

# What stands for a missing value among numbers and booleans. Among words only nothing does: "NA"
# and "None" are words.
MISSING = ("", "?", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"


class Cells:
    """Reads arrays of pyarrow.

    Parameters
    ----------
    missing : sequence of str
        What stands for a missing value in any column of text, beside nothing.
    """

    def __init__(self, missing: tuple[str, ...] = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.missing = self.pa.array(["", *missing])
        self.missing_number = self.pa.array([*MISSING, *missing])

    def numbers(self, array: Any) -> np.ndarray:
        """Floats; NaN where they are missing.

        Raises
        ------
        ValueError
            If a text is no number.
        """
        if self.is_text(array.type):
            array = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
        elif not self.is_number(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def booleans(self, array: Any) -> np.ndarray:
        """Floats 0 and 1; NaN where they are missing.

        Raises
        ------
        ValueError
            If a text is neither true nor false.
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
        """The different values of a block, and for each row the place of its own, or -1."""
        encoded = self.pc.dictionary_encode(self.plain(array))
        places = self.pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), places

    def are_whole(self, array: Any) -> bool:
        """Whether all values are integers, or written as integers, or missing."""
        array = self.plain(array)
        if not self.is_text(array.type):
            return self.pa.types.is_integer(array.type)
        fits = self.pc.match_substring_regex(array, WHOLE_NUMBER)
        return self.pc.all(fits).as_py() is not False

    def plain(self, array: Any) -> Any:
        """Values of a category: text without what stands for missing ones, or integers."""
        types = self.pa.types
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if types.is_boolean(array.type):
            array = self.pc.cast(array, self.pa.string())
        return self._present(array, self.missing) if self.is_text(array.type) else array

    def text(self, array: Any) -> Any:
        """Values of any type as text."""
        array = self.plain(array)
        return array if self.is_text(array.type) else self.pc.cast(array, self.pa.string())

    def is_text(self, array_type: Any) -> bool:
        """Whether a type is one of strings."""
        return self.pa.types.is_string(array_type) or self.pa.types.is_large_string(array_type)

    def is_number(self, array_type: Any) -> bool:
        """Whether a type is one of numbers, or all values are missing."""
        types = self.pa.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        return any(is_numeric(array_type) for is_numeric in numeric)

    def _present(self, array: Any, missing: Any) -> Any:
        return self.pc.if_else(self.pc.is_in(array, value_set=missing), None, array)
