"""Contexts by the outcomes of tests of previous labels.

A test of a previous label is numbered ``lag * (n_labels + 1) + symbol``, where lag 0 is the label
before. In a context it has one outcome, whatever the position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.chains.contexts import extended_contexts
from treecrf.trees.scoring.packed_trees import ContextTrees


def contexts_at(trees: ContextTrees, depth: int) -> np.ndarray:
    """Return the label at each lag of the contexts of ``depth`` labels; (n_contexts, order)."""
    n_labels = trees.packed.n_labels
    symbols, depth_starts = extended_contexts(n_labels, trees.order)
    start = depth_starts[depth]
    return symbols[start : start + n_labels**depth]


def outcomes(symbols: np.ndarray, n_labels: int) -> np.ndarray:
    """Mark the contexts that pass each test; bool (n_contexts, n_tests)."""
    n_tests = symbols.shape[1] * (n_labels + 1)
    lag, symbol = np.divmod(np.arange(n_tests), n_labels + 1)
    return symbols[:, lag] == symbol


def passing_contexts(trees: ContextTrees) -> np.ndarray:
    """Return the contexts, at most 64, that pass each test, as bits; uint64 (depths, n_tests)."""
    rows = []
    for depth in range(trees.order + 1):
        passes = outcomes(contexts_at(trees, depth), trees.packed.n_labels)
        bits = np.packbits(passes, axis=0, bitorder="little").T
        words = np.zeros((len(bits), 8), dtype=np.uint8)
        words[:, : bits.shape[1]] = bits
        rows.append(words.view("<u8")[:, 0].astype(np.uint64))
    return np.stack(rows)


def numbers_of_contexts(trees: ContextTrees) -> list[int]:
    """Return the number of contexts of each depth, from 0 to the order."""
    return [trees.packed.n_labels**depth for depth in range(trees.order + 1)]


@dataclass(frozen=True)
class Groups:
    """Groups of contexts with the same outcomes of all tests of previous labels in some trees.

    Each tree of a class divides the contexts into groups. A group that several trees have in common
    is stored once. The groups are ordered by class.
    """

    # uint8 (n_contexts, order * (n_labels + 1) + 1): whether each context passes the tests of
    # previous labels; the last column is unused.
    outcomes: np.ndarray
    classes: np.ndarray  # int32 (n_groups,): the class of the trees of each group
    members: np.ndarray  # uint8 (n_groups, n_contexts): 1 for the contexts of a group
    starts: np.ndarray  # int32 (n_groups + 1,): first entry of each group among ``trees``
    trees: np.ndarray  # int32: the trees that have each group


def group_contexts(trees: ContextTrees, depth: int) -> Groups:
    """Group the contexts of ``depth`` labels by the outcomes of the tests in each tree."""
    passes = outcomes(contexts_at(trees, depth), trees.packed.n_labels)
    classes = trees.packed.classes
    trees_of_group: dict[tuple[int, bytes], list[int]] = {}
    known: dict[bytes, list[bytes]] = {}
    for tree, tests in enumerate(_label_tests(trees)):
        key = tests.tobytes()
        if key not in known:
            known[key] = _equal_rows(passes[:, tests])
        for members in known[key]:
            trees_of_group.setdefault((int(classes[tree]), members), []).append(tree)
    groups = sorted(trees_of_group)
    members = np.frombuffer(b"".join(members for _, members in groups), dtype=np.uint8)
    sizes = [len(trees_of_group[group]) for group in groups]
    return Groups(
        outcomes=np.ascontiguousarray(np.pad(passes, [(0, 0), (0, 1)]), dtype=np.uint8),
        classes=np.array([class_ for class_, _ in groups], dtype=np.int32),
        members=members.reshape(len(groups), len(passes)),
        starts=np.cumsum([0, *sizes]).astype(np.int32),
        trees=np.array([tree for group in groups for tree in trees_of_group[group]], np.int32),
    )


def _label_tests(trees: ContextTrees) -> list[np.ndarray]:
    """Return the distinct tests of previous labels of each tree; none if the labels are given."""
    packed = trees.packed
    on_label = packed.test_of_node >= len(packed.tests)
    if trees.order == 0:
        on_label[:] = False
    nodes = np.flatnonzero(on_label)
    tests = packed.test_of_node[nodes] - len(packed.tests)
    cuts = np.searchsorted(nodes, packed.starts[1:-1])
    return [np.unique(tests_of_tree) for tests_of_tree in np.split(tests, cuts)]


def _equal_rows(table: np.ndarray) -> list[bytes]:
    """Return the sets of equal rows, as masks of all rows."""
    sets: dict[bytes, np.ndarray] = {}
    # A dict takes a fraction of the time of np.unique.
    for i, row in enumerate(np.packbits(table, axis=1)):
        mask = sets.setdefault(row.tobytes(), np.zeros(len(table), dtype=np.uint8))
        mask[i] = 1
    return [mask.tobytes() for mask in sets.values()]
