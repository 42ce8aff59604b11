# A sequence that is being read, and what its values say of trees and of a linear model.

from libc.stdint cimport int32_t, uint64_t

from treecrf.chains._memory cimport Memory

cdef enum:
    BLOCK = 64        # positions of a block: the bits of a word


cdef struct Sequence:
    Memory memory
    # Number of positions, and of the blocks that hold them.
    Py_ssize_t length
    Py_ssize_t n_blocks
    # Number of values that were read and are known, and of keys and categories that are not.
    Py_ssize_t n_known
    Py_ssize_t n_unknown
    # Whether every position has a value of every column.
    bint is_dense
    # [block, test]: the positions that pass a test, as bits.
    uint64_t *tests
    # [block, test]: the positions that lack its value; NULL if no value is missing.
    uint64_t *missing
    # [block, rank]: the positions whose number has this rank among the thresholds of its column.
    uint64_t *ranks
    # [position, label]: scores of the linear model.
    double *state
    # The columns whose value a position lacks, and their number.
    int32_t *lacking
    Py_ssize_t n_lacking
