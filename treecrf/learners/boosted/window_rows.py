"""Windows as rows of numbers, for estimators that do not support sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.categories import Vocabulary, one_hot
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.inputs.sequences import Sequences

# Larger tables stay sparse.
MAX_DENSE_BYTES = 1 << 30


class WindowTable:
    """A table with one row per position: the values of its window and its previous labels.

    Categories and previous labels are one-hot encoded; numbers and booleans are unchanged. At
    offsets outside the sequence all values are 0, and an indicator column for each offset marks
    this. Missing numbers and booleans remain NaN, for estimators that support it. The columns of a
    category that is missing or was unseen in training are all 0.
    """

    def __init__(self, encoder: Encoder, n_labels: int):
        self.encoder = encoder  # defines the columns and the window
        self.n_labels = n_labels

    def windows(self, sequences: Sequences) -> sparse.csr_array:
        """Make the windows of all positions, without previous labels."""
        sequences = self.encoder.prepared(sequences)
        values = sparse.vstack(
            [self._values(piece) for _, _, piece in sequences.pieces()], format="csr"
        )
        nothing = sparse.csr_array((1, values.shape[1]), dtype=values.dtype)
        values = sparse.vstack([values, nothing], format="csr")
        within, lengths = positions_in_sequences(sequences.offsets), np.diff(sequences.offsets)
        ends = np.repeat(lengths, lengths)
        positions = np.arange(sequences.n_positions)
        left, right = self.encoder.window
        blocks = []
        for offset in range(-left, right + 1):
            inside = (within + offset >= 0) & (within + offset < ends)
            blocks.append(values[np.where(inside, positions + offset, len(positions))])
            if offset:
                blocks.append(sparse.csr_array((~inside)[:, None].astype(np.float32)))
        return sparse.hstack(blocks, format="csr")

    def _values(self, piece: Any) -> sparse.csr_array:
        columns = self.encoder.columns
        if piece.ndim == 1:
            piece = Vocabulary(columns[0].values).column(piece)
        if not columns.is_category.any():
            # float32, unless the values need more precision.
            return sparse.csr_array(piece, dtype=np.result_type(piece.dtype, np.float32))
        return one_hot(piece, np.where(columns.is_category, columns.sizes, -1))

    def rows(self, windows: sparse.csr_array, previous: np.ndarray) -> Any:
        """Append previous labels to windows; returns a dense array unless it would be too large.

        ``previous`` is a uint8 array (order, n_rows) of the label at each lag, ``n_labels`` before
        the start of the sequence.
        """
        order, (n, n_values) = len(previous), windows.shape
        n_symbols = self.n_labels + 1
        columns = previous.T + n_symbols * np.arange(order)
        n_columns = n_values + n_symbols * order
        if n * n_columns * windows.dtype.itemsize <= MAX_DENSE_BYTES:
            table = np.zeros((n, n_columns), dtype=windows.dtype)
            table[:, :n_values] = windows.toarray()
            table[np.arange(n)[:, np.newaxis], n_values + columns] = 1
            return table
        ones, starts = np.ones(columns.size, dtype=windows.dtype), order * np.arange(n + 1)
        labels = sparse.csr_array((ones, columns.ravel(), starts), (n, n_symbols * order))
        return sparse.hstack([windows, labels], format="csr")
