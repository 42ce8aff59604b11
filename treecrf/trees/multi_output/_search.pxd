cimport cython
from libc.stdint cimport int64_t

from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._splits cimport Run, SplitSearch
from treecrf.trees.multi_output._blocks cimport BlockHistograms, LabelBlocks


cdef struct Candidate:
    # The best test so far.
    Py_ssize_t run             # index among the listed runs; -1 for none
    Py_ssize_t e               # index of its bin in the run
    double score               # its score; with missing values, its gain


@cython.final
cdef class BlockSplitSearch:
    cdef SplitSearch splits                 # chooses features, and lists runs of bins
    cdef LabelBlocks blocks
    cdef BlockHistograms histograms
    cdef bint with_counts                   # whether examples are counted
    cdef const double[::1] limits           # what the gains of the tests of each run must exceed
    # Working memory for the tests of a node, run by run.
    cdef double[::1] scores                 # of each test, summed over the blocks so far
    cdef double[::1] unsplit                # of each run: score of its examples in one leaf
    cdef double[::1] lanes                  # sums of the examples that have the value of a run
    cdef double[::1] passed                 # sums of those that pass a test

    cdef bint find(self, Node *node, const double *sums, double *passed) noexcept nogil
    cdef Py_ssize_t _list_runs(self) noexcept nogil
    cdef void _score(self, const Node *node, const double *sums, Py_ssize_t n_runs) noexcept nogil
    cdef const double *_sums_of_run(self, const Node *node, const double *sums, const Run *run,
                                    Py_ssize_t b) noexcept nogil
    cdef Candidate _best(self, const Node *node, const double *sums, Py_ssize_t n_runs,
                         double *passed) noexcept nogil
    cdef bint _is_allowed(self, const Node *node, const Run *run, Py_ssize_t e) noexcept nogil
    cdef bint _has_two_sides(self, const Node *node, const double *sums,
                             const Run *run) noexcept nogil
    cdef double _count(self, const Node *node, const Run *run, Py_ssize_t e) noexcept nogil
    cdef void _sum_passed(self, const Node *node, const Run *run, Py_ssize_t e) noexcept nogil
    cdef double score(self, const double *sums) noexcept nogil
    cdef int64_t missing_bin(self, const Node *node) noexcept nogil
