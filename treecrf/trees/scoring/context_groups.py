"""Groups of contexts that the trees of a forest do not distinguish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Groups:
    """Groups of contexts with the same outcomes of all tests of previous labels in some trees.

    Each tree of a class divides the contexts into groups. A group that several trees have in common
    is stored once. The groups are ordered by class.
    """

    # uint8 (n_contexts, order * (n_labels + 1) + 1): whether each context passes the tests of
    # previous labels; the last column is unused.
    outcomes: np.ndarray
    classes: np.ndarray
    members: np.ndarray  # uint8 (n_groups, n_contexts)
    starts: np.ndarray  # first of the trees of each group
    trees: np.ndarray  # that have each group


def groups_of(
    classes: np.ndarray,
    tree_of: np.ndarray,
    label_tests: np.ndarray,
    symbols: np.ndarray,
    n_labels: int,
) -> Groups:
    """Group contexts, given tests of previous labels and, ascending, the trees they are in.

    A test is ``lag * (n_labels + 1) + symbol``, where lag 0 is the label before. ``symbols`` holds
    the label at each lag of each context.
    """
    outcomes = outcomes_of(symbols, n_labels)
    cuts = np.searchsorted(tree_of, np.arange(len(classes) + 1)).tolist()
    found: dict[tuple[int, bytes], list[int]] = {}
    parted: dict[bytes, list[bytes]] = {}
    for tree, class_ in enumerate(classes.tolist()):
        tests = np.unique(label_tests[cuts[tree] : cuts[tree + 1]])
        key = tests.tobytes()
        if key not in parted:
            parted[key] = _parts(outcomes[:, tests])
        for members in parted[key]:
            found.setdefault((class_, members), []).append(tree)
    ordered = sorted(found)
    members = np.frombuffer(b"".join(group for _, group in ordered), dtype=np.uint8)
    return Groups(
        outcomes=np.ascontiguousarray(np.pad(outcomes, [(0, 0), (0, 1)]), dtype=np.uint8),
        classes=np.array([class_ for class_, _ in ordered], dtype=np.int32),
        members=members.reshape(len(ordered), len(symbols)),
        starts=np.cumsum([0, *(len(found[group]) for group in ordered)]).astype(np.int32),
        trees=np.array([tree for group in ordered for tree in found[group]], dtype=np.int32),
    )


def outcomes_of(symbols: np.ndarray, n_labels: int) -> np.ndarray:
    """Mark the contexts that pass each test of previous labels; (n_contexts, n_tests)."""
    lag, symbol = np.divmod(np.arange(symbols.shape[1] * (n_labels + 1)), n_labels + 1)
    return symbols[:, lag] == symbol


def passing_contexts(symbols: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the contexts (at most 64) that pass each test, as bits; uint64 array (n_tests,)."""
    bits = np.packbits(outcomes_of(symbols, n_labels), axis=0, bitorder="little").T
    words = np.zeros((len(bits), 8), dtype=np.uint8)
    words[:, : bits.shape[1]] = bits
    return words.view("<u8")[:, 0].astype(np.uint64)


def _parts(outcomes: np.ndarray) -> list[bytes]:
    """Return the sets of equal rows, as masks of all rows."""
    found: dict[bytes, np.ndarray] = {}
    # A dict takes a fraction of the time of np.unique.
    for context, row in enumerate(np.packbits(outcomes, axis=1)):
        members = found.setdefault(row.tobytes(), np.zeros(len(outcomes), dtype=np.uint8))
        members[context] = 1
    return [members.tobytes() for members in found.values()]
