"""One sequence as a chain of label contexts: its shape, its memory, forward-backward."""

from libc.stdint cimport int32_t, int64_t

from treecrf.chains._memory cimport Memory

cdef extern from "chains/recursions.h" nogil:
    ctypedef struct chain_shape:
        Py_ssize_t n_labels
        # Number of labels in a context. At least 1: with order 0, the context after a position is
        # its label, though no score depends on it.
        Py_ssize_t order
        Py_ssize_t n_contexts    # number of contexts of a position after `order` labels
        Py_ssize_t width         # scores of a label at a position: n_contexts, or 1 with order 0

    Py_ssize_t contexts_at(const chain_shape *shape, Py_ssize_t t)

cdef extern from "chains/scores.h" nogil:
    ctypedef struct score_source:
        Py_ssize_t n_positions   # number of positions of all sequences
        const double *table      # [label, position, context]; NULL for another source
        Py_ssize_t work_size     # bytes of scratch memory to load scores of another source

    double score_of(const chain_shape *shape, const score_source *source, Py_ssize_t v,
                    Py_ssize_t start, Py_ssize_t t, Py_ssize_t c)

cdef enum:
    # Maximum number of scores in a tile, which is a run of positions that are processed together:
    # 64 KB of one label, which are read in one go, and 2 MB of all labels, which stay in the cache
    # between the passes.
    BURST = 1 << 13
    TILE = 1 << 18


cdef inline Py_ssize_t tile_of(const chain_shape *shape, Py_ssize_t longest) noexcept nogil:
    """Return the number of positions in a tile, a multiple of the order unless one holds all."""
    cdef Py_ssize_t tile = min(BURST, TILE // shape.n_labels) // shape.width
    return min(longest, max(1, tile // shape.order) * shape.order)


cdef inline bint has_weight(const double[::1] weights, int64_t first, int64_t end) noexcept nogil:
    """Return whether a position of a sequence has a weight other than 0; all do by default."""
    cdef int64_t t
    if weights is None:
        return True
    for t in range(first, end):
        if weights[t] != 0.0:
            return True
    return False


cdef inline chain_shape shape_of(const double[:, :, ::1] scores) noexcept nogil:
    """Return the shape of chains whose scores are in a table."""
    cdef chain_shape shape
    shape.n_labels = scores.shape[0]
    shape.width = scores.shape[2]
    shape.order = 1
    shape.n_contexts = shape.n_labels
    while shape.n_contexts < shape.width:
        shape.n_contexts *= shape.n_labels
        shape.order += 1
    return shape


cdef inline Py_ssize_t next_context(const chain_shape *shape, Py_ssize_t t, Py_ssize_t c,
                                    Py_ssize_t v) noexcept nogil:
    """Return the context at t + 1 after context c and label v at t."""
    cdef Py_ssize_t after = c * shape.n_labels + v
    if shape.order == 1:   # faster than a division
        return v
    return after if t < shape.order else after % shape.n_contexts


cdef inline Py_ssize_t true_context(const chain_shape *shape, const int32_t *labels,
                                    Py_ssize_t t) noexcept nogil:
    """Return the context at position t of a sequence with these labels."""
    cdef Py_ssize_t lag, power = 1, context = 0
    for lag in range(1, min(t, shape.order) + 1):
        context += power * labels[t - lag]
        power *= shape.n_labels
    return context


cdef enum:
    # Number of pairs (context, label) that stay in memory, with their rows of `forward`, from the
    # forward pass to the backward pass. Those of earlier tiles are computed again.
    KEEP_NONE = 0                # there is no backward pass
    KEEP_FEW = 1 << 19           # 4 MB, where many threads would take too much memory
    KEEP_SOME = 1 << 22          # 32 MB: computing more again is faster than using more memory
    KEEP_ROWS = -1               # as many pairs, but all rows of `forward`, one after the other


cdef struct Chain:
    # A sequence in scratch memory. A row is a number for each context of a position.
    Memory memory                # all arrays below
    chain_shape shape
    score_source source          # the scores of all sequences
    Py_ssize_t start             # first position of the sequence in the data
    Py_ssize_t length            # number of its positions
    Py_ssize_t tile              # number of positions in a tile
    Py_ssize_t n_tiles           # number of tiles of the sequence
    Py_ssize_t n_kept            # tiles whose pairs are kept: the last, then those visited last
    Py_ssize_t n_held            # tiles whose rows of `forward` are kept
    Py_ssize_t held_size         # numbers in these rows, from a tile to the next
    # [label, position, context] of each kept tile: factors, which are exponentials of scores; after
    # the backward pass, probabilities.
    double *pairs
    double *forward              # forward weights, a row for each position of the held tiles
    double *starts               # row of `forward` at the start of each tile
    double *backward             # backward weights: rows of a tile and of the position after it
    double *work                 # three rows
    double *scale                # factor by which the forward pass rescaled each position
    double *level                # for each tile, the score whose factor is 1
    void *source_work            # scratch memory of a source without a table
    double log_z
    bint in_logs                 # whether `forward` and `backward` hold logarithms


cdef inline Py_ssize_t n_ends_of(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Return the number of contexts after t that end in the same label."""
    return contexts_at(&chain.shape, t + 1) // chain.shape.n_labels


cdef inline Py_ssize_t tile_start(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the first position of tile i in its sequence."""
    return i * chain.tile


cdef inline Py_ssize_t tile_length(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the number of positions of tile i, of which the last may be shorter."""
    return min(chain.tile, chain.length - i * chain.tile)


cdef inline double *tile_pairs(const Chain *chain, Py_ssize_t i) noexcept nogil:
    """Return the rows of tile i; the rows of label v start at ``v * tile_length * width``."""
    cdef Py_ssize_t size = chain.shape.n_labels * chain.tile * chain.shape.width
    return chain.pairs + i % chain.n_kept * size


cdef inline double *forward_tile_row(const Chain *chain, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Return the row of the j-th position of tile i, or of the one after it."""
    return chain.forward + i % chain.n_held * chain.held_size + j * chain.shape.n_contexts


cdef inline double *forward_row(const Chain *chain, Py_ssize_t t) noexcept nogil:
    """Return the row of position t, if the rows of all positions are kept."""
    return chain.forward + t * chain.shape.n_contexts


cdef inline double *backward_row(const Chain *chain, Py_ssize_t j) noexcept nogil:
    """Return the row of the j-th position of the current tile."""
    return chain.backward + j * chain.shape.n_contexts


cdef class ScoreSource:
    cdef int describe(self, chain_shape *shape, score_source *source) except -1


cdef int open_source(scores, chain_shape *shape, score_source *source) except -1
cdef Chain open_chain(scores, const int64_t[::1] offsets, Py_ssize_t first, Py_ssize_t last,
                      Py_ssize_t keep) except *
cdef void move_to(Chain *chain, const int64_t[::1] offsets, Py_ssize_t i) noexcept nogil
cdef void forward(Chain *chain) noexcept nogil
cdef void log_forward(Chain *chain) noexcept nogil
cdef void backward(Chain *chain, Py_ssize_t i, bint pairs) noexcept nogil
cdef double path_score(const Chain *chain, const int32_t[::1] labels) noexcept nogil
cdef void load_pairs(Chain *chain, Py_ssize_t i, const double *end) noexcept nogil
cdef void occupancy(const Chain *chain, Py_ssize_t n, const double *forward,
                    const double *backward, double *out) noexcept nogil
cdef double shift_to_zero(double *values, Py_ssize_t n) noexcept nogil
cdef double log_sum(double *values, Py_ssize_t n) noexcept nogil
cdef double softmax(double *logs, Py_ssize_t n) noexcept nogil
