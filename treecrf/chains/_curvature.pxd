"""Curvature of the log-likelihood of a sequence: its diagonal, and a bound of its Hessian."""

from libc.stdint cimport int64_t

from treecrf.chains._chain cimport Chain


cdef extern from "chains/influence.h" nogil:
    double SMALLEST_P
    ctypedef struct Influence "influence_rows":
        # How much a context says about other positions. The header describes the fields.
        double bound_share
        double *contexts
        double *inverse
        double *future
        double *past
        double *ones
        double *work
        double *starts
        double *ends
        double *backward
        Py_ssize_t in_tile
    double own_influence(double p)
    double influence_beyond(double *row, const double *values, const double *mean, Py_ssize_t n)

cdef enum:
    # Blocks compare contexts at their ends, which takes time in proportion to the square of their
    # number. They are so far apart that each pair is multiplied at most so many times in each sum:
    # order 4 then takes three times as long as order 3, which has a fourth of the contexts.
    BLOCK_COST = 8


cdef inline Py_ssize_t block_distance(Py_ssize_t order, Py_ssize_t n_contexts,
                                      Py_ssize_t n_labels) noexcept nogil:
    """Return the number of positions from one block to the next, a multiple of the order."""
    return order * max(1, (n_contexts // n_labels + BLOCK_COST * order - 1) // (BLOCK_COST * order))


cdef inline bint is_rare(double p, Py_ssize_t length) noexcept nogil:
    """Return whether a context is too improbable for its bound to matter.

    The influence of a context is at most twice the length. Multiplied by its probability, it would
    add less than 2**-9 to a curvature.
    """
    return p * length < 2.0 ** -10


cdef Influence open_influence(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                              Py_ssize_t last, double bound_share) except *
cdef void visit_backward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil
cdef void visit_forward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil
cdef double curvature_of(const Chain *chain, const Influence *influence, Py_ssize_t v,
                         Py_ssize_t t, Py_ssize_t j, Py_ssize_t c, double p) noexcept nogil
