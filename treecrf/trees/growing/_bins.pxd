from libc.stdint cimport int32_t


cdef struct Bins:
    # The bins of a node's histogram, ascending: all of them, or those that hold anything.
    Py_ssize_t n, room
    double *pairs           # sum of residuals, sum of weights
    double *counts          # number of examples; NULL if these are the weights
    int32_t *bins           # numbers of the bins; NULL for all
