from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    PLANES = 8


cdef struct Output:
    # The leaf numbers of a tree in a group of contexts, as rows of bits.
    int64_t last_step          # the step after the last one that they need
    int64_t values             # first byte of the table of leaf values
    int32_t n_values           # size of this table
    int32_t group
    int32_t planes[PLANES]     # row of each bit


cdef class Program:
    cdef const int32_t[::1] starts, test, true_child, false_child
    cdef const int64_t[::1] units
    cdef const uint8_t[:, ::1] outcomes
    cdef Py_ssize_t n_columns, n_window_tests
    cdef bint by_permutes
    # The program.
    cdef uint64_t *steps
    cdef Output *outputs
    cdef uint8_t *values
    cdef readonly Py_ssize_t n_steps, n_outputs, n_bytes, n_slots
    cdef int64_t[::1] first_outputs         # of each class
    cdef int64_t[::1] base                  # sum of values that all positions of a group receive
    # Working memory, by node of the current tree.
    cdef Py_ssize_t room_for_steps, room_for_outputs, room_for_values, size_of_values
    cdef int32_t[::1] codes, sizes, passed, failed, order, stack, n_visits, others
    cdef int32_t[:, ::1] planes
    cdef int64_t[::1] kept
    cdef uint8_t[::1] is_pure
    cdef int32_t[::1] free_slots
    cdef Py_ssize_t start, n_nodes, n_parts, part, n_planes, n_free, n_used, n_kept
    cdef int64_t stamp, low

    cdef bint _add_tree(self, Py_ssize_t tree, const int32_t[::1] groups,
                        const int32_t[::1] representatives) except False
    cdef void _number_leaves(self) noexcept
    cdef void _count_visits(self, const uint8_t *outcomes) noexcept
    cdef bint _add_output(self, int32_t group, const uint8_t *outcomes) except False
    cdef Py_ssize_t _list_nodes(self, const uint8_t *outcomes, bint whole) noexcept
    cdef int32_t _resolve(self, int32_t node, const uint8_t *outcomes) noexcept
    cdef void _find_planes(self, int32_t node) noexcept
    cdef void _compute_planes(self, int32_t node) noexcept
    cdef int32_t _add_chain(self, int32_t node, Py_ssize_t i, Py_ssize_t first) noexcept
    cdef int32_t _take_slot(self) noexcept
    cdef void _release(self, int32_t row) noexcept
    cdef int32_t _local_code(self, int32_t node) noexcept
    cdef bint _is_here(self, int32_t node) noexcept
    cdef void _write_values(self, Output *output, const uint8_t *outcomes) noexcept
    cdef void _write_value(self, const Output *output, int32_t code, int64_t value) noexcept
    cdef bint _make_room(self) except False
