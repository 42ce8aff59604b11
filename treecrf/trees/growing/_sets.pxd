cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# Weights of rows in sets are in units of 1 / WHOLE.
cdef enum:
    WHOLE = 1 << 16


cdef struct Fraction:
    # A row, of which a fraction belongs to a set.
    int32_t row
    uint32_t weight            # the fraction, in units of 1 / WHOLE; more than 0


cdef struct RowSet:
    # The rows of a node.
    uint64_t *whole            # the rows that belong to the set as a whole, one bit each
    Py_ssize_t n_whole         # their number
    Fraction *fractions        # the others
    Py_ssize_t n_fractions     # their number
    Py_ssize_t room            # number of fractions for which there is memory
    double weight              # of the set's examples, if weights are needed


cdef inline uint32_t fraction_of(uint32_t weight, uint32_t share) noexcept nogil:
    """Return a fraction of a weight, in the same units."""
    return <uint32_t> ((<uint64_t> weight * share + WHOLE // 2) // WHOLE)


cdef inline double round_value(double value) noexcept nogil:
    """Round a leaf's value, or a fraction of it, to a multiple of 2**-20; sums are then exact."""
    return (value + 1.5 * 4294967296.0) - 1.5 * 4294967296.0


cdef inline double value_of_fraction(double value, uint32_t weight) noexcept nogil:
    """Return what a row of this weight receives of a leaf's value."""
    return round_value(value * (weight * (1.0 / WHOLE)))


@cython.final
cdef class RowSets:
    cdef RowSet *sets
    cdef Py_ssize_t n_sets, max_sets
    cdef Py_ssize_t n_words                 # words of a bit set
    cdef bint with_weights                  # whether sets have weights
    cdef bint failed                        # whether memory has run out
    cdef RowSet nothing                     # the empty set
    cdef int32_t *rows                      # working memory
    cdef const int32_t[::1] position_of_row
    cdef const uint8_t[::1] depth           # of each position
    cdef const uint64_t[:, ::1] rows_of_depth       # a bit set for each depth
    cdef const double[::1] position_weights         # 1 by default
    cdef const double *n_examples           # of a row of each depth, in the node that is split

    cdef void begin(self, const uint64_t[:, ::1] rows_of_depth,
                    const double[::1] position_weights, bint with_weights) noexcept nogil
    cdef int32_t take(self) noexcept nogil
    cdef void compute_weight(self, RowSet *rows) noexcept nogil
    cdef void copy(self, RowSet *source, RowSet *target) noexcept nogil
    cdef void split(self, RowSet *source, RowSet *target) noexcept nogil
    cdef void join(self, RowSet *source, RowSet *target) noexcept nogil
    cdef void distribute(self, RowSet *rows, RowSet *passed, RowSet *failed,
                         double share) noexcept nogil
    cdef void split_three_ways(self, RowSet *source, RowSet *target,
                               RowSet *missing) noexcept nogil
    cdef void _compute_both(self, RowSet *a, RowSet *b, double weight) noexcept nogil
    cdef void _split_fractions(self, RowSet *source, RowSet *target,
                               RowSet *missing) noexcept nogil
    cdef double _weight_of(self, int32_t row) noexcept nogil
    cdef void _make_room(self, RowSet *rows, Py_ssize_t n) noexcept nogil


cdef struct ContextSet:
    # The contexts of a node. Extended contexts are those of all depths, from the order down to 0.
    double *members                 # of each extended context: 1.0 if it is in the set, else 0.0
    double *n_members               # number of contexts of the set at each depth
    bint one_context                # whether it is one context, which no test can split
    bint one_a_depth                # whether there is at most one context at each depth
    bint is_one                     # whether there is one context of full depth
    Py_ssize_t last_context         # the last context of full depth in the set


@cython.final
cdef class ContextSets:
    cdef readonly Py_ssize_t n_labels, order, n_contexts, n_extended
    cdef const int32_t[:, ::1] symbols      # previous label at each lag of each extended context
    cdef const int64_t[::1] depth_starts    # first extended context of each depth
    cdef ContextSet *sets
    cdef Py_ssize_t n_sets, max_sets
    cdef bint failed

    cdef void clear(self) noexcept nogil
    cdef int32_t take(self) noexcept nogil
    cdef void fill(self, int32_t target) noexcept nogil
    cdef void divide(self, int32_t source, int64_t label_test, int32_t passed,
                     int32_t failed) noexcept nogil
    cdef void _summarize(self, ContextSet *contexts) noexcept nogil
    cdef Py_ssize_t depth_of(self, Py_ssize_t e) noexcept nogil
