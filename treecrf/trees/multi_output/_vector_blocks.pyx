"""Scores of multi-output trees at a few positions, whose set is one word.

A test splits the set of the positions that reach it. Nodes that no position reaches are not
visited. Where most tests fail, as with words, all positions go down a tree together.
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint64_t

from treecrf.chains._memory cimport Memory, take, take_zeros
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator

cdef extern from "trees/multi_output/vectors.h" nogil:
    enum:
        LISTED_AT_ONCE
    void add_to_rows(const uint64_t *words, Py_ssize_t n_words, const int32_t *vector,
                     Py_ssize_t size, int32_t *members, int32_t *rows)

cdef double UNIT = 2.0**-20


cdef struct Visit:
    # A node, of all trees, and the positions that reach it.
    uint64_t positions
    int32_t node


cdef class VectorBlockEvaluator(BlockEvaluator):
    """Evaluator of multi-output trees at a block of positions without missing values."""

    cdef const int32_t[::1] roots          # first node of each tree
    cdef const int32_t[::1] test           # of each node; -1 in a leaf
    cdef const int32_t[:, ::1] children    # nodes, of all trees, if the test fails and if it passes
    cdef const int32_t[:, ::1] vectors     # of the leaves, in units, followed by zeros
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t max_nodes              # number of nodes of the largest tree

    def __init__(self, packed, const int32_t[:, ::1] vectors):
        sizes = np.diff(packed.starts)
        passed, failed = packed.children
        first = np.repeat(packed.starts[: packed.n_trees], sizes)
        self.roots = packed.starts[: packed.n_trees]
        self.test = packed.test_of_node
        self.children = np.stack([first + failed, first + passed], axis=1)
        self.vectors = vectors
        self.n_labels = packed.n_labels
        self.max_nodes = max(sizes, default=0)

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        cdef Py_ssize_t tree, size = self.vectors.shape[1]
        cdef int32_t *sums = <int32_t *> take_zeros(memory, block.size * size * sizeof(int32_t))
        cdef int32_t *members = <int32_t *> take(memory,
                                                 (64 + LISTED_AT_ONCE) * sizeof(int32_t))
        cdef Visit *visits = <Visit *> take(memory, self.max_nodes * sizeof(Visit))
        if memory.failed:
            return
        for tree in range(self.roots.shape[0]):
            self._add_tree(self.roots[tree], block, visits, members, sums)
        self._add_sums(sums, block, depth, rows, class_size)

    cdef void _add_tree(self, int32_t root, const Bits *block, Visit *visits, int32_t *members,
                        int32_t *sums) noexcept nogil:
        """Add the vectors of a tree to the sums of all positions."""
        cdef Py_ssize_t n = 1
        cdef uint64_t column
        cdef Visit visit
        visits[0] = Visit(~<uint64_t> 0 >> (64 - block.size), root)
        while n:
            n -= 1
            visit = visits[n]
            while self.test[visit.node] >= 0:
                column = block.columns[self.test[visit.node]]
                if visit.positions & column and visit.positions & ~column:
                    visits[n] = Visit(visit.positions & ~column, self.children[visit.node, 0])
                    visit.positions &= column
                    n += 1
                visit.node = self.children[visit.node, visit.positions & column != 0]
            add_to_rows(&visit.positions, 1, &self.vectors[visit.node, 0], self.vectors.shape[1],
                        members, sums)

    cdef void _add_sums(self, const int32_t *sums, const Bits *block, const uint8_t *depth,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        """Add the sums of all positions to their scores in all contexts that they have."""
        cdef Py_ssize_t i, label, c, n_contexts
        cdef double *row
        for i in range(block.size):
            n_contexts = self.n_labels ** depth[i]
            for label in range(self.n_labels):
                row = rows[i] + label * class_size
                for c in range(n_contexts):
                    row[c] += sums[i * self.vectors.shape[1] + label] * UNIT
