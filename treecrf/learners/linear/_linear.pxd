# Products of sparse rows of attributes and dense blocks of weights.

from libc.stdint cimport int32_t, int64_t

cdef extern from "learners/linear/linear.h" nogil:
    void add_block(double *target, const double *source, double x, Py_ssize_t n)
    void add_rows(const int64_t *starts, const int32_t *attributes, const double *values,
                  Py_ssize_t n_rows, Py_ssize_t left, Py_ssize_t right, Py_ssize_t width,
                  const double *weights, Py_ssize_t first, Py_ssize_t last, double *target)
    void collect_rows(const int64_t *starts, const int32_t *attributes, const double *values,
                      Py_ssize_t n_rows, Py_ssize_t left, Py_ssize_t right, Py_ssize_t width,
                      const double *deltas, Py_ssize_t first, Py_ssize_t last, Py_ssize_t low,
                      Py_ssize_t high, double *weights)
    void move_blocks(const int64_t *starts, const int32_t *attributes, Py_ssize_t n_rows,
                     Py_ssize_t left, Py_ssize_t right, Py_ssize_t width, double factor,
                     Py_ssize_t first, Py_ssize_t last, double *source, double *target)
