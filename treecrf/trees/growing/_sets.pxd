cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# Weights of rows in sets are in units of 1 / WHOLE.
cdef enum:
    WHOLE = 1 << 16


cdef struct Fraction:
    # A row that belongs to a set in part: 0 < weight <= WHOLE.
    int32_t row
    uint32_t weight


cdef struct RowSet:
    uint64_t *whole            # the rows that belong to the set as a whole, one bit each
    Py_ssize_t n_whole
    Fraction *fractions        # the others
    Py_ssize_t n_fractions, room
    double weight              # of the set's examples


cdef inline uint32_t fraction_of(uint32_t weight, uint32_t share) noexcept nogil:
    """Return a fraction of a weight, in the same units."""
    return <uint32_t> ((<uint64_t> weight * share + WHOLE // 2) // WHOLE)


cdef inline double round_value(double value) noexcept nogil:
    """Round a leaf's value, or a fraction of it, to a multiple of 2**-20; sums are then exact."""
    return (value + 1.5 * 4294967296.0) - 1.5 * 4294967296.0


cdef inline double value_of_fraction(double value, uint32_t weight) noexcept nogil:
    """Return the part of a leaf's value that a row of this weight receives."""
    return round_value(value * (weight * (1.0 / WHOLE)))


@cython.final
cdef class RowSets:
    cdef RowSet *sets
    cdef bint failed, with_weights
    cdef Py_ssize_t n_words, n_sets, max_sets
    cdef RowSet nothing
    cdef int32_t *rows                      # scratch
    cdef const int32_t[::1] position_of_row
    cdef const uint8_t[::1] depth           # of each position
    cdef const uint64_t[:, ::1] rows_of_depth       # a bit set for each depth
    cdef const double[::1] position_weights         # 1 by default
    cdef const double *n_examples           # of a row of each depth

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
    double *members                 # 1.0 for a context of the set, else 0.0; all extended contexts
    double *n_members               # number of contexts of the set at each depth
    bint one_context                # then no test of a previous label can split it
    bint one_a_depth                # at most one context of the set at each depth
    bint is_one                     # one context of the set at full depth
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
