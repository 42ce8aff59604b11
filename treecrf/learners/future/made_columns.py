"""Derived columns, which training adds to those of the input, and trees that split on them.

A derived column holds numbers from 0 to 1 in bins of equal width. Its values depend on positions
outside the window anyway, so its tests read the current position only (``Encoder.n_derived``).
The bins are stored like those of any other number, one byte per position, so code that reads
encoded positions needs no special case.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treecrf.encoding.columns import NUMBER, Columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.plan import CODES, Plan
from treecrf.utils.exact import rounded_leaves


def thresholds_of(n_bins: int) -> np.ndarray:
    """Ends of even bins from 0 to 1, without 0 and 1."""
    return np.arange(1, n_bins) / n_bins


def bins_of(values: np.ndarray, n_bins: int) -> np.ndarray:
    """The bin of each value, as many as thresholds are below it; uint8."""
    return np.searchsorted(thresholds_of(n_bins), values, side="left").astype(np.uint8)


def with_derived_columns(
    columns: Columns, plan: Plan, n_derived: int, n_bins: int
) -> tuple[Columns, Plan]:
    """Columns and plan with made columns behind those of the input."""
    more = np.full(n_derived, NUMBER, dtype=np.uint8)
    extended = Columns(
        np.append(columns.kinds, more),
        np.append(columns.sizes, np.full(n_derived, n_bins - 1)),
        np.append(columns.thresholds, np.tile(thresholds_of(n_bins), n_derived)),
        columns.categories,
    )

    def longer(array: np.ndarray, values: np.ndarray | int) -> np.ndarray:
        return np.append(array, np.full(n_derived, values)).astype(array.dtype)

    return extended, replace(
        plan,
        storage=longer(plan.storage, CODES),
        slots=longer(plan.slots, len(plan.n_codes) + np.arange(n_derived)),
        first_codes=longer(plan.first_codes, 0),
        zeros=longer(plan.zeros, 0),
        has_missing=longer(plan.has_missing, 0),
        # No value is missing; this is the code after the last.
        missing_codes=longer(plan.missing_codes, n_bins),
        missing_ids=longer(plan.missing_ids, -1),
        n_codes=longer(plan.n_codes, n_bins),
    )


def with_values(encoded: EncodedSequences, bins: np.ndarray) -> EncodedSequences:
    """Encoded positions with the bins of one more made column."""
    codes = np.zeros((len(encoded.codes), encoded.codes.shape[1] + 1), dtype=np.uint8)
    codes[:, :-1] = encoded.codes
    codes[encoded.row_of_position, -1] = bins
    has_missing = np.append(encoded.has_missing, False)
    return replace(encoded, codes=codes, has_missing=has_missing)


def constant_tree() -> dict[str, np.ndarray]:
    """A tree of one leaf that says nothing."""
    return _tree(column=np.zeros(1), value=np.zeros(1), weight=np.zeros(1), leaf=np.zeros(1),
                 gain=np.zeros(1), share=np.zeros(1), children=np.full((2, 1), -1))  # fmt: skip


def tree_of_bins(column: int, values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """A tree that has a leaf for each bin of a made column in which there are positions.

    The bins between belong to the nearest of these.

    Parameters
    ----------
    column : int
    values : float64 array (n_bins,)
        What the leaves say.
    weights : float64 array (n_bins,)
        Number of training positions in each bin.
    """
    filled = np.flatnonzero(weights)
    ranges, links = [(0, len(filled))], []
    for first, end in ranges:  # grows as it goes
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
    between = (filled[middle - 1] + filled[np.minimum(middle, len(filled) - 1)]) // 2
    return _tree(
        column=np.where(inner, column, 0),
        value=np.where(inner, between, 0),
        leaf=np.where(inner, 0.0, rounded_leaves(values[first])),
        gain=np.where(inner, np.maximum(explained[children].sum(axis=0) - explained, 0.0), 0.0),
        weight=weight,
        share=np.where(inner, weight[children[0]] / weight, 0.0),
        children=children,
    )


def _tree(*, children: np.ndarray, **fields: np.ndarray) -> dict[str, np.ndarray]:
    """The fields of a tree in a `Forest`, all tests at the position itself."""
    integers = ("column", "value")
    none = np.zeros(0, dtype=np.int32)
    fields = {name: a.astype(np.int32 if name in integers else float) for name, a in fields.items()}
    zeros = np.zeros(children.shape[1], dtype=np.int32)
    surrogates = {f"surrogate_{name}": none for name in ("column", "offset", "value")}
    return fields | surrogates | {
        "offset": zeros,
        "true_child": children[0].astype(np.int32),
        "false_child": children[1].astype(np.int32),
        "n_surrogates": zeros,
        "reversed": np.zeros(0, dtype=bool),
    }  # fmt: skip
