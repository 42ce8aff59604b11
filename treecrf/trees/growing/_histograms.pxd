cimport cython
from libc.stdint cimport int32_t, uint8_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.growing._features cimport Bins, ChosenBins, Features
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._sets cimport ContextSet, ContextSets, RowSet


@cython.final
cdef class Members:
    cdef ContextSets contexts
    cdef const int32_t[::1] position_of_row     # of the rows of all layers
    cdef const uint8_t[::1] depth               # number of labels before each position
    cdef Py_ssize_t n_rows                      # rows of a layer
    cdef Py_ssize_t n_layers
    cdef bint separate_counts                   # whether the numbers of examples are not weights
    # The examples of the current tree. Without curvature, an example has the weight of its
    # position, which is 1 by default.
    cdef const double[:, ::1] targets, curvature        # (n_positions, n_contexts)
    cdef const double[::1] position_weights
    cdef Memory memory
    cdef uint64_t *weighted                 # rows whose weight is not 0
    # The members of the current node; rows that belong to it as a whole come first.
    cdef const RowSet *row_set
    cdef const ContextSet *context_set
    cdef Py_ssize_t n                       # number of listed rows
    cdef Py_ssize_t n_whole                 # number of those that belong to it as a whole
    cdef int32_t *rows
    cdef int32_t *positions
    cdef double *values                     # (residual, weight) of each, over the node's contexts
    cdef double *counts                     # (examples, 0) of each, if they are not the weights
    cdef uint64_t *listed                   # weighted rows of the current node
    # Leaves that receive their values together.
    cdef uint8_t *numbers                   # leaf of each row, 0 between calls
    cdef uint64_t *numbered                 # rows that have such a number

    cdef void begin(self, const double[:, ::1] targets, const double[:, ::1] curvature,
                    const double[::1] position_weights) noexcept nogil
    cdef void gather(self, const RowSet *row_set, const ContextSet *context_set) noexcept nogil
    cdef void list_rows(self, const RowSet *row_set) noexcept nogil
    cdef void _fill_values(self) noexcept nogil
    cdef void _sum_over(self, const double *table, double *sums) noexcept nogil
    cdef void _count_over(self, double *counts) noexcept nogil
    cdef bint _is_counted(self, int32_t position) noexcept nogil
    cdef void sum_into(self, Node *node) noexcept nogil
    cdef void sum_contexts(self, const Node *node, double *sums) noexcept nogil
    cdef void _add_contexts(self, double *totals, double *weights, double *counts) noexcept nogil
    cdef void number_rows(self, const RowSet *row_set, uint8_t number) noexcept nogil
    cdef void add_numbered(self, const ContextSet *contexts, const double *values,
                           double[:, ::1] scores) noexcept nogil
    cdef void add_leaf(self, const RowSet *row_set, const ContextSet *contexts, double value,
                       double[:, ::1] scores) noexcept nogil
    cdef void _add_value(self, const ContextSet *contexts, Py_ssize_t position, double value,
                         double *table) noexcept nogil


cdef struct Histogram:
    # The sums of a node.
    double *bins               # (residuals, weights) of each bin
    double *counts             # examples of each bin, where they are counted separately; else NULL
    double *contexts           # residuals, weights and examples of each extended context


cdef class HistogramPool:
    cdef bint failed                        # whether memory has run out
    cdef double **memory                    # of each histogram
    cdef Py_ssize_t max_histograms
    cdef Py_ssize_t n_histograms            # number of histograms that have memory
    cdef Py_ssize_t max_size                # size of a histogram with all bins
    cdef int32_t *free_histograms           # histograms that no node has
    cdef Py_ssize_t n_free

    cdef int reserve(self, Py_ssize_t max_histograms, Py_ssize_t max_size) except -1
    cdef void release_all(self) noexcept nogil
    cdef bint is_full(self) noexcept nogil
    cdef void take(self, Node *node) noexcept nogil
    cdef void release(self, Node *node) noexcept nogil


@cython.final
cdef class Histograms(HistogramPool):
    cdef Features features
    cdef ContextSets contexts
    cdef ChosenBins tree_bins               # the bins of the current tree, at first all
    cdef bint separate_counts               # whether the numbers of examples are not weights
    # Bins of the window tests come first, then those of the labels before examples in layers: for
    # each lag, one for every label and one for none.
    cdef Py_ssize_t n_lags                  # 0 without layers
    cdef Py_ssize_t n_label_bins
    cdef const uint8_t[:, ::1] labels       # label at each lag before each example
    cdef Py_ssize_t size                    # size of a histogram of the current tree
    cdef double[::1] context_sums           # sums of a node that sums up its own choice of bins

    cdef Py_ssize_t _size(self) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef Histogram sums_of(self, const Node *node) noexcept nogil
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
    cdef ChosenBins chosen                  # the bins of the current tree
    cdef Py_ssize_t n_bins                  # their number
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t n_lanes                 # sums of a bin: 4 or 8
    cdef bint has_curvature                 # whether weights are curvature
    cdef double[::1] bins                   # lanes of each bin, then those over all positions
    cdef double[::1] starts                 # (residuals, weights) of the first positions in each
    cdef double[::1] block                  # lanes of some rows

    cdef bint begin(self, bint has_curvature) noexcept nogil
    cdef void add_starts(self, Members members) noexcept nogil
    cdef void add(self, Members members) noexcept nogil
    cdef void _fill_block(self, Members members, Py_ssize_t first, Py_ssize_t n) noexcept nogil
    cdef void sum_into(self, Node *node, const ContextSet *contexts) noexcept nogil
    cdef void write(self, const ContextSet *contexts, Histogram histogram) noexcept nogil
    cdef void _sum_bin(self, const ContextSet *contexts, Py_ssize_t b,
                       double *pair) noexcept nogil
