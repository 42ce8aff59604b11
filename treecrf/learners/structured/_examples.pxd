"""Training examples for kernels that visit one sequence at a time: attributes and labels."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class AttributeRows:
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] attributes
    cdef const double[::1] values
    cdef const int64_t[::1] first_rows       # row of the first position of each sequence
    cdef readonly Py_ssize_t left, right     # window
    cdef readonly Py_ssize_t width           # number of weights of an attribute at an offset

    cdef void score(self, Py_ssize_t i, Py_ssize_t length, const double *weights,
                    double *out) noexcept nogil
    cdef void collect(self, Py_ssize_t i, Py_ssize_t length, const double *deltas,
                      double *weights) noexcept nogil
    cdef void move(self, Py_ssize_t i, Py_ssize_t length, double factor, double *source,
                   double *target) noexcept nogil


cdef struct Scratch:
    # Memory for the longest sequence.
    double *rows
    double *deltas               # same shape as the rows
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
    cdef Py_ssize_t n_mistakes(self, Py_ssize_t i, const int32_t *path) noexcept nogil
    cdef double true_score(self, Py_ssize_t i, Py_ssize_t width, const double *rows,
                           const double *transitions) noexcept nogil
    cdef void add_indicators(self, Py_ssize_t i, Py_ssize_t width, const int32_t *path,
                             double factor, double *rows, double *transitions) noexcept nogil
    cdef void add_losses(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil
    cdef void constrain_transitions(self, const double *transitions, double *out) noexcept nogil
    cdef void constrain_rows(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil
    cdef double decode(self, Py_ssize_t i, Py_ssize_t width, const double *transitions,
                       Scratch *scratch) noexcept nogil


cdef inline double *weights_at(double[:, :, ::1] weights) noexcept nogil:
    """Return a pointer to the first weight; NULL if there are no attributes."""
    return &weights[0, 0, 0] if weights.shape[0] else NULL
