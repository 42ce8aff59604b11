"""Scores of multi-output trees at a few positions, each of which is taken down each tree."""

import numpy as np

from libc.stdint cimport int32_t, uint8_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator


cdef class VectorWalker(BlockEvaluator):
    """Evaluator of multi-output trees at a block of positions without missing values."""

    cdef const int32_t[::1] roots          # first node of each tree
    cdef const int32_t[::1] test           # of each node; -1 in a leaf
    cdef const int32_t[:, ::1] children    # nodes, of all trees, if the test fails and if it passes
    cdef const double[:, ::1] vectors      # of leaves: a value for each label

    def __init__(self, packed):
        sizes = np.diff(packed.starts)
        passed, failed = packed.children
        first = np.repeat(packed.starts[:packed.n_trees], sizes)
        self.roots = packed.starts[:packed.n_trees]
        self.test = packed.test_of_node
        self.children = np.stack([first + failed, first + passed], axis=1)
        self.vectors = packed.nodes["leaf"]

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        cdef Py_ssize_t tree, i, label, c, n_contexts, n_labels = self.vectors.shape[1]
        cdef const double *vector
        cdef double *row
        cdef int32_t node
        for tree in range(self.roots.shape[0]):
            for i in range(block.size):
                node = self.roots[tree]
                while self.test[node] >= 0:
                    node = self.children[node, block.columns[self.test[node]] >> i & 1]
                vector = &self.vectors[node, 0]
                n_contexts = n_labels ** depth[i]
                for label in range(n_labels):
                    row = rows[i] + label * class_size
                    for c in range(n_contexts):
                        row[c] += vector[label]
