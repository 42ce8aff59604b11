"""Symbols of the training data, and their codes."""

from __future__ import annotations

import numpy as np

from treecrf.inputs.sequences import Sequences


class Vocabulary:
    """Symbols seen in training.

    Parameters
    ----------
    symbols : array (n_symbols,)
        Strings or integers, sorted and distinct.
    """

    def __init__(self, symbols: np.ndarray):
        self.symbols = symbols

    @classmethod
    def of(cls, sequences: Sequences) -> Vocabulary:
        """Return the distinct symbols of sequences."""
        return cls(sequences.symbols())

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the indices of symbols in the vocabulary; ``n_symbols`` for unseen symbols."""
        if not len(self.symbols):
            return np.zeros(len(values), dtype=np.intp)
        indices = np.minimum(np.searchsorted(self.symbols, values), len(self.symbols) - 1)
        return np.where(self.symbols[indices] == values, indices, len(self.symbols))

    def column(self, values: np.ndarray) -> np.ndarray:
        """Make a table of one category: indices from 1, NaN for unseen symbols."""
        codes = self.codes(values)
        return np.where(codes < len(self.symbols), codes + 1.0, np.nan)[:, np.newaxis]
