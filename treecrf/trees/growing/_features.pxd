cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

cdef struct Bins:
    # The bins of a node's histogram, ascending: all of them, or those that hold anything.
    Py_ssize_t n, room
    double *pairs           # sum of residuals, sum of weights
    double *counts          # number of examples; NULL if these are the weights
    int32_t *bins           # numbers of the bins; NULL for all


@cython.final
cdef class ChosenBins:
    # Units of all bins.
    cdef Py_ssize_t n_window_bins, n_code_units, n_byte_units
    cdef const int64_t[::1] starts          # first bin of each unit, and the end of the last
    cdef const int32_t[::1] units_of_features, n_features_in
    cdef const int32_t[::1] features_of     # of each bin; the number of features for none
    cdef const int32_t[::1] always          # units of every choice, and the number of all units
    cdef const int64_t[::1] unit_codes      # first code of each unit of codes
    cdef const int32_t[::1] unit_pairs      # number of its pair; -1 for a single code
    cdef const int64_t[::1] window_code_bins, joint_bins
    cdef bint with_lists                    # whether rows list ids
    # The chosen bins.
    cdef bint is_all
    cdef Py_ssize_t n_bins
    cdef int64_t end_of_shared              # of the bins that may be of other features as well
    cdef int32_t[::1] bins                  # number of each among all
    cdef int32_t[::1] places                # of each of a tree's bins among them
    # Places of the chosen bins that the window of each row lists, unless all bins are chosen.
    cdef int64_t[::1] row_starts
    cdef int32_t[::1] row_places
    # Where the values of a row are added.
    cdef Py_ssize_t n_stretches, n_pairs, n_joint, n_unpaired, n_bytes
    cdef int64_t[::1] stretches             # (first, end) of neighboring codes
    cdef int64_t[::1] code_bins             # place of the first bin of each code
    cdef int64_t[::1] pairs, pair_codes, pair_bins          # first joint bin of each pair
    cdef int64_t[::1] unpaired
    cdef int64_t[::1] byte_columns, byte_bins
    # Working memory for the histogram of a node.
    cdef double[::1] pair_sums, counts
    cdef int32_t[::1] numbers

    cdef void choose(self, const int32_t *features, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t _add_bins(self, int32_t unit, Py_ssize_t n_bins) noexcept nogil
    cdef void _add_codes(self, int32_t unit, int64_t shift) noexcept nogil
    cdef Bins own(self, bint with_counts) noexcept nogil
    cdef Bins select(self, const Bins *histogram, ChosenBins of_tree,
                     const uint8_t *marks) noexcept nogil
    cdef bint prefers_rows(self, double share, Py_ssize_t n_small, Py_ssize_t n_both,
                           Py_ssize_t n_bins) noexcept nogil


cdef class Features:
    cdef readonly Py_ssize_t n_words
    cdef readonly object columns            # the same arrays in an `EncodedColumns`
    cdef const uint8_t[:, ::1] codes
    cdef const uint8_t[:, ::1] code_columns, bit_columns
    cdef const int64_t[::1] list_starts
    cdef const int32_t[::1] list_ids
    cdef Py_ssize_t left, width
    cdef const int64_t[::1] list_bins       # first bin of the lists at each offset
    cdef const int64_t[::1] posting_starts  # rows that list each id
    cdef const int32_t[::1] postings
    cdef uint8_t[::1] marks                 # one for each row, 0 between calls
    # Joint bins of adjacent codes that are counted together.
    cdef const int64_t[::1] pair_widths, pair_bins
    cdef const uint16_t[::1] pairs
    cdef double[::1] joint
    cdef const uint8_t[::1] test_kinds
    cdef const int32_t[::1] test_offsets, test_slots, test_lows, test_highs, test_missing

    cdef void _list_places(self, ChosenBins of_tree)
    cdef void _visit_places(self, ChosenBins of_tree, int64_t *ends,
                            int32_t *places) noexcept nogil
    cdef void add_windows(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                          const double *values, double *bins, int stride) noexcept nogil
    cdef void add_lanes(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                        const double *lanes, Py_ssize_t n_lanes, double *bins,
                        double *sums) noexcept nogil
    cdef void _add_codes(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                         const double *values, double *bins, int stride) noexcept nogil
    cdef void _add_code_pairs(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                              const double *values, double *bins) noexcept nogil
    cdef void _add_bits(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                        const double *values, double *bins, int stride) noexcept nogil
    cdef void _add_lists(self, const int32_t *rows, Py_ssize_t n, const double *values,
                         double *bins, int stride) noexcept nogil
    cdef void _add_places(self, ChosenBins chosen, const int32_t *rows, Py_ssize_t n,
                          const double *values, double *bins, int stride) noexcept nogil
    cdef void evaluate(self, int64_t test, uint64_t *passed) noexcept nogil
    cdef bint find_missing(self, int64_t test, uint64_t *missing) noexcept nogil
    cdef void _find_listed(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t start,
                           uint64_t *listed) noexcept nogil
    cdef void _mark(self, Py_ssize_t low, Py_ssize_t high, uint8_t mark) noexcept nogil
    cdef void outcomes(self, int64_t test, const int32_t *rows, Py_ssize_t n,
                       uint8_t *out) noexcept nogil
    cdef void _find_in_lists(self, int32_t low, int32_t high, const int32_t *rows, Py_ssize_t n,
                             Py_ssize_t start, uint8_t found, uint8_t *out) noexcept nogil
