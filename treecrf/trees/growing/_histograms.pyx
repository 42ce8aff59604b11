"""Histograms of a node's examples: sums over the bins of all tests, and over each context.

All sums are exact (see ``_tree``): a histogram does not depend on the order of the examples, and
the histogram of a child is the difference between those of its parent and its sibling.
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from treecrf.trees.growing._chosen_bins cimport Bins, ChosenBins
from treecrf.trees.growing._context_sets cimport ContextSet, ContextSets
from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._members cimport Members
from treecrf.trees.growing._nodes cimport Node

cdef extern from "utils/histograms.h" nogil:
    void subtract_from(double *target, const double *source, Py_ssize_t n)

cdef extern from "utils/vector_math.h" nogil:
    void add_scaled(double *target, const double *source, double weight, Py_ssize_t n)


# With more lanes, separate passes take less time if trees do not test all labels.
cdef enum:
    MAX_LANES = 8
    # Rows at a time.
    BLOCK = 128


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
        cdef double *memory
        if self.n_free:
            self.n_free -= 1
            node.histogram = self.free_histograms[self.n_free]
            return
        memory = <double *> malloc((self.max_size + 1) * sizeof(double))
        self.failed = self.failed or memory == NULL
        if memory != NULL:
            node.histogram = <int32_t> self.n_histograms
            self.memory[self.n_histograms] = memory
            self.n_histograms += 1

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


cdef class ContextHistograms:
    """Histograms of all positions, separately for each context; see `supports`.

    Trees often test the previous label first, and a node below such tests alone has all positions.
    One pass over the positions sums up each context, and the histograms of all these nodes follow
    from it. A bin is a row of lanes: the residuals of each context, then the weights, which are the
    same in all contexts unless there is curvature.
    """

    def __init__(self, Features features, ContextSets contexts, ChosenBins chosen):
        self.features = features
        self.contexts = contexts
        self.chosen = chosen
        self.n_labels = contexts.n_labels
        self.bins = np.zeros(MAX_LANES * (chosen.n_bins + 1))
        self.starts = np.zeros(2 * (chosen.n_bins + 1))
        self.block = np.zeros(MAX_LANES * BLOCK)

    @staticmethod
    def supports(Features features, ContextSets contexts):
        """Return whether there are few contexts, of order 1, and only codes."""
        return (contexts.order == 1 and contexts.n_labels < MAX_LANES
                and features.codes.shape[1] > 0 and not features.bit_columns.shape[0]
                and features.list_bins[features.width] == features.list_bins[0])

    cdef bint begin(self, bint has_curvature) noexcept nogil:
        """Set all sums to 0; return False if there are too many for a bin."""
        cdef Py_ssize_t n_sums = self.n_labels * (1 + has_curvature) + (not has_curvature)
        if n_sums > MAX_LANES:
            return False
        self.has_curvature = has_curvature
        self.n_lanes = 4 if n_sums <= 4 else 8
        self.n_bins = self.chosen.n_bins
        memset(&self.bins[0], 0, self.n_lanes * (self.n_bins + 1) * sizeof(double))
        memset(&self.starts[0], 0, 2 * (self.n_bins + 1) * sizeof(double))
        self.block[:] = 0.0
        return True

    cdef void add_starts(self, Members members) noexcept nogil:
        """Add the listed first positions."""
        cdef Py_ssize_t i, k
        self.features.add_windows(self.chosen, members.rows, members.n, members.values,
                                  &self.starts[0], 2)
        for i in range(members.n):
            for k in range(2):
                self.starts[2 * self.n_bins + k] += members.values[2 * i + k]

    cdef void add(self, Members members) noexcept nogil:
        """Add the listed other positions."""
        cdef Py_ssize_t i = 0, n
        while i < members.n:
            n = min(<Py_ssize_t> BLOCK, members.n - i)
            members.fill_lanes(i, n, &self.block[0], self.n_lanes)
            self.features.add_lanes(self.chosen, members.rows + i, n, &self.block[0],
                                    self.n_lanes, &self.bins[0],
                                    &self.bins[self.n_lanes * self.n_bins])
            i += n

    cdef void sum_into(self, Node *node, const ContextSet *contexts) noexcept nogil:
        """Set the sums of a node with all positions."""
        cdef double pair[2]
        self._sum_bin(contexts, self.n_bins, pair)
        node.total, node.weight, node.examples = pair[0], pair[1], pair[1]

    cdef void write(self, const ContextSet *contexts, Histogram histogram) noexcept nogil:
        """Write the histogram of a node with all positions."""
        cdef Py_ssize_t b, c, n_extended = self.contexts.n_extended
        cdef double *totals = histogram.contexts
        cdef double *weights = totals + n_extended
        cdef double *counts = weights + n_extended
        cdef const double *sums = &self.bins[self.n_lanes * self.n_bins]
        cdef const double *start = &self.starts[2 * self.n_bins]
        for b in range(self.n_bins):
            self._sum_bin(contexts, b, histogram.bins + 2 * b)
        for c in range(self.n_labels):
            totals[c] = contexts.members[c] * sums[c]
            weights[c] = contexts.members[c] * sums[self.n_labels + c * self.has_curvature]
        totals[self.n_labels] = contexts.members[self.n_labels] * start[0]
        weights[self.n_labels] = contexts.members[self.n_labels] * start[1]
        for c in range(n_extended):
            counts[c] = weights[c]

    cdef inline void _sum_bin(self, const ContextSet *contexts, Py_ssize_t b,
                              double *pair) noexcept nogil:
        """Sum a bin over some contexts. The context of first positions follows the others."""
        cdef Py_ssize_t c
        cdef const double *lanes = &self.bins[self.n_lanes * b]
        cdef const double *member = contexts.members
        cdef double total = 0.0, weight = 0.0
        for c in range(self.n_labels):
            total += member[c] * lanes[c]
            weight += member[c] * lanes[self.n_labels + c * self.has_curvature]
        pair[0] = total + member[self.n_labels] * self.starts[2 * b]
        pair[1] = weight + member[self.n_labels] * self.starts[2 * b + 1]
