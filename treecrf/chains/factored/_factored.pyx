"""Factored scores as a source of the scores of chains."""

from libc.stdint cimport int32_t, uint8_t

from treecrf.chains._chain cimport ScoreSource, chain_shape, score_source

cdef extern from "chains/factored/factored.h" nogil:
    ctypedef struct factored_terms:
        const int32_t *state
        const int32_t *transitions
        const int32_t *rest
        const uint8_t *follows
        const uint8_t *allowed
    void set_terms(score_source *source, const chain_shape *shape, Py_ssize_t n_positions,
                   const factored_terms *terms)


cdef class FactoredSource(ScoreSource):
    """The arrays of `FactoredScores`, whose memory must not move while the source is in use."""

    cdef const int32_t[:, ::1] state
    cdef const int32_t[:, :, ::1] transitions, rest
    cdef const uint8_t[:, ::1] follows, allowed

    def __init__(self, const int32_t[:, ::1] state, const int32_t[:, :, ::1] transitions,
                 const int32_t[:, :, ::1] rest, const uint8_t[:, ::1] follows,
                 const uint8_t[:, ::1] allowed):
        self.state = state
        self.transitions = transitions
        self.rest = rest
        self.follows = follows
        self.allowed = allowed

    cdef int describe(self, chain_shape *shape, score_source *source) except -1:
        cdef factored_terms terms
        shape.n_labels = self.state.shape[0]
        shape.order = max(1, self.transitions.shape[0] - 1)
        shape.width = self.transitions.shape[2]
        shape.n_contexts = max(shape.n_labels, shape.width)
        terms.state = &self.state[0, 0]
        terms.transitions = &self.transitions[0, 0, 0]
        terms.rest = NULL if self.rest is None else &self.rest[0, 0, 0]
        terms.follows = NULL if self.follows is None else &self.follows[0, 0]
        terms.allowed = NULL if self.allowed is None else &self.allowed[0, 0]
        set_terms(source, shape, self.state.shape[1], &terms)
        return 0
