from libc.stdint cimport int32_t, uint8_t, uint32_t

from treecrf.trees.growing._features cimport Bins, ChosenBins, Features

cdef struct ExampleList:
    # The examples of one node, in memory of their own.
    Py_ssize_t n            # number of examples
    Py_ssize_t n_lags       # number of previous labels of an example
    double *values          # pairs: residual and weight of each example
    double *counts          # pairs: number of examples, 0; NULL if these are the weights
    int32_t *rows           # row of each example
    uint32_t *fractions     # of each example, in units of 1 / WHOLE; NULL if all are whole
    uint8_t *labels         # previous labels of each example


cdef bint allocate(ExampleList *examples, Py_ssize_t n, Py_ssize_t n_lags, bint with_counts,
                   bint with_fractions) noexcept nogil
cdef void count_sides(const ExampleList *source, const uint8_t *outcomes, double share,
                      Py_ssize_t first, Py_ssize_t last, Py_ssize_t *counts) noexcept nogil
cdef void move(const ExampleList *source, const uint8_t *outcomes, double share, Py_ssize_t first,
               Py_ssize_t last, ExampleList *passed, ExampleList *failed) noexcept nogil
cdef void free_list(ExampleList *examples) noexcept nogil


cdef class DenseHistogram:
    cdef Features features
    cdef Py_ssize_t n_lags              # number of previous labels of an example
    cdef Py_ssize_t n_symbols           # labels, and none
    cdef bint with_counts               # whether examples are counted separately
    cdef bint failed                    # whether memory has run out
    cdef double *pairs                  # sum of residuals and sum of weights of each bin
    cdef double *counts                 # number of examples of each bin; NULL without counts
    cdef double *scaled                 # working memory: values of fractions of examples
    cdef Py_ssize_t room                # number of examples for which it has memory

    cdef void add(self, ChosenBins chosen, const ExampleList *examples, Py_ssize_t first,
                  Py_ssize_t last) noexcept nogil
    cdef void clear(self, Py_ssize_t n_bins) noexcept nogil
    cdef void _add_values(self, ChosenBins chosen, const ExampleList *examples, Py_ssize_t first,
                          Py_ssize_t last, const double *values, double *bins,
                          int stride) noexcept nogil
    cdef const double *_scaled(self, const ExampleList *examples, Py_ssize_t first,
                               Py_ssize_t last, const double *values) noexcept nogil


cdef class SparseHistograms:
    cdef DenseHistogram first           # of the thread that grows the tree
    cdef ChosenBins tree_bins           # the bins of the current tree, which histograms number
    cdef double **pairs                 # of the first histogram and those of other threads
    cdef double **counts
    cdef bint with_counts               # whether examples are counted separately
    cdef bint failed                    # whether memory has run out

    cdef void collect(self, Bins *histogram, Py_ssize_t n_parts) noexcept nogil
    cdef void divide(self, Bins *parent, Bins *small,
                     Py_ssize_t n_parts) noexcept nogil
    cdef bint _is_filled(self, Py_ssize_t b) noexcept nogil
    cdef void _clear(self, Py_ssize_t b) noexcept nogil
    cdef void _join_parts(self, Py_ssize_t b, Py_ssize_t n_parts) noexcept nogil
    cdef void _fit(self, Bins *source, Bins *target) noexcept nogil
    cdef void _allocate(self, Bins *histogram, Py_ssize_t n) noexcept nogil


cdef void free_histogram(Bins *histogram) noexcept nogil
