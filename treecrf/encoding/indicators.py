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
    entries = sparse.coo_array(table)
    known = ~(is_category[entries.col] & np.isnan(entries.data))
    rows, columns, data = entries.row[known], entries.col[known], entries.data[known]
    of_category = is_category[columns]
    indicators = (np.cumsum(widths) - widths)[columns]
    indicators[of_category] += data[of_category].astype(np.intp) - 1
    data[of_category] = 1
    shape = table.shape[0], int(widths.sum())
    return sparse.csr_array((data, (rows, indicators)), shape=shape)
