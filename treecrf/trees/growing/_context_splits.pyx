"""The best test of a previous label, from the sums over each context of a node."""

import numpy as np

from libc.string cimport memset

from treecrf.trees.growing._context_sets cimport ContextSets
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._splits cimport SplitSearch


cdef class ContextSplitSearch:
    """Search for the best test of a previous label."""

    def __init__(self, SplitSearch splits, ContextSets contexts, Py_ssize_t n_window_bins):
        self.splits = splits
        self.contexts = contexts
        self.n_window_bins = n_window_bins
        self.lag_sums = np.empty(3 * (contexts.n_labels + 1))

    cdef double find(self, Node *node, const double *sums, double best) noexcept nogil:
        """Find the best test of a node, if it is better than the best so far; return its score."""
        cdef Py_ssize_t lag, symbol, n = self.contexts.n_labels + 1
        cdef double *totals = &self.lag_sums[0]
        cdef double *weights = totals + n
        cdef double *examples = totals + 2 * n if self.splits.with_counts else weights
        cdef double pair[2]
        cdef double score, unsplit = 0.0
        if self.contexts.sets[node.contexts].one_context:
            return best
        if self.splits.by_gain:
            unsplit = self.splits.score(node, node.total, node.weight)
        for lag in range(self.contexts.order):
            self._sum_by_symbol(sums, lag)
            for symbol in range(n):
                if (examples[symbol] < self.splits.min_examples
                        or node.examples - examples[symbol] < self.splits.min_examples):
                    continue
                pair[0] = totals[symbol]
                pair[1] = weights[symbol]
                self.splits.split_scores(node, pair, 1, node.total, node.weight, 0.0, &score)
                if score - unsplit > best:
                    node.sign = 0
                    best = score - unsplit
                    node.test = self.n_window_bins + lag * n + symbol
                    node.run = -1
                    node.true_total = totals[symbol]
                    node.true_weight = weights[symbol]
                    node.true_examples = examples[symbol]
        return best

    cdef void _sum_by_symbol(self, const double *sums, Py_ssize_t lag) noexcept nogil:
        """Sum over the contexts that have each symbol at a lag."""
        cdef Py_ssize_t e, k, n = self.contexts.n_labels + 1, n_extended = self.contexts.n_extended
        cdef double *lag_sums = &self.lag_sums[0]
        memset(lag_sums, 0, 3 * n * sizeof(double))
        for e in range(n_extended):
            for k in range(3):
                lag_sums[k * n + self.contexts.symbols[e, lag]] += sums[k * n_extended + e]
