cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.trees.growing._context_sets cimport ContextSets
from treecrf.trees.growing._histograms cimport Histogram
from treecrf.trees.growing._nodes cimport Node


@cython.final
cdef class SplitSearch:
    cdef ContextSets contexts
    cdef const int64_t[::1] run_starts, run_ends, run_missing
    cdef const uint8_t[::1] run_kinds
    cdef const int64_t[::1] feature_starts
    cdef Py_ssize_t n_window_bins, n_chosen
    cdef double penalty, min_gain, min_examples
    cdef bint separate_counts, with_missing
    # Working memory.
    cdef double[::1] scores                 # one split score per bin
    cdef double[::1] running                # cumulative bins
    cdef double[::1] lag_sums
    cdef uint8_t[::1] chosen                # features of the node
    cdef const uint8_t[::1] of_tree         # features of the tree, or None for all

    cdef bint find(self, Node *node, const Histogram *histogram) noexcept nogil
    cdef int64_t missing_bin(self, const Node *node) noexcept nogil
    cdef double _score(self, double total, double weight) noexcept nogil
    cdef double _best_binned_test(self, Node *node, const Histogram *histogram) noexcept nogil
    cdef void _score_run(self, const Node *node, const Histogram *histogram,
                         Py_ssize_t r) noexcept nogil
    cdef void _exclude_small(self, const Node *node, const double *counts,
                             Py_ssize_t r) noexcept nogil
    cdef void _exclude_features(self, uint64_t seed) noexcept nogil
    cdef void _sum_true_side(self, Node *node, const Histogram *histogram) noexcept nogil
    cdef double _best_context_test(self, Node *node, const double *sums,
                                   double best) noexcept nogil
    cdef void _sum_by_symbol(self, const double *sums, Py_ssize_t lag) noexcept nogil


cdef void sample(uint64_t seed, Py_ssize_t n_features, Py_ssize_t n_chosen,
                 uint8_t *chosen) noexcept nogil
