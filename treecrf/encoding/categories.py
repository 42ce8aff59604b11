"""Categories as numbers: the codes of symbols, and one indicator per value."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.sequences import Sequences

CHARACTER = np.dtype("U1")
# Code points of characters that are looked up in a table; nearly all texts have no others.
MAX_TABLE = 1 << 12


class Vocabulary:
    """Symbols seen in training."""

    def __init__(self, symbols: np.ndarray):
        self.symbols = symbols  # strings or integers, sorted and distinct

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
                codes = np.full(last + 1, len(known), dtype=np.intp)
                codes[known] = np.arange(len(known))
                return codes[points]
        indices = np.minimum(np.searchsorted(self.symbols, values), len(self.symbols) - 1)
        return np.where(self.symbols[indices] == values, indices, len(self.symbols))

    def column(self, values: np.ndarray) -> np.ndarray:
        """Make a table of one category: indices from 1, and 0 for unseen symbols."""
        codes = self.codes(values)
        return np.where(codes < len(self.symbols), codes + 1.0, 0.0)[:, np.newaxis]


def one_hot(table: Any, sizes: np.ndarray) -> sparse.csr_array:
    """Replace each category by one indicator column per value.

    A category holds the index of its value, counted from 1, and 0 for no value. ``sizes`` holds the
    number of values of each category, -1 for the other columns, which are copied. The indicators of
    a missing category (NaN) are all 0; other missing values stay NaN.
    """
    is_category = sizes >= 0
    widths = np.where(is_category, sizes, 1)
    firsts = np.cumsum(widths) - widths
    # The values other than 0: the first of each row, and the column and value of each.
    if sparse.issparse(table):
        table = sparse.csr_array(table, copy=True)
        table.sum_duplicates()
        starts, columns, data = table.indptr, table.indices, table.data
    else:
        rows, columns = np.nonzero(table)
        starts, data = np.zeros(len(table) + 1, dtype=np.int32), table[rows, columns]
        np.cumsum(np.bincount(rows, minlength=len(table)), out=starts[1:])
    of_category = is_category[columns]
    known = ~(of_category & np.isnan(data))
    if not known.all():
        starts = np.append(0, np.cumsum(known))[starts]
        columns, data, of_category = columns[known], data[known], of_category[known]
    indicators = firsts[columns]
    indicators[of_category] += data[of_category].astype(np.intp) - 1
    data[of_category] = 1
    shape = table.shape[0], int(widths.sum())
    return sparse.csr_array((data, indicators.astype(np.int32), starts), shape=shape)
