"""Runs of rows of the same group in tables that are read block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from treecrf.inputs.files.arrow import ArrowConverter
from treecrf.inputs.values import short_repr


class RunFinder:
    """The rows where the groups of a long table begin.

    Groups are kept as hashes, because there may be as many as half of the rows.

    Parameters
    ----------
    name : str
        Name of the column of groups.
    place_of : callable
        Description of a row in error messages.

    Attributes
    ----------
    n_rows : int
        Number of rows so far.
    """

    def __init__(self, converter: ArrowConverter, name: str, place_of: Callable[[int], str]):
        self.n_rows = 0
        self._converter = converter
        self._name = name
        self._place_of = place_of
        self._last: Any = None
        self._starts = [np.zeros(0, dtype=np.int64)]
        self._hashes = [np.zeros(0, dtype=np.int64)]

    def add(self, array: Any) -> None:
        """Add the groups of some rows.

        Raises
        ------
        ValueError
            If a group is missing.
        TypeError
            If groups have a type that cannot be compared.
        """
        try:
            values, indices = self._converter.categories(array)
        except self._converter.pa.ArrowNotImplementedError:
            raise TypeError(
                f"{self._place_of(self.n_rows)}, column {self._name!r}: groups are of type "
                f"{array.type}; expected strings, numbers, dates or times"
            ) from None
        missing = indices < 0
        if any(value != value for value in values):
            missing |= np.isin(indices, [i for i, value in enumerate(values) if value != value])
        if missing.any():
            place = self._place_of(self.n_rows + int(np.argmax(missing)))
            raise ValueError(f"{place}, column {self._name!r}: the group is missing")
        begins = np.flatnonzero(np.diff(indices, prepend=-1))
        if len(begins) and self.n_rows and values[indices[0]] == self._last:
            begins = begins[1:]
        hashes = np.fromiter(map(hash, values), np.int64, len(values))
        self._starts.append(begins + self.n_rows)
        self._hashes.append(hashes[indices[begins]])
        self._last = values[indices[-1]]
        self.n_rows += len(indices)

    def offsets(self) -> np.ndarray:
        """Return the starts of all groups, and the number of rows; int64."""
        return np.append(np.concatenate(self._starts), self.n_rows)

    def check(self, value_at: Callable[[int], Any]) -> None:
        """Raise ValueError if a group has rows in several runs.

        Parameters
        ----------
        value_at : callable
            Returns the group of a row.
        """
        hashes, starts = np.concatenate(self._hashes), np.concatenate(self._starts)
        order = np.argsort(hashes, kind="stable")
        again = np.sort(order[1:][hashes[order][1:] == hashes[order][:-1]])
        for i in again:
            # Different groups hardly ever have the same hash.
            group = value_at(int(starts[i]))
            for j in np.flatnonzero(hashes[:i] == hashes[i]):
                if value_at(int(starts[j])) == group:
                    self._refuse(group, int(starts[j]), int(starts[i]))

    def _refuse(self, group: Any, first: int, again: int) -> NoReturn:
        raise ValueError(
            f"group {short_repr(group)} begins at {self._place_of(first)} and comes back at "
            f"{self._place_of(again)}; the rows of a group must be contiguous: sort the data by "
            f"{self._name!r}, keeping the order within each group"
        )
