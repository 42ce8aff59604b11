"""The weights of a linear model, by column.

A value adds its weights to all positions that have it in their window, as soon as it is read. The
columns of a position are read in order, which decides how sums are rounded.
"""

from libc.math cimport fabs, ldexp, rint

from treecrf.chains._memory cimport take_zeros
from treecrf.learners.linear._linear cimport add_block
from treecrf.learners.short._sequence cimport Sequence


cdef class ColumnWeights:
    """The weights of a linear model, by column."""

    def __init__(self, first_attributes, rows, shifts, exponents, fills, indicators, weights,
                 transitions, window, max_number, unit, has_zeros, ranges):
        self.first_attributes = first_attributes
        self.rows = rows
        self.shifts = shifts
        self.exponents = exponents
        self.fills = fills
        self.indicators = indicators
        self.weights = weights
        self.transitions = transitions
        self.left, self.right = window
        self.max_number = max_number
        self.unit = unit
        self.has_zeros = has_zeros
        self.ranges = ranges

    cdef void open(self, Sequence *sequence) noexcept nogil:
        """Take the memory of a sequence; add the weights of the positions before it."""
        cdef Py_ssize_t t
        sequence.state = <double *> take_zeros(
            &sequence.memory, sequence.length * self.weights.shape[2] * sizeof(double))
        if sequence.state == NULL:
            return
        for t in range(-self.left, 0):
            self._add(sequence, t, self.weights.shape[0] - 1, 1.0)

    cdef bint add_number(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                         double value) noexcept nogil:
        """Add the weights of a number; returns whether it is small enough."""
        return self._add_scaled(sequence, t, j,
                                max(self.ranges[0, j], min(self.ranges[1, j], value)))

    cdef bint _add_scaled(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                          double value) noexcept nogil:
        cdef Py_ssize_t row = self.rows[self.first_attributes[j]]
        if sequence.is_dense:
            value -= self.shifts[j]
        value = ldexp(value, -self.exponents[j])
        if row >= 0 and value != 0:
            self._add(sequence, t, row, value)
        return fabs(value) <= self.max_number

    cdef void add_category(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                           Py_ssize_t code) noexcept nogil:
        """Add the weights of a category."""
        cdef Py_ssize_t row = self.rows[self.first_attributes[j] + code - 1]
        if row >= 0:
            self._add(sequence, t, row, 1.0)

    cdef void add_missing(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                          bint is_category) noexcept nogil:
        """Add the weights of what replaces a missing value."""
        if not is_category:
            self._add_scaled(sequence, t, j, self.fills[j])
        elif self.fills[j] > 0:
            self.add_category(sequence, t, j, <Py_ssize_t> self.fills[j])

    cdef void mark_missing(self, Sequence *sequence, Py_ssize_t t) noexcept nogil:
        """Add the weights of the attributes that mark missing values, after those of all values."""
        cdef Py_ssize_t k, attribute
        for k in range(sequence.n_lacking):
            attribute = self.indicators[sequence.lacking[k]]
            if attribute >= 0 and self.rows[attribute] >= 0:
                self._add(sequence, t, self.rows[attribute], 1.0)

    cdef void finish(self, Sequence *sequence) noexcept nogil:
        """Add the weights of the positions after the sequence, and round."""
        cdef Py_ssize_t t, i
        for t in range(sequence.length, sequence.length + self.right):
            self._add(sequence, t, self.weights.shape[0] - 1, 1.0)
        if self.unit:
            for i in range(sequence.length * self.weights.shape[2]):
                sequence.state[i] = rint(sequence.state[i] / self.unit) * self.unit

    cdef void _add(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t row,
                   double value) noexcept nogil:
        """Add an attribute at position t to the positions that have it in their window."""
        cdef Py_ssize_t n_labels = self.weights.shape[2]
        cdef Py_ssize_t window_start = t - self.right
        cdef Py_ssize_t first = max(window_start, 0)
        cdef Py_ssize_t last = min(t + self.left + 1, sequence.length)
        if first < last:
            add_block(sequence.state + first * n_labels,
                      &self.weights[row, first - window_start, 0], value,
                      (last - first) * n_labels)
