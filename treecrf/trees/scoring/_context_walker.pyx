"""Scores of trees at a few positions, in any number of contexts, also without some values.

Positions walk down a tree one after the other, all contexts of a position together. A test of a
previous label separates the contexts, and one of a missing value the weight of the position. The
branches that wait are on a stack.
"""

import numpy as np

from treecrf.chains.contexts import extended_contexts

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from treecrf.chains._memory cimport Memory, take, take_doubles
from treecrf.trees.growing._sets cimport WHOLE, fraction_of, value_of_fraction
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator

cdef extern from "trees/bitsets.h" nogil:
    int lowest_bit(uint64_t word)


cdef class ContextWalker(BlockEvaluator):
    """Evaluator of blocks of positions, which need not have all values."""

    def __init__(self, trees, bint follows_surrogates):
        """Pack the nodes of `ContextTrees`."""
        packed = trees.packed
        sizes = np.diff(packed.starts)
        passed, failed = packed.children
        first = np.repeat(packed.starts[: packed.n_trees], sizes)
        self.roots = packed.starts[: packed.n_trees]
        self.classes = packed.classes
        self.tests = packed.test_of_node
        self.children = np.stack([first + failed, first + passed], axis=1)
        self.values = packed.nodes["leaf"].reshape(len(first), -1)
        self.shares = np.rint(packed.nodes["share"] * WHOLE).astype(np.uint32)
        self.n_labels = packed.n_labels
        self.n_tests = len(packed.tests)
        self.max_nodes = max(sizes, default=0)
        self.n_contexts = np.array([packed.n_labels**d for d in range(trees.order + 1)],
                                   dtype=np.int32)
        self.passing = passing_words(packed.n_labels, trees.order)
        self.every = contexts_as_words(np.arange(self.n_contexts[trees.order])
                                       < np.asarray(self.n_contexts)[:, None])
        self.takes_missing = not follows_surrogates

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        self.add_incomplete(block, NULL, depth, memory, rows, class_size)

    cdef void add_incomplete(self, const Bits *block, const uint64_t *missing,
                             const uint8_t *depth, Memory *memory, double **rows,
                             Py_ssize_t class_size) noexcept nogil:
        """As `add_block`, given the positions that lack the value of each test, as bits."""
        cdef Walk walk
        cdef Py_ssize_t i, v, c
        cdef double *row
        walk.branches = <Branch *> take(memory, (self.max_nodes + 2) * sizeof(Branch))
        walk.contexts = <uint64_t *> take(
            memory, (self.max_nodes + 2) * self.every.shape[1] * sizeof(uint64_t))
        walk.totals = take_doubles(memory, self.n_labels)
        if memory.failed:
            return
        for i in range(block.size):
            memset(walk.totals, 0, self.n_labels * sizeof(double))
            self._add_position(&walk, block, missing, i, depth[i], rows[i], class_size)
            for v in range(self.n_labels):
                row = rows[i] + v * class_size
                for c in range(self.n_contexts[depth[i]]):
                    row[c] += walk.totals[v]

    cdef void _add_position(self, Walk *walk, const Bits *block, const uint64_t *missing,
                            Py_ssize_t i, uint8_t depth, double *row,
                            Py_ssize_t class_size) noexcept nogil:
        """Add the values of all trees at the i-th position of a block."""
        cdef Py_ssize_t tree, n_words = self.every.shape[1]
        cdef Branch *branch
        for tree in range(self.roots.shape[0]):
            walk.branches[0] = Branch(self.roots[tree], WHOLE, True)
            memcpy(walk.contexts, &self.every[depth, 0], n_words * sizeof(uint64_t))
            walk.n = 1
            while walk.n:
                walk.n -= 1
                branch = walk.branches + walk.n
                while self.tests[branch.node] >= 0:
                    if self.tests[branch.node] >= self.n_tests:
                        branch = self._split_contexts(walk, branch, depth)
                    elif missing != NULL and missing[self.tests[branch.node]] >> i & 1:
                        branch = self._split_weight(walk, branch)
                    else:
                        branch.node = self.children[
                            branch.node, block.columns[self.tests[branch.node]] >> i & 1]
                self._add_leaf(walk, branch, self.classes[tree], row, class_size)

    cdef Branch *_split_contexts(self, Walk *walk, Branch *branch, uint8_t depth) noexcept nogil:
        """Follow the contexts that pass a test of a previous label, or else those that fail."""
        cdef Py_ssize_t w, n_words = self.every.shape[1]
        cdef uint64_t *contexts = walk.contexts + walk.n * n_words
        cdef Py_ssize_t test = self.tests[branch.node] - self.n_tests
        cdef const uint64_t *passing = &self.passing[depth, test, 0]
        cdef uint64_t any_passes = 0, any_fails = 0
        for w in range(n_words):
            any_passes |= contexts[w] & passing[w]
            any_fails |= contexts[w] & ~passing[w]
        if any_passes and any_fails:
            for w in range(n_words):
                contexts[n_words + w] = contexts[w] & passing[w]
                contexts[w] &= ~passing[w]
            return self._wait(walk, branch, branch.weight, False)
        branch.node = self.children[branch.node, any_passes != 0]
        return branch

    cdef Branch *_split_weight(self, Walk *walk, Branch *branch) noexcept nogil:
        """Follow both children with the weights of a position that lacks the value of a test."""
        cdef Py_ssize_t n_words = self.every.shape[1]
        cdef uint32_t passing = fraction_of(branch.weight, self.shares[branch.node])
        cdef uint64_t *contexts = walk.contexts + walk.n * n_words
        if 0 < passing < branch.weight:
            memcpy(contexts + n_words, contexts, n_words * sizeof(uint64_t))
            return self._wait(walk, branch, passing, branch.has_all)
        branch.node = self.children[branch.node, passing > 0]
        return branch

    cdef Branch *_wait(self, Walk *walk, Branch *branch, uint32_t passing,
                       bint has_all) noexcept nogil:
        """Leave the branch that fails a test on the stack; return the one that passes it."""
        cdef Branch *passed = branch + 1
        passed.node = self.children[branch.node, 1]
        passed.weight = passing
        passed.has_all = has_all
        branch.node = self.children[branch.node, 0]
        branch.has_all = has_all
        if passing < branch.weight:
            branch.weight -= passing
        walk.n += 1
        return passed

    cdef void _add_leaf(self, Walk *walk, const Branch *branch, int32_t class_, double *row,
                        Py_ssize_t class_size) noexcept nogil:
        """Add the value of a leaf, or its values of all classes, in the contexts that reach it."""
        cdef Py_ssize_t v, first = max(class_, 0)
        for v in range(self.values.shape[1]):
            self._add_value(walk, branch, first + v,
                            value_of_fraction(self.values[branch.node, v], branch.weight),
                            row + (first + v) * class_size)

    cdef void _add_value(self, Walk *walk, const Branch *branch, Py_ssize_t class_,
                         double value, double *row) noexcept nogil:
        cdef Py_ssize_t w, n_words = self.every.shape[1]
        cdef uint64_t word
        if branch.has_all:
            walk.totals[class_] += value
            return
        for w in range(n_words):
            word = walk.contexts[walk.n * n_words + w]
            while word:
                row[64 * w + lowest_bit(word)] += value
                word &= word - 1


def passing_words(n_labels, order):
    """Return the contexts of each depth that pass each test of a previous label, as bits.

    uint64 array (order + 1, order * (n_labels + 1), n_words). A test is numbered as in
    `PackedTrees.test_of_node`, after the tests of the window.
    """
    symbols, depth_starts = extended_contexts(n_labels, order)
    n_contexts = n_labels**order
    lag, symbol = np.divmod(np.arange(order * (n_labels + 1)), n_labels + 1)
    tables = []
    for depth in range(order + 1):
        passes = np.zeros((len(lag), n_contexts), dtype=bool)
        at_depth = symbols[depth_starts[depth] : depth_starts[depth] + n_labels**depth]
        passes[:, : len(at_depth)] = (at_depth[:, lag] == symbol).T
        tables.append(contexts_as_words(passes))
    return np.stack(tables)


def contexts_as_words(are_members):
    """Return sets of contexts, (n_sets, n_contexts), as bits; uint64 (n_sets, n_words)."""
    n_sets, n_contexts = are_members.shape
    padded = np.zeros((n_sets, (n_contexts + 63) // 64 * 64), dtype=bool)
    padded[:, :n_contexts] = are_members
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64)
