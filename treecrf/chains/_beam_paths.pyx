"""The best label sequences in a beam, see ``_beam``."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from treecrf.chains._beam cimport (
    Beam, BeamChains, State, Trellis, close_beam, end_of_base, row_at, states_at,
)


cdef struct Path:
    # A label sequence up to a state: a path to the previous state, and a label.
    double score
    int32_t state, rank, label


def best_paths(BeamChains chains, Py_ssize_t first, Py_ssize_t last, int32_t[:, ::1] out,
               double[:, ::1] best_scores, double[::1] log_z):
    """Write the label sequences with the highest scores to ``out[rank]``, best first.

    ``best_scores[sequence, rank]`` receives their scores, minus infinity after the last of them,
    and ``log_z`` log Z of each sequence.
    """
    cdef Py_ssize_t i, n = out.shape[0]
    cdef Beam beam = chains.open(first, last)
    cdef Trellis *trellis
    cdef Path *paths = <Path *> malloc(((beam.max_positions * chains.width + 1) * n) * sizeof(Path))
    if paths == NULL:
        close_beam(&beam)
        raise MemoryError(f"no memory for {n} paths in {beam.max_positions} positions")
    with nogil:
        while chains.next_batch(&beam, None):
            for i in range(beam.n_trellises):
                trellis = &beam.trellises[i]
                log_z[trellis.sequence] = trellis.log_z
                search_paths(trellis, paths + n, n)
                end_paths(trellis, paths + n, n, paths)
                trace_paths(trellis, paths + n, n, paths, out, &best_scores[trellis.sequence, 0])
        free(paths)
        close_beam(&beam)


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
