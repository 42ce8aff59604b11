"""Trees that hold the effects of newly discovered features on the scores of the labels."""

from __future__ import annotations

import numpy as np

from treecrf.learners.future.encoder import BagFeature, bins_of
from treecrf.utils.exact import UNIT, rounded_leaves


def trees_of_effects(
    found: list[tuple[BagFeature, np.ndarray]], n_columns: int, n_bins: int, n_labels: int
) -> list[dict[str, np.ndarray]]:
    """Make one tree for each label: the effect of a discovered feature, or no effect.

    Parameters
    ----------
    found : list of (BagFeature, float64 array (n_positions,))
        Features, and their values at the training positions.
    n_columns : int
        Number of columns before those of these features.
    n_bins : int
        Number of bins of each feature.
    n_labels : int
    """
    by_label = [constant_tree() for _ in range(n_labels)]
    for column, (feature, values) in enumerate(found, n_columns):
        bins = bins_of(values, n_bins)
        sizes = np.bincount(bins, minlength=n_bins).astype(float)
        # In integers, so that the order of the positions does not matter.
        sums = np.zeros(n_bins, dtype=np.int64)
        np.add.at(sums, bins, np.rint(values / UNIT).astype(np.int64))
        means = sums * UNIT / np.maximum(sizes, 1)
        for label in np.flatnonzero(feature.effects.any(axis=0)):
            intercept, slope = feature.effects[:, label]
            by_label[label] = tree_of_bins(column, intercept + slope * means, sizes)
    return by_label


def constant_tree() -> dict[str, np.ndarray]:
    """Make a tree with a single leaf of value 0."""
    return _tree(column=np.zeros(1), value=np.zeros(1), weight=np.zeros(1), leaf=np.zeros(1),
                 gain=np.zeros(1), share=np.zeros(1), children=np.full((2, 1), -1))  # fmt: skip


def tree_of_bins(column: int, values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Make a balanced tree with one leaf for each bin of a column that has training positions.

    Empty bins belong to the nearest of these.

    Parameters
    ----------
    column : int
    values : float64 array (n_bins,)
        Leaf values.
    weights : float64 array (n_bins,)
        Number of training positions in each bin.
    """
    filled = np.flatnonzero(weights)
    ranges, links = [(0, len(filled))], []
    for first, end in ranges:  # the loop itself appends the children
        is_leaf = end == first + 1
        links.append((-1, -1) if is_leaf else (len(ranges), len(ranges) + 1))
        middle = (first + end) // 2
        ranges += [] if is_leaf else [(middle, end), (first, middle)]
    (first, end), children = np.array(ranges).T, np.array(links).T
    values, weights = values[filled], weights[filled]
    sums, sizes = (np.append(0, np.cumsum(array)) for array in (values * weights, weights))
    total, weight = sums[end] - sums[first], sizes[end] - sizes[first]
    explained = total**2 / weight
    inner = children[0] >= 0
    middle = (first + end) // 2
    threshold = (filled[middle - 1] + filled[np.minimum(middle, len(filled) - 1)]) // 2
    return _tree(
        column=np.where(inner, column, 0),
        value=np.where(inner, threshold, 0),
        leaf=np.where(inner, 0.0, rounded_leaves(values[first])),
        gain=np.where(inner, np.maximum(explained[children].sum(axis=0) - explained, 0.0), 0.0),
        weight=weight,
        share=np.where(inner, weight[children[0]] / weight, 0.0),
        children=children,
    )


def _tree(*, children: np.ndarray, **fields: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields of a tree in a `Forest`; all tests read the current position."""
    integers = ("column", "value")
    empty = np.zeros(0, dtype=np.int32)
    fields = {name: a.astype(np.int32 if name in integers else float) for name, a in fields.items()}
    zeros = np.zeros(children.shape[1], dtype=np.int32)
    surrogates = {f"surrogate_{name}": empty for name in ("column", "offset", "value")}
    return fields | surrogates | {
        "offset": zeros,
        "true_child": children[0].astype(np.int32),
        "false_child": children[1].astype(np.int32),
        "n_surrogates": zeros,
        "reversed": np.zeros(0, dtype=bool),
    }  # fmt: skip
