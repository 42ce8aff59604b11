"""Exact inference in chains whose labels depend on the ``order`` labels before them.

Scores are label-major: ``scores[v, t, c]`` is the score of label v at position t in context c. A
context is the tuple of the previous labels, numbered ``sum_j y[t - j] * K**(j - 1)`` for K labels,
so that label v leads from context c to context ``(c * K + v) % K**order``. The position t of a
sequence has ``K**min(t, order)`` contexts, since there are no labels before the sequence. With
order 0 every position is a separate sequence, and callers pass ``offsets`` accordingly.

Forward-backward computes sums over all label sequences in time linear in the length:

- The forward weight of context c at position t is the sum, over all label sequences before t that
  end in c, of the exponentials of their scores. Each position follows from the one before. The
  weights after the last position sum to Z.
- The backward weight of c at t is the same sum over the label sequences from t on, after c.
- The probability of the pair (c, v) at t is the forward weight of c, times
  ``exp(scores[v, t, c])``, times the backward weight of the context that v leads to, divided by Z.

`_chain` has the two passes, `_curvature` the second derivatives. The functions here turn pairs of
contexts and labels into what callers need.

A score of minus infinity forbids a label in a context. If this leaves no label sequence at all, a
sequence has log Z = -inf, probabilities of 0 and a log-likelihood of NaN. Callers check for it.

Every function runs without the GIL on the sequences ``first`` to ``last - 1``, and writes only to
those elements of its outputs that belong to these sequences, so that threads can share the work.
"""

from libc.math cimport fabs, fmin
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from treecrf.chains._chain cimport (
    Chain, KEEP_NONE, KEEP_SOME, backward, backward_row, chain_shape, contexts_at, forward,
    forward_tile_row, has_weight, move_to, n_ends_of, next_context, occupancy, open_chain,
    path_score, tile_length, tile_pairs, tile_start,
)
from treecrf.chains._curvature cimport (
    Influence, open_influence, own_influence, visit_backward, visit_forward,
)
from treecrf.chains._memory cimport release
from treecrf.utils._vector_math cimport rounded

cdef extern from "chains/influence.h" nogil:
    void store_curvatures(const chain_shape *shape, const double *pairs, Py_ssize_t t,
                          Py_ssize_t count, const Influence *influence, double *out,
                          Py_ssize_t stride)

cdef extern from "chains/recursions.h" nogil:
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
    cdef Py_ssize_t i, tile
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
                store_negated_pairs(&chain, tile, out)
                if bounded:
                    visit_backward(&chain, &influence, tile)
                elif curved:
                    store_diagonal(&chain, tile, curvature)
            add_true_labels(&chain, labels, out)
            if bounded:
                for tile in range(chain.n_tiles):
                    visit_forward(&chain, &influence, tile)
                    store_bounds(&chain, &influence, tile, curvature)
        release(&chain.memory)


cdef inline void store_negated_pairs(const Chain *chain, Py_ssize_t tile,
                                     double[:, :, ::1] out) noexcept nogil:
    """Write the residuals of labels that are not true: minus their probabilities."""
    cdef Py_ssize_t v, start = chain.start + tile_start(chain, tile)
    cdef Py_ssize_t n = tile_length(chain, tile) * chain.shape.width
    for v in range(chain.shape.n_labels):
        negate_rounded(tile_pairs(chain, tile) + v * n, n, &out[v, start, 0])


cdef inline void add_true_labels(const Chain *chain, const int32_t[::1] labels,
                                 double[:, :, ::1] out) noexcept nogil:
    """Add 1 to the residual of the true label of each position, in its true context."""
    cdef Py_ssize_t t, context = 0
    cdef int32_t label
    for t in range(chain.length):
        label = labels[chain.start + t]
        out[label, chain.start + t, context] += 1.0
        context = next_context(&chain.shape, t, context, label)


cdef inline void store_diagonal(const Chain *chain, Py_ssize_t tile,
                                double[:, :, ::1] curvature) noexcept nogil:
    """Write the curvature without a bound: 2 p (1 - p) for each pair of probability p."""
    cdef Py_ssize_t v, k, start = chain.start + tile_start(chain, tile)
    cdef Py_ssize_t n = tile_length(chain, tile) * chain.shape.width
    cdef const double *pairs
    cdef double *target
    for v in range(chain.shape.n_labels):
        pairs = tile_pairs(chain, tile) + v * n
        target = &curvature[v, start, 0]
        for k in range(n):
            target[k] = rounded(pairs[k] * own_influence(pairs[k]))


cdef inline void store_bounds(const Chain *chain, const Influence *influence, Py_ssize_t tile,
                              double[:, :, ::1] curvature) noexcept nogil:
    """Write the curvature with a bound, once the influence on all other positions is known."""
    cdef Py_ssize_t start = chain.start + tile_start(chain, tile)
    store_curvatures(&chain.shape, tile_pairs(chain, tile), tile_start(chain, tile),
                     tile_length(chain, tile), influence, &curvature[0, start, 0],
                     curvature.shape[1] * chain.shape.width)


# Labels that are not all known


def subtract_residuals(double[:, :, ::1] residuals, double[:, :, ::1] curvature,
                       const int64_t[::1] positions, const double[:, :, ::1] conditional):
    """Subtract the residuals of the codes given the known labels, at some positions of a table.

    ``curvature``, unless it is None, is multiplied by the fraction that
    `treecrf.chains.partial_labels` explains, and rounded.
    """
    cdef Py_ssize_t v, i, c, n = residuals.shape[2]
    cdef double *row
    with nogil:
        for v in range(residuals.shape[0]):
            for i in range(positions.shape[0]):
                row = &residuals[v, positions[i], 0]
                if curvature is not None:
                    reduce_curvature(row, &conditional[v, i, 0], n, &curvature[v, positions[i], 0])
                for c in range(n):
                    row[c] -= conditional[v, i, c]


cdef inline void reduce_curvature(const double *row, const double *conditional, Py_ssize_t n,
                                  double *bounds) noexcept nogil:
    """Multiply the curvature of the contexts of a position by |g| / min(p, 1 - p), if below 1."""
    cdef Py_ssize_t c
    cdef double size
    for c in range(n):
        # The size of a residual is p or 1 - p.
        size = fabs(row[c])
        size = fmin(size, 1.0 - size)
        if size > 0.0:
            bounds[c] = rounded(
                bounds[c] * (fmin(fabs(row[c] - conditional[c]), size) / size)
            )
