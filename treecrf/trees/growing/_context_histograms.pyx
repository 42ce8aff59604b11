"""Histograms of all positions, separately for each context.

Trees often test the previous label first, and a node below such tests alone has all positions. One
pass over the positions sums up each context, and the histograms of all these nodes follow from it.
A bin is a row of lanes: the residuals of each context, then the weights, which are the same in all
contexts unless there is curvature.
"""

import numpy as np

from libc.string cimport memset

from treecrf.trees.growing._chosen_bins cimport ChosenBins
from treecrf.trees.growing._context_sets cimport ContextSet, ContextSets
from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._histograms cimport Histogram
from treecrf.trees.growing._members cimport Members
from treecrf.trees.growing._nodes cimport Node

# With more lanes, separate passes take less time if trees do not test all labels.
cdef enum:
    MAX_LANES = 8
    # Rows at a time.
    BLOCK = 128


cdef class ContextHistograms:
    """Histograms of all positions by previous label; see `supports`."""

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
                and features.has_codes_only())

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
