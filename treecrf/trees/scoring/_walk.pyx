"""Scores of few positions, which walk down the trees one by one, in all contexts at once."""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from treecrf.trees.scoring._answers cimport Answers, Bits, Positions, begin_bits, close_bits, open_bits

cdef extern from "utils/bitsets.h" nogil:
    int lowest_bit(uint64_t word)

# Contexts are bits of a word.
cdef enum:
    MAX_CONTEXTS = 64


cdef class Walker:
    """Packed trees for positions that miss no value; parameters as those of `LookupEvaluator`."""

    cdef Answers answers
    cdef const int32_t[::1] starts, classes, test, true_child, false_child
    cdef const double[::1] values
    cdef Py_ssize_t n_labels, n_columns

    def __init__(self, asked, trees, values, Py_ssize_t n_labels, Py_ssize_t n_given):
        self.answers = Answers(asked)
        self.starts, self.classes, self.test, self.true_child, self.false_child = trees
        self.values = values
        self.n_labels = n_labels
        self.n_columns = self.answers.n_tests + n_given * (n_labels + 1)

    def add_scores(self, encoded, groups, const uint8_t[:, ::1] given, const int32_t[::1] places,
                   Py_ssize_t first, Py_ssize_t last, double[:, :, ::1] scores):
        """Add the trees' values to ``scores[class, place, context]``.

        There are at most 64 contexts; the parameters are those of `LookupEvaluator.add_scores`.
        """
        cdef Bits block
        cdef Positions positions = Positions(encoded)
        cdef const uint64_t[::1] passing = groups.passing
        cdef uint64_t every = (<uint64_t> 2 << (groups.members.shape[1] - 1)) - 1
        cdef Py_ssize_t i, tree
        cdef bint ready
        with nogil:
            memset(&block, 0, sizeof(Bits))
            ready = open_bits(&block, self.n_columns, 1)
            while first < last and ready:
                begin_bits(&block, first, min(64, last - first))
                self.answers.fill(&block, positions)
                if given is not None:
                    self.answers.fill_given(&block, given, self.n_labels)
                for i in range(block.size):
                    for tree in range(self.classes.shape[0]):
                        self._walk(&block, i, tree, passing, every,
                                   &scores[self.classes[tree], places[first + i], 0])
                first += block.size
            close_bits(&block)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _walk(self, const Bits *block, Py_ssize_t i, Py_ssize_t tree,
                    const uint64_t[::1] passing, uint64_t contexts,
                    double *row) noexcept nogil:
        """Take a position down a tree; where contexts part, some wait until the others are done."""
        cdef int32_t nodes[MAX_CONTEXTS]
        cdef uint64_t waiting[MAX_CONTEXTS]
        cdef int32_t start = self.starts[tree], node = start, test
        cdef Py_ssize_t n_waiting = 0
        cdef uint64_t passed
        while True:
            while self.true_child[node] >= 0:
                test = self.test[node]
                if test < self.n_columns:
                    passed = contexts if block.columns[test] >> i & 1 else 0
                else:
                    passed = contexts & passing[test - self.answers.n_tests]
                if passed != 0 and passed != contexts:
                    nodes[n_waiting] = start + self.false_child[node]
                    waiting[n_waiting] = contexts & ~passed
                    n_waiting += 1
                    contexts = passed
                node = start + (self.true_child[node] if passed else self.false_child[node])
            while contexts:
                row[lowest_bit(contexts)] += self.values[node]
                contexts &= contexts - 1
            if n_waiting == 0:
                return
            n_waiting -= 1
            node = nodes[n_waiting]
            contexts = waiting[n_waiting]
