"""Blocks of labels, the members of one node at a time, and histograms of all labels.

The sums of the labels of a block are side by side: one pass over the codes of a row adds to all of
them, in two vectors of registers. A histogram has the bins of one block after another, so that
those of a block stay in the cache while rows are added to them.

All sums are exact (see ``treecrf._tree``): a histogram does not depend on the order of the
examples, and the histogram of a child is the difference between those of its parent and its
sibling, whether it is kept or computed again.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from treecrf.chains._memory cimport release as release_memory, take as take_memory
from treecrf.chains._memory cimport take_doubles, take_zeros
from treecrf.trees.growing._features cimport ChosenBins, Features
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._sets cimport WHOLE, RowSet
from treecrf.trees.growing._tests cimport LISTING_SLACK

cdef extern from "trees/bitsets.h" nogil:
    int count_bits(uint64_t word)
    void list_bits(const uint64_t *words, Py_ssize_t n_words, int32_t *out)

cdef extern from "trees/growing/histograms.h" nogil:
    void subtract_from(double *target, const double *source, Py_ssize_t n)

cdef extern from "trees/multi_output/label_blocks.h" nogil:
    void sum_bins(const double *bins, Py_ssize_t n, int n_lanes, double *sums)
    void fill_lane(double *lanes, Py_ssize_t n_lanes, const double *values,
                   const int32_t *positions, Py_ssize_t n)

# Weight of the smallest fraction of a row.
cdef double UNIT = 1.0 / WHOLE

# Rows whose lanes are prepared at a time: 256 kB, which stay in the second-level cache. With fewer,
# histograms of bytes of bits are folded more often.
cdef enum:
    CHUNK = 2048

# Rows whose lanes are written label by label: 8 kB, which stay in the first-level cache.
cdef enum:
    FEW = 64

cdef class LabelBlocks:
    """The labels in blocks of eight; the last block may be smaller."""

    def __cinit__(self, Py_ssize_t n_labels):
        cdef Py_ssize_t label = 0, rest
        cdef LabelBlock *block
        self.n_labels = n_labels
        self.blocks = <LabelBlock *> calloc(n_labels // MAX_WIDTH + 1, sizeof(LabelBlock))
        if self.blocks == NULL:
            raise MemoryError(f"no memory for {n_labels} labels")
        while label < n_labels:
            block = &self.blocks[self.n]
            rest = n_labels - label
            block.label = label
            block.n_labels = min(rest, <Py_ssize_t> MAX_WIDTH)
            block.width = 1
            while block.width < block.n_labels:
                block.width *= 2
            block.lane = self.n_lanes
            self.n_lanes += 2 * block.width
            self.n += 1
            label += block.n_labels

    def __dealloc__(self):
        free(self.blocks)

    cdef double total_weight(self, const double *lanes) noexcept nogil:
        """Return the sum of the weights of all labels, in their order."""
        cdef Py_ssize_t b, k
        cdef const LabelBlock *block
        cdef double weight = 0.0
        for b in range(self.n):
            block = &self.blocks[b]
            for k in range(block.n_labels):
                weight += lanes[block.lane + block.width + k]
        return weight


cdef class BlockMembers:
    """The members of a node, and the values of some of them."""

    def __cinit__(self, LabelBlocks blocks, position_of_row, Py_ssize_t n_positions):
        cdef Py_ssize_t n_words = len(position_of_row) // 64
        self.blocks = blocks
        self.position_of_row = position_of_row
        self.rows = <int32_t *> take_memory(
            &self.memory, (n_positions + LISTING_SLACK) * sizeof(int32_t))
        self.positions = <int32_t *> take_memory(&self.memory, n_positions * sizeof(int32_t))
        self.weighted = <uint64_t *> take_zeros(&self.memory, n_words * sizeof(uint64_t))
        self.listed = <uint64_t *> take_zeros(&self.memory, n_words * sizeof(uint64_t))
        self.lanes = take_doubles(&self.memory, CHUNK * 2 * MAX_WIDTH)
        self.counts = take_doubles(&self.memory, CHUNK * 2)
        if self.memory.failed:
            raise MemoryError(f"no memory to grow trees on {n_positions} positions")

    def __dealloc__(self):
        release_memory(&self.memory)

    cdef void begin(self, const double[:, ::1] residuals, const double[:, ::1] curvature,
                    const double[::1] position_weights) noexcept nogil:
        """Use these examples from now on."""
        cdef Py_ssize_t i
        self.residuals = residuals
        self.curvature = curvature
        self.position_weights = position_weights
        if position_weights is not None:
            memset(self.weighted, 0, self.position_of_row.shape[0] // 64 * sizeof(uint64_t))
            for i in range(self.position_of_row.shape[0]):
                self.weighted[i >> 6] |= <uint64_t> (
                    position_weights[self.position_of_row[i]] > 0) << (i & 63)

    cdef void list_rows(self, const RowSet *row_set) noexcept nogil:
        """List the rows of a node and their positions, without whole rows of weight 0."""
        cdef Py_ssize_t i, n_whole = row_set.n_whole, n_words = self.position_of_row.shape[0] // 64
        cdef const uint64_t *whole = row_set.whole
        self.row_set = row_set
        if self.position_weights is not None:
            n_whole = 0
            for i in range(n_words):
                self.listed[i] = whole[i] & self.weighted[i]
                n_whole += count_bits(self.listed[i])
            whole = self.listed
        list_bits(whole, n_words, self.rows)
        for i in range(row_set.n_fractions):
            self.rows[n_whole + i] = row_set.fractions[i].row
        self.n_whole = n_whole
        self.n = n_whole + row_set.n_fractions
        for i in range(self.n):
            self.positions[i] = self.position_of_row[self.rows[i]]

    cdef void fill(self, const LabelBlock *block, Py_ssize_t first,
                   Py_ssize_t n) noexcept nogil:
        """Write the lanes of some listed rows, at most CHUNK."""
        cdef Py_ssize_t i = 0
        if block.n_labels < block.width:
            memset(self.lanes, 0, n * 2 * block.width * sizeof(double))
        while i < n:
            self._fill_some(block, first + i, min(<Py_ssize_t> FEW, n - i),
                            self.lanes + 2 * block.width * i)
            i += FEW

    cdef void _fill_some(self, const LabelBlock *block, Py_ssize_t first, Py_ssize_t n,
                         double *lanes) noexcept nogil:
        """Write the lanes of a few listed rows."""
        cdef Py_ssize_t i, k, width = block.width, n_lanes = 2 * width
        cdef const int32_t *positions = self.positions + first
        cdef double fraction
        for k in range(block.n_labels):
            fill_lane(lanes + k, n_lanes, &self.residuals[block.label + k, 0], positions, n)
            if self.curvature is not None:
                fill_lane(lanes + width + k, n_lanes, &self.curvature[block.label + k, 0],
                          positions, n)
            elif self.position_weights is not None:
                fill_lane(lanes + width + k, n_lanes, &self.position_weights[0], positions, n)
            else:
                for i in range(n):
                    lanes[n_lanes * i + width + k] = 1.0
        for i in range(max(first, self.n_whole), first + n):
            fraction = self.fraction_of(i)
            for k in range(n_lanes):
                lanes[n_lanes * (i - first) + k] *= fraction

    cdef void count(self, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
        """Write the numbers of examples of some listed rows, at most CHUNK, each before a 0."""
        cdef Py_ssize_t i
        for i in range(n):
            self.counts[2 * i] = self.fraction_of(first + i)
            self.counts[2 * i + 1] = 0.0

    cdef inline double fraction_of(self, Py_ssize_t i) noexcept nogil:
        """Return how much of a listed row belongs to the node, 0 if its position has no weight."""
        cdef bint is_counted = (self.position_weights is None
                                or self.position_weights[self.positions[i]] > 0)
        if i < self.n_whole:
            return 1.0
        return is_counted * self.row_set.fractions[i - self.n_whole].weight * UNIT

    cdef void sum_into(self, double *sums) noexcept nogil:
        """Sum the lanes of the listed rows."""
        cdef Py_ssize_t b, i, n
        cdef const LabelBlock *block
        memset(sums, 0, self.blocks.n_lanes * sizeof(double))
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            i = 0
            while i < self.n:
                n = min(<Py_ssize_t> CHUNK, self.n - i)
                self.fill(block, i, n)
                sum_bins(self.lanes, n, 2 * block.width, sums + block.lane)
                i += n

    cdef double count_all(self) noexcept nogil:
        """Return the number of listed examples."""
        cdef Py_ssize_t i
        cdef double total = self.n_whole
        for i in range(self.n_whole, self.n):
            total += self.fraction_of(i)
        return total


cdef class BlockHistograms:
    """The histograms of open nodes, in memory that is reused, as many as there is room for."""

    def __cinit__(self, Features features, LabelBlocks blocks, ChosenBins tree_bins,
                  bint with_counts, Py_ssize_t max_leaves, Py_ssize_t max_bytes):
        self.features = features
        self.blocks = blocks
        self.tree_bins = tree_bins
        self.with_counts = with_counts
        self.max_size = (blocks.n_lanes + with_counts) * tree_bins.n_bins + 1
        # A split needs the histograms of both children.
        self.max_histograms = min(max_leaves + 1, max_bytes // (8 * self.max_size))
        self.max_histograms = max(2, self.max_histograms)
        self.memory = <double **> calloc(self.max_histograms, sizeof(double *))
        self.free_histograms = <int32_t *> malloc(self.max_histograms * sizeof(int32_t))
        if self.memory == NULL or self.free_histograms == NULL:
            raise MemoryError(f"no memory for {self.max_histograms} histograms")

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_histograms):
            free(self.memory[i])
        free(self.memory)
        free(self.free_histograms)

    cdef void begin(self) noexcept nogil:
        """Begin a tree, whose bins have been chosen: forget all histograms."""
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
        memory = <double *> malloc(self.max_size * sizeof(double))
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

    cdef double *bins_of(self, const Node *node, Py_ssize_t b) noexcept nogil:
        """Return the bins of a block in the histogram of a node."""
        return (self.memory[node.histogram]
                + self.tree_bins.n_bins * self.blocks.blocks[b].lane)

    cdef double *counts_of(self, const Node *node) noexcept nogil:
        """Return the number of examples in each bin."""
        return self.memory[node.histogram] + self.tree_bins.n_bins * self.blocks.n_lanes

    cdef void build(self, const Node *node, BlockMembers members) noexcept nogil:
        """Build the histogram of the node whose members are listed."""
        cdef Py_ssize_t b, i, n, n_bins = self.tree_bins.n_bins
        cdef const LabelBlock *block
        memset(self.memory[node.histogram], 0,
               (self.blocks.n_lanes + self.with_counts) * n_bins * sizeof(double))
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            i = 0
            while i < members.n:
                n = min(<Py_ssize_t> CHUNK, members.n - i)
                members.fill(block, i, n)
                self.features.add_window_lanes(self.tree_bins, members.rows + i, n, members.lanes,
                                               2 * block.width, self.bins_of(node, b))
                i += n
        i = 0
        while self.with_counts and i < members.n:
            n = min(<Py_ssize_t> CHUNK, members.n - i)
            members.count(i, n)
            self.features.add_windows(self.tree_bins, members.rows + i, n, members.counts,
                                      self.counts_of(node), 1)
            i += n

    cdef void subtract(self, const Node *target, const Node *source) noexcept nogil:
        """Subtract the sums of a node from those of another."""
        subtract_from(self.memory[target.histogram], self.memory[source.histogram],
                      (self.blocks.n_lanes + self.with_counts) * self.tree_bins.n_bins)

    cdef Py_ssize_t place_of(self, int64_t b) noexcept nogil:
        """Return the index of one of the tree's bins in a histogram."""
        return b if self.tree_bins.is_all else self.tree_bins.places[b]

    cdef int64_t bin_at(self, Py_ssize_t place) noexcept nogil:
        """Undo `place_of`."""
        return place if self.tree_bins.is_all else self.tree_bins.bins[place]
