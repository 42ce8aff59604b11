"""Block-coordinate Frank-Wolfe for the maximum margin of label sequences.

What is learned is a vector w that is small and gives true label sequences higher scores than
others. Its dual has a distribution over the label sequences of each training sequence, a block. All
that the scores know of a block are its marginals: how often each label is at each position, and
each pair of labels in the sequence. They are kept as *deltas*, how much the true labels have more
than the distribution, times the cost of the sequence. The block's part of w is the features times
the deltas, so that attributes and kernels of inputs differ only in how scores come from deltas.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from treecrf.learners.structured._attribute_rows cimport AttributeRows, weights_at
from treecrf.learners.structured._labeled_chains cimport LabeledChains, Scratch

import numpy as np

cdef extern from "learners/linear/linear.h" nogil:
    void add_block(double *target, const double *source, double x, Py_ssize_t n)


cdef struct Oracle:
    # What a block has to gain.
    double inner                 # product of w and the block's part of it
    double hinge                 # by how much the best wrong labels, with their loss, are ahead
    double loss                  # number of labels that these have wrong


cdef class DualState:
    """The dual variables and what follows from them. A subclass says how scores come about.

    Parameters
    ----------
    chains : LabeledChains
    costs : float64 array (n_sequences,)
        What each sequence's hinge loss costs.
    transitions : float64 array (n_labels + 1, n_labels)
        Weights of the transitions.
    deltas : float64 array (n_positions, width)
    pairs : float64 array (n_sequences, n_labels + 1, n_labels)
        Deltas of the transitions.
    losses : float64 array (n_sequences,)
        Expected loss of each block, times its cost.

    Notes
    -----
    All but the first two are changed in place.
    """

    cdef LabeledChains chains
    cdef const double[::1] costs
    cdef double[:, ::1] transitions, deltas
    cdef double[:, :, ::1] pairs
    cdef double[::1] losses
    cdef Py_ssize_t width

    def __init__(self, LabeledChains chains, costs, transitions, deltas, pairs, losses):
        self.chains = chains
        self.costs = costs
        self.transitions = transitions
        self.deltas = deltas
        self.pairs = pairs
        self.losses = losses
        self.width = deltas.shape[1]

    # What a subclass provides

    cdef void score(self, Py_ssize_t i, double *rows) noexcept nogil:
        """Write the scores of a sequence, without transitions."""

    cdef double square(self, Py_ssize_t i, const double *direction) noexcept nogil:
        """Squared length of what a direction of the deltas is in w; a call before `move`."""
        return 0.0

    cdef void move(self, Py_ssize_t i, const double *direction, double step) noexcept nogil:
        """Go a step in the direction that `square` was called with."""

    # Training

    def run(self, const int64_t[::1] order, double[::1] gaps, DualState late, double n_before):
        """Take one step in each of some blocks.

        Parameters
        ----------
        order : the sequences, as they are to come
        gaps : (n_sequences,)
            Receives each block's part of the duality gap before its step.
        late : DualState or None
            Its deltas, pairs and losses receive the changes of the j-th step times j (j - 1) / 2:
            with n steps done, the difference to 2 / (n (n + 1)) times these is the mean of the
            dual variables after all steps, weighted by the number of the step.
        n_before : float
            Number of steps before these.
        """
        cdef Scratch scratch = self.chains.open(self.width)
        cdef Oracle oracle
        cdef double step
        cdef Py_ssize_t i, k, n = self.transitions.shape[1]
        cdef double[:, ::1] changes = np.empty((n + 1, n))
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                oracle = self.ask(i, &scratch)
                gaps[i] = self.costs[i] * oracle.hinge - (self.losses[i] - oracle.inner)
                if gaps[i] <= 0.0:
                    continue
                self.point(i, scratch.path, scratch.deltas, &changes[0, 0])
                step = self.square(i, scratch.deltas) + square_of(&changes[0, 0], (n + 1) * n)
                step = gaps[i] / step if step > gaps[i] else 1.0
                self.move(i, scratch.deltas, step)
                add_block(&self.transitions[0, 0], &changes[0, 0], step, (n + 1) * n)
                oracle.loss = self.costs[i] * oracle.loss - self.losses[i]
                self.add(i, scratch.deltas, &changes[0, 0], oracle.loss, step)
                if late is not None:
                    step *= 0.5 * (n_before + k) * (n_before + k + 1)
                    late.add(i, scratch.deltas, &changes[0, 0], oracle.loss, step)
            self.chains.close(&scratch)

    def measure(self, Py_ssize_t first, Py_ssize_t last, double[::1] inner, double[::1] hinges):
        """Write the product of w with each block's part of it, and each sequence's hinge loss."""
        cdef Scratch scratch = self.chains.open(self.width)
        cdef Oracle oracle
        cdef Py_ssize_t i
        with nogil:
            for i in range(first, last):
                oracle = self.ask(i, &scratch)
                inner[i] = oracle.inner
                hinges[i] = oracle.hinge
            self.chains.close(&scratch)

    cdef Oracle ask(self, Py_ssize_t i, Scratch *scratch) noexcept nogil:
        """Find the labels that are most ahead, with their loss; they are in ``scratch.path``."""
        cdef Oracle found
        cdef Py_ssize_t start = self.chains.offsets[i], length = self.chains.length(i)
        cdef Py_ssize_t size = self.transitions.shape[0] * self.transitions.shape[1]
        self.score(i, scratch.rows)
        found.inner = product(scratch.rows, &self.deltas[start, 0], length * self.width)
        found.inner += product(&self.transitions[0, 0], &self.pairs[i, 0, 0], size)
        found.hinge = -self.score_of(self.chains.truth(i), scratch.rows, length)
        self.chains.add_losses(i, self.width, scratch.rows)
        found.hinge += self.chains.decode(i, self.width, &self.transitions[0, 0], scratch)
        found.loss = count_wrong(self.chains.truth(i), scratch.path, length)
        return found

    cdef double score_of(self, const int32_t *labels, const double *rows,
                         Py_ssize_t length) noexcept nogil:
        cdef Py_ssize_t t, before, n = self.chains.n_labels
        cdef double total = 0.0
        for t in range(length):
            before = labels[t - 1] if t else n
            total += rows[t * self.width + labels[t]] + self.transitions[before, labels[t]]
            if self.width > n and t:
                total += rows[t * self.width + n + before * n + labels[t]]
        return total

    cdef void point(self, Py_ssize_t i, const int32_t *path, double *direction,
                    double *changes) noexcept nogil:
        """The direction from a block's deltas to a label sequence; of the transitions apart."""
        cdef Py_ssize_t start = self.chains.offsets[i], length = self.chains.length(i)
        memset(direction, 0, length * self.width * sizeof(double))
        memset(changes, 0, self.pairs.shape[1] * self.pairs.shape[2] * sizeof(double))
        self.put(self.chains.truth(i), length, self.costs[i], direction, changes)
        self.put(path, length, -self.costs[i], direction, changes)
        add_block(direction, &self.deltas[start, 0], -1.0, length * self.width)
        add_block(changes, &self.pairs[i, 0, 0], -1.0, self.pairs.shape[1] * self.pairs.shape[2])

    cdef void put(self, const int32_t *labels, Py_ssize_t length, double cost, double *direction,
                  double *changes) noexcept nogil:
        """Add a label sequence's indicators."""
        cdef Py_ssize_t t, before, n = self.chains.n_labels
        for t in range(length):
            before = labels[t - 1] if t else n
            direction[t * self.width + labels[t]] += cost
            changes[before * n + labels[t]] += cost
            if self.width > n and t:
                direction[t * self.width + n + before * n + labels[t]] += cost

    cdef void add(self, Py_ssize_t i, const double *direction, const double *changes, double loss,
                  double step) noexcept nogil:
        """Add a step to the dual variables of a block."""
        cdef Py_ssize_t start = self.chains.offsets[i], length = self.chains.length(i)
        add_block(&self.deltas[start, 0], direction, step, length * self.width)
        add_block(&self.pairs[i, 0, 0], changes, step, self.pairs.shape[1] * self.pairs.shape[2])
        self.losses[i] += step * loss


cdef class LinearBlocks(DualState):
    """Scores are sums of attributes times weights.

    Parameters
    ----------
    chains, costs, transitions, deltas, pairs, losses
        As in `DualState`.
    table : AttributeRows
    first_rows : int64 array (n_sequences,)
        Row of the first position of each sequence.
    weights : float64 array (n_attributes, n_offsets, width)
        Changed in place.
    """

    cdef AttributeRows table
    cdef const int64_t[::1] first_rows
    cdef double[:, :, ::1] weights, ahead
    cdef double[:, ::1] scores

    def __init__(self, LabeledChains chains, costs, transitions, deltas, pairs, losses,
                 AttributeRows table, first_rows, weights):
        super().__init__(chains, costs, transitions, deltas, pairs, losses)
        self.table = table
        self.first_rows = first_rows
        self.weights = weights
        # The direction in the weights; 0 between steps.
        self.ahead = np.zeros_like(weights)
        self.scores = np.empty((chains.longest, self.width))

    cdef void score(self, Py_ssize_t i, double *rows) noexcept nogil:
        self.table.score(self.first_rows[i], self.first_rows[i] + self.chains.length(i),
                         weights_at(self.weights), rows)

    cdef double square(self, Py_ssize_t i, const double *direction) noexcept nogil:
        cdef Py_ssize_t first = self.first_rows[i], last = first + self.chains.length(i)
        cdef double *scores = &self.scores[0, 0]
        self.table.collect(first, last, direction, 1.0, weights_at(self.ahead))
        self.table.score(first, last, weights_at(self.ahead), scores)
        return product(scores, direction, (last - first) * self.width)

    cdef void move(self, Py_ssize_t i, const double *direction, double step) noexcept nogil:
        cdef Py_ssize_t first = self.first_rows[i], last = first + self.chains.length(i)
        self.table.move(first, last, step, weights_at(self.ahead), weights_at(self.weights))


cdef class KernelBlocks(DualState):
    """Scores are sums over all inputs of a kernel times deltas.

    Parameters
    ----------
    chains, costs, transitions, deltas, pairs, losses
        As in `DualState`.
    inputs : int64 array (n_positions,)
        Which of the distinct inputs each position has.
    gram : float64 array (n_inputs, n_inputs)
        The kernel of every two distinct inputs.
    scores : float64 array (n_labels, n_inputs)
        Scores of the labels for each input; changed in place.
    """

    cdef const int64_t[::1] inputs
    cdef const double[:, ::1] gram
    cdef double[:, ::1] scores

    def __init__(self, LabeledChains chains, costs, transitions, deltas, pairs, losses,
                 inputs, gram, scores):
        super().__init__(chains, costs, transitions, deltas, pairs, losses)
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


cdef double square_of(const double *a, Py_ssize_t n) noexcept nogil:
    return product(a, a, n)


cdef Py_ssize_t count_wrong(const int32_t *truth, const int32_t *path,
                            Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t t, n = 0
    for t in range(length):
        n += truth[t] != path[t]
    return n
