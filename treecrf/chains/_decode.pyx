"""Best label sequences of chains: Viterbi, and the n best.

Scores and contexts are those of `_inference`. A score of minus infinity forbids a label in a
context. If this leaves no label sequence at all, the best score is -inf and the labels are
meaningless. Callers check for it.

Every function runs without the GIL on the sequences ``first`` to ``last - 1``, and writes only to
the parts of its outputs that belong to these sequences, so that threads can share the work.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from treecrf.chains._chain cimport chain_shape, contexts_at, shape_of, tile_of
from treecrf.chains._memory cimport Memory, longest_of, release, take, take_doubles

cdef extern from "chains/heap.h" nogil:
    ctypedef struct Candidate "candidate":
        double score           # score of the best label sequence that a list still offers
        double added           # score of the step from the list's context
        Py_ssize_t step        # number of the step: of equal scores, the lowest comes first
        Py_ssize_t source      # number of the list
        Py_ssize_t rank        # rank of the label sequence in the list

    void sift_down_candidate(Candidate *heap, Py_ssize_t n, Py_ssize_t i)
    void make_candidate_heap(Candidate *heap, Py_ssize_t n)

cdef extern from "chains/recursions.h" nogil:
    void best_tile(const chain_shape *shape, const double *scores, Py_ssize_t stride,
                   Py_ssize_t t, Py_ssize_t count, double *best, double *work)


def viterbi(const double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
            Py_ssize_t last, int32_t[::1] out, double[::1] best_scores):
    """Write the label sequence with the highest score to ``out``, its score to ``best_scores``.

    Ties go to the lowest last context, then to the lowest context before it, and so on. With
    order 0 every position is a separate sequence.
    """
    cdef chain_shape shape = shape_of(scores)
    cdef Py_ssize_t i, t, length, tile, longest = longest_of(offsets, first, last)
    cdef Memory memory
    memset(&memory, 0, sizeof(Memory))
    cdef double *work = take_doubles(&memory, shape.n_contexts)
    cdef double *best = take_doubles(&memory, (longest + 1) * shape.n_contexts)
    if memory.failed:
        release(&memory)
        raise MemoryError(f"no memory to decode a sequence of {longest} positions")
    with nogil:
        for i in range(first, last):
            # `best` receives the highest sum of scores up to each context at each position.
            best[0] = 0.0
            length = offsets[i + 1] - offsets[i]
            tile = tile_of(&shape, length)
            t = 0
            while t < length:
                best_tile(&shape, &scores[0, offsets[i] + t, 0],
                          scores.shape[1] * scores.shape[2], t, min(tile, length - t),
                          best + t * shape.n_contexts, work)
                t += tile
            best_scores[i] = follow_back(&shape, scores, offsets[i], offsets[i + 1], best, out)
        release(&memory)


cdef double follow_back(const chain_shape *shape, const double[:, :, ::1] scores, Py_ssize_t start,
                        Py_ssize_t end, const double *best, int32_t[::1] out) noexcept nogil:
    """Write the labels of the best sequence, from the highest sums; returns its score.

    The context before a position is the one whose sum and score give the sum after it.
    """
    cdef Py_ssize_t t, h, context = 0, n = contexts_at(shape, end - start)
    cdef const double *now = best + (end - start) * shape.n_contexts
    cdef double reached
    for h in range(n):
        if now[h] > now[context]:
            context = h
    cdef double highest = now[context]
    for t in range(end - 1, start - 1, -1):
        reached = now[context]
        now -= shape.n_contexts
        out[t] = <int32_t> (context % shape.n_labels)
        context //= shape.n_labels
        n //= shape.n_labels                 # contexts with the same latest label
        while now[context] + scores[out[t], t, context] < reached:
            context += n
        n = contexts_at(shape, t - start)
    return highest


cdef struct Lists:
    # The best label sequences that end in each context, up to `n_best` for each.
    double *scores         # [context, rank]
    Py_ssize_t *count      # [context]: number of label sequences


cdef struct Search:
    # A search for the n best label sequences.
    Memory memory          # all arrays below
    chain_shape shape
    Py_ssize_t n_best
    Lists now              # lists before a position
    Lists after            # lists after it
    int64_t *origin        # [position, context, rank]: step * n_best + rank in the list before
    Candidate *heap        # one candidate for each list that leads to a context


def n_best(const double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
           Py_ssize_t last, int32_t[:, ::1] out, double[:, ::1] best_scores):
    """Write the best label sequences and their scores, best first.

    ``out[r, t]`` is the label at position t in the label sequence of rank r, and
    ``best_scores[i, r]`` the score of rank r in sequence i, for as many ranks as ``out`` has rows.
    If fewer label sequences are allowed, the remaining ranks get labels of -1 and scores of -inf.
    Rank 0 is the result of `viterbi`, and ties are ordered as there.

    Unlike elsewhere, ``offsets`` are those of the whole sequences even with order 0.
    """
    cdef Search search = open_search(scores, longest_of(offsets, first, last), out.shape[0])
    cdef Py_ssize_t i, t, c, size, length
    with nogil:
        for i in range(first, last):
            search.now.count[0] = 1
            search.now.scores[0] = 0.0
            for t in range(offsets[i + 1] - offsets[i]):
                extend_lists(&search, scores, offsets[i], t)
                swap_lists(&search)
            # Merge the lists of all contexts after the last position.
            length = offsets[i + 1] - offsets[i]
            size = 0
            for c in range(1 if search.shape.width == 1 else contexts_at(&search.shape, length)):
                size = offer(&search, size, c, c, 0.0)
            take_best(&search, size, 0, origin_at(&search, length, 0))
            for c in range(search.n_best):
                best_scores[i, c] = (search.after.scores[c] if c < search.after.count[0]
                                     else -INFINITY)
            trace_back(&search, offsets[i], offsets[i + 1], out)
        release(&search.memory)


cdef Search open_search(const double[:, :, ::1] scores, Py_ssize_t longest,
                        Py_ssize_t n_best) except *:
    """Allocate memory for the longest of some sequences."""
    cdef Search search
    memset(&search, 0, sizeof(Search))
    search.shape = shape_of(scores)
    search.n_best = n_best
    cdef Py_ssize_t n_lists = search.shape.width
    cdef Py_ssize_t n_steps = max(n_lists, search.shape.n_labels)
    search.now.scores = take_doubles(&search.memory, n_lists * n_best)
    search.after.scores = take_doubles(&search.memory, n_lists * n_best)
    search.now.count = <Py_ssize_t *> take(&search.memory, n_lists * sizeof(Py_ssize_t))
    search.after.count = <Py_ssize_t *> take(&search.memory, n_lists * sizeof(Py_ssize_t))
    search.heap = <Candidate *> take(&search.memory, n_steps * sizeof(Candidate))
    search.origin = <int64_t *> take(&search.memory,
                                     (longest * n_lists + 1) * n_best * sizeof(int64_t))
    if search.memory.failed:
        release(&search.memory)
        raise MemoryError(f"no memory for the {n_best} best of a sequence of {longest} positions")
    return search


cdef inline void swap_lists(Search *search) noexcept nogil:
    """Make the lists after a position the lists before the next one."""
    cdef Lists before = search.now
    search.now = search.after
    search.after = before


cdef inline int64_t *origin_at(const Search *search, Py_ssize_t t, Py_ssize_t c) noexcept nogil:
    """Return the origins of the label sequences that end in context c after position t."""
    return search.origin + (t * search.shape.width + c) * search.n_best


cdef void extend_lists(Search *search, const double[:, :, ::1] scores, Py_ssize_t start,
                       Py_ssize_t t) noexcept nogil:
    """Make the lists after position t from those before it."""
    cdef Py_ssize_t v, low, h, c, size = 0, n_labels = search.shape.n_labels
    cdef Py_ssize_t n_ends = contexts_at(&search.shape, t + 1) // n_labels
    cdef Py_ssize_t n_starts = contexts_at(&search.shape, t) // n_ends
    if search.shape.width == 1:
        for v in range(n_labels):
            size = offer(search, size, v, 0, scores[v, start + t, 0])
        take_best(search, size, 0, origin_at(search, t, 0))
        return
    for v in range(n_labels):
        for low in range(n_ends):
            size = 0
            for h in range(n_starts):
                c = h * n_ends + low
                size = offer(search, size, c, c, scores[v, start + t, c])
            take_best(search, size, low * n_labels + v, origin_at(search, t, low * n_labels + v))


cdef void trace_back(const Search *search, Py_ssize_t start, Py_ssize_t end,
                     int32_t[:, ::1] out) noexcept nogil:
    """Write the labels of each rank, from the last position to the first; -1 if there is none."""
    cdef Py_ssize_t r, t, context, rank, step
    for r in range(search.n_best):
        if r >= search.after.count[0]:
            for t in range(start, end):
                out[r, t] = -1
            continue
        context = origin_at(search, end - start, 0)[r] // search.n_best
        rank = origin_at(search, end - start, 0)[r] % search.n_best
        for t in range(end - 1, start - 1, -1):
            step = origin_at(search, t - start, context)[rank] // search.n_best
            rank = origin_at(search, t - start, context)[rank] % search.n_best
            if search.shape.width == 1:
                out[r, t] = <int32_t> step
            else:
                out[r, t] = <int32_t> (context % search.shape.n_labels)
                context = step


cdef inline Py_ssize_t offer(Search *search, Py_ssize_t size, Py_ssize_t step, Py_ssize_t source,
                             double added) noexcept nogil:
    """Append the best candidate of a list, if it has one; returns the new number of candidates."""
    cdef Candidate *candidate = &search.heap[size]
    if added == -INFINITY or search.now.count[source] == 0:
        return size
    candidate.score = search.now.scores[source * search.n_best] + added
    candidate.added = added
    candidate.step = step
    candidate.source = source
    candidate.rank = 0
    return size + 1


cdef void take_best(Search *search, Py_ssize_t size, Py_ssize_t target,
                    int64_t *origin) noexcept nogil:
    """Merge the lists of the candidates into one after the position."""
    cdef Py_ssize_t count = 0
    cdef Candidate *top = search.heap
    make_candidate_heap(search.heap, size)
    while size and count < search.n_best:
        search.after.scores[target * search.n_best + count] = top.score
        origin[count] = top.step * search.n_best + top.rank
        count += 1
        top.rank += 1
        if top.rank < search.now.count[top.source]:
            top.score = search.now.scores[top.source * search.n_best + top.rank] + top.added
        else:
            size -= 1
            search.heap[0] = search.heap[size]
        sift_down_candidate(search.heap, size, 0)
    search.after.count[target] = count
