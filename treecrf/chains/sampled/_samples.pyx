"""Samples of the examples that trees are fitted to: their memory, and their weights.

See `_sampling.pyx` for how examples are drawn.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

cdef extern from "chains/sampled/sampling.h" nogil:
    double N_RANDOM
    double chances_of(double residual, double background, double scale)
    double factor_of(double chances)


# An example in an array.
EXAMPLE = np.dtype([("residual", "f8"), ("curvature", "f8"), ("position", "i4"), ("context", "i4"),
                    ("depth", "i4"), ("random", "i4")])


cdef bint grow(ExampleVector *vector) noexcept nogil:
    """Append a block; returns whether there was memory for it."""
    cdef Example **blocks = vector.blocks
    cdef Py_ssize_t n = vector.n_blocks
    if n & (n - 1) == 0:   # the array is full when its length is a power of 2
        blocks = <Example **> realloc(blocks, max(1, 2 * n) * sizeof(Example *))
        if blocks == NULL:
            return False
        vector.blocks = blocks
    blocks[n] = <Example *> malloc(BLOCK * sizeof(Example))
    if blocks[n] == NULL:
        return False
    vector.n_blocks += 1
    return True


cdef void clear(ExampleVector *vector) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(0 if vector.is_borrowed else vector.n_blocks):
        free(vector.blocks[i])
    free(vector.blocks)
    memset(vector, 0, sizeof(ExampleVector))


cdef class Sample:
    """Examples of some sequences, before they are weighted; a vector for each label."""

    def __cinit__(self, Py_ssize_t n_labels, Py_ssize_t order):
        self.n_labels = n_labels
        self.order = order
        self.vectors = <ExampleVector *> malloc(n_labels * sizeof(ExampleVector))
        if self.vectors == NULL:
            raise MemoryError(f"no memory for the examples of {n_labels} labels")
        memset(self.vectors, 0, n_labels * sizeof(ExampleVector))

    def __dealloc__(self):
        cdef Py_ssize_t v
        if self.vectors != NULL:
            for v in range(self.n_labels):
                clear(&self.vectors[v])
            free(self.vectors)

    def n_examples(self, Py_ssize_t label):
        """Return the number of examples of a label."""
        return self.vectors[label].n

    def mark_positions(self, uint8_t[::1] marks):
        """Mark the positions of the examples with 1."""
        cdef Py_ssize_t v, i
        with nogil:
            for v in range(self.n_labels):
                for i in range(self.vectors[v].n):
                    marks[item(&self.vectors[v], i).position] = 1

    def pack(self, Py_ssize_t label, const int32_t[::1] numbers, examples):
        """Write the examples of a label to an `EXAMPLE` array, with these numbers of positions."""
        cdef Py_ssize_t i
        cdef uint8_t[::1] data = examples.view(np.uint8)
        cdef Example *example
        with nogil:
            for i in range(self.vectors[label].n):
                example = <Example *> &data[i * sizeof(Example)]
                example[0] = item(&self.vectors[label], i)[0]
                example.position = numbers[example.position]

    @staticmethod
    def unpack(examples, starts, Py_ssize_t order, int64_t size, Py_ssize_t first):
        """Return a sample of packed examples, which it reads where they are.

        ``starts`` holds the first example of each label, and the number of all; ``first`` is added
        to positions.
        """
        cdef Sample sample = Sample(len(starts) - 1, order)
        cdef const uint8_t[::1] data = examples.view(np.uint8)
        cdef Py_ssize_t v, i, begin, end
        cdef ExampleVector *vector
        sample.size = size
        sample.first = <int32_t> first
        sample.packed = examples
        for v in range(sample.n_labels):
            vector = &sample.vectors[v]
            begin = starts[v]
            end = starts[v + 1]
            vector.n = end - begin
            vector.n_blocks = (vector.n + BLOCK - 1) // BLOCK
            vector.is_borrowed = True
            vector.blocks = <Example **> malloc(max(1, vector.n_blocks) * sizeof(Example *))
            if vector.blocks == NULL:
                raise MemoryError("no memory for the sampled examples")
            for i in range(vector.n_blocks):
                vector.blocks[i] = <Example *> &data[(begin + i * BLOCK) * sizeof(Example)]
        return sample

    cdef void add(self, Py_ssize_t v, Py_ssize_t start, Py_ssize_t t, Py_ssize_t c,
                  int32_t random, double residual, double curvature) noexcept nogil:
        """Add the example of label v at position t of the chain from ``start``, in context c."""
        cdef ExampleVector *vector = &self.vectors[v]
        if vector.n == vector.n_blocks * BLOCK and not grow(vector):
            self.failed = True
            return
        item(vector, vector.n)[0] = Example(residual, curvature, <int32_t> (start + t),
                                            <int32_t> c, <int32_t> min(t, self.order), random)
        vector.n += 1

    cdef void reverse_sequence(self) noexcept nogil:
        """Reverse the order of the examples of the current sequence."""
        cdef Py_ssize_t v, low, high
        cdef Example example
        cdef ExampleVector *vector
        for v in range(self.n_labels):
            vector = &self.vectors[v]
            low = vector.begin
            high = vector.n - 1
            while low < high:
                example = item(vector, low)[0]
                item(vector, low)[0] = item(vector, high)[0]
                item(vector, high)[0] = example
                low += 1
                high -= 1

    cdef check(self):
        if self.failed:
            raise MemoryError("no memory for the sampled examples: increase mu")


# Weights of the examples that are kept.


def collect(list samples, Py_ssize_t label, double mu, double floor, double unit, bint counted,
            bint forget):
    """Join the examples of a label, and weight those that are kept for ``mu``.

    The samples were drawn with the same or a smaller mu, in proportion to which ``floor`` may have
    been smaller. Returns the positions, contexts and labels at each lag, the residuals and
    curvatures, and 1 / q if ``counted``, all as multiples of ``unit``, and the sums of the absolute
    values of these three. ``forget`` removes the examples from the samples.
    """
    cdef Sample sample = samples[0]
    cdef Py_ssize_t i, lag, context, order = sample.order, n_labels = sample.n_labels
    cdef Py_ssize_t n = 0, capacity = sum(part.n_examples(label) for part in samples)
    cdef const Example *example
    positions = np.empty(capacity, dtype=np.int32)
    contexts = np.empty(capacity, dtype=np.int32)
    labels = np.empty((capacity, order), dtype=np.uint8)
    values = np.empty((capacity, 2))
    counts = np.empty(capacity) if counted else None
    cdef int32_t[::1] position_view = positions, context_view = contexts
    cdef uint8_t[:, ::1] label_view = labels
    cdef double[:, ::1] value_view = values
    cdef double[::1] count_view = counts
    # Sums with this number have no digits below the unit: it is 1.5 * 2**52 units.
    cdef double rounding = unit * 6755399441055744.0
    cdef double chances, factor, scale = N_RANDOM / mu
    cdef double residual_sum = 0.0, curvature_sum = 0.0, count_sum = 0.0
    for sample in samples:
        with nogil:
            for i in range(sample.vectors[label].n):
                example = item(&sample.vectors[label], i)
                chances = chances_of(example.residual, background_of(floor, example.curvature),
                                     scale)
                if example.random >= chances:
                    continue
                factor = factor_of(chances)
                position_view[n] = example.position + sample.first
                context_view[n] = context = example.context
                for lag in range(order):
                    label_view[n, lag] = <uint8_t> (context % n_labels if lag < example.depth
                                                    else n_labels)
                    context //= n_labels
                value_view[n, 0] = (example.residual * factor + rounding) - rounding
                value_view[n, 1] = (example.curvature * factor + rounding) - rounding
                if counted:
                    count_view[n] = (factor + rounding) - rounding
                # In second order, an example without a residual has no effect.
                if value_view[n, 0] == 0.0 and (floor == 0.0 or value_view[n, 1] == 0.0):
                    continue
                residual_sum += fabs(value_view[n, 0])
                curvature_sum += fabs(value_view[n, 1])
                count_sum += count_view[n] if counted else 0.0
                n += 1
            if forget:
                clear(&sample.vectors[label])
    arrays = [positions, contexts, labels, values, counts]
    # Copies of less than nine tenths of the capacity save memory.
    arrays = [None if array is None else array[:n] if n > 0.9 * capacity else array[:n].copy()
              for array in arrays]
    return *arrays, (residual_sum, curvature_sum, count_sum)
