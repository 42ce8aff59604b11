"""Sets of rows and sets of contexts: the examples of a tree's nodes are their products.

A set of rows is a bit set, which tests split word by word. Where values are missing, a row may go
to both sides of a test, with a fraction of its weight to each (Quinlan, "C4.5", 1993). Such a row
is in a list instead, with its weight in units of 2**-16. The fractions of a weight add up to it, so
the sums over the sets that a set is split into add up exactly to the sum over the set.
"""

from treecrf.chains.contexts import extended_contexts

from libc.math cimport rint
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from treecrf.trees.growing._tests cimport LISTING_SLACK

cdef extern from "trees/bitsets.h" nogil:
    Py_ssize_t count_common(const uint64_t *a, const uint64_t *b, Py_ssize_t n_words)
    int lowest_bit(uint64_t word)
    void list_bits(const uint64_t *words, Py_ssize_t n_words, int32_t *out)
    void split_list(void *entries, Py_ssize_t n, const uint64_t *takes, const uint64_t *misses,
                    void *taken, void *lost, Py_ssize_t *n_taken, Py_ssize_t *n_lost)
    Py_ssize_t take_bits(uint64_t *words, uint64_t *taken, Py_ssize_t n_words)

cdef class RowSets:
    """Sets of rows, in memory that is reused from tree to tree."""

    def __cinit__(self, Py_ssize_t n_words, Py_ssize_t max_sets, position_of_row, depth):
        self.n_words = n_words
        self.max_sets = max_sets
        self.position_of_row = position_of_row
        self.depth = depth
        self.sets = <RowSet *> calloc(max_sets, sizeof(RowSet))
        self.rows = <int32_t *> malloc((64 * n_words + LISTING_SLACK) * sizeof(int32_t))
        self.nothing.whole = <uint64_t *> calloc(n_words, sizeof(uint64_t))
        if self.sets == NULL or self.rows == NULL or self.nothing.whole == NULL:
            raise MemoryError(f"no memory for sets of {64 * n_words} rows")

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.max_sets if self.sets != NULL else 0):
            free(self.sets[i].whole)
            free(self.sets[i].fractions)
        free(self.sets)
        free(self.rows)
        free(self.nothing.whole)
        free(self.nothing.fractions)

    cdef void begin(self, const uint64_t[:, ::1] rows_of_depth,
                    const double[::1] position_weights, bint with_weights) noexcept nogil:
        """Forget all sets; new ones have weights only ``with_weights``."""
        self.with_weights = with_weights
        self.rows_of_depth = rows_of_depth
        self.position_weights = position_weights
        self.n_sets = 0
        self.failed = False

    cdef int32_t take(self) noexcept nogil:
        """Return a new set. Its bits are not filled, and it has no fractions of rows."""
        cdef RowSet *rows = &self.sets[self.n_sets]
        if rows.whole == NULL:
            rows.whole = <uint64_t *> malloc(self.n_words * sizeof(uint64_t))
            self.failed = self.failed or rows.whole == NULL
        rows.n_fractions = 0
        self.n_sets += 1
        return <int32_t> (self.n_sets - 1)

    cdef void compute_weight(self, RowSet *rows) noexcept nogil:
        """Compute a set's weight, if weights are needed."""
        cdef Py_ssize_t i, order = self.rows_of_depth.shape[0] - 1
        cdef const Fraction *fractions = rows.fractions
        cdef uint64_t word
        cdef double divided = 0.0, whole = 0.0, more
        if not self.with_weights:
            return
        for i in range(rows.n_fractions):
            divided += fractions[i].weight * self._weight_of(fractions[i].row)
        if self.position_weights is None:
            # As if all rows had the full depth, and the difference for those that do not.
            whole = self.n_examples[order] * rows.n_whole
            for i in range(order):
                # If contexts of this depth have no examples, the set has no such rows.
                more = self.n_examples[i] - self.n_examples[order]
                if more and self.n_examples[i]:
                    whole += more * count_common(rows.whole, &self.rows_of_depth[i, 0],
                                                 self.n_words)
        else:
            for i in range(self.n_words):
                word = rows.whole[i]
                while word:
                    whole += self._weight_of(<int32_t> (64 * i + lowest_bit(word)))
                    word &= word - 1
        rows.weight = divided / WHOLE + whole

    cdef inline double _weight_of(self, int32_t row) noexcept nogil:
        cdef int32_t position = self.position_of_row[row]
        cdef double weight = self.n_examples[self.depth[position]]
        if self.position_weights is not None:
            weight *= self.position_weights[position]
        return weight

    cdef void copy(self, RowSet *source, RowSet *target) noexcept nogil:
        """Make a set equal to another one."""
        self._make_room(target, source.n_fractions)
        if self.failed:
            return
        memcpy(target.whole, source.whole, self.n_words * sizeof(uint64_t))
        if source.n_fractions:  # without any, there is no memory for them
            memcpy(target.fractions, source.fractions, source.n_fractions * sizeof(Fraction))
        target.n_whole = source.n_whole
        target.n_fractions = source.n_fractions
        target.weight = source.weight

    cdef void split(self, RowSet *source, RowSet *target) noexcept nogil:
        """Move rows to another set, whose bits define which."""
        cdef double weight = source.weight
        self._split_fractions(source, target, &self.nothing)
        target.n_whole = take_bits(source.whole, target.whole, self.n_words)
        source.n_whole -= target.n_whole
        self._compute_both(source, target, weight)

    cdef void split_three_ways(self, RowSet *source, RowSet *target,
                               RowSet *missing) noexcept nogil:
        """Move rows to two other sets, whose bits define which; ``missing`` has precedence."""
        cdef double weight = source.weight
        self._split_fractions(source, target, missing)
        missing.n_whole = take_bits(source.whole, missing.whole, self.n_words)
        target.n_whole = take_bits(source.whole, target.whole, self.n_words)
        source.n_whole -= missing.n_whole + target.n_whole
        self.compute_weight(missing)
        self._compute_both(source, target, weight - missing.weight)

    cdef void _compute_both(self, RowSet *a, RowSet *b, double weight) noexcept nogil:
        """Compute the weights of two sets, given the sum of both."""
        if a.n_whole + a.n_fractions < b.n_whole + b.n_fractions:
            self.compute_weight(a)
            b.weight = weight - a.weight
        else:
            self.compute_weight(b)
            a.weight = weight - b.weight

    cdef void _split_fractions(self, RowSet *source, RowSet *target,
                               RowSet *missing) noexcept nogil:
        """Move fractions of rows to two other sets, whose bits define which."""
        cdef Py_ssize_t n = source.n_fractions
        self._make_room(target, n)
        self._make_room(missing, n)
        if not self.failed:
            split_list(source.fractions, n, target.whole, missing.whole, target.fractions,
                       missing.fractions, &target.n_fractions, &missing.n_fractions)
            source.n_fractions = n - target.n_fractions - missing.n_fractions

    cdef void join(self, RowSet *source, RowSet *target) noexcept nogil:
        """Move the whole rows to another set."""
        cdef Py_ssize_t i
        for i in range(self.n_words):
            target.whole[i] |= source.whole[i]
        target.n_whole += source.n_whole
        source.n_whole = 0

    cdef void distribute(self, RowSet *rows, RowSet *passed, RowSet *failed,
                         double share) noexcept nogil:
        """Move a fraction of each row to one set, and the rest to another."""
        cdef Py_ssize_t i, n_passed, n_failed, n = rows.n_whole + rows.n_fractions
        cdef uint32_t weight, units = <uint32_t> rint(share * WHOLE)
        cdef const Fraction *fractions = rows.fractions
        cdef Fraction *to_passed
        cdef Fraction *to_failed
        cdef double whole = 0.0, divided = 0.0, moved
        if n == 0:
            return
        self._make_room(passed, passed.n_fractions + n)
        self._make_room(failed, failed.n_fractions + n)
        if self.failed:
            return
        to_passed = passed.fractions
        to_failed = failed.fractions
        n_passed = passed.n_fractions
        n_failed = failed.n_fractions
        list_bits(rows.whole, self.n_words, self.rows)
        # Fractions of weight 0 are dropped: the next one takes their place.
        for i in range(rows.n_whole):
            to_passed[n_passed] = Fraction(self.rows[i], units)
            to_failed[n_failed] = Fraction(self.rows[i], WHOLE - units)
            n_passed += units > 0
            n_failed += units < WHOLE
            if self.with_weights:
                whole += self._weight_of(self.rows[i])
        for i in range(rows.n_fractions):
            weight = fraction_of(fractions[i].weight, units)
            to_passed[n_passed] = Fraction(fractions[i].row, weight)
            to_failed[n_failed] = Fraction(fractions[i].row, fractions[i].weight - weight)
            n_passed += weight > 0
            n_failed += weight < fractions[i].weight
            if self.with_weights:
                divided += weight * self._weight_of(fractions[i].row)
        passed.n_fractions = n_passed
        failed.n_fractions = n_failed
        moved = whole * units / WHOLE + divided / WHOLE
        passed.weight += moved
        failed.weight += rows.weight - moved

    cdef void _make_room(self, RowSet *rows, Py_ssize_t n) noexcept nogil:
        """Make room for a number of fractions."""
        cdef Fraction *moved
        if n <= rows.room:
            return
        moved = <Fraction *> realloc(rows.fractions, n * sizeof(Fraction))
        if moved == NULL:
            self.failed = True
            return
        rows.fractions = moved
        rows.room = n


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
