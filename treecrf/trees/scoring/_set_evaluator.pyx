"""Scores of trees at many positions at once, in all contexts.

A block of positions is a bit set. Each distinct test of the trees becomes a column of bits once. A
tree starts with the set of all positions of the block, every test splits a set in two by word-wise
AND, and every leaf adds its value to the members of its set. Tests of a previous label split the
contexts instead, so that all contexts of a position are scored together. Where the previous labels
are given, their tests have columns like all others, and a position has one score for each class.

Leaf values are multiples of 2**-20 (see ``round_value``). The sums are exact in any order, and
equal the scores of training to the last bit.

Positions of a block whose values are missing follow the surrogates of a test, or go to both
children with a fraction of their weight (see ``_sets``). Fractions are in lists next to the bit
sets.
"""

import numpy as np

from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from treecrf.chains._contexts cimport add_shared, n_contexts_at
from treecrf.chains._memory cimport Memory, release, take, take_doubles, take_zeros
from treecrf.trees.growing._sets cimport WHOLE, Fraction, fraction_of, value_of_fraction
from treecrf.trees.scoring._answers cimport (
    Answers, Positions, Surrogates, close_bits, open_bits,
)

cdef extern from "trees/bitsets.h" nogil:
    int lowest_bit(uint64_t word)
    int divide_bits(const uint64_t *parent, const uint64_t *test, Py_ssize_t n, uint64_t *passed,
                    uint64_t *failed)

cdef extern from "trees/scoring/context_sets.h" nogil:
    void split_members(const uint8_t *members, const int32_t *labels, Py_ssize_t stride,
                       int32_t label, Py_ssize_t n, uint8_t *passed, uint8_t *failed)
    Py_ssize_t list_rarer(const uint8_t *members, Py_ssize_t n, int *most_are_in, int32_t *out)


cdef void free_block(Block *block) noexcept nogil:
    """Free the memory of a block."""
    close_bits(&block.bits)
    release(&block.memory)
    free(block.fractions)


cdef class SetEvaluator:
    """Evaluator of trees at sets of positions.

    It is the reference: it takes all trees, in all contexts, also where values are missing.
    """

    def __init__(self, packed, symbols, depth_starts, Py_ssize_t n_given,
                 bint follows_surrogates, bint reads_lists=True):
        """Read packed trees, and the label at each lag of each context of every depth."""
        nodes = packed.nodes
        self.answers = Answers(packed.tests, reads_lists)
        self.starts = packed.starts
        self.classes = packed.classes
        self.test = packed.test_of_node
        self.true_child, self.false_child = packed.children
        self.leaf_numbers = np.cumsum(np.asarray(self.true_child) < 0, dtype=np.int32) - 1
        self.values = nodes["leaf"].reshape(-1)
        self.shares = nodes["share"]
        self.surrogates = Surrogates(packed, nodes["share"])
        self.follows_surrogates = follows_surrogates
        self.symbols = symbols
        self.depth_starts = depth_starts
        self.n_labels = packed.n_labels
        self.n_columns = self.answers.n_tests + n_given * (self.n_labels + 1)
        self.n_extended = self.symbols.shape[0]
        self.max_nodes = max(np.diff(self.starts), default=0)

    def add_scores(self, batch, Py_ssize_t first, Py_ssize_t last):
        """Add the trees' values to the scores of the positions from ``first`` to ``last - 1``."""
        cdef const uint8_t[::1] depth = batch.depth
        cdef double[:, :, ::1] scores = batch.scores
        cdef Block block
        cdef Positions positions = Positions(batch.encoded, batch.given, self.n_labels)
        cdef Py_ssize_t tree, start, i, n_classes = scores.shape[0]
        cdef int32_t class_
        cdef Py_ssize_t max_size = MISSING_BLOCK if positions.has_missing else BLOCK
        max_size = max(1, min(max_size // 64, BLOCK_SCORES // (64 * scores.shape[2]))) * 64
        with nogil:
            self._open(&block)
            while first < last and not block.failed:
                block.has_missing = self.answers.fill(&block.bits, positions, first,
                                                      min(max_size, last - first))
                # Class by class, so that the scores of many contexts stay in cache.
                for class_ in range(n_classes):
                    memset(block.shared, 0, BLOCK * sizeof(double))
                    tree = class_
                    while tree < self.classes.shape[0]:
                        self._split_all(&block, tree)
                        block.listed = -1
                        start = self.starts[tree]
                        for i in range(self.starts[tree + 1] - start):
                            if block.set_of[i] != NULL and self.true_child[start + i] < 0:
                                self._add_leaf(&block, i, self.values[start + i], class_, depth,
                                               scores)
                        tree += n_classes
                    add_shared(scores, class_, block.shared, block.bits.first, block.bits.size,
                               &depth[0], &self.depth_starts[0])
                first += block.bits.size
            free_block(&block)
        if block.failed:
            raise MemoryError("no memory to evaluate the trees")

    def list_leaves(self, encoded, int32_t[::1] leaves, int32_t[::1] positions,
                    double[::1] weights):
        """List the leaves that each position reaches in any context, and the fraction of it.

        Leaves are numbered through all trees. Where the arrays are None, nothing is listed; returns
        the number of entries.
        """
        cdef Block block
        cdef Positions rows = Positions(encoded)
        cdef Py_ssize_t tree, start, i, w, k, first = 0, last = rows.rows.shape[0], n = 0
        cdef const Fraction *fractions
        cdef uint64_t word
        with nogil:
            self._open(&block)
            while first < last and not block.failed:
                block.has_missing = self.answers.fill(&block.bits, rows, first,
                                                      min(MISSING_BLOCK, last - first))
                for tree in range(self.classes.shape[0]):
                    self._split_all(&block, tree)
                    start = self.starts[tree]
                    for i in range(self.starts[tree + 1] - start):
                        if block.set_of[i] == NULL or self.true_child[start + i] >= 0:
                            continue
                        for w in range(block.bits.n_words):
                            word = block.set_of[i][w]
                            while word:
                                if leaves is not None:
                                    leaves[n] = self.leaf_numbers[start + i]
                                    positions[n] = <int32_t> (block.bits.first + 64 * w
                                                              + lowest_bit(word))
                                    weights[n] = 1.0
                                n += 1
                                word &= word - 1
                        fractions = block.fractions + block.fractions_of[i]
                        for k in range(block.n_fractions_of[i] if block.has_missing else 0):
                            if leaves is not None:
                                leaves[n] = self.leaf_numbers[start + i]
                                positions[n] = <int32_t> block.bits.first + fractions[k].row
                                weights[n] = fractions[k].weight * (1.0 / WHOLE)
                            n += 1
                first += block.bits.size
            free_block(&block)
        if block.failed:
            raise MemoryError("no memory to evaluate the trees")
        return n

    cdef void _open(self, Block *block) noexcept nogil:
        """Allocate the memory of a block."""
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

    cdef void _split_all(self, Block *block, Py_ssize_t tree) noexcept nogil:
        """Find the positions and contexts of all nodes of a tree."""
        cdef Py_ssize_t i, start = self.starts[tree], n_sets = 1, n_members = 1
        cdef int32_t passed, failed
        cdef uint64_t *passing
        cdef uint64_t *failing
        cdef int sides
        block.tree = tree
        self._begin_root(block)
        for i in range(self.starts[tree + 1] - start):
            passed = self.true_child[start + i]
            failed = self.false_child[start + i]
            if passed < 0:
                continue
            if block.set_of[i] == NULL:
                block.set_of[passed] = NULL
                block.set_of[failed] = NULL
            elif self.test[start + i] < self.n_columns:
                # Two new sets: after a label test, two nodes share a set. Sides are 1 if some
                # positions pass, plus 2 if some fail.
                passing = block.sets + n_sets * BLOCK_WORDS
                failing = passing + BLOCK_WORDS
                sides = divide_bits(
                    block.set_of[i], block.bits.columns + self.test[start + i] * BLOCK_WORDS,
                    block.bits.n_words, passing, failing)
                if block.has_missing:
                    sides = self._split_missing(block, i, start + i, passed, failed, passing,
                                                failing)
                block.set_of[passed] = passing if sides & 1 else NULL
                block.set_of[failed] = failing if sides & 2 else NULL
                block.contexts_of[passed] = block.contexts_of[i]
                block.contexts_of[failed] = block.contexts_of[i]
                n_sets += 2
            else:
                self._split_contexts(block, i, start + i, n_members)
                n_members += 2

    cdef void _begin_root(self, Block *block) noexcept nogil:
        """Set the positions and contexts of the root of a tree: all of them."""
        if block.inside != NULL:
            memcpy(block.sets, block.inside, block.bits.n_words * sizeof(uint64_t))
        else:
            memset(block.sets, 255, BLOCK_WORDS * sizeof(uint64_t))
            if block.bits.size & 63:
                block.sets[block.bits.n_words - 1] = (<uint64_t> 1 << (block.bits.size & 63)) - 1
        block.set_of[0] = block.sets
        block.n_fractions = 0
        block.fractions_of[0] = 0
        block.n_fractions_of[0] = 0
        block.contexts_of[0] = 0
        memset(block.members, 1, self.n_extended)

    cdef void _split_contexts(self, Block *block, Py_ssize_t node, Py_ssize_t index,
                              Py_ssize_t n_members) noexcept nogil:
        """Split the contexts of a node by its test; both children have all positions."""
        cdef int32_t label_test = self.test[index] - <int32_t> self.answers.n_tests
        cdef Py_ssize_t n = self.n_extended, n_symbols = self.n_labels + 1
        cdef uint8_t *members = block.members + n_members * n
        cdef int32_t passed = self.true_child[index], failed = self.false_child[index]
        split_members(block.members + block.contexts_of[node] * n,
                      &self.symbols[0, label_test // n_symbols], self.symbols.shape[1],
                      label_test % n_symbols, n, members, members + n)
        block.set_of[passed] = block.set_of[node]
        block.set_of[failed] = block.set_of[node]
        block.fractions_of[passed] = block.fractions_of[node]
        block.fractions_of[failed] = block.fractions_of[node]
        block.n_fractions_of[passed] = block.n_fractions_of[node]
        block.n_fractions_of[failed] = block.n_fractions_of[node]
        block.contexts_of[passed] = <int32_t> n_members
        block.contexts_of[failed] = <int32_t> n_members + 1

    cdef int _split_missing(self, Block *block, Py_ssize_t node, Py_ssize_t index, int32_t passed,
                            int32_t failed, uint64_t *passing, uint64_t *failing) noexcept nogil:
        """Send on positions without the value; returns 1 if some pass, plus 2 if some fail.

        Without surrogates, the weight of these positions and of fractions is divided.
        """
        cdef uint64_t missing[BLOCK_WORDS]
        cdef const uint64_t *lacking = self.answers.missing_of(&block.bits, self.test[index])
        cdef Py_ssize_t w, n
        cdef uint64_t any_passed = 0, any_failed = 0
        for w in range(block.bits.n_words):
            missing[w] = failing[w] & lacking[w] if lacking != NULL else 0
            failing[w] ^= missing[w]
        block.n_passing = 0
        block.n_failing = 0
        if self.follows_surrogates:
            block.n_fractions_of[passed] = 0
            block.n_fractions_of[failed] = 0
            self.surrogates.follow(self.answers, &block.bits, index, missing, passing, failing)
        else:
            if not self._divide_fractions(block, node, index, missing, lacking):
                return 0
            n = block.n_fractions + block.n_passing
            memcpy(block.fractions + n, block.failing, block.n_failing * sizeof(Fraction))
            block.fractions_of[passed] = block.n_fractions
            block.n_fractions_of[passed] = block.n_passing
            block.fractions_of[failed] = n
            block.n_fractions_of[failed] = block.n_failing
            block.n_fractions = n + block.n_failing
        for w in range(block.bits.n_words):
            any_passed |= passing[w]
            any_failed |= failing[w]
        return ((any_passed != 0 or block.n_fractions_of[passed] > 0)
                + 2 * (any_failed != 0 or block.n_fractions_of[failed] > 0))

    cdef bint _divide_fractions(self, Block *block, Py_ssize_t node, Py_ssize_t index,
                                const uint64_t *missing, const uint64_t *lacking) noexcept nogil:
        """Send on the fractions of a node, and divide positions that lack the value of its test.

        Fractions that pass follow those of all nodes; the others are in `block.failing`. Returns
        False if there is no memory.
        """
        cdef uint32_t share = <uint32_t> rint(self.shares[index] * WHOLE)
        cdef const uint64_t *column = block.bits.columns + self.test[index] * BLOCK_WORDS
        cdef Py_ssize_t i, w, first = block.fractions_of[node]
        cdef Fraction fraction
        cdef uint64_t word
        cdef int32_t row
        if not make_room(block, block.n_fractions + 2 * block.bits.size):
            return False
        for i in range(first, first + block.n_fractions_of[node]):
            fraction = block.fractions[i]
            if lacking != NULL and has_bit(lacking, fraction.row):
                divide_one(block, fraction.row, fraction.weight,
                           fraction_of(fraction.weight, share))
            else:
                divide_one(block, fraction.row, fraction.weight,
                           fraction.weight * has_bit(column, fraction.row))
        for w in range(block.bits.n_words):
            word = missing[w]
            while word:
                row = <int32_t> (64 * w + lowest_bit(word))
                divide_one(block, row, WHOLE, share)
                self._begin_fraction(block, node, row)
                word &= word - 1
        return True

    cdef void _begin_fraction(self, Block *block, Py_ssize_t node, int32_t row) noexcept nogil:
        """Note that a position is divided at a node; subclasses may need to."""

    cdef void _add_leaf(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                        const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
        """Add a leaf's value to the positions that reach it."""
        cdef const uint64_t *members = block.set_of[node]
        cdef const Fraction *fractions = block.fractions + block.fractions_of[node]
        cdef const int64_t *starts = &self.depth_starts[0]
        cdef Py_ssize_t w, i, order = self.depth_starts.shape[0] - 1
        cdef int32_t row = block.contexts_of[node]
        cdef uint64_t word
        if block.listed != row:
            # Find the contexts that receive the value; where most do, others lose it again.
            block.listed = row
            block.is_everywhere = row == 0
            block.is_shared = row == 0
            if row:
                block.n_where = list_rarer(
                    block.members + row * self.n_extended, n_contexts_at(starts, <uint8_t> order),
                    &block.is_shared, block.where)
        for w in range(block.bits.n_words):
            word = members[w]
            while word:
                self._add_value(block, 64 * w + lowest_bit(word), value, class_, depth, scores)
                word &= word - 1
        for i in range(block.n_fractions_of[node] if block.has_missing else 0):
            self._add_value(block, fractions[i].row, value_of_fraction(value, fractions[i].weight),
                            class_, depth, scores)

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


cdef bint make_room(Block *block, Py_ssize_t n) noexcept nogil:
    """Make room for a number of fractions; returns False if there is no memory."""
    cdef Fraction *fractions
    if n <= block.room:
        return True
    fractions = <Fraction *> realloc(block.fractions, 2 * n * sizeof(Fraction))
    if fractions == NULL:
        block.failed = True
        return False
    block.fractions = fractions
    block.room = 2 * n
    return True


cdef inline bint has_bit(const uint64_t *words, int32_t i) noexcept nogil:
    """Return whether a set has an element."""
    return words[i >> 6] >> (i & 63) & 1


cdef inline void divide_one(Block *block, int32_t row, uint32_t weight,
                            uint32_t passing) noexcept nogil:
    """Let a fraction of a weight pass and the rest fail; a weight of 0 is dropped."""
    block.fractions[block.n_fractions + block.n_passing] = Fraction(row, passing)
    block.failing[block.n_failing] = Fraction(row, weight - passing)
    block.n_passing += passing > 0
    block.n_failing += passing < weight
