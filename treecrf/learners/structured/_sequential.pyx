"""Learners that visit one sequence at a time: the perceptron and the maximum margin.

Rows, windows and blocks of weights are those of `treecrf.learners.linear._linear`.

The maximum margin is found by block-coordinate Frank-Wolfe: a short vector w that gives true label
sequences higher scores than others. Its dual has a block for each training sequence: a distribution
over that sequence's label sequences. Scores depend on a block only through its marginals, the
expected number of each label at each position and of each pair of labels in the sequence. They are
stored as *deltas*: the counts of the true labels minus the expected counts, times the cost of the
sequence. The block's part of w is the features times the deltas, so that attributes and kernels
differ only in how scores follow from deltas.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.learners.linear._linear cimport add_block, add_rows, collect_rows, move_blocks

cdef extern from "learners/structured/best_path.h" nogil:
    double best_path(const double *rows, Py_ssize_t length, Py_ssize_t width,
                     const double *transitions, Py_ssize_t n_labels, double *work,
                     int32_t *origins, int32_t *out)


cdef class AttributeRows:
    """Attributes of the rows of all sequences, which may be cut into pieces.

    ``table`` is a `treecrf.learners.linear.matrix.AttributeMatrix`.
    """

    cdef const int64_t[::1] starts
    cdef const int32_t[::1] attributes
    cdef const double[::1] values
    cdef const int64_t[::1] first_rows       # row of the first position of each sequence
    cdef readonly Py_ssize_t left, right     # window
    cdef readonly Py_ssize_t width           # number of weights of an attribute at an offset

    def __init__(self, table, Py_ssize_t width, first_rows=None):
        self.starts, self.attributes, _ = table.by_row
        self.values = table.values
        self.left, self.right = table.window
        self.first_rows = table.first_rows if first_rows is None else first_rows
        self.width = width

    cdef void score(self, Py_ssize_t i, Py_ssize_t length, const double *weights,
                    double *out) noexcept nogil:
        """Write the scores of the rows of sequence i to ``out``."""
        cdef Py_ssize_t first = self.first_rows[i]
        memset(out, 0, length * self.width * sizeof(double))
        if self.attributes.shape[0]:
            add_rows(&self.starts[0], &self.attributes[0], &self.values[0],
                     self.starts.shape[0] - 1, self.left, self.right, self.width, weights, first,
                     first + length, out)

    cdef void collect(self, Py_ssize_t i, Py_ssize_t length, const double *deltas,
                      double *weights) noexcept nogil:
        """Transpose `score`: add to each weight its attribute's values times the deltas."""
        cdef Py_ssize_t first = self.first_rows[i]
        if self.attributes.shape[0]:
            collect_rows(&self.starts[0], &self.attributes[0], &self.values[0],
                         self.starts.shape[0] - 1, self.left, self.right, self.width, deltas,
                         first, first + length, 0, INT32_MAX, weights)

    def collect_all(self, const int64_t[::1] offsets, const int64_t[::1] chosen,
                    const double[:, ::1] deltas, double[:, :, ::1] weights):
        """Apply `collect` to some pieces, given the deltas of all positions."""
        cdef Py_ssize_t k, i
        with nogil:
            for k in range(chosen.shape[0]):
                i = chosen[k]
                self.collect(i, offsets[i + 1] - offsets[i], &deltas[offsets[i], 0],
                             weights_at(weights))

    cdef void move(self, Py_ssize_t i, Py_ssize_t length, double factor, double *source,
                   double *target) noexcept nogil:
        """Add ``factor * source`` to all weights that score sequence i, and clear the source."""
        cdef Py_ssize_t first = self.first_rows[i]
        if self.attributes.shape[0]:
            move_blocks(&self.starts[0], &self.attributes[0], self.starts.shape[0] - 1, self.left,
                        self.right, self.width, factor, first, first + length, source, target)


cdef inline double *weights_at(double[:, :, ::1] weights) noexcept nogil:
    """Return a pointer to the first weight; NULL if there are no attributes."""
    return &weights[0, 0, 0] if weights.shape[0] else NULL


cdef struct Scratch:
    # Memory for the longest sequence.
    double *rows
    double *deltas               # same shape as the rows
    double *transitions          # (n_labels + 1, n_labels)
    double *work
    int32_t *origins
    int32_t *path
    double *memory
    int32_t *codes


cdef class LabeledChains:
    """True labels of sequences, and the constraints on all other label sequences.

    ``data`` is a `treecrf.learners.linear.scores.TrainingData`.
    """

    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] labels
    cdef const double[:, ::1] penalties
    cdef const uint8_t[:, ::1] allowed
    cdef readonly Py_ssize_t n_labels, longest

    def __init__(self, data):
        self.offsets = data.offsets
        self.labels = data.codes
        self.n_labels = len(data.classes)
        self.longest = np.diff(self.offsets).max()
        self.penalties = data.constraints.limited(np.zeros((self.n_labels + 1, self.n_labels)))
        self.allowed, _ = data.masks

    cdef Scratch open(self, Py_ssize_t width) except *:
        """Allocate memory to decode any of the sequences; ``width`` is that of a row of scores."""
        cdef Scratch s
        cdef Py_ssize_t n = self.n_labels
        s.memory = <double *> malloc((2 * self.longest * width + (n + 3) * n) * sizeof(double))
        s.codes = <int32_t *> malloc(self.longest * (n + 1) * sizeof(int32_t))
        if not (s.memory and s.codes):
            self.close(&s)
            raise MemoryError(f"not enough memory to decode a sequence of {self.longest} positions")
        s.rows = s.memory
        s.deltas = s.rows + self.longest * width
        s.transitions = s.deltas + self.longest * width
        s.work = s.transitions + (n + 1) * n
        s.path = s.codes
        s.origins = s.codes + self.longest
        return s

    cdef void close(self, Scratch *scratch) noexcept nogil:
        free(scratch.memory)
        free(scratch.codes)

    cdef inline Py_ssize_t length(self, Py_ssize_t i) noexcept nogil:
        return self.offsets[i + 1] - self.offsets[i]

    cdef inline const int32_t *truth(self, Py_ssize_t i) noexcept nogil:
        """Return the true labels of a sequence."""
        return &self.labels[self.offsets[i]]

    cdef Py_ssize_t n_mistakes(self, Py_ssize_t i, const int32_t *path) noexcept nogil:
        """Return the number of positions at which a label sequence differs from the true one."""
        cdef Py_ssize_t t, n = 0
        cdef const int32_t *truth = self.truth(i)
        for t in range(self.length(i)):
            n += truth[t] != path[t]
        return n

    cdef double true_score(self, Py_ssize_t i, Py_ssize_t width, const double *rows,
                           const double *transitions) noexcept nogil:
        """Return the score of the true label sequence."""
        cdef Py_ssize_t t, v, n = self.n_labels, before = n
        cdef const int32_t *truth = self.truth(i)
        cdef double total = 0.0
        for t in range(self.length(i)):
            v = truth[t]
            total += rows[t * width + v] + transitions[before * n + v]
            if width > n and before < n:
                total += rows[t * width + n + before * n + v]
            before = v
        return total

    cdef void add_indicators(self, Py_ssize_t i, Py_ssize_t width, const int32_t *path,
                             double factor, double *rows, double *transitions) noexcept nogil:
        """Add ``factor`` wherever `true_score` would read a number for the labels ``path``."""
        cdef Py_ssize_t t, v, n = self.n_labels, before = n
        for t in range(self.length(i)):
            v = path[t]
            rows[t * width + v] += factor
            transitions[before * n + v] += factor
            if width > n and before < n:
                rows[t * width + n + before * n + v] += factor
            before = v

    cdef void add_losses(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil:
        """Add 1 to the scores of all wrong labels."""
        cdef Py_ssize_t t, v
        cdef const int32_t *truth = self.truth(i)
        for t in range(self.length(i)):
            for v in range(self.n_labels):
                rows[t * width + v] += v != truth[t]

    cdef void constrain_transitions(self, const double *transitions, double *out) noexcept nogil:
        """Write the transitions to ``out``, impossible ones as minus infinity."""
        cdef Py_ssize_t k
        cdef const double *penalties = &self.penalties[0, 0]
        for k in range((self.n_labels + 1) * self.n_labels):
            out[k] = transitions[k] + penalties[k]

    cdef void constrain_rows(self, Py_ssize_t i, Py_ssize_t width, double *rows) noexcept nogil:
        """Set the scores of impossible labels to minus infinity."""
        cdef Py_ssize_t t, v
        if self.allowed is None:
            return
        for t in range(self.length(i)):
            for v in range(self.n_labels):
                if not self.allowed[self.offsets[i] + t, v]:
                    rows[t * width + v] = -INFINITY

    cdef double decode(self, Py_ssize_t i, Py_ssize_t width, const double *transitions,
                       Scratch *scratch) noexcept nogil:
        """Write the best possible label sequence to ``scratch.path`` and return its score.

        The scores in ``scratch.rows`` become minus infinity where labels are impossible.
        """
        self.constrain_transitions(transitions, scratch.transitions)
        self.constrain_rows(i, width, scratch.rows)
        return best_path(scratch.rows, self.length(i), width, scratch.transitions, self.n_labels,
                         scratch.work, scratch.origins, scratch.path)


# The structured perceptron


cdef class Updates:
    """Updates of the weights of a perceptron, and of the sums that give their mean.

    ``late`` receives each update times the number of sequences seen before it. After n sequences,
    ``weights - late / n`` is the mean of the weights after each sequence. So the mean at most
    doubles the cost of an update, however many weights there are.
    """

    cdef AttributeRows rows
    cdef LabeledChains chains
    cdef double[:, :, ::1] attributes, late_attributes
    cdef double[:, ::1] transitions, late_transitions

    def __init__(self, AttributeRows rows, LabeledChains chains, weights, late):
        self.rows = rows
        self.chains = chains
        self.attributes, self.transitions = weights.attributes, weights.transitions
        self.late_attributes, self.late_transitions = late.attributes, late.transitions

    def run(self, const int64_t[::1] order, const double[::1] steps, Py_ssize_t n_seen,
            int64_t[::1] n_wrong):
        """Decode some sequences one after another and correct the weights after each mistake.

        ``steps`` are the lengths of the updates of all sequences, and ``n_seen`` is the number of
        sequences visited before. ``n_wrong`` receives the number of wrong labels of each sequence.
        """
        cdef Scratch scratch = self.chains.open(self.rows.width)
        cdef Py_ssize_t k, i
        with nogil:
            for k in range(order.shape[0]):
                i = order[k]
                self.rows.score(i, self.chains.length(i), weights_at(self.attributes), scratch.rows)
                self.chains.decode(i, self.rows.width, &self.transitions[0, 0], &scratch)
                n_wrong[i] = self.chains.n_mistakes(i, scratch.path)
                if n_wrong[i]:
                    self._correct(i, scratch.path, steps[i], n_seen + k)
            self.chains.close(&scratch)

    cdef void _correct(self, Py_ssize_t i, const int32_t *path, double step,
                       double n_before) noexcept nogil:
        """Add the features of the true labels and subtract those of the path where they differ."""
        cdef const int32_t *truth = self.chains.truth(i)
        cdef Py_ssize_t t, right_pair, wrong_pair, n = self.chains.n_labels
        cdef Py_ssize_t first = self.rows.first_rows[i]
        cdef double *transitions = &self.transitions[0, 0]
        cdef double *late = &self.late_transitions[0, 0]
        for t in range(self.chains.length(i)):
            right_pair = pair_at(truth, t, n)
            wrong_pair = pair_at(path, t, n)
            if right_pair == wrong_pair:
                continue
            add_late(transitions, late, right_pair, step, n_before)
            add_late(transitions, late, wrong_pair, -step, n_before)
            if truth[t] != path[t]:
                self._add_features(first + t, truth[t], step, n_before)
                self._add_features(first + t, path[t], -step, n_before)
            if self.rows.width > n and t > 0:
                self._add_features(first + t, n + right_pair, step, n_before)
                self._add_features(first + t, n + wrong_pair, -step, n_before)

    cdef void _add_features(self, Py_ssize_t row, Py_ssize_t column, double step,
                            double n_before) noexcept nogil:
        """Add the attributes in the window of a row to the weights of a label or a pair."""
        cdef Py_ssize_t s, cell, n_rows = self.rows.starts.shape[0] - 1
        cdef Py_ssize_t left = self.rows.left, right = self.rows.right, width = self.rows.width
        cdef double *weights = weights_at(self.attributes)
        cdef double *late = weights_at(self.late_attributes)
        cdef int64_t k
        for s in range(max(0, row - left), min(n_rows, row + right + 1)):
            for k in range(self.rows.starts[s], self.rows.starts[s + 1]):
                cell = self.rows.attributes[k] * (left + 1 + right) + row - s + right
                add_late(weights, late, cell * width + column, step * self.rows.values[k],
                         n_before)


cdef inline Py_ssize_t pair_at(const int32_t *labels, Py_ssize_t t,
                               Py_ssize_t n_labels) noexcept nogil:
    """Return the index of (previous label, label) in the transitions."""
    return (labels[t - 1] if t else n_labels) * n_labels + labels[t]


cdef inline void add_late(double *weights, double *late, Py_ssize_t k, double change,
                          double n_before) noexcept nogil:
    weights[k] += change
    late[k] += n_before * change


# The maximum margin


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
