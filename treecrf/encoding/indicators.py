"""One-hot encoding of categories, for estimators of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def one_hot(table: Any, sizes: np.ndarray) -> sparse.csr_array:
    """Replace each category by one indicator column per value.

    Parameters
    ----------
    table : array or sparse array (n_rows, n_columns)
        A category holds the index of its value, counted from 1, and 0 for no value.
    sizes : int array (n_columns,)
        Number of values of each category, -1 for the other columns, which are copied.

    Returns
    -------
    CSR array (n_rows, n_indicators)
        The indicators of a missing category (NaN) are all 0; other missing values stay NaN.
    """
    is_category = sizes >= 0
    widths = np.where(is_category, sizes, 1)
    firsts = np.cumsum(widths) - widths
    starts, columns, data = _entries(table)
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


def _entries(table: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the values other than 0: the first of each row, and the column and value of each."""
    if sparse.issparse(table):
        table = sparse.csr_array(table, copy=True)
        table.sum_duplicates()
        return table.indptr, table.indices, table.data
    rows, columns = np.nonzero(table)
    starts = np.zeros(len(table) + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=len(table)), out=starts[1:])
    return starts, columns, table[rows, columns]
