"""Scores of trees at a few positions without missing values, by walking down the trees.

All contexts of a position walk together until a test of a previous label separates them. The walks
of all positions down a tree take turns, so that the processor need not wait for any of them.
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.scoring._answers cimport Answers, Bits, Positions, close_bits, open_bits

cdef extern from "trees/bitsets.h" nogil:
    int lowest_bit(uint64_t word)

cdef enum:
    BLOCK = 64               # positions


cdef class Walker:
    """Evaluator of few positions, in at most 64 contexts."""

    def __init__(self, trees, passing, n_contexts):
        """Pack the nodes of `ContextTrees`.

        ``passing`` holds the contexts of each depth that pass each test of a previous label, as
        bits, and ``n_contexts`` their number; see `treecrf.trees.fast.contexts`.
        """
        packed = trees.packed
        self.answers = Answers(packed.tests)
        self.starts = packed.starts
        self.classes = packed.classes
        self.nodes = pack_nodes(packed)
        self.passing = passing
        self.every = np.array([(1 << n) - 1 for n in n_contexts], dtype=np.uint64)
        self.n_labels = packed.n_labels
        self.n_columns = trees.n_tests

    def add_scores(self, batch, const int32_t[::1] positions, Py_ssize_t first, Py_ssize_t last):
        """Add the trees' values to the scores; see `FastEvaluator.kernel`."""
        cdef const uint8_t[::1] depth = batch.depth
        cdef double[:, :, ::1] scores = batch.scores
        cdef Bits block
        cdef Positions encoded = Positions(batch.encoded, batch.given, self.n_labels)
        cdef Py_ssize_t i, n_contexts = scores.shape[2]
        cdef double *rows[BLOCK]
        cdef Walk *walks = <Walk *> malloc(BLOCK * n_contexts * sizeof(Walk))
        cdef bint ready
        with nogil:
            memset(&block, 0, sizeof(Bits))
            ready = open_bits(&block, self.n_columns, 1) and walks != NULL
            while first < last and ready:
                self.answers.fill(&block, encoded, first, min(BLOCK, last - first))
                for i in range(block.size):
                    rows[i] = &scores[0, positions[first + i], 0]
                self.add_block(&block, &depth[first], walks, rows, scores.shape[1] * n_contexts)
                first += block.size
            close_bits(&block)
            free(walks)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Walk *walks, double **rows,
                        Py_ssize_t class_size) noexcept nogil:
        """Add the trees' values to the scores of a block of positions, a step of each at a time.

        ``rows`` holds the scores of each position for the first class, and ``class_size`` is their
        distance from those for the next class. ``walks`` has room for every position and context.
        """
        cdef const Node *nodes = <const Node *> &self.nodes[0, 0]
        cdef const Node *node
        cdef const uint64_t *columns = block.columns
        cdef Walk *walk
        cdef Py_ssize_t tree, i, n, to_class
        cdef Py_ssize_t n_columns = self.n_columns, n_tests = self.answers.n_tests
        cdef uint64_t contexts, passing, failed
        cdef double value
        cdef double *row
        for tree in range(self.classes.shape[0]):
            to_class = self.classes[tree] * class_size
            n = block.size
            for i in range(n):
                walks[i] = Walk(self.starts[tree], <int32_t> i, self.every[depth[i]])
            while n:
                i = 0
                while i < n:
                    walk = &walks[i]
                    node = nodes + walk.node
                    if node.test < 0:
                        memcpy(&value, node.children, sizeof(double))
                        row = rows[walk.position] + to_class
                        contexts = walk.contexts
                        while contexts:
                            row[lowest_bit(contexts)] += value
                            contexts &= contexts - 1
                        n -= 1
                        walks[i] = walks[n]
                        continue
                    if node.test < n_columns:
                        walk.node = node.children[columns[node.test] >> walk.position & 1]
                    else:
                        passing = self.passing[depth[walk.position], node.test - n_tests]
                        failed = walk.contexts & ~passing
                        passing &= walk.contexts
                        if passing and failed:  # the contexts separate
                            walks[n] = Walk(node.children[0], walk.position, failed)
                            walk.contexts = passing
                            n += 1
                        walk.node = node.children[passing != 0]
                    i += 1


def pack_nodes(packed):
    """Pack the nodes of all trees; int32 array (n_nodes, 4)."""
    passed, failed = packed.children
    first = np.repeat(packed.starts[: len(packed.classes)], np.diff(packed.starts))
    is_leaf = passed < 0
    nodes = np.zeros((len(first), 4), dtype=np.int32)
    nodes[:, 0] = np.where(is_leaf, -1, packed.test_of_node)
    nodes[:, 2] = first + failed
    nodes[:, 3] = first + passed
    nodes.view(np.float64)[is_leaf, 1] = packed.nodes["leaf"][is_leaf]
    return nodes
