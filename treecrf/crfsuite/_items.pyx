"""Items in the forms of CRFsuite: the attributes of a position, with values, and their weights."""

import numpy as np

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_AsLong
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_Concat
from libc.math cimport fabs

from treecrf.learners.linear._linear cimport add_block

# Values of more than this many keys within each other are refused: they may contain themselves.
cdef enum:
    MAX_DEPTH = 100

cdef object ONE = 1.0


def attributes_of(sequence):
    """Return a dict of attributes and values for each item of a sequence.

    A string is an attribute of value 1, a key with a string is the attribute ``"key:string"`` of
    value 1, and a key with a number an attribute of this value. The keys of dicts and the elements
    of lists and sets below a key follow it after a colon. The values of attributes that an item has
    more than once add up.
    """
    cdef list items = []
    if isinstance(sequence, (str, bytes)):
        raise TypeError(
            f"the sequence is a {type(sequence).__name__}; expected a list with an item, such as a "
            "dict, for each position"
        )
    for item in sequence:
        items.append(attributes_of_item(item, len(items)))
    return items


cdef dict attributes_of_item(item, Py_ssize_t t):
    cdef dict attributes = {}
    try:
        if isinstance(item, (str, bytes)):
            raise TypeError(f"the item is a {type(item).__name__}; expected a dict or a list")
        add_all(attributes, "", item, 0)
    except (TypeError, ValueError) as error:
        raise type(error)(f"position {t}: {error}") from None
    return attributes


cdef int add_all(dict attributes, str prefix, item, int depth) except -1:
    """Add the keys of a dict, or the elements of a list or another collection."""
    cdef str name
    if depth > MAX_DEPTH:
        raise ValueError(f"the keys of more than {MAX_DEPTH} dicts within each other")
    if not isinstance(item, dict):
        for key in item:
            name = text_of(key)
            add(attributes, PyUnicode_Concat(prefix, name) if prefix else name, ONE)
        return 0
    for key, value in (<dict> item).items():
        name = text_of(key)
        if prefix:
            name = PyUnicode_Concat(prefix, name)
        add_value(attributes, name, value, depth)
    return 0


cdef int add_value(dict attributes, str name, value, int depth) except -1:
    """Add the value of a key."""
    if type(value) is float:
        add(attributes, name, value)
    elif isinstance(value, (str, bytes)):
        name = PyUnicode_Concat(name, ":")
        add(attributes, PyUnicode_Concat(name, text_of(value)), ONE)
    elif isinstance(value, (dict, list, set, tuple, frozenset)):
        add_all(attributes, PyUnicode_Concat(name, ":"), value, depth + 1)
    else:
        add(attributes, name, number_of(name, value))
    return 0


cdef int add(dict attributes, str name, value) except -1:
    cdef PyObject *earlier = PyDict_GetItemWithError(attributes, name)
    if earlier != NULL:
        value = <object> earlier + value
    attributes[name] = value
    return 0


cdef object number_of(str name, value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"attribute {name!r} has a value of type {type(value).__name__}; expected a number, a "
            "string, or a dict, list or set of attributes"
        ) from None


cdef str text_of(key):
    """Return a name as a string; bytes are UTF-8, as in CRFsuite."""
    if type(key) is str:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        try:
            return (<bytes> key).decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{key!r} is not UTF-8") from None
    raise TypeError(f"the name {key!r} is of type {type(key).__name__}; expected a string")


cdef class AttributeWeights:
    """The weights of labels by the names of attributes, ``weights[row, label]``."""

    cdef dict rows
    cdef const double[:, ::1] weights
    # Largest number that a linear model takes.
    cdef double max_number

    def __init__(self, names, weights, double max_number):
        self.max_number = max_number
        self.rows = {name: row for row, name in enumerate(names)}
        self.weights = weights

    def scores(self, list items):
        """Return the scores of labels of items from `attributes_of`, (n_items, n_labels).

        Unknown attributes add nothing. None if a value is too large, or not a number.
        """
        cdef Py_ssize_t t
        cdef double[:, ::1] table
        out = np.zeros((len(items), self.weights.shape[1]))
        table = out
        for t in range(len(items)):
            if not self._add(<dict> items[t], &table[t, 0]):
                return None
        return out

    cdef bint _add(self, dict attributes, double *out) except -1:
        """Add the weights of attributes; returns whether none of their values is too large.

        References are borrowed: nothing here runs other code, and all values are floats.
        """
        cdef Py_ssize_t place = 0
        cdef PyObject *name
        cdef PyObject *value
        cdef PyObject *row
        cdef double number
        while PyDict_Next(attributes, &place, &name, &value):
            row = PyDict_GetItemWithError(self.rows, <object> name)
            if row == NULL:
                continue
            number = PyFloat_AsDouble(<object> value)
            if not fabs(number) <= self.max_number:
                return False
            add_block(out, &self.weights[PyLong_AsLong(<object> row), 0], number,
                      self.weights.shape[1])
        return True
