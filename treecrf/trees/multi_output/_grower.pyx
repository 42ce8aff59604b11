"""Best-first regression trees with a value for each label in their leaves.

One tree serves all labels: its tests are those that are best for the sum of the labels' gains. The
examples are pairs (position, label), and a node has all labels of its positions, so that its
examples are a set of rows. There is one context: no test reads a previous label.

Nodes, sets of rows, bins of features and random choices are those of ``treecrf._tree``, and with a
single label the trees are the same to the bit.
"""

import numpy as np

from treecrf.trees.growing.window_tests import TestTable

from libc.stdint cimport int32_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport ChosenBins, Features
from treecrf.trees.growing._nodes cimport (
    Node, TreeFields, start_child, start_root, take_best_leaf,
)
from treecrf.trees.growing._sets cimport (
    RowSet, RowSets, round_value, value_of_fraction,
)
from treecrf.trees.growing._splits cimport SplitSearch
from treecrf.trees.growing._tests cimport LISTING_SLACK
from treecrf.trees.multi_output._blocks cimport (
    BlockHistograms, BlockMembers, LabelBlock, LabelBlocks,
)
from treecrf.trees.multi_output._search cimport BlockSplitSearch

cdef extern from "trees/bitsets.h" nogil:
    void list_bits(const uint64_t *words, Py_ssize_t n_words, int32_t *out)

cdef extern from "trees/multi_output/label_blocks.h" nogil:
    void add_leaf_values(double *scores, const uint16_t *leaves, Py_ssize_t n,
                         const double *values)

# The set of rows that lack the value of a test.
cdef enum:
    MISSING = 0
    N_SCRATCH_SETS = 1

# Leaves are numbered in 16 bits from 1 on.
cdef enum:
    MAX_NUMBER = 65535


# Bytes of the histograms that are kept, unless a split needs more. Without the histogram of a node,
# those of both its children are computed from their members. The trees are the same.
MAX_BYTES = 1 << 26


cdef class MultiOutputGrower:
    """Grower of one tree after another on the same positions, with its working memory."""

    # The examples.
    cdef readonly Py_ssize_t n_rows
    cdef Py_ssize_t n_words                 # words of a set of rows
    cdef Py_ssize_t n_positions
    cdef const uint64_t[:, ::1] exists      # the rows of positions, a single set
    cdef double n_examples[1]               # of a row, for the weights of sets
    # What does not change from tree to tree.
    cdef Py_ssize_t max_leaves
    cdef Py_ssize_t max_depth               # number of tests above a leaf; negative for no limit
    cdef TreeFields fields
    # Sets and sums of nodes.
    cdef LabelBlocks blocks
    cdef Features features
    cdef RowSets row_sets
    cdef BlockMembers members
    cdef BlockHistograms histograms
    cdef ChosenBins tree_bins               # the bins of the current tree
    cdef const int32_t[::1] position_of_row
    # The search for tests.
    cdef SplitSearch splits
    cdef BlockSplitSearch search
    # The current tree.
    cdef Node *nodes
    cdef Py_ssize_t n_nodes
    cdef double *sums                       # lanes of each node
    cdef double *passed                     # of the examples that pass its best test
    cdef int32_t *open_leaves               # leaves that a test would improve
    cdef Py_ssize_t n_open
    cdef uint16_t *leaf_of_position
    cdef int32_t *rows                      # of a leaf
    cdef double *leaf_values                # of a label, in each numbered leaf

    def __cinit__(self, encoded, tests: TestTable, settings, Py_ssize_t n_labels, *,
                  Features features=None, Py_ssize_t max_bytes=MAX_BYTES):
        self.n_rows = encoded.n_padded_rows
        self.n_words = self.n_rows // 64
        self.n_positions = encoded.n_positions
        self.n_examples[0] = 1.0
        self.max_leaves = min(settings.max_leaf_nodes, <Py_ssize_t> MAX_NUMBER)
        self.max_depth = settings.depth_limit
        self.fields = TreeFields(tests, settings, n_labels)
        self._set_rows(encoded)
        self.features = Features(encoded, tests, features)
        self.blocks = LabelBlocks(n_labels)
        self.members = BlockMembers(self.blocks, self.position_of_row, self.n_positions)
        self.tree_bins = ChosenBins(tests, 0, False)
        self.histograms = BlockHistograms(self.features, self.blocks, self.tree_bins,
                                          settings.min_examples > 0, self.max_leaves,
                                          max_bytes)
        self.splits = SplitSearch(tests, settings, 0, False)
        self.search = BlockSplitSearch(self.splits, self.blocks, self.histograms)
        self._allocate_nodes()

    def _set_rows(self, encoded):
        """Set which rows are positions, and which ones."""
        rows = encoded.rows_from_first
        position_of_row = np.zeros(self.n_rows, dtype=np.int32)
        position_of_row[rows] = np.arange(self.n_positions)
        exists = np.zeros((1, self.n_rows), dtype=bool)
        exists[0, rows] = True
        bits = np.packbits(exists, axis=1, bitorder="little")
        self.exists = bits.view("<u8").astype(np.uint64)
        self.position_of_row = position_of_row
        depth = np.zeros(self.n_positions, dtype=np.uint8)
        self.row_sets = RowSets(self.n_words, self.max_leaves + N_SCRATCH_SETS, position_of_row,
                                depth)

    def _allocate_nodes(self):
        """Allocate the nodes of a tree, and what belongs to leaves."""
        cdef Py_ssize_t n_sums = (2 * self.max_leaves + 1) * self.blocks.n_lanes
        self.nodes = <Node *> malloc((2 * self.max_leaves + 1) * sizeof(Node))
        self.sums = <double *> malloc(n_sums * sizeof(double))
        self.passed = <double *> malloc(n_sums * sizeof(double))
        self.open_leaves = <int32_t *> malloc((self.max_leaves + 1) * sizeof(int32_t))
        self.leaf_of_position = <uint16_t *> malloc((self.n_positions + 1) * sizeof(uint16_t))
        self.rows = <int32_t *> malloc((self.n_positions + LISTING_SLACK) * sizeof(int32_t))
        self.leaf_values = <double *> malloc((self.max_leaves + 1) * sizeof(double))
        if (self.nodes == NULL or self.sums == NULL or self.passed == NULL
                or self.open_leaves == NULL or self.leaf_of_position == NULL or self.rows == NULL
                or self.leaf_values == NULL):
            raise MemoryError(f"no memory for trees of {self.max_leaves} leaves")

    def __dealloc__(self):
        free(self.nodes)
        free(self.sums)
        free(self.passed)
        free(self.open_leaves)
        free(self.leaf_of_position)
        free(self.rows)
        free(self.leaf_values)

    def set_learning_rate(self, double rate):
        """Set the factor of the leaf values."""
        self.fields.leaves.learning_rate = rate

    def grow(self, const double[:, ::1] residuals, const double[:, ::1] curvature,
             const double[::1] position_weights, uint64_t seed, double[:, ::1] scores,
             chosen=None):
        """Grow a tree, add its leaf values to ``scores``, and return it; see `TreeFields`.

        ``residuals``, ``curvature`` and ``scores`` are (n_labels, n_positions). ``leaf`` of the
        tree is (n_nodes, n_labels), and ``weight`` the sum over the labels. Without curvature, the
        weights of the positions are those of all labels. Sums must be exact, as in
        `treecrf._tree.TreeGrower.grow`.
        """
        self.splits.choose(chosen, 0)
        self.features.choose_bins(self.tree_bins, chosen,
                                  self.n_positions * self.blocks.n_labels)
        with nogil:
            self.members.begin(residuals, curvature, position_weights)
            self.row_sets.begin(self.exists, position_weights, True)
            self.row_sets.n_examples = self.n_examples
            self.histograms.release_all()
            self._grow(seed)
        if self._is_failed():
            raise MemoryError("no memory for a tree")
        tree = self._describe()
        self._add_leaves(np.ascontiguousarray(tree["leaf"].T), scores)
        return tree

    # Growth

    cdef void _grow(self, uint64_t seed) noexcept nogil:
        cdef Py_ssize_t n_leaves = 1
        cdef int32_t leaf
        self._add_root(seed)
        while n_leaves < self.max_leaves and not self._is_failed():
            leaf = take_best_leaf(self.nodes, self.open_leaves, &self.n_open)
            if leaf < 0:
                break
            n_leaves += 1
            self._split(leaf, n_leaves == self.max_leaves
                        or self.nodes[leaf].depth + 1 == self.max_depth)

    cdef void _add_root(self, uint64_t seed) noexcept nogil:
        """Add the root, with all positions, and find its best test."""
        cdef Node *root = &self.nodes[0]
        cdef RowSet *rows
        self.n_open = 0
        self.n_nodes = 1
        for _ in range(N_SCRATCH_SETS):
            self.row_sets.take()
        start_root(root, seed)
        root.rows = self.row_sets.take()
        if self._is_failed():
            return
        rows = self._rows_of(root)
        memcpy(rows.whole, &self.exists[0, 0], self.n_words * sizeof(uint64_t))
        rows.n_whole = self.n_positions
        self.row_sets.compute_weight(rows)
        self._gather(root)
        self._sum(0)
        if self.max_leaves > 1:
            self.histograms.take(root)
            if not self._is_failed():
                self.histograms.build(root, self.members)
                self._find_split(0)

    cdef inline bint _is_failed(self) noexcept nogil:
        """Return whether memory has run out."""
        return self.row_sets.failed or self.histograms.failed

    cdef inline RowSet *_rows_of(self, const Node *node) noexcept nogil:
        return &self.row_sets.sets[node.rows]

    cdef inline double *_sums_of(self, Py_ssize_t node_id) noexcept nogil:
        return self.sums + node_id * self.blocks.n_lanes

    cdef inline double *_passed_of(self, Py_ssize_t node_id) noexcept nogil:
        return self.passed + node_id * self.blocks.n_lanes

    cdef inline void _gather(self, const Node *node) noexcept nogil:
        """List the members of a node."""
        self.members.list_rows(self._rows_of(node))

    cdef void _sum(self, Py_ssize_t node_id) noexcept nogil:
        """Set the sums of the node whose members are listed."""
        cdef Node *node = &self.nodes[node_id]
        self.members.sum_into(self._sums_of(node_id))
        self._set_weight(node_id)
        if self.histograms.with_counts:
            node.examples = self.members.count_all()

    cdef void _set_weight(self, Py_ssize_t node_id) noexcept nogil:
        """Set the weight of a node, whose sums are known."""
        cdef Node *node = &self.nodes[node_id]
        node.weight = self.blocks.total_weight(self._sums_of(node_id))
        node.total = 0.0
        if not self.histograms.with_counts:
            node.examples = node.weight

    cdef void _find_split(self, int32_t node_id) noexcept nogil:
        """Find a node's best test; the node is open if the gain is large enough."""
        cdef Node *node = &self.nodes[node_id]
        if self.splits.chooses:
            self.splits.choose_features(node)
        if self.search.find(node, self._sums_of(node_id), self._passed_of(node_id)):
            self.open_leaves[self.n_open] = node_id
            self.n_open += 1
        else:
            self.histograms.release(node)

    cdef void _split(self, int32_t parent_id, bint is_last) noexcept nogil:
        """Split a node; after the last split of a branch, its children remain leaves."""
        cdef Node *parent = &self.nodes[parent_id]
        cdef int32_t true_id = <int32_t> self.n_nodes
        cdef int32_t false_id = true_id + 1
        cdef int32_t small_id = true_id
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
        if self._is_failed():
            return
        self._divide_rows(parent, true_node, false_node)
        if self._is_failed():
            return
        if self._size_of(false_node) < self._size_of(true_node):
            small_id = false_id
        self._set_sums(parent_id, small_id)
        if is_last:
            self.histograms.release(parent)
            return
        self._build_both(parent, small_id)
        if not self._is_failed():
            self._find_split(true_id)
            self._find_split(false_id)

    cdef inline Py_ssize_t _size_of(self, const Node *node) noexcept nogil:
        return self._rows_of(node).n_whole + self._rows_of(node).n_fractions

    cdef void _divide_rows(self, Node *parent, const Node *true_node,
                           const Node *false_node) noexcept nogil:
        """Split the parent's rows by its test; those without its value go to both sides."""
        cdef RowSet *passed = self._rows_of(true_node)
        cdef RowSet *failed = self._rows_of(false_node)
        cdef RowSet *missing = &self.row_sets.sets[MISSING]
        self.features.evaluate(parent.test, passed.whole)
        if self.features.find_missing(parent.test, missing.whole):
            self.row_sets.split_three_ways(failed, passed, missing)
        else:
            missing.n_whole = 0
            missing.n_fractions = 0
            self.row_sets.split(failed, passed)
        parent.share = passed.weight / (passed.weight + failed.weight)
        if not self._is_failed():
            self.row_sets.distribute(missing, passed, failed, parent.share)

    cdef void _set_sums(self, int32_t parent_id, int32_t small_id) noexcept nogil:
        """Set the sums of two children: those of one are known, the rest is the other's."""
        cdef Py_ssize_t k
        cdef const Node *parent = &self.nodes[parent_id]
        cdef int32_t known_id = parent.true_child
        cdef int32_t rest_id
        if self.search.missing_bin(parent) >= 0:
            # Some rows are on both sides, so the parent's histogram does not give the sums.
            known_id = small_id
            self._gather(&self.nodes[small_id])
            self._sum(small_id)
        else:
            memcpy(self._sums_of(known_id), self._passed_of(parent_id),
                   self.blocks.n_lanes * sizeof(double))
            self.nodes[known_id].examples = parent.true_examples
            self._set_weight(known_id)
        rest_id = parent.true_child + parent.false_child - known_id
        for k in range(self.blocks.n_lanes):
            self._sums_of(rest_id)[k] = (self._sums_of(parent_id)[k]
                                         - self._sums_of(known_id)[k])
        self.nodes[rest_id].examples = parent.examples - self.nodes[known_id].examples
        self._set_weight(rest_id)

    cdef void _build_both(self, Node *parent, int32_t small_id) noexcept nogil:
        """Build the histograms of both children.

        The larger child's is the parent's less the smaller child's, if that of the parent is kept.
        """
        cdef Node *small = &self.nodes[small_id]
        cdef Node *large = &self.nodes[parent.true_child + parent.false_child - small_id]
        cdef bint is_kept = parent.histogram >= 0
        large.histogram = parent.histogram
        parent.histogram = -1
        self._make_room()
        self.histograms.take(small)
        if not is_kept:
            self._make_room()
            self.histograms.take(large)
        if self._is_failed():
            return
        self._gather(small)
        self.histograms.build(small, self.members)
        if is_kept:
            self.histograms.subtract(large, small)
        else:
            self._gather(large)
            self.histograms.build(large, self.members)

    cdef void _make_room(self) noexcept nogil:
        """Release the histogram of the open leaf with the least gain, if there are too many."""
        cdef Py_ssize_t i
        cdef Node *leaf
        cdef Node *least = NULL
        if not self.histograms.is_full():
            return
        for i in range(self.n_open):
            leaf = &self.nodes[self.open_leaves[i]]
            if leaf.histogram >= 0 and (least == NULL or leaf.gain < least.gain):
                least = leaf
        self.histograms.release(least)

    # Leaves

    cdef double _leaf_value(self, const double *lanes, int width) noexcept nogil:
        """Return the value of a label in a leaf, rounded so that sums of values are exact."""
        cdef double weight = self.fields.leaves.penalty + lanes[width]
        cdef double value = lanes[0] / weight if weight > 0 else 0.0
        value = min(max(value, -self.fields.leaves.max_value), self.fields.leaves.max_value)
        return round_value(value * self.fields.leaves.learning_rate)

    def _describe(self):
        """Return the arrays of the tree."""
        cdef Py_ssize_t i, b, k
        cdef const LabelBlock *block
        tree = self.fields.describe(self.nodes, self.n_nodes)
        cdef double[:, ::1] leaf = np.zeros((self.n_nodes, self.blocks.n_labels))
        for i in range(self.n_nodes):
            for b in range(self.blocks.n if self.nodes[i].true_child < 0 else 0):
                block = &self.blocks.blocks[b]
                for k in range(block.n_labels):
                    leaf[i, block.label + k] = self._leaf_value(
                        self._sums_of(i) + block.lane + k, block.width)
        tree["leaf"] = leaf.base
        return tree

    cdef void _add_leaves(self, const double[:, ::1] values, double[:, ::1] scores):
        """Add the values of the leaves to the scores of their members, label by label."""
        cdef Py_ssize_t i, k, n
        with nogil:
            self._number_leaves()
            for k in range(self.blocks.n_labels):
                n = 0
                self.leaf_values[0] = 0.0
                for i in range(self.n_nodes):
                    if self.nodes[i].true_child < 0:
                        n += 1
                        self.leaf_values[n] = values[k, i]
                        self._add_fractions(&self.nodes[i], values[k, i], &scores[k, 0])
                add_leaf_values(&scores[k, 0], self.leaf_of_position, self.n_positions,
                                self.leaf_values)

    cdef void _number_leaves(self) noexcept nogil:
        """Number the leaves, and write the number of its leaf to each position that has one.

        Positions that are divided have the number 0.
        """
        cdef Py_ssize_t i, j
        cdef uint16_t number = 0
        cdef const RowSet *rows
        memset(self.leaf_of_position, 0, self.n_positions * sizeof(uint16_t))
        for i in range(self.n_nodes):
            if self.nodes[i].true_child < 0:
                number += 1
                rows = self._rows_of(&self.nodes[i])
                list_bits(rows.whole, self.n_words, self.rows)
                for j in range(rows.n_whole):
                    self.leaf_of_position[self.position_of_row[self.rows[j]]] = number

    cdef void _add_fractions(self, const Node *leaf, double value, double *scores) noexcept nogil:
        """Add a leaf's value to the scores of divided rows, in proportion to their weight there."""
        cdef Py_ssize_t i
        cdef const RowSet *rows = self._rows_of(leaf)
        for i in range(rows.n_fractions):
            scores[self.position_of_row[rows.fractions[i].row]] += value_of_fraction(
                value, rows.fractions[i].weight)
