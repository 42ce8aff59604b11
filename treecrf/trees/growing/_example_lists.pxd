from libc.stdint cimport int32_t, uint8_t, uint32_t


cdef struct ExampleList:
    # The examples of one node, in memory of their own.
    Py_ssize_t n
    double *values          # pairs: residual and weight
    double *counts          # pairs: number of examples, 0; NULL if these are the weights
    int32_t *rows
    uint32_t *fractions     # of each example in units of 1 / WHOLE; NULL if all are whole
    uint8_t *labels         # previous labels, `n_lags` for each example


cdef class ExampleLists:
    cdef Py_ssize_t n_lags                  # number of previous labels of an example
    cdef bint with_counts, with_fractions   # whether lists have them
    cdef bint failed

    cdef void allocate(self, ExampleList *examples, Py_ssize_t n) noexcept nogil
    cdef void copy_one(self, const ExampleList *source, Py_ssize_t i,
                       ExampleList *target) noexcept nogil
    cdef void count_sides(self, const ExampleList *source, const uint8_t *outcomes, double share,
                          Py_ssize_t first, Py_ssize_t last, Py_ssize_t *counts) noexcept nogil
    cdef void move(self, const ExampleList *source, const uint8_t *outcomes, double share,
                   Py_ssize_t first, Py_ssize_t last, ExampleList *passed,
                   ExampleList *failed) noexcept nogil


cdef enum Outcome:
    FAILED = 0
    PASSED = 1
    NO_VALUE = 2


cdef void free_list(ExampleList *examples) noexcept nogil
