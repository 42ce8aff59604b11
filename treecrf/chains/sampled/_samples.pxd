"""Vectors of examples that trees are fitted to, see `_samples.pyx`."""

cimport cython
from libc.stdint cimport int32_t, int64_t


cdef struct Example:
    # The fields are those of `EXAMPLE` in `_samples.pyx`.
    double residual
    double curvature
    int32_t position           # among the sampled sequences
    int32_t context            # number of the context of previous labels
    int32_t depth              # number of previous labels, at most the order
    int32_t random             # random number below 2**31 that decides whether it is kept


cdef enum:
    # Examples are allocated in blocks of 16 KB, since arrays that grow leave holes in the memory.
    BLOCK = 1 << 9


cdef struct ExampleVector:
    # Examples of a label.
    Example **blocks           # arrays of BLOCK examples each
    Py_ssize_t n               # number of examples
    Py_ssize_t n_blocks        # number of blocks
    Py_ssize_t begin           # first example of the current sequence
    bint is_borrowed           # whether the blocks belong to an array, `Sample.packed`


cdef inline Example *item(const ExampleVector *vector, Py_ssize_t i) noexcept nogil:
    return vector.blocks[i // BLOCK] + i % BLOCK


cdef inline double background_of(double floor, double curvature) noexcept nogil:
    """Return the squared size of an example whose residual is 0."""
    return (floor * curvature) * (floor * curvature)


@cython.final
cdef class Sample:
    cdef readonly Py_ssize_t n_labels
    cdef readonly Py_ssize_t order  # previous labels in a context; 0 if all examples have context 0
    cdef readonly int64_t size      # sum of all absolute residuals, in units of 2**-30
    cdef ExampleVector *vectors     # one for each label
    cdef bint failed           # whether there was no memory for an example
    cdef int32_t first         # added to all positions
    cdef object packed         # array of the examples, if they are not in blocks of their own

    cdef void add(self, Py_ssize_t v, Py_ssize_t start, Py_ssize_t t, Py_ssize_t c, int32_t random,
                  double residual, double curvature) noexcept nogil
    cdef void reverse_sequence(self) noexcept nogil
    cdef check(self)
