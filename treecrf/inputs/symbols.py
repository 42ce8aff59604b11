"""Symbols as their indices among the symbols of training data."""

from __future__ import annotations

import numpy as np

CHARACTER = np.dtype("U1")
# Code points of characters that are looked up in a table; nearly all texts have no others.
MAX_TABLE = 1 << 12


def indices_of(values: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Return the indices of values among sorted symbols; ``len(symbols)`` for all others."""
    if not len(symbols):
        return np.zeros(len(values), dtype=np.intp)
    if values.dtype == symbols.dtype == CHARACTER:
        points = values.view(np.uint32)
        known = symbols.view(np.uint32)
        last = max(int(points.max(initial=0)), int(known[-1]))
        if last < MAX_TABLE:
            codes = np.full(last + 1, len(known), dtype=np.intp)
            codes[known] = np.arange(len(known))
            return codes[points]
    indices = np.minimum(np.searchsorted(symbols, values), len(symbols) - 1)
    return np.where(symbols[indices] == values, indices, len(symbols))


def as_category(values: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Make a table of one category: indices among the symbols from 1, and 0 for all others."""
    ranks = np.append(np.arange(1.0, len(symbols) + 1), 0.0)
    return ranks[indices_of(values, symbols)][:, np.newaxis]
