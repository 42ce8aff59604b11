"""Scores of the labels in single contexts, see `_context_scores.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t


cdef struct Segment:
    # Stale contexts of a request that have reached the same node of a tree.
    int32_t node
    Py_ssize_t first, last
    uint32_t weight            # of the contexts at this node; see ``trees/contexts/_tree_scores``


cdef struct Request:
    # Contexts of one position whose scores are needed.
    Py_ssize_t position, depth, n
    const int64_t *contexts    # [s]
    double *rows               # [s, label]: receives the scores
    Py_ssize_t *entries         # [s]: receives where the scores of each context are stored
    # Working memory of scores that are summed on demand: the contexts whose rows lack iterations,
    # those that take part in the current iteration first.
    Py_ssize_t n_stale, n_walking
    int32_t *stale             # [n_stale]
    int32_t *included          # [s]: number of iterations that a row includes
    uint8_t *symbols           # [s, lag]: label at each lag before the position
    Segment *segments


cdef class ContextScores:
    cdef readonly Py_ssize_t n_labels, order
    cdef readonly Py_ssize_t n_entries     # pairs (position, context) that can be stored
    cdef Py_ssize_t max_segments
    cdef const uint8_t[:, ::1] allowed, follows

    cdef void fetch(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil
    cdef void _fill(self, Request *requests, Py_ssize_t n_requests,
                    bint by_symbols) noexcept nogil
