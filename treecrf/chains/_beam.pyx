"""Inference in chains restricted to a beam: the best contexts of each position.

What ``_inference`` does for all contexts is done here for the ``width`` contexts of the largest
forward weight at each position (Ashenfelter 2003, section 2.4). With as many as there are, the
results are exact. Contexts are numbered as there; label v leads from context c to context
``(c % B) * K + v``, where ``B = K**(order - 1)``: contexts that agree modulo B, their *base*, lead
to the same contexts. The kept contexts, *states*, stand sorted by their base, so that those before
a state are neighbors.

Ties go to the lowest context. Where labels are given, their context is kept at each position, if
need be in place of the last of the others; their probability is then never beyond 1.

Weights are logarithms, of which the largest at each position is 0. The backward pass needs none:
each state passes its probability on to the states before it, in proportion to their part in its
weight. Labels that lead to no state have probability 0. *Forward only* leaves the backward pass
out: probabilities follow from the positions up to theirs.

Sequences advance side by side, a position at a time, so that the trees that sum their scores serve
all of them. Every function works on the sequences ``first`` to ``last - 1``, holds no lock, and
writes only to the parts of its outputs that belong to these.
"""

from libc.math cimport fabs, log, INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy, memset

from treecrf.chains._context_scores cimport ContextScores, Request, Segment

cdef extern from "utils/vector_math.h" nogil:
    void exp_below(double *values, Py_ssize_t n, double highest)
    double largest(const double *values, Py_ssize_t n)

# Adding and subtracting this rounds to a multiple of 2**-32: sums of such numbers are exact.
cdef double ROUND = 1.5 * 2.0 ** 20

# Positions whose residuals are stored at once.
cdef Py_ssize_t TILE = 16

# Sequences are taken together until they have so many scores.
cdef Py_ssize_t MAX_SCORES = 1 << 23


cdef struct State:
    # A kept context.
    int64_t context, base
    double weight              # logarithm of its forward weight
    double probability
    double future, past        # how far knowing it moves what comes later, and what came before
    double arrivals            # probability of (context, label) pairs that lead here
    Py_ssize_t first, last     # the states before that lead here


cdef struct Trellis:
    # The states of one sequence.
    Py_ssize_t sequence, start, length
    Py_ssize_t n_labels, order, width
    int64_t n_bases
    Py_ssize_t *n_states       # [t]
    State *states              # [t, s]
    int64_t *contexts          # [t, s]: theirs
    Py_ssize_t *places         # [t, s]: of their residuals
    double *rows               # [t, s, label]: scores, then probabilities
    Py_ssize_t *truth          # [t]: state of the given labels, -1 for none
    double *spare              # two rows for each state, and one more
    double path                # sum of the scores of the given labels
    double log_z


cdef struct Beam:
    # Some sequences and the memory for them.
    Py_ssize_t next, last      # sequences that are still to come
    Py_ssize_t n_trellises, n_positions, max_positions
    Trellis *trellises
    Request *requests
    Py_ssize_t *n_states
    State *states
    int64_t *contexts
    Py_ssize_t *places
    double *rows
    Py_ssize_t *truth
    double *spare
    # One of each a request.
    int32_t *stale
    int32_t *included
    uint8_t *symbols
    Segment *segments


# Memory

cdef Beam open_beam(ContextScores scores, const int64_t[::1] offsets, Py_ssize_t first,
                    Py_ssize_t last, Py_ssize_t width) except *:
    """Memory for as many sequences as are taken together, at least for the longest."""
    cdef Beam beam
    cdef Py_ssize_t i, n, m, longest = 0
    memset(&beam, 0, sizeof(Beam))
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    beam.next = first
    beam.last = last
    n = max(longest, MAX_SCORES // (width * scores.n_labels))
    n = beam.max_positions = min(n, offsets[last] - offsets[first])
    m = min(last - first, n)
    beam.trellises = <Trellis *> calloc(m + 1, sizeof(Trellis))
    beam.requests = <Request *> calloc(m + 1, sizeof(Request))
    beam.n_states = <Py_ssize_t *> malloc((n + 1) * sizeof(Py_ssize_t))
    beam.states = <State *> malloc((n * width + 1) * sizeof(State))
    beam.contexts = <int64_t *> malloc((n * width + 1) * sizeof(int64_t))
    beam.places = <Py_ssize_t *> malloc((n * width + 1) * sizeof(Py_ssize_t))
    beam.rows = <double *> malloc((n * width * scores.n_labels + 1) * sizeof(double))
    beam.truth = <Py_ssize_t *> malloc((n + 1) * sizeof(Py_ssize_t))
    beam.spare = <double *> malloc((2 * width + 1) * scores.n_labels * sizeof(double))
    beam.stale = <int32_t *> malloc((m * width + 1) * sizeof(int32_t))
    beam.included = <int32_t *> malloc((m * width + 1) * sizeof(int32_t))
    beam.symbols = <uint8_t *> malloc(m * width * scores.order + 1)
    beam.segments = <Segment *> malloc((scores.max_segments + 1) * sizeof(Segment))
    if not (beam.trellises and beam.requests and beam.n_states and beam.states and beam.contexts
            and beam.places and beam.rows and beam.truth and beam.spare and beam.stale
            and beam.included and beam.symbols and beam.segments):
        close_beam(&beam)
        raise MemoryError(f"no memory for {width} contexts at {n} positions")
    for i in range(m):
        lay_out(&beam, i, scores, width)
    return beam


cdef void lay_out(Beam *beam, Py_ssize_t i, ContextScores scores, Py_ssize_t width) noexcept nogil:
    """What a trellis and a request have at all times."""
    cdef Trellis *trellis = &beam.trellises[i]
    cdef Request *request = &beam.requests[i]
    cdef Py_ssize_t _
    trellis.n_labels = scores.n_labels
    trellis.width = width
    # With order 0 the scores have one context, yet the state after a position is its label.
    trellis.order = max(scores.order, 1)
    trellis.n_bases = 1
    for _ in range(1, trellis.order):
        trellis.n_bases *= trellis.n_labels
    trellis.spare = beam.spare
    request.stale = beam.stale + i * width
    request.included = beam.included + i * width
    request.symbols = beam.symbols + i * width * scores.order
    request.segments = beam.segments


cdef void close_beam(Beam *beam) noexcept nogil:
    free(beam.trellises)
    free(beam.requests)
    free(beam.n_states)
    free(beam.states)
    free(beam.contexts)
    free(beam.places)
    free(beam.rows)
    free(beam.truth)
    free(beam.spare)
    free(beam.stale)
    free(beam.included)
    free(beam.symbols)
    free(beam.segments)


cdef bint take_sequences(Beam *beam, const int64_t[::1] offsets) noexcept nogil:
    """Take the next sequences; False when there are none."""
    cdef Py_ssize_t length
    beam.n_trellises = beam.n_positions = 0
    while beam.next < beam.last:
        length = offsets[beam.next + 1] - offsets[beam.next]
        if beam.n_positions + length > beam.max_positions:
            break
        place(beam, offsets[beam.next], length)
        beam.next += 1
    return beam.n_trellises > 0


cdef void place(Beam *beam, Py_ssize_t start, Py_ssize_t length) noexcept nogil:
    """Give the next sequence its part of the memory."""
    cdef Trellis *trellis = &beam.trellises[beam.n_trellises]
    cdef Py_ssize_t n = beam.n_positions
    trellis.sequence = beam.next
    trellis.start = start
    trellis.length = length
    trellis.n_states = beam.n_states + n
    trellis.states = beam.states + n * trellis.width
    trellis.contexts = beam.contexts + n * trellis.width
    trellis.places = beam.places + n * trellis.width
    trellis.rows = beam.rows + n * trellis.width * trellis.n_labels
    trellis.truth = beam.truth + n
    beam.n_trellises += 1
    beam.n_positions += length


cdef inline State *states_at(const Trellis *trellis, Py_ssize_t t) noexcept nogil:
    return trellis.states + t * trellis.width


cdef inline double *row_at(const Trellis *trellis, Py_ssize_t t, Py_ssize_t s) noexcept nogil:
    return trellis.rows + (t * trellis.width + s) * trellis.n_labels


# Forward

cdef void forward(Beam *beam, ContextScores scores, const int32_t[::1] labels) noexcept nogil:
    """Find the states of all sequences taken, their scores and log Z; labels may be None."""
    cdef Py_ssize_t t, i, longest = 0
    cdef Trellis *trellis
    for i in range(beam.n_trellises):
        start(&beam.trellises[i], labels is not None)
        longest = max(longest, beam.trellises[i].length)
    for t in range(longest):
        fetch_rows(beam, scores, t)
        for i in range(beam.n_trellises):
            trellis = &beam.trellises[i]
            if t >= trellis.length:
                continue
            if labels is not None:
                trellis.path += row_at(trellis, t, trellis.truth[t])[labels[trellis.start + t]]
            if t + 1 == trellis.length:
                finish(trellis, t)
            elif labels is None:
                advance(trellis, t, -1)
            else:
                advance(trellis, t, labels[trellis.start + t])


cdef void start(Trellis *trellis, bint labeled) noexcept nogil:
    """Before a sequence there is one context."""
    memset(trellis.states, 0, sizeof(State))
    trellis.n_states[0] = 1
    trellis.contexts[0] = 0
    trellis.truth[0] = labeled - 1
    trellis.path = trellis.log_z = 0.0


cdef void fetch_rows(Beam *beam, ContextScores scores, Py_ssize_t t) noexcept nogil:
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
            request.places = trellis.places + t * trellis.width
            request.rows = row_at(trellis, t, 0)
            n += 1
    scores.fetch(beam.requests, n)


cdef void advance(Trellis *trellis, Py_ssize_t t, int32_t label) noexcept nogil:
    """Choose the states of the next position; ``label`` is -1 where none is given."""
    cdef Py_ssize_t i, first = 0, last, n_after = 0, width = trellis.width
    cdef State *before = states_at(trellis, t)
    cdef State *after = before + width
    cdef State truth
    memset(&truth, 0, sizeof(State))
    while first < trellis.n_states[t]:
        last = end_of_base(trellis, t, first)
        merge(trellis, t, first, last)
        n_after = offer(trellis, after, n_after, before[first].base, first, last)
        if label >= 0 and first <= trellis.truth[t] < last:
            truth = successor(trellis, before[first].base, label, first, last)
        first = last
    if label >= 0:
        n_after = keep(after, n_after, width, &truth)
    for i in range(n_after):
        after[i].base = after[i].context % trellis.n_bases
    qsort(after, n_after, sizeof(State), compare_bases)
    trellis.n_states[t + 1] = n_after
    trellis.truth[t + 1] = -1
    for i in range(n_after):
        trellis.contexts[(t + 1) * width + i] = after[i].context
        if label >= 0 and after[i].context == truth.context:
            trellis.truth[t + 1] = i
    rescale(trellis, after, n_after)


cdef Py_ssize_t end_of_base(const Trellis *trellis, Py_ssize_t t, Py_ssize_t s) noexcept nogil:
    """The state after the last one that has the same base as state s."""
    cdef State *states = states_at(trellis, t)
    cdef int64_t base = states[s].base
    while s < trellis.n_states[t] and states[s].base == base:
        s += 1
    return s


cdef void merge(const Trellis *trellis, Py_ssize_t t, Py_ssize_t first,
                Py_ssize_t last) noexcept nogil:
    """Log-weights that the states of one base pass on to each label; to `spare`."""
    cdef State *states = states_at(trellis, t)
    cdef Py_ssize_t s, v, n = trellis.n_labels
    cdef double *out = trellis.spare
    cdef double *total = out + n
    cdef double *part = total + n
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
        # Where all are minus infinity the difference is no number, of which `exp_below` makes 0.
        for v in range(n):
            part[v] = states[s].weight + row[v] - out[v]
        exp_below(part, n, 0.0)
        for v in range(n):
            total[v] += part[v]
    for v in range(n):
        out[v] += log(total[v])


cdef Py_ssize_t offer(const Trellis *trellis, State *heap, Py_ssize_t n, int64_t base,
                      Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Offer the contexts after some states to the beam; returns its new size.

    The beam is a heap once it is full: the worst state stands first.
    """
    cdef Py_ssize_t v, width = trellis.width
    cdef double *weights = trellis.spare
    cdef State state
    for v in range(trellis.n_labels):
        if weights[v] == -INFINITY or (n == width and weights[v] < heap[0].weight):
            continue
        state = successor(trellis, base, v, first, last)
        if n < width:
            heap[n] = state
            n += 1
            if n == width:
                make_heap(heap, n)
        elif is_worse(&heap[0], &state):
            heap[0] = state
            sift_down(heap, 0, n)
    return n


cdef inline State successor(const Trellis *trellis, int64_t base, Py_ssize_t v, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    cdef State state
    memset(&state, 0, sizeof(State))
    state.context = base * trellis.n_labels + v
    state.weight = trellis.spare[v]
    state.first = first
    state.last = last
    return state


cdef inline bint is_worse(const State *a, const State *b) noexcept nogil:
    return a.weight < b.weight or (a.weight == b.weight and a.context > b.context)


cdef void make_heap(State *heap, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n // 2 - 1, -1, -1):
        sift_down(heap, i, n)


cdef void sift_down(State *heap, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Move an entry down until it is worse than its children."""
    cdef State moved = heap[i]
    cdef Py_ssize_t child = 2 * i + 1
    while child < n:
        if child + 1 < n and is_worse(&heap[child + 1], &heap[child]):
            child += 1
        if not is_worse(&heap[child], &moved):
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = moved


cdef Py_ssize_t keep(State *heap, Py_ssize_t n, Py_ssize_t width,
                     const State *state) noexcept nogil:
    """See that a state is in the beam, if need be in place of the worst; returns the size."""
    cdef Py_ssize_t i
    for i in range(n):
        if heap[i].context == state.context:
            return n
    if n < width:
        heap[n] = state[0]
        return n + 1
    heap[0] = state[0]
    return n


cdef int compare_bases(const void *a, const void *b) noexcept nogil:
    cdef const State *left = <const State *> a
    cdef const State *right = <const State *> b
    if left.base != right.base:
        return -1 if left.base < right.base else 1
    return -1 if left.context < right.context else left.context > right.context


cdef void rescale(Trellis *trellis, State *states, Py_ssize_t n) noexcept nogil:
    """Make the largest weight 0."""
    cdef Py_ssize_t i
    cdef double highest = -INFINITY
    for i in range(n):
        highest = max(highest, states[i].weight)
    trellis.log_z += highest
    for i in range(n if highest > -INFINITY else 0):
        states[i].weight -= highest


cdef double weigh(const Trellis *trellis, Py_ssize_t t, double *out, double *total) noexcept nogil:
    """Weights of all states and labels, exponentials below the largest one, and their total.

    Returns the logarithm of the largest. ``out`` may be the rows themselves.
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


cdef void finish(Trellis *trellis, Py_ssize_t t) noexcept nogil:
    cdef double total
    trellis.log_z += weigh(trellis, t, trellis.spare, &total)
    trellis.log_z += log(total)


cdef double likelihood(const Trellis *trellis) noexcept nogil:
    """log P(given labels); minus infinity where they are forbidden, as is all else perhaps."""
    return trellis.path - trellis.log_z if trellis.path > -INFINITY else -INFINITY


# Probabilities

cdef void backward(Trellis *trellis, bint forward_only) noexcept nogil:
    """Turn the rows into the probabilities of (context, label)."""
    cdef Py_ssize_t t
    for t in range(trellis.length - 1, -1, -1):
        if forward_only or t == trellis.length - 1:
            follow_past(trellis, t)
        else:
            follow_future(trellis, t)
        sum_states(trellis, t)


cdef void follow_past(Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """Probabilities given what the positions up to t tell."""
    cdef Py_ssize_t i
    cdef double total
    cdef double *rows = row_at(trellis, t, 0)
    weigh(trellis, t, rows, &total)
    for i in range(trellis.n_states[t] * trellis.n_labels if total > 0.0 else 0):
        rows[i] /= total


cdef void follow_future(Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """Part the probability of each state after t among the states before it."""
    cdef State *states = states_at(trellis, t)
    cdef State *after
    cdef Py_ssize_t j, s, v, n = trellis.n_labels
    cdef double total, highest
    cdef double *rows = row_at(trellis, t, 0)
    cdef double *scores = trellis.spare
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


cdef void sum_states(Trellis *trellis, Py_ssize_t t) noexcept nogil:
    cdef Py_ssize_t s, v
    cdef State *states = states_at(trellis, t)
    cdef double *row
    for s in range(trellis.n_states[t]):
        row = row_at(trellis, t, s)
        states[s].probability = 0.0
        for v in range(trellis.n_labels):
            states[s].probability += row[v]


def marginals(ContextScores scores, const int64_t[::1] offsets, Py_ssize_t first, Py_ssize_t last,
              Py_ssize_t width, bint forward_only, double[:, ::1] out, double[::1] log_z):
    """Write P(y_t = v) to ``out[t, v]`` and log Z of each sequence to ``log_z``."""
    cdef Beam beam = open_beam(scores, offsets, first, last, width)
    cdef Py_ssize_t i, t, s, v
    cdef Trellis *trellis
    with nogil:
        while take_sequences(&beam, offsets):
            forward(&beam, scores, None)
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                backward(trellis, forward_only)
                log_z[trellis.sequence] = trellis.log_z
                for t in range(trellis.length):
                    for v in range(trellis.n_labels):
                        out[trellis.start + t, v] = 0.0
                    for s in range(trellis.n_states[t]):
                        for v in range(trellis.n_labels):
                            out[trellis.start + t, v] += row_at(trellis, t, s)[v]
        close_beam(&beam)


def pair_marginals(ContextScores scores, const int64_t[::1] offsets, Py_ssize_t first,
                   Py_ssize_t last, Py_ssize_t width, double[:, :, ::1] out, double[::1] log_z):
    """Write P(y_(t-1) = u, y_t = v) to ``out[t, u, v]``, 0 at first positions, and log Z."""
    cdef Beam beam = open_beam(scores, offsets, first, last, width)
    cdef Py_ssize_t i, t, s, u, v, n = scores.n_labels
    cdef Trellis *trellis
    with nogil:
        while take_sequences(&beam, offsets):
            forward(&beam, scores, None)
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
        close_beam(&beam)


def log_likelihood(ContextScores scores, const int64_t[::1] offsets, const int32_t[::1] labels,
                   Py_ssize_t first, Py_ssize_t last, Py_ssize_t width, double[::1] out):
    """Write log P(labels | scores) of each sequence to ``out``."""
    cdef Beam beam = open_beam(scores, offsets, first, last, width)
    cdef Py_ssize_t i
    cdef Trellis *trellis
    with nogil:
        while take_sequences(&beam, offsets):
            forward(&beam, scores, labels)
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                out[trellis.sequence] = likelihood(trellis)
        close_beam(&beam)


# Gradient

def residuals(ContextScores scores, const int64_t[::1] offsets, const int32_t[::1] labels,
              Py_ssize_t first, Py_ssize_t last, Py_ssize_t width, bint forward_only,
              double[:, ::1] out, double[:, ::1] curvature, double[::1] log_likelihoods):
    """Functional gradient in the beam: ``I(c, v) - P(c, v | X)`` for the kept contexts.

    ``out[v, place]`` is rounded to a multiple of 2**-32; places of other contexts stay as they
    are. When ``curvature`` is given, it receives the bound that `store_curvature` explains.
    ``log_likelihoods`` receives log P(labels) of each sequence.
    """
    cdef Beam beam = open_beam(scores, offsets, first, last, width)
    cdef Py_ssize_t i
    cdef Trellis *trellis
    with nogil:
        while take_sequences(&beam, offsets):
            forward(&beam, scores, labels)
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                log_likelihoods[trellis.sequence] = likelihood(trellis)
                backward(trellis, forward_only)
                store_residuals(trellis, labels, out)
                if curvature is not None:
                    store_curvature(trellis, forward_only, curvature)
        close_beam(&beam)


cdef void store_residuals(const Trellis *trellis, const int32_t[::1] labels,
                          double[:, ::1] out) noexcept nogil:
    cdef Py_ssize_t t, place
    cdef int32_t label
    cdef double p
    store_negative_rows(trellis, out)
    for t in range(trellis.length):
        label = labels[trellis.start + t]
        place = trellis.places[t * trellis.width + trellis.truth[t]]
        p = row_at(trellis, t, trellis.truth[t])[label]
        out[label, place] = (ROUND + (1.0 - p)) - ROUND


cdef void store_negative_rows(const Trellis *trellis, double[:, ::1] out) noexcept nogil:
    """Store the negated rows, some positions at a time label by label: there they are near."""
    cdef Py_ssize_t t, s, i, v, n = trellis.n_labels, start = 0, end
    cdef const double *rows = trellis.rows
    while start < trellis.length:
        end = min(start + TILE, trellis.length)
        for v in range(n):
            for t in range(start, end):
                i = t * trellis.width
                for s in range(i, i + trellis.n_states[t]):
                    out[v, trellis.places[s]] = (ROUND - rows[s * n + v]) - ROUND
        start = end


cdef void store_curvature(const Trellis *trellis, bint forward_only,
                          double[:, ::1] out) noexcept nogil:
    """Bounds of how far all scores together move a probability of (context, label).

    As in ``_inference.store_curvature``, a pair of probability p weighs p times the influence of
    knowing it: 2 (1 - p) on its own position, and on others that of the states it joins. Forward
    only, the scores of later positions move nothing. The bounds replace the probabilities.
    """
    cdef Py_ssize_t t, s, v, n = trellis.n_labels
    cdef double *row
    cdef double past
    if not forward_only:
        influence_of_future(trellis)
    influence_of_past(trellis)
    for t in range(trellis.length):
        spread_future(trellis, t)
        for s in range(trellis.n_states[t]):
            row = row_at(trellis, t, s)
            past = states_at(trellis, t)[s].past
            for v in range(n):
                row[v] *= -(2.0 * (1.0 - min(row[v], 1.0)) + trellis.spare[s * n + v] + past)
    store_negative_rows(trellis, out)


cdef void spread_future(const Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """The influence that each state and label of a position has on later ones; to `spare`."""
    cdef Py_ssize_t j, s, n = trellis.n_labels
    cdef State *after = states_at(trellis, t + 1)
    memset(trellis.spare, 0, trellis.n_states[t] * n * sizeof(double))
    for j in range(trellis.n_states[t + 1] if t + 1 < trellis.length else 0):
        for s in range(after[j].first, after[j].last):
            trellis.spare[s * n + after[j].context % n] = after[j].future


cdef void influence_of_future(const Trellis *trellis) noexcept nogil:
    """How far knowing a state moves the probabilities from its position on.

    The reasons are those of ``_inference.influence_of_future``.
    """
    cdef Py_ssize_t t, j, s, v, n_after = 0
    cdef State *states
    cdef State *after
    cdef double all_after, change, now
    for t in range(trellis.length - 1, -1, -1):
        states = states_at(trellis, t)
        after = states + trellis.width
        all_after = 0.0
        for j in range(n_after):
            all_after += after[j].probability * after[j].future
        for s in range(trellis.n_states[t]):
            states[s].future = all_after
        for j in range(n_after):
            v = after[j].context % trellis.n_labels
            for s in range(after[j].first, after[j].last):
                change = 1.0
                if states[s].probability > 0.0:
                    change = fabs(row_at(trellis, t, s)[v] / states[s].probability
                                  - after[j].probability)
                states[s].future += (change - after[j].probability) * after[j].future
        for s in range(trellis.n_states[t]):
            now = 2.0 * (1.0 - min(states[s].probability, 1.0))
            states[s].future = min(now + states[s].future, now * (trellis.length - t))
        n_after = trellis.n_states[t]


cdef void influence_of_past(const Trellis *trellis) noexcept nogil:
    """The same for the positions before a state."""
    cdef Py_ssize_t t, j, s, v
    cdef State *states
    cdef State *after
    cdef double *chances = trellis.spare
    cdef double all_before, change, now
    states_at(trellis, 0)[0].past = 0.0
    for t in range(trellis.length - 1):
        states = states_at(trellis, t)
        after = states + trellis.width
        sum_arrivals(trellis, t, chances)
        all_before = 0.0
        for s in range(trellis.n_states[t]):
            all_before += chances[s] * states[s].past
        for j in range(trellis.n_states[t + 1]):
            v = after[j].context % trellis.n_labels
            after[j].past = all_before
            for s in range(after[j].first, after[j].last):
                change = 1.0
                if after[j].arrivals > 0.0:
                    change = fabs(row_at(trellis, t, s)[v] / after[j].arrivals - chances[s])
                after[j].past += (change - chances[s]) * states[s].past
            now = 2.0 * (1.0 - min(after[j].probability, 1.0))
            after[j].past = min(now + after[j].past, now * (t + 1))


cdef void sum_arrivals(const Trellis *trellis, Py_ssize_t t, double *chances) noexcept nogil:
    """P(state at t), by the probabilities of the states after it, to ``chances``.

    Forward only, these know one position more than the rows of t.
    """
    cdef Py_ssize_t j, s, v
    cdef State *after = states_at(trellis, t + 1)
    memset(chances, 0, trellis.n_states[t] * sizeof(double))
    for j in range(trellis.n_states[t + 1]):
        v = after[j].context % trellis.n_labels
        after[j].arrivals = 0.0
        for s in range(after[j].first, after[j].last):
            after[j].arrivals += row_at(trellis, t, s)[v]
        for s in range(after[j].first, after[j].last if after[j].arrivals > 0.0 else 0):
            chances[s] += (row_at(trellis, t, s)[v] / after[j].arrivals
                           * after[j].probability)


# Best paths

cdef struct Path:
    # A label sequence up to a state: one of those to the state before, and a label.
    double score
    int32_t state, rank, label


def best_paths(ContextScores scores, const int64_t[::1] offsets, Py_ssize_t first, Py_ssize_t last,
               Py_ssize_t width, int32_t[:, ::1] out, double[:, ::1] best_scores,
               double[::1] log_z):
    """Write the label sequences of the highest scores to ``out[rank]``, the best first.

    ``best_scores[sequence, rank]`` receives their scores, minus infinity where there are no more,
    ``log_z`` log Z of each sequence.
    """
    cdef Py_ssize_t i, n = out.shape[0]
    cdef Beam beam = open_beam(scores, offsets, first, last, width)
    cdef Trellis *trellis
    cdef Path *paths = <Path *> malloc(((beam.max_positions * width + 1) * n) * sizeof(Path))
    if paths == NULL:
        close_beam(&beam)
        raise MemoryError(f"no memory for {n} paths in {beam.max_positions} positions")
    with nogil:
        while take_sequences(&beam, offsets):
            forward(&beam, scores, None)
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                log_z[trellis.sequence] = trellis.log_z
                search_paths(trellis, paths + n, n)
                end_paths(trellis, paths + n, n, paths)
                trace_paths(trellis, paths + n, n, paths, out, &best_scores[trellis.sequence, 0])
        free(paths)
        close_beam(&beam)


cdef void search_paths(const Trellis *trellis, Path *paths, Py_ssize_t n) noexcept nogil:
    """The n best paths to each state."""
    cdef Py_ssize_t t, j, s, v
    cdef State *after
    cdef Path *here
    cdef Path *before
    forget_paths(paths, n)
    paths[0].score = 0.0
    for t in range(1, trellis.length):
        for j in range(trellis.n_states[t]):
            after = states_at(trellis, t) + j
            v = after.context % trellis.n_labels
            here = paths + (t * trellis.width + j) * n
            before = paths + (t - 1) * trellis.width * n
            forget_paths(here, n)
            for s in range(after.first, after.last):
                add_paths(here, before + s * n, n, row_at(trellis, t - 1, s)[v], s, v)


cdef void end_paths(const Trellis *trellis, const Path *paths, Py_ssize_t n,
                    Path *ends) noexcept nogil:
    """The n best paths of the whole sequence, ties by the contexts that they would lead to."""
    cdef Py_ssize_t t = trellis.length - 1, first = 0, last, s, v
    cdef const Path *before = paths + t * trellis.width * n
    forget_paths(ends, n)
    while first < trellis.n_states[t]:
        last = end_of_base(trellis, t, first)
        for v in range(trellis.n_labels):
            for s in range(first, last):
                add_paths(ends, before + s * n, n, row_at(trellis, t, s)[v], s, v)
        first = last


cdef void forget_paths(Path *paths, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        paths[i].score = -INFINITY


cdef void add_paths(Path *paths, const Path *before, Py_ssize_t n, double score, Py_ssize_t state,
                    Py_ssize_t label) noexcept nogil:
    """Go on from the paths to a state; both lists have the best first, ties in order of arrival."""
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


cdef void trace_paths(const Trellis *trellis, const Path *paths, Py_ssize_t n, const Path *ends,
                      int32_t[:, ::1] out, double *best_scores) noexcept nogil:
    cdef Py_ssize_t k, t
    cdef const Path *path
    for k in range(n):
        best_scores[k] = ends[k].score
        if ends[k].score == -INFINITY:
            continue
        path = &ends[k]
        for t in range(trellis.length - 1, -1, -1):
            out[k, trellis.start + t] = path.label
            path = paths + ((t * trellis.width + path.state) * n + path.rank)
