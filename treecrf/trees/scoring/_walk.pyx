"""Scores of trees at a few positions without missing values, each of which walks down the trees.

All contexts of a position walk together until a test of a previous label separates them.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from treecrf.trees.scoring._answers cimport (
    Answers,
    Bits,
    Positions,
    begin_bits,
    close_bits,
    open_bits,
)

cdef extern from "utils/bitsets.h" nogil:
    int lowest_bit(uint64_t word)

# Contexts are the bits of a word.
cdef enum:
    MAX_CONTEXTS = 64


cdef class Walker:
    """Evaluator of one position at a time, in at most 64 contexts.

    Parameters
    ----------
    packed : treecrf.trees.scoring.scorer.PackedTrees
    n_given : int
        Number of previous labels that are given to `add_scores`; 0 to score all contexts.
    groups : treecrf.trees.scoring.context_groups.Groups
        Groups of the contexts of the positions.
    """

    cdef Answers answers
    cdef const int32_t[::1] starts, classes, test, true_child, false_child
    cdef const double[::1] values
    cdef const uint64_t[::1] passing
    cdef Py_ssize_t n_labels, n_columns, n_contexts

    def __init__(self, packed, Py_ssize_t n_given, groups):
        self.answers = Answers(packed.tests)
        self.starts, self.classes, self.test = packed.starts, packed.classes, packed.test_of_node
        self.true_child, self.false_child = packed.children
        self.values = packed.nodes["leaf"]
        self.passing = groups.passing
        self.n_labels = packed.n_labels
        self.n_columns = self.answers.n_tests + n_given * (self.n_labels + 1)
        self.n_contexts = groups.members.shape[1]

    def add_scores(self, scoring, const int32_t[::1] positions, Py_ssize_t first,
                   Py_ssize_t last):
        """Add the trees' values to the scores.

        The parameters are those of `LookupEvaluator.add_scores`.
        """
        cdef const uint8_t[:, ::1] given = scoring.given
        cdef double[:, :, ::1] scores = scoring.scores
        cdef Bits block
        cdef Positions encoded = Positions(scoring.encoded)
        cdef uint64_t every = (<uint64_t> 2 << (self.n_contexts - 1)) - 1
        cdef Py_ssize_t i, tree
        cdef bint ready
        with nogil:
            memset(&block, 0, sizeof(Bits))
            ready = open_bits(&block, self.n_columns, 1)
            while first < last and ready:
                begin_bits(&block, first, min(64, last - first))
                self.answers.fill(&block, encoded)
                if given is not None:
                    self.answers.fill_given(&block, given, self.n_labels)
                for i in range(block.size):
                    for tree in range(self.classes.shape[0]):
                        self._walk(&block, i, tree, every,
                                   &scores[self.classes[tree], positions[first + i], 0])
                first += block.size
            close_bits(&block)
        if not ready:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _walk(self, const Bits *block, Py_ssize_t i, Py_ssize_t tree,
                    uint64_t contexts, double *row) noexcept nogil:
        """Take a position down a tree; where contexts diverge, some wait for the others."""
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
                    passed = contexts & self.passing[test - self.answers.n_tests]
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
