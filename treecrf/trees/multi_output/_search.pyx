"""The test of a node that is best for all labels together.

The score of a test is the sum of its scores for each label, in the order of the blocks. Labels
without any weight on a side have the score 0 there. A test is valid if both sides have some weight,
whatever the label. With missing values, tests compete by gain, as in ``treecrf.trees.growing``.
"""

import numpy as np
from scipy.special import chdtri

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Bins
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._splits cimport Run, SplitSearch
from treecrf.trees.growing._tests cimport EACH, SUFFIX
from treecrf.trees.multi_output._blocks cimport BlockHistograms, LabelBlock, LabelBlocks

cdef extern from "trees/multi_output/label_blocks.h" nogil:
    double block_score(const double *lanes, double penalty, int width)
    void score_run(const double *bins, Py_ssize_t n, int kind, const double *all, double penalty,
                   double *scores, int width)
    void sum_bins(const double *bins, Py_ssize_t n, int n_lanes, double *sums)

# Where values are missing at random, this share of the tests of whether they are has a gain above
# the limit, which is for one label in the settings.
SIGNIFICANCE = 0.05


def limit_ratio(n_labels):
    """Return by how much the limit of significant gains grows with the number of labels.

    The gain of Newton steps is a sum over the labels, about chi-squared with as many degrees of
    freedom.
    """
    return round(chdtri(n_labels, SIGNIFICANCE) / chdtri(1, SIGNIFICANCE), 2)


cdef class BlockSplitSearch:
    """Search for the best test of a node, whose histogram is known."""

    def __init__(self, SplitSearch splits, LabelBlocks blocks, BlockHistograms histograms):
        cdef Py_ssize_t n_tests = histograms.tree_bins.n_bins + len(splits.run_starts)
        self.splits = splits
        self.blocks = blocks
        self.histograms = histograms
        self.with_counts = histograms.with_counts
        limits = np.asarray(splits.run_limits)
        self.limits = np.where(limits > 0, limits * limit_ratio(blocks.n_labels), limits)
        self.scores = np.zeros(n_tests + 1)
        self.unsplit = np.zeros(len(splits.run_starts) + 1)
        self.lanes = np.zeros(blocks.n_lanes)
        self.passed = np.zeros(blocks.n_lanes)

    cdef bint find(self, Node *node, const double *sums, double *passed) noexcept nogil:
        """Find the best test of a node with these sums; return whether its gain is large enough.

        The sums of the examples that pass it are written to ``passed``.
        """
        cdef Candidate best
        cdef Run *run
        cdef Py_ssize_t n_runs
        node.test = -1
        node.run = -1
        if self.with_counts and node.examples < 2 * self.splits.min_examples:
            return False
        n_runs = self._list_runs()
        self._score(node, sums, n_runs)
        best = self._best(node, sums, n_runs, passed)
        if best.run < 0:
            return False
        node.gain = best.score if self.splits.by_gain else best.score - self.score(sums)
        if not node.gain > self.splits.min_gain:
            return False
        run = &self.splits.runs[best.run]
        node.run = run.r
        node.test = self.histograms.bin_at(run.first + best.e)
        node.true_examples = self._count(node, run, best.e)
        return True

    cdef Py_ssize_t _list_runs(self) noexcept nogil:
        """List the runs that the node may test; return their number."""
        cdef Bins bins = Bins(self.histograms.tree_bins.n_bins, 0, NULL, NULL, NULL)
        if not self.histograms.tree_bins.is_all:
            bins.bins = &self.histograms.tree_bins.bins[0]
        return self.splits._list_runs(&bins)

    cdef void _score(self, const Node *node, const double *sums,
                     Py_ssize_t n_runs) noexcept nogil:
        """Score all tests, one block after another."""
        cdef Py_ssize_t b, i, start
        cdef const LabelBlock *block
        cdef const Run *run
        cdef const double *bins
        cdef const double *lanes
        cdef double penalty = self.splits.penalty
        memset(&self.scores[0], 0, self.scores.shape[0] * sizeof(double))
        memset(&self.unsplit[0], 0, self.unsplit.shape[0] * sizeof(double))
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            bins = self.histograms.bins_of(node, b)
            start = 0
            for i in range(n_runs):
                run = &self.splits.runs[i]
                lanes = self._sums_of_run(node, sums, run, b)
                if self.splits.by_gain:
                    self.unsplit[i] += block_score(lanes, penalty, block.width)
                score_run(bins + 2 * block.width * run.first, run.n,
                          self.splits.run_kinds[run.r], lanes, penalty, &self.scores[start],
                          block.width)
                start += run.n

    cdef const double *_sums_of_run(self, const Node *node, const double *sums, const Run *run,
                                    Py_ssize_t b) noexcept nogil:
        """Return the sums over the labels of a block, of the examples that have a run's value."""
        cdef const LabelBlock *block = &self.blocks.blocks[b]
        cdef Py_ssize_t k, n_lanes = 2 * block.width
        cdef int64_t missing = self.splits.run_missing[run.r]
        cdef const double *lacking
        if missing < 0:
            return sums + block.lane
        lacking = (self.histograms.bins_of(node, b)
                   + n_lanes * self.histograms.place_of(missing))
        for k in range(n_lanes):
            self.lanes[k] = sums[block.lane + k] - lacking[k]
        return &self.lanes[0]

    cdef Candidate _best(self, const Node *node, const double *sums, Py_ssize_t n_runs,
                         double *passed) noexcept nogil:
        """Return the best of the valid tests, the first one if there are ties."""
        cdef Candidate best = Candidate(-1, 0, -1.0)
        cdef Py_ssize_t i, e, start = 0
        cdef const Run *run
        cdef double score, limit
        for i in range(n_runs):
            run = &self.splits.runs[i]
            limit = max(best.score, self.limits[run.r])
            for e in range(run.n):
                score = self.scores[start + e] - self.unsplit[i]
                if not (score > limit and self._is_allowed(node, run, e)):
                    continue
                self._sum_passed(node, run, e)
                if self._has_two_sides(node, sums, run):
                    best = Candidate(i, e, score)
                    limit = score
                    memcpy(passed, &self.passed[0], self.blocks.n_lanes * sizeof(double))
            start += run.n
        return best

    cdef bint _has_two_sides(self, const Node *node, const double *sums,
                             const Run *run) noexcept nogil:
        """Return whether the examples that pass a test have weight, and those that fail it."""
        cdef Py_ssize_t b, k
        cdef const LabelBlock *block
        cdef const double *weights
        cdef const double *passed
        cdef bint some_pass = False, some_fail = False
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            weights = self._sums_of_run(node, sums, run, b) + block.width
            passed = &self.passed[block.lane + block.width]
            for k in range(block.n_labels):
                some_pass |= passed[k] > 0
                some_fail |= weights[k] - passed[k] > 0
        return some_pass and some_fail

    cdef bint _is_allowed(self, const Node *node, const Run *run, Py_ssize_t e) noexcept nogil:
        """Return whether a bin is a test that the node may use, with enough examples."""
        cdef int64_t b = self.histograms.bin_at(run.first + e)
        cdef double n_passed, n
        if b >= self.splits.run_ends[run.r]:
            return False
        if self.splits.run_features[run.r] < 0 and not self.splits.chosen[
                self.histograms.tree_bins.bin_features[b]]:
            return False
        if not self.with_counts:
            return True
        n = node.examples
        if self.splits.run_missing[run.r] >= 0:
            n -= self.histograms.counts_of(node)[
                self.histograms.place_of(self.splits.run_missing[run.r])]
        n_passed = self._count(node, run, e)
        return n_passed >= self.splits.min_examples and n - n_passed >= self.splits.min_examples

    cdef double _count(self, const Node *node, const Run *run, Py_ssize_t e) noexcept nogil:
        """Return the number of examples that pass a test, if examples are counted."""
        cdef const double *counts
        cdef Py_ssize_t i, first, n
        cdef double total = 0.0
        if not self.with_counts:
            return 0.0
        counts = self.histograms.counts_of(node) + run.first
        first = passing_bins(self.splits.run_kinds[run.r], e, run.n, &n)
        for i in range(first, first + n):
            total += counts[i]
        return total

    cdef void _sum_passed(self, const Node *node, const Run *run, Py_ssize_t e) noexcept nogil:
        """Sum the bins of the examples that pass a test."""
        cdef Py_ssize_t b, n, first = passing_bins(self.splits.run_kinds[run.r], e, run.n, &n)
        cdef const LabelBlock *block
        cdef const double *bins
        memset(&self.passed[0], 0, self.blocks.n_lanes * sizeof(double))
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            bins = self.histograms.bins_of(node, b) + 2 * block.width * (run.first + first)
            sum_bins(bins, n, 2 * block.width, &self.passed[block.lane])

    cdef double score(self, const double *sums) noexcept nogil:
        """Return the score of examples in one leaf."""
        cdef Py_ssize_t b
        cdef const LabelBlock *block
        cdef double total = 0.0
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            total += block_score(sums + block.lane, self.splits.penalty, block.width)
        return total

    cdef int64_t missing_bin(self, const Node *node) noexcept nogil:
        """Return the bin of rows that lack the value of a node's test; -1 where no row does."""
        return self.splits.run_missing[node.run]


cdef inline Py_ssize_t passing_bins(uint8_t kind, Py_ssize_t e, Py_ssize_t n_bins,
                                    Py_ssize_t *n) noexcept nogil:
    """Return the first bin of a run that passes its e-th test, and set the number of such bins."""
    if kind == EACH:
        n[0] = 1
        return e
    if kind == SUFFIX:
        n[0] = n_bins - e - 1
        return e + 1
    n[0] = e + 1
    return 0
