"""Inference in chains of labels whose transitions have the same scores at all positions.

Linear models without transition features need no more than this, and it is several times faster
than the general inference of `treecrf._inference`. Scores come in rows, one per position.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.chains._memory cimport longest_of
from treecrf.utils._vector_math cimport exp_below, largest, log_in_place

cdef extern from "learners/linear/linear_chain.h" nogil:
    double MAX_SPREAD
    bint level_rows(double *rows, Py_ssize_t length, Py_ssize_t n_labels)
    double forward_chain(const double *factors, Py_ssize_t length, const double *transitions,
                         Py_ssize_t n_labels, double *forward, double *scale)
    void backward_chain(double *rows, Py_ssize_t length, const double *transitions,
                        Py_ssize_t n_labels, const double *forward, const double *scale,
                        double weight, double *pairs, double *work)
    double log_forward_chain(const double *rows, Py_ssize_t length, const double *transitions,
                             Py_ssize_t n_labels, double *forward)
    void log_backward_chain(double *rows, Py_ssize_t length, const double *transitions,
                            Py_ssize_t n_labels, const double *forward, double weight,
                            double *expected, double *work)


cdef Scratch open_scratch(const double[:, ::1] transitions, const int64_t[::1] offsets,
                          Py_ssize_t first, Py_ssize_t last) except *:
    cdef Scratch s = scratch_for(transitions.shape[1], longest_of(offsets, first, last))
    fill_transitions(&s, transitions)
    return s


cdef Scratch scratch_for(Py_ssize_t n, Py_ssize_t longest) except *:
    cdef Scratch s
    s.n_labels = n
    s.memory = <double *> malloc((6 * n * n + 2 * n + longest * (2 * n + 1)) * sizeof(double))
    if s.memory == NULL:
        raise MemoryError(f"not enough memory for inference of a sequence of {longest} positions")
    s.scores = s.memory
    s.factors = s.scores + n * n
    s.pairs = s.factors + n * n
    s.expected = s.pairs + n * n
    s.work = s.expected + 3 * n * n
    s.scale = s.work + 2 * n
    s.forward = s.scale + longest
    s.known = s.forward + longest * n
    clear_expected(&s)
    return s


cdef Scratch scratch_given_known(const Scratch *s) noexcept nogil:
    """Return the same memory with other expected transitions, given the known labels."""
    cdef Scratch given = s[0]
    given.pairs = s.expected + s.n_labels * s.n_labels
    given.expected = given.pairs + s.n_labels * s.n_labels
    clear_expected(&given)
    return given


cdef void clear_expected(Scratch *s) noexcept nogil:
    memset(s.pairs, 0, 2 * s.n_labels * s.n_labels * sizeof(double))


cdef void fill_transitions(Scratch *s, const double[:, ::1] transitions) noexcept nogil:
    cdef Py_ssize_t i, size = s.n_labels * s.n_labels
    cdef double high = largest(&transitions[0, 0], size)
    s.near = True
    for i in range(size):
        s.scores[i] = (&transitions[0, 0])[i] - high
        s.factors[i] = s.scores[i]
        s.near = s.near and (s.scores[i] >= -MAX_SPREAD or s.scores[i] == -INFINITY)
    exp_below(s.factors, size, 0.0)


cdef double path_score(const Scratch *s, const double *rows,
                       const int32_t *labels, Py_ssize_t length) noexcept nogil:
    """Return the score of a label sequence."""
    cdef Py_ssize_t t
    cdef double total = rows[labels[0]]
    for t in range(1, length):
        total += rows[t * s.n_labels + labels[t]]
        total += s.scores[labels[t - 1] * s.n_labels + labels[t]]
    return total


cdef Py_ssize_t keep_where(const double *rows, const uint8_t *mask, Py_ssize_t size,
                           double *out) noexcept nogil:
    cdef Py_ssize_t k, n_kept = 0
    for k in range(size):
        out[k] = rows[k] if mask[k] else -INFINITY
        n_kept += mask[k]
    return n_kept


cdef void add_start(double *row, const double[:, ::1] transitions) noexcept nogil:
    cdef Py_ssize_t v, n = transitions.shape[1]
    for v in range(n):
        row[v] += transitions[n, v]


cdef bint forward(Scratch *s, double *rows, const int32_t *labels, Py_ssize_t length,
                  double *log_likelihood) noexcept nogil:
    """Forward pass. Returns whether it needed no logarithms; the rows are then exponentials."""
    cdef bint near = level_rows(rows, length, s.n_labels) and s.near
    cdef double score = path_score(s, rows, labels, length), log_z = -INFINITY
    if near:
        exp_below(rows, length * s.n_labels, 0.0)
        log_z = forward_chain(rows, length, s.factors, s.n_labels, s.forward, s.scale)
        if log_z == -INFINITY:
            log_in_place(rows, length * s.n_labels)
            near = False
    if not near:
        log_z = log_forward_chain(rows, length, s.scores, s.n_labels, s.forward)
    log_likelihood[0] = score - log_z
    return near


cdef void add_indicators(double *rows, const int32_t *labels, Py_ssize_t length, double weight,
                         double[:, ::1] summed) noexcept nogil:
    cdef Py_ssize_t t, v, n = summed.shape[1]
    for t in range(length):
        rows[t * n + labels[t]] += weight
        if t > 0:
            summed[labels[t - 1], labels[t]] += weight
    for v in range(n):
        summed[n, v] += rows[v]


cdef double fill_residuals(Scratch *s, double *rows, const double[:, ::1] transitions,
                           const int32_t *labels, Py_ssize_t length, double weight,
                           double[:, ::1] summed) noexcept nogil:
    cdef double log_likelihood
    add_start(rows, transitions)
    if forward(s, rows, labels, length, &log_likelihood):
        backward_chain(rows, length, s.factors, s.n_labels, s.forward, s.scale, weight, s.pairs,
                       s.work)
    else:
        log_backward_chain(rows, length, s.scores, s.n_labels, s.forward, weight, s.expected,
                           s.work)
    add_indicators(rows, labels, length, weight, summed)
    return log_likelihood


cdef void subtract_expected(const Scratch *s, double[:, ::1] summed) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(s.n_labels * s.n_labels):
        if s.factors[i] > 0.0:  # the sums of forbidden transitions may overflow
            (&summed[0, 0])[i] -= s.pairs[i] * s.factors[i]
        (&summed[0, 0])[i] -= s.expected[i]


cdef class StateChains:
    """Sequences of rows of scores; forbidden labels and transitions have the score -inf.

    The masks of labels are those of `TrainingData.masks`. Where several labels are candidates, the
    results are those given the candidates, see `treecrf.chains.partial_labels`.

    The methods work on the sequences ``first`` to ``last - 1``, release the global interpreter lock
    and write only to the parts that belong to these sequences.
    """

    cdef const int64_t[::1] offsets, first_rows
    cdef const int32_t[::1] labels  # the true ones, which `marginals` does not need
    cdef const uint8_t[:, ::1] allowed, candidates

    def __init__(self, offsets, first_rows, labels=None, allowed=None, candidates=None):
        self.offsets = offsets
        self.first_rows = first_rows
        self.labels = labels
        self.allowed, self.candidates = allowed, candidates

    cdef bint constrain(self, Py_ssize_t i, double *rows, Py_ssize_t n_labels,
                        double *known) noexcept nogil:
        """Forbid labels. If some are unknown, return True and write the scores of candidates."""
        cdef Py_ssize_t start = self.offsets[i], length = self.offsets[i + 1] - start
        if self.allowed is not None:
            keep_where(rows, &self.allowed[start, 0], length * n_labels, rows)
        return (self.candidates is not None
                and keep_where(rows, &self.candidates[start, 0], length * n_labels, known) > length)

    def log_likelihoods(self, double[:, ::1] rows, const double[:, ::1] transitions,
                        Py_ssize_t first, Py_ssize_t last, double[::1] out):
        """Write log P(labels) of each sequence to ``out``; overwrites the scores in ``rows``."""
        cdef Scratch s = open_scratch(transitions, self.offsets, first, last)
        cdef Py_ssize_t i, length
        cdef double log_likelihood
        cdef double *row
        cdef bint some_unknown
        with nogil:
            for i in range(first, last):
                row = &rows[self.first_rows[i], 0]
                length = self.offsets[i + 1] - self.offsets[i]
                some_unknown = self.constrain(i, row, s.n_labels, s.known)
                add_start(row, transitions)
                forward(&s, row, &self.labels[self.offsets[i]], length, &out[i])
                if some_unknown:
                    add_start(s.known, transitions)
                    forward(&s, s.known, &self.labels[self.offsets[i]], length, &log_likelihood)
                    out[i] -= log_likelihood
            free(s.memory)

    def residuals(self, double[:, ::1] rows, const double[:, ::1] transitions,
                  const double[::1] weights, Py_ssize_t first, Py_ssize_t last,
                  double[:, ::1] summed, double[::1] out):
        """Replace scores by derivatives of the log-likelihood.

        ``rows`` receives ``weight * (I(label) - P(label))``, 0 in boundary rows between sequences;
        ``summed`` the derivatives with respect to the transitions, summed over the sequences; and
        ``out`` log P(labels) of each sequence, without its weight.
        """
        cdef Scratch s = open_scratch(transitions, self.offsets, first, last)
        cdef Scratch given = scratch_given_known(&s)
        cdef double[:, ::1] summed_given = np.zeros((s.n_labels + 1, s.n_labels))
        cdef Py_ssize_t i, k, length
        cdef const int32_t *labels
        cdef double *row
        cdef bint some_unknown
        with nogil:
            summed[:, :] = 0.0
            for i in range(first, last):
                row, labels = &rows[self.first_rows[i], 0], &self.labels[self.offsets[i]]
                length = self.offsets[i + 1] - self.offsets[i]
                some_unknown = self.constrain(i, row, s.n_labels, s.known)
                out[i] = fill_residuals(&s, row, transitions, labels, length, weights[i], summed)
                if some_unknown:
                    out[i] -= fill_residuals(&given, s.known, transitions, labels, length,
                                             weights[i], summed_given)
                    for k in range(length * s.n_labels):
                        row[k] -= s.known[k]
                if i + 1 < last:
                    rows[self.first_rows[i] + length : self.first_rows[i + 1]] = 0.0
            subtract_expected(&s, summed)
            if self.candidates is not None:
                subtract_expected(&given, summed_given)
                for k in range((s.n_labels + 1) * s.n_labels):
                    (&summed[0, 0])[k] -= (&summed_given[0, 0])[k]
            free(s.memory)

    def marginals(self, double[:, ::1] rows, const double[:, ::1] transitions, Py_ssize_t first,
                  Py_ssize_t last):
        """Replace scores by the probabilities of the labels at each position."""
        cdef Scratch s = open_scratch(transitions, self.offsets, first, last)
        cdef Py_ssize_t i, length
        cdef double *row
        with nogil:
            for i in range(first, last):
                row = &rows[self.first_rows[i], 0]
                length = self.offsets[i + 1] - self.offsets[i]
                add_start(row, transitions)
                if level_rows(row, length, s.n_labels) and s.near:
                    exp_below(row, length * s.n_labels, 0.0)
                    forward_chain(row, length, s.factors, s.n_labels, s.forward, s.scale)
                    backward_chain(row, length, s.factors, s.n_labels, s.forward, s.scale, -1.0,
                                   s.pairs, s.work)
                else:
                    log_forward_chain(row, length, s.scores, s.n_labels, s.forward)
                    log_backward_chain(row, length, s.scores, s.n_labels, s.forward, -1.0,
                                       s.expected, s.work)
            free(s.memory)
