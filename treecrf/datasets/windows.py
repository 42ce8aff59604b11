"""Words and proteins recovered from the window files of the TREECRF papers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from treecrf.datasets.sparse_rows import iter_sparse


def read_windows(path: Path, alphabet: str, left: int) -> tuple[list[str], list[str]]:
    """Read sequences of letters and labels from a file of windows.

    Each position of a window has a block of features: one for each letter of the alphabet, and a
    last one for "beyond the end". Exactly one feature per block is true.

    Parameters
    ----------
    path : path-like
    alphabet : str
    left : int
        Number of letters before the labeled one in each window.

    Returns
    -------
    letters : list of str
        Can be longer than the labels, since the last windows reach ahead.
    labels : list of str
        One digit per row.

    Raises
    ------
    OSError, ValueError
        If the file cannot be read, or its rows are not windows.
    """
    letters, labels = [], []
    for i, (x, y) in enumerate(iter_sparse(path), start=1):
        symbols = _symbols(x, len(alphabet) + 1)
        if symbols is None:
            raise ValueError(f"{path}, sequence {i}: the rows are not windows of {alphabet!r}")
        codes = np.append(symbols[:, left], symbols[-1, left + 1 :])
        letters.append("".join(alphabet[code] for code in codes if code < len(alphabet)))
        labels.append("".join(map(str, y)))
    return letters, labels


def _symbols(x: sparse.csr_array, n_symbols: int) -> np.ndarray | None:
    """Return the symbol of each block of each row, or None if a block does not have exactly one."""
    n_blocks, rest = divmod(x.shape[1], n_symbols)
    if rest or np.any(np.diff(x.indptr) != n_blocks):
        return None
    columns = x.indices.reshape(len(x.indptr) - 1, n_blocks)
    blocks, symbols = np.divmod(columns, n_symbols)
    return symbols if np.all(blocks == np.arange(n_blocks)) else None
