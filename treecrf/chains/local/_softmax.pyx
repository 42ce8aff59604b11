"""Softmax of the scores of labels in each context, and the gradient of its logarithm.

Scores, contexts and ranges of sequences are those of `_inference`.
"""

from libc.stdint cimport int32_t, int64_t

cdef extern from "chains/local/softmax.h" nogil:
    enum:
        LOCAL_BLOCK    # number of columns that are processed at a time
    void log_softmax(double *columns, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n)
    void softmax_residuals(const double *columns, Py_ssize_t n_rows, Py_ssize_t stride,
                           Py_ssize_t n, double *residuals, double *curvature,
                           double *log_totals)


def normalize(double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
              Py_ssize_t last):
    """Turn scores into log P(label | context) by a log-softmax over the labels, in place.

    If all labels are forbidden, they remain so.
    """
    cdef Py_ssize_t i = offsets[first] * scores.shape[2], end = offsets[last] * scores.shape[2]
    cdef double *columns = &scores[0, 0, 0]
    with nogil:
        while i < end:
            log_softmax(columns + i, scores.shape[0], scores.shape[1] * scores.shape[2],
                        min(LOCAL_BLOCK, end - i))
            i += LOCAL_BLOCK


def local_residuals(const double[:, ::1] scores, const int64_t[::1] offsets,
                    const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                    double[:, ::1] out, double[:, ::1] curvature, double[::1] log_likelihoods):
    """Write the gradient of sum_t log P(y_t | context), P the softmax of ``scores[:, t]``.

    ``scores[v, t]`` are those in the true context of t. ``out[v, t]`` receives I(v) - P(v), and
    ``curvature``, if given, 2 P(v) (1 - P(v)), the row sums of the absolute Hessian. Both are
    rounded to multiples of 2**-32. ``log_likelihoods`` receives the sum over each sequence, which
    is -inf if a true label is forbidden.
    """
    cdef Py_ssize_t i = first, t, n, start = offsets[first], end = offsets[last]
    cdef double log_totals[LOCAL_BLOCK]
    with nogil:
        for t in range(first, last):
            log_likelihoods[t] = 0.0
        while start < end:
            n = min(LOCAL_BLOCK, end - start)
            softmax_residuals(&scores[0, start], scores.shape[0], scores.shape[1], n,
                              &out[0, start],
                              NULL if curvature is None else &curvature[0, start], log_totals)
            for t in range(start, start + n):
                while t >= offsets[i + 1]:
                    i += 1
                log_likelihoods[i] += scores[labels[t], t] - log_totals[t - start]
                out[labels[t], t] += 1.0
            start += n
