"""Scores of trees at many positions at once.

A block of positions is a set of bits. Each test that the trees ask becomes a column of bits once;
a tree starts with the set of all positions of the block, every test parts a set in two by word-wise
AND, and every leaf adds its value to the members of its set. Tests of a previous label part the
contexts instead, so that all contexts of a position are scored together. Where the previous labels
are given, they make columns like everything else, and a position has one score a class.

Leaf values are multiples of 2**-40 (see ``_tree``): the sums are exact and equal those of training
to the last bit, in whatever order they are taken.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef extern from "_simd.h" nogil:
    int lowest_bit(uint64_t word)
    void add_scaled(double *target, const double *source, double weight, Py_ssize_t n)
    void bytes_equal(const uint8_t *values, Py_ssize_t n_words, uint8_t mask, uint8_t low,
                     uint64_t *out)
    void bytes_above(const uint8_t *values, Py_ssize_t n_words, uint8_t low, uint64_t *out)
    int part_bits(const uint64_t *parent, const uint64_t *test, Py_ssize_t n, uint64_t *passed,
                  uint64_t *failed)

cdef enum:
    BLOCK_WORDS = 64
    BLOCK = 64 * BLOCK_WORDS

cdef enum TestKind:
    CODE_EQUAL = 0
    CODE_ABOVE = 1
    BIT = 2
    LISTED = 3


cdef struct Block:
    # The positions at work and the memory for them.
    Py_ssize_t first, size, n_words
    uint64_t *columns          # one column of bits a test
    uint64_t *sets             # two sets of positions a node, at most
    uint64_t **set_of          # set of each node, NULL when nobody is left
    int32_t *contexts_of       # row of `members` for each node; 0: all contexts
    uint8_t *members           # sets of extended contexts
    uint8_t *bytes
    double *addend             # a leaf's value in the contexts that reach it, else 0
    double *shared             # [class, position]: values that all contexts receive


cdef void free_block(Block *block) noexcept nogil:
    free(block.columns)
    free(block.sets)
    free(block.set_of)
    free(block.contexts_of)
    free(block.members)
    free(block.bytes)
    free(block.addend)
    free(block.shared)


cdef class Evaluator:
    """Packed trees, ready to score encoded positions.

    Parameters
    ----------
    tests : tuple of int32 arrays
        Kinds, offsets, slots, lows and highs of the distinct window tests.
    by_id : int32 array (window width, n_ids)
        The test that asks for one listed id at one offset, -1 where none does.
    left : int
        Offset of the first row of ``by_id``, negated.
    trees : tuple of int32 arrays
        Start of each tree among the nodes (n_trees + 1), class of each tree, and for all nodes
        test (tests of previous labels follow the window tests), true child and false child,
        counted from the start of the tree, -1 in a leaf.
    values : float64 array (n_nodes,)
    symbols : int32 array (n_extended, order)
        Previous label at each lag of each extended context.
    depth_starts : int64 array (order + 1,)
        First extended context of each depth.
    n_labels : int
    n_given : int
        Number of previous labels that `add_scores` is given; 0 to score all contexts.
    """

    cdef const int32_t[::1] kinds, offsets, slots, lows, highs
    cdef const int32_t[:, ::1] by_id
    cdef const int32_t[::1] starts, classes, test, true_child, false_child
    cdef const double[::1] values
    cdef const int32_t[:, ::1] symbols
    cdef const int64_t[::1] depth_starts
    cdef Py_ssize_t n_tests, n_columns, left, n_labels, n_extended, most_nodes

    def __init__(self, tests, by_id, Py_ssize_t left, trees, values, symbols, depth_starts,
                 Py_ssize_t n_labels, Py_ssize_t n_given):
        self.kinds, self.offsets, self.slots, self.lows, self.highs = tests
        self.by_id = by_id
        self.left = left
        self.starts, self.classes, self.test, self.true_child, self.false_child = trees
        self.values = values
        self.symbols = symbols
        self.depth_starts = depth_starts
        self.n_labels = n_labels
        self.n_tests = self.kinds.shape[0]
        self.n_columns = self.n_tests + n_given * (n_labels + 1)
        self.n_extended = self.symbols.shape[0]
        self.most_nodes = max(
            np.diff(self.starts), default=0)

    def add_scores(self, encoded, const uint8_t[::1] depth, const uint8_t[:, ::1] given,
                   Py_ssize_t first, Py_ssize_t last, double[:, :, ::1] scores):
        """Add the trees' values to ``scores[class, position, context]`` of some positions.

        ``given`` is None or holds the label at each lag before each position; then ``depth`` is 0
        and there is one context.
        """
        cdef Block block
        cdef const int32_t[::1] rows = encoded.row_of_position
        cdef const uint8_t[:, ::1] codes = encoded.codes
        cdef const uint8_t[:, ::1] bits = encoded.bits
        cdef const int64_t[::1] list_starts = encoded.list_starts
        cdef const int32_t[::1] list_ids = encoded.list_ids
        cdef Py_ssize_t tree
        cdef bint enough
        with nogil:
            enough = self._open(&block, scores.shape[0])
            block.first = first if enough else last
            while block.first < last:
                block.size = min(BLOCK, last - block.first)
                block.n_words = (block.size + 63) // 64
                self._fill_columns(&block, rows, codes, bits)
                self._fill_listed(&block, rows, list_starts, list_ids)
                if given is not None:
                    self._fill_given(&block, given)
                memset(block.shared, 0, scores.shape[0] * BLOCK * sizeof(double))
                for tree in range(self.classes.shape[0]):
                    self._add_tree(&block, tree, depth, scores)
                self._add_shared(&block, depth, scores)
                block.first += block.size
            free_block(&block)
        if not enough:
            raise MemoryError("no memory to evaluate the trees")

    cdef bint _open(self, Block *block, Py_ssize_t n_classes) noexcept nogil:
        cdef Py_ssize_t n = self.most_nodes + 2
        block.columns = <uint64_t *> malloc((self.n_columns + 1) * BLOCK_WORDS * sizeof(uint64_t))
        block.sets = <uint64_t *> malloc(n * BLOCK_WORDS * sizeof(uint64_t))
        block.set_of = <uint64_t **> malloc(n * sizeof(uint64_t *))
        block.contexts_of = <int32_t *> malloc(n * sizeof(int32_t))
        block.members = <uint8_t *> malloc(n * self.n_extended)
        block.bytes = <uint8_t *> calloc(BLOCK, 1)
        block.addend = <double *> malloc(self.n_extended * sizeof(double))
        block.shared = <double *> malloc(n_classes * BLOCK * sizeof(double))
        return (block.columns != NULL and block.sets != NULL and block.set_of != NULL
                and block.contexts_of != NULL and block.members != NULL and block.bytes != NULL
                and block.addend != NULL and block.shared != NULL)

    # Columns of bits

    cdef void _fill_columns(self, Block *block, const int32_t[::1] rows,
                            const uint8_t[:, ::1] codes,
                            const uint8_t[:, ::1] bits) noexcept nogil:
        """Columns of the tests on codes and bits; neighbours often share their bytes."""
        cdef Py_ssize_t k
        cdef uint8_t kind
        cdef uint64_t *column
        for k in range(self.n_tests):
            kind = self.kinds[k]
            if kind == LISTED:
                continue
            if not self._same_bytes(k):
                if kind == BIT:
                    gather(block, rows, bits, self.offsets[k], self.slots[k])
                else:
                    gather(block, rows, codes, self.offsets[k], self.slots[k])
            column = block.columns + k * BLOCK_WORDS
            if kind == CODE_EQUAL:
                bytes_equal(block.bytes, block.n_words, 255, self.lows[k], column)
            elif kind == CODE_ABOVE:
                bytes_above(block.bytes, block.n_words, self.lows[k], column)
            else:
                bytes_equal(block.bytes, block.n_words, 1 << self.lows[k], 1 << self.lows[k],
                            column)

    cdef inline bint _same_bytes(self, Py_ssize_t k) noexcept nogil:
        return (k > 0 and self.offsets[k] == self.offsets[k - 1]
                and self.slots[k] == self.slots[k - 1] and self.kinds[k - 1] != LISTED
                and (self.kinds[k] == BIT) == (self.kinds[k - 1] == BIT))

    cdef void _fill_listed(self, Block *block, const int32_t[::1] rows,
                           const int64_t[::1] list_starts,
                           const int32_t[::1] list_ids) noexcept nogil:
        cdef Py_ssize_t i, j, k, row
        cdef int64_t place
        cdef int32_t asked
        for k in range(self.n_tests):
            if self.kinds[k] == LISTED:
                memset(block.columns + k * BLOCK_WORDS, 0, BLOCK_WORDS * sizeof(uint64_t))
        for i in range(block.size if self.by_id.shape[1] else 0):
            for j in range(self.by_id.shape[0]):
                row = rows[block.first + i] + j - self.left
                for place in range(list_starts[row], list_starts[row + 1]):
                    asked = self.by_id[j, list_ids[place]]
                    if asked >= 0:
                        block.columns[asked * BLOCK_WORDS + (i >> 6)] |= <uint64_t> 1 << (i & 63)
        for k in range(self.n_tests):
            if self.kinds[k] == LISTED and self.highs[k] > self.lows[k] + 1:
                self._fill_range(block, k, rows, list_starts, list_ids)

    cdef void _fill_range(self, Block *block, Py_ssize_t k, const int32_t[::1] rows,
                          const int64_t[::1] list_starts,
                          const int32_t[::1] list_ids) noexcept nogil:
        """Column of a test that asks for any of several ids."""
        cdef Py_ssize_t i, row
        cdef int64_t place
        for i in range(block.size):
            row = rows[block.first + i] + self.offsets[k]
            for place in range(list_starts[row], list_starts[row + 1]):
                if self.lows[k] <= list_ids[place] < self.highs[k]:
                    block.columns[k * BLOCK_WORDS + (i >> 6)] |= <uint64_t> 1 << (i & 63)

    cdef void _fill_given(self, Block *block, const uint8_t[:, ::1] given) noexcept nogil:
        cdef Py_ssize_t lag, symbol
        cdef uint64_t *column = block.columns + self.n_tests * BLOCK_WORDS
        for lag in range(given.shape[0]):
            memcpy(block.bytes, &given[lag, block.first], block.size)
            for symbol in range(self.n_labels + 1):
                bytes_equal(block.bytes, block.n_words, 255, <uint8_t> symbol, column)
                column += BLOCK_WORDS

    # Trees

    cdef void _add_tree(self, Block *block, Py_ssize_t tree, const uint8_t[::1] depth,
                        double[:, :, ::1] scores) noexcept nogil:
        cdef Py_ssize_t i, start = self.starts[tree], n = self.starts[tree + 1] - start
        cdef Py_ssize_t n_sets = 1, n_members = 1
        cdef int32_t passed, failed
        cdef uint64_t *empty = NULL
        self._start_with_all(block)
        for i in range(n):
            if block.set_of[i] == NULL:
                if self.true_child[start + i] >= 0:
                    block.set_of[self.true_child[start + i]] = empty
                    block.set_of[self.false_child[start + i]] = empty
                continue
            if self.true_child[start + i] < 0:
                self._add_leaf(block, i, self.values[start + i], self.classes[tree], depth,
                               scores)
                continue
            passed = self.true_child[start + i]
            failed = self.false_child[start + i]
            if self.test[start + i] < self.n_columns:
                n_sets = self._part_positions(block, i, self.test[start + i], passed, failed,
                                              n_sets)
            else:
                n_members = self._part_contexts(block, i, self.test[start + i] - self.n_tests,
                                                passed, failed, n_members)

    cdef void _start_with_all(self, Block *block) noexcept nogil:
        memset(block.sets, 255, BLOCK_WORDS * sizeof(uint64_t))
        if block.size & 63:
            block.sets[block.n_words - 1] = (<uint64_t> 1 << (block.size & 63)) - 1
        block.set_of[0] = block.sets
        block.contexts_of[0] = 0
        memset(block.members, 1, self.n_extended)

    cdef inline Py_ssize_t _part_positions(self, Block *block, Py_ssize_t node, int32_t test,
                                           int32_t passed, int32_t failed,
                                           Py_ssize_t n_sets) noexcept nogil:
        """Part a node's set. It stays as it is: after a label test two nodes share it."""
        cdef uint64_t *here = block.set_of[node]
        cdef uint64_t *passing = block.sets + n_sets * BLOCK_WORDS
        cdef uint64_t *failing = passing + BLOCK_WORDS
        cdef int left
        left = part_bits(here, block.columns + test * BLOCK_WORDS, block.n_words, passing,
                         failing)
        block.set_of[passed] = passing if left & 1 else NULL
        block.set_of[failed] = failing if left & 2 else NULL
        block.contexts_of[passed] = block.contexts_of[failed] = block.contexts_of[node]
        return n_sets + 2

    cdef Py_ssize_t _part_contexts(self, Block *block, Py_ssize_t node, int32_t label_test,
                                   int32_t passed, int32_t failed,
                                   Py_ssize_t n_members) noexcept nogil:
        cdef Py_ssize_t e, n = self.n_extended
        cdef int32_t lag = label_test // <int32_t> (self.n_labels + 1)
        cdef int32_t symbol = label_test % <int32_t> (self.n_labels + 1)
        cdef const uint8_t *old = block.members + block.contexts_of[node] * n
        cdef uint8_t *new = block.members + n_members * n
        for e in range(n):
            new[e] = old[e] & (self.symbols[e, lag] == symbol)
            new[n + e] = old[e] & (self.symbols[e, lag] != symbol)
        block.set_of[passed] = block.set_of[failed] = block.set_of[node]
        block.contexts_of[passed] = <int32_t> n_members
        block.contexts_of[failed] = <int32_t> n_members + 1
        return n_members + 2

    cdef void _add_leaf(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                        const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
        cdef const uint64_t *members = block.set_of[node]
        cdef double *shared = block.shared + class_ * BLOCK
        cdef Py_ssize_t w, e
        cdef uint64_t word
        if block.contexts_of[node] == 0:
            for w in range(block.n_words):
                word = members[w]
                while word:
                    shared[64 * w + lowest_bit(word)] += value
                    word &= word - 1
            return
        for e in range(self.n_extended):
            block.addend[e] = value * block.members[block.contexts_of[node] * self.n_extended + e]
        for w in range(block.n_words):
            word = members[w]
            while word:
                self._add_addend(block, block.first + 64 * w + lowest_bit(word), class_, depth,
                                 scores)
                word &= word - 1

    cdef inline void _add_addend(self, Block *block, Py_ssize_t position, int32_t class_,
                                 const uint8_t[::1] depth,
                                 double[:, :, ::1] scores) noexcept nogil:
        """Add the leaf's value to those contexts of a position that reach the leaf."""
        add_scaled(&scores[class_, position, 0],
                   block.addend + self.depth_starts[depth[position]], 1.0,
                   self._n_contexts_at(depth[position]))

    cdef void _add_shared(self, Block *block, const uint8_t[::1] depth,
                          double[:, :, ::1] scores) noexcept nogil:
        cdef Py_ssize_t k, i, c
        cdef double *row
        for k in range(scores.shape[0]):
            for i in range(block.size):
                row = &scores[k, block.first + i, 0]
                for c in range(self._n_contexts_at(depth[block.first + i])):
                    row[c] += block.shared[k * BLOCK + i]

    cdef inline Py_ssize_t _n_contexts_at(self, uint8_t depth) noexcept nogil:
        if depth:
            return self.depth_starts[depth - 1] - self.depth_starts[depth]
        return 1


cdef void gather(Block *block, const int32_t[::1] rows, const uint8_t[:, ::1] table,
                 Py_ssize_t offset, Py_ssize_t slot) noexcept nogil:
    """Copy a column of bytes, shifted, for the positions of the block."""
    cdef Py_ssize_t i
    for i in range(block.size):
        block.bytes[i] = table[rows[block.first + i] + offset, slot]
