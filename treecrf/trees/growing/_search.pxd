# Binary search, shared by the kernels of trees.

from libc.stdint cimport int32_t, int64_t


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
