"""The encoded positions as the trees read them: histograms of windows, and tests.

The rows of ``treecrf.encoding`` have gaps between the sequences, as wide as the window reaches, so
that a window is a run of neighbouring rows and needs no check.
"""

import numpy as np

from treecrf.window_tests import pair_codes

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

cdef extern from "_simd.h" nogil:
    int lowest_bit(uint64_t word)
    void add_pair(double *target, double first, double second)
    void add_pairs(double *joint, const int64_t *bins, const int64_t *widths,
                   const int64_t *places, const uint8_t *codes, Py_ssize_t n, double value,
                   double weight)
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
        self.posting_starts, self.postings = encoded.postings()
        self.marks = np.zeros(encoded.list_starts.shape[0] - 1, dtype=np.uint8)
        self.pair_places, self.pair_widths, self.pair_bins, self.unpaired = pair_codes(tests)
        self.joint = np.zeros(2 * self.pair_bins[self.pair_places.shape[0]])
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
        if stride == 2 and some.n * self.pair_places.shape[0] > 2 * self.joint.shape[0]:
            self._add_code_pairs(some, values, bins)
            return
        for i in range(some.n):
            member = some.members[i]
            window = codes + some.rows[member] * n_columns
            if stride == 2:
                add_window(bins, first, window, n, values[2 * member], values[2 * member + 1])
            else:
                for j in range(n):
                    bins[first[j] + window[j]] += values[2 * member]

    cdef void _add_code_pairs(self, Members some, const double *values,
                              double *bins) noexcept nogil:
        """The same by joint histograms of neighbouring codes: half the additions a position."""
        cdef Py_ssize_t n_columns = self.codes.shape[1], n_pairs = self.pair_places.shape[0]
        cdef const uint8_t *codes = &self.codes[0, 0] - self.left * n_columns
        cdef const uint8_t *window
        cdef double *joint = &self.joint[0]
        cdef Py_ssize_t i, p, j
        cdef int32_t member
        memset(joint, 0, self.joint.shape[0] * sizeof(double))
        for i in range(some.n):
            member = some.members[i]
            window = codes + some.rows[member] * n_columns
            add_pairs(joint, &self.pair_bins[0], &self.pair_widths[0], &self.pair_places[0],
                      window, n_pairs, values[2 * member], values[2 * member + 1])
            for p in range(self.unpaired.shape[0]):
                j = self.unpaired[p]
                add_pair(bins + 2 * (self.code_bins[j] + window[j]), values[2 * member],
                         values[2 * member + 1])
        self._part_pairs(bins)

    cdef void _part_pairs(self, double *bins) noexcept nogil:
        """Sum joint bins over either code."""
        cdef Py_ssize_t p, a, b, width, n_rows
        cdef double *first
        cdef double *second
        cdef double *joint
        for p in range(self.pair_places.shape[0]):
            width = self.pair_widths[p]
            n_rows = (self.pair_bins[p + 1] - self.pair_bins[p]) // width
            first = bins + 2 * self.code_bins[self.pair_places[p]]
            second = bins + 2 * self.code_bins[self.pair_places[p] + 1]
            joint = &self.joint[2 * self.pair_bins[p]]
            for a in range(n_rows):
                for b in range(width):
                    add_pair(first + 2 * a, joint[0], joint[1])
                    add_pair(second + 2 * b, joint[0], joint[1])
                    joint += 2

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
            self._mark(low, high, 1)
            for i in range(n):
                member = members[i]
                passed = self.marks[rows[member] + offset]
                members[n_true] = moved[n_false] = member
                n_true += passed
                n_false += not passed
            self._mark(low, high, 0)
        return n_true

    cdef void _mark(self, Py_ssize_t low, Py_ssize_t high, uint8_t mark) noexcept nogil:
        """Mark the rows that list an id of [low, high)."""
        cdef int64_t i
        for i in range(self.posting_starts[low], self.posting_starts[high]):
            self.marks[self.postings[i]] = mark
