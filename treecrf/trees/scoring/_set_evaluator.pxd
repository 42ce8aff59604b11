from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.growing._sets cimport Fraction
from treecrf.trees.scoring._answers cimport Answers, Bits, Surrogates


cdef enum:
    BLOCK_WORDS = 64
    BLOCK = 64 * BLOCK_WORDS
    # With missing values, the lists of positions must stay in cache too.
    MISSING_BLOCK = BLOCK // 4
    # Maximum number of scores of a label in a block.
    BLOCK_SCORES = 1 << 17


cdef struct Block:
    # The current positions, and working memory.
    Memory memory
    Bits bits
    Py_ssize_t tree            # the tree that is being split
    const uint64_t *inside     # the positions of the block; NULL if these are all bits
    uint64_t *sets             # two sets of positions a node, at most
    uint64_t **set_of          # set of each node, NULL if it is empty
    int32_t *contexts_of       # row of `members` for each node; 0: all contexts
    uint8_t *members           # sets of extended contexts
    int32_t listed             # row of `members` that the next four belong to; -1: none
    bint is_everywhere         # whether all contexts reach a leaf
    int is_shared              # whether all contexts first receive the leaf's value
    int32_t *where             # contexts of full depth to which it is then added, or subtracted
    Py_ssize_t n_where
    double *shared             # of each position: values that all contexts receive
    bint has_missing           # whether any value is missing
    Fraction *fractions        # of positions, which belong to nodes
    Py_ssize_t n_fractions, room
    Py_ssize_t *fractions_of    # first fraction of each node
    Py_ssize_t *n_fractions_of  # number of fractions of each node
    Fraction *failing          # working memory: fractions that fail the current test
    Py_ssize_t n_passing, n_failing
    bint failed


cdef class SetEvaluator:
    cdef Answers answers
    cdef const int32_t[::1] starts, classes, test, true_child, false_child, leaf_numbers
    cdef const double[::1] values, shares
    cdef Surrogates surrogates
    cdef bint follows_surrogates   # otherwise missing values go to both children, with fractions
    cdef const int32_t[:, ::1] symbols
    cdef const int64_t[::1] depth_starts
    cdef Py_ssize_t n_columns, n_labels, n_extended, max_nodes

    cdef void _open(self, Block *block) noexcept nogil
    cdef void _split_all(self, Block *block, Py_ssize_t tree) noexcept nogil
    cdef int _split_missing(self, Block *block, Py_ssize_t node, Py_ssize_t index, int32_t passed,
                            int32_t failed, uint64_t *passing, uint64_t *failing) noexcept nogil
    cdef void _begin_fraction(self, Block *block, Py_ssize_t node, int32_t row) noexcept nogil
    cdef void _add_leaf(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                        const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil
    cdef void _add_value(self, Block *block, Py_ssize_t i, double value, int32_t class_,
                         const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil


cdef void free_block(Block *block) noexcept nogil
