"""Codes of symbols, and one-hot encoding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf.encoding.columns import one_hot
from treecrf.inputs.symbols import indices_of


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


@pytest.mark.parametrize("highest", [0x200, 0x2000, 0xFFFFF])
@pytest.mark.parametrize("width", [1, 2])
def test_codes_are_ranks_among_the_symbols(highest, width):
    """Single characters with low code points are looked up in a table."""
    rng = np.random.default_rng(highest)
    points = rng.integers(1, highest, (300, width))
    points[(points >= 0xD800) & (points < 0xE000)] = 1
    values = np.array(["".join(map(chr, row)) for row in points])
    symbols = np.unique(values[:100])
    rank = {symbol: i for i, symbol in enumerate(symbols.tolist())}
    expected = [rank.get(value, len(symbols)) for value in values.tolist()]
    assert indices_of(values, symbols).tolist() == expected
    assert indices_of(values, symbols[:0]).tolist() == [0] * 300
