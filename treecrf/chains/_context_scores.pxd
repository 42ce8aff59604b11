"""Scores of the labels in single contexts, see `_context_scores.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t


cdef struct Segment:
    # Stale contexts of a request that have reached the same node of a tree.
    int32_t node
    Py_ssize_t first           # first of the contexts in `stale`
    Py_ssize_t last            # and the one after the last
    uint32_t weight            # of the contexts at this node; see ``trees/contexts/_tree_scores``


cdef struct Request:
    # Contexts of one position whose scores are needed.
    Py_ssize_t position        # in the data
    Py_ssize_t depth           # number of labels before the position, at most the order
    Py_ssize_t n               # number of contexts
    const int64_t *contexts    # [s]
    double *rows               # [s, label]: receives the scores
    Py_ssize_t *entries        # [s]: receives where the scores of each context are stored
    # Working memory of scores that are summed on demand. Stale contexts are those whose rows lack
    # iterations; those that take part in the current iteration come first.
    Py_ssize_t n_stale         # number of stale contexts
    Py_ssize_t n_walking       # number of contexts that take part in the current iteration
    int32_t *stale             # [n_stale]: numbers of the stale contexts
    int32_t *included          # [s]: number of iterations that a row includes
    uint8_t *symbols           # [s, lag]: label at each lag before the position
    Segment *segments          # groups of contexts on their way through a tree


cdef class ContextScores:
    cdef readonly Py_ssize_t n_labels, order
    cdef readonly Py_ssize_t n_entries     # pairs (position, context) that can be stored
    cdef Py_ssize_t max_segments           # maximum number of segments at a time
    cdef const uint8_t[:, ::1] allowed     # labels at each position; None allows all
    cdef const uint8_t[:, ::1] follows     # labels after each label; None allows all

    cdef void fetch(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil
    cdef void _fill(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil
