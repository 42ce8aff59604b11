"""Scores of short sequences, by the tests that hold or, if these are many, by walking."""

from libc.stdint cimport uint8_t, uint64_t

from treecrf.chains._memory cimport Memory, take
from treecrf.trees.fast._quick cimport QuickScorer
from treecrf.trees.fast._walker cimport Walk, Walker
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator


cdef class ShortEvaluator(BlockEvaluator):
    """Evaluator that takes the faster of two ways for each block."""

    cdef Walker walker
    cdef QuickScorer quick           # None if it does not support the trees
    cdef Py_ssize_t n_contexts
    cdef public double max_steps     # for a tree; see `treecrf.trees.fast.costs.MAX_STEPS`

    def __init__(self, Walker walker, QuickScorer quick, Py_ssize_t n_contexts, double max_steps):
        self.walker = walker
        self.quick = quick
        self.n_contexts = n_contexts
        self.max_steps = max_steps

    cdef void add_block(self, const Bits *block, const uint8_t *depth, Memory *memory,
                        double **rows, Py_ssize_t class_size) noexcept nogil:
        cdef Py_ssize_t n_trees
        cdef void *array
        if self.quick is not None:
            n_trees = block.size * self.quick.n_trees
            if self.quick.n_steps(block) <= self.max_steps * n_trees:
                array = take(memory, n_trees * sizeof(uint64_t))
                if array != NULL:
                    self.quick.add_block(block, depth, <uint64_t *> array, rows, class_size)
                return
        array = take(memory, block.size * self.n_contexts * sizeof(Walk))
        if array != NULL:
            self.walker.add_block(block, depth, <Walk *> array, rows, class_size)

    cdef Py_ssize_t n_steps(self, const Bits *block) noexcept nogil:
        return -1 if self.quick is None else self.quick.n_steps(block)
