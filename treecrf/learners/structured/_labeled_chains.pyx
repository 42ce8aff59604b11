"""Labeled sequences as learners see them that decode one after another."""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

cdef extern from "learners/structured/best_path.h" nogil:
    double best_path(const double *rows, Py_ssize_t length, Py_ssize_t width,
                     const double *transitions, Py_ssize_t n_labels, double *work,
                     int32_t *origins, int32_t *out)


cdef class LabeledChains:
    """Labels of some sequences, and which others are possible.

    Parameters
    ----------
    offsets : int64 array (n_sequences + 1,)
    labels : int32 array (n_positions,)
    n_labels : int
    follows : bool array (n_labels + 1, n_labels) or None
        Which labels may follow each label and, last, come first.
    allowed : bool array (n_positions, n_labels) or None
        Which labels are possible at each position.
    """

    def __init__(self, offsets, labels, Py_ssize_t n_labels, follows, allowed):
        self.offsets = offsets
        self.labels = labels
        self.n_labels = n_labels
        self.longest = np.diff(offsets).max()
        free_to = np.zeros((n_labels + 1, n_labels))
        self.penalties = free_to if follows is None else np.where(follows, 0.0, -np.inf)
        self.allowed = None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8)

    cdef Scratch open(self, Py_ssize_t width) except *:
        """Memory to decode any sequence, whose rows of scores are of the given width."""
        cdef Scratch s
        cdef Py_ssize_t n = self.n_labels
        s.memory = <double *> malloc((2 * self.longest * width + (n + 3) * n) * sizeof(double))
        s.codes = <int32_t *> malloc(self.longest * (n + 1) * sizeof(int32_t))
        if not (s.memory and s.codes):
            self.close(&s)
            raise MemoryError(f"no memory to decode a sequence of {self.longest} positions")
        s.rows = s.memory
        s.deltas = s.rows + self.longest * width
        s.transitions = s.deltas + self.longest * width
        s.work = s.transitions + (n + 1) * n
        s.path = s.codes
        s.origins = s.codes + self.longest
        return s

    cdef void close(self, Scratch *scratch) noexcept nogil:
        free(scratch.memory)
        free(scratch.codes)

    cdef inline Py_ssize_t length(self, Py_ssize_t i) noexcept nogil:
        return self.offsets[i + 1] - self.offsets[i]

    cdef inline const int32_t *truth(self, Py_ssize_t i) noexcept nogil:
        """The labels of a sequence."""
        return &self.labels[self.offsets[i]]

    cdef void add_losses(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil:
        """Add 1 to the scores of all wrong labels."""
        cdef Py_ssize_t t, v
        cdef const int32_t *truth = self.truth(i)
        for t in range(self.length(i)):
            for v in range(self.n_labels):
                rows[t * width + v] += v != truth[t]

    cdef double decode(self, Py_ssize_t i, Py_ssize_t width, const double *transitions,
                       Scratch *scratch) noexcept nogil:
        """Write the possible labels of the highest score to ``scratch.path``; returns the score.

        The scores in ``scratch.rows`` become minus infinity where labels are impossible.
        """
        cdef Py_ssize_t k
        cdef const double *penalties = &self.penalties[0, 0]
        for k in range((self.n_labels + 1) * self.n_labels):
            scratch.transitions[k] = transitions[k] + penalties[k]
        if self.allowed is not None:
            self._forbid(i, width, scratch.rows)
        return best_path(scratch.rows, self.length(i), width, scratch.transitions, self.n_labels,
                         scratch.work, scratch.origins, scratch.path)

    cdef void _forbid(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil:
        cdef Py_ssize_t t, v
        for t in range(self.length(i)):
            for v in range(self.n_labels):
                if not self.allowed[self.offsets[i] + t, v]:
                    rows[t * width + v] = -INFINITY
