"""Outcomes of window tests at many positions: a column of bits for each test.

A position that lacks a value passes none of the tests of this value. The column of a missing-value
test marks such positions.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._tests cimport BIT, CODE_EQUAL, LISTED, bytes_equal, test_bytes

# Rows of the arrays of `find_distinct`. The first five are fields of `DistinctTests`, in its order.
cdef enum:
    OFFSET = 0
    KIND = 1
    SLOT = 2
    LOW = 3
    HIGH = 4
    COLUMN = 5      # of a test
    MISSING = 5     # of a distinct test: its missing-value test
    N_FIELDS = 6

# Words of a column in `mark_missing`: 1,024 positions, so that the columns of hundreds of tests
# stay in the second-level cache.
cdef enum:
    MARKING_WORDS = 16

# Bytes of a line of the cache.
cdef enum:
    LINE = 64


def find_distinct(const int32_t[:, ::1] tests, const int64_t[::1] order,
                  const int32_t[::1] missing, Py_ssize_t n_nodes):
    """Find the distinct ones of the tests of nodes and, after them, of surrogates.

    A test is an offset, kind, slot, low, high and column, by which ``order`` sorts, and ``missing``
    the code or id of its missing values, or -1. Returns the arrays of `DistinctTests`, the index of
    each test, and the number of tests of nodes.
    """
    cdef Py_ssize_t i, j, t, n = order.shape[0], n_new = 0, n_missing = 0, n_plain = 0
    cdef Py_ssize_t latest = -1  # the latest test that has a missing-value test
    cdef int32_t next_plain = 0, next_other, k = -1
    cdef int32_t[:, ::1] distinct = np.full((N_FIELDS, 2 * n), -1, dtype=np.int32)
    cdef int32_t[::1] indices = np.zeros(n, dtype=np.int32)
    cdef uint8_t[::1] is_new = np.zeros(n, dtype=np.uint8)
    for i in range(n):
        for j in range(N_FIELDS):
            is_new[i] |= i == 0 or tests[j, order[i]] != tests[j, order[i - 1]]
        n_new += is_new[i]
        n_plain += is_new[i] and order[i] < n_nodes
    next_other = <int32_t> n_plain
    for i in range(n):
        t = order[i]
        if is_new[i]:
            if t < n_nodes:
                k = next_plain
                next_plain += 1
            else:
                k = next_other
                next_other += 1
            for j in range(N_FIELDS - 1):
                distinct[j, k] = tests[j, t]
            if missing[t] >= 0:
                # Tests of the same column and offset are adjacent.
                if (latest < 0 or tests[OFFSET, t] != tests[OFFSET, latest]
                        or tests[COLUMN, t] != tests[COLUMN, latest]):
                    set_missing_test(distinct, n_new + n_missing, tests, t, missing[t])
                    latest = t
                    n_missing += 1
                distinct[MISSING, k] = <int32_t> (n_new + n_missing - 1)
        indices[t] = k
    return np.asarray(distinct)[:, :n_new + n_missing], np.asarray(indices), n_plain


cdef void set_missing_test(int32_t[:, ::1] distinct, Py_ssize_t j, const int32_t[:, ::1] tests,
                           Py_ssize_t t, int32_t missing) noexcept:
    """Set the j-th distinct test: whether the value of test t is missing."""
    distinct[OFFSET, j] = tests[OFFSET, t]
    if tests[KIND, t] >= BIT:  # a missing value is an id in a list
        distinct[KIND, j] = LISTED
        distinct[SLOT, j] = 0
    else:
        distinct[KIND, j] = CODE_EQUAL
        distinct[SLOT, j] = tests[SLOT, t]
    distinct[LOW, j] = missing
    distinct[HIGH, j] = missing + 1


cdef class Positions:
    """Encoded positions and, if they are known, the labels before them."""

    def __init__(self, encoded, given=None, Py_ssize_t n_labels=0):
        self.rows = encoded.row_of_position
        self.codes = encoded.codes
        self.bits = encoded.bits
        self.list_starts = encoded.list_starts
        self.list_ids = encoded.list_ids
        self.has_missing = encoded.has_missing.any()
        self.given = given
        self.n_symbols = n_labels + 1


cdef class Answers:
    """Evaluator of distinct tests at blocks of positions."""

    def __init__(self, tests, bint reads_lists=True):
        self.kinds = tests.kinds
        self.offsets = tests.offsets
        self.slots = tests.slots
        self.lows = tests.lows
        self.highs = tests.highs
        self.missing = tests.missing
        cdef Py_ssize_t k
        # Marks of the tests that read the same bytes as the tests before them.
        cdef uint8_t[::1] same_bytes = np.zeros(len(tests), dtype=np.uint8)
        for k in range(1, same_bytes.shape[0]):
            same_bytes[k] = (self.kinds[k] != LISTED and self.kinds[k - 1] != LISTED
                             and (self.kinds[k] == BIT) == (self.kinds[k - 1] == BIT)
                             and self.offsets[k] == self.offsets[k - 1]
                             and self.slots[k] == self.slots[k - 1])
        self.same_bytes = same_bytes
        self.n_plain = tests.n_plain
        self.by_id = tests.by_id if reads_lists else np.empty((0, 0), dtype=np.int32)
        self.left = tests.window[0]
        self.n_tests = self.kinds.shape[0]

    cdef bint fill(self, Bits *block, Positions positions, Py_ssize_t first,
                   Py_ssize_t size) noexcept nogil:
        """Fill the columns of a block of positions; returns whether any value is missing there.

        If the previous labels are given, the columns of their tests follow those of the window.
        """
        begin_bits(block, first, size)
        self._fill_bytes(block, positions)
        self._fill_lists(block, positions)
        if positions.given is not None:
            self._fill_given(block, positions)
        return positions.has_missing and self._exclude_missing(block)

    cdef void _fill_bytes(self, Bits *block, Positions positions) noexcept nogil:
        """Fill the columns of tests of codes and bits; adjacent ones often read the same bytes."""
        cdef Py_ssize_t k, n = self.n_tests if positions.has_missing else self.n_plain
        cdef uint8_t kind
        for k in range(n):
            kind = self.kinds[k]
            if kind == LISTED:
                continue
            if not self.same_bytes[k]:
                if kind == BIT:
                    gather(block, positions.rows, positions.bits, self.offsets[k], self.slots[k])
                else:
                    gather(block, positions.rows, positions.codes, self.offsets[k], self.slots[k])
            test_bytes(kind, <uint8_t> self.lows[k], block.bytes, block.n_words,
                       block.columns + k * block.stride)

    cdef void _fill_lists(self, Bits *block, Positions positions) noexcept nogil:
        """Fill the columns of tests of listed ids."""
        cdef Py_ssize_t i, j, k, row
        cdef int64_t entry
        cdef int32_t test
        for k in range(self.n_tests):
            if self.kinds[k] == LISTED:
                memset(block.columns + k * block.stride, 0, block.n_words * sizeof(uint64_t))
        for i in range(block.size if self.by_id.shape[1] else 0):
            for j in range(self.by_id.shape[0]):
                row = positions.rows[block.first + i] + j - self.left
                for entry in range(positions.list_starts[row], positions.list_starts[row + 1]):
                    test = self.by_id[j, positions.list_ids[entry]]
                    if test >= 0:
                        set_bit(block.columns + test * block.stride, i)
        # Tests for any of several ids.
        for k in range(self.n_tests):
            if self.kinds[k] != LISTED or self.highs[k] == self.lows[k] + 1:
                continue
            for i in range(block.size):
                row = positions.rows[block.first + i] + self.offsets[k]
                for entry in range(positions.list_starts[row], positions.list_starts[row + 1]):
                    if self.lows[k] <= positions.list_ids[entry] < self.highs[k]:
                        set_bit(block.columns + k * block.stride, i)

    cdef void _fill_given(self, Bits *block, Positions positions) noexcept nogil:
        """Fill the columns of tests of previous labels."""
        cdef Py_ssize_t lag, symbol
        cdef uint64_t *column = block.columns + self.n_tests * block.stride
        for lag in range(positions.given.shape[0]):
            memcpy(block.bytes, &positions.given[lag, block.first], block.size)
            for symbol in range(positions.n_symbols):
                bytes_equal(block.bytes, block.n_words, 255, <uint8_t> symbol, column)
                column += block.stride

    cdef const uint64_t *missing_of(self, const Bits *block, int32_t test) noexcept nogil:
        """Return the positions that lack the value of a test; NULL if it cannot be missing."""
        if test >= self.n_tests or self.missing[test] < 0:
            return NULL
        return block.columns + self.missing[test] * block.stride

    cdef bint _exclude_missing(self, Bits *block) noexcept nogil:
        """Exclude positions that lack a value from those that pass a test of it."""
        cdef Py_ssize_t k, w
        cdef uint64_t any_missing = 0
        cdef uint64_t *column
        cdef const uint64_t *missing
        for k in range(self.n_tests):
            missing = self.missing_of(block, <int32_t> k)
            if missing == NULL:
                continue
            column = block.columns + k * block.stride
            for w in range(block.n_words):
                any_missing |= missing[w]
                column[w] &= ~missing[w]
        return any_missing != 0


cdef class Surrogates:
    """Surrogates of tests, which positions without the value of a test follow."""

    def __init__(self, packed, shares):
        self.starts = packed.surrogate_starts
        self.tests = packed.surrogates
        self.is_reversed = packed.nodes["reversed"].astype(np.uint8)
        self.shares = shares

    cdef void follow(self, Answers answers, const Bits *block, Py_ssize_t node,
                     uint64_t *missing, uint64_t *passing, uint64_t *failing) noexcept nogil:
        """Add the ``missing`` positions of a block to those that pass or fail.

        They follow the first surrogate whose value is not missing, or else the majority.
        """
        cdef Py_ssize_t s, w
        cdef const uint64_t *column
        cdef const uint64_t *lacking
        cdef uint64_t flip, answering
        for s in range(self.starts[node], self.starts[node + 1]):
            column = block.columns + self.tests[s] * block.stride
            lacking = answers.missing_of(block, self.tests[s])
            flip = ~<uint64_t> 0 if self.is_reversed[s] else 0
            for w in range(block.n_words):
                answering = missing[w] & ~lacking[w] if lacking != NULL else missing[w]
                passing[w] |= answering & (column[w] ^ flip)
                failing[w] |= answering & ~(column[w] ^ flip)
                missing[w] ^= answering
        for w in range(block.n_words):
            if self.shares[node] >= 0.5:
                passing[w] |= missing[w]
            else:
                failing[w] |= missing[w]


def mark_missing(tests, encoded, uint8_t[::1] marks):
    """Mark the positions that lack the value of any test of a node."""
    cdef Answers answers = Answers(tests)
    cdef Positions positions = Positions(encoded)
    cdef Bits block
    cdef Py_ssize_t i, k, first = 0, last = marks.shape[0]
    cdef const uint64_t *missing
    cdef bint ready
    with nogil:
        memset(&block, 0, sizeof(Bits))
        ready = open_bits(&block, answers.n_tests, MARKING_WORDS)
        while first < last and ready:
            answers.fill(&block, positions, first, min(64 * MARKING_WORDS, last - first))
            for k in range(answers.n_plain):
                missing = answers.missing_of(&block, <int32_t> k)
                for i in range(block.size if missing != NULL else 0):
                    marks[first + i] |= missing[i >> 6] >> (i & 63) & 1
            first += block.size
        close_bits(&block)
    if not ready:
        raise MemoryError("no memory to find missing values")


cdef bint open_bits(Bits *block, Py_ssize_t n_columns, Py_ssize_t n_words) noexcept nogil:
    """Allocate memory for blocks of this many words; returns whether this succeeded."""
    block.stride = n_words
    block.memory = malloc((n_columns + 1) * n_words * sizeof(uint64_t) + LINE)
    block.columns = <uint64_t *> ((<uintptr_t> block.memory + LINE - 1) // LINE * LINE)
    block.bytes = <uint8_t *> calloc(64 * n_words, 1)
    return block.memory != NULL and block.bytes != NULL


cdef void close_bits(Bits *block) noexcept nogil:
    """Free the memory of a block."""
    free(block.memory)
    free(block.bytes)


cdef void gather(Bits *block, const int32_t[::1] rows, const uint8_t[:, ::1] table,
                 Py_ssize_t offset, Py_ssize_t slot) noexcept nogil:
    """Copy the bytes of a column at an offset from the positions of the block."""
    cdef Py_ssize_t i
    for i in range(block.size):
        block.bytes[i] = table[rows[block.first + i] + offset, slot]
