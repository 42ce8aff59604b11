"""Scores of trees at many positions without missing values, by lookup of leaf values.

A block of positions is a bit set, and each distinct test of the trees a row of bits. A program of
selections (``_programs``) computes rows with the bits of the leaf number of each position, for each
group of contexts that a tree does not distinguish. The numbers are looked up in tables of leaf
values, in units of 2**-20. The sums over the trees of a group are added to its contexts.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from treecrf.chains._memory cimport Memory, release, take, take_zeros
from treecrf.trees.scoring._answers cimport (
    Answers, Bits, Positions, begin_bits, close_bits, open_bits,
)
from treecrf.trees.scoring._programs cimport Output, Program

cdef extern from "utils/leaf_sums.h" nogil:
    enum:
        GROUP_WORDS
        MAX_SUMMANDS
        N_PLANES
        ROW_WORDS
    void run_steps(uint64_t *rows, uint64_t *slots, const uint64_t *steps, Py_ssize_t n_steps,
                   Py_ssize_t n_words)
    void add_values(const uint64_t **planes, const void *values, Py_ssize_t n_values,
                    Py_ssize_t n_bytes, bint by_permutes, Py_ssize_t n_words, void *sums)
    void take_sums(void *sums, Py_ssize_t n_bytes, bint by_permutes, Py_ssize_t n_words,
                   uint32_t *out)
    void add_integers(uint32_t *target, const uint32_t *source, Py_ssize_t n)

cdef enum:
    BLOCK = 64 * ROW_WORDS
    # From the totals of a context to the next one's. A power of 2 would put the totals of
    # a position into the same few lines of the cache.
    STRIDE = BLOCK + 16
    # Rows of zeros and of ones follow the rows of the tests.
    N_CONSTANTS = 2

cdef double UNIT = 2.0**-20


cdef struct Block:
    Memory memory
    Bits bits
    Py_ssize_t n_words          # of rows, a multiple of GROUP_WORDS
    uint64_t *slots             # rows of intermediate results
    uint8_t *sums               # of the groups of a class, as `add_values` has them
    Py_ssize_t *n_added         # number of values in each of these sums
    uint32_t *taken
    uint32_t *totals            # [context, position]


cdef class LookupEvaluator:
    """Evaluator by lookup of leaf values."""

    cdef Answers answers
    cdef Program program
    cdef const uint8_t[:, ::1] members
    cdef const int64_t[::1] first_groups
    cdef Py_ssize_t n_labels, n_columns, max_groups, size_of_sums
    cdef bint by_permutes

    def __init__(self, packed, Py_ssize_t n_given, groups, bint by_permutes):
        self.answers = Answers(packed.tests)
        self.n_labels = packed.n_labels
        self.n_columns = self.answers.n_tests + n_given * (self.n_labels + 1)
        self.program = Program(packed, groups, self.n_columns, by_permutes)
        self.by_permutes = by_permutes
        self.members = groups.members
        self.first_groups = np.searchsorted(groups.classes, np.arange(self.n_labels + 1))
        self.max_groups = np.diff(self.first_groups).max(initial=0)
        self.size_of_sums = BLOCK * 2 * self.program.n_bytes

    def add_scores(self, scoring, const int32_t[::1] positions, Py_ssize_t first,
                   Py_ssize_t last):
        """Add the trees' values to the scores of positions with the same number of labels before.

        ``positions`` are their indices in the scores, ``first`` and ``last`` those among them.
        """
        cdef const uint8_t[:, ::1] given = scoring.given
        cdef double[:, :, ::1] scores = scoring.scores
        cdef Block block
        cdef Positions encoded = Positions(scoring.encoded)
        cdef Py_ssize_t class_
        cdef bint ready
        with nogil:
            ready = self._open(&block)
            while first < last and ready:
                begin_bits(&block.bits, first, min(BLOCK, last - first))
                self.answers.fill(&block.bits, encoded)
                self.answers.fill_given(&block.bits, given, self.n_labels)
                block.n_words = (block.bits.n_words + GROUP_WORDS - 1) // GROUP_WORDS * GROUP_WORDS
                for class_ in range(scores.shape[0]):
                    self._add_class(&block, class_)
                    add_to_scores(&block, class_, self.members.shape[1], positions, scores)
                first += block.bits.size
            close_bits(&block.bits)
            release(&block.memory)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _add_class(self, Block *block, Py_ssize_t class_) noexcept nogil:
        """Sum the trees of a class in all contexts."""
        cdef Py_ssize_t i, g, first_group = self.first_groups[class_]
        cdef const Output *output
        self._start_totals(block, class_)
        for i in range(self.program.first_outputs[class_], self.program.first_outputs[class_ + 1]):
            output = &self.program.outputs[i]
            self._run_steps(block, i)
            g = output.group - first_group
            self._look_up(block, output, block.sums + g * self.size_of_sums)
            block.n_added[g] += 1
            if block.n_added[g] == MAX_SUMMANDS:
                self._take(block, class_, g)
        for g in range(self.first_groups[class_ + 1] - first_group):
            if block.n_added[g]:
                self._take(block, class_, g)

    cdef void _start_totals(self, Block *block, Py_ssize_t class_) noexcept nogil:
        """Start the total of each context with the sum that all positions have."""
        cdef Py_ssize_t c, g, i
        cdef uint32_t base
        for c in range(self.members.shape[1]):
            base = 0
            for g in range(self.first_groups[class_], self.first_groups[class_ + 1]):
                if self.members[g, c]:
                    base += <uint32_t> self.program.base[g]
            for i in range(64 * block.n_words):
                block.totals[c * STRIDE + i] = base

    cdef void _run_steps(self, Block *block, Py_ssize_t i) noexcept nogil:
        """Compute the leaf numbers of an output."""
        cdef int64_t first = self.program.outputs[i - 1].last_step if i else 0
        run_steps(block.bits.columns, block.slots, self.program.steps + first,
                  self.program.outputs[i].last_step - first, block.n_words)

    cdef void _look_up(self, const Block *block, const Output *output,
                       void *sums) noexcept nogil:
        """Add the values of an output to sums."""
        cdef const uint64_t *planes[N_PLANES]
        cdef Py_ssize_t k
        for k in range(N_PLANES):
            planes[k] = block.bits.columns + output.planes[k] * ROW_WORDS
        add_values(planes, self.program.values + output.values, output.n_values,
                   self.program.n_bytes, self.by_permutes, block.n_words, sums)

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
        cdef Py_ssize_t n_rows = self.n_columns + N_CONSTANTS + self.program.n_slots
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
        # Rows have garbage beyond the positions of the block, which must be initialized garbage.
        memset(block.bits.columns, 0, n_rows * ROW_WORDS * sizeof(uint64_t))
        memset(block.bits.columns + (self.n_columns + 1) * ROW_WORDS, 255,
               ROW_WORDS * sizeof(uint64_t))
        block.slots = block.bits.columns + (self.n_columns + N_CONSTANTS) * ROW_WORDS
        return True


cdef void add_to_scores(Block *block, Py_ssize_t class_, Py_ssize_t n_contexts,
                        const int32_t[::1] positions, double[:, :, ::1] scores) noexcept nogil:
    cdef Py_ssize_t i, c
    cdef double *row
    for i in range(block.bits.size):
        row = &scores[class_, positions[block.bits.first + i], 0]
        for c in range(n_contexts):
            row[c] += UNIT * <int32_t> block.totals[c * STRIDE + i]
