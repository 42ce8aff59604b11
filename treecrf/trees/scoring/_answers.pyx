"""Outcomes of window tests at many positions: a column of bits for each test.

A position that lacks a value passes none of the tests of this value. The column of a missing-value
test marks such positions.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._tests cimport BIT, CODE_ABOVE, CODE_EQUAL, LISTED

cdef extern from "utils/bitsets.h" nogil:
    void bytes_equal(const uint8_t *values, Py_ssize_t n_words, uint8_t mask, uint8_t low,
                     uint64_t *out)
    void bytes_above(const uint8_t *values, Py_ssize_t n_words, uint8_t low, uint64_t *out)

cdef enum:
    # Words of a column in `mark_missing`.
    MARKING_WORDS = 16
    # Bytes of a line of the cache.
    LINE = 64


cdef class Positions:
    """Encoded positions.

    Parameters
    ----------
    encoded : treecrf.encoding.encoded.EncodedSequences
    """

    def __init__(self, encoded):
        self.rows = encoded.row_of_position
        self.codes = encoded.codes
        self.bits = encoded.bits
        self.list_starts = encoded.list_starts
        self.list_ids = encoded.list_ids
        self.has_missing = encoded.has_missing.any()


cdef class Answers:
    """Evaluator of distinct tests at blocks of positions.

    Parameters
    ----------
    tests : treecrf.trees.scoring.distinct_tests.DistinctTests
    reads_lists : bool, default=True
        Whether `fill` is called for encoded positions with lists.
    """

    def __init__(self, tests, bint reads_lists=True):
        self.kinds, self.offsets, self.slots = tests.kinds, tests.offsets, tests.slots
        self.lows, self.highs, self.missing = tests.lows, tests.highs, tests.missing
        self.same_bytes = find_same_bytes(tests)
        self.n_plain = tests.n_plain
        self.by_id = tests.by_id if reads_lists else np.empty((0, 0), dtype=np.int32)
        self.left = tests.window[0]
        self.n_tests = self.kinds.shape[0]

    cdef bint fill(self, Bits *block, Positions positions) noexcept nogil:
        """Fill the columns of a block; returns whether any value is missing there."""
        cdef Py_ssize_t n = self.n_tests if positions.has_missing else self.n_plain
        self._fill_columns(block, n, positions)
        self._fill_listed(block, positions)
        return positions.has_missing and self._exclude_missing(block)

    cdef void fill_given(self, Bits *block, const uint8_t[:, ::1] given,
                         Py_ssize_t n_labels) noexcept nogil:
        """Fill the columns of tests of given previous labels, which follow those of the window."""
        cdef Py_ssize_t lag, symbol
        cdef uint64_t *column = block.columns + self.n_tests * block.stride
        for lag in range(given.shape[0]):
            memcpy(block.bytes, &given[lag, block.first], block.size)
            for symbol in range(n_labels + 1):
                bytes_equal(block.bytes, block.n_words, 255, <uint8_t> symbol, column)
                column += block.stride

    cdef const uint64_t *missing_of(self, const Bits *block, int32_t test) noexcept nogil:
        """Return the positions that lack the value of a test; NULL if it cannot be missing."""
        if test >= self.n_tests or self.missing[test] < 0:
            return NULL
        return block.columns + self.missing[test] * block.stride

    cdef void _fill_columns(self, Bits *block, Py_ssize_t n,
                            Positions positions) noexcept nogil:
        """Fill the columns of tests of codes and bits; adjacent tests often read the same bytes."""
        cdef Py_ssize_t k
        cdef uint8_t kind
        cdef uint64_t *column
        for k in range(n):
            kind = self.kinds[k]
            if kind == LISTED:
                continue
            if not self.same_bytes[k]:
                if kind == BIT:
                    gather(block, positions.rows, positions.bits, self.offsets[k], self.slots[k])
                else:
                    gather(block, positions.rows, positions.codes, self.offsets[k], self.slots[k])
            column = block.columns + k * block.stride
            if kind == CODE_EQUAL:
                bytes_equal(block.bytes, block.n_words, 255, self.lows[k], column)
            elif kind == CODE_ABOVE:
                bytes_above(block.bytes, block.n_words, self.lows[k], column)
            else:
                bytes_equal(block.bytes, block.n_words, 1 << self.lows[k], 1 << self.lows[k],
                            column)

    cdef void _fill_listed(self, Bits *block, Positions positions) noexcept nogil:
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
        for k in range(self.n_tests):
            if self.kinds[k] == LISTED and self.highs[k] > self.lows[k] + 1:
                self._fill_range(block, k, positions)

    cdef void _fill_range(self, Bits *block, Py_ssize_t k, Positions positions) noexcept nogil:
        """Fill the column of a test for any of several ids."""
        cdef Py_ssize_t i, row
        cdef int64_t entry
        for i in range(block.size):
            row = positions.rows[block.first + i] + self.offsets[k]
            for entry in range(positions.list_starts[row], positions.list_starts[row + 1]):
                if self.lows[k] <= positions.list_ids[entry] < self.highs[k]:
                    set_bit(block.columns + k * block.stride, i)

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


def find_same_bytes(tests):
    """Mark the tests that read the same bytes as the tests before them; uint8 array."""
    kinds, offsets, slots = tests.kinds, tests.offsets, tests.slots
    same = np.zeros(len(kinds), dtype=np.uint8)
    same[1:] = ((offsets[1:] == offsets[:len(kinds) - 1]) & (slots[1:] == slots[:len(kinds) - 1])
                & (kinds[:len(kinds) - 1] != LISTED)
                & ((kinds[1:] == BIT) == (kinds[:len(kinds) - 1] == BIT)))
    return same


def mark_missing(tests, encoded, uint8_t[::1] marks):
    """Mark the positions that lack the value of any test of a node.

    Parameters
    ----------
    tests : treecrf.trees.scoring.distinct_tests.DistinctTests
    encoded : treecrf.encoding.encoded.EncodedSequences
    marks : uint8 array (n_positions,), changed in place
        Receives 1 at these positions.
    """
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
            begin_bits(&block, first, min(64 * MARKING_WORDS, last - first))
            answers.fill(&block, positions)
            for k in range(answers.n_plain):
                missing = answers.missing_of(&block, <int32_t> k)
                for i in range(block.size if missing != NULL else 0):
                    marks[first + i] |= missing[i >> 6] >> (i & 63) & 1
            first += block.size
        close_bits(&block)
    if not ready:
        raise MemoryError("no memory to find missing values")


cdef inline void set_bit(uint64_t *words, Py_ssize_t i) noexcept nogil:
    words[i >> 6] |= <uint64_t> 1 << (i & 63)


cdef bint open_bits(Bits *block, Py_ssize_t n_columns, Py_ssize_t n_words) noexcept nogil:
    """Allocate memory for blocks of this many words; returns whether this succeeded."""
    block.stride = n_words
    block.memory = malloc((n_columns + 1) * n_words * sizeof(uint64_t) + LINE)
    block.columns = <uint64_t *> ((<uintptr_t> block.memory + LINE - 1) // LINE * LINE)
    block.bytes = <uint8_t *> calloc(64 * n_words, 1)
    return block.memory != NULL and block.bytes != NULL


cdef void close_bits(Bits *block) noexcept nogil:
    free(block.memory)
    free(block.bytes)


cdef void begin_bits(Bits *block, Py_ssize_t first, Py_ssize_t size) noexcept nogil:
    block.first = first
    block.size = size
    block.n_words = (size + 63) // 64


cdef void gather(Bits *block, const int32_t[::1] rows, const uint8_t[:, ::1] table,
                 Py_ssize_t offset, Py_ssize_t slot) noexcept nogil:
    """Copy the bytes of a column at an offset from the positions of the block."""
    cdef Py_ssize_t i
    for i in range(block.size):
        block.bytes[i] = table[rows[block.first + i] + offset, slot]
