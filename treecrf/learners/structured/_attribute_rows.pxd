"""Attributes in rows, for learners that look at one sequence after another."""

from libc.stdint cimport int32_t, int64_t


cdef class AttributeRows:
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] attributes
    cdef const double[::1] values
    cdef readonly Py_ssize_t left, right, width

    cdef void score(self, Py_ssize_t first, Py_ssize_t last, const double *weights,
                    double *out) noexcept nogil
    cdef void collect(self, Py_ssize_t first, Py_ssize_t last, const double *deltas,
                      double factor, double *weights) noexcept nogil
    cdef void move(self, Py_ssize_t first, Py_ssize_t last, double factor, double *source,
                   double *target) noexcept nogil


cdef inline double *weights_at(double[:, :, ::1] weights) noexcept nogil:
    """Where weights begin, if there are any."""
    return &weights[0, 0, 0] if weights.shape[0] else NULL
