from libc.stdint cimport uint8_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.scoring._answers cimport Bits


cdef class BlockEvaluator:
    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil
