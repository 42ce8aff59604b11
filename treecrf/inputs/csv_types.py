"""Types of the columns of text files, and conversion of Arrow arrays to NumPy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from treecrf.inputs.table_sources import Table, import_pyarrow

# Texts that stand for a missing number or boolean. Among categories, only the empty text does: "NA"
# and "None" may be values.
MISSING = ("", "?", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
MAX_WHOLE = np.iinfo(np.int64).max
WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"
# Whole numbers and text are categories, of integers and of strings.
AS_BOOLEAN, AS_NUMBER, AS_WHOLE, AS_TEXT = "boolean", "number", "whole", "text"
# A column gets the first kind that fits all of its values.
FEATURE_KINDS = (AS_BOOLEAN, AS_NUMBER, AS_TEXT)
CATEGORY_KINDS = (AS_WHOLE, AS_TEXT)


class ArrowConverter:
    """Converter of pyarrow arrays, typed or text, to NumPy; texts in ``missing`` are missing."""

    def __init__(self, missing: tuple[str, ...] = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.missing = self.pa.array(["", *missing])
        self.missing_number = self.pa.array([*MISSING, *missing])

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
            array, others = self.pc.equal(text, "true"), self.pc.not_equal(text, "false")
            if self.pc.any(self.pc.and_not(others, array)).as_py():
                raise ValueError("neither true nor false")
        elif not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64()).to_numpy(zero_copy_only=False)

    def categories(self, array: Any) -> tuple[list, np.ndarray]:
        """Return the distinct values of an array, and the index of each value, -1 if missing."""
        encoded = self.pc.dictionary_encode(self.plain(array))
        indices = self.pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices

    def are_whole(self, array: Any) -> bool:
        """Return whether all values are integers of 64 bits, texts of integers, or missing."""
        array = self.plain(array)
        if not self.is_text(array.type):
            is_whole = self.pa.types.is_integer(array.type)
            largest = self.pc.max(array).as_py() if is_whole else None
            return is_whole and (largest is None or largest <= MAX_WHOLE)
        fits = self.pc.match_substring_regex(array, WHOLE_NUMBER)
        return self.pc.all(fits).as_py() is not False

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


class KindFinder:
    """Finder of the kinds of columns over all rows of one or more tables."""

    def __init__(
        self, converter: ArrowConverter, features: Iterable[str], categories: Sequence[str]
    ):
        self._converter = converter
        self._categories = categories
        self._possible = dict.fromkeys(features, FEATURE_KINDS)
        self._possible |= dict.fromkeys(categories, CATEGORY_KINDS)

    def read(self, table: Table) -> dict[str, str]:
        """Return the kinds of the columns of a table."""
        batches = table.batches(list(self._possible))
        # In a typed column, the first batch determines the kind.
        for batch in batches if table.schema is None else islice(batches, 1):
            self.add(batch, table)
        return self.kinds()

    def add(self, batch: Any, table: Table) -> None:
        """Exclude the kinds that some values do not fit; TypeError for unsupported types."""
        for name in self._possible:
            array = batch.column(name)
            while not self._fits(self._possible[name][0], array, table.schema is None):
                self._possible[name] = self._possible[name][1:]
                if not self._possible[name]:
                    numbers, hint = "numbers", f"; --drop {name} leaves it out"
                    if name in self._categories:
                        numbers, hint = "whole numbers", ""
                    raise TypeError(
                        f"{table.name}: column {name!r} is of type {array.type}; expected "
                        f"{numbers}, booleans or strings{hint}"
                    )

    def kinds(self) -> dict[str, str]:
        """Return the first kind of each column that fits all of its values."""
        return {name: kinds[0] for name, kinds in self._possible.items()}

    def _fits(self, kind: str, array: Any, is_text: bool) -> bool:
        converter = self._converter
        if kind == AS_WHOLE:
            is_whole = converter.pa.types.is_integer(converter.plain(array).type)
            return converter.are_whole(array) if is_text else is_whole
        if kind == AS_TEXT:
            return converter.is_text(converter.plain(array).type)
        if converter.is_text(array.type) and not is_text:
            return False
        with contextlib.suppress(ValueError):
            (converter.booleans if kind == AS_BOOLEAN else converter.numbers)(array)
            return True
        return False


def typed_text(
    converter: ArrowConverter, kinds: Mapping[str, str], categories: frozenset[str], batch: Any
) -> Any:
    """Convert a record batch of text to the kinds of its columns; ``categories`` become coded."""
    pa, columns = converter.pa, {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        kind = kinds[name]
        if kind == AS_BOOLEAN:
            values = converter.booleans(array)
            columns[name] = pa.array(values == 1, mask=np.isnan(values))
        elif kind == AS_NUMBER:
            columns[name] = pa.array(converter.numbers(array))
        else:
            array = converter.plain(array)
            array = array if kind == AS_TEXT else array.cast(pa.int64())
            columns[name] = array.dictionary_encode() if name in categories else array
    return pa.record_batch(columns)
