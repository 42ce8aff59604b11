"""Forward-backward over one sequence, a chain of label contexts.

The forward pass computes the weights of the contexts of each position from those of the position
before, and the backward pass from those of the position after; `_inference` defines them. Both
passes sum products of weights and factors, the exponentials of scores.

The sums stay in range because the weights of a position are divided by their total where needed
(Rabiner 1989). This is exact unless a weight becomes so small that it is lost. If that happens, or
if the scores of a sequence are too far apart from the start, the sequence is computed with
logarithms instead.

Positions are processed in tiles that fit in the processor's cache. The factors of a few megabytes
of tiles are kept for the backward pass. In a longer sequence, the factors of the other tiles are
computed again, which is faster than using more memory. So are their forward weights, from the row
at the start of each tile, unless a caller needs all of them.

Scores come from a table or from another source.

A sequence without an allowed label sequence has log Z = -inf and probabilities of 0.
"""

import numpy as np

from libc.math cimport log, INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from treecrf.chains._memory cimport longest_of, release, take, take_doubles
from treecrf.utils._vector_math cimport exp_below, largest, log_in_place

cdef extern from "chains/recursions.h" nogil:
    bint forward_tile(const chain_shape *shape, const double *rows, Py_ssize_t t, Py_ssize_t count,
                      double *forward, double *scale, double *log_z, double *work)
    void backward_tile(const chain_shape *shape, double *rows, Py_ssize_t t, Py_ssize_t count,
                       const double *forward, const double *scale, double *backward,
                       double *work, bint pairs)

cdef extern from "chains/scores.h" nogil:
    bint load_rows(const chain_shape *shape, const score_source *source, Py_ssize_t start,
                   Py_ssize_t t, Py_ssize_t count, const double *level, void *work,
                   double *rows)


cdef Chain open_chain(scores, const int64_t[::1] offsets, Py_ssize_t first, Py_ssize_t last,
                      Py_ssize_t keep) except *:
    """Allocate scratch memory for the longest of some sequences.

    ``scores`` are as in `open_source`.
    """
    cdef Chain chain
    cdef Py_ssize_t n_tiles, n_pairs, longest = longest_of(offsets, first, last)
    cdef Py_ssize_t max_pairs = KEEP_SOME if keep == KEEP_ROWS else keep
    memset(&chain, 0, sizeof(Chain))
    open_source(scores, &chain.shape, &chain.source)
    n_pairs = chain.shape.n_labels * chain.shape.width
    chain.tile = tile_of(&chain.shape, longest)
    n_tiles = (longest + chain.tile - 1) // chain.tile
    chain.n_kept = min(n_tiles, max(1, max_pairs // (n_pairs * chain.tile)))
    if keep == KEEP_ROWS:
        chain.n_held = n_tiles
        chain.held_size = chain.tile * chain.shape.n_contexts
    else:  # tiles repeat the last row of the one before
        chain.n_held = chain.n_kept
        chain.held_size = (chain.tile + 1) * chain.shape.n_contexts
    chain.pairs = take_doubles(&chain.memory, chain.n_kept * chain.tile * n_pairs)
    chain.forward = take_doubles(&chain.memory,
                                 chain.n_held * chain.held_size + chain.shape.n_contexts)
    chain.starts = take_doubles(&chain.memory, n_tiles * chain.shape.n_contexts)
    chain.backward = take_doubles(&chain.memory, (chain.tile + 1) * chain.shape.n_contexts)
    chain.work = take_doubles(&chain.memory, 3 * chain.shape.n_contexts)
    chain.scale = take_doubles(&chain.memory, chain.n_held * chain.tile)
    chain.level = take_doubles(&chain.memory, n_tiles)
    chain.source_work = take(&chain.memory, chain.source.work_size)
    if chain.memory.failed:
        release(&chain.memory)
        raise MemoryError(f"no memory for the inference of a sequence of {longest} positions")
    return chain


cdef class ScoreSource:
    """Scores that are not in a table; subclasses implement `describe`."""

    cdef int describe(self, chain_shape *shape, score_source *source) except -1:
        """Set the shape of the chains, and all of the source but its table."""
        raise NotImplementedError


cdef int open_source(scores, chain_shape *shape, score_source *source) except -1:
    """Describe scores: a table, or an object whose method ``source`` returns a `ScoreSource`.

    Their memory must not move while they are in use.
    """
    cdef const double[:, :, ::1] table
    cdef ScoreSource other
    memset(source, 0, sizeof(score_source))
    if not isinstance(scores, np.ndarray):
        other = scores.source()
        return other.describe(shape, source)
    table = scores
    shape[0] = shape_of(table)
    source.n_positions = table.shape[1]
    source.table = &table[0, 0, 0]
    return 0


cdef void move_to(Chain *chain, const int64_t[::1] offsets, Py_ssize_t i) noexcept nogil:
    """Move to sequence i."""
    chain.start = offsets[i]
    chain.length = offsets[i + 1] - offsets[i]
    chain.n_tiles = (chain.length + chain.tile - 1) // chain.tile


cdef void forward(Chain *chain) noexcept nogil:
    """Run the forward pass and compute log Z; `backward` comes next."""
    chain.in_logs = not scaled_forward(chain)
    if chain.in_logs:
        log_forward(chain)


cdef void backward(Chain *chain, Py_ssize_t i, bint pairs) noexcept nogil:
    """Run the backward pass over tile i, after `forward` and the pass over later tiles.

    If ``pairs`` is true, the tile receives the probabilities of (label, context) pairs, with 0 for
    contexts that do not exist.
    """
    cdef double *last = backward_row(chain, tile_length(chain, i))
    if i < chain.n_tiles - 1:
        # The first row of the tile after it.
        memcpy(last, chain.backward, chain.shape.n_contexts * sizeof(double))
    elif not chain.in_logs and chain.log_z > -INFINITY:
        # Weights of 1, divided by Z, so that products with forward weights are probabilities.
        fill(last, contexts_at(&chain.shape, chain.length), 1.0 / total_weight(chain))
    else:
        fill(last, chain.shape.n_contexts, 0.0)
    step_backward(chain, i, pairs, i >= chain.n_tiles - chain.n_kept)


cdef void load_pairs(Chain *chain, Py_ssize_t i, const double *end) noexcept nogil:
    """Compute the pairs of tile i again, given the row of ``backward`` at its end."""
    memcpy(backward_row(chain, tile_length(chain, i)), end,
           chain.shape.n_contexts * sizeof(double))
    step_backward(chain, i, True, False)


cdef void step_backward(Chain *chain, Py_ssize_t i, bint pairs, bint is_loaded) noexcept nogil:
    """Run the backward pass over tile i, from the last row of ``backward``."""
    cdef double unused = 0.0
    if chain.log_z == -INFINITY:
        memset(tile_pairs(chain, i), 0, chain.shape.n_labels * tile_length(chain, i)
               * chain.shape.width * sizeof(double))
    elif chain.in_logs:
        log_backward(chain, i, is_loaded)
    else:
        if not is_loaded:
            load_tile(chain, i, &chain.level[i])
            if chain.n_held == chain.n_kept:  # not all rows of `forward` are kept
                return_to_tile(chain, i)
                step_forward(chain, i, &unused)
        backward_tile(&chain.shape, tile_pairs(chain, i), tile_start(chain, i),
                      tile_length(chain, i), forward_tile_row(chain, i, 0), scale_of(chain, i),
                      chain.backward, chain.work, pairs)


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


cdef void fill(double *row, Py_ssize_t n, double value) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(n):
        row[c] = value


cdef void occupancy(const Chain *chain, Py_ssize_t n, const double *forward,
                    const double *backward, double *out) noexcept nogil:
    """Write P(context) of the n contexts of a position, given its rows."""
    cdef Py_ssize_t c
    if chain.log_z == -INFINITY:
        memset(out, 0, n * sizeof(double))
    elif chain.in_logs:
        for c in range(n):
            out[c] = forward[c] + backward[c]
        softmax(out, n)
    else:
        for c in range(n):
            out[c] = forward[c] * backward[c]


cdef double softmax(double *logs, Py_ssize_t n) noexcept nogil:
    """Apply softmax in place; returns the logarithm of the sum. If all are -inf, they become 0."""
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


cdef inline double *scale_of(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the factors by which the forward pass rescaled the positions of tile i."""
    return chain.scale + i % chain.n_held * chain.tile


cdef void enter_tile(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Copy the last row of `forward` of the tile before to the first one of tile i."""
    cdef double *row = forward_tile_row(chain, i, 0)
    cdef Py_ssize_t size = chain.shape.n_contexts * sizeof(double)
    if i and row != forward_tile_row(chain, i - 1, chain.tile):
        memcpy(row, forward_tile_row(chain, i - 1, chain.tile), size)
    memcpy(chain.starts + i * chain.shape.n_contexts, row, size)


cdef void return_to_tile(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Restore the first row of `forward` of tile i."""
    memcpy(forward_tile_row(chain, i, 0), chain.starts + i * chain.shape.n_contexts,
           chain.shape.n_contexts * sizeof(double))


cdef bint load_tile(Chain *chain, Py_ssize_t i, const double *level) noexcept nogil:
    """Load the factors of a tile relative to a level, or without one the scores.

    Returns whether the factors are in range.
    """
    return load_rows(&chain.shape, &chain.source, chain.start, tile_start(chain, i),
                     tile_length(chain, i), level, chain.source_work, tile_pairs(chain, i))


# Computation from products of factors.

cdef bint scaled_forward(Chain *chain) noexcept nogil:
    """Forward pass over factors; returns whether no weight was lost."""
    cdef Py_ssize_t i, v
    cdef double high
    chain.log_z = 0.0
    forward_tile_row(chain, 0, 0)[0] = 1.0
    for i in range(chain.n_tiles):
        enter_tile(chain, i)
        # Factors are relative to a score near the highest, the level. The highest score of the
        # first context is nearly always close enough, and saves a pass over all scores.
        high = -INFINITY
        for v in range(chain.shape.n_labels):
            high = max(high, score_of(&chain.shape, &chain.source, v, chain.start,
                                      tile_start(chain, i), 0))
        chain.level[i] = high if high > -INFINITY else 0.0
        if not load_tile(chain, i, &chain.level[i]):
            load_tile(chain, i, NULL)
            high = largest(tile_pairs(chain, i), chain.shape.n_labels * tile_length(chain, i)
                           * chain.shape.width)
            chain.level[i] = high if high > -INFINITY else 0.0
            if not load_tile(chain, i, &chain.level[i]):
                return False
        if not step_forward(chain, i, &chain.log_z):
            return False
        chain.log_z += tile_length(chain, i) * chain.level[i]
        if chain.log_z == -INFINITY:
            return True
    chain.log_z += log(total_weight(chain))
    return True


cdef bint step_forward(const Chain *chain, Py_ssize_t i, double *log_z) noexcept nogil:
    """Run the forward pass over a loaded tile; returns whether no weight was lost."""
    return forward_tile(&chain.shape, tile_pairs(chain, i), tile_start(chain, i),
                        tile_length(chain, i), forward_tile_row(chain, i, 0), scale_of(chain, i),
                        log_z, chain.work)


cdef double *last_row(const Chain *chain) noexcept nogil:
    """Return the row of `forward` after the last position."""
    return forward_tile_row(chain, chain.n_tiles - 1, tile_length(chain, chain.n_tiles - 1))


cdef double total_weight(const Chain *chain) noexcept nogil:
    """Sum of the last forward row."""
    cdef Py_ssize_t c
    cdef double total = 0.0
    for c in range(contexts_at(&chain.shape, chain.length)):
        total += last_row(chain)[c]
    return total


# Computation from logarithms, for scores that are too far apart to be scaled.


cdef void log_forward(Chain *chain) noexcept nogil:
    """Forward pass over scores; the largest weight of each position is 1."""
    cdef Py_ssize_t i, n
    chain.log_z = 0.0
    forward_tile_row(chain, 0, 0)[0] = 0.0
    for i in range(chain.n_tiles):
        enter_tile(chain, i)
        load_tile(chain, i, NULL)
        chain.log_z += log_forward_tile(chain, i)
    n = contexts_at(&chain.shape, chain.length)
    memcpy(chain.work, last_row(chain), n * sizeof(double))
    chain.log_z += log_sum(chain.work, n)


cdef double log_forward_tile(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Run the forward pass over a tile; returns the sum of the largest weights."""
    cdef Py_ssize_t j, v, low, h, n_ends, n_starts, n_labels = chain.shape.n_labels
    cdef Py_ssize_t count = tile_length(chain, i), t = tile_start(chain, i)
    cdef Py_ssize_t stride = count * chain.shape.width
    cdef const double *rows
    cdef const double *now
    cdef double *after
    cdef double total = 0.0
    for j in range(count):
        rows = tile_pairs(chain, i) + j * chain.shape.width
        now = forward_tile_row(chain, i, j)
        after = forward_tile_row(chain, i, j + 1)
        n_ends = n_ends_of(chain, t + j)
        n_starts = contexts_at(&chain.shape, t + j) // n_ends
        # Contexts h * n_ends + low lead by label v to context low * n_labels + v.
        for v in range(n_labels):
            for low in range(n_ends):
                for h in range(n_starts):
                    chain.work[h] = now[h * n_ends + low] + rows[v * stride + h * n_ends + low]
                after[low * n_labels + v] = log_sum(chain.work, n_starts)
        total += shift_to_zero(after, n_ends * n_labels)
    return total


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


cdef void log_backward(Chain *chain, Py_ssize_t i, bint is_loaded) noexcept nogil:
    """Backward pass over tile i; turns its scores into probabilities."""
    cdef Py_ssize_t j, count = tile_length(chain, i)
    cdef double *rows = tile_pairs(chain, i)
    if not is_loaded:
        load_tile(chain, i, NULL)
        if chain.n_held == chain.n_kept:
            return_to_tile(chain, i)
            log_forward_tile(chain, i)
    for j in range(count - 1, -1, -1):
        log_backward_step(chain, rows + j * chain.shape.width, count * chain.shape.width,
                          tile_start(chain, i) + j, forward_tile_row(chain, i, j),
                          backward_row(chain, j), backward_row(chain, j + 1))


cdef void log_backward_step(const Chain *chain, double *rows, Py_ssize_t stride, Py_ssize_t t,
                            const double *forward, double *now,
                            const double *after) noexcept nogil:
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
    occupancy(chain, n, forward, now, factor)
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
    cdef Py_ssize_t n_ends = n_ends_of(chain, t)
    cdef double *row
    for c in range(n):
        highest[c] = -INFINITY
    for v in range(n_labels):
        row = rows + v * stride
        for c in range(n):
            row[c] += after[c % n_ends * n_labels + v]
            highest[c] = max(highest[c], row[c])
