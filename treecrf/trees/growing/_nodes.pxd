from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.trees.growing._features cimport Features


cdef extern from "utils/hashing.h" nogil:
    uint64_t mixed_with(uint64_t hash, uint64_t part)

cdef enum:
    MAX_SURROGATES = 5


cdef struct Surrogate:
    int64_t test
    bint is_reversed           # failing it means passing the test that it replaces
    double agreement           # number of examples that both tests send the same way


cdef struct Ranking:
    Py_ssize_t n
    Surrogate ranked[MAX_SURROGATES]       # best first


cdef struct Side:
    # The examples that pass a test, or those that fail it.
    double n
    const double *counts       # number in each bin: every `stride`-th entry
    int stride


cdef class SurrogateSearch:
    cdef Features features
    cdef const int64_t[::1] run_starts, run_ends, run_missing
    cdef const uint8_t[::1] run_kinds
    cdef const int32_t[::1] columns, offsets, values
    cdef double[:, ::1] running             # scratch: examples of each side that pass each test
    cdef uint64_t[::1] answers, missing, remaining          # scratch: sets of rows

    cdef bint is_open(self, int64_t test) noexcept nogil
    cdef void find(self, int64_t test, const Side *passed, const Side *failed,
                   Ranking *ranking) noexcept nogil
    cdef bint _same_value(self, int64_t a, int64_t b) noexcept nogil
    cdef void apply(self, const Ranking *ranking, bint by_default, const uint64_t *rows,
                    uint64_t *passed) noexcept nogil


cdef struct Node:
    # A node of a growing tree.
    uint64_t seed                   # of its random choices
    int32_t depth                   # number of tests above it
    const Node *parent              # NULL for the root
    double lower, upper             # bounds of the values of its leaves
    int32_t rows                    # its set of rows
    int32_t contexts                # its set of contexts
    int32_t histogram               # -1 for none
    double total, weight, examples  # sums over its examples
    double gain
    int64_t test                    # best test, -1 for none
    Py_ssize_t run                  # the test's run of bins, -1 for a test of contexts
    double true_total, true_weight, true_examples       # sums over the examples that pass
    int sign                        # order of the children's values that the test must keep, or 0
    double middle                   # value between the children's
    double share                    # fraction of the rows' weight that passes the test
    int32_t true_child, false_child
    Ranking surrogates              # tests that replace its own where the value is missing


cdef struct LeafRule:
    # How the value of a leaf follows from its sums.
    double penalty, max_value, learning_rate


cdef class TreeFields:
    cdef const int32_t[::1] columns, offsets, values        # of window tests
    cdef Py_ssize_t n_symbols
    cdef LeafRule leaves

    cdef void _set_test(self, int64_t test, int32_t[:, ::1] out, Py_ssize_t i) noexcept
    cdef dict describe(self, const Node *nodes, Py_ssize_t n)


cdef void start_root(Node *node, uint64_t seed) noexcept nogil
cdef void start_child(Node *node, const Node *parent, bint passes) noexcept nogil
cdef double leaf_value(const Node *node, const LeafRule *rule) noexcept nogil
cdef int32_t take_best_leaf(const Node *nodes, int32_t *open_leaves,
                            Py_ssize_t *n_open) noexcept nogil


cdef inline void set_difference(Node *target, const Node *whole, const Node *part) noexcept nogil:
    """Set the sums of a node to those of a whole less those of a part."""
    target.total = whole.total - part.total
    target.weight = whole.weight - part.weight
    target.examples = whole.examples - part.examples


cdef inline double bounded_value(const Node *node, double total, double weight) noexcept nogil:
    """Return the value of examples of a node, given the sums of residuals and weights."""
    return min(max(total / weight if weight > 0 else 0.0, node.lower), node.upper)
