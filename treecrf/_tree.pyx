"""Best-first regression trees over the product of positions and label contexts.

The examples of a class tree are pairs (position, context of previous labels). Every test looks
either at the window of a position or at a previous label, so the examples of a node are always
(a set of positions) x (a set of contexts), and the table of examples is never made. Positions are a
set of bits, which a window test parts word by word; a test of a previous label parts the contexts
and leaves both children the same positions. At a node a position has one residual, the sum over the
contexts of the set. Window tests are judged from histograms of these sums; tests of a previous
label from the sums of each context. Members are listed only to be added to a histogram, that of the
smaller child, and at last to receive the value of their leaf.

Where a position has only a few contexts of its own (the true one, or those in a beam), the examples
are *planes* of rows instead: plane after plane, every row has at most one example, whose previous
labels are codes that histograms count and tests read like those of the window.

A test is judged by the examples that answer it; those that miss its value have a bin of their own.
They go to both children with a part of their weight (see ``_members``), or where other tests send
them (see ``_surrogates``).

All residuals and weights are multiples of 2**-32 (see ``_inference.residuals``), or where rows are
parted of a number that leaves room for parts. Their sums are exact, do not depend on the order of
summation, and a histogram may be had by subtraction.
"""

import numpy as np

from treecrf.chains.contexts import extended_contexts

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._members cimport WHOLE, RowSet, RowSets, round_value, value_of_part
from treecrf.trees.growing._surrogates cimport Ranking, Side, SurrogateSearch
from treecrf.trees.growing._tests cimport EACH, LISTING_SLACK, PREFIX, SUFFIX

cdef extern from "utils/vector_math.h" nogil:
    void add_scaled(double *target, const double *source, double weight, Py_ssize_t n)
    double dot(const double *a, const double *b, Py_ssize_t n)
    int count_bits(uint64_t word)
    void bytes_equal(const uint8_t *values, Py_ssize_t n_words, uint8_t mask, uint8_t low,
                     uint64_t *out)
    void list_bits(const uint64_t *words, Py_ssize_t n_words, int32_t *out)
    void subtract_from(double *target, const double *source, Py_ssize_t n)
    void split_scores(const double *pairs, Py_ssize_t n, double total, double weight,
                      double penalty, double smallest, double *out)

# Sets of rows that miss the value of a test: all of them, and those that pass all the same.
cdef enum:
    MISSING = 0
    FOUND = 1
    N_SCRATCH_SETS = 2

# Weight of the smallest part of a row.
cdef double UNIT = 1.0 / WHOLE


cdef struct Node:
    int32_t rows                    # its set of rows
    int32_t contexts                # its set of contexts
    int32_t slot                    # its histogram, -1 for none
    double total, weight, examples
    double gain
    int64_t test                    # best test, -1 for none
    Py_ssize_t run                  # its run of bins, -1 for a test of contexts
    double true_total, true_weight, true_examples
    double share                    # of the rows' weight that passes the test
    int32_t true_child, false_child
    Ranking surrogates              # tests that stand in for its own


cdef struct Contexts:
    # A set of contexts.
    double *members                 # 1.0 for a context of the set, else 0.0; all extended contexts
    double *n_members               # number of contexts of the set at each depth
    bint one_context                # then no test of a previous label is left
    bint one_a_depth                # at most one context of the set at each depth
    bint is_one                     # one context of the set at full depth
    Py_ssize_t last_context         # the last context of full depth in the set


cdef inline uint64_t next_random(uint64_t *state) noexcept nogil:
    """SplitMix64 (Steele, Lea, Flood 2014)."""
    cdef uint64_t z
    state[0] += <uint64_t> 0x9E3779B97F4A7C15
    z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef void sample(uint64_t seed, int64_t node, Py_ssize_t n_features, Py_ssize_t n_chosen,
                 uint8_t *chosen) noexcept nogil:
    """Choose exactly ``n_chosen`` features of a node (Knuth's selection sampling)."""
    cdef uint64_t state = seed + <uint64_t> node * <uint64_t> 0xD1342543DE82EF95
    cdef Py_ssize_t f
    for f in range(n_features):
        chosen[f] = (next_random(&state) >> 11) * 2.0 ** -53 * (n_features - f) < n_chosen
        n_chosen -= chosen[f]


def sample_features(uint64_t seed, int64_t node, Py_ssize_t n_features, Py_ssize_t n_chosen):
    """The windowed features that a node may split on, as a boolean array."""
    chosen = np.zeros(n_features, dtype=np.uint8)
    cdef uint8_t[::1] view = chosen
    if n_features:
        sample(seed, node, n_features, n_chosen, &view[0])
    return chosen.astype(bool)


cdef class TreeGrower:
    """Grows one tree after another on the same positions; owns the working memory.

    Parameters
    ----------
    encoded : treecrf.encoding.encoder.EncodedSequences
        The positions.
    tests : treecrf.trees.growing.window_tests.TestTable
        The window tests, in the order of the histogram's bins.
    depth : uint8 array (n_positions,)
        Number of labels before each position, at most ``order``; not used with planes.
    n_labels, order : int
    max_leaf_nodes, l2_regularization, min_gain, min_samples_leaf, learning_rate
        As in `treecrf.TreeCRF`.
    max_leaf_value : float
        Leaf values are clipped to this size before the learning rate applies.
    n_chosen : int
        Number of windowed features to choose from at each node.
    count_apart : bool
        Whether examples must be counted beside their weights, for ``min_samples_leaf``.
    surrogates : bool
        Whether a row that misses the value of a test goes where other tests say, instead of to both
        sides in part. Then ``count_apart`` is True unless examples weigh 1.
    n_planes : int
        0 for the product of positions and contexts. Otherwise example ``plane * n_rows + row`` is
        one of a row, and has the previous labels that `place` gives it; ``n_rows`` is an
        attribute. Arrays of positions and one context each are then arrays of examples.
    """

    cdef readonly Py_ssize_t n_rows

    # The positions and their features.
    cdef const int32_t[::1] position_of_row
    cdef const uint8_t[::1] depth
    cdef const uint64_t[:, ::1] rows_of_depth
    cdef Features features
    # Examples in planes: their previous labels, lag by lag.
    cdef Py_ssize_t n_planes, n_lags
    cdef const uint8_t[:, ::1] labels
    # What can be asked of a histogram.
    cdef const int64_t[::1] run_starts, run_ends, run_missing
    cdef const uint8_t[::1] run_kinds
    cdef const int64_t[::1] feature_starts
    # Contexts.
    cdef Py_ssize_t n_labels, order, n_contexts, n_extended
    cdef const int32_t[:, ::1] symbols      # previous label at each lag of each extended context
    cdef const int64_t[::1] depth_starts    # first extended context of each depth
    # Parameters.
    cdef Py_ssize_t max_leaves, n_chosen
    cdef double penalty, min_gain, min_examples, max_value, learning_rate
    cdef bint count_apart, with_missing
    cdef SurrogateSearch search             # None where missing values part a row instead
    # The tree that is being grown.
    cdef const double[:, ::1] targets, curvature
    cdef const double[::1] position_weights
    cdef uint64_t seed
    # Working memory.
    cdef Py_ssize_t n_bins, n_label_bins, n_words, slot_size, n_slots, n_free
    cdef double **slots
    cdef int32_t *free_slots
    cdef Node *nodes
    cdef Py_ssize_t n_nodes
    cdef int32_t *open_leaves
    cdef Py_ssize_t n_open
    cdef RowSets row_sets
    cdef Contexts *context_sets
    cdef Py_ssize_t n_context_sets
    # The members of the node at hand, those that are whole first.
    cdef Py_ssize_t n_members
    cdef int32_t *rows
    cdef int32_t *positions
    cdef double *values                     # (residual, weight) of each
    cdef double *counts                     # (examples, 0) of each, where they differ from weights
    cdef double *scores                     # one split score per bin
    cdef double *running                    # cumulative bins
    cdef double *lag_sums
    cdef uint8_t *chosen
    cdef bint failed

    def __cinit__(self, encoded, tests, depth, *, Py_ssize_t n_labels, Py_ssize_t order,
                  Py_ssize_t max_leaf_nodes, double l2_regularization, double min_gain,
                  double min_samples_leaf, double max_leaf_value, double learning_rate,
                  Py_ssize_t n_chosen, bint count_apart, Py_ssize_t n_planes=0,
                  bint surrogates=False):
        self.features = Features(encoded, tests)
        self.n_rows = 64 * self.features.n_words
        self.n_planes = n_planes
        self.search = SurrogateSearch(self.features, tests, n_planes) if surrogates else None
        self.n_bins = tests.n_bins
        self.feature_starts = tests.feature_starts
        if n_planes:
            self.n_lags = order
            order = 0
            self._lay_out_planes()
        else:
            self._lay_out_product(encoded, depth, order)
        self.n_words = self.rows_of_depth.shape[1]
        self.n_label_bins = self.n_lags * (n_labels + 1)
        label_run = [self.n_bins] if self.n_label_bins else []
        self.run_starts = np.append(tests.run_starts, label_run).astype(np.int64)
        self.run_ends = np.append(
            tests.run_ends, [b + self.n_label_bins for b in label_run]).astype(np.int64)
        self.run_kinds = np.append(tests.run_kinds, [EACH] * len(label_run)).astype(np.uint8)
        self.run_missing = np.append(tests.run_missing, [-1] * len(label_run)).astype(np.int64)
        self.with_missing = np.max(self.run_missing, initial=-1) >= 0
        self.n_labels = n_labels
        self.order = order
        self.n_contexts = n_labels ** order
        self.max_leaves = max_leaf_nodes
        self.penalty = l2_regularization
        self.min_gain = min_gain
        self.min_examples = min_samples_leaf
        self.max_value = max_leaf_value
        self.learning_rate = learning_rate
        self.n_chosen = n_chosen
        self.count_apart = count_apart
        self.symbols, self.depth_starts = extended_contexts(n_labels, order)
        self.n_extended = self.symbols.shape[0]
        self._allocate()

    def _lay_out_product(self, encoded, depth, order):
        """The position of each row, and for each depth the set of its rows."""
        rows = encoded.rows_from_first
        position_of_row = np.zeros(self.n_rows, dtype=np.int32)
        position_of_row[rows] = np.arange(len(rows))
        exists = np.zeros((order + 1, self.n_rows), dtype=bool)
        exists[np.asarray(depth), rows] = True
        self.position_of_row = position_of_row
        self.rows_of_depth = pack(exists)
        self.depth = depth

    def _lay_out_planes(self):
        n = self.n_planes * self.n_rows
        self.position_of_row = np.arange(n, dtype=np.int32)
        self.depth = np.zeros(n, dtype=np.uint8)
        self.place(np.zeros((self.n_lags, n), dtype=np.uint8), np.zeros(n, dtype=bool))

    def place(self, labels, exists):
        """Say which examples there are.

        Parameters
        ----------
        labels : uint8 array (order, n_planes * n_rows)
            The label at each lag before each example, ``n_labels`` for none.
        exists : bool array (n_planes * n_rows,)
        """
        self.labels = labels
        self.rows_of_depth = pack(exists[None])

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_slots):
            free(self.slots[i])
        for i in range(2 * self.max_leaves if self.context_sets != NULL else 0):
            free(self.context_sets[i].members)
        for pointer in (<size_t> self.slots, <size_t> self.free_slots, <size_t> self.nodes,
                        <size_t> self.open_leaves, <size_t> self.context_sets,
                        <size_t> self.rows, <size_t> self.positions, <size_t> self.values,
                        <size_t> self.counts, <size_t> self.scores, <size_t> self.running,
                        <size_t> self.lag_sums, <size_t> self.chosen):
            free(<void *> <size_t> pointer)

    def _allocate(self):
        cdef Py_ssize_t L = self.max_leaves, n = self.depth.shape[0]
        cdef Py_ssize_t n_features = self.feature_starts.shape[0] - 1
        cdef Py_ssize_t n_bins = self.n_bins + self.n_label_bins
        self.slot_size = (2 + self.count_apart) * n_bins + 3 * self.n_extended
        # One for each leaf, and two for those that surrogates send on.
        self.slots = <double **> calloc(L + 3, sizeof(double *))
        self.free_slots = <int32_t *> malloc((L + 3) * sizeof(int32_t))
        self.nodes = <Node *> malloc((2 * L + 1) * sizeof(Node))
        self.open_leaves = <int32_t *> malloc((L + 1) * sizeof(int32_t))
        self.row_sets = RowSets(self.n_words, L + N_SCRATCH_SETS, self.position_of_row,
                                self.depth)
        self.context_sets = <Contexts *> calloc(2 * L, sizeof(Contexts))
        self.rows = <int32_t *> malloc((n + LISTING_SLACK) * sizeof(int32_t))
        self.positions = <int32_t *> malloc(n * sizeof(int32_t))
        self.values = <double *> malloc(2 * n * sizeof(double))
        self.counts = <double *> malloc(2 * (n * self.count_apart + 1) * sizeof(double))
        self.scores = <double *> malloc((n_bins + 1) * sizeof(double))
        self.running = <double *> malloc(2 * (n_bins + 1) * sizeof(double))
        self.lag_sums = <double *> malloc(3 * (self.n_labels + 1) * sizeof(double))
        self.chosen = <uint8_t *> malloc(n_features + 1)
        if (self.slots == NULL or self.free_slots == NULL or self.nodes == NULL
                or self.open_leaves == NULL or self.context_sets == NULL
                or self.rows == NULL or self.positions == NULL or self.values == NULL
                or self.counts == NULL or self.scores == NULL or self.running == NULL
                or self.lag_sums == NULL or self.chosen == NULL):
            raise MemoryError(f"no memory to grow trees on {n} positions")

    def grow(self, const double[:, ::1] targets, const double[:, ::1] curvature,
             const double[::1] position_weights, uint64_t seed, double[:, ::1] scores):
        """Grow a tree and add its leaf values to ``scores``.

        Parameters
        ----------
        targets : (n_positions, n_contexts)
            Multiples of 2**-32; where missing values part rows, sums of targets, curvature and
            ``position_weights``, each, times 2**-16 must be exact.
        curvature : (n_positions, n_contexts) or None
            Weights of the examples in second-order boosting; without it an example weighs as its
            position.
        position_weights : (n_positions,) or None
            Positions of weight 0 are carried along and learn nothing; their targets must be 0.
            Without weights every position weighs 1.
        seed : int
            For the random choice of features.
        scores : (n_positions, n_contexts), changed in place

        Returns
        -------
        dict of arrays (n_nodes,)
            ``test`` (-1 for a leaf; the tests of previous labels follow the window tests),
            ``true_child``, ``false_child``, ``leaf`` (its value), ``gain``, ``weight``, and
            ``share``: of the weight of the rows that answer a window test, what passes it.
            ``n_surrogates`` of each node, and of all of them, node by node, the tests
            ``surrogate_test``, and whether they are ``reversed``: who fails them passes the node's.
        """
        cdef Py_ssize_t i
        self.targets = targets
        self.curvature = curvature
        self.position_weights = position_weights
        self.seed = seed
        with nogil:
            self.failed = False
            self._grow()
            if not self.failed:
                for i in range(self.n_nodes):
                    if self.nodes[i].true_child < 0:
                        self._add_leaf(&self.nodes[i], scores)
        if self.failed:
            raise MemoryError("no memory for a tree")
        return self._describe()

    def _describe(self):
        cdef Py_ssize_t i, s, n = self.n_nodes
        cdef Node *node
        surrogates, is_reversed = [], []
        test, true_child, false_child, n_surrogates = np.empty((4, n), dtype=np.int32)
        leaf, gain, weight, share = (np.empty(n) for _ in range(4))
        cdef int32_t[::1] tests = test, trues = true_child, falses = false_child
        cdef int32_t[::1] sizes = n_surrogates
        cdef double[::1] values = leaf, gains = gain, weights = weight, shares = share
        for i in range(n):
            node = &self.nodes[i]
            inner = node.true_child >= 0
            tests[i] = <int32_t> node.test if inner else -1
            trues[i] = node.true_child
            falses[i] = node.false_child
            values[i] = 0.0 if inner else self._leaf_value(node)
            gains[i] = node.gain if inner else 0.0
            weights[i] = node.weight
            shares[i] = node.share
            sizes[i] = <int32_t> node.surrogates.n
            for s in range(node.surrogates.n):
                surrogates.append(node.surrogates.ranked[s].test)
                is_reversed.append(node.surrogates.ranked[s].is_reversed)
        return {"test": test, "true_child": true_child, "false_child": false_child,
                "leaf": leaf, "gain": gain, "weight": weight, "share": share,
                "n_surrogates": n_surrogates,
                "surrogate_test": np.array(surrogates, dtype=np.int32),
                "reversed": np.array(is_reversed, dtype=bool)}

    # Growth

    cdef void _grow(self) noexcept nogil:
        cdef Py_ssize_t n_leaves = 1
        cdef int32_t leaf
        self._plant()
        if self.failed:
            return
        if n_leaves < self.max_leaves:
            self._add_members(&self.nodes[0])
            self._find_split(0)
        while n_leaves < self.max_leaves and not self.failed:
            leaf = self._take_best_leaf()
            if leaf < 0:
                break
            n_leaves += 1
            self._split(leaf, n_leaves == self.max_leaves)

    cdef void _plant(self) noexcept nogil:
        """Make the root: all positions, all contexts."""
        cdef Py_ssize_t i, d, e
        cdef Node *root = &self.nodes[0]
        cdef Contexts *contexts
        cdef RowSet *rows
        self.n_open = self.n_free = self.n_context_sets = 0
        # Without curvature, examples weigh as their positions: sums of weights tell the shares.
        self.row_sets.begin(self.rows_of_depth, self.position_weights, self.curvature is not None)
        for _ in range(N_SCRATCH_SETS):
            self.row_sets.take()
        for i in range(self.n_slots):
            self.free_slots[self.n_free] = <int32_t> i
            self.n_free += 1
        self.n_nodes = 1
        self._new_node(root, self.row_sets.take(), self._take_contexts())
        root.slot = self._take_slot()
        if self._is_failed():
            return
        contexts = &self.context_sets[root.contexts]
        for e in range(self.n_extended):
            contexts.members[e] = 1.0
        self._count_members(contexts)
        rows = self._rows_of(root)
        memset(rows.whole, 0, self.n_words * sizeof(uint64_t))
        for d in range(self.order + 1):
            for i in range(self.n_words):
                rows.whole[i] |= self.rows_of_depth[d, i]
        rows.n_whole = count_all(rows.whole, self.n_words)
        self._weigh(root)
        self._gather(root)
        self._sum_members(root)

    cdef inline bint _is_failed(self) noexcept nogil:
        self.failed = self.failed or self.row_sets.failed
        return self.failed

    cdef void _weigh(self, const Node *node) noexcept nogil:
        """Find the weight of a node's rows in its contexts."""
        self.row_sets.n_examples = self.context_sets[node.contexts].n_members
        self.row_sets.weigh(self._rows_of(node))

    cdef inline RowSet *_rows_of(self, const Node *node) noexcept nogil:
        return &self.row_sets.sets[node.rows]

    cdef void _new_node(self, Node *node, int32_t rows, int32_t contexts) noexcept nogil:
        node.rows = rows
        node.contexts = contexts
        node.slot = -1
        node.test = -1
        node.gain = node.share = 0.0
        node.surrogates.n = 0
        node.true_child = node.false_child = -1

    cdef int32_t _take_contexts(self) noexcept nogil:
        """A set of contexts, not filled."""
        cdef Py_ssize_t i = self.n_context_sets
        cdef Contexts *contexts = &self.context_sets[i]
        if contexts.members == NULL:
            contexts.members = <double *> malloc(
                (self.n_extended + self.order + 1) * sizeof(double))
            contexts.n_members = contexts.members + self.n_extended
            self.failed = self.failed or contexts.members == NULL
        self.n_context_sets += 1
        return <int32_t> i

    cdef int32_t _take_slot(self) noexcept nogil:
        cdef double *memory
        if self.n_free:
            self.n_free -= 1
            return self.free_slots[self.n_free]
        memory = <double *> malloc((self.slot_size + 1) * sizeof(double))
        if memory == NULL:
            self.failed = True
            return -1
        self.slots[self.n_slots] = memory
        self.n_slots += 1
        return <int32_t> (self.n_slots - 1)

    cdef void _free_slot(self, Node *node) noexcept nogil:
        if node.slot >= 0:
            self.free_slots[self.n_free] = node.slot
            self.n_free += 1
            node.slot = -1

    cdef int32_t _take_best_leaf(self) noexcept nogil:
        """The open leaf with the largest gain, the oldest among equals; -1 if there is none."""
        cdef Py_ssize_t i, best = -1
        cdef int32_t leaf = -1
        cdef double gain = -INFINITY
        for i in range(self.n_open):
            if (self.nodes[self.open_leaves[i]].gain > gain
                    or (self.nodes[self.open_leaves[i]].gain == gain
                        and self.open_leaves[i] < leaf)):
                leaf = self.open_leaves[i]
                gain = self.nodes[leaf].gain
                best = i
        if best >= 0:
            self.n_open -= 1
            self.open_leaves[best] = self.open_leaves[self.n_open]
        return leaf

    cdef void _split(self, int32_t parent_id, bint is_last) noexcept nogil:
        cdef Node *parent = &self.nodes[parent_id]
        cdef int32_t true_id = <int32_t> self.n_nodes
        cdef int32_t false_id = true_id + 1
        cdef Node *true_node = &self.nodes[true_id]
        cdef Node *false_node = &self.nodes[false_id]
        self.n_nodes += 2
        parent.true_child = true_id
        parent.false_child = false_id
        # The child that fails the test takes over what the parent needs no more.
        self._new_node(true_node, self.row_sets.take(), parent.contexts)
        self._new_node(false_node, parent.rows, parent.contexts)
        true_node.total = parent.true_total
        true_node.weight = parent.true_weight
        true_node.examples = parent.true_examples
        false_node.total = parent.total - parent.true_total
        false_node.weight = parent.weight - parent.true_weight
        false_node.examples = parent.examples - parent.true_examples
        if self._is_failed():
            return
        if (self.search is not None and parent.test < self.n_bins
                and self.search.is_open(parent.test)):
            self._split_with_surrogates(parent, true_node, false_node, is_last)
        else:
            self._split_alone(parent, true_node, false_node, is_last)
        if is_last or self._is_failed():
            return
        self._find_split(true_id)
        self._find_split(false_id)

    cdef void _split_alone(self, Node *parent, Node *true_node, Node *false_node,
                           bint is_last) noexcept nogil:
        """Split by the test alone; who misses its value goes to both sides in part."""
        cdef Node *small
        cdef Node *large
        if parent.test < self.n_bins:
            self._divide_rows(parent, true_node, false_node)
            self.row_sets.distribute(&self.row_sets.sets[MISSING], self._rows_of(true_node),
                                     self._rows_of(false_node), parent.share)
        elif self.n_planes:
            self._divide_rows_by_label(parent, true_node, false_node)
        else:
            self._divide_contexts(parent, true_node, false_node)
        if self._is_failed():
            return
        small = self._smaller(true_node, false_node)
        large = false_node if small == true_node else true_node
        if self._missing_bin(parent) >= 0:
            # Some rows are on both sides: the parent's histogram does not tell the sums.
            self._gather(small)
            self._sum_both(parent, small, large)
        elif not is_last:
            self._gather(small)
        if not is_last:
            self._build_both(parent, small, large)

    cdef inline Node *_smaller(self, Node *a, Node *b) noexcept nogil:
        return a if self._size_of(a) <= self._size_of(b) else b

    cdef inline Py_ssize_t _size_of(self, const Node *node) noexcept nogil:
        return self._rows_of(node).n_whole + self._rows_of(node).n_fractions

    cdef void _divide_rows(self, Node *parent, Node *true_node, Node *false_node) noexcept nogil:
        """Part the parent's rows by its window test; some may miss its value."""
        cdef RowSet *passed = self._rows_of(true_node)
        cdef RowSet *failed = self._rows_of(false_node)
        cdef RowSet *missing = &self.row_sets.sets[MISSING]
        self.row_sets.n_examples = self.context_sets[parent.contexts].n_members
        self.features.ask(parent.test, passed.whole)
        self._repeat(passed.whole)
        if self.features.ask_missing(parent.test, missing.whole):
            self._repeat(missing.whole)
            self.row_sets.part_in_three(failed, passed, missing)
        else:
            missing.n_whole = missing.n_fractions = 0
            self.row_sets.part(failed, passed)
        if self.row_sets.weighs:
            parent.share = passed.weight / (passed.weight + failed.weight)
        else:
            parent.share = parent.true_weight / self._answering_weight(parent)

    cdef void _divide_rows_by_label(self, Node *parent, Node *true_node,
                                    Node *false_node) noexcept nogil:
        """Part the parent's examples by its test of a previous label."""
        cdef int64_t label_test = parent.test - self.n_bins
        self.row_sets.n_examples = self.context_sets[parent.contexts].n_members
        bytes_equal(&self.labels[label_test // (self.n_labels + 1), 0], self.n_words, 255,
                    label_test % (self.n_labels + 1), self._rows_of(true_node).whole)
        self.row_sets.part(self._rows_of(false_node), self._rows_of(true_node))

    cdef double _answering_weight(self, const Node *node) noexcept nogil:
        """Weight of the examples of a node that answer its test."""
        cdef int64_t missing = self._missing_bin(node)
        return node.weight - (self.slots[node.slot][2 * missing + 1] if missing >= 0 else 0.0)

    cdef void _repeat(self, uint64_t *rows) noexcept nogil:
        """Let the first plane's bits be those of all."""
        cdef Py_ssize_t plane, n_words = self.features.n_words
        for plane in range(1, self.n_planes):
            memcpy(rows + plane * n_words, rows, n_words * sizeof(uint64_t))

    cdef void _divide_contexts(self, Node *parent, Node *true_node,
                               Node *false_node) noexcept nogil:
        """Part the parent's contexts by its label test."""
        cdef int64_t lag = (parent.test - self.n_bins) // (self.n_labels + 1)
        cdef int64_t symbol = (parent.test - self.n_bins) % (self.n_labels + 1)
        cdef Contexts *old = &self.context_sets[parent.contexts]
        cdef Contexts *passed
        cdef Contexts *failed
        cdef Py_ssize_t e
        true_node.contexts = self._take_contexts()
        false_node.contexts = self._take_contexts()
        if self.failed:
            return
        passed = &self.context_sets[true_node.contexts]
        failed = &self.context_sets[false_node.contexts]
        for e in range(self.n_extended):
            passed.members[e] = old.members[e] * (self.symbols[e, lag] == symbol)
            failed.members[e] = old.members[e] * (self.symbols[e, lag] != symbol)
        self._count_members(passed)
        self._count_members(failed)
        self.row_sets.copy(self._rows_of(parent), self._rows_of(true_node))
        if not self.row_sets.failed:
            self._drop_rows(true_node)
            self._drop_rows(false_node)

    cdef void _drop_rows(self, const Node *node) noexcept nogil:
        """Drop the rows that have no context of the node."""
        cdef Py_ssize_t d
        cdef Contexts *contexts = &self.context_sets[node.contexts]
        cdef RowSet *dropped = &self.row_sets.sets[MISSING]
        for d in range(self.order + 1):
            if contexts.n_members[d] == 0:
                memcpy(dropped.whole, &self.rows_of_depth[d, 0], self.n_words * sizeof(uint64_t))
                self.row_sets.part(self._rows_of(node), dropped)
        self._weigh(node)

    # Members of a node

    cdef void _gather(self, const Node *node) noexcept nogil:
        """Take a node in hand: list its members and their values."""
        self._list_members(node)
        self._fill_values(node)

    cdef void _list_members(self, const Node *node) noexcept nogil:
        """List the rows and positions of a node."""
        cdef Py_ssize_t i
        cdef const RowSet *members = self._rows_of(node)
        cdef int32_t *rows = self.rows
        cdef int32_t *positions = self.positions
        cdef const int32_t *position_of_row = &self.position_of_row[0]
        self.n_members = members.n_whole + members.n_fractions
        list_bits(members.whole, self.n_words, self.rows)
        for i in range(members.n_whole):
            positions[i] = position_of_row[rows[i]]
        rows += members.n_whole
        positions += members.n_whole
        for i in range(members.n_fractions):
            rows[i] = members.fractions[i].row
            positions[i] = position_of_row[rows[i]]
        if self.n_planes > 1:
            for i in range(self.n_members):
                self.rows[i] %= self.n_rows

    cdef void _fill_values(self, const Node *node) noexcept nogil:
        """Residual, weight and number of the examples that each listed position has in the node's
        contexts."""
        cdef const Contexts *contexts = &self.context_sets[node.contexts]
        cdef Py_ssize_t i, n = self.n_members
        self._sum_over(contexts, n, &self.targets[0, 0], self.values)
        if self.curvature is not None:
            self._sum_over(contexts, n, &self.curvature[0, 0], self.values + 1)
        else:
            self._count_over(contexts, n, self.values + 1)
            if self.position_weights is not None:
                for i in range(n):
                    self.values[2 * i + 1] *= self.position_weights[self.positions[i]]
        if self.count_apart:
            self._count_over(contexts, n, self.counts)
            if self.position_weights is not None:
                for i in range(n):
                    self.counts[2 * i] *= self._is_counted(self.positions[i])
        self._scale_fractions(self._rows_of(node))

    cdef void _scale_fractions(self, const RowSet *members) noexcept nogil:
        """Of some rows the node has only a part."""
        cdef Py_ssize_t i
        cdef double part
        cdef double *values = self.values + 2 * members.n_whole
        cdef double *counts = self.counts + 2 * members.n_whole
        for i in range(members.n_fractions):
            part = members.fractions[i].weight * UNIT
            values[2 * i] *= part
            values[2 * i + 1] *= part
            if self.count_apart:
                counts[2 * i] *= part

    cdef void _sum_members(self, Node *node) noexcept nogil:
        """Sums over the members of the node at hand."""
        cdef Py_ssize_t i
        cdef double total = 0.0, weight = 0.0, examples = 0.0
        for i in range(self.n_members):
            total += self.values[2 * i]
            weight += self.values[2 * i + 1]
        for i in range(self.n_members if self.count_apart else 0):
            examples += self.counts[2 * i]
        node.total, node.weight = total, weight
        node.examples = examples if self.count_apart else weight

    cdef void _sum_over(self, const Contexts *contexts, Py_ssize_t n, const double *table,
                        double *sums) noexcept nogil:
        """Sums of the listed positions' rows over the contexts of a set, into every other place."""
        cdef const int32_t *positions = self.positions
        cdef const uint8_t *depths = &self.depth[0]
        cdef const double *row
        cdef const double *column = table + contexts.last_context
        cdef Py_ssize_t i, n_contexts = self.n_contexts
        cdef uint8_t depth, order = <uint8_t> self.order
        cdef bint is_one = contexts.is_one
        for i in range(n):
            depth = depths[positions[i]]
            if is_one and depth == order:
                sums[2 * i] = column[positions[i] * n_contexts]
                continue
            row = table + positions[i] * n_contexts
            sums[2 * i] = dot(contexts.members + self.depth_starts[depth], row,
                              self._n_contexts_at(depth))

    cdef void _count_over(self, const Contexts *contexts, Py_ssize_t n,
                          double *counts) noexcept nogil:
        """Number of contexts of a set that each listed position has, into every other place."""
        cdef const int32_t *positions = self.positions
        cdef const uint8_t *depths = &self.depth[0]
        cdef const double *n_members = contexts.n_members
        cdef Py_ssize_t i
        for i in range(n):
            counts[2 * i] = n_members[depths[positions[i]]]

    cdef inline bint _is_counted(self, int32_t position) noexcept nogil:
        return self.position_weights is None or self.position_weights[position] > 0

    cdef void _count_members(self, Contexts *contexts) noexcept nogil:
        cdef Py_ssize_t e
        cdef double n = 0.0
        memset(contexts.n_members, 0, (self.order + 1) * sizeof(double))
        for e in range(self.n_extended):
            contexts.n_members[self._depth_of(e)] += contexts.members[e]
            n += contexts.members[e]
        contexts.one_context = n < 2.0
        contexts.one_a_depth = True
        for e in range(self.order + 1):
            contexts.one_a_depth = contexts.one_a_depth and contexts.n_members[e] < 2.0
        contexts.is_one = contexts.n_members[self.order] == 1.0
        for e in range(self.n_contexts):
            if contexts.members[e]:
                contexts.last_context = e

    cdef inline Py_ssize_t _n_contexts_at(self, uint8_t depth) noexcept nogil:
        if depth:
            return self.depth_starts[depth - 1] - self.depth_starts[depth]
        return 1

    # Surrogates

    cdef void _split_with_surrogates(self, Node *parent, Node *true_node, Node *false_node,
                                     bint is_last) noexcept nogil:
        """Split those that answer the test, rank its surrogates, and send on those that do not."""
        cdef Node lost = parent[0]
        cdef Node *small
        cdef Node *large
        cdef Side passed, failed
        lost.rows = MISSING
        self._note_lost(parent, &lost)
        take_sums(false_node, &lost)
        self._divide_rows(parent, true_node, false_node)
        small = self._smaller(true_node, false_node)
        large = false_node if small == true_node else true_node
        self._gather(small)
        self._build_both(parent, small, large)
        if self._size_of(&lost):
            self._gather(&lost)
            self._build_apart(&lost, large)
        if self._is_failed():
            return
        passed, failed = self._side(true_node), self._side(false_node)
        self.search.find(parent.test, &passed, &failed, &parent.surrogates)
        if self._size_of(&lost):
            self._send_on(parent, &lost, true_node, false_node, is_last)

    cdef void _note_lost(self, const Node *parent, Node *lost) noexcept nogil:
        """Sums over those that miss the value of the parent's test."""
        cdef int64_t b = self._missing_bin(parent)
        cdef double *slot = self.slots[parent.slot]
        lost.total = lost.weight = lost.examples = 0.0
        if b >= 0:
            lost.total = slot[2 * b]
            lost.weight = slot[2 * b + 1]
            lost.examples = self._counts_of(slot)[b] if self.count_apart else lost.weight

    cdef Side _side(self, const Node *node) noexcept nogil:
        """The examples of a node, as the search for surrogates counts them."""
        cdef double *slot = self.slots[node.slot]
        if self.count_apart:
            return Side(node.examples, self._counts_of(slot), 1)
        return Side(node.examples, slot + 1, 2)

    cdef void _send_on(self, const Node *parent, Node *lost, Node *true_node, Node *false_node,
                       bint is_last) noexcept nogil:
        """Let surrogates part those that miss the value of the parent's test."""
        cdef Node found = lost[0]
        cdef Node left = lost[0]
        cdef Node *small
        cdef Node *large
        found.rows = FOUND
        self.search.follow(&parent.surrogates, parent.share >= 0.5, self._rows_of(lost).whole,
                           self._rows_of(&found).whole)
        self.row_sets.part(self._rows_of(&left), self._rows_of(&found))
        small = self._smaller(&found, &left)
        large = &left if small == &found else &found
        self._gather(small)
        self._sum_both(lost, small, large)
        if not is_last:
            self._build_both(lost, small, large)
        if not self._is_failed():
            self._absorb(&found, true_node, is_last)
            self._absorb(&left, false_node, is_last)

    cdef void _absorb(self, Node *source, Node *target, bint is_last) noexcept nogil:
        """Move all members of a node to another."""
        self.row_sets.join(self._rows_of(source), self._rows_of(target))
        self._rows_of(target).weight += self._rows_of(source).weight
        target.total += source.total
        target.weight += source.weight
        target.examples += source.examples
        if not is_last:
            add_scaled(self.slots[target.slot], self.slots[source.slot], 1.0, self.slot_size)
            self._free_slot(source)

    # Histograms

    cdef void _sum_both(self, const Node *parent, Node *small, Node *large) noexcept nogil:
        """Sums over the smaller child, at hand; the other's are what remains of the parent's."""
        self._sum_members(small)
        large.total, large.weight, large.examples = parent.total, parent.weight, parent.examples
        take_sums(large, small)

    cdef void _build_both(self, Node *parent, Node *small, Node *large) noexcept nogil:
        """Histogram of the smaller child, at hand; the other is what remains of the parent's."""
        large.slot = parent.slot
        parent.slot = -1
        self._build_apart(small, large)

    cdef void _build_apart(self, Node *small, Node *rest) noexcept nogil:
        """Histogram of the node at hand, whose members have been counted in that of another."""
        small.slot = self._take_slot()
        if self.failed:
            return
        self._add_members(small)
        subtract_from(self.slots[rest.slot], self.slots[small.slot], self.slot_size)

    cdef inline int64_t _missing_bin(self, const Node *node) noexcept nogil:
        """The bin of those that miss the value of a node's test; -1 where nobody does."""
        return self.run_missing[node.run] if node.run >= 0 else -1

    cdef void _add_members(self, Node *node) noexcept nogil:
        """Add the listed members to the node's histogram."""
        cdef double *slot = self.slots[node.slot]
        cdef double *counts = self._counts_of(slot)
        memset(slot, 0, self.slot_size * sizeof(double))
        self.features.add_windows(self.rows, self.n_members, self.values, slot, 2)
        self._add_labels(self.values, slot, 2)
        if self.count_apart:
            self.features.add_windows(self.rows, self.n_members, self.counts, counts, 1)
            self._add_labels(self.counts, counts, 1)
        self._add_contexts(node, self._contexts_of(slot))

    cdef inline double *_counts_of(self, double *slot) noexcept nogil:
        return slot + 2 * (self.n_bins + self.n_label_bins)

    cdef inline double *_contexts_of(self, double *slot) noexcept nogil:
        return slot + (2 + self.count_apart) * (self.n_bins + self.n_label_bins)

    cdef void _add_labels(self, const double *values, double *bins, int stride) noexcept nogil:
        """Add the listed examples to the bins of their previous labels."""
        cdef Py_ssize_t lag, i, k
        cdef const uint8_t *labels
        cdef double *first
        for lag in range(self.n_lags):
            labels = &self.labels[lag, 0]
            first = bins + stride * (self.n_bins + lag * (self.n_labels + 1))
            for i in range(self.n_members):
                for k in range(stride):
                    first[stride * labels[self.positions[i]] + k] += values[2 * i + k]

    cdef void _add_contexts(self, Node *node, double *sums) noexcept nogil:
        """Sums of each context: residuals, then weights, then numbers of examples."""
        cdef Contexts *contexts = &self.context_sets[node.contexts]
        cdef double *totals = sums
        cdef double *weights = sums + self.n_extended
        cdef double *counts = weights + self.n_extended
        cdef Py_ssize_t e, start
        cdef bint by_depth = contexts.one_a_depth
        if contexts.one_context:
            for e in range(self.n_extended):
                totals[e] = contexts.members[e] * node.total
                weights[e] = contexts.members[e] * node.weight
                counts[e] = contexts.members[e] * node.examples
            return
        if by_depth:
            self._sum_depths(totals, weights, counts)
        else:
            self._sum_contexts(node, totals, weights, counts)
        for e in range(self.n_extended - 1, -1, -1):
            start = self.depth_starts[self._depth_of(e)]
            counts[e] = contexts.members[e] * counts[start]
            weights[e] = (contexts.members[e]
                          * weights[start if by_depth or self.curvature is None else e])
            totals[e] = contexts.members[e] * totals[start if by_depth else e]

    cdef void _sum_contexts(self, Node *node, double *totals, double *weights,
                            double *counts) noexcept nogil:
        """Sums of each context; what all of a depth have in common goes to the first of them."""
        cdef const RowSet *members = self._rows_of(node)
        cdef Py_ssize_t i, start, n
        cdef int32_t position
        cdef uint8_t depth
        cdef double part = 1.0
        for i in range(self.n_members):
            position = self.positions[i]
            depth = self.depth[position]
            start = self.depth_starts[depth]
            n = self._n_contexts_at(depth)
            if i >= members.n_whole:
                part = members.fractions[i - members.n_whole].weight * UNIT
            add_scaled(totals + start, &self.targets[position, 0], part, n)
            if self.curvature is not None:
                add_scaled(weights + start, &self.curvature[position, 0], part, n)
            elif self.position_weights is not None:
                weights[start] += self.position_weights[position] * part
            else:
                weights[start] += part
            counts[start] += self._is_counted(position) * part

    cdef void _sum_depths(self, double *totals, double *weights, double *counts) noexcept nogil:
        """The same where each depth has one context of the set: the sums are at hand."""
        cdef Py_ssize_t i, start
        for i in range(self.n_members):
            start = self.depth_starts[self.depth[self.positions[i]]]
            totals[start] += self.values[2 * i]
            weights[start] += self.values[2 * i + 1]
            if self.count_apart:
                counts[start] += self.counts[2 * i]

    cdef inline Py_ssize_t _depth_of(self, Py_ssize_t e) noexcept nogil:
        """Depth of an extended context: those of full depth come first."""
        cdef Py_ssize_t depth = self.order
        while depth and e >= self.depth_starts[depth - 1]:
            depth -= 1
        return depth

    # Best split

    cdef void _find_split(self, int32_t node_id) noexcept nogil:
        """Find a node's best test, and keep the node open if the test gains enough."""
        cdef Node *node = &self.nodes[node_id]
        cdef double *slot = self.slots[node.slot]
        cdef double best = -1.0
        node.test = node.run = -1
        if node.examples >= 2 * self.min_examples:
            best = self._best_binned_test(node, slot, node_id)
            best = self._best_context_test(node, self._contexts_of(slot), best)
        node.gain = best if self.with_missing else best - self._score(node.total, node.weight)
        if node.test < 0 or not node.gain > self.min_gain:
            self._free_slot(node)
            return
        self.open_leaves[self.n_open] = node_id
        self.n_open += 1

    cdef inline double _score(self, double total, double weight) noexcept nogil:
        """What is known without a split."""
        if not self.penalty + weight > 0:
            return 0.0
        return total * total / (self.penalty + weight)

    cdef double _best_binned_test(self, Node *node, double *slot, int32_t node_id) noexcept nogil:
        """Find the test of the largest score, or where values are missing of the largest gain
        among those that answer it."""
        cdef Py_ssize_t r, b
        cdef double best = -1.0
        for r in range(self.run_starts.shape[0]):
            self._score_run(node, slot, r)
        if self.n_chosen < self.feature_starts.shape[0] - 1:
            self._forget_unchosen(node_id)
        for r in range(self.run_starts.shape[0]):
            for b in range(self.run_starts[r], self.run_ends[r]):
                if self.scores[b] > best:
                    best = self.scores[b]
                    node.test = b
                    node.run = r
        if node.test >= 0:
            self._note_true_side(node, slot)
        return best

    cdef void _score_run(self, const Node *node, double *slot, Py_ssize_t r) noexcept nogil:
        cdef Py_ssize_t b, start = self.run_starts[r], end = self.run_ends[r]
        cdef int64_t missing = self.run_missing[r]
        cdef double total = node.total, weight = node.weight, known
        cdef double smallest = 0.0 if self.count_apart else self.min_examples
        cdef const double *pairs = slot + 2 * start
        if missing >= 0:
            total -= slot[2 * missing]
            weight -= slot[2 * missing + 1]
        if self.run_kinds[r] != EACH:
            accumulate(slot, self.running, start, end, 2, self.run_kinds[r])
            pairs = self.running + 2 * start
        split_scores(pairs, end - start, total, weight, self.penalty, smallest,
                     self.scores + start)
        if self.count_apart:
            self._check_counts(node, self._counts_of(slot), r)
        if self.with_missing:
            known = self._score(total, weight)
            for b in range(start, end):
                self.scores[b] -= known

    cdef void _check_counts(self, const Node *node, const double *counts,
                            Py_ssize_t r) noexcept nogil:
        """Rule out tests with too few examples on a side."""
        cdef Py_ssize_t b
        cdef int64_t missing = self.run_missing[r]
        cdef double examples = node.examples - (counts[missing] if missing >= 0 else 0.0)
        cdef const double *passed = counts
        if self.run_kinds[r] != EACH:
            accumulate(counts, self.running, self.run_starts[r], self.run_ends[r], 1,
                       self.run_kinds[r])
            passed = self.running
        for b in range(self.run_starts[r], self.run_ends[r]):
            if passed[b] < self.min_examples or examples - passed[b] < self.min_examples:
                self.scores[b] = -1.0

    cdef void _forget_unchosen(self, int32_t node_id) noexcept nogil:
        cdef Py_ssize_t f, b, n_features = self.feature_starts.shape[0] - 1
        sample(self.seed, node_id, n_features, self.n_chosen, self.chosen)
        for f in range(n_features):
            if not self.chosen[f]:
                for b in range(self.feature_starts[f], self.feature_starts[f + 1]):
                    self.scores[b] = -1.0

    cdef void _note_true_side(self, Node *node, double *slot) noexcept nogil:
        """Sums of the side that passes the node's test."""
        cdef Py_ssize_t r = node.run, b = node.test, end = node.test
        if self.run_kinds[r] == SUFFIX:
            b, end = b + 1, self.run_ends[r]
        elif self.run_kinds[r] == PREFIX:
            b = self.run_starts[r]
        node.true_total = node.true_weight = node.true_examples = 0.0
        for b in range(b, end + 1):
            node.true_total += slot[2 * b]
            node.true_weight += slot[2 * b + 1]
            if self.count_apart:
                node.true_examples += self._counts_of(slot)[b]
        if not self.count_apart:
            node.true_examples = node.true_weight

    cdef double _best_context_test(self, Node *node, const double *sums,
                                   double best) noexcept nogil:
        cdef Py_ssize_t lag, symbol, n = self.n_labels + 1
        cdef double *totals = self.lag_sums
        cdef double *weights = self.lag_sums + n
        cdef double *examples = self.lag_sums + 2 * n if self.count_apart else weights
        cdef double pair[2]
        cdef double score, known = 0.0
        if self.context_sets[node.contexts].one_context:
            return best
        if self.with_missing:
            known = self._score(node.total, node.weight)
        for lag in range(self.order):
            self._sum_by_symbol(sums, lag)
            for symbol in range(n):
                if (examples[symbol] < self.min_examples
                        or node.examples - examples[symbol] < self.min_examples):
                    continue
                pair[0] = totals[symbol]
                pair[1] = weights[symbol]
                split_scores(pair, 1, node.total, node.weight, self.penalty, 0.0, &score)
                if score - known > best:
                    best = score - known
                    node.test = self.n_bins + lag * n + symbol
                    node.run = -1
                    node.true_total = totals[symbol]
                    node.true_weight = weights[symbol]
                    node.true_examples = examples[symbol]
        return best

    cdef void _sum_by_symbol(self, const double *sums, Py_ssize_t lag) noexcept nogil:
        """Sums over the contexts that have each symbol at a lag."""
        cdef Py_ssize_t e, k, n = self.n_labels + 1
        memset(self.lag_sums, 0, 3 * n * sizeof(double))
        for e in range(self.n_extended):
            for k in range(3):
                self.lag_sums[k * n + self.symbols[e, lag]] += sums[k * self.n_extended + e]

    # Leaves

    cdef inline double _leaf_value(self, const Node *node) noexcept nogil:
        cdef double value
        if not self.penalty + node.weight > 0:
            return 0.0
        value = node.total / (self.penalty + node.weight)
        value = min(max(value, -self.max_value), self.max_value)
        return round_value(value * self.learning_rate)

    cdef void _add_leaf(self, const Node *leaf, double[:, ::1] scores) noexcept nogil:
        """Add a leaf's value to the scores of its members, to each its part."""
        cdef const Contexts *contexts = &self.context_sets[leaf.contexts]
        cdef const RowSet *members = self._rows_of(leaf)
        cdef double value = self._leaf_value(leaf)
        cdef double *table = &scores[0, 0]
        cdef const int32_t *position_of_row = &self.position_of_row[0]
        cdef Py_ssize_t i
        list_bits(members.whole, self.n_words, self.rows)
        for i in range(members.n_whole):
            self._add_value(contexts, position_of_row[self.rows[i]], value, table)
        for i in range(members.n_fractions):
            self._add_value(contexts, position_of_row[members.fractions[i].row],
                            value_of_part(value, members.fractions[i].weight), table)

    cdef inline void _add_value(self, const Contexts *contexts, Py_ssize_t position, double value,
                                double *table) noexcept nogil:
        """Add to the scores of a position in the contexts of a set."""
        cdef uint8_t depth = self.depth[position]
        cdef double *scores = table + position * self.n_contexts
        if depth == self.order and contexts.is_one:
            scores[contexts.last_context] += value
        else:
            add_scaled(scores, contexts.members + self.depth_starts[depth], value,
                       self._n_contexts_at(depth))


cdef void take_sums(Node *node, const Node *part) noexcept nogil:
    """Take the sums over some of a node's members from those over all of them."""
    node.total -= part.total
    node.weight -= part.weight
    node.examples -= part.examples


cdef pack(exists):
    """Sets of bits from rows of booleans, whole words each."""
    return np.packbits(exists, axis=1, bitorder="little").view("<u8").astype(np.uint64)


cdef Py_ssize_t count_all(const uint64_t *words, Py_ssize_t n_words) noexcept nogil:
    cdef Py_ssize_t i, n = 0
    for i in range(n_words):
        n += count_bits(words[i])
    return n


cdef void accumulate(const double *bins, double *out, Py_ssize_t start, Py_ssize_t end,
                     int stride, uint8_t kind) noexcept nogil:
    """Sums of the bins above each bin (SUFFIX) or up to each bin (PREFIX)."""
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
