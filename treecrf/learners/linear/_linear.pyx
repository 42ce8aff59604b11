"""Scores as sums of attributes times weights, and the transposed product, their gradient.

Attributes come in rows, see `treecrf.learners.linear.matrix.AttributeMatrix`. A block of
weights or scores has ``width`` numbers: one per label and, with transition features, one per pair
of labels after these, (u, v) at ``n_labels + u * n_labels + v``.

The functions release the global interpreter lock and write only to the given range of rows,
attributes or sequences, so that threads can share the work.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t

cdef extern from "learners/linear/linear.h" nogil:
    double pairwise_dot(const double *a, const double *b, Py_ssize_t n)
    void add_vector(double *target, const double *source, double x, Py_ssize_t n)


def dot(const double[::1] a, const double[::1] b):
    """Return the sum of products; its rounding does not depend on threads."""
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"{a.shape[0]} and {b.shape[0]} numbers")
    cdef double total
    with nogil:
        total = pairwise_dot(pointer_d(a), pointer_d(b), a.shape[0])
    return total


def add_scaled(double[::1] target, const double[::1] source, double factor):
    """Add ``factor * source`` to the target."""
    if target.shape[0] != source.shape[0]:
        raise ValueError(f"{target.shape[0]} and {source.shape[0]} numbers")
    if target.shape[0]:
        with nogil:
            add_vector(&target[0], &source[0], factor, target.shape[0])


def score_rows(by_row, window, const double[:, :, ::1] weights, Py_ssize_t first, Py_ssize_t last,
               double[:, ::1] out):
    """Write the scores of rows ``first`` to ``last - 1`` to ``out``, which has only these rows.

    With ``window = (left, right)``, ``weights[a, j]`` is the block that attribute a at row s
    contributes to row ``s - right + j``. The scores of boundary rows have no meaning.
    """
    cdef const int64_t[::1] starts = by_row[0]
    cdef const int32_t[::1] attributes = by_row[1]
    cdef const double[::1] values = by_row[2]
    cdef Py_ssize_t left = window[0], right = window[1]
    if first == last:
        return
    out[:, :] = 0.0
    if weights.shape[0] == 0:
        return
    with nogil:
        add_rows(&starts[0], pointer_32(attributes), pointer_d(values), starts.shape[0] - 1,
                 left, right, weights.shape[2], &weights[0, 0, 0], first, last, &out[0, 0])


def add_gradient(by_row, window, parts, double[:, :, ::1] out, attributes):
    """Add the gradient of a range of attributes to ``out``, which has all of them.

    ``parts`` are pairs of a row and the derivatives with respect to the scores of the rows from
    there on, 0 for boundary rows. Sums run in the order of the rows, whatever the range.
    """
    cdef const int64_t[::1] starts = by_row[0]
    cdef const int32_t[::1] indices = by_row[1]
    cdef const double[::1] values = by_row[2]
    cdef const double[:, ::1] rows
    cdef Py_ssize_t left = window[0], right = window[1], low = attributes[0], high = attributes[1]
    cdef Py_ssize_t first
    for first, rows in parts:
        if out.shape[0] and rows.shape[0]:
            with nogil:
                collect_rows(&starts[0], pointer_32(indices), pointer_d(values),
                             starts.shape[0] - 1, left, right, out.shape[2], &rows[0, 0], first,
                             first + rows.shape[0], low, high, &out[0, 0, 0])


def chain_scores(const double[:, ::1] rows, const double[:, ::1] transitions,
                 const int64_t[::1] offsets, const int64_t[::1] first_rows, part,
                 double[:, :, ::1] out):
    """Write the scores that inference reads, ``out[v, t, u]`` for label v at t after label u.

    ``part`` is a range of sequences, and ``rows`` starts with the first row of the range. At the
    first position of a sequence the only context is 0.
    """
    cdef Py_ssize_t first = part[0], last = part[1], origin = first_rows[first]
    cdef Py_ssize_t i, t, u, v, n_labels = out.shape[0], width = rows.shape[1]
    cdef const double *row
    with nogil:
        for i in range(first, last):
            for t in range(offsets[i], offsets[i + 1]):
                row = &rows[first_rows[i] + t - offsets[i] - origin, 0]
                for v in range(n_labels):
                    if t == offsets[i]:
                        out[v, t, 0] = row[v] + transitions[n_labels, v]
                        for u in range(1, n_labels):
                            out[v, t, u] = 0.0
                        continue
                    for u in range(n_labels):
                        out[v, t, u] = row[v] + transitions[u, v]
                    if width > n_labels:
                        for u in range(n_labels):
                            out[v, t, u] += row[(1 + u) * n_labels + v]


def chain_residuals(const double[:, :, ::1] residuals, const int64_t[::1] offsets,
                    const int64_t[::1] first_rows, part, Py_ssize_t width,
                    double[:, ::1] transitions):
    """Transpose `chain_scores`: return derivatives with respect to the rows of some sequences.

    ``transitions`` receives those with respect to the transitions.
    """
    cdef Py_ssize_t first = part[0], last = part[1], origin = first_rows[first]
    cdef Py_ssize_t i, t, u, v, n_labels = residuals.shape[0]
    i = first_rows[last - 1] + offsets[last] - offsets[last - 1] - origin
    cdef double[:, ::1] rows = np.zeros((i, width))
    cdef double total
    cdef double *row
    with nogil:
        transitions[:, :] = 0.0
        for i in range(first, last):
            for t in range(offsets[i], offsets[i + 1]):
                row = &rows[first_rows[i] + t - offsets[i] - origin, 0]
                for v in range(n_labels):
                    if t == offsets[i]:
                        total = residuals[v, t, 0]
                        transitions[n_labels, v] += total
                    else:
                        total = 0.0
                        for u in range(n_labels):
                            total += residuals[v, t, u]
                            transitions[u, v] += residuals[v, t, u]
                    row[v] = total
                    if width > n_labels:
                        for u in range(n_labels):
                            row[(1 + u) * n_labels + v] = (
                                0.0 if t == offsets[i] else residuals[v, t, u])
    return np.asarray(rows)


def add_product(const double[:, ::1] values, const double[:, ::1] coefficients,
                double[:, ::1] out):
    """Add the matrix product of the first two arrays to ``out``.

    Unlike in linear algebra libraries, the order of a row's sum does not depend on the other rows.
    """
    cdef Py_ssize_t i, k, n = coefficients.shape[1]
    if coefficients.shape[0] == 0:
        return
    with nogil:
        for i in range(values.shape[0]):
            for k in range(values.shape[1]):
                add_block(&out[i, 0], &coefficients[k, 0], values[i, k], n)


cdef inline const int32_t *pointer_32(const int32_t[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL


cdef inline const double *pointer_d(const double[::1] array) noexcept nogil:
    return &array[0] if array is not None and array.shape[0] else NULL
