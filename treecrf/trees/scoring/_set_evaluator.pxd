from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.growing._sets cimport Fraction
from treecrf.trees.scoring._answers cimport Answers, Bits, Surrogates


cdef enum:
    # A set of positions has 512 bytes: the sets of the nodes of a tree, and the columns of its
    # tests, stay in the nearest caches.
    BLOCK_WORDS = 64
    BLOCK = 64 * BLOCK_WORDS
    # With missing values, the lists of positions must stay in cache too.
    MISSING_BLOCK = BLOCK // 4
    # Maximum number of scores of a label in a block: 1 MB, which stays in the second-level cache.
    BLOCK_SCORES = 1 << 17


cdef struct Block:
    # The current positions, and working memory.
    Memory memory
    Bits bits                  # outcomes of all tests
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
    Fraction *fractions        # fractions of positions of all nodes
    Py_ssize_t n_fractions     # their number
    Py_ssize_t room            # number of fractions for which there is memory
    Py_ssize_t *fractions_of   # first fraction of each node
    Py_ssize_t *n_fractions_of  # number of fractions of each node
    Fraction *failing          # working memory: fractions that fail the current test
    Py_ssize_t n_passing       # number of fractions that pass the current test
    Py_ssize_t n_failing       # number of fractions that fail it
    bint failed                # whether memory has run out


cdef class SetEvaluator:
    cdef Answers answers
    # The trees, see `treecrf.trees.scoring.packed_trees.PackedTrees`.
    cdef const int32_t[::1] starts         # first node of each tree
    cdef const int32_t[::1] classes        # class of each tree
    cdef const int32_t[::1] test           # of each node; those from n_columns on are of contexts
    cdef const int32_t[::1] true_child, false_child
    cdef const double[::1] values          # of leaves
    cdef const double[::1] shares          # fraction of the training examples that pass each node
    cdef const int32_t[::1] leaf_numbers   # number of each leaf, through all trees
    cdef Surrogates surrogates
    cdef bint follows_surrogates   # otherwise missing values go to both children, with fractions
    # The contexts.
    cdef const int32_t[:, ::1] symbols     # label at each lag of each extended context
    cdef const int64_t[::1] depth_starts   # first extended context of each depth
    cdef Py_ssize_t n_extended             # number of extended contexts
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t n_columns              # number of tests that have columns of bits
    cdef Py_ssize_t max_nodes              # number of nodes of the largest tree

    cdef void _open(self, Block *block) noexcept nogil
    cdef void _split_all(self, Block *block, Py_ssize_t tree) noexcept nogil
    cdef void _begin_root(self, Block *block) noexcept nogil
    cdef void _split_contexts(self, Block *block, Py_ssize_t node, Py_ssize_t index,
                              Py_ssize_t n_members) noexcept nogil
    cdef bint _divide_fractions(self, Block *block, Py_ssize_t node, Py_ssize_t index,
                                const uint64_t *missing, const uint64_t *lacking) noexcept nogil
    cdef int _split_missing(self, Block *block, Py_ssize_t node, Py_ssize_t index, int32_t passed,
                            int32_t failed, uint64_t *passing, uint64_t *failing) noexcept nogil
    cdef void _begin_fraction(self, Block *block, Py_ssize_t node, int32_t row) noexcept nogil
    cdef void _add_leaf(self, Block *block, Py_ssize_t node, double value, int32_t class_,
                        const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil
    cdef void _add_value(self, Block *block, Py_ssize_t i, double value, int32_t class_,
                         const uint8_t[::1] depth, double[:, :, ::1] scores) noexcept nogil


cdef void free_block(Block *block) noexcept nogil
