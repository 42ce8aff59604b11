"""The distinct tests of trees, by the values that pass them.

A category sets the bits of the tests that it passes, at all positions that have it in their window.
A number sets one bit, of its rank among the thresholds of its column. When all values have been
read, the tests follow from the ranks, for all positions of a block at once.
"""

from libc.stdint cimport int64_t, uint64_t

from treecrf.chains._memory cimport take_zeros
from treecrf.learners.short._sequence cimport BLOCK, Sequence


cdef class ValueTests:
    """The distinct tests of the trees, by the values that pass them."""

    def __init__(self, first_codes, code_starts, code_tests, code_offsets, number_columns,
                 cut_starts, cuts, zero_ranks, number_tests, boundary_tests, column_starts,
                 column_tests, n_tests):
        self.first_codes = first_codes
        self.code_starts = code_starts
        self.code_tests = code_tests
        self.code_offsets = code_offsets
        self.number_columns = number_columns
        self.cut_starts = cut_starts
        self.cuts = cuts
        self.zero_ranks = zero_ranks
        self.number_tests = number_tests
        self.boundary_tests = boundary_tests
        self.column_starts = column_starts
        self.column_tests = column_tests
        self.n_tests = n_tests
        self.n_ranks = len(cuts) + len(zero_ranks)

    cdef void open(self, Sequence *sequence) noexcept nogil:
        """Take the memory of a sequence, in which no test has been passed."""
        sequence.tests = <uint64_t *> take_zeros(
            &sequence.memory, sequence.n_blocks * self.n_tests * sizeof(uint64_t))
        sequence.ranks = <uint64_t *> take_zeros(
            &sequence.memory, sequence.n_blocks * self.n_ranks * sizeof(uint64_t))

    cdef void add_number(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                         double value) noexcept nogil:
        """Rank the number of column j at position t among the thresholds of the column."""
        cdef Py_ssize_t column = self.number_columns[j]
        cdef Py_ssize_t low, high, middle
        if column < 0:
            return
        low = self.cut_starts[column]
        high = self.cut_starts[column + 1]
        while low < high:
            middle = (low + high) // 2
            if value > self.cuts[middle]:
                low = middle + 1
            else:
                high = middle
        sequence.ranks[t // BLOCK * self.n_ranks + low + column] |= <uint64_t> 1 << t % BLOCK

    cdef void add_category(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                           Py_ssize_t code) noexcept nogil:
        """Set the bits of the tests that a code of column j at position t passes."""
        cdef int64_t i
        cdef Py_ssize_t position, first = self.first_codes[j] + code
        for i in range(self.code_starts[first], self.code_starts[first + 1]):
            position = t - self.code_offsets[i]
            if 0 <= position < sequence.length:
                set_bit(sequence.tests, self.n_tests, position, self.code_tests[i])

    cdef void add_missing(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j) noexcept nogil:
        """Note that position t lacks the value of column j."""
        cdef int64_t i
        cdef Py_ssize_t position, column = self.number_columns[j]
        if sequence.missing == NULL:
            sequence.missing = <uint64_t *> take_zeros(
                &sequence.memory, sequence.n_blocks * self.n_tests * sizeof(uint64_t))
            if sequence.missing == NULL:
                return
        if column >= 0:
            # The lowest rank passes no test of a value that has one.
            set_bit(sequence.ranks, self.n_ranks, t, self.cut_starts[column] + column)
        for i in range(self.column_starts[j], self.column_starts[j + 1]):
            position = t - self.column_tests[i, 1]
            if 0 <= position < sequence.length:
                set_bit(sequence.tests if self.column_tests[i, 2] else sequence.missing,
                        self.n_tests, position, self.column_tests[i, 0])

    cdef void finish(self, Sequence *sequence) noexcept nogil:
        """Set the bits of the tests of thresholds and boundaries."""
        if not sequence.is_dense:
            self._rank_zeros(sequence)
        self._collect_ranks(sequence)
        self._test_numbers(sequence)
        self._test_boundaries(sequence)
        if sequence.missing != NULL:
            self._exclude_missing(sequence)

    cdef void _rank_zeros(self, Sequence *sequence) noexcept nogil:
        """Rank the numbers of 0 of positions without a value, where 0 exceeds a threshold."""
        cdef Py_ssize_t b, k, first, last, column
        cdef uint64_t absent
        cdef uint64_t *ranks
        for column in range(self.zero_ranks.shape[0]):
            if self.zero_ranks[column] == 0:
                continue
            first = self.cut_starts[column] + column
            last = self.cut_starts[column + 1] + column
            for b in range(sequence.n_blocks):
                ranks = sequence.ranks + b * self.n_ranks
                absent = rows_of_block(sequence.length, b)
                for k in range(first, last + 1):
                    absent &= ~ranks[k]
                ranks[first + self.zero_ranks[column]] |= absent

    cdef void _collect_ranks(self, Sequence *sequence) noexcept nogil:
        """Turn the positions of each rank into those of this rank or a higher one."""
        cdef Py_ssize_t b, k, column
        cdef uint64_t *ranks
        for b in range(sequence.n_blocks):
            ranks = sequence.ranks + b * self.n_ranks
            for column in range(self.zero_ranks.shape[0]):
                k = self.cut_starts[column + 1] + column
                while k > self.cut_starts[column] + column:
                    k -= 1
                    ranks[k] |= ranks[k + 1]

    cdef void _test_numbers(self, Sequence *sequence) noexcept nogil:
        cdef Py_ssize_t b, k, test, offset, rank
        cdef uint64_t passing, inside
        for b in range(sequence.n_blocks):
            for k in range(self.number_tests.shape[0]):
                test = self.number_tests[k, 0]
                offset = self.number_tests[k, 1]
                rank = self.number_tests[k, 2]
                passing = word_at(sequence.ranks + rank, self.n_ranks, sequence.n_blocks,
                                  BLOCK * b + offset)
                if self.number_tests[k, 3]:
                    inside = positions_between(BLOCK * b, -offset, sequence.length - offset)
                    passing = ~passing & inside
                sequence.tests[b * self.n_tests + test] |= passing & rows_of_block(
                    sequence.length, b)

    cdef void _test_boundaries(self, Sequence *sequence) noexcept nogil:
        cdef Py_ssize_t b, k, test, offset
        for b in range(sequence.n_blocks):
            for k in range(self.boundary_tests.shape[0]):
                test = self.boundary_tests[k, 0]
                offset = self.boundary_tests[k, 1]
                sequence.tests[b * self.n_tests + test] = rows_of_block(
                    sequence.length, b) & ~positions_between(BLOCK * b, -offset,
                                                             sequence.length - offset)

    cdef void _exclude_missing(self, Sequence *sequence) noexcept nogil:
        """Exclude positions that lack a value from those that pass a test of it."""
        cdef Py_ssize_t k
        for k in range(sequence.n_blocks * self.n_tests):
            sequence.tests[k] &= ~sequence.missing[k]


cdef inline void set_bit(uint64_t *words, Py_ssize_t stride, Py_ssize_t t,
                         Py_ssize_t k) noexcept nogil:
    """Add position t to the k-th set of its block."""
    words[t // BLOCK * stride + k] |= <uint64_t> 1 << t % BLOCK


cdef inline uint64_t rows_of_block(Py_ssize_t length, Py_ssize_t b) noexcept nogil:
    """Return the positions of a block that a sequence of this length has."""
    return positions_between(BLOCK * b, 0, length)


cdef inline uint64_t positions_between(Py_ssize_t origin, Py_ssize_t first,
                                       Py_ssize_t last) noexcept nogil:
    """Return those of the 64 positions from ``origin`` that lie between the first and the last."""
    first = min(max(first - origin, 0), BLOCK)
    last = min(max(last - origin, 0), BLOCK)
    if first >= last:
        return 0
    return ~<uint64_t> 0 >> (BLOCK - (last - first)) << first


cdef inline uint64_t word_at(const uint64_t *words, Py_ssize_t stride, Py_ssize_t n_blocks,
                             Py_ssize_t t) noexcept nogil:
    """Return the 64 positions from t on of a set; those of no block are not in the set."""
    # Division rounds down, also below 0.
    cdef Py_ssize_t b = (t if t >= 0 else t - BLOCK + 1) // BLOCK
    cdef Py_ssize_t shift = t - BLOCK * b
    cdef uint64_t word = 0
    if 0 <= b < n_blocks:
        word = words[b * stride] >> shift
    if shift and 0 <= b + 1 < n_blocks:
        word |= words[(b + 1) * stride] << (BLOCK - shift)
    return word
