"""Curvature of the log-likelihood of a sequence: its diagonal, and a bound of its Hessian."""

from libc.stdint cimport int64_t

from treecrf.chains._chain cimport Chain


cdef struct Influence:
    # How much is known about other positions from a context, for the contexts before each position
    # of a tile and after its last.
    double bound_share   # the curvature is at least this share of the bound
    double *contexts     # probability of each context
    double *future       # influence on this position and later ones
    double *past         # influence on earlier positions
    double *work         # a row of contexts
    double *starts       # for each tile, the row of `contexts` before its first position,
    double *ends         # that of `future` after its last,
    double *backward     # and that of the backward pass after its last
    Py_ssize_t in_tile   # the tile whose rows are in memory


cdef Influence open_influence(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                              Py_ssize_t last, double bound_share) except *
cdef void close_influence(Influence *influence) noexcept nogil
cdef void visit_backward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil
cdef void visit_forward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil
cdef void store_curvatures(const Chain *chain, const Influence *influence, Py_ssize_t i,
                           Py_ssize_t v, Py_ssize_t j, double *out) noexcept nogil
cdef double curvature_of(const Chain *chain, const Influence *influence, Py_ssize_t v,
                         Py_ssize_t t, Py_ssize_t j, Py_ssize_t c, double p) noexcept nogil
