"""Values put where some are missing: imputation, and indicators of what was missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.columns import find_missing
from treecrf.encoding.vocabulary import Vocabulary
from treecrf.inputs.sequences import BOOLEAN, Sequences, Trained

FILLED = IMPUTE, INDICATOR = "impute", "indicator"


@dataclass(frozen=True)
class Imputation:
    """What takes the place of missing values, and where it is told that they were missing.

    Attributes
    ----------
    values : float array (n_features,)
        Value for each column; for a category the place of its value, counted from 1, or 0 for none.
    told : int array
        Columns behind which a boolean column follows, after all others, that tells where they were
        missing.
    symbols : array or None
        The symbols that training has seen, where sequences hold symbols.
    """

    values: np.ndarray
    told: np.ndarray
    symbols: np.ndarray | None

    @property
    def sources(self) -> np.ndarray:
        """The input's column that each column comes from."""
        return np.append(np.arange(len(self.values)), self.told).astype(np.int64)

    def fill(self, piece: Any) -> Any:
        """A table without missing values."""
        if piece.ndim == 1:
            piece = Vocabulary(self.symbols).column(piece)
        if piece.dtype.kind != "f" and not len(self.told):
            return piece
        fill = self._fill_sparse if sparse.issparse(piece) else self._fill_dense
        return fill(piece)

    def _fill_dense(self, table: np.ndarray) -> np.ndarray:
        gaps = np.isnan(table)
        return np.hstack([np.where(gaps, self.values, table), gaps[:, self.told]])

    def _fill_sparse(self, table: Any) -> Any:
        entries = table.tocoo()
        gaps = np.isnan(entries.data)
        data = np.where(gaps, self.values[entries.col], entries.data)
        filled = sparse.csr_array((data, (entries.row, entries.col)), shape=table.shape)
        filled.eliminate_zeros()
        where = (entries.row[gaps], entries.col[gaps])
        told = sparse.csc_array((np.ones(gaps.sum()), where), shape=table.shape)[:, self.told]
        return sparse.hstack([filled, told], format="csr")


class ImputedSequences:
    """Sequences without missing values, made when they are read.

    It has what an encoder needs of `Sequences`; the tables may have more columns.

    Parameters
    ----------
    given : Sequences
    filling : Imputation
    kinds : uint8 array, optional
        Of all columns, as in `Sequences`; only needed to learn from them.
    categories : dict, optional
    """

    def __init__(
        self,
        given: Sequences,
        filling: Imputation,
        kinds: np.ndarray | None = None,
        categories: dict[int, np.ndarray] | None = None,
    ):
        self.given = given
        self.filling = filling
        self.form = "sparse" if given.form == "sparse" else "dense"
        self.offsets = given.offsets
        self.n_positions, self.n_sequences = given.n_positions, given.n_sequences
        self.n_features = len(filling.sources)
        self.dtype = np.dtype(np.float64)
        self.kinds, self.categories = kinds, categories or {}

    def pieces(self) -> Iterator[tuple[int, int, Any]]:
        """Runs of whole sequences, as those of `Sequences`."""
        for start, stop, piece in self.given.pieces():
            yield start, stop, self.filling.fill(piece)


def learn_filling(sequences: Sequences, method: str) -> tuple[Imputation, ImputedSequences]:
    """Learn what to put where values are missing.

    Parameters
    ----------
    sequences : Sequences
    method : {"impute", "indicator"}
        The most common value (of numbers the mean), or 0 and a further column for each that has
        missing values.

    Returns
    -------
    filling : Imputation
    filled : ImputedSequences
        The sequences without missing values.
    """
    trained = sequences.like
    symbols = trained.categories[0] if trained.form == "symbols" else None
    values, told = np.zeros(trained.n_features), np.zeros(0, dtype=np.int64)
    if method == IMPUTE:
        values = _usual_values(sequences, trained)
    else:
        told = np.flatnonzero(find_missing(sequences))
    filling = Imputation(values, told, symbols)
    kinds = np.append(trained.kinds, np.full(len(told), BOOLEAN)).astype(np.uint8)
    return filling, ImputedSequences(sequences, filling, kinds, trained.categories)


def _usual_values(sequences: Sequences, trained: Trained) -> np.ndarray:
    """The mean of each number, and the most common value of each other column."""
    counts = {j: np.zeros(len(values) + 1) for j, values in trained.categories.items()}
    for _, _, piece in sequences.pieces() if counts else ():
        table = Vocabulary(trained.categories[0]).column(piece) if piece.ndim == 1 else piece
        for j, of_column in counts.items():
            of_column += _count_places(table[:, [j]], len(of_column))
    means = means_of(sequences)
    values = np.where(trained.kinds == BOOLEAN, means > 0.5, means)
    for j, of_column in counts.items():
        values[j] = of_column.argmax()
    return values


def means_of(sequences: Sequences) -> np.ndarray:
    """Mean of each column over the positions that have it; 0 where none has, and of symbols."""
    sums, n_present = np.zeros((2, sequences.n_features))
    for _, _, piece in sequences.pieces():
        if piece.ndim == 2:
            sums += np.asarray(_zero_gaps(piece).sum(axis=0)).ravel()
            n_present += piece.shape[0] - _count_gaps(piece)
    return sums / np.maximum(n_present, 1)


def _zero_gaps(table: Any) -> Any:
    if table.dtype.kind != "f":
        return table
    if not sparse.issparse(table):
        return np.nan_to_num(table, nan=0.0)
    return sparse.csr_array((np.nan_to_num(table.data), table.indices, table.indptr), table.shape)


def _count_gaps(table: Any) -> np.ndarray | int:
    """Number of missing values of each column."""
    if table.dtype.kind != "f":
        return 0
    if sparse.issparse(table):
        return np.bincount(table.indices[np.isnan(table.data)], minlength=table.shape[1])
    return np.isnan(table).sum(axis=0)


def _count_places(column: Any, n: int) -> np.ndarray:
    """How often each place occurs in a column, 0 among them."""
    values = (column.toarray() if sparse.issparse(column) else column).ravel()
    return np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=n)
