"""Sequences in one long table: the arguments ``lengths`` and ``groups``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.forms import is_frame
from treecrf.inputs.offsets import (
    offsets_of,
    split_sequences,
)
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.values import (
    CategoryEncoder,
    as_list,
    find_missing,
    refuse_masked,
    short_repr,
)


@dataclass(frozen=True)
class Segmentation:
    """Sequences of a long table, defined by their lengths or by groups, or no long table."""

    lengths: Any = None  # number of positions of each sequence
    groups: Any = None  # for each position, or the name of a column
    may_be_empty: bool = False  # whether sequences without positions are accepted
    present: np.ndarray | None = None  # which sequences of a list are read, if not all
    names: tuple[str, ...] = ()  # of columns and levels of the index with the values of ``groups``

    @property
    def is_long(self) -> bool:
        """Whether X is one table of all sequences instead of a list of them."""
        return self.lengths is not None or self.groups is not None

    @property
    def column(self) -> str | None:
        """Name of the column that holds the groups."""
        if isinstance(self.groups, str):
            return self.groups
        return None

    @property
    def group_columns(self) -> set[str]:
        """The names of columns that hold groups, and are not features."""
        columns = {*self.names}
        if self.column is not None:
            columns.add(self.column)
        return columns

    def item_names(self, n: int) -> list[str]:
        """Name the ``n`` items of X in error messages."""
        if self.is_long:
            return ["X"]
        if self.present is None:
            places = range(n)
        else:
            places = np.flatnonzero(self.present)
        return [f"sequence {i}" for i in places]

    def in_places(self, items: list) -> list:
        """Return the items, and among them an empty one for each sequence that is not read."""
        if self.present is None:
            return items
        read = iter(items)
        return [next(read) if is_present else items[0][:0] for is_present in self.present.tolist()]

    def item_offsets(self, lengths: list[int], groups: Any = None) -> np.ndarray:
        """Return the starts of the sequences, given the lengths of the long table or of each."""
        if self.is_long:
            return self.offsets(lengths[0], groups)
        if self.present is None:
            if not lengths:
                raise ValueError("X holds no sequences")
            if 0 in lengths:
                i = lengths.index(0)
                raise ValueError(
                    f"sequence {i} is empty; expected at least one position per sequence"
                )
            return offsets_of(lengths)
        every = np.zeros(len(self.present), dtype=np.int64)
        every[self.present] = lengths
        return offsets_of(every)

    def offsets(self, n: int, groups: Any = None, name: str = "X") -> np.ndarray:
        """Return the offsets of the sequences among ``n`` positions of X, or as ``name`` says."""
        if self.lengths is not None and self.groups is not None:
            raise ValueError("pass either lengths or groups, not both")
        if n == 0 and not self.may_be_empty:
            raise ValueError(f"{name} holds no positions")
        if self.lengths is not None:
            least = 0 if self.may_be_empty else 1
            return _offsets_of_lengths(self.lengths, n, name, least)
        if self.column is not None and groups is None:
            raise ValueError(
                f"groups={self.column!r} names a column, but {name} is not a data frame; expected "
                "an array with the group of each position"
            )
        if groups is None:
            groups = self.groups
        return _offsets_of_groups(groups, n, name)

    def split(self, items: Any, offsets: np.ndarray, name: str) -> list:
        """Split a long array or list into one for each sequence; ValueError if lengths differ."""
        if len(items) != offsets[-1]:
            raise ValueError(f"X has {offsets[-1]} positions, {name} has {len(items)}")
        return split_sequences(items, offsets)

    def items(self, argument: Any, offsets: np.ndarray, name: str, expected: str) -> list:
        """Return one item per sequence, from a list of them or a long list of all positions."""
        items = as_list(argument, name, expected)
        if self.is_long:
            if is_frame(argument):
                raise ValueError(
                    f"{name} is a data frame, whose items are its columns; for a long table, "
                    f"expected an item for each position: pass a NumPy array"
                )
            return self.split(items, offsets, name)
        if len(items) != len(offsets) - 1:
            raise ValueError(f"X has {len(offsets) - 1} sequences, {name} has {len(items)}")
        return items

    def join(self, items: list[np.ndarray], *empty: np.ndarray) -> Any:
        """Return results in the form of X: a list, or an array, of ``empty`` if there are none."""
        if self.is_long:
            return np.concatenate([*empty, *items])
        return items


def _offsets_of_lengths(lengths: Any, n: int, name: str, at_least: int) -> np.ndarray:
    refuse_masked(lengths, "lengths")
    array = np.asarray(lengths, dtype=None if hasattr(lengths, "dtype") else object)
    kinds = set(map(type, array.ravel().tolist()))
    if array.ndim != 1 or array.dtype.kind not in "iuO" or kinds - {int}:
        raise TypeError(
            f"lengths={short_repr(lengths)}; expected a list of integers, the number of positions "
            "of each sequence"
        )
    if (array < at_least).any():
        i = int(np.argmax(array < at_least))
        raise ValueError(f"sequence {i} has length {array[i]}; expected at least {at_least}")
    total = sum(array.tolist())
    if total != n:
        raise ValueError(f"lengths add up to {total}, but {name} has {n} positions")
    return offsets_of(array.astype(np.int64))


def _offsets_of_groups(groups: Any, n: int, name: str) -> np.ndarray:
    column = read_column(groups)
    if column.values.ndim != 1:
        raise TypeError(
            f"groups has {column.values.ndim} dimensions; expected a 1-D array with the group of "
            "each position"
        )
    values = column.array().tolist()
    if len(values) != n:
        raise ValueError(f"{name} has {n} positions, groups has {len(values)}")
    refuse_missing_groups(values)
    try:
        codes = CategoryEncoder().codes(values, n)
    except TypeError:
        raise TypeError(
            "groups holds values that cannot be hashed, such as lists; expected strings or integers"
        ) from None
    starts = np.flatnonzero(np.append(n > 0, codes[1:] != codes[:-1]))
    # Codes count groups by first occurrence, so a group that reappears has a smaller code.
    again = codes[starts] <= np.arange(len(starts))
    if again.any():
        k = int(np.argmax(again))
        first = int(np.flatnonzero(codes[starts] == codes[starts[k]])[0])
        raise ValueError(
            f"group {short_repr(values[starts[k]])} is at positions {starts[first]} to "
            f"{starts[first + 1] - 1} and again at {starts[k]}: the positions of a group must be "
            "contiguous; sort the table by group, keeping the order within each group"
        )
    return np.append(starts, n).astype(np.int64)


def refuse_missing_groups(values: list) -> None:
    """Raise ValueError if the group of a position is missing."""
    missing = find_missing(values)
    if missing is not None:
        t = int(np.argmax(missing))
        value = "NaN"
        if not isinstance(values[t], float):
            value = short_repr(values[t])
        raise ValueError(f"groups is missing ({value}) at position {t}")
