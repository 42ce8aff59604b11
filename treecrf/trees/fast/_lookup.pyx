"""Scores of trees at many positions without missing values, by lookup of leaf values.

A block of positions is a bit set, and each distinct test of the trees a row of bits. The leaves of
a tree are numbered, and bit b of the leaf numbers of all positions is a row of bits, too. For an
inner node, it is that of the true child where the test holds, else that of the false child. The
leaves of a subtree have consecutive numbers, so few bits vary within it, and only these need a
selection. A path of nodes is a chain of selections, whose intermediate results stay in registers.

A test of a previous label has one outcome in all contexts of a group, so that the group's program
of selections skips it. The two sides of such a test share numbers, as no position reaches both in
one context. A subtree without such tests then has the same rows in all groups that reach it, and is
computed once.

The numbers are looked up in tables of leaf values, in units of 2**-20. The sums over the trees of a
group are added to its contexts.
"""

from itertools import pairwise

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from treecrf.chains._memory cimport Memory, release, take, take_zeros
from treecrf.trees.scoring._answers cimport (
    Answers, Bits, Positions, begin_bits, close_bits, open_bits,
)
from treecrf.trees.scoring._block_evaluator cimport ColumnsEvaluator

cdef extern from "trees/fast/leaf_sums.h" nogil:
    enum:
        GROUP_WORDS
        MAX_SLOTS
        MAX_SUMMANDS
        N_LEAF_BITS
        ROW_BITS
        ROW_WORDS
    int processor_has_permutes "has_permutes"()
    uint64_t make_chain(uint64_t start, uint64_t slot, uint64_t n_steps)
    uint64_t make_step(uint64_t test, uint64_t other, uint64_t negated)
    void run_steps(uint64_t *rows, uint64_t *slots, const uint64_t *steps, Py_ssize_t n_steps,
                   Py_ssize_t n_words)
    void add_values(const uint64_t **leaf_bits, const void *values, Py_ssize_t n_values,
                    Py_ssize_t n_bytes, bint by_permutes, Py_ssize_t n_words, void *sums)
    void take_sums(void *sums, Py_ssize_t n_bytes, bint by_permutes, Py_ssize_t n_words,
                   uint32_t *out)
    void add_integers(uint32_t *target, const uint32_t *source, Py_ssize_t n)

# Rows after the rows of tests.
cdef enum:
    ZEROS = 0           # a row of zeros
    ONES = 1            # a row of ones
    FIRST_SLOT = 2      # the first row of intermediate results

cdef enum:
    # Row of a bit that has not been computed.
    NO_ROW = -1
    # Numbers of a part of a tree with too many leaves for a byte; 0 is any leaf of another part.
    PART = 255
    MAX_PARTS = 16
    # Slots for rows of subtrees that several groups share. The others need fewer than the rest:
    # each holds a bit of a subtree with at least two leaves of the same part.
    MAX_KEPT = MAX_SLOTS - 2 * (PART + 1)
    BLOCK = 64 * ROW_WORDS
    # From the totals of a context to the next one's. A power of 2 would put the totals of
    # a position into the same few lines of the cache.
    STRIDE = BLOCK + 16

cdef double UNIT = 2.0**-20


cdef struct Output:
    # The leaf numbers of a tree in a group of contexts, as rows of bits.
    int64_t last_step          # the step after the last one that they need
    int64_t values             # first byte of the table of leaf values
    int32_t n_values           # number of values in this table
    int32_t group              # number of the group of contexts
    int32_t leaf_bits[N_LEAF_BITS]   # row of each bit


def has_permutes():
    """Return whether the processor looks up values in vector registers."""
    return bool(processor_has_permutes())


def can_run(trees):
    """Return whether `Program` supports these `ContextTrees`, whose sums are exact.

    Neither tests nor leaves may be too many.
    """
    is_leaf = trees.packed.test_of_node < 0
    first_nodes = trees.packed.starts[: trees.packed.n_trees]
    n_leaves = np.add.reduceat(is_leaf, first_nodes, dtype=np.int64).max()
    n_rows = trees.n_tests + FIRST_SLOT + MAX_SLOTS
    return bool(n_leaves <= PART * MAX_PARTS and n_rows < 1 << ROW_BITS)


cdef class Program:
    """The program of selections of some trees for groups of contexts."""

    # The trees, see `treecrf.trees.scoring.packed_trees.PackedTrees`.
    cdef const int32_t[::1] starts, test, true_child, false_child
    cdef const int64_t[::1] units           # value of each leaf, in units of 2**-20
    cdef const uint8_t[:, ::1] outcomes     # of each context and test of a previous label
    cdef Py_ssize_t n_columns               # number of tests that have rows of bits
    cdef Py_ssize_t n_window_tests          # number of those that test the window
    cdef bint by_permutes                   # whether values are looked up in vector registers
    # The program.
    cdef uint64_t *steps                    # selections of bits, see ``leaf_sums.h``
    cdef Py_ssize_t n_steps
    cdef Output *outputs                    # leaf numbers, by class, tree and group
    cdef Py_ssize_t n_outputs
    cdef uint8_t *values                    # tables of leaf values
    cdef Py_ssize_t n_bytes                 # bytes of a leaf value
    cdef Py_ssize_t n_slots                 # number of rows of intermediate results
    cdef int64_t[::1] first_outputs         # of each class
    cdef int64_t[::1] base                  # sum of values that all positions of a group receive
    # Memory of the program.
    cdef Py_ssize_t room_for_steps, room_for_outputs, room_for_values, size_of_values
    # Working memory, by node of the current tree.
    cdef int32_t[::1] codes                 # number of a leaf; the first one of a subtree
    cdef int32_t[::1] sizes                 # number of leaf numbers of a subtree
    cdef int32_t[::1] passed, failed        # children, after tests of previous labels
    cdef uint8_t[::1] is_pure               # whether a subtree has no tests of previous labels
    cdef int32_t[::1] n_visits              # number of groups that reach a pure subtree
    cdef int32_t[:, ::1] leaf_bits          # row of each bit
    cdef int64_t[::1] kept                  # the stamp at which rows were kept for later groups
    cdef int32_t[::1] others                # row of a chain that has been computed before another
    # Lists.
    cdef int32_t[::1] order                 # nodes whose bits are computed, parents first
    cdef int32_t[::1] stack
    cdef int32_t[::1] free_slots
    cdef Py_ssize_t n_free                  # number of free slots
    cdef Py_ssize_t n_used                  # number of slots that have been in use
    cdef Py_ssize_t n_kept                  # number of slots of kept rows
    # The current tree.
    cdef Py_ssize_t start                   # its first node
    cdef Py_ssize_t n_nodes
    cdef Py_ssize_t n_parts                 # parts whose leaves are numbered separately
    cdef Py_ssize_t part                    # the current part
    cdef Py_ssize_t n_leaf_bits             # bits of a leaf number
    cdef int64_t stamp                      # changes with each part of each tree
    cdef int64_t low                        # the smallest leaf value

    def __init__(self, packed, groups, Py_ssize_t n_columns, bint by_permutes):
        if by_permutes and not has_permutes():
            raise ValueError("this processor has no permutes")
        cdef Py_ssize_t n_nodes = max(np.diff(packed.starts), default=0)
        self.starts = packed.starts
        self.test = packed.test_of_node
        self.true_child, self.false_child = packed.children
        values = np.where(packed.nodes["true_child"] < 0, packed.nodes["leaf"], 0.0)
        units = (values / UNIT).astype(np.int64)
        self.units = units
        self.outcomes = groups.outcomes
        self.n_columns = n_columns
        self.n_window_tests = len(packed.tests)
        self.by_permutes = by_permutes
        self.n_bytes = 4
        if by_permutes:
            # Bytes that the largest difference between two leaf values, or one and 0, needs.
            firsts = packed.starts[: len(packed.starts) - 1]
            highest = np.maximum.reduceat(units, firsts)
            lowest = np.minimum.reduceat(units, firsts)
            largest = int((np.maximum(highest, 0) - np.minimum(lowest, 0)).max())
            self.n_bytes = max(1, (largest.bit_length() + 7) // 8)
        self.codes = np.zeros(n_nodes, dtype=np.int32)
        self.sizes = np.zeros(n_nodes, dtype=np.int32)
        self.passed = np.zeros(n_nodes, dtype=np.int32)
        self.failed = np.zeros(n_nodes, dtype=np.int32)
        self.n_visits = np.zeros(n_nodes, dtype=np.int32)
        self.others = np.zeros(n_nodes, dtype=np.int32)
        self.order = np.zeros(n_nodes + 2, dtype=np.int32)
        self.stack = np.zeros(n_nodes + 2, dtype=np.int32)
        self.leaf_bits = np.zeros((n_nodes, N_LEAF_BITS), dtype=np.int32)
        self.kept = np.zeros(n_nodes, dtype=np.int64)
        self.is_pure = np.zeros(n_nodes, dtype=np.uint8)
        self.free_slots = np.zeros(MAX_SLOTS, dtype=np.int32)
        self.base = np.zeros(len(groups.classes), dtype=np.int64)
        self._compile(groups, packed.n_labels)

    def __dealloc__(self):
        free(self.steps)
        free(self.outputs)
        free(self.values)

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
        """Compile a tree for its groups, each of which has a representative context."""
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
            self.n_free = 0
            self.n_used = 0
            self.n_kept = 0
            for i in range(groups.shape[0]):
                self._add_output(groups[i], &self.outcomes[representatives[groups[i]], 0])
        return True

    cdef void _number_leaves(self) noexcept:
        """Number the leaves. Children follow their parents among the nodes of a tree."""
        cdef Py_ssize_t i, n_codes
        cdef int32_t passed, failed
        for i in range(self.n_nodes - 1, -1, -1):
            passed = self.true_child[self.start + i]
            failed = self.false_child[self.start + i]
            if passed < 0:
                self.sizes[i] = 1
                self.is_pure[i] = True
            elif self.test[self.start + i] < self.n_columns:
                self.sizes[i] = self.sizes[passed] + self.sizes[failed]
                self.is_pure[i] = self.is_pure[passed] and self.is_pure[failed]
            else:
                self.sizes[i] = max(self.sizes[passed], self.sizes[failed])
                self.is_pure[i] = False
        self.codes[0] = 0
        for i in range(self.n_nodes):
            passed = self.true_child[self.start + i]
            failed = self.false_child[self.start + i]
            if passed < 0:
                continue
            self.codes[passed] = self.codes[i]
            self.codes[failed] = self.codes[i]
            if self.test[self.start + i] < self.n_columns:
                # The larger child comes first, so that its numbers are aligned to powers of 2.
                if self.sizes[passed] >= self.sizes[failed]:
                    self.codes[failed] += self.sizes[passed]
                else:
                    self.codes[passed] += self.sizes[failed]
        n_codes = self.sizes[0]
        self.n_parts = 1 if n_codes <= PART + 1 else (n_codes + PART - 1) // PART
        self.n_leaf_bits = N_LEAF_BITS if self.n_parts > 1 else 0
        while n_codes > 1 << self.n_leaf_bits and self.n_parts == 1:
            self.n_leaf_bits += 1

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
        cdef Py_ssize_t i, k, n, zeros = self.n_columns + ZEROS, ones = self.n_columns + ONES
        cdef int32_t node, code, passed, failed, root = self._resolve(0, outcomes)
        cdef bint is_leaf
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
            # Constants and tests need no steps.
            passed = self.passed[node]
            failed = self.failed[node]
            is_leaf = self.true_child[self.start + node] < 0
            code = self._local_code(node) if is_leaf else 0
            for k in range(N_LEAF_BITS):
                if is_leaf:
                    self.leaf_bits[node, k] = <int32_t> (ones if code >> k & 1 else zeros)
                elif self.leaf_bits[passed, k] == self.leaf_bits[failed, k] != NO_ROW:
                    self.leaf_bits[node, k] = self.leaf_bits[passed, k]
                elif self.leaf_bits[passed, k] == ones and self.leaf_bits[failed, k] == zeros:
                    self.leaf_bits[node, k] = self.test[self.start + node]
                else:
                    self.leaf_bits[node, k] = NO_ROW
            if self.n_visits[node] > 1 and self.n_kept + N_LEAF_BITS <= MAX_KEPT:
                self._compute_bits(node)
                self.kept[node] = self.stamp
                self.n_kept += N_LEAF_BITS
        self._compute_bits(root)
        output = &self.outputs[self.n_outputs]
        self.n_outputs += 1
        output.last_step = self.n_steps
        output.group = group
        for i in range(N_LEAF_BITS):
            output.leaf_bits[i] = self.leaf_bits[root, i]
            if self.kept[root] != self.stamp:
                self._release(self.leaf_bits[root, i])
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
            self.passed[node] = passed
            self.failed[node] = failed
            if self.sizes[passed] < self.sizes[failed]:
                passed, failed = failed, passed
            self.stack[n_waiting] = passed
            self.stack[n_waiting + 1] = failed
            n_waiting += 2
        return n

    cdef void _compute_bits(self, int32_t node) noexcept:
        """Add the chains of the other rows of a node."""
        cdef Py_ssize_t i
        for i in range(N_LEAF_BITS):
            if self.leaf_bits[node, i] == NO_ROW:
                self.leaf_bits[node, i] = self._add_chain(node, i, 0)

    cdef int32_t _add_chain(self, int32_t node, Py_ssize_t i, Py_ssize_t first) noexcept:
        """Add a chain for bit i of a node; returns the row of the result.

        The chain starts at the end of a path from the node to a descendant, where each step has the
        other child, which needs a separate chain before this one if it has no row. ``stack`` is
        free from ``first`` on.
        """
        cdef Py_ssize_t k, n = first
        cdef int32_t passed, failed, other, row, slot
        while True:
            passed = self.passed[node]
            failed = self.failed[node]
            self.stack[n] = node
            n += 1
            if self.leaf_bits[passed, i] != NO_ROW and self.leaf_bits[failed, i] != NO_ROW:
                break
            if self.leaf_bits[passed, i] != NO_ROW:
                node = failed
            elif self.leaf_bits[failed, i] != NO_ROW:
                node = passed
            else:
                node = passed if self.sizes[passed] > self.sizes[failed] else failed
                other = failed if node == passed else passed
                self.others[other] = self._add_chain(other, i, n)
        if self.n_free:
            self.n_free -= 1
            slot = self.free_slots[self.n_free]
        else:
            slot = <int32_t> self.n_used
            self.n_used += 1
            self.n_slots = max(self.n_slots, self.n_used)
        self.steps[self.n_steps] = make_chain(self.leaf_bits[failed, i], slot, n - first)
        self.n_steps += 1
        row = NO_ROW
        for k in range(n - 1, first - 1, -1):
            node = self.stack[k]
            passed = self.passed[node]
            failed = self.failed[node]
            # The chain holds the true child if it came from there, at first the false child.
            other = failed if k < n - 1 and self.stack[k + 1] == passed else passed
            row = self.leaf_bits[other, i]
            if row == NO_ROW:
                row = self.others[other]
                self._release(row)
            self.steps[self.n_steps] = make_step(self.test[self.start + node], row,
                                                 other == failed)
            self.n_steps += 1
        return <int32_t> (self.n_columns + FIRST_SLOT + slot)

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
        output.n_values = max(64, 1 << self.n_leaf_bits)
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
        """Write the value of a leaf: an integer, or its bytes in tables of their own."""
        cdef uint8_t *values = self.values + output.values
        cdef Py_ssize_t b
        if not self.by_permutes:
            (<int32_t *> values)[code] = <int32_t> value
        for b in range(self.n_bytes if self.by_permutes else 0):
            values[b * output.n_values + code] = <uint8_t> (value >> (8 * b) & 255)

    cdef bint _make_room(self) except False:
        """Make room for the next output."""
        cdef Py_ssize_t room
        if self.n_steps + 2 * N_LEAF_BITS * self.n_nodes > self.room_for_steps:
            room = 2 * (self.room_for_steps + N_LEAF_BITS * self.n_nodes)
            self.steps = <uint64_t *> resized(self.steps, room * sizeof(uint64_t))
            self.room_for_steps = room
        if self.n_outputs == self.room_for_outputs:
            room = 2 * self.room_for_outputs + 64
            self.outputs = <Output *> resized(self.outputs, room * sizeof(Output))
            self.room_for_outputs = room
        if self.size_of_values + 256 * self.n_bytes > self.room_for_values:
            room = 2 * self.room_for_values + 256 * self.n_bytes
            self.values = <uint8_t *> resized(self.values, room)
            self.room_for_values = room
        return True


cdef void *resized(void *memory, Py_ssize_t n_bytes) except NULL:
    memory = realloc(memory, n_bytes)
    if memory == NULL:
        raise MemoryError("no memory for the program of the trees")
    return memory


cdef struct Block:
    Memory memory
    Bits bits
    Py_ssize_t n_words          # of rows, a multiple of GROUP_WORDS
    uint64_t *slots             # rows of intermediate results
    uint8_t *sums               # of the groups of a class, as `add_values` has them
    Py_ssize_t *n_added         # number of values in each of these sums
    uint32_t *taken
    uint32_t *totals            # [context, position]


cdef class LookupEvaluator(ColumnsEvaluator):
    """Evaluator by lookup of leaf values."""

    cdef Answers answers
    cdef Program program
    cdef const uint8_t[:, ::1] members
    cdef const int64_t[::1] first_groups
    cdef Py_ssize_t n_labels, n_columns, max_groups, size_of_sums
    cdef bint by_permutes

    def __init__(self, trees, groups, bint by_permutes):
        """Compile a program for `ContextTrees`; ``groups`` are `Groups` of contexts of a depth."""
        packed = trees.packed
        self.answers = Answers(packed.tests)
        self.n_labels = packed.n_labels
        self.n_columns = trees.n_tests
        self.program = Program(packed, groups, self.n_columns, by_permutes)
        self.by_permutes = by_permutes
        self.members = groups.members
        self.first_groups = np.searchsorted(groups.classes, np.arange(self.n_labels + 1))
        self.max_groups = np.diff(self.first_groups).max(initial=0)
        self.size_of_sums = BLOCK * 2 * self.program.n_bytes

    def add_scores(self, batch, const int32_t[::1] positions, Py_ssize_t first, Py_ssize_t last):
        """Add the trees' values to the scores of positions with the same number of labels before.

        See `FastEvaluator.kernel`.
        """
        cdef double[:, :, ::1] scores = batch.scores
        cdef Block block
        cdef Positions encoded = Positions(batch.encoded, batch.given, self.n_labels)
        cdef Py_ssize_t class_, i, c
        cdef double *row
        cdef bint ready
        with nogil:
            ready = self._open(&block)
            while first < last and ready:
                self.answers.fill(&block.bits, encoded, first, min(BLOCK, last - first))
                block.n_words = (block.bits.n_words + GROUP_WORDS - 1) // GROUP_WORDS * GROUP_WORDS
                for class_ in range(scores.shape[0]):
                    self._add_class(&block, class_)
                    for i in range(block.bits.size):
                        row = &scores[class_, positions[block.bits.first + i], 0]
                        for c in range(self.members.shape[1]):
                            row[c] += UNIT * <int32_t> block.totals[c * STRIDE + i]
                first += block.bits.size
            close_bits(&block.bits)
            release(&block.memory)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef bint add_columns(self, const uint64_t *tests, Py_ssize_t n_tests, Py_ssize_t n_skipped,
                          Py_ssize_t n_positions, double *rows,
                          Py_ssize_t class_size) noexcept nogil:
        cdef Block block
        cdef Py_ssize_t class_, i, c, n_contexts = self.members.shape[1], first = 0
        cdef double *row
        cdef bint ready = self._open(&block)
        while first < n_positions and ready:
            begin_bits(&block.bits, first, min(BLOCK, n_positions - first))
            copy_columns(&block.bits, tests, n_tests)
            block.n_words = (block.bits.n_words + GROUP_WORDS - 1) // GROUP_WORDS * GROUP_WORDS
            for class_ in range(self.n_labels):
                self._add_class(&block, class_)
                for i in range(max(n_skipped - first, 0), block.bits.size):
                    row = rows + class_ * class_size + (first + i) * n_contexts
                    for c in range(n_contexts):
                        row[c] += UNIT * <int32_t> block.totals[c * STRIDE + i]
            first += block.bits.size
        close_bits(&block.bits)
        release(&block.memory)
        return ready

    cdef void _add_class(self, Block *block, Py_ssize_t class_) noexcept nogil:
        """Sum the trees of a class in all contexts."""
        cdef Py_ssize_t c, g, i, k, first_group = self.first_groups[class_]
        cdef Py_ssize_t n_groups = self.first_groups[class_ + 1] - first_group
        cdef int64_t first = self.program.first_outputs[class_]
        cdef int64_t step = self.program.outputs[first - 1].last_step if first else 0
        cdef const Output *output
        cdef const uint64_t *leaf_bits[N_LEAF_BITS]
        cdef uint32_t base
        for c in range(self.members.shape[1]):
            base = 0  # the sum that all positions have
            for g in range(first_group, first_group + n_groups):
                if self.members[g, c]:
                    base += <uint32_t> self.program.base[g]
            for i in range(64 * block.n_words):
                block.totals[c * STRIDE + i] = base
        for i in range(first, self.program.first_outputs[class_ + 1]):
            output = &self.program.outputs[i]
            run_steps(block.bits.columns, block.slots, self.program.steps + step,
                      output.last_step - step, block.n_words)
            step = output.last_step
            for k in range(N_LEAF_BITS):
                leaf_bits[k] = block.bits.columns + output.leaf_bits[k] * ROW_WORDS
            g = output.group - first_group
            add_values(leaf_bits, self.program.values + output.values, output.n_values,
                       self.program.n_bytes, self.by_permutes, block.n_words,
                       block.sums + g * self.size_of_sums)
            block.n_added[g] += 1
            if block.n_added[g] == MAX_SUMMANDS:
                self._take(block, class_, g)
        for g in range(n_groups):
            if block.n_added[g]:
                self._take(block, class_, g)

    cdef void _take(self, Block *block, Py_ssize_t class_, Py_ssize_t g) noexcept nogil:
        """Move the sums of a group to the totals of its contexts."""
        cdef const uint8_t *members = &self.members[self.first_groups[class_] + g, 0]
        cdef Py_ssize_t c
        take_sums(block.sums + g * self.size_of_sums, self.program.n_bytes, self.by_permutes,
                  block.n_words, block.taken)
        block.n_added[g] = 0
        for c in range(self.members.shape[1]):
            if members[c]:
                add_integers(block.totals + c * STRIDE, block.taken, 64 * block.n_words)

    cdef bint _open(self, Block *block) noexcept nogil:
        cdef Py_ssize_t n_rows = self.n_columns + FIRST_SLOT + self.program.n_slots
        cdef Memory *memory = &block.memory
        memset(block, 0, sizeof(Block))
        block.sums = <uint8_t *> take_zeros(memory, (self.max_groups + 1) * self.size_of_sums)
        block.n_added = <Py_ssize_t *> take_zeros(memory,
                                                  (self.max_groups + 1) * sizeof(Py_ssize_t))
        block.taken = <uint32_t *> take(memory, BLOCK * sizeof(uint32_t))
        block.totals = <uint32_t *> take(memory,
                                         self.members.shape[1] * STRIDE * sizeof(uint32_t))
        if not open_bits(&block.bits, n_rows, ROW_WORDS) or memory.failed:
            return False
        # Words after the last position are read and ignored; clear them, so that no uninitialized
        # memory is read.
        memset(block.bits.columns, 0, n_rows * ROW_WORDS * sizeof(uint64_t))
        memset(block.bits.columns + (self.n_columns + ONES) * ROW_WORDS, 255,
               ROW_WORDS * sizeof(uint64_t))
        block.slots = block.bits.columns + (self.n_columns + FIRST_SLOT) * ROW_WORDS
        return True


cdef void copy_columns(Bits *bits, const uint64_t *tests, Py_ssize_t n_tests) noexcept nogil:
    """Copy the sets of tests, [block of 64 positions, test], to the columns of a block."""
    cdef Py_ssize_t w, k
    for w in range(bits.n_words):
        for k in range(n_tests):
            bits.columns[k * ROW_WORDS + w] = tests[(bits.first // 64 + w) * n_tests + k]
