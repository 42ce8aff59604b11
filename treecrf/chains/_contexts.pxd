# Loops over the contexts of a position, shared by everything that adds to scores. Contexts are
# numbered as by `treecrf.chains.contexts.extended_contexts`: those of full depth come first.

from libc.stdint cimport int64_t, uint8_t

from treecrf.utils._vector_math cimport add_scaled


cdef inline Py_ssize_t n_contexts_at(const int64_t *depth_starts, uint8_t depth) noexcept nogil:
    """Return the number of contexts of a depth."""
    if depth:
        return depth_starts[depth - 1] - depth_starts[depth]
    return 1


cdef inline void add_to_contexts(double *scores, const double *members, double value,
                                 const int64_t *depth_starts, uint8_t depth) noexcept nogil:
    """Add a value to the scores of a position in the contexts of a set (1.0 for a member)."""
    add_scaled(scores, members + depth_starts[depth], value, n_contexts_at(depth_starts, depth))


cdef inline void add_shared(double[:, :, ::1] scores, Py_ssize_t k, const double *shared,
                            Py_ssize_t first, Py_ssize_t n, const uint8_t *depth,
                            const int64_t *depth_starts) noexcept nogil:
    """Add ``shared[i]`` to the scores of class k in all contexts of position ``first + i``."""
    cdef Py_ssize_t i, c
    cdef double *row
    for i in range(n):
        row = &scores[k, first + i, 0]
        for c in range(n_contexts_at(depth_starts, depth[first + i])):
            row[c] += shared[i]
