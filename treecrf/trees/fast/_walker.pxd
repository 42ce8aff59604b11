from libc.stdint cimport int32_t, uint8_t, uint64_t

from treecrf.trees.scoring._answers cimport Answers, Bits


cdef struct Node:
    int32_t test             # -1 in a leaf
    int32_t unused
    int32_t children[2]      # if the test fails, and if it passes; the bytes of a leaf's value


cdef struct Walk:
    # Some contexts of a position, which have reached the same node.
    int32_t node
    int32_t position         # in the block
    uint64_t contexts


cdef class Walker:
    cdef Answers answers
    cdef const int32_t[::1] starts, classes
    cdef const int32_t[:, ::1] nodes
    cdef const uint64_t[:, ::1] passing    # [depth, label test]: the contexts that pass, as bits
    cdef const uint64_t[::1] every
    cdef Py_ssize_t n_labels, n_columns

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Walk *walks, double **rows,
                        Py_ssize_t class_size) noexcept nogil
