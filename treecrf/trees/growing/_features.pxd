from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from treecrf.trees.growing._chosen_bins cimport ChosenBins


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

    cdef bint _prefers_places(self, double share, Py_ssize_t n_examples) noexcept
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
    cdef void _split_pairs(self, ChosenBins chosen, double *bins) noexcept nogil
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
