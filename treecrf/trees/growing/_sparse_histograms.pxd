from libc.stdint cimport int32_t

from treecrf.trees.growing._chosen_bins cimport Bins, ChosenBins
from treecrf.trees.growing._example_lists cimport ExampleList
from treecrf.trees.growing._features cimport Features


cdef class DenseHistogram:
    cdef Features features
    cdef Py_ssize_t n_lags, n_symbols
    cdef bint with_counts, failed
    cdef double *pairs
    cdef double *counts
    cdef double *scaled                 # values of fractions
    cdef Py_ssize_t room

    cdef void add(self, ChosenBins chosen, const ExampleList *examples, Py_ssize_t first,
                  Py_ssize_t last) noexcept nogil
    cdef void clear(self, Py_ssize_t n_bins) noexcept nogil
    cdef void _add_values(self, ChosenBins chosen, const ExampleList *examples, Py_ssize_t first,
                          Py_ssize_t last, const double *values, double *bins,
                          int stride) noexcept nogil
    cdef const double *_scaled(self, const ExampleList *examples, Py_ssize_t first,
                               Py_ssize_t last, const double *values) noexcept nogil


cdef class SparseHistograms:
    cdef DenseHistogram first           # of this builder's thread
    cdef ChosenBins of_tree             # the bins of the current tree, which histograms number
    cdef double **pairs                 # of the first histogram and those of other threads
    cdef double **counts
    cdef bint with_counts, failed

    cdef bint is_failed(self) noexcept nogil
    cdef void collect(self, Bins *histogram, Py_ssize_t n_parts) noexcept nogil
    cdef void divide(self, Bins *parent, Bins *small,
                     Py_ssize_t n_parts) noexcept nogil
    cdef bint _is_filled(self, Py_ssize_t b) noexcept nogil
    cdef void _clear(self, Py_ssize_t b) noexcept nogil
    cdef void _join_parts(self, Py_ssize_t b, Py_ssize_t n_parts) noexcept nogil
    cdef void _fit(self, Bins *source, Bins *target) noexcept nogil
    cdef void _allocate(self, Bins *histogram, Py_ssize_t n) noexcept nogil


cdef void free_histogram(Bins *histogram) noexcept nogil
