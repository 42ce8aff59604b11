"""Trees as programs of selections between rows of bits, which number the leaves of all positions.

The leaves of a tree are numbered. Bit b of the leaf numbers of many positions is a row of bits. For
an inner node, it is that of the true child where the test holds, else that of the false child. The
leaves of a subtree have consecutive numbers, so few bits vary within it, and only these need a
selection. A path of nodes is a chain of selections, whose intermediate results stay in registers.

A test of a previous label has one outcome in all contexts of a group, so that the group's program
skips it. The two sides of such a test share numbers, as no position reaches both in one context.
A subtree without such tests then has the same rows in all groups that reach it, and is computed
once.
"""

from itertools import pairwise

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef extern from "utils/leaf_sums.h" nogil:
    enum:
        MAX_SLOTS
        N_PLANES
        ROW_BITS
    int processor_has_permutes "has_permutes"()
    uint64_t make_chain(uint64_t start, uint64_t slot, uint64_t n_steps)
    uint64_t make_step(uint64_t test, uint64_t other, uint64_t negated)

cdef enum:
    # Rows after the rows of tests: zeros, ones, and intermediate results.
    ZEROS = 0
    ONES = 1
    FIRST_SLOT = 2
    # Of a bit that has not been computed.
    NO_ROW = -1
    # Numbers of a part of a tree with too many leaves for a byte; 0 is any leaf of another part.
    PART = 255
    MAX_PARTS = 16
    # Slots for rows of subtrees that several groups share. The others need fewer than the rest:
    # each holds a bit of a subtree with at least two leaves of the same part.
    MAX_KEPT = MAX_SLOTS - 2 * (PART + 1)

LEAF_UNITS_LOG2 = 20


def has_permutes():
    """Return whether the processor looks up values in vector registers."""
    return bool(processor_has_permutes())


def can_run(packed, Py_ssize_t n_columns):
    """Return whether `Program` supports these trees.

    Leaf values must be multiples of 2**-20, sums of them must fit 32 bits, and neither tests nor
    leaves may be too many.
    """
    is_leaf = packed.nodes["true_child"] < 0
    units = np.where(is_leaf, packed.nodes["leaf"], 0.0) * 2.0**LEAF_UNITS_LOG2
    if len(units) == 0 or (units != np.rint(units)).any():
        return False
    firsts = packed.starts[: len(packed.classes)]
    bound = np.maximum.reduceat(np.abs(units), firsts).sum()
    n_leaves = np.add.reduceat(is_leaf, firsts, dtype=np.int64).max()
    return bool(bound < 2.0**31 and n_leaves <= PART * MAX_PARTS
                and n_columns + FIRST_SLOT + MAX_SLOTS < 1 << ROW_BITS)


cdef class Program:
    """The program of some trees for groups of contexts."""

    def __init__(self, packed, groups, Py_ssize_t n_columns, bint by_permutes):
        if by_permutes and not has_permutes():
            raise ValueError("this processor has no permutes")
        self.starts, self.test = packed.starts, packed.test_of_node
        self.true_child, self.false_child = packed.children
        values = np.where(packed.nodes["true_child"] < 0, packed.nodes["leaf"], 0.0)
        self.units = (values * 2.0**LEAF_UNITS_LOG2).astype(np.int64)
        self.outcomes = groups.outcomes
        self.n_columns, self.n_window_tests = n_columns, len(packed.tests)
        self.by_permutes = by_permutes
        self.n_bytes = n_bytes_of(np.asarray(self.units), packed.starts) if by_permutes else 4
        self._open(max(np.diff(packed.starts), default=0))
        self.base = np.zeros(len(groups.classes), dtype=np.int64)
        self._compile(groups, packed.n_labels)

    def __dealloc__(self):
        free(self.steps)
        free(self.outputs)
        free(self.values)

    def _open(self, Py_ssize_t n_nodes):
        self.codes, self.sizes, self.n_visits = np.zeros((3, n_nodes), dtype=np.int32)
        self.passed, self.failed, self.others = np.zeros((3, n_nodes), dtype=np.int32)
        self.order, self.stack = np.zeros((2, n_nodes + 2), dtype=np.int32)
        self.planes = np.zeros((n_nodes, N_PLANES), dtype=np.int32)
        self.kept = np.zeros(n_nodes, dtype=np.int64)
        self.is_pure = np.zeros(n_nodes, dtype=np.uint8)
        self.free_slots = np.zeros(MAX_SLOTS, dtype=np.int32)

    def _compile(self, groups, Py_ssize_t n_classes):
        """Compile all trees, ordered by class; the groups of a tree follow each other."""
        group_of = np.repeat(np.arange(len(groups.classes)), np.diff(groups.starts))
        ordered = np.lexsort((group_of, groups.trees, groups.classes[group_of]))
        group_of = group_of[ordered].astype(np.int32)
        trees = groups.trees[ordered]
        representatives = groups.members.argmax(axis=1).astype(np.int32)
        cuts = np.flatnonzero(np.diff(trees, prepend=-1, append=-1)).tolist()
        first_outputs = np.zeros(n_classes + 1, dtype=np.int64)
        for first, last in pairwise(cuts):
            self._add_tree(trees[first], group_of[first:last], representatives)
            first_outputs[groups.classes[group_of[first]] + 1] = self.n_outputs
        self.first_outputs = np.maximum.accumulate(first_outputs)

    cdef bint _add_tree(self, Py_ssize_t tree, const int32_t[::1] groups,
                        const int32_t[::1] representatives) except False:
        cdef Py_ssize_t i, first_leaf = 0
        self.start = self.starts[tree]
        self.n_nodes = self.starts[tree + 1] - self.start
        self._number_leaves()
        while self.true_child[self.start + first_leaf] >= 0:
            first_leaf += 1
        self.low = self.units[self.start + first_leaf] if self.n_parts == 1 else 0
        for i in range(self.n_nodes):
            self.n_visits[i] = 0
            if self.true_child[self.start + i] < 0:
                self.low = min(self.low, self.units[self.start + i])
        for i in range(groups.shape[0]):
            self._count_visits(&self.outcomes[representatives[groups[i]], 0])
        for self.part in range(self.n_parts):
            self.stamp += 1
            self.n_free = self.n_used = self.n_kept = 0
            for i in range(groups.shape[0]):
                self._add_output(groups[i], &self.outcomes[representatives[groups[i]], 0])
        return True

    cdef void _number_leaves(self) noexcept:
        """Number the leaves. Children follow their parents among the nodes of a tree."""
        cdef Py_ssize_t i, n_codes
        cdef int32_t passed, failed
        for i in range(self.n_nodes - 1, -1, -1):
            passed, failed = self.true_child[self.start + i], self.false_child[self.start + i]
            if passed < 0:
                self.sizes[i] = self.is_pure[i] = 1
            elif self.test[self.start + i] < self.n_columns:
                self.sizes[i] = self.sizes[passed] + self.sizes[failed]
                self.is_pure[i] = self.is_pure[passed] and self.is_pure[failed]
            else:
                self.sizes[i] = max(self.sizes[passed], self.sizes[failed])
                self.is_pure[i] = False
        self.codes[0] = 0
        for i in range(self.n_nodes):
            passed, failed = self.true_child[self.start + i], self.false_child[self.start + i]
            if passed < 0:
                continue
            self.codes[passed] = self.codes[failed] = self.codes[i]
            if self.test[self.start + i] < self.n_columns:
                # The larger child comes first, so that its numbers are aligned to powers of 2.
                if self.sizes[passed] >= self.sizes[failed]:
                    self.codes[failed] += self.sizes[passed]
                else:
                    self.codes[passed] += self.sizes[failed]
        n_codes = self.sizes[0]
        self.n_parts = 1 if n_codes <= PART + 1 else (n_codes + PART - 1) // PART
        self.n_planes = N_PLANES if self.n_parts > 1 else 0
        while n_codes > 1 << self.n_planes and self.n_parts == 1:
            self.n_planes += 1

    cdef void _count_visits(self, const uint8_t *outcomes) noexcept:
        """Count the groups that reach each of the largest subtrees without label tests."""
        cdef Py_ssize_t n = 1
        cdef int32_t node
        self.stack[0] = self._resolve(0, outcomes)
        while n:
            n -= 1
            node = self.stack[n]
            if self.is_pure[node]:
                self.n_visits[node] += 1
                continue
            self.stack[n] = self._resolve(self.true_child[self.start + node], outcomes)
            self.stack[n + 1] = self._resolve(self.false_child[self.start + node], outcomes)
            n += 2

    cdef int32_t _resolve(self, int32_t node, const uint8_t *outcomes) noexcept:
        """Follow tests of previous labels to a leaf or to another test."""
        cdef int32_t test
        while self.true_child[self.start + node] >= 0:
            test = self.test[self.start + node]
            if test < self.n_columns:
                break
            if outcomes[test - self.n_window_tests]:
                node = self.true_child[self.start + node]
            else:
                node = self.false_child[self.start + node]
        return node

    cdef bint _add_output(self, int32_t group, const uint8_t *outcomes) except False:
        """Compile a tree, or a part of it, for a group."""
        cdef Py_ssize_t i, n
        cdef int32_t node, root = self._resolve(0, outcomes)
        cdef Output *output
        if self.true_child[self.start + root] < 0:
            if self.part == 0:
                self.base[group] += self.units[self.start + root]
            return True
        self._make_room()
        n = self._list_nodes(outcomes, False)
        for i in range(n - 1, -1, -1):
            node = self.order[i]
            if self.kept[node] == self.stamp:
                continue
            self._find_planes(node)
            if self.n_visits[node] > 1 and self.n_kept + N_PLANES <= MAX_KEPT:
                self._compute_planes(node)
                self.kept[node] = self.stamp
                self.n_kept += N_PLANES
        self._compute_planes(root)
        output = &self.outputs[self.n_outputs]
        self.n_outputs += 1
        output.last_step = self.n_steps
        output.group = group
        for i in range(N_PLANES):
            output.planes[i] = self.planes[root, i]
            if self.kept[root] != self.stamp:
                self._release(self.planes[root, i])
        self._write_values(output, outcomes)
        self.base[group] += self.low
        return True

    cdef Py_ssize_t _list_nodes(self, const uint8_t *outcomes, bint whole) noexcept:
        """List nodes in an order whose reverse has children before parents; returns their number.

        In the reverse the larger subtrees precede, so that few rows wait. Unless ``whole`` is true,
        subtrees that have been computed are listed without their descendants.
        """
        cdef Py_ssize_t n = 0, n_waiting = 1
        cdef int32_t node, passed, failed
        self.stack[0] = self._resolve(0, outcomes)
        while n_waiting:
            n_waiting -= 1
            node = self.stack[n_waiting]
            self.order[n] = node
            n += 1
            if self.true_child[self.start + node] < 0:
                continue
            if self.kept[node] == self.stamp and not whole:
                continue
            passed = self._resolve(self.true_child[self.start + node], outcomes)
            failed = self._resolve(self.false_child[self.start + node], outcomes)
            self.passed[node], self.failed[node] = passed, failed
            if self.sizes[passed] < self.sizes[failed]:
                passed, failed = failed, passed
            self.stack[n_waiting] = passed
            self.stack[n_waiting + 1] = failed
            n_waiting += 2
        return n

    cdef void _find_planes(self, int32_t node) noexcept:
        """Find the rows of a node that need no steps: constants and tests."""
        cdef int32_t code, passed = self.passed[node], failed = self.failed[node]
        cdef Py_ssize_t i, zeros = self.n_columns + ZEROS, ones = self.n_columns + ONES
        if self.true_child[self.start + node] < 0:
            code = self._local_code(node)
            for i in range(N_PLANES):
                self.planes[node, i] = <int32_t> (ones if code >> i & 1 else zeros)
            return
        for i in range(N_PLANES):
            if self.planes[passed, i] == self.planes[failed, i] != NO_ROW:
                self.planes[node, i] = self.planes[passed, i]
            elif self.planes[passed, i] == ones and self.planes[failed, i] == zeros:
                self.planes[node, i] = self.test[self.start + node]
            else:
                self.planes[node, i] = NO_ROW

    cdef void _compute_planes(self, int32_t node) noexcept:
        """Add the chains of the other rows of a node."""
        cdef Py_ssize_t i
        for i in range(N_PLANES):
            if self.planes[node, i] == NO_ROW:
                self.planes[node, i] = self._add_chain(node, i, 0)

    cdef int32_t _add_chain(self, int32_t node, Py_ssize_t i, Py_ssize_t first) noexcept:
        """Add a chain for bit i of a node; returns the row of the result.

        The chain starts at the end of a path from the node to a descendant, where each step has the
        other child, which needs a separate chain before this one if it has no row. ``stack`` is
        free from ``first`` on.
        """
        cdef Py_ssize_t k, n = first
        cdef int32_t passed, failed, other, row, slot
        while True:
            passed, failed = self.passed[node], self.failed[node]
            self.stack[n] = node
            n += 1
            if self.planes[passed, i] != NO_ROW and self.planes[failed, i] != NO_ROW:
                break
            if self.planes[passed, i] != NO_ROW:
                node = failed
            elif self.planes[failed, i] != NO_ROW:
                node = passed
            else:
                node = passed if self.sizes[passed] > self.sizes[failed] else failed
                other = failed if node == passed else passed
                self.others[other] = self._add_chain(other, i, n)
        slot = self._take_slot()
        self.steps[self.n_steps] = make_chain(self.planes[failed, i], slot, n - first)
        self.n_steps += 1
        row = NO_ROW
        for k in range(n - 1, first - 1, -1):
            node = self.stack[k]
            passed, failed = self.passed[node], self.failed[node]
            # The chain holds the true child if it came from there, at first the false child.
            other = failed if k < n - 1 and self.stack[k + 1] == passed else passed
            row = self.planes[other, i]
            if row == NO_ROW:
                row = self.others[other]
                self._release(row)
            self.steps[self.n_steps] = make_step(self.test[self.start + node], row,
                                                 other == failed)
            self.n_steps += 1
        return <int32_t> (self.n_columns + FIRST_SLOT + slot)

    cdef int32_t _take_slot(self) noexcept:
        if self.n_free:
            self.n_free -= 1
            return self.free_slots[self.n_free]
        self.n_used += 1
        self.n_slots = max(self.n_slots, self.n_used)
        return <int32_t> (self.n_used - 1)

    cdef void _release(self, int32_t row) noexcept:
        """Release the slot of a row, if it is in one."""
        cdef int32_t slot = <int32_t> (row - self.n_columns - FIRST_SLOT)
        if slot >= 0:
            self.free_slots[self.n_free] = slot
            self.n_free += 1

    cdef int32_t _local_code(self, int32_t node) noexcept:
        """Return the number of a leaf within the current part, 0 for leaves of other parts."""
        if self.n_parts == 1:
            return self.codes[node]
        return <int32_t> (self.codes[node] - self.part * PART + 1) if self._is_here(node) else 0

    cdef bint _is_here(self, int32_t node) noexcept:
        """Return whether a leaf belongs to the current part."""
        return self.n_parts == 1 or self.codes[node] // PART == self.part

    cdef void _write_values(self, Output *output, const uint8_t *outcomes) noexcept:
        """Write the values of the leaves, less the smallest one, to a new table."""
        cdef Py_ssize_t i, n = self._list_nodes(outcomes, True)
        cdef int32_t node
        output.n_values = max(64, 1 << self.n_planes)
        output.values = self.size_of_values
        memset(self.values + output.values, 0, self.n_bytes * output.n_values)
        if self.n_parts > 1:
            self._write_value(output, 0, -self.low)
        for i in range(n):
            node = self.order[i]
            if self.true_child[self.start + node] < 0 and self._is_here(node):
                self._write_value(output, self._local_code(node),
                                  self.units[self.start + node] - self.low)
        self.size_of_values += self.n_bytes * output.n_values

    cdef void _write_value(self, const Output *output, int32_t code, int64_t value) noexcept:
        cdef uint8_t *values = self.values + output.values
        cdef Py_ssize_t b
        if not self.by_permutes:
            (<int32_t *> values)[code] = <int32_t> value
        for b in range(self.n_bytes if self.by_permutes else 0):
            values[b * output.n_values + code] = <uint8_t> (value >> (8 * b) & 255)

    cdef bint _make_room(self) except False:
        """Make room for the next output."""
        if self.n_steps + 2 * N_PLANES * self.n_nodes > self.room_for_steps:
            self.room_for_steps = 2 * (self.room_for_steps + N_PLANES * self.n_nodes)
            self.steps = <uint64_t *> resized(self.steps, self.room_for_steps * sizeof(uint64_t))
        if self.n_outputs == self.room_for_outputs:
            self.room_for_outputs = 2 * self.room_for_outputs + 64
            self.outputs = <Output *> resized(self.outputs, self.room_for_outputs * sizeof(Output))
        if self.size_of_values + 256 * self.n_bytes > self.room_for_values:
            self.room_for_values = 2 * self.room_for_values + 256 * self.n_bytes
            self.values = <uint8_t *> resized(self.values, self.room_for_values)
        return True


cdef void *resized(void *memory, Py_ssize_t n_bytes) except NULL:
    memory = realloc(memory, n_bytes)
    if memory == NULL:
        raise MemoryError("no memory for the program of the trees")
    return memory


def n_bytes_of(units, starts):
    """Return the number of bytes of the differences of values of a tree, or of a value and 0."""
    firsts = starts[: len(starts) - 1]
    highest, lowest = np.maximum.reduceat(units, firsts), np.minimum.reduceat(units, firsts)
    largest = int((np.maximum(highest, 0) - np.minimum(lowest, 0)).max())
    return max(1, (largest.bit_length() + 7) // 8)
