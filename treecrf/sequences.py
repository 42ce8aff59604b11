"""Every form of input becomes one `Sequences`: checked, typed, and readable in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.values import (
    FLOATS,
    characters,
    is_number,
    plain_array,
    refuse_cut_strings,
    whole_numbers,
)

# Pieces of about this many bytes are concatenated at a time: few NumPy calls for many short
# sequences, and little memory beside the input.
PIECE_BYTES = 1 << 24

FORMS = (
    "a sequence is a 2-D array (positions, features), a scipy sparse matrix, "
    "a string, or a 1-D array or list of symbols"
)


@dataclass(frozen=True)
class Trained:
    """What a model was trained on.

    Attributes
    ----------
    form : {"symbols", "table"}
    n_features : int
    names : tuple of str, optional
        Names of the columns.
    symbols : numpy dtype, optional
        Type of the symbols, of kind i or U.
    """

    form: str
    n_features: int
    names: tuple[str, ...] | None = None
    symbols: np.dtype | None = None

    def check(self, form: str, dtype: np.dtype) -> None:
        """Refuse symbols where the model knows tables, strings for integers, and the reverse."""
        kind = "symbols" if form == "symbols" else "table"
        if kind != self.form:
            raise TypeError(f"the model was trained on {self.form}, X holds {kind}")
        if kind == "symbols" and dtype.kind != self.symbols.kind:
            names = {"U": "strings", "i": "integers"}
            raise TypeError(
                f"the model was trained on {names[self.symbols.kind]}, the symbols of X are "
                f"{names[dtype.kind]}"
            )


@dataclass(frozen=True)
class Sequences:
    """Checked sequences, one after another.

    Attributes
    ----------
    form : {"symbols", "dense", "sparse"}
    items : list
        One array (symbols: 1-D; dense: 2-D), string or CSR matrix per sequence.
    offsets : int64 array (n_sequences + 1,)
        Position at which each sequence starts among all positions.
    n_features : int
    dtype : numpy dtype
        Common type of the values; of kind b, i, u or f for tables, i or U for symbols.
    names : tuple of str, optional
        Names of the features.
    kinds : uint8 array (n_features,), optional
        Places in `treecrf.columns.KINDS`, for tables whose columns differ in kind. Their items hold
        floats: numbers as they are, booleans as 0 and 1, a category as the place of its value among
        the sorted values of its column, counted from 1.
    categories : dict
        The sorted values of each column that is a category.

    Notes
    -----
    NaN is a missing value, 0 in a category the absence of any.
    """

    form: str
    items: list
    offsets: np.ndarray
    n_features: int
    dtype: np.dtype
    names: tuple[str, ...] | None = None
    kinds: np.ndarray | None = None
    categories: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def like(self) -> Trained:
        """What other sequences must be like to go with these."""
        if self.form == "symbols":
            return Trained("symbols", 1, symbols=self.dtype)
        return Trained("table", self.n_features, self.names)

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.items)

    @property
    def n_positions(self) -> int:
        """Number of positions in all sequences together."""
        return int(self.offsets[-1])

    def pieces(self) -> Iterator[tuple[int, int, Any]]:
        """Runs of whole sequences: first position, position after the last, values together."""
        row_bytes = max(1, self.n_features * self.dtype.itemsize) if self.form == "dense" else 64
        first = 0
        while first < self.n_sequences:
            reach = self.offsets[first] + max(1, PIECE_BYTES // row_bytes)
            last = max(first + 1, int(np.searchsorted(self.offsets, reach, side="right")) - 1)
            last = min(last, self.n_sequences)
            yield int(self.offsets[first]), int(self.offsets[last]), self._join(first, last)
            first = last

    def _join(self, first: int, last: int) -> Any:
        items = self.items[first:last]
        if self.form == "sparse":
            return items[0] if len(items) == 1 else sparse.vstack(items, format="csr")
        if self.form == "symbols" and isinstance(items[0], str):
            return characters("".join(items))
        return items[0] if len(items) == 1 else np.concatenate(items)

    def take(self, indices: np.ndarray) -> Sequences:
        """The chosen sequences, in the given order."""
        lengths = np.diff(self.offsets)[indices]
        return replace(self, items=[self.items[i] for i in indices], offsets=offsets_of(lengths))

    def reversed(self) -> Sequences:
        """The same sequences, each from its end to its start."""
        return replace(self, items=[item[::-1] for item in self.items])


def offsets_of(lengths: Any) -> np.ndarray:
    """Starts of sequences of the given lengths, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def reversed_places(offsets: np.ndarray) -> np.ndarray:
    """For each position the one that takes its place when sequences are reversed."""
    n = int(offsets[-1])
    return np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(n)


def as_sequences(X: Any, trained_on: Trained | None = None) -> Sequences:
    """Check and pack the sequences that a user gives.

    Parameters
    ----------
    X : iterable of sequences
    trained_on : Trained, optional
        What the sequences must be like.

    Returns
    -------
    Sequences

    Raises
    ------
    ValueError, TypeError
        If X is not a list of sequences of one form, or a sequence is empty, has another width
        than the others, or holds infinite values.
    """
    given = _listed(X)
    items = [_as_item(item, i) for i, item in enumerate(given)]
    if not items:
        raise ValueError("X holds no sequences")
    form = _form(items[0])
    for i, item in enumerate(items):
        if _form(item) != form:
            raise ValueError(
                f"sequence {i} is {_describe(item)}, sequence 0 is {_describe(items[0])}: "
                "all sequences must have the same form"
            )
        if _length(item) == 0:
            raise ValueError(f"sequence {i} is empty: a sequence needs at least one position")
    is_table = form != "symbols"
    dtype = np.result_type(*{i.dtype for i in items}) if is_table else _common_symbol_type(items)
    if trained_on is not None:
        trained_on.check(form, dtype)
    if is_table:
        width = _common_width(items, trained_on)
        _refuse_infinite(items)
    else:
        width, items = 1, _of_one_kind(items)
    names = _common_names(given, trained_on)
    return Sequences(form, items, offsets_of([_length(i) for i in items]), width, dtype, names)


def _listed(X: Any) -> list:
    is_list = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object
    flat = isinstance(X, np.ndarray) and X.ndim < 3 and not is_list
    single = isinstance(X, (str, bytes, dict, set, frozenset)) or hasattr(X, "columns")
    if single or sparse.issparse(X) or flat:
        raise TypeError(
            f"X is {_describe(X)}; expected a list of sequences: put a single sequence into a "
            f"list, [X]; {FORMS}"
        )
    try:
        return list(X)
    except TypeError:
        raise TypeError(f"X is {_describe(X)}; expected a list of sequences; {FORMS}") from None


def _names_of(item: Any) -> tuple[str, ...] | None:
    """Column names of a data frame, if all are strings."""
    names = tuple(getattr(item, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _common_names(given: list, trained_on: Trained | None) -> tuple[str, ...] | None:
    first = _names_of(given[0])
    expected = trained_on.names if trained_on is not None and trained_on.names else first
    for i, item in enumerate(given):
        names = _names_of(item)
        if names != first or (names and names != expected):
            raise ValueError(
                f"sequence {i} has the columns {list(names or ())}, expected {list(expected or ())}"
            )
    return first


def _as_item(item: Any, i: int) -> Any:
    """One sequence as a string, a 1-D array of symbols, a 2-D array or a CSR matrix."""
    if isinstance(item, str):
        refuse_cut_strings(item, f"sequence {i}", "symbol")
        return item
    if sparse.issparse(item) and item.ndim == 2:
        return _tidy(_numeric(item, i))
    if sparse.issparse(item):
        raise ValueError(f"sequence {i} has {item.ndim} dimensions; {FORMS}")
    if np.ma.is_masked(item):
        raise ValueError(f"sequence {i} has masked values; missing values are not supported")
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"sequence {i} is ragged or not an array: {error}; {FORMS}") from None
    if array.ndim == 2:
        return _numeric(_without_objects(array, item, i), i)
    if array.ndim == 1:
        # NumPy turns [1, "a"] into strings and [2**63, -1] into floats; the values as given tell.
        as_given = hasattr(item, "dtype") or array.dtype.kind in "biu"
        return _symbols(array if as_given else np.asarray(item, dtype=object), i)
    raise ValueError(f"sequence {i} has {array.ndim} dimensions; {FORMS}")


def _numeric(array: Any, i: int) -> Any:
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"sequence {i} holds values of type {array.dtype}; a table needs boolean, integer or "
            "float values"
        )
    return array


def _tidy(matrix: Any) -> Any:
    """A CSR matrix of its own, without stored zeros and duplicates."""
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _without_objects(array: np.ndarray, item: Any, i: int) -> np.ndarray:
    """Objects as floats, such as data frames have that mix booleans with numbers."""
    if array.dtype.kind != "O":
        return array
    odd = {kind for kind in set(map(type, array.flat)) if not is_number(kind)}
    if odd:
        t, j = next(place for place, value in np.ndenumerate(array) if type(value) in odd)
        column = f"column {item.columns[j]!r}" if hasattr(item, "columns") else f"feature {j}"
        raise TypeError(
            f"sequence {i}, position {t}, {column}: {array[t, j]!r} is of type "
            f"{type(array[t, j]).__name__}; a table needs boolean, integer or float values, and "
            "for a category a column of 0 and 1 for each of its values"
        )
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"sequence {i} holds an integer beyond the range of float64") from None


def _symbols(array: np.ndarray, i: int) -> np.ndarray:
    array = plain_array(array, f"sequence {i}", "symbol")
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "fO" and any(issubclass(kind, FLOATS) for kind in set(map(type, array))):
        raise TypeError(
            f"sequence {i} is a 1-D array of floats; symbols are strings or integers, and a "
            "sequence with one numeric feature has the shape (positions, 1)"
        )
    return whole_numbers(array, f"sequence {i}", "symbol")


def _form(item: Any) -> str:
    if sparse.issparse(item):
        return "sparse"
    return "dense" if getattr(item, "ndim", 1) == 2 else "symbols"


def _length(item: Any) -> int:
    return len(item) if isinstance(item, str) else item.shape[0]


def _describe(item: Any) -> str:
    if isinstance(item, str):
        return "a string"
    if sparse.issparse(item):
        return f"a sparse matrix of shape {item.shape}"
    if isinstance(item, np.ndarray):
        return f"a {item.ndim}-D array of {item.dtype}"
    return f"of type {type(item).__name__}"


def _common_symbol_type(items: list) -> np.dtype:
    kinds = {"U" if isinstance(item, str) else item.dtype.kind for item in items}
    if len(kinds) > 1:
        raise TypeError("some sequences hold strings, others integers; symbols need one type")
    if kinds == {"i"}:
        return np.dtype(np.int64)
    return np.dtype("U1") if all(isinstance(item, str) for item in items) else np.dtype("U")


def _of_one_kind(items: list) -> list:
    """Strings stay strings only where all sequences are strings."""
    if all(isinstance(item, str) for item in items):
        return items
    return [characters(item) if isinstance(item, str) else item for item in items]


def _common_width(items: list, trained_on: Trained | None) -> int:
    width = items[0].shape[1] if trained_on is None else trained_on.n_features
    for i, item in enumerate(items):
        if item.shape[1] != width:
            other = "sequence 0 has" if trained_on is None else "the model was trained with"
            raise ValueError(f"sequence {i} has {item.shape[1]} features, {other} {width}")
    if width == 0:
        raise ValueError("the sequences have 0 features; at least 1 is needed")
    return width


def _refuse_infinite(items: list) -> None:
    for i, item in enumerate(items):
        if item.dtype.kind != "f":
            continue
        values = item.data if sparse.issparse(item) else item
        # A sum is finite unless a value is not (or the sum overflows, which the second look sees).
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum(dtype=np.float64)):
                continue
        bad = np.isinf(values)
        if not bad.any():
            continue
        if sparse.issparse(item):
            t, feature = (int(axis[bad][0]) for axis in (item.tocoo().row, item.indices))
            value = values[bad][0]
        else:
            t, feature = (int(axis[0]) for axis in np.nonzero(bad))
            value = values[t, feature]
        raise ValueError(
            f"sequence {i}, position {t}, feature {feature}: {value} is infinite; expected a "
            "finite number, or NaN for a missing value"
        )
