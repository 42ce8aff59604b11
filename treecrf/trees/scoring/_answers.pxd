from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef struct Bits:
    # A block of positions, and for each test a column of bits.
    Py_ssize_t first           # first position
    Py_ssize_t size            # number of positions
    Py_ssize_t n_words         # words of a column that hold positions
    Py_ssize_t stride          # words from a column to the next
    uint64_t *columns          # aligned to lines of the cache
    void *memory               # of the columns
    uint8_t *bytes             # working memory: one for each position


cdef class Positions:
    # Encoded positions as the kernels read them.
    cdef const int32_t[::1] rows           # row of each position
    cdef const uint8_t[:, ::1] codes       # of each row and column
    cdef const uint8_t[:, ::1] bits        # bytes of bits of each row
    cdef const int64_t[::1] list_starts    # first listed id of each row
    cdef const int32_t[::1] list_ids
    cdef bint has_missing                  # whether any value is missing
    cdef const uint8_t[:, ::1] given       # labels before each position, if they are known
    cdef Py_ssize_t n_symbols              # labels, and one for none


cdef class Answers:
    # The tests, see `treecrf.trees.scoring.packed_trees.DistinctTests`.
    cdef const int32_t[::1] kinds, offsets, slots, lows, highs, missing
    cdef const int32_t[:, ::1] by_id
    cdef Py_ssize_t n_plain                # number of tests of nodes
    cdef Py_ssize_t n_tests                # number of all tests
    cdef const uint8_t[::1] same_bytes     # whether a test reads the bytes of the one before it
    cdef Py_ssize_t left                   # number of rows of the window before the position

    cdef bint fill(self, Bits *block, Positions positions, Py_ssize_t first,
                   Py_ssize_t size) noexcept nogil
    cdef void _fill_bytes(self, Bits *block, Positions positions) noexcept nogil
    cdef void _fill_lists(self, Bits *block, Positions positions) noexcept nogil
    cdef void _fill_given(self, Bits *block, Positions positions) noexcept nogil
    cdef const uint64_t *missing_of(self, const Bits *block, int32_t test) noexcept nogil
    cdef bint _exclude_missing(self, Bits *block) noexcept nogil


cdef class Surrogates:
    cdef const int32_t[::1] starts         # first surrogate of each node
    cdef const int32_t[::1] tests          # test of each surrogate
    cdef const uint8_t[::1] is_reversed    # whether failing it means passing the node's test
    cdef const double[::1] shares          # fraction of the training examples that pass each node

    cdef void follow(self, Answers answers, const Bits *block, Py_ssize_t node,
                     uint64_t *missing, uint64_t *passing, uint64_t *failing) noexcept nogil


cdef bint open_bits(Bits *block, Py_ssize_t n_columns, Py_ssize_t n_words) noexcept nogil
cdef void close_bits(Bits *block) noexcept nogil


cdef inline void begin_bits(Bits *block, Py_ssize_t first, Py_ssize_t size) noexcept nogil:
    """Set the positions of a block."""
    block.first = first
    block.size = size
    block.n_words = (size + 63) // 64


cdef inline void set_bit(uint64_t *words, Py_ssize_t i) noexcept nogil:
    """Add an element to a set."""
    words[i >> 6] |= <uint64_t> 1 << (i & 63)
