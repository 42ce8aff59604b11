"""Readable names of tests and of their conjunctions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from itertools import chain

import numpy as np

from treecrf.encoding.column_layout import BOUNDARY, LISTS, MISSING
from treecrf.encoding.columns import Column
from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.inputs.schema import InputSchema

Test = tuple[int, int, int]
# Texts of some thresholds, by column and value of the test.
Thresholds = Mapping[tuple[int, int], str]

# Numbers of more digits than the first are rounded, to at least the second.
EXACT_DIGITS = 6
MIN_DIGITS = 3
# Values of the input are rounded by at most this fraction, which leaves up to four digits.
VALUE_TOLERANCE = 5e-4
# Numbers with more digits before the point are written with an exponent, as Python does.
MAX_WHOLE_DIGITS = 16
# Names of previous labels, of the ends of sequences, and of discovered features.
OTHER_MEANING = re.compile(r"(label|outside)\[.*\]|future\d+(\[.*\])?", re.DOTALL)


def conjunction(
    encoder: Encoder,
    tests: Iterable[tuple[Test, bool]],
    *,
    backward: bool = False,
    shown: Thresholds | None = None,
) -> str:
    """Write tests of a window, each with whether it must hold or fail, as one condition.

    Such as ``aa[-2] is 'P' and not aa[0] is 'G'``, or ``aa[0] not in ('G', 'P')`` for several tests
    that fail, or ``0.5 < size[0] <= 2`` for an interval. The brackets hold the offset from the
    current position. ``backward`` reverses offsets, for sequences that were read from their end.
    ``shown`` are texts of thresholds that replace those of `threshold_text`.
    """
    by_place: dict[tuple[int, int, bool], list[tuple[Test, bool]]] = {}
    for test, holds in sorted(tests):
        column, offset, value = test
        by_place.setdefault((column, offset, value == MISSING), []).append((test, holds))
    names = (_names_of_place(encoder, group, backward, shown) for group in by_place.values())
    return " and ".join(chain.from_iterable(names)) or "anything"


def _names_of_place(
    encoder: Encoder, tests: list[tuple[Test, bool]], backward: bool, shown: Thresholds | None
) -> list[str]:
    """Name tests of one column at one offset; several values that fail, and intervals, are one."""
    names = [name_of_test(encoder, *test, backward=backward, shown=shown) for test, _ in tests]
    column, _, first = tests[0][0]
    results = [holds for _, holds in tests]
    kind = None
    if column != BOUNDARY:
        kind = encoder.columns[column].kind
    if kind == "category" and results.count(False) > 1:
        values = encoder.columns[column].values
        what = names[0].removesuffix(f" is {values[first].item()!r}")
        excluded = [values[test[2]].item() for test, holds in tests if not holds]
        true = [name for name, holds in zip(names, results, strict=True) if holds]
        return [*true, f"{what} not in ({', '.join(map(repr, excluded))})"]
    if kind == "number" and results == [True, False]:
        low, high = (threshold_text(encoder, column, test[2], shown) for test, _ in tests)
        if names[0].endswith(f" > {low}") and names[1].endswith(f" > {high}"):
            return [f"{low} < {names[0].removesuffix(f' > {low}')} <= {high}"]
    return [name if holds else f"not {name}" for name, holds in zip(names, results, strict=True)]


def name_of_test(
    encoder: Encoder,
    column: int,
    offset: int,
    value: int,
    *,
    backward: bool = False,
    shown: Thresholds | None = None,
) -> str:
    """Name of a test on a window, see `conjunction`."""
    at = ""
    if offset or any(encoder.window):
        at = bracketed(-offset if backward else offset)
    if column == BOUNDARY:
        return f"outside{at}"
    learned = encoder.columns[column]
    kind, index = encoder.origin_of(column)
    if kind == DERIVED:
        return f"future{index}{at} > {threshold_text(encoder, column, value, shown)}"
    what = feature_in_test(encoder, index, at)
    if kind == INDICATOR_COLUMN or value == MISSING:
        return f"{what} is missing"
    if learned.kind == "category":
        return f"{what} is {learned.values[value].item()!r}"
    if learned.kind == "number":
        sign = "<=" if points_down(encoder, column, value) else ">"
        return f"{what} {sign} {threshold_text(encoder, column, value, shown)}"
    return what


def threshold_text(
    encoder: Encoder, column: int, value: int, shown: Thresholds | None = None
) -> str:
    """Write a threshold so that the text separates all training values as the threshold does.

    No training value is closer to the threshold than its margin, and half of it is left to values
    that are new. ``shown`` are texts that replace some.
    """
    if shown is not None and (column, value) in shown:
        return shown[column, value]
    learned = encoder.columns[column]
    return number_text(learned.values[value], float(learned.margins[value]) / 2)


def short_thresholds(encoder: Encoder, tests: Iterable[Test]) -> Thresholds:
    """Write the thresholds of tests in three digits, or as many as distinguish them."""
    by_column: dict[int, set[int]] = {}
    for column, _, value in tests:
        has_value = column >= 0 and value != MISSING
        if has_value and encoder.columns[column].kind == "number":
            by_column.setdefault(column, set()).add(value)
    texts = {}
    for column, values in by_column.items():
        codes = sorted(values)
        thresholds = np.asarray(encoder.columns[column].values[codes], dtype=float)
        # Each text is closer to its threshold than to the middle between two.
        thirds = np.diff(thresholds / 3, prepend=-np.inf, append=np.inf)
        tolerances = np.minimum(thirds[:-1], thirds[1:]).tolist()
        for code, threshold, tolerance in zip(codes, thresholds, tolerances, strict=True):
            texts[column, code] = short_number(threshold, tolerance)
    return texts


def short_number(value: float, tolerance: float = np.inf) -> str:
    """Write a finite number in three digits, or as many as a tolerance needs."""
    # Not even an infinite one allows infinity.
    return number_text(value, min(tolerance, sys.float_info.max), MIN_DIGITS)


def value_text(column: Column | None, value: float) -> str:
    """Write a value of the input; tests of its column have the same results for the text."""
    tolerance = abs(value) * VALUE_TOLERANCE
    if column is not None and column.kind == "number" and len(column.values):
        tolerance = min(tolerance, float(np.abs(column.values - value).min()) / 2)
    return number_text(value, tolerance)


def number_text(value: float, tolerance: float = 0.0, n_exact: int = EXACT_DIGITS) -> str:
    """Write a finite number in as few digits as a tolerance allows.

    A number of at most ``n_exact`` digits is exact. Of a longer one, the first digits remain,
    rounded, as soon as they differ from it by no more than the tolerance; at least three digits,
    and all before the point. Without a tolerance, the text is the shortest one that stands for the
    same float.
    """
    value = float(value) + 0.0  # without the sign of -0
    exact = Decimal(repr(value)).normalize()
    n_digits = len(exact.as_tuple().digits)
    n_whole = exact.adjusted() + 1
    if n_digits > n_exact:
        n_kept = n_whole if n_whole <= MAX_WHOLE_DIGITS else 0
        for n in range(max(MIN_DIGITS, n_kept), n_digits):
            rounded = float(_rounded(exact, n))
            if abs(rounded - value) <= tolerance:
                return _shortest(rounded)
    return _shortest(value)


def _rounded(number: Decimal, n_digits: int) -> Decimal:
    """Round to some digits.

    A tie goes down, for example from 2.5 to 2: the same whole numbers are above both.
    """
    unit = Decimal(1).scaleb(number.adjusted() + 1 - n_digits)
    return (number / unit - Decimal("0.5")).to_integral_value(ROUND_CEILING) * unit


def _shortest(value: float) -> str:
    return repr(value).removesuffix(".0")


def bracketed(offset: int) -> str:
    """Write an offset in brackets."""
    if offset == 0:
        return "[0]"
    return f"[{offset:+d}]"


def points_down(encoder: Encoder, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mark the tests on numbers that hold below their thresholds: in lists, values below 0."""
    real = np.maximum(columns, 0)
    layout = encoder.layout
    in_lists = (layout.storage[real] == LISTS) & encoder.columns.is_number[real]
    is_below = (np.asarray(values) != MISSING) & (values < layout.zeros[real])
    return (np.asarray(columns) != BOUNDARY) & in_lists & is_below


def feature_name(schema: InputSchema | Encoder, j: int) -> str:
    """Name of a feature: its column name, its index after an x, or "symbol"."""
    if schema.form == "symbols":
        return "symbol"
    if schema.names is None:
        return f"x{j}"
    return schema.names[j]


def feature_at(schema: InputSchema | Encoder, j: int, at: str) -> str:
    """Name of a feature and the brackets of its offset; in quotes if it means something else."""
    name = feature_name(schema, j)
    if OTHER_MEANING.fullmatch(name + at):
        return f"{name!r}{at}"
    return name + at


def feature_in_test(schema: InputSchema | Encoder, j: int, at: str) -> str:
    """Return `feature_at` for a text: names that break lines or read as negations are in quotes."""
    name = feature_name(schema, j)
    if name.startswith("not ") or not name.isprintable():
        return f"{name!r}{at}"
    return feature_at(schema, j, at)


def feature_names(schema: InputSchema) -> np.ndarray:
    """Return the names of all features; an array of str objects."""
    names = [feature_name(schema, j) for j in range(schema.n_features)]
    return np.array(names, dtype=object)


def name_of_label_test(
    classes: np.ndarray, lag: int, symbol: int, *, backward: bool = False
) -> str:
    """Name of a test on a previous label; the symbol after all classes stands for none."""
    return f"label{bracketed(lag if backward else -lag)} is {label_or_none(classes, symbol)}"


def name_of_labels(classes: np.ndarray, lag: int, mask: int, *, backward: bool = False) -> str:
    """Name of a condition on a previous label.

    Bit k of the mask is set if label k is possible; the bit after the last label stands for none.
    The name lists the labels that are possible, or the others if these are fewer.
    """
    symbols = range(len(classes) + 1)
    within = [symbol for symbol in symbols if mask >> symbol & 1]
    beyond = [symbol for symbol in symbols if not mask >> symbol & 1]
    is_not = len(beyond) < len(within)
    chosen = within
    negation = ""
    if is_not:
        chosen = beyond
        negation = "not "
    if len(chosen) == 1:
        return negation + name_of_label_test(classes, lag, chosen[0], backward=backward)
    labels = ", ".join(label_or_none(classes, symbol) for symbol in chosen)
    return f"label{bracketed(lag if backward else -lag)} {negation}in ({labels})"


def label_or_none(classes: np.ndarray, symbol: int) -> str:
    """Write a label, or "none" for the symbol after all labels."""
    if symbol == len(classes):
        return "none"
    return repr(classes[symbol].item())
