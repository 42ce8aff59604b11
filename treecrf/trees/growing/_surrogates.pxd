from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from treecrf.trees.growing._features cimport Features

cdef enum:
    MAX_SURROGATES = 5


cdef struct Surrogate:
    int64_t test
    bint is_reversed           # failing it means passing the test that it replaces
    double agreement           # number of examples that both tests send the same way


cdef struct Ranking:
    Py_ssize_t n
    Surrogate ranked[MAX_SURROGATES]       # best first


cdef struct Side:
    # The examples that pass a test, or those that fail it.
    double n
    const double *counts       # number in each bin: every `stride`-th entry
    int stride


cdef class SurrogateSearch:
    cdef Features features
    cdef Py_ssize_t n_planes                # of a set of rows; 0 for rows that are not in planes
    cdef const int64_t[::1] run_starts, run_ends, run_missing
    cdef const uint8_t[::1] run_kinds
    cdef const int32_t[::1] columns, offsets
    cdef double[:, ::1] running             # scratch: examples of each side that pass each test
    cdef uint64_t[::1] answers, missing, remaining          # scratch: sets of rows

    cdef bint is_open(self, int64_t test) noexcept nogil
    cdef void find(self, int64_t test, const Side *passed, const Side *failed,
                   Ranking *ranking) noexcept nogil
    cdef void _rank_run(self, Py_ssize_t r, int64_t test, const Side *passed, const Side *failed,
                        Surrogate *candidate, Ranking *ranking) noexcept nogil
    cdef bint _same_value(self, int64_t a, int64_t b) noexcept nogil
    cdef void apply(self, const Ranking *ranking, bint by_default, const uint64_t *rows,
                    uint64_t *passed) noexcept nogil
    cdef void _apply_one(self, bint is_reversed, uint64_t *passed) noexcept nogil
