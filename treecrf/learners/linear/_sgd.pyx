"""Stochastic gradient steps of a linear chain without transition features.

A step costs time in proportion to the attributes of one sequence. The L2 penalty multiplies all
weights at each step, so the weights are stored without the product of these factors.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from treecrf.learners.linear._linear_chain cimport (
    Scratch,
    clear_expected,
    fill_residuals,
    fill_transitions,
    keep_where,
    scratch_for,
    subtract_expected,
)

cdef extern from "utils/hashing.h" nogil:
    uint64_t mixed_with(uint64_t hash, uint64_t part)

cdef extern from "learners/linear/sgd.h" nogil:
    ctypedef struct sparse_rows "struct sparse_rows":
        const int64_t *starts
        const int32_t *attributes
        const double *values
        const double *rates
        Py_ssize_t left, right, n_labels
        float *blocks
        double *bases
        double log_decay

    void gather_scores(const sparse_rows *rows, Py_ssize_t first, Py_ssize_t length, float *scores)
    void scatter_steps(sparse_rows *rows, Py_ssize_t first, Py_ssize_t length, const float *steps,
                       const char *kept)
    double exp_of(double x)


cdef class StepSizes:
    """Step sizes that fall from ``first`` in proportion to 1 / (1 + first * slope * step)."""

    cdef readonly double first, slope
    cdef readonly int64_t n_done

    def __init__(self, double first, double slope):
        self.first = first
        self.slope = slope
        self.n_done = 0

    cdef double next(self) noexcept nogil:
        cdef double size = self.first / (1.0 + self.first * self.slope * self.n_done)
        self.n_done += 1
        return size


cdef class LinearSteps:
    """Weights of a linear chain, and the steps that change them.

    ``blocks`` and ``transitions`` are changed.
    """

    cdef const int64_t[::1] starts, offsets, first_rows
    cdef const int32_t[::1] attributes, codes
    cdef const double[::1] values
    cdef const double[::1] weights          # of sequences
    cdef const double[::1] rates            # factors of the penalty on the weights of an attribute
    cdef float[:, :, ::1] blocks            # weights [attribute, offset, label]
    cdef double[::1] bases
    cdef double[:, ::1] transitions
    cdef const double[:, ::1] barriers      # -inf for forbidden transitions, else 0
    cdef const uint8_t[:, ::1] allowed, candidates
    cdef sparse_rows rows                   # pointers to the arrays above

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
        cdef uint64_t[::1] found = out
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
            found[i] = mixed_with(key, self.offsets[i + 1] - self.offsets[i])
        return out

    def run(self, const int64_t[::1] order, const uint64_t[::1] numbers, StepSizes sizes,
            double decay, double smallest, double[::1] out):
        """Make a step for each of some sequences.

        ``order`` holds the sequences in the order of the steps, and ``numbers`` a random number for
        each sequence. A step of size s multiplies the weights by exp(-s * decay). If all residuals
        of a position are smaller than ``smallest``, the position is kept with a probability in
        proportion to the largest one, and its residuals are divided by this probability: its
        expected step is then the same. ``out`` receives log P(labels) of each sequence before its
        step.
        """
        cdef Py_ssize_t j, i, longest = 1, n = self.transitions.shape[1]
        cdef double[:, ::1] summed, limited
        for j in range(order.shape[0]):
            longest = max(longest, self.offsets[order[j] + 1] - self.offsets[order[j]])
        summed = np.zeros((n + 1, n))
        limited = np.zeros((n + 1, n))
        cdef double[::1] doubles = np.empty(longest * n)
        cdef float[::1] floats = np.empty(longest * n, dtype=np.float32)
        cdef char[::1] kept = np.empty(longest, dtype=np.int8)
        cdef Scratch s = scratch_for(n, longest)
        with nogil:
            for j in range(order.shape[0]):
                i = order[j]
                out[i] = self._step(&s, i, sizes.next(), decay, smallest, numbers[i],
                                    summed, limited, &doubles[0], &floats[0], &kept[0])
            free(s.memory)

    cdef double _step(self, Scratch *s, Py_ssize_t i, double size,
                      double decay, double smallest, uint64_t number, double[:, ::1] summed,
                      double[:, ::1] limited, double *residuals, float *steps,
                      char *kept) noexcept nogil:
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
            kept[k] = fill_steps(residuals + k * n, n, size, smallest * self.weights[i], number,
                                 steps + k * n)
        scatter_steps(&self.rows, self.first_rows[i], length, steps, kept)
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
    cdef double largest = 0.0
    for v in range(n):
        largest = max(largest, fabs(residuals[v]))
    if largest < smallest:
        if (number >> 11) * 2.0 ** -53 * smallest >= largest:
            for v in range(n):
                steps[v] = 0.0
            return False
        size *= smallest / largest
    for v in range(n):
        steps[v] = <float> (size * residuals[v])
    return True
