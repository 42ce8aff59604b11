from libc.stdint cimport int32_t, uint32_t, uint64_t

# Weights of rows are counted in units of 1 / WHOLE.
cdef enum:
    WHOLE = 1 << 16


cdef struct Fraction:
    # A row of which a set has a part: 0 < weight < WHOLE.
    int32_t row
    uint32_t weight


cdef struct RowSet:
    uint64_t *whole            # the rows that belong to the set as a whole, a bit each
    Py_ssize_t n_whole
    Fraction *fractions        # the others
    Py_ssize_t n_fractions, room
    double weight              # sum of the parts times the weights of the positions


cdef inline uint32_t part_of(uint32_t weight, uint32_t share) noexcept nogil:
    """Part of a weight of less than WHOLE; the share is in the same units."""
    return (weight * share + WHOLE // 2) // WHOLE


cdef class RowSets:
    cdef RowSet *sets
    cdef bint failed
    cdef Py_ssize_t n_words, n_sets, most_sets
    cdef int32_t *rows                      # scratch
    cdef const int32_t[::1] position_of_row
    cdef const double[::1] position_weights

    cdef void begin(self, const double[::1] position_weights) noexcept nogil
    cdef int32_t take(self) noexcept nogil
    cdef void weigh(self, RowSet *rows) noexcept nogil
    cdef double _weigh_whole(self, const RowSet *rows) noexcept nogil
    cdef void copy(self, RowSet *source, RowSet *target) noexcept nogil
    cdef void part(self, RowSet *source, RowSet *target) noexcept nogil
    cdef void join(self, RowSet *source, RowSet *target) noexcept nogil
    cdef void distribute(self, RowSet *rows, RowSet *passed, RowSet *failed,
                         double share) noexcept nogil
    cdef double _give_whole(self, const RowSet *rows, uint32_t share, RowSet *passed,
                            RowSet *failed) noexcept nogil
    cdef double _give_parts(self, const RowSet *rows, uint32_t share, RowSet *passed,
                            RowSet *failed) noexcept nogil
    cdef void _part_fractions(self, RowSet *source, RowSet *target) noexcept nogil
    cdef double _position_weight(self, int32_t row) noexcept nogil
    cdef void _make_room(self, RowSet *rows, Py_ssize_t n) noexcept nogil
