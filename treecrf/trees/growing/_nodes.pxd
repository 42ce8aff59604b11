from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.trees.growing._features cimport Features


cdef extern from "utils/hashing.h" nogil:
    uint64_t mixed_with(uint64_t hash, uint64_t part)

cdef enum:
    MAX_SURROGATES = 5


cdef struct Surrogate:
    # A test that replaces another one where the value of that one is missing.
    int64_t test               # its number
    bint is_reversed           # failing it means passing the test that it replaces
    double agreement           # number of examples that both tests send the same way


cdef struct Ranking:
    # The surrogates of a test.
    Py_ssize_t n                           # their number
    Surrogate ranked[MAX_SURROGATES]       # best first


cdef struct Side:
    # The examples that pass a test, or those that fail it.
    double n                   # their number
    const double *counts       # number in each bin: every `stride`-th entry
    int stride                 # 2 for the weights in pairs of sums, else 1


cdef class SurrogateSearch:
    cdef Features features
    # Arrays of a `treecrf.trees.growing.window_tests.TestTable`.
    cdef const int64_t[::1] run_starts, run_ends, run_missing
    cdef const uint8_t[::1] run_kinds
    cdef const int32_t[::1] columns, offsets, values
    # Working memory.
    cdef double[:, ::1] running             # examples of each side that pass each test
    cdef uint64_t[::1] answers              # rows that pass a surrogate
    cdef uint64_t[::1] missing              # rows that lack its value
    cdef uint64_t[::1] remaining            # rows about which no surrogate has decided

    cdef bint is_open(self, int64_t test) noexcept nogil
    cdef void find(self, int64_t test, const Side *passed, const Side *failed,
                   Ranking *ranking) noexcept nogil
    cdef bint _same_value(self, int64_t a, int64_t b) noexcept nogil
    cdef void apply(self, const Ranking *ranking, bint by_default, const uint64_t *rows,
                    uint64_t *passed) noexcept nogil


cdef struct Node:
    # A node of a growing tree.
    uint64_t seed                   # seed of its random choices
    int32_t depth                   # number of tests above it
    const Node *parent              # NULL for the root
    double lower                    # lower bound of the values of its leaves
    double upper                    # upper bound of these values
    # Its examples.
    int32_t rows                    # number of its set of rows
    int32_t contexts                # number of its set of contexts
    int32_t histogram               # number of its histogram; -1 for none
    double total                    # sum of the residuals of its examples
    double weight                   # sum of their weights
    double examples                 # number of examples; the weight where they are not counted
    # The best test.
    int64_t test                    # its number; -1 for none
    Py_ssize_t run                  # its run of bins; -1 for a test of contexts
    double gain                     # how much it improves the score
    double true_total               # sum of the residuals of the examples that pass
    double true_weight              # sum of their weights
    double true_examples            # their number
    int sign                        # order of the children's values that the test must keep, or 0
    double middle                   # mean of the children's values, if they must keep an order
    double share                    # fraction of the rows' weight that passes the test
    int32_t true_child              # number of the child of the examples that pass; -1 for a leaf
    int32_t false_child             # number of the other child; -1 for a leaf
    Ranking surrogates              # tests that replace its own where the value is missing


cdef struct LeafRule:
    # How the value of a leaf follows from its sums.
    double penalty                  # added to the weight
    double max_value                # maximum absolute value
    double learning_rate            # factor of the value


cdef class TreeFields:
    cdef const int32_t[::1] columns, offsets, values        # of each window test
    cdef Py_ssize_t n_symbols               # labels, and none
    cdef LeafRule leaves

    cdef void _set_test(self, int64_t test, int32_t[:, ::1] out, Py_ssize_t i) noexcept
    cdef dict describe(self, const Node *nodes, Py_ssize_t n)


cdef void start_root(Node *node, uint64_t seed) noexcept nogil
cdef void start_child(Node *node, const Node *parent, bint passes) noexcept nogil
cdef double leaf_value(const Node *node, const LeafRule *rule) noexcept nogil
cdef int32_t take_best_leaf(const Node *nodes, int32_t *open_leaves,
                            Py_ssize_t *n_open) noexcept nogil


cdef inline void set_difference(Node *target, const Node *parent,
                                const Node *child) noexcept nogil:
    """Set the sums of a node to the difference between its parent and the other child."""
    target.total = parent.total - child.total
    target.weight = parent.weight - child.weight
    target.examples = parent.examples - child.examples


cdef inline double bounded_value(const Node *node, double total, double weight) noexcept nogil:
    """Return the value of examples of a node, given the sums of residuals and weights."""
    return min(max(total / weight if weight > 0 else 0.0, node.lower), node.upper)
