"""Greedy decoding and beam search, for models that are normalized at each position.

Scores are log P(label | previous labels), in the contexts of `_inference`, and minus infinity for
labels that are forbidden. The best ``width`` label sequences up to a position are continued by
every label. Of those with the same last ``order`` labels, which have the same future, only the
best is kept. Ties go to the label sequence that was better before the position, then to the lower
label. If all are forbidden, the remaining labels are 0, and the score is -inf. Callers check for
it.

Every function runs without the GIL on the sequences ``first`` to ``last - 1``, and writes only to
the parts of its outputs that belong to these sequences, so that threads can share the work.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from treecrf.chains._context_scores cimport ContextScores, Request, Segment
from treecrf.chains._memory cimport Memory, longest_of, release, take, take_doubles, take_zeros

cdef extern from "chains/heap.h" nogil:
    ctypedef struct Candidate "candidate":
        double score           # log P of the label sequence with the step
        Py_ssize_t step        # rank * n_labels + label: of equal scores, the lowest comes first

    void sift_down_candidate(Candidate *heap, Py_ssize_t n, Py_ssize_t i)
    void make_candidate_heap(Candidate *heap, Py_ssize_t n)

cdef extern from "chains/local/softmax.h" nogil:
    enum:
        LOCAL_BLOCK    # number of columns that are processed at a time
    void log_softmax(double *columns, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n)

cdef enum:
    # Maximum number of sequences that advance together, so that a tree that sums their scores
    # serves all of them, and of their scores, which take 8 MB.
    BATCH = 64
    MAX_SCORES = 1 << 20


cdef struct Beam:
    # The best label sequences up to a position of a sequence.
    Memory memory          # all arrays below
    Py_ssize_t n_labels
    Py_ssize_t order       # number of labels in a context
    Py_ssize_t width       # maximum number of label sequences
    Py_ssize_t start       # first position of the sequence in the data
    Py_ssize_t length      # number of its positions
    Py_ssize_t n           # number of label sequences; 0 if all are forbidden
    double *log_p          # [rank]: log P of the labels so far
    uint8_t *symbols       # [rank, lag]: label at each lag, n_labels for none
    double *rows           # [rank, label]: log P of the next label
    int32_t *parents       # [position, rank]: rank at the position before
    int32_t *labels        # [position, rank]
    # Working memory, which sequences may share
    Candidate *candidates  # [group of ranks, label]
    Py_ssize_t *groups     # [rank]: first rank with the same labels, apart from the oldest one
    uint8_t *after         # like symbols


def search_table(const double[:, :, ::1] log_p, const int64_t[::1] offsets, Py_ssize_t first,
                 Py_ssize_t last, Py_ssize_t order, Py_ssize_t width, int32_t[::1] codes,
                 double[::1] values):
    """Search label sequences, given log P of all labels in all contexts."""
    cdef Py_ssize_t i, t
    cdef Beam beam = open_beam(log_p.shape[0], order, width, longest_of(offsets, first, last))
    with nogil:
        for i in range(first, last):
            begin(&beam, offsets[i], offsets[i + 1])
            for t in range(beam.length):
                read_rows(&beam, log_p, t)
                advance(&beam, t)
            values[i] = finish(&beam, codes)
    release(&beam.memory)


def search_contexts(ContextScores scores, allowed, const int64_t[::1] offsets,
                    Py_ssize_t first, Py_ssize_t last, Py_ssize_t width, int32_t[::1] codes,
                    double[::1] values):
    """Search label sequences, given a source of the scores of single contexts.

    Probabilities are normalized without regard to ``allowed``, a bool array (n_positions, n_labels)
    or None. The other parameters are those of `search_table`.
    """
    cdef const uint8_t[:, ::1] mask = None if allowed is None else allowed.view("u1")
    cdef Batch batch
    cdef Py_ssize_t i, t, longest
    while first < last:
        batch.n = min(last - first, BATCH, max(1, MAX_SCORES // (width * scores.n_labels)))
        longest = longest_of(offsets, first, first + batch.n)
        open_batch(&batch, scores, width, longest)
        with nogil:
            for i in range(batch.n):
                begin(&batch.beams[i], offsets[first + i], offsets[first + i + 1])
            for t in range(longest):
                fetch_rows(&batch, scores, mask, t)
                for i in range(batch.n):
                    if t < batch.beams[i].length:
                        advance(&batch.beams[i], t)
            for i in range(batch.n):
                values[first + i] = finish(&batch.beams[i], codes)
        close_batch(&batch)
        first += batch.n


cdef Beam open_beam(Py_ssize_t n_labels, Py_ssize_t order, Py_ssize_t width,
                    Py_ssize_t longest) except *:
    cdef Beam beam
    memset(&beam, 0, sizeof(Beam))
    beam.n_labels = n_labels
    beam.order = order
    beam.width = width
    beam.log_p = take_doubles(&beam.memory, width)
    beam.symbols = <uint8_t *> take(&beam.memory, width * order)
    beam.rows = take_doubles(&beam.memory, width * n_labels)
    beam.parents = <int32_t *> take(&beam.memory, longest * width * sizeof(int32_t))
    beam.labels = <int32_t *> take(&beam.memory, longest * width * sizeof(int32_t))
    beam.candidates = <Candidate *> take(&beam.memory, width * n_labels * sizeof(Candidate))
    beam.groups = <Py_ssize_t *> take(&beam.memory, width * sizeof(Py_ssize_t))
    beam.after = <uint8_t *> take(&beam.memory, width * order)
    if beam.memory.failed:
        release(&beam.memory)
        raise MemoryError(f"no memory for {width} label sequences of {longest} positions")
    return beam


cdef struct Batch:
    # Sequences that advance together.
    Memory memory          # all arrays below
    Py_ssize_t n           # number of sequences
    Beam *beams            # one for each sequence
    Request *requests      # one for each sequence that has not ended
    # Working memory of the requests, see `Request`
    int32_t *stale
    int32_t *included
    Segment *segments
    double *columns        # [label, column]: scores to normalize


cdef void open_batch(Batch *batch, ContextScores scores, Py_ssize_t width,
                     Py_ssize_t longest) except *:
    cdef Py_ssize_t i, n = batch.n
    memset(&batch.memory, 0, sizeof(Memory))
    batch.beams = <Beam *> take_zeros(&batch.memory, n * sizeof(Beam))
    batch.requests = <Request *> take_zeros(&batch.memory, n * sizeof(Request))
    batch.stale = <int32_t *> take(&batch.memory, n * width * sizeof(int32_t))
    batch.included = <int32_t *> take(&batch.memory, n * width * sizeof(int32_t))
    batch.segments = <Segment *> take(&batch.memory, (scores.max_segments + 1) * sizeof(Segment))
    batch.columns = take_doubles(&batch.memory, scores.n_labels * LOCAL_BLOCK)
    try:
        if batch.memory.failed:
            raise MemoryError(f"no memory for {width} label sequences of {n} sequences")
        for i in range(n):
            batch.beams[i] = open_beam(scores.n_labels, scores.order, width, longest)
    except MemoryError:
        close_batch(batch)
        raise


cdef void close_batch(Batch *batch) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(batch.n if batch.beams != NULL else 0):
        release(&batch.beams[i].memory)
    release(&batch.memory)


cdef void begin(Beam *beam, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Start from the one label sequence before the first position."""
    beam.start = start
    beam.length = end - start
    beam.n = 1
    beam.log_p[0] = 0.0
    memset(beam.symbols, <int> beam.n_labels, beam.order)


cdef void read_rows(Beam *beam, const double[:, :, ::1] log_p, Py_ssize_t t) noexcept nogil:
    """Read log P of the labels at position t from a table."""
    cdef Py_ssize_t i, v, lag, power, context
    for i in range(beam.n):
        power = 1
        context = 0
        for lag in range(min(t, beam.order)):
            context += power * beam.symbols[i * beam.order + lag]
            power *= beam.n_labels
        for v in range(beam.n_labels):
            beam.rows[i * beam.n_labels + v] = log_p[v, beam.start + t, context]


cdef void fetch_rows(Batch *batch, ContextScores scores, const uint8_t[:, ::1] allowed,
                     Py_ssize_t t) noexcept nogil:
    """Compute log P of the labels at position t of all sequences."""
    cdef Py_ssize_t i, k, v, n = 0, n_rows = 0
    cdef Beam *beam
    cdef Request *request
    for i in range(batch.n):
        beam = &batch.beams[i]
        if t >= beam.length or beam.n == 0:
            continue
        request = &batch.requests[n]
        request.position = beam.start + t
        request.n = beam.n
        request.rows = beam.rows
        request.symbols = beam.symbols
        request.stale = batch.stale + n_rows
        request.included = batch.included + n_rows
        request.segments = batch.segments
        n_rows += beam.n
        n += 1
    scores.fetch(batch.requests, n, True)
    for i in range(n):
        request = &batch.requests[i]
        normalize(request.rows, request.n, scores.n_labels, batch.columns)
        for k in range(request.n if allowed is not None else 0):
            for v in range(scores.n_labels):
                if not allowed[request.position, v]:
                    request.rows[k * scores.n_labels + v] = -INFINITY


cdef void normalize(double *rows, Py_ssize_t n, Py_ssize_t n_labels,
                    double *columns) noexcept nogil:
    """Turn scores into log P, by the same operations as in tables of scores."""
    cdef Py_ssize_t i, v, size, first = 0
    while first < n:
        size = min(LOCAL_BLOCK, n - first)
        for i in range(size):
            for v in range(n_labels):
                columns[v * size + i] = rows[(first + i) * n_labels + v]
        log_softmax(columns, n_labels, size, size)
        for i in range(size):
            for v in range(n_labels):
                rows[(first + i) * n_labels + v] = columns[v * size + i]
        first += size


cdef void advance(Beam *beam, Py_ssize_t t) noexcept nogil:
    """Continue the label sequences by the labels of position t, and keep the best."""
    cdef Py_ssize_t k, size = 0, n = find_candidates(beam)
    cdef Py_ssize_t order = beam.order
    cdef uint8_t *symbols
    cdef Candidate *best = beam.candidates
    make_candidate_heap(best, n)
    beam.parents[t * beam.width] = beam.labels[t * beam.width] = 0
    while n and size < beam.width:
        beam.parents[t * beam.width + size] = <int32_t> (best.step // beam.n_labels)
        beam.labels[t * beam.width + size] = <int32_t> (best.step % beam.n_labels)
        beam.log_p[size] = best.score
        size += 1
        n -= 1
        best[0] = best[n]
        sift_down_candidate(best, n, 0)
    for k in range(size if order else 0):
        beam.after[k * order] = <uint8_t> beam.labels[t * beam.width + k]
        memcpy(beam.after + k * order + 1,
               beam.symbols + beam.parents[t * beam.width + k] * order, order - 1)
    symbols = beam.symbols
    beam.symbols = beam.after
    beam.after = symbols
    beam.n = size


cdef Py_ssize_t find_candidates(Beam *beam) noexcept nogil:
    """List the best continuation for each future; returns their number."""
    cdef Py_ssize_t i, v, k, n_labels = beam.n_labels, n_futures, n_groups = 0, n = 0
    cdef size_t size = max(beam.order - 1, 0)
    cdef double score
    cdef Candidate *candidate
    # Number the label sequences by all their last labels but the oldest.
    for i in range(beam.n):
        k = 0
        while k < i and memcmp(beam.symbols + i * beam.order, beam.symbols + k * beam.order, size):
            k += 1
        beam.groups[i] = beam.groups[k] if k < i else n_groups
        n_groups += k == i
    n_futures = n_groups * (n_labels if beam.order else 1)
    for k in range(n_futures):
        beam.candidates[k].score = -INFINITY
    for i in range(beam.n):
        for v in range(n_labels):
            candidate = beam.candidates + (beam.groups[i] * n_labels + v if beam.order else 0)
            score = beam.log_p[i] + beam.rows[i * n_labels + v]
            if score > candidate.score:
                candidate.score = score
                candidate.step = i * n_labels + v
    for k in range(n_futures):
        if beam.candidates[k].score > -INFINITY:
            beam.candidates[n] = beam.candidates[k]
            n += 1
    return n


cdef double finish(const Beam *beam, int32_t[::1] codes) noexcept nogil:
    """Write the labels of the best label sequence; returns its log-probability."""
    cdef Py_ssize_t t, rank = 0
    for t in range(beam.length - 1, -1, -1):
        codes[beam.start + t] = beam.labels[t * beam.width + rank]
        rank = beam.parents[t * beam.width + rank]
    return beam.log_p[0] if beam.n else -INFINITY
