"""Curvature of the log-likelihood of a sequence: its diagonal, and a bound of its Hessian."""

from libc.stdint cimport int64_t

from treecrf.chains._chain cimport Chain


cdef extern from "chains/influence.h" nogil:
    double SMALLEST_P
    ctypedef struct Influence "influence_rows":
        # How much is known about other positions from a context, see there.
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
    # Maximum number of probabilities in the rows of a block per pair of a context and a label.
    BLOCK_COST = 16


cdef inline Py_ssize_t block_distance(Py_ssize_t order, Py_ssize_t n_contexts,
                                      Py_ssize_t n_labels) noexcept nogil:
    """Return the distance between blocks: their time is in proportion to the number of pairs."""
    return order * max(1, (n_contexts // n_labels + BLOCK_COST * order - 1) // (BLOCK_COST * order))


cdef inline bint is_rare(double p, Py_ssize_t length) noexcept nogil:
    """Whether a bound of twice the length per unit of probability is of no consequence."""
    return p * length < 2.0 ** -10


cdef Influence open_influence(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                              Py_ssize_t last, double bound_share) except *
cdef void visit_backward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil
cdef void visit_forward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil
cdef double curvature_of(const Chain *chain, const Influence *influence, Py_ssize_t v,
                         Py_ssize_t t, Py_ssize_t j, Py_ssize_t c, double p) noexcept nogil
