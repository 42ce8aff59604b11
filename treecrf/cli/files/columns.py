"""Readers of the columns of a table: features, labels and groups, block after block."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.cli.files.cells import Cells
from treecrf.cli.files.data import array_of_words
from treecrf.cli.files.kinds import BOOLEAN, WHOLE
from treecrf.inputs.sequences import offsets_of


class NumberColumn:
    """Numbers or booleans, as floats.

    Parameters
    ----------
    cells : Cells
    kind : {"number", "boolean"}
    name : str
        What messages call the column.
    """

    def __init__(self, cells: Cells, kind: str, name: str):
        self.cells = cells
        self.kind = kind
        self.is_boolean = kind == BOOLEAN
        self.name = name
        # Half floats hold 0, 1 and NaN.
        self.dtype = np.dtype(np.float16 if self.is_boolean else np.float64)

    def read(self, array: Any, row: int) -> np.ndarray:
        """The values of a block whose first row is the given one.

        Raises
        ------
        ValueError
            If one is no number, or infinite.
        """
        try:
            values = self._values(array)
        except ValueError:
            raise self._refusal(array, row) from None
        if np.isinf(values).any():
            i = int(np.argmax(np.isinf(values)))
            raise ValueError(f"row {row + i}, column {self.name!r}: {values[i]} is not finite")
        return values

    def _values(self, array: Any) -> np.ndarray:
        if not self.is_boolean:
            return self.cells.numbers(array)
        try:
            return self.cells.booleans(array)
        except ValueError:
            values = self.cells.numbers(array)
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
    """Values that are only told apart, as codes in the order in which they come up, from 1.

    Parameters
    ----------
    cells : Cells
    kind : {"whole", "text"}
    name : str
    """

    dtype = np.dtype(np.int32)
    kind = "category"

    def __init__(self, cells: Cells, kind: str, name: str):
        self.cells = cells
        self.is_whole = kind == WHOLE
        self.name = name
        self._codes: dict[str | int, int] = {}

    def read(self, array: Any, row: int) -> np.ndarray:
        """The codes of a block; 0 where a value is missing.

        Raises
        ------
        ValueError
            If a value is no whole number, where such are expected.
        """
        if self.is_whole and not self.cells.are_whole(array):
            raise self._refusal(array, row)
        values, places = self.cells.categories(array)
        plain = int if self.is_whole else str
        codes = [self._codes.setdefault(plain(v), len(self._codes) + 1) for v in values]
        return np.array([*codes, 0], dtype=np.int32)[places]

    def _refusal(self, array: Any, row: int) -> ValueError:
        i = next(i for i in range(len(array)) if not self.cells.are_whole(array.slice(i, 1)))
        return ValueError(
            f"row {row + i}, column {self.name!r}: {array[i].as_py()!r} is not a whole number"
        )

    def sorted_values(self) -> tuple[np.ndarray, np.ndarray]:
        """The values, sorted, and for each code the place of its value, from 1; NaN for 0."""
        values = list(self._codes)
        values = np.array(values, dtype=np.int64) if self.is_whole else array_of_words(values)
        order = np.argsort(values)
        ranks = np.full(len(values) + 1, np.nan)
        ranks[order + 1] = np.arange(1, len(values) + 1)
        return values[order], ranks


class LabelColumn(CategoryColumn):
    """Labels; none may be missing."""

    def __init__(self, cells: Cells, kind: str, name: str):
        super().__init__(cells, kind, name)
        self._blocks: list[np.ndarray] = []

    def add(self, array: Any, row: int) -> None:
        """Take a block.

        Raises
        ------
        ValueError
            If a label is missing.
        """
        codes = self.read(array, row)
        if not codes.all():
            raise ValueError(f"row {row + int(np.argmin(codes))}: no label in {self.name!r}")
        self._blocks.append(codes)

    def labels(self) -> np.ndarray:
        """The labels of all rows."""
        values, ranks = self.sorted_values()
        by_code = np.append(values[:1], values[ranks[1:].astype(np.intp) - 1])
        labels = np.empty(sum(map(len, self._blocks)), dtype=values.dtype)
        start = 0
        for codes in self._blocks:
            labels[start : start + len(codes)] = by_code[codes]
            start += len(codes)
        return labels


class GroupColumn:
    """The group of each row: the sequences.

    Parameters
    ----------
    cells : Cells
    name : str
    """

    def __init__(self, cells: Cells, name: str):
        self.cells = cells
        self.name = name
        # The first row of each group.
        self.starts: dict[str, int] = {}
        self._last: str | None = None

    def add(self, array: Any, row: int) -> None:
        """Take a block.

        Raises
        ------
        ValueError
            If a row belongs to no group, or the rows of a group do not follow each other.
        """
        values, places = self.cells.categories(self.cells.text(array))
        if (places < 0).any():
            raise ValueError(f"row {row + int(np.argmin(places))}: no group in {self.name!r}")
        for i in np.flatnonzero(np.diff(places, prepend=-1)).tolist():
            group = values[places[i]]
            if group == self._last:
                continue
            if group in self.starts:
                raise ValueError(
                    f"row {row + i}: group {group!r}, which began in row {self.starts[group]}, "
                    "comes again; the rows of a group must follow each other: sort the table by "
                    f"{self.name!r}, and within it in the order of the sequence"
                )
            self.starts[group], self._last = row + i, group

    def offsets(self, n_rows: int) -> np.ndarray:
        """Starts of the sequences, and the end of the last."""
        starts = np.array([*self.starts.values(), n_rows + min(self.starts.values())])
        return offsets_of(np.diff(starts))
