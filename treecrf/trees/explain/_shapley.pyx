"""Contributions of features and previous labels to the scores of trees.

The method is described in ``shapley.h``. A test whose value is missing follows its surrogates, or
sends the position to both children, as if the feature were absent from every coalition.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from treecrf.chains._memory cimport Memory, release, take, take_doubles
from treecrf.trees.scoring._answers cimport (
    Answers, Bits, Positions, Surrogates, close_bits, open_bits,
)

cdef extern from "trees/explain/shapley.h" nogil:
    struct inner_node:
        int32_t node, true_child, false_child, ancestor, slot
    struct tested_tree:
        const inner_node *inner
        Py_ssize_t n_inner, n_slots
        const int32_t *players
        const double *ratios
        const double *slopes
    enum:
        N_OUTCOMES
    void explain_positions(const tested_tree *tree, const uint64_t *passed,
                           const uint64_t *absent, int n_positions, const double *weights,
                           Py_ssize_t width, double *products, uint8_t *outcomes, double *sums,
                           double *out, Py_ssize_t stride)

# Positions that share a word.
cdef enum:
    BLOCK = 64


cdef struct Work:
    # Working memory for a tree at a block of positions.
    Memory memory
    uint64_t *passed           # of each inner node: the positions that pass its test
    uint64_t *absent           # of each inner node: the positions that lack the value
    double *products           # of each node, at the nodes of the quadrature
    double *sums               # of each slot, at the nodes of the quadrature
    uint8_t *outcomes          # of each node, see ``shapley.h``


def link_tests(const int32_t[::1] starts, const int32_t[::1] true_child,
               const int32_t[::1] false_child, const int32_t[::1] players,
               const double[::1] shares, const uint8_t[::1] missing_tests, int32_t[::1] parents,
               int32_t[::1] ancestors, double[::1] covers, double[::1] lacking,
               double[::1] reaches, int32_t[::1] n_players):
    """Follow the tests of each player down the trees, from the root's on.

    Writes for each node its parent, and 0 for the root; if it is an inner node, the node below the
    nearest test of the same player as an ancestor, and 0 if there is none; the product of the
    relative covers below the tests of the player that the parent tests, and that without the tests
    that are ``missing_tests``; the product of all relative covers on the path, and its number of
    players.
    """
    cdef Py_ssize_t tree, start, n, child
    cdef int32_t above
    cdef int side
    cdef double share
    with nogil:
        for tree in range(starts.shape[0] - 1):
            start = starts[tree]
            parents[start] = 0
            ancestors[start] = 0
            n_players[start] = 0
            covers[start] = 1.0
            lacking[start] = 1.0
            reaches[start] = 1.0
            for n in range(start, starts[tree + 1]):
                if true_child[n] < 0:
                    continue
                above = <int32_t> (n - start)
                while above and players[start + parents[start + above]] != players[n]:
                    above = parents[start + above]
                ancestors[n] = above
                for side in range(2):
                    child = start + (true_child[n] if side else false_child[n])
                    share = shares[n] if side else 1.0 - shares[n]
                    parents[child] = <int32_t> (n - start)
                    ancestors[child] = 0
                    covers[child] = covers[start + above] * share
                    lacking[child] = lacking[start + above] * (1.0 if missing_tests[n] else share)
                    reaches[child] = reaches[n] * share
                    n_players[child] = n_players[n] + (above == 0)


cdef class Explainer:
    """Explainer of some trees at many positions."""

    cdef Answers answers
    cdef Surrogates surrogates
    cdef bint follows_surrogates            # whether missing values follow them
    cdef const int32_t[::1] starts          # first node of each tree
    cdef const int32_t[::1] test            # of each node
    cdef const int32_t[::1] classes         # of each tree
    # See `treecrf.trees.explain.shapley.PathTables`.
    cdef const int64_t[::1] inner_starts, slot_starts
    cdef const int32_t[:, ::1] inner
    cdef const int32_t[::1] players
    cdef const double[::1] weights
    cdef const double[:, ::1] ratios, slopes
    cdef const uint8_t[::1] missing_tests
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t n_columns               # tests of the window and of given labels
    cdef Py_ssize_t max_nodes, max_inner, max_slots         # of one tree

    def __init__(self, packed, tables, classes, Py_ssize_t n_given, bint follows_surrogates):
        self.answers = Answers(packed.tests)
        self.starts = packed.starts
        self.test = packed.test_of_node
        self.surrogates = Surrogates(packed, tables.shares)
        self.follows_surrogates = follows_surrogates
        self.classes = classes
        self.players = tables.players
        self.inner = tables.inner
        self.inner_starts = tables.inner_starts
        self.slot_starts = tables.slot_starts
        self.weights = tables.weights
        self.ratios = tables.ratios
        self.slopes = tables.slopes
        self.missing_tests = tables.missing_tests
        self.n_labels = packed.n_labels
        self.n_columns = self.answers.n_tests + n_given * (self.n_labels + 1)
        self.max_nodes = np.diff(packed.starts).max(initial=1)
        self.max_inner = np.diff(tables.inner_starts).max(initial=1)
        self.max_slots = np.diff(tables.slot_starts).max(initial=1)

    def add_contributions(self, encoded, given, double[:, :, ::1] values, Py_ssize_t first,
                          Py_ssize_t last):
        """Add the contributions to the scores of the positions from ``first`` to ``last - 1``."""
        cdef Bits block
        cdef Positions positions = Positions(encoded, given, self.n_labels)
        cdef Work work
        cdef Py_ssize_t tree
        cdef bint ready
        with nogil:
            memset(&block, 0, sizeof(Bits))
            memset(&work, 0, sizeof(Work))
            ready = open_bits(&block, self.n_columns, 1) and self._open(&work)
            while first < last and ready:
                self.answers.fill(&block, positions, first, min(BLOCK, last - first))
                for tree in range(self.classes.shape[0]):
                    self._explain(&block, &work, tree, positions.has_missing, values)
                first += block.size
            close_bits(&block)
            release(&work.memory)
        if not ready:
            raise MemoryError("no memory to explain the scores")

    cdef bint _open(self, Work *work) noexcept nogil:
        """Allocate working memory; return whether there is enough."""
        cdef Py_ssize_t width = self.weights.shape[0]
        work.passed = <uint64_t *> take(&work.memory, self.max_inner * sizeof(uint64_t))
        work.absent = <uint64_t *> take(&work.memory, self.max_inner * sizeof(uint64_t))
        work.products = take_doubles(&work.memory, self.max_nodes * width)
        work.sums = take_doubles(&work.memory, self.max_slots * width)
        work.outcomes = <uint8_t *> take(&work.memory, self.max_nodes)
        return not work.memory.failed

    cdef void _explain(self, const Bits *block, Work *work, Py_ssize_t tree, bint has_missing,
                       double[:, :, ::1] values) noexcept nogil:
        """Add the contributions to the scores of a tree at a block of positions."""
        cdef Py_ssize_t first = self.inner_starts[tree], start = self.starts[tree]
        cdef Py_ssize_t slot = self.slot_starts[tree], k, node
        cdef const uint64_t *lacking
        cdef uint64_t failed = 0
        cdef tested_tree nodes
        nodes.n_inner = self.inner_starts[tree + 1] - first
        if nodes.n_inner == 0:
            return
        nodes.inner = <const inner_node *> &self.inner[first, 0]
        nodes.players = &self.players[slot]
        nodes.n_slots = self.slot_starts[tree + 1] - slot
        nodes.ratios = &self.ratios[start * N_OUTCOMES, 0]
        nodes.slopes = &self.slopes[start * N_OUTCOMES, 0]
        for k in range(nodes.n_inner):
            # The positions that pass the test of a node, and those that lack its value.
            node = start + self.inner[first + k, 0]
            lacking = self.answers.missing_of(block, self.test[node]) if has_missing else NULL
            work.passed[k] = block.columns[self.test[node] * block.stride]
            work.absent[k] = 0 if lacking == NULL else lacking[0]
            if self.missing_tests[node] and not self.follows_surrogates:
                work.absent[k] = work.passed[k]
            if work.absent[k] and self.follows_surrogates:
                self.surrogates.follow(self.answers, block, node, &work.absent[k],
                                       &work.passed[k], &failed)
                work.absent[k] = 0
        explain_positions(&nodes, work.passed, work.absent, <int> block.size, &self.weights[0],
                          self.weights.shape[0], work.products, work.outcomes, work.sums,
                          &values[block.first, self.classes[tree], 0],
                          values.shape[1] * values.shape[2])
