"""What short sequences need of an evaluator: they compute the outcomes of the tests themselves."""

from libc.stdint cimport uint8_t, uint64_t

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

    cdef Py_ssize_t n_steps(self, const Bits *block) noexcept nogil:
        """Return the number of nodes whose tests hold, over the positions; -1 if it is unknown."""
        return -1


cdef class ColumnsEvaluator:
    """Evaluator of many positions whose tests have been computed: the base class."""

    cdef bint add_columns(self, const uint64_t *tests, Py_ssize_t n_tests, Py_ssize_t n_skipped,
                          Py_ssize_t n_positions, double *rows,
                          Py_ssize_t class_size) noexcept nogil:
        """Add the trees' values to the scores of positions without missing values.

        ``tests`` are the positions that pass each test, [block of 64 positions, test]. The first
        ``n_skipped`` positions have fewer labels before them, and are left out. ``rows`` holds the
        scores of the first class, position after position, and ``class_size`` is their distance
        from those of the next class. Returns whether there was enough memory.
        """
        return True
