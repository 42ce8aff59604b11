"""Single values and 1-D arrays of them: types, missing values, and checks shared by all inputs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import repeat, takewhile
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.utils.scipy_sparse import sparse

if TYPE_CHECKING:
    from decimal import Decimal

FLOATS = (float, np.floating)
NUMBERS = (Integral, np.bool_, *FLOATS)
# The smallest float that stands for several integers. Half precision floats are compared with it as
# float64, the type of which it is: as one of them, it would be infinite.
FIRST_INEXACT = np.float64(2.0**53)
# Exponents of decimals from which on they are not converted to integers.
MAX_EXPONENT = 30
# Maximum number of characters of a value in an error message.
MAX_CHARACTERS = 80
# Maximum number of names that an error message lists.
MAX_NAMES = 5
# The name under which pandas writes an index without a name to Parquet.
_INDEX_PREFIX = "__index_level_"
_INDEX = re.compile(_INDEX_PREFIX + r"\d+__")
# The name of such a column in CSV, as libraries read it: empty, or in pandas "Unnamed: 0".
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)*")
# Code of a category that did not occur in training; codes count from 1, and 0 is a missing value.
UNSEEN = -1
# Arguments of np.errstate for sums that may overflow or add infinities of both signs.
IGNORE_OVERFLOW: Any = {"over": "ignore", "invalid": "ignore"}


def is_number(kind: type) -> bool:
    """Return whether values of this type are booleans, integers or floats."""
    return issubclass(kind, NUMBERS) and not issubclass(kind, np.timedelta64)


def column_names(frame: Any) -> list:
    """Return the names of the columns of a data frame of any library."""
    names = getattr(frame, "column_names", None)
    if names is None:
        names = frame.columns
    # It takes longer to iterate over an index of pandas.
    if hasattr(names, "tolist"):
        return names.tolist()
    return list(names)


def is_index(name: Any) -> bool:
    """Return whether a column is the index of a data frame of pandas, which is not a feature."""
    is_like = isinstance(name, str) and name.startswith(_INDEX_PREFIX)
    return is_like and _INDEX.fullmatch(name) is not None


def index_columns(names: Iterable, known: Container | None = None) -> set:
    """Return the columns that are an index of pandas, which are not features.

    In text files, these are the leading columns without a name; if the names of the features are
    ``known``, all without a name but these.
    """
    strings = [name if isinstance(name, str) else " " for name in names]
    if known is not None:
        unnamed = [name for name in strings if _UNNAMED.fullmatch(name) and name not in known]
    else:
        unnamed = list(takewhile(_UNNAMED.fullmatch, strings))
    return {*unnamed, *filter(is_index, strings)}


def as_list(items: Any, name: str, expected: str = "label sequences") -> list:
    """Convert an argument to a list of expected items; a string is not one."""
    if isinstance(items, str):
        raise TypeError(f"{name} is a string; expected a list of {expected}")
    unordered = isinstance(items, (bytes, dict, set, frozenset)) or sparse.issparse(items)
    if unordered or not isinstance(items, Iterable):
        raise TypeError(f"{name} is of type {type(items).__name__}; expected a list of {expected}")
    return list(items)


def stands_for_missing(kind: type) -> bool:
    """Return whether values of a type are None, pandas' NA or NaT, or NumPy's masked constant."""
    is_pandas = kind.__module__.startswith("pandas") and kind.__name__ in ("NAType", "NaTType")
    return kind is type(None) or is_pandas or kind is np.ma.core.MaskedConstant


def find_missing(values: Sequence) -> np.ndarray | None:
    """Return a mask of the missing objects, including NaN; None if all are present."""
    kinds = set(map(type, values))
    missing = {kind for kind in kinds if stands_for_missing(kind)}
    from decimal import Decimal  # which takes long to import

    floats = {kind for kind in kinds if issubclass(kind, (*FLOATS, Decimal))}
    if not missing and not floats:
        return None
    are_missing = [type(v) in missing or (type(v) in floats and is_nan(v)) for v in values]
    if any(are_missing):
        return np.array(are_missing)
    return None


def refuse_masked(values: Any, where: str) -> None:
    """Raise ValueError if a value is masked; what is under the mask has no meaning."""
    if np.ma.is_masked(values):
        raise ValueError(f"{where} holds masked values; expected a value at every position")


def is_nan(value: Any) -> bool:
    """Return whether a float or a decimal is not a number; of decimals, some refuse to compare."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return value.is_nan()
    return value != value


def is_huge(value: Any) -> bool:
    """Return whether a number is too large for float64."""
    try:
        float(value)
    except OverflowError:
        return True
    return False


def whole_decimals(values: Sequence) -> Any:
    """Replace whole decimals by integers in a list or an array of objects; others remain."""
    from decimal import Decimal

    if Decimal not in set(map(type, values)):
        return values
    numbers = [_integer_of(v) if type(v) is Decimal else v for v in values]
    if isinstance(values, list):
        return numbers
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array


def _integer_of(value: Decimal) -> int | Decimal:
    """Convert a decimal to an integer; one that has a fraction, or is far too large, remains."""
    if not value.is_finite() or value.adjusted() > MAX_EXPONENT:
        return value
    if value == value.to_integral_value():
        return int(value)
    return value


def floats_of_codes(codes: np.ndarray) -> np.ndarray:
    """Convert codes of categories to floats: NaN if missing, and 0 for unseen categories."""
    return np.where(codes == 0, np.nan, np.maximum(codes, 0))


def short_repr(value: object) -> str:
    """Represent a value in error messages, shortened if it is long."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python refuses to convert integers of several thousand digits to text.
        return f"an object of type {type(value).__name__}"
    if "\n" in text:  # of a table or an array
        text = " ".join(text.split())
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}..."


def short_list(items: Sequence[str], n: int = MAX_NAMES, separator: str = ", ") -> str:
    """Return the first ``n`` items, separated by commas."""
    return separator.join([*items[:n], *(["..."] if len(items) > n else [])])


def closest_name(name: str, names: Iterable) -> str:
    """Return the end of an error message about an unknown name: all names, and a similar one."""
    strings = [known for known in names if isinstance(known, str)]
    if not strings:
        return ", whose columns have no names"
    from difflib import get_close_matches  # for errors only

    similar = get_close_matches(name, strings, 1)
    guess = ""
    if similar:
        guess = f"; did you mean {similar[0]!r}?"
    return f"; expected one of {short_list(list(map(repr, strings)))}{guess}"


def require_different_names(named: dict[str, str | None]) -> None:
    """Raise ValueError if two arguments name the same column; None is no name."""
    arguments: dict[str, str] = {}
    for argument, name in named.items():
        if name is not None and arguments.setdefault(name, argument) != argument:
            raise ValueError(f"{arguments[name]} and {argument} both name the column {name!r}")


def require_same_names(where: str, names: Iterable, other: str, other_names: Iterable) -> None:
    """Raise ValueError if two tables have different columns; their order does not matter."""
    different = sorted(map(repr, {*names} ^ {*other_names}))
    if different:
        raise ValueError(
            f"{where} and {other} do not have the same columns: only one of them has "
            f"{short_list(different)}"
        )


def characters(text: str) -> np.ndarray:
    """Return the characters of a string as an array of strings of length 1."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<U1")


def string_array(strings: list[str]) -> np.ndarray:
    """Convert strings to an array; ValueError if one ends with a NUL character."""
    refuse_final_nul(strings, lambda i: short_repr(strings[i]))
    return np.array(strings, dtype=np.str_)


def refuse_final_nul(strings: Iterable[str], describe: Callable[[int], str]) -> None:
    """Raise ValueError if a string ends with a NUL character, which NumPy arrays would drop."""
    if "\0" not in (strings if isinstance(strings, str) else "".join(strings)):
        return
    for i, string in enumerate(strings):
        if string.endswith("\0"):
            raise ValueError(
                f"{describe(i)} ends with a NUL character, which arrays of strings cannot store; "
                "use another character or integers"
            )


def refuse_infinite(values: np.ndarray, where: Callable[[int], str]) -> None:
    """Raise ValueError if a number is infinite; ``where`` names the i-th value in C order."""
    with np.errstate(**IGNORE_OVERFLOW):
        i = first_infinite(values)
    if i is not None:
        raise ValueError(
            f"{where(i)}: {values.flat[i]} is infinite; expected a finite number, or NaN for a "
            "missing value"
        )


def first_infinite(values: np.ndarray) -> int | None:
    """Return the index of the first infinite number in C order; call under `IGNORE_OVERFLOW`."""
    # A finite sum means finite values. Otherwise, one may be infinite or NaN, or the sum overflows.
    if values.dtype.kind != "f" or np.isfinite(values.sum(dtype=np.float64)):
        return None
    infinite = np.isinf(values.astype(np.float64, copy=False))
    if infinite.any():
        return int(np.argmax(infinite))
    return None


def plain_array(array: np.ndarray, where: str, name: str) -> np.ndarray:
    """Convert a 1-D array of objects to strings or numbers, unless no other type holds them.

    ``where`` and ``name`` are the names of the sequence and of one of its values in error messages.
    """
    if array.dtype.kind in "biufU":
        return array
    if array.dtype.kind not in "OT":
        hint = "; decode them" if array.dtype.kind == "S" else ""
        raise TypeError(
            f"{where} holds {name}s of type {array.dtype}; expected strings or integers{hint}"
        )
    kinds = set(map(type, array))
    strings = {kind for kind in kinds if issubclass(kind, str)}
    if strings:
        invalid = kinds - strings
    else:
        invalid = {kind for kind in kinds if not is_number(kind)}
    if invalid:
        t = next(t for t, value in enumerate(array) if type(value) in invalid)
        raise TypeError(
            f"{where}, position {t}: {name} {short_repr(array[t])} is of type "
            f"{type(array[t]).__name__}; expected {name}s that are all strings or all integers"
        )
    if strings:
        refuse_final_nul(array, lambda t: f"{where}, position {t}: {name} {short_repr(array[t])}")
        return np.array(array.tolist(), dtype=np.str_)
    # An array of floats could not represent large integers exactly.
    numbers = np.array(array.tolist())
    if numbers.dtype.kind in "biu":
        return numbers
    return array.astype(object)


def whole_numbers(array: np.ndarray, where: str, name: str) -> np.ndarray:
    """Convert numbers to int64; ValueError if one is not whole or out of range."""
    if array.dtype.kind in "bi":
        return array.astype(np.int64)
    # Of floats, some types cannot represent the range of int64, and some more than float64.
    values = array
    if array.dtype.kind == "f":
        values = array.astype(np.result_type(array, np.float64))
    with np.errstate(invalid="ignore"):
        _refuse(values % 1 != 0, "is not a whole number", array, where, name)
    if array.dtype.kind == "O":
        values = np.array(list(map(int, array)), dtype=object)
    beyond = (values < -(2**63)) | (values >= 2**63)
    _refuse(beyond, "is outside the range of int64", array, where, name)
    return values.astype(np.int64)


def _refuse(invalid: np.ndarray, problem: str, array: np.ndarray, where: str, name: str) -> None:
    if invalid.any():
        t = int(np.argmax(invalid))
        raise ValueError(f"{where}, position {t}: {name} {short_repr(array[t])} {problem}")


# Codes of values


class CategoryEncoder:
    """Codes of values, from 1 in the order of their first occurrence; 0 is the code of None.

    If only some values are ``known``, all others have the code `UNSEEN`.
    """

    def __init__(self, known: Iterable | None = None):
        self.is_fixed = known is not None
        self.index: dict[Any, int] = {None: 0}
        if known is None:
            self.index = defaultdict(None, self.index)
            self.index.default_factory = self.index.__len__
        else:
            self.index |= {value: code for code, value in enumerate(known, 1)}

    def lookup(self, values: Iterable) -> Iterator[int]:
        """Yield the codes of values; raises TypeError if one cannot be hashed."""
        if self.is_fixed:
            return map(self.index.get, values, repeat(UNSEEN))
        return map(self.index.__getitem__, values)

    def codes(self, values: Iterable, n: int) -> np.ndarray:
        """Return the int32 codes of ``n`` values; raises TypeError if one cannot be hashed."""
        return np.fromiter(self.lookup(values), np.int32, n)

    @property
    def values(self) -> list:
        """All values that have codes, in the order of the codes."""
        return list(self.index)[1:]

    def ranks(self) -> tuple[list, np.ndarray]:
        """Return the sorted values, and the rank of each code among them, from 1; 0 for code 0."""
        values = self.values
        if values and not isinstance(values[0], str):
            values = list(map(int, values))
        return ranked(values)


def ranked(values: list) -> tuple[list, np.ndarray]:
    """Return the sorted values, and 0, followed by the rank of each value, from 1."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = np.zeros(len(values) + 1, dtype=np.int32)
    ranks[np.array(order, dtype=np.intp) + 1] = np.arange(1, len(values) + 1)
    return [values[i] for i in order], ranks
