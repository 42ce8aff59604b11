"""Epochs of the structured perceptron."""

from libc.stdint cimport int32_t, int64_t

from treecrf.learners.structured._examples cimport (
    AttributeRows, LabeledChains, Scratch, weights_at,
)


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
