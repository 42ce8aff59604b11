"""Rounds of sequence boosting: inference where scores have changed, and bounds of all features."""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.learners.structured._attribute_rows cimport AttributeRows, weights_at

cdef extern from "learners/linear/linear.h" nogil:
    void add_block(double *target, const double *source, double x, Py_ssize_t n)

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
                   double most, Py_ssize_t n, double *steps, double *bounds)

cdef enum:
    # More steps than Newton's method ever takes.
    MAX_STEPS = 40


cdef struct Memory:
    double *rows
    double *expected
    double *summed
    double *forward
    double *transitions
    double *work
    double *all


cdef class Chains:
    """Labels of pieces of sequences, and which others are possible.

    Parameters
    ----------
    offsets : int64 array (n_pieces + 1,)
    labels : int32 array (n_positions,)
    before : int32 array (n_pieces,)
        The label before each piece; ``n_labels`` at the start of a sequence.
    n_labels, width : int
        Width of a row of scores.
    follows : bool array (n_labels + 1, n_labels) or None
        Which labels may follow each label and, last, come first.
    allowed : bool array (n_positions, n_labels) or None
        Which labels are possible at each position.
    """

    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] labels, before
    cdef const double[:, ::1] penalties
    cdef const uint8_t[:, ::1] allowed
    cdef Py_ssize_t n_labels, width, longest

    def __init__(self, offsets, labels, before, Py_ssize_t n_labels, Py_ssize_t width, follows,
                 allowed):
        self.offsets = offsets
        self.labels = labels
        self.before = before
        self.n_labels = n_labels
        self.width = width
        self.longest = np.diff(offsets).max()
        free_to = np.zeros((n_labels + 1, n_labels))
        self.penalties = free_to if follows is None else np.where(follows, 0.0, -np.inf)
        self.allowed = None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8)

    def losses(self, const int64_t[::1] chosen, const double[:, ::1] scores,
               const double[:, ::1] transitions, double[::1] out):
        """Write -log P(labels) of some pieces to ``out``, an array of all pieces."""
        cdef Memory m = self._open(transitions)
        cdef Py_ssize_t k
        with nogil:
            for k in range(chosen.shape[0]):
                out[chosen[k]] = self._forward(chosen[k], scores, &m, NULL)
            free(m.all)

    def infer(self, const int64_t[::1] chosen, const double[:, ::1] scores,
              const double[:, ::1] transitions, const double[::1] log_weights, double level,
              double[:, ::1] residuals, double[:, :, ::1] pairs, double[::1] losses,
              double[:, ::1] changes, double[:, :, ::1] pair_changes):
        """Find out of some pieces what labels are expected.

        Parameters
        ----------
        chosen : the pieces
        scores : (n_positions, width)
        transitions : (n_labels + 1, n_labels)
        log_weights : (n_pieces,)
        level : float
        residuals : (n_positions, width)
            Receives by how much more often labels and pairs are expected than they are there.
        pairs : (n_pieces, n_labels + 1, n_labels)
            The same of the transitions, summed over the positions.
        losses : (n_pieces,)
            Receives -log P(labels).
        changes, pair_changes : like residuals and pairs
            Receive by how much these have changed, each times exp(loss + log_weight - level) of
            its time.
        """
        cdef Memory m = self._open(transitions)
        cdef Py_ssize_t k, i, start, length, n_pairs = (self.n_labels + 1) * self.n_labels
        cdef double log_z, old, new
        with nogil:
            for k in range(chosen.shape[0]):
                i = chosen[k]
                start, length = self.offsets[i], self.offsets[i + 1] - self.offsets[i]
                old = exp(losses[i] + log_weights[i] - level) if isfinite(losses[i]) else 0.0
                losses[i] = self._forward(i, scores, &m, &log_z)
                new = exp(losses[i] + log_weights[i] - level)
                log_backward(m.rows, length, self.width, m.transitions, self.n_labels,
                             self.before[i], m.forward, log_z, m.expected, m.summed, m.work)
                self._subtract_truth(i, m.expected, m.summed)
                replace(m.expected, length * self.width, old, new, &residuals[start, 0],
                        &changes[start, 0])
                replace(m.summed, n_pairs, old, new, &pairs[i, 0, 0], &pair_changes[i, 0, 0])
            free(m.all)

    cdef Memory _open(self, const double[:, ::1] transitions) except *:
        cdef Memory m
        cdef Py_ssize_t k, n = self.n_labels, n_pairs = (n + 1) * n
        m.all = <double *> malloc((self.longest * (2 * self.width + n) + 2 * n_pairs + (n + 3) * n)
                                  * sizeof(double))
        if m.all == NULL:
            raise MemoryError(f"no memory for the inference of {self.longest} positions")
        m.rows = m.all
        m.expected = m.rows + self.longest * self.width
        m.forward = m.expected + self.longest * self.width
        m.summed = m.forward + self.longest * n
        m.transitions = m.summed + n_pairs
        m.work = m.transitions + n_pairs
        for k in range(n_pairs):
            m.transitions[k] = (&transitions[0, 0])[k] + (&self.penalties[0, 0])[k]
        return m

    cdef double _forward(self, Py_ssize_t i, const double[:, ::1] scores, Memory *m,
                         double *log_z) noexcept nogil:
        """-log P(labels) of a piece; leaves the scores of what is possible in ``m.rows``."""
        cdef Py_ssize_t t, v, start = self.offsets[i], length = self.offsets[i + 1] - start
        cdef Py_ssize_t n = self.n_labels, before = self.before[i]
        cdef double found, score = 0.0
        cdef double *row
        memset(m.rows, 0, length * self.width * sizeof(double))
        add_block(m.rows, &scores[start, 0], 1.0, length * self.width)
        for t in range(length):
            row = m.rows + t * self.width
            v = self.labels[start + t]
            score += row[v] + m.transitions[before * n + v]
            if self.width > n and before < n:
                score += row[n + before * n + v]
            before = v
            if self.allowed is not None:
                for v in range(n):
                    if not self.allowed[start + t, v]:
                        row[v] = -INFINITY
        found = log_forward(m.rows, length, self.width, m.transitions, n, self.before[i],
                            m.forward, m.work)
        if log_z:
            log_z[0] = found
        return max(found - score, 0.0)

    cdef void _subtract_truth(self, Py_ssize_t i, double *expected, double *summed) noexcept nogil:
        cdef Py_ssize_t t, v, start = self.offsets[i], before = self.before[i], n = self.n_labels
        for t in range(self.offsets[i + 1] - start):
            v = self.labels[start + t]
            expected[t * self.width + v] -= 1.0
            summed[before * n + v] -= 1.0
            if self.width > n and before < n:
                expected[t * self.width + n + before * n + v] -= 1.0
            before = v


cdef void replace(const double *source, Py_ssize_t n, double old, double new, double *target,
                  double *changes) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        changes[k] = new * source[k] - (old * target[k] if old else 0.0)
        target[k] = source[k]


def collect(AttributeRows table, const int64_t[::1] chosen, const int64_t[::1] offsets,
            const int64_t[::1] first_rows, const double[:, ::1] changes, double[:, :, ::1] sums):
    """Add to the sums what the changes at the positions of some pieces make of the features."""
    cdef Py_ssize_t k, i
    with nogil:
        for k in range(chosen.shape[0]):
            i = chosen[k]
            table.collect(first_rows[i], first_rows[i] + offsets[i + 1] - offsets[i],
                          &changes[offsets[i], 0], 1.0, weights_at(sums))


def bounds(const double[::1] sums, const double[::1] lows, const double[::1] highs, double scale,
           double most, Py_ssize_t first, Py_ssize_t last, double[::1] steps, double[::1] out):
    """Write the best steps of the features ``first`` to ``last - 1``, and their bounds."""
    if first < last:
        with nogil:
            bound_all(&sums[first], &lows[first], &highs[first], scale, most, last - first,
                      &steps[first], &out[first])


# Features by sequence: an entry is a feature's cell, an attribute at an offset, in a piece


def extremes(const int64_t[::1] starts, const int64_t[::1] positions, const double[::1] values,
             double[:, ::1] out):
    """How much entries can add up to.

    ``starts``, ``positions`` and ``values`` list the positions of each entry, ascending, and the
    attribute's values there. Each row of ``out`` receives the sum of the positive values, that of
    the negative ones, and the same of positions that are not neighbors, at their most extreme.
    """
    cdef Py_ssize_t e
    cdef int64_t k
    with nogil:
        for e in range(starts.shape[0] - 1):
            out[e, 0] = out[e, 1] = 0.0
            for k in range(starts[e], starts[e + 1]):
                out[e, values[k] < 0.0] += values[k]
            out[e, 2] = apart(positions, values, starts[e], starts[e + 1], 1.0)
            out[e, 3] = -apart(positions, values, starts[e], starts[e + 1], -1.0)


cdef double apart(const int64_t[::1] positions, const double[::1] values, int64_t start,
                  int64_t end, double sign) noexcept nogil:
    """The largest sum of values at positions no two of which are neighbors."""
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
    """Write the residuals of all features of some pieces, a row for each entry.

    ``of_piece`` says at which entry each piece starts; the others are as in `extremes`.
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
    # What a column of entries contributes to a bound.
    const int64_t *entries
    const int64_t *pieces        # the piece of each entry
    Py_ssize_t n
    const double *residuals      # of the first entry; `stride` leads to the next
    const double *lows
    const double *highs
    Py_ssize_t stride
    const double *scales         # of each piece, from residuals to means
    const double *shares         # of each piece in the loss


def entry_bounds(const int64_t[::1] starts, const int64_t[::1] entries,
                 const int64_t[::1] pieces, const double[:, ::1] residuals,
                 const double[:, ::1] lows, const double[:, ::1] highs, const double[::1] scales,
                 const double[::1] shares, double most, Py_ssize_t first, Py_ssize_t last,
                 double[:, ::1] steps, double[:, ::1] out):
    """Write the best steps of the features of the cells ``first`` to ``last - 1``, and the bounds.

    Here every piece has an interval of its own. ``starts`` and ``entries`` list the entries of each
    cell, ``pieces`` says which piece each entry is of; ``residuals``, ``lows`` and ``highs`` have a
    row for each entry. ``shares`` are the pieces' parts of the loss, ``scales`` turn residuals into
    parts of the mean.
    """
    cdef Py_ssize_t c, v
    cdef Terms terms
    terms.pieces, terms.stride = &pieces[0], residuals.shape[1]
    terms.scales, terms.shares = &scales[0], &shares[0]
    with nogil:
        for c in range(first, last):
            terms.entries, terms.n = &entries[0] + starts[c], starts[c + 1] - starts[c]
            for v in range(residuals.shape[1]):
                terms.residuals, terms.lows = &residuals[0, v], &lows[0, v]
                terms.highs = &highs[0, v]
                steps[c, v] = minimize(&terms, most, &out[c, v])


cdef double minimize(const Terms *terms, double most, double *bound) noexcept nogil:
    """The step with the smallest bound, by Newton's method between -most and most."""
    cdef double lowest = -most, highest = most, step = 0.0, ahead
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
        if fabs(ahead - step) <= 1e-9 * most:
            break
        step = ahead
    bound[0] = 1.0 + curve.value
    return step


cdef Curve curve_at(const Terms *terms, double step) noexcept nogil:
    """What the bound is above 1, and its derivatives."""
    cdef Py_ssize_t j, e
    cdef double low, high, mean, share, under, over
    cdef Curve curve
    curve.value = curve.slope = curve.curvature = 0.0
    for j in range(terms.n):
        e = terms.entries[j]
        low, high = terms.lows[e * terms.stride], terms.highs[e * terms.stride]
        if high - low <= 0.0:
            continue
        share = terms.shares[terms.pieces[e]]
        mean = terms.residuals[e * terms.stride] * terms.scales[terms.pieces[e]]
        over = min(max((mean - share * low) / (high - low), 0.0), share)
        under = share - over
        curve.value -= share
        under = under * exp(step * low) if under > 0.0 else 0.0
        over = over * exp(step * high) if over > 0.0 else 0.0
        curve.value += under + over
        curve.slope += under * low + over * high
        curve.curvature += under * low * low + over * high * high
    return curve
