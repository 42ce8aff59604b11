from libc.stdint cimport uint8_t, uint64_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.scoring._answers cimport Bits


cdef class BlockEvaluator:
    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil
    cdef Py_ssize_t n_steps(self, const Bits *block) noexcept nogil


cdef class ColumnsEvaluator:
    cdef bint add_columns(self, const uint64_t *tests, Py_ssize_t n_tests, Py_ssize_t n_skipped,
                          Py_ssize_t n_positions, double *rows,
                          Py_ssize_t class_size) noexcept nogil
