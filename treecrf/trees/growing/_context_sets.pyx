"""Sets of contexts, the second factor of a node's examples (see ``_tree``)."""

from treecrf.chains.contexts import extended_contexts

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset


cdef class ContextSets:
    """Sets of contexts, in memory that is reused from tree to tree."""

    def __cinit__(self, Py_ssize_t n_labels, Py_ssize_t order, Py_ssize_t max_sets):
        self.n_labels = n_labels
        self.order = order
        self.n_contexts = n_labels ** order
        self.symbols, self.depth_starts = extended_contexts(n_labels, order)
        self.n_extended = self.symbols.shape[0]
        self.max_sets = max_sets
        self.sets = <ContextSet *> calloc(max_sets, sizeof(ContextSet))
        if self.sets == NULL:
            raise MemoryError(f"no memory for {max_sets} sets of contexts")

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.max_sets if self.sets != NULL else 0):
            free(self.sets[i].members)
        free(self.sets)

    cdef void clear(self) noexcept nogil:
        """Forget all sets."""
        self.n_sets = 0
        self.failed = False

    cdef int32_t take(self) noexcept nogil:
        """Return a new set, not yet filled."""
        cdef Py_ssize_t i = self.n_sets
        cdef ContextSet *contexts = &self.sets[i]
        if contexts.members == NULL:
            contexts.members = <double *> malloc(
                (self.n_extended + self.order + 1) * sizeof(double))
            contexts.n_members = contexts.members + self.n_extended
            self.failed = self.failed or contexts.members == NULL
        self.n_sets += 1
        return <int32_t> i

    cdef void fill(self, int32_t target) noexcept nogil:
        """Fill a set with all contexts."""
        cdef Py_ssize_t e
        for e in range(self.n_extended):
            self.sets[target].members[e] = 1.0
        self._summarize(&self.sets[target])

    cdef void divide(self, int32_t source, int64_t label_test, int32_t passed,
                     int32_t failed) noexcept nogil:
        """Split a set by a test of a previous label into two new ones."""
        cdef int64_t lag = label_test // (self.n_labels + 1)
        cdef int64_t symbol = label_test % (self.n_labels + 1)
        cdef const double *old = self.sets[source].members
        cdef Py_ssize_t e
        for e in range(self.n_extended):
            self.sets[passed].members[e] = old[e] * (self.symbols[e, lag] == symbol)
            self.sets[failed].members[e] = old[e] * (self.symbols[e, lag] != symbol)
        self._summarize(&self.sets[passed])
        self._summarize(&self.sets[failed])

    cdef void _summarize(self, ContextSet *contexts) noexcept nogil:
        """Set everything that follows from the members."""
        cdef Py_ssize_t e
        cdef double n = 0.0
        memset(contexts.n_members, 0, (self.order + 1) * sizeof(double))
        for e in range(self.n_extended):
            contexts.n_members[self.depth_of(e)] += contexts.members[e]
            n += contexts.members[e]
        contexts.one_context = n < 2.0
        contexts.one_a_depth = True
        for e in range(self.order + 1):
            contexts.one_a_depth = contexts.one_a_depth and contexts.n_members[e] < 2.0
        contexts.is_one = contexts.n_members[self.order] == 1.0
        for e in range(self.n_contexts):
            if contexts.members[e]:
                contexts.last_context = e

    cdef Py_ssize_t depth_of(self, Py_ssize_t e) noexcept nogil:
        """Return the depth of an extended context; contexts of full depth come first."""
        cdef Py_ssize_t depth = self.order
        while depth and e >= self.depth_starts[depth - 1]:
            depth -= 1
        return depth
