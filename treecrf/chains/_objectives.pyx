"""What objectives beside the likelihood of whole sequences need: slopes of label probabilities.

The Hamming objectives are sums of ``g(log q_s)`` over positions s, q_s being the probability of
the true label of s. With ``w_s = g'(log q_s)``, the derivative in the score of label v in context c
at t is

    sum_s w_s (P(c, v at t | y_s true) - P(c, v at t)).

Given the context c' = c v after t, labels behind it do not depend on what was before. So two
numbers of each context are enough, what it says of the true labels before and behind it:

    past_t(c)    = sum_{s < t}  w_s (P(y_s true | context c before t) / q_s - 1)
    future_t(c') = sum_{s >= t} w_s (P(y_s true | context c' after t) / q_s - 1)

Each follows from its neighbors' by one step, ``w_t (I(v true) / q_t - 1)`` and a mean over the
contexts that come next. The derivative is ``P(c, v at t) (past_t(c) + future_t(c'))``. As the terms
of a sum fade where s is far away, the numbers do not grow with the length of the sequence.

Where a label is so improbable that the ratios would leave the range of numbers, or forward-backward
has left it already, shares of probability are passed from context to context instead: those of
the contexts of a position, ``w_s (P(c | y_s true) - P(c))``. They are never out of range. The
conditional probabilities by which they are passed come from logarithms, which takes more time.

Arguments are those of `_inference`.
"""

from libc.math cimport INFINITY, NAN, exp, fabs
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from treecrf.chains._chain cimport (
    Chain, KEEP_SOME, allocate, backward, close_chain, contexts_at, forward, forward_row, log_forward,
    log_sum, open_chain, place, shift_to_zero, tile_length, tile_pairs,
)

cdef extern from "chains/recursions.h" nogil:
    void exp_below(double *values, Py_ssize_t n, double highest)
    void log_in_place(double *values, Py_ssize_t n)
    double largest(const double *values, Py_ssize_t n)

cdef extern from "chains/rounding.h" nogil:
    double SHIFT_TO_INTEGER

cdef extern from "chains/slopes.h" nogil:
    void means_before(const double *rows, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t n_ends,
                      const double *values, double *means, double *work, Py_ssize_t n_labels)
    void multiply(double *rows, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t n_ends,
                  const double *before, const double *after, double *means, double *work,
                  Py_ssize_t n_labels)
    void store_slopes(const double *values, Py_ssize_t count, Py_ssize_t width, double factor,
                      double rounding, double *target, double *size)

# Above this, ratios to the probability of a label stay in range.
cdef double MIN_PROBABILITY = 1e-100


cdef struct Slope:
    # The derivative at a sequence, in scratch memory.
    bint exponential    # whether labels weigh 1 / q, else 1
    double lowest       # the smallest q of the sequence; with logarithms, its logarithm
    double *q           # of each true label; with logarithms, its logarithm
    double *future      # a row of contexts for each position; with logarithms, the backward pass
    double *past        # a row of contexts
    double *next        # and another
    double *work        # and another three


def label_log_probabilities(const double[:, :, ::1] scores, const int64_t[::1] offsets,
                            const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                            double[::1] out):
    """Write log P(y_t = labels[t]) to ``out[t]``.

    It is -inf for forbidden labels, and NaN where no label sequence is allowed.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Slope slope = open_slope(&chain, offsets, first, last)
    cdef Py_ssize_t i
    with nogil:
        for i in range(first, last):
            place(&chain, scores, offsets, i)
            forward(&chain)
            if chain.log_z == -INFINITY:
                impossible(&chain, out)
            elif not chain.in_logs and look_back(&chain, &slope, labels, None):
                store_logs(&chain, &slope, out)
            else:
                find_logs(&chain, &slope, labels)
                memcpy(&out[chain.start], slope.q, chain.length * sizeof(double))
        close_slope(&slope)
        close_chain(&chain)


def label_residuals(const double[:, :, ::1] scores, const int64_t[::1] offsets,
                    const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                    bint exponential, double[:, :, ::1] out, double[::1] log_q,
                    double[::1] sizes):
    """Functional gradient of ``sum_t log q_t``, or if ``exponential`` of ``-sum_t q / q_t``.

    There q is the smallest ``q_t`` of a sequence, taken for constant, so that no label weighs more
    than 1; the sequences remain to be weighed, and the residuals to be rounded. Else they are
    multiples of 2**-32. Contexts that do not exist get 0, and so do sequences that are not
    possible; a label that is not possible takes no part. ``log_q`` receives log P(y_t = labels[t]),
    and ``sizes`` the sum of the absolute values at each position.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Slope slope = open_slope(&chain, offsets, first, last)
    cdef Py_ssize_t i
    slope.exponential = exponential
    with nogil:
        for i in range(first, last):
            place(&chain, scores, offsets, i)
            forward(&chain)
            memset(&sizes[chain.start], 0, chain.length * sizeof(double))
            if chain.log_z == -INFINITY:
                clear(&chain, out)
                impossible(&chain, log_q)
            elif not chain.in_logs and look_back(&chain, &slope, labels, out):
                look_ahead(&chain, &slope, labels, out, sizes)
                store_logs(&chain, &slope, log_q)
            else:
                find_logs(&chain, &slope, labels)
                clear(&chain, out)
                pass_back(&chain, &slope, labels, out)
                pass_ahead(&chain, &slope, labels, out)
                finish(&chain, &slope, out, sizes)
                memcpy(&log_q[chain.start], slope.q, chain.length * sizeof(double))
        close_slope(&slope)
        close_chain(&chain)


def weigh(double[:, :, ::1] residuals, const double[::1] weights, double unit, Py_ssize_t first,
          Py_ssize_t last):
    """Multiply the residuals of positions ``first`` to ``last - 1`` by the positions' weights.

    Products are rounded to multiples of ``unit``, a power of 2.
    """
    cdef Py_ssize_t v, t, c, n = residuals.shape[2]
    cdef double *row
    # Plus and minus a number with digits down to the unit.
    cdef double rounding = SHIFT_TO_INTEGER * (unit * 4294967296.0)
    with nogil:
        for v in range(residuals.shape[0]):
            for t in range(first, last):
                row = &residuals[v, t, 0]
                for c in range(n):
                    row[c] = (row[c] * weights[t] + rounding) - rounding


def inverse_weights(const double[::1] logs, double[::1] out):
    """Write ``exp(-logs[i])`` over its mean to ``out``; return the logarithm of the mean.

    Logarithms that are not finite get the weight 0 and do not count.
    """
    cdef Py_ssize_t i, n = logs.shape[0], n_finite = 0
    cdef double total = 0.0, mean, highest = -INFINITY
    cdef double *values = &out[0]
    with nogil:
        for i in range(n):
            if fabs(logs[i]) < INFINITY:
                n_finite += 1
                highest = max(highest, -logs[i])
            values[i] = -logs[i] if fabs(logs[i]) < INFINITY else -INFINITY
        if n_finite:
            exp_below(values, n, highest)
            for i in range(n):
                total += values[i]
            mean = total / n_finite
            for i in range(n):
                values[i] /= mean
            log_in_place(&mean, 1)
            highest += mean
        else:
            memset(values, 0, n * sizeof(double))
    return highest


cdef Slope open_slope(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                      Py_ssize_t last) except *:
    """Scratch memory for the longest of some sequences; closes the chain if there is none."""
    cdef Slope slope
    cdef Py_ssize_t i, longest = 1, n = chain.shape.n_contexts
    memset(&slope, 0, sizeof(Slope))
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    slope.q = allocate(longest)
    slope.future = allocate(longest * n)
    slope.past = allocate(n)
    slope.next = allocate(n)
    slope.work = allocate(3 * n)
    if not (slope.q and slope.future and slope.past and slope.next and slope.work):
        close_slope(&slope)
        close_chain(chain)
        raise MemoryError(f"no memory for the derivative of a sequence of {longest} positions")
    return slope


cdef void close_slope(Slope *slope) noexcept nogil:
    free(slope.q)
    free(slope.future)
    free(slope.past)
    free(slope.next)
    free(slope.work)


cdef void impossible(const Chain *chain, double[::1] log_q) noexcept nogil:
    cdef Py_ssize_t t
    for t in range(chain.start, chain.start + chain.length):
        log_q[t] = NAN


cdef void clear(const Chain *chain, double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t v
    for v in range(chain.shape.n_labels):
        memset(&out[v, chain.start, 0], 0, chain.length * chain.shape.width * sizeof(double))


cdef void store_logs(const Chain *chain, const Slope *slope, double[::1] log_q) noexcept nogil:
    memcpy(&log_q[chain.start], slope.q, chain.length * sizeof(double))
    log_in_place(&log_q[chain.start], chain.length)


cdef inline double *future_row(const Chain *chain, const Slope *slope, Py_ssize_t t) noexcept nogil:
    """Of the contexts after t."""
    return slope.future + t * chain.shape.n_contexts


cdef inline Py_ssize_t n_ends_of(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Number of contexts after t that end in the same label."""
    return contexts_at(&chain.shape, t + 1) // chain.shape.n_labels


# By the probabilities of (context, label) pairs.


cdef bint look_back(Chain *chain, Slope *slope, const int32_t[::1] labels,
                    double[:, :, ::1] out) noexcept nogil:
    """Probabilities of the true labels, and unless ``out`` is None what contexts say of the future.

    Tiles that do not stay in memory leave their pairs in ``out``. Returns whether the probabilities
    are in range.
    """
    cdef Py_ssize_t i, j, t, stride
    cdef double *rows
    slope.lowest = 1.0
    memset(future_row(chain, slope, chain.length - 1), 0, chain.shape.n_contexts * sizeof(double))
    for i in range(chain.n_tiles - 1, -1, -1):
        backward(chain, i, True)
        stride = tile_length(chain, i) * chain.shape.width
        for j in range(tile_length(chain, i) - 1, -1, -1):
            t = i * chain.tile + j
            rows = tile_pairs(chain, i) + j * chain.shape.width
            slope.q[t] = row_total(chain, t, rows + labels[chain.start + t] * stride)
            if slope.q[t] < MIN_PROBABILITY:
                return False
            slope.lowest = min(slope.lowest, slope.q[t])
            if out is not None:
                say(chain, slope, t, labels[chain.start + t], future_row(chain, slope, t))
                if t:
                    means_before(rows, stride, contexts_at(&chain.shape, t), n_ends_of(chain, t),
                                 future_row(chain, slope, t), future_row(chain, slope, t - 1),
                                 slope.work, chain.shape.n_labels)
        if out is not None and i >= chain.n_kept:
            keep_tile(chain, i, out)
    return True


cdef double row_total(const Chain *chain, Py_ssize_t t, const double *row) noexcept nogil:
    cdef Py_ssize_t c
    cdef double total = 0.0
    for c in range(contexts_at(&chain.shape, t)):
        total += row[c]
    return total


cdef void say(const Chain *chain, const Slope *slope, Py_ssize_t t, Py_ssize_t label,
              double *row) noexcept nogil:
    """Add what the contexts after t say of the true label of t, which they hold."""
    cdef Py_ssize_t c, low, n_labels = chain.shape.n_labels
    cdef double weight = 1.0 / slope.q[t] if slope.exponential else 1.0
    for c in range(contexts_at(&chain.shape, t + 1)):
        row[c] -= weight
    for low in range(n_ends_of(chain, t)):
        row[low * n_labels + label] += weight / slope.q[t]


cdef void keep_tile(const Chain *chain, Py_ssize_t i, double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t v, n = tile_length(chain, i) * chain.shape.width
    for v in range(chain.shape.n_labels):
        memcpy(&out[v, chain.start + i * chain.tile, 0], tile_pairs(chain, i) + v * n,
               n * sizeof(double))


cdef void fetch_tile(const Chain *chain, Py_ssize_t i, double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t v, n = tile_length(chain, i) * chain.shape.width
    for v in range(chain.shape.n_labels):
        memcpy(tile_pairs(chain, i) + v * n, &out[v, chain.start + i * chain.tile, 0],
               n * sizeof(double))


cdef void look_ahead(Chain *chain, Slope *slope, const int32_t[::1] labels,
                     double[:, :, ::1] out, double[::1] sizes) noexcept nogil:
    """What contexts say of the past, and with both the derivative."""
    cdef Py_ssize_t i, j, t, stride
    cdef double *rows
    slope.past[0] = 0.0
    for i in range(chain.n_tiles):
        if i >= chain.n_kept:
            fetch_tile(chain, i, out)
        stride = tile_length(chain, i) * chain.shape.width
        for j in range(tile_length(chain, i)):
            t = i * chain.tile + j
            rows = tile_pairs(chain, i) + j * chain.shape.width
            multiply(rows, stride, contexts_at(&chain.shape, t), n_ends_of(chain, t), slope.past,
                     future_row(chain, slope, t), slope.next, slope.work, chain.shape.n_labels)
            say(chain, slope, t, labels[chain.start + t], slope.next)
            slope.past, slope.next = slope.next, slope.past
        store_tile(chain, slope, i, out, sizes)


cdef inline double rounding_of(const Slope *slope) noexcept nogil:
    """What is added and subtracted."""
    return 0.0 if slope.exponential else SHIFT_TO_INTEGER


cdef void store_tile(const Chain *chain, const Slope *slope, Py_ssize_t i, double[:, :, ::1] out,
                     double[::1] sizes) noexcept nogil:
    """Derivatives of a tile, scaled or rounded."""
    cdef Py_ssize_t v, count = tile_length(chain, i), width = chain.shape.width
    cdef Py_ssize_t start = chain.start + i * chain.tile
    cdef double factor = slope.lowest if slope.exponential else 1.0
    for v in range(chain.shape.n_labels):
        store_slopes(tile_pairs(chain, i) + v * count * width, count, width, factor,
                     rounding_of(slope), &out[v, start, 0], &sizes[start])


# By logarithms.


cdef inline double score_of(const Chain *chain, Py_ssize_t t, Py_ssize_t v,
                            Py_ssize_t c) noexcept nogil:
    return chain.scores[v * chain.stride + t * chain.shape.width + c]


cdef double turn_to_shares(double *logs, Py_ssize_t n) noexcept nogil:
    """Probabilities from their logarithms but for a constant, which is returned; 0 if all are 0."""
    cdef Py_ssize_t i
    cdef double total = 0.0, highest = largest(logs, n)
    if highest == -INFINITY:
        memset(logs, 0, n * sizeof(double))
        return highest
    exp_below(logs, n, highest)
    for i in range(n):
        total += logs[i]
    for i in range(n):
        logs[i] /= total
    log_in_place(&total, 1)
    return highest + total


cdef void find_logs(Chain *chain, Slope *slope, const int32_t[::1] labels) noexcept nogil:
    """Logarithms of the backward pass, and of the probabilities of the true labels."""
    cdef Py_ssize_t t
    if not chain.in_logs:
        chain.in_logs = True
        log_forward(chain)
    memset(future_row(chain, slope, chain.length - 1), 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length - 1, 0, -1):
        log_step_back(chain, slope, t)
    slope.lowest = 0.0
    for t in range(chain.length):
        slope.q[t] = find_shares(chain, slope, t, labels[chain.start + t])
        if slope.q[t] > -INFINITY:
            slope.lowest = min(slope.lowest, slope.q[t])


cdef void log_step_back(const Chain *chain, Slope *slope, Py_ssize_t t) noexcept nogil:
    cdef Py_ssize_t c, n = contexts_at(&chain.shape, t)
    cdef double *before = future_row(chain, slope, t - 1)
    for c in range(n):
        add_future(chain, slope, t, c)
        before[c] = log_sum(slope.work, chain.shape.n_labels)
    shift_to_zero(before, n)


cdef void add_future(const Chain *chain, Slope *slope, Py_ssize_t t, Py_ssize_t c) noexcept nogil:
    """Logarithms of the weights of the labels after context c before t; to ``work``."""
    cdef Py_ssize_t v, n_labels = chain.shape.n_labels
    cdef const double *after = future_row(chain, slope, t) + c % n_ends_of(chain, t) * n_labels
    for v in range(n_labels):
        slope.work[v] = score_of(chain, t, v, c) + after[v]


cdef double find_shares(const Chain *chain, Slope *slope, Py_ssize_t t,
                        Py_ssize_t label) noexcept nogil:
    """Probabilities of the contexts after t, and given the true label; to ``work``.

    Returns the logarithm of the label's probability.
    """
    cdef Py_ssize_t c, n = contexts_at(&chain.shape, t + 1)
    cdef const double *past = forward_row(chain, t + 1)
    cdef const double *future = future_row(chain, slope, t)
    cdef double *shares = slope.work
    cdef double *given = slope.work + chain.shape.n_contexts
    cdef double total
    for c in range(n):
        shares[c] = past[c] + future[c]
        given[c] = shares[c] if c % chain.shape.n_labels == label else -INFINITY
    total = turn_to_shares(shares, n)
    return turn_to_shares(given, n) - total


cdef void add_shares(const Chain *chain, Slope *slope, Py_ssize_t t, Py_ssize_t label,
                     double *row) noexcept nogil:
    """Add what the true label of t changes in the probabilities of the contexts after t."""
    cdef Py_ssize_t c
    cdef double weight = exp(slope.lowest - slope.q[t]) if slope.exponential else 1.0
    if slope.q[t] == -INFINITY:
        return
    find_shares(chain, slope, t, label)
    for c in range(contexts_at(&chain.shape, t + 1)):
        row[c] += weight * (slope.work[chain.shape.n_contexts + c] - slope.work[c])


cdef void pass_back(Chain *chain, Slope *slope, const int32_t[::1] labels,
                    double[:, :, ::1] out) noexcept nogil:
    """Add what the true labels from each position on change there."""
    cdef Py_ssize_t t, v, low, c, h, n_starts, n_ends, n_labels = chain.shape.n_labels
    cdef double share
    cdef double *shares = slope.work
    memset(slope.past, 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length - 1, -1, -1):
        add_shares(chain, slope, t, labels[chain.start + t], slope.past)
        memset(slope.next, 0, chain.shape.n_contexts * sizeof(double))
        n_ends = n_ends_of(chain, t)
        n_starts = contexts_at(&chain.shape, t) // n_ends
        for v in range(n_labels):
            for low in range(n_ends):
                for h in range(n_starts):
                    c = h * n_ends + low
                    shares[h] = forward_row(chain, t)[c] + score_of(chain, t, v, c)
                turn_to_shares(shares, n_starts)
                for h in range(n_starts):
                    share = slope.past[low * n_labels + v] * shares[h]
                    out[v, chain.start + t, h * n_ends + low] += share
                    slope.next[h * n_ends + low] += share
        slope.past, slope.next = slope.next, slope.past


cdef void pass_ahead(Chain *chain, Slope *slope, const int32_t[::1] labels,
                     double[:, :, ::1] out) noexcept nogil:
    """Add what the true labels before each position change there."""
    cdef Py_ssize_t t, v, c, n_labels = chain.shape.n_labels
    cdef double share
    memset(slope.past, 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length):
        memset(slope.next, 0, chain.shape.n_contexts * sizeof(double))
        for c in range(contexts_at(&chain.shape, t)):
            add_future(chain, slope, t, c)
            turn_to_shares(slope.work, n_labels)
            for v in range(n_labels):
                share = slope.past[c] * slope.work[v]
                out[v, chain.start + t, c] += share
                slope.next[c % n_ends_of(chain, t) * n_labels + v] += share
        add_shares(chain, slope, t, labels[chain.start + t], slope.next)
        slope.past, slope.next = slope.next, slope.past


cdef void finish(const Chain *chain, const Slope *slope, double[:, :, ::1] out,
                 double[::1] sizes) noexcept nogil:
    cdef Py_ssize_t v, t, c
    cdef double rounding = rounding_of(slope)
    cdef double *row
    for v in range(chain.shape.n_labels):
        for t in range(chain.start, chain.start + chain.length):
            row = &out[v, t, 0]
            for c in range(chain.shape.width):
                row[c] = (row[c] + rounding) - rounding
                sizes[t] += fabs(row[c])
