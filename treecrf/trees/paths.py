"""Paths to the leaves of packed trees, without the tests that others imply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import points_down
from treecrf.encoding.plan import BOUNDARY
from treecrf.trees.forest import LABEL, TEST


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
    n, starts = len(packed["leaf"]), packed["starts"]
    first = np.repeat(starts[:-1], np.diff(starts)).astype(np.int64)
    inner = np.flatnonzero(packed["true_child"] >= 0)
    parent, outcomes = np.full(n, -1), np.zeros(n, dtype=bool)
    for child, outcome in (("true_child", True), ("false_child", False)):
        children = first[inner] + packed[child][inner]
        parent[children], outcomes[children] = inner, outcome
    here = leaves_of(packed)
    leaf, steps = np.arange(len(here)), []
    while len(here):
        above = parent[here]
        below_root = above >= 0
        leaf, here, above = leaf[below_root], here[below_root], above[below_root]
        steps.append(np.stack([leaf, above, outcomes[here]]))
        here = above
    leaf, node, holds = np.hstack(steps) if steps else np.zeros((3, 0), dtype=np.int64)
    tests = (packed[name][node].astype(np.int64) for name in TEST)
    return Literals(leaf, *tests, holds.astype(bool))


def label_masks(literals: Literals, n_leaves: int, n_labels: int, order: int) -> np.ndarray:
    """Mark the previous labels possible at each leaf and lag, the last one for none."""
    masks = np.ones((n_leaves, order, n_labels + 1), dtype=bool)
    of_labels = literals.take(literals.column == LABEL)
    one = np.eye(n_labels + 1, dtype=bool)[of_labels.value]
    allowed = np.where(of_labels.holds[:, np.newaxis], one, ~one)
    np.logical_and.at(masks, (of_labels.leaf, of_labels.offset - 1), allowed)
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
    below = points_down(encoder, column, literals.value)
    weakness = np.where(literals.holds ^ below, -literals.value, literals.value) * is_ordered
    value = np.where(is_ordered, 0, literals.value)
    keys = (value, below, literals.holds, literals.offset, column, literals.leaf)
    ranking = np.lexsort((weakness, *keys))
    return literals.take(ranking[_starts_of_runs([key[ranking] for key in keys])])


def _without_excluded(literals: Literals, encoder: Encoder) -> Literals:
    """Drop negative tests that a positive one implies: of a category, or of a number's sign."""
    is_end, real = literals.column == BOUNDARY, np.maximum(literals.column, 0)
    below = points_down(encoder, literals.column, literals.value)
    is_category = encoder.columns.is_category[real]
    # A value that passes a test fails tests of other categories, or on the other side of 0.
    side = np.where(literals.holds | is_category, below, ~below)
    keys = 2 * _sites(literals, encoder) + side
    known = np.isin(keys, keys[literals.holds & ~is_end])
    return literals.take(is_end | literals.holds | ~known)


def _sites(literals: Literals, encoder: Encoder) -> np.ndarray:
    """Return one integer for each combination of leaf, column and offset."""
    left, right = encoder.window
    n_offsets, n_columns = left + right + 1, len(encoder.columns) + 1
    keys = literals.leaf * n_columns + literals.column + 1
    return keys * n_offsets + literals.offset + left


def _without_implied_ends(literals: Literals, side: int) -> Literals:
    """Keep one positive and one negative boundary test at negative or at positive offsets."""
    n_leaves = int(literals.leaf.max(initial=-1)) + 1
    far, here = literals.offset * side, literals.offset * side > 0
    is_end = literals.column == BOUNDARY
    # A test that holds implies a position at its offset and at all offsets closer to 0.
    reached, inside = np.zeros((2, n_leaves), dtype=np.int64)
    ended = np.full(n_leaves, np.iinfo(np.int64).max)
    for limits, limit, chosen in (
        (reached, np.maximum, here & ~is_end & literals.holds),
        (inside, np.maximum, here & is_end & ~literals.holds),
        (ended, np.minimum, here & is_end & literals.holds),
    ):
        limit.at(limits, literals.leaf[chosen], far[chosen])
    reached, inside, ended = (limits[literals.leaf] for limits in (reached, inside, ended))
    implied = np.where(
        is_end,
        np.where(literals.holds, far > ended, (far <= reached) | (far < inside)),
        ~literals.holds & (far >= ended),
    )
    return literals.take(~(here & implied))


def _starts_of_runs(keys: list[np.ndarray]) -> np.ndarray:
    """Mark the elements at which any key differs from the one before."""
    starts = np.ones(len(keys[0]), dtype=bool)
    starts[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return starts
