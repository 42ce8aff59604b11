"""The best split of a node, from its histogram alone.

A test is scored on the examples whose value is not missing. With missing values, tests compete by
gain instead of score, because each has its own examples.
"""

import math

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from treecrf.trees.growing._context_sets cimport ContextSets
from treecrf.trees.growing._histograms cimport Histogram
from treecrf.trees.growing._nodes cimport Node, mixed_with
from treecrf.trees.growing._tests cimport EACH, PREFIX, SUFFIX

cdef extern from "utils/histograms.h" nogil:
    void split_scores(const double *pairs, Py_ssize_t n, double total, double weight,
                      double penalty, double smallest, double *out)


cdef class SplitSearch:
    """Search for the best test of a node.

    Parameters
    ----------
    tests : treecrf.trees.growing.window_tests.TestTable
    growth : treecrf.trees.growing.growth.Growth
    contexts : ContextSets
    n_label_bins : int
        Number of bins of previous labels, each of which is a test; they follow those of windows.
    separate_counts : bool
        Whether examples are counted separately from their weights.
    """

    def __init__(self, tests, growth, ContextSets contexts, Py_ssize_t n_label_bins,
                 bint separate_counts):
        cdef Py_ssize_t n_bins = tests.n_bins + n_label_bins
        label_run = [tests.n_bins] if n_label_bins else []
        self.contexts = contexts
        self.n_window_bins = tests.n_bins
        self.feature_starts = tests.feature_starts
        self.run_starts = np.append(tests.run_starts, label_run).astype(np.int64)
        self.run_ends = np.append(tests.run_ends, [n_bins for _ in label_run]).astype(np.int64)
        self.run_kinds = np.append(tests.run_kinds, [EACH for _ in label_run]).astype(np.uint8)
        self.run_missing = np.append(tests.run_missing, [-1 for _ in label_run]).astype(np.int64)
        self.with_missing = np.max(self.run_missing, initial=-1) >= 0
        self.penalty = growth.l2_regularization
        self.min_gain = growth.min_gain
        self.min_examples = growth.min_examples
        self.n_chosen = max(1, math.ceil(growth.max_features * tests.n_features))
        self.separate_counts = separate_counts
        self.scores = np.empty(n_bins + 1)
        self.running = np.empty(2 * (n_bins + 1))
        self.lag_sums = np.empty(3 * (contexts.n_labels + 1))
        self.chosen = np.empty(tests.n_features + 1, dtype=np.uint8)

    def choose(self, of_tree):
        """Set the features that a tree may test; uint8 array (n_features,), or None for all."""
        self.of_tree = of_tree

    cdef bint find(self, Node *node, const Histogram *histogram) noexcept nogil:
        """Find the best test of a node; return whether its gain is large enough."""
        cdef double best = -1.0
        node.test = node.run = -1
        if node.examples >= 2 * self.min_examples:
            best = self._best_binned_test(node, histogram)
            best = self._best_context_test(node, histogram.contexts, best)
        node.gain = best if self.with_missing else best - self._score(node.total, node.weight)
        return node.test >= 0 and node.gain > self.min_gain

    cdef int64_t missing_bin(self, const Node *node) noexcept nogil:
        """Return the bin of rows that lack the value of a node's test; -1 where no row does."""
        return self.run_missing[node.run] if node.run >= 0 else -1

    cdef inline double _score(self, double total, double weight) noexcept nogil:
        """Return the score of a node that is not split."""
        if not self.penalty + weight > 0:
            return 0.0
        return total * total / (self.penalty + weight)

    cdef double _best_binned_test(self, Node *node, const Histogram *histogram) noexcept nogil:
        """Find the test with the highest score, or with missing values the highest gain."""
        cdef Py_ssize_t r, b
        cdef double best = -1.0
        for r in range(self.run_starts.shape[0]):
            self._score_run(node, histogram, r)
        if self.n_chosen < self.feature_starts.shape[0] - 1 or self.of_tree is not None:
            self._exclude_features(node.seed)
        for r in range(self.run_starts.shape[0]):
            for b in range(self.run_starts[r], self.run_ends[r]):
                if self.scores[b] > best:
                    best = self.scores[b]
                    node.test = b
                    node.run = r
        if node.test >= 0:
            self._sum_true_side(node, histogram)
        return best

    cdef void _score_run(self, const Node *node, const Histogram *histogram,
                         Py_ssize_t r) noexcept nogil:
        cdef Py_ssize_t b, start = self.run_starts[r], end = self.run_ends[r]
        cdef int64_t missing = self.run_missing[r]
        cdef double total = node.total, weight = node.weight, unsplit
        cdef double smallest = 0.0 if self.separate_counts else self.min_examples
        cdef const double *pairs = histogram.bins + 2 * start
        if missing >= 0:
            total -= histogram.bins[2 * missing]
            weight -= histogram.bins[2 * missing + 1]
        if self.run_kinds[r] != EACH:
            accumulate(histogram.bins, &self.running[0], start, end, 2, self.run_kinds[r])
            pairs = &self.running[0] + 2 * start
        split_scores(pairs, end - start, total, weight, self.penalty, smallest,
                     &self.scores[0] + start)
        if self.separate_counts:
            self._exclude_small(node, histogram.counts, r)
        if self.with_missing:
            unsplit = self._score(total, weight)
            for b in range(start, end):
                self.scores[b] -= unsplit

    cdef void _exclude_small(self, const Node *node, const double *counts,
                             Py_ssize_t r) noexcept nogil:
        """Exclude tests with too few examples in a child."""
        cdef Py_ssize_t b
        cdef int64_t missing = self.run_missing[r]
        cdef double examples = node.examples - (counts[missing] if missing >= 0 else 0.0)
        cdef const double *passed = counts
        if self.run_kinds[r] != EACH:
            accumulate(counts, &self.running[0], self.run_starts[r], self.run_ends[r], 1,
                       self.run_kinds[r])
            passed = &self.running[0]
        for b in range(self.run_starts[r], self.run_ends[r]):
            if passed[b] < self.min_examples or examples - passed[b] < self.min_examples:
                self.scores[b] = -1.0

    cdef void _exclude_features(self, uint64_t seed) noexcept nogil:
        """Exclude the tests of features that were not sampled for the node."""
        cdef Py_ssize_t f, b, n_features = self.feature_starts.shape[0] - 1
        sample(seed, n_features, self.n_chosen, &self.chosen[0])
        for f in range(n_features):
            if not self.chosen[f] or (self.of_tree is not None and not self.of_tree[f]):
                for b in range(self.feature_starts[f], self.feature_starts[f + 1]):
                    self.scores[b] = -1.0

    cdef void _sum_true_side(self, Node *node, const Histogram *histogram) noexcept nogil:
        """Sum over the examples that pass the node's test."""
        cdef Py_ssize_t r = node.run, b = node.test, end = node.test
        if self.run_kinds[r] == SUFFIX:
            b, end = b + 1, self.run_ends[r]
        elif self.run_kinds[r] == PREFIX:
            b = self.run_starts[r]
        node.true_total = node.true_weight = node.true_examples = 0.0
        for b in range(b, end + 1):
            node.true_total += histogram.bins[2 * b]
            node.true_weight += histogram.bins[2 * b + 1]
            if self.separate_counts:
                node.true_examples += histogram.counts[b]
        if not self.separate_counts:
            node.true_examples = node.true_weight

    cdef double _best_context_test(self, Node *node, const double *sums,
                                   double best) noexcept nogil:
        cdef Py_ssize_t lag, symbol, n = self.contexts.n_labels + 1
        cdef double *totals = &self.lag_sums[0]
        cdef double *weights = totals + n
        cdef double *examples = totals + 2 * n if self.separate_counts else weights
        cdef double pair[2]
        cdef double score, unsplit = 0.0
        if self.contexts.sets[node.contexts].one_context:
            return best
        if self.with_missing:
            unsplit = self._score(node.total, node.weight)
        for lag in range(self.contexts.order):
            self._sum_by_symbol(sums, lag)
            for symbol in range(n):
                if (examples[symbol] < self.min_examples
                        or node.examples - examples[symbol] < self.min_examples):
                    continue
                pair[0] = totals[symbol]
                pair[1] = weights[symbol]
                split_scores(pair, 1, node.total, node.weight, self.penalty, 0.0, &score)
                if score - unsplit > best:
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


cdef void accumulate(const double *bins, double *out, Py_ssize_t start, Py_ssize_t end,
                     int stride, uint8_t kind) noexcept nogil:
    """Sum the bins above each bin (SUFFIX) or up to each bin (PREFIX)."""
    cdef Py_ssize_t b, k
    cdef double total
    for k in range(stride):
        total = 0.0
        if kind == SUFFIX:
            for b in range(end - 1, start - 1, -1):
                total += bins[stride * (b + 1) + k]
                out[stride * b + k] = total
        else:
            for b in range(start, end):
                total += bins[stride * b + k]
                out[stride * b + k] = total


cdef void sample(uint64_t seed, Py_ssize_t n_features, Py_ssize_t n_chosen,
                 uint8_t *chosen) noexcept nogil:
    """Choose exactly ``n_chosen`` features of a node (Knuth's selection sampling)."""
    cdef Py_ssize_t f
    cdef double random
    for f in range(n_features):
        random = (mixed_with(seed, f) >> 11) * 2.0 ** -53
        chosen[f] = random * (n_features - f) < n_chosen
        n_chosen -= chosen[f]
