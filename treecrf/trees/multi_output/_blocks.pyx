"""Blocks of labels, the members of one node at a time, and histograms of all labels.

The sums of the labels of a block are side by side: one pass over the codes of a row adds to all of
them, in two vectors of registers. A histogram has the bins of one block after another, so that
those of a block stay in the cache while rows are added to them.

All sums are exact (see ``treecrf._tree``): a histogram does not depend on the order of the
examples, and the histogram of a child is the difference between those of its parent and its
sibling, whether it is kept or computed again.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
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
    void sum_positions(const double *table, const int32_t *positions, Py_ssize_t n, int n_lanes,
                       double *sums)
    void add_label_codes(double *bins, const int64_t *first, const uint8_t *codes,
                         Py_ssize_t n_columns, const int64_t *stretches, Py_ssize_t n_stretches,
                         const label_members *members, int width)
    void add_label_lists(double *bins, const int64_t *starts, const int32_t *listed,
                         const label_members *members, int width)
    enum:
        BYTES_AT_ONCE
    void add_label_bytes(double **bins, const uint8_t **columns, int n_bytes, double *joint,
                         const label_members *members, int width)
    Py_ssize_t list_byte(uint64_t byte, int32_t first_bin, int32_t *out)
    void write_lanes(double *table, const double *values, Py_ssize_t n_labels,
                     Py_ssize_t n_positions, int width)

# Weight of the smallest fraction of a row.
cdef double UNIT = 1.0 / WHOLE

# Members of which a fraction belongs to a node, whose lanes are computed at a time.
cdef enum:
    FEW = 64

# From this many members on, histograms of bytes of bits take less time than adding each set bit:
# one addition for each member and byte, but 510 to fold a byte into its bits.
cdef enum:
    MANY = 384


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
        cdef Py_ssize_t i, n_words = len(position_of_row) // 64
        self.blocks = blocks
        self.position_of_row = position_of_row
        self.n_positions = n_positions
        self.table = np.zeros(blocks.n_lanes * n_positions)
        self.rows = <int32_t *> take_memory(
            &self.memory, (n_positions + LISTING_SLACK) * sizeof(int32_t))
        self.positions = <int32_t *> take_memory(&self.memory, n_positions * sizeof(int32_t))
        self.weighted = <uint64_t *> take_zeros(&self.memory, n_words * sizeof(uint64_t))
        self.listed = <uint64_t *> take_zeros(&self.memory, n_words * sizeof(uint64_t))
        self.lanes = take_doubles(&self.memory, FEW * 2 * MAX_WIDTH)
        self.numbers = <int32_t *> take_memory(&self.memory, MANY * sizeof(int32_t))
        self.counts = take_doubles(&self.memory, 2 * n_positions)
        if self.memory.failed:
            raise MemoryError(f"no memory to grow trees on {n_positions} positions")
        for i in range(MANY):
            self.numbers[i] = <int32_t> i

    def __dealloc__(self):
        release_memory(&self.memory)

    cdef void begin(self, const double[:, ::1] residuals, const double[:, ::1] curvature,
                    const double[::1] position_weights) noexcept nogil:
        """Use these examples from now on."""
        cdef Py_ssize_t i, b
        cdef const LabelBlock *block
        cdef double *lanes
        self.position_weights = position_weights
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            lanes = &self.table[self.n_positions * block.lane]
            write_lanes(lanes, &residuals[block.label, 0], block.n_labels, self.n_positions,
                        block.width)
            if curvature is not None:
                write_lanes(lanes + block.width, &curvature[block.label, 0], block.n_labels,
                            self.n_positions, block.width)
            else:
                self._write_weights(block, lanes + block.width)
        if position_weights is not None:
            memset(self.weighted, 0, self.position_of_row.shape[0] // 64 * sizeof(uint64_t))
            for i in range(self.position_of_row.shape[0]):
                self.weighted[i >> 6] |= <uint64_t> (
                    position_weights[self.position_of_row[i]] > 0) << (i & 63)

    cdef void _write_weights(self, const LabelBlock *block, double *lanes) noexcept nogil:
        """Write the weights of the positions as those of all labels of a block."""
        cdef Py_ssize_t i, k
        cdef double weight = 1.0
        for i in range(self.n_positions):
            if self.position_weights is not None:
                weight = self.position_weights[i]
            for k in range(block.n_labels):
                lanes[2 * block.width * i + k] = weight

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

    cdef const double *table_of(self, const LabelBlock *block) noexcept nogil:
        """Return the lanes of all positions."""
        return &self.table[self.n_positions * block.lane]

    cdef label_members whole_rows(self, const LabelBlock *block) noexcept nogil:
        """Return the members that belong to the node as a whole."""
        return label_members(self.rows, self.positions, self.n_whole, self.table_of(block))

    cdef label_members fractions(self, const LabelBlock *block, Py_ssize_t first) noexcept nogil:
        """Return a few of the other members, from one on, with fractions of their lanes."""
        cdef Py_ssize_t i, k, n_lanes = 2 * block.width, n = min(<Py_ssize_t> FEW, self.n - first)
        cdef const double *lanes
        cdef double fraction
        for i in range(n):
            lanes = self.table_of(block) + n_lanes * self.positions[first + i]
            fraction = self.row_set.fractions[first + i - self.n_whole].weight * UNIT
            for k in range(n_lanes):
                self.lanes[n_lanes * i + k] = lanes[k] * fraction
        return label_members(self.rows + first, self.numbers, n, self.lanes)

    cdef void count(self) noexcept nogil:
        """Write the numbers of examples of all listed rows, each before a 0."""
        cdef Py_ssize_t i
        for i in range(self.n):
            self.counts[2 * i] = self.fraction_of(i)
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
        cdef Py_ssize_t b, i
        cdef const LabelBlock *block
        cdef label_members some
        memset(sums, 0, self.blocks.n_lanes * sizeof(double))
        for b in range(self.blocks.n):
            block = &self.blocks.blocks[b]
            sum_positions(self.table_of(block), self.positions, self.n_whole, 2 * block.width,
                          sums + block.lane)
            i = self.n_whole
            while i < self.n:
                some = self.fractions(block, i)
                sum_positions(some.table, some.positions, some.n, 2 * block.width,
                              sums + block.lane)
                i += some.n

    cdef double count_all(self) noexcept nogil:
        """Return the number of listed examples."""
        cdef Py_ssize_t i
        cdef double total = self.n_whole
        for i in range(self.n_whole, self.n):
            total += self.fraction_of(i)
        return total


cdef class BlockHistograms(HistogramPool):
    """The histograms of open nodes, in memory that is reused, as many as there is room for."""

    def __cinit__(self, Features features, LabelBlocks blocks, ChosenBins tree_bins,
                  bint with_counts, Py_ssize_t max_leaves, Py_ssize_t max_bytes):
        cdef Py_ssize_t max_size, n_histograms
        self.features = features
        self.blocks = blocks
        self.tree_bins = tree_bins
        self.with_counts = with_counts
        max_size = (blocks.n_lanes + with_counts) * tree_bins.n_bins
        # A split needs the histograms of both children.
        n_histograms = min(max_leaves + 1, max_bytes // (8 * (max_size + 1)))
        self.reserve(max(2, n_histograms), max_size)
        n_bytes = features.bit_columns.shape[0] > 0
        self.joint = np.zeros(n_bytes * BYTES_AT_ONCE * 256 * 2 * MAX_WIDTH + 1)
        self.bit_starts = np.zeros(n_bytes * MANY + 1, dtype=np.int64)
        self.bit_bins = np.zeros(n_bytes * MANY * 8 * tree_bins.n_byte_groups + 4, dtype=np.int32)

    cdef double *bins_of(self, const Node *node, Py_ssize_t b) noexcept nogil:
        """Return the bins of a block in the histogram of a node."""
        return (self.memory[node.histogram]
                + self.tree_bins.n_bins * self.blocks.blocks[b].lane)

    cdef double *counts_of(self, const Node *node) noexcept nogil:
        """Return the number of examples in each bin."""
        return self.memory[node.histogram] + self.tree_bins.n_bins * self.blocks.n_lanes

    cdef void build(self, const Node *node, BlockMembers members) noexcept nogil:
        """Build the histogram of the node whose members are listed."""
        cdef Py_ssize_t b, i = members.n_whole, n_bins = self.tree_bins.n_bins
        cdef label_members some
        memset(self.memory[node.histogram], 0,
               (self.blocks.n_lanes + self.with_counts) * n_bins * sizeof(double))
        self._list_bits(members.rows, members.n_whole)
        for b in range(self.blocks.n):
            some = members.whole_rows(&self.blocks.blocks[b])
            self._add(b, &some, members.numbers, self.bins_of(node, b))
        while i < members.n:
            self._list_bits(members.rows + i, min(<Py_ssize_t> FEW, members.n - i))
            for b in range(self.blocks.n):
                some = members.fractions(&self.blocks.blocks[b], i)
                self._add(b, &some, members.numbers, self.bins_of(node, b))
            i += FEW
        if self.with_counts:
            members.count()
            self.features.add_windows(self.tree_bins, members.rows, members.n, members.counts,
                                      self.counts_of(node), 1)

    cdef void _list_bits(self, const int32_t *rows, Py_ssize_t n) noexcept nogil:
        """List the bins of the set bits of some rows, unless there are many."""
        cdef Py_ssize_t i, j, k, n_columns = self.features.bit_columns.shape[0]
        cdef int32_t *bins = &self.bit_bins[0]
        cdef int64_t n_listed = 0
        for i in range(n if n_columns and n < MANY else 0):
            for k in range(self.tree_bins.n_bytes):
                j = self.tree_bins.byte_columns[k]
                n_listed += list_byte(
                    self.features.bit_columns[j % n_columns, j // n_columns + rows[i]],
                    <int32_t> self.tree_bins.byte_bins[k], bins + n_listed)
            self.bit_starts[i + 1] = n_listed

    cdef void _add(self, Py_ssize_t b, const label_members *members, const int32_t *numbers,
                   double *bins) noexcept nogil:
        """Add the lanes of some members to the bins of their windows; ``numbers`` counts them."""
        cdef int width = self.blocks.blocks[b].width
        cdef Py_ssize_t j
        cdef label_members numbered = members[0]
        if self.tree_bins.n_stretches:
            add_label_codes(bins, &self.tree_bins.code_bins[0], &self.features.codes[0, 0],
                            self.features.codes.shape[1], &self.tree_bins.stretches[0],
                            self.tree_bins.n_stretches, members, width)
        if self.tree_bins.n_bytes and members.n < MANY:
            numbered.rows = numbers
            add_label_lists(bins, &self.bit_starts[0], &self.bit_bins[0], &numbered, width)
        elif self.tree_bins.n_bytes:
            self._add_bytes(members, width, bins)
        if self.tree_bins.with_lists and self.tree_bins.is_all:
            for j in range(self.features.width):
                add_label_lists(bins + 2 * width * self.features.list_bins[j],
                                &self.features.list_starts[j], &self.features.list_ids[0],
                                members, width)
        elif self.tree_bins.with_lists:
            add_label_lists(bins, &self.tree_bins.row_starts[self.features.width - 1],
                            &self.tree_bins.row_places[0], members, width)

    cdef void _add_bytes(self, const label_members *members, int width,
                         double *bins) noexcept nogil:
        """Add the lanes of many members to the bins of their bits."""
        cdef Py_ssize_t first, i, j, n_columns = self.features.bit_columns.shape[0]
        cdef int n
        cdef const uint8_t *columns[BYTES_AT_ONCE]
        cdef double *first_bins[BYTES_AT_ONCE]
        first = 0
        while first < self.tree_bins.n_bytes:
            n = <int> min(<Py_ssize_t> BYTES_AT_ONCE, self.tree_bins.n_bytes - first)
            for i in range(n):
                j = self.tree_bins.byte_columns[first + i]
                columns[i] = &self.features.bit_columns[j % n_columns, j // n_columns]
                first_bins[i] = bins + 2 * width * self.tree_bins.byte_bins[first + i]
            add_label_bytes(first_bins, columns, n, &self.joint[0], members, width)
            first += n

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
