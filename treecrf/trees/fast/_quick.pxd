from libc.stdint cimport int32_t, uint8_t, uint64_t

from treecrf.trees.scoring._answers cimport Bits


cdef struct Tree:
    # What a tree adds at positions of some depth.
    uint64_t main            # leaves that its main group of contexts may reach
    uint64_t sensitive       # leaves that have a test of a previous label above them
    int32_t first_group      # first of the other groups
    int32_t last_group       # end of the other groups
    int32_t first_value      # value of its first leaf
    int32_t unused           # fills a multiple of 8 bytes


cdef struct Group:
    # Contexts of a tree that may reach the same leaves.
    uint64_t contexts        # the contexts, as bits
    uint64_t leaves          # the leaves, as bits


cdef class QuickScorer:
    cdef Py_ssize_t n_trees, n_labels, n_tests
    cdef const int32_t[::1] classes              # first tree of each class
    cdef const int32_t[::1] tests                # first entry of each test
    cdef const int32_t[::1] entry_trees          # a node with this test: its tree, and the leaves
    cdef const uint64_t[::1] entry_leaves        # that remain if the test holds
    cdef const double[::1] values                # of leaves
    cdef const int32_t[::1] n_contexts           # of positions, by depth
    cdef Tree[:, ::1] trees                      # by depth
    cdef Group[::1] groups

    cdef Py_ssize_t n_steps(self, const Bits *block) noexcept nogil
    cdef void add_block(self, const Bits *block, const uint8_t *depth, uint64_t *reach,
                        double **rows, Py_ssize_t class_size) noexcept nogil
    cdef void _add(self, Py_ssize_t class_, const uint64_t *reach, Py_ssize_t depth,
                   double *row) noexcept nogil
    cdef void _add_groups(self, const Tree *tree, uint64_t reach, const double *values,
                          Py_ssize_t leaf, double *row) noexcept nogil
