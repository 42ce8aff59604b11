"""Epochs of the structured perceptron."""

from libc.stdint cimport int32_t, int64_t

from treecrf.learners.structured._attribute_rows cimport AttributeRows, weights_at
from treecrf.learners.structured._labeled_chains cimport LabeledChains, Scratch


cdef struct Sums:
    # Weights, and their changes times the number of sequences that had been seen when they came.
    double *attributes
    double *transitions
    double *late_attributes
    double *late_transitions


def run(AttributeRows table, LabeledChains chains, const int64_t[::1] first_rows,
        const int64_t[::1] order, const double[::1] steps, double[:, :, ::1] attributes,
        double[:, ::1] transitions, double[:, :, ::1] late_attributes,
        double[:, ::1] late_transitions, Py_ssize_t n_seen):
    """Decode some sequences one after another and correct the weights after each mistake.

    Parameters
    ----------
    table : AttributeRows
    chains : LabeledChains
    first_rows : (n_sequences,)
        Row of the first position of each sequence.
    order : the sequences, as they are to come
    steps : (n_sequences,)
        What a sequence counts.
    attributes, transitions : weights, changed in place
    late_attributes, late_transitions : like the weights
        Receive each change times the number of sequences seen before it. With n sequences seen,
        ``weights - late / n`` is the mean of the weights after each sequence: a change costs no
        more than twice itself, however many weights there are.
    n_seen : int
        Number of sequences seen before these.

    Returns
    -------
    int
        Number of wrong labels.
    """
    cdef Scratch scratch = chains.open(table.width)
    cdef Py_ssize_t k, i, wrong, n_wrong = 0
    cdef Sums sums
    sums.attributes, sums.transitions = weights_at(attributes), &transitions[0, 0]
    sums.late_attributes = weights_at(late_attributes)
    sums.late_transitions = &late_transitions[0, 0]
    with nogil:
        for k in range(order.shape[0]):
            i = order[k]
            table.score(first_rows[i], first_rows[i] + chains.length(i), sums.attributes,
                        scratch.rows)
            chains.decode(i, table.width, sums.transitions, &scratch)
            wrong = count_wrong(chains.truth(i), scratch.path, chains.length(i))
            if wrong:
                correct(table, first_rows[i], chains.truth(i), scratch.path, chains.length(i),
                        chains.n_labels, steps[i], n_seen + k, &sums)
            n_wrong += wrong
        chains.close(&scratch)
    return n_wrong


cdef Py_ssize_t count_wrong(const int32_t *truth, const int32_t *path,
                            Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t t, n = 0
    for t in range(length):
        n += truth[t] != path[t]
    return n


cdef void correct(AttributeRows table, Py_ssize_t first, const int32_t *truth,
                  const int32_t *path, Py_ssize_t length, Py_ssize_t n_labels, double step,
                  double n_before, Sums *sums) noexcept nogil:
    """Add the features of the true labels, and subtract those of the path, where they differ."""
    cdef Py_ssize_t t
    cdef Py_ssize_t right_pair, wrong_pair
    for t in range(length):
        right_pair = pair_at(truth, t, n_labels)
        wrong_pair = pair_at(path, t, n_labels)
        if right_pair == wrong_pair:
            continue
        add_late(sums.transitions, sums.late_transitions, right_pair, step, n_before)
        add_late(sums.transitions, sums.late_transitions, wrong_pair, -step, n_before)
        if truth[t] != path[t]:
            add_features(table, first + t, truth[t], step, n_before, sums)
            add_features(table, first + t, path[t], -step, n_before, sums)
        if table.width > n_labels and t > 0:
            add_features(table, first + t, n_labels + right_pair, step, n_before, sums)
            add_features(table, first + t, n_labels + wrong_pair, -step, n_before, sums)


cdef inline Py_ssize_t pair_at(const int32_t *labels, Py_ssize_t t,
                               Py_ssize_t n_labels) noexcept nogil:
    """Place of (previous label, label) among the transitions."""
    return (labels[t - 1] if t else n_labels) * n_labels + labels[t]


cdef inline void add_late(double *weights, double *late, Py_ssize_t place, double change,
                          double n_before) noexcept nogil:
    weights[place] += change
    late[place] += n_before * change


cdef void add_features(AttributeRows table, Py_ssize_t row, Py_ssize_t column, double step,
                       double n_before, Sums *sums) noexcept nogil:
    """Add the attributes that a row sees to the weights of a label or a pair."""
    cdef Py_ssize_t s, n_offsets = table.left + 1 + table.right, n_rows = table.starts.shape[0] - 1
    cdef Py_ssize_t cell
    cdef int64_t k
    for s in range(max(0, row - table.left), min(n_rows, row + table.right + 1)):
        for k in range(table.starts[s], table.starts[s + 1]):
            cell = table.attributes[k] * n_offsets + row - s + table.right
            add_late(sums.attributes, sums.late_attributes, cell * table.width + column,
                     step * table.values[k], n_before)
