"""The best split of a node, from its histogram and its sums over contexts.

A test is scored on the examples whose value is not missing. With missing values, tests compete by
gain instead of score, because each has its own examples. Whether a value is missing is a test of
all examples, but only if its gain is significant: where values are missing at random, such tests
are noise with large and balanced sides, which the penalty hardly shrinks.

A test of a feature with a monotonic constraint is valid only if it keeps the order of the
children's values. Their leaves are then bounded by the mean of both values, as in LightGBM's basic
method, and a score is that of the value within these bounds.

A histogram may list only the bins that hold anything; the result is the same, because a test of an
empty bin has the score of a test of a lower bin, or no examples on one side.
"""

import math

import numpy as np

from libc.math cimport INFINITY, ceil
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.encoding.column_layout import MISSING

from treecrf.chains._memory cimport resize_doubles
from treecrf.trees.growing._features cimport Bins
from treecrf.trees.growing._nodes cimport Node, bounded_value
from treecrf.trees.growing._sets cimport ContextSets
from treecrf.trees.growing._tests cimport EACH, PREFIX, SUFFIX, lower_bound

cdef extern from "utils/hashing.h" nogil:
    void draw_ranks(uint64_t seed, const int32_t *items, Py_ssize_t n, int32_t *ranks)

cdef extern from "trees/growing/histograms.h" nogil:
    void split_scores(const double *pairs, Py_ssize_t n, double total, double weight,
                      double penalty, double smallest, double *out)
    float largest_split_score(const double *pairs, Py_ssize_t n, double total, double weight,
                              double penalty, double smallest)
    void sum_up(const double *bins, double *out, Py_ssize_t n, bint suffix)
    double bounded_score(double total, double weight, double lower, double upper)
    void bounded_split_scores(const double *pairs, Py_ssize_t n, double total, double weight,
                              double penalty, double smallest, double lower, double upper,
                              double *out)

# Runs of at least this many bins are scored in single precision first, with one division instead of
# two, and twice as many scores in a vector. A run whose best score is clearly below another's needs
# no exact scores. With few bins, exact scores alone take less time than those of both kinds.
cdef Py_ssize_t MANY_BINS = 64
# Bound of the relative error of scores in single precision, twice that in ``histograms.h``.
cdef double NEAR = 4e-6
# Divisors and scores for which this bound holds.
cdef double MIN_DIVISOR = 1e-6
cdef double MAX_DIVISOR = 1e15
cdef double MIN_SCORE = 1e-12
cdef double MAX_SCORE = 1e30


cdef class SplitSearch:
    """Search for the best test of a node.

    Each bin of a previous label is a test as well; they follow the window tests.
    """

    def __init__(self, tests, settings, Py_ssize_t n_label_bins, bint with_counts):
        self.penalty = settings.l2_regularization
        self.min_gain = settings.min_gain
        self.min_examples = settings.min_examples
        self.with_counts = with_counts
        self.columns = tests.columns
        self.values = tests.values
        self._order_runs(tests, n_label_bins, settings.min_missing_gain)
        self.first_label = tests.n_bins
        self.label_places = places_of_labels(settings.label_ranks, n_label_bins)
        self.n_features = tests.n_features
        self.feature_starts = tests.feature_starts
        self.max_features = settings.max_features
        self.n_chosen = max(1, math.ceil(settings.max_features * tests.n_features))
        self.every = np.arange(tests.n_features + 1, dtype=np.int32)
        self.features = np.zeros(tests.n_features + 1, dtype=np.int32)
        self.ranks = np.zeros(tests.n_features + 1, dtype=np.int32)
        # Labels follow the features.
        self.chosen = np.ones(tests.n_features + 1, dtype=np.uint8)
        self.tree_features = np.ones(tests.n_features + 1, dtype=np.uint8)
        self.signs = None
        self.groups = None
        if settings.constraints is not None:
            self._set_constraints(settings.constraints, tests)
        self.by_gain = self.with_missing or self.signs is not None
        self.draws = self.n_chosen < self.n_features
        self.chooses = self.draws or self.has_interactions

    def _order_runs(self, tests, Py_ssize_t n_label_bins, double min_missing_gain):
        """Sort the runs of window tests by their bins; the run of previous labels follows."""
        order = np.argsort(tests.run_starts, kind="stable")
        starts = tests.run_starts[order]
        ends = tests.run_ends[order]
        kinds = tests.run_kinds[order]
        missing = tests.run_missing[order]
        features = tests.run_features[order]
        limits = np.where(tests.values[starts] == MISSING, min_missing_gain, -1.0)
        if n_label_bins:
            starts = np.append(starts, tests.n_bins)
            ends = np.append(ends, tests.n_bins + n_label_bins)
            kinds = np.append(kinds, EACH)
            missing = np.append(missing, -1)
            features = np.append(features, -1)
            limits = np.append(limits, -1.0)
        self.run_starts = starts.astype(np.int64)
        self.run_ends = ends.astype(np.int64)
        self.run_kinds = kinds.astype(np.uint8)
        self.run_missing = missing.astype(np.int64)
        self.run_features = features.astype(np.int64)
        self.run_limits = limits
        self.with_missing = np.max(self.run_missing, initial=-1) >= 0
        self.runs = <Run *> malloc((len(self.run_starts) + 1) * sizeof(Run))
        if self.runs == NULL:
            raise MemoryError(f"no memory for {len(self.run_starts)} runs of tests")

    def _set_constraints(self, constraints, tests):
        self.signs = constraints.signs
        self.groups = constraints.groups
        self.max_in_branch = constraints.max_in_branch
        self.has_interactions = self.groups is not None or self.max_in_branch > 0
        self.sources = constraints.sources_of(tests)
        self.inputs = constraints.features
        self.on_path = np.zeros(constraints.n_features + 1, dtype=np.uint8)
        self.allowed = np.zeros(constraints.n_features + 1, dtype=np.uint8)

    def __dealloc__(self):
        free(self.runs)
        free(self.scores)
        free(self.running)
        free(self.running_counts)

    def choose(self, chosen, Py_ssize_t label):
        """Set the label of the next tree, which has its own constraints, and its features.

        ``chosen`` is a uint8 array (n_features,), or None for all.
        """
        np.asarray(self.tree_features)[:self.n_features] = 1 if chosen is None else chosen
        self.label = label
        self.chosen[:] = self.tree_features

    cdef double find(self, Node *node, const Bins *histogram,
                     int64_t end_of_shared) noexcept nogil:
        """Find the best test of a node, and return its score, or with missing values its gain.

        The bins before ``end_of_shared`` may be of features that the node may not test.
        """
        cdef Py_ssize_t i, n
        cdef Run *run
        cdef double best = -1.0, floor = -INFINITY, score, limit
        node.test = -1
        node.run = -1
        node.sign = 0
        if not self._make_room(histogram.n + 2) or node.examples < 2 * self.min_examples:
            return best
        n = self._list_runs(histogram)
        for i in range(n):
            run = &self.runs[i]
            self._set_sums(node, histogram, run)
            self._set_bounds(node, histogram, run)
            if not self.with_counts and self.signs is None:
                floor = max(floor, run.least)
        for i in range(n):
            run = &self.runs[i]
            if run.most > best and run.most >= floor:
                limit = max(best, self.run_limits[run.r])
                score = self._score_run(node, histogram, run, end_of_shared, limit)
                if score > limit:
                    best = score
        return best

    cdef Py_ssize_t _list_runs(self, const Bins *histogram) noexcept nogil:
        """List the runs of which a histogram has bins that the node may test; return their number.
        """
        cdef Py_ssize_t r, n = 0, first = 0, last = 0
        cdef int64_t end
        cdef Run *run
        for r in range(self.run_starts.shape[0]):
            # Thresholds have one bin more than there are tests.
            end = self.run_ends[r] + (self.run_kinds[r] == SUFFIX)
            if histogram.bins == NULL:
                first = self.run_starts[r]
                last = end
            else:
                first = next_bin(histogram, first, self.run_starts[r])
                last = next_bin(histogram, first, end)
            if last > first and (
                    self.run_features[r] < 0 or self.chosen[self.run_features[r]]):
                run = &self.runs[n]
                run.r = r
                run.first = first
                run.n = last - first
                n += 1
        return n

    cdef void _set_sums(self, const Node *node, const Bins *histogram, Run *run) noexcept nogil:
        """Set the sums of the examples that have the value of a run."""
        cdef Py_ssize_t missing = position_of(histogram, self.run_missing[run.r])
        run.total = node.total
        run.weight = node.weight
        run.examples = node.examples
        if missing >= 0:
            run.total -= histogram.pairs[2 * missing]
            run.weight -= histogram.pairs[2 * missing + 1]
            if self.with_counts:
                run.examples -= histogram.counts[missing]
        run.unsplit = self.score(node, run.total, run.weight) if self.by_gain else 0.0
        # Rows that list no value are above no threshold: all others may be.
        run.above_all = (self.run_kinds[run.r] == SUFFIX
                         and bin_at(histogram, run.first) > self.run_starts[run.r])

    cdef void _set_bounds(self, const Node *node, const Bins *histogram, Run *run) noexcept nogil:
        """Set bounds of the best score of a run, if an estimate takes less time than the scores."""
        cdef double score
        cdef const double *pairs
        run.least = -INFINITY
        run.most = INFINITY
        if (run.n < MANY_BINS or self.run_kinds[run.r] == EACH or is_bounded(node)
                or not MIN_DIVISOR < self.penalty + run.weight < MAX_DIVISOR):
            return
        pairs = self._running_sums(histogram, run)
        score = largest_split_score(pairs, run.n + run.above_all, run.total, run.weight,
                                    self.penalty, 0.0 if self.with_counts else self.min_examples)
        if score < 0:
            run.most = score
        elif MIN_SCORE < score < MAX_SCORE:
            run.least = score * (1 - NEAR) - run.unsplit
            run.most = score * (1 + NEAR) - run.unsplit

    cdef const double *_running_sums(self, const Bins *histogram, const Run *run) noexcept nogil:
        """Sum the bins after each (SUFFIX) or up to each (PREFIX), first all if that is a test."""
        cdef bint is_suffix = self.run_kinds[run.r] == SUFFIX
        sum_up(histogram.pairs + 2 * run.first, self.running, run.n, is_suffix)
        if not is_suffix:
            return self.running
        self.running[2 * run.n] = 0.0
        self.running[2 * run.n + 1] = 0.0
        return self.running + 2 * (1 - run.above_all)

    cdef bint decide(self, Node *node, double best) noexcept nogil:
        """Set the gain of a node's best test; return whether it is large enough."""
        node.gain = best if self.by_gain else best - self.score(node, node.total, node.weight)
        return node.test >= 0 and node.gain > self.min_gain

    cdef int64_t missing_bin(self, const Node *node) noexcept nogil:
        """Return the bin of rows that lack the value of a node's test; -1 where no row does."""
        return self.run_missing[node.run] if node.run >= 0 else -1

    cdef double share(self, const Node *node, const Bins *histogram,
                      bint by_counts) noexcept nogil:
        """Compute the fraction that passes a node's test, of the examples that have its value."""
        cdef Py_ssize_t e = position_of(histogram, self.missing_bin(node))
        cdef double missing = 0.0
        if by_counts:
            if e >= 0:
                missing = histogram.counts[e]
            return node.true_examples / (node.examples - missing)
        if e >= 0:
            missing = histogram.pairs[2 * e + 1]
        return node.true_weight / (node.weight - missing)

    cdef bint _make_room(self, Py_ssize_t n) noexcept nogil:
        """Make room for some bins; return whether there is memory."""
        if n <= self.room:
            return True
        self.room = 0
        self.failed = not (resize_doubles(&self.scores, n)
                           and resize_doubles(&self.running, 2 * n)
                           and resize_doubles(&self.running_counts, n))
        if not self.failed:
            self.room = n
        return not self.failed

    cdef double score(self, const Node *node, double total, double weight) noexcept nogil:
        """Return the score of some examples of a node in one leaf."""
        cdef double divisor = self.penalty + weight
        if not divisor > 0:
            return 0.0
        if is_bounded(node):
            return bounded_score(total, divisor, node.lower, node.upper)
        return total * total / divisor

    cdef void split_scores(self, const Node *node, const double *pairs, Py_ssize_t n, double total,
                           double weight, double smallest, double *out) noexcept nogil:
        """Compute the scores of splits; invalid splits have scores below all others."""
        if is_bounded(node):
            bounded_split_scores(pairs, n, total, weight, self.penalty, smallest, node.lower,
                                 node.upper, out)
        else:
            split_scores(pairs, n, total, weight, self.penalty, smallest, out)

    cdef bint _keeps_order(self, Node *node, const Run *run, const double *pair,
                           int64_t test) noexcept nogil:
        """Return whether children are in the order that a constraint requires, and set it."""
        cdef int sign = 0
        cdef double above, below
        if test < self.columns.shape[0] and self.columns[test] >= 0 and self.values[test] >= 0:
            sign = self.signs[self.label, self.columns[test]]
        if self.run_kinds[run.r] == PREFIX:  # lower values pass
            sign = -sign
        if sign:
            above = bounded_value(node, pair[0], self.penalty + pair[1])
            below = bounded_value(node, run.total - pair[0], self.penalty + (run.weight - pair[1]))
            if not sign * (above - below) >= 0:
                return False
            node.middle = 0.5 * (above + below)
        node.sign = sign
        return True

    cdef double _score_run(self, Node *node, const Bins *histogram, const Run *run,
                           int64_t end_of_shared, double best) noexcept nogil:
        """Find the best test of a run of bins, if it is better than all so far."""
        cdef Py_ssize_t e, r = run.r, first = run.first, n = run.n + run.above_all
        cdef int64_t test
        cdef double score
        cdef uint8_t kind = self.run_kinds[r]
        cdef const double *pairs = histogram.pairs + 2 * first
        cdef const double *counts = NULL
        if kind != EACH:
            pairs = self._running_sums(histogram, run)
        self.split_scores(node, pairs, n, run.total, run.weight,
                          0.0 if self.with_counts else self.min_examples, self.scores)
        if self.with_counts:
            counts = self._count_run(histogram, run)
            for e in range(n):
                if counts[e] < self.min_examples or run.examples - counts[e] < self.min_examples:
                    self.scores[e] = -INFINITY
        if self.run_starts[r] < end_of_shared and kind == EACH:
            self._exclude_features(histogram, first, n, end_of_shared)
        for e in range(n):
            score = self.scores[e] - run.unsplit
            if score >= best:
                test = (self.run_starts[r] if e < run.above_all
                        else bin_at(histogram, first + e - run.above_all))
                if score == best and not self._precedes(test, node, r):
                    continue
                if test >= self.run_ends[r]:
                    continue
                if self.signs is not None and not self._keeps_order(node, run, pairs + 2 * e, test):
                    continue
                best = score
                node.test = test
                node.run = r
                node.true_total = pairs[2 * e]
                node.true_weight = pairs[2 * e + 1]
                node.true_examples = counts[e] if self.with_counts else node.true_weight
        return best

    cdef bint _precedes(self, int64_t test, const Node *node, Py_ssize_t r) noexcept nogil:
        """Return whether a test of a label is preferred to the best one, whose score is equal."""
        if test < self.first_label or node.run != r:
            return False
        return (self.label_places[test - self.first_label]
                < self.label_places[node.test - self.first_label])

    cdef const double *_count_run(self, const Bins *histogram, const Run *run) noexcept nogil:
        """Return the number of examples that pass each test of a run."""
        cdef const double *counts = histogram.counts + run.first
        cdef uint8_t kind = self.run_kinds[run.r]
        if kind == EACH:
            return counts
        accumulate(counts, self.running_counts, run.n, kind, run.above_all)
        return self.running_counts

    cdef Py_ssize_t choose_features(self, const Node *node) noexcept nogil:
        """Choose the features that a node may test: list and mark them, and return their number."""
        cdef Py_ssize_t f, n = self.n_features, n_chosen = self.n_chosen
        cdef const int32_t *candidates = &self.every[0]
        if self.has_interactions:
            self._find_allowed(node)
            n = 0
            for f in range(self.n_features):
                if self.sources[f] < 0 or self.allowed[self.sources[f]]:
                    self.features[n] = <int32_t> f
                    n += 1
            candidates = &self.features[0]
            n_chosen = <Py_ssize_t> ceil(self.max_features * n)
        if not self.draws:
            n_chosen = n
        return self._sample(node.seed, candidates, n, n_chosen)

    cdef Py_ssize_t _sample(self, uint64_t seed, const int32_t *candidates, Py_ssize_t n,
                            Py_ssize_t n_chosen) noexcept nogil:
        """Choose some of ``n`` features, in order (Knuth's selection sampling)."""
        cdef Py_ssize_t i, n_listed = 0
        cdef int32_t f, is_taken, n_left = <int32_t> n_chosen
        cdef int32_t *ranks = &self.ranks[0]
        cdef int32_t *features = &self.features[0]
        cdef uint8_t *chosen = &self.chosen[0]
        cdef const uint8_t *tree_features = &self.tree_features[0]
        memset(chosen, 0, self.n_features)
        draw_ranks(seed, candidates, n, ranks)
        for i in range(n):
            f = candidates[i]
            is_taken = ranks[i] < n_left
            n_left -= is_taken
            features[n_listed] = f
            n_listed += is_taken & tree_features[f]
        for i in range(n_listed):
            chosen[features[i]] = 1
        return n_listed

    cdef void _find_allowed(self, const Node *node) noexcept nogil:
        """Find the input features that may be tested, given those in the branch above."""
        cdef Py_ssize_t f, g, n_inputs = self.allowed.shape[0] - 1
        cdef Py_ssize_t n_tested = self._find_tested_above(node)
        cdef bint has_all
        if self.max_in_branch:
            for f in range(n_inputs):
                self.allowed[f] = n_tested < self.max_in_branch or self.on_path[f]
            return
        self.allowed[:] = 0
        for g in range(self.groups.shape[0]):
            has_all = True
            for f in range(n_inputs):
                has_all &= self.groups[g, f] >= self.on_path[f]
            for f in range(n_inputs if has_all else 0):
                self.allowed[f] |= self.groups[g, f]

    cdef Py_ssize_t _find_tested_above(self, const Node *node) noexcept nogil:
        """Find the input features that are tested above a node; return their number."""
        cdef Py_ssize_t f, n = 0
        cdef int64_t test
        self.on_path[:] = 0
        while node.parent != NULL:
            node = node.parent
            test = node.test
            f = -1
            if test < self.columns.shape[0] and self.columns[test] >= 0:
                f = self.inputs[self.columns[test]]
            if f >= 0 and not self.on_path[f]:
                self.on_path[f] = 1
                n += 1
        return n

    cdef void _exclude_features(self, const Bins *histogram, Py_ssize_t first, Py_ssize_t n,
                                int64_t end_of_shared) noexcept nogil:
        """Exclude the tests of features that the tree or the node may not test."""
        cdef Py_ssize_t e, f
        cdef int64_t b
        f = feature_of(self.feature_starts, bin_at(histogram, first))
        for e in range(n):
            b = bin_at(histogram, first + e)
            if b >= end_of_shared:
                return
            while f < self.n_features and self.feature_starts[f + 1] <= b:
                f += 1
            if not self.chosen[f]:
                self.scores[e] = -INFINITY


def places_of_labels(label_ranks, Py_ssize_t n_label_bins):
    """Return the place of each bin of a previous label among those with the same score."""
    if label_ranks is None or not n_label_bins:
        return np.arange(n_label_bins, dtype=np.int32)
    # At each lag, labels are followed by the bin of no label.
    symbols = np.append(label_ranks, len(label_ranks))
    lags = np.arange(n_label_bins // len(symbols))[:, np.newaxis]
    return (lags * len(symbols) + symbols).ravel().astype(np.int32)


cdef class ContextSplitSearch:
    """Search for the best test of a previous label."""

    def __init__(self, SplitSearch splits, ContextSets contexts, Py_ssize_t n_window_bins,
                 const int32_t[::1] label_ranks):
        self.splits = splits
        # The symbols in the order of their tests: labels by their ranks, then no label.
        self.symbols = np.append(np.argsort(label_ranks), contexts.n_labels).astype(np.int32)
        self.contexts = contexts
        self.n_window_bins = n_window_bins
        self.lag_sums = np.empty(3 * (contexts.n_labels + 1))

    cdef double find(self, Node *node, const double *sums, double best) noexcept nogil:
        """Find the best test of a node, if it is better than the best so far; return its score."""
        cdef Py_ssize_t e, i, k, lag, symbol, n = self.contexts.n_labels + 1
        cdef Py_ssize_t n_extended = self.contexts.n_extended
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
            memset(totals, 0, 3 * n * sizeof(double))
            for e in range(n_extended):
                for k in range(3):
                    totals[k * n + self.contexts.symbols[e, lag]] += sums[k * n_extended + e]
            for i in range(n):
                symbol = self.symbols[i]
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


cdef inline bint is_bounded(const Node *node) noexcept nogil:
    return node.lower > -INFINITY or node.upper < INFINITY


cdef inline int64_t bin_at(const Bins *histogram, Py_ssize_t e) noexcept nogil:
    """Return the number of the e-th bin of a histogram."""
    return e if histogram.bins == NULL else histogram.bins[e]


cdef Py_ssize_t next_bin(const Bins *histogram, Py_ssize_t e, int64_t b) noexcept nogil:
    """Return the index of the first bin from b on, which may be near the e-th bin, or far away."""
    cdef Py_ssize_t step = 1
    while e + step < histogram.n and histogram.bins[e + step] < b:
        e += step
        step *= 2
    return lower_bound(histogram.bins, e, min(e + step, histogram.n), b)


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
    cdef Py_ssize_t e
    if b < 0 or histogram.bins == NULL:
        return b
    e = lower_bound(histogram.bins, 0, histogram.n, b)
    return e if e < histogram.n and histogram.bins[e] == b else -1


cdef void accumulate(const double *counts, double *out, Py_ssize_t n, uint8_t kind,
                     bint above_all) noexcept nogil:
    """Sum the counts after each bin (SUFFIX) or up to each bin (PREFIX).

    With ``above_all``, the sums after the bins follow the sum of all.
    """
    cdef Py_ssize_t e
    cdef double total = 0.0
    if kind == SUFFIX:
        for e in range(n - 1, -1, -1):
            out[e + above_all] = total
            total += counts[e]
        if above_all:
            out[0] = total
    else:
        for e in range(n):
            total += counts[e]
            out[e] = total
