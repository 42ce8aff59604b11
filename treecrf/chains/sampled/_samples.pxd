"""Vectors of examples that trees are fitted to, see `_samples.pyx`."""

cimport cython
from libc.stdint cimport int32_t, int64_t


cdef struct Example:
    double residual
    double curvature
    int32_t position, context, depth, random


cdef enum:
    # Examples are allocated in blocks, since arrays that grow leave holes in the memory.
    BLOCK = 1 << 9


cdef struct ExampleVector:
    Example **blocks
    Py_ssize_t n, n_blocks
    Py_ssize_t begin           # of the examples of the current sequence
    bint is_borrowed           # whether the blocks are parts of an array


cdef inline Example *item(const ExampleVector *vector, Py_ssize_t i) noexcept nogil:
    return vector.blocks[i // BLOCK] + i % BLOCK


cdef inline double background_of(double floor, double curvature) noexcept nogil:
    """Return the part of the squared size of an example that does not depend on its residual."""
    return (floor * curvature) * (floor * curvature)


@cython.final
cdef class Sample:
    cdef readonly Py_ssize_t n_labels
    cdef readonly Py_ssize_t order  # previous labels in a context; 0 if all examples have context 0
    cdef readonly int64_t size      # sum of all absolute residuals, in units of 2**-30
    cdef ExampleVector *vectors
    cdef bint failed
    cdef int32_t first         # added to all positions
    cdef object packed         # array of the examples, if they are not in blocks of their own

    cdef void add(self, Py_ssize_t v, Py_ssize_t start, Py_ssize_t t, Py_ssize_t c, int32_t random,
                  double residual, double curvature) noexcept nogil
    cdef void reverse_sequence(self) noexcept nogil
    cdef check(self)
