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
are *planes* of rows instead: in each plane a row has at most one example, whose previous labels are
codes that histograms count and tests read like the codes of the window.

A test is scored on the examples that have its value; the others have a bin of their own. They go to
both children with a fraction of their weight (see ``_sets``), or to the child that a surrogate
chooses (see ``_nodes``).

All residuals and weights are multiples of 2**-32 (see ``_inference.residuals``), or of a larger
unit where there are many rows, or where rows are divided (see ``utils.exact``). Their sums are
exact, so they do not depend on the order of summation, and histograms can be subtracted.

The parts are in ``treecrf.trees.growing``: ``_sets`` holds the contexts and the rows of all nodes.
``_histograms`` lists the members of one node and sums them up by ``_features``; ``_splits`` and
``_nodes`` find the tests and their surrogates. This module holds the queue of best-first growth.
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

# Sets of rows that lack the value of a test: all of them, and those that pass by a surrogate.
cdef enum:
    MISSING = 0
    FOUND = 1
    N_SCRATCH_SETS = 2
    # Leaves are numbered in bytes from 1 on.
    MAX_NUMBER = 255

# One pass over all rows pays off if the leaves with a set of contexts have more than this share.
cdef double MIN_SHARE = 0.2


cdef class TreeGrower:
    """Grower of one tree after another on the same positions, with its working memory.

    With planes, example ``plane * n_rows + row`` is an example of a row, whose previous labels are
    set by `set_examples`. Arrays over positions and contexts are then arrays over examples, with
    one context. Growers in several threads share the arrays of ``features``.
    """

    cdef readonly Py_ssize_t n_rows         # of a plane
    # Without planes, the examples are the product of positions and contexts.
    cdef Py_ssize_t n_planes, n_words, n_window_bins
    cdef const uint64_t[:, ::1] rows_of_depth
    cdef int64_t[::1] n_rows_of_depth
    # Parameters.
    cdef Py_ssize_t max_leaves, max_depth
    cdef TreeFields fields
    # Whether examples are counted separately from their weights, which may differ from 1.
    cdef bint separate_counts
    # Parts.
    cdef Features features
    cdef ContextSets contexts
    cdef RowSets row_sets
    cdef Members members
    cdef Histograms histograms
    cdef ChosenBins of_tree                 # the bins of the current tree
    cdef ChosenBins of_node                 # the bins of a node that chooses its own
    cdef ChosenBins of_search               # the bins that other nodes search
    cdef ContextHistograms of_contexts      # None where nodes are always summed separately
    cdef bint are_summed                    # whether the current tree has them
    cdef bint sums_rows                     # whether all nodes have histograms of their own
    cdef SplitSearch splits
    cdef ContextSplitSearch context_splits
    cdef SurrogateSearch search             # None where missing values divide a row instead
    # The current tree.
    cdef bint has_curvature
    cdef uint64_t seed
    cdef Node *nodes
    cdef Py_ssize_t n_nodes
    cdef int32_t *open_leaves
    cdef Py_ssize_t n_open
    cdef Py_ssize_t *n_members              # rows in the leaves with each set of contexts

    def __cinit__(self, encoded, tests, settings, Py_ssize_t n_labels, Py_ssize_t order, *,
                  bint weighted=False, bint surrogates=False, Py_ssize_t n_planes=0,
                  Features features=None):
        cdef Py_ssize_t n_lags = order if n_planes else 0
        self.n_rows = encoded.n_padded_rows
        self.n_planes = n_planes
        self.n_words = max(n_planes, 1) * self.n_rows // 64
        self.n_window_bins = tests.n_bins
        self.max_leaves = settings.max_leaf_nodes
        self.max_depth = settings.depth_limit
        self.fields = TreeFields(tests, settings, n_labels)
        self.separate_counts = weighted and (settings.min_examples > 0 or surrogates)
        self.features = Features(encoded, tests, features)
        self.search = SurrogateSearch(self.features, tests, n_planes) if surrogates else None
        self.contexts = ContextSets(n_labels, 0 if n_planes else order, 2 * self.max_leaves)
        if n_planes:
            position_of_row = np.arange(n_planes * self.n_rows, dtype=np.int32)
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
        self.members = Members(self.contexts, position_of_row, depth, self.n_rows, n_planes,
                               self.separate_counts)
        self.of_tree, self.of_node = (
            ChosenBins(tests, n_lags * (n_labels + 1), self.separate_counts) for _ in range(2))
        # One histogram for each leaf, and two for the rows that surrogates send on.
        self.histograms = Histograms(self.features, self.contexts, self.of_tree, n_lags,
                                     self.separate_counts, self.max_leaves + 3)
        if not n_planes and not self.separate_counts and ContextHistograms.supports(
                self.features, self.contexts):
            self.of_contexts = ContextHistograms(self.features, self.contexts, self.of_tree)
        self.splits = SplitSearch(tests, settings, self.histograms.n_label_bins,
                                  self.separate_counts)
        self.context_splits = ContextSplitSearch(self.splits, self.contexts, tests.n_bins)
        if n_planes:
            self.set_examples(np.zeros((n_lags, len(depth)), dtype=np.uint8),
                              np.zeros(len(depth), dtype=bool))
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
        """Set which examples in planes exist, and the label at each lag before them.

        ``labels`` is uint8 (order, n_planes * n_rows), with ``n_labels`` for none.
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
        self.features.choose_bins(self.of_tree, chosen if self.search is None else None,
                                  targets.shape[0])
        self.of_search = self.of_tree
        if chosen is not None and self.of_tree.is_all:
            self.of_search = self.of_node
            self.of_search.choose_all(chosen)
        self.seed = seed
        with nogil:
            self.members.begin(targets, curvature, position_weights)
            # Without curvature, examples have the weights of their positions, and `share` follows
            # from the sums of a histogram.
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
                self._build(&self.nodes[0])
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
        root.rows, root.contexts = self.row_sets.take(), self.contexts.take()
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
        self.sums_rows = self._prefers_rows(rows.n_whole // 2, rows.n_whole)
        self.are_summed = (self.of_contexts is not None and not self.sums_rows
                           and self.of_contexts.begin(self.has_curvature))
        if self.are_summed:
            # Sum up each context of all positions.
            rows = &self.row_sets.sets[MISSING]
            for d in range(2):
                memcpy(rows.whole, &self.rows_of_depth[d, 0], self.n_words * sizeof(uint64_t))
                rows.n_whole = self.n_rows_of_depth[d]
                if d == 0:
                    self.members.gather(rows, self._contexts_of(root))
                    self.of_contexts.add_starts(self.members)
                else:
                    self.members.list_rows(rows)
                    self.of_contexts.add(self.members)
            self.of_contexts.sum_into(root, self._contexts_of(root))
        else:
            self._gather(root)
            self.members.sum_into(root)

    cdef bint _is_summed(self, const Node *node) noexcept nogil:
        """Return whether a node has all rows of its contexts, and the sums of each are known."""
        cdef Py_ssize_t d, n = 0
        if not self.are_summed or self._rows_of(node).n_fractions:
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
        """Find a node's best test, and keep the node open if its gain is large enough."""
        cdef Node *node = &self.nodes[node_id]
        cdef bint is_open
        if self.splits.chooses:
            self.of_node.choose(&self.splits.features[0], self.splits.choose_features(node))
            is_open = self._search(node, self.of_node)
        else:
            is_open = self._search(node, self.of_search)
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
            histogram = self.histograms.of_node(node)
            bins = self.histograms.bins_of(node)
            bins = chosen.select(&bins, self.of_tree, NULL)
        else:
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
        true_node.rows, false_node.rows = self.row_sets.take(), parent.rows
        true_node.contexts = false_node.contexts = parent.contexts
        true_node.total = parent.true_total
        true_node.weight = parent.true_weight
        true_node.examples = parent.true_examples
        set_difference(false_node, parent, true_node)
        if self._is_failed():
            return
        if (self.search is not None and parent.test < self.n_window_bins
                and self.search.is_open(parent.test)):
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
        cdef Py_ssize_t n_symbols = self.contexts.n_labels + 1
        cdef int64_t label_test
        cdef Node *small
        cdef Node *large
        if parent.test < self.n_window_bins:
            self._divide_rows(parent, true_node, false_node)
            self.row_sets.distribute(&self.row_sets.sets[MISSING], self._rows_of(true_node),
                                     self._rows_of(false_node), parent.share)
        elif self.n_planes:
            label_test = parent.test - self.n_window_bins
            self.row_sets.n_examples = self._contexts_of(parent).n_members
            bytes_equal(&self.histograms.labels[label_test // n_symbols, 0], self.n_words, 255,
                        label_test % n_symbols, self._rows_of(true_node).whole)
            self.row_sets.split(self._rows_of(false_node), self._rows_of(true_node))
            self._compute_share(parent, true_node, false_node)
        else:
            true_node.contexts, false_node.contexts = self.contexts.take(), self.contexts.take()
            if self._is_failed():
                return
            self.contexts.divide(parent.contexts, parent.test - self.n_window_bins,
                                 true_node.contexts, false_node.contexts)
            self.row_sets.copy(self._rows_of(parent), self._rows_of(true_node))
            if not self.row_sets.failed:
                self._drop_rows(true_node)
                self._drop_rows(false_node)
                self._compute_share(parent, true_node, false_node)
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
        return (self.splits.draws and self.search is None
                and self.of_tree.prefers_rows(self.splits.max_features, n_small, n_both,
                                              self.of_tree.n_bins))

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
            missing.n_whole = missing.n_fractions = 0
            self.row_sets.split(failed, passed)
        self._compute_share(parent, true_node, false_node)

    cdef void _compute_share(self, Node *parent, const Node *true_node,
                             const Node *false_node) noexcept nogil:
        """Compute the fraction that passes a test, of the examples that have its value."""
        cdef double passed = self._rows_of(true_node).weight
        if self.has_curvature:
            parent.share = passed / (passed + self._rows_of(false_node).weight)

    cdef void _repeat(self, uint64_t *rows) noexcept nogil:
        """Copy the bits of the first plane to all others."""
        cdef Py_ssize_t plane, n_words = self.features.n_words
        for plane in range(1, self.n_planes):
            memcpy(rows + plane * n_words, rows, n_words * sizeof(uint64_t))

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
        cdef Node lost = parent[0]
        cdef Node found, left
        cdef Node *small
        cdef Node *large
        cdef Side passed, failed
        cdef int64_t b = self.splits.missing_bin(parent)
        cdef Histogram histogram = self.histograms.of_node(parent)
        lost.rows = MISSING
        lost.total = lost.weight = lost.examples = 0.0
        if b >= 0:
            lost.total = histogram.bins[2 * b]
            lost.weight = histogram.bins[2 * b + 1]
            lost.examples = histogram.counts[b] if self.separate_counts else lost.weight
        set_difference(false_node, false_node, &lost)
        self._divide_rows(parent, true_node, false_node)
        small = self._smaller(true_node, false_node)
        large = false_node if small == true_node else true_node
        self._gather(small)
        self._build_both(parent, small, large)
        if self._size_of(&lost):
            self._gather(&lost)
            self._build_one(&lost, large)
        if self._is_failed():
            return
        passed, failed = self._side(true_node), self._side(false_node)
        self.search.find(parent.test, &passed, &failed, &parent.surrogates)
        if self._size_of(&lost) == 0:
            return
        # Surrogates decide about the rows that lack the value.
        found, left = lost, lost
        found.rows = FOUND
        self.search.apply(&parent.surrogates, parent.share >= 0.5, self._rows_of(&lost).whole,
                          self._rows_of(&found).whole)
        self.row_sets.split(self._rows_of(&left), self._rows_of(&found))
        small = self._smaller(&found, &left)
        large = &left if small == &found else &found
        self._gather(small)
        self.members.sum_into(small)
        set_difference(large, &lost, small)
        if not is_last:
            self._build_both(&lost, small, large)
        if not self._is_failed():
            self._absorb(&found, true_node, is_last)
            self._absorb(&left, false_node, is_last)
        self.histograms.release(&lost)

    cdef Side _side(self, const Node *node) noexcept nogil:
        """Return the examples of a node, as the search for surrogates counts them."""
        cdef Histogram histogram = self.histograms.of_node(node)
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
        self._build(small)
        if not self.histograms.failed:
            self.histograms.subtract(rest, small)

    cdef void _build(self, Node *node) noexcept nogil:
        """Build the histogram of a node; its members are listed unless it is summed."""
        if self._is_summed(node):
            self.histograms.take(node)
            if not self.histograms.failed:
                self.of_contexts.write(self._contexts_of(node), self.histograms.of_node(node))
        else:
            self.histograms.build(node, self.members)

    # Leaves

    cdef void _add_leaves(self, double[:, ::1] scores) noexcept nogil:
        """Add the values of all leaves to the scores of their members."""
        cdef Py_ssize_t i, contexts
        cdef Node *node
        cdef double values[MAX_NUMBER + 1]
        cdef uint8_t n
        for i in range(self.contexts.n_sets):
            self.n_members[i] = 0
        for i in range(self.n_nodes):
            node = &self.nodes[i]
            if node.true_child < 0:
                self.n_members[node.contexts] += self._rows_of(node).n_whole
        for i in range(self.n_nodes):
            node = &self.nodes[i]
            if node.true_child < 0 and (
                    self.n_members[node.contexts] <= MIN_SHARE * 64 * self.n_words
                    or self._rows_of(node).n_fractions):
                self._add_leaf(node, scores)
        for contexts in range(self.contexts.n_sets):
            if self.n_members[contexts] <= MIN_SHARE * 64 * self.n_words:
                continue
            n = 0
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
