"""The kept contexts of some sequences, which inference in a beam works on; see `_beam.pyx`."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from treecrf.chains._context_scores cimport ContextScores, Request, Segment
from treecrf.chains._memory cimport Memory


cdef extern from "chains/beam/states.h" nogil:
    ctypedef struct State "beam_state":
        # A context that a beam keeps; the header describes the fields.
        int64_t context, base
        double weight, probability, future, past, arrivals
        Py_ssize_t first, last


cdef struct Trellis:
    # The states of one sequence.
    Py_ssize_t sequence        # number of the sequence
    Py_ssize_t start           # its first position in the data
    Py_ssize_t length          # number of its positions
    Py_ssize_t n_labels
    Py_ssize_t order           # number of labels in a context, at least 1
    Py_ssize_t width           # maximum number of states of a position
    int64_t n_bases            # number of bases of contexts
    Py_ssize_t *n_states       # [t]: number of states
    State *states              # [t, s]
    int64_t *contexts          # [t, s]: contexts of the states
    Py_ssize_t *columns        # [t, s]: columns of their residuals
    double *rows               # [t, s, label]: scores, then probabilities
    Py_ssize_t *truth          # [t]: state of the given labels, -1 for none
    double *scratch            # two rows for each state, and one more; at least 4 x width
    double path                # sum of the scores of the given labels
    double log_z


cdef struct Beam:
    # A batch of sequences that advance together, and the memory for it.
    Memory memory              # all arrays below
    Py_ssize_t next            # first sequence that remains after the batch
    Py_ssize_t last            # end of the sequences that remain
    Py_ssize_t n_trellises     # number of sequences in the batch
    Py_ssize_t n_positions     # number of their positions
    Py_ssize_t max_positions   # maximum number of positions in a batch
    Trellis *trellises         # one for each sequence
    Request *requests          # one for each sequence
    # Arrays that the trellises of a batch share, one position after another.
    Py_ssize_t *n_states
    State *states
    int64_t *contexts
    Py_ssize_t *columns
    double *rows
    Py_ssize_t *truth
    double *scratch
    # Working memory of the requests, see `Request`.
    int32_t *stale
    int32_t *included
    uint8_t *symbols
    Segment *segments


cdef class BeamChains:
    cdef ContextScores scores
    cdef const int64_t[::1] offsets
    cdef readonly Py_ssize_t width
    cdef readonly bint forward_only

    cdef Beam open(self, Py_ssize_t first, Py_ssize_t last) except *
    cdef bint next_batch(self, Beam *beam, const int32_t[::1] labels) noexcept nogil


cdef double path_log_likelihood(const Trellis *trellis) noexcept nogil
cdef void backward(Trellis *trellis, bint forward_only) noexcept nogil


cdef inline State *states_at(const Trellis *trellis, Py_ssize_t t) noexcept nogil:
    return trellis.states + t * trellis.width


cdef inline double *row_at(const Trellis *trellis, Py_ssize_t t, Py_ssize_t s) noexcept nogil:
    return trellis.rows + (t * trellis.width + s) * trellis.n_labels


cdef inline Py_ssize_t end_of_base(const Trellis *trellis, Py_ssize_t t,
                                   Py_ssize_t s) noexcept nogil:
    """Return the index after the last state that has the same base as state s."""
    cdef State *states = states_at(trellis, t)
    cdef int64_t base = states[s].base
    while s < trellis.n_states[t] and states[s].base == base:
        s += 1
    return s
