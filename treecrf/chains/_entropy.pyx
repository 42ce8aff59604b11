"""Entropies of the distributions over label sequences.

Scores and contexts are those of `_inference`. The entropy of the labels before a position, given
the context there, follows from the entropies one position earlier (Hernando, Crespi and Cybenko,
"Efficient computation of the hidden Markov model entropy for a given observation sequence", 2005).
All terms are positive, so nothing cancels.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t


def entropies(const double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
              Py_ssize_t last, double[::1] out):
    """Write the entropy of the label sequences of each sequence, in nats, to ``out``."""
    cdef Py_ssize_t n_labels = scores.shape[0], width = scores.shape[2]
    cdef Py_ssize_t i, t, c, v, e, base, n_contexts, n_next
    cdef double score
    cdef double[:, ::1] rows = np.empty((5, width))
    # Of each context: the logarithm of the sum over the labels before, and their entropy.
    cdef double[::1] log_sums = rows[0], before = rows[1]
    # Of each context after a position: the largest score, and sums relative to it.
    cdef double[::1] largest = rows[2], sums = rows[3], weighted = rows[4]
    with nogil:
        for i in range(first, last):
            n_contexts = 1
            log_sums[0] = before[0] = 0.0
            for t in range(offsets[i], offsets[i + 1]):
                n_next = min(n_contexts * n_labels, width)
                for e in range(n_next):
                    largest[e] = -INFINITY
                    sums[e] = weighted[e] = 0.0
                for c in range(n_contexts):
                    base = c * n_labels % n_next
                    for v in range(n_labels):
                        e = base + v if n_next > 1 else 0
                        largest[e] = max(largest[e], log_sums[c] + scores[v, t, c])
                for c in range(n_contexts):
                    base = c * n_labels % n_next
                    for v in range(n_labels):
                        e = base + v if n_next > 1 else 0
                        score = log_sums[c] + scores[v, t, c]
                        add_term(score - largest[e], before[c], &sums[e], &weighted[e])
                for e in range(n_next):
                    join(largest[e], sums[e], weighted[e], &log_sums[e], &before[e])
                n_contexts = n_next
            largest[0] = -INFINITY
            sums[0] = weighted[0] = 0.0
            for c in range(n_contexts):
                largest[0] = max(largest[0], log_sums[c])
            for c in range(n_contexts):
                add_term(log_sums[c] - largest[0], before[c], &sums[0], &weighted[0])
            join(largest[0], sums[0], weighted[0], &score, &out[i])


cdef inline void add_term(double score, double entropy, double *total,
                          double *weighted) noexcept nogil:
    """Add a score of at most 0, and the entropy that goes with it, to two sums."""
    cdef double weight
    if score > -INFINITY:  # NaN if all are forbidden
        weight = exp(score)
        total[0] += weight
        weighted[0] += weight * (entropy - score)


cdef inline void join(double largest, double total, double weighted, double *log_sum,
                      double *entropy) noexcept nogil:
    """Return the logarithm of a sum, and the entropy of what it sums."""
    log_sum[0] = -INFINITY
    entropy[0] = 0.0
    if total > 0:
        log_sum[0] = largest + log(total)
        entropy[0] = weighted / total + log(total)
