"""The values of a column, however they are given: numbers, booleans, or codes of a category."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from treecrf.inputs.codes import Coder
from treecrf.inputs.sequences import BOOLEAN, CATEGORY, NUMBER, TYPES, InputSchema
from treecrf.inputs.values import find_missing, is_number, shown

# About so many values are Python's objects at a time.
CHUNK = 1 << 16
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
ABOUT_DATES = "tell as numbers or categories what matters of it, such as the hour or the weekday"


@dataclass(frozen=True)
class Rule:
    """What a column may hold.

    Attributes
    ----------
    is_category : bool, optional
        Whether the column is a category; None where it is if it holds strings.
    is_boolean : bool
        Whether numbers other than 0 and 1 are refused.
    known : array, optional
        The sorted categories of a trained model.
    reason : str
        Why, for messages.
    """

    is_category: bool | None = None
    is_boolean: bool = False
    known: np.ndarray | None = None
    reason: str = ""

    @classmethod
    def trained(cls, trained: InputSchema, j: int) -> Rule:
        """A column must be like that in training."""
        kind, known = trained.kinds[j], trained.categories.get(j)
        held = "booleans" if kind == BOOLEAN else "numbers"
        held = TYPES[known.dtype.kind] if kind == CATEGORY else held
        reason = f"in training the column held {held}"
        return cls(bool(kind == CATEGORY), bool(kind == BOOLEAN), known, reason)

    @property
    def is_moot(self) -> bool:
        """Whether training saw no value, so that whatever comes is unseen."""
        return self.known is not None and len(self.known) == 0


@dataclass(frozen=True)
class ColumnValues:
    """A column that has been read.

    Attributes
    ----------
    kind : int
        A place in `treecrf.inputs.sequences.KINDS`.
    data : array (n_positions,)
        Numbers and booleans as they came, NaN where they are missing; of a category int32 codes
        that count from 1, 0 where it is missing.
    values : array, optional
        The sorted values of a category.
    """

    kind: int
    data: np.ndarray
    values: np.ndarray | None = None

    def as_floats(self) -> np.ndarray:
        """Numbers as they are, the codes of a category, and NaN where a value is missing."""
        return np.where(self.data == 0, np.nan, self.data) if self.kind == CATEGORY else self.data


class ColumnReader:
    """Takes the values of one column, part by part.

    Parameters
    ----------
    rule : Rule
    where : callable
        What messages call a position of the column.
    """

    def __init__(self, rule: Rule, where: Callable[[int], str]):
        self.rule = rule
        self.where = where
        # Kind, first position and array of each part; no kind where all is missing.
        self.parts: list[tuple[int | None, int, np.ndarray]] = []
        self.n = 0
        self.coder = Coder(rule.known)
        # Position and value of the first string and the first number among categories.
        self.seen: dict[bool, tuple[int, Any]] = {}

    def add_numbers(self, array: np.ndarray) -> None:
        """Take an array of booleans, integers or floats."""
        if self.rule.is_category:
            for start in range(0, len(array), CHUNK):
                part = array[start : start + CHUNK]
                values = part.astype(object)
                if part.dtype.kind == "f":
                    values[np.isnan(part)] = None
                self._add_category(values.tolist())
            return
        if array.dtype.itemsize > 8:
            with np.errstate(over="ignore"):
                array = array.astype(np.float64)
        self._check_numbers(array)
        self._add(BOOLEAN if array.dtype.kind == "b" else NUMBER, array)

    def add_objects(self, values: list) -> None:
        """Take Python's objects: strings, numbers, booleans, and None or NaN where missing."""
        missing = find_missing(values)
        if missing is not None:
            values = [None if gone else value for value, gone in zip(values, missing, strict=True)]
        kinds = set(map(type, values)) - {type(None)}
        strings = {kind for kind in kinds if issubclass(kind, str)}
        numbers = {kind for kind in kinds if is_number(kind)}
        if kinds - strings - numbers:
            self._refuse_odd(values, kinds - strings - numbers)
        if strings and numbers:
            one, other = (_first(values, some) for some in (strings, numbers))
            self._refuse_mixture((self.n + one[0], one[1]), (self.n + other[0], other[1]))
        if not kinds:
            self._add(None, np.zeros(len(values), dtype=np.int32))
        elif strings or self.rule.is_category:
            self._add_category(values)
        else:
            self._add_number_objects(values, kinds)

    def finish(self) -> ColumnValues:
        """Give the whole column a kind.

        Raises
        ------
        ValueError, TypeError
            If some parts hold strings and others numbers, or NumPy cannot hold a category.
        """
        kinds = {kind for kind, _, _ in self.parts} - {None}
        if CATEGORY in kinds or (not kinds and self.rule.is_category is not False):
            codes, values = self.coder.sort(self._codes())
            return ColumnValues(CATEGORY, codes, values)
        arrays = [a if kind is not None else np.full(len(a), np.nan) for kind, _, a in self.parts]
        return ColumnValues(BOOLEAN if kinds == {BOOLEAN} else NUMBER, _joined(arrays))

    def _add(self, kind: int | None, array: np.ndarray) -> None:
        self.parts.append((kind, self.n, array))
        self.n += len(array)

    # Categories

    def _add_category(self, values: list) -> None:
        """Take strings, or whole numbers, None where they are missing."""
        t, value = _first(values)
        if value is not None and not self.rule.is_moot:
            self._check_category(t, value)
            if not isinstance(value, str):
                self._refuse_fractions(values)
        self._add(CATEGORY, self.coder.codes(values))

    def _check_category(self, t: int, value: Any) -> None:
        """Refuse strings or numbers where the column does not hold them."""
        is_string, known = isinstance(value, str), self.rule.known
        if self.rule.is_category is False or (
            known is not None and (known.dtype.kind == "U") != is_string
        ):
            what = "a string" if is_string else "a number"
            self._refuse(t, f"{shown(value)} is {what}; {self.rule.reason}")
        here = self.seen.setdefault(is_string, (self.n + t, value))
        if (not is_string) in self.seen:
            self._refuse_mixture(self.seen[not is_string], here)

    def _refuse_fractions(self, values: list) -> None:
        odd = [v for v in set(values) - {None} if v % 1 != 0 or not -(2**63) <= v < 2**63]
        if odd:
            t = min(map(values.index, odd))
            self._refuse(
                t,
                f"{shown(values[t])} cannot be a category; expected strings or whole numbers, "
                "these within the range of int64",
                ValueError,
            )

    def _codes(self) -> np.ndarray:
        """Codes of all parts; parts of numbers must be all missing."""
        codes = []
        for kind, start, part in self.parts:
            if kind in (BOOLEAN, NUMBER):
                present = ~np.isnan(part) if part.dtype.kind == "f" else np.ones(len(part), bool)
                if present.any():
                    t = int(np.argmax(present))
                    self._refuse_mixture(self.seen[True], (start + t, part[t]))
                part = np.zeros(len(part), dtype=np.int32)
            codes.append(part)
        codes = _joined(codes)
        if self.rule.known is None:
            self._refuse_cut_strings(codes)
        return codes

    def _refuse_cut_strings(self, codes: np.ndarray) -> None:
        for code, value in enumerate(self.coder.values, 1):
            if isinstance(value, str) and value.endswith("\0"):
                raise ValueError(
                    f"{self.where(int(np.argmax(codes == code)))}: {shown(value)} ends with a NUL "
                    "character, which arrays of strings cannot hold"
                )

    # Numbers

    def _add_number_objects(self, values: list, kinds: set[type]) -> None:
        only_booleans = all(issubclass(kind, (bool, np.bool_)) for kind in kinds)
        if only_booleans and None not in values:
            array = np.array(values, dtype=bool)
        else:
            array = self._floats(values)
        self._check_numbers(array)
        self._add(BOOLEAN if only_booleans else NUMBER, array)

    def _floats(self, values: list) -> np.ndarray:
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            t = next(t for t, value in enumerate(values) if value is not None and _is_huge(value))
            self._refuse(t, f"{shown(values[t])} is beyond the range of float64", ValueError)

    def _check_numbers(self, array: np.ndarray) -> None:
        bad = np.isinf(array) if array.dtype.kind == "f" else np.zeros(1, dtype=bool)
        if bad.any():
            t = int(np.argmax(bad))
            self._refuse(
                t,
                f"{array[t]} is infinite; expected a finite number, or NaN for a missing value",
                ValueError,
            )
        if self.rule.is_boolean and array.dtype.kind != "b":
            bad = ~((array == 0) | (array == 1) | np.isnan(array))
            if bad.any():
                t = int(np.argmax(bad))
                self._refuse(t, f"{array[t]} is neither 0 nor 1; {self.rule.reason}")

    # Errors

    def _refuse_odd(self, values: list, kinds: set[type]) -> NoReturn:
        t, value = next((t, v) for t, v in enumerate(values) if type(v) in kinds)
        expected = "expected strings, numbers or booleans, None or NaN where one is missing"
        if isinstance(value, DATES):
            expected = ABOUT_DATES
        self._refuse(t, f"{shown(value)} is of type {type(value).__name__}; {expected}")

    def _refuse_mixture(self, one: tuple[int, Any], other: tuple[int, Any]) -> NoReturn:
        """Refuse a string and a number in one column, at some positions of it."""
        (earlier, before), (later, value) = sorted([one, other], key=lambda place: place[0])
        kinds = ("a string", "a number")
        here, there = kinds if isinstance(value, str) else reversed(kinds)
        raise TypeError(
            f"{self.where(later)}: {shown(value)} is {here}, but {shown(before)} at "
            f"{self.where(earlier)} is {there}"
        )

    def _refuse(self, t: int, message: str, kind: type[Exception] = TypeError) -> NoReturn:
        raise kind(f"{self.where(self.n + t)}: {message}")


def _first(values: list, kinds: Container[type] | None = None) -> tuple[int, Any]:
    """Place and value of the first of some types, or of the first that is not missing."""
    found = (
        (t, value)
        for t, value in enumerate(values)
        if (value is not None if kinds is None else type(value) in kinds)
    )
    return next(found, (0, None))


def _is_huge(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:
        return True
    return False


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
