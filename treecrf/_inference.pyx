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

Probabilities of single labels given other labels, in local models and in the pseudo-likelihood,
need no passes along a chain.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.chains._chain cimport (
    Chain, KEEP_NONE, KEEP_SOME, backward, backward_row, chain_shape, contexts_at, forward,
    forward_tile_row, has_weight, move_to, n_ends_of, next_context, occupancy, open_chain,
    open_source, path_score, score_of, score_source, tile_length, tile_pairs, tile_start,
    true_context,
)
from treecrf.chains._curvature cimport (
    Influence, open_influence, own_influence, visit_backward, visit_forward,
)
from treecrf.chains._memory cimport release
from treecrf.utils._vector_math cimport exp_of, rounded

cdef extern from "chains/influence.h" nogil:
    void store_curvatures(const chain_shape *shape, const double *pairs, Py_ssize_t t,
                          Py_ssize_t count, const Influence *influence, double *out,
                          Py_ssize_t stride)

cdef extern from "chains/recursions.h" nogil:
    enum:
        LOCAL_BLOCK    # number of columns that are processed at a time
    void log_softmax(double *columns, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n)
    void softmax_residuals(const double *columns, Py_ssize_t n_rows, Py_ssize_t stride,
                           Py_ssize_t n, double *residuals, double *curvature,
                           double *log_totals)
    void negate_rounded(const double *values, Py_ssize_t n, double *target)


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
        release(&chain.memory)


def marginals(scores, const int64_t[::1] offsets, Py_ssize_t first,
              Py_ssize_t last, double[:, ::1] out, double[::1] log_z):
    """Write P(y_t = v) to ``out[t, v]`` and log Z of each sequence to ``log_z``."""
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Py_ssize_t i, j, t, v, low, tile, n_labels = chain.shape.n_labels
    cdef double *p = chain.work
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            log_z[i] = chain.log_z
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, False)
                # Sum over the contexts after each position that have the same latest label.
                for j in range(tile_length(&chain, tile)):
                    t = tile_start(&chain, tile) + j
                    occupancy(&chain, contexts_at(&chain.shape, t + 1),
                              forward_tile_row(&chain, tile, j + 1), backward_row(&chain, j + 1), p)
                    for v in range(n_labels):
                        out[chain.start + t, v] = p[v]
                    for low in range(1, n_ends_of(&chain, t)):
                        for v in range(n_labels):
                            out[chain.start + t, v] += p[low * n_labels + v]
        release(&chain.memory)


def pairwise(scores, const int64_t[::1] offsets, Py_ssize_t first,
             Py_ssize_t last, double[:, :, ::1] out):
    """Write P(y_{t-1} = u, y_t = v) to ``out[t, u, v]``, 0 at first positions; order 1 or more."""
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Py_ssize_t i, j, t, u, v, low, tile, count, n_labels = chain.shape.n_labels
    cdef const double *row
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, True)
                # Sum over the contexts of each position that have the same latest label.
                count = tile_length(&chain, tile)
                for j in range(count):
                    t = tile_start(&chain, tile) + j
                    memset(&out[chain.start + t, 0, 0], 0, n_labels * n_labels * sizeof(double))
                    for v in range(n_labels):
                        row = tile_pairs(&chain, tile) + (v * count + j) * chain.shape.width
                        for low in range(contexts_at(&chain.shape, t) // n_labels if t else 0):
                            for u in range(n_labels):
                                out[chain.start + t, u, v] += row[low * n_labels + u]
        release(&chain.memory)


def residuals(scores, const int64_t[::1] offsets,
              const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
              double[:, :, ::1] out, double[:, :, ::1] curvature, double[::1] log_likelihoods,
              double bound_share=1.0, const double[::1] weights=None):
    """Write the functional gradient of the log-likelihood: ``I(c, v) - P(c, v | X)``.

    ``out[v, t, c]`` is rounded to a multiple of 2**-32. Contexts that do not exist get 0, and so do
    forbidden labels unless they are true labels. ``curvature``, if given, receives the curvature
    that `_curvature` explains, with a ``bound_share`` from 0 to 1. ``log_likelihoods`` receives
    log P(labels) of each sequence. Sequences whose positions all have weight 0 get zeros.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last, KEEP_SOME)
    cdef Influence influence
    cdef bint curved = curvature is not None, bounded = curved and bound_share > 0.0
    cdef Py_ssize_t i, tile, v, t, k, n, context
    cdef int32_t label
    cdef const double *pairs
    cdef double *target
    if bounded:
        influence = open_influence(&chain, offsets, first, last, bound_share)
    with nogil:
        for i in range(first, last):
            move_to(&chain, offsets, i)
            forward(&chain)
            log_likelihoods[i] = path_score(&chain, labels) - chain.log_z
            if not has_weight(weights, offsets[i], offsets[i + 1]):
                out[:, offsets[i]:offsets[i + 1]] = 0.0
                if curved:
                    curvature[:, offsets[i]:offsets[i + 1]] = 0.0
                continue
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, True)
                n = tile_length(&chain, tile) * chain.shape.width
                for v in range(chain.shape.n_labels):
                    negate_rounded(tile_pairs(&chain, tile) + v * n, n,
                                   &out[v, chain.start + tile_start(&chain, tile), 0])
                if bounded:
                    visit_backward(&chain, &influence, tile)
                elif curved:
                    for v in range(chain.shape.n_labels):  # 2 p (1 - p) for each pair
                        pairs = tile_pairs(&chain, tile) + v * n
                        target = &curvature[v, chain.start + tile_start(&chain, tile), 0]
                        for k in range(n):
                            target[k] = rounded(pairs[k] * own_influence(pairs[k]))
            context = 0
            for t in range(chain.length):
                label = labels[chain.start + t]
                out[label, chain.start + t, context] += 1.0
                context = next_context(&chain.shape, t, context, label)
            if bounded:
                for tile in range(chain.n_tiles):
                    visit_forward(&chain, &influence, tile)
                    store_curvatures(
                        &chain.shape, tile_pairs(&chain, tile), tile_start(&chain, tile),
                        tile_length(&chain, tile), &influence,
                        &curvature[0, chain.start + tile_start(&chain, tile), 0],
                        curvature.shape[1] * chain.shape.width)
        release(&chain.memory)


# Single labels given others


def normalize(double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
              Py_ssize_t last):
    """Turn scores into log P(label | context) by a log-softmax over the labels, in place.

    If all labels are forbidden, they remain so.
    """
    cdef Py_ssize_t i = offsets[first] * scores.shape[2], end = offsets[last] * scores.shape[2]
    cdef double *columns = &scores[0, 0, 0]
    with nogil:
        while i < end:
            log_softmax(columns + i, scores.shape[0], scores.shape[1] * scores.shape[2],
                        min(LOCAL_BLOCK, end - i))
            i += LOCAL_BLOCK


def local_residuals(const double[:, ::1] scores, const int64_t[::1] offsets,
                    const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                    double[:, ::1] out, double[:, ::1] curvature, double[::1] log_likelihoods):
    """Write the gradient of sum_t log P(y_t | context), P the softmax of ``scores[:, t]``.

    ``scores[v, t]`` are those in the true context of t. ``out[v, t]`` receives I(v) - P(v), and
    ``curvature``, if given, 2 P(v) (1 - P(v)), the row sums of the absolute Hessian. Both are
    rounded to multiples of 2**-32. ``log_likelihoods`` receives the sum over each sequence, which
    is -inf if a true label is forbidden.
    """
    cdef Py_ssize_t i = first, t, n, start = offsets[first], end = offsets[last]
    cdef double log_totals[LOCAL_BLOCK]
    with nogil:
        for t in range(first, last):
            log_likelihoods[t] = 0.0
        while start < end:
            n = min(LOCAL_BLOCK, end - start)
            softmax_residuals(&scores[0, start], scores.shape[0], scores.shape[1], n,
                              &out[0, start],
                              NULL if curvature is None else &curvature[0, start], log_totals)
            for t in range(start, start + n):
                while t >= offsets[i + 1]:
                    i += 1
                log_likelihoods[i] += scores[labels[t], t] - log_totals[t - start]
                out[labels[t], t] += 1.0
            start += n


def pseudo_residuals(scores, const int64_t[::1] offsets,
                     const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                     double[:, :, ::1] out, double[:, :, ::1] curvature):
    """Write the gradient of the pseudo-likelihood, sum_t log P(y_t | all other labels, X).

    ``out`` is rounded as in `local_residuals`. ``curvature``, if given, receives the row sums of
    the absolute Hessian: 2 p (1 - p) for each score that a choice of label involves, summed over
    the conditional distributions in which a score occurs.
    """
    cdef Conditional conditional
    cdef Py_ssize_t i, t, v, s, end, context
    cdef int32_t label
    cdef double p, residual, bound
    open_source(scores, &conditional.shape, &conditional.source)
    conditional.p = <double *> malloc(conditional.shape.n_labels * sizeof(double))
    if conditional.p == NULL:
        raise MemoryError(f"no memory for the probabilities of {conditional.shape.n_labels} labels")
    with nogil:
        clear(out, offsets[first], offsets[last])
        if curvature is not None:
            clear(curvature, offsets[first], offsets[last])
        for i in range(first, last):
            conditional.start = offsets[i]
            conditional.length = offsets[i + 1] - offsets[i]
            for t in range(conditional.length):
                condition(&conditional, labels, t)
                # Add I(y_t = v) - P(y_t = v | others) to every score that the choice of v involves.
                end = min(t + conditional.shape.order + 1, conditional.length)
                for v in range(conditional.shape.n_labels):
                    p = conditional.p[v]
                    residual = rounded((v == labels[conditional.start + t]) - p)
                    bound = rounded(2.0 * p * (1.0 - p) * (end - t))
                    for s in range(t, end):
                        context = changed_context(&conditional, labels, s, t, v)
                        label = <int32_t> v if s == t else labels[conditional.start + s]
                        out[label, conditional.start + s, context] += residual
                        if curvature is not None:
                            curvature[label, conditional.start + s, context] += bound
        free(conditional.p)


cdef struct Conditional:
    # The distribution of one label of a sequence, given all others.
    chain_shape shape
    score_source source
    Py_ssize_t start, length
    double *p


cdef void clear(double[:, :, ::1] out, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t v
    for v in range(out.shape[0]):
        memset(&out[v, start, 0], 0, (end - start) * out.shape[2] * sizeof(double))


cdef Py_ssize_t changed_context(const Conditional *conditional, const int32_t[::1] labels,
                                Py_ssize_t t, Py_ssize_t changed, Py_ssize_t label) noexcept nogil:
    """Return the context of position t under the given labels, with one of them changed."""
    cdef const int32_t *truth = &labels[conditional.start]
    cdef Py_ssize_t _, power = 1
    cdef Py_ssize_t context = true_context(&conditional.shape, truth, t)
    for _ in range(1, t - changed):
        power *= conditional.shape.n_labels
    return context + power * (label - truth[changed]) if changed < t else context


cdef inline double score_at(const Conditional *conditional, Py_ssize_t v, Py_ssize_t t,
                            Py_ssize_t context) noexcept nogil:
    return score_of(&conditional.shape, &conditional.source, v, conditional.start, t, context)


cdef void condition(const Conditional *conditional, const int32_t[::1] labels,
                    Py_ssize_t t) noexcept nogil:
    """Compute P(y_t = v | all other labels) for every v; 0 if no label is allowed."""
    cdef Py_ssize_t v, s, context
    cdef Py_ssize_t own = true_context(&conditional.shape, &labels[conditional.start], t)
    cdef double highest = -INFINITY, total = 0.0
    cdef double *p = conditional.p
    for v in range(conditional.shape.n_labels):
        p[v] = score_at(conditional, v, t, own)
        for s in range(t + 1, min(t + conditional.shape.order + 1, conditional.length)):
            context = changed_context(conditional, labels, s, t, v)
            p[v] += score_at(conditional, labels[conditional.start + s], s, context)
        highest = max(highest, p[v])
    for v in range(conditional.shape.n_labels):
        p[v] = exp_of(p[v] - highest)
        total += p[v]
    for v in range(conditional.shape.n_labels):
        p[v] = p[v] / total if total > 0.0 else 0.0
