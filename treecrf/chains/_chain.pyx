"""Forward-backward over one sequence, a chain of label contexts.

Sums of products stay in range because the weights of a position are divided by their total where
needed (Rabiner 1989). This is exact unless a weight becomes so small that it is lost. If that
happens, or if the scores of a sequence are too far apart from the start, the sequence is computed
with logarithms instead.

Positions are processed in tiles that fit in the processor's cache. The factors of a few megabytes
of tiles are kept for the backward pass; those of the other tiles of a longer sequence are computed
again, which is faster than using more memory.

A sequence without an allowed label sequence has log Z = -inf and probabilities of 0.
"""

from libc.math cimport log, INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from "chains/recursions.h" nogil:
    double exp_of(double x)
    void exp_below(double *values, Py_ssize_t n, double highest)
    void log_in_place(double *values, Py_ssize_t n)
    double largest(const double *values, Py_ssize_t n)
    bint load_factors(const chain_shape *shape, const double *scores, Py_ssize_t stride,
                      Py_ssize_t t, Py_ssize_t count, double level, double *rows)
    void load_scores(const chain_shape *shape, const double *scores, Py_ssize_t stride,
                     Py_ssize_t t, Py_ssize_t count, double *rows)
    bint forward_tile(const chain_shape *shape, const double *rows, Py_ssize_t t, Py_ssize_t count,
                      double *forward, double *scale, double *log_z, double *work)
    void backward_tile(const chain_shape *shape, double *rows, Py_ssize_t t, Py_ssize_t count,
                       const double *forward, const double *scale, double *backward,
                       double *work, bint pairs)

cdef Chain open_chain(const double[:, :, ::1] scores, const int64_t[::1] offsets,
                      Py_ssize_t first, Py_ssize_t last, Py_ssize_t keep) except *:
    """Allocate scratch memory for the longest of some sequences."""
    cdef Chain chain
    cdef Py_ssize_t i, n_tiles, n_pairs, n_rows, longest = 1
    memset(&chain, 0, sizeof(Chain))
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    chain.shape = shape_of(scores)
    chain.stride = scores.shape[1] * scores.shape[2]
    n_pairs = chain.shape.n_labels * chain.shape.width
    chain.tile = tile_of(&chain.shape, longest)
    n_tiles = (longest + chain.tile - 1) // chain.tile
    chain.n_kept = n_tiles
    if keep != KEEP_ALL:
        chain.n_kept = min(n_tiles, max(1, keep // (n_pairs * chain.tile)))
    chain.pairs = allocate(chain.n_kept * chain.tile * n_pairs)
    chain.forward = allocate((longest + 1) * chain.shape.n_contexts)
    n_rows = 1 + (longest if keep == KEEP_ALL else chain.tile)
    chain.backward = allocate(n_rows * chain.shape.n_contexts)
    chain.work = allocate(3 * chain.shape.n_contexts)
    chain.scale = allocate(longest)
    chain.level = allocate(n_tiles)
    if not (chain.pairs and chain.forward and chain.backward and chain.work and chain.scale
            and chain.level):
        close_chain(&chain)
        raise MemoryError(f"no memory for the inference of a sequence of {longest} positions")
    return chain


cdef double *allocate(Py_ssize_t n) noexcept nogil:
    return <double *> malloc(n * sizeof(double))


cdef void close_chain(Chain *chain) noexcept nogil:
    free(chain.pairs)
    free(chain.forward)
    free(chain.backward)
    free(chain.work)
    free(chain.scale)
    free(chain.level)


cdef void move_to(Chain *chain, const double[:, :, ::1] scores, const int64_t[::1] offsets,
                  Py_ssize_t i) noexcept nogil:
    """Move to sequence i."""
    chain.start = offsets[i]
    chain.length = offsets[i + 1] - offsets[i]
    chain.scores = &scores[0, chain.start, 0]
    chain.n_tiles = (chain.length + chain.tile - 1) // chain.tile


cdef void forward(Chain *chain) noexcept nogil:
    """Return log Z of the sequence; prepare `backward`."""
    chain.in_logs = not scaled_forward(chain)
    if chain.in_logs:
        log_forward(chain)


cdef void backward(Chain *chain, Py_ssize_t i, bint pairs) noexcept nogil:
    """Run the backward pass over tile i, after `forward` and the pass over later tiles.

    If ``pairs`` is true, the tile receives the probabilities of (label, context) pairs, with 0 for
    contexts that do not exist.
    """
    cdef Py_ssize_t count = tile_length(chain, i)
    if i < chain.n_tiles - 1:
        memcpy(backward_row(chain, count), chain.backward,
               chain.shape.n_contexts * sizeof(double))
    if chain.log_z == -INFINITY:
        memset(tile_pairs(chain, i), 0,
               chain.shape.n_labels * count * chain.shape.width * sizeof(double))
    elif chain.in_logs:
        log_backward(chain, i)
    else:
        scaled_backward(chain, i, pairs)


cdef void occupancy(const Chain *chain, Py_ssize_t t, const double *backward,
                    double *out) noexcept nogil:
    """Write P(context at t), given the row of ``backward`` for t."""
    cdef Py_ssize_t c, n = contexts_at(&chain.shape, t)
    cdef double *forward = forward_row(chain, t)
    if chain.log_z == -INFINITY:
        memset(out, 0, n * sizeof(double))
    elif chain.in_logs:
        for c in range(n):
            out[c] = forward[c] + backward[c]
        normalize(out, n)
    else:
        for c in range(n):
            out[c] = forward[c] * backward[c]


cdef void normalize(double *logs, Py_ssize_t n) noexcept nogil:
    """Turn logarithms of weights into probabilities."""
    cdef Py_ssize_t c
    cdef double total = 0.0
    exp_below(logs, n, largest(logs, n))
    for c in range(n):
        total += logs[c]
    for c in range(n):
        logs[c] /= total


cdef inline const double *tile_scores(const Chain *chain, Py_ssize_t i) noexcept nogil:
    return chain.scores + i * chain.tile * chain.shape.width


# Computation from products of factors.


cdef bint load_tile(Chain *chain, Py_ssize_t i) noexcept nogil:
    """Compute the factors of a tile relative to its level; returns whether they are in range."""
    return load_factors(&chain.shape, tile_scores(chain, i), chain.stride, i * chain.tile,
                        tile_length(chain, i), chain.level[i], tile_pairs(chain, i))


cdef double some_score(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the best score of the first context of a tile, probably close to the others."""
    cdef Py_ssize_t v
    cdef double high = -INFINITY
    for v in range(chain.shape.n_labels):
        high = max(high, tile_scores(chain, i)[v * chain.stride])
    return high if high > -INFINITY else 0.0


cdef double highest_score(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the largest score of a tile; 0 if all are forbidden."""
    cdef Py_ssize_t count = tile_length(chain, i)
    cdef double *rows = tile_pairs(chain, i)
    cdef double high
    load_scores(&chain.shape, tile_scores(chain, i), chain.stride, i * chain.tile, count, rows)
    high = largest(rows, chain.shape.n_labels * count * chain.shape.width)
    return high if high > -INFINITY else 0.0


cdef bint scaled_forward(Chain *chain) noexcept nogil:
    """Forward pass over factors; returns whether no weight was lost."""
    cdef Py_ssize_t i, t
    chain.log_z = 0.0
    chain.forward[0] = 1.0
    for i in range(chain.n_tiles):
        t = i * chain.tile
        # This nearly always saves a pass over the scores.
        chain.level[i] = some_score(chain, i)
        if not load_tile(chain, i):
            chain.level[i] = highest_score(chain, i)
            if not load_tile(chain, i):
                return False
        if not forward_tile(&chain.shape, tile_pairs(chain, i), t, tile_length(chain, i),
                            forward_row(chain, t), chain.scale + t, &chain.log_z, chain.work):
            return False
        chain.log_z += tile_length(chain, i) * chain.level[i]
        if chain.log_z == -INFINITY:
            return True
    chain.log_z += log(total_weight(chain))
    return True


cdef double total_weight(const Chain *chain) noexcept nogil:
    """Sum of the last forward row."""
    cdef Py_ssize_t c
    cdef double total = 0.0
    for c in range(contexts_at(&chain.shape, chain.length)):
        total += forward_row(chain, chain.length)[c]
    return total


cdef void scaled_backward(Chain *chain, Py_ssize_t i, bint pairs) noexcept nogil:
    cdef Py_ssize_t c, count = tile_length(chain, i), t = i * chain.tile
    cdef double inverse
    if i == chain.n_tiles - 1:
        inverse = 1.0 / total_weight(chain)
        for c in range(contexts_at(&chain.shape, chain.length)):
            backward_row(chain, count)[c] = inverse
    if i < chain.n_tiles - chain.n_kept:
        load_tile(chain, i)
    backward_tile(&chain.shape, tile_pairs(chain, i), t, count, forward_row(chain, t),
                  chain.scale + t, chain.backward, chain.work, pairs)


# Computation from logarithms, for scores that are too far apart to be scaled.


cdef void log_forward(Chain *chain) noexcept nogil:
    cdef Py_ssize_t i, j, t, n, count
    chain.log_z = 0.0
    chain.forward[0] = 0.0
    for i in range(chain.n_tiles):
        count = tile_length(chain, i)
        t = i * chain.tile
        load_scores(&chain.shape, tile_scores(chain, i), chain.stride, t, count,
                    tile_pairs(chain, i))
        for j in range(count):
            log_forward_step(chain, tile_pairs(chain, i) + j * chain.shape.width,
                             count * chain.shape.width, t + j)
            chain.log_z += shift_to_zero(forward_row(chain, t + j + 1),
                                         contexts_at(&chain.shape, t + j + 1))
    n = contexts_at(&chain.shape, chain.length)
    memcpy(chain.work, forward_row(chain, chain.length), n * sizeof(double))
    chain.log_z += log_sum(chain.work, n)


cdef double shift_to_zero(double *values, Py_ssize_t n) noexcept nogil:
    """Subtract the largest value, so that long sequences lose no digits; returns it."""
    cdef double high = largest(values, n)
    cdef Py_ssize_t i
    if high > -INFINITY:
        for i in range(n):
            values[i] -= high
    return high


cdef double log_sum(double *values, Py_ssize_t n) noexcept nogil:
    """Return the logarithm of the sum of exponentials; overwrites the values."""
    cdef Py_ssize_t i
    cdef double total = 0.0, high = largest(values, n)
    # If all are -inf, the differences are NaN, which `exp_below` turns into 0.
    exp_below(values, n, high)
    for i in range(n):
        total += values[i]
    return high + log(total)


cdef void log_forward_step(Chain *chain, const double *rows, Py_ssize_t stride,
                           Py_ssize_t t) noexcept nogil:
    """Compute the logarithms of the weights at t + 1 from those at t and the scores."""
    cdef Py_ssize_t v, low, h, n_labels = chain.shape.n_labels
    cdef Py_ssize_t n_ends = contexts_at(&chain.shape, t + 1) // n_labels
    cdef Py_ssize_t n_starts = contexts_at(&chain.shape, t) // n_ends
    cdef const double *now = forward_row(chain, t)
    cdef double *after = forward_row(chain, t + 1)
    for v in range(n_labels):
        for low in range(n_ends):
            for h in range(n_starts):
                chain.work[h] = now[h * n_ends + low] + rows[v * stride + h * n_ends + low]
            after[low * n_labels + v] = log_sum(chain.work, n_starts)


cdef void log_backward(Chain *chain, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t j, count = tile_length(chain, i), t = i * chain.tile
    cdef double *rows = tile_pairs(chain, i)
    if i == chain.n_tiles - 1:
        memset(backward_row(chain, count), 0, chain.shape.n_contexts * sizeof(double))
    if i < chain.n_tiles - chain.n_kept:
        load_scores(&chain.shape, tile_scores(chain, i), chain.stride, t, count, rows)
    for j in range(count - 1, -1, -1):
        log_backward_step(chain, rows + j * chain.shape.width, count * chain.shape.width, t + j,
                          backward_row(chain, j), backward_row(chain, j + 1))


cdef void log_backward_step(const Chain *chain, double *rows, Py_ssize_t stride, Py_ssize_t t,
                            double *now, const double *after) noexcept nogil:
    """Compute the log-weights at t from those at t + 1; turns scores into probabilities."""
    cdef Py_ssize_t v, c, n = contexts_at(&chain.shape, t), n_labels = chain.shape.n_labels
    cdef double *factor = chain.work
    cdef double *total = factor + chain.shape.n_contexts
    add_future(chain, rows, stride, t, now, after)
    memset(total, 0, n * sizeof(double))
    for v in range(n_labels):
        for c in range(n):
            rows[v * stride + c] -= now[c]
        exp_below(rows + v * stride, n, 0.0)
        for c in range(n):
            total[c] += rows[v * stride + c]
    memcpy(factor, total, n * sizeof(double))
    log_in_place(factor, n)
    for c in range(n):
        now[c] += factor[c]
    shift_to_zero(now, n)
    occupancy(chain, t, now, factor)
    for c in range(n):
        factor[c] = factor[c] / total[c] if total[c] > 0.0 else 0.0
    for v in range(n_labels):
        for c in range(n):
            rows[v * stride + c] *= factor[c]
        for c in range(n, chain.shape.width):
            rows[v * stride + c] = 0.0


cdef void add_future(const Chain *chain, double *rows, Py_ssize_t stride, Py_ssize_t t,
                     double *highest, const double *after) noexcept nogil:
    """Add to each score the weight of the next context; store the maximum for each context."""
    cdef Py_ssize_t v, c, n = contexts_at(&chain.shape, t), n_labels = chain.shape.n_labels
    cdef Py_ssize_t n_ends = contexts_at(&chain.shape, t + 1) // n_labels
    cdef double *row
    for c in range(n):
        highest[c] = -INFINITY
    for v in range(n_labels):
        row = rows + v * stride
        for c in range(n):
            row[c] += after[c % n_ends * n_labels + v]
            highest[c] = max(highest[c], row[c])
