"""What is learned of the columns before training: categories, thresholds, how full they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.sequences import Sequences

MOST_SAMPLES = 200_000


@dataclass(frozen=True)
class Column:
    """What is known of a column: the categories or thresholds that tests compare with."""

    kind: str
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def n_tests(self) -> int:
        """Number of tests at one offset."""
        return 1 if self.kind == "boolean" else len(self.values)


def learn_columns(
    sequences: Sequences, max_bins: int, rng: np.random.Generator
) -> tuple[list[Column], np.ndarray]:
    """The columns, and the share of positions at which the only test of a column is true.

    The shares of columns with several tests mean nothing.
    """
    if sequences.form == "symbols":
        return [_category(sequences)], np.ones(1)
    if sequences.dtype.kind == "b":
        columns = [Column("boolean")] * sequences.n_features
    else:
        columns = _numbers(sequences, max_bins, rng)
    return columns, _share_above(sequences, only_thresholds(columns))


def only_thresholds(columns: list[Column]) -> np.ndarray:
    """The threshold of each number with one test, 0 for booleans and all others."""
    return np.array(
        [c.values[0] if c.kind == "number" and c.n_tests == 1 else 0.0 for c in columns]
    )


def _category(sequences: Sequences) -> Column:
    seen = [np.unique(piece) for _, _, piece in sequences.pieces()]
    return Column("category", np.unique(np.concatenate(seen)))


def _share_above(sequences: Sequences, thresholds: np.ndarray) -> np.ndarray:
    """Share of the positions at which each column exceeds its threshold."""
    counts = np.zeros(sequences.n_features)
    for _, _, piece in sequences.pieces():
        if sparse.issparse(piece):
            coo = piece.tocoo()
            above = coo.data > thresholds[coo.col]
            counts += np.bincount(coo.col[above], minlength=len(counts))
            n_zeros = piece.shape[0] - np.bincount(coo.col, minlength=len(counts))
            counts += (thresholds < 0) * n_zeros
        elif piece.dtype.kind == "b":
            counts += piece.sum(axis=0)
        else:
            counts += (piece > thresholds).sum(axis=0)
    return counts / sequences.n_positions


def _numbers(sequences: Sequences, max_bins: int, rng: np.random.Generator) -> list[Column]:
    """Thresholds between at most ``max_bins`` quantile bins of each column."""
    sampled = _sample(sequences, rng)
    if sparse.issparse(sampled):
        sampled = sampled.tocsc()
        return [
            Column("number", _thresholds(_column_with_zero(sampled, j), max_bins))
            for j in range(sequences.n_features)
        ]
    return [
        Column("number", _thresholds(np.sort(sampled[:, j].astype(np.float64)), max_bins))
        for j in range(sequences.n_features)
    ]


def _column_with_zero(matrix: Any, j: int) -> np.ndarray:
    """Sorted values of a column of a CSC matrix.

    All its zeros count as one, lest they take every quantile.
    """
    values = matrix.data[matrix.indptr[j] : matrix.indptr[j + 1]].astype(np.float64)
    zeros = np.zeros(int(len(values) < matrix.shape[0]))
    return np.sort(np.concatenate([values, zeros]))


def _sample(sequences: Sequences, rng: np.random.Generator) -> Any:
    """All rows, or enough of them for quantiles."""
    n = sequences.n_positions
    chosen = None
    if n > MOST_SAMPLES:
        chosen = np.sort(rng.choice(n, MOST_SAMPLES, replace=False))
    parts = []
    for start, stop, piece in sequences.pieces():
        if chosen is not None:
            first, last = np.searchsorted(chosen, [start, stop])
            piece = piece[chosen[first:last] - start]
        parts.append(piece)
    if sequences.form == "sparse":
        return sparse.vstack(parts, format="csr")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _thresholds(values: np.ndarray, max_bins: int) -> np.ndarray:
    """Thresholds for sorted values: between all distinct ones, or at quantiles."""
    distinct = values[np.append(True, values[1:] > values[:-1])]
    if len(distinct) > max_bins:
        places = np.linspace(0, len(values) - 1, max_bins + 1)[1:-1]
        quantiles = np.searchsorted(distinct, values[places.astype(np.int64)])
        below = np.unique(np.minimum(quantiles, len(distinct) - 2))
    else:
        below = np.arange(len(distinct) - 1)
    low, high = distinct[below], distinct[below + 1]
    middle = low / 2 + high / 2
    # Between neighbouring doubles there is no middle.
    return np.where((middle >= high) | (middle < low), low, middle)
