"""Where the sequences of one long table begin and end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treecrf.inputs.sequences import offsets_of
from treecrf.inputs.values import find_missing, listed, shown


@dataclass(frozen=True)
class Segmentation:
    """How a user says where sequences are: by their lengths, by groups, or not at all.

    Attributes
    ----------
    lengths : array-like of shape (n_sequences,), optional
    groups : array-like of shape (n_positions,) or str, optional
        A string names a column of a data frame.
    """

    lengths: Any = None
    groups: Any = None

    @property
    def is_long(self) -> bool:
        """Whether X is one table of all sequences, and not a list of them."""
        return self.lengths is not None or self.groups is not None

    @property
    def column(self) -> str | None:
        """The column that holds the groups."""
        return self.groups if isinstance(self.groups, str) else None

    def offsets(self, n: int, groups: Any = None) -> np.ndarray:
        """Starts of the sequences among ``n`` positions, and the end of the last.

        Parameters
        ----------
        n : int
        groups : list, optional
            The values of the column that holds the groups.

        Raises
        ------
        ValueError, TypeError
            If lengths do not add up, or the positions of a group do not follow each other.
        """
        if self.lengths is not None and self.groups is not None:
            raise ValueError("both lengths and groups are given; one of them tells the sequences")
        if n == 0:
            raise ValueError("X holds no positions")
        if self.lengths is not None:
            return _by_lengths(self.lengths, n)
        if self.column is not None and groups is None:
            raise ValueError(
                f"groups={self.column!r} names a column, but X is no data frame; expected an "
                "array with the group of each position"
            )
        return _by_groups(self.groups if groups is None else groups, n)

    def split(self, items: Any, offsets: np.ndarray, name: str) -> list:
        """One long array or list as one for each sequence.

        Raises
        ------
        ValueError
            If there is not an item for each position.
        """
        if len(items) != offsets[-1]:
            raise ValueError(f"X has {offsets[-1]} positions, {name} has {len(items)}")
        return [items[a:b] for a, b in pairwise(offsets)]

    def items(self, given: Any, offsets: np.ndarray, name: str, what: str) -> list:
        """One item for each sequence, from a list of them or from a long list of all positions.

        Raises
        ------
        ValueError, TypeError
            If it is no list, or there are more or fewer.
        """
        items = listed(given, name, what)
        if self.is_long:
            return self.split(items, offsets, name)
        if len(items) != len(offsets) - 1:
            raise ValueError(f"X has {len(offsets) - 1} sequences, {name} has {len(items)}")
        return items

    def join(self, items: list[np.ndarray]) -> Any:
        """Results of all sequences as X was given: one long array, or a list."""
        return np.concatenate(items) if self.is_long else items


def offsets_of_items(lengths: list[int]) -> np.ndarray:
    """Starts of sequences that are given one by one, and the end of the last."""
    if not lengths:
        raise ValueError("X holds no sequences")
    if 0 in lengths:
        raise ValueError(
            f"sequence {lengths.index(0)} is empty: a sequence needs at least one position"
        )
    return offsets_of(lengths)


def _by_lengths(lengths: Any, n: int) -> np.ndarray:
    array = np.asarray(lengths, dtype=None if hasattr(lengths, "dtype") else object)
    kinds = set(map(type, array.ravel().tolist()))
    if array.ndim != 1 or array.dtype.kind not in "iuO" or kinds - {int}:
        raise TypeError(
            f"lengths={shown(lengths)}; expected a list of integers, the number of positions of "
            "each sequence"
        )
    if (array <= 0).any():
        i = int(np.argmax(array <= 0))
        raise ValueError(f"sequence {i} has the length {array[i]}; it needs at least one position")
    total = sum(array.tolist())
    if total != n:
        raise ValueError(f"lengths add up to {total}, X has {n} positions")
    return offsets_of(array.astype(np.int64))


def _by_groups(groups: Any, n: int) -> np.ndarray:
    values = _as_list(groups)
    if len(values) != n:
        raise ValueError(f"X has {n} positions, groups has {len(values)}")
    missing = find_missing(values)
    if missing is not None:
        raise ValueError(f"position {int(np.argmax(missing))} belongs to no group")
    codes: dict[Any, int] = defaultdict(None)
    codes.default_factory = codes.__len__
    try:
        places = np.fromiter(map(codes.__getitem__, values), np.int64, n)
    except TypeError:
        raise TypeError("groups holds lists or other values that cannot be compared") from None
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    # Groups are numbered as they come up: one that comes again has a number below the highest.
    again = places[starts] < np.arange(len(starts))
    if again.any():
        k = int(np.argmax(again))
        group = places[starts[k]]
        first = int(np.flatnonzero(places[starts] == group)[0])
        raise ValueError(
            f"group {shown(values[starts[k]])} is at positions {starts[first]} to "
            f"{starts[first + 1] - 1} and again at {starts[k]}: the positions of a group must "
            "follow each other; sort the table by group, and within it in the order of the sequence"
        )
    return np.append(starts, n).astype(np.int64)


def _as_list(groups: Any) -> list:
    array = np.asarray(groups, dtype=None if hasattr(groups, "dtype") else object)
    if array.ndim != 1:
        raise TypeError(f"groups has {array.ndim} dimensions; expected one group for each position")
    return array.tolist()
