"""Codes of numbers, one byte for each value."""

from libc.stdint cimport int32_t, int64_t, uint8_t


def write_bins(const double[:, :] values, const int32_t[::1] rows, const int64_t[::1] columns,
               const double[::1] thresholds, const int64_t[::1] starts, const int32_t[::1] slots,
               const int32_t[::1] missing_codes, uint8_t[:, ::1] codes):
    """Write the bins of numbers: how many thresholds of its column each value exceeds."""
    cdef Py_ssize_t i, j, k
    with nogil:
        for k in range(columns.shape[0]):
            j = columns[k]
            for i in range(values.shape[0]):
                if values[i, j] != values[i, j]:
                    codes[rows[i], slots[j]] = <uint8_t> missing_codes[j]
                else:
                    codes[rows[i], slots[j]] = bin_of(&thresholds[0], starts[j], starts[j + 1],
                                                      values[i, j])


cdef inline uint8_t bin_of(const double *thresholds, Py_ssize_t first, Py_ssize_t last,
                           double value) noexcept nogil:
    cdef Py_ssize_t low = first, high = last, middle
    while low < high:
        middle = (low + high) // 2
        if thresholds[middle] < value:
            low = middle + 1
        else:
            high = middle
    return <uint8_t> (low - first)


def find_codes(const uint8_t[:, ::1] codes, const int64_t[::1] columns, const int32_t[::1] slots,
               const int32_t[::1] wanted, uint8_t[::1] found):
    """Mark the columns, among those given, in which the wanted code occurs."""
    cdef Py_ssize_t i, j, k
    cdef int32_t slot
    cdef uint8_t code, any_found
    with nogil:
        for k in range(columns.shape[0]):
            j = columns[k]
            slot, code, any_found = slots[j], <uint8_t> wanted[j], 0
            for i in range(codes.shape[0]):
                any_found |= codes[i, slot] == code
            found[j] = any_found
