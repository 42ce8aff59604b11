"""Exact inference in chains whose labels depend on the ``order`` labels before them.

Scores are label-major: ``scores[v, t, c]`` is the score of label v at position t in context c. A
context is the tuple of the previous labels, numbered ``sum_j y[t - j] * K**(j - 1)`` for K labels,
so that label v leads from context c to context ``(c * K + v) % K**order``. The position t of a
sequence has ``K**min(t, order)`` contexts, since there are no labels before the sequence. With
order 0 every position is a separate sequence, and callers pass ``offsets`` accordingly.

A score of minus infinity forbids a label in a context. If this leaves no label sequence at all, a
sequence has log Z = -inf, probabilities of 0 and a log-likelihood of NaN. Callers check for it.

Every function runs without the GIL on the sequences ``first`` to ``last - 1``, and writes only to
the parts of its outputs that belong to these sequences, so that threads can share the work.
"""

from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from treecrf.chains._chain cimport (
    Chain, KEEP_ALL, KEEP_NONE, KEEP_SOME, backward, backward_row, close_chain, contexts_at,
    forward, forward_row, forward_tile_row, move_to, next_context, occupancy, open_chain, score_of,
    tile_length, tile_pairs,
)

cdef extern from "chains/recursions.h" nogil:
    void negate_rounded(const double *values, Py_ssize_t n, double *target)

cdef extern from "chains/rounding.h" nogil:
    double rounded(double x)


def log_likelihood(scores, const int64_t[::1] offsets,
                   const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                   double[::1] out):
    """Write log P(labels | scores) of each sequence to ``out``; -inf if labels are forbidden."""
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_NONE)
    cdef Py_ssize_t i
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            out[i] = path_score(&chain, labels) - chain.log_z
        close_chain(&chain)


cdef double path_score(const Chain *chain, const int32_t[::1] labels) noexcept nogil:
    """Sum of the scores along the given labels."""
    cdef Py_ssize_t t, context = 0
    cdef double total = 0.0
    cdef int32_t label
    for t in range(chain.length):
        label = labels[chain.start + t]
        total += score_of(&chain.shape, &chain.source, label, chain.start, t, context)
        context = next_context(&chain.shape, t, context, label)
    return total


def marginals(scores, const int64_t[::1] offsets, Py_ssize_t first,
              Py_ssize_t last, double[:, ::1] out, double[::1] log_z):
    """Write P(y_t = v) to ``out[t, v]`` and log Z of each sequence to ``log_z``."""
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Py_ssize_t i, tile
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            log_z[i] = chain.log_z
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, False)
                store_marginals(&chain, tile, out)
        close_chain(&chain)


cdef void store_marginals(const Chain *chain, Py_ssize_t i, double[:, ::1] out) noexcept nogil:
    """Sum over the contexts after each position that have the same latest label."""
    cdef Py_ssize_t j, v, low, t, n_labels = chain.shape.n_labels
    cdef double *p = chain.work
    for j in range(tile_length(chain, i)):
        t = i * chain.tile + j
        occupancy(chain, contexts_at(&chain.shape, t + 1), forward_tile_row(chain, i, j + 1),
                  backward_row(chain, j + 1), p)
        for v in range(n_labels):
            out[chain.start + t, v] = p[v]
        for low in range(1, contexts_at(&chain.shape, t + 1) // n_labels):
            for v in range(n_labels):
                out[chain.start + t, v] += p[low * n_labels + v]


def pairwise(scores, const int64_t[::1] offsets, Py_ssize_t first,
             Py_ssize_t last, double[:, :, ::1] out):
    """Write P(y_{t-1} = u, y_t = v) to ``out[t, u, v]``, 0 at first positions; order 1 or more."""
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Py_ssize_t i, tile
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, True)
                store_pairwise(&chain, tile, out)
        close_chain(&chain)


cdef void store_pairwise(const Chain *chain, Py_ssize_t i, double[:, :, ::1] out) noexcept nogil:
    """Sum over the contexts of each position that have the same latest label."""
    cdef Py_ssize_t j, t, v, u, low, n_labels = chain.shape.n_labels, count = tile_length(chain, i)
    cdef double *row
    for j in range(count):
        t = i * chain.tile + j
        memset(&out[chain.start + t, 0, 0], 0, n_labels * n_labels * sizeof(double))
        for v in range(n_labels):
            row = tile_pairs(chain, i) + (v * count + j) * chain.shape.width
            for low in range(contexts_at(&chain.shape, t) // n_labels if t else 0):
                for u in range(n_labels):
                    out[chain.start + t, u, v] += row[low * n_labels + u]


def residuals(scores, const int64_t[::1] offsets,
              const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
              double[:, :, ::1] out, double[:, :, ::1] curvature, double[::1] log_likelihoods):
    """Write the functional gradient of the log-likelihood: ``I(c, v) - P(c, v | X)``.

    ``out[v, t, c]`` is rounded to a multiple of 2**-32. Contexts that do not exist get 0, and so do
    forbidden labels unless they are true labels. ``curvature``, if given, receives the bound on the
    Hessian that `store_curvature` explains. ``log_likelihoods`` receives log P(labels) of each
    sequence.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last,
                                  KEEP_SOME if curvature is None else KEEP_ALL)
    cdef Py_ssize_t i, tile
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            log_likelihoods[i] = path_score(&chain, labels) - chain.log_z
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, True)
                store_residuals(&chain, tile, out)
            add_indicators(&chain, labels, out)
            if curvature is not None:
                store_curvature(&chain, curvature)
        close_chain(&chain)


cdef void store_residuals(const Chain *chain, Py_ssize_t i, double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t v, n = tile_length(chain, i) * chain.shape.width
    for v in range(chain.shape.n_labels):
        negate_rounded(tile_pairs(chain, i) + v * n, n,
                       &out[v, chain.start + i * chain.tile, 0])


cdef void add_indicators(const Chain *chain, const int32_t[::1] labels,
                         double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t t, context = 0
    cdef int32_t label
    for t in range(chain.length):
        label = labels[chain.start + t]
        out[label, chain.start + t, context] += 1.0
        context = next_context(&chain.shape, t, context, label)


cdef void store_curvature(Chain *chain, double[:, :, ::1] out) noexcept nogil:
    """Write bounds of the row sums of the absolute Hessian of the log-likelihood.

    The Hessian with respect to the scores is minus the covariance of the indicators of
    (context, label) pairs. The diagonal matrix of its absolute row sums bounds it, which makes
    Newton steps of full length safe (Chen, Singh, Taskar, Guestrin 2015). The row of a pair of
    probability p sums to p times the influence of knowing the pair: 2 (1 - p) on its own position,
    and on later and earlier positions at most the influence of its contexts.
    """
    cdef Py_ssize_t t
    cdef double *past = chain.work
    cdef double *after = chain.work + chain.shape.n_contexts
    chain.forward[0] = 1.0
    for t in range(chain.length):
        sum_contexts(chain, t)
    memset(future_of(chain, chain.length), 0, chain.shape.n_contexts * sizeof(double))
    for t in range(chain.length - 1, -1, -1):
        influence_of_future(chain, t)
    past[0] = 0.0
    for t in range(chain.length):
        store_bounds(chain, t, past, out)
        influence_of_past(chain, t, past, after)
        past, after = after, past


cdef inline double *future_of(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Return the influence of each context at t from t on, in the memory of ``backward``."""
    return chain.backward + t * chain.shape.n_contexts


cdef inline double *pairs_at(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Return the probabilities of the pairs at position t with label 0."""
    return tile_pairs(chain, t // chain.tile) + t % chain.tile * chain.shape.width


cdef inline Py_ssize_t row_stride(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Return the distance from the pairs of one label at position t to those of the next label."""
    return tile_length(chain, t // chain.tile) * chain.shape.width


cdef inline Py_ssize_t n_ends_of(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Return the number of contexts at t + 1 that end in the same label."""
    return contexts_at(&chain.shape, t + 1) // chain.shape.n_labels


cdef void sum_contexts(Chain *chain, Py_ssize_t t) noexcept nogil:
    """Write P(context at t + 1), the sums of the pairs at t, to ``forward``."""
    cdef Py_ssize_t v, low, h, c, n = contexts_at(&chain.shape, t)
    cdef Py_ssize_t n_ends = n_ends_of(chain, t), n_starts = n // n_ends
    cdef double total
    cdef double *row = pairs_at(chain, t)
    for v in range(chain.shape.n_labels):
        for low in range(n_ends):
            total = 0.0
            for h in range(n_starts):
                c = h * n_ends + low
                total += row[c]
            forward_row(chain, t + 1)[low * chain.shape.n_labels + v] = total
        row += row_stride(chain, t)


cdef double expectation(const double *p, const double *values, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c
    cdef double total = 0.0
    for c in range(n):
        total += p[c] * values[c]
    return total


cdef inline double inverse_of(double p) noexcept nogil:
    return 1.0 / p if p > 0.0 else 0.0


cdef inline double own_influence(double p) noexcept nogil:
    """Return the influence of an event of probability p on its own position."""
    return 2.0 * (1.0 - min(p, 1.0))


cdef void influence_of_future(Chain *chain, Py_ssize_t t) noexcept nogil:
    """Compute the influence of knowing the context at t on the pair probabilities from t on.

    The influence of context c on position s >= t is 2 TV(P(c_s | c_t = c), P(c_s)), with TV the
    total variation. It is 2 (1 - P(c)) at s = t and does not grow with s. From t + 1 on it is at
    most the mean of the influences of the next contexts, weighted by |P(c' | c) - P(c')|.
    ``_beam_gradients.influence_of_future`` is the same for the states of a beam.
    """
    cdef Py_ssize_t v, low, h, c, n = contexts_at(&chain.shape, t)
    cdef Py_ssize_t n_ends = n_ends_of(chain, t), n_starts = n // n_ends
    cdef double now, of_all, p, influence
    cdef double *contexts = forward_row(chain, t)
    cdef double *next_contexts = forward_row(chain, t + 1)
    cdef double *inverse = chain.work
    cdef double *here = future_of(chain, t)
    cdef double *after = future_of(chain, t + 1)
    cdef double *row = pairs_at(chain, t)
    of_all = expectation(next_contexts, after, n_ends * chain.shape.n_labels)
    for c in range(n):
        here[c] = of_all
        inverse[c] = inverse_of(contexts[c])
    for v in range(chain.shape.n_labels):
        for low in range(n_ends):
            p = next_contexts[low * chain.shape.n_labels + v]
            influence = after[low * chain.shape.n_labels + v]
            for h in range(n_starts):
                c = h * n_ends + low
                here[c] += (fabs(row[c] * inverse[c] - p) - p) * influence
        row += row_stride(chain, t)
    for c in range(n):
        now = own_influence(contexts[c])
        here[c] = min(now + here[c], now * (chain.length - t))


cdef void influence_of_past(Chain *chain, Py_ssize_t t, const double *here,
                            double *after) noexcept nogil:
    """Do the same for the positions before t + 1: from those before t (``here``) to ``after``.

    ``_beam_gradients.influence_of_past`` is the same for the states of a beam.
    """
    cdef Py_ssize_t v, low, h, c, n = contexts_at(&chain.shape, t)
    cdef Py_ssize_t n_ends = n_ends_of(chain, t), n_starts = n // n_ends
    cdef double now, of_all, p, inverse, total
    cdef double *contexts = forward_row(chain, t)
    cdef double *row = pairs_at(chain, t)
    of_all = expectation(contexts, here, n)
    for v in range(chain.shape.n_labels):
        for low in range(n_ends):
            p = forward_row(chain, t + 1)[low * chain.shape.n_labels + v]
            inverse = inverse_of(p)
            total = of_all
            for h in range(n_starts):
                c = h * n_ends + low
                total += (fabs(row[c] * inverse - contexts[c]) - contexts[c]) * here[c]
            now = own_influence(p)
            after[low * chain.shape.n_labels + v] = min(now + total, now * (t + 1))
        row += row_stride(chain, t)


cdef void store_bounds(const Chain *chain, Py_ssize_t t, const double *past,
                       double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t v, low, h, c, n = contexts_at(&chain.shape, t)
    cdef Py_ssize_t n_ends = n_ends_of(chain, t), n_starts = n // n_ends
    cdef double future
    cdef double *row = pairs_at(chain, t)
    cdef double *target
    for v in range(chain.shape.n_labels):
        target = &out[v, chain.start + t, 0]
        memset(target, 0, chain.shape.width * sizeof(double))
        for low in range(n_ends):
            future = future_of(chain, t + 1)[low * chain.shape.n_labels + v]
            for h in range(n_starts):
                c = h * n_ends + low
                target[c] = rounded(row[c] * (own_influence(row[c]) + future + past[c]))
        row += row_stride(chain, t)
