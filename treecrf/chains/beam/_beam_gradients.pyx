"""Functional gradients in a beam, and bounds of their curvature; see ``_beam``."""

from libc.math cimport fabs
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from treecrf.chains.beam._beam cimport (
    Beam, BeamChains, State, Trellis, backward, path_log_likelihood, row_at, states_at,
)
from treecrf.chains._curvature cimport block_distance, influence_beyond, is_rare, own_influence
from treecrf.chains._memory cimport release
from treecrf.utils._vector_math cimport rounded

# Positions whose residuals are stored together.
cdef Py_ssize_t TILE = 16


def residuals(BeamChains chains, const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
              double[:, ::1] out, double[:, ::1] curvature, double[::1] log_likelihoods,
              double bound_share=1.0):
    """Write the functional gradient in the beam: ``I(c, v) - P(c, v | X)`` for kept contexts.

    ``out[v, column]`` is rounded to a multiple of 2**-32; the columns are those that the scores
    assign to contexts, and those of contexts outside the beam do not change. ``curvature``, if
    given, receives the curvature that `store_curvature` explains, with a ``bound_share`` from 0 to
    1. ``log_likelihoods`` receives log P(labels) of each sequence.
    """
    cdef Beam beam = chains.open(first, last)
    cdef Py_ssize_t i
    cdef Trellis *trellis
    with nogil:
        while chains.next_batch(&beam, labels):
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                log_likelihoods[trellis.sequence] = path_log_likelihood(trellis)
                backward(trellis, chains.forward_only)
                store_residuals(trellis, labels, out)
                if curvature is not None:
                    store_curvature(trellis, chains.forward_only, bound_share, curvature)
        release(&beam.memory)


cdef void store_residuals(const Trellis *trellis, const int32_t[::1] labels,
                          double[:, ::1] out) noexcept nogil:
    cdef Py_ssize_t t, column
    cdef int32_t label
    cdef double p
    store_negative_rows(trellis, out)
    for t in range(trellis.length):
        label = labels[trellis.start + t]
        column = trellis.columns[t * trellis.width + trellis.truth[t]]
        p = row_at(trellis, t, trellis.truth[t])[label]
        out[label, column] = rounded(1.0 - p)


cdef void store_negative_rows(const Trellis *trellis, double[:, ::1] out) noexcept nogil:
    """Store the negated rows, label by label for a few positions at a time.

    The columns of neighboring positions are close to each other in memory.
    """
    cdef Py_ssize_t t, s, i, v, n = trellis.n_labels, start = 0, end
    cdef const double *rows = trellis.rows
    while start < trellis.length:
        end = min(start + TILE, trellis.length)
        for v in range(n):
            for t in range(start, end):
                i = t * trellis.width
                for s in range(i, i + trellis.n_states[t]):
                    out[v, trellis.columns[s]] = rounded(-rows[s * n + v])
        start = end


cdef void store_curvature(const Trellis *trellis, bint forward_only, double bound_share,
                          double[:, ::1] out) noexcept nogil:
    """Write bounds of the effect of all scores on the probability of each (context, label).

    As in ``_curvature``, the bound of a pair of probability p is p times its
    influence: 2 (1 - p) on its own position, and on others the influence of the two states that
    it connects. Forward only, the scores of later positions have no effect, and the influence on
    earlier positions is an approximation: it compares with probabilities given the positions up to
    each of them. The curvature is 2 p (1 - p), but at least ``bound_share`` times the bound. It
    replaces the probabilities.
    """
    cdef Py_ssize_t t, j, s, v, n = trellis.n_labels
    cdef const State *after
    cdef double *row
    cdef double past, own
    if not forward_only:
        influence_of_future(trellis)
    influence_of_past(trellis)
    for t in range(trellis.length):
        # The influence of each state and label on later positions.
        after = states_at(trellis, t + 1)
        memset(trellis.scratch, 0, trellis.n_states[t] * n * sizeof(double))
        for j in range(trellis.n_states[t + 1] if t + 1 < trellis.length else 0):
            for s in range(after[j].first, after[j].last):
                trellis.scratch[s * n + after[j].context % n] = after[j].future
        for s in range(trellis.n_states[t]):
            row = row_at(trellis, t, s)
            past = states_at(trellis, t)[s].past
            for v in range(n):
                own = own_influence(row[v])
                row[v] *= -max(own, bound_share * (own + trellis.scratch[s * n + v] + past))
    store_negative_rows(trellis, out)


cdef void influence_of_future(const Trellis *trellis) noexcept nogil:
    """Compute the influence of knowing a state on the probabilities from its position on.

    ``_curvature.enter_tile`` derives it, for all contexts in place of states.
    """
    cdef Py_ssize_t t, j, s, v, n_after = 0
    cdef State *states
    cdef State *after
    cdef double *means = trellis.scratch
    cdef double all_after, change, p, now
    for t in range(trellis.length - 1, -1, -1):
        states = states_at(trellis, t)
        after = states + trellis.width
        all_after = 0.0
        for j in range(n_after):
            all_after += after[j].probability * after[j].future
        for s in range(trellis.n_states[t]):
            states[s].future = all_after
            means[s] = 0.0
        for j in range(n_after):
            v = after[j].context % trellis.n_labels
            for s in range(after[j].first, after[j].last):
                change = p = 1.0
                if states[s].probability > 0.0:
                    p = row_at(trellis, t, s)[v] / states[s].probability
                    change = fabs(p - after[j].probability)
                states[s].future += (change - after[j].probability) * after[j].future
                means[s] += p * after[j].future
        for s in range(trellis.n_states[t]):
            if trellis.order > 1:
                states[s].future = min(states[s].future, means[s])
            now = own_influence(states[s].probability)
            states[s].future = min(now + states[s].future, now * (trellis.length - t))
        if is_block(trellis, t):
            limit_future(trellis, t)
        n_after = trellis.n_states[t]


cdef void influence_of_past(const Trellis *trellis) noexcept nogil:
    """Compute the influence on positions before a state; see ``_curvature.visit_forward``."""
    cdef Py_ssize_t t, j, s, v
    cdef State *states
    cdef State *after
    cdef double *chances = trellis.scratch
    cdef double all_before, change, mean, p, now
    states_at(trellis, 0)[0].past = 0.0
    for t in range(trellis.length - 1):
        states = states_at(trellis, t)
        after = states + trellis.width
        # P(state at t), from the probabilities of the states after it. Forward only, these take one
        # position more into account than the rows of t.
        memset(chances, 0, trellis.n_states[t] * sizeof(double))
        for j in range(trellis.n_states[t + 1]):
            v = after[j].context % trellis.n_labels
            after[j].arrivals = 0.0
            for s in range(after[j].first, after[j].last):
                after[j].arrivals += row_at(trellis, t, s)[v]
            for s in range(after[j].first, after[j].last if after[j].arrivals > 0.0 else 0):
                chances[s] += (row_at(trellis, t, s)[v] / after[j].arrivals
                               * after[j].probability)
        all_before = 0.0
        for s in range(trellis.n_states[t]):
            all_before += chances[s] * states[s].past
        for j in range(trellis.n_states[t + 1]):
            v = after[j].context % trellis.n_labels
            after[j].past = all_before
            mean = 0.0
            for s in range(after[j].first, after[j].last):
                change = p = 1.0
                if after[j].arrivals > 0.0:
                    p = row_at(trellis, t, s)[v] / after[j].arrivals
                    change = fabs(p - chances[s])
                after[j].past += (change - chances[s]) * states[s].past
                mean += p * states[s].past
            if trellis.order > 1:
                after[j].past = min(after[j].past, mean)
            now = own_influence(after[j].probability)
            after[j].past = min(now + after[j].past, now * (t + 1))
        if is_block(trellis, t + 1 - trellis.order):
            limit_past(trellis, t + 1 - trellis.order)


cdef inline bint is_block(const Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """Whether the states at t are compared one order later, as in ``_curvature.is_block``."""
    cdef Py_ssize_t order = trellis.order
    cdef Py_ssize_t width = min(trellis.width, trellis.n_bases * trellis.n_labels)
    return (order > 1 and t >= order and t + order < trellis.length
            and t % block_distance(order, width, trellis.n_labels) == 0)


cdef void limit_future(const Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """Bound the influence of states by the influence of the states at the end of a block."""
    cdef Py_ssize_t s, j, end = t + trellis.order, n = trellis.n_states[end]
    cdef State *states = states_at(trellis, t)
    cdef State *last = states_at(trellis, end)
    cdef double *values = trellis.scratch
    cdef double *mean = values + trellis.width
    cdef double *row = mean + trellis.width
    cdef double now
    for j in range(n):
        values[j] = last[j].future
        mean[j] = last[j].probability * last[j].future
    for s in range(trellis.n_states[t]):
        if not is_rare(states[s].probability, trellis.length):
            now = trellis.order * own_influence(states[s].probability)
            states_ahead(trellis, t, s, row)
            states[s].future = min(states[s].future, now + influence_beyond(row, values, mean, n))


cdef void limit_past(const Trellis *trellis, Py_ssize_t t) noexcept nogil:
    """Bound the influence of states at the end of a block by the states at its start.

    They are compared with what the states at its end imply: forward only, their own probabilities
    take fewer positions into account.
    """
    cdef Py_ssize_t s, j, end = t + trellis.order, n = trellis.n_states[t]
    cdef State *states = states_at(trellis, t)
    cdef State *last = states_at(trellis, end)
    cdef double *values = trellis.scratch
    cdef double *mean = values + trellis.width
    cdef double *row = mean + trellis.width
    cdef double now
    for j in range(trellis.n_states[end]):
        row[j] = last[j].probability
    states_behind(trellis, t, row)
    for s in range(n):
        values[s] = states[s].past
        mean[s] = row[s] * states[s].past
    for j in range(trellis.n_states[end]):
        if not is_rare(last[j].probability, trellis.length):
            now = trellis.order * own_influence(last[j].probability)
            memset(row, 0, trellis.n_states[end] * sizeof(double))
            row[j] = 1.0
            states_behind(trellis, t, row)
            last[j].past = min(last[j].past, now + influence_beyond(row, values, mean, n))


cdef void states_ahead(const Trellis *trellis, Py_ssize_t t, Py_ssize_t start,
                       double *row) noexcept nogil:
    """Write the probabilities of the states at the end of a block, given the one at its start."""
    cdef Py_ssize_t i, j, s, v
    cdef State *states
    cdef State *after
    cdef double *work = row + trellis.width
    memset(row, 0, trellis.n_states[t] * sizeof(double))
    row[start] = 1.0
    for i in range(t, t + trellis.order):
        states = states_at(trellis, i)
        after = states_at(trellis, i + 1)
        for s in range(trellis.n_states[i]):
            work[s] = row[s] / states[s].probability if row[s] > 0.0 else 0.0
        for j in range(trellis.n_states[i + 1]):
            v = after[j].context % trellis.n_labels
            row[j] = 0.0
            for s in range(after[j].first, after[j].last):
                row[j] += work[s] * row_at(trellis, i, s)[v]


cdef void states_behind(const Trellis *trellis, Py_ssize_t t, double *row) noexcept nogil:
    """Turn probabilities of states at the end of a block into probabilities of states at t."""
    cdef Py_ssize_t i, j, s, v
    cdef State *after
    cdef double *work = row + trellis.width
    for i in range(t + trellis.order - 1, t - 1, -1):
        after = states_at(trellis, i + 1)
        memcpy(work, row, trellis.n_states[i + 1] * sizeof(double))
        memset(row, 0, trellis.n_states[i] * sizeof(double))
        for j in range(trellis.n_states[i + 1]):
            if work[j] <= 0.0 or after[j].arrivals <= 0.0:
                continue
            v = after[j].context % trellis.n_labels
            for s in range(after[j].first, after[j].last):
                row[s] += work[j] / after[j].arrivals * row_at(trellis, i, s)[v]
