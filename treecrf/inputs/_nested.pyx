"""Attributes of positions as flat dicts, with the names that CRFsuite gives them.

Names of nested dicts and of strings are joined by colons, as python-crfsuite does in `to_item`:
``{"next": {"w": "b", "tags": {"x", "y"}}}`` has the attributes ``next:w:b``, ``next:tags:x`` and
``next:tags:y``. What has a name twice adds up.
"""

from collections.abc import Mapping

from treecrf.inputs.values import find_missing

cdef extern from "Python.h":
    str PyUnicode_FromObject(object text)

SEPARATOR = ":"
cdef str COLON = SEPARATOR
# No data have so many levels; a dict that contains itself has no end.
MAX_DEPTH = 100
cdef int DEEPEST = MAX_DEPTH
cdef tuple COLLECTIONS = (set, frozenset, list, tuple)


def holds_attributes(value):
    """Return whether a value stands for several attributes: a dict, or a collection of strings."""
    if isinstance(value, (list, tuple)):
        return not value or isinstance(value[0], (str, bytes))
    return isinstance(value, (dict, set, frozenset, Mapping))


class PositionError(Exception):
    """An error at one of the rows, whose index is the first argument; the second is the error."""


cdef class Flattener:
    """Makes flat dicts of the attributes of positions, with plain strings as keys.

    In training, strings are values of categories, ``{"w": "a"}``, except those of the keys in
    ``split``, which are attributes, ``{"w:a": True}``; names in ``without`` are left out.

    For the columns of a model, strings are values of its ``categories``, dicts of sets of strings,
    and otherwise attributes, which ``columns`` may know; ``prefixes`` are keys that had such
    strings. A ``strict`` model, one of data frames, refuses values of other kinds than in training
    later, so values of its columns stay as they are.
    """

    cdef object split
    cdef object without
    cdef dict categories
    cdef dict columns
    cdef object prefixes
    cdef bint is_strict
    cdef dict flat           # of the present row
    cdef set crowded         # names that have several strings in it
    cdef set vectors         # names of lists of something else than strings
    cdef dict lists          # names of other lists: the row and the value of the first
    # The first key that is not a string, after its row; None if there is no such key.
    cdef readonly tuple other_key
    # Whether a string is the value of a column that held numbers in training.
    cdef readonly bint has_other_kind

    def __init__(self, split=frozenset(), without=frozenset(), categories=None, columns=None,
                 prefixes=frozenset(), is_strict=False):
        self.split = split
        self.without = without
        self.categories = categories
        self.columns = columns
        self.prefixes = prefixes
        self.is_strict = is_strict
        self.vectors = set()
        self.lists = {}

    def rows(self, list rows not None):
        """Return a flat dict for each row; `PositionError` names the row that is not valid."""
        cdef list flat_rows = []
        for t, row in enumerate(rows):
            self.flat = {}
            self.crowded = set()
            try:
                self._add_row(t, row)
            except (TypeError, ValueError) as error:
                raise PositionError(t, error) from None
            for name in self.without:
                self.flat.pop(name, None)
            flat_rows.append(self.flat)
        for name in self.vectors & self.lists.keys():
            t, value = self.lists[name]
            raise PositionError(t, ValueError(
                f"has the key {name!r}, whose value is not a vector of numbers, as at other "
                f"positions: {value!r:.80}"
            ))
        return flat_rows

    cdef int _add_row(self, Py_ssize_t t, row) except -1:
        if isinstance(row, COLLECTIONS):
            for item in row:
                self._add_number(text_of(item, row), True)
            return 0
        if not isinstance(row, (dict, Mapping)):
            raise TypeError(
                f"is of type {type(row).__name__}; expected a dict or a list of strings, as at "
                "the other positions"
            )
        return self._add_dict(t, None, row, 1)

    cdef int _add_dict(self, Py_ssize_t t, str prefix, row, int depth) except -1:
        cdef str name
        if depth > DEEPEST:
            raise ValueError(
                f"has dicts in more than {DEEPEST} levels; expected fewer, and none that contains "
                "itself"
            )
        for key, value in (row.items() if type(row) is dict else zip(row, row.values())):
            if type(key) is not str:
                if not isinstance(key, (str, bytes)):
                    if self.other_key is None:
                        self.other_key = t, key
                    continue
                key = text_of(key, row)
            name = key if prefix is None else prefix + COLON + <str> key
            self._add_value(t, name, value, depth)
        return 0

    cdef int _add_value(self, Py_ssize_t t, str name, value, int depth) except -1:
        cdef object kind = type(value)
        if kind is float or kind is int or kind is bool or value is None:
            return self._add_number(name, value)
        if isinstance(value, (str, bytes)):
            if self.is_strict and kind is not str and name in self.columns:
                self.flat[name] = value
                return 0
            return self._add_string(name, text_of(value, value))
        if self.is_strict and name in self.columns:
            self.flat[name] = value
            return 0
        if isinstance(value, (dict, Mapping)):
            return self._add_dict(t, name, value, depth + 1)
        if isinstance(value, COLLECTIONS):
            return self._add_collection(t, name, value)
        if getattr(value, "ndim", 0):  # an array
            self.vectors.add(name)
        return self._add_number(name, value)

    cdef int _add_collection(self, Py_ssize_t t, str name, value) except -1:
        """Add the strings of a collection; a list of other values is a vector."""
        if not holds_attributes(value):
            self.vectors.add(name)
            return self._add_number(name, value)
        self.lists.setdefault(name, (t, value))
        for item in value:
            self._add_item(name, text_of(item, value))
        return 0

    cdef int _add_item(self, str name, str item) except -1:
        """Add a string of a collection: an attribute, or the value of a category of the model."""
        cdef str attribute = name + COLON + item
        if self.categories is None or self.is_strict or self._knows(attribute):
            return self._add_number(attribute, True)
        if name in self.categories:
            return self._choose(name, item)
        return self._add_unknown(attribute)

    cdef bint _knows(self, str attribute) except -1:
        """Return whether a column of the model is an attribute of this name."""
        return attribute in self.columns and attribute not in self.categories

    cdef int _add_unknown(self, str attribute) except -1:
        """Add an attribute that no column of the model stands for."""
        if attribute in self.categories:  # the key of other strings
            return 0
        return self._add_number(attribute, True)

    cdef int _add_string(self, str name, str value) except -1:
        if self.categories is not None and not self.is_strict:
            if self._knows(name + COLON + value):
                return self._add_number(name + COLON + value, True)
            if name in self.categories:
                return self._choose(name, value)
            if name in self.columns and name not in self.prefixes:
                self.has_other_kind = True
            return self._add_unknown(name + COLON + value)
        if name in self.split or name in self.crowded:
            return self._add_number(name + COLON + value, True)
        if name not in self.flat or is_missing(self.flat[name]):
            self.flat[name] = value
            return 0
        self._crowd(name)
        return self._add_number(name + COLON + value, True)

    cdef int _crowd(self, str name) except -1:
        """Make strings of a key attributes, because it has another value as well."""
        before = self.flat[name]
        self.crowded.add(name)
        if type(before) is str:
            del self.flat[name]
            self._add_number(name + COLON + <str> before, True)
        return 0

    cdef int _choose(self, str name, str value) except -1:
        """Let a category of a model have a value; of several, the first one that is known."""
        cdef object known = self.categories[name]
        before = self.flat.get(name)
        if type(before) is not str or before not in known or (value in known and value < before):
            self.flat[name] = value
        return 0

    cdef int _add_number(self, str name, value) except -1:
        """Add a value that is no string; numbers with the same name add up.

        A missing value adds nothing.
        """
        if name not in self.flat:
            self.flat[name] = value
            return 0
        if is_missing(value):
            return 0
        before = self.flat[name]
        if is_missing(before):
            self.flat[name] = value
        elif type(before) is not str:
            self.flat[name] = total(name, before, value)
        elif self.categories is None:
            self._crowd(name)
            self.flat[name] = value
        return 0


cdef str text_of(text, where):
    """Return a string as a plain one; bytes are in UTF-8."""
    if type(text) is str:
        return text
    if isinstance(text, str):
        return PyUnicode_FromObject(text)
    if isinstance(text, bytes):
        try:
            return (<bytes> text).decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"has bytes that are not UTF-8: {text[:80]!r}") from None
    raise TypeError(
        f"has a {type(where).__name__} with a value of type {type(text).__name__}; expected "
        "strings only"
    )


cdef bint is_missing(value) except -1:
    return find_missing([value]) is not None


cdef object total(str name, before, value):
    try:
        return float(before) + float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"has the key {name!r} twice, with values that do not add up") from None
