cimport cython

from treecrf.trees.growing._context_sets cimport ContextSets
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._splits cimport SplitSearch


@cython.final
cdef class ContextSplitSearch:
    cdef SplitSearch splits
    cdef ContextSets contexts
    cdef Py_ssize_t n_window_bins           # the number of the first test of a previous label
    cdef double[::1] lag_sums               # working memory

    cdef double find(self, Node *node, const double *sums, double best) noexcept nogil
    cdef void _sum_by_symbol(self, const double *sums, Py_ssize_t lag) noexcept nogil
