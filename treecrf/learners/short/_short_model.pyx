"""Scores of short sequences, straight from the values of the user.

For other sequences, values become checked sequences, encoded rows and attributes. If there are few
values, most of the time passes in making these arrays. Here, each value sets the bits of the tests
that it passes and adds its weights of the linear model as soon as it is read. A sequence is a block
of up to 64 positions, so that a test is one word of bits.

A sequence is "plain" if it needs no error, no warning and no rule of missing values, and all of its
objects are of built-in types or of NumPy's: methods of other classes could change a list or a dict
while it is read. All other sequences are left to the code for long sequences.
"""

import cython
import numpy as np

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_AsLong
from cpython.object cimport PyObject
from libc.math cimport fabs, isfinite, ldexp, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from treecrf.chains._memory cimport Memory, release, take, take_zeros
from treecrf.learners.linear._linear cimport add_block
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

# The types of NumPy whose values are read like those of the built-in types that they inherit from.
cdef object NUMPY_STRING = np.str_
cdef object NUMPY_DOUBLE = np.float64

cdef enum:
    BLOCK = 64        # maximum number of positions of a sequence: the bits of a word

    # Kinds of columns, as in `treecrf.inputs.sequences`.
    BOOLEAN = 0
    CATEGORY = 1

    # Maximum number of keys of a dict. They are sorted by insertion, and lie on the stack.
    MAX_KEYS = 128


cdef struct Block:
    # A sequence that is being read.
    Memory memory
    # Number of positions.
    Py_ssize_t length
    # Number of values that were read and are not 0.
    Py_ssize_t n_values
    # The first position to score, and the one after the last.
    Py_ssize_t first
    Py_ssize_t last
    # Whether every position has a value of every column.
    bint is_dense
    # Of each test: the positions that pass it.
    uint64_t *tests
    # Of each threshold: the positions whose own values exceed it.
    uint64_t *cuts
    # [position, label]: scores of the linear model.
    double *state


cdef struct Entry:
    # A value of a dict.
    Py_ssize_t column
    # A borrowed reference.
    PyObject *value


cdef class ValueTests:
    """The distinct tests of the trees, by the values that pass them."""

    # Place of code 0 of each column; the codes of its categories follow.
    cdef const int64_t[::1] first_codes
    # First test of each place, in the next two arrays.
    cdef const int64_t[::1] code_starts
    # Tests that the codes pass.
    cdef const int32_t[::1] code_tests
    # Offset of the position that these tests read.
    cdef const int32_t[::1] code_offsets
    # First threshold of each column, in ``cuts``.
    cdef const int64_t[::1] cut_starts
    # The distinct thresholds of each column, ascending.
    cdef const double[::1] cuts
    # Tests of numbers: test, offset, index of the threshold, and whether values up to it pass.
    cdef const int32_t[:, ::1] number_tests
    # Tests of the boundaries of sequences: test and offset.
    cdef const int32_t[:, ::1] boundary_tests
    # Number of all tests.
    cdef Py_ssize_t n_tests

    def __init__(self, first_codes, code_starts, code_tests, code_offsets, cut_starts, cuts,
                 number_tests, boundary_tests, n_tests):
        self.first_codes = first_codes
        self.code_starts = code_starts
        self.code_tests = code_tests
        self.code_offsets = code_offsets
        self.cut_starts = cut_starts
        self.cuts = cuts
        self.number_tests = number_tests
        self.boundary_tests = boundary_tests
        self.n_tests = n_tests

    cdef void start(self, Block *block) noexcept nogil:
        """Start with the values of positions that have none, which are 0."""
        cdef Py_ssize_t c
        for c in range(self.cuts.shape[0]):
            block.cuts[c] = ~<uint64_t> 0 if not block.is_dense and self.cuts[c] < 0 else 0

    cdef inline void add_number(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                                double value) noexcept nogil:
        """Compare the number of column j at position t with the thresholds of the column."""
        cdef Py_ssize_t c
        cdef uint64_t bit = <uint64_t> 1 << t
        for c in range(self.cut_starts[j], self.cut_starts[j + 1]):
            block.cuts[c] = block.cuts[c] & ~bit | (bit if value > self.cuts[c] else 0)

    cdef inline void add_category(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                                  Py_ssize_t code) noexcept nogil:
        """Set the bits of the tests that a code of column j at position t passes."""
        cdef int64_t i
        cdef Py_ssize_t position, first = self.first_codes[j] + code
        for i in range(self.code_starts[first], self.code_starts[first + 1]):
            position = t - self.code_offsets[i]
            if 0 <= position < block.length:
                block.tests[self.code_tests[i]] |= <uint64_t> 1 << position

    cdef void finish(self, Block *block) noexcept nogil:
        """Set the bits of the tests of thresholds and boundaries."""
        cdef Py_ssize_t k
        cdef uint64_t every = ~<uint64_t> 0 >> (BLOCK - block.length)
        cdef uint64_t passing
        for k in range(self.number_tests.shape[0]):
            passing = block.cuts[self.number_tests[k, 2]]
            if self.number_tests[k, 3]:
                passing = ~passing
            block.tests[self.number_tests[k, 0]] = shifted(passing & every,
                                                           self.number_tests[k, 1]) & every
        for k in range(self.boundary_tests.shape[0]):
            block.tests[self.boundary_tests[k, 0]] = (
                ~shifted(every, self.boundary_tests[k, 1]) & every)


cdef inline uint64_t shifted(uint64_t rows, Py_ssize_t offset) noexcept nogil:
    """Return the positions for which the row at an offset is in a set of rows."""
    if offset >= BLOCK or offset <= -BLOCK:
        return 0
    return rows >> offset if offset >= 0 else rows << -offset


cdef class ColumnWeights:
    """The weights of a linear model, by column."""

    # First attribute of each column.
    cdef const int64_t[::1] first_attributes
    # Row of the weights of each attribute; -1 if it has none.
    cdef const int32_t[::1] rows
    # Numbers are shifted and scaled like this, by column: see `Standardization`.
    cdef const double[::1] shifts
    cdef const int32_t[::1] exponents
    # [row, offset, label]: as `Weights.attributes`.
    cdef const double[:, :, ::1] weights
    # [previous label, label]: as `Weights.transitions`.
    cdef const double[:, ::1] transitions
    # Number of positions in the window on either side.
    cdef Py_ssize_t left
    cdef Py_ssize_t right
    # Largest number that a linear model takes.
    cdef double max_number
    # Unit that scores are rounded to; 0 if they are not rounded.
    cdef double unit
    # Whether numbers of 0 add nothing.
    cdef bint has_zeros
    # [2, column]: least and greatest number; others are cut to them.
    cdef const double[:, ::1] ranges

    def __init__(self, first_attributes, rows, shifts, exponents, weights, transitions, window,
                 max_number, unit, has_zeros, ranges):
        self.first_attributes = first_attributes
        self.rows = rows
        self.shifts = shifts
        self.exponents = exponents
        self.weights = weights
        self.transitions = transitions
        self.left, self.right = window
        self.max_number = max_number
        self.unit = unit
        self.has_zeros = has_zeros
        self.ranges = ranges

    cdef inline bint add_number(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                                double value) noexcept nogil:
        """Add the weights of a number; returns whether it is small enough."""
        cdef Py_ssize_t row = self.rows[self.first_attributes[j]]
        value = max(self.ranges[0, j], min(self.ranges[1, j], value))
        if block.is_dense:
            value -= self.shifts[j]
        value = ldexp(value, -self.exponents[j])
        if row >= 0 and value != 0:
            self._add(block, t, row, value)
        return fabs(value) <= self.max_number

    cdef inline void add_category(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                                  Py_ssize_t code) noexcept nogil:
        """Add the weights of a category."""
        cdef Py_ssize_t row = self.rows[self.first_attributes[j] + code - 1]
        if row >= 0:
            self._add(block, t, row, 1.0)

    cdef void start(self, Block *block) noexcept nogil:
        """Add the weights of positions before the sequence: rows are added in order."""
        cdef Py_ssize_t t
        for t in range(-self.left, 0):
            self._add(block, t, self.weights.shape[0] - 1, 1.0)

    cdef void finish(self, Block *block) noexcept nogil:
        """Add the weights of positions after the sequence, and round."""
        cdef Py_ssize_t t, i
        for t in range(block.length, block.length + self.right):
            self._add(block, t, self.weights.shape[0] - 1, 1.0)
        if self.unit:
            for i in range(block.length * self.weights.shape[2]):
                block.state[i] = rint(block.state[i] / self.unit) * self.unit

    cdef inline void _add(self, Block *block, Py_ssize_t t, Py_ssize_t row,
                          double value) noexcept nogil:
        """Add an attribute at position t to the positions that have it in their window."""
        cdef Py_ssize_t n_labels = self.weights.shape[2]
        cdef Py_ssize_t window_start = t - self.right
        cdef Py_ssize_t first = max(window_start, 0)
        cdef Py_ssize_t last = min(t + self.left + 1, block.length)
        if first < last:
            add_block(block.state + first * n_labels,
                      &self.weights[row, first - window_start, 0], value,
                      (last - first) * n_labels)


cdef class ShortModel:
    """A fitted model in a form that scores short sequences in little time; it never changes."""

    cdef Py_ssize_t n_columns
    cdef Py_ssize_t n_labels
    # Number of labels in a context, and of contexts.
    cdef Py_ssize_t order
    cdef Py_ssize_t n_contexts
    # Kind of each column, as in `treecrf.inputs.sequences`.
    cdef const uint8_t[::1] kinds
    # Of each column: the code of each category, in a dict; None for numbers.
    cdef list codes
    # Of each column: whether its categories are strings.
    cdef list are_strings
    # Column of each name; None if columns have no names.
    cdef dict index
    # Whether sequences consist of symbols.
    cdef bint has_symbols
    # Whether all columns are categories.
    cdef bint is_categorical
    # Whether a key that a dict lacks is a missing value.
    cdef bint needs_all_keys
    # The tests of the trees; none without trees.
    cdef ValueTests tests
    # The weights of the linear model; None without one.
    cdef ColumnWeights weights
    # The evaluator of the trees; None without trees.
    cdef BlockEvaluator evaluator
    # Constant scores of labels in contexts, for each number of labels before; None without any.
    # With them, the trees are evaluated in one context.
    cdef const double[:, :, ::1] transitions
    # A function that returns the lists of a data frame's values; None if it cannot.
    cdef object read_frame

    def __init__(self, n_labels, order, kinds, codes, are_strings, index, has_symbols,
                 needs_all_keys, tests, weights, evaluator, transitions, read_frame):
        self.n_columns = len(kinds)
        self.n_labels = n_labels
        self.order = order
        self.n_contexts = n_labels**order
        self.kinds = kinds
        self.codes = codes
        self.are_strings = are_strings
        self.index = index
        self.has_symbols = has_symbols
        self.is_categorical = all(kind == CATEGORY for kind in kinds)
        self.needs_all_keys = needs_all_keys
        self.tests = tests
        self.weights = weights
        self.evaluator = evaluator
        self.transitions = transitions
        self.read_frame = read_frame

    def scores(self, X):
        """Score a list of short sequences.

        Return the scores, (n_labels, n_positions, n_contexts), and the offsets of the sequences;
        None if some sequence is not short, or not as plain as most are.
        """
        return self._scored(X, (self.n_labels, -1, self.n_contexts))

    def rows(self, X):
        """Return the scores of a linear model without its transitions, (n_positions, n_labels).

        As `scores` otherwise.
        """
        return self._scored(X, (-1, self.n_labels))

    def scores_at(self, item, Py_ssize_t first, Py_ssize_t last):
        """Score some positions of a sequence; as `scores`, but without offsets."""
        cdef Py_ssize_t length = length_of(item)
        if length <= 0 or length > BLOCK:
            return None
        table = np.zeros((self.n_labels, last - first, self.n_contexts))
        return table if self._score(item, length, first, last, table, None) else None

    cdef object _scored(self, X, tuple shape):
        """Return a table of this shape, where -1 stands for all positions, and the offsets."""
        cdef tuple items = tuple(X)   # frames have code of their own, which could change X
        cdef Py_ssize_t i, start, stop, length, n = 0, n_items = len(items)
        cdef int64_t[::1] ends
        cdef bint is_plain
        offsets = np.zeros(n_items + 1, dtype=np.int64)
        ends = offsets
        for i in range(n_items):
            length = length_of(items[i])
            if length <= 0 or n + length > BLOCK or type(items[i]) is not type(items[0]):
                return None
            n += length
            ends[i + 1] = n
        if n == 0:
            return None
        table = np.zeros([n if size < 0 else size for size in shape])
        for i in range(n_items):
            start = ends[i]
            stop = ends[i + 1]
            length = stop - start
            if table.ndim == 2:
                is_plain = self._score(items[i], length, 0, length, None, table[start:stop])
            else:
                is_plain = self._score(items[i], length, 0, length, table[:, start:stop], None)
            if not is_plain:
                return None
        return table, offsets

    cdef bint _score(self, item, Py_ssize_t length, Py_ssize_t first, Py_ssize_t last,
                     double[:, :, :] scores, double[:, ::1] rows) except -1:
        """Write the scores, or the rows, of positions; returns whether the sequence is plain."""
        cdef Block block
        cdef bint is_plain
        memset(&block, 0, sizeof(Block))
        block.length = length
        block.first = first
        block.last = last
        block.tests = <uint64_t *> take_zeros(&block.memory,
                                              self.tests.n_tests * sizeof(uint64_t))
        block.cuts = <uint64_t *> take(&block.memory,
                                       self.tests.cuts.shape[0] * sizeof(uint64_t))
        block.state = <double *> take_zeros(&block.memory,
                                            length * self.n_labels * sizeof(double))
        try:
            is_plain = not block.memory.failed and self._read(item, &block)
            if is_plain and rows is not None:
                self.weights.finish(&block)
                memcpy(&rows[0, 0], block.state, length * self.n_labels * sizeof(double))
            elif is_plain:
                with nogil:
                    self._add_scores(&block, scores)
            if block.memory.failed:
                raise MemoryError("no memory to score a sequence")
        finally:
            release(&block.memory)
        return is_plain

    # Reading

    cdef bint _read(self, item, Block *block) except -1:
        """Read a sequence; returns whether it is plain."""
        if self.has_symbols:
            return self._read_symbols(item, block)
        if type(item) is np.ndarray:
            return self.index is None and self._read_array(item, block)
        if self.index is None:
            return False
        if type(item) is list or type(item) is tuple:
            return self._read_dicts(item, block)
        return self._read_frame(item, block)

    cdef void _start(self, Block *block, bint is_dense) noexcept nogil:
        block.is_dense = is_dense
        self.tests.start(block)
        if self.weights is not None:
            self.weights.start(block)

    cdef bint _read_symbols(self, item, Block *block) except -1:
        cdef Py_ssize_t t
        cdef int code
        self._start(block, True)
        if type(item) is not str and type(item) is not list or len(item) != block.length:
            return False
        for t in range(block.length):
            symbol = item[t]
            code = self._code_of(0, symbol)
            if code < 0 or code == 0 and type(symbol) is str and "\0" in <str> symbol:
                return False
            if code:
                self._add_category(block, t, 0, code)
        return block.n_values > 0

    cdef bint _read_array(self, item, Block *block) except -1:
        cdef Py_ssize_t t, j
        cdef const double[:, :] values
        if item.ndim != 2 or item.shape[1] != self.n_columns or item.dtype.kind not in "fiub":
            return False
        if item.dtype != np.float64:
            if item.dtype.itemsize > sizeof(double):
                return False
            item = item.astype(np.float64)
        self._start(block, True)
        values = item
        if values.shape[0] != block.length or values.shape[1] != self.n_columns:
            return False
        for t in range(block.length):
            for j in range(self.n_columns):
                if not self._add_cell(block, t, j, values[t, j]):
                    return False
        return True

    cdef bint _read_dicts(self, item, Block *block) except -1:
        cdef Py_ssize_t t
        cdef bint is_plain
        self._start(block, self._adds_zeros())
        if len(item) != block.length:
            return False
        for t in range(block.length):
            row = item[t]
            if type(row) is not dict or len(<dict> row) > MAX_KEYS:
                return False
            with cython.critical_section(row):
                is_plain = self._read_row(<dict> row, block, t)
            if not is_plain:
                return False
        # Nothing known is worth a warning.
        return block.n_values > 0

    cdef bint _adds_zeros(self) noexcept nogil:
        """Return whether numbers of 0 add something, so that dicts have a value of each column."""
        return self.weights is not None and not self.weights.has_zeros

    cdef bint _read_row(self, dict row, Block *block, Py_ssize_t t) except -1:
        """Read the dict of a position; returns whether it is plain.

        References to its values are borrowed, so nothing here may run other code: keys and values
        are of plain types, and there are no exceptions.
        """
        cdef Py_ssize_t i, j, n = 0, place = 0, column_after = 0
        cdef bint adds_zeros = self._adds_zeros()
        cdef PyObject *key
        cdef PyObject *value
        cdef PyObject *column
        cdef Entry entries[MAX_KEYS]
        while PyDict_Next(row, &place, &key, &value):
            if type(<object> key) is not str or n == MAX_KEYS:
                return False
            column = PyDict_GetItemWithError(self.index, <object> key)
            if column == NULL:
                if self.needs_all_keys:
                    return False
                continue
            j = PyLong_AsLong(<object> column)
            # Sums of weights depend on the order of the columns.
            i = n
            while i and entries[i - 1].column > j:
                entries[i] = entries[i - 1]
                i -= 1
            entries[i].column = j
            entries[i].value = value
            n += 1
        if self.needs_all_keys and n < self.n_columns:
            return False
        for i in range(n):
            j = entries[i].column
            if adds_zeros:
                self._add_zeros(block, t, column_after, j)
            if not self._add(block, t, j, <object> entries[i].value):
                return False
            column_after = j + 1
        if adds_zeros:
            self._add_zeros(block, t, column_after, self.n_columns)
        return True

    cdef bint _read_frame(self, item, Block *block) except -1:
        cdef Py_ssize_t t, j
        cdef list column, columns = self.read_frame(item)
        if columns is None or len(columns) != self.n_columns:
            return False
        self._start(block, True)
        for j in range(self.n_columns):
            if type(columns[j]) is not list or len(<list> columns[j]) != block.length:
                return False
        for t in range(block.length):
            for j in range(self.n_columns):
                column = columns[j]
                if not self._add(block, t, j, column[t]):
                    return False
        return block.n_values > 0 or not self.is_categorical

    cdef bint _add(self, Block *block, Py_ssize_t t, Py_ssize_t j, value) except -1:
        """Add the value of a column; returns whether it is plain."""
        cdef int code, overflow = 0
        cdef long long whole
        if self.kinds[j] == CATEGORY:
            code = self._code_of(j, value)
            if code > 0:
                self._add_category(block, t, j, code)
            return code >= 0
        if type(value) is float or type(value) is NUMPY_DOUBLE:
            return self._add_cell(block, t, j, PyFloat_AsDouble(value))
        if type(value) is int or type(value) is bool:
            whole = PyLong_AsLongLongAndOverflow(value, &overflow)
            return overflow == 0 and self._add_cell(block, t, j, <double> whole)
        return False

    cdef int _code_of(self, Py_ssize_t j, value) except -2:
        """Return the code of a category, 0 if it is unseen, and -1 if it is not plain."""
        cdef PyObject *code
        cdef int overflow = 0
        if self.are_strings[j]:
            if type(value) is not str and type(value) is not NUMPY_STRING:
                return -1
        elif type(value) is not int:
            return -1
        code = PyDict_GetItemWithError(self.codes[j], value)
        if code != NULL:
            return <int> PyLong_AsLong(<object> code)
        if not self.are_strings[j]:
            PyLong_AsLongLongAndOverflow(value, &overflow)
        return 0 if overflow == 0 else -1

    cdef inline bint _add_cell(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                               double value) noexcept nogil:
        """Add the number of a column; returns whether the column may hold it."""
        if self.kinds[j] == CATEGORY:
            return False
        if self.kinds[j] == BOOLEAN and value != 0 and value != 1:
            return False
        return self._add_number(block, t, j, value)

    cdef inline bint _add_number(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                                 double value) noexcept nogil:
        """Add a number; returns whether it is finite, and small enough for a linear model."""
        if not isfinite(value):
            return False
        if value != 0:
            block.n_values += 1
        elif not block.is_dense:
            return True
        self.tests.add_number(block, t, j, value)
        return self.weights is None or self.weights.add_number(block, t, j, value)

    cdef void _add_zeros(self, Block *block, Py_ssize_t t, Py_ssize_t first,
                         Py_ssize_t last) noexcept nogil:
        """Add the numbers of columns that a position lacks."""
        cdef Py_ssize_t j
        for j in range(first, last):
            if self.kinds[j] != CATEGORY:
                self._add_number(block, t, j, 0.0)

    cdef inline void _add_category(self, Block *block, Py_ssize_t t, Py_ssize_t j,
                                   Py_ssize_t code) noexcept nogil:
        block.n_values += 1
        self.tests.add_category(block, t, j, code)
        if self.weights is not None:
            self.weights.add_category(block, t, j, code)

    # Scores

    cdef void _add_scores(self, Block *block, double[:, :, :] scores) noexcept nogil:
        """Write the scores of a sequence that has been read."""
        cdef uint8_t depth[BLOCK]
        cdef double *rows[BLOCK]
        cdef double *state
        cdef Bits bits
        cdef Py_ssize_t i, k
        if self.weights is not None:
            self.weights.finish(block)
            self._add_weights(block, scores)
        if self.evaluator is None or block.first == block.last:
            return
        self.tests.finish(block)
        if block.first or block.last < block.length:
            for k in range(self.tests.n_tests):
                block.tests[k] = (block.tests[k] >> block.first
                                  & ~<uint64_t> 0 >> (BLOCK - block.last + block.first))
        memset(&bits, 0, sizeof(Bits))
        bits.size = block.last - block.first
        bits.n_words = 1
        bits.stride = 1
        bits.columns = block.tests
        if self.transitions is None:
            for i in range(bits.size):
                depth[i] = <uint8_t> min(block.first + i, self.order)
                rows[i] = &scores[0, i, 0]
            self.evaluator.add_block(&bits, depth, &block.memory, rows,
                                     scores.strides[0] // sizeof(double))
            return
        state = <double *> take_zeros(&block.memory, bits.size * self.n_labels * sizeof(double))
        if state == NULL:
            return
        for i in range(bits.size):
            depth[i] = 0
            rows[i] = state + i
        self.evaluator.add_block(&bits, depth, &block.memory, rows, bits.size)
        self._add_constant(block, state, scores)

    cdef void _add_constant(self, const Block *block, const double *state,
                            double[:, :, :] scores) noexcept nogil:
        """Add constant transitions, and the values of trees, (n_labels, n_positions)."""
        cdef Py_ssize_t v, i, c, depth, n_contexts, size = block.last - block.first
        for i in range(size):
            depth = min(block.first + i, self.order)
            n_contexts = self.n_labels ** depth
            for v in range(self.n_labels):
                for c in range(n_contexts):
                    scores[v, i, c] += self.transitions[depth, v, c] + state[v * size + i]

    cdef void _add_weights(self, const Block *block, double[:, :, :] scores) noexcept nogil:
        """Write the scores of the linear model; only the nearest previous label matters."""
        cdef const double[:, ::1] transitions = self.weights.transitions
        cdef Py_ssize_t t, v, c
        cdef double state
        for v in range(self.n_labels):
            for t in range(block.first, block.last):
                state = block.state[t * self.n_labels + v]
                if t == 0:
                    scores[v, 0, 0] = state + transitions[self.n_labels, v]
                    continue
                for c in range(self.n_contexts):
                    scores[v, t - block.first, c] = transitions[c % self.n_labels, v] + state


cdef Py_ssize_t length_of(item) except -2:
    """Return the number of positions of a sequence; -1 if it has to be read like long ones."""
    if type(item) is str or type(item) is list or type(item) is tuple:
        return len(item)
    try:
        shape = item.shape
    except Exception:  # of an object without a shape, or a class with a faulty one
        return -1
    if type(shape) is not tuple or len(<tuple> shape) != 2 or type(shape[0]) is not int:
        return -1
    return shape[0]
