"""Block-coordinate Frank-Wolfe for the maximum margin of label sequences.

The learner finds a short vector w that gives true label sequences higher scores than others. Its
dual has a block for each training sequence: a distribution over that sequence's label sequences.
Scores depend on a block only through its marginals, the expected number of each label at each
position and of each pair of labels in the sequence. They are stored as *deltas*: the counts of the
true labels minus the expected counts, times the cost of the sequence. The block's part of w is the
features times the deltas, so that attributes and kernels differ only in how scores follow from
deltas.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from treecrf.learners.linear._linear cimport add_block
from treecrf.learners.structured._examples cimport (
    AttributeRows, LabeledChains, Scratch, weights_at,
)

import numpy as np


cdef struct Violation:
    # How far a block is from its optimum.
    double inner                 # product of w and the block's part of w
    double hinge                 # margin violation of the worst label sequence
    double loss                  # number of wrong labels in that sequence


cdef class DualState:
    """Dual variables and the weights that follow from them; subclasses compute the scores.

    The arrays of ``dual`` and ``transitions`` are changed in place.
    """

    cdef LabeledChains chains
    cdef const double[::1] costs            # of the hinge loss of each sequence
    cdef double[:, ::1] transitions, deltas
    cdef double[:, :, ::1] pairs
    cdef double[::1] losses
    cdef Py_ssize_t width

    def __init__(self, LabeledChains chains, costs, dual, transitions):
        self.chains = chains
        self.costs = costs
        self.transitions = transitions
        self.deltas, self.pairs, self.losses = dual.deltas, dual.pairs, dual.losses
        self.width = dual.deltas.shape[1]

    # Implemented by subclasses

    cdef void score(self, Py_ssize_t i, double *rows) noexcept nogil:
        """Write the scores of a sequence, without transitions."""

    cdef double square(self, Py_ssize_t i, const double *direction) noexcept nogil:
        """Return the squared length in w of a direction of the deltas; call before each `move`."""
        return 0.0

    cdef void move(self, Py_ssize_t i, const double *direction, double step) noexcept nogil:
        """Take a step in the direction that `square` was called with."""

    # Training

    def run(self, const int64_t[::1] order, double[::1] gaps, DualState late, double n_before):
        """Take one step in each of some blocks, after ``n_before`` steps.

        ``gaps`` receives each block's part of the duality gap before its step. The deltas, pairs
        and losses of ``late`` receive the change in the j-th step times j (j - 1) / 2. After n
        steps, the dual variables minus 2 / (n (n + 1)) times these are the mean over all steps, in
        which step j has weight j.
        """
        cdef Scratch scratch = self.chains.open(self.width)
        cdef Violation found
        cdef double step
        cdef Py_ssize_t i, k, n = self.transitions.shape[1]
        cdef double[:, ::1] changes = np.empty((n + 1, n))
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                found = self.violation(i, &scratch)
                gaps[i] = self.costs[i] * found.hinge - (self.losses[i] - found.inner)
                if gaps[i] <= 0.0:
                    continue
                self.set_direction(i, scratch.path, scratch.deltas, &changes[0, 0])
                step = self.square(i, scratch.deltas)
                step += product(&changes[0, 0], &changes[0, 0], (n + 1) * n)
                step = gaps[i] / step if step > gaps[i] else 1.0
                self.move(i, scratch.deltas, step)
                add_block(&self.transitions[0, 0], &changes[0, 0], step, (n + 1) * n)
                found.loss = self.costs[i] * found.loss - self.losses[i]
                self.add(i, scratch.deltas, &changes[0, 0], found.loss, step)
                if late is not None:
                    step *= 0.5 * (n_before + k) * (n_before + k + 1)
                    late.add(i, scratch.deltas, &changes[0, 0], found.loss, step)
            self.chains.close(&scratch)

    def measure(self, Py_ssize_t first, Py_ssize_t last, double[::1] inner, double[::1] hinges):
        """Write the product of w with each block's part of w, and each sequence's hinge loss."""
        cdef Scratch scratch = self.chains.open(self.width)
        cdef Violation found
        cdef Py_ssize_t i
        with nogil:
            for i in range(first, last):
                found = self.violation(i, &scratch)
                inner[i] = found.inner
                hinges[i] = found.hinge
            self.chains.close(&scratch)

    cdef Violation violation(self, Py_ssize_t i, Scratch *scratch) noexcept nogil:
        """Find the label sequence with the highest score plus loss; it is in ``scratch.path``."""
        cdef Violation found
        cdef Py_ssize_t start = self.chains.offsets[i], length = self.chains.length(i)
        cdef Py_ssize_t size = self.transitions.shape[0] * self.transitions.shape[1]
        self.score(i, scratch.rows)
        found.inner = product(scratch.rows, &self.deltas[start, 0], length * self.width)
        found.inner += product(&self.transitions[0, 0], &self.pairs[i, 0, 0], size)
        found.hinge = -self.chains.true_score(i, self.width, scratch.rows, &self.transitions[0, 0])
        self.chains.add_losses(i, self.width, scratch.rows)
        found.hinge += self.chains.decode(i, self.width, &self.transitions[0, 0], scratch)
        found.loss = self.chains.n_mistakes(i, scratch.path)
        return found

    cdef void set_direction(self, Py_ssize_t i, const int32_t *path, double *direction,
                            double *changes) noexcept nogil:
        """Write the direction from a block's deltas to a label sequence, and that of its pairs."""
        cdef Py_ssize_t start = self.chains.offsets[i], length = self.chains.length(i)
        cdef Py_ssize_t size = self.pairs.shape[1] * self.pairs.shape[2]
        memset(direction, 0, length * self.width * sizeof(double))
        memset(changes, 0, size * sizeof(double))
        self.chains.add_indicators(i, self.width, self.chains.truth(i), self.costs[i], direction,
                                   changes)
        self.chains.add_indicators(i, self.width, path, -self.costs[i], direction, changes)
        add_block(direction, &self.deltas[start, 0], -1.0, length * self.width)
        add_block(changes, &self.pairs[i, 0, 0], -1.0, size)

    cdef void add(self, Py_ssize_t i, const double *direction, const double *changes, double loss,
                  double step) noexcept nogil:
        """Add a step to the dual variables of a block."""
        cdef Py_ssize_t start = self.chains.offsets[i], length = self.chains.length(i)
        add_block(&self.deltas[start, 0], direction, step, length * self.width)
        add_block(&self.pairs[i, 0, 0], changes, step, self.pairs.shape[1] * self.pairs.shape[2])
        self.losses[i] += step * loss


cdef class LinearDualState(DualState):
    """Dual variables whose scores are sums of attributes times weights, changed in place."""

    cdef AttributeRows rows
    cdef double[:, :, ::1] weights, ahead
    cdef double[:, ::1] scores

    def __init__(self, LabeledChains chains, costs, dual, AttributeRows rows, weights):
        super().__init__(chains, costs, dual, weights.transitions)
        self.rows = rows
        self.weights = weights.attributes
        # The direction as a change of the weights; 0 between steps.
        self.ahead = np.zeros_like(weights.attributes)
        self.scores = np.empty((chains.longest, self.width))

    cdef void score(self, Py_ssize_t i, double *rows) noexcept nogil:
        self.rows.score(i, self.chains.length(i), weights_at(self.weights), rows)

    cdef double square(self, Py_ssize_t i, const double *direction) noexcept nogil:
        cdef Py_ssize_t length = self.chains.length(i)
        cdef double *scores = &self.scores[0, 0]
        self.rows.collect(i, length, direction, weights_at(self.ahead))
        self.rows.score(i, length, weights_at(self.ahead), scores)
        return product(scores, direction, length * self.width)

    cdef void move(self, Py_ssize_t i, const double *direction, double step) noexcept nogil:
        self.rows.move(i, self.chains.length(i), step, weights_at(self.ahead),
                       weights_at(self.weights))


cdef class KernelDualState(DualState):
    """Dual variables whose scores are sums over all inputs of the kernel times deltas."""

    cdef const int64_t[::1] inputs          # index of the distinct input of each position
    cdef const double[:, ::1] gram          # kernel of all pairs of distinct inputs
    cdef double[:, ::1] scores              # [label, input], changed in place

    def __init__(self, LabeledChains chains, costs, dual, transitions, inputs, gram, scores):
        super().__init__(chains, costs, dual, transitions)
        self.inputs = inputs
        self.gram = gram
        self.scores = scores

    cdef void score(self, Py_ssize_t i, double *rows) noexcept nogil:
        cdef Py_ssize_t t, v, start = self.chains.offsets[i]
        for t in range(self.chains.length(i)):
            for v in range(self.width):
                rows[t * self.width + v] = self.scores[v, self.inputs[start + t]]

    cdef double square(self, Py_ssize_t i, const double *direction) noexcept nogil:
        cdef Py_ssize_t s, t, start = self.chains.offsets[i]
        cdef double both, total = 0.0
        for t in range(self.chains.length(i)):
            for s in range(t + 1):
                both = product(direction + s * self.width, direction + t * self.width, self.width)
                if both != 0.0:
                    both *= self.gram[self.inputs[start + t], self.inputs[start + s]]
                    total += both if s == t else 2.0 * both
        return total

    cdef void move(self, Py_ssize_t i, const double *direction, double step) noexcept nogil:
        cdef Py_ssize_t t, v, start = self.chains.offsets[i]
        for t in range(self.chains.length(i)):
            for v in range(self.width):
                if direction[t * self.width + v] != 0.0:
                    add_block(&self.scores[v, 0], &self.gram[self.inputs[start + t], 0],
                              step * direction[t * self.width + v], self.gram.shape[0])


cdef double product(const double *a, const double *b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    cdef double total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total
