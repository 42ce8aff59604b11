"""Reading of dicts: one row for each dict, and one column for each key.

Dicts and their values are separate objects, and most of the time is spent loading them into the
caches. Values are therefore prefetched, and strings of up to 15 Latin-1 characters, which includes
most words, are compared without loading another object.
"""

from collections.abc import Mapping

import cython
import numpy as np

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_AsDouble, PyLong_AsLong
from cpython.object cimport PyObject
from libc.math cimport NAN, isinf, isnan
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from treecrf.inputs._nested import holds_attributes

cdef extern from "Python.h":
    str PyUnicode_FromObject(object text)
    Py_ssize_t find_character "PyUnicode_FindChar"(str text, Py_UCS4 character, Py_ssize_t start,
                                                   Py_ssize_t stop, int direction) except -2

cdef extern from *:
    """
    #define TREECRF_SHORT_BYTES 16

    /* Copy a string into 16 bytes, the last of which is its length; return 0 if it does not fit.
     * Equal strings have equal bytes, and different strings have different bytes. The limited API
     * does not give access to Latin-1 characters, but to UTF-8, which is the same for ASCII. */
    static int treecrf_shorten(PyObject *string, void *bytes)
    {
        Py_ssize_t n;
        const void *characters;
    #ifdef Py_LIMITED_API
        /* Not for long strings: those that are not ASCII keep their UTF-8 in memory. */
        if (PyUnicode_GetLength(string) >= TREECRF_SHORT_BYTES)
            return 0;
        characters = PyUnicode_AsUTF8AndSize(string, &n);
        if (characters == NULL) { /* a lone surrogate */
            PyErr_Clear();
            return 0;
        }
    #else
        if (PyUnicode_KIND(string) != PyUnicode_1BYTE_KIND)
            return 0;
        characters = PyUnicode_DATA(string);
        n = PyUnicode_GET_LENGTH(string);
    #endif
        if (n >= TREECRF_SHORT_BYTES)
            return 0;
        memset(bytes, 0, TREECRF_SHORT_BYTES);
        memcpy(bytes, characters, (size_t)n);
        ((unsigned char *)bytes)[TREECRF_SHORT_BYTES - 1] = (unsigned char)n;
        return 1;
    }
    """
    bint shorten "treecrf_shorten" (str string, void *short)

cdef extern from "utils/compiler.h" nogil:
    void prefetch "TREECRF_PREFETCH" (const void *address)

# What a column holds, as bits of its flags.
cdef enum:
    C_STRINGS = 1
    C_BOOLEANS = 2
    C_NUMBERS = 4
    C_BEYOND = 8      # numbers other than 0 and 1
    C_OTHER = 16      # values that only Python code can judge or explain

STRINGS, BOOLEANS, NUMBERS, BEYOND, OTHER = C_STRINGS, C_BOOLEANS, C_NUMBERS, C_BEYOND, C_OTHER

# The types of NumPy that count as strings, booleans or floats.
cdef dict SCALARS = {np.str_: C_STRINGS, np.bool_: C_BOOLEANS} | {
    np.dtype(code).type: C_NUMBERS for code in "bBhHiIlLqQefd"
}

cdef enum:
    # The first keys of a dict are compared with those of the previous one, which are often the same
    # objects.
    N_SLOTS = 64
    # How many rows before they are read values and dicts are prefetched.
    ROWS_AHEAD = 4
    DICTS_AHEAD = 12

ctypedef struct Short:
    # The characters of a string, and its length in the last byte.
    uint64_t low, high

ctypedef struct Slot:
    # One place in memory for both, because most of the time is spent loading it.
    Short short
    int32_t code    # 0 if free


cdef class StringCodes:
    """The codes of distinct strings, counted from 1."""

    cdef readonly list strings
    cdef dict long_strings
    cdef Slot *slots          # hash table of short strings with linear probing
    cdef Py_ssize_t n_slots   # a power of 2, more than twice the number of strings

    def __cinit__(self):
        self.strings, self.long_strings = [], {}
        self.slots, self.n_slots = NULL, 0

    def __init__(self, strings=()):
        for string in strings:
            self.add(string)

    def __dealloc__(self):
        free(self.slots)

    cdef int32_t find(self, str string) except -1:
        """Return the code of a string; 0 if it has none."""
        cdef Short short
        cdef PyObject *found
        if shorten(string, &short):
            return self._slot(short).code if self.n_slots else 0
        found = PyDict_GetItemWithError(self.long_strings, string)
        return 0 if found == NULL else <int32_t> PyLong_AsLong(<object> found)

    cdef int32_t find_or_add(self, str string) except -1:
        """Return the code of a string; one that is new gets the next code."""
        cdef int32_t code = self.find(string)
        return code if code else self.add(string)

    cdef int32_t add(self, str string) except -1:
        cdef int32_t code = <int32_t> len(self.strings) + 1
        if 2 * code >= self.n_slots:
            self._grow()
        if not self._place(string, code):
            self.long_strings[string] = code
        self.strings.append(string)
        return code

    cdef bint _place(self, str string, int32_t code):
        """Put a short string in its slot; return 0 for a long one."""
        cdef Slot new
        if not shorten(string, &new.short):
            return False
        new.code = code
        self._slot(new.short)[0] = new
        return True

    cdef Slot *_slot(self, Short short) noexcept:
        """Return the slot that holds a string, or the free one that would take it."""
        cdef Py_ssize_t last = self.n_slots - 1, i = <Py_ssize_t> hashed(short) & last
        cdef Slot *slot = &self.slots[i]
        while slot.code and (slot.short.low != short.low or slot.short.high != short.high):
            i = (i + 1) & last
            slot = &self.slots[i]
        return slot

    cdef int _grow(self) except -1:
        cdef Py_ssize_t n = max(16, 2 * self.n_slots)
        cdef Slot *slots = <Slot *> calloc(n, sizeof(Slot))
        if slots == NULL:
            raise MemoryError(f"no memory for {n // 2} strings")
        free(self.slots)
        self.slots, self.n_slots = slots, n
        for i, string in enumerate(self.strings, 1):
            self._place(string, i)
        return 0


cdef inline uint64_t hashed(Short short) noexcept:
    cdef uint64_t mixed = (short.low ^ short.high * <uint64_t> 0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> 32) * <uint64_t> 0xD6E8FEB86659FD93
    return mixed ^ mixed >> 32


def positions_of(list items not None):
    """Return what stands for the positions of lists or tuples; None if something else does.

    "dicts": some are dicts, and the others collections of strings; "strings": all are collections
    of strings, and one of them has some; "nothing": all are empty.
    """
    cdef bint has_dict = False, has_string = False
    for item in items:
        if not isinstance(item, (list, tuple)):
            return None
        for row in item:
            if not isinstance(row, (list, tuple, set, frozenset)):
                if not isinstance(row, (dict, Mapping)):
                    return None
                has_dict = has_dict or len(row) > 0
                continue
            for value in row:
                if type(value) is not str and not isinstance(value, (str, bytes)):
                    return None
                has_string = True
    if has_dict:
        return "dicts"
    return "strings" if has_string else "nothing"


def look_like_rows(list items not None):
    """Return whether lists of strings look like the rows of a table, not like sets of attributes.

    These are lists of one length, with a string that occurs at different places.
    """
    cdef Py_ssize_t width = -1, place
    cdef dict places = {}
    for item in items:
        for row in item:
            if not isinstance(row, (list, tuple)) or (width >= 0 and len(row) != width):
                return False
            width = len(row)
    for item in items:
        for row in item:
            place = 0
            for string in row:
                if places.setdefault(string, place) != place:
                    return True
                place += 1
    return False


def are_plain(list items not None):
    """Return whether all items of some lists or tuples are strings without NUL characters."""
    for item in items:
        for symbol in item:
            if type(symbol) is not str or find_character(symbol, 0, 0, len(<str> symbol), 1) >= 0:
                return False
    return True


def codes_of_rows(list items not None, list codes not None, Py_ssize_t n):
    """Return the codes of lists of strings, int32 (n_columns, n); -1 if a string has none.

    None if some rows have no order or another length, or some values are bytes. ``codes`` has the
    `StringCodes` of each column.
    """
    cdef Py_ssize_t width = len(codes), i = 0, j
    cdef int32_t[:, ::1] table = np.empty((width, n), dtype=np.int32)
    cdef StringCodes column_codes
    cdef str string
    for item in items:
        for row in item:
            if not isinstance(row, (list, tuple)) or len(row) != width:
                return None
            if i == n:
                raise RuntimeError("a sequence changed size while it was read")
            for j in range(width):
                value, column_codes = row[j], codes[j]
                if not isinstance(value, str):
                    return None
                string = value if type(value) is str else PyUnicode_FromObject(value)
                table[j, i] = column_codes.find(string) or -1
            i += 1
    return np.asarray(table)


def count_entries(list rows not None):
    """Return the number of entries of all rows; -1 if some are not plain dicts."""
    cdef Py_ssize_t n = 0, t
    for t in range(len(rows)):
        if t + DICTS_AHEAD < len(rows):
            prefetch(<PyObject *> rows[t + DICTS_AHEAD])
        if type(rows[t]) is not dict:
            return -1
        n += len(<dict> rows[t])
    return n


cdef class Entries:
    """The entries of dicts, row by row, sorted by column if the names of the columns are given.

    Strings have codes, counted from 1 in each column in the order of their first occurrence. None
    and NaN are NaN, and so are values that `OTHER` marks. If ``names`` are given, these are the
    columns, and other keys are left out; ``known`` has the `StringCodes` of each column, or None,
    and other strings are 0. ``n_entries`` is what `count_entries` returns.

    Keys of other classes than strings are left out, because their methods could change what is
    being read. If ``is_nested`` is true at the end, the rows have to be made flat before they are
    read; the entries are incomplete then. ``prefixes`` are keys whose strings are attributes.
    """

    cdef readonly dict index     # the column of each key
    cdef readonly list codes     # StringCodes of each column; None if it has no strings
    cdef readonly object flags   # uint8: sums of STRINGS, BOOLEANS, NUMBERS, BEYOND and OTHER
    cdef readonly object starts  # int64: the first entry of each row, and the end of the last
    cdef readonly object columns, values  # int32 and float64, of each entry
    cdef readonly bint is_fixed  # whether names were given
    cdef readonly bint is_nested  # whether a key or a value has to be made plain
    cdef readonly tuple other_key  # the first key that is not a string, after its row; or None
    cdef object names, prefixes
    cdef bytearray growing_flags
    cdef char *flag
    cdef list slot_keys
    cdef int32_t slot_columns[N_SLOTS]

    def __init__(self, list rows not None, Py_ssize_t n_entries, names=None, known=None,
                 prefixes=None):
        self.is_fixed = names is not None
        self.names = names
        self.prefixes = prefixes
        self.index = {name: j for j, name in enumerate(names)} if self.is_fixed else {}
        self.codes = list(known) if self.is_fixed else []
        self.growing_flags = bytearray(len(self.index))
        self.flag = self.growing_flags
        self.slot_keys = [object()] * N_SLOTS
        self._read(rows, n_entries)
        self.flags = np.frombuffer(self.growing_flags, dtype=np.uint8)

    cdef int _read(self, list rows, Py_ssize_t capacity) except -1:
        self.starts = np.zeros(len(rows) + 1, dtype=np.int64)
        self.columns = np.empty(capacity, dtype=np.int32)
        self.values = np.empty(capacity)
        cdef int64_t[::1] starts = self.starts
        cdef int32_t[::1] columns = self.columns
        cdef double[::1] values = self.values
        cdef Py_ssize_t n = 0, first, slot, t
        cdef int32_t column
        for t in range(len(rows)):
            prefetch_row(rows, t)
            slot, first = 0, n
            for key, value in (<dict> rows[t]).items():
                if type(key) is not str:
                    self._note_key(t, key)
                    continue
                column = self._column(key, slot)
                slot += 1
                if column < 0:
                    self._check_unknown(key, value)
                    continue
                if n == capacity:
                    raise RuntimeError("a dict changed size while it was read")
                columns[n] = column
                values[n] = self._value(column, value)
                n += 1
            starts[t + 1] = n
            if self.is_nested:
                break
            if self.is_fixed and n > first:
                sort_row(&columns[first], &values[first], n - first)
        if n < capacity:
            self.columns, self.values = self.columns[:n].copy(), self.values[:n].copy()
        return 0

    cdef int _note_key(self, Py_ssize_t t, object key) except -1:
        """Remember a key that is left out."""
        if isinstance(key, (str, bytes)):
            self.is_nested = True
        elif self.other_key is None:
            self.other_key = t, key
        return 0

    cdef int _check_unknown(self, object key, object value) except -1:
        """Find out whether an unknown key has a value that stands for known attributes."""
        if type(value) is str:
            self.is_nested |= bool(self.prefixes) and key in self.prefixes
        elif type(value) is not float and type(value) is not int and type(value) is not bool:
            self.is_nested |= is_nested(value)
        return 0

    cdef int32_t _column(self, object key, Py_ssize_t slot) except -2:
        """Return the column of a key; -1 if the key is unknown."""
        cdef int32_t column
        cdef PyObject *found
        if slot < N_SLOTS and <PyObject *> key == <PyObject *> self.slot_keys[slot]:
            return self.slot_columns[slot]
        found = PyDict_GetItemWithError(self.index, key)
        if found != NULL:
            column = <int32_t> PyLong_AsLong(<object> found)
        else:
            column = -1 if self.is_fixed else self._new_column(key)
        if slot < N_SLOTS:
            self.slot_keys[slot] = key
            self.slot_columns[slot] = column
        return column

    cdef int32_t _new_column(self, object key) except -1:
        cdef int32_t column = <int32_t> len(self.index)
        self.index[key] = column
        self.codes.append(None)
        self.growing_flags.append(0)
        self.flag = self.growing_flags
        return column

    cdef double _value(self, int32_t column, object value) except? -1:
        cdef PyObject *found
        cdef int kind
        if type(value) is str:
            return self._code(column, value)
        if type(value) is float:
            return self._number(column, PyFloat_AsDouble(value))
        if value is None:
            return NAN
        if type(value) is bool:
            self.flag[column] |= C_BOOLEANS
            return value is True
        if type(value) is int:
            return self._integer(column, value)
        found = PyDict_GetItemWithError(SCALARS, type(value))
        kind = C_OTHER if found == NULL else <int> PyLong_AsLong(<object> found)
        if kind == C_STRINGS:
            return self._code(column, PyUnicode_FromObject(value))
        if kind == C_NUMBERS:
            return self._number(column, PyFloat_AsDouble(value))
        self.flag[column] |= kind
        if kind == C_OTHER and is_nested(value):
            self.is_nested = True
        return bool(value) if kind == C_BOOLEANS else NAN

    cdef double _integer(self, int32_t column, object value):
        try:
            return self._number(column, PyLong_AsDouble(value))
        except OverflowError:
            self.flag[column] |= C_OTHER
            return NAN

    cdef double _number(self, int32_t column, double value) noexcept:
        if isnan(value):
            return value
        self.flag[column] |= C_OTHER if isinf(value) else C_NUMBERS
        if value != 0 and value != 1:
            self.flag[column] |= C_BEYOND
        return value

    cdef double _code(self, int32_t column, str string) except? -1:
        cdef StringCodes codes = self.codes[column]
        cdef int32_t code
        self.flag[column] |= C_STRINGS
        if self.is_fixed:
            code = 0 if codes is None else codes.find(string)
            if code == 0 and self.prefixes:
                self.is_nested |= self.names[column] in self.prefixes
            return code
        if codes is None:
            codes = self.codes[column] = StringCodes()
        return codes.find_or_add(string)

    def renumber(self, order):
        """Reorder the columns, and the entries of each row, by their present numbers."""
        cdef const int64_t[::1] starts = self.starts
        cdef int32_t[::1] columns = self.columns
        cdef double[::1] values = self.values
        cdef int32_t[::1] ranks = np.empty(len(order), dtype=np.int32)
        cdef Py_ssize_t t, i
        np.asarray(ranks)[order] = np.arange(len(order))
        keys = list(self.index)
        self.index = {keys[j]: rank for rank, j in enumerate(order)}
        self.codes = [self.codes[j] for j in order]
        self.flags = self.flags[order]
        for i in range(columns.shape[0]):
            columns[i] = ranks[columns[i]]
        for t in range(starts.shape[0] - 1):
            i = starts[t]
            if starts[t + 1] > i:
                sort_row(&columns[i], &values[i], starts[t + 1] - i)

    def recode(self, const int64_t[::1] firsts, const double[::1] recoded):
        """Replace the codes of columns by values, of which ``firsts`` are the first, or -1."""
        cdef const int32_t[::1] columns = self.columns
        cdef double[::1] values = self.values
        cdef Py_ssize_t i
        cdef int64_t first
        for i in range(columns.shape[0]):
            first = firsts[columns[i]]
            if first >= 0 and not isnan(values[i]):
                values[i] = recoded[first + <int64_t> values[i] - 1]


cdef bint is_nested(object value) except -1:
    """Return whether a value stands for several attributes, or is a string of another class."""
    if type(value) is np.ndarray:
        return False
    return isinstance(value, (str, bytes)) or holds_attributes(value)


cdef void prefetch_row(list rows, Py_ssize_t t) noexcept:
    """Prefetch the dicts some rows ahead, and the values of one that is nearer."""
    cdef PyObject *key
    cdef PyObject *value
    cdef Py_ssize_t state = 0
    if t + DICTS_AHEAD < len(rows):
        prefetch(<PyObject *> rows[t + DICTS_AHEAD])
    if t + ROWS_AHEAD < len(rows):
        row = rows[t + ROWS_AHEAD]
        with cython.critical_section(row):
            while PyDict_Next(row, &state, &key, &value):
                prefetch(value)
                prefetch((<char *> value) + 63)


cdef void sort_row(int32_t *columns, double *values, Py_ssize_t n) noexcept nogil:
    """Sort the entries of a row by column: Shell's sort, with the gaps of Knuth."""
    cdef Py_ssize_t gap = 1, i, j
    cdef int32_t column
    cdef double value
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            column, value, j = columns[i], values[i], i
            while j >= gap and columns[j - gap] > column:
                columns[j], values[j] = columns[j - gap], values[j - gap]
                j -= gap
            columns[j], values[j] = column, value
        gap //= 3
