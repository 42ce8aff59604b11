"""Labeled sequences as learners see them that decode one after another."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef struct Scratch:
    # Memory for the longest sequence.
    double *rows
    double *deltas               # like the rows
    double *transitions          # (n_labels + 1, n_labels)
    double *work
    int32_t *origins
    int32_t *path
    double *memory
    int32_t *codes


cdef class LabeledChains:
    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] labels
    cdef const double[:, ::1] penalties
    cdef const uint8_t[:, ::1] allowed
    cdef readonly Py_ssize_t n_labels, longest

    cdef Scratch open(self, Py_ssize_t width) except *
    cdef void close(self, Scratch *scratch) noexcept nogil
    cdef inline Py_ssize_t length(self, Py_ssize_t i) noexcept nogil
    cdef inline const int32_t *truth(self, Py_ssize_t i) noexcept nogil
    cdef void add_losses(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil
    cdef double decode(self, Py_ssize_t i, Py_ssize_t width, const double *transitions,
                       Scratch *scratch) noexcept nogil
    cdef void _forbid(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil
