from libc.stdint cimport int32_t, int64_t, uint8_t

from treecrf.trees.scoring._answers cimport Answers, Bits


cdef class ColumnAnswers:
    cdef Answers answers
    cdef const uint8_t[:, ::1] codes, bits
    cdef const int64_t[::1] posting_starts
    cdef const int32_t[::1] postings
    cdef const int64_t[::1] id_starts
    cdef bint has_missing      # whether any value is missing
    cdef Py_ssize_t n_filled

    cdef int64_t *open(self, Py_ssize_t first) noexcept nogil
    cdef bint fill(self, Bits *block, int64_t *next_postings) noexcept nogil
    cdef void _fill_listed(self, Bits *block, Py_ssize_t k, int64_t *next_postings) noexcept nogil
    cdef int64_t _first_posting(self, int32_t id_, Py_ssize_t row) noexcept nogil
