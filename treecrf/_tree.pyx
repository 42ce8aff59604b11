"""Best-first regression trees over the product of positions and label contexts.

The examples of a label's tree are pairs (position, context of previous labels). Every test reads
either the window of a position or a previous label, so the examples of a node are always
(a set of positions) x (a set of contexts), and the table of all examples is never built. Positions
are a bit set, which a window test splits word by word. A test of a previous label splits the
contexts and leaves the same positions to both children. At a node, a position has one residual: the
sum over the contexts of the set. Window tests are scored from histograms of these sums, tests of a
previous label from the sums of each context. Members are listed only to fill the histogram of the
smaller child, and at the end to receive the value of their leaf.

Where a position has only a few contexts of its own (the true one, or those in a beam), the examples
form *layers* instead: in each layer, a row has at most one example. Its previous labels are codes,
which histograms count and tests read like the codes of the window.

A test is scored on the examples that have its value; the others have a bin of their own. They go to
both children with a fraction of their weight (see ``_sets``), or to the child that a surrogate
chooses (see ``_nodes``).

All residuals and weights are multiples of 2**-32 (see ``_inference.residuals``), or of a larger
unit where there are many rows, or where rows are divided (see ``utils.exact``). Their sums are
exact, so they do not depend on the order of summation, and histograms can be subtracted.

This module holds the queue of best-first growth. What it consists of is in
``treecrf.trees.growing``: ``_sets`` holds the contexts and the rows of all nodes. ``_histograms``
lists the members of one node and sums them up by ``_features``; ``_splits`` and ``_nodes`` find the
tests and their surrogates.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Bins, ChosenBins, Features
from treecrf.trees.growing._histograms cimport ContextHistograms, Histogram, Histograms, Members
from treecrf.trees.growing._nodes cimport (
    Node, Side, SurrogateSearch, TreeFields, leaf_value, set_difference, start_child, start_root,
    take_best_leaf,
)
from treecrf.trees.growing._sets cimport ContextSet, ContextSets, RowSet, RowSets
from treecrf.trees.growing._splits cimport ContextSplitSearch, SplitSearch
from treecrf.trees.growing._tests cimport bytes_equal

cdef extern from "trees/bitsets.h" nogil:
    int count_bits(uint64_t word)

# Sets of rows that lack the value of a test.
cdef enum:
    MISSING = 0             # all of them
    SENT_ON = 1             # those that pass by a surrogate
    N_SCRATCH_SETS = 2

# Leaves are numbered in bytes from 1 on.
cdef enum:
    MAX_NUMBER = 255

# The leaves with the same set of contexts receive their values in one pass over all rows if they
# have more than this share of the rows, else leaf by leaf. The pass reads the leaf of every row;
# leaf by leaf, only members are visited, but each set of rows is listed first. Either way, the
# scores are the same.
cdef double MIN_SHARE = 0.2


cdef class TreeGrower:
    """Grower of one tree after another on the same positions, with its working memory.

    With layers, example ``layer * n_rows + row`` is an example of a row, whose previous labels are
    set by `set_examples`. Arrays over positions and contexts are then arrays over examples, with
    one context. Growers in several threads share the arrays of ``features``.
    """

    # The examples: the product of positions and contexts, or layers.
    cdef readonly Py_ssize_t n_rows         # rows of a layer
    cdef Py_ssize_t n_layers                # 0 for the product
    cdef Py_ssize_t n_words                 # words of a set of rows, of all layers
    cdef const uint64_t[:, ::1] rows_of_depth       # rows with each number of labels before them
    cdef int64_t[::1] n_rows_of_depth
    # What does not change from tree to tree.
    cdef Py_ssize_t n_window_bins           # tests from this number on are of previous labels
    cdef Py_ssize_t max_leaves
    cdef Py_ssize_t max_depth               # number of tests above a leaf; negative for no limit
    cdef TreeFields fields
    cdef bint separate_counts               # whether the numbers of examples are not their weights
    # Sets and sums of nodes.
    cdef Features features
    cdef ContextSets contexts
    cdef RowSets row_sets
    cdef Members members
    cdef Histograms histograms
    cdef ChosenBins tree_bins               # the bins of the current tree
    cdef ChosenBins node_bins               # the bins of a node that chooses its own
    cdef ChosenBins searched_bins           # the bins that other nodes search
    cdef ContextHistograms context_histograms       # None where they are not supported
    cdef bint has_context_histograms        # whether the current tree has them
    cdef bint sums_rows                     # whether all nodes have histograms of their own
    # The search for tests.
    cdef SplitSearch splits
    cdef ContextSplitSearch context_splits
    cdef SurrogateSearch surrogates         # None where missing values divide a row instead
    # The current tree.
    cdef bint has_curvature                 # whether weights are curvature
    cdef uint64_t seed                      # of the random choices of nodes
    cdef Node *nodes
    cdef Py_ssize_t n_nodes
    cdef int32_t *open_leaves               # leaves that a test would improve
    cdef Py_ssize_t n_open
    cdef Py_ssize_t *n_members              # rows in the leaves with each set of contexts

    def __cinit__(self, encoded, tests, settings, Py_ssize_t n_labels, Py_ssize_t order, *,
                  bint weighted=False, bint surrogates=False, Py_ssize_t n_layers=0,
                  Features features=None):
        cdef Py_ssize_t n_lags = order if n_layers else 0
        self.n_rows = encoded.n_padded_rows
        self.n_layers = n_layers
        self.n_words = max(n_layers, 1) * self.n_rows // 64
        self.n_window_bins = tests.n_bins
        self.max_leaves = settings.max_leaf_nodes
        self.max_depth = settings.depth_limit
        self.fields = TreeFields(tests, settings, n_labels)
        self.separate_counts = weighted and (settings.min_examples > 0 or surrogates)
        self.features = Features(encoded, tests, features)
        if surrogates:
            self.surrogates = SurrogateSearch(self.features, tests, n_layers)
        self.contexts = ContextSets(n_labels, 0 if n_layers else order, 2 * self.max_leaves)
        if n_layers:
            position_of_row = np.arange(n_layers * self.n_rows, dtype=np.int32)
            depth = np.zeros(len(position_of_row), dtype=np.uint8)
        else:
            depth = encoded.depth_of(order)
            position_of_row = np.zeros(self.n_rows, dtype=np.int32)
            position_of_row[encoded.rows_from_first] = np.arange(len(depth))
            exists = np.zeros((order + 1, self.n_rows), dtype=bool)
            exists[depth, encoded.rows_from_first] = True
            self.rows_of_depth = pack(exists)
            self.n_rows_of_depth = exists.sum(axis=1)
        self.row_sets = RowSets(self.n_words, self.max_leaves + N_SCRATCH_SETS, position_of_row,
                                depth)
        self.members = Members(self.contexts, position_of_row, depth, self.n_rows, n_layers,
                               self.separate_counts)
        self._make_histograms(tests, n_lags, n_labels)
        self.splits = SplitSearch(tests, settings, self.histograms.n_label_bins,
                                  self.separate_counts)
        self.context_splits = ContextSplitSearch(self.splits, self.contexts, tests.n_bins,
                                                 settings.ranks_of(n_labels))
        if n_layers:
            self.set_examples(np.zeros((n_lags, len(depth)), dtype=np.uint8),
                              np.zeros(len(depth), dtype=bool))
        self._allocate_nodes()

    def _make_histograms(self, tests, Py_ssize_t n_lags, Py_ssize_t n_labels):
        """Make the histograms of nodes, whose bins include those of the labels before layers."""
        cdef Py_ssize_t n_label_bins = n_lags * (n_labels + 1)
        self.tree_bins = ChosenBins(tests, n_label_bins, self.separate_counts)
        self.node_bins = ChosenBins(tests, n_label_bins, self.separate_counts)
        # One histogram for each leaf, and two for the rows that surrogates send on.
        self.histograms = Histograms(self.features, self.contexts, self.tree_bins, n_lags,
                                     self.separate_counts, self.max_leaves + 3)
        if (not self.n_layers and not self.separate_counts
                and ContextHistograms.supports(self.features, self.contexts)):
            self.context_histograms = ContextHistograms(self.features, self.contexts,
                                                        self.tree_bins)

    def _allocate_nodes(self):
        """Allocate the nodes of a tree, and lists of some of them."""
        self.nodes = <Node *> malloc((2 * self.max_leaves + 1) * sizeof(Node))
        self.open_leaves = <int32_t *> malloc((self.max_leaves + 1) * sizeof(int32_t))
        self.n_members = <Py_ssize_t *> malloc(2 * self.max_leaves * sizeof(Py_ssize_t))
        if self.nodes == NULL or self.open_leaves == NULL or self.n_members == NULL:
            raise MemoryError(f"no memory for trees of {self.max_leaves} leaves")

    def set_learning_rate(self, double rate):
        """Set the factor of the leaf values."""
        self.fields.leaves.learning_rate = rate

    def __dealloc__(self):
        free(self.nodes)
        free(self.open_leaves)
        free(self.n_members)

    def set_examples(self, labels, exists):
        """Set which examples in layers exist, and the label at each lag before them.

        ``labels`` is uint8 (order, n_layers * n_rows), with ``n_labels`` for none.
        """
        self.histograms.labels = labels
        self.rows_of_depth = pack(exists[None])

    def grow(self, const double[:, ::1] targets, const double[:, ::1] curvature,
             const double[::1] position_weights, uint64_t seed, double[:, ::1] scores,
             chosen=None, Py_ssize_t label=0):
        """Grow a tree, add its leaf values to ``scores``, and return it; see `TreeFields`.

        Sums of targets, of curvature and of position weights must be exact; where missing values
        divide rows, when multiplied by 2**-16 too. Positions of weight 0 receive scores but do not
        affect the tree; their targets must be 0. For ``chosen`` and ``label``, see
        `SplitSearch.choose`.
        """
        self.has_curvature = curvature is not None
        self.splits.choose(chosen, label)
        # Surrogates may test any feature.
        counted = chosen if self.surrogates is None else None
        self.features.choose_bins(self.tree_bins, counted, targets.shape[0])
        self.searched_bins = self.tree_bins
        if chosen is not None and self.tree_bins.is_all:
            self.searched_bins = self.node_bins
            self.searched_bins.choose_all(chosen)
        self.seed = seed
        with nogil:
            self.members.begin(targets, curvature, position_weights)
            # Sets of rows need weights only with curvature: otherwise, examples have the weights of
            # their positions, and the shares of nodes follow from the sums of a histogram.
            self.row_sets.begin(self.rows_of_depth, position_weights, self.has_curvature)
            self.contexts.clear()
            self.histograms.begin()
            self._grow()
            if not self._is_failed():
                self._add_leaves(scores)
        if self._is_failed():
            raise MemoryError("no memory for a tree")
        return self.fields.describe(self.nodes, self.n_nodes)

    # Growth

    cdef void _grow(self) noexcept nogil:
        cdef Py_ssize_t n_leaves = 1
        cdef int32_t leaf
        self._add_root()
        if self._is_failed():
            return
        if n_leaves < self.max_leaves:
            if not self.sums_rows:
                self._build_histogram(&self.nodes[0])
            if not self._is_failed():
                self._find_split(0)
        while n_leaves < self.max_leaves and not self._is_failed():
            leaf = take_best_leaf(self.nodes, self.open_leaves, &self.n_open)
            if leaf < 0:
                break
            n_leaves += 1
            self._split(leaf, n_leaves == self.max_leaves
                        or self.nodes[leaf].depth + 1 == self.max_depth)

    cdef void _add_root(self) noexcept nogil:
        """Add the root, with all positions and all contexts."""
        cdef Py_ssize_t i, d
        cdef Node *root = &self.nodes[0]
        cdef RowSet *rows
        self.n_open = 0
        self.n_nodes = 1
        for _ in range(N_SCRATCH_SETS):
            self.row_sets.take()
        start_root(root, self.seed)
        root.rows = self.row_sets.take()
        root.contexts = self.contexts.take()
        if self._is_failed():
            return
        self.contexts.fill(root.contexts)
        rows = self._rows_of(root)
        memset(rows.whole, 0, self.n_words * sizeof(uint64_t))
        for d in range(self.rows_of_depth.shape[0]):
            for i in range(self.n_words):
                rows.whole[i] |= self.rows_of_depth[d, i]
        rows.n_whole = 0
        for i in range(self.n_words):
            rows.n_whole += count_bits(rows.whole[i])
        self._compute_weight(root)
        # Of the root's children, the smaller one has half of the rows or less.
        self.sums_rows = self._prefers_rows(rows.n_whole // 2, rows.n_whole)
        self.has_context_histograms = (
            self.context_histograms is not None and not self.sums_rows
            and self.context_histograms.begin(self.has_curvature))
        if self.has_context_histograms:
            self._sum_contexts(root)
        else:
            self._gather(root)
            self.members.sum_into(root)

    cdef void _sum_contexts(self, Node *root) noexcept nogil:
        """Sum up each context of all positions; the sums of the root follow from them."""
        cdef RowSet *rows = &self.row_sets.sets[MISSING]
        self._fill_with_depth(rows, 0)
        self.members.gather(rows, self._contexts_of(root))
        self.context_histograms.add_starts(self.members)
        self._fill_with_depth(rows, 1)
        self.members.list_rows(rows)
        self.context_histograms.add(self.members)
        self.context_histograms.sum_into(root, self._contexts_of(root))

    cdef void _fill_with_depth(self, RowSet *rows, Py_ssize_t d) noexcept nogil:
        """Fill a set with all rows that have ``d`` labels before them."""
        memcpy(rows.whole, &self.rows_of_depth[d, 0], self.n_words * sizeof(uint64_t))
        rows.n_whole = self.n_rows_of_depth[d]

    cdef bint _is_summed(self, const Node *node) noexcept nogil:
        """Return whether a node has all rows of its contexts, and the sums of each are known."""
        cdef Py_ssize_t d, n = 0
        if not self.has_context_histograms or self._rows_of(node).n_fractions:
            return False
        for d in range(2):
            if self._contexts_of(node).n_members[d]:
                n += self.n_rows_of_depth[d]
        return self._rows_of(node).n_whole == n

    cdef inline bint _is_failed(self) noexcept nogil:
        """Return whether memory has run out."""
        return self.row_sets.failed or self.contexts.failed or self.histograms.failed

    cdef inline RowSet *_rows_of(self, const Node *node) noexcept nogil:
        return &self.row_sets.sets[node.rows]

    cdef inline ContextSet *_contexts_of(self, const Node *node) noexcept nogil:
        return &self.contexts.sets[node.contexts]

    cdef inline void _gather(self, const Node *node) noexcept nogil:
        """List the members of a node; it is then the current node of all sums."""
        self.members.gather(self._rows_of(node), self._contexts_of(node))

    cdef void _compute_weight(self, const Node *node) noexcept nogil:
        """Compute the weight of a node's rows in its contexts."""
        self.row_sets.n_examples = self._contexts_of(node).n_members
        self.row_sets.compute_weight(self._rows_of(node))

    cdef void _find_split(self, int32_t node_id) noexcept nogil:
        """Find a node's best test; the node is open if the gain is large enough."""
        cdef Node *node = &self.nodes[node_id]
        cdef bint is_open
        if self.splits.chooses:
            self.node_bins.choose(&self.splits.features[0], self.splits.choose_features(node))
            is_open = self._search(node, self.node_bins)
        else:
            is_open = self._search(node, self.searched_bins)
        if is_open:
            self.open_leaves[self.n_open] = node_id
            self.n_open += 1
        else:
            self.histograms.release(node)

    cdef bint _search(self, Node *node, ChosenBins chosen) noexcept nogil:
        """Find a node's best test among the chosen ones; return whether its gain is large enough.
        """
        cdef Histogram histogram
        cdef Bins bins
        cdef double best
        cdef bint is_open
        if node.histogram >= 0:
            histogram = self.histograms.sums_of(node)
            bins = self.histograms.bins_of(node)
            bins = chosen.select(&bins, self.tree_bins, NULL)
        else:  # the node sums up the bins of its own choice
            self._gather(node)
            histogram = self.histograms.build_own(node, chosen, self.members)
            bins = Bins(chosen.n_bins, 0, histogram.bins, histogram.counts, &chosen.bins[0])
        best = self.splits.find(node, &bins, chosen.end_of_shared)
        is_open = self.splits.decide(node, self.context_splits.find(node, histogram.contexts, best))
        if is_open and not self.has_curvature:
            node.share = self.splits.share(node, &bins, False)
        return is_open

    cdef void _split(self, int32_t parent_id, bint is_last) noexcept nogil:
        """Split a node; after the last split of a branch, its children remain leaves."""
        cdef Node *parent = &self.nodes[parent_id]
        cdef int32_t true_id = <int32_t> self.n_nodes
        cdef int32_t false_id = true_id + 1
        cdef Node *true_node = &self.nodes[true_id]
        cdef Node *false_node = &self.nodes[false_id]
        self.n_nodes += 2
        parent.true_child = true_id
        parent.false_child = false_id
        start_child(true_node, parent, True)
        start_child(false_node, parent, False)
        # The false child takes over the set of rows, which the parent no longer needs.
        true_node.rows = self.row_sets.take()
        false_node.rows = parent.rows
        true_node.contexts = parent.contexts
        false_node.contexts = parent.contexts
        true_node.total = parent.true_total
        true_node.weight = parent.true_weight
        true_node.examples = parent.true_examples
        set_difference(false_node, parent, true_node)
        if self._is_failed():
            return
        if (self.surrogates is not None and parent.test < self.n_window_bins
                and self.surrogates.is_open(parent.test)):
            self._split_with_surrogates(parent, true_node, false_node, is_last)
        else:
            self._split_alone(parent, true_node, false_node, is_last)
        if self._is_failed():
            return
        if is_last:
            self.histograms.release(parent)
            self.histograms.release(true_node)
            self.histograms.release(false_node)
            return
        self._find_split(true_id)
        self._find_split(false_id)

    cdef void _split_alone(self, Node *parent, Node *true_node, Node *false_node,
                           bint is_last) noexcept nogil:
        """Split by the test alone; fractions of rows without its value go to both sides."""
        cdef Node *small
        cdef Node *large
        if parent.test < self.n_window_bins:
            self._divide_rows(parent, true_node, false_node)
            self.row_sets.distribute(&self.row_sets.sets[MISSING], self._rows_of(true_node),
                                     self._rows_of(false_node), parent.share)
        elif self.n_layers:
            self._divide_layers(parent, true_node, false_node)
        else:
            self._divide_contexts(parent, true_node, false_node)
        if self._is_failed():
            return
        small = self._smaller(true_node, false_node)
        large = false_node if small == true_node else true_node
        if self._prefers_rows(0 if self._is_summed(small) else self._size_of(small),
                              self._size_of(small) + self._size_of(large)):
            self.histograms.release(parent)
        if self.splits.missing_bin(parent) >= 0:
            # Some rows are on both sides, so the parent's histogram does not give the sums.
            self._gather(small)
            self.members.sum_into(small)
            set_difference(large, parent, small)
        elif parent.histogram >= 0 and not is_last and not self._is_summed(small):
            self._gather(small)
        if parent.histogram >= 0 and not is_last:
            self._build_both(parent, small, large)

    cdef inline bint _prefers_rows(self, Py_ssize_t n_small, Py_ssize_t n_both) noexcept nogil:
        """Return whether children take less time with histograms of what each chooses."""
        return (self.splits.draws and self.surrogates is None
                and self.tree_bins.prefers_rows(self.splits.max_features, n_small, n_both,
                                                self.tree_bins.n_bins))

    cdef inline Node *_smaller(self, Node *a, Node *b) noexcept nogil:
        return a if self._size_of(a) <= self._size_of(b) else b

    cdef inline Py_ssize_t _size_of(self, const Node *node) noexcept nogil:
        return self._rows_of(node).n_whole + self._rows_of(node).n_fractions

    cdef void _divide_rows(self, Node *parent, Node *true_node, Node *false_node) noexcept nogil:
        """Split the parent's rows by its window test; those without its value go to MISSING."""
        cdef RowSet *passed = self._rows_of(true_node)
        cdef RowSet *failed = self._rows_of(false_node)
        cdef RowSet *missing = &self.row_sets.sets[MISSING]
        self.row_sets.n_examples = self._contexts_of(parent).n_members
        self.features.evaluate(parent.test, passed.whole)
        self._repeat(passed.whole)
        if self.features.find_missing(parent.test, missing.whole):
            self._repeat(missing.whole)
            self.row_sets.split_three_ways(failed, passed, missing)
        else:
            missing.n_whole = 0
            missing.n_fractions = 0
            self.row_sets.split(failed, passed)
        self._compute_share(parent, true_node, false_node)

    cdef void _divide_layers(self, Node *parent, Node *true_node, Node *false_node) noexcept nogil:
        """Split the parent's rows of all layers by its test of a previous label."""
        cdef int64_t label_test = parent.test - self.n_window_bins
        cdef Py_ssize_t n_symbols = self.contexts.n_labels + 1
        self.row_sets.n_examples = self._contexts_of(parent).n_members
        bytes_equal(&self.histograms.labels[label_test // n_symbols, 0], self.n_words, 255,
                    label_test % n_symbols, self._rows_of(true_node).whole)
        self.row_sets.split(self._rows_of(false_node), self._rows_of(true_node))
        self._compute_share(parent, true_node, false_node)

    cdef void _divide_contexts(self, Node *parent, Node *true_node,
                               Node *false_node) noexcept nogil:
        """Split the parent's contexts by its test of a previous label; both children have the rows
        that have any of their contexts.
        """
        true_node.contexts = self.contexts.take()
        false_node.contexts = self.contexts.take()
        if self._is_failed():
            return
        self.contexts.divide(parent.contexts, parent.test - self.n_window_bins,
                             true_node.contexts, false_node.contexts)
        self.row_sets.copy(self._rows_of(parent), self._rows_of(true_node))
        if not self.row_sets.failed:
            self._drop_rows(true_node)
            self._drop_rows(false_node)
            self._compute_share(parent, true_node, false_node)

    cdef void _compute_share(self, Node *parent, const Node *true_node,
                             const Node *false_node) noexcept nogil:
        """Compute the fraction that passes a test, of the examples that have its value."""
        cdef double passed = self._rows_of(true_node).weight
        if self.has_curvature:
            parent.share = passed / (passed + self._rows_of(false_node).weight)

    cdef void _repeat(self, uint64_t *rows) noexcept nogil:
        """Copy the bits of the first layer to all others."""
        cdef Py_ssize_t layer, n_words = self.features.n_words
        for layer in range(1, self.n_layers):
            memcpy(rows + layer * n_words, rows, n_words * sizeof(uint64_t))

    cdef void _drop_rows(self, const Node *node) noexcept nogil:
        """Drop the rows that have none of the node's contexts."""
        cdef Py_ssize_t d
        cdef const ContextSet *contexts = self._contexts_of(node)
        cdef RowSet *dropped = &self.row_sets.sets[MISSING]
        for d in range(self.rows_of_depth.shape[0]):
            if contexts.n_members[d] == 0:
                memcpy(dropped.whole, &self.rows_of_depth[d, 0], self.n_words * sizeof(uint64_t))
                self.row_sets.split(self._rows_of(node), dropped)
        self._compute_weight(node)

    # Surrogates

    cdef void _split_with_surrogates(self, Node *parent, Node *true_node, Node *false_node,
                                     bint is_last) noexcept nogil:
        """Split the rows that have the test's value, rank surrogates, and send on the others."""
        cdef Node missing = self._missing_node(parent)
        cdef Node *small
        cdef Node *large
        cdef Side passed, failed
        set_difference(false_node, false_node, &missing)
        self._divide_rows(parent, true_node, false_node)
        small = self._smaller(true_node, false_node)
        large = false_node if small == true_node else true_node
        self._gather(small)
        self._build_both(parent, small, large)
        if self._size_of(&missing):
            self._gather(&missing)
            self._build_one(&missing, large)
        if self._is_failed():
            return
        passed = self._side(true_node)
        failed = self._side(false_node)
        self.surrogates.find(parent.test, &passed, &failed, &parent.surrogates)
        if self._size_of(&missing):
            self._send_on(parent, &missing, true_node, false_node, is_last)

    cdef Node _missing_node(self, const Node *parent) noexcept nogil:
        """Return a node of the parent's rows that lack the value of its test, with its sums."""
        cdef Node missing = parent[0]
        cdef int64_t b = self.splits.missing_bin(parent)
        cdef Histogram histogram = self.histograms.sums_of(parent)
        missing.rows = MISSING
        missing.total = 0.0
        missing.weight = 0.0
        missing.examples = 0.0
        if b >= 0:
            missing.total = histogram.bins[2 * b]
            missing.weight = histogram.bins[2 * b + 1]
            missing.examples = histogram.counts[b] if self.separate_counts else missing.weight
        return missing

    cdef void _send_on(self, const Node *parent, Node *missing, Node *true_node, Node *false_node,
                       bint is_last) noexcept nogil:
        """Send on the rows that lack the value of a test, as its surrogates decide."""
        cdef Node passed = missing[0]
        cdef Node failed = missing[0]
        cdef Node *small
        cdef Node *large
        passed.rows = SENT_ON
        self.surrogates.apply(&parent.surrogates, parent.share >= 0.5,
                              self._rows_of(missing).whole, self._rows_of(&passed).whole)
        self.row_sets.split(self._rows_of(&failed), self._rows_of(&passed))
        small = self._smaller(&passed, &failed)
        large = &failed if small == &passed else &passed
        self._gather(small)
        self.members.sum_into(small)
        set_difference(large, missing, small)
        if not is_last:
            self._build_both(missing, small, large)
        if not self._is_failed():
            self._absorb(&passed, true_node, is_last)
            self._absorb(&failed, false_node, is_last)
        self.histograms.release(missing)

    cdef Side _side(self, const Node *node) noexcept nogil:
        """Return the examples of a node, as the search for surrogates counts them."""
        cdef Histogram histogram = self.histograms.sums_of(node)
        if self.separate_counts:
            return Side(node.examples, histogram.counts, 1)
        return Side(node.examples, histogram.bins + 1, 2)

    cdef void _absorb(self, Node *source, Node *target, bint is_last) noexcept nogil:
        """Move all members of a node to another."""
        self.row_sets.join(self._rows_of(source), self._rows_of(target))
        self._rows_of(target).weight += self._rows_of(source).weight
        target.total += source.total
        target.weight += source.weight
        target.examples += source.examples
        if not is_last:
            self.histograms.add(target, source)
            self.histograms.release(source)

    # Histograms of two children; the members of the smaller one are listed

    cdef void _build_both(self, Node *parent, Node *small, Node *large) noexcept nogil:
        """Build both histograms: the larger child's is the parent's less the smaller child's."""
        large.histogram = parent.histogram
        parent.histogram = -1
        self._build_one(small, large)

    cdef void _build_one(self, Node *small, Node *rest) noexcept nogil:
        """Build the histogram of some members, and subtract it from one that includes them."""
        self._build_histogram(small)
        if not self.histograms.failed:
            self.histograms.subtract(rest, small)

    cdef void _build_histogram(self, Node *node) noexcept nogil:
        """Build the histogram of a node; its members are listed unless it is summed."""
        if self._is_summed(node):
            self.histograms.take(node)
            if not self.histograms.failed:
                self.context_histograms.write(self._contexts_of(node),
                                              self.histograms.sums_of(node))
        else:
            self.histograms.build(node, self.members)

    # Leaves

    cdef void _add_leaves(self, double[:, ::1] scores) noexcept nogil:
        """Add the values of all leaves to the scores of their members."""
        cdef Py_ssize_t i, contexts
        cdef const Node *node
        for i in range(self.contexts.n_sets):
            self.n_members[i] = 0
        for i in range(self.n_nodes):
            node = &self.nodes[i]
            if node.true_child < 0:
                self.n_members[node.contexts] += self._rows_of(node).n_whole
        for i in range(self.n_nodes):
            node = &self.nodes[i]
            if node.true_child < 0 and (
                    self._rows_of(node).n_fractions or not self._is_frequent(node.contexts)):
                self._add_leaf(node, scores)
        for contexts in range(self.contexts.n_sets):
            if self._is_frequent(contexts):
                self._add_leaves_together(contexts, scores)

    cdef inline bint _is_frequent(self, Py_ssize_t contexts) noexcept nogil:
        """Return whether the leaves with a set of contexts have many of the rows."""
        return self.n_members[contexts] > MIN_SHARE * 64 * self.n_words

    cdef void _add_leaves_together(self, Py_ssize_t contexts,
                                   double[:, ::1] scores) noexcept nogil:
        """Add the values of the leaves with a set of contexts, in passes over all rows."""
        cdef Py_ssize_t i
        cdef const Node *node
        cdef double values[MAX_NUMBER + 1]
        cdef uint8_t n = 0
        for i in range(self.n_nodes):
            node = &self.nodes[i]
            if (node.true_child < 0 and node.contexts == contexts
                    and not self._rows_of(node).n_fractions):
                n += 1
                values[n] = leaf_value(node, &self.fields.leaves)
                self.members.number_rows(self._rows_of(node), n)
            if n == MAX_NUMBER or (n and i == self.n_nodes - 1):
                self.members.add_numbered(&self.contexts.sets[contexts], values, scores)
                n = 0

    cdef void _add_leaf(self, const Node *node, double[:, ::1] scores) noexcept nogil:
        self.members.add_leaf(self._rows_of(node), self._contexts_of(node),
                              leaf_value(node, &self.fields.leaves), scores)


cdef pack(exists):
    """Convert rows of booleans that fill whole words to bit sets."""
    return np.packbits(exists, axis=1, bitorder="little").view("<u8").astype(np.uint64)
