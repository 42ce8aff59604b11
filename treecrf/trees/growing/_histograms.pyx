"""The members of one node at a time, and histograms: sums over the bins of tests and over contexts.

A node's examples are (a set of rows) x (a set of contexts). Its rows are listed, each with its
residuals, weights and numbers of examples summed over the contexts of the set. All sums are exact
(see ``_tree``): a histogram does not depend on the order of the examples, and the histogram of a
child is the difference between those of its parent and its sibling.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from treecrf.chains._contexts cimport add_to_contexts, n_contexts_at
from treecrf.chains._memory cimport Memory, take_doubles, take_zeros
from treecrf.chains._memory cimport release as release_memory, take as take_memory
from treecrf.trees.growing._features cimport Bins, ChosenBins, Features
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._sets cimport (
    WHOLE, ContextSet, ContextSets, Fraction, RowSet, value_of_fraction,
)
from treecrf.trees.growing._tests cimport LISTING_SLACK

cdef extern from "trees/bitsets.h" nogil:
    int count_bits(uint64_t word)
    void list_bits(const uint64_t *words, Py_ssize_t n_words, int32_t *out)
    void number_bits(const uint64_t *words, Py_ssize_t n_words, uint8_t number, uint64_t *all,
                     uint8_t *out)

cdef extern from "trees/growing/histograms.h" nogil:
    void subtract_from(double *target, const double *source, Py_ssize_t n)

cdef extern from "utils/vector_math.h" nogil:
    void add_scaled(double *target, const double *source, double weight, Py_ssize_t n)
    double dot(const double *a, const double *b, Py_ssize_t n)

# Weight of the smallest fraction of a row.
cdef double UNIT = 1.0 / WHOLE

# Contexts are summed in the lanes of vectors; 8 are one vector of 512 bits. With more lanes,
# separate passes take less time if trees do not test all labels.
cdef enum:
    MAX_LANES = 8

# Rows whose lanes are prepared at a time: 8 kB with 8 lanes, which stay in the first-level cache.
cdef enum:
    BLOCK = 128


cdef class Members:
    """The members of a node and their values."""

    def __cinit__(self, ContextSets contexts, position_of_row, depth, Py_ssize_t n_rows,
                  Py_ssize_t n_layers, bint separate_counts):
        cdef Py_ssize_t n = len(depth), n_words = len(position_of_row) // 64
        cdef Memory *memory = &self.memory
        self.contexts = contexts
        self.position_of_row = position_of_row
        self.depth = depth
        self.n_rows = n_rows
        self.n_layers = n_layers
        self.separate_counts = separate_counts
        self.rows = <int32_t *> take_memory(memory, (n + LISTING_SLACK) * sizeof(int32_t))
        self.positions = <int32_t *> take_memory(memory, n * sizeof(int32_t))
        self.values = take_doubles(memory, 2 * n)
        self.counts = take_doubles(memory, 2 * (n * separate_counts + 1))
        self.numbers = <uint8_t *> take_zeros(memory, 64 * n_words)
        self.numbered = <uint64_t *> take_zeros(memory, n_words * sizeof(uint64_t))
        self.weighted = <uint64_t *> take_zeros(memory, n_words * sizeof(uint64_t))
        self.listed = <uint64_t *> take_zeros(memory, n_words * sizeof(uint64_t))
        if memory.failed:
            raise MemoryError(f"no memory to grow trees on {n} positions")

    def __dealloc__(self):
        release_memory(&self.memory)

    cdef void begin(self, const double[:, ::1] targets, const double[:, ::1] curvature,
                    const double[::1] position_weights) noexcept nogil:
        """Use these examples from now on."""
        cdef Py_ssize_t i
        self.targets = targets
        self.curvature = curvature
        self.position_weights = position_weights
        if position_weights is not None:
            memset(self.weighted, 0, self.position_of_row.shape[0] // 64 * sizeof(uint64_t))
            for i in range(self.position_of_row.shape[0]):
                self.weighted[i >> 6] |= <uint64_t> self._is_counted(
                    self.position_of_row[i]) << (i & 63)

    cdef void gather(self, const RowSet *row_set, const ContextSet *context_set) noexcept nogil:
        """List the members of a node and their values."""
        self.context_set = context_set
        self.list_rows(row_set)
        self._fill_values()

    cdef void list_rows(self, const RowSet *row_set) noexcept nogil:
        """List rows and their positions, without whole rows of weight 0."""
        cdef Py_ssize_t i, n_whole = row_set.n_whole, n_words = self.position_of_row.shape[0] // 64
        cdef const uint64_t *whole = row_set.whole
        cdef int32_t *rows = self.rows
        cdef int32_t *positions = self.positions
        cdef const int32_t *position_of_row = &self.position_of_row[0]
        cdef const Fraction *fractions = row_set.fractions
        self.row_set = row_set
        if self.position_weights is not None:
            n_whole = 0
            for i in range(n_words):
                self.listed[i] = whole[i] & self.weighted[i]
                n_whole += count_bits(self.listed[i])
            whole = self.listed
        self.n_whole = n_whole
        self.n = n_whole + row_set.n_fractions
        list_bits(whole, n_words, rows)
        for i in range(n_whole):
            positions[i] = position_of_row[rows[i]]
        rows += n_whole
        positions += n_whole
        for i in range(row_set.n_fractions):
            rows[i] = fractions[i].row
            positions[i] = position_of_row[rows[i]]
        if self.n_layers > 1:
            for i in range(self.n):
                self.rows[i] %= self.n_rows

    cdef void _fill_values(self) noexcept nogil:
        """Sum the values of each listed row over the contexts of the node."""
        cdef Py_ssize_t i
        cdef double fraction
        self._sum_over(&self.targets[0, 0], self.values)
        if self.curvature is not None:
            self._sum_over(&self.curvature[0, 0], self.values + 1)
        else:
            self._count_over(self.values + 1)
            if self.position_weights is not None:
                for i in range(self.n):
                    self.values[2 * i + 1] *= self.position_weights[self.positions[i]]
        if self.separate_counts:
            self._count_over(self.counts)
            if self.position_weights is not None:
                for i in range(self.n):
                    self.counts[2 * i] *= self._is_counted(self.positions[i])
        # Rows of which a fraction belongs to the node.
        for i in range(self.n_whole, self.n):
            fraction = self.row_set.fractions[i - self.n_whole].weight * UNIT
            self.values[2 * i] *= fraction
            self.values[2 * i + 1] *= fraction
            if self.separate_counts:
                self.counts[2 * i] *= fraction

    cdef void _sum_over(self, const double *table, double *sums) noexcept nogil:
        """Write sums over the contexts of the node to every other entry of ``sums``."""
        cdef const ContextSet *contexts = self.context_set
        cdef const int32_t *positions = self.positions
        cdef const uint8_t *depths = &self.depth[0]
        cdef const int64_t *depth_starts = &self.contexts.depth_starts[0]
        cdef const double *row
        cdef const double *column = table + contexts.last_context
        cdef Py_ssize_t i, n_contexts = self.contexts.n_contexts
        cdef uint8_t depth, order = <uint8_t> self.contexts.order
        cdef bint is_one = contexts.is_one
        for i in range(self.n):
            depth = depths[positions[i]]
            if is_one and depth == order:
                sums[2 * i] = column[positions[i] * n_contexts]
                continue
            row = table + positions[i] * n_contexts
            sums[2 * i] = dot(contexts.members + depth_starts[depth], row,
                              n_contexts_at(depth_starts, depth))

    cdef void _count_over(self, double *counts) noexcept nogil:
        """Write numbers of contexts of the node to every other entry of ``counts``."""
        cdef const int32_t *positions = self.positions
        cdef const uint8_t *depths = &self.depth[0]
        cdef const double *n_members = self.context_set.n_members
        cdef Py_ssize_t i
        for i in range(self.n):
            counts[2 * i] = n_members[depths[positions[i]]]

    cdef inline bint _is_counted(self, int32_t position) noexcept nogil:
        """Return whether the weight of a position is not 0."""
        return self.position_weights is None or self.position_weights[position] > 0

    cdef void sum_into(self, Node *node) noexcept nogil:
        """Set the sums of the node whose members are listed."""
        cdef Py_ssize_t i
        cdef double total = 0.0, weight = 0.0, examples = 0.0
        for i in range(self.n):
            total += self.values[2 * i]
            weight += self.values[2 * i + 1]
        for i in range(self.n if self.separate_counts else 0):
            examples += self.counts[2 * i]
        node.total = total
        node.weight = weight
        node.examples = examples if self.separate_counts else weight

    cdef void sum_contexts(self, const Node *node, double *sums) noexcept nogil:
        """Add up each context, in ``sums`` of zeros: residuals, weights, numbers of examples."""
        cdef const ContextSet *contexts = self.context_set
        cdef Py_ssize_t i, e, start, n_extended = self.contexts.n_extended
        cdef double *totals = sums
        cdef double *weights = sums + n_extended
        cdef double *counts = weights + n_extended
        cdef bint by_depth = contexts.one_a_depth
        if contexts.one_context:
            for e in range(n_extended):
                totals[e] = contexts.members[e] * node.total
                weights[e] = contexts.members[e] * node.weight
                counts[e] = contexts.members[e] * node.examples
            return
        if by_depth:  # the values of the one context of a depth are listed
            for i in range(self.n):
                start = self.contexts.depth_starts[self.depth[self.positions[i]]]
                totals[start] += self.values[2 * i]
                weights[start] += self.values[2 * i + 1]
                if self.separate_counts:
                    counts[start] += self.counts[2 * i]
        else:
            self._add_contexts(totals, weights, counts)
        for e in range(n_extended - 1, -1, -1):
            start = self.contexts.depth_starts[self.contexts.depth_of(e)]
            counts[e] = contexts.members[e] * counts[start]
            weights[e] = (contexts.members[e]
                          * weights[start if by_depth or self.curvature is None else e])
            totals[e] = contexts.members[e] * totals[start if by_depth else e]

    cdef void _add_contexts(self, double *totals, double *weights,
                            double *counts) noexcept nogil:
        """Sum each context; values that are equal at all contexts of a depth go to the first."""
        cdef const int64_t *depth_starts = &self.contexts.depth_starts[0]
        cdef Py_ssize_t i, start, n, n_whole = self.n_whole
        cdef int32_t position
        cdef uint8_t depth
        cdef const Fraction *fractions = self.row_set.fractions
        cdef double fraction = 1.0
        for i in range(self.n):
            position = self.positions[i]
            depth = self.depth[position]
            start = depth_starts[depth]
            n = n_contexts_at(depth_starts, depth)
            if i >= n_whole:
                fraction = fractions[i - n_whole].weight * UNIT
            add_scaled(totals + start, &self.targets[position, 0], fraction, n)
            if self.curvature is not None:
                add_scaled(weights + start, &self.curvature[position, 0], fraction, n)
            elif self.position_weights is not None:
                weights[start] += self.position_weights[position] * fraction
            else:
                weights[start] += fraction
            counts[start] += self._is_counted(position) * fraction

    cdef void add_leaf(self, const RowSet *row_set, const ContextSet *contexts, double value,
                       double[:, ::1] scores) noexcept nogil:
        """Add a leaf's value to the scores of its members, in proportion to their weight there."""
        cdef const int32_t *position_of_row = &self.position_of_row[0]
        cdef const Fraction *fractions = row_set.fractions
        cdef double *table = &scores[0, 0]
        cdef Py_ssize_t i
        list_bits(row_set.whole, self.position_of_row.shape[0] // 64, self.rows)
        for i in range(row_set.n_whole):
            self._add_value(contexts, position_of_row[self.rows[i]], value, table)
        for i in range(row_set.n_fractions):
            self._add_value(contexts, position_of_row[fractions[i].row],
                            value_of_fraction(value, fractions[i].weight), table)

    cdef void number_rows(self, const RowSet *row_set, uint8_t number) noexcept nogil:
        """Number the rows of a leaf for `add_numbered`, from 1 on."""
        number_bits(row_set.whole, self.position_of_row.shape[0] // 64, number, self.numbered,
                    self.numbers)

    cdef void add_numbered(self, const ContextSet *contexts, const double *values,
                           double[:, ::1] scores) noexcept nogil:
        """Add the values of numbered leaves, which have the same contexts, and forget the numbers.

        One pass over all rows takes less time than listing the rows of each leaf.
        """
        cdef const int32_t *position_of_row = &self.position_of_row[0]
        cdef double *table = &scores[0, 0]
        cdef Py_ssize_t i, n = 0, n_words = self.position_of_row.shape[0] // 64
        cdef int32_t row
        list_bits(self.numbered, n_words, self.rows)
        for i in range(n_words):
            n += count_bits(self.numbered[i])
        for i in range(n):
            row = self.rows[i]
            self._add_value(contexts, position_of_row[row], values[self.numbers[row]], table)
        memset(self.numbers, 0, 64 * n_words)
        memset(self.numbered, 0, n_words * sizeof(uint64_t))

    cdef inline void _add_value(self, const ContextSet *contexts, Py_ssize_t position,
                                double value, double *table) noexcept nogil:
        """Add to the scores of a position in the contexts of a set."""
        cdef uint8_t depth = self.depth[position]
        cdef double *scores = table + position * self.contexts.n_contexts
        if depth == self.contexts.order and contexts.is_one:
            scores[contexts.last_context] += value
        else:
            add_to_contexts(scores, contexts.members, value, &self.contexts.depth_starts[0],
                            depth)


cdef class HistogramPool:
    """The histograms of open nodes, in memory that is reused."""

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_histograms):
            free(self.memory[i])
        free(self.memory)
        free(self.free_histograms)

    cdef int reserve(self, Py_ssize_t max_histograms, Py_ssize_t max_size) except -1:
        """Make room for pointers to this number of histograms of a size."""
        self.max_histograms = max_histograms
        self.max_size = max_size
        self.memory = <double **> calloc(max_histograms, sizeof(double *))
        self.free_histograms = <int32_t *> malloc(max_histograms * sizeof(int32_t))
        if self.memory == NULL or self.free_histograms == NULL:
            raise MemoryError(f"no memory for {max_histograms} histograms")
        return 0

    cdef void release_all(self) noexcept nogil:
        """Let other nodes have all histograms, when a tree begins."""
        cdef Py_ssize_t i
        self.failed = False
        self.n_free = self.n_histograms
        for i in range(self.n_histograms):
            self.free_histograms[i] = <int32_t> i

    cdef bint is_full(self) noexcept nogil:
        """Return whether another node must release its histogram before a node can take one."""
        return self.n_free == 0 and self.n_histograms == self.max_histograms

    cdef void take(self, Node *node) noexcept nogil:
        """Give a node a histogram, not yet filled."""
        cdef double *memory
        if self.n_free:
            self.n_free -= 1
            node.histogram = self.free_histograms[self.n_free]
            return
        memory = <double *> malloc((self.max_size + 1) * sizeof(double))
        self.failed = self.failed or memory == NULL
        if memory != NULL:
            node.histogram = <int32_t> self.n_histograms
            self.memory[self.n_histograms] = memory
            self.n_histograms += 1

    cdef void release(self, Node *node) noexcept nogil:
        """Let another node have the histogram of a node."""
        if node.histogram >= 0:
            self.free_histograms[self.n_free] = node.histogram
            self.n_free += 1
            node.histogram = -1


cdef class Histograms(HistogramPool):
    """The histograms of all open nodes, in memory that is reused."""

    def __cinit__(self, Features features, ContextSets contexts, ChosenBins tree_bins,
                  Py_ssize_t n_lags, bint separate_counts, Py_ssize_t max_histograms):
        self.features = features
        self.contexts = contexts
        self.tree_bins = tree_bins
        self.n_lags = n_lags
        self.n_label_bins = n_lags * (contexts.n_labels + 1)
        self.separate_counts = separate_counts
        self.context_sums = np.zeros(3 * contexts.n_extended)
        self.reserve(max_histograms, self._size())

    cdef Py_ssize_t _size(self) noexcept nogil:
        """Return the number of sums of a node."""
        return (2 + self.separate_counts) * self.tree_bins.n_bins + 3 * self.contexts.n_extended

    cdef void begin(self) noexcept nogil:
        """Begin a tree, whose bins have been chosen: forget all histograms."""
        self.size = self._size()
        self.release_all()

    cdef Histogram sums_of(self, const Node *node) noexcept nogil:
        """Return the sums of a node."""
        cdef Py_ssize_t n_bins = self.tree_bins.n_bins
        cdef double *bins = self.memory[node.histogram]
        cdef double *counts = NULL
        if self.separate_counts:
            counts = bins + 2 * n_bins
        return Histogram(bins, counts, bins + (2 + self.separate_counts) * n_bins)

    cdef Bins bins_of(self, const Node *node) noexcept nogil:
        """Return the sums of a node over the bins of the tree."""
        cdef Histogram histogram = self.sums_of(node)
        return Bins(self.tree_bins.n_bins, 0, histogram.bins, histogram.counts, NULL)

    cdef void build(self, Node *node, Members members) noexcept nogil:
        """Build the histogram of the node whose members are listed."""
        self.take(node)
        if not self.failed:
            self._fill(node, self.tree_bins, members, self.sums_of(node))

    cdef Histogram build_own(self, const Node *node, ChosenBins chosen,
                             Members members) noexcept nogil:
        """Build a histogram of the bins that a node has chosen, in their own memory."""
        cdef Bins own = chosen.own(self.separate_counts)
        cdef Histogram histogram = Histogram(own.pairs, own.counts, &self.context_sums[0])
        self._fill(node, chosen, members, histogram)
        return histogram

    cdef void _fill(self, const Node *node, ChosenBins chosen, Members members,
                    Histogram histogram) noexcept nogil:
        """Sum up the listed members by the chosen bins and by contexts."""
        cdef Py_ssize_t n_bins = chosen.n_bins, first_label = n_bins - self.n_label_bins
        memset(histogram.bins, 0, 2 * n_bins * sizeof(double))
        memset(histogram.contexts, 0, 3 * self.contexts.n_extended * sizeof(double))
        self.features.add_windows(chosen, members.rows, members.n, members.values, histogram.bins,
                                  2)
        self._add_labels(members, members.values, histogram.bins + 2 * first_label, 2)
        if self.separate_counts:
            memset(histogram.counts, 0, n_bins * sizeof(double))
            self.features.add_windows(chosen, members.rows, members.n, members.counts,
                                      histogram.counts, 1)
            self._add_labels(members, members.counts, histogram.counts + first_label, 1)
        members.sum_contexts(node, histogram.contexts)

    cdef void _add_labels(self, Members members, const double *values, double *first,
                          int stride) noexcept nogil:
        """Add the listed examples to the bins of their previous labels."""
        cdef Py_ssize_t lag, i, k
        cdef const uint8_t *labels
        cdef const int32_t *positions = members.positions
        for lag in range(self.n_lags):
            labels = &self.labels[lag, 0]
            for i in range(members.n):
                for k in range(stride):
                    first[stride * labels[positions[i]] + k] += values[2 * i + k]
            first += stride * (self.contexts.n_labels + 1)

    cdef void subtract(self, const Node *target, const Node *source) noexcept nogil:
        """Subtract the sums of a node from those of another."""
        subtract_from(self.memory[target.histogram], self.memory[source.histogram], self.size)

    cdef void add(self, const Node *target, const Node *source) noexcept nogil:
        """Add the sums of a node to those of another."""
        add_scaled(self.memory[target.histogram], self.memory[source.histogram], 1.0, self.size)


cdef class ContextHistograms:
    """Histograms of all positions, separately for each context; see `supports`.

    Trees often test the previous label first, and a node below such tests alone has all positions.
    One pass over the positions sums up each context, and the histograms of all these nodes follow
    from it. A bin is a row of lanes: the residuals of each context, then the weights, which are the
    same in all contexts unless there is curvature.
    """

    def __init__(self, Features features, ContextSets contexts, ChosenBins chosen):
        self.features = features
        self.contexts = contexts
        self.chosen = chosen
        self.n_labels = contexts.n_labels
        self.bins = np.zeros(MAX_LANES * (chosen.n_bins + 1))
        self.starts = np.zeros(2 * (chosen.n_bins + 1))
        self.block = np.zeros(MAX_LANES * BLOCK)

    @staticmethod
    def supports(Features features, ContextSets contexts):
        """Return whether there are few contexts, of order 1, and only codes."""
        return (contexts.order == 1 and contexts.n_labels < MAX_LANES
                and features.codes.shape[1] > 0 and not features.bit_columns.shape[0]
                and features.list_bins[features.width] == features.list_bins[0])

    cdef bint begin(self, bint has_curvature) noexcept nogil:
        """Set all sums to 0; return False if there are too many for a bin."""
        cdef Py_ssize_t n_sums = self.n_labels * (1 + has_curvature) + (not has_curvature)
        if n_sums > MAX_LANES:
            return False
        self.has_curvature = has_curvature
        self.n_lanes = 4 if n_sums <= 4 else 8
        self.n_bins = self.chosen.n_bins
        memset(&self.bins[0], 0, self.n_lanes * (self.n_bins + 1) * sizeof(double))
        memset(&self.starts[0], 0, 2 * (self.n_bins + 1) * sizeof(double))
        self.block[:] = 0.0
        return True

    cdef void add_starts(self, Members members) noexcept nogil:
        """Add the listed first positions."""
        cdef Py_ssize_t i, k
        self.features.add_windows(self.chosen, members.rows, members.n, members.values,
                                  &self.starts[0], 2)
        for i in range(members.n):
            for k in range(2):
                self.starts[2 * self.n_bins + k] += members.values[2 * i + k]

    cdef void add(self, Members members) noexcept nogil:
        """Add the listed other positions."""
        cdef Py_ssize_t i = 0, n
        while i < members.n:
            n = min(<Py_ssize_t> BLOCK, members.n - i)
            self._fill_block(members, i, n)
            self.features.add_lanes(self.chosen, members.rows + i, n, &self.block[0],
                                    self.n_lanes, &self.bins[0],
                                    &self.bins[self.n_lanes * self.n_bins])
            i += n

    cdef void _fill_block(self, Members members, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
        """Write the lanes of some listed positions: residuals of all contexts, then weights."""
        cdef Py_ssize_t i, c, position, n_labels = self.n_labels
        cdef double *lanes = &self.block[0]
        for i in range(first, first + n):
            position = members.positions[i]
            for c in range(n_labels):
                lanes[c] = members.targets[position, c]
            if self.has_curvature:
                for c in range(n_labels):
                    lanes[n_labels + c] = members.curvature[position, c]
            elif members.position_weights is not None:
                lanes[n_labels] = members.position_weights[position]
            else:
                lanes[n_labels] = 1.0
            lanes += self.n_lanes

    cdef void sum_into(self, Node *node, const ContextSet *contexts) noexcept nogil:
        """Set the sums of a node with all positions."""
        cdef double pair[2]
        self._sum_bin(contexts, self.n_bins, pair)
        node.total = pair[0]
        node.weight = pair[1]
        node.examples = pair[1]

    cdef void write(self, const ContextSet *contexts, Histogram histogram) noexcept nogil:
        """Write the histogram of a node with all positions."""
        cdef Py_ssize_t b, c, n_extended = self.contexts.n_extended
        cdef double *totals = histogram.contexts
        cdef double *weights = totals + n_extended
        cdef double *counts = weights + n_extended
        cdef const double *sums = &self.bins[self.n_lanes * self.n_bins]
        cdef const double *start = &self.starts[2 * self.n_bins]
        for b in range(self.n_bins):
            self._sum_bin(contexts, b, histogram.bins + 2 * b)
        for c in range(self.n_labels):
            totals[c] = contexts.members[c] * sums[c]
            weights[c] = contexts.members[c] * sums[self.n_labels + c * self.has_curvature]
        totals[self.n_labels] = contexts.members[self.n_labels] * start[0]
        weights[self.n_labels] = contexts.members[self.n_labels] * start[1]
        for c in range(n_extended):
            counts[c] = weights[c]

    cdef inline void _sum_bin(self, const ContextSet *contexts, Py_ssize_t b,
                              double *pair) noexcept nogil:
        """Sum a bin over some contexts. The context of first positions follows the others."""
        cdef Py_ssize_t c
        cdef const double *lanes = &self.bins[self.n_lanes * b]
        cdef const double *member = contexts.members
        cdef double total = 0.0, weight = 0.0
        for c in range(self.n_labels):
            total += member[c] * lanes[c]
            weight += member[c] * lanes[self.n_labels + c * self.has_curvature]
        pair[0] = total + member[self.n_labels] * self.starts[2 * b]
        pair[1] = weight + member[self.n_labels] * self.starts[2 * b + 1]
