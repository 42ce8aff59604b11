cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

from treecrf.trees.growing._features cimport Bins
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._sets cimport ContextSets


cdef struct Run:
    # A run of bins in a node's histogram, and the examples that have its value.
    Py_ssize_t r                            # its number among all runs
    Py_ssize_t first                        # index of its first bin in the histogram
    Py_ssize_t n                            # number of its bins
    bint above_all                          # whether being above no bin is a test as well
    double total                            # sum of the residuals of the examples
    double weight                           # sum of their weights
    double examples                         # their number
    double unsplit                          # their score in one leaf, if tests compete by gain
    double least                            # lower bound of the score of the best test
    double most                             # upper bound of this score


@cython.final
cdef class SplitSearch:
    # The runs of bins, ascending; see `treecrf.trees.growing.window_tests.TestTable`.
    cdef const int64_t[::1] run_starts, run_ends, run_missing, run_features
    cdef const uint8_t[::1] run_kinds
    cdef const double[::1] run_limits       # what the gains must exceed
    cdef const int64_t[::1] feature_starts  # first bin of each feature
    cdef const int32_t[::1] columns, values         # of each window test
    cdef int64_t first_label                # bin of the first test of a previous label
    cdef int32_t[::1] label_places          # order of these tests if scores are equal
    # Settings.
    cdef double penalty                     # added to the weight of a leaf
    cdef double min_gain                    # what the gain of a split must exceed
    cdef double min_examples                # minimum number of examples of a child
    cdef bint with_counts                   # whether examples are not counted by their weights
    cdef bint with_missing                  # whether any run has a bin of missing values
    cdef bint by_gain                       # whether tests compete by gain instead of score
    # Choice of features.
    cdef Py_ssize_t n_features              # number of all features
    cdef Py_ssize_t n_chosen                # number of features that a node draws from all
    cdef double max_features                # fraction that it draws, where not all are allowed
    cdef bint draws                         # whether nodes choose features at random
    cdef bint chooses                       # whether they do, or constraints allow only some
    # Constraints. Both are None, or 0, without them.
    cdef const int8_t[:, ::1] signs         # of each column, in the trees of each label
    cdef Py_ssize_t label                   # of the tree
    cdef bint has_interactions
    cdef const uint8_t[:, ::1] groups       # input features that may be in one branch
    cdef Py_ssize_t max_in_branch           # maximum number of them there; 0 for no limit
    cdef const int32_t[::1] sources         # input feature of each feature; -1 for none
    cdef const int32_t[::1] inputs          # input feature of each column
    # Working memory for the bins of a node.
    cdef bint failed                        # whether memory has run out
    cdef Py_ssize_t room                    # number of bins for which there is memory
    cdef Run *runs                          # runs with bins
    cdef double *scores                     # of each test
    cdef double *running                    # cumulative pairs of sums
    cdef double *running_counts             # cumulative numbers of examples
    # Working memory for the choice of features.
    cdef int32_t[::1] every                 # the numbers of all features
    cdef int32_t[::1] features              # of those that the node may test
    cdef int32_t[::1] ranks                 # random order of the candidates
    cdef uint8_t[::1] tree_features         # whether the tree may test each feature
    cdef uint8_t[::1] chosen                # whether the node may test it
    cdef uint8_t[::1] on_path               # input features that are tested above the node
    cdef uint8_t[::1] allowed               # input features that it may test

    cdef Py_ssize_t choose_features(self, const Node *node) noexcept nogil
    cdef double find(self, Node *node, const Bins *histogram, int64_t end_of_shared) noexcept nogil
    cdef bint decide(self, Node *node, double best) noexcept nogil
    cdef int64_t missing_bin(self, const Node *node) noexcept nogil
    cdef double share(self, const Node *node, const Bins *histogram,
                      bint by_counts) noexcept nogil
    cdef bint _make_room(self, Py_ssize_t n) noexcept nogil
    cdef double score(self, const Node *node, double total, double weight) noexcept nogil
    cdef void split_scores(self, const Node *node, const double *pairs, Py_ssize_t n, double total,
                           double weight, double smallest, double *out) noexcept nogil
    cdef bint _precedes(self, int64_t test, const Node *node, Py_ssize_t r) noexcept nogil
    cdef bint _keeps_order(self, Node *node, const Run *run, const double *pair,
                           int64_t test) noexcept nogil
    cdef Py_ssize_t _sample(self, uint64_t seed, const int32_t *candidates, Py_ssize_t n,
                            Py_ssize_t n_chosen) noexcept nogil
    cdef Py_ssize_t _find_tested_above(self, const Node *node) noexcept nogil
    cdef void _find_allowed(self, const Node *node) noexcept nogil
    cdef Py_ssize_t _list_runs(self, const Bins *histogram) noexcept nogil
    cdef void _set_sums(self, const Node *node, const Bins *histogram, Run *run) noexcept nogil
    cdef void _set_bounds(self, const Node *node, const Bins *histogram, Run *run) noexcept nogil
    cdef const double *_running_sums(self, const Bins *histogram, const Run *run) noexcept nogil
    cdef double _score_run(self, Node *node, const Bins *histogram, const Run *run,
                           int64_t end_of_shared, double best) noexcept nogil
    cdef const double *_count_run(self, const Bins *histogram, const Run *run) noexcept nogil
    cdef void _exclude_features(self, const Bins *histogram, Py_ssize_t first, Py_ssize_t n,
                                int64_t end_of_shared) noexcept nogil


@cython.final
cdef class ContextSplitSearch:
    cdef SplitSearch splits
    cdef ContextSets contexts
    cdef Py_ssize_t n_window_bins           # the number of the first test of a previous label
    cdef int32_t[::1] symbols               # labels, and no label, in the order of their tests
    cdef double[::1] lag_sums               # working memory

    cdef double find(self, Node *node, const double *sums, double best) noexcept nogil
