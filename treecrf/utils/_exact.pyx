"""The kernel of exact sums."""

from libc.math cimport fabs, rint
from libc.stdint cimport int64_t


def sum_block(const double[::1] values, double limit):
    """Sum the values up to a limit of 2**29, as two integers in units of 2**-18 and of 2**-50.

    Of at most 2**16 values, the sums fit in 64 bits. Also return the number of other values.
    """
    cdef Py_ssize_t i, n_others = 0
    cdef int64_t high = 0, low = 0
    cdef double scaled, whole
    for i in range(values.shape[0]):
        if not fabs(values[i]) <= limit:
            n_others += 1
            continue
        scaled = values[i] * 2.0 ** 18
        whole = rint(scaled)
        high += <int64_t> whole
        low += <int64_t> rint((scaled - whole) * 2.0 ** 32)
    return high, low, n_others
