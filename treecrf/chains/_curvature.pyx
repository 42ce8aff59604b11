"""Curvature of the log-likelihood of a sequence: its diagonal, and a bound of its Hessian.

The Hessian with respect to the scores is minus the covariance of the indicators of (context, label)
pairs. The diagonal matrix of its absolute row sums bounds it, which makes Newton steps of full
length safe (Chen, Singh, Taskar, Guestrin 2015). The row of a pair of probability p sums to p times
the influence of knowing the pair: 2 (1 - p) on its own position, and on later and earlier positions
at most the influence of the two contexts that it connects.

The pair's own position alone gives 2 p (1 - p), a good estimate of the curvature where labels far
apart hardly depend on each other. With a ``bound_share`` s, the curvature is 2 p (1 - p), but at
least s times the bound: steps of length s or less are then safe as well.

With an order above 1, successive contexts share labels, and those that differ in a shared label
stay apart from one position to the next, however little labels depend on each other. There, the
influence is also bounded by the influence of the contexts one order later, which share no label.

The influence of contexts on later positions comes from a pass over the tiles from the last to the
first, while their pairs are computed; the influence on earlier positions, and the bounds, from a
pass in the other direction. In a long sequence, the second pass computes the pairs again.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from treecrf.chains._chain cimport (
    Chain, backward_row, chain_shape, contexts_at, forward_tile_row, load_pairs, n_ends_of,
    occupancy, tile_length, tile_pairs, tile_start,
)
from treecrf.chains._memory cimport longest_of, release, take_doubles

cdef extern from "chains/influence.h" nogil:
    void sum_contexts(const chain_shape *shape, const double *pairs, Py_ssize_t t,
                      Py_ssize_t count, const Influence *influence)
    void future_rows(const chain_shape *shape, const double *pairs, Py_ssize_t stride,
                     Py_ssize_t t, Py_ssize_t first, Py_ssize_t last, Py_ssize_t length,
                     const Influence *influence)
    void past_rows(const chain_shape *shape, const double *pairs, Py_ssize_t stride, Py_ssize_t t,
                   Py_ssize_t first, Py_ssize_t last, const Influence *influence)


cdef Influence open_influence(Chain *chain, const int64_t[::1] offsets, Py_ssize_t first,
                              Py_ssize_t last, double bound_share) except *:
    """Take memory of the chain for the longest of some sequences."""
    cdef Influence influence
    cdef Py_ssize_t c, n_tiles, n = chain.shape.n_contexts
    cdef Py_ssize_t longest = longest_of(offsets, first, last)
    memset(&influence, 0, sizeof(Influence))
    influence.bound_share = bound_share
    n_tiles = (longest + chain.tile - 1) // chain.tile
    influence.contexts = take_doubles(&chain.memory, (chain.tile + 1) * n)
    influence.inverse = take_doubles(&chain.memory, (chain.tile + 1) * n)
    influence.future = take_doubles(&chain.memory, (chain.tile + 1) * n)
    influence.past = take_doubles(&chain.memory, (chain.tile + 1) * n)
    influence.work = take_doubles(&chain.memory, 3 * n)
    influence.ones = take_doubles(&chain.memory, n)
    influence.starts = take_doubles(&chain.memory, n_tiles * n)
    influence.ends = take_doubles(&chain.memory, n_tiles * n)
    influence.backward = take_doubles(&chain.memory, n_tiles * n)
    if chain.memory.failed:
        release(&chain.memory)
        raise MemoryError(f"no memory for the curvature of a sequence of {longest} positions")
    for c in range(n):
        influence.ones[c] = 1.0
    return influence


cdef inline double *row_at(const Chain *chain, double *rows, Py_ssize_t j) noexcept nogil:
    """Return the row of the contexts before the j-th position of a tile, or after its last."""
    return rows + j * chain.shape.n_contexts


cdef void visit_backward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil:
    """Compute the influence on later positions in tile i, after the backward pass over the tile."""
    cdef Py_ssize_t n = chain.shape.n_contexts, size = n * sizeof(double)
    cdef double *start = row_at(chain, influence.starts, i)
    cdef double *end = row_at(chain, influence.ends, i)
    if i:
        occupancy(chain, contexts_at(&chain.shape, tile_start(chain, i)),
                  forward_tile_row(chain, i, 0), chain.backward, start)
    else:
        memset(start, 0, size)
        start[0] = 1.0
    if i < chain.n_tiles - 1:
        memcpy(end, influence.future, size)
    else:
        memset(end, 0, size)
    memcpy(row_at(chain, influence.backward, i), backward_row(chain, tile_length(chain, i)), size)
    enter_tile(chain, influence, i)


cdef void enter_tile(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil:
    """Compute the rows of `contexts` and `future` in tile i from those at its ends.

    The influence of context c at t on position s >= t is 2 TV(P(c_s | c_t = c), P(c_s)), with TV
    the total variation. It is 2 (1 - P(c)) at s = t and does not grow with s. From t + 1 on it is
    at most the sum of the influences of the next contexts, weighted by |P(c' | c) - P(c')| or by
    P(c' | c). The second one is smaller mostly where successive contexts share labels, and is
    computed there. ``_beam_gradients.influence_of_future`` bounds the states of a beam likewise.
    """
    cdef Py_ssize_t j, k, count = tile_length(chain, i), t = tile_start(chain, i)
    cdef Py_ssize_t step = run_length(chain, count), size = chain.shape.n_contexts * sizeof(double)
    memcpy(influence.contexts, row_at(chain, influence.starts, i), size)
    memcpy(row_at(chain, influence.future, count), row_at(chain, influence.ends, i), size)
    sum_contexts(&chain.shape, tile_pairs(chain, i), t, count, influence)
    for k in range(count // step - 1, -1, -1):
        j = k * step
        future_rows(&chain.shape, tile_pairs(chain, i), row_stride(chain, i), t, j, j + step,
                    chain.length, influence)
        if is_block(chain, i, j):
            limit(chain, influence, i, j, True)
    influence.in_tile = i


cdef inline Py_ssize_t run_length(const Chain *chain, Py_ssize_t count) noexcept nogil:
    """Return how many positions of a tile are computed before some may be compared in blocks."""
    return count if chain.shape.order == 1 else 1


cdef void visit_forward(Chain *chain, Influence *influence, Py_ssize_t i) noexcept nogil:
    """Load all rows of tile i and its pairs, after all visits backward and those before tile i."""
    cdef Py_ssize_t j, k, count = tile_length(chain, i), step = run_length(chain, count)
    if i == 0:
        influence.past[0] = 0.0
    else:
        memcpy(influence.past, row_at(chain, influence.past, chain.tile),
               chain.shape.n_contexts * sizeof(double))
    # The visits backward ended with the pairs of the first tiles in memory.
    if i >= chain.n_kept:
        load_pairs(chain, i, row_at(chain, influence.backward, i))
    if influence.in_tile != i:
        enter_tile(chain, influence, i)
    for k in range(count // step):
        j = k * step
        past_rows(&chain.shape, tile_pairs(chain, i), row_stride(chain, i), tile_start(chain, i),
                  j, j + step, influence)
        if is_block(chain, i, j + 1 - chain.shape.order):
            limit(chain, influence, i, j + 1 - chain.shape.order, False)


cdef inline double *pairs_at(const Chain *chain, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Return the probabilities of the pairs at the j-th position of tile i with label 0."""
    return tile_pairs(chain, i) + j * chain.shape.width


cdef inline Py_ssize_t row_stride(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the distance from the pairs of one label in tile i to the next label's."""
    return tile_length(chain, i) * chain.shape.width


cdef inline bint is_block(const Chain *chain, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Return whether a block begins at the j-th position of tile i.

    A block is as many positions as a context has labels, so that the contexts at its ends have no
    label in common and can be compared.
    """
    cdef Py_ssize_t order = chain.shape.order, t = tile_start(chain, i) + j
    cdef Py_ssize_t distance = block_distance(order, chain.shape.n_contexts, chain.shape.n_labels)
    return (order > 1 and j >= 0 and t >= order and t % distance == 0
            and j + order <= tile_length(chain, i))


cdef void limit(const Chain *chain, Influence *influence, Py_ssize_t i, Py_ssize_t j,
                bint is_future) noexcept nogil:
    """Bound the influence of contexts at one end of a block from j on by those at the other end.

    The influence on later positions is bounded at the start of the block by the influence at its
    end, and the influence on earlier positions at the end by that at the start.
    """
    cdef Py_ssize_t c, order = chain.shape.order, n = chain.shape.n_contexts
    cdef Py_ssize_t bounded = j if is_future else j + order
    cdef Py_ssize_t other = j + order if is_future else j
    cdef double beyond
    cdef double *rows = influence.future if is_future else influence.past
    cdef double *bounds = row_at(chain, rows, bounded)
    cdef const double *values = row_at(chain, rows, other)
    cdef const double *contexts = row_at(chain, influence.contexts, bounded)
    cdef double *row = influence.work + n
    cdef double *mean = row + n
    for c in range(n):
        mean[c] = row_at(chain, influence.contexts, other)[c] * values[c]
    for c in range(n):
        if is_rare(contexts[c], chain.length):
            continue
        if is_future:
            contexts_ahead(chain, influence, i, j, c, row)
        else:
            contexts_behind(chain, influence, i, j, c, row)
        beyond = influence_beyond(row, values, mean, n)
        bounds[c] = min(bounds[c], order * own_influence(contexts[c]) + beyond)


cdef void contexts_ahead(const Chain *chain, const Influence *influence, Py_ssize_t i,
                         Py_ssize_t j, Py_ssize_t c, double *row) noexcept nogil:
    """Write P(context at the end of a block | c at its start): all labels differ."""
    cdef Py_ssize_t s, v, k, first, size = 1, n_labels = chain.shape.n_labels
    cdef double *work = influence.work
    cdef double *inverse
    cdef double *pairs
    row[0] = 1.0
    for s in range(j, j + chain.shape.order):
        # The contexts that begin with the last labels of c. `size` of them differ in later labels.
        first = c * size % chain.shape.n_contexts
        inverse = row_at(chain, influence.inverse, s) + first
        pairs = pairs_at(chain, i, s) + first
        for k in range(size):
            work[k] = row[k] * inverse[k]
        for v in range(n_labels):
            for k in range(size):
                row[k * n_labels + v] = work[k] * pairs[k]
            pairs += row_stride(chain, i)
        size *= n_labels


cdef void contexts_behind(const Chain *chain, const Influence *influence, Py_ssize_t i,
                          Py_ssize_t j, Py_ssize_t c, double *row) noexcept nogil:
    """Write P(context at the start of a block | c at its end)."""
    cdef Py_ssize_t s, h, k, size = 1, n_labels = chain.shape.n_labels
    cdef Py_ssize_t n_ends = chain.shape.n_contexts // n_labels, step = chain.shape.n_contexts
    cdef double *work = influence.work
    cdef double *inverse
    cdef double *pairs
    row[0] = 1.0
    for s in range(j + chain.shape.order - 1, j - 1, -1):
        # The contexts that end with the first labels of c: every `step`-th one from number c on.
        inverse = row_at(chain, influence.inverse, s + 1) + c
        for k in range(size):
            work[k] = row[k] * inverse[k * step]
        pairs = pairs_at(chain, i, s) + c % n_labels * row_stride(chain, i) + c // n_labels
        step //= n_labels
        for h in range(n_labels):
            for k in range(size):
                row[h * size + k] = work[k] * pairs[k * step]
            pairs += n_ends
        c //= n_labels
        size *= n_labels


cdef double curvature_of(const Chain *chain, const Influence *influence, Py_ssize_t v,
                         Py_ssize_t t, Py_ssize_t j, Py_ssize_t c, double p) noexcept nogil:
    """Return the curvature of one pair of probability p at position t, the j-th one of its tile."""
    cdef Py_ssize_t after = c % n_ends_of(chain, t) * chain.shape.n_labels + v
    cdef double own = own_influence(p)
    return p * max(own, influence.bound_share * (
        own + row_at(chain, influence.future, j + 1)[after] + row_at(chain, influence.past, j)[c]))
