"""Surrogate splits: tests that replace one whose value is missing (Breiman et al., "CART", 1984).

At each column and offset, the test that agrees best with the node's test is a surrogate if it
agrees more often than the majority side does. Only examples with both values count.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from treecrf.trees.growing._features cimport Features
from treecrf.trees.growing._tests cimport EACH, SUFFIX


cdef class SurrogateSearch:
    """Search for surrogates, and their application."""

    def __init__(self, Features features, tests, Py_ssize_t n_planes):
        self.features = features
        self.n_planes = n_planes
        self.run_starts = tests.run_starts
        self.run_ends = tests.run_ends
        self.run_missing = tests.run_missing
        self.run_kinds = tests.run_kinds
        self.columns = tests.columns
        self.offsets = tests.offsets
        self.running = np.zeros((2, tests.n_bins + 1))
        self.answers, self.missing = np.zeros((2, features.n_words), dtype=np.uint64)
        self.remaining = np.zeros(features.n_words * max(1, n_planes), dtype=np.uint64)

    cdef bint is_open(self, int64_t test) noexcept nogil:
        """Return whether the value of a window test may be missing, in training or prediction."""
        return self.columns[test] >= 0

    cdef void find(self, int64_t test, const Side *passed, const Side *failed,
                   Ranking *ranking) noexcept nogil:
        """Rank the surrogates of a test."""
        cdef Surrogate candidate = Surrogate(-1, False, 0.0)
        cdef Py_ssize_t r
        ranking.n = 0
        for r in range(self.run_starts.shape[0]):
            self._rank_run(r, test, passed, failed, &candidate, ranking)
        insert(ranking, &candidate)

    cdef void _rank_run(self, Py_ssize_t r, int64_t test, const Side *passed, const Side *failed,
                        Surrogate *candidate, Ranking *ranking) noexcept nogil:
        """Rank the tests of a run; the candidate is the best so far of its column and offset."""
        cdef int64_t b, start = self.run_starts[r], end = self.run_ends[r]
        cdef double n_passed = n_answering(passed, self.run_missing[r])
        cdef double n_failed = n_answering(failed, self.run_missing[r])
        cdef double majority = max(n_passed, n_failed), same, agreement
        count_passing(passed, start, end, self.run_kinds[r], &self.running[0, 0])
        count_passing(failed, start, end, self.run_kinds[r], &self.running[1, 0])
        for b in range(start, end):
            same = self.running[0, b] + (n_failed - self.running[1, b])
            agreement = max(same, n_passed + n_failed - same)
            if agreement <= majority or self._same_value(b, test):
                continue
            if candidate.test >= 0 and not self._same_value(b, candidate.test):
                insert(ranking, candidate)
                candidate.agreement = 0.0
            if agreement > candidate.agreement:
                candidate[0] = Surrogate(b, same < agreement, agreement)

    cdef inline bint _same_value(self, int64_t a, int64_t b) noexcept nogil:
        return self.columns[a] == self.columns[b] and self.offsets[a] == self.offsets[b]

    cdef void apply(self, const Ranking *ranking, bint by_default, const uint64_t *rows,
                    uint64_t *passed) noexcept nogil:
        """Find which rows pass: by the first surrogate whose value they have, else by default."""
        cdef Py_ssize_t s, n_words = self.remaining.shape[0]
        cdef const Surrogate *surrogate
        memcpy(&self.remaining[0], rows, n_words * sizeof(uint64_t))
        memset(passed, 0, n_words * sizeof(uint64_t))
        for s in range(ranking.n):
            surrogate = &ranking.ranked[s]
            self.features.evaluate(surrogate.test, &self.answers[0])
            if not self.features.find_missing(surrogate.test, &self.missing[0]):
                memset(&self.missing[0], 0, self.missing.shape[0] * sizeof(uint64_t))
            self._apply_one(surrogate.is_reversed, passed)
        for s in range(n_words if by_default else 0):
            passed[s] |= self.remaining[s]

    cdef void _apply_one(self, bint is_reversed, uint64_t *passed) noexcept nogil:
        """Move the remaining rows that have the value of a surrogate to those that pass or fail."""
        cdef Py_ssize_t _, i, n_words = self.features.n_words
        cdef uint64_t flip = ~<uint64_t> 0 if is_reversed else 0
        cdef uint64_t *remaining = &self.remaining[0]
        for _ in range(max(1, self.n_planes)):
            for i in range(n_words):
                passed[i] |= remaining[i] & ~self.missing[i] & (self.answers[i] ^ flip)
                remaining[i] &= self.missing[i]
            passed += n_words
            remaining += n_words


cdef inline double n_answering(const Side *side, int64_t missing) noexcept nogil:
    """Return the number of examples of a side that are not in the bin of missing values."""
    return side.n - side.counts[side.stride * missing] if missing >= 0 else side.n


cdef void count_passing(const Side *side, int64_t start, int64_t end, uint8_t kind,
                        double *out) noexcept nogil:
    """Count the examples that pass each test of a run of bins."""
    cdef const double *counts = side.counts
    cdef int stride = side.stride
    cdef int64_t b
    cdef double total = 0.0
    if kind == EACH:
        for b in range(start, end):
            out[b] = counts[stride * b]
    elif kind == SUFFIX:
        for b in range(end - 1, start - 1, -1):
            total += counts[stride * (b + 1)]
            out[b] = total
    else:
        for b in range(start, end):
            total += counts[stride * b]
            out[b] = total


cdef void insert(Ranking *ranking, const Surrogate *candidate) noexcept nogil:
    """Insert a candidate after any with the same agreement."""
    cdef Py_ssize_t rank = ranking.n
    if candidate.test < 0:
        return
    while rank > 0 and ranking.ranked[rank - 1].agreement < candidate.agreement:
        rank -= 1
        if rank + 1 < MAX_SURROGATES:
            ranking.ranked[rank + 1] = ranking.ranked[rank]
    if rank < MAX_SURROGATES:
        ranking.ranked[rank] = candidate[0]
        ranking.n = min(ranking.n + 1, MAX_SURROGATES)
