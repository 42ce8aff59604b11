"""Outcomes of window tests at runs of rows: a column of bits for each test.

This is the counterpart of ``_answers`` for rows that are stored column by column. A test reads one
column of bytes, or the rows that list one id. All rows of a run have bits, also the boundary rows
between two sequences, whose bits have no meaning.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from treecrf.trees.growing._search cimport lower_bound
from treecrf.trees.growing._tests cimport BIT, CODE_EQUAL, LISTED
from treecrf.trees.scoring._answers cimport Answers, Bits

cdef extern from "utils/bitsets.h" nogil:
    void bytes_equal(const uint8_t *values, Py_ssize_t n_words, uint8_t mask, uint8_t low,
                     uint64_t *out)
    void bytes_above(const uint8_t *values, Py_ssize_t n_words, uint8_t low, uint64_t *out)


cdef class ColumnAnswers:
    """Evaluator of distinct tests at runs of rows.

    Parameters
    ----------
    tests : treecrf.trees.scoring.distinct_tests.DistinctTests
    answers : Answers
        Of the same tests.
    columns : treecrf.encoding.encoded.EncodedColumns
    has_missing : bool
        Whether any value is missing.
    """

    def __init__(self, tests, Answers answers, columns, bint has_missing):
        n_ids = np.where(tests.kinds == LISTED, tests.highs - tests.lows, 0)
        self.answers = answers
        self.codes, self.bits = columns.codes, columns.bits
        self.posting_starts, self.postings = columns.posting_starts, columns.postings
        self.id_starts = np.append(0, np.cumsum(n_ids, dtype=np.int64))
        self.has_missing = has_missing
        self.n_filled = answers.n_tests if has_missing else answers.n_plain

    cdef int64_t *open(self, Py_ssize_t first) noexcept nogil:
        """Find the first posting of each test and id from a row on; NULL without memory.

        The caller frees the array, which `fill` advances.
        """
        cdef Py_ssize_t k, i
        cdef int64_t *found = <int64_t *> malloc((self.id_starts[self.answers.n_tests] + 1)
                                                 * sizeof(int64_t))
        for k in range(self.answers.n_tests if found != NULL else 0):
            for i in range(self.id_starts[k + 1] - self.id_starts[k]):
                found[self.id_starts[k] + i] = self._first_posting(
                    self.answers.lows[k] + <int32_t> i, first + self.answers.offsets[k])
        return found

    cdef inline int64_t _first_posting(self, int32_t id_, Py_ssize_t row) noexcept nogil:
        cdef int64_t low = self.posting_starts[id_], high = self.posting_starts[id_ + 1]
        return low if low == high else lower_bound(&self.postings[0], low, high, row)

    cdef bint fill(self, Bits *block, int64_t *next_postings) noexcept nogil:
        """Fill the columns of the next rows; returns whether any value is missing there."""
        cdef Py_ssize_t k, slot, start
        cdef uint8_t kind, low
        cdef uint64_t *column
        for k in range(self.n_filled):
            kind, low = self.answers.kinds[k], <uint8_t> self.answers.lows[k]
            slot, start = self.answers.slots[k], block.first + self.answers.offsets[k]
            column = block.columns + k * block.stride
            if kind == LISTED:
                self._fill_listed(block, k, next_postings)
            elif kind == BIT:
                bytes_equal(&self.bits[slot, start], block.n_words, 1 << low, 1 << low, column)
            elif kind == CODE_EQUAL:
                bytes_equal(&self.codes[slot, start], block.n_words, 255, low, column)
            else:
                bytes_above(&self.codes[slot, start], block.n_words, low, column)
        return self.has_missing and self.answers._exclude_missing(block)

    cdef void _fill_listed(self, Bits *block, Py_ssize_t k, int64_t *next_postings) noexcept nogil:
        cdef uint64_t *column = block.columns + k * block.stride
        cdef Py_ssize_t i, start = block.first + self.answers.offsets[k]
        cdef Py_ssize_t row, id_ = self.answers.lows[k]
        cdef int64_t entry, end
        memset(column, 0, block.n_words * sizeof(uint64_t))
        for i in range(self.id_starts[k], self.id_starts[k + 1]):
            entry, end = next_postings[i], self.posting_starts[id_ + 1]
            while entry < end:
                row = self.postings[entry] - start
                if row >= block.size:
                    break
                if row >= 0:  # not between this block and the one before
                    column[row >> 6] |= <uint64_t> 1 << (row & 63)
                entry += 1
            next_postings[i] = entry
            id_ += 1
