"""Sequences with the values of one feature replaced."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.offsets import offsets_of, reversed_positions, split_sequences
from treecrf.inputs.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class ReplacedSequences(Sequences):
    """Sequences with replaced values in one column."""

    base: Sequences
    column: int
    values: np.ndarray  # (n_positions,), symbols, or values for the column of the tables of base

    @classmethod
    def of(cls, base: Sequences, column: int, values: np.ndarray) -> ReplacedSequences:
        """Replace the values of a column."""
        description = {field.name: getattr(base, field.name) for field in fields(Sequences)}
        return cls(**description, base=base, column=column, values=values)

    def rows(self, first: int, last: int) -> Any:
        """Return the rows of sequences first to last - 1."""
        values = self.values[self.offsets[first] : self.offsets[last]]
        if self.form == "symbols":
            return values
        piece = self.base.rows(first, last)
        if sparse.issparse(piece):
            return _with_sparse_column(piece, self.column, values)
        piece = piece.astype(np.result_type(piece, values))
        piece[:, self.column] = values
        return piece

    def take(self, indices: np.ndarray) -> Sequences:
        """Select sequences in the given order."""
        parts = split_sequences(self.values, self.offsets)
        values = np.concatenate([parts[i] for i in indices])
        offsets = offsets_of(np.diff(self.offsets)[indices])
        return replace(self, base=self.base.take(indices), offsets=offsets, values=values)

    def reversed(self) -> Sequences:
        """Reverse each sequence."""
        values = self.values[reversed_positions(self.offsets)]
        return replace(self, base=self.base.reversed(), values=values)


def _with_sparse_column(piece: Any, column: int, values: np.ndarray) -> sparse.csr_array:
    entries = piece.tocoo()
    others, new_rows = entries.col != column, np.flatnonzero(values)
    data = np.concatenate([entries.data[others], values[new_rows]])
    rows = np.concatenate([entries.row[others], new_rows])
    columns = np.concatenate([entries.col[others], np.full(len(new_rows), column)])
    return sparse.csr_array((data, (rows, columns)), shape=piece.shape)


def column_values(sequences: Sequences, j: int) -> np.ndarray:
    """Return the values of a column at all positions."""
    parts = []
    for _, _, piece in sequences.pieces():
        column = piece if piece.ndim == 1 else piece[:, [j]]
        parts.append((column.toarray() if sparse.issparse(column) else column).ravel())
    return np.concatenate(parts)


def shuffled_positions(
    offsets: np.ndarray, rng: np.random.Generator, within_sequences: bool
) -> np.ndarray:
    """Shuffle all positions, or the positions of each sequence separately."""
    n = int(offsets[-1])
    if not within_sequences:
        return rng.permutation(n)
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((rng.random(n), owners))
