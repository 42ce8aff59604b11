"""Scores of sequences, straight from the values of the user.

Elsewhere, values become checked sequences, encoded rows and attributes. Unless there are many
values, most of the time passes in making these arrays. Here, each value sets the bits of the tests
that it passes and adds its weights of the linear model as soon as it is read. Positions are scored
in blocks of 64, so that a test is one word of bits.

A sequence is "plain" if it needs no error and no warning but one, and all of its objects are of
built-in types or of NumPy's: methods of other classes could change a list or a dict while it is
read. All other sequences are left to the code for large batches.
"""

import cython
import numpy as np

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_AsLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport isfinite, isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from treecrf.chains._memory cimport Memory, release, take, take_zeros
from treecrf.learners.short._column_weights cimport ColumnWeights
from treecrf.learners.short._sequence cimport BLOCK, Sequence
from treecrf.learners.short._value_tests cimport ValueTests
from treecrf.trees.scoring._answers cimport Bits
from treecrf.trees.scoring._block_evaluator cimport BlockEvaluator, ColumnsEvaluator
from treecrf.trees.scoring._context_walker cimport ContextWalker

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

# The types of NumPy whose values are read like those of the built-in types that they inherit from.
cdef object NUMPY_STRING = np.str_
cdef object NUMPY_DOUBLE = np.float64
cdef object NUMPY_BOOLEAN = np.bool_
# The types of NumPy's other numbers.
cdef tuple NUMPY_NUMBERS = tuple(np.dtype(code).type for code in "bBhHiIlLqQef")
# The types of the attributes of a position, if they have no values.
cdef tuple ATTRIBUTE_LISTS = (list, tuple, set, frozenset)

cdef enum:
    # Number of dicts within each other up to which they are read here.
    MAX_DEPTH = 4

    # Kinds of columns, as in `treecrf.inputs.sequences`.
    BOOLEAN = 0
    CATEGORY = 1

    # Number of positions from which another evaluator of trees may take less time.
    MANY_POSITIONS = 16
    # Arrays of more positions are read faster all at once.
    MAX_ARRAY = 1024

    # What a value is if it is not the code of a category, and a key if it has no column.
    NOT_PLAIN = -1
    IS_MISSING = -2
    IS_UNKNOWN = -3
    IS_DIVIDED = -4


cdef struct Entry:
    # An item of a dict, or an attribute without a value (NULL). The references are owned.
    PyObject *key
    PyObject *value
    Py_ssize_t column
    # Number of dicts around it.
    int depth


cdef struct Row:
    # The entries of a position.
    Entry *entries
    Py_ssize_t n
    Py_ssize_t room


cdef class ShortModel:
    """A fitted model in a form that scores sequences in little time; it never changes."""

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
    # Keys whose strings are columns of their own.
    cdef frozenset prefixes
    # Of each column: whether its name is one of these keys; None if none is.
    cdef bytearray is_prefix
    # Whether sequences consist of symbols.
    cdef bint has_symbols
    # Whether a key that a dict lacks is a missing value.
    cdef bint needs_all_keys
    # The tests of the trees; none without trees.
    cdef ValueTests tests
    # The weights of the linear model; None without one.
    cdef ColumnWeights weights
    # The evaluators of the trees, the second for positions without some values; None without trees.
    cdef BlockEvaluator evaluator
    cdef ContextWalker walker
    # A function of the numbers of positions and of nodes whose tests hold; it returns the evaluator
    # of a long sequence, or None if it takes less time block by block.
    cdef object columns_evaluator
    # Constant scores of labels in contexts, for each number of labels before; None without any.
    # With them, the trees are evaluated in one context.
    cdef const double[:, :, ::1] transitions
    # A function that returns the lists of a data frame's values; None if it cannot.
    cdef object read_frame
    # A function that warns of a sequence in which nothing is known.
    cdef object warn_of_unknown

    def __init__(self, n_labels, order, kinds, codes, are_strings, index, prefixes, has_symbols,
                 needs_all_keys, tests, weights, evaluator, walker, columns_evaluator, transitions,
                 read_frame, warn_of_unknown):
        self.n_columns = len(kinds)
        self.n_labels = n_labels
        self.order = order
        self.n_contexts = n_labels**order
        self.kinds = kinds
        self.codes = codes
        self.are_strings = are_strings
        self.index = index
        self.prefixes = prefixes
        self.is_prefix = None
        if prefixes:
            self.is_prefix = bytearray(name in prefixes for name in index)
        self.has_symbols = has_symbols
        self.needs_all_keys = needs_all_keys
        self.tests = tests
        self.weights = weights
        self.evaluator = evaluator
        self.walker = walker
        self.columns_evaluator = columns_evaluator
        self.transitions = transitions
        self.read_frame = read_frame
        self.warn_of_unknown = warn_of_unknown

    def scores(self, X, Py_ssize_t max_positions):
        """Score sequences, of at most this number of positions altogether.

        Return the scores, (n_labels, n_positions, n_contexts), and the offsets of the sequences;
        None if there are more positions, or some sequence is not plain.
        """
        return self._scored(X, (self.n_labels, -1, self.n_contexts), max_positions)

    def rows(self, X, Py_ssize_t max_positions):
        """Return the scores of a linear model without its transitions, (n_positions, n_labels).

        As `scores` otherwise.
        """
        return self._scored(X, (-1, self.n_labels), max_positions)

    def scores_at(self, item, Py_ssize_t first, Py_ssize_t last):
        """Score some positions of a sequence; as `scores`, but without offsets and warnings."""
        cdef Py_ssize_t length = length_of(item)
        cdef bint is_unknown = False
        if length <= 0:
            return None
        table = np.zeros((self.n_labels, last - first, self.n_contexts))
        if not self._score(item, length, first, last, table, None, &is_unknown):
            return None
        return table

    cdef object _scored(self, X, tuple shape, Py_ssize_t max_positions):
        """Return a table of this shape, where -1 stands for all positions, and the offsets."""
        cdef tuple items = tuple(X)   # frames have code of their own, which could change X
        cdef Py_ssize_t i, start, stop, length, n = 0, n_items = len(items)
        cdef int64_t[::1] ends
        cdef bint is_plain, is_unknown = False
        offsets = np.zeros(n_items + 1, dtype=np.int64)
        ends = offsets
        for i in range(n_items):
            length = length_of(items[i])
            if length <= 0 or n + length > max_positions:
                return None
            n += length
            ends[i + 1] = n
        if n == 0 or not self._have_one_form(items):
            return None
        table = np.zeros([n if size < 0 else size for size in shape])
        for i in range(n_items):
            start = ends[i]
            stop = ends[i + 1]
            length = stop - start
            if table.ndim == 2:
                is_plain = self._score(items[i], length, 0, length, None, table[start:stop],
                                       &is_unknown)
            else:
                is_plain = self._score(items[i], length, 0, length, table[:, start:stop], None,
                                       &is_unknown)
            if not is_plain:
                return None
        if is_unknown:
            self.warn_of_unknown()
        return table, offsets

    cdef bint _have_one_form(self, tuple items) except -1:
        """Return whether the items are of one type, and those of lists, too."""
        cdef object item, kind = type(items[0])
        cdef bint is_list = kind is list or kind is tuple
        cdef bint has_dicts = is_list and type(items[0][0]) is dict
        for item in items:
            if type(item) is not kind or is_list and (type(item[0]) is dict) != has_dicts:
                return False
        return True

    cdef bint _score(self, item, Py_ssize_t length, Py_ssize_t first, Py_ssize_t last,
                     double[:, :, :] scores, double[:, ::1] rows, bint *is_unknown) except -1:
        """Write the scores, or the rows, of positions; returns whether the sequence is plain.

        Sets ``is_unknown`` if the sequence has unknown keys or categories, and nothing else.
        """
        cdef Sequence sequence
        cdef ColumnsEvaluator columns = None
        cdef bint is_plain
        memset(&sequence, 0, sizeof(Sequence))
        sequence.length = length
        sequence.n_blocks = (length + BLOCK - 1) // BLOCK
        try:
            is_plain = self._read(item, &sequence)
            if sequence.memory.failed:
                raise MemoryError("no memory to score a sequence")
            if is_plain and rows is not None:
                self.weights.finish(&sequence)
                memcpy(&rows[0, 0], sequence.state, length * self.n_labels * sizeof(double))
            elif is_plain:
                if self.evaluator is not None:
                    with nogil:
                        self.tests.finish(&sequence)
                    if length >= MANY_POSITIONS and first == 0 and last == length:
                        columns = self._columns_evaluator(&sequence)
                with nogil:
                    self._write_scores(&sequence, first, last, scores, columns)
            if sequence.memory.failed:
                raise MemoryError("no memory to score a sequence")
        finally:
            release(&sequence.memory)
        if sequence.n_known == 0 and sequence.n_unknown > 0:
            is_unknown[0] = True
        return is_plain

    # Reading

    cdef bint _read(self, item, Sequence *sequence) except -1:
        """Read a sequence; returns whether it is plain."""
        if self.has_symbols:
            return self._read_symbols(item, sequence)
        if type(item) is np.ndarray:
            return self.index is None and self._read_array(item, sequence)
        if self.index is None:
            return False
        if type(item) is list or type(item) is tuple:
            return self._read_rows(item, sequence)
        return self._read_frame(item, sequence)

    cdef bint _open(self, Sequence *sequence, bint is_dense) noexcept nogil:
        """Take the memory that values are added to; returns whether there is enough."""
        sequence.is_dense = is_dense
        self.tests.open(sequence)
        if self.weights is not None:
            self.weights.open(sequence)
        return not sequence.memory.failed

    cdef bint _read_symbols(self, item, Sequence *sequence) except -1:
        cdef Py_ssize_t t
        cdef int code
        if type(item) is not str and type(item) is not list or len(item) != sequence.length:
            return False
        if not self._open(sequence, True):
            return False
        for t in range(sequence.length):
            symbol = item[t]
            code = self._code_of(0, symbol)
            if code < 0 or code == 0 and type(symbol) is str and "\0" in <str> symbol:
                return False
            self._add_category(sequence, t, 0, code)
        return True

    cdef bint _read_array(self, item, Sequence *sequence) except -1:
        cdef Py_ssize_t t, j
        cdef const double[:, :] values
        if item.ndim != 2 or item.shape[1] != self.n_columns or item.dtype.kind not in "fiub":
            return False
        if sequence.length > MAX_ARRAY:
            return False
        if item.dtype != np.float64:
            if item.dtype.itemsize > sizeof(double):
                return False
            item = item.astype(np.float64)
        values = item
        if values.shape[0] != sequence.length or values.shape[1] != self.n_columns:
            return False
        if not self._open(sequence, True):
            return False
        for t in range(sequence.length):
            for j in range(self.n_columns):
                if not self._add_cell(sequence, t, j, values[t, j]):
                    return False
            self._end_position(sequence, t)
        return True

    cdef bint _read_frame(self, item, Sequence *sequence) except -1:
        cdef Py_ssize_t t, j
        cdef list column, columns = self.read_frame(item)
        if columns is None or len(columns) != self.n_columns:
            return False
        for j in range(self.n_columns):
            if type(columns[j]) is not list or len(<list> columns[j]) != sequence.length:
                return False
        if not self._open(sequence, True):
            return False
        for t in range(sequence.length):
            for j in range(self.n_columns):
                column = columns[j]
                if not self._add(sequence, t, j, column[t]):
                    return False
            self._end_position(sequence, t)
        return True

    # Dicts, and lists of attributes

    cdef bint _read_rows(self, item, Sequence *sequence) except -1:
        """Read a list of dicts, or one of collections of attributes."""
        cdef Py_ssize_t t
        cdef bint is_plain, has_dicts
        cdef Row row
        if len(item) != sequence.length or not self._open(sequence, self._adds_zeros()):
            return False
        has_dicts = type(item[0]) is dict
        memset(&row, 0, sizeof(Row))
        try:
            for t in range(sequence.length):
                position = item[t]
                is_plain = (type(position) is dict) == has_dicts
                if is_plain and has_dicts:
                    self._list_items(position, &row, 1)
                elif is_plain:
                    is_plain = self._list_attributes(position, &row)
                is_plain = is_plain and self._add_row(sequence, t, &row)
                clear_row(&row)
                if not is_plain:
                    return False
        finally:
            clear_row(&row)
            free(row.entries)
        return True

    cdef bint _adds_zeros(self) noexcept nogil:
        """Return whether numbers of 0 add something, so that dicts have a value of each column."""
        return self.weights is not None and not self.weights.has_zeros

    cdef int _list_items(self, dict items, Row *row, int depth) except -1:
        """List the items of a dict.

        All at once, because whatever reads their values could run other code.
        """
        cdef Py_ssize_t place = 0
        cdef PyObject *key
        cdef PyObject *value
        make_room(row, row.n + len(items))
        with cython.critical_section(items):
            while row.n < row.room and PyDict_Next(items, &place, &key, &value):
                Py_INCREF(<object> key)
                Py_INCREF(<object> value)
                row.entries[row.n] = Entry(key, value, -1, depth)
                row.n += 1
        return 0

    cdef bint _list_attributes(self, position, Row *row) except -1:
        """List the attributes of a position; returns whether they are plain."""
        if type(position) not in ATTRIBUTE_LISTS or self.needs_all_keys:
            return False
        make_room(row, len(position))
        for name in position:
            add_attribute(row, name, 0)
        return True

    cdef bint _add_row(self, Sequence *sequence, Py_ssize_t t, Row *row) except -1:
        """Add the entries of a position in the order of their columns, which sums depend on.

        Returns whether all are plain.
        """
        cdef Py_ssize_t i, column, column_after = 0
        cdef bint is_plain, adds_zeros = self._adds_zeros()
        if not self._find_columns(sequence, row):
            return False
        sort_entries(row.entries, row.n)
        for i in range(row.n):
            column = row.entries[i].column
            if column < column_after:  # an attribute that is listed twice, and counts twice
                return False
            if adds_zeros:
                self._add_zeros(sequence, t, column_after, column)
            if row.entries[i].value == NULL:
                is_plain = self._add(sequence, t, column, True)
            else:
                is_plain = self._add(sequence, t, column, <object> row.entries[i].value)
            if not is_plain:
                return False
            column_after = column + 1
        if adds_zeros:
            self._add_zeros(sequence, t, column_after, self.n_columns)
        self._end_position(sequence, t)
        return True

    cdef bint _find_columns(self, Sequence *sequence, Row *row) except -1:
        """Find the columns of the entries, and drop others; returns whether all are plain.

        The attributes that a dict or a collection of strings stands for are added at the end.
        """
        cdef Py_ssize_t i = 0, n = 0
        cdef Entry entry
        while i < row.n:
            row.entries[i].column = self._column_of(row, i)
            entry = row.entries[i]
            if entry.column == NOT_PLAIN or entry.column < 0 and self.needs_all_keys:
                return False
            if entry.column >= 0:
                # The first entries are those with a column.
                row.entries[i] = row.entries[n]
                row.entries[n] = entry
                n += 1
            sequence.n_unknown += entry.column == IS_UNKNOWN
            i += 1
        if self.needs_all_keys and n < self.n_columns:
            return False
        drop_entries(row, n)
        return True

    cdef Py_ssize_t _column_of(self, Row *row, Py_ssize_t i) except -9:
        """Return the column of an entry, `IS_UNKNOWN`, `IS_DIVIDED` into others, or `NOT_PLAIN`."""
        cdef Entry entry = row.entries[i]
        cdef object value, name = <object> entry.key
        cdef PyObject *found
        cdef Py_ssize_t column = IS_UNKNOWN
        if type(name) is not str:
            return NOT_PLAIN
        found = PyDict_GetItemWithError(self.index, name)
        if found != NULL:
            column = PyLong_AsLong(<object> found)
        if entry.value == NULL:
            return column
        value = <object> entry.value
        kind = type(value)
        if kind is float or kind is int or kind is bool or value is None:
            return column
        if kind is str:
            if column >= 0 and self.kinds[column] == CATEGORY:
                return column
            return self._divide_string(row, name, value, entry.depth, column)
        if kind is dict:
            return self._divide_dict(row, name, value, entry.depth)
        if kind in ATTRIBUTE_LISTS:
            return self._divide_collection(row, name, value, entry.depth)
        if column >= 0 or kind is NUMPY_DOUBLE or kind is NUMPY_BOOLEAN or kind in NUMPY_NUMBERS:
            return column
        return NOT_PLAIN

    cdef Py_ssize_t _divide_string(self, Row *row, str name, str value, int depth,
                                   Py_ssize_t column) except -9:
        """Make a string an attribute of its own, if those of its key were so in training."""
        if name in self.prefixes:
            add_attribute(row, name + ":" + value, depth)
            return IS_DIVIDED
        # Where training data had numbers, there is a warning.
        return IS_UNKNOWN if column == IS_UNKNOWN else NOT_PLAIN

    cdef Py_ssize_t _divide_dict(self, Row *row, str name, dict value, int depth) except -9:
        """Add the items of a nested dict, with the name before theirs."""
        cdef Py_ssize_t i, first = row.n
        if depth == MAX_DEPTH or self.needs_all_keys:
            return NOT_PLAIN
        self._list_items(value, row, depth + 1)
        for i in range(first, row.n):
            key = <object> row.entries[i].key
            if type(key) is not str:
                return NOT_PLAIN
            rename(row, i, name + ":" + <str> key)
        return IS_DIVIDED

    cdef Py_ssize_t _divide_collection(self, Row *row, str name, value, int depth) except -9:
        """Add an attribute for each string of a collection."""
        cdef bint has_column = name in self.index
        cdef str attribute
        for item in value:
            if type(item) is not str:
                return NOT_PLAIN
            attribute = name + ":" + <str> item
            if has_column and attribute not in self.index:
                return NOT_PLAIN  # it may be the value of a category
            add_attribute(row, attribute, depth)
        return IS_DIVIDED

    # Values

    cdef bint _add(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j, value) except -1:
        """Add the value of a column; returns whether it is plain."""
        cdef int code, overflow = 0
        cdef long long whole
        kind = type(value)
        if value is None:
            return self._add_missing(sequence, t, j)
        if self.kinds[j] == CATEGORY:
            code = self._code_of(j, value)
            if code == IS_MISSING:
                return self._add_missing(sequence, t, j)
            if code == NOT_PLAIN or (code == 0 and self.is_prefix is not None
                                     and self.is_prefix[j]):
                return False
            self._add_category(sequence, t, j, code)
            return True
        if kind is float or kind is NUMPY_DOUBLE:
            return self._add_cell(sequence, t, j, PyFloat_AsDouble(value))
        if kind is bool or kind is NUMPY_BOOLEAN:
            return self._add_cell(sequence, t, j, 1.0 if value else 0.0)
        if kind is int:
            whole = PyLong_AsLongLongAndOverflow(value, &overflow)
            return overflow == 0 and self._add_cell(sequence, t, j, <double> whole)
        if kind in NUMPY_NUMBERS:
            return self._add_cell(sequence, t, j, PyFloat_AsDouble(value))
        return False

    cdef int _code_of(self, Py_ssize_t j, value) except -3:
        """Return the code of a category, 0 if it is unseen, `IS_MISSING`, or `NOT_PLAIN`."""
        cdef PyObject *code
        cdef int overflow = 0
        if type(value) is float:
            return IS_MISSING if isnan(PyFloat_AsDouble(value)) else NOT_PLAIN
        if self.are_strings[j]:
            if type(value) is not str and type(value) is not NUMPY_STRING:
                return NOT_PLAIN
        elif type(value) is not int:
            return NOT_PLAIN
        code = PyDict_GetItemWithError(self.codes[j], value)
        if code != NULL:
            return <int> PyLong_AsLong(<object> code)
        if not self.are_strings[j]:
            PyLong_AsLongLongAndOverflow(value, &overflow)
        return 0 if overflow == 0 else NOT_PLAIN

    cdef bint _add_cell(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                        double value) noexcept nogil:
        """Add the number of a column; returns whether the column may hold it."""
        if isnan(value):
            return self._add_missing(sequence, t, j)
        if self.kinds[j] == CATEGORY:
            return False
        if self.kinds[j] == BOOLEAN and value != 0 and value != 1:
            return False
        sequence.n_known += 1
        return self._add_number(sequence, t, j, value)

    cdef bint _add_number(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                          double value) noexcept nogil:
        """Add a number; returns whether it is finite, and small enough for a linear model."""
        if not isfinite(value):
            return False
        if value == 0 and not sequence.is_dense:
            return True
        if self.kinds[j] != BOOLEAN:
            self.tests.add_number(sequence, t, j, value)
        elif value != 0:
            # All thresholds of a column of booleans lie between 0 and 1.
            self.tests.add_category(sequence, t, j, 0)
        return self.weights is None or self.weights.add_number(sequence, t, j, value)

    cdef void _add_zeros(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t first,
                         Py_ssize_t last) noexcept nogil:
        """Add the numbers of columns that a position lacks."""
        cdef Py_ssize_t j
        for j in range(first, last):
            if self.kinds[j] != CATEGORY:
                self._add_number(sequence, t, j, 0.0)

    cdef void _add_category(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j,
                            Py_ssize_t code) noexcept nogil:
        """Add the code of a category, or 0 for one that is unseen."""
        if code == 0:
            sequence.n_unknown += 1
            return
        sequence.n_known += 1
        self.tests.add_category(sequence, t, j, code)
        if self.weights is not None:
            self.weights.add_category(sequence, t, j, code)

    cdef bint _add_missing(self, Sequence *sequence, Py_ssize_t t, Py_ssize_t j) noexcept nogil:
        """Add a missing value; returns whether the trees take some."""
        if self.walker is not None and not self.walker.takes_missing:
            return False
        sequence.n_known += 1
        self.tests.add_missing(sequence, t, j)
        if self.weights is None:
            return True
        if sequence.lacking == NULL:
            sequence.lacking = <int32_t *> take(&sequence.memory,
                                                self.n_columns * sizeof(int32_t))
            if sequence.lacking == NULL:
                return False
        sequence.lacking[sequence.n_lacking] = <int32_t> j
        sequence.n_lacking += 1
        self.weights.add_missing(sequence, t, j, self.kinds[j] == CATEGORY)
        return True

    cdef void _end_position(self, Sequence *sequence, Py_ssize_t t) noexcept nogil:
        """Mark the values that a position lacks, after all of them have been added."""
        if sequence.n_lacking:
            self.weights.mark_missing(sequence, t)
            sequence.n_lacking = 0

    # Scores

    cdef ColumnsEvaluator _columns_evaluator(self, Sequence *sequence):
        """Return the evaluator of a long sequence; None to score it block by block."""
        cdef Py_ssize_t b, n_steps = 0
        cdef Bits bits
        if sequence.missing != NULL:
            return None
        memset(&bits, 0, sizeof(Bits))
        bits.n_words = 1
        bits.stride = 1
        for b in range(sequence.n_blocks):
            bits.size = min(sequence.length - BLOCK * b, BLOCK)
            bits.columns = sequence.tests + b * self.tests.n_tests
            n_steps += self.evaluator.n_steps(&bits)
        return self.columns_evaluator(sequence.length, -1 if n_steps < 0 else n_steps)

    cdef void _write_scores(self, Sequence *sequence, Py_ssize_t first, Py_ssize_t last,
                            double[:, :, :] scores, ColumnsEvaluator columns) noexcept nogil:
        """Write the scores of some positions of a sequence that has been read."""
        cdef Py_ssize_t n_skipped, start = first
        if self.weights is not None:
            self.weights.finish(sequence)
            self._write_weights(sequence, first, last, scores)
        if self.evaluator is None:
            return
        if columns is not None:
            n_skipped = min(self.order if self.transitions is None else 0, sequence.length)
            self._add_columns(sequence, columns, n_skipped, scores)
            last = n_skipped
        while start < last and not sequence.memory.failed:
            self._add_block(sequence, start, min(last - start, BLOCK), start - first, scores)
            start += BLOCK

    cdef void _add_columns(self, Sequence *sequence, ColumnsEvaluator columns,
                           Py_ssize_t n_skipped, double[:, :, :] scores) noexcept nogil:
        """Add the trees' values to the scores of all but the first positions of a sequence."""
        cdef Py_ssize_t n = sequence.length, n_tests = self.tests.n_tests
        cdef Py_ssize_t class_size = scores.strides[0] // <Py_ssize_t> sizeof(double)
        cdef double *state
        cdef bint is_done
        if self.transitions is None:
            is_done = columns.add_columns(sequence.tests, n_tests, n_skipped, n, &scores[0, 0, 0],
                                          class_size)
            sequence.memory.failed |= not is_done
            return
        state = <double *> take_zeros(&sequence.memory, n * self.n_labels * sizeof(double))
        if state == NULL:
            return
        if not columns.add_columns(sequence.tests, n_tests, n_skipped, n, state, n):
            sequence.memory.failed = True
            return
        self._add_with_transitions(state, 0, n, 0, scores)

    cdef void _add_block(self, Sequence *sequence, Py_ssize_t start, Py_ssize_t size,
                         Py_ssize_t row, double[:, :, :] scores) noexcept nogil:
        """Add the trees' values to the scores of a block, from ``row`` on in the table."""
        cdef Memory memory
        cdef const uint64_t *missing = NULL
        cdef Bits bits
        memset(&memory, 0, sizeof(Memory))
        memset(&bits, 0, sizeof(Bits))
        bits.size = size
        bits.n_words = 1
        bits.stride = 1
        bits.columns = self._block_of(sequence, sequence.tests, start, size, &memory)
        if sequence.missing != NULL:
            missing = self._block_of(sequence, sequence.missing, start, size, &memory)
        if not memory.failed:
            if self.transitions is None:
                self._add_trees(&bits, missing, start, self.order, row, scores, &memory)
            else:
                self._add_constant(&bits, missing, start, row, scores, &memory)
        sequence.memory.failed |= memory.failed
        release(&memory)

    cdef uint64_t *_block_of(self, const Sequence *sequence, uint64_t *words, Py_ssize_t start,
                             Py_ssize_t size, Memory *memory) noexcept nogil:
        """Return the sets of the positions of a block, which need not start a word."""
        cdef Py_ssize_t k, n = self.tests.n_tests, b = start // BLOCK, shift = start % BLOCK
        cdef uint64_t inside = ~<uint64_t> 0 >> (BLOCK - size)
        cdef uint64_t *moved
        if shift == 0 and start + size == min(start + BLOCK, sequence.length):
            return words + b * n
        moved = <uint64_t *> take(memory, n * sizeof(uint64_t))
        if moved == NULL:
            return NULL
        for k in range(n):
            moved[k] = words[b * n + k] >> shift
            if shift and b + 1 < sequence.n_blocks:
                moved[k] |= words[(b + 1) * n + k] << (BLOCK - shift)
            moved[k] &= inside
        return moved

    cdef void _add_trees(self, const Bits *bits, const uint64_t *missing, Py_ssize_t start,
                         Py_ssize_t order, Py_ssize_t row, double[:, :, :] scores,
                         Memory *memory) noexcept nogil:
        """Add the trees' values to the scores of a block, in the contexts of an order."""
        cdef uint8_t depth[BLOCK]
        cdef double *rows[BLOCK]
        cdef Py_ssize_t i
        cdef Py_ssize_t class_size = scores.strides[0] // <Py_ssize_t> sizeof(double)
        for i in range(bits.size):
            depth[i] = <uint8_t> min(start + i, order)
            rows[i] = &scores[0, row + i, 0]
        if missing != NULL and self._has_missing(missing):
            self.walker.add_incomplete(bits, missing, depth, memory, rows, class_size)
        else:
            self.evaluator.add_block(bits, depth, memory, rows, class_size)

    cdef bint _has_missing(self, const uint64_t *missing) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(self.tests.n_tests):
            if missing[k]:
                return True
        return False

    cdef void _add_constant(self, const Bits *bits, const uint64_t *missing, Py_ssize_t start,
                            Py_ssize_t row, double[:, :, :] scores, Memory *memory) noexcept nogil:
        """Add constant transitions, and the trees' values, which are the same in all contexts."""
        cdef double *state = <double *> take_zeros(memory,
                                                   bits.size * self.n_labels * sizeof(double))
        if state == NULL:
            return
        self._add_states(bits, missing, state, memory)
        self._add_with_transitions(state, start, bits.size, row, scores)

    cdef void _add_with_transitions(self, const double *state, Py_ssize_t start, Py_ssize_t n,
                                    Py_ssize_t row, double[:, :, :] scores) noexcept nogil:
        """Add the values of n positions, (n_labels, n), and the constant transitions."""
        cdef Py_ssize_t v, i, c, depth, n_contexts
        for i in range(n):
            depth = min(start + i, self.order)
            n_contexts = self.n_labels ** depth
            for v in range(self.n_labels):
                for c in range(n_contexts):
                    scores[v, row + i, c] += self.transitions[depth, v, c] + state[v * n + i]

    cdef void _add_states(self, const Bits *bits, const uint64_t *missing, double *state,
                          Memory *memory) noexcept nogil:
        """Write the trees' values of a block without contexts, (n_labels, n_positions)."""
        cdef uint8_t depth[BLOCK]
        cdef double *rows[BLOCK]
        cdef Py_ssize_t i
        for i in range(bits.size):
            depth[i] = 0
            rows[i] = state + i
        if missing != NULL and self._has_missing(missing):
            self.walker.add_incomplete(bits, missing, depth, memory, rows, bits.size)
        else:
            self.evaluator.add_block(bits, depth, memory, rows, bits.size)

    cdef void _write_weights(self, const Sequence *sequence, Py_ssize_t first, Py_ssize_t last,
                             double[:, :, :] scores) noexcept nogil:
        """Write the scores of the linear model; only the nearest previous label matters."""
        cdef const double[:, ::1] transitions = self.weights.transitions
        cdef Py_ssize_t t, v, c
        cdef double state
        for v in range(self.n_labels):
            for t in range(first, last):
                state = sequence.state[t * self.n_labels + v]
                if t == 0:
                    scores[v, 0, 0] = state + transitions[self.n_labels, v]
                    continue
                for c in range(self.n_contexts):
                    scores[v, t - first, c] = transitions[c % self.n_labels, v] + state


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


# Entries


cdef int make_room(Row *row, Py_ssize_t n) except -1:
    """Make room for a number of entries."""
    cdef Entry *entries
    if n <= row.room:
        return 0
    entries = <Entry *> realloc(row.entries, n * sizeof(Entry))
    if entries == NULL:
        raise MemoryError(f"no memory for {n} attributes of a position")
    row.entries = entries
    row.room = n
    return 0


cdef int add_attribute(Row *row, name, int depth) except -1:
    """Add an attribute without a value."""
    if row.n == row.room:
        make_room(row, 2 * row.room + 16)
    Py_INCREF(name)
    row.entries[row.n] = Entry(<PyObject *> name, NULL, -1, depth)
    row.n += 1
    return 0


cdef void rename(Row *row, Py_ssize_t i, str name) noexcept:
    """Replace the key of an entry."""
    cdef PyObject *before = row.entries[i].key
    Py_INCREF(name)
    row.entries[i].key = <PyObject *> name
    Py_DECREF(<object> before)


cdef void clear_row(Row *row) noexcept:
    """Drop all entries."""
    drop_entries(row, 0)


cdef void drop_entries(Row *row, Py_ssize_t first) noexcept:
    """Drop the entries from ``first`` on; objects that nothing else holds may run code."""
    cdef Entry entry
    while row.n > first:
        row.n -= 1
        entry = row.entries[row.n]
        Py_DECREF(<object> entry.key)
        if entry.value != NULL:
            Py_DECREF(<object> entry.value)


cdef void sort_entries(Entry *entries, Py_ssize_t n) noexcept nogil:
    """Sort entries by column: Shell's sort, with the gaps of Knuth."""
    cdef Py_ssize_t gap = 1, i, j
    cdef Entry entry
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            entry = entries[i]
            j = i
            while j >= gap and entries[j - gap].column > entry.column:
                entries[j] = entries[j - gap]
                j -= gap
            entries[j] = entry
        gap //= 3
