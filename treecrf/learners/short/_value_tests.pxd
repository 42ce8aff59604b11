from libc.stdint cimport int32_t, int64_t

from treecrf.learners.short._sequence cimport Sequence


cdef class ValueTests:
    # Place of code 0 of each column; the codes of its categories follow.
    cdef const int64_t[::1] first_codes
    # First test of each place, in the next two arrays.
    cdef const int64_t[::1] code_starts
    # Tests that the codes pass.
    cdef const int32_t[::1] code_tests
    # Offset of the position that these tests read.
    cdef const int32_t[::1] code_offsets
    # Of each column: its index among the columns with thresholds; -1 without any.
    cdef const int32_t[::1] number_columns
    # First threshold of each of these columns, in ``cuts``. They have a rank more than thresholds.
    cdef const int64_t[::1] cut_starts
    # The distinct thresholds of each column, ascending.
    cdef const double[::1] cuts
    # Number of thresholds of each column that 0 exceeds.
    cdef const int32_t[::1] zero_ranks
    # Tests of numbers: test, offset, index of the rank, and whether values up to it pass.
    cdef const int32_t[:, ::1] number_tests
    # Tests of the boundaries of sequences: test and offset.
    cdef const int32_t[:, ::1] boundary_tests
    # First test of each column in the next array.
    cdef const int64_t[::1] column_starts
    # Tests by column: test, offset, and whether it is passed where the value is missing.
    cdef const int32_t[:, ::1] column_tests
    # Number of all tests, and of all ranks.
    cdef Py_ssize_t n_tests
    cdef Py_ssize_t n_ranks

    cdef void open(self, Sequence *sequence) noexcept nogil
    cdef void add_number(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                         double value) noexcept nogil
    cdef void add_category(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                           Py_ssize_t code) noexcept nogil
    cdef void add_missing(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j) noexcept nogil
    cdef void finish(self, Sequence *sequence) noexcept nogil
    cdef void _rank_zeros(self, Sequence *sequence) noexcept nogil
    cdef void _collect_ranks(self, Sequence *sequence) noexcept nogil
    cdef void _test_numbers(self, Sequence *sequence) noexcept nogil
    cdef void _test_boundaries(self, Sequence *sequence) noexcept nogil
    cdef void _exclude_missing(self, Sequence *sequence) noexcept nogil
