from libc.stdint cimport int32_t, uint8_t, uint64_t

from treecrf.trees.scoring._answers cimport Answers, Bits


cdef struct Node:
    # A node of a tree.
    int32_t test             # -1 in a leaf
    int32_t unused           # lets the value of a leaf begin at a multiple of 8 bytes
    int32_t children[2]      # if the test fails, and if it passes; the bytes of a leaf's value


cdef struct Walk:
    # Some contexts of a position, which have reached the same node.
    int32_t node             # the node, of all trees
    int32_t position         # in the block
    uint64_t contexts        # the contexts, as bits


cdef class Walker:
    cdef Answers answers
    cdef const int32_t[::1] starts         # first node of each tree
    cdef const int32_t[::1] classes        # class of each tree
    cdef const int32_t[:, ::1] nodes       # see `Node`
    cdef const uint64_t[:, ::1] passing    # [depth, label test]: the contexts that pass, as bits
    cdef const uint64_t[::1] every         # all contexts of each depth, as bits
    cdef Py_ssize_t n_labels
    cdef Py_ssize_t n_columns              # number of tests that have columns of bits

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Walk *walks, double **rows,
                        Py_ssize_t class_size) noexcept nogil
