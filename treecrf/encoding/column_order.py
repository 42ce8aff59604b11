"""Order of the columns by their content: which of equally good tests trees use.

In small nodes, many tests divide the examples alike. Trees take the first one, so that its column
must not be a matter of how the columns are ordered in the input. It is one of the bins and
categories of a column, not of its numbers, whose units or last digits do not matter either.
"""

from __future__ import annotations

import numpy as np

from treecrf.encoding._fingerprints import add_dense_bins, add_sparse_bins
from treecrf.encoding.columns import Columns
from treecrf.encoding.sequence_keys import (
    Content,
    dense_of,
    entries_of,
    label_hashes,
    pieces_of,
    position_salts,
    weight_units,
)
from treecrf.utils.partitions import Partitions
from treecrf.utils.scipy_sparse import sparse


def order_by_bins(partitions: Partitions, columns: Columns) -> np.ndarray:
    """Order columns by hashes of where each bin and category occurs; int64 (n_columns,).

    The partitions are of type `Content`. Columns with the same bins at all positions stay in the
    order of the input.
    """
    if len(columns) == 1:
        return np.zeros(1, dtype=np.int64)
    parts = partitions.map(bin_sums, columns, label_hashes(partitions, is_weighted=True))
    return np.argsort(np.sum(parts, axis=0, dtype=np.uint64), kind="stable")


def bin_sums(content: Content, columns: Columns, labels: np.ndarray) -> np.ndarray:
    """Hash where each bin and category of each column occurs, by weight; uint64 (n_columns,)."""
    sums = np.zeros(len(columns), dtype=np.uint64)
    bins = columns.thresholds, columns.starts, columns.is_number.view(np.uint8)
    for start, offsets, piece in pieces_of(content.sequences):
        salts = position_salts(content, labels, start, offsets)
        weights = np.broadcast_to(weight_units(content, start, start + len(salts)), len(salts))
        if sparse.issparse(piece):
            add_sparse_bins(*entries_of(piece), *bins, salts, weights, sums)
        else:
            add_dense_bins(dense_of(piece), *bins, salts, weights, sums)
    return sums
