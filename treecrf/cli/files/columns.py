"""Readers of the columns of a table, block by block: features, labels and groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.column_reader import Coder
from treecrf.inputs.files.arrow import ArrowConverter
from treecrf.inputs.files.kinds import BOOLEAN, WHOLE
from treecrf.inputs.offsets import offsets_of
from treecrf.inputs.values import refuse_infinite, string_array


class NumberColumn:
    """A column of numbers or booleans, read as floats.

    Parameters
    ----------
    converter : ArrowConverter
    kind : {"number", "boolean"}
    name : str
        Name of the column in error messages.
    """

    def __init__(self, converter: ArrowConverter, kind: str, name: str):
        self.converter = converter
        self.kind = kind
        self.is_boolean = kind == BOOLEAN
        self.name = name
        # Half floats can represent 0, 1 and NaN.
        self.dtype = np.dtype(np.float16 if self.is_boolean else np.float64)

    def read(self, array: Any, row: int) -> np.ndarray:
        """Convert a block, given the number of its first row.

        Raises
        ------
        ValueError
            If a value is not a number, or infinite.
        """
        try:
            values = self._values(array)
        except ValueError:
            raise self._refusal(array, row) from None
        refuse_infinite(values, lambda i: f"row {row + i}, column {self.name!r}")
        return values

    def _values(self, array: Any) -> np.ndarray:
        if not self.is_boolean:
            return self.converter.numbers(array)
        try:
            return self.converter.booleans(array)
        except ValueError:
            values = self.converter.numbers(array)
            if not np.isin(values[~np.isnan(values)], (0, 1)).all():
                raise
            return values

    def _refusal(self, array: Any, row: int) -> ValueError:
        expected = "true, false, 0 or 1" if self.is_boolean else "a number"
        for i in range(len(array)):
            try:
                self._values(array.slice(i, 1))
            except ValueError:
                break
        return ValueError(
            f"row {row + i}, column {self.name!r}: {array[i].as_py()!r} is not {expected}"
        )


class CategoryColumn:
    """A column of categories, read as codes.

    Parameters
    ----------
    converter : ArrowConverter
    kind : {"whole", "text"}
    name : str
        Name of the column in error messages.
    """

    dtype = np.dtype(np.int32)
    kind = "category"

    def __init__(self, converter: ArrowConverter, kind: str, name: str):
        self.converter = converter
        self.is_whole = kind == WHOLE
        self.name = name
        self._coder = Coder()

    def read(self, array: Any, row: int) -> np.ndarray:
        """Convert a block to codes, which are 0 for missing values.

        Raises
        ------
        ValueError
            If a value is not a whole number but should be.
        """
        if self.is_whole and not self.converter.are_whole(array):
            raise self._refusal(array, row)
        values, indices = self.converter.categories(array)
        codes = self._coder.codes(map(int if self.is_whole else str, values), len(values))
        return np.append(codes, np.int32(0))[indices]

    def _refusal(self, array: Any, row: int) -> ValueError:
        i = next(i for i in range(len(array)) if not self.converter.are_whole(array.slice(i, 1)))
        value = array[i].as_py()
        problem = "larger than 64 bits" if isinstance(value, int) else "not a whole number"
        return ValueError(f"row {row + i}, column {self.name!r}: {value!r} is {problem}")

    def sorted_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sorted values, and the rank of each code among them, from 1; 0 for code 0."""
        values, ranks = self._coder.ranks()
        return np.array(values, np.int64) if self.is_whole else string_array(values), ranks


class LabelColumn(CategoryColumn):
    """The column of labels.

    Attributes
    ----------
    missing : str or None
        Where the first missing label is.
    """

    def __init__(self, converter: ArrowConverter, kind: str, name: str):
        super().__init__(converter, kind, name)
        self._blocks: list[np.ndarray] = []
        self.missing: str | None = None

    def add(self, array: Any, row: int) -> None:
        """Add a block."""
        codes = self.read(array, row)
        if self.missing is None and not codes.all():
            self.missing = f"row {row + int(np.argmin(codes))}, column {self.name!r}"
        self._blocks.append(codes)

    def labels(self) -> np.ndarray:
        """Return the labels of all rows; an array of objects with None if some are missing."""
        values, ranks = self.sorted_values()
        if self.missing is None:
            by_code = np.append(values[:1], values[ranks[1:] - 1])
        else:
            by_code = np.array([None, *values[ranks[1:] - 1].tolist()], dtype=object)
        labels = np.empty(sum(map(len, self._blocks)), dtype=by_code.dtype)
        start = 0
        for codes in self._blocks:
            labels[start : start + len(codes)] = by_code[codes]
            start += len(codes)
        return labels


class GroupColumn:
    """The column of groups, which define the sequences.

    Parameters
    ----------
    converter : ArrowConverter
    name : str
        Name of the column in error messages.
    """

    def __init__(self, converter: ArrowConverter, name: str):
        self.converter = converter
        self.name = name
        # The first row of each group.
        self.starts: dict[str, int] = {}
        self._last: str | None = None

    def add(self, array: Any, row: int) -> None:
        """Add a block.

        Raises
        ------
        ValueError
            If the group of a row is missing, or the rows of a group are not contiguous.
        """
        values, indices = self.converter.categories(self.converter.text(array))
        if (indices < 0).any():
            i = int(np.argmin(indices))
            raise ValueError(f"row {row + i}, column {self.name!r}: the group is missing")
        for i in np.flatnonzero(np.diff(indices, prepend=-1)).tolist():
            group = values[indices[i]]
            if group == self._last:
                continue
            if group in self.starts:
                raise ValueError(
                    f"row {row + i}: group {group!r} began in row {self.starts[group]} and is "
                    "continued here; the rows of a group must be contiguous: sort the table by "
                    f"{self.name!r}, keeping the order within each group"
                )
            self.starts[group], self._last = row + i, group

    def offsets(self, n_rows: int) -> np.ndarray:
        """Return the starts of the sequences, and the end of the last one."""
        starts = np.array([*self.starts.values(), n_rows + min(self.starts.values())])
        return offsets_of(np.diff(starts))
