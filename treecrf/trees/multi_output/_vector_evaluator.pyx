"""Scores of multi-output trees at many positions: a leaf adds a vector, a value for each label.

`SetEvaluator` finds the positions that reach each leaf, once for all labels. The trees test no
previous labels, so the sums of a position are the same in all of its contexts. They are sums of
integers, multiples of the unit of leaf values.
"""

import numpy as np

from treecrf.chains.contexts import extended_contexts

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from treecrf.chains._memory cimport take
from treecrf.trees.growing._sets cimport Fraction, value_of_fraction
from treecrf.trees.scoring._answers cimport Positions
from treecrf.trees.scoring._set_evaluator cimport (
    BLOCK, MISSING_BLOCK, Block, SetEvaluator, free_block,
)

cdef extern from "trees/multi_output/vectors.h" nogil:
    enum:
        LISTED_AT_ONCE
        VECTOR_LANES
    void add_to_rows(const uint64_t *words, Py_ssize_t n_words, const int32_t *vector,
                     Py_ssize_t size, int32_t *members, int32_t *rows)

cdef enum:
    # Maximum number of sums of a block: 256 KB, which stay in the second-level cache.
    BLOCK_SUMS = 1 << 16

cdef double UNIT = 2.0**-20


def vectors_of(packed):
    """Return the vectors of leaves in units, followed by zeros; int32 (n_nodes, a size)."""
    cdef Py_ssize_t n_labels = packed.n_labels
    cdef Py_ssize_t size = (n_labels + VECTOR_LANES - 1) // VECTOR_LANES * VECTOR_LANES
    units = np.rint(packed.nodes["leaf"] / UNIT).astype(np.int32)
    return np.pad(units, [(0, 0), (0, size - n_labels)])


cdef class VectorEvaluator(SetEvaluator):
    """Evaluator of multi-output trees at sets of positions."""

    cdef const int32_t[:, ::1] vectors     # of the leaves, in units, followed by zeros
    cdef Py_ssize_t size                   # number of values of a vector

    def __init__(self, packed, const int32_t[:, ::1] vectors, bint follows_surrogates):
        super().__init__(packed, *extended_contexts(packed.n_labels, 0), 0, follows_surrogates)
        self.vectors = vectors
        self.size = vectors.shape[1]

    def add_scores(self, batch, Py_ssize_t first, Py_ssize_t last):
        """Add the trees' values to the scores of the positions from ``first`` to ``last - 1``."""
        cdef const uint8_t[::1] depth = batch.depth
        cdef double[:, :, ::1] scores = batch.scores
        cdef Block block
        cdef Positions positions = Positions(batch.encoded)
        cdef Py_ssize_t tree, max_size = MISSING_BLOCK if positions.has_missing else BLOCK
        max_size = max(1, min(max_size // 64, BLOCK_SUMS // (64 * self.size))) * 64
        cdef int32_t *sums
        cdef int32_t *members
        with nogil:
            self._open(&block)
            sums = <int32_t *> take(&block.memory, max_size * self.size * sizeof(int32_t))
            members = <int32_t *> take(&block.memory,
                                       (max_size + LISTED_AT_ONCE) * sizeof(int32_t))
            block.failed |= block.memory.failed
            while first < last and not block.failed:
                block.has_missing = self.answers.fill(&block.bits, positions, first,
                                                      min(max_size, last - first))
                memset(sums, 0, block.bits.size * self.size * sizeof(int32_t))
                for tree in range(self.classes.shape[0]):
                    self._split_all(&block, tree)
                    self._add_leaves(&block, self.starts[tree], self.starts[tree + 1], members,
                                     sums)
                add_sums(sums, self.size, first, block.bits.size, depth, scores)
                first += block.bits.size
            free_block(&block)
        if block.failed:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _add_leaves(self, Block *block, Py_ssize_t start, Py_ssize_t end, int32_t *members,
                          int32_t *sums) noexcept nogil:
        """Add the vectors of the leaves of a tree to the sums of the positions that reach them."""
        cdef const Fraction *fractions
        cdef const double *vector
        cdef int32_t *row
        cdef Py_ssize_t i, j, k
        for i in range(end - start):
            if block.set_of[i] == NULL or self.true_child[start + i] >= 0:
                continue
            add_to_rows(block.set_of[i], block.bits.n_words, &self.vectors[start + i, 0],
                        self.size, members, sums)
            vector = &self.values[(start + i) * self.n_labels]
            fractions = block.fractions + block.fractions_of[i]
            for j in range(block.n_fractions_of[i] if block.has_missing else 0):
                row = sums + fractions[j].row * self.size
                for k in range(self.n_labels):
                    row[k] += <int32_t> (value_of_fraction(vector[k], fractions[j].weight) / UNIT)


cdef void add_sums(const int32_t *sums, Py_ssize_t size, Py_ssize_t first, Py_ssize_t n,
                   const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
    """Add the sums of n positions to their scores in all contexts that they have."""
    cdef Py_ssize_t i, label, c, n_contexts, n_labels = scores.shape[0]
    cdef double *row
    for label in range(n_labels):
        for i in range(n):
            row = &scores[label, first + i, 0]
            n_contexts = n_labels ** depth[first + i]
            for c in range(n_contexts):
                row[c] += sums[i * size + label] * UNIT
