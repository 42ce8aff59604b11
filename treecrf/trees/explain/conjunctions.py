"""Forests as distinct conjunctions of window tests, with weights by label and context.

Tests that others imply are left out, so the conjunctions are conditions that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from treecrf.encoding.column_layout import BOUNDARY, MISSING
from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import Test, points_down
from treecrf.trees.forest import LABEL, TEST, Forest

# Maximum number of leaves whose paths are in memory at the same time.
MAX_LEAVES = 50_000

Tests = frozenset[tuple[Test, bool]]

# A literal consists of four integers.
LITERAL_BYTES = 4 * np.dtype(np.int32).itemsize


@dataclass(frozen=True)
class Literals:
    """Tests and their outcomes on the paths to some leaves.

    All arrays have shape (n_literals,) and are of int64, except for ``holds`` (bool): whether the
    test must hold for the leaf.
    """

    leaf: np.ndarray
    column: np.ndarray
    offset: np.ndarray
    value: np.ndarray
    holds: np.ndarray

    def take(self, chosen: np.ndarray) -> Literals:
        """Select literals by a mask or by indices."""
        return Literals(*(array[chosen] for array in vars(self).values()))

    def sorted(self) -> Literals:
        """Sort the literals by leaf, column, offset, value and outcome."""
        keys = (self.holds, self.value, self.offset, self.column, self.leaf)
        return self.take(np.lexsort(keys))


def leaves_of(packed: dict[str, np.ndarray]) -> np.ndarray:
    """Return the indices of the leaves among the nodes of packed trees."""
    return np.flatnonzero(packed["true_child"] < 0)


def paths_of(packed: dict[str, np.ndarray]) -> Literals:
    """Return all tests on the paths to all leaves, which are numbered across the trees."""
    parents, outcomes = _parents_of(packed)
    nodes = leaves_of(packed)
    leaf = np.arange(len(nodes))
    steps = [np.zeros((3, 0), dtype=np.int64)]
    # All leaves go up at the same time, until they are at their root.
    while len(nodes):
        above = parents[nodes]
        below_root = above >= 0
        leaf = leaf[below_root]
        nodes = nodes[below_root]
        above = above[below_root]
        steps.append(np.stack([leaf, above, outcomes[nodes]]))
        nodes = above
    leaf, node, holds = np.hstack(steps)
    tests = (packed[name][node].astype(np.int64) for name in TEST)
    return Literals(leaf, *tests, holds.astype(bool))


def _parents_of(packed: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the parent of each node, -1 for roots, and the outcome of its test."""
    starts = packed["starts"]
    n = len(packed["leaf"])
    root = np.repeat(starts[:-1], np.diff(starts)).astype(np.int64)
    inner = np.flatnonzero(packed["true_child"] >= 0)
    parents = np.full(n, -1)
    outcomes = np.zeros(n, dtype=bool)
    for child, outcome in (("true_child", True), ("false_child", False)):
        children = root[inner] + packed[child][inner]
        parents[children] = inner
        outcomes[children] = outcome
    return parents, outcomes


def label_masks(literals: Literals, n_leaves: int, n_labels: int, order: int) -> np.ndarray:
    """Mark the previous labels possible at each leaf and lag, the last one for none."""
    masks = np.ones((n_leaves, order, n_labels + 1), dtype=bool)
    label_tests = literals.take(literals.column == LABEL)
    one = np.eye(n_labels + 1, dtype=bool)[label_tests.value]
    allowed = np.where(label_tests.holds[:, np.newaxis], one, ~one)
    np.logical_and.at(masks, (label_tests.leaf, label_tests.offset - 1), allowed)
    return masks


def window_literals(literals: Literals, encoder: Encoder) -> Literals:
    """Return the window tests, sorted, without those that others of the same leaf imply.

    This is valid if no value is missing: a category excludes the others, a threshold implies those
    beyond it, and all tests outside of the sequence fail.
    """
    literals = literals.take(literals.column != LABEL)
    literals = _without_weaker_thresholds(literals, encoder)
    literals = _without_excluded(literals, encoder)
    for side in (-1, 1):
        literals = _without_implied_ends(literals, side)
    return literals.sorted()


def _without_weaker_thresholds(literals: Literals, encoder: Encoder) -> Literals:
    """Keep the strictest of the thresholds of a number that pass, and of those that fail."""
    column = literals.column
    is_ordered = (column != BOUNDARY) & ~encoder.columns.is_category[np.maximum(column, 0)]
    is_ordered &= literals.value != MISSING
    below = points_down(encoder, column, literals.value)
    weakness = np.where(literals.holds ^ below, -literals.value, literals.value) * is_ordered
    value = np.where(is_ordered, 0, literals.value)
    keys = (value, below, literals.holds, literals.offset, column, literals.leaf)
    ranking = np.lexsort((weakness, *keys))
    is_first = np.ones(len(ranking), dtype=bool)
    is_first[1:] = np.any([np.diff(key[ranking]) for key in keys], axis=0)
    return literals.take(ranking[is_first])


def _without_excluded(literals: Literals, encoder: Encoder) -> Literals:
    """Drop negative tests that a positive one implies.

    It may be one of a category, or of a number's sign. A value that passes a test is not missing.
    """
    is_end = literals.column == BOUNDARY
    real = np.maximum(literals.column, 0)
    below = points_down(encoder, literals.column, literals.value)
    is_category = encoder.columns.is_category[real]
    # A value that passes a test fails tests of other categories, or on the other side of 0.
    side = np.where(literals.holds | is_category, below, ~below)
    left, right = encoder.window
    n_offsets = left + right + 1
    n_columns = len(encoder.columns) + 1
    sites = (literals.leaf * n_columns + literals.column + 1) * n_offsets + literals.offset + left
    is_missing = literals.value == MISSING
    passes = literals.holds & ~is_end & ~is_missing
    keys = 2 * sites + side
    known = np.where(is_missing, np.isin(sites, sites[passes]), np.isin(keys, keys[passes]))
    return literals.take(is_end | literals.holds | ~known)


def _without_implied_ends(literals: Literals, side: int) -> Literals:
    """Keep one positive and one negative boundary test at negative or at positive offsets."""
    n_leaves = int(literals.leaf.max(initial=-1)) + 1
    distance = literals.offset * side
    on_side = distance > 0
    is_end = literals.column == BOUNDARY
    # A test that holds implies a position at its offset and at all offsets closer to 0.
    reached = np.zeros(n_leaves, dtype=np.int64)
    inside = np.zeros(n_leaves, dtype=np.int64)
    ended = np.full(n_leaves, np.iinfo(np.int64).max)
    for limits, limit, chosen in (
        (reached, np.maximum, on_side & ~is_end & literals.holds),
        (inside, np.maximum, on_side & is_end & ~literals.holds),
        (ended, np.minimum, on_side & is_end & literals.holds),
    ):
        limit.at(limits, literals.leaf[chosen], distance[chosen])
    reached, inside, ended = (limits[literals.leaf] for limits in (reached, inside, ended))
    implied_by_inside = (distance <= reached) | (distance < inside)
    implied = np.where(
        is_end,
        np.where(literals.holds, distance > ended, implied_by_inside),
        ~literals.holds & (distance >= ended),
    )
    return literals.take(~(on_side & implied))


@dataclass(frozen=True)
class WeightedConjunctions:
    """The conjunctions of a forest, and the weights that they add to scores.

    An entry is a weight of one conjunction, for one label in one set of contexts.
    """

    starts: np.ndarray  # int64; first literal of each conjunction
    # int32 (n_literals, 4): column, offset and value of a test, and whether it must hold.
    literals: np.ndarray
    conjunctions: np.ndarray  # int32; of each entry, sorted; then by set and label
    sets: np.ndarray  # int32; set of contexts of each entry
    labels: np.ndarray  # int32; of each entry
    weights: np.ndarray
    # bool (n_sets, order, n_labels + 1): previous labels at each lag in each set of contexts, the
    # last for none; set 0 has all.
    masks: np.ndarray
    entry_of_leaf: np.ndarray  # int32; -1 if the sum of its entry is 0 and was left out

    def __len__(self) -> int:
        """Return the number of conjunctions."""
        return len(self.starts) - 1

    @property
    def conjunction_of_leaf(self) -> np.ndarray:
        """The conjunction of each leaf; -1 if it has none."""
        return np.append(self.conjunctions, -1)[self.entry_of_leaf]

    def tests_of(self, k: int) -> list[tuple[tuple[int, int, int], bool]]:
        """Return a conjunction's literals as `treecrf.encoding.names.conjunction` needs them."""
        rows = self.literals[self.starts[k] : self.starts[k + 1]].tolist()
        return [((column, offset, value), bool(holds)) for column, offset, value, holds in rows]


def conjunctions_of(forest: Forest, encoder: Encoder) -> WeightedConjunctions:
    """Flatten a forest: merge equal conjunctions and add their weights.

    Sums of 0, and conjunctions without other sums, are left out.
    """
    forest = forest.one_output_per_tree()
    numbers: dict[bytes, int] = {}  # of the distinct conjunctions
    masks = [np.ones((1, forest.order, forest.n_labels + 1), dtype=bool)]
    leaves = [LeafColumns(*np.zeros((2, 0), np.int64), np.zeros(0))]
    for trees, first in _runs_of_trees(forest):
        packed = trees.pack()
        paths = paths_of(packed)
        indices = leaves_of(packed)
        masks.append(label_masks(paths, len(indices), forest.n_labels, forest.order))
        conjunctions = _number(window_literals(paths, encoder), len(indices), numbers)
        labels = np.arange(first, first + len(trees.trees)) % forest.n_labels
        labels = np.repeat(labels, np.diff(packed["starts"]))[indices]
        leaves.append(LeafColumns(conjunctions, labels, packed["leaf"][indices]))
    conjunctions, labels, values = (np.concatenate(arrays) for arrays in zip(*leaves, strict=True))
    distinct_masks, sets = _distinct_sets(np.concatenate(masks))
    table = np.stack([conjunctions, sets, labels], axis=1)
    entries, which = np.unique(table, axis=0, return_inverse=True)
    which = which.reshape(-1)
    weights = np.bincount(which, values, len(entries)).astype(np.float64)
    has_weight = weights != 0
    used, used_conjunctions = np.unique(entries[has_weight, 0], return_inverse=True)
    every = list(numbers)
    keys = [every[k] for k in used.tolist()]
    new_index = np.where(has_weight, np.cumsum(has_weight) - 1, -1)
    ends = np.cumsum([0, *(len(key) // LITERAL_BYTES for key in keys)])
    return WeightedConjunctions(
        starts=ends.astype(np.int64),
        literals=np.frombuffer(b"".join(keys), dtype=np.int32).reshape(-1, 4),
        conjunctions=used_conjunctions.astype(np.int32),
        sets=entries[has_weight, 1].astype(np.int32),
        labels=entries[has_weight, 2].astype(np.int32),
        weights=weights[has_weight],
        masks=distinct_masks,
        entry_of_leaf=new_index[which].astype(np.int32),
    )


class LeafColumns(NamedTuple):
    """What `conjunctions_of` collects of the leaves of some trees."""

    conjunctions: np.ndarray  # int64; number of the conjunction of each leaf
    labels: np.ndarray  # int64; label of its tree
    values: np.ndarray  # float64


def _runs_of_trees(forest: Forest) -> Iterator[tuple[Forest, int]]:
    """Yield runs of trees with a limited number of leaves, and the index of their first tree."""
    sizes = np.array([(tree["true_child"] < 0).sum() for tree in forest.trees], dtype=np.int64)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // MAX_LEAVES, prepend=0)).tolist()
    for first, last in pairwise([0, *cuts, len(sizes)]):
        if first < last:
            yield forest.single_trees(first, last), first


def _number(literals: Literals, n_leaves: int, numbers: dict[bytes, int]) -> np.ndarray:
    """Return the number of the conjunction of each leaf; new ones are added to ``numbers``."""
    columns = (literals.column, literals.offset, literals.value, literals.holds)
    content = np.stack(columns, axis=1).astype(np.int32).tobytes()
    ends = np.searchsorted(literals.leaf, np.arange(n_leaves + 1)) * LITERAL_BYTES
    conjunctions = [
        numbers.setdefault(content[start:end], len(numbers))
        for start, end in pairwise(ends.tolist())
    ]
    return np.array(conjunctions, dtype=np.int64)


def _distinct_sets(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct masks, in order of first occurrence; index all masks but the first."""
    flat = np.packbits(masks.reshape(len(masks), masks[0].size), axis=1)
    flat = np.pad(flat, [(0, 0), (0, 1)])  # `unique` needs a column even if there are no lags
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return masks[first[order]], rank[which.reshape(-1)][1:]


@dataclass(frozen=True)
class Condition:
    """The condition under which a leaf is reached."""

    window: Tests  # column, offset and value of each window test, and whether it must hold
    # Bit sets of the previous labels possible at each lag, from lag 1; the bit after the last label
    # stands for none.
    labels: tuple[int, ...]


def leaf_values(forest: Forest, encoder: Encoder) -> dict[tuple[int, Condition], float]:
    """Sum the leaf values that have the same label and condition.

    Conditions that differ only in tests implied by others are the same; this is exact if no value
    is missing.
    """
    flat = conjunctions_of(forest, encoder)
    windows = [frozenset(flat.tests_of(k)) for k in range(len(flat))]
    sets = [tuple(bits_of(lag) for lag in mask) for mask in flat.masks]
    entries = zip(flat.conjunctions, flat.sets, flat.labels.tolist(), flat.weights, strict=True)
    return {
        (label, Condition(windows[k], sets[s])): float(weight) for k, s, label, weight in entries
    }


def bits_of(mask: np.ndarray) -> int:
    """Convert a mask to an integer, with bit k for element k."""
    return sum(1 << int(symbol) for symbol in np.flatnonzero(mask))
