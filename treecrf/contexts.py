"""The numbering of label contexts, which the trees and their evaluation share."""

from __future__ import annotations

import math

import numpy as np

MOST_SCORES_LOG2 = 24


def check_order(n_labels: int, order: int) -> None:
    """Refuse an order whose contexts would not fit in memory.

    Raises
    ------
    ValueError
        If ``n_labels ** order`` is too large.
    """
    if (order + 1) * math.log2(n_labels) > MOST_SCORES_LOG2:
        raise ValueError(
            f"order={order} with {n_labels} labels makes {n_labels}**{order + 1} scores a "
            f"position; at most 2**{MOST_SCORES_LOG2} are possible"
        )


def extended_contexts(n_labels: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Contexts at every depth: those of ``order`` labels first, the empty one last.

    Returns
    -------
    symbols : int32 array (n_contexts, order)
        Previous label at each lag, ``n_labels`` where there is none.
    depth_starts : int64 array (order + 1,)
        First context of each depth.
    """
    depth_starts = np.zeros(order + 1, dtype=np.int64)
    blocks = []
    for depth in range(order, -1, -1):
        depth_starts[depth] = sum(map(len, blocks))
        contexts = np.arange(n_labels**depth)[:, None]
        symbols = contexts // n_labels ** np.arange(order)[None, :] % n_labels
        symbols[:, depth:] = n_labels
        blocks.append(symbols)
    return np.concatenate(blocks).astype(np.int32), depth_starts
