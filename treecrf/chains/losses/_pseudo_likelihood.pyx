"""Gradient of the pseudo-likelihood, which needs no passes along a chain.

Scores, contexts and ranges of sequences are those of `_inference`.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.chains._chain cimport (
    chain_shape, open_source, score_of, score_source, true_context,
)
from treecrf.utils._vector_math cimport exp_of, rounded


def pseudo_residuals(scores, const int64_t[::1] offsets,
                     const int32_t[::1] labels, Py_ssize_t first, Py_ssize_t last,
                     double[:, :, ::1] out, double[:, :, ::1] curvature):
    """Write the gradient of the pseudo-likelihood, sum_t log P(y_t | all other labels, X).

    ``out`` is rounded to multiples of 2**-32. ``curvature``, if given, receives the row sums of
    the absolute Hessian: 2 p (1 - p) for each score that a choice of label involves, summed over
    the conditional distributions in which a score occurs.
    """
    cdef Conditional conditional
    cdef Py_ssize_t i, t, v, s, end, context
    cdef int32_t label
    cdef double p, residual, bound
    open_source(scores, &conditional.shape, &conditional.source)
    conditional.p = <double *> malloc(conditional.shape.n_labels * sizeof(double))
    if conditional.p == NULL:
        raise MemoryError(f"no memory for the probabilities of {conditional.shape.n_labels} labels")
    with nogil:
        clear(out, offsets[first], offsets[last])
        if curvature is not None:
            clear(curvature, offsets[first], offsets[last])
        for i in range(first, last):
            conditional.start = offsets[i]
            conditional.length = offsets[i + 1] - offsets[i]
            for t in range(conditional.length):
                condition(&conditional, labels, t)
                # Add I(y_t = v) - P(y_t = v | others) to every score that the choice of v involves.
                end = min(t + conditional.shape.order + 1, conditional.length)
                for v in range(conditional.shape.n_labels):
                    p = conditional.p[v]
                    residual = rounded((v == labels[conditional.start + t]) - p)
                    bound = rounded(2.0 * p * (1.0 - p) * (end - t))
                    for s in range(t, end):
                        context = changed_context(&conditional, labels, s, t, v)
                        label = <int32_t> v if s == t else labels[conditional.start + s]
                        out[label, conditional.start + s, context] += residual
                        if curvature is not None:
                            curvature[label, conditional.start + s, context] += bound
        free(conditional.p)


cdef struct Conditional:
    # The distribution of one label of a sequence, given all others.
    chain_shape shape
    score_source source
    Py_ssize_t start           # first position of the sequence in the data
    Py_ssize_t length          # number of its positions
    double *p                  # probability of each label


cdef void clear(double[:, :, ::1] out, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t v
    for v in range(out.shape[0]):
        memset(&out[v, start, 0], 0, (end - start) * out.shape[2] * sizeof(double))


cdef Py_ssize_t changed_context(const Conditional *conditional, const int32_t[::1] labels,
                                Py_ssize_t t, Py_ssize_t changed, Py_ssize_t label) noexcept nogil:
    """Return the context of position t under the given labels, with one of them changed."""
    cdef const int32_t *truth = &labels[conditional.start]
    cdef Py_ssize_t _, power = 1
    cdef Py_ssize_t context = true_context(&conditional.shape, truth, t)
    for _ in range(1, t - changed):
        power *= conditional.shape.n_labels
    return context + power * (label - truth[changed]) if changed < t else context


cdef inline double score_at(const Conditional *conditional, Py_ssize_t v, Py_ssize_t t,
                            Py_ssize_t context) noexcept nogil:
    return score_of(&conditional.shape, &conditional.source, v, conditional.start, t, context)


cdef void condition(const Conditional *conditional, const int32_t[::1] labels,
                    Py_ssize_t t) noexcept nogil:
    """Compute P(y_t = v | all other labels) for every v; 0 if no label is allowed."""
    cdef Py_ssize_t v, s, context
    cdef Py_ssize_t own = true_context(&conditional.shape, &labels[conditional.start], t)
    cdef double highest = -INFINITY, total = 0.0
    cdef double *p = conditional.p
    for v in range(conditional.shape.n_labels):
        p[v] = score_at(conditional, v, t, own)
        for s in range(t + 1, min(t + conditional.shape.order + 1, conditional.length)):
            context = changed_context(conditional, labels, s, t, v)
            p[v] += score_at(conditional, labels[conditional.start + s], s, context)
        highest = max(highest, p[v])
    for v in range(conditional.shape.n_labels):
        p[v] = exp_of(p[v] - highest)
        total += p[v]
    for v in range(conditional.shape.n_labels):
        p[v] = p[v] / total if total > 0.0 else 0.0
