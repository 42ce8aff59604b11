"""Members of conjunctions of window tests.

Positions are processed in blocks. Each test has a column of bits, one per position of the block,
and a conjunction holds at the positions in the bitwise AND of its columns. Blocks are short so that
the columns of all tests fit in the L1 cache and a set of positions in registers.

Positions at which a value for any test is missing belong to no conjunction here. Fractions of them
reach several leaves, which depends on the trees (see ``_evaluate``).
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from treecrf.trees.scoring._answers cimport Answers, Bits, Positions, close_bits, open_bits

cdef extern from "utils/bitsets.h" nogil:
    enum:
        HELD_WORDS
    int lowest_bit(uint64_t word)
    int all_hold(const uint64_t *columns, const int32_t *literals, Py_ssize_t n,
                 const uint64_t *among, uint64_t *held)

cdef enum:
    BLOCK = 64 * HELD_WORDS


cdef class Conjunctions:
    """Conjunctions that are evaluated at encoded positions."""

    cdef Answers answers                    # to all tests, also those that only mark missing values
    cdef const int64_t[::1] starts          # of the literals of each conjunction, n + 1
    cdef const int32_t[::1] literals        # twice the index of a test, plus 1 if it must hold

    def __init__(self, tests, starts, literals):
        self.answers = Answers(tests)
        self.starts, self.literals = starts, literals

    def list_members(self, encoded, Py_ssize_t first, Py_ssize_t last, int64_t[::1] ends,
                     int32_t[::1] found):
        """List the conjunctions that hold at each of some positions, in ascending order.

        The list of position i is written to ``found``, starting at ``ends[i]``, which is increased
        to its end. If ``found`` is None, ``ends`` only counts the conjunctions.
        """
        cdef Bits block
        cdef uint64_t whole[HELD_WORDS]     # positions without missing values
        cdef uint64_t held[HELD_WORDS]      # those at which the current conjunction holds
        cdef Positions positions = Positions(encoded)
        cdef Py_ssize_t c, w, i
        cdef bint ready
        with nogil:
            ready = open_bits(&block, self.answers.n_tests, HELD_WORDS)
            while first < last and ready:
                self._fill(&block, positions, first, min(BLOCK, last - first), whole)
                for c in range(self.starts.shape[0] - 1):
                    if not all_hold(block.columns, &self.literals[0] + self.starts[c],
                                    self.starts[c + 1] - self.starts[c], whole, held):
                        continue
                    for w in range(block.n_words):
                        while held[w]:
                            i = first + 64 * w + lowest_bit(held[w])
                            if found is not None:
                                found[ends[i]] = <int32_t> c
                            ends[i] += 1
                            held[w] &= held[w] - 1
                first += block.size
            close_bits(&block)
        if not ready:
            raise MemoryError("not enough memory to evaluate the conjunctions")

    cdef void _fill(self, Bits *block, Positions positions, Py_ssize_t first, Py_ssize_t size,
                    uint64_t *whole) noexcept nogil:
        """Evaluate the tests for a block, and find the positions without missing values."""
        cdef Py_ssize_t i, k
        cdef const uint64_t *missing
        memset(whole, 0, HELD_WORDS * sizeof(uint64_t))
        for i in range(size):
            whole[i >> 6] |= <uint64_t> 1 << (i & 63)
        if not self.answers.fill(block, positions, first, size):
            return
        for k in range(self.answers.n_tests):
            missing = self.answers.missing_of(block, <int32_t> k)
            for i in range(block.n_words if missing != NULL else 0):
                whole[i] &= ~missing[i]
