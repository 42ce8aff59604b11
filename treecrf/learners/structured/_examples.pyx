"""Training examples for kernels that visit one sequence at a time: attributes and labels.

Rows, windows and blocks of weights are those of `treecrf.learners.linear._linear`.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.learners.linear._linear cimport add_rows, collect_rows, move_blocks

cdef extern from "learners/structured/best_path.h" nogil:
    double best_path(const double *rows, Py_ssize_t length, Py_ssize_t width,
                     const double *transitions, Py_ssize_t n_labels, double *work,
                     int32_t *origins, int32_t *out)


cdef class AttributeRows:
    """Attributes of the rows of all sequences, which may be cut into pieces.

    ``table`` is a `treecrf.learners.linear.scores.AttributeMatrix`.
    """

    def __init__(self, table, Py_ssize_t width, first_rows=None):
        self.starts, self.attributes, _ = table.by_row
        self.values = table.values
        self.left, self.right = table.window
        self.first_rows = table.first_rows if first_rows is None else first_rows
        self.width = width

    cdef void score(self, Py_ssize_t i, Py_ssize_t length, const double *weights,
                    double *out) noexcept nogil:
        """Write the scores of the rows of sequence i to ``out``."""
        cdef Py_ssize_t first = self.first_rows[i]
        memset(out, 0, length * self.width * sizeof(double))
        if self.attributes.shape[0]:
            add_rows(&self.starts[0], &self.attributes[0], &self.values[0],
                     self.starts.shape[0] - 1, self.left, self.right, self.width, weights, first,
                     first + length, out)

    cdef void collect(self, Py_ssize_t i, Py_ssize_t length, const double *deltas,
                      double *weights) noexcept nogil:
        """Transpose `score`: add to each weight its attribute's values times the deltas."""
        cdef Py_ssize_t first = self.first_rows[i]
        if self.attributes.shape[0]:
            collect_rows(&self.starts[0], &self.attributes[0], &self.values[0],
                         self.starts.shape[0] - 1, self.left, self.right, self.width, deltas,
                         first, first + length, 0, INT32_MAX, weights)

    cdef void move(self, Py_ssize_t i, Py_ssize_t length, double factor, double *source,
                   double *target) noexcept nogil:
        """Add ``factor * source`` to all weights that score sequence i, and clear the source."""
        cdef Py_ssize_t first = self.first_rows[i]
        if self.attributes.shape[0]:
            move_blocks(&self.starts[0], &self.attributes[0], self.starts.shape[0] - 1, self.left,
                        self.right, self.width, factor, first, first + length, source, target)


cdef class LabeledChains:
    """True labels of sequences, and the constraints on all other label sequences.

    ``data`` is a `treecrf.learners.linear.training.TrainingData`.
    """

    def __init__(self, data):
        self.offsets = data.offsets
        self.labels = data.codes
        self.n_labels = len(data.classes)
        self.longest = np.diff(self.offsets).max()
        self.penalties = data.constraints.limited(np.zeros((self.n_labels + 1, self.n_labels)))
        self.allowed, _ = data.masks

    cdef Scratch open(self, Py_ssize_t width) except *:
        """Allocate memory to decode any of the sequences; ``width`` is that of a row of scores."""
        cdef Scratch s
        cdef Py_ssize_t n = self.n_labels
        s.memory = <double *> malloc((2 * self.longest * width + (n + 3) * n) * sizeof(double))
        s.codes = <int32_t *> malloc(self.longest * (n + 1) * sizeof(int32_t))
        if not (s.memory and s.codes):
            self.close(&s)
            raise MemoryError(f"not enough memory to decode a sequence of {self.longest} positions")
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
        """Return the true labels of a sequence."""
        return &self.labels[self.offsets[i]]

    cdef Py_ssize_t n_mistakes(self, Py_ssize_t i, const int32_t *path) noexcept nogil:
        """Return the number of positions at which a label sequence differs from the true one."""
        cdef Py_ssize_t t, n = 0
        cdef const int32_t *truth = self.truth(i)
        for t in range(self.length(i)):
            n += truth[t] != path[t]
        return n

    cdef double true_score(self, Py_ssize_t i, Py_ssize_t width, const double *rows,
                           const double *transitions) noexcept nogil:
        """Return the score of the true label sequence."""
        cdef Py_ssize_t t, v, n = self.n_labels, before = n
        cdef const int32_t *truth = self.truth(i)
        cdef double total = 0.0
        for t in range(self.length(i)):
            v = truth[t]
            total += rows[t * width + v] + transitions[before * n + v]
            if width > n and before < n:
                total += rows[t * width + n + before * n + v]
            before = v
        return total

    cdef void add_indicators(self, Py_ssize_t i, Py_ssize_t width, const int32_t *path,
                             double factor, double *rows, double *transitions) noexcept nogil:
        """Add ``factor`` wherever `true_score` would read a number for the labels ``path``."""
        cdef Py_ssize_t t, v, n = self.n_labels, before = n
        for t in range(self.length(i)):
            v = path[t]
            rows[t * width + v] += factor
            transitions[before * n + v] += factor
            if width > n and before < n:
                rows[t * width + n + before * n + v] += factor
            before = v

    cdef void add_losses(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil:
        """Add 1 to the scores of all wrong labels."""
        cdef Py_ssize_t t, v
        cdef const int32_t *truth = self.truth(i)
        for t in range(self.length(i)):
            for v in range(self.n_labels):
                rows[t * width + v] += v != truth[t]

    cdef void constrain_transitions(self, const double *transitions, double *out) noexcept nogil:
        """Write the transitions to ``out``, impossible ones as minus infinity."""
        cdef Py_ssize_t k
        cdef const double *penalties = &self.penalties[0, 0]
        for k in range((self.n_labels + 1) * self.n_labels):
            out[k] = transitions[k] + penalties[k]

    cdef void constrain_rows(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil:
        """Set the scores of impossible labels to minus infinity."""
        cdef Py_ssize_t t, v
        if self.allowed is None:
            return
        for t in range(self.length(i)):
            for v in range(self.n_labels):
                if not self.allowed[self.offsets[i] + t, v]:
                    rows[t * width + v] = -INFINITY

    cdef double decode(self, Py_ssize_t i, Py_ssize_t width, const double *transitions,
                       Scratch *scratch) noexcept nogil:
        """Write the best possible label sequence to ``scratch.path`` and return its score.

        The scores in ``scratch.rows`` become minus infinity where labels are impossible.
        """
        self.constrain_transitions(transitions, scratch.transitions)
        self.constrain_rows(i, width, scratch.rows)
        return best_path(scratch.rows, self.length(i), width, scratch.transitions, self.n_labels,
                         scratch.work, scratch.origins, scratch.path)
