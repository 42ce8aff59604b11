"""Work on single elements of tables (n_labels, n_positions, n_contexts), without copies."""

from libc.math cimport INFINITY, fabs, fmin
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from treecrf.utils._vector_math cimport rounded


def restricted(const double[:, :, ::1] scores, const int64_t[::1] positions,
               const uint8_t[:, ::1] candidates, double[:, :, ::1] out):
    """Write the scores of some positions, minus infinity for labels that are not possible.

    ``candidates[t, v]`` is nonzero if label v is possible at position t of ``scores``.
    """
    cdef Py_ssize_t v, i, c, n = scores.shape[2]
    with nogil:
        for v in range(scores.shape[0]):
            for i in range(positions.shape[0]):
                if candidates[positions[i], v]:
                    memcpy(&out[v, i, 0], &scores[v, positions[i], 0], n * sizeof(double))
                else:
                    for c in range(n):
                        out[v, i, c] = -INFINITY


def subtract(double[:, :, ::1] residuals, double[:, :, ::1] curvature,
             const int64_t[::1] positions, const double[:, :, ::1] conditional):
    """Subtract the residuals of the codes given the known labels, at some positions.

    ``curvature``, unless it is None, is multiplied by the fraction that
    `treecrf.chains.partial_labels` explains, and rounded.
    """
    cdef Py_ssize_t v, i, c, n = residuals.shape[2]
    cdef bint curved = curvature is not None
    cdef double *row
    cdef double *bounds
    cdef double size
    with nogil:
        for v in range(residuals.shape[0]):
            for i in range(positions.shape[0]):
                row = &residuals[v, positions[i], 0]
                if curved:
                    bounds = &curvature[v, positions[i], 0]
                    for c in range(n):
                        size = fabs(row[c])
                        size = fmin(size, 1.0 - size)
                        if size > 0.0:
                            bounds[c] = rounded(
                                bounds[c] * (fmin(fabs(row[c] - conditional[v, i, c]), size) / size)
                            )
                for c in range(n):
                    row[c] -= conditional[v, i, c]
