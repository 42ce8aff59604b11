cimport cython
from libc.stdint cimport int32_t, int64_t


cdef struct ContextSet:
    double *members                 # 1.0 for a context of the set, else 0.0; all extended contexts
    double *n_members               # number of contexts of the set at each depth
    bint one_context                # then no test of a previous label can split it
    bint one_a_depth                # at most one context of the set at each depth
    bint is_one                     # one context of the set at full depth
    Py_ssize_t last_context         # the last context of full depth in the set


@cython.final
cdef class ContextSets:
    cdef readonly Py_ssize_t n_labels, order, n_contexts, n_extended
    cdef const int32_t[:, ::1] symbols      # previous label at each lag of each extended context
    cdef const int64_t[::1] depth_starts    # first extended context of each depth
    cdef ContextSet *sets
    cdef Py_ssize_t n_sets, max_sets
    cdef bint failed

    cdef void clear(self) noexcept nogil
    cdef int32_t take(self) noexcept nogil
    cdef void fill(self, int32_t target) noexcept nogil
    cdef void divide(self, int32_t source, int64_t label_test, int32_t passed,
                     int32_t failed) noexcept nogil
    cdef void _summarize(self, ContextSet *contexts) noexcept nogil
    cdef Py_ssize_t depth_of(self, Py_ssize_t e) noexcept nogil
