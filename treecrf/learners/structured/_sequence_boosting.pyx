"""Rounds of sequence boosting: bounds with an interval for each piece."""

import numpy as np

from libc.math cimport exp, fabs
from libc.stdint cimport int64_t


cdef enum:
    # Newton's method never needs as many steps.
    MAX_STEPS = 40


# A cell is an attribute at an offset, and an entry is a cell in a piece.


def extremes(const int64_t[::1] starts, const int64_t[::1] positions, const double[::1] values):
    """Return the extreme sums of the values of each entry, see `CellEntries`; (n_entries, 4).

    They are the sum of the positive values, the sum of the negative values, and the largest and the
    smallest sum over positions of which no two are neighbors.
    """
    cdef double[:, ::1] out = np.zeros((starts.shape[0] - 1, 4))
    cdef Py_ssize_t e
    cdef int64_t k
    with nogil:
        for e in range(starts.shape[0] - 1):
            for k in range(starts[e], starts[e + 1]):
                out[e, values[k] < 0.0] += values[k]
            out[e, 2] = separate_sum(positions, values, starts[e], starts[e + 1], 1.0)
            out[e, 3] = -separate_sum(positions, values, starts[e], starts[e + 1], -1.0)
    return np.asarray(out)


cdef double separate_sum(const int64_t[::1] positions, const double[::1] values, int64_t start,
                         int64_t end, double sign) noexcept nogil:
    """Return the largest sum of values over positions of which no two are neighbors."""
    cdef int64_t k, latest = -2
    cdef double taken = 0.0, left = 0.0, x
    for k in range(start, end):
        x = max(sign * values[k], 0.0)
        if positions[k] == latest + 1:
            taken, left = left + x, max(taken, left)
        else:
            left = max(taken, left)
            taken = left + x
        latest = positions[k]
    return max(taken, left)


cdef struct Curve:
    double value
    double slope
    double curvature


cdef struct Terms:
    # The entries of a feature; `stride` is the distance between the entries' numbers.
    const int64_t *entries
    Py_ssize_t n
    const double *residuals
    const double *lows
    const double *highs
    Py_ssize_t stride
    const int64_t *pieces        # piece of each entry
    const double *scales         # factor of each piece from residuals to its part of the mean
    const double *fractions      # of the loss, for each piece


cdef class EntryBounds:
    """Bounds of features that have an interval for each piece."""

    cdef const int64_t[::1] starts, entries     # the entries of each cell
    cdef const int64_t[::1] pieces              # piece of each entry
    cdef const double[:, ::1] lows, highs       # interval of each feature of each entry
    cdef const double[:, ::1] residuals         # may change between calls

    def __init__(self, starts, entries, pieces, lows, highs, residuals):
        self.starts = starts
        self.entries = entries
        self.pieces = pieces
        self.lows, self.highs = lows, highs
        self.residuals = residuals

    def minimize(self, by_piece, double max_step, Py_ssize_t first, Py_ssize_t last,
                 double[:, ::1] steps, double[:, ::1] out):
        """Write the best steps of the features of the cells ``first`` to ``last - 1``, and bounds.

        ``by_piece`` holds the scale and the fraction of the loss of each piece, as in `Terms`.
        """
        cdef const double[::1] scales = by_piece[0], fractions = by_piece[1]
        cdef Py_ssize_t c, v
        cdef Terms terms
        terms.pieces, terms.stride = &self.pieces[0], self.residuals.shape[1]
        terms.scales, terms.fractions = &scales[0], &fractions[0]
        with nogil:
            for c in range(first, last):
                terms.entries = &self.entries[0] + self.starts[c]
                terms.n = self.starts[c + 1] - self.starts[c]
                for v in range(self.residuals.shape[1]):
                    terms.residuals = &self.residuals[0, v]
                    terms.lows, terms.highs = &self.lows[0, v], &self.highs[0, v]
                    steps[c, v] = self.best_step(&terms, max_step, &out[c, v])

    # A method, because the loop above gets slower when gcc inlines this function.
    cdef double best_step(self, const Terms *terms, double max_step, double *bound) noexcept nogil:
        """Find the step from -max_step to max_step with the smallest bound, by Newton's method."""
        cdef double lowest = -max_step, highest = max_step, step = 0.0, ahead
        cdef bint low_is_tried = False, high_is_tried = False
        cdef Curve curve
        for _ in range(MAX_STEPS):
            curve = curve_at(terms, step)
            if curve.slope > 0.0:
                highest, high_is_tried = step, True
            else:
                lowest, low_is_tried = step, True
            if curve.slope == 0.0 or not curve.curvature > 0.0:
                break
            ahead = step - curve.slope / curve.curvature
            if not ahead < highest:
                ahead = 0.5 * (lowest + highest) if high_is_tried else highest
            elif not ahead > lowest:
                ahead = 0.5 * (lowest + highest) if low_is_tried else lowest
            if fabs(ahead - step) <= 1e-9 * max_step:
                break
            step = ahead
        bound[0] = 1.0 + curve.value
        return step


cdef Curve curve_at(const Terms *terms, double step) noexcept nogil:
    """Compute the bound minus 1, and its derivatives."""
    cdef Py_ssize_t j, e
    cdef double low, high, mean, fraction, under, over
    cdef Curve curve
    curve.value = curve.slope = curve.curvature = 0.0
    for j in range(terms.n):
        e = terms.entries[j]
        low, high = terms.lows[e * terms.stride], terms.highs[e * terms.stride]
        if high - low <= 0.0:
            continue
        fraction = terms.fractions[terms.pieces[e]]
        mean = terms.residuals[e * terms.stride] * terms.scales[terms.pieces[e]]
        over = min(max((mean - fraction * low) / (high - low), 0.0), fraction)
        under = fraction - over
        curve.value -= fraction
        under = under * exp(step * low) if under > 0.0 else 0.0
        over = over * exp(step * high) if over > 0.0 else 0.0
        curve.value += under + over
        curve.slope += under * low + over * high
        curve.curvature += under * low * low + over * high * high
    return curve
