"""Trees as the evaluators read them: nodes in arrays, and the distinct tests of the window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treecrf.encoding.column_layout import LISTED, MISSING, missing_values
from treecrf.encoding.encoder import Encoder
from treecrf.trees.scoring._answers import find_distinct
from treecrf.utils.exact import LEAF_UNIT

# Column of the tests of previous labels.
LABEL = -2
# Fields of a node that are its test.
TEST = ("column", "offset", "value")
# Maximum number of contexts of a position whose sets are the bits of a word.
MAX_CONTEXTS = 64


@dataclass(frozen=True)
class DistinctTests:
    """Distinct tests of rows: tests of nodes, of surrogates alone, and of missing values.

    A missing-value test holds where the value of a column is missing. Tests of nodes are the first
    ``n_plain``; only these matter where no value is missing. Tests that read the same bytes are
    adjacent.
    """

    # int32 arrays (n_tests,); see `treecrf.encoding.column_layout.ColumnLayout.lookups`.
    offsets: np.ndarray  # offset of the row that is tested
    kinds: np.ndarray  # how the value is stored, and how it is compared
    slots: np.ndarray  # index of the stored column
    lows: np.ndarray  # the code or bit to compare with, or the first of the ids to look for
    highs: np.ndarray  # end of these ids
    missing: np.ndarray  # missing-value test of each test, -1 where no value can be missing
    n_plain: int  # number of tests of nodes
    window: tuple[int, int]  # number of rows before and after a position
    n_ids: int  # number of ids that rows may list

    def __len__(self) -> int:
        """Return the number of distinct tests."""
        return len(self.kinds)

    @cached_property
    def by_id(self) -> np.ndarray:
        """The test for one listed id, by offset and id; -1 where there is none."""
        if LISTED not in self.kinds:
            return np.empty((0, 0), dtype=np.int32)
        left = self.window[0]
        table = np.full((sum(self.window) + 1, self.n_ids), -1, dtype=np.int32)
        id_tests = np.flatnonzero((self.kinds == LISTED) & (self.highs == self.lows + 1))
        # Of equal tests, the first one counts: it is written last.
        id_tests = id_tests[::-1]
        table[self.offsets[id_tests] + left, self.lows[id_tests]] = id_tests
        return table


def find_distinct_tests(
    nodes: np.ndarray, surrogates: np.ndarray, encoder: Encoder
) -> tuple[DistinctTests, np.ndarray, np.ndarray]:
    """Find the distinct tests of some nodes and surrogates, and the index of each of these.

    ``nodes`` and ``surrogates`` hold columns, offsets and values of window tests, (3, n).
    """
    columns, offsets, values = np.hstack([nodes, surrogates]).astype(np.int32)
    layout = encoder.layout
    n_nodes = nodes.shape[1]
    kinds, slots, lows, highs = layout.lookups(encoder.columns, columns, values)
    keys = np.stack([offsets, kinds, slots, lows, highs, columns])
    order = np.lexsort(keys[::-1])
    missing = missing_values(layout, columns, values)
    distinct, indices, n_plain = find_distinct(keys, order, missing, n_nodes)
    if (values == MISSING).any():
        _share_ids(distinct)
    tests = DistinctTests(*distinct, n_plain=n_plain, window=encoder.window, n_ids=layout.n_all_ids)
    return tests, indices[:n_nodes], indices[n_nodes:]


def _share_ids(tests: np.ndarray) -> None:
    """Let missing-value tests of listed ids be those of nodes and surrogates, where these exist."""
    offsets, kinds, _, lows, highs, missing = tests
    listed = np.flatnonzero((kinds == LISTED) & (highs == lows + 1))
    ids = np.stack([offsets, lows])[:, listed]
    _, first, inverse = np.unique(ids, axis=1, return_index=True, return_inverse=True)
    same = np.arange(len(kinds) + 1)
    same[listed] = listed[first[inverse.reshape(-1)]]
    missing[:] = np.where(missing >= 0, same[missing], -1)


@dataclass(frozen=True)
class PackedTrees:
    """Trees in arrays, ordered by iteration and, within an iteration, by class.

    A multi-output tree is a tree of all classes.
    """

    nodes: dict[str, np.ndarray]  # the arrays of `treecrf.trees.forest.Forest.pack`
    n_labels: int  # number of labels
    classes: np.ndarray  # int32: the class of each tree; -1 for all
    tests: DistinctTests  # of the window
    # int32: index among the tests of the window, then tests of previous labels; -1 in a leaf.
    test_of_node: np.ndarray
    surrogates: np.ndarray  # int32: index of each surrogate among the tests

    @classmethod
    def of(cls, nodes: dict[str, np.ndarray], encoder: Encoder, n_labels: int) -> PackedTrees:
        """Pack trees, given the arrays of their nodes."""
        on_label = nodes["column"] == LABEL
        is_inner = nodes["true_child"] >= 0
        on_window = is_inner & ~on_label
        node_tests = np.stack([nodes[name] for name in TEST])[:, on_window]
        surrogate_tests = np.stack([nodes[f"surrogate_{name}"] for name in TEST])
        tests, window_tests, surrogates = find_distinct_tests(node_tests, surrogate_tests, encoder)
        label_tests = (nodes["offset"] - 1) * (n_labels + 1) + nodes["value"]
        test_of_node = np.full(len(on_label), -1, dtype=np.int32)
        test_of_node[on_window] = window_tests
        test_of_node[on_label] = len(tests) + label_tests[on_label]
        n_trees = len(nodes["starts"]) - 1
        classes = np.arange(n_trees, dtype=np.int32) % n_labels
        if nodes["leaf"].ndim == 2:
            classes[:] = -1
        return cls(nodes, n_labels, classes, tests, test_of_node, surrogates)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.classes)

    @property
    def is_multi_output(self) -> bool:
        """Whether these are trees of all classes."""
        return self.nodes["leaf"].ndim == 2

    @property
    def has_exact_sums(self) -> bool:
        """Whether the sums of leaf values are the same in any order, as in all trained trees.

        The values are multiples of the unit, and no sum of them exceeds 32 bits.
        """
        return self.largest_sum < 2.0**31

    @cached_property
    def largest_sum(self) -> float:
        """Bound of the absolute sums of leaf values, in units; infinite for other values."""
        leaves = self.nodes["leaf"].reshape(len(self.test_of_node), -1)
        units = np.where(self.nodes["true_child"] < 0, leaves.T, 0.0) / LEAF_UNIT
        if units.size == 0 or (units != np.rint(units)).any():
            return np.inf
        largest = np.maximum.reduceat(np.abs(units), self.starts[:-1], axis=1)
        return float(largest.sum(axis=1).max())

    @property
    def starts(self) -> np.ndarray:
        """First node of each tree, and the number of nodes; int32."""
        return self.nodes["starts"]

    @property
    def children(self) -> tuple[np.ndarray, np.ndarray]:
        """True and false child of each node, counted from the start of its tree; int32."""
        true_child = self.nodes["true_child"].astype(np.int32)
        false_child = self.nodes["false_child"].astype(np.int32)
        return true_child, false_child

    @property
    def surrogate_starts(self) -> np.ndarray:
        """First surrogate of each node, and the number of surrogates; int32."""
        return np.append(0, np.cumsum(self.nodes["n_surrogates"])).astype(np.int32)


@dataclass(frozen=True)
class ContextTrees:
    """Trees, and the contexts of previous labels in which they are evaluated."""

    packed: PackedTrees
    order: int  # number of labels that a context consists of; 0 if they are given
    n_given: int  # number of given labels before a position, which are tested like the window

    @property
    def n_contexts(self) -> int:
        """Number of contexts of a position with ``order`` labels before it."""
        return self.packed.n_labels**self.order

    @property
    def n_scores(self) -> int:
        """Number of scores of a position: of each label in each context."""
        return self.packed.n_labels * self.n_contexts

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.packed.test_of_node)

    @cached_property
    def n_label_tests(self) -> int:
        """Number of nodes that test a previous label."""
        return int(np.count_nonzero(self.packed.test_of_node >= len(self.packed.tests)))

    @property
    def n_tests(self) -> int:
        """Number of tests whose outcomes are the same in all contexts of a position."""
        n_label_tests = self.n_given * (self.packed.n_labels + 1)
        return len(self.packed.tests) + n_label_tests
