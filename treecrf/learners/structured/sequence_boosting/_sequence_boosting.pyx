"""Rounds of sequence boosting: inference where scores have changed, and bounds of all features."""

import numpy as np

from libc.math cimport exp, fabs, isfinite
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from treecrf.learners.linear._linear cimport add_block
from treecrf.learners.structured._examples cimport AttributeRows, LabeledChains, weights_at

cdef extern from "learners/structured/sequence_boosting/log_chain.h" nogil:
    double log_forward(const double *rows, Py_ssize_t length, Py_ssize_t width,
                       const double *transitions, Py_ssize_t n_labels, Py_ssize_t before,
                       double *forward, double *work)
    void log_backward(const double *rows, Py_ssize_t length, Py_ssize_t width,
                      const double *transitions, Py_ssize_t n_labels, Py_ssize_t before,
                      const double *forward, double log_z, double *out, double *summed,
                      double *work)

cdef extern from "learners/structured/sequence_boosting/feature_bounds.h" nogil:
    void bound_all(const double *sums, const double *lows, const double *highs, double scale,
                   double max_step, Py_ssize_t n, double *steps, double *bounds)

cdef enum:
    # Newton's method never needs as many steps.
    MAX_STEPS = 40


cdef struct Memory:
    # Memory for the inference of the longest piece.
    double *rows
    double *expected
    double *summed
    double *forward
    double *transitions
    double *work
    double *all


cdef class PieceLosses:
    """Losses -log P(labels) of pieces of sequences; the scores may change between calls."""

    cdef LabeledChains chains
    cdef const double[:, ::1] scores, transitions
    cdef Py_ssize_t width

    def __init__(self, LabeledChains chains, scores, transitions):
        self.chains = chains
        self.scores = scores
        self.transitions = transitions
        self.width = scores.shape[1]

    def update(self, const int64_t[::1] chosen, double[::1] out):
        """Write the losses of some pieces to ``out``, an array of all pieces."""
        cdef Memory m = self.open()
        cdef Py_ssize_t k
        with nogil:
            for k in range(chosen.shape[0]):
                out[chosen[k]] = self.forward(chosen[k], &m, NULL)
            free(m.all)

    cdef Memory open(self) except *:
        cdef Memory m
        cdef Py_ssize_t n = self.chains.n_labels, n_pairs = (n + 1) * n
        cdef Py_ssize_t longest = self.chains.longest
        m.all = <double *> malloc((longest * (2 * self.width + n) + 2 * n_pairs + (n + 4) * n)
                                  * sizeof(double))
        if m.all == NULL:
            raise MemoryError(f"not enough memory for the inference of {longest} positions")
        m.rows = m.all
        m.expected = m.rows + longest * self.width
        m.forward = m.expected + longest * self.width
        m.summed = m.forward + longest * n
        m.transitions = m.summed + n_pairs
        m.work = m.transitions + n_pairs
        self.chains.constrain_transitions(&self.transitions[0, 0], m.transitions)
        return m

    cdef double forward(self, Py_ssize_t i, Memory *m, double *log_z) noexcept nogil:
        """Return the loss of a piece; leaves its scores in ``m.rows``, impossible ones as -inf."""
        cdef Py_ssize_t length = self.chains.length(i)
        cdef double found, score
        memcpy(m.rows, &self.scores[self.chains.offsets[i], 0],
               length * self.width * sizeof(double))
        score = self.chains.true_score(i, self.width, m.rows, m.transitions)
        self.chains.constrain_rows(i, self.width, m.rows)
        found = log_forward(m.rows, length, self.width, m.transitions, self.chains.n_labels,
                            self.chains.label_before(i), m.forward, m.work)
        if log_z:
            log_z[0] = found
        return max(found - score, 0.0)


cdef class Expectations:
    """Expected numbers of labels and pairs of labels, and their changes.

    Residuals are expected minus true indicators of labels and pairs, (n_positions, width); pairs
    are those of transitions, summed over each piece, (n_pieces, n_labels + 1, n_labels). Changes
    are those in the latest inference. The values before and after have weight
    exp(loss + log_weight - level), with the loss before and after.
    """

    cdef PieceLosses pieces
    cdef const double[::1] log_weights
    cdef readonly object residuals, pairs, changes, pair_changes

    def __init__(self, PieceLosses pieces, log_weights):
        self.pieces = pieces
        self.log_weights = log_weights
        n = pieces.chains.n_labels
        self.residuals = np.zeros((pieces.scores.shape[0], pieces.width))
        self.pairs = np.zeros((len(log_weights), n + 1, n))
        self.changes, self.pair_changes = np.zeros_like(self.residuals), np.zeros_like(self.pairs)

    def infer(self, const int64_t[::1] chosen, double level, double[::1] losses):
        """Update the expectations of some pieces, and their losses in an array of all pieces."""
        cdef double[:, ::1] residuals = self.residuals, changes = self.changes
        cdef double[:, :, ::1] pairs = self.pairs, pair_changes = self.pair_changes
        cdef Memory m = self.pieces.open()
        cdef Py_ssize_t k, i, start, length, width = self.pieces.width
        cdef Py_ssize_t n = self.pieces.chains.n_labels
        cdef double log_z, old, new
        with nogil:
            for k in range(chosen.shape[0]):
                i = chosen[k]
                start = self.pieces.chains.offsets[i]
                length = self.pieces.chains.length(i)
                old = 0.0
                if isfinite(losses[i]):
                    old = exp(losses[i] + self.log_weights[i] - level)
                losses[i] = self.pieces.forward(i, &m, &log_z)
                new = exp(losses[i] + self.log_weights[i] - level)
                log_backward(m.rows, length, width, m.transitions, n,
                             self.pieces.chains.label_before(i), m.forward, log_z, m.expected,
                             m.summed, m.work)
                self.pieces.chains.add_indicators(i, width, self.pieces.chains.truth(i), -1.0,
                                                  m.expected, m.summed)
                replace(m.expected, length * width, old, new, &residuals[start, 0],
                        &changes[start, 0])
                replace(m.summed, (n + 1) * n, old, new, &pairs[i, 0, 0], &pair_changes[i, 0, 0])
            free(m.all)


cdef void replace(const double *source, Py_ssize_t n, double old, double new, double *target,
                  double *changes) noexcept nogil:
    """Store new values; their change is that of the values times their weights."""
    cdef Py_ssize_t k
    for k in range(n):
        changes[k] = new * source[k] - (old * target[k] if old else 0.0)
        target[k] = source[k]


def collect(AttributeRows rows, LabeledChains chains, const int64_t[::1] chosen,
            const double[:, ::1] changes, double[:, :, ::1] sums):
    """Add to the sum of each feature its changes at the positions of some pieces."""
    cdef Py_ssize_t k, i
    with nogil:
        for k in range(chosen.shape[0]):
            i = chosen[k]
            rows.collect(i, chains.length(i), &changes[chains.offsets[i], 0], weights_at(sums))


def union_bounds(const double[::1] sums, const double[::1] lows, const double[::1] highs,
                 double scale, double max_step, double[::1] steps, double[::1] out):
    """Write the best steps of some features, with one interval each, and their bounds."""
    if sums.shape[0]:
        with nogil:
            bound_all(&sums[0], &lows[0], &highs[0], scale, max_step, sums.shape[0], &steps[0],
                      &out[0])


# Bounds with an interval for each piece. A cell is an attribute at an offset, and an entry is a
# cell in a piece.


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


def collect_entries(const int64_t[::1] chosen, const int64_t[::1] of_piece,
                    const int64_t[::1] starts, const int64_t[::1] positions,
                    const double[::1] values, const double[:, ::1] residuals,
                    double[:, ::1] out):
    """Write the residuals of all features of some pieces, one row per entry.

    ``of_piece`` holds the first entry of each piece.
    """
    cdef Py_ssize_t j, e, width = residuals.shape[1]
    cdef int64_t k
    with nogil:
        for j in range(chosen.shape[0]):
            for e in range(of_piece[chosen[j]], of_piece[chosen[j] + 1]):
                memset(&out[e, 0], 0, width * sizeof(double))
                for k in range(starts[e], starts[e + 1]):
                    add_block(&out[e, 0], &residuals[positions[k], 0], values[k], width)


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
