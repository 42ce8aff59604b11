"""What short sequences need of an evaluator: they compute the outcomes of the tests themselves."""

from libc.stdint cimport uint8_t

from treecrf.chains._memory cimport Memory
from treecrf.trees.scoring._answers cimport Bits


cdef class BlockEvaluator:
    """Evaluator of blocks of at most 64 positions without missing values: the base class."""

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        """Add the trees' values to the scores of the positions of a block.

        ``depth`` is the number of labels before each position that define its context. ``rows``
        holds the scores of each position for the first class, and ``class_size`` is their distance
        from those for the next class. Working memory is taken from ``memory``, which knows whether
        there was enough.
        """
