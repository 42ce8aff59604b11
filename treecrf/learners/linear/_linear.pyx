"""Scores that are linear in attributes, and the transposed product, their gradient.

Attributes come in rows: a row for each position, and rows between and around the sequences, which
lie outside; `treecrf.learners.linear.table` makes them. A block of weights or scores holds ``width``
numbers: one a label, and with transition features then one a pair of labels, that of (u, v) at
``n_labels + u * n_labels + v``.

The functions hold no lock, and write only to the rows or attributes that they are asked for.
"""

from libc.stdint cimport int32_t, int64_t

cdef extern from "learners/linear/linear.h" nogil:
    void add_rows(const int64_t *starts, const int32_t *attributes, const double *values,
                  Py_ssize_t n_rows, Py_ssize_t left, Py_ssize_t right, Py_ssize_t width,
                  const double *weights, Py_ssize_t first, Py_ssize_t last, double *target)
    void add_columns(const int64_t *starts, const int32_t *rows, const double *values,
                     Py_ssize_t n_offsets, Py_ssize_t width, const double *deltas,
                     Py_ssize_t first, Py_ssize_t last, double *gradient)


def score_rows(const int64_t[::1] starts, const int32_t[::1] attributes, const double[::1] values,
               Py_ssize_t left, Py_ssize_t right, const double[:, :, ::1] weights,
               Py_ssize_t first, Py_ssize_t last, double[:, ::1] out):
    """Write the scores of rows ``first`` to ``last - 1`` to ``out``, an array of these rows alone.

    ``weights[a, j]`` is the block of attribute a at row s for row ``s - right + j``. Rows that are
    no positions get numbers without a meaning.
    """
    if first == last:
        return
    out[:, :] = 0.0
    if weights.shape[0] == 0:
        return
    with nogil:
        add_rows(pointer(starts), pointer_32(attributes), pointer_d(values), starts.shape[0] - 1,
                 left, right, weights.shape[2], &weights[0, 0, 0], first, last, &out[0, 0])


def sum_rows(const int64_t[::1] starts, const int32_t[::1] rows, const double[::1] values,
             const double[:, ::1] deltas, Py_ssize_t first, Py_ssize_t last,
             double[:, :, ::1] out):
    """Write the gradient of attributes ``first`` to ``last - 1`` to ``out``.

    ``starts`` and ``rows`` list the rows of each attribute. ``deltas`` holds the derivatives in the
    rows' scores, behind as many rows of zeros as windows reach to the right, and before as many as
    they reach to the left; it is 0 in rows that are no positions.
    """
    if first == last:
        return
    with nogil:
        add_columns(pointer(starts), pointer_32(rows), pointer_d(values), out.shape[1],
                    out.shape[2], &deltas[0, 0], first, last, &out[0, 0, 0])


def add_path(const int64_t[::1] starts, const int32_t[::1] attributes, const double[::1] values,
             Py_ssize_t left, Py_ssize_t right, Py_ssize_t first, const int32_t[::1] labels,
             Py_ssize_t n_labels, double step, double[:, :, ::1] weights):
    """Add to the weights ``step`` times the features of a label sequence.

    The sequence's first position is at row ``first``. Transitions without attributes are not meant.
    """
    cdef Py_ssize_t s, t, j
    cdef Py_ssize_t last = first + labels.shape[0]
    cdef int64_t k
    cdef int32_t label
    with nogil:
        for s in range(max(0, first - left), min(starts.shape[0] - 1, last + right)):
            for k in range(starts[s], starts[s + 1]):
                for t in range(max(first, s - right), min(last, s + left + 1)):
                    j = t - s + right
                    label = labels[t - first]
                    weights[attributes[k], j, label] += step * values[k]
                    if weights.shape[2] > n_labels and t > first:
                        weights[attributes[k], j, pair_of(labels, t - first, n_labels)] += (
                            step * values[k])


cdef inline Py_ssize_t pair_of(const int32_t[::1] labels, Py_ssize_t t,
                               Py_ssize_t n_labels) noexcept nogil:
    """Place of a pair of neighboring labels in a block."""
    return (1 + labels[t - 1]) * n_labels + labels[t]


def chain_scores(const double[:, ::1] rows, const double[:, ::1] transitions,
                 const int64_t[::1] offsets, Py_ssize_t first, Py_ssize_t last,
                 const int64_t[::1] first_rows, Py_ssize_t origin, double[:, :, ::1] out):
    """Put together what inference wants: ``out[v, t, u]``, the score of label v at t after u.

    ``rows`` holds rows of scores from row ``origin`` on, ``transitions`` a row for each previous
    label and one for none. At the first position of a sequence the only context is 0.
    """
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
                    Py_ssize_t first, Py_ssize_t last, const int64_t[::1] first_rows,
                    double[:, ::1] rows, double[:, ::1] transitions):
    """The transposed step: derivatives in the scores, to rows and summed over the positions.

    ``rows`` is an array as `sum_rows` wants it, of which the rows of positions are written;
    ``first_rows`` counts in it. ``transitions`` receives the sums over these sequences.
    """
    cdef Py_ssize_t i, t, u, v, n_labels = residuals.shape[0], width = rows.shape[1]
    cdef double total
    cdef double *row
    with nogil:
        transitions[:, :] = 0.0
        for i in range(first, last):
            for t in range(offsets[i], offsets[i + 1]):
                row = &rows[first_rows[i] + t - offsets[i], 0]
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


cdef inline const int64_t *pointer(const int64_t[::1] array) noexcept nogil:
    return &array[0]


cdef inline const int32_t *pointer_32(const int32_t[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL


cdef inline const double *pointer_d(const double[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL
