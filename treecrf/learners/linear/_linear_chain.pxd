"""Inference in one chain of labels whose transitions have the same scores at all positions."""

from libc.stdint cimport int32_t, uint8_t


cdef struct Scratch:
    # Transitions relative to the highest, and their exponentials if their range is small enough.
    Py_ssize_t n_labels
    bint near
    double *scores
    double *factors
    double *pairs                # times the factors: expected transitions
    double *expected             # expected transitions of sequences that need logarithms
    double *forward
    double *known                # scores of one sequence, given its known labels
    double *scale
    double *work
    double *memory               # to be freed


# Memory for sequences of up to `longest` positions.
cdef Scratch scratch_for(Py_ssize_t n_labels, Py_ssize_t longest) except *

# Write the scores where the mask is not 0, and minus infinity elsewhere; returns their number.
cdef Py_ssize_t keep_where(const double *rows, const uint8_t *mask, Py_ssize_t size,
                           double *out) noexcept nogil

# Set the transitions, (n_labels + 1, n_labels); the last row is for first positions.
cdef void fill_transitions(Scratch *s, const double[:, ::1] transitions) noexcept nogil

# Set the expected transitions to 0.
cdef void clear_expected(Scratch *s) noexcept nogil

# Replace the scores of a sequence by weight * (I(label) - P(label)), and add the expected
# transitions to those of `s` and the true ones and the first position to `summed`, which has the
# shape of the transitions. Returns log P(labels).
cdef double fill_residuals(Scratch *s, double *rows, const double[:, ::1] transitions,
                           const int32_t *labels, Py_ssize_t length, double weight,
                           double[:, ::1] summed) noexcept nogil

# Subtract the expected transitions.
cdef void subtract_expected(const Scratch *s, double[:, ::1] summed) noexcept nogil
