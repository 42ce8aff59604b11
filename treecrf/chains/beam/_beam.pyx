"""Inference in chains restricted to a beam: the best contexts of each position.

Inference that ``_inference`` does for all contexts is done here for the ``width`` contexts with
the largest forward weight at each position (Ashenfelter 2003, section 2.4). If the beam holds all
contexts, the results are exact. Contexts are numbered as in ``_inference``: label v leads from
context c to context ``(c % B) * K + v``, where ``B = K**(order - 1)``. Contexts with the same
remainder modulo B, their *base*, lead to the same contexts. The kept contexts, *states*, are sorted
by their base, so that the states that lead to the same state are neighbors.

Ties go to the lowest context. If labels are given, their context is kept at each position, if
necessary in place of the worst of the others, so that their probability is at most 1.

Weights are logarithms, and the largest at each position is 0. The backward pass needs no weights:
each state distributes its probability over the states before it in proportion to their
contributions to its weight. Labels that lead to no state have probability 0. *Forward only* skips
the backward pass, so that the probabilities of a position depend on the positions up to it.

Sequences advance in parallel, one position at a time, so that the trees that sum their scores serve
all of them. Every function runs without the GIL on the sequences ``first`` to ``last - 1``, and
writes only to the parts of its outputs that belong to these. Gradients are in ``_beam_gradients``.
"""

from libc.math cimport log, INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from treecrf.chains._context_scores cimport ContextScores, Request, Segment
from treecrf.chains._memory cimport Memory, longest_of, release, take, take_doubles, take_zeros
from treecrf.utils._vector_math cimport exp_below, largest

cdef extern from "chains/beam/states.h" nogil:
    bint is_worse_state(const State *a, const State *b)
    void sift_down_state(State *heap, Py_ssize_t n, Py_ssize_t i)
    void make_state_heap(State *heap, Py_ssize_t n)

# Sequences form a batch until they have this many scores: 64 MB.
cdef Py_ssize_t MAX_SCORES = 1 << 23


cdef class BeamChains:
    """Sequences whose inference is restricted to a beam."""

    def __init__(self, ContextScores scores, const int64_t[::1] offsets, Py_ssize_t width,
                 bint forward_only=False):
        self.scores = scores
        self.offsets = offsets
        self.width = width
        self.forward_only = forward_only

    cdef Beam open(self, Py_ssize_t first, Py_ssize_t last) except *:
        """Allocate memory for a batch, at least for the longest of some sequences."""
        cdef Beam beam
        cdef Py_ssize_t longest = longest_of(self.offsets, first, last)
        memset(&beam, 0, sizeof(Beam))
        beam.next = first
        beam.last = last
        beam.max_positions = min(max(longest, MAX_SCORES // (self.width * self.scores.n_labels)),
                                 self.offsets[last] - self.offsets[first])
        allocate(&beam, min(last - first, beam.max_positions), self.width, self.scores)
        return beam

    cdef bint next_batch(self, Beam *beam, const int32_t[::1] labels) noexcept nogil:
        """Find the states of the next sequences, their scores and log Z; False if none are left.

        ``labels`` may be None.
        """
        cdef Py_ssize_t start, length, n
        cdef Trellis *trellis
        beam.n_trellises = beam.n_positions = 0
        while beam.next < beam.last:
            start = self.offsets[beam.next]
            length = self.offsets[beam.next + 1] - start
            if beam.n_positions + length > beam.max_positions:
                break
            trellis = &beam.trellises[beam.n_trellises]
            n = beam.n_positions
            trellis.sequence = beam.next
            trellis.start = start
            trellis.length = length
            trellis.n_states = beam.n_states + n
            trellis.states = beam.states + n * self.width
            trellis.contexts = beam.contexts + n * self.width
            trellis.columns = beam.columns + n * self.width
            trellis.rows = beam.rows + n * self.width * trellis.n_labels
            trellis.truth = beam.truth + n
            beam.n_trellises += 1
            beam.n_positions += length
            beam.next += 1
        forward(beam, self.scores, labels)
        return beam.n_trellises > 0


# Memory

cdef void allocate(Beam *beam, Py_ssize_t n_sequences, Py_ssize_t width,
                   ContextScores scores) except *:
    cdef Trellis *trellis
    cdef Request *request
    cdef Py_ssize_t i, n = beam.max_positions, m = n_sequences
    cdef Memory *memory = &beam.memory
    beam.trellises = <Trellis *> take_zeros(memory, m * sizeof(Trellis))
    beam.requests = <Request *> take_zeros(memory, m * sizeof(Request))
    # A sequence without positions has a first context as well.
    beam.n_states = <Py_ssize_t *> take(memory, (n + 1) * sizeof(Py_ssize_t))
    beam.states = <State *> take(memory, (n * width + 1) * sizeof(State))
    beam.contexts = <int64_t *> take(memory, (n * width + 1) * sizeof(int64_t))
    beam.columns = <Py_ssize_t *> take(memory, (n * width + 1) * sizeof(Py_ssize_t))
    beam.rows = take_doubles(memory, n * width * scores.n_labels)
    beam.truth = <Py_ssize_t *> take(memory, (n + 1) * sizeof(Py_ssize_t))
    beam.scratch = take_doubles(memory, (2 * width + 1) * max(scores.n_labels, 2))
    beam.stale = <int32_t *> take(memory, m * width * sizeof(int32_t))
    beam.included = <int32_t *> take(memory, m * width * sizeof(int32_t))
    beam.symbols = <uint8_t *> take(memory, m * width * scores.order)
    beam.segments = <Segment *> take(memory, (scores.max_segments + 1) * sizeof(Segment))
    if memory.failed:
        release(memory)
        raise MemoryError(f"no memory for {width} contexts at {n} positions")
    for i in range(m):
        # What all sequences share.
        trellis = &beam.trellises[i]
        trellis.n_labels = scores.n_labels
        trellis.width = width
        trellis.scratch = beam.scratch
        # With order 0 the scores have one context, but the state after a position is its label.
        trellis.order = max(scores.order, 1)
        trellis.n_bases = 1
        for _ in range(1, trellis.order):
            trellis.n_bases *= trellis.n_labels
        request = &beam.requests[i]
        request.stale = beam.stale + i * width
        request.included = beam.included + i * width
        request.symbols = beam.symbols + i * width * scores.order
        request.segments = beam.segments


# Forward

cdef void forward(Beam *beam, ContextScores scores, const int32_t[::1] labels) noexcept nogil:
    """Find the states of a batch, their scores and log Z; ``labels`` may be None."""
    cdef Py_ssize_t t, i, longest = 0
    cdef double total
    cdef Trellis *trellis
    for i in range(beam.n_trellises):
        # The one context before a sequence.
        trellis = &beam.trellises[i]
        memset(trellis.states, 0, sizeof(State))
        trellis.n_states[0] = 1
        trellis.contexts[0] = 0
        trellis.truth[0] = -1 if labels is None else 0
        trellis.path = trellis.log_z = 0.0
        longest = max(longest, trellis.length)
    for t in range(longest):
        fetch_rows(beam, scores, t)
        for i in range(beam.n_trellises):
            trellis = &beam.trellises[i]
            if t >= trellis.length:
                continue
            if labels is not None:
                trellis.path += row_at(trellis, t, trellis.truth[t])[labels[trellis.start + t]]
            if t + 1 == trellis.length:
                trellis.log_z += joint_weights(trellis, t, trellis.scratch, &total)
                trellis.log_z += log(total)
            elif labels is None:
                advance(trellis, t, -1)
            else:
                advance(trellis, t, labels[trellis.start + t])


cdef void fetch_rows(Beam *beam, ContextScores scores, Py_ssize_t t) noexcept nogil:
    """Fetch the scores of the states at position t of all sequences."""
    cdef Py_ssize_t i, n = 0
    cdef Trellis *trellis
    cdef Request *request
    for i in range(beam.n_trellises):
        trellis = &beam.trellises[i]
        if t < trellis.length:
            request = &beam.requests[n]
            request.position = trellis.start + t
            request.depth = min(t, scores.order)
            request.n = trellis.n_states[t]
            request.contexts = trellis.contexts + t * trellis.width
            request.entries = trellis.columns + t * trellis.width
            request.rows = row_at(trellis, t, 0)
            n += 1
    scores.fetch(beam.requests, n, False)


cdef void advance(Trellis *trellis, Py_ssize_t t, int32_t label) noexcept nogil:
    """Choose the states of the next position; ``label`` is -1 if none is given."""
    cdef Py_ssize_t i, first = 0, last, n_after = 0, width = trellis.width
    cdef State *before = states_at(trellis, t)
    cdef State *after = before + width
    cdef State truth
    cdef double highest = -INFINITY
    memset(&truth, 0, sizeof(State))
    while first < trellis.n_states[t]:
        last = end_of_base(trellis, t, first)
        sum_weights(trellis, t, first, last)
        n_after = offer(trellis, after, n_after, before[first].base, first, last)
        if label >= 0 and first <= trellis.truth[t] < last:
            truth = successor(trellis, before[first].base, label, first, last)
        first = last
    if label >= 0:
        # Keep the given context, if necessary in place of the worst.
        i = 0
        while i < n_after and after[i].context != truth.context:
            i += 1
        if i == n_after:
            i = n_after if n_after < width else 0
            n_after = min(n_after + 1, width)
            after[i] = truth
    for i in range(n_after):
        after[i].base = after[i].context % trellis.n_bases
    qsort(after, n_after, sizeof(State), compare_bases)
    trellis.n_states[t + 1] = n_after
    trellis.truth[t + 1] = -1
    for i in range(n_after):
        trellis.contexts[(t + 1) * width + i] = after[i].context
        if label >= 0 and after[i].context == truth.context:
            trellis.truth[t + 1] = i
        highest = max(highest, after[i].weight)
    # Make the largest weight 0.
    trellis.log_z += highest
    for i in range(n_after if highest > -INFINITY else 0):
        after[i].weight -= highest


cdef void sum_weights(const Trellis *trellis, Py_ssize_t t, Py_ssize_t first,
                      Py_ssize_t last) noexcept nogil:
    """Write the log-weight of each label after the states of one base to ``scratch``."""
    cdef State *states = states_at(trellis, t)
    cdef Py_ssize_t s, v, n = trellis.n_labels
    cdef double *out = trellis.scratch
    cdef double *total = out + n
    cdef double *terms = total + n
    cdef double *row = row_at(trellis, t, first)
    for v in range(n):
        out[v] = states[first].weight + row[v]
    if last == first + 1:
        return
    for s in range(first + 1, last):
        row = row_at(trellis, t, s)
        for v in range(n):
            out[v] = max(out[v], states[s].weight + row[v])
    memset(total, 0, n * sizeof(double))
    for s in range(first, last):
        row = row_at(trellis, t, s)
        # If all are minus infinity, the difference is NaN, which `exp_below` turns into 0.
        for v in range(n):
            terms[v] = states[s].weight + row[v] - out[v]
        exp_below(terms, n, 0.0)
        for v in range(n):
            total[v] += terms[v]
    for v in range(n):
        out[v] += log(total[v])


cdef Py_ssize_t offer(const Trellis *trellis, State *heap, Py_ssize_t n, int64_t base,
                      Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Offer the contexts after some states to the beam; returns its new size.

    The beam is a heap once it is full, with the worst state first.
    """
    cdef Py_ssize_t v, width = trellis.width
    cdef double *weights = trellis.scratch
    cdef State state
    for v in range(trellis.n_labels):
        if weights[v] == -INFINITY or (n == width and weights[v] < heap[0].weight):
            continue
        state = successor(trellis, base, v, first, last)
        if n < width:
            heap[n] = state
            n += 1
            if n == width:
                make_state_heap(heap, n)
        elif is_worse_state(&heap[0], &state):
            heap[0] = state
            sift_down_state(heap, n, 0)
    return n


cdef inline State successor(const Trellis *trellis, int64_t base, Py_ssize_t v, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    """Return the context after label v and the states of a base."""
    cdef State state
    memset(&state, 0, sizeof(State))
    state.context = base * trellis.n_labels + v
    state.weight = trellis.scratch[v]
    state.first = first
    state.last = last
    return state


cdef int compare_bases(const void *a, const void *b) noexcept nogil:
    """Order states by their bases, and then by their contexts."""
    cdef const State *left = <const State *> a
    cdef const State *right = <const State *> b
    if left.base != right.base:
        return -1 if left.base < right.base else 1
    return -1 if left.context < right.context else left.context > right.context


cdef double joint_weights(const Trellis *trellis, Py_ssize_t t, double *out,
                          double *total) noexcept nogil:
    """Write the weights of all pairs (state, label) relative to the largest, and their total.

    Returns the logarithm of the largest weight. ``out`` may be the rows themselves.
    """
    cdef State *states = states_at(trellis, t)
    cdef Py_ssize_t s, v, n_states = trellis.n_states[t], n = trellis.n_labels
    cdef double highest
    cdef double *row
    for s in range(n_states):
        row = row_at(trellis, t, s)
        for v in range(n):
            out[s * n + v] = states[s].weight + row[v]
    highest = largest(out, n_states * n)
    exp_below(out, n_states * n, highest)
    total[0] = 0.0
    for s in range(n_states * n):
        total[0] += out[s]
    return highest


cdef double path_log_likelihood(const Trellis *trellis) noexcept nogil:
    """Return log P(labels); -inf if they are forbidden, even if all label sequences are."""
    return trellis.path - trellis.log_z if trellis.path > -INFINITY else -INFINITY


# Probabilities

cdef void backward(Trellis *trellis, bint forward_only) noexcept nogil:
    """Turn the rows into the probabilities of (context, label)."""
    cdef Py_ssize_t t, s, v, n = trellis.n_labels
    cdef double total
    cdef double *rows
    for t in range(trellis.length - 1, -1, -1):
        rows = row_at(trellis, t, 0)
        if forward_only or t == trellis.length - 1:
            # Probabilities given the positions up to t.
            joint_weights(trellis, t, rows, &total)
            for s in range(trellis.n_states[t] * n if total > 0.0 else 0):
                rows[s] /= total
        else:
            follow_future(trellis, t)
        for s in range(trellis.n_states[t]):
            states_at(trellis, t)[s].probability = 0.0
            for v in range(n):
                states_at(trellis, t)[s].probability += rows[s * n + v]


cdef void follow_future(Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """Distribute the probability of each state after t over the states before it."""
    cdef State *states = states_at(trellis, t)
    cdef State *after
    cdef Py_ssize_t j, s, v, n = trellis.n_labels
    cdef double total, highest
    cdef double *rows = row_at(trellis, t, 0)
    cdef double *scores = trellis.scratch
    cdef double *shares = scores + trellis.width * n
    memcpy(scores, rows, trellis.n_states[t] * n * sizeof(double))
    memset(rows, 0, trellis.n_states[t] * n * sizeof(double))
    for j in range(trellis.n_states[t + 1]):
        after = states_at(trellis, t + 1) + j
        v = after.context % n
        for s in range(after.first, after.last):
            shares[s - after.first] = states[s].weight + scores[s * n + v]
        highest = largest(shares, after.last - after.first)
        exp_below(shares, after.last - after.first, highest)
        total = 0.0
        for s in range(after.first, after.last):
            total += shares[s - after.first]
        for s in range(after.first, after.last if total > 0.0 else after.first):
            rows[s * n + v] = after.probability * (shares[s - after.first] / total)


def marginals(BeamChains chains, Py_ssize_t first, Py_ssize_t last, double[:, ::1] out,
              double[::1] log_z):
    """Write P(y_t = v) to ``out[t, v]`` and log Z of each sequence to ``log_z``."""
    cdef Beam beam = chains.open(first, last)
    cdef Py_ssize_t i, t, s, v
    cdef Trellis *trellis
    with nogil:
        while chains.next_batch(&beam, None):
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                backward(trellis, chains.forward_only)
                log_z[trellis.sequence] = trellis.log_z
                for t in range(trellis.length):
                    for v in range(trellis.n_labels):
                        out[trellis.start + t, v] = 0.0
                    for s in range(trellis.n_states[t]):
                        for v in range(trellis.n_labels):
                            out[trellis.start + t, v] += row_at(trellis, t, s)[v]
        release(&beam.memory)


def pair_marginals(BeamChains chains, Py_ssize_t first, Py_ssize_t last, double[:, :, ::1] out,
                   double[::1] log_z):
    """Write P(y_(t-1) = u, y_t = v) to ``out[t, u, v]``, 0 at first positions, and log Z."""
    cdef Beam beam = chains.open(first, last)
    cdef Py_ssize_t i, t, s, u, v, n = chains.scores.n_labels
    cdef Trellis *trellis
    with nogil:
        while chains.next_batch(&beam, None):
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                backward(trellis, False)
                log_z[trellis.sequence] = trellis.log_z
                memset(&out[trellis.start, 0, 0], 0, trellis.length * n * n * sizeof(double))
                for t in range(1, trellis.length):
                    for s in range(trellis.n_states[t]):
                        u = states_at(trellis, t)[s].context % n
                        for v in range(n):
                            out[trellis.start + t, u, v] += row_at(trellis, t, s)[v]
        release(&beam.memory)


def log_likelihood(BeamChains chains, const int32_t[::1] labels, Py_ssize_t first,
                   Py_ssize_t last, double[::1] out):
    """Write log P(labels | scores) of each sequence to ``out``."""
    cdef Beam beam = chains.open(first, last)
    cdef Py_ssize_t i
    cdef Trellis *trellis
    with nogil:
        while chains.next_batch(&beam, labels):
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                out[trellis.sequence] = path_log_likelihood(trellis)
        release(&beam.memory)


# Best label sequences

cdef struct Path:
    # A label sequence up to a state: a path to the previous state, and a label.
    double score
    int32_t state              # the previous state
    int32_t rank               # rank of the path to it
    int32_t label              # label of the previous position


def best_paths(BeamChains chains, Py_ssize_t first, Py_ssize_t last, int32_t[:, ::1] out,
               double[:, ::1] best_scores, double[::1] log_z):
    """Write the label sequences with the highest scores to ``out[rank]``, best first.

    ``best_scores[sequence, rank]`` receives their scores, minus infinity after the last of them,
    and ``log_z`` log Z of each sequence.
    """
    cdef Py_ssize_t i, k, t, n = out.shape[0]
    cdef const Path *path
    cdef Beam beam = chains.open(first, last)
    cdef Trellis *trellis
    cdef Path *paths = <Path *> take(
        &beam.memory, (beam.max_positions * chains.width + 1) * n * sizeof(Path))
    if paths == NULL:
        release(&beam.memory)
        raise MemoryError(f"no memory for {n} paths in {beam.max_positions} positions")
    with nogil:
        while chains.next_batch(&beam, None):
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                log_z[trellis.sequence] = trellis.log_z
                search_paths(trellis, paths + n, n)
                end_paths(trellis, paths + n, n, paths)
                for k in range(n):
                    path = &paths[k]
                    best_scores[trellis.sequence, k] = path.score
                    for t in range(trellis.length - 1 if path.score > -INFINITY else -1, -1, -1):
                        out[k, trellis.start + t] = path.label
                        path = paths + n + (t * trellis.width + path.state) * n + path.rank
        release(&beam.memory)


cdef void search_paths(const Trellis *trellis, Path *paths, Py_ssize_t n) noexcept nogil:
    """Find the n best paths to each state."""
    cdef Py_ssize_t t, j, s, v
    cdef State *after
    cdef Path *here
    cdef Path *before
    clear_paths(paths, n)
    paths[0].score = 0.0
    for t in range(1, trellis.length):
        for j in range(trellis.n_states[t]):
            after = states_at(trellis, t) + j
            v = after.context % trellis.n_labels
            here = paths + (t * trellis.width + j) * n
            before = paths + (t - 1) * trellis.width * n
            clear_paths(here, n)
            for s in range(after.first, after.last):
                add_paths(here, before + s * n, n, row_at(trellis, t - 1, s)[v], s, v)


cdef void end_paths(const Trellis *trellis, const Path *paths, Py_ssize_t n,
                    Path *ends) noexcept nogil:
    """Find the n best paths of the whole sequence; ties go to the lowest last context."""
    cdef Py_ssize_t t = trellis.length - 1, first = 0, last, s, v
    cdef const Path *before = paths + t * trellis.width * n
    clear_paths(ends, n)
    while first < trellis.n_states[t]:
        last = end_of_base(trellis, t, first)
        for v in range(trellis.n_labels):
            for s in range(first, last):
                add_paths(ends, before + s * n, n, row_at(trellis, t, s)[v], s, v)
        first = last


cdef void clear_paths(Path *paths, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        paths[i].score = -INFINITY


cdef void add_paths(Path *paths, const Path *before, Py_ssize_t n, double score, Py_ssize_t state,
                    Py_ssize_t label) noexcept nogil:
    """Extend the paths to a state; both lists are sorted by score, ties in order of arrival."""
    cdef Py_ssize_t rank, i
    for rank in range(n):
        if not before[rank].score + score > paths[n - 1].score:
            return
        i = n - 1
        while i > 0 and before[rank].score + score > paths[i - 1].score:
            paths[i] = paths[i - 1]
            i -= 1
        paths[i].score = before[rank].score + score
        paths[i].state = <int32_t> state
        paths[i].rank = <int32_t> rank
        paths[i].label = <int32_t> label
