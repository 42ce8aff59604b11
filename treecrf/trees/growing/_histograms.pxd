cimport cython
from libc.stdint cimport int32_t, uint8_t

from treecrf.trees.growing._chosen_bins cimport Bins, ChosenBins
from treecrf.trees.growing._context_sets cimport ContextSet, ContextSets
from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._members cimport Members
from treecrf.trees.growing._nodes cimport Node


cdef struct Histogram:
    double *bins               # (residuals, weights) of each bin
    double *counts             # examples of each bin, where they are counted separately; else NULL
    double *contexts           # residuals, weights and examples of each extended context


@cython.final
cdef class Histograms:
    cdef Features features
    cdef ContextSets contexts
    cdef ChosenBins of_tree                 # the bins of the current tree, at first all
    cdef bint separate_counts, failed
    # Bins of the window tests come first, then those of the labels before examples in planes: for
    # each lag, one for every label and one for none.
    cdef Py_ssize_t n_label_bins, n_lags
    cdef const uint8_t[:, ::1] labels       # label at each lag before each example
    cdef Py_ssize_t max_size, size, n_histograms, n_free
    cdef double[::1] of_contexts            # sums of the node with a histogram of its own
    cdef double **memory
    cdef int32_t *free_histograms

    cdef Py_ssize_t _size(self) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void release(self, Node *node) noexcept nogil
    cdef void take(self, Node *node) noexcept nogil
    cdef Histogram of_node(self, const Node *node) noexcept nogil
    cdef Bins bins_of(self, const Node *node) noexcept nogil
    cdef void build(self, Node *node, Members members) noexcept nogil
    cdef Histogram build_own(self, const Node *node, ChosenBins chosen,
                             Members members) noexcept nogil
    cdef void _fill(self, const Node *node, ChosenBins chosen, Members members,
                    Histogram histogram) noexcept nogil
    cdef void _add_labels(self, Members members, const double *values, double *first,
                          int stride) noexcept nogil
    cdef void subtract(self, const Node *target, const Node *source) noexcept nogil
    cdef void add(self, const Node *target, const Node *source) noexcept nogil


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
