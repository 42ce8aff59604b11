cimport cython
from libc.stdint cimport uint64_t

from treecrf.trees.growing._chosen_bins cimport ChosenBins
from treecrf.trees.growing._context_sets cimport ContextSet, ContextSets
from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._histograms cimport Histogram
from treecrf.trees.growing._members cimport Members
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._row_sets cimport RowSet


@cython.final
cdef class ContextHistograms:
    cdef Features features
    cdef ContextSets contexts
    cdef ChosenBins chosen
    cdef Py_ssize_t n_bins, n_labels, n_lanes
    cdef bint has_curvature
    # Sums of each context of full depth, with those over all bins last.
    cdef double[::1] bins
    # (residuals, weights) of the first positions.
    cdef double[::1] starts
    cdef double[::1] block                  # lanes of some rows

    cdef bint begin(self, bint has_curvature) noexcept nogil
    cdef void add_starts(self, Members members) noexcept nogil
    cdef void add(self, Members members) noexcept nogil
    cdef void sum_into(self, Node *node, const ContextSet *contexts) noexcept nogil
    cdef void write(self, const ContextSet *contexts, Histogram histogram) noexcept nogil
    cdef void _sum_bin(self, const ContextSet *contexts, Py_ssize_t b,
                       double *pair) noexcept nogil
