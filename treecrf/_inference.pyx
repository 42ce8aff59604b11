"""Exact inference in chains whose labels depend on the ``order`` labels before them.

Scores come class-major, ``scores[v, t, c]``: the score of label v at position t in context c. A
context is the tuple of the previous labels, numbered ``sum_j y[t - j] * K**(j - 1)``, so that
label v leads from context c to context ``(c * K + v) % K**order``. Position t of its sequence has
``K**min(t, order)`` contexts: before the sequence there are no labels. With order 0 every position
is a sequence of its own; callers pass ``offsets`` accordingly.

Every function works on the sequences ``first`` to ``last - 1``, holds no lock, and writes only to
the parts of its outputs that belong to these sequences, so that threads can share the work.

Sums of products are kept in range by dividing each position by its total (Rabiner 1989). That is
exact while the scores of a sequence lie close together; a sequence whose scores spread wider, or
forbid labels by minus infinity, is computed with logarithms instead.
"""

from libc.math cimport exp, fabs, log, INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef extern from "_simd.h" nogil:
    void exp_below(double *values, Py_ssize_t n, double highest)
    void find_range(const double *values, Py_ssize_t n, double *lowest, double *highest)
    void store_negative(const double *rows, Py_ssize_t n, double rounding, double *target,
                        Py_ssize_t stride, Py_ssize_t n_labels)
    double forward_step(const double *now, Py_ssize_t n, const double *rows, double *after,
                        Py_ssize_t n_after, Py_ssize_t n_labels)
    void backward_step(const double *forward, Py_ssize_t n, double *rows, double *now,
                       const double *after, Py_ssize_t n_after, Py_ssize_t n_labels)

# Adding and subtracting this rounds to a multiple of 2**-32: sums of such numbers are exact.
cdef double ROUND = 1.5 * 2.0 ** 20

# Products of 2 * order + 1 factors of the spread of the scores, and of a total that has shrunk to
# SMALLEST_TOTAL, must stay within double precision.
cdef double WIDEST_EXPONENT = 500.0
cdef double SMALLEST_TOTAL = 1e-60        # and its inverse is the largest


cdef struct Chain:
    # One sequence in scratch memory. Rows of `pairs` are [context, label], so that the recursions
    # run along contiguous labels; `forward` and `backward` hold one row of contexts a position.
    Py_ssize_t start, length
    Py_ssize_t n_labels
    Py_ssize_t n_contexts      # of a position at full depth
    Py_ssize_t order
    double *pairs
    double *forward
    double *backward
    double *spare              # two rows of contexts
    double *scale              # factor by which the forward pass rescaled each position
    double total               # of the last position's forward row
    double log_z
    bint in_logs


cdef inline Py_ssize_t n_contexts_at(const Chain *chain, Py_ssize_t t) noexcept nogil:
    cdef Py_ssize_t n = 1, _j
    if t >= chain.order:
        return chain.n_contexts
    for _j in range(t):
        n *= chain.n_labels
    return n


cdef inline Py_ssize_t next_base(const Chain *chain, Py_ssize_t t, Py_ssize_t c) noexcept nogil:
    """Context at t + 1 after context c and label 0; label v adds v."""
    return c * chain.n_labels if t < chain.order else c * chain.n_labels % chain.n_contexts


cdef inline double *pair_row(const Chain *chain, Py_ssize_t t, Py_ssize_t c) noexcept nogil:
    return chain.pairs + (t * chain.n_contexts + c) * chain.n_labels


cdef Chain open_chain(const double[:, :, ::1] scores, const int64_t[::1] offsets,
                      Py_ssize_t first, Py_ssize_t last) except *:
    """Scratch memory for the longest of some sequences."""
    cdef Chain chain
    cdef Py_ssize_t i, longest = 0
    memset(&chain, 0, sizeof(Chain))
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    chain.n_labels = scores.shape[0]
    chain.order = 1
    chain.n_contexts = scores.shape[0]
    # With order 0 the scores have one context, yet the state after a position is its label.
    while chain.n_contexts < scores.shape[2]:
        chain.n_contexts *= chain.n_labels
        chain.order += 1
    chain.pairs = allocate(longest * chain.n_contexts * chain.n_labels)
    chain.forward = allocate((longest + 1) * chain.n_contexts)
    chain.backward = allocate((longest + 1) * chain.n_contexts)
    chain.spare = allocate(2 * chain.n_contexts)
    chain.scale = allocate(longest + 1)
    if not (chain.pairs and chain.forward and chain.backward and chain.spare and chain.scale):
        close_chain(&chain)
        raise MemoryError(f"no memory for the inference of a sequence of {longest} positions")
    return chain


cdef double *allocate(Py_ssize_t n) noexcept nogil:
    return <double *> malloc((n + 1) * sizeof(double))


cdef void close_chain(Chain *chain) noexcept nogil:
    free(chain.pairs)
    free(chain.forward)
    free(chain.backward)
    free(chain.spare)
    free(chain.scale)


cdef inline void place(Chain *chain, const int64_t[::1] offsets, Py_ssize_t i) noexcept nogil:
    chain.start = offsets[i]
    chain.length = offsets[i + 1] - offsets[i]


cdef void load(Chain *chain, const double[:, :, ::1] scores, const int64_t[::1] offsets,
               Py_ssize_t i) noexcept nogil:
    """Copy the scores of sequence i into `pairs`, labels innermost."""
    cdef Py_ssize_t t, c, v, n
    cdef const double *source
    cdef double *target
    place(chain, offsets, i)
    for t in range(chain.length):
        n = n_contexts_at(chain, t)
        target = pair_row(chain, t, 0)
        for v in range(chain.n_labels):
            source = &scores[v, chain.start + t, 0]
            for c in range(n):
                target[c * chain.n_labels + v] = source[c]
            # Contexts that do not exist yet must not disturb the range of the scores.
            for c in range(n, chain.n_contexts):
                target[c * chain.n_labels + v] = source[0]


cdef void scaled_forward(Chain *chain, double highest) noexcept nogil:
    """Forward pass over the exponentials of ``scores - highest``."""
    cdef Py_ssize_t t, c, n = 1, n_after
    cdef double total = 1.0
    cdef double *now
    cdef double *after
    chain.log_z = chain.length * highest
    chain.forward[0] = 1.0
    for t in range(chain.length):
        now = chain.forward + t * chain.n_contexts
        after = now + chain.n_contexts
        n_after = min(n * chain.n_labels, chain.n_contexts)
        total = forward_step(now, n, pair_row(chain, t, 0), after, n_after, chain.n_labels)
        n = n_after
        chain.scale[t] = 1.0
        if not SMALLEST_TOTAL < total < 1.0 / SMALLEST_TOTAL:
            chain.scale[t] = 1.0 / total
            chain.log_z += log(total)
            for c in range(n):
                after[c] *= chain.scale[t]
            total = 1.0
    chain.total = total
    chain.log_z += log(total)


cdef void scaled_backward(Chain *chain) noexcept nogil:
    """Backward pass; turns `pairs` into the probabilities of [context, label]."""
    cdef Py_ssize_t t, c, n, n_after
    cdef double *now
    cdef double *after = chain.backward + chain.length * chain.n_contexts
    n_after = n_contexts_at(chain, chain.length)
    for c in range(n_after):
        after[c] = 1.0 / chain.total
    for t in range(chain.length - 1, -1, -1):
        n = n_contexts_at(chain, t)
        now = chain.backward + t * chain.n_contexts
        after = now + chain.n_contexts
        if chain.scale[t] != 1.0:
            for c in range(n_after):
                after[c] *= chain.scale[t]
        backward_step(chain.forward + t * chain.n_contexts, n, pair_row(chain, t, 0), now, after,
                      n_after, chain.n_labels)
        n_after = n


cdef inline double log_add(double a, double b) noexcept nogil:
    if a < b:
        a, b = b, a
    return a if b == -INFINITY else a + log(1.0 + exp(b - a))


cdef double largest(const double *values, Py_ssize_t n) noexcept nogil:
    cdef double low, high
    find_range(values, n, &low, &high)
    return high


cdef double log_sum(const double *values, Py_ssize_t n) noexcept nogil:
    """log(sum(exp(values)))"""
    cdef double high = largest(values, n), total = 0.0
    cdef Py_ssize_t i
    if high == -INFINITY:
        return high
    for i in range(n):
        total += exp(values[i] - high)
    return high + log(total)


cdef void shift(double *values, Py_ssize_t n, double by) noexcept nogil:
    cdef Py_ssize_t i
    if by > -INFINITY:
        for i in range(n):
            values[i] -= by


cdef void log_forward(Chain *chain) noexcept nogil:
    """Forward pass over logarithms, for scores that spread too wide to be scaled.

    The largest entry of each position is made 0, and counted in log Z, so that long sequences
    lose no digits.
    """
    cdef Py_ssize_t t, c, v, n
    cdef double high
    cdef double *now
    cdef double *target
    cdef double *after
    cdef double *row
    chain.log_z = 0.0
    chain.forward[0] = 0.0
    for t in range(chain.length):
        now = chain.forward + t * chain.n_contexts
        after = now + chain.n_contexts
        n = n_contexts_at(chain, t + 1)
        for c in range(n):
            after[c] = -INFINITY
        for c in range(n_contexts_at(chain, t)):
            row = pair_row(chain, t, c)
            target = after + next_base(chain, t, c)
            for v in range(chain.n_labels):
                target[v] = log_add(target[v], now[c] + row[v])
        high = largest(after, n)
        shift(after, n, high)
        chain.log_z += high
    chain.log_z += log_sum(chain.forward + chain.length * chain.n_contexts,
                           n_contexts_at(chain, chain.length))


cdef void log_backward(Chain *chain) noexcept nogil:
    """Backward pass over logarithms; turns `pairs` into probabilities."""
    cdef Py_ssize_t t, c, v, n
    cdef double total
    cdef double *row
    cdef double *now
    cdef double *after = chain.backward + chain.length * chain.n_contexts
    memset(after, 0, chain.n_contexts * sizeof(double))
    for t in range(chain.length - 1, -1, -1):
        n = n_contexts_at(chain, t)
        now = chain.backward + t * chain.n_contexts
        for c in range(n):
            row = pair_row(chain, t, c)
            after = now + chain.n_contexts + next_base(chain, t, c)
            for v in range(chain.n_labels):
                row[v] += after[v]
            now[c] = log_sum(row, chain.n_labels)
            shift(row, chain.n_labels, -chain.forward[t * chain.n_contexts + c])
        row = pair_row(chain, t, 0)
        total = log_sum(row, n * chain.n_labels)
        for c in range(n * chain.n_labels):
            row[c] = exp(row[c] - total)
        shift(now, n, largest(now, n))


cdef void forward(Chain *chain) noexcept nogil:
    """log Z of the loaded sequence; leaves what `backward` needs."""
    cdef double lowest, highest
    cdef Py_ssize_t n = chain.length * chain.n_contexts * chain.n_labels
    find_range(chain.pairs, n, &lowest, &highest)
    chain.in_logs = not (highest - lowest) * (2 * chain.order + 1) < WIDEST_EXPONENT
    if chain.in_logs:
        log_forward(chain)
    else:
        exp_below(chain.pairs, n, highest)
        scaled_forward(chain, highest)


cdef void backward(Chain *chain) noexcept nogil:
    """Turn `pairs` into probabilities, after `forward`."""
    if chain.in_logs:
        log_backward(chain)
    else:
        scaled_backward(chain)


cdef double path_score(const double[:, :, ::1] scores, const int32_t[::1] labels,
                       const Chain *chain) noexcept nogil:
    """Sum of the scores along the given labels."""
    cdef Py_ssize_t t, context = 0
    cdef double total = 0.0
    for t in range(chain.length):
        total += scores[labels[chain.start + t], chain.start + t, context]
        context = next_base(chain, t, context) + labels[chain.start + t]
    return total


def log_likelihood(const double[:, :, ::1] scores, const int64_t[::1] offsets,
                   const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                   double[::1] out):
    """Write log P(labels | scores) of each sequence to ``out``."""
    cdef Chain chain = open_chain(scores, offsets, first, last)
    cdef Py_ssize_t i
    with nogil:
        for i in range(first, last):
            load(&chain, scores, offsets, i)
            forward(&chain)
            out[i] = path_score(scores, labels, &chain) - chain.log_z
        close_chain(&chain)


def marginals(const double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
              Py_ssize_t last, double[:, ::1] out, double[::1] log_z):
    """Write P(y_t = v) to ``out[t, v]`` and log Z of each sequence to ``log_z``."""
    cdef Chain chain = open_chain(scores, offsets, first, last)
    cdef Py_ssize_t i, t, c, v
    cdef double *row
    with nogil:
        for i in range(first, last):
            load(&chain, scores, offsets, i)
            forward(&chain)
            backward(&chain)
            log_z[i] = chain.log_z
            for t in range(chain.length):
                for v in range(chain.n_labels):
                    out[chain.start + t, v] = 0.0
                for c in range(n_contexts_at(&chain, t)):
                    row = pair_row(&chain, t, c)
                    for v in range(chain.n_labels):
                        out[chain.start + t, v] += row[v]
        close_chain(&chain)


def residuals(const double[:, :, ::1] scores, const int64_t[::1] offsets,
              const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
              double[:, :, ::1] out, double[:, :, ::1] curvature, double[::1] log_likelihoods):
    """Functional gradient of the log-likelihood: ``I(c, v) - P(c, v | X)``.

    ``out[v, t, c]`` is rounded to a multiple of 2**-32; contexts that do not exist get 0. When
    ``curvature`` is given, it receives the bound on the Hessian that `store_curvature` explains.
    ``log_likelihoods`` receives log P(labels) of each sequence.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last)
    cdef Py_ssize_t i
    with nogil:
        for i in range(first, last):
            load(&chain, scores, offsets, i)
            forward(&chain)
            backward(&chain)
            log_likelihoods[i] = path_score(scores, labels, &chain) - chain.log_z
            store_residuals(&chain, labels, out)
            if curvature is not None:
                store_curvature(&chain, curvature)
        close_chain(&chain)


cdef void store_residuals(const Chain *chain, const int32_t[::1] labels,
                          double[:, :, ::1] out) noexcept nogil:
    cdef Py_ssize_t t, c, v, n, context = 0, stride = out.shape[1] * out.shape[2]
    cdef int32_t label
    cdef double *row
    for t in range(chain.length):
        n = n_contexts_at(chain, t)
        row = pair_row(chain, t, 0)
        store_negative(row, n, ROUND, &out[0, chain.start + t, 0], stride, chain.n_labels)
        for v in range(chain.n_labels if n < out.shape[2] else 0):
            for c in range(n, out.shape[2]):
                out[v, chain.start + t, c] = 0.0
        label = labels[chain.start + t]
        out[label, chain.start + t, context] = (
            (ROUND + (1.0 - row[context * chain.n_labels + label])) - ROUND)
        context = next_base(chain, t, context) + label


cdef void sum_contexts(Chain *chain) noexcept nogil:
    """P(context) at every position, and at the end, from the pair probabilities; to `forward`."""
    cdef Py_ssize_t t, c, v
    cdef double *after
    cdef double *row
    chain.forward[0] = 1.0
    for t in range(chain.length):
        after = chain.forward + (t + 1) * chain.n_contexts
        memset(after, 0, chain.n_contexts * sizeof(double))
        for c in range(n_contexts_at(chain, t)):
            row = pair_row(chain, t, c)
            for v in range(chain.n_labels):
                after[next_base(chain, t, c) + v] += row[v]


cdef void influence_of_future(Chain *chain) noexcept nogil:
    """How much knowing the context at t can move the pair probabilities from t on; to `backward`.

    The influence of context c on position s >= t is 2 TV(P(c_s | c_t = c), P(c_s)), TV the total
    variation. It is 2 (1 - P(c)) at s = t, does not grow with s, and one step on it is at most the
    mean of the influences of the next contexts, weighted by |P(c' | c) - P(c')|.
    """
    cdef Py_ssize_t t, c, v, base
    cdef double now, all_after, total, change, p
    cdef double *here
    cdef double *after
    cdef double *marginal
    cdef double *row
    memset(chain.backward + chain.length * chain.n_contexts, 0,
           chain.n_contexts * sizeof(double))
    for t in range(chain.length - 1, -1, -1):
        here = chain.backward + t * chain.n_contexts
        after = here + chain.n_contexts
        marginal = chain.forward + (t + 1) * chain.n_contexts
        all_after = 0.0
        for c in range(n_contexts_at(chain, t + 1)):
            all_after += marginal[c] * after[c]
        for c in range(n_contexts_at(chain, t)):
            p = chain.forward[t * chain.n_contexts + c]
            now = 2.0 * (1.0 - min(p, 1.0))
            total = all_after
            base = next_base(chain, t, c)
            row = pair_row(chain, t, c)
            for v in range(chain.n_labels):
                change = fabs(row[v] / p - marginal[base + v]) if p > 0.0 else 1.0
                total += (change - marginal[base + v]) * after[base + v]
            here[c] = min(now + total, now * (chain.length - t))


cdef void influence_of_past(Chain *chain, Py_ssize_t t, const double *here,
                            double *after) noexcept nogil:
    """The same for the positions before t + 1, from those before t (`here`); to `after`."""
    cdef Py_ssize_t c, v, base
    cdef double p, change, now, all_here = 0.0
    cdef double *marginal = chain.forward + t * chain.n_contexts
    cdef double *row
    for c in range(n_contexts_at(chain, t)):
        all_here += marginal[c] * here[c]
    for c in range(n_contexts_at(chain, t + 1)):
        after[c] = all_here
    for c in range(n_contexts_at(chain, t)):
        base = next_base(chain, t, c)
        row = pair_row(chain, t, c)
        for v in range(chain.n_labels):
            p = marginal[chain.n_contexts + base + v]
            change = fabs(row[v] / p - marginal[c]) if p > 0.0 else 1.0
            after[base + v] += (change - marginal[c]) * here[c]
    for c in range(n_contexts_at(chain, t + 1)):
        now = 2.0 * (1.0 - min(marginal[chain.n_contexts + c], 1.0))
        after[c] = min(now + after[c], now * (t + 1))


cdef void store_curvature(Chain *chain, double[:, :, ::1] out) noexcept nogil:
    """Bounds of the row sums of the absolute Hessian of the log-likelihood.

    The Hessian in the scores is minus the covariance of the indicators of (context, label) pairs.
    A diagonal of its absolute row sums bounds it, which makes Newton steps of full length safe
    (Chen, Singh, Taskar, Guestrin 2015). The row of a pair of probability p sums to p times the
    influence of knowing the pair: 2 (1 - p) on its own position, and no more on later and earlier
    ones than its contexts have.
    """
    cdef Py_ssize_t t, c, v, n
    cdef double *here = chain.spare
    cdef double *after = chain.spare + chain.n_contexts
    cdef double *future
    cdef double p, bound
    sum_contexts(chain)
    influence_of_future(chain)
    here[0] = 0.0
    for t in range(chain.length):
        n = n_contexts_at(chain, t)
        for c in range(n):
            future = chain.backward + (t + 1) * chain.n_contexts + next_base(chain, t, c)
            for v in range(chain.n_labels):
                p = pair_row(chain, t, c)[v]
                bound = p * (2.0 * (1.0 - min(p, 1.0)) + future[v] + here[c])
                out[v, chain.start + t, c] = (bound + ROUND) - ROUND
        for v in range(chain.n_labels):
            for c in range(n, out.shape[2]):
                out[v, chain.start + t, c] = 0.0
        influence_of_past(chain, t, here, after)
        here, after = after, here


def pseudo_residuals(const double[:, :, ::1] scores, const int64_t[::1] offsets,
                     const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                     double[:, :, ::1] out, double[:, :, ::1] curvature):
    """Functional gradient of the pseudo-likelihood, sum_t log P(y_t | all other labels, X).

    ``out`` is rounded as in `residuals`. ``curvature``, if given, receives the row sums of the
    absolute Hessian: 2 p (1 - p) for each score that a choice of label involves, summed over the
    conditional distributions that a score takes part in.
    """
    cdef Chain chain = open_chain(scores, offsets, first, last)
    cdef Py_ssize_t i, t
    with nogil:
        clear(out, offsets[first], offsets[last])
        if curvature is not None:
            clear(curvature, offsets[first], offsets[last])
        for i in range(first, last):
            place(&chain, offsets, i)
            for t in range(chain.length):
                condition(&chain, scores, labels, t)
                spread_residuals(&chain, labels, t, out, curvature)
        close_chain(&chain)


cdef void clear(double[:, :, ::1] out, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t v
    for v in range(out.shape[0]):
        memset(&out[v, start, 0], 0, (end - start) * out.shape[2] * sizeof(double))


cdef Py_ssize_t true_context(const Chain *chain, const int32_t[::1] labels, Py_ssize_t t,
                             Py_ssize_t changed, Py_ssize_t label) noexcept nogil:
    """Context of position t under the given labels, with one of them changed."""
    cdef Py_ssize_t j, power = 1, context = 0
    for j in range(1, min(t, chain.order) + 1):
        context += power * (label if t - j == changed else labels[chain.start + t - j])
        power *= chain.n_labels
    return context


cdef void condition(Chain *chain, const double[:, :, ::1] scores, const int32_t[::1] labels,
                    Py_ssize_t t) noexcept nogil:
    """P(y_t = v | all other labels) for every v; to `pairs`."""
    cdef Py_ssize_t v, s, context
    cdef double highest = -INFINITY, total = 0.0
    cdef double *p = chain.pairs
    for v in range(chain.n_labels):
        p[v] = scores[v, chain.start + t, true_context(chain, labels, t, t, v)]
        for s in range(t + 1, min(t + chain.order + 1, chain.length)):
            context = true_context(chain, labels, s, t, v)
            p[v] += scores[labels[chain.start + s], chain.start + s, context]
        highest = max(highest, p[v])
    for v in range(chain.n_labels):
        p[v] = exp(p[v] - highest)
        total += p[v]
    for v in range(chain.n_labels):
        p[v] /= total


cdef void spread_residuals(const Chain *chain, const int32_t[::1] labels, Py_ssize_t t,
                           double[:, :, ::1] out, double[:, :, ::1] curvature) noexcept nogil:
    """Add I(y_t = v) - P(y_t = v | others) to every score that the choice of v involves."""
    cdef Py_ssize_t v, s, context
    cdef int32_t label
    cdef double residual, bound
    for v in range(chain.n_labels):
        residual = ((v == labels[chain.start + t]) - chain.pairs[v] + ROUND) - ROUND
        bound = 2.0 * chain.pairs[v] * (1.0 - chain.pairs[v])
        bound = (bound * min(chain.order + 1, chain.length - t) + ROUND) - ROUND
        for s in range(t, min(t + chain.order + 1, chain.length)):
            context = true_context(chain, labels, s, t, v)
            label = <int32_t> v if s == t else labels[chain.start + s]
            out[label, chain.start + s, context] += residual
            if curvature is not None:
                curvature[label, chain.start + s, context] += bound


def joint_marginals(const double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
                    Py_ssize_t last, double[:, :, ::1] out):
    """Write P(context c, label v at t) to ``out[v, t, c]``, class-major as the scores."""
    cdef Chain chain = open_chain(scores, offsets, first, last)
    cdef Py_ssize_t i, t, c, v, n
    with nogil:
        for i in range(first, last):
            load(&chain, scores, offsets, i)
            forward(&chain)
            backward(&chain)
            for t in range(chain.length):
                n = n_contexts_at(&chain, t)
                for v in range(chain.n_labels):
                    for c in range(out.shape[2]):
                        out[v, chain.start + t, c] = pair_row(&chain, t, c)[v] if c < n else 0.0
        close_chain(&chain)


cdef int64_t best_path(Chain *chain, int32_t *origin, double *best) noexcept nogil:
    """Highest sum of scores to each context; the last context of the best sequence.

    ``origin[t, c]`` is the context at t - 1 from which context c at t is reached best. Ties go to
    the context with the lowest number.
    """
    cdef Py_ssize_t t, c, v, base, n
    cdef double value
    cdef double *now = best
    cdef double *after = best + chain.n_contexts
    cdef double *row
    now[0] = 0.0
    for t in range(chain.length):
        n = n_contexts_at(chain, t + 1)
        for c in range(n):
            after[c] = -INFINITY
            origin[t * chain.n_contexts + c] = 0
        for c in range(n_contexts_at(chain, t)):
            base = next_base(chain, t, c)
            row = pair_row(chain, t, c)
            for v in range(chain.n_labels):
                value = now[c] + row[v]
                if value > after[base + v]:
                    after[base + v] = value
                    origin[t * chain.n_contexts + base + v] = <int32_t> c
        now, after = after, now
    base = 0
    for c in range(n_contexts_at(chain, chain.length)):
        if now[c] > now[base]:
            base = c
    chain.log_z = now[base]
    return base


def viterbi(const double[:, :, ::1] scores, const int64_t[::1] offsets, Py_ssize_t first,
            Py_ssize_t last, int32_t[::1] out, double[::1] best_scores):
    """Write the label sequence of the highest score to ``out``, its score to ``best_scores``."""
    cdef Chain chain = open_chain(scores, offsets, first, last)
    cdef Py_ssize_t i, t
    cdef int64_t context
    cdef int32_t *origin = <int32_t *> chain.backward
    with nogil:
        for i in range(first, last):
            load(&chain, scores, offsets, i)
            context = best_path(&chain, origin, chain.forward)
            best_scores[i] = chain.log_z
            for t in range(chain.length - 1, -1, -1):
                out[chain.start + t] = <int32_t> (context % chain.n_labels)
                context = origin[t * chain.n_contexts + context]
        close_chain(&chain)
