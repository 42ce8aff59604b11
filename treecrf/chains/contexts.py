"""The numbering of label contexts, which the trees and their evaluation share."""

from __future__ import annotations

import math

import numpy as np

from treecrf.inputs.sequences import positions_in_sequences

MAX_SCORES_LOG2 = 24

# Codes of previous labels are bytes, of which one says that there is none; so are their numbers.
MAX_LABELS = 255
MAX_LAGS = 255


def check_order(n_labels: int, order: int, instead: str = "lower the order") -> None:
    """Refuse an order whose contexts would not fit in memory; ``instead`` says what to do.

    Raises
    ------
    ValueError
        If ``n_labels ** order`` is too large.
    """
    if (order + 1) * math.log2(n_labels) > MAX_SCORES_LOG2:
        raise ValueError(
            f"order={order} with {n_labels} labels makes {n_labels}**{order + 1} scores a "
            f"position; at most 2**{MAX_SCORES_LOG2} are possible: {instead}"
        )


def check_label_codes(n_labels: int, what: str) -> None:
    """Refuse more labels than a byte can tell apart, besides that there is none.

    Raises
    ------
    ValueError
        If there are too many; ``what`` says what takes no more.
    """
    if n_labels > MAX_LABELS:
        raise ValueError(f"y holds {n_labels} labels; {what} takes at most {MAX_LABELS}")


def check_lags(order: int) -> None:
    """Refuse an order whose lags a byte cannot count.

    Raises
    ------
    ValueError
        If the order is too large, whatever is done with its contexts.
    """
    if order > MAX_LAGS:
        raise ValueError(f"order={order}; at most {MAX_LAGS} previous labels are possible")


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


def previous_labels(
    codes: np.ndarray, offsets: np.ndarray, n_labels: int, order: int
) -> np.ndarray:
    """The label at each lag before each position, ``n_labels`` for none; uint8 (order, n)."""
    places = positions_in_sequences(offsets)
    given = np.full((order, len(codes)), n_labels, dtype=np.uint8)
    for lag in range(1, order + 1):
        inside = np.flatnonzero(places >= lag)
        given[lag - 1, inside] = codes[inside - lag]
    return given


def true_contexts(
    offsets: np.ndarray, codes: np.ndarray, n_labels: int, order: int
) -> tuple[np.ndarray, np.ndarray]:
    """The labels before each position.

    Returns
    -------
    depths : int64 array (n_positions,)
        How many there are, at most ``order``.
    contexts : int64 array (n_positions,)
        Their number among all contexts of this depth.
    """
    places = positions_in_sequences(offsets)
    contexts = np.zeros(len(codes), dtype=np.int64)
    for lag in range(1, order + 1):
        reaching = np.flatnonzero(places >= lag)
        contexts[reaching] += codes[reaching - lag] * np.int64(n_labels ** (lag - 1))
    return np.minimum(places, order), contexts
