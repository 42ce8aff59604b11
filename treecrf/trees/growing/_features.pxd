cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

cdef struct Bins:
    # The bins of a node's histogram, ascending: all of them, or those that hold anything.
    Py_ssize_t n            # number of bins
    Py_ssize_t room         # number of bins for which there is memory, if this owns it
    double *pairs           # sum of residuals and sum of weights of each bin
    double *counts          # number of examples of each bin; NULL if these are the weights
    int32_t *bins           # number of each bin; NULL if they are all bins


@cython.final
cdef class ChosenBins:
    # Groups of all bins, those of codes first, then bytes of bits, then lists; see
    # `treecrf.trees.growing.window_tests.BinGroups`.
    cdef Py_ssize_t n_code_groups, n_byte_groups
    cdef const int64_t[::1] starts          # first bin of each group, and the end of the last
    cdef const int32_t[::1] feature_groups  # group with the bins of each feature
    cdef const int32_t[::1] group_sizes     # number of features of each group
    cdef const int32_t[::1] bin_features    # feature of each bin; the number of features for none
    cdef const int32_t[::1] always          # groups of every choice, and the number of all groups
    cdef const int64_t[::1] group_codes     # first code of each group of codes
    cdef const int32_t[::1] group_pairs     # its pair of codes; -1 for a single code
    cdef const int64_t[::1] window_code_bins        # first bin of each code
    cdef const int64_t[::1] joint_bins      # first joint bin of each pair of codes
    cdef bint with_lists                    # whether rows list ids
    # The chosen bins.
    cdef bint is_all                        # whether all bins are chosen
    cdef Py_ssize_t n_bins                  # their number
    cdef int64_t end_of_shared              # bins before it may be of features that are not chosen
    cdef int32_t[::1] bins                  # number of each among all bins
    cdef int32_t[::1] places                # index of each bin among them; only of a tree's choice
    # The chosen bins that the window of each row lists, unless all bins are chosen.
    cdef int64_t[::1] row_starts            # first of them of each row, after the rows before 0
    cdef int32_t[::1] row_places            # indices of these bins among the chosen ones
    # Where the values of a row are added.
    cdef Py_ssize_t n_stretches, n_pairs, n_unpaired, n_bytes
    cdef Py_ssize_t n_joint                 # joint bins of all pairs together
    cdef int64_t[::1] stretches             # first and end of each run of neighboring codes
    cdef int64_t[::1] code_bins             # index of the first bin of each code
    cdef int64_t[::1] pairs                 # numbers of the pairs of codes
    cdef int64_t[::1] pair_codes            # first code of each pair
    cdef int64_t[::1] pair_bins             # first joint bin of each pair
    cdef int64_t[::1] unpaired              # the other codes
    cdef int64_t[::1] byte_columns          # number of each byte of bits in the window
    cdef int64_t[::1] byte_bins             # index of its first bin
    # Working memory for the histogram of a node, see `Bins`.
    cdef double[::1] own_pairs, own_counts
    cdef int32_t[::1] own_numbers

    cdef void choose(self, const int32_t *features, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t _add_bins(self, int32_t group, Py_ssize_t n_bins) noexcept nogil
    cdef void _add_codes(self, int32_t group, int64_t shift) noexcept nogil
    cdef Bins own(self, bint with_counts) noexcept nogil
    cdef Bins select(self, const Bins *histogram, ChosenBins tree_bins,
                     const uint8_t *marks) noexcept nogil
    cdef void _select_listed(self, const Bins *histogram, ChosenBins tree_bins,
                             const uint8_t *marks, Bins *own) noexcept nogil
    cdef bint prefers_rows(self, double share, Py_ssize_t n_small, Py_ssize_t n_both,
                           Py_ssize_t n_bins) noexcept nogil


cdef class Features:
    cdef readonly Py_ssize_t n_words        # words of a set of rows
    cdef readonly object columns            # the same arrays in an `EncodedColumns`
    # The rows, as in `treecrf.encoding.encoded.EncodedSequences`.
    cdef const uint8_t[:, ::1] codes        # the codes of each row
    cdef const int64_t[::1] list_starts     # first listed id of each row
    cdef const int32_t[::1] list_ids
    cdef const uint8_t[:, ::1] code_columns         # the codes of each column
    cdef const uint8_t[:, ::1] bit_columns          # the bytes of bits of each column
    cdef const int64_t[::1] posting_starts  # first of the rows that list each id
    cdef const int32_t[::1] postings        # these rows
    # The window.
    cdef Py_ssize_t left                    # number of rows before the position
    cdef Py_ssize_t width                   # number of rows
    cdef const int64_t[::1] list_bins       # first bin of the lists at each offset
    # Joint bins of neighboring codes that are counted together.
    cdef const int64_t[::1] pair_widths     # number of bins of the second code of each pair
    cdef const int64_t[::1] pair_bins       # first joint bin of each pair
    cdef const uint16_t[::1] pairs          # joint bin at each code that begins a pair
    # How each test is evaluated, see `treecrf.trees.growing.window_tests.TestTable`.
    cdef const uint8_t[::1] test_kinds
    cdef const int32_t[::1] test_offsets, test_slots, test_lows, test_highs, test_missing
    # Working memory.
    cdef uint8_t[::1] marks                 # one for each row, 0 between calls
    cdef double[::1] joint                  # pairs of sums of the joint bins

    cdef void _list_places(self, ChosenBins tree_bins)
    cdef void _visit_places(self, ChosenBins tree_bins, int64_t *ends,
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
                             Py_ssize_t start, uint8_t outcome, uint8_t *out) noexcept nogil
    cdef void _find_codes(self, int64_t test, const int32_t *rows, Py_ssize_t n,
                          uint8_t *out) noexcept nogil
