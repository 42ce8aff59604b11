"""What window tests say of many positions: a column of bits for each test.

Where a position misses a value, it passes none of the tests of it, and a column of bits says that
it does.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._tests cimport BIT, CODE_ABOVE, CODE_EQUAL, LISTED

cdef extern from "utils/bitsets.h" nogil:
    void bytes_equal(const uint8_t *values, Py_ssize_t n_words, uint8_t mask, uint8_t low,
                     uint64_t *out)
    void bytes_above(const uint8_t *values, Py_ssize_t n_words, uint8_t low, uint64_t *out)

# Words of a column while gaps are looked for.
cdef enum:
    GAP_WORDS = 16


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
        self.may_lack = encoded.has_missing.any()


cdef class Answers:
    """Distinct questions, to be answered for blocks of positions.

    Parameters
    ----------
    asked : treecrf.trees.scoring.distinct_tests.DistinctTests
    """

    def __init__(self, asked):
        self.kinds, self.offsets, self.slots = asked.kinds, asked.offsets, asked.slots
        self.lows, self.highs, self.gaps = asked.lows, asked.highs, asked.gaps
        self.n_plain = asked.n_plain
        self.by_id = asked.by_id
        self.left = asked.left
        self.n_tests = self.kinds.shape[0]

    cdef bint fill(self, Bits *block, Positions positions) noexcept nogil:
        """Fill the columns of a block; returns whether any position misses any value."""
        self._fill_columns(block, self.n_tests if positions.may_lack else self.n_plain, positions)
        self._fill_listed(block, positions)
        return positions.may_lack and self._part_gaps(block)

    cdef void fill_given(self, Bits *block, const uint8_t[:, ::1] given,
                         Py_ssize_t n_labels) noexcept nogil:
        """Columns of the tests of previous labels that are given, behind those of the window."""
        cdef Py_ssize_t lag, symbol
        cdef uint64_t *column = block.columns + self.n_tests * block.stride
        for lag in range(given.shape[0]):
            memcpy(block.bytes, &given[lag, block.first], block.size)
            for symbol in range(n_labels + 1):
                bytes_equal(block.bytes, block.n_words, 255, <uint8_t> symbol, column)
                column += block.stride

    cdef const uint64_t *gaps_of(self, const Bits *block, int32_t test) noexcept nogil:
        """The positions that miss the value of a test; NULL if none ever do."""
        if test >= self.n_tests or self.gaps[test] < 0:
            return NULL
        return block.columns + self.gaps[test] * block.stride

    cdef void _fill_columns(self, Bits *block, Py_ssize_t n,
                            Positions positions) noexcept nogil:
        """Columns of the first tests, on codes and bits; neighbours often share their bytes."""
        cdef Py_ssize_t k
        cdef uint8_t kind
        cdef uint64_t *column
        for k in range(n):
            kind = self.kinds[k]
            if kind == LISTED:
                continue
            if not self._same_bytes(k):
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

    cdef bint _same_bytes(self, Py_ssize_t k) noexcept nogil:
        return (k > 0 and self.offsets[k] == self.offsets[k - 1]
                and self.slots[k] == self.slots[k - 1] and self.kinds[k - 1] != LISTED
                and (self.kinds[k] == BIT) == (self.kinds[k - 1] == BIT))

    cdef void _fill_listed(self, Bits *block, Positions positions) noexcept nogil:
        cdef Py_ssize_t i, j, k, row
        cdef int64_t place
        cdef int32_t asked
        for k in range(self.n_tests):
            if self.kinds[k] == LISTED:
                memset(block.columns + k * block.stride, 0, block.n_words * sizeof(uint64_t))
        for i in range(block.size if self.by_id.shape[1] else 0):
            for j in range(self.by_id.shape[0]):
                row = positions.rows[block.first + i] + j - self.left
                for place in range(positions.list_starts[row], positions.list_starts[row + 1]):
                    asked = self.by_id[j, positions.list_ids[place]]
                    if asked >= 0:
                        set_bit(block.columns + asked * block.stride, i)
        for k in range(self.n_tests):
            if self.kinds[k] == LISTED and self.highs[k] > self.lows[k] + 1:
                self._fill_range(block, k, positions)

    cdef void _fill_range(self, Bits *block, Py_ssize_t k, Positions positions) noexcept nogil:
        """Column of a test that asks for any of several ids."""
        cdef Py_ssize_t i, row
        cdef int64_t place
        for i in range(block.size):
            row = positions.rows[block.first + i] + self.offsets[k]
            for place in range(positions.list_starts[row], positions.list_starts[row + 1]):
                if self.lows[k] <= positions.list_ids[place] < self.highs[k]:
                    set_bit(block.columns + k * block.stride, i)

    cdef bint _part_gaps(self, Bits *block) noexcept nogil:
        """Take those that miss a value from those that pass a test of it."""
        cdef Py_ssize_t k, w
        cdef uint64_t any_gap = 0
        cdef uint64_t *column
        cdef const uint64_t *gaps
        for k in range(self.n_tests):
            gaps = self.gaps_of(block, <int32_t> k)
            if gaps == NULL:
                continue
            column = block.columns + k * block.stride
            for w in range(block.n_words):
                any_gap |= gaps[w]
                column[w] &= ~gaps[w]
        return any_gap != 0


def mark_missing(asked, encoded, uint8_t[::1] gapped):
    """Mark the positions that miss a value of any test.

    Parameters
    ----------
    asked : treecrf.trees.scoring.distinct_tests.DistinctTests
    encoded : treecrf.encoding.encoded.EncodedSequences
    gapped : array (n_positions,)
        Where they are marked.
    """
    cdef Answers answers = Answers(asked)
    cdef Positions positions = Positions(encoded)
    cdef Bits block
    cdef Py_ssize_t i, k, first = 0, last = gapped.shape[0]
    cdef const uint64_t *gaps
    cdef bint ready
    with nogil:
        memset(&block, 0, sizeof(Bits))
        ready = open_bits(&block, answers.n_tests, GAP_WORDS)
        while first < last and ready:
            begin_bits(&block, first, min(64 * GAP_WORDS, last - first))
            answers.fill(&block, positions)
            for k in range(answers.n_plain):
                gaps = answers.gaps_of(&block, <int32_t> k)
                for i in range(block.size if gaps != NULL else 0):
                    gapped[first + i] |= gaps[i >> 6] >> (i & 63) & 1
            first += block.size
        close_bits(&block)
    if not ready:
        raise MemoryError("no memory to look for missing values")


cdef inline void set_bit(uint64_t *words, Py_ssize_t i) noexcept nogil:
    words[i >> 6] |= <uint64_t> 1 << (i & 63)


cdef bint open_bits(Bits *block, Py_ssize_t n_columns, Py_ssize_t n_words) noexcept nogil:
    """Take memory for blocks of so many words; returns whether there is any."""
    block.stride = n_words
    block.columns = <uint64_t *> malloc((n_columns + 1) * n_words * sizeof(uint64_t))
    block.bytes = <uint8_t *> calloc(64 * n_words, 1)
    return block.columns != NULL and block.bytes != NULL


cdef void close_bits(Bits *block) noexcept nogil:
    free(block.columns)
    free(block.bytes)


cdef void begin_bits(Bits *block, Py_ssize_t first, Py_ssize_t size) noexcept nogil:
    block.first = first
    block.size = size
    block.n_words = (size + 63) // 64


cdef void gather(Bits *block, const int32_t[::1] rows, const uint8_t[:, ::1] table,
                 Py_ssize_t offset, Py_ssize_t slot) noexcept nogil:
    """Copy a column of bytes, shifted, for the positions of the block."""
    cdef Py_ssize_t i
    for i in range(block.size):
        block.bytes[i] = table[rows[block.first + i] + offset, slot]
