"""Symbols of the training data, and their codes."""

from __future__ import annotations

import numpy as np

from treecrf.inputs.sequences import Sequences

CHARACTER = np.dtype("U1")
# Code points of characters that are looked up in a table; nearly all texts have no others.
MAX_TABLE = 1 << 12


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
        if values.dtype == self.symbols.dtype == CHARACTER:
            points, known = values.view(np.uint32), self.symbols.view(np.uint32)
            last = max(int(points.max(initial=0)), int(known[-1]))
            if last < MAX_TABLE:
                return self._code_of_point(known, last + 1)[points]
        indices = np.minimum(np.searchsorted(self.symbols, values), len(self.symbols) - 1)
        return np.where(self.symbols[indices] == values, indices, len(self.symbols))

    def _code_of_point(self, known: np.ndarray, n: int) -> np.ndarray:
        """Return the code of each of the first n code points, given those of the symbols."""
        codes = np.full(n, len(known), dtype=np.intp)
        codes[known] = np.arange(len(known))
        return codes

    def column(self, values: np.ndarray) -> np.ndarray:
        """Make a table of one category: indices from 1, and 0 for unseen symbols."""
        codes = self.codes(values)
        return np.where(codes < len(self.symbols), codes + 1.0, 0.0)[:, np.newaxis]
