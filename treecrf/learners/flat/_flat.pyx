"""Scores and members of conjunctions of window tests.

Positions are processed in blocks. Each test has a column of bits, one per position of the block,
and a conjunction holds at the positions in the bitwise AND of its columns. Blocks are short so that
the columns of all tests fit in the L1 cache and a set of positions in registers.

Positions at which a value for any test is missing belong to no conjunction here. Fractions of them
reach several leaves, which depends on the trees (see ``_evaluate``).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from treecrf.chains._contexts cimport add_shared, add_to_contexts
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
        HELD_WORDS
    int lowest_bit(uint64_t word)
    int all_hold(const uint64_t *columns, const int32_t *literals, Py_ssize_t n,
                 const uint64_t *among, uint64_t *held)

cdef enum:
    BLOCK = 64 * HELD_WORDS


cdef struct Block:
    Bits bits
    uint64_t whole[HELD_WORDS]  # positions without missing values
    uint64_t held[HELD_WORDS]   # those at which the current conjunction holds
    double *shared              # [label, position]: sums of weights for all contexts
    double *addend              # 1 for the contexts of the current entry, else 0


cdef class FlatEvaluator:
    """Evaluator of conjunctions and their weights at encoded positions."""

    cdef Answers answers                    # to all tests, also those that only mark missing values
    cdef const int64_t[::1] starts          # of the literals of each conjunction, n + 1
    cdef const int32_t[::1] literals        # twice the index of a test, plus 1 if it must hold
    cdef const int64_t[::1] entry_starts    # of the entries of each conjunction, n + 1
    cdef const int32_t[::1] labels, set_of  # label and set of contexts of each entry
    cdef const double[::1] weights          # of each entry
    cdef const uint8_t[:, :, ::1] sets      # previous labels [set, lag], the last for none; 0: all
    cdef const int32_t[:, ::1] symbols      # previous label at each lag of each extended context
    cdef const int64_t[::1] depth_starts    # first extended context of each depth
    cdef Py_ssize_t n, order, n_extended

    def __init__(self, tests, conjunctions, entries, sets, symbols, depth_starts):
        self.answers = Answers(tests)
        self.starts, self.literals = conjunctions
        self.entry_starts, self.labels, self.set_of, self.weights = entries
        self.sets = sets
        self.symbols = symbols
        self.depth_starts = depth_starts
        self.n = self.starts.shape[0] - 1
        self.order = self.sets.shape[1]
        self.n_extended = self.symbols.shape[0]

    def add_scores(self, scoring, Py_ssize_t first, Py_ssize_t last):
        """Add the weights to the scores of the positions from ``first`` to ``last - 1``."""
        cdef const uint8_t[::1] depth = scoring.depth
        cdef const uint8_t[:, ::1] given = scoring.given
        cdef double[:, :, ::1] scores = scoring.scores
        cdef Block block
        cdef Positions positions = Positions(scoring.encoded)
        cdef Py_ssize_t c, k, n_labels = scores.shape[0]
        cdef bint ready
        with nogil:
            ready = self._open(&block, n_labels)
            while first < last and ready:
                self._begin(&block, positions, first, last)
                memset(block.shared, 0, n_labels * BLOCK * sizeof(double))
                for c in range(self.n):
                    if self._holds(&block, c):
                        self._add_entries(&block, c, depth, given, scores)
                for k in range(n_labels):
                    add_shared(scores, k, block.shared + k * BLOCK, block.bits.first,
                               block.bits.size, &depth[0], &self.depth_starts[0])
                first += block.bits.size
            close(&block)
        if not ready:
            raise MemoryError("not enough memory to evaluate the conjunctions")

    def list_members(self, encoded, Py_ssize_t first, Py_ssize_t last, int64_t[::1] ends,
                     int32_t[::1] found):
        """List the conjunctions that hold at each of some positions, in ascending order.

        The list of position i is written to ``found``, starting at ``ends[i]``, which is increased
        to its end. If ``found`` is None, ``ends`` only counts the conjunctions.
        """
        cdef Block block
        cdef Positions positions = Positions(encoded)
        cdef Py_ssize_t c
        cdef bint ready
        with nogil:
            ready = self._open(&block, 1)
            while first < last and ready:
                self._begin(&block, positions, first, last)
                for c in range(self.n):
                    if self._holds(&block, c):
                        list_held(&block, c, ends, found)
                first += block.bits.size
            close(&block)
        if not ready:
            raise MemoryError("not enough memory to evaluate the conjunctions")

    cdef bint _open(self, Block *block, Py_ssize_t n_labels) noexcept nogil:
        memset(block, 0, sizeof(Block))
        block.shared = <double *> malloc(n_labels * BLOCK * sizeof(double))
        block.addend = <double *> calloc(self.n_extended, sizeof(double))
        return (open_bits(&block.bits, self.answers.n_tests, HELD_WORDS) and block.shared != NULL
                and block.addend != NULL)

    cdef void _begin(self, Block *block, Positions positions, Py_ssize_t first,
                     Py_ssize_t last) noexcept nogil:
        """Evaluate the tests for a block, and find the positions without missing values."""
        cdef Py_ssize_t i, k
        cdef const uint64_t *missing
        begin_bits(&block.bits, first, min(BLOCK, last - first))
        memset(block.whole, 0, sizeof(block.whole))
        for i in range(block.bits.size):
            block.whole[i >> 6] |= <uint64_t> 1 << (i & 63)
        if not self.answers.fill(&block.bits, positions):
            return
        for k in range(self.answers.n_tests):
            missing = self.answers.missing_of(&block.bits, <int32_t> k)
            for i in range(block.bits.n_words if missing != NULL else 0):
                block.whole[i] &= ~missing[i]

    cdef inline int _holds(self, Block *block, Py_ssize_t c) noexcept nogil:
        return all_hold(block.bits.columns, &self.literals[0] + self.starts[c],
                        self.starts[c + 1] - self.starts[c], block.whole, block.held)

    cdef void _add_entries(self, Block *block, Py_ssize_t c, const uint8_t[::1] depth,
                           const uint8_t[:, ::1] given,
                           double[:, :, ::1] scores) noexcept nogil:
        cdef int64_t e
        for e in range(self.entry_starts[c], self.entry_starts[c + 1]):
            if self.set_of[e] == 0:
                add_to_members(block, block.shared + self.labels[e] * BLOCK, self.weights[e])
            elif given is not None:
                self._add_where_given(block, e, given)
            else:
                self._add_to_contexts(block, e, depth, scores)

    cdef void _add_where_given(self, Block *block, int64_t e,
                               const uint8_t[:, ::1] given) noexcept nogil:
        """Add the weight of an entry at positions whose given labels are in its set."""
        cdef double *shared = block.shared + self.labels[e] * BLOCK
        cdef const uint8_t *symbols
        cdef Py_ssize_t w, i, lag
        cdef uint64_t word
        cdef bint fits
        for w in range(block.bits.n_words):
            word = block.held[w]
            while word:
                i = 64 * w + lowest_bit(word)
                fits = True
                for lag in range(self.order):
                    symbols = &self.sets[self.set_of[e], lag, 0]
                    fits = fits and symbols[given[lag, block.bits.first + i]]
                shared[i] += self.weights[e] * fits
                word &= word - 1

    cdef void _add_to_contexts(self, Block *block, int64_t e, const uint8_t[::1] depth,
                               double[:, :, ::1] scores) noexcept nogil:
        """Add the weight of an entry to the contexts in its set."""
        cdef Py_ssize_t w, i
        cdef uint64_t word
        self._fill_addend(block, self.set_of[e])
        for w in range(block.bits.n_words):
            word = block.held[w]
            while word:
                i = block.bits.first + 64 * w + lowest_bit(word)
                add_to_contexts(&scores[self.labels[e], i, 0], block.addend, self.weights[e],
                                &self.depth_starts[0], depth[i])
                word &= word - 1

    cdef void _fill_addend(self, Block *block, int32_t of_set) noexcept nogil:
        cdef Py_ssize_t c, lag
        cdef bint fits
        for c in range(self.n_extended):
            fits = True
            for lag in range(self.order):
                fits = fits and self.sets[of_set, lag, self.symbols[c, lag]]
            block.addend[c] = fits


cdef void close(Block *block) noexcept nogil:
    close_bits(&block.bits)
    free(block.shared)
    free(block.addend)


cdef inline void add_to_members(Block *block, double *values, double weight) noexcept nogil:
    """Add a weight to the values of the positions at which the conjunction holds."""
    cdef Py_ssize_t w
    cdef uint64_t word
    for w in range(block.bits.n_words):
        word = block.held[w]
        while word:
            values[64 * w + lowest_bit(word)] += weight
            word &= word - 1


cdef void list_held(Block *block, Py_ssize_t c, int64_t[::1] ends,
                    int32_t[::1] found) noexcept nogil:
    """Count a conjunction at all positions where it holds, or append its index to their lists."""
    cdef Py_ssize_t w, i
    cdef uint64_t word
    for w in range(block.bits.n_words):
        word = block.held[w]
        while word:
            i = block.bits.first + 64 * w + lowest_bit(word)
            if found is not None:
                found[ends[i]] = <int32_t> c
            ends[i] += 1
            word &= word - 1
