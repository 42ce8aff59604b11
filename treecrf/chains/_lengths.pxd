# Lengths of sequences.

from libc.stdint cimport int64_t


cdef inline Py_ssize_t longest_of(const int64_t[::1] offsets, Py_ssize_t first,
                                  Py_ssize_t last) noexcept nogil:
    """Return the length of the longest of some sequences, at least 1."""
    cdef Py_ssize_t i, longest = 1
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest
