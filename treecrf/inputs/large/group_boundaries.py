"""The rows of long tables where groups, which are sequences, begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treecrf.inputs.large.arrow_values import ArrowConverter
from treecrf.inputs.large.table_sources import Table
from treecrf.inputs.values import short_repr


@dataclass(eq=False)
class GroupBoundaries:
    """The rows where the groups of a long table begin.

    Groups are kept as hashes, because there may be as many as half of the rows.
    """

    converter: ArrowConverter
    name: str  # of the column
    place_of: Callable[[int], str]  # names a row in messages
    n_rows: int = 0
    last: Any = None  # group
    starts: list[np.ndarray] = field(default_factory=list)
    hashes: list[np.ndarray] = field(default_factory=list)

    def add(self, array: Any) -> list:
        """Add the groups of some rows, and return the groups that begin there."""
        if not len(array):
            return []
        try:
            values, indices = self.converter.categories(array)
        except self.converter.pa.ArrowNotImplementedError:
            raise TypeError(
                f"{self.place_of(self.n_rows)}, column {self.name!r}: groups are of type "
                f"{array.type}; expected strings, numbers, dates or times"
            ) from None
        missing = indices < 0
        if "" in values:
            missing |= indices == values.index("")
        if any(value != value for value in values):
            missing |= np.isin(indices, [i for i, value in enumerate(values) if value != value])
        if missing.any():
            place = self.place_of(self.n_rows + int(np.argmax(missing)))
            raise ValueError(f"{place}, column {self.name!r}: the group is missing")
        begins = np.flatnonzero(np.diff(indices, prepend=-1))
        if len(begins) and self.n_rows and values[indices[0]] == self.last:
            begins = begins[1:]
        hashes = np.fromiter(map(hash, values), np.int64, len(values))
        self.starts.append(begins + self.n_rows)
        self.hashes.append(hashes[indices[begins]])
        self.last = values[indices[-1]]
        self.n_rows += len(indices)
        return [values[i] for i in indices[begins].tolist()]

    def added(self, batches: Iterable[tuple[Table, Any]]) -> Iterator[tuple[Table, Any]]:
        """Yield batches of tables, and add the groups of each."""
        for table, batch in batches:
            yield table, batch
            self.add(batch.column(self.name))

    def checked(self, group_at: Callable[[int], Any]) -> np.ndarray:
        """Return the starts of all groups, and the number of rows; int64.

        ValueError if a group comes back. ``group_at`` returns the group of a row.
        """
        hashes = np.concatenate(self.hashes)
        starts = np.concatenate(self.starts)
        order = np.argsort(hashes, kind="stable")
        again = np.sort(order[1:][hashes[order][1:] == hashes[order][:-1]])
        for i in again:
            group = group_at(int(starts[i]))
            for j in np.flatnonzero(hashes[:i] == hashes[i]):
                # Different groups hardly ever have the same hash.
                if group_at(int(starts[j])) == group:
                    first = self.place_of(int(starts[j]))
                    second = self.place_of(int(starts[i]))
                    raise ValueError(
                        f"group {short_repr(group)} begins at {first} and comes back at {second}; "
                        "the rows of a group must be contiguous: sort the data by "
                        f"{self.name!r}, keeping the order within each group"
                    )
        return np.append(starts, self.n_rows)
