cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

from treecrf.trees.growing._features cimport Bins
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._sets cimport ContextSets


cdef struct Run:
    # A run of bins in a node's histogram, and the examples that have its value.
    Py_ssize_t r, first, n
    bint above_all                          # whether being above no bin is a test as well
    double total, weight, examples
    double unsplit                          # score of one leaf, where tests compete by gain
    double least, most                      # bounds of the best score


@cython.final
cdef class SplitSearch:
    cdef const int64_t[::1] run_starts, run_ends, run_missing, run_features
    cdef const double[::1] run_limits       # what the gains must exceed
    cdef const uint8_t[::1] run_kinds
    cdef const int64_t[::1] feature_starts
    cdef Py_ssize_t n_features, n_chosen
    cdef double penalty, min_gain, min_examples, max_features
    cdef bint with_counts, with_missing, failed
    # Tests compete by gain instead of score.
    cdef bint by_gain
    cdef bint draws                         # whether nodes choose features at random
    cdef bint chooses                       # or by constraints
    # Constraints. Both are None, or 0, without them.
    cdef const int8_t[:, ::1] signs         # of each column, in the trees of each label
    cdef const int32_t[::1] columns, values    # of each test
    cdef Py_ssize_t label                   # of the tree
    cdef bint has_interactions
    cdef const uint8_t[:, ::1] groups       # input features that may be in one branch
    cdef Py_ssize_t max_in_branch           # maximum number of them there; 0 for no limit
    cdef const int32_t[::1] sources         # input feature of each feature; -1 for none
    cdef const int32_t[::1] inputs          # input feature of each column
    # Working memory.
    cdef Py_ssize_t room
    cdef Run *runs                          # those of the node
    cdef double *scores
    cdef double *running                    # cumulative bins
    cdef double *running_counts
    cdef int32_t[::1] every, features       # of the table, and of the node
    cdef int32_t[::1] ranks
    cdef uint8_t[::1] chosen                # whether the node may test each feature
    cdef uint8_t[::1] on_path, allowed      # input features tested above a node, and allowed in it
    cdef uint8_t[::1] of_tree               # whether the tree may test each feature

    cdef Py_ssize_t choose_features(self, const Node *node) noexcept nogil
    cdef double find(self, Node *node, const Bins *histogram, int64_t end_of_shared) noexcept nogil
    cdef bint decide(self, Node *node, double best) noexcept nogil
    cdef int64_t missing_bin(self, const Node *node) noexcept nogil
    cdef double share(self, const Node *node, const Bins *histogram,
                      bint of_counts) noexcept nogil
    cdef bint _make_room(self, Py_ssize_t n) noexcept nogil
    cdef double score(self, const Node *node, double total, double weight) noexcept nogil
    cdef void split_scores(self, const Node *node, const double *pairs, Py_ssize_t n, double total,
                           double weight, double smallest, double *out) noexcept nogil
    cdef bint _keeps_order(self, Node *node, const Run *run, const double *pair,
                           int64_t test) noexcept nogil
    cdef Py_ssize_t _sample(self, uint64_t seed, const int32_t *candidates, Py_ssize_t n,
                            Py_ssize_t n_chosen) noexcept nogil
    cdef void _find_allowed(self, const Node *node) noexcept nogil
    cdef void _set_sums(self, const Node *node, const Bins *histogram, Run *run) noexcept nogil
    cdef const double *_running_sums(self, const Bins *histogram, const Run *run) noexcept nogil
    cdef double _score_run(self, Node *node, const Bins *histogram, const Run *run,
                           int64_t end_of_shared, double best) noexcept nogil
    cdef void _exclude_features(self, const Bins *histogram, Py_ssize_t first, Py_ssize_t n,
                                int64_t end_of_shared) noexcept nogil


@cython.final
cdef class ContextSplitSearch:
    cdef SplitSearch splits
    cdef ContextSets contexts
    cdef Py_ssize_t n_window_bins           # the number of the first test of a previous label
    cdef double[::1] lag_sums               # working memory

    cdef double find(self, Node *node, const double *sums, double best) noexcept nogil
