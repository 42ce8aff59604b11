"""Forests as distinct conjunctions of window tests, with weights by label and context.

Tests that others imply are left out, so the conjunctions are conditions that can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import Test
from treecrf.trees.forest import Forest
from treecrf.trees.paths import Literals, label_masks, leaves_of, paths_of, window_literals

# Maximum number of leaves whose paths are in memory at the same time.
MAX_LEAVES = 50_000

Tests = frozenset[tuple[Test, bool]]

# A literal consists of four integers.
LITERAL_BYTES = 4 * np.dtype(np.int32).itemsize


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
    def entry_starts(self) -> np.ndarray:
        """First entry of each conjunction, and the number of entries."""
        return np.searchsorted(self.conjunctions, np.arange(len(self) + 1))

    @property
    def conjunction_of_leaf(self) -> np.ndarray:
        """The conjunction of each leaf; -1 if it has none."""
        return np.append(self.conjunctions, -1)[self.entry_of_leaf]

    def tests_of(self, k: int) -> list[tuple[tuple[int, int, int], bool]]:
        """Return a conjunction's literals as `treecrf.encoding.names.conjunction` needs them."""
        rows = self.literals[self.starts[k] : self.starts[k + 1]].tolist()
        return [((column, offset, value), bool(holds)) for column, offset, value, holds in rows]


def conjunctions_of(forest: Forest, encoder: Encoder) -> WeightedConjunctions:
    """Flatten a forest: merge equal conjunctions and add their weights."""
    keys: dict[bytes, int] = {}
    masks = [np.ones((1, forest.order, forest.n_labels + 1), dtype=bool)]
    conjunctions, labels, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for first, last in _runs(forest):
        some = forest.some(first, last)
        packed = some.pack()
        leaves, paths = leaves_of(packed), paths_of(packed)
        of_trees = np.arange(first, last) % forest.n_labels
        labels.append(np.repeat(of_trees, np.diff(packed["starts"]))[leaves])
        values.append(packed["leaf"][leaves])
        masks.append(label_masks(paths, len(leaves), forest.n_labels, forest.order))
        conjunctions.append(_number(window_literals(paths, encoder), len(leaves), keys))
    parts = (np.concatenate(part) for part in (conjunctions, masks, labels, values))
    return _merged(list(keys), *parts)


def _runs(forest: Forest) -> list[tuple[int, int]]:
    """Return the runs of trees with at most about `MAX_LEAVES` leaves each."""
    sizes = np.array([(tree["true_child"] < 0).sum() for tree in forest.trees], dtype=np.int64)
    ends = np.cumsum(sizes)
    cuts = np.flatnonzero(np.diff(ends // MAX_LEAVES, prepend=0)).tolist()
    return [(a, b) for a, b in pairwise([0, *cuts, len(sizes)]) if a < b]


def _number(literals: Literals, n_leaves: int, keys: dict[bytes, int]) -> np.ndarray:
    """Return the index of each leaf's conjunction; new conjunctions are added to ``keys``."""
    columns = (literals.column, literals.offset, literals.value, literals.holds)
    table = np.stack(columns, axis=1).astype(np.int32)
    ends = np.searchsorted(literals.leaf, np.arange(n_leaves + 1)) * LITERAL_BYTES
    content = table.tobytes()
    return np.array(
        [keys.setdefault(content[a:b], len(keys)) for a, b in pairwise(ends.tolist())],
        dtype=np.int64,
    )


def _merged(
    keys: list[bytes],
    conjunctions: np.ndarray,
    masks: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
) -> WeightedConjunctions:
    """Add the values of leaves with the same conjunction, contexts and label.

    Sums of 0, and conjunctions without other sums, are left out. The first of ``masks`` is for
    all contexts; the masks of the leaves follow.
    """
    masks, sets = _distinct_sets(masks)
    table = np.stack([conjunctions, sets, labels], axis=1)
    entries, which = np.unique(table, axis=0, return_inverse=True)
    which = which.reshape(-1)
    weights = np.bincount(which, values, minlength=len(entries)).astype(np.float64)
    kept = weights != 0
    used, of_entries = np.unique(entries[kept, 0], return_inverse=True)
    keys = [keys[k] for k in used.tolist()]
    new_index = np.where(kept, np.cumsum(kept) - 1, -1)
    return WeightedConjunctions(
        starts=np.append(0, np.cumsum([len(key) // LITERAL_BYTES for key in keys])).astype(
            np.int64
        ),
        literals=np.frombuffer(b"".join(keys), dtype=np.int32).reshape(-1, 4),
        conjunctions=of_entries.astype(np.int32),
        sets=entries[kept, 1].astype(np.int32),
        labels=entries[kept, 2].astype(np.int32),
        weights=weights[kept],
        masks=masks,
        entry_of_leaf=new_index[which].astype(np.int32),
    )


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
