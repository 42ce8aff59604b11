"""Scores of trees at many positions at once.

A block of positions is a set of bits. Each test that the trees ask becomes a column of bits once;
a tree starts with the set of all positions of the block, every test parts a set in two by word-wise
AND, and every leaf adds its value to the members of its set. Tests of a previous label part the
contexts instead, so that all contexts of a position are scored together. Where the previous labels
are given, they make columns like everything else, and a position has one score a class.

Leaf values are multiples of 2**-40 (see ``_tree``): the sums are exact and equal those of training
to the last bit, in whatever order they are taken.

Where positions of a block miss values, they follow the surrogates of a test, or go to both sides of
it in part (see ``_members``); those that do are in lists beside the sets of bits.
"""

import numpy as np

from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from treecrf.chains._contexts cimport add_shared, add_to_contexts
from treecrf.trees.scoring._answers cimport (
    Answers,
    Bits,
    Positions,
    begin_bits,
    close_bits,
    open_bits,
)
from treecrf.trees.growing._row_sets cimport WHOLE, Fraction, fraction_of, value_of_fraction

cdef extern from "utils/bitsets.h" nogil:
    int lowest_bit(uint64_t word)
    int part_bits(const uint64_t *parent, const uint64_t *test, Py_ssize_t n, uint64_t *passed,
                  uint64_t *failed)

cdef enum:
    BLOCK_WORDS = 64
    BLOCK = 64 * BLOCK_WORDS
    # Lists of positions should stay in cache too.
    GAPPED_BLOCK = BLOCK // 4


cdef struct Block:
    # The positions at work and the memory for them.
    Bits bits
    uint64_t *sets             # two sets of positions a node, at most
    uint64_t **set_of          # set of each node, NULL when nobody is left
    int32_t *contexts_of       # row of `members` for each node; 0: all contexts
    uint8_t *members           # sets of extended contexts
    double *addend             # 1 for the contexts that reach a leaf, else 0
    double *shared             # [class, position]: values that all contexts receive
    bint has_gaps              # whether any position misses a value
    Fraction *parts            # positions that nodes have in part
    Py_ssize_t n_parts, room
    Py_ssize_t *parts_of       # the first part of each node
    Py_ssize_t *n_parts_of     # how many each node has
    Fraction *failing          # scratch: those that fail the test of the node at work
    Py_ssize_t n_passing, n_failing
    bint failed


cdef void free_block(Block *block) noexcept nogil:
    close_bits(&block.bits)
    free(block.sets)
    free(block.set_of)
    free(block.contexts_of)
    free(block.members)
    free(block.addend)
    free(block.shared)
    free(block.parts)
    free(block.failing)
    free(block.parts_of)
    free(block.n_parts_of)


cdef class Evaluator:
    """Packed trees, ready to score encoded positions.

    Parameters
    ----------
    asked : treecrf.trees.scoring.distinct_tests.DistinctTests
        The distinct window tests.
    trees : tuple of int32 arrays
        Start of each tree among the nodes (n_trees + 1), class of each tree, and for all nodes
        test (tests of previous labels follow the window tests), true child and false child,
        counted from the start of the tree, -1 in a leaf.
    values : float64 array (n_nodes,)
    shares : float64 array (n_nodes,)
        Of those that miss the value of a node's test, the part that passes.
    surrogates : tuple of arrays
        Start of each node's surrogates (n_nodes + 1), the window test of each surrogate, both
        int32, and whether it is reversed, uint8.
    follows_surrogates : bool
        Whether those that miss the value go where surrogates say, or most do, instead of to both
        sides in part.
    symbols : int32 array (n_extended, order)
        Previous label at each lag of each extended context.
    depth_starts : int64 array (order + 1,)
        First extended context of each depth.
    n_labels : int
    n_given : int
        Number of previous labels that `add_scores` is given; 0 to score all contexts.
    """

    cdef Answers answers
    cdef const int32_t[::1] starts, classes, test, true_child, false_child, leaf_numbers
    cdef const double[::1] values, shares
    cdef const int32_t[::1] surrogate_starts, surrogates
    cdef const uint8_t[::1] is_reversed
    cdef bint follows_surrogates
    cdef const int32_t[:, ::1] symbols
    cdef const int64_t[::1] depth_starts
    cdef Py_ssize_t n_columns, n_labels, n_extended, max_nodes

    def __init__(self, asked, trees, values, shares, surrogates, bint follows_surrogates, symbols,
                 depth_starts, Py_ssize_t n_labels, Py_ssize_t n_given):
        self.answers = Answers(asked)
        self.starts, self.classes, self.test, self.true_child, self.false_child = trees
        self.leaf_numbers = np.cumsum(np.asarray(self.true_child) < 0, dtype=np.int32) - 1
        self.values = values
        self.shares = shares
        self.surrogate_starts, self.surrogates, self.is_reversed = surrogates
        self.follows_surrogates = follows_surrogates
        self.symbols = symbols
        self.depth_starts = depth_starts
        self.n_labels = n_labels
        self.n_columns = self.answers.n_tests + n_given * (n_labels + 1)
        self.n_extended = self.symbols.shape[0]
        self.max_nodes = max(
            np.diff(self.starts), default=0)

    def add_scores(self, encoded, const uint8_t[::1] depth, const uint8_t[:, ::1] given,
                   Py_ssize_t first, Py_ssize_t last, double[:, :, ::1] scores):
        """Add the trees' values to ``scores[class, position, context]`` of some positions.

        ``given`` is None or holds the label at each lag before each position; then ``depth`` is 0
        and there is one context.
        """
        cdef Block block
        cdef Positions positions = Positions(encoded)
        cdef Py_ssize_t tree, most = GAPPED_BLOCK if positions.may_lack else BLOCK
        with nogil:
            self._open(&block, scores.shape[0])
            while first < last and not block.failed:
                begin_bits(&block.bits, first, min(most, last - first))
                block.has_gaps = self.answers.fill(&block.bits, positions)
                if given is not None:
                    self.answers.fill_given(&block.bits, given, self.n_labels)
                memset(block.shared, 0, scores.shape[0] * BLOCK * sizeof(double))
                for tree in range(self.classes.shape[0]):
                    self._add_tree(&block, tree, depth, scores)
                add_shared(scores, block.shared, BLOCK, block.bits.first, block.bits.size,
                           &depth[0], &self.depth_starts[0])
                first += block.bits.size
            free_block(&block)
        if block.failed:
            raise MemoryError("no memory to evaluate the trees")

    def list_parts(self, encoded, int32_t[::1] leaves, int32_t[::1] positions,
                   double[::1] parts):
        """List the leaves that positions reach, in whatever context, and what part of them does.

        A leaf is its place among the leaves of all trees. Where the arrays are None, nothing is
        listed; returns how many there are.
        """
        cdef Block block
        cdef Positions asked = Positions(encoded)
        cdef Py_ssize_t tree, first = 0, last = asked.rows.shape[0], n = 0
        with nogil:
            self._open(&block, 1)
            while first < last and not block.failed:
                begin_bits(&block.bits, first, min(GAPPED_BLOCK, last - first))
                block.has_gaps = self.answers.fill(&block.bits, asked)
                for tree in range(self.classes.shape[0]):
                    self._part_all(&block, tree)
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
            fractions = block.parts + block.parts_of[i]
            for k in range(block.n_parts_of[i] if block.has_gaps else 0):
                if leaves is not None:
                    leaves[n] = self.leaf_numbers[start + i]
                    positions[n] = <int32_t> block.bits.first + fractions[k].row
                    parts[n] = fractions[k].weight * (1.0 / WHOLE)
                n += 1
        return n

    cdef void _open(self, Block *block, Py_ssize_t n_classes) noexcept nogil:
        cdef Py_ssize_t n = self.max_nodes + 2
        memset(block, 0, sizeof(Block))
        block.sets = <uint64_t *> malloc(n * BLOCK_WORDS * sizeof(uint64_t))
        block.set_of = <uint64_t **> malloc(n * sizeof(uint64_t *))
        block.contexts_of = <int32_t *> malloc(n * sizeof(int32_t))
        block.members = <uint8_t *> malloc(n * self.n_extended)
        block.addend = <double *> malloc(self.n_extended * sizeof(double))
        block.shared = <double *> malloc(n_classes * BLOCK * sizeof(double))
        block.parts_of = <Py_ssize_t *> malloc(n * sizeof(Py_ssize_t))
        block.n_parts_of = <Py_ssize_t *> calloc(n, sizeof(Py_ssize_t))
        block.failing = <Fraction *> malloc(BLOCK * sizeof(Fraction))
        block.failed = not (
            open_bits(&block.bits, self.n_columns, BLOCK_WORDS) and block.sets and block.set_of
            and block.contexts_of and block.members and block.addend and block.shared
            and block.parts_of and block.n_parts_of and block.failing)

    # Trees

    cdef void _add_tree(self, Block *block, Py_ssize_t tree, const uint8_t[::1] depth,
                        double[:, :, ::1] scores) noexcept nogil:
        cdef Py_ssize_t i, start = self.starts[tree]
        cdef int32_t class_ = self.classes[tree]
        self._part_all(block, tree)
        for i in range(self.starts[tree + 1] - start):
            if block.set_of[i] == NULL or self.true_child[start + i] >= 0:
                continue
            self._add_leaf(block, i, self.values[start + i], class_, depth, scores)
            if block.has_gaps:
                self._add_leaf_parts(block, i, self.values[start + i], class_, depth, scores)

    cdef void _part_all(self, Block *block, Py_ssize_t tree) noexcept nogil:
        """Find the positions and contexts of all nodes of a tree."""
        cdef Py_ssize_t i, start = self.starts[tree]
        cdef Py_ssize_t n_sets = 1, n_members = 1
        cdef int32_t passed, failed
        cdef uint64_t *empty = NULL
        self._start_with_all(block)
        for i in range(self.starts[tree + 1] - start):
            passed = self.true_child[start + i]
            failed = self.false_child[start + i]
            if passed < 0:
                continue
            if block.set_of[i] == NULL:
                block.set_of[passed] = block.set_of[failed] = empty
            elif self.test[start + i] < self.n_columns:
                n_sets = self._part_positions(block, i, start + i, passed, failed, n_sets)
            else:
                n_members = self._part_contexts(
                    block, i, self.test[start + i] - self.answers.n_tests, passed, failed,
                    n_members)

    cdef void _start_with_all(self, Block *block) noexcept nogil:
        memset(block.sets, 255, BLOCK_WORDS * sizeof(uint64_t))
        if block.bits.size & 63:
            block.sets[block.bits.n_words - 1] = (<uint64_t> 1 << (block.bits.size & 63)) - 1
        block.set_of[0] = block.sets
        block.n_parts = block.parts_of[0] = block.n_parts_of[0] = 0
        block.contexts_of[0] = 0
        memset(block.members, 1, self.n_extended)

    cdef inline Py_ssize_t _part_positions(self, Block *block, Py_ssize_t node, Py_ssize_t place,
                                           int32_t passed, int32_t failed,
                                           Py_ssize_t n_sets) noexcept nogil:
        """Part a node's set. It stays as it is: after a label test two nodes share it."""
        cdef uint64_t *here = block.set_of[node]
        cdef uint64_t *passing = block.sets + n_sets * BLOCK_WORDS
        cdef uint64_t *failing = passing + BLOCK_WORDS
        cdef int left
        left = part_bits(here, block.bits.columns + self.test[place] * BLOCK_WORDS,
                         block.bits.n_words, passing, failing)
        if block.has_gaps:
            left = self._part_gapped(block, node, place, passed, failed, passing, failing)
        block.set_of[passed] = passing if left & 1 else NULL
        block.set_of[failed] = failing if left & 2 else NULL
        block.contexts_of[passed] = block.contexts_of[failed] = block.contexts_of[node]
        return n_sets + 2

    cdef int _part_gapped(self, Block *block, Py_ssize_t node, Py_ssize_t place, int32_t passed,
                          int32_t failed, uint64_t *passing, uint64_t *failing) noexcept nogil:
        """Send on those that miss the value; returns 1 if anybody passes, plus 2 if any fail."""
        cdef uint64_t missing[BLOCK_WORDS]
        cdef uint64_t any_passed = 0, any_failed = 0
        cdef Py_ssize_t w
        self._take_missing(block, self.test[place], failing, missing)
        block.n_parts_of[passed] = block.n_parts_of[failed] = 0
        if self.follows_surrogates:
            self._follow_surrogates(block, place, missing, passing, failing)
        else:
            self._give_parts(block, node, place, missing, passed, failed)
        for w in range(block.bits.n_words):
            any_passed |= passing[w]
            any_failed |= failing[w]
        return ((any_passed != 0 or block.n_parts_of[passed] > 0)
                + 2 * (any_failed != 0 or block.n_parts_of[failed] > 0))

    cdef void _take_missing(self, const Block *block, int32_t test, uint64_t *failing,
                            uint64_t *missing) noexcept nogil:
        """Take those that miss the value of a test from those that fail it."""
        cdef const uint64_t *gaps = self.answers.gaps_of(&block.bits, test)
        cdef Py_ssize_t w
        for w in range(block.bits.n_words):
            missing[w] = failing[w] & gaps[w] if gaps != NULL else 0
            failing[w] ^= missing[w]

    cdef void _follow_surrogates(self, const Block *block, Py_ssize_t place, uint64_t *missing,
                                 uint64_t *passing, uint64_t *failing) noexcept nogil:
        """Let the first surrogate that can be answered tell, else go where most do."""
        cdef Py_ssize_t s, w
        cdef int32_t test
        cdef const uint64_t *column
        cdef const uint64_t *gaps
        cdef uint64_t flip, answering
        for s in range(self.surrogate_starts[place], self.surrogate_starts[place + 1]):
            test = self.surrogates[s]
            column = block.bits.columns + test * BLOCK_WORDS
            gaps = self.answers.gaps_of(&block.bits, test)
            flip = ~<uint64_t> 0 if self.is_reversed[s] else 0
            for w in range(block.bits.n_words):
                answering = missing[w] & ~gaps[w] if gaps != NULL else missing[w]
                passing[w] |= answering & (column[w] ^ flip)
                failing[w] |= answering & ~(column[w] ^ flip)
                missing[w] ^= answering
        for w in range(block.bits.n_words):
            if self.shares[place] >= 0.5:
                passing[w] |= missing[w]
            else:
                failing[w] |= missing[w]

    cdef void _give_parts(self, Block *block, Py_ssize_t node, Py_ssize_t place,
                          const uint64_t *missing, int32_t passed, int32_t failed) noexcept nogil:
        """Part the positions that a node has in part, and those that now miss a value."""
        cdef uint32_t share = <uint32_t> rint(self.shares[place] * WHOLE)
        cdef const uint64_t *column = block.bits.columns + self.test[place] * BLOCK_WORDS
        cdef const uint64_t *gaps = self.answers.gaps_of(&block.bits, self.test[place])
        cdef Py_ssize_t i, w, n = block.n_parts_of[node]
        cdef Fraction part
        cdef uint64_t word
        if not make_room(block):
            return
        block.n_passing = block.n_failing = 0
        for i in range(block.parts_of[node], block.parts_of[node] + n):
            part = block.parts[i]
            if gaps != NULL and has_bit(gaps, part.row):
                give(block, part.row, part.weight, fraction_of(part.weight, share))
            else:
                give(block, part.row, part.weight, part.weight * has_bit(column, part.row))
        for w in range(block.bits.n_words):
            word = missing[w]
            while word:
                give(block, <int32_t> (64 * w + lowest_bit(word)), WHOLE, share)
                word &= word - 1
        n = block.n_parts + block.n_passing
        memcpy(block.parts + n, block.failing, block.n_failing * sizeof(Fraction))
        block.parts_of[passed], block.n_parts_of[passed] = block.n_parts, block.n_passing
        block.parts_of[failed], block.n_parts_of[failed] = n, block.n_failing
        block.n_parts = n + block.n_failing

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
        block.parts_of[passed] = block.parts_of[failed] = block.parts_of[node]
        block.n_parts_of[passed] = block.n_parts_of[failed] = block.n_parts_of[node]
        block.contexts_of[passed] = <int32_t> n_members
        block.contexts_of[failed] = <int32_t> n_members + 1
        return n_members + 2

    cdef void _add_leaf(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                        const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
        cdef const uint64_t *members = block.set_of[node]
        cdef double *shared = block.shared + class_ * BLOCK
        cdef Py_ssize_t w
        cdef uint64_t word
        if block.contexts_of[node] == 0:
            for w in range(block.bits.n_words):
                word = members[w]
                while word:
                    shared[64 * w + lowest_bit(word)] += value
                    word &= word - 1
            return
        self._fill_addend(block, node)
        for w in range(block.bits.n_words):
            word = members[w]
            while word:
                self._add_addend(block, block.bits.first + 64 * w + lowest_bit(word), value, class_,
                                 depth, scores)
                word &= word - 1

    cdef void _add_leaf_parts(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                              const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil:
        """Add parts of a leaf's value to those that reach it in part."""
        cdef double *shared = block.shared + class_ * BLOCK
        cdef const Fraction *parts = block.parts + block.parts_of[node]
        cdef Py_ssize_t i
        cdef double value_here
        for i in range(block.n_parts_of[node]):
            value_here = value_of_fraction(value, parts[i].weight)
            if block.contexts_of[node] == 0:
                shared[parts[i].row] += value_here
            else:
                self._add_addend(block, block.bits.first + parts[i].row, value_here, class_, depth,
                                 scores)

    cdef void _fill_addend(self, Block *block, Py_ssize_t node) noexcept nogil:
        cdef Py_ssize_t e
        for e in range(self.n_extended):
            block.addend[e] = block.members[block.contexts_of[node] * self.n_extended + e]

    cdef inline void _add_addend(self, Block *block, Py_ssize_t position, double value,
                                 int32_t class_, const uint8_t[::1] depth,
                                 double[:, :, ::1] scores) noexcept nogil:
        """Add a leaf's value to those contexts of a position that reach the leaf."""
        add_to_contexts(&scores[class_, position, 0], block.addend, value, &self.depth_starts[0],
                        depth[position])


cdef inline bint has_bit(const uint64_t *words, int32_t i) noexcept nogil:
    return words[i >> 6] >> (i & 63) & 1


cdef bint make_room(Block *block) noexcept nogil:
    """Make room for the parts of two more nodes."""
    cdef Fraction *moved
    cdef Py_ssize_t needed = block.n_parts + 2 * block.bits.size
    if needed > block.room:
        moved = <Fraction *> realloc(block.parts, 2 * needed * sizeof(Fraction))
        block.failed = block.failed or moved == NULL
        if moved != NULL:
            block.parts = moved
            block.room = 2 * needed
    return not block.failed


cdef inline void give(Block *block, int32_t row, uint32_t weight, uint32_t passing) noexcept nogil:
    """Let a part of a weight pass, and the rest fail; what comes to nothing is dropped."""
    block.parts[block.n_parts + block.n_passing] = Fraction(row, passing)
    block.failing[block.n_failing] = Fraction(row, weight - passing)
    block.n_passing += passing > 0
    block.n_failing += passing < weight
