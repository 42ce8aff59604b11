"""Vectors in dicts, such as embeddings: numbers with the names ``key[0]``, ``key[1]``, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.offsets import position_name
from treecrf.inputs.values import is_number, refuse_infinite, short_repr, stands_for_missing


def is_vector(value: Any) -> bool:
    """Return whether a value is a list or an array of values."""
    is_array = hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0
    return is_array or isinstance(value, (list, tuple))


def vectors_among(names: Sequence[str], are_numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return the keys whose vectors columns may come from, and the columns of their values."""
    numbers = {names[j]: j for j in np.flatnonzero(are_numbers).tolist()}
    keys = [name.removesuffix("[0]") for name in numbers if name.endswith("[0]")]
    found = {}
    for key in keys:
        parts = takewhile(numbers.__contains__, (f"{key}[{i}]" for i in count()))
        found[key] = np.array([numbers[part] for part in parts])
    return found


@dataclass(frozen=True)
class Vectors:
    """The vectors of one key: their positions, and a row of numbers for each."""

    key: str
    positions: np.ndarray
    values: np.ndarray  # float64 (n_vectors, width)

    @classmethod
    def of(cls, rows: list[dict], key: str, offsets: np.ndarray, width: int = 0) -> Vectors:
        """Read the vectors of a key; None is a vector of missing values.

        ``width`` is the width in training, or 0. Errors if the widths differ, or some values are
        not vectors of finite numbers.
        """
        positions = np.array([t for t, row in enumerate(rows) if key in row], dtype=np.int64)
        vectors = [rows[t][key] for t in positions.tolist()]
        is_present = np.array([vector is not None for vector in vectors], dtype=bool)
        present = [vector for vector in vectors if vector is not None]

        def where(i: int) -> str:
            t = int(positions[is_present][i])
            return f"{position_name(t, offsets)}, key {key!r}"

        table = _table(present)
        if table is None or (width and table.shape[1] != width):
            _refuse_first(present, where, width)
        values = np.full((len(vectors), width or table.shape[1]), np.nan)
        refuse_infinite(table, lambda i: where(i // values.shape[1]))
        values[is_present] = table
        return cls(key, positions, values)

    @property
    def names(self) -> list[str]:
        """Names of the columns of the values."""
        return [f"{self.key}[{i}]" for i in range(self.values.shape[1])]

    def added_to(self, table: sparse.csr_array, columns: np.ndarray) -> sparse.csr_array:
        """Add the values to columns of a table, which has none of its own there."""
        of_vectors = np.zeros(table.shape[1], dtype=bool)
        of_vectors[columns] = True
        if of_vectors[table.indices].any():
            j = int(table.indices[of_vectors[table.indices]][0])
            raise ValueError(
                f"some dicts have the key {self.names[columns.tolist().index(j)]!r}, which is the "
                f"name of a value of the vectors of {self.key!r}"
            )
        counts = np.zeros(table.shape[0] + 1, dtype=np.int64)
        counts[self.positions + 1] = len(columns)
        order = np.argsort(columns)
        indices = np.tile(columns[order].astype(np.int32), len(self.positions))
        values = self.values[:, order].ravel()
        return table + sparse.csr_array((values, indices, np.cumsum(counts)), shape=table.shape)


def _table(vectors: list) -> np.ndarray | None:
    """Return vectors as rows of numbers; None if they are not, or their widths differ."""
    if not all(map(is_vector, vectors)):
        return None
    if not vectors:
        return np.zeros((0, 0))
    try:
        table = np.asarray(vectors)
    except ValueError:
        return None
    if table.ndim != 2 or not table.shape[1] or table.dtype.kind not in "biufO":
        return None
    kinds = set(map(type, table.flat)) if table.dtype.kind == "O" else ()
    are_numbers = all(is_number(kind) or stands_for_missing(kind) for kind in kinds)
    return table.astype(np.float64) if are_numbers else None


def _refuse_first(vectors: list, where: Any, width: int) -> None:
    """Raise an error about the first vector that does not fit."""
    before = "in training" if width else f"at {where(0)}"
    for i, vector in enumerate(vectors):
        if not is_vector(vector):
            raise TypeError(
                f"{where(i)}: {short_repr(vector)} is of type {type(vector).__name__}; expected a "
                "vector of numbers, as at other positions"
            )
        table = _table([vector])
        if table is None:
            raise ValueError(
                f"{where(i)}: {short_repr(vector)} is not a vector of numbers; expected a list or "
                "a 1-D array of at least one number"
            )
        n = table.shape[1]
        if width and n != width:
            raise ValueError(
                f"{where(i)}: a vector of {n} values, but {width} {before}; expected vectors of "
                "the same width"
            )
        width = n
