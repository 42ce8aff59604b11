# Numbers that the kernels of trees share, the outcomes of tests of bytes, and binary search.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

# How a node is evaluated at a row. The window tests are numbered as in
# `treecrf.encoding.column_layout`, the other nodes as in `treecrf.trees.contexts.context_scores`.
cdef enum NodeKind:
    CODE_EQUAL = 0      # a test of whether a code is equal to another
    CODE_ABOVE = 1      # a test of whether it is above another
    BIT = 2             # a test of whether a bit is set
    LISTED = 3          # a test of whether an id of a range is listed
    LABEL = 4           # a test of a previous label
    LEAF = 5

# How the tests of a run of histogram bins follow from the bins; numbered as in
# `treecrf.trees.growing.window_tests`.
cdef enum RunKind:
    EACH = 0      # test b: the value is in bin b
    SUFFIX = 1    # test b: the value is in a bin above b
    PREFIX = 2    # test b: the value is in bin b or below

# What a test says about a row.
cdef enum Outcome:
    FAILED = 0
    PASSED = 1
    NO_VALUE = 2

# `list_bits` may write this many entries beyond the last one.
cdef enum:
    LISTING_SLACK = 64

cdef extern from "trees/bitsets.h" nogil:
    void bytes_equal(const uint8_t *values, Py_ssize_t n_words, uint8_t mask, uint8_t low,
                     uint64_t *out)
    void bytes_above(const uint8_t *values, Py_ssize_t n_words, uint8_t low, uint64_t *out)


cdef inline void test_bytes(uint8_t kind, uint8_t low, const uint8_t *values, Py_ssize_t n_words,
                            uint64_t *out) noexcept nogil:
    """Find which rows pass a test of a code or a bit, given the bytes of the rows."""
    if kind == CODE_EQUAL:
        bytes_equal(values, n_words, 255, low, out)
    elif kind == CODE_ABOVE:
        bytes_above(values, n_words, low, out)
    else:
        bytes_equal(values, n_words, 1 << low, 1 << low, out)


cdef inline int64_t lower_bound(const int32_t *values, int64_t low, int64_t high,
                                int64_t value) noexcept nogil:
    """Return the first index of [low, high) whose value is not below another; else ``high``."""
    cdef int64_t middle
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint lists_any(const int64_t[::1] starts, const int32_t[::1] ids, Py_ssize_t row,
                           int32_t first, int32_t last) noexcept nogil:
    """Return whether a row lists an id of [first, last)."""
    cdef int64_t low = starts[row], end = starts[row + 1]
    if low == end:
        return False
    low = lower_bound(&ids[0], low, end, first)
    return low < end and ids[low] < last
