"""Chains of labels whose transitions have the same scores at all positions.

Linear models without transition features need no more than this. Inference is several times faster
than the general one of `treecrf._inference`. Scores come in rows, one per position.

A stochastic gradient step costs time in proportion to the attributes of one sequence. The L2
penalty multiplies all weights at each step, so the weights are stored without the product of these
factors.
"""

import numpy as np

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from treecrf.chains._memory cimport longest_of
from treecrf.utils._vector_math cimport exp_below, exp_of, largest, log_in_place

cdef extern from "utils/hashing.h" nogil:
    uint64_t mixed_with(uint64_t hash, uint64_t part)

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
    void best_sums(const double *rows, Py_ssize_t length, const double *transitions, double *best,
                   Py_ssize_t n_labels)

cdef extern from "learners/linear/linear.h" nogil:
    ctypedef struct sparse_rows "struct sparse_rows":
        const int64_t *starts
        const int32_t *attributes
        const double *values
        const double *rates
        Py_ssize_t left
        Py_ssize_t right
        Py_ssize_t n_labels
        float *blocks
        double *bases
        double log_decay

    void gather_scores(const sparse_rows *rows, Py_ssize_t first, Py_ssize_t length, float *scores)
    void scatter_steps(sparse_rows *rows, Py_ssize_t first, Py_ssize_t length, const float *steps,
                       const char *has_step)


cdef struct Scratch:
    # Memory for the inference of one sequence after the other.
    Py_ssize_t n_labels
    # Whether the range of the transitions is small enough for sums of exponentials.
    bint near
    # [label, next label]: the transitions relative to the highest one.
    double *scores
    # Their exponentials.
    double *factors
    # Sums over positions; times the factors they are the expected transitions.
    double *pairs
    # Expected transitions of the sequences that need logarithms.
    double *expected
    # [position, label]: what the forward pass leaves to the backward pass.
    double *forward
    # [position, label]: scores of the sequence, given its known labels.
    double *known
    # Factor of each position in the forward pass.
    double *scale
    # Two rows of labels.
    double *work
    # The start of all these arrays, to be freed.
    double *memory


cdef Scratch open_scratch(const double[:, ::1] transitions, const int64_t[::1] offsets,
                          Py_ssize_t first, Py_ssize_t last) except *:
    """Allocate memory for a range of sequences, and set the transitions."""
    cdef Scratch s = scratch_for(transitions.shape[1], longest_of(offsets, first, last))
    fill_transitions(&s, transitions)
    return s


cdef Scratch scratch_for(Py_ssize_t n, Py_ssize_t longest) except *:
    """Allocate memory for sequences of up to ``longest`` positions."""
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
    cdef Scratch known = s[0]
    known.pairs = s.expected + s.n_labels * s.n_labels
    known.expected = known.pairs + s.n_labels * s.n_labels
    clear_expected(&known)
    return known


cdef void clear_expected(Scratch *s) noexcept nogil:
    """Set the expected transitions to 0."""
    memset(s.pairs, 0, 2 * s.n_labels * s.n_labels * sizeof(double))


cdef void fill_transitions(Scratch *s, const double[:, ::1] transitions) noexcept nogil:
    """Set the transitions, (n_labels + 1, n_labels); the last row is for first positions."""
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
    """Write scores where the mask is not 0, and minus infinity elsewhere; return their number."""
    cdef Py_ssize_t k, n_allowed = 0
    for k in range(size):
        out[k] = rows[k] if mask[k] else -INFINITY
        n_allowed += mask[k]
    return n_allowed


cdef void add_start(double *row, const double[:, ::1] transitions) noexcept nogil:
    """Add the scores of first positions to the first row of a sequence."""
    cdef Py_ssize_t v, n = transitions.shape[1]
    for v in range(n):
        row[v] += transitions[n, v]


cdef bint forward(Scratch *s, double *rows, const int32_t *labels, Py_ssize_t length,
                  double *log_likelihood) noexcept nogil:
    """Forward pass, and log P of the labels if they are given.

    Returns whether it needed no logarithms; the rows are then exponentials.
    """
    cdef bint near = level_rows(rows, length, s.n_labels) and s.near
    cdef double score = 0.0, log_z = -INFINITY
    if labels != NULL:
        score = path_score(s, rows, labels, length)
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


cdef void backward(const Scratch *s, double *rows, Py_ssize_t length, double weight,
                   bint near) noexcept nogil:
    """Replace what `forward` left in the rows by -weight * P(label); add expected transitions."""
    if near:
        backward_chain(rows, length, s.factors, s.n_labels, s.forward, s.scale, weight, s.pairs,
                       s.work)
    else:
        log_backward_chain(rows, length, s.scores, s.n_labels, s.forward, weight, s.expected,
                           s.work)


cdef void add_indicators(double *rows, const int32_t *labels, Py_ssize_t length, double weight,
                         double[:, ::1] summed) noexcept nogil:
    """Add the weight of the labels to rows, and of true transitions and the start to ``summed``."""
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
    """Replace the scores of a sequence by weight * (I(label) - P(label)); return log P(labels).

    The expected transitions are added to those of ``s``, and the true ones and the first position
    to ``summed``, which has the shape of the transitions.
    """
    cdef double log_likelihood
    add_start(rows, transitions)
    backward(s, rows, length, weight, forward(s, rows, labels, length, &log_likelihood))
    add_indicators(rows, labels, length, weight, summed)
    return log_likelihood


cdef void subtract_expected(const Scratch *s, double[:, ::1] summed) noexcept nogil:
    """Subtract the expected transitions."""
    cdef Py_ssize_t i
    for i in range(s.n_labels * s.n_labels):
        if s.factors[i] > 0.0:  # the sums of forbidden transitions may overflow
            (&summed[0, 0])[i] -= s.pairs[i] * s.factors[i]
        (&summed[0, 0])[i] -= s.expected[i]


cdef class StateChains:
    """Sequences of rows of scores; forbidden labels and transitions have the score -inf.

    The masks of labels are as from `TrainingData.masks`. Where several labels are candidates,
    results are conditional on the candidates, see `treecrf.chains.partial_labels`.

    The methods work on the sequences ``first`` to ``last - 1``, release the global interpreter lock
    and write only to what belongs to these sequences.
    """

    cdef const int64_t[::1] offsets
    # Row of the first position of each sequence.
    cdef const int64_t[::1] first_rows
    # The true labels of all positions, which `marginals` does not need.
    cdef const int32_t[::1] labels
    # [position, label]; None without a mask.
    cdef const uint8_t[:, ::1] allowed
    cdef const uint8_t[:, ::1] candidates

    def __init__(self, offsets, first_rows, labels=None, allowed=None, candidates=None):
        self.offsets = offsets
        self.first_rows = first_rows
        self.labels = labels
        self.allowed = allowed
        self.candidates = candidates

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
        cdef Scratch known = scratch_given_known(&s)
        cdef double[:, ::1] summed_known = np.zeros((s.n_labels + 1, s.n_labels))
        cdef Py_ssize_t i, k, length
        cdef const int32_t *labels
        cdef double *row
        cdef bint some_unknown
        with nogil:
            summed[:, :] = 0.0
            for i in range(first, last):
                row = &rows[self.first_rows[i], 0]
                labels = &self.labels[self.offsets[i]]
                length = self.offsets[i + 1] - self.offsets[i]
                some_unknown = self.constrain(i, row, s.n_labels, s.known)
                out[i] = fill_residuals(&s, row, transitions, labels, length, weights[i], summed)
                if some_unknown:
                    out[i] -= fill_residuals(&known, s.known, transitions, labels, length,
                                             weights[i], summed_known)
                    for k in range(length * s.n_labels):
                        row[k] -= s.known[k]
                if i + 1 < last:
                    rows[self.first_rows[i] + length : self.first_rows[i + 1]] = 0.0
            subtract_expected(&s, summed)
            if self.candidates is not None:
                subtract_expected(&known, summed_known)
                for k in range((s.n_labels + 1) * s.n_labels):
                    (&summed[0, 0])[k] -= (&summed_known[0, 0])[k]
            free(s.memory)

    def marginals(self, double[:, ::1] rows, const double[:, ::1] transitions, Py_ssize_t first,
                  Py_ssize_t last):
        """Replace scores by the probabilities of the labels at each position."""
        cdef Scratch s = open_scratch(transitions, self.offsets, first, last)
        cdef Py_ssize_t i, length
        cdef double unused
        cdef double *row
        with nogil:
            for i in range(first, last):
                row = &rows[self.first_rows[i], 0]
                length = self.offsets[i + 1] - self.offsets[i]
                add_start(row, transitions)
                backward(&s, row, length, -1.0, forward(&s, row, NULL, length, &unused))
            free(s.memory)

    def best_codes(self, const double[:, ::1] rows, const double[:, ::1] transitions,
                   Py_ssize_t first, Py_ssize_t last, int32_t[::1] out):
        """Write the label sequences with the highest scores.

        They are those of `treecrf.chains._decode.viterbi`, also where several have the same score.
        """
        cdef Py_ssize_t i, length, n_labels = transitions.shape[1]
        cdef Py_ssize_t longest = longest_of(self.offsets, first, last)
        cdef double *best = <double *> malloc(longest * n_labels * sizeof(double))
        cdef const double *row
        if best == NULL:
            raise MemoryError(f"no memory to decode a sequence of {longest} positions")
        with nogil:
            for i in range(first, last):
                row = &rows[self.first_rows[i], 0]
                length = self.offsets[i + 1] - self.offsets[i]
                best_sums(row, length, &transitions[0, 0], best, n_labels)
                follow_back(row, length, transitions, best, &out[self.offsets[i]])
            free(best)


cdef void follow_back(const double *rows, Py_ssize_t length, const double[:, ::1] transitions,
                      const double *best, int32_t *out) noexcept nogil:
    """Write the labels of the best sequence, from the highest sums up to each label.

    The label before a position is the first one whose sum and score give the sum after it.
    """
    cdef Py_ssize_t t, u, v = 0, n = transitions.shape[1]
    cdef const double *now = best + (length - 1) * n
    cdef double score
    for u in range(1, n):
        if now[u] > now[v]:
            v = u
    out[length - 1] = <int32_t> v
    for t in range(length - 1, 0, -1):
        score = rows[t * n + v]
        u = 0
        while now[u - n] + (score + transitions[u, v]) < now[v]:
            u += 1
        now -= n
        v = u
        out[t - 1] = <int32_t> v


# Stochastic gradient steps


cdef class LinearSteps:
    """Weights of a linear chain, and the steps that change them.

    ``blocks`` and ``transitions`` are changed.
    """

    # Attributes of all rows, see `sparse_rows`.
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] attributes
    cdef const double[::1] values
    # The sequences: their offsets, the row of the first position of each, and their weights.
    cdef const int64_t[::1] offsets
    cdef const int64_t[::1] first_rows
    cdef const double[::1] weights
    # Labels of all positions.
    cdef const int32_t[::1] codes
    # Factor of the penalty on the weights of each attribute.
    cdef const double[::1] rates
    # [attribute, offset, label]: weights before they are multiplied, see `sparse_rows`.
    cdef float[:, :, ::1] blocks
    cdef double[::1] bases
    # [previous label, label]: weights, with those of first positions in the last row.
    cdef double[:, ::1] transitions
    # Minus infinity for forbidden transitions, 0 for the others.
    cdef const double[:, ::1] barriers
    # [position, label]: masks as in `StateChains`.
    cdef const uint8_t[:, ::1] allowed
    cdef const uint8_t[:, ::1] candidates
    # Pointers to the arrays above.
    cdef sparse_rows rows

    def __init__(self, by_row, window, offsets, first_rows, codes, weights, rates, blocks,
                 transitions, barriers, allowed, candidates=None):
        self.starts, self.attributes, self.values = by_row
        self.offsets = offsets
        self.first_rows = first_rows
        self.codes = codes
        self.weights = weights
        self.rates = rates
        self.blocks = blocks
        self.bases = rates * 0.0
        self.transitions = transitions
        self.barriers = barriers
        self.allowed = allowed
        self.candidates = candidates
        self.rows.starts = &self.starts[0]
        self.rows.attributes = &self.attributes[0] if self.attributes.shape[0] else NULL
        self.rows.values = &self.values[0] if self.values.shape[0] else NULL
        self.rows.rates = &self.rates[0] if self.rates.shape[0] else NULL
        self.rows.bases = &self.bases[0] if self.bases.shape[0] else NULL
        self.rows.blocks = &self.blocks[0, 0, 0] if self.blocks.shape[0] else NULL
        self.rows.left, self.rows.right = window
        self.rows.n_labels = self.transitions.shape[1]
        self.rows.log_decay = 0.0

    def keys(self):
        """Return a hash of each sequence's attributes and labels; uint64 array."""
        out = np.zeros(self.first_rows.shape[0], dtype=np.uint64)
        cdef uint64_t[::1] hashes = out
        cdef Py_ssize_t i, t, v, row
        cdef int64_t k
        cdef uint64_t key, bits
        for i in range(self.first_rows.shape[0]):
            key = 0
            for t in range(self.offsets[i], self.offsets[i + 1]):
                row = self.first_rows[i] + t - self.offsets[i]
                key = mixed_with(key, self.codes[t])
                if self.candidates is not None:
                    for v in range(self.candidates.shape[1]):
                        key = mixed_with(key, self.candidates[t, v])
                for k in range(self.starts[row], self.starts[row + 1]):
                    memcpy(&bits, &self.values[k], sizeof(bits))
                    key = mixed_with(mixed_with(key, self.attributes[k]), bits)
            hashes[i] = mixed_with(key, self.offsets[i + 1] - self.offsets[i])
        return out

    def run(self, const int64_t[::1] order, const uint64_t[::1] numbers, const double[::1] sizes,
            double decay, double smallest, double[::1] out):
        """Make a step for each of some sequences.

        ``order`` holds the sequences in the order of the steps, ``sizes`` the sizes of the steps,
        and ``numbers`` a random number for each sequence. A step of size s multiplies the weights
        by exp(-s * decay). If all residuals of a position are smaller than ``smallest``, the
        position has a step with a probability in proportion to the largest one, and its residuals
        are divided by this probability: its expected step is then the same. ``out`` receives
        log P(labels) of each sequence before its step.
        """
        cdef Py_ssize_t j, i, longest = 1, n = self.transitions.shape[1]
        cdef double[:, ::1] summed, limited
        for j in range(order.shape[0]):
            longest = max(longest, self.offsets[order[j] + 1] - self.offsets[order[j]])
        summed = np.zeros((n + 1, n))
        limited = np.zeros((n + 1, n))
        cdef double[::1] doubles = np.empty(longest * n)
        cdef float[::1] floats = np.empty(longest * n, dtype=np.float32)
        cdef char[::1] has_step = np.empty(longest, dtype=np.int8)
        cdef Scratch s = scratch_for(n, longest)
        with nogil:
            for j in range(order.shape[0]):
                i = order[j]
                out[i] = self._step(&s, i, sizes[j], decay, smallest, numbers[i],
                                    summed, limited, &doubles[0], &floats[0], &has_step[0])
            free(s.memory)

    cdef double _step(self, Scratch *s, Py_ssize_t i, double size,
                      double decay, double smallest, uint64_t number, double[:, ::1] summed,
                      double[:, ::1] limited, double *residuals, float *steps,
                      char *has_step) noexcept nogil:
        """Make a step for sequence i; return log P(labels) before it.

        The arrays are memory: for the derivatives and the scores of transitions, the residuals of
        the positions, their steps, and whether they have one.
        """
        cdef Py_ssize_t k, n = self.rows.n_labels, start = self.offsets[i]
        cdef Py_ssize_t length = self.offsets[i + 1] - start, n_possible = 0
        cdef double log_likelihood, factor
        gather_scores(&self.rows, self.first_rows[i], length, steps)
        for k in range(length * n):
            residuals[k] = steps[k]
        if self.allowed is not None:
            keep_where(residuals, &self.allowed[start, 0], length * n, residuals)
        for k in range((n + 1) * n):
            (&limited[0, 0])[k] = (&self.transitions[0, 0])[k] + (&self.barriers[0, 0])[k]
        fill_transitions(s, limited)
        clear_expected(s)
        summed[:, :] = 0.0
        if self.candidates is not None:
            n_possible = keep_where(residuals, &self.candidates[start, 0], length * n, s.known)
        log_likelihood = fill_residuals(s, residuals, limited, &self.codes[start], length,
                                        self.weights[i], summed)
        if n_possible > length:  # some labels are unknown
            # Subtract the residuals given the known labels.
            log_likelihood -= fill_residuals(s, s.known, limited, &self.codes[start], length,
                                             -self.weights[i], summed)
            for k in range(length * n):
                residuals[k] += s.known[k]
        subtract_expected(s, summed)
        self.rows.log_decay -= size * decay
        factor = exp_of(-size * decay)
        for k in range((n + 1) * n):
            (&self.transitions[0, 0])[k] *= factor
            (&self.transitions[0, 0])[k] += size * (&summed[0, 0])[k]
        for k in range(length):
            number = mixed_with(number, k)
            has_step[k] = fill_steps(residuals + k * n, n, size, smallest * self.weights[i],
                                     number, steps + k * n)
        scatter_steps(&self.rows, self.first_rows[i], length, steps, has_step)
        return log_likelihood

    def settle(self):
        """Multiply the stored weights by their factors, so that ``blocks`` holds the weights."""
        factors = np.exp(np.asarray(self.rates) * (self.rows.log_decay - np.asarray(self.bases)))
        blocks = np.asarray(self.blocks)
        blocks *= factors.astype(np.float32)[:, None, None]
        self.bases[:] = 0.0
        self.rows.log_decay = 0.0


cdef bint fill_steps(const double *residuals, Py_ssize_t n, double size, double smallest,
                     uint64_t number, float *steps) noexcept nogil:
    """Fill in the step of a position; returns whether it has one."""
    cdef Py_ssize_t v
    cdef double highest = 0.0
    for v in range(n):
        highest = max(highest, fabs(residuals[v]))
    if highest < smallest:
        if (number >> 11) * 2.0 ** -53 * smallest >= highest:
            for v in range(n):
                steps[v] = 0.0
            return False
        size *= smallest / highest
    for v in range(n):
        steps[v] = <float> (size * residuals[v])
    return True
