"""One-hot encoding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf.encoding.indicators import one_hot


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_categories_become_indicators(form):
    table = np.array([[0.5, 1, 2], [np.nan, 3, 0], [0.0, np.nan, 1]])
    given = form(table.copy())
    found = one_hot(given, np.array([-1, 3, 2]))
    np.testing.assert_array_equal(
        found.toarray(), [[0.5, 1, 0, 0, 0, 1], [np.nan, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]]
    )
    unchanged = given.toarray() if sparse.issparse(given) else given
    np.testing.assert_array_equal(unchanged, table)
