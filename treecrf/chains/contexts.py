"""Numbering of label contexts, shared by inference, trees and their evaluation."""

from __future__ import annotations

import math

import numpy as np

from treecrf.inputs.offsets import positions_in_sequences

MAX_SCORES_LOG2 = 24

# Codes of previous labels are bytes, one of which marks a missing label; lags are bytes as well.
MAX_LABELS = 255
MAX_LAGS = 255

# More labels than this are rarely meant.
MANY_LABELS = 500


def check_order(n_labels: int, order: int, instead: str = "lower the order") -> None:
    """Refuse an order whose contexts would not fit in memory, with the advice ``instead``."""
    if (order + 1) * math.log2(n_labels) > MAX_SCORES_LOG2:
        raise ValueError(
            f"order={order} with {n_labels} labels needs {n_labels}**{order + 1} scores per "
            f"position; at most 2**{MAX_SCORES_LOG2} are supported: {instead}{doubt_of(n_labels)}"
        )


def doubt_of(n_labels: int) -> str:
    """Return the end of an error message about many labels: they may be measurements."""
    return "; is y a measurement? Labels are categories" if n_labels > MANY_LABELS else ""


def check_label_codes(n_labels: int, what: str) -> None:
    """Refuse more labels than a byte can encode in addition to a missing label."""
    if n_labels > MAX_LABELS:
        raise ValueError(
            f"y has {n_labels} labels; {what} supports at most {MAX_LABELS}{doubt_of(n_labels)}"
        )


def check_lags(order: int) -> None:
    """Refuse an order whose lags do not fit in a byte."""
    if order > MAX_LAGS:
        raise ValueError(f"order={order}; expected at most {MAX_LAGS}")


def extended_contexts(n_labels: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the contexts of every depth, from ``order`` labels to none.

    These are the label at each lag, ``n_labels`` for none, in an int32 array (n_contexts, order),
    and the first context of each depth.
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
    """Label at each lag before each position, ``n_labels`` if there is none; uint8 (order, n)."""
    positions = positions_in_sequences(offsets)
    labels = np.full((order, len(codes)), n_labels, dtype=np.uint8)
    for lag in range(1, order + 1):
        inside = np.flatnonzero(positions >= lag)
        labels[lag - 1, inside] = codes[inside - lag]
    return labels


def true_contexts(
    offsets: np.ndarray, codes: np.ndarray, n_labels: int, order: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the depth and the number of the context at each position."""
    positions = positions_in_sequences(offsets)
    contexts = np.zeros(len(codes), dtype=np.int64)
    for lag in range(1, order + 1):
        reaching = np.flatnonzero(positions >= lag)
        contexts[reaching] += codes[reaching - lag] * np.int64(n_labels ** (lag - 1))
    return np.minimum(positions, order), contexts
