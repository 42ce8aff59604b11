from libc.stdint cimport int32_t, int64_t, uint8_t


cdef struct Members:
    # Members of a node: places in the arrays of their stratum, of which `rows` is one.
    const int32_t *members
    Py_ssize_t n
    const int32_t *rows


cdef class Features:
    cdef const uint8_t[:, ::1] codes
    cdef const uint8_t[:, ::1] bits
    cdef const int64_t[::1] list_starts
    cdef const int32_t[::1] list_ids
    cdef Py_ssize_t left, width
    cdef const int64_t[::1] code_bins       # first bin of each code column at each offset
    cdef const int64_t[::1] bit_bins        # first bin of each byte at each offset
    cdef const int64_t[::1] list_bins       # first bin of the lists at each offset
    cdef const int64_t[::1] posting_starts  # rows that list each id
    cdef const int32_t[::1] postings
    cdef uint8_t[::1] marks                 # one a row, 0 between calls
    # Neighbouring codes that are counted together, and the joint bins of each pair.
    cdef const int64_t[::1] pair_places, pair_widths, pair_bins, unpaired
    cdef double[::1] joint
    cdef const uint8_t[::1] test_kinds
    cdef const int32_t[::1] test_offsets, test_slots, test_lows, test_highs

    cdef void add_windows(self, Members some, const double *values, double *bins,
                          int stride) noexcept nogil
    cdef void _add_codes(self, Members some, const double *values, double *bins,
                         int stride) noexcept nogil
    cdef void _add_code_pairs(self, Members some, const double *values,
                              double *bins) noexcept nogil
    cdef void _part_pairs(self, double *bins) noexcept nogil
    cdef void _add_bits(self, Members some, const double *values, double *bins,
                        int stride) noexcept nogil
    cdef void _add_set_bits(self, Members some, const uint8_t *column, const double *values,
                            double *bins, int stride) noexcept nogil
    cdef void _add_bytes(self, Members some, const uint8_t *column, const double *values,
                         double *bins, int stride) noexcept nogil
    cdef void _add_lists(self, Members some, const double *values, double *bins,
                         int stride) noexcept nogil
    cdef Py_ssize_t part(self, int64_t test, int32_t *members, Py_ssize_t n, const int32_t *rows,
                         int32_t *moved) noexcept nogil
    cdef void _mark(self, Py_ssize_t low, Py_ssize_t high, uint8_t mark) noexcept nogil
