"""Rows of positions among boundary rows."""

from __future__ import annotations

import numpy as np
import pytest

from treecrf.encoding.encoded import RowLayout
from treecrf.inputs.offsets import offsets_of


@pytest.mark.parametrize("window", [(0, 0), (1, 1), (2, 0), (1, 3)])
def test_windows_reach_no_other_sequence(window):
    left, right = window
    layout = RowLayout(offsets_of([3, 1, 2]), window)
    sequence_of_row = np.full(layout.n_rows, -1)
    sequence_of_row[layout.rows] = [0, 0, 0, 1, 2, 2]
    for row in layout.rows:
        seen = sequence_of_row[row - left : row + right + 1]
        assert len(seen) == left + right + 1
        assert set(seen) <= {-1, sequence_of_row[row]}
    assert layout.rows[0] == left
    assert layout.rows[-1] == layout.n_rows - right - 1
    assert layout.first_rows.tolist() == layout.rows[[0, 3, 4]].tolist()
