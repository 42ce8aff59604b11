"""Copies of the rows of the windows of some positions, in runs of adjacent rows."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy


cdef struct Run:
    Py_ssize_t begin, end    # rows of a window that belong to no earlier one


cdef inline Run run_of(Py_ssize_t row, Py_ssize_t left, Py_ssize_t right,
                       Py_ssize_t after) noexcept nogil:
    cdef Run run
    run.begin = max(row - left, after)
    run.end = row + right + 1
    return run


def count_rows(const int32_t[::1] rows, const int64_t[::1] list_starts,
               const int64_t[::1] positions, Py_ssize_t left, Py_ssize_t right):
    """Count the rows of the windows of some positions, and the ids that they list.

    ``list_starts`` has no items if no row lists an id. The rest is as in `copy_rows`.
    """
    cdef Py_ssize_t i, n_rows = 0, n_ids = 0
    cdef Run run
    run.end = 0
    with nogil:
        for i in range(positions.shape[0]):
            run = run_of(rows[positions[i]], left, right, run.end)
            n_rows += run.end - run.begin
            if list_starts.shape[0]:
                n_ids += list_starts[run.end] - list_starts[run.begin]
    return n_rows, n_ids


def copy_rows(const int32_t[::1] rows, tuple source, const int64_t[::1] positions,
              Py_ssize_t left, Py_ssize_t right, int32_t[::1] new_rows, tuple target,
              Py_ssize_t n_rows, Py_ssize_t n_ids):
    """Append the rows of the windows of some positions; each row is copied once.

    Positions ascend, without duplicates. ``source`` and ``target`` are the arrays ``codes``,
    ``bits``, ``list_starts`` and ``list_ids`` of `EncodedSequences`. The target has ``n_rows`` rows
    and ``n_ids`` ids already. Without ids, its ``list_starts`` must be zeros and remain so.
    """
    cdef const uint8_t[:, ::1] codes = source[0], bits = source[1]
    cdef const int64_t[::1] starts = source[2]
    cdef const int32_t[::1] ids = source[3]
    cdef uint8_t[:, ::1] new_codes = target[0], new_bits = target[1]
    cdef int64_t[::1] new_starts = target[2]
    cdef int32_t[::1] new_ids = target[3]
    cdef bint has_lists = new_ids.shape[0] > 0
    cdef Py_ssize_t i, r, n
    cdef Run run
    run.end = 0
    with nogil:
        for i in range(positions.shape[0]):
            run = run_of(rows[positions[i]], left, right, run.end)
            n = run.end - run.begin
            copy_bytes(codes, run.begin, n, new_codes, n_rows)
            copy_bytes(bits, run.begin, n, new_bits, n_rows)
            if has_lists:
                for r in range(1, n + 1):
                    new_starts[n_rows + r] = starts[run.begin + r] - starts[run.begin] + n_ids
                n = starts[run.end] - starts[run.begin]
                if n:
                    memcpy(&new_ids[n_ids], &ids[starts[run.begin]], n * sizeof(int32_t))
                n_ids += n
            n_rows += run.end - run.begin
            new_rows[i] = <int32_t> (n_rows - 1 - right)


cdef inline void copy_bytes(const uint8_t[:, ::1] source, Py_ssize_t first, Py_ssize_t n,
                            uint8_t[:, ::1] target, Py_ssize_t row) noexcept nogil:
    """Copy n rows of bytes."""
    cdef Py_ssize_t n_columns = source.shape[1]
    if n_columns:
        memcpy(&target[row, 0], &source[first, 0], n * n_columns)
