"""Members of conjunctions of window tests.

Positions are processed in blocks. Each test has a column of bits, one per position of the block,
and a conjunction holds at the positions in the bitwise AND of its columns. Blocks are short so that
the columns of all tests fit in the L1 cache and a set of positions in registers.

Positions at which a value for any test is missing belong to no conjunction here. Fractions of them
reach several leaves, which depends on the trees (see ``_evaluate``).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
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
    enum:
        HELD_WORDS
    int lowest_bit(uint64_t word)
    int all_hold(const uint64_t *columns, const int32_t *literals, Py_ssize_t n,
                 const uint64_t *among, uint64_t *held)

cdef enum:
    BLOCK = 64 * HELD_WORDS


cdef struct Block:
    Bits bits
    uint64_t whole[HELD_WORDS]  # positions without missing values
    uint64_t held[HELD_WORDS]   # those at which the current conjunction holds


cdef class Conjunctions:
    """Conjunctions that are evaluated at encoded positions."""

    cdef Answers answers                    # to all tests, also those that only mark missing values
    cdef const int64_t[::1] starts          # of the literals of each conjunction, n + 1
    cdef const int32_t[::1] literals        # twice the index of a test, plus 1 if it must hold
    cdef Py_ssize_t n

    def __init__(self, tests, starts, literals):
        self.answers = Answers(tests)
        self.starts, self.literals = starts, literals
        self.n = self.starts.shape[0] - 1

    def list_members(self, encoded, Py_ssize_t first, Py_ssize_t last, int64_t[::1] ends,
                     int32_t[::1] found):
        """List the conjunctions that hold at each of some positions, in ascending order.

        The list of position i is written to ``found``, starting at ``ends[i]``, which is increased
        to its end. If ``found`` is None, ``ends`` only counts the conjunctions.
        """
        cdef Block block
        cdef Positions positions = Positions(encoded)
        cdef Py_ssize_t c
        cdef bint ready
        with nogil:
            ready = open_bits(&block.bits, self.answers.n_tests, HELD_WORDS)
            while first < last and ready:
                self._begin(&block, positions, first, last)
                for c in range(self.n):
                    if self._holds(&block, c):
                        list_held(&block, c, ends, found)
                first += block.bits.size
            close_bits(&block.bits)
        if not ready:
            raise MemoryError("not enough memory to evaluate the conjunctions")

    cdef void _begin(self, Block *block, Positions positions, Py_ssize_t first,
                     Py_ssize_t last) noexcept nogil:
        """Evaluate the tests for a block, and find the positions without missing values."""
        cdef Py_ssize_t i, k
        cdef const uint64_t *missing
        begin_bits(&block.bits, first, min(BLOCK, last - first))
        memset(block.whole, 0, sizeof(block.whole))
        for i in range(block.bits.size):
            block.whole[i >> 6] |= <uint64_t> 1 << (i & 63)
        if not self.answers.fill(&block.bits, positions):
            return
        for k in range(self.answers.n_tests):
            missing = self.answers.missing_of(&block.bits, <int32_t> k)
            for i in range(block.bits.n_words if missing != NULL else 0):
                block.whole[i] &= ~missing[i]

    cdef inline int _holds(self, Block *block, Py_ssize_t c) noexcept nogil:
        return all_hold(block.bits.columns, &self.literals[0] + self.starts[c],
                        self.starts[c + 1] - self.starts[c], block.whole, block.held)


cdef void list_held(Block *block, Py_ssize_t c, int64_t[::1] ends,
                    int32_t[::1] found) noexcept nogil:
    """Count a conjunction at all positions where it holds, or append its index to their lists."""
    cdef Py_ssize_t w, i
    cdef uint64_t word
    for w in range(block.bits.n_words):
        word = block.held[w]
        while word:
            i = block.bits.first + 64 * w + lowest_bit(word)
            if found is not None:
                found[ends[i]] = <int32_t> c
            ends[i] += 1
            word &= word - 1
