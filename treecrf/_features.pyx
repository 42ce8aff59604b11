"""The encoded positions as the trees read them: histograms of windows, and tests.

The rows of ``treecrf.encoding`` have gaps between the sequences, as wide as the window reaches, so
that a window is a run of neighbouring rows and needs no check.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

cdef extern from "_simd.h" nogil:
    int lowest_bit(uint64_t word)
    void add_pair(double *target, double first, double second)
    void add_window(double *bins, const int64_t *first, const uint8_t *codes, Py_ssize_t n,
                    double value, double weight)

# How a window test is judged at a row.
cdef enum TestKind:
    CODE_EQUAL = 0
    CODE_ABOVE = 1
    BIT = 2
    LISTED = 3

# Histograms of whole bytes pay off from this number of positions.
cdef Py_ssize_t MANY_POSITIONS = 96


cdef class Features:
    """The features of some positions, and where a histogram keeps them.

    Parameters
    ----------
    encoded : treecrf.encoding.EncodedSequences
    tests : treecrf.window_tests.TestTable
    """

    def __init__(self, encoded, tests):
        self.codes = encoded.codes
        self.bits = encoded.bits
        self.list_starts = encoded.list_starts
        self.list_ids = encoded.list_ids
        self.left = tests.left
        self.width = tests.width
        self.code_bins = tests.code_bins
        self.bit_bins = tests.bit_bins
        self.list_bins = tests.list_bins
        self.test_kinds = tests.kinds
        self.test_offsets = tests.offsets
        self.test_slots = tests.slots
        self.test_lows = tests.lows
        self.test_highs = tests.highs

    cdef void add_windows(self, Members some, const double *values, double *bins,
                          int stride) noexcept nogil:
        """Add the values of some members to the bins that their windows fall in.

        ``values`` are pairs. With ``stride`` 2 they go to pairs of bins; with 1 the first of each
        pair goes to a bin.
        """
        if self.codes.shape[1]:
            self._add_codes(some, values, bins, stride)
        if self.bits.shape[1]:
            self._add_bits(some, values, bins, stride)
        if self.list_bins[self.width] > self.list_bins[0]:
            self._add_lists(some, values, bins, stride)

    cdef void _add_codes(self, Members some, const double *values, double *bins,
                         int stride) noexcept nogil:
        cdef const int64_t *first = &self.code_bins[0]
        cdef Py_ssize_t n_columns = self.codes.shape[1], n = self.width * n_columns
        cdef const uint8_t *codes = &self.codes[0, 0] - self.left * n_columns
        cdef const uint8_t *window
        cdef Py_ssize_t i, j
        cdef int32_t member
        for i in range(some.n):
            member = some.members[i]
            window = codes + some.rows[member] * n_columns
            if stride == 2:
                add_window(bins, first, window, n, values[2 * member], values[2 * member + 1])
            else:
                for j in range(n):
                    bins[first[j] + window[j]] += values[2 * member]

    cdef void _add_bits(self, Members some, const double *values, double *bins,
                        int stride) noexcept nogil:
        cdef Py_ssize_t n_columns = self.bits.shape[1], j
        cdef const uint8_t *column
        for j in range(self.width * n_columns):
            column = &self.bits[0, 0] - self.left * n_columns + j
            if some.n < MANY_POSITIONS:
                self._add_set_bits(some, column, values, bins + stride * self.bit_bins[j], stride)
            else:
                self._add_bytes(some, column, values, bins + stride * self.bit_bins[j], stride)

    cdef void _add_set_bits(self, Members some, const uint8_t *column, const double *values,
                            double *bins, int stride) noexcept nogil:
        cdef Py_ssize_t i, n_columns = self.bits.shape[1]
        cdef int32_t member
        cdef uint64_t byte
        cdef int bit
        for i in range(some.n):
            member = some.members[i]
            byte = column[some.rows[member] * n_columns]
            while byte:
                bit = lowest_bit(byte)
                byte &= byte - 1
                bins[stride * bit] += values[2 * member]
                if stride == 2:
                    bins[2 * bit + 1] += values[2 * member + 1]

    cdef void _add_bytes(self, Members some, const uint8_t *column, const double *values,
                         double *bins, int stride) noexcept nogil:
        """Histogram of whole bytes, folded into the sums of the eight bits: one addition a
        position serves eight features."""
        cdef Py_ssize_t i, n_columns = self.bits.shape[1], half
        cdef int32_t member
        cdef int bit
        cdef double joint[512]
        memset(joint, 0, sizeof(joint))
        for i in range(some.n):
            member = some.members[i]
            add_pair(joint + 2 * column[some.rows[member] * n_columns], values[2 * member],
                     values[2 * member + 1])
        for bit in range(7, -1, -1):
            half = 1 << bit
            for i in range(half):
                bins[stride * bit] += joint[2 * (half + i)]
                joint[2 * i] += joint[2 * (half + i)]
                if stride == 2:
                    bins[2 * bit + 1] += joint[2 * (half + i) + 1]
                    joint[2 * i + 1] += joint[2 * (half + i) + 1]

    cdef void _add_lists(self, Members some, const double *values, double *bins,
                         int stride) noexcept nogil:
        cdef Py_ssize_t i, j, row
        cdef int64_t place, bin_
        cdef int32_t member
        for i in range(some.n):
            member = some.members[i]
            row = some.rows[member] - self.left
            for j in range(self.width):
                for place in range(self.list_starts[row + j], self.list_starts[row + j + 1]):
                    bin_ = self.list_bins[j] + self.list_ids[place]
                    if stride == 2:
                        add_pair(bins + 2 * bin_, values[2 * member], values[2 * member + 1])
                    else:
                        bins[bin_] += values[2 * member]

    cdef Py_ssize_t part(self, int64_t test, int32_t *members, Py_ssize_t n, const int32_t *rows,
                         int32_t *moved) noexcept nogil:
        """Move members that pass the test to the front, copy the others to `moved`.

        Returns the number that pass. ``rows[member]`` is the row of a member.
        """
        cdef Py_ssize_t i, n_true = 0, n_false = 0
        cdef Py_ssize_t n_columns, low = self.test_lows[test], high = self.test_highs[test]
        cdef Py_ssize_t offset = self.test_offsets[test]
        cdef const uint8_t *column = NULL
        cdef int32_t member
        cdef bint passed
        cdef uint8_t kind = self.test_kinds[test]
        if kind == BIT:
            n_columns = self.bits.shape[1]
            column = &self.bits[0, 0] + offset * n_columns + self.test_slots[test]
        elif kind != LISTED:
            n_columns = self.codes.shape[1]
            column = &self.codes[0, 0] + offset * n_columns + self.test_slots[test]
        # One loop a kind: the test is all that the loop does.
        if kind == CODE_EQUAL:
            for i in range(n):
                member = members[i]
                passed = column[rows[member] * n_columns] == low
                members[n_true] = moved[n_false] = member
                n_true += passed
                n_false += not passed
        elif kind == CODE_ABOVE:
            for i in range(n):
                member = members[i]
                passed = column[rows[member] * n_columns] > low
                members[n_true] = moved[n_false] = member
                n_true += passed
                n_false += not passed
        elif kind == BIT:
            for i in range(n):
                member = members[i]
                passed = column[rows[member] * n_columns] >> low & 1
                members[n_true] = moved[n_false] = member
                n_true += passed
                n_false += not passed
        else:
            for i in range(n):
                member = members[i]
                passed = self._lists_one_of(rows[member] + offset, low, high)
                members[n_true] = moved[n_false] = member
                n_true += passed
                n_false += not passed
        return n_true

    cdef inline bint _lists_one_of(self, Py_ssize_t row, Py_ssize_t low,
                                   Py_ssize_t high) noexcept nogil:
        """Whether a row lists an id of [low, high); its ids ascend."""
        cdef int64_t i
        for i in range(self.list_starts[row], self.list_starts[row + 1]):
            if self.list_ids[i] >= low:
                return self.list_ids[i] < high
        return False
