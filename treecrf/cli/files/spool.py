"""A table in a temporary file: rows are appended, and can be read in any order."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np

from treecrf.inputs.files.source import temporary_file, temporary_space


class Spool:
    """Rows of columns of several types, which take memory only while being read.

    Parameters
    ----------
    types : sequence of dtype
        Type of each column.

    Attributes
    ----------
    ranks : dict
        For columns of codes, an array of the value of each code.
    """

    def __init__(self, types: Sequence[np.dtype]):
        self.dtype = np.dtype([(f"column{j}", kind) for j, kind in enumerate(types)])
        self.ranks: dict[int, np.ndarray] = {}
        self.n_rows = 0
        self._file = temporary_file()
        weakref.finalize(self, self._file.close)

    def append(self, columns: Sequence[np.ndarray]) -> None:
        """Append rows."""
        records = np.empty(len(columns[0]), dtype=self.dtype)
        for name, column in zip(self.dtype.names, columns, strict=True):
            records[name] = column
        self._file.seek(0, 2)
        with temporary_space():
            self._file.write(records.data)
            self._file.flush()
        self.n_rows += len(records)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the selected rows as floats, an array (n_rows, n_columns)."""
        records = self._slice(rows) if isinstance(rows, slice) else self._selected(rows)
        table = np.empty((len(records), len(self.dtype)), order="F")
        for j, name in enumerate(self.dtype.names):
            values = records[name]
            table[:, j] = self.ranks[j][values] if j in self.ranks else values
        return table

    def _slice(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.n_rows)
        records = np.empty(max(0, stop - start), dtype=self.dtype)
        self._file.seek(start * self.dtype.itemsize)
        self._file.readinto(records.view(np.uint8))
        return records

    def _selected(self, rows: np.ndarray) -> np.ndarray:
        """Read rows in any order, in contiguous runs."""
        wanted, indices = np.unique(rows, return_inverse=True)
        ends = np.flatnonzero(np.diff(wanted, append=-1) != 1) + 1
        runs = [self._slice(slice(run[0], run[-1] + 1)) for run in np.split(wanted, ends[:-1])]
        return np.concatenate(runs)[indices]
