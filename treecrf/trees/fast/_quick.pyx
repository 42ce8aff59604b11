"""Scores of trees at a few positions without missing values, by the tests that hold.

The leaves of a tree are bits of a word, numbered from the false child to the true child of each
node. If the test of a node holds, the leaves under its false child are out of reach, and a position
gets to the first of those that remain. Tests that do not hold take no time (QuickScorer, Lucchese
et al. 2015, https://doi.org/10.1145/2766462.2767733).

Contexts in which the same tests of previous labels hold are a group. Most contexts are in the main
group of a tree, whose value is added to all contexts; other groups add the difference.
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from treecrf.trees.scoring._answers cimport Bits

cdef extern from "trees/bitsets.h" nogil:
    int count_bits(uint64_t word)
    int lowest_bit(uint64_t word)

# Maximum number of leaves of a tree: they are the bits of a word.
MAX_LEAVES = 64

TREE = np.dtype([("main", np.uint64), ("sensitive", np.uint64), ("first_group", np.int32),
                 ("last_group", np.int32), ("first_value", np.int32), ("unused", np.int32)])
GROUP = np.dtype([("contexts", np.uint64), ("leaves", np.uint64)])


cdef class QuickScorer:
    """Evaluator of few positions, in at most 64 contexts, with trees of at most 64 leaves."""

    def __init__(self, packed, passing, n_contexts):
        """Number the leaves; ``passing`` and ``n_contexts`` are as in `Walker`."""
        # Classes one after another, so that the leaves of a class stay in the cache.
        order = np.argsort(packed.classes, kind="stable")
        place = np.argsort(order).astype(np.int32)
        self.n_trees = len(order)
        self.n_labels = packed.n_labels
        self.n_tests = packed.tests.n_plain
        self.n_contexts = np.array(n_contexts, dtype=np.int32)
        self.classes = np.searchsorted(packed.classes[order],
                                       np.arange(self.n_labels + 1)).astype(np.int32)
        numbers, remaining, sensitive = number_leaves(packed)
        on_window = (packed.test_of_node >= 0) & (packed.test_of_node < len(packed.tests))
        nodes = np.flatnonzero(on_window)
        nodes = nodes[np.argsort(packed.test_of_node[nodes], kind="stable")]
        self.tests = np.searchsorted(packed.test_of_node[nodes],
                                     np.arange(self.n_tests + 1)).astype(np.int32)
        self.entry_trees = np.repeat(place, np.diff(packed.starts))[nodes]
        self.entry_leaves = remaining[nodes]
        leaves = np.flatnonzero(packed.test_of_node < 0)
        tree_of = np.repeat(np.arange(self.n_trees), np.diff(packed.starts))[leaves]
        self.values = packed.nodes["leaf"][leaves[np.lexsort((numbers[leaves], tree_of))]]
        trees = np.zeros((len(n_contexts), self.n_trees), dtype=TREE)
        trees["sensitive"] = sensitive[order]
        trees["first_value"] = np.searchsorted(tree_of, np.arange(self.n_trees))[order]
        self.groups = grouped(packed, order, remaining, passing, n_contexts, trees)
        self.trees = trees

    cdef Py_ssize_t n_steps(self, const Bits *block) noexcept nogil:
        """Count the nodes whose tests hold, over the positions of a block."""
        cdef Py_ssize_t k, n = 0
        for k in range(self.n_tests):
            if block.columns[k]:
                n += count_bits(block.columns[k]) * (self.tests[k + 1] - self.tests[k])
        return n

    cdef void add_block(self, const Bits *block, const uint8_t *depth, uint64_t *reach,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        """Add the trees' values to the scores of a block of positions; see `Walker.add_block`.

        ``reach`` has room for a word for every position and tree.
        """
        cdef Py_ssize_t i, v, k, e
        cdef uint64_t positions
        cdef uint64_t *leaves
        memset(reach, 255, block.size * self.n_trees * sizeof(uint64_t))
        for k in range(self.n_tests):
            positions = block.columns[k]
            while positions:
                leaves = reach + lowest_bit(positions) * self.n_trees
                for e in range(self.tests[k], self.tests[k + 1]):
                    leaves[self.entry_trees[e]] &= self.entry_leaves[e]
                positions &= positions - 1
        # Class by class, so that the leaves of its trees stay in the cache.
        for v in range(self.n_labels):
            for i in range(block.size):
                self._add(v, reach + i * self.n_trees, depth[i], rows[i] + v * class_size)

    cdef void _add(self, Py_ssize_t class_, const uint64_t *reach, Py_ssize_t depth,
                   double *row) noexcept nogil:
        """Add the values of the leaves that a position gets to in the trees of a class."""
        cdef const Tree *tree
        cdef const double *values
        cdef Py_ssize_t i, leaf, c
        cdef double total = 0.0
        for i in range(self.classes[class_], self.classes[class_ + 1]):
            tree = &self.trees[depth, i]
            values = &self.values[tree.first_value]
            leaf = lowest_bit(reach[i] & tree.main)
            total += values[leaf]
            if tree.sensitive >> leaf & 1:
                self._add_groups(tree, reach[i], values, leaf, row)
        for c in range(self.n_contexts[depth]):
            row[c] += total

    cdef void _add_groups(self, const Tree *tree, uint64_t reach, const double *values,
                          Py_ssize_t leaf, double *row) noexcept nogil:
        """Add the differences of the values in other groups from that in the main group."""
        cdef const Group *group
        cdef Py_ssize_t g
        cdef double more
        cdef uint64_t contexts
        for g in range(tree.first_group, tree.last_group):
            group = &self.groups[g]
            # Nearly always, the main group excludes no leaf, so that leaves before this one are out
            # of reach here too.
            if ~tree.main == 0 and group.leaves >> leaf & 1:
                continue
            more = values[lowest_bit(reach & group.leaves)] - values[leaf]
            contexts = group.contexts if more else 0
            while contexts:
                row[lowest_bit(contexts)] += more
                contexts &= contexts - 1


def number_leaves(packed):
    """Number the leaves of each tree.

    Return for each node its first leaf and, as bits, the leaves that are not under its false child;
    and for each tree the leaves that have a test of a previous label above them.
    """
    cdef const int32_t[::1] tests = packed.test_of_node, starts = packed.starts
    cdef const int32_t[::1] passed, failed
    cdef Py_ssize_t n_tests = len(packed.tests), n_nodes = tests.shape[0]
    cdef Py_ssize_t tree, node, start, child
    cdef int32_t[::1] first = np.zeros(n_nodes, dtype=np.int32)
    cdef int32_t[::1] n_leaves = np.ones(n_nodes, dtype=np.int32)
    cdef uint8_t[::1] below = np.zeros(n_nodes, dtype=np.uint8)
    cdef uint64_t[::1] remaining = np.zeros(n_nodes, dtype=np.uint64)
    cdef uint64_t[::1] sensitive = np.zeros(starts.shape[0] - 1, dtype=np.uint64)
    passed, failed = packed.children
    for tree in range(starts.shape[0] - 1):
        start = starts[tree]
        for node in range(starts[tree + 1] - 1, start - 1, -1):
            if tests[node] >= 0:
                n_leaves[node] = n_leaves[start + passed[node]] + n_leaves[start + failed[node]]
        for node in range(start, starts[tree + 1]):
            if tests[node] < 0:
                sensitive[tree] |= <uint64_t> below[node] << first[node]
                continue
            child = start + failed[node]
            first[child] = first[node]
            first[start + passed[node]] = first[node] + n_leaves[child]
            # A true child has a leaf, so that no shift is by 64.
            remaining[node] = ~(((<uint64_t> 1 << n_leaves[child]) - 1) << first[node])
            below[child] = below[start + passed[node]] = below[node] or tests[node] >= n_tests
    return np.asarray(first), np.asarray(remaining), np.asarray(sensitive)


def grouped(packed, order, remaining, passing, n_contexts, trees):
    """Group the contexts of each depth and tree; set the fields of ``trees``, return the groups."""
    on_label = np.flatnonzero(packed.test_of_node >= len(packed.tests))
    cuts = np.searchsorted(on_label, packed.starts).tolist()
    tests = packed.test_of_node[on_label] - len(packed.tests)
    leaves = remaining[on_label]
    groups = []
    for depth, n in enumerate(n_contexts):
        node_contexts = passing[depth][tests]
        rows = []
        for tree in order.tolist():
            nodes = slice(cuts[tree], cuts[tree + 1])
            main, others = context_groups(node_contexts[nodes], leaves[nodes], n)
            rows.append((main, len(groups), len(groups) + len(others)))
            groups += others
        for name, column in zip(("main", "first_group", "last_group"), zip(*rows)):
            trees[name][depth] = column
    return np.array(groups, dtype=GROUP)


def context_groups(
    const uint64_t[::1] passing, const uint64_t[::1] remaining, Py_ssize_t n_contexts
):
    """Group contexts by the leaves that they may reach, given tests of previous labels.

    Each test has the contexts that pass it, and the leaves that remain if it holds. Return the
    leaves of the main group, and the contexts and leaves of all others.
    """
    cdef uint64_t reach[64]
    cdef uint64_t members[64]
    cdef Py_ssize_t c, k, other, main = 0
    for c in range(n_contexts):
        reach[c] = ~<uint64_t> 0
        members[c] = 0
        for k in range(passing.shape[0]):
            if passing[k] >> c & 1:
                reach[c] &= remaining[k]
        other = 0
        while reach[other] != reach[c]:
            other += 1
        members[other] |= <uint64_t> 1 << c
        if count_bits(members[other]) > count_bits(members[main]):
            main = other
    return reach[main], [(members[c], reach[c]) for c in range(n_contexts)
                         if members[c] and c != main]
