"""Labels and symbols of all forms as arrays of strings or of whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

FLOATS = (float, np.floating)
NUMBERS = (Integral, np.bool_, *FLOATS)
# Characters of a value in messages.
MAX_SHOWN = 80


def is_number(kind: type) -> bool:
    """Whether values of a type are booleans, integers or floats."""
    return issubclass(kind, NUMBERS) and not issubclass(kind, np.timedelta64)


def listed(items: Any, name: str, what: str = "label sequences") -> list:
    """The items of a list of ``what``, one a sequence.

    Raises
    ------
    TypeError
        If it is a string, which would pass for a list of one-letter sequences, or not iterable.
    """
    if isinstance(items, str):
        raise TypeError(f"{name} is a string; expected a list of {what}")
    unordered = isinstance(items, (bytes, dict, set, frozenset)) or sparse.issparse(items)
    if unordered or not isinstance(items, Iterable):
        raise TypeError(f"{name} is of type {type(items).__name__}; expected a list of {what}")
    return list(items)


def stands_for_missing(kind: type) -> bool:
    """Whether values of a type are None, or what pandas and NumPy's masks have in its place."""
    of_pandas = kind.__module__.startswith("pandas") and kind.__name__ in ("NAType", "NaTType")
    return kind is type(None) or of_pandas or kind is np.ma.core.MaskedConstant


def find_missing(values: Sequence) -> np.ndarray | None:
    """Which of some objects are missing values, NaN among them; None where none is."""
    kinds = set(map(type, values))
    gone = {kind for kind in kinds if stands_for_missing(kind)}
    floats = {kind for kind in kinds if issubclass(kind, FLOATS)}
    if not gone and not floats:
        return None
    found = [type(v) in gone or (type(v) in floats and v != v) for v in values]
    return np.array(found) if any(found) else None


def shown(value: object) -> str:
    """A value for messages, cut if it is long."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python writes no integers of more than some thousand digits
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def characters(text: str) -> np.ndarray:
    """The characters of a string as an array of strings of length 1."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<U1")


def plain_array(array: np.ndarray, where: str, what: str) -> np.ndarray:
    """A 1-D array without objects, unless these are numbers.

    Parameters
    ----------
    array : array (n_positions,)
    where, what : str
        What messages call the sequence and its values.

    Returns
    -------
    array (n_positions,)
        Of kind b, i, u, f or U, or of kind O with booleans, integers and floats.

    Raises
    ------
    ValueError, TypeError
        If values are neither strings nor numbers or of both kinds, or NumPy cannot hold a string.
    """
    if array.dtype.kind in "biufU":
        return array
    if array.dtype.kind not in "OT":
        raise TypeError(
            f"{where} holds {what}s of type {array.dtype}; {what}s are strings or integers"
        )
    kinds = set(map(type, array))
    strings = {kind for kind in kinds if issubclass(kind, str)}
    odd = kinds - strings if strings else {kind for kind in kinds if not is_number(kind)}
    if odd:
        t = next(t for t, value in enumerate(array) if type(value) in odd)
        raise TypeError(
            f"{where}, position {t}: {what} {shown(array[t])} is of type "
            f"{type(array[t]).__name__}; {what}s are all strings or all integers"
        )
    if strings:
        refuse_cut_strings(array, where, what)
        return np.array(array.tolist(), dtype=np.str_)
    # Floats would not hold large integers beside others.
    numbers = np.array(array.tolist())
    return numbers if numbers.dtype.kind in "biu" else array.astype(object)


def refuse_cut_strings(strings: Iterable[str], where: str, what: str) -> None:
    """Refuse strings that end with NUL, which NumPy's arrays cut off."""
    if "\0" not in (strings if isinstance(strings, str) else "".join(strings)):
        return
    for t, string in enumerate(strings):
        if string.endswith("\0"):
            raise ValueError(
                f"{where}, position {t}: {what} {shown(string)} ends with a NUL character, which "
                "arrays of strings cannot hold; use another character or integers"
            )


def whole_numbers(array: np.ndarray, where: str, what: str) -> np.ndarray:
    """Numbers as int64.

    Raises
    ------
    ValueError
        If one is not whole or out of range.
    """
    if array.dtype.kind in "bi":
        return array.astype(np.int64)
    values = array.astype(np.float64) if array.dtype.kind == "f" else array
    with np.errstate(invalid="ignore"):
        _refuse(values % 1 != 0, "is not a whole number", array, where, what)
    if array.dtype.kind == "O":
        values = np.array(list(map(int, array)), dtype=object)
    beyond = (values < -(2**63)) | (values >= 2**63)
    _refuse(beyond, "is beyond the range of int64", array, where, what)
    return values.astype(np.int64)


def _refuse(found: np.ndarray, fault: str, array: np.ndarray, where: str, what: str) -> None:
    if found.any():
        t = int(np.argmax(found))
        raise ValueError(f"{where}, position {t}: {what} {shown(array[t])} {fault}")
