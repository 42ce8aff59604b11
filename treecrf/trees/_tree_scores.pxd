from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from treecrf.chains._context_scores cimport ContextScores, Request


cdef struct Node:
    # One of `treecrf.trees.context_scores.NODE`: its test, its children, or the value of a leaf.
    int16_t kind
    int16_t offset             # of the row, or the lag of a label less 1
    int32_t slot
    int32_t low
    int32_t high
    int32_t missing            # code or listed id of a missing value; -1 for none
    int32_t passed
    int32_t failed
    int32_t first_surrogate
    int32_t n_surrogates
    double value               # of a leaf, else the fraction that passes


cdef class TreeScores(ContextScores):
    cdef const Node[::1] nodes, surrogates
    cdef bint follows_surrogates, has_missing
    cdef const int32_t[::1] roots
    cdef Py_ssize_t n_iter
    cdef const int32_t[::1] row_of_position
    cdef const uint8_t[:, ::1] codes, bits
    cdef const int64_t[::1] list_starts
    cdef const int32_t[::1] list_ids

    cdef void _load(self, Request *request) noexcept nogil
    cdef void _store(self, const Request *request) noexcept nogil
    cdef void _catch_up(self, Request *requests, Py_ssize_t n_requests) noexcept nogil
    cdef void _walk(self, const Request *request, Py_ssize_t root, Py_ssize_t label) noexcept nogil
    cdef bint _passes(self, const Node *node, Py_ssize_t row) noexcept nogil
    cdef bint _is_missing(self, const Node *node, Py_ssize_t row) noexcept nogil
    cdef bint _passes_surrogates(self, const Node *node, Py_ssize_t row) noexcept nogil
    cdef bint _lists(self, Py_ssize_t row, int32_t low, int32_t high) noexcept nogil


cdef class CachedScores(TreeScores):
    cdef Py_ssize_t n_planes, n_rows
    cdef int32_t clock
    cdef double[:, ::1] values_
    cdef int64_t[::1] contexts
    cdef int32_t[::1] included, used, ranking, n_cached
    cdef uint8_t[:, ::1] labels_

    cdef void _find(self, const Request *request, Py_ssize_t s) noexcept nogil
    cdef void _insert(self, const Request *request, Py_ssize_t s) noexcept nogil
    cdef Py_ssize_t _rank(self, Py_ssize_t row, int64_t context) noexcept nogil
    cdef Py_ssize_t _row(self, const Request *request) noexcept nogil
    cdef Py_ssize_t _entry(self, Py_ssize_t rank, Py_ssize_t row) noexcept nogil
    cdef int32_t _free_plane(self, Py_ssize_t row) noexcept nogil
