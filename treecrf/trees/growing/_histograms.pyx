"""Histograms of a node's examples: sums over the bins of all tests, and over each context.

All sums are exact (see ``_tree``): a histogram does not depend on the order of the examples, and
the histogram of a child is the difference between those of its parent and its sibling.
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from treecrf.trees.growing._bins cimport Bins
from treecrf.trees.growing._chosen_bins cimport ChosenBins
from treecrf.trees.growing._context_sets cimport ContextSets
from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._members cimport Members
from treecrf.trees.growing._nodes cimport Node

cdef extern from "utils/histograms.h" nogil:
    void subtract_from(double *target, const double *source, Py_ssize_t n)

cdef extern from "utils/vector_math.h" nogil:
    void add_scaled(double *target, const double *source, double weight, Py_ssize_t n)


cdef class Histograms:
    """The histograms of all open nodes, in memory that is reused."""

    def __cinit__(self, Features features, ContextSets contexts, ChosenBins of_tree,
                  Py_ssize_t n_lags, bint separate_counts, Py_ssize_t max_histograms):
        self.features = features
        self.contexts = contexts
        self.of_tree = of_tree
        self.n_lags = n_lags
        self.n_label_bins = n_lags * (contexts.n_labels + 1)
        self.separate_counts = separate_counts
        self.max_size = self._size()
        self.of_contexts = np.zeros(3 * contexts.n_extended)
        self.memory = <double **> calloc(max_histograms, sizeof(double *))
        self.free_histograms = <int32_t *> malloc(max_histograms * sizeof(int32_t))
        if self.memory == NULL or self.free_histograms == NULL:
            raise MemoryError(f"no memory for {max_histograms} histograms")

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_histograms):
            free(self.memory[i])
        free(self.memory)
        free(self.free_histograms)

    cdef Py_ssize_t _size(self) noexcept nogil:
        return (2 + self.separate_counts) * self.of_tree.n_bins + 3 * self.contexts.n_extended

    cdef void begin(self) noexcept nogil:
        """Begin a tree, whose bins have been chosen: forget all histograms."""
        cdef Py_ssize_t i
        self.size = self._size()
        self.failed = False
        self.n_free = self.n_histograms
        for i in range(self.n_histograms):
            self.free_histograms[i] = <int32_t> i

    cdef void release(self, Node *node) noexcept nogil:
        """Let another node have the histogram of a node."""
        if node.histogram >= 0:
            self.free_histograms[self.n_free] = node.histogram
            self.n_free += 1
            node.histogram = -1

    cdef void take(self, Node *node) noexcept nogil:
        """Give a node a histogram, not yet filled."""
        node.histogram = self._take()

    cdef int32_t _take(self) noexcept nogil:
        cdef double *memory
        if self.n_free:
            self.n_free -= 1
            return self.free_histograms[self.n_free]
        memory = <double *> malloc((self.max_size + 1) * sizeof(double))
        if memory == NULL:
            self.failed = True
            return -1
        self.memory[self.n_histograms] = memory
        self.n_histograms += 1
        return <int32_t> (self.n_histograms - 1)

    cdef Histogram of_node(self, const Node *node) noexcept nogil:
        """Return the sums of a node."""
        cdef Py_ssize_t n_bins = self.of_tree.n_bins
        cdef double *bins = self.memory[node.histogram]
        cdef double *counts = NULL
        if self.separate_counts:
            counts = bins + 2 * n_bins
        return Histogram(bins, counts, bins + (2 + self.separate_counts) * n_bins)

    cdef Bins bins_of(self, const Node *node) noexcept nogil:
        """Return the sums of a node over the bins of the tree."""
        cdef Histogram histogram = self.of_node(node)
        return Bins(self.of_tree.n_bins, 0, histogram.bins, histogram.counts, NULL)

    cdef void build(self, Node *node, Members members) noexcept nogil:
        """Build the histogram of the node whose members are listed."""
        self.take(node)
        if not self.failed:
            self._fill(node, self.of_tree, members, self.of_node(node))

    cdef Histogram build_own(self, const Node *node, ChosenBins chosen,
                             Members members) noexcept nogil:
        """Build a histogram of the bins that a node has chosen, in their own memory."""
        cdef Bins own = chosen.own(self.separate_counts)
        cdef Histogram histogram = Histogram(own.pairs, own.counts, &self.of_contexts[0])
        self._fill(node, chosen, members, histogram)
        return histogram

    cdef void _fill(self, const Node *node, ChosenBins chosen, Members members,
                    Histogram histogram) noexcept nogil:
        cdef Py_ssize_t n_bins = chosen.n_bins, first_label = n_bins - self.n_label_bins
        memset(histogram.bins, 0, 2 * n_bins * sizeof(double))
        memset(histogram.contexts, 0, 3 * self.contexts.n_extended * sizeof(double))
        self.features.add_windows(chosen, members.rows, members.n, members.values, histogram.bins,
                                  2)
        self._add_labels(members, members.values, histogram.bins + 2 * first_label, 2)
        if self.separate_counts:
            memset(histogram.counts, 0, n_bins * sizeof(double))
            self.features.add_windows(chosen, members.rows, members.n, members.counts,
                                      histogram.counts, 1)
            self._add_labels(members, members.counts, histogram.counts + first_label, 1)
        members.sum_contexts(node, histogram.contexts)

    cdef void _add_labels(self, Members members, const double *values, double *first,
                          int stride) noexcept nogil:
        """Add the listed examples to the bins of their previous labels."""
        cdef Py_ssize_t lag, i, k
        cdef const uint8_t *labels
        cdef const int32_t *positions = members.positions
        for lag in range(self.n_lags):
            labels = &self.labels[lag, 0]
            for i in range(members.n):
                for k in range(stride):
                    first[stride * labels[positions[i]] + k] += values[2 * i + k]
            first += stride * (self.contexts.n_labels + 1)

    cdef void subtract(self, const Node *target, const Node *source) noexcept nogil:
        subtract_from(self.memory[target.histogram], self.memory[source.histogram], self.size)

    cdef void add(self, const Node *target, const Node *source) noexcept nogil:
        add_scaled(self.memory[target.histogram], self.memory[source.histogram], 1.0, self.size)
