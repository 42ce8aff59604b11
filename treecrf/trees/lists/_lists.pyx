"""Lists of a node's examples, and histograms of the bins that occur among them.

An example has a row, the labels before it, a residual and a weight. A child gets copies of its
examples, so that histograms read them in sequence.

With many features and few examples, as in text, most bins of a node are empty. A histogram is
therefore a list of bins, ascending, with their sums. To build one, examples are added to a dense
histogram of zeros. The bins of a child are among those of its parent: one pass over the parent's
list collects the child's sums, sets them back to zero, and leaves the sums of the other child.

All values are multiples of one unit, and their sums are exact.
"""

from libc.math cimport rint
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Bins, ChosenBins, Features
from treecrf.trees.growing._sets cimport WHOLE, fraction_of
from treecrf.trees.growing._tests cimport FAILED, NO_VALUE, PASSED


cdef bint allocate(ExampleList *examples, Py_ssize_t n, Py_ssize_t n_lags, bint with_counts,
                   bint with_fractions) noexcept nogil:
    """Make an empty list with room for n examples; returns whether there was memory for it."""
    cdef Py_ssize_t pair = 2 * sizeof(double)
    cdef char *memory
    memset(examples, 0, sizeof(ExampleList))
    memory = <char *> malloc((n + 1) * (pair * (1 + with_counts) + sizeof(int32_t)
                                        + sizeof(uint32_t) * with_fractions + n_lags))
    if memory == NULL:
        return False
    examples.n_lags = n_lags
    examples.values = <double *> memory
    memory += (n + 1) * pair
    if with_counts:
        examples.counts = <double *> memory
        memory += (n + 1) * pair
    examples.rows = <int32_t *> memory
    memory += (n + 1) * sizeof(int32_t)
    if with_fractions:
        examples.fractions = <uint32_t *> memory
        memory += (n + 1) * sizeof(uint32_t)
    examples.labels = <uint8_t *> memory
    return True


cdef inline void copy_one(const ExampleList *source, Py_ssize_t i,
                          ExampleList *target) noexcept nogil:
    """Append an example to a list."""
    cdef Py_ssize_t lag, j = target.n, n_lags = source.n_lags
    target.values[2 * j] = source.values[2 * i]
    target.values[2 * j + 1] = source.values[2 * i + 1]
    target.rows[j] = source.rows[i]
    for lag in range(n_lags):
        target.labels[j * n_lags + lag] = source.labels[i * n_lags + lag]
    if target.counts != NULL:
        target.counts[2 * j] = source.counts[2 * i]
        target.counts[2 * j + 1] = 0.0
    if target.fractions != NULL:
        target.fractions[j] = source.fractions[i]
    target.n = j + 1


cdef void count_sides(const ExampleList *source, const uint8_t *outcomes, double share,
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


cdef void move(const ExampleList *source, const uint8_t *outcomes, double share, Py_ssize_t first,
               Py_ssize_t last, ExampleList *passed, ExampleList *failed) noexcept nogil:
    """Append the examples from ``first`` to ``last`` to those that pass and fail a test.

    Both get a fraction of an example without the test's value: ``share`` and the rest.
    """
    cdef Py_ssize_t i
    cdef uint32_t weight, units = <uint32_t> rint(share * WHOLE)
    for i in range(first, last):
        if outcomes[i] == PASSED:
            copy_one(source, i, passed)
        elif outcomes[i] == FAILED:
            copy_one(source, i, failed)
        else:
            weight = fraction_of(source.fractions[i], units)
            if weight:
                copy_one(source, i, passed)
                passed.fractions[passed.n - 1] = weight
            if weight < source.fractions[i]:
                copy_one(source, i, failed)
                failed.fractions[failed.n - 1] = source.fractions[i] - weight


cdef void free_list(ExampleList *examples) noexcept nogil:
    """Free the memory of a list, which is empty then."""
    free(examples.values)
    memset(examples, 0, sizeof(ExampleList))


cdef class DenseHistogram:
    """A dense histogram to which the examples of a node are added, all zeros between nodes.

    No other thread may use its features meanwhile. After the bins of the window, each previous
    label has a bin for every label and one for none.
    """

    def __cinit__(self, Features features, Py_ssize_t n_bins, Py_ssize_t n_lags,
                  Py_ssize_t n_labels, bint with_counts):
        self.features = features
        self.n_lags = n_lags
        self.n_symbols = n_labels + 1
        self.with_counts = with_counts
        self.pairs = <double *> calloc(2 * n_bins + 2, sizeof(double))
        self.counts = <double *> calloc(with_counts * n_bins + 1, sizeof(double))
        if self.pairs == NULL or self.counts == NULL:
            raise MemoryError(f"no memory for a histogram of {n_bins} bins")

    def __dealloc__(self):
        free(self.pairs)
        free(self.counts)
        free(self.scaled)

    cdef void add(self, ChosenBins chosen, const ExampleList *examples, Py_ssize_t first,
                  Py_ssize_t last) noexcept nogil:
        """Add some of a node's examples; sets ``failed`` if memory runs out."""
        cdef const double *values = self._scaled(examples, first, last, examples.values)
        if self.failed:
            return
        self._add_values(chosen, examples, first, last, values, self.pairs, 2)
        if self.with_counts:
            values = self._scaled(examples, first, last, examples.counts)
            self._add_values(chosen, examples, first, last, values, self.counts, 1)

    cdef void clear(self, Py_ssize_t n_bins) noexcept nogil:
        """Set the first bins to zeros."""
        memset(self.pairs, 0, 2 * n_bins * sizeof(double))
        memset(self.counts, 0, self.with_counts * n_bins * sizeof(double))

    cdef void _add_values(self, ChosenBins chosen, const ExampleList *examples, Py_ssize_t first,
                          Py_ssize_t last, const double *values, double *bins,
                          int stride) noexcept nogil:
        """Add values to the bins of windows and of previous labels; see `Features.add_windows`."""
        cdef Py_ssize_t i, k, lag, n = last - first
        cdef const int32_t *rows = examples.rows + first
        cdef const uint8_t *labels = examples.labels + first * self.n_lags
        cdef double *target = bins + stride * (chosen.n_bins - self.n_lags * self.n_symbols)
        self.features.add_windows(chosen, rows, n, values, bins, stride)
        for lag in range(self.n_lags):
            for i in range(n):
                for k in range(stride):
                    target[stride * labels[i * self.n_lags + lag] + k] += values[2 * i + k]
            target += stride * self.n_symbols

    cdef const double *_scaled(self, const ExampleList *examples, Py_ssize_t first,
                               Py_ssize_t last, const double *values) noexcept nogil:
        """Return values in proportion to the fractions that belong to the node."""
        cdef Py_ssize_t i, n = last - first
        cdef double fraction
        cdef double *scaled
        if examples.fractions == NULL:
            return values + 2 * first
        if self.room < n:
            scaled = <double *> realloc(self.scaled, 2 * n * sizeof(double))
            if scaled == NULL:
                self.failed = True
                return NULL
            self.scaled = scaled
            self.room = n
        scaled = self.scaled
        for i in range(n):
            fraction = examples.fractions[first + i] * (1.0 / WHOLE)
            scaled[2 * i] = values[2 * (first + i)] * fraction
            scaled[2 * i + 1] = values[2 * (first + i) + 1] * fraction
        return scaled


cdef class SparseHistograms:
    """Builder of sparse histograms from dense ones, one for each thread."""

    def __cinit__(self, DenseHistogram first, ChosenBins tree_bins, Py_ssize_t max_parts):
        self.first = first
        self.tree_bins = tree_bins
        self.with_counts = first.with_counts
        self.pairs = <double **> calloc(max_parts, sizeof(double *))
        self.counts = <double **> calloc(max_parts, sizeof(double *))
        if self.pairs == NULL or self.counts == NULL:
            raise MemoryError("no memory for histograms")
        self.pairs[0] = first.pairs
        self.counts[0] = first.counts

    def __dealloc__(self):
        free(self.pairs)
        free(self.counts)

    def set_parts(self, list others):
        """Set the dense histograms that are added to the first."""
        cdef Py_ssize_t p
        cdef DenseHistogram part
        for p in range(len(others)):
            part = others[p]
            self.pairs[p + 1] = part.pairs
            self.counts[p + 1] = part.counts
            self.failed |= part.failed

    cdef void collect(self, Bins *histogram, Py_ssize_t n_parts) noexcept nogil:
        """Make the histogram of everything that the parts have added."""
        cdef Py_ssize_t b, n = 0
        for b in range(self.tree_bins.n_bins):
            if n_parts > 1:
                self._join_parts(b, n_parts)
            n += self._is_filled(b)
        self._allocate(histogram, n)
        if self.failed:
            return
        for b in range(self.tree_bins.n_bins):
            if self._is_filled(b):
                append(histogram, b, self.pairs[0][2 * b], self.pairs[0][2 * b + 1],
                       self.counts[0][b] if self.with_counts else 0.0)
                self._clear(b)

    cdef void divide(self, Bins *parent, Bins *small,
                     Py_ssize_t n_parts) noexcept nogil:
        """Move what has been added from the parent's histogram to its smaller child's."""
        cdef Py_ssize_t i, b, n = parent.n
        cdef double total, weight, count = 0.0
        cdef double *pairs = self.pairs[0]
        cdef Bins gathered
        self._allocate(&gathered, n)
        if self.failed:
            return
        parent.n = 0
        for i in range(n):
            b = parent.bins[i]
            if n_parts > 1:
                self._join_parts(b, n_parts)
            total = parent.pairs[2 * i] - pairs[2 * b]
            weight = parent.pairs[2 * i + 1] - pairs[2 * b + 1]
            if self.with_counts:
                count = parent.counts[i] - self.counts[0][b]
            if self._is_filled(b):
                append(&gathered, b, pairs[2 * b], pairs[2 * b + 1],
                       self.counts[0][b] if self.with_counts else 0.0)
                self._clear(b)
            if total != 0.0 or weight != 0.0 or count != 0.0:
                append(parent, b, total, weight, count)
        self._fit(&gathered, small)
        if 2 * parent.n < parent.room and not self.failed:
            gathered = parent[0]
            self._fit(&gathered, parent)

    cdef inline bint _is_filled(self, Py_ssize_t b) noexcept nogil:
        """Return whether a dense bin holds anything."""
        return (self.pairs[0][2 * b] != 0.0 or self.pairs[0][2 * b + 1] != 0.0
                or (self.with_counts and self.counts[0][b] != 0.0))

    cdef inline void _clear(self, Py_ssize_t b) noexcept nogil:
        """Set a dense bin back to zeros."""
        self.pairs[0][2 * b] = 0.0
        self.pairs[0][2 * b + 1] = 0.0
        if self.with_counts:
            self.counts[0][b] = 0.0

    cdef void _join_parts(self, Py_ssize_t b, Py_ssize_t n_parts) noexcept nogil:
        """Move the sums of all parts in a bin to the first part."""
        cdef Py_ssize_t p
        for p in range(1, n_parts):
            self.pairs[0][2 * b] += self.pairs[p][2 * b]
            self.pairs[0][2 * b + 1] += self.pairs[p][2 * b + 1]
            self.pairs[p][2 * b] = 0.0
            self.pairs[p][2 * b + 1] = 0.0
            if self.with_counts:
                self.counts[0][b] += self.counts[p][b]
                self.counts[p][b] = 0.0

    cdef void _fit(self, Bins *source, Bins *target) noexcept nogil:
        """Move a histogram to memory of its size."""
        self._allocate(target, source.n)
        if not self.failed:
            memcpy(target.pairs, source.pairs, 2 * source.n * sizeof(double))
            memcpy(target.bins, source.bins, source.n * sizeof(int32_t))
            if self.with_counts:
                memcpy(target.counts, source.counts, source.n * sizeof(double))
            target.n = source.n
        free_histogram(source)

    cdef void _allocate(self, Bins *histogram, Py_ssize_t n) noexcept nogil:
        """Make an empty histogram with room for some bins."""
        cdef Py_ssize_t n_doubles = (2 + self.with_counts) * (n + 1)
        cdef double *memory = <double *> malloc(n_doubles * sizeof(double)
                                                + (n + 1) * sizeof(int32_t))
        memset(histogram, 0, sizeof(Bins))
        if memory == NULL:
            self.failed = True
            return
        histogram.pairs = memory
        if self.with_counts:
            histogram.counts = memory + 2 * (n + 1)
        histogram.bins = <int32_t *> (memory + n_doubles)
        histogram.room = n


cdef inline void append(Bins *histogram, Py_ssize_t b, double total, double weight,
                        double count) noexcept nogil:
    """Append a bin to a histogram."""
    cdef Py_ssize_t n = histogram.n
    histogram.bins[n] = <int32_t> b
    histogram.pairs[2 * n] = total
    histogram.pairs[2 * n + 1] = weight
    if histogram.counts != NULL:
        histogram.counts[n] = count
    histogram.n = n + 1


cdef void free_histogram(Bins *histogram) noexcept nogil:
    """Free the memory of a histogram, which is empty then."""
    free(histogram.pairs)
    memset(histogram, 0, sizeof(Bins))
