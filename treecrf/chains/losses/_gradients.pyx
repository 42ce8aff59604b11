"""Gradients of the Hamming and of custom objectives: derivatives of marginal probabilities.

The Hamming objectives are sums of ``g(log q_s)`` over positions s, where q_s is the probability of
the true label of s. With ``w_s = g'(log q_s)``, the derivative with respect to the score of label v
in context c at position t is

    sum_s w_s (P(c, v at t | y_s true) - P(c, v at t)).

Given the context c' after t (c followed by v), the labels from t + 1 on do not depend on those
before. Two numbers per context are therefore enough, one for the true labels before it and one for
those after it:

    past_t(c)    = sum_{s < t}  w_s (P(y_s true | context c before t) / q_s - 1)
    future_t(c') = sum_{s >= t} w_s (P(y_s true | context c' after t) / q_s - 1)

Each follows from its neighbor in one step: add ``w_t (I(v true) / q_t - 1)`` and take the mean over
the contexts that come next. The derivative is ``P(c, v at t) (past_t(c) + future_t(c'))``. Terms of
the sums vanish as s moves away from t, so these numbers do not grow with the length of the
sequence.

If a label is so improbable that the ratios would leave the range of doubles, or forward-backward
already needed logarithms, changes of probability are passed from context to context instead:
``w_s (P(c | y_s true) - P(c))`` for the contexts c of a position. They are always in range. The
conditional probabilities by which they are passed on come from logarithms, which takes more time.

A custom objective is a function of the marginal probabilities ``P(v at s)``. With ``g_s(v)``, its
derivative with respect to them, minus the mean of ``g_s`` over the labels, the term at s is
``g_s(v)`` instead of ``w_s (I(v true) / q_s - 1)``.

Scores, contexts and ranges of sequences are those of `_inference`.
"""

from libc.math cimport INFINITY, NAN, exp, fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from treecrf.chains._chain cimport (
    Chain, KEEP_ROWS, backward, contexts_at, forward, forward_row, log_forward, log_sum, move_to,
    n_ends_of, open_chain, score_of, shift_to_zero, softmax, tile_length, tile_pairs,
)
from treecrf.chains._memory cimport longest_of, release, take_doubles
from treecrf.utils._vector_math cimport SHIFT_TO_INTEGER, exp_below, log_in_place

cdef extern from "chains/losses/gradients.h" nogil:
    void means_before(const double *rows, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t n_ends,
                      const double *values, double *means, double *work, Py_ssize_t n_labels)
    void multiply(double *rows, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t n_ends,
                  const double *before, const double *after, double *means, double *work,
                  Py_ssize_t n_labels)
    void store_slopes(const double *values, Py_ssize_t count, Py_ssize_t width, double factor,
                      double rounding, double *target, double *size)

# Ratios to the probability of a true label stay in range if it is at least this.
cdef double MIN_Q = 1e-100


cdef struct Slope:
    # Scratch memory for the derivative at a sequence. A row is a number for each context.
    bint exponential    # whether labels have the weight 1 / q, else 1
    double lowest       # the smallest q of the sequence, or its logarithm (*)
    double *q           # probability of each true label, or its logarithm (*)
    double *future      # a row for each position: `future`, or the backward pass (*)
    double *past        # row of `past`, or of changes of probability (*)
    double *next        # the same row of the next position
    double *work        # three rows
    # (*) where the computation uses logarithms


cdef struct Truth:
    # True or possible labels of a sequence, from its first position on.
    Py_ssize_t n_labels
    const int32_t *labels
    const uint8_t *possible     # [position, label]; NULL if all labels are known
    const double *slopes        # [position, label], of a custom objective; NULL for the others
    double *log_q               # [position]: receives log q
    double *sizes               # [position]: receives the sums of the absolute residuals


cdef inline bint is_true(const Truth *truth, Py_ssize_t t, Py_ssize_t v) noexcept nogil:
    """Return whether v is the true label of t, or a possible one."""
    if truth.possible == NULL:
        return v == truth.labels[t]
    return truth.possible[t * truth.n_labels + v]


cdef bint is_unknown(const Truth *truth, Py_ssize_t t) noexcept nogil:
    """Return whether all labels are possible."""
    cdef Py_ssize_t v
    if truth.possible == NULL:
        return False
    for v in range(truth.n_labels):
        if not truth.possible[t * truth.n_labels + v]:
            return False
    return True


def label_probabilities(const int64_t[::1] offsets, const int32_t[::1] labels, bint exponential,
                        double[::1] log_q, double[::1] sizes, const uint8_t[:, ::1] possible,
                        const double[:, ::1] slopes, scores, Py_ssize_t first, Py_ssize_t last,
                        double[:, :, ::1] out=None):
    """Compute log q of the labels of the sequences ``first`` to ``last - 1``, and its gradient.

    ``log_q`` is -inf for forbidden labels, NaN if no label sequence is allowed. With ``possible``,
    (n_positions, n_labels), q is the sum of the probabilities of the possible labels, and positions
    at which all of them are possible contribute nothing.

    ``out``, if given, receives the functional gradient of ``sum_t log q_t`` or, if ``exponential``,
    of ``-sum_t q / q_t``. The second form belongs to the exponential loss. There q is the smallest
    ``q_t`` of a sequence, treated as a constant, so that no label has a weight above 1; the caller
    weights the sequences and rounds the residuals. Other residuals are multiples of 2**-32.
    Contexts that do not exist get 0, and so do sequences without an allowed label sequence; a
    forbidden true label contributes nothing. ``sizes`` receives the sum of the absolute residuals
    of each position.

    With ``slopes``, the gradient is that of a custom objective instead: they are its derivatives
    with respect to the probabilities of all labels, minus their means.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_ROWS)
    cdef Slope slope = open_slope(&chain, offsets, first, last)
    cdef Truth truth
    cdef Py_ssize_t i, start
    slope.exponential = exponential
    truth.n_labels = chain.shape.n_labels
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            start = chain.start
            truth.labels = &labels[start]
            truth.log_q = &log_q[start]
            truth.sizes = &sizes[start]
            truth.possible = NULL if possible is None else &possible[start, 0]
            truth.slopes = NULL if slopes is None else &slopes[start, 0]
            forward(&chain)
            update_sequence(&chain, &slope, &truth, out)
        release(&chain.memory)


cdef void update_sequence(Chain *chain, Slope *slope, const Truth *truth,
                          double[:, :, ::1] out) noexcept nogil:
    """Compute log q and the gradient of one sequence, after its forward pass."""
    cdef Py_ssize_t t, v, c
    cdef double rounding
    cdef double *row
    if out is not None:
        memset(truth.sizes, 0, chain.length * sizeof(double))
    if chain.log_z == -INFINITY:
        clear(chain, out)
        for t in range(chain.length):
            truth.log_q[t] = NAN
    elif not chain.in_logs and backward_pass(chain, slope, truth, out):
        if out is not None:
            forward_pass(chain, slope, truth, out)
        memcpy(truth.log_q, slope.q, chain.length * sizeof(double))
        log_in_place(truth.log_q, chain.length)
    else:
        log_probabilities(chain, slope, truth)
        memcpy(truth.log_q, slope.q, chain.length * sizeof(double))
        clear(chain, out)
        if out is not None:
            log_backward_pass(chain, slope, truth, out)
            log_forward_pass(chain, slope, truth, out)
            rounding = rounding_of(slope)
            for v in range(chain.shape.n_labels):
                for t in range(chain.length):
                    row = &out[v, chain.start + t, 0]
                    for c in range(chain.shape.width):
                        row[c] = (row[c] + rounding) - rounding
                        truth.sizes[t] += fabs(row[c])


def weight_residuals(double[:, :, ::1] residuals, const double[::1] weights, double unit,
                     Py_ssize_t first, Py_ssize_t last):
    """Multiply the residuals of positions ``first`` to ``last - 1`` by the positions' weights.

    Products are rounded to multiples of ``unit``, a power of 2.
    """
    cdef Py_ssize_t v, t, c, n = residuals.shape[2]
    cdef double *row
    # A sum with this number has no digits below the unit.
    cdef double rounding = SHIFT_TO_INTEGER * (unit * 4294967296.0)
    with nogil:
        for v in range(residuals.shape[0]):
            for t in range(first, last):
                row = &residuals[v, t, 0]
                for c in range(n):
                    row[c] = (row[c] * weights[t] + rounding) - rounding


def inverse_weights(const double[::1] logs, double[::1] out):
    """Write ``exp(-logs[i])``, divided by its mean, to ``out``; return the logarithm of the mean.

    Logarithms that are not finite get the weight 0 and do not count in the mean. Terms of
    the mean, which are at most 1, are rounded so that it does not depend on their order.
    """
    cdef Py_ssize_t i, n = logs.shape[0], n_finite = 0
    cdef double total = 0.0, mean, highest = -INFINITY, rounding = 1.5
    cdef double *values = &out[0]
    with nogil:
        for i in range(n):
            if fabs(logs[i]) < INFINITY:
                n_finite += 1
                highest = max(highest, -logs[i])
            values[i] = -logs[i] if fabs(logs[i]) < INFINITY else -INFINITY
        if n_finite:
            exp_below(values, n, highest)
            while rounding < n:
                rounding *= 2.0
            for i in range(n):
                total += (values[i] + rounding) - rounding
            mean = total / n_finite
            for i in range(n):
                values[i] /= mean
            log_in_place(&mean, 1)
            highest += mean
        else:
            memset(values, 0, n * sizeof(double))
    return highest


cdef inline void swap_rows(Slope *slope) noexcept nogil:
    """Make the row of the next position the current one."""
    cdef double *past = slope.past
    slope.past = slope.next
    slope.next = past


cdef Slope open_slope(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                      Py_ssize_t last) except *:
    """Take memory of the chain for the longest of some sequences."""
    cdef Slope slope
    cdef Py_ssize_t longest = longest_of(offsets, first, last), n = chain.shape.n_contexts
    memset(&slope, 0, sizeof(Slope))
    slope.q = take_doubles(&chain.memory, longest)
    slope.future = take_doubles(&chain.memory, longest * n)
    slope.past = take_doubles(&chain.memory, n)
    slope.next = take_doubles(&chain.memory, n)
    slope.work = take_doubles(&chain.memory, 3 * n)
    if chain.memory.failed:
        release(&chain.memory)
        raise MemoryError(f"no memory for the derivative of a sequence of {longest} positions")
    return slope


cdef void clear(const Chain *chain, double[:, :, ::1] out) noexcept nogil:
    """Set the residuals of a sequence to 0, if there is an array for them."""
    cdef Py_ssize_t v
    for v in range(chain.shape.n_labels if out is not None else 0):
        memset(&out[v, chain.start, 0], 0, chain.length * chain.shape.width * sizeof(double))


cdef inline double *future_row(const Chain *chain, const Slope *slope, Py_ssize_t t) noexcept nogil:
    """Return the row of the contexts after t."""
    return slope.future + t * chain.shape.n_contexts


# Computation from the probabilities of pairs (context, label).


cdef bint backward_pass(Chain *chain, Slope *slope, const Truth *truth,
                        double[:, :, ::1] out) noexcept nogil:
    """Compute the probabilities of the true labels, and ``future`` unless ``out`` is None.

    Tiles that do not stay in memory store their pairs in ``out``. Returns whether the probabilities
    are in range.
    """
    cdef Py_ssize_t i, j, t, v, stride
    cdef double *rows
    slope.lowest = 1.0
    memset(future_row(chain, slope, chain.length - 1), 0, chain.shape.n_contexts * sizeof(double))
    for i in range(chain.n_tiles - 1, -1, -1):
        backward(chain, i, True)
        stride = tile_length(chain, i) * chain.shape.width
        for j in range(tile_length(chain, i) - 1, -1, -1):
            t = i * chain.tile + j
            rows = tile_pairs(chain, i) + j * chain.shape.width
            slope.q[t] = true_total(chain, truth, t, rows, stride)
            if slope.q[t] < MIN_Q:
                return False
            slope.lowest = min(slope.lowest, slope.q[t])
            if out is not None:
                add_label_term(chain, slope, truth, t, future_row(chain, slope, t))
                if t:
                    means_before(rows, stride, contexts_at(&chain.shape, t), n_ends_of(chain, t),
                                 future_row(chain, slope, t), future_row(chain, slope, t - 1),
                                 slope.work, chain.shape.n_labels)
        for v in range(chain.shape.n_labels if out is not None and i >= chain.n_kept else 0):
            memcpy(&out[v, chain.start + i * chain.tile, 0], tile_pairs(chain, i) + v * stride,
                   stride * sizeof(double))
    return True


cdef double row_total(const Chain *chain, Py_ssize_t t, const double *row) noexcept nogil:
    cdef Py_ssize_t c
    cdef double total = 0.0
    for c in range(contexts_at(&chain.shape, t)):
        total += row[c]
    return total


cdef double true_total(const Chain *chain, const Truth *truth, Py_ssize_t t, const double *rows,
                       Py_ssize_t stride) noexcept nogil:
    """Return the probability of the true label of t; 1 if it does not matter."""
    cdef Py_ssize_t v
    cdef double total = 0.0
    if truth.slopes != NULL:
        return 1.0
    if truth.possible == NULL:
        return row_total(chain, t, rows + truth.labels[t] * stride)
    if is_unknown(truth, t):
        return 1.0
    for v in range(truth.n_labels):
        if is_true(truth, t, v):
            total += row_total(chain, t, rows + v * stride)
    return total


cdef void add_label_term(const Chain *chain, const Slope *slope, const Truth *truth, Py_ssize_t t,
                         double *row) noexcept nogil:
    """Add the term of the true label of t to a row of the contexts after t."""
    cdef Py_ssize_t c, v, low, n_labels = chain.shape.n_labels
    cdef double weight = 1.0 / slope.q[t] if slope.exponential else 1.0
    if truth.slopes != NULL:
        for c in range(contexts_at(&chain.shape, t + 1)):
            row[c] += truth.slopes[t * n_labels + c % n_labels]
        return
    if is_unknown(truth, t):
        return
    for c in range(contexts_at(&chain.shape, t + 1)):
        row[c] -= weight
    for v in range(n_labels):
        if is_true(truth, t, v):
            for low in range(n_ends_of(chain, t)):
                row[low * n_labels + v] += weight / slope.q[t]


cdef void forward_pass(Chain *chain, Slope *slope, const Truth *truth,
                       double[:, :, ::1] out) noexcept nogil:
    """Compute ``past`` of each position, and the derivative from it and ``future``."""
    cdef Py_ssize_t i, j, t, v, stride, start, width = chain.shape.width
    cdef double *rows
    slope.past[0] = 0.0
    for i in range(chain.n_tiles):
        stride = tile_length(chain, i) * width
        start = chain.start + i * chain.tile
        for v in range(chain.shape.n_labels if i >= chain.n_kept else 0):
            memcpy(tile_pairs(chain, i) + v * stride, &out[v, start, 0], stride * sizeof(double))
        for j in range(tile_length(chain, i)):
            t = i * chain.tile + j
            rows = tile_pairs(chain, i) + j * chain.shape.width
            multiply(rows, stride, contexts_at(&chain.shape, t), n_ends_of(chain, t), slope.past,
                     future_row(chain, slope, t), slope.next, slope.work, chain.shape.n_labels)
            add_label_term(chain, slope, truth, t, slope.next)
            swap_rows(slope)
        # The derivatives, scaled or rounded.
        for v in range(chain.shape.n_labels):
            store_slopes(tile_pairs(chain, i) + v * stride, tile_length(chain, i), width,
                         slope.lowest if slope.exponential else 1.0, rounding_of(slope),
                         &out[v, start, 0], truth.sizes + i * chain.tile)


cdef inline double rounding_of(const Slope *slope) noexcept nogil:
    """Return the number that is added and subtracted to round a residual."""
    return 0.0 if slope.exponential else SHIFT_TO_INTEGER


# Computation from logarithms.


cdef inline double score_at(const Chain *chain, Py_ssize_t t, Py_ssize_t v,
                            Py_ssize_t c) noexcept nogil:
    return score_of(&chain.shape, &chain.source, v, chain.start, t, c)


cdef void log_probabilities(Chain *chain, Slope *slope, const Truth *truth) noexcept nogil:
    """Run the backward pass and compute the probabilities of the true labels, in logarithms."""
    cdef Py_ssize_t t, c
    cdef double *before
    if not chain.in_logs:
        chain.in_logs = True
        log_forward(chain)
    memset(future_row(chain, slope, chain.length - 1), 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length - 1, 0, -1):
        before = future_row(chain, slope, t - 1)
        for c in range(contexts_at(&chain.shape, t)):
            add_future(chain, slope, t, c)
            before[c] = log_sum(slope.work, chain.shape.n_labels)
        shift_to_zero(before, contexts_at(&chain.shape, t))
    slope.lowest = 0.0
    for t in range(chain.length):
        slope.q[t] = 0.0
        if not is_unknown(truth, t):
            slope.q[t] = context_probabilities(chain, slope, truth, t)
        if slope.q[t] > -INFINITY:
            slope.lowest = min(slope.lowest, slope.q[t])


cdef void add_future(const Chain *chain, Slope *slope, Py_ssize_t t, Py_ssize_t c) noexcept nogil:
    """Write the logarithms of the weights of the labels at t after context c to ``work``."""
    cdef Py_ssize_t v, n_labels = chain.shape.n_labels
    cdef const double *after = future_row(chain, slope, t) + c % n_ends_of(chain, t) * n_labels
    for v in range(n_labels):
        slope.work[v] = score_at(chain, t, v, c) + after[v]


cdef double context_probabilities(const Chain *chain, Slope *slope, const Truth *truth,
                                  Py_ssize_t t) noexcept nogil:
    """Write the probabilities of the contexts after t, and given the true label, to ``work``.

    Returns the logarithm of the probability of the label.
    """
    cdef Py_ssize_t c, n = contexts_at(&chain.shape, t + 1)
    cdef const double *past = forward_row(chain, t + 1)
    cdef const double *future = future_row(chain, slope, t)
    cdef double *p = slope.work
    cdef double *conditional = slope.work + chain.shape.n_contexts
    cdef double total
    for c in range(n):
        p[c] = past[c] + future[c]
        conditional[c] = p[c] if is_true(truth, t, c % chain.shape.n_labels) else -INFINITY
    total = softmax(p, n)
    return softmax(conditional, n) - total


cdef void add_label_change(const Chain *chain, Slope *slope, const Truth *truth, Py_ssize_t t,
                           double *row) noexcept nogil:
    """Add the change of the probabilities of the contexts after t by the true label of t."""
    cdef Py_ssize_t c
    cdef Py_ssize_t n_labels = chain.shape.n_labels
    cdef double weight = exp(slope.lowest - slope.q[t]) if slope.exponential else 1.0
    if truth.slopes != NULL:
        context_probabilities(chain, slope, truth, t)
        for c in range(contexts_at(&chain.shape, t + 1)):
            row[c] += slope.work[c] * truth.slopes[t * n_labels + c % n_labels]
        return
    if slope.q[t] == -INFINITY or is_unknown(truth, t):
        return
    context_probabilities(chain, slope, truth, t)
    for c in range(contexts_at(&chain.shape, t + 1)):
        row[c] += weight * (slope.work[chain.shape.n_contexts + c] - slope.work[c])


cdef void log_backward_pass(Chain *chain, Slope *slope, const Truth *truth,
                            double[:, :, ::1] out) noexcept nogil:
    """Add the changes at each position by the true labels from it on."""
    cdef Py_ssize_t t, v, low, c, h, n_starts, n_ends, n_labels = chain.shape.n_labels
    cdef double change
    cdef double *p = slope.work
    memset(slope.past, 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length - 1, -1, -1):
        add_label_change(chain, slope, truth, t, slope.past)
        memset(slope.next, 0, chain.shape.n_contexts * sizeof(double))
        n_ends = n_ends_of(chain, t)
        n_starts = contexts_at(&chain.shape, t) // n_ends
        for v in range(n_labels):
            for low in range(n_ends):
                for h in range(n_starts):
                    c = h * n_ends + low
                    p[h] = forward_row(chain, t)[c] + score_at(chain, t, v, c)
                softmax(p, n_starts)
                for h in range(n_starts):
                    change = slope.past[low * n_labels + v] * p[h]
                    out[v, chain.start + t, h * n_ends + low] += change
                    slope.next[h * n_ends + low] += change
        swap_rows(slope)


cdef void log_forward_pass(Chain *chain, Slope *slope, const Truth *truth,
                           double[:, :, ::1] out) noexcept nogil:
    """Add the changes at each position by the true labels before it."""
    cdef Py_ssize_t t, v, c, n_labels = chain.shape.n_labels
    cdef double change
    memset(slope.past, 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length):
        memset(slope.next, 0, chain.shape.n_contexts * sizeof(double))
        for c in range(contexts_at(&chain.shape, t)):
            add_future(chain, slope, t, c)
            softmax(slope.work, n_labels)
            for v in range(n_labels):
                change = slope.past[c] * slope.work[v]
                out[v, chain.start + t, c] += change
                slope.next[c % n_ends_of(chain, t) * n_labels + v] += change
        add_label_change(chain, slope, truth, t, slope.next)
        swap_rows(slope)
