"""Scores of trees at many positions at once, in all contexts.

A block of positions is a bit set. Each distinct test of the trees becomes a column of bits once. A
tree starts with the set of all positions of the block, every test splits a set in two by word-wise
AND, and every leaf adds its value to the members of its set. Tests of a previous label split the
contexts instead, so that all contexts of a position are scored together. Where the previous labels
are given, their tests have columns like all others, and a position has one score for each class.

Leaf values are multiples of 2**-20 (see ``_tree``). The sums are exact in any order, and equal
the scores of training to the last bit.

Positions of a block whose values are missing follow the surrogates of a test, or go to both
children with a fraction of their weight (see ``_sets``). Fractions are in lists next to the bit
sets.
"""

import numpy as np

from libc.math cimport rint
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from treecrf.chains._contexts cimport add_shared, n_contexts_at
from treecrf.chains._memory cimport Memory, release, take, take_doubles, take_zeros
from treecrf.trees.scoring._answers cimport (
    Answers, Positions, Surrogates, begin_bits, close_bits, open_bits,
)
from treecrf.trees.growing._sets cimport WHOLE, Fraction, fraction_of, value_of_fraction

cdef extern from "utils/bitsets.h" nogil:
    int lowest_bit(uint64_t word)
    int divide_bits(const uint64_t *parent, const uint64_t *test, Py_ssize_t n, uint64_t *passed,
                    uint64_t *failed)


cdef extern from "trees/scoring/leaf_updates.h" nogil:
    void split_members(const uint8_t *members, const int32_t *labels, Py_ssize_t stride,
                       int32_t label, Py_ssize_t n, uint8_t *passed, uint8_t *failed)
    Py_ssize_t list_rarer(const uint8_t *members, Py_ssize_t n, int *most_are_in, int32_t *out)


cdef void free_block(Block *block) noexcept nogil:
    close_bits(&block.bits)
    release(&block.memory)
    free(block.fractions)


cdef class Evaluator:
    """Evaluator of trees at sets of positions."""

    def __init__(self, packed, symbols, depth_starts, Py_ssize_t n_given,
                 bint follows_surrogates, bint reads_lists=True):
        nodes = packed.nodes
        self.answers = Answers(packed.tests, reads_lists)
        self.starts, self.classes, self.test = packed.starts, packed.classes, packed.test_of_node
        self.true_child, self.false_child = packed.children
        self.leaf_numbers = np.cumsum(np.asarray(self.true_child) < 0, dtype=np.int32) - 1
        self.values, self.shares = nodes["leaf"], nodes["share"]
        self.surrogates = Surrogates(packed, nodes["share"])
        self.follows_surrogates = follows_surrogates
        self.symbols = symbols
        self.depth_starts = depth_starts
        self.n_labels = packed.n_labels
        self.n_columns = self.answers.n_tests + n_given * (self.n_labels + 1)
        self.n_extended = self.symbols.shape[0]
        self.max_nodes = max(np.diff(self.starts), default=0)

    def add_scores(self, scoring, Py_ssize_t first, Py_ssize_t last):
        """Add the trees' values to the scores of the positions from ``first`` to ``last - 1``."""
        cdef const uint8_t[::1] depth = scoring.depth
        cdef const uint8_t[:, ::1] given = scoring.given
        cdef double[:, :, ::1] scores = scoring.scores
        cdef Block block
        cdef Positions positions = Positions(scoring.encoded)
        cdef Py_ssize_t tree, class_, n_classes = scores.shape[0]
        cdef Py_ssize_t max_size = MISSING_BLOCK if positions.has_missing else BLOCK
        max_size = max(1, min(max_size // 64, BLOCK_SCORES // (64 * scores.shape[2]))) * 64
        with nogil:
            self._open(&block)
            while first < last and not block.failed:
                begin_bits(&block.bits, first, min(max_size, last - first))
                block.has_missing = self.answers.fill(&block.bits, positions)
                self.answers.fill_given(&block.bits, given, self.n_labels)
                # Class by class, so that the scores of many contexts stay in cache.
                for class_ in range(n_classes):
                    memset(block.shared, 0, BLOCK * sizeof(double))
                    tree = class_
                    while tree < self.classes.shape[0]:
                        self._add_tree(&block, tree, depth, scores)
                        tree += n_classes
                    add_shared(scores, class_, block.shared, block.bits.first, block.bits.size,
                               &depth[0], &self.depth_starts[0])
                first += block.bits.size
            free_block(&block)
        if block.failed:
            raise MemoryError("no memory to evaluate the trees")

    def list_parts(self, encoded, int32_t[::1] leaves, int32_t[::1] positions,
                   double[::1] parts):
        """List the leaves that each position reaches in any context, and the fraction of it.

        Leaves are numbered through all trees. Where the arrays are None, nothing is listed; returns
        the number of entries.
        """
        cdef Block block
        cdef Positions rows = Positions(encoded)
        cdef Py_ssize_t tree, first = 0, last = rows.rows.shape[0], n = 0
        with nogil:
            self._open(&block)
            while first < last and not block.failed:
                begin_bits(&block.bits, first, min(MISSING_BLOCK, last - first))
                block.has_missing = self.answers.fill(&block.bits, rows)
                for tree in range(self.classes.shape[0]):
                    self._split_all(&block, tree)
                    n = self._list_leaves(&block, tree, leaves, positions, parts, n)
                first += block.bits.size
            free_block(&block)
        if block.failed:
            raise MemoryError("no memory to evaluate the trees")
        return n

    cdef Py_ssize_t _list_leaves(self, Block *block, Py_ssize_t tree, int32_t[::1] leaves,
                                 int32_t[::1] positions, double[::1] parts,
                                 Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i, k, w, start = self.starts[tree]
        cdef const Fraction *fractions
        cdef uint64_t word
        for i in range(self.starts[tree + 1] - start):
            if block.set_of[i] == NULL or self.true_child[start + i] >= 0:
                continue
            for w in range(block.bits.n_words):
                word = block.set_of[i][w]
                while word:
                    if leaves is not None:
                        leaves[n] = self.leaf_numbers[start + i]
                        positions[n] = <int32_t> (block.bits.first + 64 * w + lowest_bit(word))
                        parts[n] = 1.0
                    n += 1
                    word &= word - 1
            fractions = block.fractions + block.fractions_of[i]
            for k in range(block.n_fractions_of[i] if block.has_missing else 0):
                if leaves is not None:
                    leaves[n] = self.leaf_numbers[start + i]
                    positions[n] = <int32_t> block.bits.first + fractions[k].row
                    parts[n] = fractions[k].weight * (1.0 / WHOLE)
                n += 1
        return n

    cdef void _open(self, Block *block) noexcept nogil:
        cdef Py_ssize_t n = self.max_nodes + 2
        cdef Memory *memory = &block.memory
        memset(block, 0, sizeof(Block))
        block.sets = <uint64_t *> take(memory, n * BLOCK_WORDS * sizeof(uint64_t))
        block.set_of = <uint64_t **> take(memory, n * sizeof(uint64_t *))
        block.contexts_of = <int32_t *> take(memory, n * sizeof(int32_t))
        block.members = <uint8_t *> take(memory, n * self.n_extended)
        block.where = <int32_t *> take(memory, self.n_extended * sizeof(int32_t))
        block.shared = take_doubles(memory, BLOCK)
        block.fractions_of = <Py_ssize_t *> take_zeros(memory, n * sizeof(Py_ssize_t))
        block.n_fractions_of = <Py_ssize_t *> take_zeros(memory, n * sizeof(Py_ssize_t))
        block.failing = <Fraction *> take(memory, BLOCK * sizeof(Fraction))
        block.failed = not open_bits(&block.bits, self.n_columns, BLOCK_WORDS) or memory.failed

    # Trees

    cdef void _add_tree(self, Block *block, Py_ssize_t tree, const uint8_t[::1] depth,
                        double[:, :, ::1] scores) noexcept nogil:
        cdef Py_ssize_t i, start = self.starts[tree]
        cdef int32_t class_ = self.classes[tree]
        self._split_all(block, tree)
        block.listed = -1
        for i in range(self.starts[tree + 1] - start):
            if block.set_of[i] == NULL or self.true_child[start + i] >= 0:
                continue
            self._add_leaf(block, i, self.values[start + i], class_, depth, scores)

    cdef void _split_all(self, Block *block, Py_ssize_t tree) noexcept nogil:
        """Find the positions and contexts of all nodes of a tree."""
        cdef Py_ssize_t i, start = self.starts[tree]
        cdef Py_ssize_t n_sets = 1, n_members = 1
        cdef int32_t passed, failed
        cdef uint64_t *empty = NULL
        block.tree = tree
        self._start_with_all(block)
        for i in range(self.starts[tree + 1] - start):
            passed = self.true_child[start + i]
            failed = self.false_child[start + i]
            if passed < 0:
                continue
            if block.set_of[i] == NULL:
                block.set_of[passed] = block.set_of[failed] = empty
            elif self.test[start + i] < self.n_columns:
                n_sets = self._split_positions(block, i, start + i, passed, failed, n_sets)
            else:
                n_members = self._split_contexts(
                    block, i, self.test[start + i] - self.answers.n_tests, passed, failed,
                    n_members)

    cdef void _start_with_all(self, Block *block) noexcept nogil:
        if block.inside != NULL:
            memcpy(block.sets, block.inside, block.bits.n_words * sizeof(uint64_t))
        else:
            memset(block.sets, 255, BLOCK_WORDS * sizeof(uint64_t))
            if block.bits.size & 63:
                block.sets[block.bits.n_words - 1] = (<uint64_t> 1 << (block.bits.size & 63)) - 1
        block.set_of[0] = block.sets
        block.n_fractions = block.fractions_of[0] = block.n_fractions_of[0] = 0
        block.contexts_of[0] = 0
        memset(block.members, 1, self.n_extended)

    cdef Py_ssize_t _split_positions(self, Block *block, Py_ssize_t node, Py_ssize_t index,
                                     int32_t passed, int32_t failed,
                                     Py_ssize_t n_sets) noexcept nogil:
        """Split a node's set into two new ones: after a label test, two nodes share the set."""
        cdef uint64_t *here = block.set_of[node]
        cdef uint64_t *passing = block.sets + n_sets * BLOCK_WORDS
        cdef uint64_t *failing = passing + BLOCK_WORDS
        cdef int left
        left = divide_bits(here, block.bits.columns + self.test[index] * BLOCK_WORDS,
                           block.bits.n_words, passing, failing)
        if block.has_missing:
            left = self._split_missing(block, node, index, passed, failed, passing, failing)
        block.set_of[passed] = passing if left & 1 else NULL
        block.set_of[failed] = failing if left & 2 else NULL
        block.contexts_of[passed] = block.contexts_of[failed] = block.contexts_of[node]
        return n_sets + 2

    cdef int _split_missing(self, Block *block, Py_ssize_t node, Py_ssize_t index, int32_t passed,
                            int32_t failed, uint64_t *passing, uint64_t *failing) noexcept nogil:
        """Send on positions without the value; returns 1 if some pass, plus 2 if some fail."""
        cdef uint64_t missing[BLOCK_WORDS]
        cdef uint64_t any_passed = 0, any_failed = 0
        cdef Py_ssize_t w
        self._take_missing(block, self.test[index], failing, missing)
        block.n_fractions_of[passed] = block.n_fractions_of[failed] = 0
        if self.follows_surrogates:
            self.surrogates.follow(self.answers, &block.bits, index, missing, passing, failing)
        else:
            self._divide(block, node, index, missing, passed, failed)
        for w in range(block.bits.n_words):
            any_passed |= passing[w]
            any_failed |= failing[w]
        return ((any_passed != 0 or block.n_fractions_of[passed] > 0)
                + 2 * (any_failed != 0 or block.n_fractions_of[failed] > 0))

    cdef void _take_missing(self, const Block *block, int32_t test, uint64_t *failing,
                            uint64_t *missing) noexcept nogil:
        """Move the positions that lack the value of a test from those that fail it."""
        cdef const uint64_t *lacking = self.answers.missing_of(&block.bits, test)
        cdef Py_ssize_t w
        for w in range(block.bits.n_words):
            missing[w] = failing[w] & lacking[w] if lacking != NULL else 0
            failing[w] ^= missing[w]

    cdef void _divide(self, Block *block, Py_ssize_t node, Py_ssize_t index,
                      const uint64_t *missing, int32_t passed, int32_t failed) noexcept nogil:
        """Divide the weight of fractions, and of positions that now lack a value."""
        cdef uint32_t share = <uint32_t> rint(self.shares[index] * WHOLE)
        cdef const uint64_t *column = block.bits.columns + self.test[index] * BLOCK_WORDS
        cdef const uint64_t *lacking = self.answers.missing_of(&block.bits, self.test[index])
        cdef Py_ssize_t i, w, n = block.n_fractions_of[node]
        cdef Fraction part
        cdef uint64_t word
        cdef int32_t row
        if not make_room(block):
            return
        block.n_passing = block.n_failing = 0
        for i in range(block.fractions_of[node], block.fractions_of[node] + n):
            part = block.fractions[i]
            if lacking != NULL and has_bit(lacking, part.row):
                divide_one(block, part.row, part.weight, fraction_of(part.weight, share))
            else:
                divide_one(block, part.row, part.weight, part.weight * has_bit(column, part.row))
        for w in range(block.bits.n_words):
            word = missing[w]
            while word:
                row = <int32_t> (64 * w + lowest_bit(word))
                divide_one(block, row, WHOLE, share)
                self._begin_fraction(block, node, row)
                word &= word - 1
        n = block.n_fractions + block.n_passing
        memcpy(block.fractions + n, block.failing, block.n_failing * sizeof(Fraction))
        block.fractions_of[passed] = block.n_fractions
        block.n_fractions_of[passed] = block.n_passing
        block.fractions_of[failed] = n
        block.n_fractions_of[failed] = block.n_failing
        block.n_fractions = n + block.n_failing

    cdef void _begin_fraction(self, Block *block, Py_ssize_t node, int32_t row) noexcept nogil:
        """Note that a position is divided at a node; subclasses may need to."""

    cdef Py_ssize_t _split_contexts(self, Block *block, Py_ssize_t node, int32_t label_test,
                                    int32_t passed, int32_t failed,
                                    Py_ssize_t n_members) noexcept nogil:
        cdef Py_ssize_t n = self.n_extended
        cdef int32_t lag = label_test // <int32_t> (self.n_labels + 1)
        cdef int32_t symbol = label_test % <int32_t> (self.n_labels + 1)
        cdef const uint8_t *old = block.members + block.contexts_of[node] * n
        cdef uint8_t *new = block.members + n_members * n
        split_members(old, &self.symbols[0, lag], self.symbols.shape[1], symbol, n, new, new + n)
        block.set_of[passed] = block.set_of[failed] = block.set_of[node]
        block.fractions_of[passed] = block.fractions_of[failed] = block.fractions_of[node]
        block.n_fractions_of[passed] = block.n_fractions_of[failed] = block.n_fractions_of[node]
        block.contexts_of[passed] = <int32_t> n_members
        block.contexts_of[failed] = <int32_t> n_members + 1
        return n_members + 2

    cdef void _add_leaf(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                        const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
        """Add a leaf's value to the positions that reach it."""
        cdef const uint64_t *members = block.set_of[node]
        cdef const Fraction *fractions = block.fractions + block.fractions_of[node]
        cdef Py_ssize_t w, i
        cdef uint64_t word
        self._list_contexts(block, node)
        for w in range(block.bits.n_words):
            word = members[w]
            while word:
                self._add_value(block, 64 * w + lowest_bit(word), value, class_, depth, scores)
                word &= word - 1
        for i in range(block.n_fractions_of[node] if block.has_missing else 0):
            self._add_value(block, fractions[i].row, value_of_fraction(value, fractions[i].weight),
                            class_, depth, scores)

    cdef void _list_contexts(self, Block *block, Py_ssize_t node) noexcept nogil:
        """Find the contexts that receive a leaf's value; where most do, others lose it again."""
        cdef int32_t row = block.contexts_of[node]
        cdef Py_ssize_t depth = self.depth_starts.shape[0] - 1
        if block.listed == row:
            return
        block.listed = row
        block.is_everywhere = block.is_shared = row == 0
        if row:
            block.n_where = list_rarer(
                block.members + row * self.n_extended,
                n_contexts_at(&self.depth_starts[0], <uint8_t> depth), &block.is_shared,
                block.where)

    cdef inline void _add_value(self, Block *block, Py_ssize_t i, double value, int32_t class_,
                                const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
        """Add a value to those contexts of the i-th position of the block that reach a leaf."""
        cdef Py_ssize_t k, position = block.bits.first + i
        cdef double *row
        cdef const uint8_t *members
        if block.is_shared:
            block.shared[i] += value
        if block.is_everywhere:
            return
        row = &scores[class_, position, 0]
        if depth[position] == self.depth_starts.shape[0] - 1:
            if block.is_shared:
                value = -value
            for k in range(block.n_where):
                row[block.where[k]] += value
        else:
            members = (block.members + block.listed * self.n_extended
                       + self.depth_starts[depth[position]])
            for k in range(n_contexts_at(&self.depth_starts[0], depth[position])):
                row[k] += value * (members[k] - block.is_shared)


cdef inline bint has_bit(const uint64_t *words, int32_t i) noexcept nogil:
    return words[i >> 6] >> (i & 63) & 1


cdef bint make_room(Block *block) noexcept nogil:
    """Make room for the fractions of two more nodes."""
    cdef Fraction *moved
    cdef Py_ssize_t needed = block.n_fractions + 2 * block.bits.size
    if needed > block.room:
        moved = <Fraction *> realloc(block.fractions, 2 * needed * sizeof(Fraction))
        block.failed = block.failed or moved == NULL
        if moved != NULL:
            block.fractions = moved
            block.room = 2 * needed
    return not block.failed


cdef inline void divide_one(Block *block, int32_t row, uint32_t weight,
                            uint32_t passing) noexcept nogil:
    """Let part of a weight pass and the rest fail; a weight of 0 is dropped."""
    block.fractions[block.n_fractions + block.n_passing] = Fraction(row, passing)
    block.failing[block.n_failing] = Fraction(row, weight - passing)
    block.n_passing += passing > 0
    block.n_failing += passing < weight
