"""Addition of trees to factored scores.

A tree is a function of a position and its context, and usually few of its window tests pass. The
default value of a context is that of the leaf it reaches if all window tests fail. It is added to
the transitions once, for all positions, and a leaf adds the difference between its value and the
default value to its members. Of these differences, each leaf adds that of the tree's main context,
which passes the fewest label tests, to all contexts of its positions (the state), and the rest of
them to single contexts. The leaf of a tree that tests no labels changes the state only.

Terms are integers, so the way a value is divided among them does not matter for their sum.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from treecrf.chains._contexts cimport n_contexts_at
from treecrf.chains._memory cimport Memory, take, take_zeros
from treecrf.trees.growing._sets cimport Fraction, value_of_fraction
from treecrf.trees.growing._tests cimport BIT, LISTED, LISTING_SLACK, lower_bound, test_bytes
from treecrf.trees.scoring._answers cimport Answers, Bits, begin_bits, set_bit
from treecrf.trees.scoring._set_evaluator cimport (
    BLOCK, BLOCK_WORDS, Block, MISSING_BLOCK, SetEvaluator, free_block,
)

cdef extern from "trees/bitsets.h" nogil:
    int lowest_bit(uint64_t word)

cdef extern from "trees/updates/leaf_updates.h" nogil:
    Py_ssize_t list_positions(const uint64_t *a, const uint64_t *b, Py_ssize_t n_words,
                              const int32_t *position_of, const int32_t *table, Py_ssize_t width,
                              Py_ssize_t column, int32_t *out)
    void add_to_members(int32_t *sums, const uint64_t *set, Py_ssize_t n_words, int32_t value)
    void add_to_rows(int32_t *table, Py_ssize_t width, const int32_t *positions, Py_ssize_t n,
                     const int32_t *added)
    void add_to_entries(int32_t *table, Py_ssize_t width, const int32_t *positions, Py_ssize_t n,
                        const int32_t *added, const int32_t *where, Py_ssize_t n_where)


# Units of 2**-20 in 1.
cdef double UNITS = 1048576.0
# Adding to one entry of a row takes about as long as adding to this many neighboring ones, which
# vectors do together. The sums are the same.
cdef Py_ssize_t ENTRY_COST = 4


cdef class ColumnAnswers:
    """Evaluator of distinct tests at runs of rows that are stored column by column.

    A test reads one column of bytes, or the rows that list one id. All rows of a run have bits,
    also the boundary rows between two sequences, whose bits have no meaning.
    """

    cdef Answers answers
    cdef const uint8_t[:, ::1] codes, bits          # of each column and row
    cdef const int64_t[::1] posting_starts  # first of the rows that list each id
    cdef const int32_t[::1] postings        # these rows
    cdef const int64_t[::1] id_starts       # first of the listed ids of each test
    cdef bint has_missing                   # whether any value is missing
    cdef Py_ssize_t n_filled                # number of tests that have columns of bits

    def __init__(self, tests, Answers answers, columns, bint has_missing):
        n_ids = np.where(tests.kinds == LISTED, tests.highs - tests.lows, 0)
        self.answers = answers
        self.codes = columns.codes
        self.bits = columns.bits
        self.posting_starts = columns.posting_starts
        self.postings = columns.postings
        self.id_starts = np.append(0, np.cumsum(n_ids, dtype=np.int64))
        self.has_missing = has_missing
        self.n_filled = answers.n_tests if has_missing else answers.n_plain

    cdef int64_t *open(self, Py_ssize_t first) noexcept nogil:
        """Find the first posting of each test and id from a row on; NULL without memory.

        The caller frees the array, which `fill` advances.
        """
        cdef Py_ssize_t k, i
        cdef int64_t low, high
        cdef int64_t *postings = <int64_t *> malloc(
            (self.id_starts[self.answers.n_tests] + 1) * sizeof(int64_t))
        for k in range(self.answers.n_tests if postings != NULL else 0):
            for i in range(self.id_starts[k + 1] - self.id_starts[k]):
                low = self.posting_starts[self.answers.lows[k] + i]
                high = self.posting_starts[self.answers.lows[k] + i + 1]
                if low < high:
                    low = lower_bound(&self.postings[0], low, high,
                                      first + self.answers.offsets[k])
                postings[self.id_starts[k] + i] = low
        return postings

    cdef bint fill(self, Bits *block, Py_ssize_t first, Py_ssize_t size,
                   int64_t *next_postings) noexcept nogil:
        """Fill the columns of the next rows; returns whether any value is missing there."""
        cdef Py_ssize_t k, slot, start
        cdef uint8_t kind, low
        cdef uint64_t *column
        begin_bits(block, first, size)
        for k in range(self.n_filled):
            kind = self.answers.kinds[k]
            low = <uint8_t> self.answers.lows[k]
            slot = self.answers.slots[k]
            start = block.first + self.answers.offsets[k]
            column = block.columns + k * block.stride
            if kind == LISTED:
                self._fill_listed(block, k, next_postings)
            elif kind == BIT:
                test_bytes(kind, low, &self.bits[slot, start], block.n_words, column)
            else:
                test_bytes(kind, low, &self.codes[slot, start], block.n_words, column)
        return self.has_missing and self.answers._exclude_missing(block)

    cdef void _fill_listed(self, Bits *block, Py_ssize_t k, int64_t *next_postings) noexcept nogil:
        """Fill the column of a test of listed ids, from where the block before ended."""
        cdef uint64_t *column = block.columns + k * block.stride
        cdef Py_ssize_t i, start = block.first + self.answers.offsets[k]
        cdef Py_ssize_t row, id_ = self.answers.lows[k]
        cdef int64_t entry, end
        memset(column, 0, block.n_words * sizeof(uint64_t))
        for i in range(self.id_starts[k], self.id_starts[k + 1]):
            entry = next_postings[i]
            end = self.posting_starts[id_ + 1]
            while entry < end:
                row = self.postings[entry] - start
                if row >= block.size:
                    break
                if row >= 0:  # not between this block and the one before
                    set_bit(column, row)
                entry += 1
            next_postings[i] = entry
            id_ += 1


cdef struct Run:
    # A block of rows, and working memory. `block` comes first: a pointer to it is one to the run.
    Block block
    int32_t *state             # terms of the current label in all contexts, from position 0 on
    int32_t *rest              # its terms in single contexts, from position 0 on; NULL for none
    int32_t *position          # of each row
    uint8_t *depth             # number of labels before each row that define its context
    uint64_t inside[BLOCK_WORDS]   # rows of positions
    uint64_t deep[BLOCK_WORDS]     # rows of positions at full depth
    bint all_deep              # whether these are all
    int32_t *sums              # of each row: values that all contexts receive
    int32_t *listed            # working memory: positions of the members of a leaf
    int32_t *added             # values that a leaf adds to each extended context
    int32_t *where             # the contexts to which anything is added
    int64_t *next_postings     # of each test and id, see `ColumnAnswers.open`


@cython.final
cdef class FactoredEvaluator(SetEvaluator):
    """Evaluator that adds trees to factored scores."""

    cdef ColumnAnswers column_answers
    cdef Py_ssize_t order
    cdef readonly bint tests_labels      # whether any tree tests previous labels
    cdef int32_t[:, ::1] defaults        # of each tree and extended context
    cdef int32_t[::1] main_contexts      # of each tree; -1 if it tests no labels

    def __init__(self, packed, symbols, depth_starts, bint follows_surrogates, columns,
                 bint has_missing):
        super().__init__(packed, symbols, depth_starts, 0, follows_surrogates, False)
        cdef Py_ssize_t n_trees = self.classes.shape[0], tree, e, node, start, n_contexts
        cdef int32_t[::1] n_passed
        cdef bint has_tests
        self.column_answers = ColumnAnswers(packed.tests, self.answers, columns, has_missing)
        self.order = self.depth_starts.shape[0] - 1
        n_contexts = n_contexts_at(&self.depth_starts[0], <uint8_t> self.order)
        n_passed = np.zeros(n_contexts, dtype=np.int32)
        self.defaults = np.zeros((n_trees, self.n_extended), dtype=np.int32)
        self.main_contexts = np.full(n_trees, -1, dtype=np.int32)
        for tree in range(n_trees):
            start = self.starts[tree]
            has_tests = False
            for e in range(self.n_extended):
                node = 0
                while self.true_child[start + node] >= 0:
                    if self._passes(self.test[start + node], e):
                        node = self.true_child[start + node]
                    else:
                        node = self.false_child[start + node]
                self.defaults[tree, e] = <int32_t> (self.values[start + node] * UNITS)
            memset(&n_passed[0], 0, n_contexts * sizeof(int32_t))
            for node in range(start, self.starts[tree + 1]):
                if self.true_child[node] < 0 or self.test[node] < self.n_columns:
                    continue
                has_tests = True
                for e in range(n_contexts):
                    n_passed[e] += self._passes(self.test[node], e)
            if has_tests:
                self.tests_labels = True
                self.main_contexts[tree] = 0
                for e in range(n_contexts):
                    if n_passed[e] < n_passed[self.main_contexts[tree]]:
                        self.main_contexts[tree] = <int32_t> e

    cdef bint _passes(self, int32_t test, Py_ssize_t e) noexcept nogil:
        """Return whether an extended context passes a test of a label; False for window tests."""
        cdef int32_t label_test = test - <int32_t> self.n_columns
        cdef int32_t lag = label_test // <int32_t> (self.n_labels + 1)
        return (label_test >= 0
                and self.symbols[e, lag] == label_test % <int32_t> (self.n_labels + 1))

    def add_defaults(self, int32_t[:, :, ::1] transitions):
        """Add the default values of all trees to the transitions."""
        cdef Py_ssize_t tree, depth, c
        for tree in range(self.classes.shape[0]):
            for depth in range(self.order + 1):
                for c in range(n_contexts_at(&self.depth_starts[0], <uint8_t> depth)):
                    transitions[depth, self.classes[tree], c] += (
                        self.defaults[tree, self.depth_starts[depth] + c])

    def add(self, scores, const int32_t[::1] rows, const uint8_t[::1] depth, Py_ssize_t first,
            Py_ssize_t last):
        """Add the rest of the trees' values at the positions from ``first`` to ``last - 1``.

        Rows ascend. The scores have a ``rest`` if any tree tests previous labels.
        """
        cdef int32_t[:, ::1] state = scores.state
        cdef int32_t[:, :, ::1] rest = scores.rest
        cdef Py_ssize_t tree, next_, p, i
        cdef Py_ssize_t max_size = MISSING_BLOCK if self.column_answers.has_missing else BLOCK
        cdef int32_t class_
        cdef Run run
        with nogil:
            self._open_run(&run, rows[first])
            while first < last and not run.block.failed:
                p = first
                i = 0
                memset(run.inside, 0, BLOCK_WORDS * sizeof(uint64_t))
                memset(run.deep, 0, BLOCK_WORDS * sizeof(uint64_t))
                run.all_deep = True
                while p < last and rows[p] - rows[first] < max_size:
                    i = rows[p] - rows[first]
                    run.position[i] = <int32_t> p
                    run.depth[i] = depth[p]
                    run.inside[i >> 6] |= <uint64_t> 1 << (i & 63)
                    run.deep[i >> 6] |= <uint64_t> (depth[p] == self.order) << (i & 63)
                    run.all_deep &= depth[p] == self.order
                    p += 1
                next_ = p
                run.block.has_missing = self.column_answers.fill(&run.block.bits, rows[first],
                                                                 i + 1, run.next_postings)
                for tree in range(self.classes.shape[0]):
                    class_ = self.classes[tree]
                    run.state = &state[class_, 0]
                    run.rest = NULL if rest is None else &rest[class_, 0, 0]
                    self._route_tree(&run, tree)
                    for p in range(first, next_):
                        run.state[p] += run.sums[rows[p] - run.block.bits.first]
                first = next_
            free(run.next_postings)
            free_block(&run.block)
        if run.block.failed:
            raise MemoryError("no memory to evaluate the trees")

    cdef void _open_run(self, Run *run, Py_ssize_t row) noexcept nogil:
        """Allocate the memory of a run that begins with a row."""
        cdef Memory *memory = &run.block.memory
        memset(run, 0, sizeof(Run))
        self._open(&run.block)
        run.block.inside = run.inside
        run.position = <int32_t *> take_zeros(memory, BLOCK * sizeof(int32_t))
        run.depth = <uint8_t *> take(memory, BLOCK)
        run.sums = <int32_t *> take(memory, BLOCK * sizeof(int32_t))
        run.listed = <int32_t *> take(memory, (BLOCK + LISTING_SLACK) * sizeof(int32_t))
        run.added = <int32_t *> take(memory, self.n_extended * sizeof(int32_t))
        run.where = <int32_t *> take(memory, self.n_extended * sizeof(int32_t))
        run.next_postings = self.column_answers.open(row)
        run.block.failed = run.block.failed or memory.failed or run.next_postings == NULL

    cdef void _route_tree(self, Run *run, Py_ssize_t tree) noexcept nogil:
        """Add the values of a tree at a block of rows."""
        cdef Block *block = &run.block
        cdef Py_ssize_t i, e, start = self.starts[tree], context = self.main_contexts[tree]
        cdef const int32_t *defaults = &self.defaults[tree, 0]
        cdef const uint8_t *members
        cdef int32_t units, shared
        memset(run.sums, 0, block.bits.n_words * 64 * sizeof(int32_t))
        self._split_all(block, tree)
        for i in range(self.starts[tree + 1] - start):
            if block.set_of[i] == NULL or self.true_child[start + i] >= 0:
                continue
            units = <int32_t> (self.values[start + i] * UNITS)
            if context < 0:
                shared = units - defaults[0]
            else:
                members = self._contexts_of(block, i)
                shared = (units - defaults[context]) * members[context]
                for e in range(self.n_extended):
                    run.added[e] = (units - defaults[e]) * members[e] - shared
            if shared:
                add_to_members(run.sums, block.set_of[i], block.bits.n_words, shared)
            if context >= 0:
                self._add_to_rest(run, block.set_of[i])
            if block.has_missing:
                self._add_fractions(run, i, self.values[start + i])

    cdef const uint8_t *_contexts_of(self, const Block *block, Py_ssize_t node) noexcept nogil:
        """Return the members of the set of contexts of a node."""
        return block.members + block.contexts_of[node] * self.n_extended

    cdef void _add_to_rest(self, Run *run, const uint64_t *set_) noexcept nogil:
        """Add the additions of a leaf to the single contexts of its members."""
        cdef Py_ssize_t n_words = run.block.bits.n_words, i, n, w, c, n_where = 0
        cdef Py_ssize_t width = n_contexts_at(&self.depth_starts[0], <uint8_t> self.order)
        cdef uint64_t word
        cdef int32_t any_shallow = 0
        for c in range(width):
            run.where[n_where] = <int32_t> c
            n_where += run.added[c] != 0
        if n_where:
            n = list_positions(set_, run.deep, n_words, run.position, run.rest, width,
                               run.where[0], run.listed)
            if ENTRY_COST * n_where < width:
                add_to_entries(run.rest, width, run.listed, n, run.added, run.where, n_where)
            else:
                add_to_rows(run.rest, width, run.listed, n, run.added)
        for c in range(width, self.n_extended):
            any_shallow |= run.added[c]
        for w in range(n_words if any_shallow and not run.all_deep else 0):
            word = set_[w] & ~run.deep[w]
            while word:
                i = 64 * w + lowest_bit(word)
                self._add_row(run, i)
                word &= word - 1

    cdef void _add_row(self, Run *run, Py_ssize_t i) noexcept nogil:
        """Add the additions to the single contexts of a row."""
        cdef Py_ssize_t c, width = n_contexts_at(&self.depth_starts[0], <uint8_t> self.order)
        cdef int32_t *row = run.rest + run.position[i] * width
        cdef const int32_t *added = run.added + self.depth_starts[run.depth[i]]
        for c in range(n_contexts_at(&self.depth_starts[0], run.depth[i])):
            row[c] += added[c]

    # Positions with missing values

    cdef void _begin_fraction(self, Block *block, Py_ssize_t node, int32_t row) noexcept nogil:
        """Subtract the default values of a divided position: its fractions add whole values."""
        cdef Run *run = <Run *> block
        cdef const int32_t *defaults = &self.defaults[block.tree, 0]
        cdef const uint8_t *members = self._contexts_of(block, node)
        cdef Py_ssize_t e
        if self.main_contexts[block.tree] < 0:
            run.sums[row] -= defaults[0]
            return
        for e in range(self.n_extended):
            run.added[e] = -defaults[e] * members[e]
        self._add_row(run, row)

    cdef void _add_fractions(self, Run *run, Py_ssize_t node, double value) noexcept nogil:
        """Add to the fractions of positions that reach a leaf."""
        cdef Block *block = &run.block
        cdef const Fraction *fractions = block.fractions + block.fractions_of[node]
        cdef const uint8_t *members = self._contexts_of(block, node)
        cdef Py_ssize_t i, e
        cdef int32_t units
        for i in range(block.n_fractions_of[node]):
            units = <int32_t> (value_of_fraction(value, fractions[i].weight) * UNITS)
            if block.contexts_of[node] == 0:
                run.sums[fractions[i].row] += units
                continue
            for e in range(self.n_extended):
                run.added[e] = units * members[e]
            self._add_row(run, fractions[i].row)
