from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator


cdef struct Branch:
    # A node that a position reaches; its contexts are in an array of their own.
    int32_t node             # of all trees
    uint32_t weight          # the fraction of the position, in units of 1 / WHOLE
    bint has_all             # whether it is reached in all contexts


cdef struct Walk:
    # A position on its way down a tree.
    Branch *branches         # those that wait, and after them the one that is followed
    uint64_t *contexts       # [branch, word]: the contexts of each branch, as bits
    Py_ssize_t n             # number of branches that wait
    double *totals           # [class]: what the position receives in all contexts


cdef class ContextWalker(BlockEvaluator):
    cdef const int32_t[::1] roots          # first node of each tree
    cdef const int32_t[::1] classes        # class of each tree; -1 for all
    cdef const int32_t[::1] tests          # of each node; -1 in a leaf
    cdef const int32_t[:, ::1] children    # nodes, of all trees, if the test fails and if it passes
    cdef const double[:, ::1] values       # [node, class], or [node, 0] in trees of one class
    cdef const uint32_t[::1] shares        # of the examples, in units, that pass a test
    cdef const uint64_t[:, :, ::1] passing    # [depth, label test, word]: contexts that pass
    cdef const uint64_t[:, ::1] every         # [depth, word]: all contexts
    cdef const int32_t[::1] n_contexts        # of positions, by depth
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t n_tests                # number of window tests; tests of labels follow
    cdef Py_ssize_t max_nodes              # number of nodes of the largest tree
    cdef readonly bint takes_missing       # whether it evaluates positions without some values

    cdef void add_incomplete(self, const Bits *block, const uint64_t *missing,
                             const uint8_t *depth, Memory *memory, double **rows,
                             Py_ssize_t class_size) noexcept nogil
    cdef void _add_position(self, Walk *walk, const Bits *block, const uint64_t *missing,
                            Py_ssize_t i, uint8_t depth, double *row,
                            Py_ssize_t class_size) noexcept nogil
    cdef Branch *_split_contexts(self, Walk *walk, Branch *branch, uint8_t depth) noexcept nogil
    cdef Branch *_split_weight(self, Walk *walk, Branch *branch) noexcept nogil
    cdef Branch *_wait(self, Walk *walk, Branch *branch, uint32_t passing,
                       bint has_all) noexcept nogil
    cdef void _add_leaf(self, Walk *walk, const Branch *branch, int32_t class_, double *row,
                        Py_ssize_t class_size) noexcept nogil
    cdef void _add_value(self, Walk *walk, const Branch *branch, Py_ssize_t class_,
                         double value, double *row) noexcept nogil
