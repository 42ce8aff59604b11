"""Scores of trees at positions without missing values, in groups of contexts.

`LookupEvaluator` is for many positions. As in ``_evaluate``, a block of positions is a bit set,
which the tests of a tree split word by word. But leaves do not add their values to their members
one by one. They have numbers, and bit k of the leaf number of each position is the union of the
sets of the leaves whose number has bit k. Eight such unions, transposed, are a byte for each
position: the index of its value in a table.

Contexts for which all tests of previous labels in a tree have the same outcomes are a group, in
which the tree has window tests only. The trees of equal groups are summed together before the
contexts of the group receive the sum.

`Walker` is for few positions, which it takes down the trees one by one, in all contexts at once.
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.scoring._answers cimport (
    Answers,
    Bits,
    Positions,
    begin_bits,
    close_bits,
    open_bits,
)

cdef extern from "utils/bitsets.h" nogil:
    enum:
        AT_ONCE
        N_PLANES
        N_VALUES
    int split_bits(uint64_t *set, const uint64_t *test, Py_ssize_t n, uint64_t *failed)
    void join_bits(uint64_t *target, const uint64_t *source, Py_ssize_t n)
    int lowest_bit(uint64_t word)
    void bytes_of_planes(const uint64_t *planes, Py_ssize_t stride, Py_ssize_t n_words,
                         uint8_t *out)
    void look_up(double *target, const double *tables, const uint8_t *indices, Py_ssize_t stride,
                 Py_ssize_t n)

cdef extern from "utils/vector_math.h" nogil:
    void add_to(double *target, const double *source, Py_ssize_t n)

cdef enum:
    # Long, because every visit of a node has a cost in addition to that of its words.
    BLOCK_WORDS = 128
    BLOCK = 64 * BLOCK_WORDS
    # Bytes from the numbers of a tree to those of the next; 4096 apart they would share a few
    # lines of the cache.
    STRIDE = BLOCK + 64


cdef struct Block:
    Bits bits
    int32_t *nodes              # those still to be visited
    uint64_t *sets              # and their positions
    uint64_t *planes
    uint8_t *numbers            # of the leaf of each position, for the trees in the queue
    double *tables              # values of the numbers
    Py_ssize_t n_trees          # number of trees in the queue
    double *sums                # [position]: of the trees of a group
    double *totals              # [context, position]

# `Walker` represents contexts as the bits of a word.
cdef enum:
    MAX_CONTEXTS = 64


cdef class GroupEvaluator:
    """Trees of an evaluator.

    Parameters
    ----------
    packed : treecrf.trees.scoring.scorer.PackedTrees
    n_given : int
        Number of previous labels that are given to `add_scores`; 0 to score all contexts.
    """

    cdef Answers answers
    cdef const int32_t[::1] starts, classes, test, true_child, false_child
    cdef const double[::1] values
    cdef Py_ssize_t n_labels, n_columns, max_nodes

    def __init__(self, packed, Py_ssize_t n_given):
        self.answers = Answers(packed.tests)
        self.starts, self.classes, self.test = packed.starts, packed.classes, packed.test_of_node
        self.true_child, self.false_child = packed.children
        self.values = packed.nodes["leaf"]
        self.n_labels = packed.n_labels
        self.n_columns = self.answers.n_tests + n_given * (self.n_labels + 1)
        self.max_nodes = np.diff(self.starts).max(initial=0)


cdef class LookupEvaluator(GroupEvaluator):
    """Evaluator by lookup of leaf values; its parameters are those of `GroupEvaluator`."""

    def add_scores(self, scoring, groups, const int32_t[::1] positions, Py_ssize_t first,
                   Py_ssize_t last):
        """Add the trees' values to the scores of some positions.

        Parameters
        ----------
        scoring : treecrf.trees.scoring.scorer.Scoring
            Positions with the same number of labels before them.
        groups : treecrf.trees.scoring.context_groups.Groups
            Groups of the contexts of these positions, by class.
        positions : int32 array (n_positions,)
            Index of each position in the scores.
        first, last : int
            The positions to score are those from ``first`` to ``last - 1``.
        """
        cdef const uint8_t[:, ::1] given = scoring.given
        cdef double[:, :, ::1] scores = scoring.scores
        cdef Block block
        cdef Positions encoded = Positions(scoring.encoded)
        cdef const uint8_t[:, ::1] outcomes = groups.outcomes, members = groups.members
        cdef const int32_t[::1] classes = groups.classes, starts = groups.starts
        cdef const int32_t[::1] trees = groups.trees
        cdef Py_ssize_t class_, g, n_contexts = members.shape[1]
        cdef bint ready
        with nogil:
            ready = self._open(&block, n_contexts)
            while first < last and ready:
                begin_bits(&block.bits, first, min(BLOCK, last - first))
                self.answers.fill(&block.bits, encoded)
                if given is not None:
                    self.answers.fill_given(&block.bits, given, self.n_labels)
                g = 0
                for class_ in range(scores.shape[0]):
                    memset(block.totals, 0, n_contexts * BLOCK * sizeof(double))
                    while g < classes.shape[0] and classes[g] == class_:
                        self._add_group(&block, trees, starts[g], starts[g + 1], outcomes,
                                        &members[g, 0])
                        g += 1
                    add_to_scores(&block, class_, n_contexts, positions, scores)
                first += block.bits.size
            close(&block)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _add_group(self, Block *block, const int32_t[::1] trees, Py_ssize_t first,
                         Py_ssize_t last, const uint8_t[:, ::1] outcomes,
                         const uint8_t *members) noexcept nogil:
        """Add the sum of some trees to the contexts of a group."""
        cdef Py_ssize_t k, c, representative = 0
        while not members[representative]:
            representative += 1
        memset(block.sums, 0, BLOCK * sizeof(double))
        for k in range(first, last):
            self._add_tree(block, trees[k], &outcomes[representative, 0])
        look_up_queue(block)
        for c in range(outcomes.shape[0]):
            if members[c]:
                add_to(block.totals + c * BLOCK, block.sums, block.bits.size)

    cdef bint _open(self, Block *block, Py_ssize_t n_contexts) noexcept nogil:
        cdef Py_ssize_t n = self.max_nodes + 2
        memset(block, 0, sizeof(Block))
        block.nodes = <int32_t *> malloc(n * sizeof(int32_t))
        block.sets = <uint64_t *> malloc(n * BLOCK_WORDS * sizeof(uint64_t))
        block.planes = <uint64_t *> malloc(N_PLANES * BLOCK_WORDS * sizeof(uint64_t))
        block.numbers = <uint8_t *> malloc(AT_ONCE * STRIDE)
        block.tables = <double *> malloc(AT_ONCE * N_VALUES * sizeof(double))
        block.sums = <double *> malloc(BLOCK * sizeof(double))
        block.totals = <double *> malloc(n_contexts * BLOCK * sizeof(double))
        return (open_bits(&block.bits, self.n_columns, BLOCK_WORDS) and block.nodes != NULL
                and block.sets != NULL and block.planes != NULL and block.numbers != NULL
                and block.tables != NULL and block.sums != NULL and block.totals != NULL)

    cdef void _add_tree(self, Block *block, Py_ssize_t tree,
                        const uint8_t *outcomes) noexcept nogil:
        """Number the leaves of a tree in a context, and enqueue the tree for lookup.

        ``outcomes`` are those of the tests of previous labels.
        """
        cdef Py_ssize_t start = self.starts[tree], n_leaves = 0, n_waiting = 1
        cdef Py_ssize_t n_words = block.bits.n_words
        cdef int32_t node
        cdef uint64_t *here
        block.nodes[0] = 0
        memset(block.sets, 255, n_words * sizeof(uint64_t))
        while n_waiting:
            node = block.nodes[n_waiting - 1]
            here = block.sets + (n_waiting - 1) * BLOCK_WORDS
            if self.true_child[start + node] < 0:
                if n_leaves == 0:
                    memset(block.planes, 0, N_PLANES * BLOCK_WORDS * sizeof(uint64_t))
                n_leaves += 1
                number_leaf(block, here, n_leaves, self.values[start + node])
                if n_leaves == N_VALUES - 1:
                    enqueue(block)
                    n_leaves = 0
                n_waiting -= 1
            elif self.test[start + node] < self.n_columns:
                n_waiting += self._split_positions(block, start + node, n_waiting - 1)
            elif outcomes[self.test[start + node] - self.answers.n_tests]:
                block.nodes[n_waiting - 1] = self.true_child[start + node]
            else:
                block.nodes[n_waiting - 1] = self.false_child[start + node]
        if n_leaves:
            enqueue(block)

    cdef inline Py_ssize_t _split_positions(self, Block *block, Py_ssize_t node,
                                            Py_ssize_t top) noexcept nogil:
        """Replace a parent by its children; returns the number of additional nodes."""
        cdef uint64_t *here = block.sets + top * BLOCK_WORDS
        cdef int left = split_bits(here, block.bits.columns + self.test[node] * BLOCK_WORDS,
                                   block.bits.n_words, here + BLOCK_WORDS)
        block.nodes[top] = self.true_child[node]
        if left == 2:
            block.nodes[top] = self.false_child[node]
            memcpy(here, here + BLOCK_WORDS, block.bits.n_words * sizeof(uint64_t))
        block.nodes[top + 1] = self.false_child[node]
        return left == 3


cdef void close(Block *block) noexcept nogil:
    close_bits(&block.bits)
    free(block.sets)
    free(block.nodes)
    free(block.planes)
    free(block.numbers)
    free(block.tables)
    free(block.sums)
    free(block.totals)


cdef inline void number_leaf(Block *block, const uint64_t *members, Py_ssize_t number,
                             double value) noexcept nogil:
    cdef uint64_t bits = number
    block.tables[block.n_trees * N_VALUES + number] = value
    while bits:
        join_bits(block.planes + lowest_bit(bits) * BLOCK_WORDS, members, block.bits.n_words)
        bits &= bits - 1


cdef void enqueue(Block *block) noexcept nogil:
    """Write the leaf number of each position, 0 for none, and enqueue the tree for lookup."""
    block.tables[block.n_trees * N_VALUES] = 0.0
    bytes_of_planes(block.planes, BLOCK_WORDS, block.bits.n_words,
                    block.numbers + block.n_trees * STRIDE)
    block.n_trees += 1
    if block.n_trees == AT_ONCE:
        look_up_queue(block)


cdef void look_up_queue(Block *block) noexcept nogil:
    """Look up and add the values of the trees in the queue."""
    if block.n_trees == 0:
        return
    while block.n_trees < AT_ONCE:
        memset(block.numbers + block.n_trees * STRIDE, 0, BLOCK)
        block.tables[block.n_trees * N_VALUES] = 0.0
        block.n_trees += 1
    look_up(block.sums, block.tables, block.numbers, STRIDE, block.bits.size)
    block.n_trees = 0


cdef void add_to_scores(Block *block, Py_ssize_t class_, Py_ssize_t n_contexts,
                        const int32_t[::1] positions, double[:, :, ::1] scores) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef double *row
    for i in range(block.bits.size):
        row = &scores[class_, positions[block.bits.first + i], 0]
        for c in range(n_contexts):
            row[c] += block.totals[c * BLOCK + i]

cdef class Walker(GroupEvaluator):
    """Evaluator of one position at a time; its parameters are those of `GroupEvaluator`."""

    def add_scores(self, scoring, groups, const int32_t[::1] positions, Py_ssize_t first,
                   Py_ssize_t last):
        """Add the trees' values to the scores, in at most 64 contexts.

        The parameters are those of `LookupEvaluator.add_scores`.
        """
        cdef const uint8_t[:, ::1] given = scoring.given
        cdef double[:, :, ::1] scores = scoring.scores
        cdef Bits block
        cdef Positions encoded = Positions(scoring.encoded)
        cdef const uint64_t[::1] passing = groups.passing
        cdef uint64_t every = (<uint64_t> 2 << (groups.members.shape[1] - 1)) - 1
        cdef Py_ssize_t i, tree
        cdef bint ready
        with nogil:
            memset(&block, 0, sizeof(Bits))
            ready = open_bits(&block, self.n_columns, 1)
            while first < last and ready:
                begin_bits(&block, first, min(64, last - first))
                self.answers.fill(&block, encoded)
                if given is not None:
                    self.answers.fill_given(&block, given, self.n_labels)
                for i in range(block.size):
                    for tree in range(self.classes.shape[0]):
                        self._walk(&block, i, tree, passing, every,
                                   &scores[self.classes[tree], positions[first + i], 0])
                first += block.size
            close_bits(&block)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _walk(self, const Bits *block, Py_ssize_t i, Py_ssize_t tree,
                    const uint64_t[::1] passing, uint64_t contexts,
                    double *row) noexcept nogil:
        """Take a position down a tree; where contexts diverge, some wait for the others."""
        cdef int32_t nodes[MAX_CONTEXTS]
        cdef uint64_t waiting[MAX_CONTEXTS]
        cdef int32_t start = self.starts[tree], node = start, test
        cdef Py_ssize_t n_waiting = 0
        cdef uint64_t passed
        while True:
            while self.true_child[node] >= 0:
                test = self.test[node]
                if test < self.n_columns:
                    passed = contexts if block.columns[test] >> i & 1 else 0
                else:
                    passed = contexts & passing[test - self.answers.n_tests]
                if passed != 0 and passed != contexts:
                    nodes[n_waiting] = start + self.false_child[node]
                    waiting[n_waiting] = contexts & ~passed
                    n_waiting += 1
                    contexts = passed
                node = start + (self.true_child[node] if passed else self.false_child[node])
            while contexts:
                row[lowest_bit(contexts)] += self.values[node]
                contexts &= contexts - 1
            if n_waiting == 0:
                return
            n_waiting -= 1
            node = nodes[n_waiting]
            contexts = waiting[n_waiting]
