"""Histograms of the bins that occur among a node's examples.

Where features are many and examples few, as with text, most bins of a node are empty. A histogram
is therefore a list of bins, ascending, with their sums. To build one, examples are added to a dense
histogram of zeros. The bins of a child are among those of its parent: one pass over the parent's
list collects the child's sums, sets them back to zero, and leaves the sums of the other child.

All values are multiples of one unit, and their sums are exact.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._row_sets cimport WHOLE

cdef extern from "utils/histograms.h" nogil:
    void add_pair(double *target, double first, double second)
    void prefetch(const void *address)

# How many examples ahead the lists of a window are fetched from memory.
cdef Py_ssize_t AHEAD = 4


cdef class SparseHistograms:
    """Builder of sparse histograms.

    Parameters
    ----------
    features : Features
    tests : treecrf.trees.growing.window_tests.TestTable
    n_lags : int
        Number of previous labels of an example. Each has a bin for every label and one for none,
        after the bins of the window.
    n_labels : int
    with_counts : bool
        Whether examples are counted separately from their weights.
    n_parts : int
        Number of parts of examples that may be added concurrently.
    """

    def __cinit__(self, Features features, tests, Py_ssize_t n_lags, Py_ssize_t n_labels,
                  bint with_counts, Py_ssize_t n_parts):
        cdef Py_ssize_t p
        self.features = features
        self.n_window_bins = tests.n_bins
        self.n_lags = n_lags
        self.n_symbols = n_labels + 1
        self.n_bins = self.n_window_bins + n_lags * self.n_symbols
        self.with_counts = with_counts
        self.kept = np.zeros(self.n_bins // 64 + 1, dtype=np.uint64)
        self.dense = <double **> calloc(n_parts, sizeof(double *))
        self.dense_counts = <double **> calloc(n_parts, sizeof(double *))
        self.scaled = <double **> calloc(n_parts, sizeof(double *))
        self.room = <Py_ssize_t *> calloc(n_parts, sizeof(Py_ssize_t))
        if (self.dense == NULL or self.dense_counts == NULL or self.scaled == NULL
                or self.room == NULL):
            raise MemoryError("no memory for histograms")
        self.n_parts = n_parts
        for p in range(n_parts):
            self.dense[p] = <double *> calloc(2 * self.n_bins + 2, sizeof(double))
            self.dense_counts[p] = <double *> calloc(with_counts * self.n_bins + 1,
                                                     sizeof(double))
            if self.dense[p] == NULL or self.dense_counts[p] == NULL:
                raise MemoryError(f"no memory for a histogram of {self.n_bins} bins")

    def __dealloc__(self):
        cdef Py_ssize_t p
        for p in range(self.n_parts):
            free(self.dense[p])
            free(self.dense_counts[p])
            free(self.scaled[p])
        free(self.dense)
        free(self.dense_counts)
        free(self.scaled)
        free(self.room)

    def keep(self, kept):
        """Count only some bins of lists; bool array (n_window_bins,), or None for all."""
        self.is_filtered = kept is not None
        if kept is not None:
            bits = np.zeros(64 * self.kept.shape[0], dtype=bool)
            bits[:len(kept)] = kept
            self.kept = np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)

    cdef void add(self, const ExampleList *examples, Py_ssize_t first, Py_ssize_t last,
                  Py_ssize_t part) noexcept nogil:
        """Add examples to a dense histogram."""
        cdef const double *values = self._scaled(examples, first, last, examples.values, part)
        if self.failed:
            return
        self._add_values(examples, first, last, values, self.dense[part], 2)
        if self.with_counts:
            values = self._scaled(examples, first, last, examples.counts, part)
            self._add_values(examples, first, last, values, self.dense_counts[part], 1)

    cdef void _add_values(self, const ExampleList *examples, Py_ssize_t first, Py_ssize_t last,
                          const double *values, double *bins, int stride) noexcept nogil:
        cdef Py_ssize_t i, k, lag, n = last - first
        cdef const int32_t *rows = examples.rows + first
        cdef const uint8_t *labels = examples.labels + first * self.n_lags
        cdef double *target
        if self.features.codes.shape[1]:
            self.features._add_codes(rows, n, values, bins, stride)
        if self.features.bit_columns.shape[0]:
            self.features._add_bits(rows, n, values, bins, stride)
        if self.features.list_bins[self.features.width] > self.features.list_bins[0]:
            self._add_lists(rows, n, values, bins, stride)
        for lag in range(self.n_lags):
            target = bins + stride * (self.n_window_bins + lag * self.n_symbols)
            for i in range(n):
                for k in range(stride):
                    target[stride * labels[i * self.n_lags + lag] + k] += values[2 * i + k]

    cdef const double *_scaled(self, const ExampleList *examples, Py_ssize_t first,
                               Py_ssize_t last, const double *values,
                               Py_ssize_t part) noexcept nogil:
        """Return values in proportion to the fractions that belong to the node."""
        cdef Py_ssize_t i, n = last - first
        cdef double fraction
        cdef double *scaled
        if examples.fractions == NULL:
            return values + 2 * first
        if self.room[part] < n:
            scaled = <double *> realloc(self.scaled[part], 2 * n * sizeof(double))
            if scaled == NULL:
                self.failed = True
                return NULL
            self.scaled[part] = scaled
            self.room[part] = n
        scaled = self.scaled[part]
        for i in range(n):
            fraction = examples.fractions[first + i] * (1.0 / WHOLE)
            scaled[2 * i] = values[2 * (first + i)] * fraction
            scaled[2 * i + 1] = values[2 * (first + i) + 1] * fraction
        return scaled

    cdef void _add_lists(self, const int32_t *rows, Py_ssize_t n, const double *values,
                         double *bins, int stride) noexcept nogil:
        """Add the ids that windows list; they come from memory in random order."""
        cdef Py_ssize_t i, j, b, width = self.features.width
        cdef const int64_t *starts = &self.features.list_starts[0]
        cdef const int32_t *ids = &self.features.list_ids[0]
        cdef const int64_t *list_bins = &self.features.list_bins[0]
        cdef const uint64_t *kept = &self.kept[0]
        cdef const int64_t *window
        cdef int64_t e
        cdef bint filtered = self.is_filtered
        for i in range(n):
            if i + AHEAD < n:
                window = starts + rows[i + AHEAD]
                e = window[0]
                while e < window[width]:
                    prefetch(ids + e)
                    e += 16
            window = starts + rows[i]
            for j in range(width):
                for e in range(window[j], window[j + 1]):
                    b = list_bins[j] + ids[e]
                    if filtered and not kept[b >> 6] >> (b & 63) & 1:
                        continue
                    if stride == 2:
                        add_pair(bins + 2 * b, values[2 * i], values[2 * i + 1])
                    else:
                        bins[b] += values[2 * i]

    cdef void collect(self, SparseHistogram *histogram, Py_ssize_t n_parts) noexcept nogil:
        """Make the histogram of all that has been added, by any part."""
        cdef Py_ssize_t b, n = 0
        cdef double *dense = self.dense[0]
        for b in range(self.n_bins):
            self_sum(self, b, n_parts)
            n += dense[2 * b] != 0.0 or dense[2 * b + 1] != 0.0
        self._allocate(histogram, n)
        if self.failed:
            return
        n = 0
        for b in range(self.n_bins):
            if dense[2 * b] != 0.0 or dense[2 * b + 1] != 0.0:
                histogram.bins[n] = <int32_t> b
                histogram.pairs[2 * n] = dense[2 * b]
                histogram.pairs[2 * n + 1] = dense[2 * b + 1]
                if self.with_counts:
                    histogram.counts[n] = self.dense_counts[0][b]
                n += 1
        histogram.n = n
        memset(dense, 0, 2 * self.n_bins * sizeof(double))
        memset(self.dense_counts[0], 0, self.with_counts * self.n_bins * sizeof(double))

    cdef void divide(self, SparseHistogram *parent, SparseHistogram *small,
                     Py_ssize_t n_parts) noexcept nogil:
        """Move what has been added from the parent's histogram to that of its smaller child."""
        cdef Py_ssize_t i, b, n_small = 0, n_left = 0
        cdef double *dense = self.dense[0]
        cdef double *counts = self.dense_counts[0]
        cdef double total, weight
        cdef SparseHistogram gathered
        self._allocate(&gathered, parent.n)
        if self.failed:
            return
        for i in range(parent.n):
            b = parent.bins[i]
            if n_parts > 1:
                self_sum(self, b, n_parts)
            total = dense[2 * b]
            weight = dense[2 * b + 1]
            dense[2 * b] = dense[2 * b + 1] = 0.0
            if total != 0.0 or weight != 0.0:
                gathered.bins[n_small] = <int32_t> b
                gathered.pairs[2 * n_small] = total
                gathered.pairs[2 * n_small + 1] = weight
                if self.with_counts:
                    gathered.counts[n_small] = counts[b]
                n_small += 1
            total = parent.pairs[2 * i] - total
            weight = parent.pairs[2 * i + 1] - weight
            if total != 0.0 or weight != 0.0:
                parent.bins[n_left] = <int32_t> b
                parent.pairs[2 * n_left] = total
                parent.pairs[2 * n_left + 1] = weight
                if self.with_counts:
                    parent.counts[n_left] = parent.counts[i] - counts[b]
                n_left += 1
            if self.with_counts:
                counts[b] = 0.0
        gathered.n = n_small
        parent.n = n_left
        self._fit(&gathered, small)
        if 2 * n_left < parent.room and not self.failed:
            gathered = parent[0]
            self._fit(&gathered, parent)

    cdef void _fit(self, SparseHistogram *source, SparseHistogram *target) noexcept nogil:
        """Move a histogram to memory of its size."""
        self._allocate(target, source.n)
        if not self.failed:
            memcpy(target.pairs, source.pairs, 2 * source.n * sizeof(double))
            memcpy(target.bins, source.bins, source.n * sizeof(int32_t))
            if self.with_counts:
                memcpy(target.counts, source.counts, source.n * sizeof(double))
            target.n = source.n
        free_histogram(source)

    cdef void _allocate(self, SparseHistogram *histogram, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t n_doubles = (2 + self.with_counts) * (n + 1)
        cdef double *memory = <double *> malloc(n_doubles * sizeof(double)
                                                + (n + 1) * sizeof(int32_t))
        memset(histogram, 0, sizeof(SparseHistogram))
        if memory == NULL:
            self.failed = True
            return
        histogram.pairs = memory
        if self.with_counts:
            histogram.counts = memory + 2 * (n + 1)
        histogram.bins = <int32_t *> (memory + n_doubles)
        histogram.room = n


cdef inline void self_sum(SparseHistograms self, Py_ssize_t b, Py_ssize_t n_parts) noexcept nogil:
    """Move the sums of all parts in a bin to the first part."""
    cdef Py_ssize_t p
    for p in range(1, n_parts):
        self.dense[0][2 * b] += self.dense[p][2 * b]
        self.dense[0][2 * b + 1] += self.dense[p][2 * b + 1]
        self.dense[p][2 * b] = self.dense[p][2 * b + 1] = 0.0
        if self.with_counts:
            self.dense_counts[0][b] += self.dense_counts[p][b]
            self.dense_counts[p][b] = 0.0


cdef void free_histogram(SparseHistogram *histogram) noexcept nogil:
    free(histogram.pairs)
    memset(histogram, 0, sizeof(SparseHistogram))
