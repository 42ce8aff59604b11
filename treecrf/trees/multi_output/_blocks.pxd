cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.growing._features cimport ChosenBins, Features
from treecrf.trees.growing._histograms cimport HistogramPool
from treecrf.trees.growing._nodes cimport Node
from treecrf.trees.growing._sets cimport RowSet


cdef extern from "trees/multi_output/label_blocks.h" nogil:
    ctypedef struct label_members:
        const int32_t *rows
        const int32_t *positions
        Py_ssize_t n
        const double *table

cdef enum:
    MAX_WIDTH = 8              # labels of a block: with their weights, two vectors of 512 bits


cdef struct LabelBlock:
    # Neighboring labels, whose sums are side by side.
    Py_ssize_t label           # the first of them
    Py_ssize_t n_labels        # their number
    int width                  # labels for which there are lanes: 1, 2, 4 or 8
    Py_ssize_t lane            # number of lanes of the blocks before


@cython.final
cdef class LabelBlocks:
    cdef readonly Py_ssize_t n_labels
    cdef LabelBlock *blocks
    cdef Py_ssize_t n
    cdef Py_ssize_t n_lanes                 # of all blocks together

    cdef double total_weight(self, const double *lanes) noexcept nogil


@cython.final
cdef class BlockMembers:
    cdef LabelBlocks blocks
    cdef const int32_t[::1] position_of_row
    cdef Py_ssize_t n_positions
    # The examples of the current tree.
    cdef const double[::1] position_weights
    cdef double[::1] table                  # of each block: the lanes of all positions
    cdef Memory memory
    cdef uint64_t *weighted                 # rows whose weight is not 0
    # The members of the current node; rows that belong to it as a whole come first.
    cdef const RowSet *row_set
    cdef Py_ssize_t n                       # number of listed rows
    cdef Py_ssize_t n_whole                 # number of those that belong to it as a whole
    cdef int32_t *rows
    cdef int32_t *positions
    cdef uint64_t *listed                   # weighted rows of the current node
    # Lanes of a few members of which a fraction belongs to the node, and their numbers.
    cdef double *lanes
    cdef int32_t *numbers
    cdef double *counts                     # (examples, 0) of each member, where they are counted

    cdef void begin(self, const double[:, ::1] residuals, const double[:, ::1] curvature,
                    const double[::1] position_weights) noexcept nogil
    cdef void _write_weights(self, const LabelBlock *block, double *lanes) noexcept nogil
    cdef void list_rows(self, const RowSet *row_set) noexcept nogil
    cdef const double *table_of(self, const LabelBlock *block) noexcept nogil
    cdef label_members whole_rows(self, const LabelBlock *block) noexcept nogil
    cdef label_members fractions(self, const LabelBlock *block, Py_ssize_t first) noexcept nogil
    cdef void count(self) noexcept nogil
    cdef double fraction_of(self, Py_ssize_t i) noexcept nogil
    cdef void sum_into(self, double *sums) noexcept nogil
    cdef double count_all(self) noexcept nogil


@cython.final
cdef class BlockHistograms(HistogramPool):
    cdef Features features
    cdef LabelBlocks blocks
    cdef ChosenBins tree_bins               # the bins of the current tree
    cdef bint with_counts                   # whether examples are counted
    # Bytes of bits.
    cdef double[::1] joint                  # histograms of some bytes
    cdef int64_t[::1] bit_starts            # first bin of each of a few members, and the end
    cdef int32_t[::1] bit_bins              # the bins of their set bits

    cdef double *bins_of(self, const Node *node, Py_ssize_t b) noexcept nogil
    cdef double *counts_of(self, const Node *node) noexcept nogil
    cdef void build(self, const Node *node, BlockMembers members) noexcept nogil
    cdef void _list_bits(self, const int32_t *rows, Py_ssize_t n) noexcept nogil
    cdef void _add(self, Py_ssize_t b, const label_members *members, const int32_t *numbers,
                   double *bins) noexcept nogil
    cdef void _add_bytes(self, const label_members *members, int width,
                         double *bins) noexcept nogil
    cdef void subtract(self, const Node *target, const Node *source) noexcept nogil
    cdef Py_ssize_t place_of(self, int64_t b) noexcept nogil
    cdef int64_t bin_at(self, Py_ssize_t place) noexcept nogil
