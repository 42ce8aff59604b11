"""Gradient and curvature of the log-likelihood at factored scores without a rest.

The scores are those of labels at positions, and of labels after contexts, which are the same at all
positions: the transitions. The gradient of the former is ``I(y_t = v) - q_t(v)``, with the
probability q of a label. That of the latter is a sum over all positions, of the same difference for
pairs of a context and a label. The kernels return the sums of the probabilities.

The curvature of a label is ``2 q (1 - q)``, but at least a share of the bound of `_curvature`: q
times the influence of the label on all positions, which is at most the mean influence of the
contexts that it is the end of. The curvature of a transition is the sum of those of its pairs. It
has two parts, whose sums are returned apart: ``2 p (1 - p)``, and p times the influence of the two
contexts that the pair connects.

`lane_gradients` computes short chains of order 1 side by side, without a table of pairs, see
`side_by_side.h`. `single_gradients` is for all others. Every chain has its own sums, which are
rounded to multiples of a unit before they are added: the order of the chains does not matter.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from treecrf.chains._chain cimport (
    Chain, KEEP_FEW, KEEP_SOME, backward, chain_shape, contexts_at, forward, move_to, n_ends_of,
    open_chain, open_source, path_score, score_of, score_source,
    tile_length, tile_pairs, tile_start,
)
from treecrf.chains._curvature cimport (
    Influence, open_influence, own_influence, visit_backward, visit_forward,
)
from treecrf.chains._memory cimport Memory, release, take_doubles, take_zeros
from treecrf.utils._vector_math cimport rounded

cdef extern from "chains/factored/factored.h" nogil:
    ctypedef struct factored_terms:
        const int32_t *state
    factored_terms terms_of(const score_source *source)

cdef extern from "chains/factored/side_by_side.h" nogil:
    Py_ssize_t LANES
    ctypedef struct lane_group:
        Py_ssize_t n_labels, n_positions, n, longest
        const double *factors
        double level, bound_share
        bint is_curved
        Py_ssize_t *start
        Py_ssize_t *length
        int *is_lost
        double *log_z
        double *forward
        double *ahead
        double *backward
        double *future
        double *past
        double *rows
        double *inverse
    bint transition_factors(const factored_terms *terms, Py_ssize_t n_labels, double *factors,
                            double *level)
    void load_lanes(const lane_group *group, const factored_terms *terms)
    void forward_lanes(lane_group *group)
    void backward_lanes(lane_group *group)
    void clear_lane(const lane_group *group, Py_ssize_t k)
    void store_lane(const lane_group *group, Py_ssize_t k, Py_ssize_t v, double *residuals,
                    double *curvature)
    void sum_pairs(const lane_group *group, bint is_weighted, double shift, double wide_shift,
                   double *sums)

cdef enum:
    # Sums of transitions: of probabilities, own curvature, and influence on other positions.
    N_SUMS = 3
    # Chains with more numbers of labels at positions are not computed side by side: 2 MB of each
    # kind of number for each lane.
    LANE_SIZE = 1 << 18

# Sums of influence may be longer than those of probabilities by so much: they have a wider unit.
cdef double WIDER = 2.0 ** 14
# A sum with this number of units has no digits below the unit, see `rounded`.
cdef double SHIFT = 1.5 * 2.0 ** 52


def short_chains(lengths, n_labels):
    """Mark the chains of order 1 that may be computed side by side with others."""
    return lengths * n_labels <= LANE_SIZE


# Chains side by side.


cdef lane_group open_lanes(Memory *memory, scores, const int64_t[::1] offsets,
                           const int64_t[::1] numbers, bint is_curved, double bound_share,
                           bint *is_near) except *:
    """Take memory for groups of some chains, and compute the factors of transitions."""
    cdef lane_group group
    cdef chain_shape shape
    cdef score_source source
    cdef factored_terms terms
    cdef double *factors
    cdef Py_ssize_t i, k, size, longest = 1
    memset(&group, 0, sizeof(lane_group))
    open_source(scores, &shape, &source)
    k = shape.n_labels
    for i in range(numbers.shape[0]):
        longest = max(longest, offsets[numbers[i] + 1] - offsets[numbers[i]])
    size = longest * k * LANES
    factors = take_doubles(memory, k * k)
    group.factors = factors
    group.forward = take_doubles(memory, size)
    group.ahead = take_doubles(memory, size)
    group.backward = take_doubles(memory, size)
    group.rows = take_doubles(memory, 2 * k * LANES)
    group.inverse = take_doubles(memory, longest * LANES)
    if bound_share > 0.0:
        group.future = take_doubles(memory, size)
        group.past = take_doubles(memory, size)
    else:  # never read
        group.future = group.backward
        group.past = group.forward
    if memory.failed:
        release(memory)
        raise MemoryError(f"no memory for the inference of sequences of {longest} positions")
    group.n_labels = k
    group.n_positions = source.n_positions
    group.is_curved = is_curved
    group.bound_share = bound_share
    terms = terms_of(&source)
    is_near[0] = transition_factors(&terms, k, factors, &group.level)
    return group


cdef void enter_group(lane_group *group, const int64_t[::1] offsets, const int64_t[::1] numbers,
                      Py_ssize_t first) noexcept nogil:
    """Move to the chains from the first of some numbers on."""
    cdef Py_ssize_t k
    group.n = min(LANES, numbers.shape[0] - first)
    group.longest = 0
    for k in range(LANES):
        group.is_lost[k] = 0
        group.log_z[k] = 0.0
        group.start[k] = 0
        group.length[k] = 0
        if k < group.n:
            group.start[k] = offsets[numbers[first + k]]
            group.length[k] = offsets[numbers[first + k] + 1] - group.start[k]
        group.longest = max(group.longest, group.length[k])


cdef double score_of_path(const chain_shape *shape, const score_source *source,
                          const int32_t[::1] labels, Py_ssize_t start,
                          Py_ssize_t length) noexcept nogil:
    """Sum of the scores along the given labels of a chain of order 1."""
    cdef Py_ssize_t t
    cdef double total = 0.0
    for t in range(length):
        total += score_of(shape, source, labels[start + t], start, t,
                          labels[start + t - 1] if t else 0)
    return total


def lane_log_likelihoods(scores, const int64_t[::1] offsets, const int32_t[::1] labels,
                         const int64_t[::1] numbers, double[::1] out, uint8_t[::1] is_done):
    """Write log P(labels) of some short chains, to the last bit as `lane_gradients` does.

    ``is_done`` marks those that it computes; the scores of the others are too far apart.
    """
    lane_gradients(scores, offsets, labels, numbers, None, None, out, 0.0, None, None, 1.0, is_done)


def lane_gradients(scores, const int64_t[::1] offsets, const int32_t[::1] labels,
                   const int64_t[::1] numbers, double[:, ::1] out, double[:, ::1] curvature,
                   double[::1] log_likelihoods, double bound_share, const double[::1] weights,
                   double[:, :, :, ::1] sums, double unit, uint8_t[::1] is_done):
    """Compute gradient and curvature of the short chains with some numbers.

    ``out`` and ``curvature`` (or None) are arrays (n_labels, n_positions), rounded to multiples of
    2**-32. ``sums`` (3, 2, n_labels, n_labels), or None, receives the sums of transitions, times
    the weights of the positions.
    """
    cdef Memory memory
    cdef chain_shape shape
    cdef score_source source
    cdef factored_terms terms
    cdef lane_group group
    cdef bint is_near
    cdef Py_ssize_t g, first, k, i
    memset(&memory, 0, sizeof(Memory))
    open_source(scores, &shape, &source)
    group = open_lanes(&memory, scores, offsets, numbers, curvature is not None, bound_share,
                       &is_near)
    terms = terms_of(&source)
    with nogil:
        for g in range((numbers.shape[0] + LANES - 1) // LANES if is_near else 0):
            first = g * LANES
            enter_group(&group, offsets, numbers, first)
            load_lanes(&group, &terms)
            forward_lanes(&group)
            for k in range(group.n):
                i = numbers[first + k]
                is_done[i] = not group.is_lost[k]
                log_likelihoods[i] = score_of_path(&shape, &source, labels, group.start[k],
                                                   group.length[k]) - group.log_z[k]
                if group.is_lost[k]:
                    clear_lane(&group, k)
                    group.length[k] = 0
            if out is not None:
                backward_lanes(&group)
                store_group(&group, labels, out, curvature)
            if sums is not None:
                set_weights(&group, weights)
                sum_pairs(&group, weights is not None, SHIFT * unit, SHIFT * unit * WIDER,
                          &sums[0, 0, 0, 0])
        release(&memory)


cdef void store_group(const lane_group *group, const int32_t[::1] labels, double[:, ::1] out,
                      double[:, ::1] curvature) noexcept nogil:
    """Write the residuals and the curvature of labels at positions."""
    cdef Py_ssize_t k, v, t, start
    for k in range(group.n):
        start = group.start[k]
        for v in range(group.n_labels if group.length[k] else 0):
            store_lane(group, k, v, &out[v, start],
                       NULL if curvature is None else &curvature[v, start])
        for t in range(start, start + group.length[k]):
            out[labels[t], t] += 1.0


cdef void set_weights(const lane_group *group, const double[::1] weights) noexcept nogil:
    """Write the weights of the positions, 0 beyond the end of a chain."""
    cdef Py_ssize_t k, t
    cdef double weight
    for t in range(group.longest):
        for k in range(LANES):
            weight = 0.0
            if t < group.length[k]:
                weight = 1.0 if weights is None else weights[group.start[k] + t]
            group.inverse[t * LANES + k] = weight


# Other chains, one after the other.


def single_log_likelihoods(scores, const int64_t[::1] offsets, const int32_t[::1] labels,
                           const int64_t[::1] numbers, double[::1] out):
    """Write log P(labels) of the chains with some numbers, as `single_gradients` does."""
    cdef Chain chain
    cdef Py_ssize_t i
    if not numbers.shape[0]:
        return
    chain = open_chain(scores, lengths_of(offsets, numbers), 0, numbers.shape[0], KEEP_FEW)
    with nogil:
        for i in range(numbers.shape[0]):
            move_to(&chain, offsets, numbers[i])
            forward(&chain)
            out[numbers[i]] = path_score(&chain, labels) - chain.log_z
        release(&chain.memory)


cdef lengths_of(const int64_t[::1] offsets, const int64_t[::1] numbers):
    """Return offsets of chains with the lengths of some chains."""
    lengths = np.diff(offsets)[np.asarray(numbers)]
    return np.append(0, np.cumsum(lengths))


cdef struct Sums:
    # Sums over the positions of a tile: [kind of sum][number of previous labels][label][context].
    double *tile
    double *total           # of all chains, each rounded
    Py_ssize_t size         # of a kind of sum
    Py_ssize_t depth_size   # of a number of previous labels
    double unit


def single_gradients(scores, const int64_t[::1] offsets, const int32_t[::1] labels,
                     const int64_t[::1] numbers, double[:, ::1] out, double[:, ::1] curvature,
                     double[::1] log_likelihoods, double bound_share, const double[::1] weights,
                     double[:, :, :, ::1] sums, double unit):
    """Compute gradient and curvature of the chains with some numbers, of any order above 0.

    The arguments are as in `lane_gradients`, but ``sums`` is (3, order + 1, n_labels, n_contexts).
    """
    cdef Chain chain
    cdef Influence influence
    cdef Sums added
    cdef bint bounded = curvature is not None and bound_share > 0.0
    cdef Py_ssize_t i, t, tile
    if not numbers.shape[0]:
        return
    lengths = lengths_of(offsets, numbers)
    chain = open_chain(scores, lengths, 0, numbers.shape[0], KEEP_SOME)
    if bounded:
        influence = open_influence(&chain, lengths, 0, numbers.shape[0], bound_share)
    memset(&added, 0, sizeof(Sums))
    if sums is not None:
        added.unit = unit
        added.depth_size = chain.shape.n_labels * chain.shape.width
        added.size = (chain.shape.order + 1) * added.depth_size
        added.total = &sums[0, 0, 0, 0]
        added.tile = <double *> take_zeros(&chain.memory, N_SUMS * added.size * sizeof(double))
        if added.tile == NULL:
            release(&chain.memory)
            raise MemoryError(f"no memory for the sums of {added.size} transitions")
    with nogil:
        for i in range(numbers.shape[0]):
            move_to(&chain, offsets, numbers[i])
            forward(&chain)
            log_likelihoods[numbers[i]] = path_score(&chain, labels) - chain.log_z
            for tile in range(chain.n_tiles - 1, -1, -1):
                backward(&chain, tile, True)
                store_labels(&chain, tile, out, curvature)
                if bounded:
                    visit_backward(&chain, &influence, tile)
                elif added.size:
                    sum_tile(&chain, NULL, tile, weights, curvature is not None, &added)
            for tile in range(chain.n_tiles if bounded else 0):
                visit_forward(&chain, &influence, tile)
                bound_labels(&chain, &influence, tile, curvature)
                if added.size:
                    sum_tile(&chain, &influence, tile, weights, True, &added)
            for t in range(chain.start, chain.start + chain.length):
                out[labels[t], t] += 1.0
        release(&chain.memory)


cdef void store_labels(const Chain *chain, Py_ssize_t tile, double[:, ::1] out,
                       double[:, ::1] curvature) noexcept nogil:
    """Write residuals and curvature without a bound of the labels in a tile, from their pairs."""
    cdef Py_ssize_t j, v, c, count = tile_length(chain, tile), width = chain.shape.width
    cdef Py_ssize_t start = chain.start + tile_start(chain, tile)
    cdef const double *row
    cdef double p
    for v in range(chain.shape.n_labels):
        for j in range(count):
            row = tile_pairs(chain, tile) + (v * count + j) * width
            p = 0.0
            for c in range(width):
                p += row[c]
            out[v, start + j] = rounded(-p)
            if curvature is not None:
                curvature[v, start + j] = rounded(p * own_influence(p))


cdef void bound_labels(const Chain *chain, const Influence *influence, Py_ssize_t tile,
                       double[:, ::1] curvature) noexcept nogil:
    """Raise the curvature of the labels in a tile to a share of its bound."""
    cdef Py_ssize_t j, v, c, low, n_ends, n = chain.shape.n_contexts
    cdef Py_ssize_t start = chain.start + tile_start(chain, tile)
    cdef double bound
    for j in range(tile_length(chain, tile)):
        n_ends = n_ends_of(chain, tile_start(chain, tile) + j)
        for v in range(chain.shape.n_labels):
            bound = 0.0
            for low in range(n_ends):  # the contexts that end in the label
                c = (j + 1) * n + low * chain.shape.n_labels + v
                bound += influence.contexts[c] * (influence.future[c] + influence.past[c])
            bound = rounded(influence.bound_share * bound)
            if bound > curvature[v, start + j]:
                curvature[v, start + j] = bound


cdef void sum_tile(const Chain *chain, const Influence *influence, Py_ssize_t tile,
                   const double[::1] weights, bint is_curved, Sums *sums) noexcept nogil:
    """Add the rounded sums over the positions of a tile, with those of influence unless NULL."""
    cdef Py_ssize_t j, v, n, depth, t = tile_start(chain, tile), count = tile_length(chain, tile)
    cdef Py_ssize_t low = min(t, chain.shape.order), width = chain.shape.width
    cdef Py_ssize_t high = min(t + count - 1, chain.shape.order)
    cdef double *rows
    cdef double weight
    for j in range(count):
        weight = 1.0 if weights is None else weights[chain.start + t + j]
        depth = min(t + j, chain.shape.order)
        n = contexts_at(&chain.shape, t + j)
        for v in range(chain.shape.n_labels):
            rows = sums.tile + depth * sums.depth_size + v * width
            add_pairs(chain, influence, tile, j, v, n, weight, is_curved, rows, sums.size)
    round_sums(sums, low * sums.depth_size, (high + 1) * sums.depth_size)


cdef inline void add_pairs(const Chain *chain, const Influence *influence, Py_ssize_t tile,
                           Py_ssize_t j, Py_ssize_t v, Py_ssize_t n, double weight, bint is_curved,
                           double *rows, Py_ssize_t size) noexcept nogil:
    """Add the pairs of label v and the n contexts at the j-th position of a tile."""
    cdef Py_ssize_t c, k = chain.shape.n_labels, step = chain.shape.n_contexts
    cdef Py_ssize_t n_ends = n_ends_of(chain, tile_start(chain, tile) + j)
    cdef const double *pairs = (tile_pairs(chain, tile)
                                + (v * tile_length(chain, tile) + j) * chain.shape.width)
    cdef double p
    for c in range(n):
        p = weight * pairs[c]
        rows[c] += p
        if is_curved:
            rows[size + c] += p * own_influence(pairs[c])
        if influence != NULL:
            rows[2 * size + c] += p * (influence.future[(j + 1) * step + c % n_ends * k + v]
                                       + influence.past[j * step + c])


cdef void round_sums(Sums *sums, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Add the sums of a tile to those of all chains, and clear them."""
    cdef Py_ssize_t kind, i
    cdef double shift
    for kind in range(N_SUMS):
        shift = SHIFT * sums.unit * (WIDER if kind == 2 else 1.0)
        for i in range(kind * sums.size + first, kind * sums.size + last):
            sums.total[i] += (sums.tile[i] + shift) - shift
            sums.tile[i] = 0.0
