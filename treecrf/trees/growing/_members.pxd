cimport cython
from libc.stdint cimport int32_t, uint8_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.growing._context_sets cimport ContextSet, ContextSets
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._row_sets cimport RowSet


@cython.final
cdef class Members:
    cdef ContextSets contexts
    cdef const int32_t[::1] position_of_row     # of the rows of all planes
    cdef const uint8_t[::1] depth               # number of labels before each position
    cdef Py_ssize_t n_rows, n_planes            # rows of a plane
    cdef bint separate_counts                   # of examples, from their weights
    # The examples of the current tree. Without curvature, an example has the weight of its
    # position, which is 1 by default.
    cdef const double[:, ::1] targets, curvature        # (n_positions, n_contexts)
    cdef const double[::1] position_weights
    # The members of the current node; rows that belong to it as a whole come first.
    cdef const RowSet *row_set
    cdef const ContextSet *context_set
    cdef Py_ssize_t n, n_whole
    cdef Memory memory
    cdef int32_t *rows
    cdef int32_t *positions
    cdef double *values                     # (residual, weight) of each
    cdef uint8_t *numbers                   # leaf of each row, 0 between calls
    cdef uint64_t *numbered                 # rows that have such a number
    cdef uint64_t *weighted                 # rows whose weight is not 0
    cdef uint64_t *listed                   # weighted rows of the current node
    cdef double *counts                     # (examples, 0) of each, where they differ from weights

    cdef void begin(self, const double[:, ::1] targets, const double[:, ::1] curvature,
                    const double[::1] position_weights) noexcept nogil
    cdef void gather(self, const RowSet *row_set, const ContextSet *context_set) noexcept nogil
    cdef void list_rows(self, const RowSet *row_set) noexcept nogil
    cdef void _fill_values(self) noexcept nogil
    cdef void fill_lanes(self, Py_ssize_t first, Py_ssize_t n, double *lanes,
                         Py_ssize_t n_lanes) noexcept nogil
    cdef void _scale_fractions(self) noexcept nogil
    cdef void _sum_over(self, const double *table, double *sums) noexcept nogil
    cdef void _count_over(self, double *counts) noexcept nogil
    cdef bint _is_counted(self, int32_t position) noexcept nogil
    cdef void sum_into(self, Node *node) noexcept nogil
    cdef void sum_contexts(self, const Node *node, double *sums) noexcept nogil
    cdef void _add_contexts(self, double *totals, double *weights, double *counts) noexcept nogil
    cdef void _add_depths(self, double *totals, double *weights, double *counts) noexcept nogil
    cdef void number_rows(self, const RowSet *row_set, uint8_t number) noexcept nogil
    cdef void add_numbered(self, const ContextSet *contexts, const double *values,
                           double[:, ::1] scores) noexcept nogil
    cdef void add_leaf(self, const RowSet *row_set, const ContextSet *contexts, double value,
                       double[:, ::1] scores) noexcept nogil
    cdef void _add_value(self, const ContextSet *contexts, Py_ssize_t position, double value,
                         double *table) noexcept nogil
