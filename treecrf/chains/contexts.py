"""Label contexts: their numbers, and what previous labels contribute to scores in contexts."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from math import factorial

import numpy as np

from treecrf.inputs.offsets import positions_in_sequences
from treecrf.utils.threads import check_memory, size_text

# A position has at most 2**24 scores: 128 MB.
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
    if n_labels <= MANY_LABELS:
        return ""
    return "; is y a measurement? Labels are categories"


def require_memory(n_labels: int, order: int, n_positions: int, n_arrays: int = 1) -> None:
    """Check that arrays of scores fit in memory, before any work on them."""
    n_bytes = n_arrays * n_positions * n_labels ** (order + 1) * np.dtype(np.float64).itemsize
    setting = "beam_width (boosted trees)"
    if n_labels > MAX_LABELS:  # a beam supports no more labels, see `check_label_codes`
        setting = "constant_transitions"
    model = f"order={order} with "
    advice = f"lower the order, set {setting}, or use fewer labels"
    if order == 0:  # or constant transitions
        model = "a model of "
        advice = "use fewer labels"
    check_memory(
        n_bytes,
        f"{model}{n_labels} labels and {n_positions} positions needs {size_text(n_bytes)}: "
        f"{advice} or fewer sequences{doubt_of(n_labels)}",
    )


def refuse_measurements(n_labels: int, n_positions: int) -> None:
    """Raise ValueError if positions share hardly any labels: these are numbers, not names."""
    if n_labels > MAX_LABELS and 2 * n_labels > n_positions:
        raise ValueError(
            f"y looks like measurements: {n_labels} labels at {n_positions} positions; expected "
            "categories that recur, or constant_transitions=True if these are"
        )


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


def chains_of(offsets: np.ndarray, order: int) -> np.ndarray:
    """Return the offsets of independent chains; with order 0, every position is a chain."""
    if order == 0:
        return np.arange(offsets[-1] + 1)
    return offsets


@lru_cache(maxsize=2)
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


def context_contributions(
    scores: np.ndarray, previous: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divide the scores of labels in contexts among the previous labels, by their Shapley values.

    The value of some previous labels is the mean score of the contexts with these labels. All
    contexts of the same number of labels have the same weight, as in the training of trees.

    The scores are ordered by the number of labels before a position, label and context. Returns the
    mean scores of the contexts of ``order`` labels, (n_labels,), and the contribution of each lag,
    (n_positions, n_labels, order).
    """
    order = len(previous)
    n_labels = scores.shape[1]
    tables = [
        scores[depth, :, : n_labels**depth].reshape((n_labels,) * (depth + 1))
        for depth in range(order + 1)
    ]
    values = np.zeros((previous.shape[1], n_labels, order))
    coalitions = [c for size in range(order + 1) for c in combinations(range(order), size)]
    for lags in coalitions:
        coalition_values = _means(tables, previous, lags)
        size = len(lags)
        for lag in range(order):
            if lag in lags:
                weight = factorial(size - 1) * factorial(order - size) / factorial(order)
            else:
                weight = -factorial(size) * factorial(order - size - 1) / factorial(order)
            values[:, :, lag] += weight * coalition_values
    return tables[order].reshape(n_labels, -1).mean(axis=1), values


def _means(tables: list[np.ndarray], previous: np.ndarray, lags: tuple[int, ...]) -> np.ndarray:
    """Compute the mean scores of contexts with the labels at some lags.

    Where one of these lags lies before the sequence, contexts have as many labels as are possible.
    The result has shape (n_positions, n_labels).
    """
    n_labels = len(tables[0])
    order = len(tables) - 1
    depths = np.full(previous.shape[1], order)
    for lag in reversed(lags):
        depths[previous[lag] == n_labels] = lag
    means = np.zeros((previous.shape[1], n_labels))
    for depth in np.unique(depths):
        known = [lag for lag in lags if lag < depth]
        # After the first, there is an axis for each lag, the nearest one last.
        absent = tuple(depth - lag for lag in range(depth) if lag not in known)
        table = tables[depth].mean(axis=absent)
        at_depth = depths == depth
        if known:
            labels = tuple(previous[lag, at_depth].astype(np.intp) for lag in reversed(known))
            means[at_depth] = table[(slice(None), *labels)].T
        else:
            means[at_depth] = table
    return means
