"""Best-first regression trees on a list of examples.

The list is a sample of the examples of a label (see `chains/sampled/sampling.py`), or all of them.
An example is a row, whose window the trees test, with previous labels, a residual and a weight. A
node has a list of its examples (``_lists``) and a histogram of the bins that occur among them
(also in ``_lists``). Tests, the scores of splits, ties and missing values are treated as in
``treecrf._tree``: on a list of all examples, the trees are the same.

Values are multiples of a unit for which sums are exact, so the order of the examples does not
matter.

A split has two stages, in which a node's examples are independent of each other. The first
evaluates its test. The second copies the examples to the children, and adds those of the smaller
child to a histogram; the histogram of the larger one is the difference. `ListGrower.advance` runs
without the GIL. If a node has many examples and threads are idle, it returns before each stage, so
that they can work on parts of the examples.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Bins, ChosenBins, Features
from treecrf.trees.growing._nodes cimport (
    Node, Side, Surrogate, SurrogateSearch, TreeFields, set_difference, start_child, start_root,
    take_best_leaf,
)
from treecrf.trees.growing._sets cimport WHOLE
from treecrf.trees.growing._splits cimport SplitSearch
from treecrf.trees.growing._tests cimport FAILED, NO_VALUE, PASSED
from treecrf.trees.lists._lists cimport (
    DenseHistogram, ExampleList, SparseHistograms, allocate, count_sides, free_histogram, free_list,
    move,
)

# A stage with at least this many nanoseconds of work is worth more than one thread.
cdef Py_ssize_t MUCH_WORK = 100_000
# Nanoseconds of work for an example, apart from its entries: each entry takes about one more.
cdef Py_ssize_t WORK_PER_EXAMPLE = 10
# Maximum number of bins in the histograms of open leaves, 20 to 28 bytes each.
cdef Py_ssize_t MAX_KEPT_BINS = 3 << 16
# Histograms with at least this fraction of all bins, and of the entries of the node's examples,
# take little time to make again.
cdef double DENSE = 1.0 / 16
# Threads share the examples of a node in blocks of this many, which begin at known places of the
# children's lists. Smaller blocks share the work more evenly, larger ones need fewer starts.
cdef Py_ssize_t BLOCK_SIZE = 256

cdef enum Stage:
    CHOOSE      # of the open leaf to split
    EVALUATE    # the test of the node to split
    MOVE        # examples to the children, and into the histogram of one


cdef class ListGrower:
    """Grower of one tree after another on lists of examples, with its working memory.

    No other thread may use its features meanwhile. If weights are curvature, examples must be
    counted: the fraction of the examples that pass a test is then computed from their number.
    """

    # Nodes with at least ``many_examples`` are worth more than one thread. Their parts are runs of
    # whole blocks of ``block_size`` examples. If the histograms of open leaves have more than
    # ``max_kept_bins`` together, the leaves that are least likely to be split lose theirs; the
    # histograms of their children are then made from the examples alone.
    cdef public Py_ssize_t many_examples, block_size, max_kept_bins
    cdef Py_ssize_t entries_per_row         # mean number of bins that a row is in
    # Number of threads without work, which other threads may change at any time. While it is 0,
    # nodes are not divided into parts.
    cdef public const int32_t[::1] n_idle
    # What does not change from tree to tree.
    cdef Py_ssize_t n_window_bins           # tests from this number on are of previous labels
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t n_symbols               # labels, and none
    cdef Py_ssize_t max_leaves
    cdef Py_ssize_t max_depth               # number of tests above a leaf; negative for no limit
    cdef Py_ssize_t max_parts               # maximum number of threads that share a stage
    cdef TreeFields fields
    cdef Features features
    cdef Py_ssize_t n_lags                  # number of previous labels of an example
    cdef bint with_counts                   # whether lists have numbers of examples
    cdef bint with_fractions                # whether they have fractions of examples
    cdef bint with_bin_counts               # whether histograms count examples separately
    cdef bint has_curvature                 # whether weights are curvature
    cdef bint failed                        # whether there was no memory for a list
    cdef ChosenBins every                   # all bins
    cdef ChosenBins tree_bins               # the bins of the current tree
    cdef ChosenBins node_bins               # the bins of a node that chooses its own
    cdef ChosenBins searched_bins           # the bins that other nodes search
    cdef SparseHistograms histograms
    cdef SplitSearch splits
    cdef SurrogateSearch surrogates         # None where missing values divide an example instead
    cdef double[:, ::1] side_counts         # numbers of examples of both children, for surrogates
    # The current tree.
    cdef Node *nodes
    cdef Py_ssize_t n_nodes
    cdef Py_ssize_t n_leaves
    cdef ExampleList *examples              # of each node
    cdef Bins *sums                         # histogram of each node
    cdef int32_t *open_leaves               # leaves that a test would improve
    cdef Py_ssize_t n_open
    cdef Py_ssize_t n_kept_bins             # number of bins in their histograms
    cdef Stage stage
    cdef int32_t whole                      # node whose examples the stage works on
    cdef int32_t small                      # node whose histogram is made; -1 for none
    cdef bint sums_rows                     # whether the children sum what each of them chooses
    # Working memory of a split.
    cdef uint8_t *outcomes                  # of the test at each example
    cdef Py_ssize_t room                    # number of examples for which there is memory
    cdef Py_ssize_t *starts                 # of each block in both children
    cdef Py_ssize_t block_room              # number of blocks for which there is memory

    def __cinit__(self, Features features, tests, settings, Py_ssize_t n_labels,
                  Py_ssize_t order, *,
                  bint with_counts=False, bint has_curvature=False, bint surrogates=False,
                  Py_ssize_t max_parts=1):
        cdef Py_ssize_t n
        # Histograms count examples for the search, and for shares by which examples are divided.
        self.with_bin_counts = with_counts and (
            settings.min_examples > 0 or surrogates or tests.has_missing)
        self.has_curvature = has_curvature
        self.max_parts = max_parts
        self.entries_per_row = features.entries_per_row()
        self.many_examples = MUCH_WORK // (WORK_PER_EXAMPLE + self.entries_per_row)
        self.block_size = BLOCK_SIZE
        self.max_kept_bins = MAX_KEPT_BINS
        self.n_idle = np.ones(1, dtype=np.int32)
        self.n_labels = n_labels
        self.n_window_bins = tests.n_bins
        self.n_symbols = n_labels + 1
        self.max_leaves = settings.max_leaf_nodes
        self.max_depth = settings.depth_limit
        self.fields = TreeFields(tests, settings, n_labels)
        self.features = features
        if surrogates:
            self.surrogates = SurrogateSearch(self.features, tests, 0)
        self.side_counts = np.zeros((2, tests.n_bins + 1 if surrogates else 1))
        self.n_lags = order
        self.with_counts = with_counts
        self.with_fractions = tests.has_missing and not surrogates
        n_label_bins = order * (n_labels + 1)
        self.every = ChosenBins(tests, n_label_bins, self.with_bin_counts)
        self.tree_bins = ChosenBins(tests, n_label_bins, self.with_bin_counts)
        self.node_bins = ChosenBins(tests, n_label_bins, self.with_bin_counts)
        self.histograms = SparseHistograms(self.new_part(features), self.tree_bins, max_parts)
        self.splits = SplitSearch(tests, settings, n_label_bins, self.with_bin_counts)
        n = 2 * self.max_leaves + 1
        self.nodes = <Node *> malloc(n * sizeof(Node))
        self.examples = <ExampleList *> calloc(n, sizeof(ExampleList))
        self.sums = <Bins *> calloc(n, sizeof(Bins))
        self.open_leaves = <int32_t *> malloc(n * sizeof(int32_t))
        if (self.nodes == NULL or self.examples == NULL or self.sums == NULL
                or self.open_leaves == NULL):
            raise MemoryError(f"no memory for trees of {self.max_leaves} leaves")

    def set_learning_rate(self, double rate):
        """Set the factor of the leaf values."""
        self.fields.leaves.learning_rate = rate

    def __dealloc__(self):
        if self.examples != NULL and self.sums != NULL:
            self._free_nodes()
        free(self.nodes)
        free(self.examples)
        free(self.sums)
        free(self.open_leaves)
        free(self.outcomes)
        free(self.starts)

    def new_part(self, Features features):
        """Make a histogram for another thread; its features have their own working memory."""
        return DenseHistogram(features, self.every.n_bins, self.n_lags, self.n_labels,
                              self.with_bin_counts)

    def grow(self, rows, labels, values, counts, uint64_t seed, chosen=None, Py_ssize_t label=0):
        """Grow a tree with one thread; see `begin` and `describe`."""
        self.begin(rows, labels, values, counts, seed, chosen, label)
        while self.advance():
            self.work(0, 1)
            self.finish([])
        return self.describe()

    def begin(self, const int32_t[::1] rows, const uint8_t[:, ::1] labels,
              const double[:, ::1] values, const double[::1] counts, uint64_t seed, chosen=None,
              Py_ssize_t label=0):
        """Begin a tree.

        Rows are counted from that of the first position. ``labels`` is (n_examples, order), with
        ``n_labels`` for none. ``values`` are residuals and weights. Their sums must be exact; where
        missing values divide examples, when multiplied by 2**-16 too. ``counts`` are how many
        examples each stands for; without ``with_counts`` they are not read. For ``chosen`` and
        ``label``, see `SplitSearch.choose`.
        """
        cdef Py_ssize_t n = rows.shape[0]
        cdef ExampleList *root = &self.examples[0]
        self._free_nodes()
        self.failed = False
        self.splits.failed = False
        self.histograms.failed = False
        self.histograms.first.failed = False
        self.splits.choose(chosen, label)
        self.features.choose_bins(self.tree_bins, chosen, n)
        self.searched_bins = self.tree_bins
        if chosen is not None and self.tree_bins.is_all:
            # Histograms that list their bins are filtered by features.
            self.searched_bins = self.node_bins
            self.searched_bins.choose(&self.splits.features[0], 0)
        self._allocate(root, n)
        self._make_room(n)
        self._check_memory()
        self._fill_root(root, rows, labels, values, counts)
        start_root(&self.nodes[0], seed)
        self._sum(&self.nodes[0], root)
        self.n_nodes = 1
        self.n_leaves = 1
        self.n_open = 0
        self.n_kept_bins = 0
        self.whole = 0
        self.small = 0
        self.stage = MOVE if self.max_leaves > 1 else CHOOSE
        self.sums_rows = self._prefers_rows(n // 2, n, self.tree_bins.n_bins)

    cdef void _fill_root(self, ExampleList *root, const int32_t[::1] rows,
                         const uint8_t[:, ::1] labels, const double[:, ::1] values,
                         const double[::1] counts):
        """Copy all examples to the list of the root."""
        cdef Py_ssize_t i, n = rows.shape[0]
        root.n = n
        if n:
            memcpy(root.rows, &rows[0], n * sizeof(int32_t))
            memcpy(root.values, &values[0, 0], 2 * n * sizeof(double))
            if labels.shape[1]:
                memcpy(root.labels, &labels[0, 0], n * labels.shape[1])
        for i in range(n):
            if self.with_counts:
                root.counts[2 * i] = counts[i]
                root.counts[2 * i + 1] = 0.0
            if self.with_fractions:
                root.fractions[i] = WHOLE

    cdef void _make_room(self, Py_ssize_t n) noexcept:
        """Make room for the splits of nodes with at most n examples."""
        cdef Py_ssize_t n_blocks = n // self.block_size + 2
        cdef uint8_t *outcomes
        cdef Py_ssize_t *starts
        if n >= self.room:
            outcomes = <uint8_t *> realloc(self.outcomes, n + 1)
            if outcomes == NULL:
                self.failed = True
                return
            self.outcomes = outcomes
            self.room = n + 1
        if n_blocks > self.block_room:
            starts = <Py_ssize_t *> realloc(self.starts, 2 * n_blocks * sizeof(Py_ssize_t))
            if starts == NULL:
                self.failed = True
                return
            self.starts = starts
            self.block_room = n_blocks

    def advance(self):
        """Grow until a stage has enough work for several threads, or the tree is complete.

        Return 0 if it is complete, otherwise the maximum number of parts of the stage: call `work`
        for each part, concurrently or not, and then `finish`.
        """
        cdef bint is_waiting
        with nogil:
            is_waiting = self._advance()
        self._check_memory()
        return max(1, 2 * self._n_examples() // self.many_examples) if is_waiting else 0

    def work(self, Py_ssize_t part, Py_ssize_t n_parts, DenseHistogram histogram=None):
        """Do a part of a stage; all parts but the first need a histogram made by `new_part`."""
        cdef DenseHistogram target = self.histograms.first if histogram is None else histogram
        with nogil:
            self._work(part, n_parts, target)

    def finish(self, list others):
        """Finish a stage after all parts; the histograms of all but the first are zeros again."""
        cdef Py_ssize_t n_parts = 1 + len(others)
        self.histograms.set_parts(others)
        if not self._is_failed():
            with nogil:
                self._finish(n_parts)

    def describe(self):
        """Return the tree; see `treecrf.trees.growing._nodes.TreeFields`."""
        tree = self.fields.describe(self.nodes, self.n_nodes)
        self._free_nodes()
        return tree

    def _check_memory(self):
        """Raise MemoryError if memory has run out."""
        if self._is_failed():
            self._free_nodes()
            raise MemoryError("no memory for a tree")

    cdef void _allocate(self, ExampleList *examples, Py_ssize_t n) noexcept nogil:
        """Make an empty list with room for some examples."""
        self.failed |= not allocate(examples, n, self.n_lags, self.with_counts,
                                    self.with_fractions)

    cdef inline bint _is_failed(self) noexcept nogil:
        """Return whether memory has run out."""
        return (self.failed or self.histograms.failed or self.histograms.first.failed
                or self.splits.failed)

    cdef void _free_nodes(self) noexcept nogil:
        """Free the lists and the histograms of all nodes."""
        cdef Py_ssize_t i
        for i in range(2 * self.max_leaves + 1):
            free_list(&self.examples[i])
            free_histogram(&self.sums[i])

    # Growth

    cdef bint _advance(self) noexcept nogil:
        """Grow until several threads should share a stage; return whether that is so."""
        cdef int32_t leaf
        while not self._is_failed():
            if self.stage == CHOOSE:
                if self.n_leaves == self.max_leaves:
                    return False
                leaf = take_best_leaf(self.nodes, self.open_leaves, &self.n_open)
                if leaf < 0:
                    return False
                self.n_kept_bins -= self.sums[leaf].n
                self.whole = leaf
                self.stage = EVALUATE
            if (self.max_parts > 1 and self.n_idle[0]
                    and self._n_examples() >= self.many_examples):
                return True
            self._work(0, 1, self.histograms.first)
            self._finish(1)
        return False

    cdef inline Py_ssize_t _n_examples(self) noexcept nogil:
        """Return the number of examples that the stage works on."""
        return self.examples[self.whole].n

    cdef void _work(self, Py_ssize_t part, Py_ssize_t n_parts,
                    DenseHistogram histogram) noexcept nogil:
        """Do a part of the stage: some blocks of the node's examples."""
        cdef Py_ssize_t n_blocks = self._n_blocks()
        cdef Py_ssize_t first = n_blocks * part // n_parts, last = n_blocks * (part + 1) // n_parts
        if self.stage == EVALUATE:
            self._evaluate(first, last, histogram.features)
        else:
            self._move(first, last, histogram)

    cdef void _evaluate(self, Py_ssize_t first, Py_ssize_t last,
                        Features features) noexcept nogil:
        """Evaluate the node's test at the examples of some blocks."""
        cdef const Node *parent = &self.nodes[self.whole]
        cdef const ExampleList *examples = &self.examples[self.whole]
        cdef Py_ssize_t start = self._end(first), stop = self._end(last)
        cdef Py_ssize_t i, lag, n_lags = self.n_lags
        cdef uint8_t symbol
        if parent.test < self.n_window_bins:
            features.outcomes(parent.test, examples.rows + start, stop - start,
                              self.outcomes + start)
        else:
            lag = (parent.test - self.n_window_bins) // self.n_symbols
            symbol = <uint8_t> ((parent.test - self.n_window_bins) % self.n_symbols)
            for i in range(start, stop):
                self.outcomes[i] = (PASSED if examples.labels[i * n_lags + lag] == symbol
                                    else FAILED)
        if not self._follows_surrogates():
            self._count_blocks(first, last)

    cdef void _move(self, Py_ssize_t first, Py_ssize_t last,
                    DenseHistogram histogram) noexcept nogil:
        """Copy the examples of some blocks to the children; add them to the smaller one's sums."""
        cdef const Node *parent = &self.nodes[self.whole]
        cdef Py_ssize_t start, stop, side
        cdef ExampleList passed, failed
        if self.whole == self.small:  # the root stays whole
            start = self._end(first)
            stop = self._end(last)
        else:
            passed = self.examples[parent.true_child]
            failed = self.examples[parent.false_child]
            passed.n = self.starts[2 * first]
            failed.n = self.starts[2 * first + 1]
            move(&self.examples[self.whole], self.outcomes, parent.share, self._end(first),
                 self._end(last), &passed, &failed)
            side = self.small != parent.true_child
            start = self.starts[2 * first + side]
            stop = self.starts[2 * last + side]
        if self.small >= 0 and not self.sums_rows:
            histogram.add(self.tree_bins, &self.examples[self.small], start, stop)

    cdef void _finish(self, Py_ssize_t n_parts) noexcept nogil:
        """Finish a stage: make the children, or their histograms, and find their tests."""
        cdef int32_t small = self.small, large = -1
        if self.stage == EVALUATE:
            self._make_children()
            self.stage = MOVE
            return
        if self.whole != small:
            self._close(self.whole)
        self.stage = CHOOSE
        if small < 0:
            return
        if small > 0:  # children are numbered in pairs from 1 on
            large = small + 1 if small % 2 else small - 1
        if large >= 0 and self.sums[large].pairs != NULL and not self.sums_rows:
            self.histograms.divide(&self.sums[large], &self.sums[small], n_parts)
        elif not self.sums_rows:
            self.histograms.collect(&self.sums[small], n_parts)
            if large >= 0:
                self.histograms.first.add(self.tree_bins, &self.examples[large], 0,
                                          self.examples[large].n)
                self.histograms.collect(&self.sums[large], 1)
        if not self._is_failed():
            self._find_split(small if large < 0 else min(small, large))
            if large >= 0:
                self._find_split(max(small, large))

    cdef void _find_split(self, int32_t node_id) noexcept nogil:
        """Find a node's best test, and keep the node open if its gain is large enough."""
        cdef Node *node = &self.nodes[node_id]
        cdef Bins *histogram = &self.sums[node_id]
        cdef bint is_open
        cdef Py_ssize_t n_chosen
        if self.splits.chooses:
            n_chosen = self.splits.choose_features(node)
            self.node_bins.choose(&self.splits.features[0], n_chosen if self.sums_rows else 0)
            is_open = self._search(node_id, self.node_bins)
        else:
            is_open = self._search(node_id, self.searched_bins)
        if not is_open:
            free_histogram(histogram)
            free_list(&self.examples[node_id])
            return
        self.open_leaves[self.n_open] = node_id
        self.n_open += 1
        self.n_kept_bins += histogram.n
        if self.n_kept_bins > self.max_kept_bins:
            self._drop_histograms()

    cdef bint _search(self, int32_t node_id, ChosenBins chosen) noexcept nogil:
        """Find a node's best test among the chosen ones; return whether its gain is large enough.
        """
        cdef Node *node = &self.nodes[node_id]
        cdef const ExampleList *examples = &self.examples[node_id]
        cdef Bins bins
        cdef bint is_open
        if self.sums_rows:
            self.histograms.first.add(chosen, examples, 0, examples.n)
            bins = chosen.own(self.with_bin_counts)
            bins.pairs = self.histograms.first.pairs
            if self.with_bin_counts:
                bins.counts = self.histograms.first.counts
        else:
            bins = chosen.select(&self.sums[node_id], self.tree_bins, &self.splits.chosen[0])
        is_open = self.splits.decide(node, self.splits.find(node, &bins, chosen.end_of_shared))
        if is_open and not self._shares_follow_lists():
            node.share = self.splits.share(node, &bins, self.has_curvature)
        if self.sums_rows:
            self.histograms.first.clear(chosen.n_bins)
        return is_open

    cdef bint _prefers_rows(self, Py_ssize_t n_small, Py_ssize_t n_both,
                            Py_ssize_t n_bins) noexcept nogil:
        """Return whether nodes take less time with histograms of what each chooses."""
        return self.splits.draws and self.tree_bins.prefers_rows(
            self.splits.max_features, n_small, n_both, n_bins)

    cdef inline bint _shares_follow_lists(self) noexcept nogil:
        """Return whether shares are known only once examples have been moved to children."""
        return self.has_curvature and not self.with_bin_counts

    cdef void _drop_histograms(self) noexcept nogil:
        """Drop histograms of open leaves with the smallest gains that take little time to remake.
        """
        cdef Py_ssize_t i, n, n_entries
        cdef int32_t leaf, worst
        while self.n_kept_bins > self.max_kept_bins:
            worst = -1
            for i in range(self.n_open):
                leaf = self.open_leaves[i]
                n = self.sums[leaf].n
                n_entries = self.examples[leaf].n * self.entries_per_row
                if ((worst < 0 or self.nodes[leaf].gain < self.nodes[worst].gain)
                        and n > 0 and n >= DENSE * max(n_entries, self.tree_bins.n_bins)):
                    worst = leaf
            if worst < 0:
                return
            self.n_kept_bins -= self.sums[worst].n
            free_histogram(&self.sums[worst])

    cdef void _make_children(self) noexcept nogil:
        """Make the children of the node whose test has been evaluated, with room for examples."""
        cdef Node *parent = &self.nodes[self.whole]
        cdef int32_t true_id = <int32_t> self.n_nodes, false_id = true_id + 1
        cdef Py_ssize_t b, n_block, n_passed = 0, n_failed = 0, n_blocks = self._n_blocks()
        cdef Py_ssize_t *start
        if self._follows_surrogates():
            self._follow_surrogates(parent, &self.examples[self.whole], self.outcomes)
            self._count_blocks(0, n_blocks)
        self.n_nodes += 2
        self.n_leaves += 1
        parent.true_child = true_id
        parent.false_child = false_id
        start_child(&self.nodes[true_id], parent, True)
        start_child(&self.nodes[false_id], parent, False)
        # Make lists with room for all blocks, and find where in them each begins.
        for b in range(n_blocks):
            start = self.starts + 2 * b
            n_block = start[0]
            start[0] = n_passed
            n_passed += n_block
            n_block = start[1]
            start[1] = n_failed
            n_failed += n_block
        self.starts[2 * n_blocks] = n_passed
        self.starts[2 * n_blocks + 1] = n_failed
        self._allocate(&self.examples[true_id], n_passed)
        self._allocate(&self.examples[false_id], n_failed)
        if not self.failed:
            self.examples[true_id].n = n_passed
            self.examples[false_id].n = n_failed
        if self.n_leaves == self.max_leaves or self.nodes[true_id].depth == self.max_depth:
            self.small = -1
        elif self.examples[true_id].n <= self.examples[false_id].n:
            self.small = true_id
        else:
            self.small = false_id
        if self.small >= 0:
            self.sums_rows = self._prefers_rows(
                self.examples[self.small].n,
                self.examples[true_id].n + self.examples[false_id].n, self.sums[self.whole].n)

    cdef void _close(self, int32_t parent_id) noexcept nogil:
        """Close a node whose examples have been copied to its children."""
        cdef Node *parent = &self.nodes[parent_id]
        cdef int32_t small = parent.true_child, large = parent.false_child
        if self.examples[small].n > self.examples[large].n:
            small = parent.false_child
            large = parent.true_child
        if self.splits.missing_bin(parent) >= 0:  # examples without the value are on both sides
            self._sum(&self.nodes[small], &self.examples[small])
        else:
            self.nodes[parent.true_child].total = parent.true_total
            self.nodes[parent.true_child].weight = parent.true_weight
            self.nodes[parent.true_child].examples = parent.true_examples
            if small != parent.true_child:
                set_difference(&self.nodes[small], parent, &self.nodes[large])
        set_difference(&self.nodes[large], parent, &self.nodes[small])
        if self._shares_follow_lists():
            parent.share = (self._count(&self.examples[parent.true_child])
                            / self._count(&self.examples[parent_id]))
        free_list(&self.examples[parent_id])
        if self.small < 0:
            free_histogram(&self.sums[parent_id])
            free_list(&self.examples[small])
            free_list(&self.examples[large])
            return
        if self.sums_rows:
            free_histogram(&self.sums[parent_id])
        self.sums[large] = self.sums[parent_id]
        memset(&self.sums[parent_id], 0, sizeof(Bins))

    cdef void _sum(self, Node *node, const ExampleList *examples) noexcept nogil:
        """Sum over the examples of a node."""
        cdef Py_ssize_t i
        cdef double fraction = 1.0, total = 0.0, weight = 0.0, count = 0.0
        for i in range(examples.n):
            if self.with_fractions:
                fraction = examples.fractions[i] * (1.0 / WHOLE)
            total += examples.values[2 * i] * fraction
            weight += examples.values[2 * i + 1] * fraction
            if self.with_bin_counts:
                count += examples.counts[2 * i] * fraction
        node.total = total
        node.weight = weight
        node.examples = count if self.with_bin_counts else weight

    cdef double _count(self, const ExampleList *examples) noexcept nogil:
        """Return how many whole examples a list stands for."""
        cdef Py_ssize_t i
        cdef double count = 0.0
        for i in range(examples.n):
            count += examples.counts[2 * i]
        return count

    # Blocks of a node's examples

    cdef inline Py_ssize_t _n_blocks(self) noexcept nogil:
        """Return the number of blocks of the stage's examples."""
        return (self._n_examples() - 1) // self.block_size + 1

    cdef inline Py_ssize_t _end(self, Py_ssize_t block) noexcept nogil:
        """Return the number of examples before a block."""
        return min(block * self.block_size, self._n_examples())

    cdef bint _follows_surrogates(self) noexcept nogil:
        """Return whether surrogates replace the node's test where its value is missing."""
        cdef int64_t test = self.nodes[self.whole].test
        return (self.surrogates is not None and test < self.n_window_bins
                and self.surrogates.is_open(test))

    cdef void _count_blocks(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Count the examples of some blocks that pass and fail."""
        cdef Py_ssize_t b
        for b in range(first, last):
            count_sides(&self.examples[self.whole], self.outcomes, self.nodes[self.whole].share,
                        self._end(b), self._end(b + 1), self.starts + 2 * b)

    cdef void _follow_surrogates(self, Node *parent, const ExampleList *examples,
                                 uint8_t *outcomes) noexcept nogil:
        """Rank the surrogates of a test, and decide by them where no value is."""
        cdef Py_ssize_t i, s
        cdef Surrogate *surrogate
        cdef Side sides[2]
        cdef double *counts = examples.counts if self.with_counts else examples.values + 1
        cdef uint8_t *others = <uint8_t *> malloc(examples.n + 1)
        if others == NULL:
            self.failed = True
            return
        memset(&self.side_counts[0, 0], 0, 2 * self.side_counts.shape[1] * sizeof(double))
        for i in range(2):
            sides[i] = Side(0.0, &self.side_counts[i, 0], 1)
        for i in range(examples.n):
            if outcomes[i] != NO_VALUE:
                sides[outcomes[i]].n += counts[2 * i]
                self.features.add_windows(self.every, examples.rows + i, 1, counts + 2 * i,
                                          &self.side_counts[outcomes[i], 0], 1)
        self.surrogates.find(parent.test, &sides[1], &sides[0], &parent.surrogates)
        for s in range(parent.surrogates.n):
            surrogate = &parent.surrogates.ranked[s]
            self.features.outcomes(surrogate.test, examples.rows, examples.n, others)
            for i in range(examples.n):
                if outcomes[i] == NO_VALUE and others[i] != NO_VALUE:
                    outcomes[i] = others[i] ^ surrogate.is_reversed
        for i in range(examples.n):
            if outcomes[i] == NO_VALUE:
                outcomes[i] = PASSED if parent.share >= 0.5 else FAILED
        free(others)
