# The heap of the label sequences that decoding ranks.

cdef extern from "chains/heap.h" nogil:
    ctypedef struct Candidate "candidate":
        double score           # of the best label sequence that a list still offers
        double added           # by the step from the list's context
        Py_ssize_t step        # orders ties
        Py_ssize_t source      # the list
        Py_ssize_t rank        # of the label sequence in the list

    void sift_down_candidate(Candidate *heap, Py_ssize_t n, Py_ssize_t i)


cdef inline void make_heap(Candidate *heap, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n // 2 - 1, -1, -1):
        sift_down_candidate(heap, n, i)
