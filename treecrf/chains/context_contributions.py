"""Contributions of previous labels to scores that depend on them alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import factorial

import numpy as np


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
    order, n_labels = len(previous), scores.shape[1]
    tables = [
        scores[depth, :, : n_labels**depth].reshape((n_labels,) * (depth + 1))
        for depth in range(order + 1)
    ]
    values = np.zeros((previous.shape[1], n_labels, order))
    for lags, without in _coalitions(order):
        of_lags = _means(tables, previous, lags)
        n, n_with = order, len(lags)
        for lag in range(order):
            if lag in without:
                weight = -factorial(n_with) * factorial(n - n_with - 1) / factorial(n)
            else:
                weight = factorial(n_with - 1) * factorial(n - n_with) / factorial(n)
            values[:, :, lag] += weight * of_lags
    return tables[order].reshape(n_labels, -1).mean(axis=1), values


def _coalitions(order: int) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
    """Yield all sets of lags, counted from 0, and their complements."""
    for size in range(order + 1):
        for lags in combinations(range(order), size):
            yield lags, frozenset(range(order)) - set(lags)


def _means(tables: list[np.ndarray], previous: np.ndarray, lags: tuple[int, ...]) -> np.ndarray:
    """Compute the mean scores of contexts with the labels at some lags.

    Where one of these lags lies before the sequence, contexts have as many labels as are possible.
    The result has shape (n_positions, n_labels).
    """
    n_labels, order = len(tables[0]), len(tables) - 1
    depths = np.full(previous.shape[1], order)
    for lag in reversed(lags):
        depths[previous[lag] == n_labels] = lag
    means = np.zeros((previous.shape[1], n_labels))
    for depth in np.unique(depths):
        known = [lag for lag in lags if lag < depth]
        # After the first, there is an axis for each lag, the nearest one last.
        absent = tuple(depth - lag for lag in range(depth) if lag not in known)
        table, here = tables[depth].mean(axis=absent), depths == depth
        labels = tuple(previous[lag, here].astype(np.intp) for lag in reversed(known))
        means[here] = table[(slice(None), *labels)].T if known else table
    return means
