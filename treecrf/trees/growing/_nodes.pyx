"""Nodes of growing trees, and the surrogates of their tests.

Surrogate splits replace a test whose value is missing (Breiman et al., "CART", 1984). At each
column and offset, the test that agrees best with the node's test is a surrogate if it agrees more
often than the majority side does. Only examples with both values count.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._sets cimport round_value
from treecrf.trees.growing._tests cimport EACH, SUFFIX

# Fields of nodes, and of their surrogates, one node after another.
INTEGERS = ("column", "offset", "value", "true_child", "false_child", "n_surrogates")
NUMBERS = ("leaf", "gain", "weight", "share")
SURROGATES = ("surrogate_column", "surrogate_offset", "surrogate_value")

# Rows of the arrays of fields.
cdef enum:
    COLUMN = 0
    OFFSET = 1
    VALUE = 2
    TRUE_CHILD = 3
    FALSE_CHILD = 4
    N_SURROGATES = 5

cdef enum:
    LEAF_VALUE = 0
    GAIN = 1
    WEIGHT = 2
    SHARE = 3

cdef enum:
    LABEL = -2      # column of a previous label, as in `treecrf.trees.scoring.packed_trees`


cdef class SurrogateSearch:
    """Search for surrogates, and their application."""

    def __init__(self, Features features, tests, Py_ssize_t n_layers):
        self.features = features
        self.run_starts = tests.run_starts
        self.run_ends = tests.run_ends
        self.run_missing = tests.run_missing
        self.run_kinds = tests.run_kinds
        self.columns = tests.columns
        self.offsets = tests.offsets
        self.values = tests.values
        self.running = np.zeros((2, tests.n_bins + 1))
        self.answers = np.zeros(features.n_words, dtype=np.uint64)
        self.missing = np.zeros(features.n_words, dtype=np.uint64)
        self.remaining = np.zeros(features.n_words * max(1, n_layers), dtype=np.uint64)

    cdef bint is_open(self, int64_t test) noexcept nogil:
        """Return whether the value of a window test may be missing, in training or prediction."""
        return self.columns[test] >= 0 and self.values[test] >= 0

    cdef void find(self, int64_t test, const Side *passed, const Side *failed,
                   Ranking *ranking) noexcept nogil:
        """Rank the surrogates of a test."""
        cdef Surrogate candidate = Surrogate(-1, False, 0.0)    # of the current column and offset
        cdef int64_t b, start, end
        cdef double n_passed, n_failed, same, agreement
        cdef Py_ssize_t r
        ranking.n = 0
        for r in range(self.run_starts.shape[0]):
            start = self.run_starts[r]
            end = self.run_ends[r]
            if self.columns[start] >= 0 and self.values[start] < 0:  # whether a value is missing
                continue
            n_passed = n_answering(passed, self.run_missing[r])
            n_failed = n_answering(failed, self.run_missing[r])
            count_passing(passed, start, end, self.run_kinds[r], &self.running[0, 0])
            count_passing(failed, start, end, self.run_kinds[r], &self.running[1, 0])
            for b in range(start, end):
                same = self.running[0, b] + (n_failed - self.running[1, b])
                agreement = max(same, n_passed + n_failed - same)
                if agreement <= max(n_passed, n_failed) or self._same_value(b, test):
                    continue
                if candidate.test >= 0 and not self._same_value(b, candidate.test):
                    insert(ranking, &candidate)
                    candidate.agreement = 0.0
                if agreement > candidate.agreement:
                    candidate = Surrogate(b, same < agreement, agreement)
        insert(ranking, &candidate)

    cdef inline bint _same_value(self, int64_t a, int64_t b) noexcept nogil:
        return self.columns[a] == self.columns[b] and self.offsets[a] == self.offsets[b]

    cdef void apply(self, const Ranking *ranking, bint by_default, const uint64_t *rows,
                    uint64_t *passed) noexcept nogil:
        """Find which rows pass: by the first surrogate whose value they have, else by default."""
        cdef Py_ssize_t s, i, w, layer, n_words = self.remaining.shape[0]
        cdef const Surrogate *surrogate
        cdef uint64_t flip, has_value
        memcpy(&self.remaining[0], rows, n_words * sizeof(uint64_t))
        memset(passed, 0, n_words * sizeof(uint64_t))
        for s in range(ranking.n):
            surrogate = &ranking.ranked[s]
            self.features.evaluate(surrogate.test, &self.answers[0])
            if not self.features.find_missing(surrogate.test, &self.missing[0]):
                memset(&self.missing[0], 0, self.missing.shape[0] * sizeof(uint64_t))
            flip = ~<uint64_t> 0 if surrogate.is_reversed else 0
            for layer in range(n_words // self.features.n_words):  # all have the same rows
                for w in range(self.features.n_words):
                    i = layer * self.features.n_words + w
                    has_value = self.remaining[i] & ~self.missing[w]
                    passed[i] |= has_value & (self.answers[w] ^ flip)
                    self.remaining[i] ^= has_value
        for i in range(n_words if by_default else 0):
            passed[i] |= self.remaining[i]


cdef inline double n_answering(const Side *side, int64_t missing) noexcept nogil:
    """Return the number of examples of a side that are not in the bin of missing values."""
    return side.n - side.counts[side.stride * missing] if missing >= 0 else side.n


cdef void count_passing(const Side *side, int64_t start, int64_t end, uint8_t kind,
                        double *out) noexcept nogil:
    """Count the examples that pass each test of a run of bins."""
    cdef const double *counts = side.counts
    cdef int stride = side.stride
    cdef int64_t b
    cdef double total = 0.0
    if kind == EACH:
        for b in range(start, end):
            out[b] = counts[stride * b]
    elif kind == SUFFIX:
        for b in range(end - 1, start - 1, -1):
            total += counts[stride * (b + 1)]
            out[b] = total
    else:
        for b in range(start, end):
            total += counts[stride * b]
            out[b] = total


cdef void insert(Ranking *ranking, const Surrogate *candidate) noexcept nogil:
    """Insert a candidate after any with the same agreement."""
    cdef Py_ssize_t rank = ranking.n
    if candidate.test < 0:
        return
    while rank > 0 and ranking.ranked[rank - 1].agreement < candidate.agreement:
        rank -= 1
        if rank + 1 < MAX_SURROGATES:
            ranking.ranked[rank + 1] = ranking.ranked[rank]
    if rank < MAX_SURROGATES:
        ranking.ranked[rank] = candidate[0]
        ranking.n = min(ranking.n + 1, MAX_SURROGATES)


cdef void start_root(Node *node, uint64_t seed) noexcept nogil:
    """Start a node without sums, rows and contexts."""
    node.seed = seed
    node.depth = 0
    node.parent = NULL
    node.lower = -INFINITY
    node.upper = INFINITY
    node.rows = -1
    node.contexts = -1
    node.histogram = -1
    node.test = -1
    node.run = -1
    node.gain = 0.0
    node.sign = 0
    node.share = 0.0
    node.true_child = -1
    node.false_child = -1
    node.surrogates.n = 0


cdef void start_child(Node *node, const Node *parent, bint passes) noexcept nogil:
    """Start a child. Its seed depends on the path from the root, not on node numbers."""
    start_root(node, mixed_with(parent.seed, 1 if passes else 2))
    node.depth = parent.depth + 1
    node.parent = parent
    node.lower = parent.lower
    node.upper = parent.upper
    if parent.sign and passes == (parent.sign > 0):
        node.lower = parent.middle
    elif parent.sign:
        node.upper = parent.middle


cdef double leaf_value(const Node *node, const LeafRule *rule) noexcept nogil:
    """Return the value of a leaf, rounded so that sums of values are exact."""
    cdef double value = bounded_value(node, node.total, rule.penalty + node.weight)
    value = min(max(value, -rule.max_value), rule.max_value)
    return round_value(value * rule.learning_rate)


cdef int32_t take_best_leaf(const Node *nodes, int32_t *open_leaves,
                            Py_ssize_t *n_open) noexcept nogil:
    """Take the open leaf with the largest gain, the oldest one if there are ties; -1 for none."""
    cdef Py_ssize_t i, best = -1
    cdef int32_t leaf = -1
    cdef double gain = -INFINITY
    for i in range(n_open[0]):
        if (nodes[open_leaves[i]].gain > gain
                or (nodes[open_leaves[i]].gain == gain and open_leaves[i] < leaf)):
            leaf = open_leaves[i]
            gain = nodes[leaf].gain
            best = i
    if best >= 0:
        n_open[0] -= 1
        open_leaves[best] = open_leaves[n_open[0]]
    return leaf


cdef class TreeFields:
    """What the fields of grown trees mean: the tests, and the rule for leaves."""

    def __init__(self, tests, settings, Py_ssize_t n_labels):
        self.columns = tests.columns
        self.offsets = tests.offsets
        self.values = tests.values
        self.n_symbols = n_labels + 1
        self.leaves = LeafRule(
            settings.l2_regularization, settings.max_leaf_value, settings.learning_rate)

    cdef inline void _set_test(self, int64_t test, int32_t[:, ::1] out, Py_ssize_t i) noexcept:
        """Set the column, the offset and the value of a test."""
        cdef int64_t label_test = test - self.columns.shape[0]
        if label_test >= 0:
            out[COLUMN, i] = LABEL
            out[OFFSET, i] = <int32_t> (1 + label_test // self.n_symbols)
            out[VALUE, i] = <int32_t> (label_test % self.n_symbols)
        else:
            out[COLUMN, i] = self.columns[test]
            out[OFFSET, i] = self.offsets[test]
            out[VALUE, i] = self.values[test]

    cdef dict describe(self, const Node *nodes, Py_ssize_t n):
        """Return the arrays of a tree, see `treecrf.trees.forest.Forest`.

        ``share`` counts examples with the weights of their positions.
        """
        cdef Py_ssize_t i, s, n_surrogates = 0
        cdef const Node *node
        for i in range(n):
            n_surrogates += nodes[i].surrogates.n
        cdef int32_t[:, ::1] integers = np.zeros((len(INTEGERS), n), dtype=np.int32)
        cdef double[:, ::1] numbers = np.zeros((len(NUMBERS), n))
        cdef int32_t[:, ::1] surrogates = np.empty((len(SURROGATES), n_surrogates), dtype=np.int32)
        cdef uint8_t[::1] is_reversed = np.empty(n_surrogates, dtype=np.uint8)
        n_surrogates = 0
        for i in range(n):
            node = &nodes[i]
            integers[TRUE_CHILD, i] = node.true_child
            integers[FALSE_CHILD, i] = node.false_child
            numbers[WEIGHT, i] = node.weight
            if node.true_child < 0:
                numbers[LEAF_VALUE, i] = leaf_value(node, &self.leaves)
                continue
            self._set_test(node.test, integers, i)
            integers[N_SURROGATES, i] = <int32_t> node.surrogates.n
            numbers[GAIN, i] = node.gain
            numbers[SHARE, i] = node.share
            for s in range(node.surrogates.n):
                self._set_test(node.surrogates.ranked[s].test, surrogates, n_surrogates)
                is_reversed[n_surrogates] = node.surrogates.ranked[s].is_reversed
                n_surrogates += 1
        return {
            **dict(zip(INTEGERS, integers.base)),
            **dict(zip(NUMBERS, numbers.base)),
            **dict(zip(SURROGATES, surrogates.base)),
            "reversed": is_reversed.base.view(bool),
        }
