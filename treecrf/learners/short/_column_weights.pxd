from libc.stdint cimport int32_t, int64_t

from treecrf.learners.short._sequence cimport Sequence


cdef class ColumnWeights:
    # First attribute of each column.
    cdef const int64_t[::1] first_attributes
    # Row of the weights of each attribute; -1 if it has none.
    cdef const int32_t[::1] rows
    # Numbers are shifted and scaled like this, by column: see `Standardization`.
    cdef const double[::1] shifts
    cdef const int32_t[::1] exponents
    # What replaces a missing value of each column: a number, or the code of a category.
    cdef const double[::1] fills
    # Attribute that marks the missing values of each column; -1 without one.
    cdef const int32_t[::1] indicators
    # [row, offset, label]: as `Weights.attributes`.
    cdef const double[:, :, ::1] weights
    # [previous label, label]: as `Weights.transitions`.
    cdef const double[:, ::1] transitions
    # Number of positions in the window on either side.
    cdef Py_ssize_t left
    cdef Py_ssize_t right
    # Largest number that a linear model takes.
    cdef double max_number
    # Unit that scores are rounded to; 0 if they are not rounded.
    cdef double unit
    # Whether numbers of 0 add nothing.
    cdef bint has_zeros
    # [2, column]: least and greatest number; others are cut to them.
    cdef const double[:, ::1] ranges

    cdef void open(self, Sequence *sequence) noexcept nogil
    cdef bint add_number(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                         double value) noexcept nogil
    cdef void add_category(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                           Py_ssize_t code) noexcept nogil
    cdef void add_missing(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                          bint is_category) noexcept nogil
    cdef void mark_missing(self, Sequence *sequence, Py_ssize_t t) noexcept nogil
    cdef void finish(self, Sequence *sequence) noexcept nogil
    cdef bint _add_scaled(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                          double value) noexcept nogil
    cdef void _add(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t row,
                   double value) noexcept nogil
