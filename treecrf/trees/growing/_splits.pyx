"""The best split of a node, from its histogram alone.

A test is scored on the examples whose value is not missing. With missing values, tests compete by
gain instead of score, because each has its own examples.

Where a histogram lists only the bins that hold anything, the result is the same: a test of an empty
bin has the score of a test of a lower bin, or no examples on one side.
"""

import math

import numpy as np

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc

from treecrf.trees.growing._bins cimport Bins
from treecrf.trees.growing._nodes cimport Node, mixed_with
from treecrf.trees.growing._search cimport lower_bound
from treecrf.trees.growing._tests cimport EACH, SUFFIX

cdef extern from "utils/histograms.h" nogil:
    void split_scores(const double *pairs, Py_ssize_t n, double total, double weight,
                      double penalty, double smallest, double *out)


cdef class SplitSearch:
    """Search for the best test of a node.

    Parameters
    ----------
    tests : treecrf.trees.growing.window_tests.TestTable
    growth : treecrf.trees.growing.growth.Growth
    n_label_bins : int
        Number of bins of previous labels, each of which is a test; they follow those of windows.
    with_counts : bool
        Whether examples are counted separately from their weights.
    """

    def __init__(self, tests, growth, Py_ssize_t n_label_bins, bint with_counts):
        n_bins = tests.n_bins + n_label_bins
        label_run = [tests.n_bins] if n_label_bins else []
        order = np.argsort(tests.run_starts, kind="stable")
        self.run_starts = np.append(tests.run_starts[order], label_run).astype(np.int64)
        self.run_ends = np.append(tests.run_ends[order],
                                  [n_bins for _ in label_run]).astype(np.int64)
        self.run_kinds = np.append(tests.run_kinds[order],
                                   [EACH for _ in label_run]).astype(np.uint8)
        self.run_missing = np.append(tests.run_missing[order],
                                     [-1 for _ in label_run]).astype(np.int64)
        self.with_missing = np.max(self.run_missing, initial=-1) >= 0
        self.feature_starts = tests.feature_starts
        self.n_features = tests.n_features
        self.n_chosen = max(1, math.ceil(growth.max_features * tests.n_features))
        self.chosen = np.ones(tests.n_features + 1, dtype=np.uint8)
        self.of_tree = None
        self.penalty = growth.l2_regularization
        self.min_gain = growth.min_gain
        self.min_examples = growth.min_examples
        self.with_counts = with_counts

    def __dealloc__(self):
        free(self.scores)
        free(self.running)
        free(self.running_counts)

    def choose(self, of_tree):
        """Set the features that a tree may test; uint8 array (n_features,), or None for all."""
        self.of_tree = of_tree

    cdef double find(self, Node *node, const Bins *histogram) noexcept nogil:
        """Find the best test of a node, and return its score, or with missing values its gain."""
        cdef Py_ssize_t r, first = 0, last = 0
        cdef double best = -1.0
        node.test = node.run = -1
        if not self._make_room(histogram.n + 1):
            return best
        if self.n_chosen < self.n_features:
            sample(node.seed, self.n_features, self.n_chosen, &self.chosen[0])
        if node.examples >= 2 * self.min_examples:
            for r in range(self.run_starts.shape[0]):
                self._find_run(histogram, r, &first, &last)
                if last > first:
                    best = self._score_run(node, histogram, r, first, last, best)
        return best

    cdef bint decide(self, Node *node, double best) noexcept nogil:
        """Set the gain of a node's best test; return whether it is large enough."""
        node.gain = best if self.with_missing else best - self.score(node.total, node.weight)
        return node.test >= 0 and node.gain > self.min_gain

    cdef void _find_run(self, const Bins *histogram, Py_ssize_t r, Py_ssize_t *first,
                        Py_ssize_t *last) noexcept nogil:
        """Find the bins of a run, after those of the run before it."""
        # Thresholds have one bin more than there are tests.
        cdef int64_t end = self.run_ends[r] + (self.run_kinds[r] == SUFFIX)
        if histogram.bins == NULL:
            first[0], last[0] = self.run_starts[r], end
            return
        while first[0] < histogram.n and histogram.bins[first[0]] < self.run_starts[r]:
            first[0] += 1
        last[0] = first[0]
        while last[0] < histogram.n and histogram.bins[last[0]] < end:
            last[0] += 1

    cdef int64_t missing_bin(self, const Node *node) noexcept nogil:
        """Return the bin of rows that lack the value of a node's test; -1 where no row does."""
        return self.run_missing[node.run] if node.run >= 0 else -1

    cdef double share(self, const Node *node, const Bins *histogram,
                      bint of_counts) noexcept nogil:
        """Compute the fraction that passes a node's test, of the examples that have its value."""
        cdef Py_ssize_t e = position_of(histogram, self.missing_bin(node))
        if of_counts:
            return node.true_examples / (
                node.examples - (histogram.counts[e] if e >= 0 else 0.0))
        return node.true_weight / (
            node.weight - (histogram.pairs[2 * e + 1] if e >= 0 else 0.0))

    cdef bint _make_room(self, Py_ssize_t n) noexcept nogil:
        if n <= self.room:
            return True
        self.scores = <double *> realloc(self.scores, n * sizeof(double))
        self.running = <double *> realloc(self.running, 2 * n * sizeof(double))
        self.running_counts = <double *> realloc(self.running_counts, n * sizeof(double))
        self.failed = (self.scores == NULL or self.running == NULL
                       or self.running_counts == NULL)
        self.room = 0 if self.failed else n
        return not self.failed

    cdef double score(self, double total, double weight) noexcept nogil:
        """Return the score of a node that is not split."""
        if not self.penalty + weight > 0:
            return 0.0
        return total * total / (self.penalty + weight)

    cdef double _score_run(self, Node *node, const Bins *histogram, Py_ssize_t r,
                           Py_ssize_t first, Py_ssize_t last, double best) noexcept nogil:
        """Find the best test of a run of bins, if it is better than all so far."""
        cdef Py_ssize_t e, n = last - first, missing = position_of(histogram, self.run_missing[r])
        cdef double total = node.total, weight = node.weight, examples = node.examples
        cdef int64_t test
        cdef double score
        cdef double *scores = self.scores
        cdef double unsplit = 0.0, smallest = 0.0 if self.with_counts else self.min_examples
        cdef uint8_t kind = self.run_kinds[r]
        # Rows that list no value are above no threshold: all others may be.
        cdef bint above_all = kind == SUFFIX and bin_at(histogram, first) > self.run_starts[r]
        cdef const double *pairs = histogram.pairs + 2 * first
        cdef const double *counts = NULL
        if missing >= 0:
            total -= histogram.pairs[2 * missing]
            weight -= histogram.pairs[2 * missing + 1]
        if self.with_counts:
            counts = histogram.counts + first
            if missing >= 0:
                examples -= histogram.counts[missing]
        if kind != EACH:
            accumulate(pairs, self.running, n, 2, kind, above_all)
            pairs = self.running
            if self.with_counts:
                accumulate(counts, self.running_counts, n, 1, kind, above_all)
                counts = self.running_counts
        n += above_all
        split_scores(pairs, n, total, weight, self.penalty, smallest, self.scores)
        if self.with_counts:
            self._exclude_small(counts, n, examples)
        self._exclude_features(histogram, first, n, above_all)
        if self.with_missing:
            unsplit = self.score(total, weight)
        for e in range(n):
            score = scores[e] - unsplit
            if score > best:
                test = (self.run_starts[r] if e < above_all
                        else bin_at(histogram, first + e - above_all))
                if test >= self.run_ends[r]:
                    continue
                best = score
                node.test = test
                node.run = r
                node.true_total = pairs[2 * e]
                node.true_weight = pairs[2 * e + 1]
                node.true_examples = counts[e] if self.with_counts else node.true_weight
        return best

    cdef void _exclude_small(self, const double *counts, Py_ssize_t n,
                             double examples) noexcept nogil:
        """Exclude tests with too few examples in a child."""
        cdef Py_ssize_t e
        for e in range(n):
            if counts[e] < self.min_examples or examples - counts[e] < self.min_examples:
                self.scores[e] = -1.0

    cdef void _exclude_features(self, const Bins *histogram, Py_ssize_t first, Py_ssize_t n,
                                bint above_all) noexcept nogil:
        """Exclude the tests of features that were not sampled for the tree or the node.

        All bins of a run of thresholds belong to one feature.
        """
        cdef Py_ssize_t e, f
        if self.n_chosen == self.n_features and self.of_tree is None:
            return
        f = feature_of(self.feature_starts, bin_at(histogram, first))
        for e in range(n):
            while (f < self.n_features and self.feature_starts[f + 1]
                    <= bin_at(histogram, first + max(0, e - above_all))):
                f += 1
            if f < self.n_features and not (
                    self.chosen[f] and (self.of_tree is None or self.of_tree[f])):
                self.scores[e] = -1.0


cdef inline int64_t bin_at(const Bins *histogram, Py_ssize_t e) noexcept nogil:
    """Return the number of the e-th bin of a histogram."""
    return e if histogram.bins == NULL else histogram.bins[e]


cdef Py_ssize_t feature_of(const int64_t[::1] starts, int64_t b) noexcept nogil:
    """Return the feature of a bin, the last of those that begin at it or below."""
    cdef Py_ssize_t low = 0, high = starts.shape[0] - 1, middle
    while low < high:
        middle = (low + high) // 2
        if starts[middle + 1] <= b:
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t position_of(const Bins *histogram, int64_t b) noexcept nogil:
    """Return the index of a bin in a histogram, -1 if it is empty."""
    cdef Py_ssize_t found
    if b < 0 or histogram.bins == NULL:
        return b
    found = lower_bound(histogram.bins, 0, histogram.n, b)
    return found if found < histogram.n and histogram.bins[found] == b else -1


cdef void accumulate(const double *bins, double *out, Py_ssize_t n, int stride, uint8_t kind,
                     bint above_all) noexcept nogil:
    """Sum the bins after each bin (SUFFIX) or up to each bin (PREFIX).

    With ``above_all``, the sums after the bins follow the sum of all.
    """
    cdef Py_ssize_t e, k
    cdef double total
    for k in range(stride):
        total = 0.0
        if kind == SUFFIX:
            for e in range(n - 1, -1, -1):
                out[stride * (e + above_all) + k] = total
                total += bins[stride * e + k]
            if above_all:
                out[k] = total
        else:
            for e in range(n):
                total += bins[stride * e + k]
                out[stride * e + k] = total


cdef void sample(uint64_t seed, Py_ssize_t n_features, Py_ssize_t n_chosen,
                 uint8_t *chosen) noexcept nogil:
    """Choose exactly ``n_chosen`` features of a node (Knuth's selection sampling)."""
    cdef Py_ssize_t f
    cdef double random
    for f in range(n_features):
        random = (mixed_with(seed, f) >> 11) * 2.0 ** -53
        chosen[f] = random * (n_features - f) < n_chosen
        n_chosen -= chosen[f]
