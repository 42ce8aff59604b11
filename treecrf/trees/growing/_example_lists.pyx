"""Lists of the examples of a node, and their division among its children.

An example has a row, the labels before it, a residual and a weight. A child gets copies of its
examples, so that histograms read them in sequence.
"""

from libc.math cimport rint
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.trees.growing._row_sets cimport WHOLE, fraction_of


cdef class ExampleLists:
    """The layout of lists of examples, and operations on them."""

    def __init__(self, Py_ssize_t n_lags, bint with_counts, bint with_fractions):
        self.n_lags = n_lags
        self.with_counts = with_counts
        self.with_fractions = with_fractions

    cdef void allocate(self, ExampleList *examples, Py_ssize_t n) noexcept nogil:
        """Make an empty list with room for n examples; sets ``failed`` if memory runs out."""
        cdef Py_ssize_t pair = 2 * sizeof(double)
        cdef char *memory
        memset(examples, 0, sizeof(ExampleList))
        memory = <char *> malloc((n + 1) * (pair * (1 + self.with_counts) + sizeof(int32_t)
                                            + sizeof(uint32_t) * self.with_fractions
                                            + self.n_lags))
        if memory == NULL:
            self.failed = True
            return
        examples.values = <double *> memory
        memory += (n + 1) * pair
        if self.with_counts:
            examples.counts = <double *> memory
            memory += (n + 1) * pair
        examples.rows = <int32_t *> memory
        memory += (n + 1) * sizeof(int32_t)
        if self.with_fractions:
            examples.fractions = <uint32_t *> memory
            memory += (n + 1) * sizeof(uint32_t)
        examples.labels = <uint8_t *> memory

    cdef void copy_one(self, const ExampleList *source, Py_ssize_t i,
                       ExampleList *target) noexcept nogil:
        """Append an example to a list."""
        cdef Py_ssize_t lag, j = target.n
        target.values[2 * j] = source.values[2 * i]
        target.values[2 * j + 1] = source.values[2 * i + 1]
        target.rows[j] = source.rows[i]
        for lag in range(self.n_lags):
            target.labels[j * self.n_lags + lag] = source.labels[i * self.n_lags + lag]
        if self.with_counts:
            target.counts[2 * j] = source.counts[2 * i]
            target.counts[2 * j + 1] = 0.0
        if self.with_fractions:
            target.fractions[j] = source.fractions[i]
        target.n = j + 1

    cdef void count_sides(self, const ExampleList *source, const uint8_t *outcomes, double share,
                          Py_ssize_t first, Py_ssize_t last, Py_ssize_t *counts) noexcept nogil:
        """Count the examples from ``first`` to ``last`` that `move` copies: passed and failed."""
        cdef Py_ssize_t i, n_passed = 0, n_failed = 0
        cdef uint32_t weight, units = <uint32_t> rint(share * WHOLE)
        for i in range(first, last):
            if outcomes[i] == NO_VALUE:
                weight = fraction_of(source.fractions[i], units)
                n_passed += weight > 0
                n_failed += weight < source.fractions[i]
            else:
                n_passed += outcomes[i]
                n_failed += 1 - outcomes[i]
        counts[0] = n_passed
        counts[1] = n_failed

    cdef void move(self, const ExampleList *source, const uint8_t *outcomes, double share,
                   Py_ssize_t first, Py_ssize_t last, ExampleList *passed,
                   ExampleList *failed) noexcept nogil:
        """Append the examples from ``first`` to ``last`` to those that pass and fail a test.

        Both get a fraction of an example without the test's value: ``share`` and the rest.
        """
        cdef Py_ssize_t i
        cdef uint32_t weight, units = <uint32_t> rint(share * WHOLE)
        for i in range(first, last):
            if outcomes[i] == PASSED:
                self.copy_one(source, i, passed)
            elif outcomes[i] == FAILED:
                self.copy_one(source, i, failed)
            else:
                weight = fraction_of(source.fractions[i], units)
                if weight:
                    self.copy_one(source, i, passed)
                    passed.fractions[passed.n - 1] = weight
                if weight < source.fractions[i]:
                    self.copy_one(source, i, failed)
                    failed.fractions[failed.n - 1] = source.fractions[i] - weight


cdef void free_list(ExampleList *examples) noexcept nogil:
    free(examples.values)
    memset(examples, 0, sizeof(ExampleList))
