"""Readable names of tests and of their conjunctions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.plan import BOUNDARY, LISTS
from treecrf.inputs.schema import InputSchema

Test = tuple[int, int, int]


def conjunction(
    encoder: Encoder, tests: Iterable[tuple[Test, bool]], *, backward: bool = False
) -> str:
    """Write tests of a window as one condition.

    Parameters
    ----------
    encoder : Encoder
    tests : iterable of ((int, int, int), bool)
        Column, offset and value of each test, and whether it must hold or fail.
    backward : bool, default=False
        Whether the sequences were read from their end, which reverses the offsets.

    Returns
    -------
    str
        Such as ``aa[-2] is 'P' and not aa[0] is 'G'``, or ``aa[0] not in ('G', 'P')`` for several
        tests that fail. The brackets hold the offset from the labeled position, to the right; they
        are omitted for windows of one position. ``outside[-2]`` means that the sequence has no such
        position.
    """
    by_place: dict[tuple, list[Test]] = {}
    for test, holds in sorted(tests):
        column, offset, _ = test
        excludes = not holds and _is_category(encoder, column)
        by_place.setdefault((column, offset) if excludes else (test, holds), []).append(test)
    excluded = {key for key in by_place if not isinstance(key[0], tuple)}
    names = (
        _name_of_exclusion(encoder, some, backward)
        if key in excluded
        else ("" if key[1] else "not ") + name_of_test(encoder, *some[0], backward=backward)
        for key, some in by_place.items()
    )
    return " and ".join(names) or "anything"


def _is_category(encoder: Encoder, column: int) -> bool:
    return column != BOUNDARY and encoder.columns[column].kind == "category"


def _name_of_exclusion(encoder: Encoder, tests: list[Test], backward: bool) -> str:
    """Name the condition that a category has none of some values."""
    name = name_of_test(encoder, *tests[0], backward=backward)
    if len(tests) == 1:
        return f"not {name}"
    values = encoder.columns[tests[0][0]].values
    first = f" is {values[tests[0][2]].item()!r}"
    listed = ", ".join(repr(values[value].item()) for _, _, value in tests)
    return f"{name.removesuffix(first)} not in ({listed})"


def name_of_test(
    encoder: Encoder, column: int, offset: int, value: int, *, backward: bool = False
) -> str:
    """Name of a test on a window, see `conjunction`."""
    at = bracketed(-offset if backward else offset) if offset else "[0]" * any(encoder.window)
    if column == BOUNDARY:
        return f"outside{at}"
    learned, (kind, index) = encoder.columns[column], encoder.origin_of(column)
    if kind == DERIVED:
        return f"future{index}{at} > {learned.values[value]:.6g}"
    name = feature_name(encoder, index)
    what = f"{name}{at} is missing" if kind == INDICATOR_COLUMN else f"{name}{at}"
    if learned.kind == "category":
        return f"{what} is {learned.values[value].item()!r}"
    if learned.kind == "number":
        sign = "<=" if points_down(encoder, column, value) else ">"
        return f"{what} {sign} {learned.values[value]:.6g}"
    return what


def bracketed(offset: int) -> str:
    """Write an offset in brackets."""
    return f"[{offset:+d}]" if offset else "[0]"


def points_down(encoder: Encoder, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mark the tests on numbers that hold below their thresholds: in lists, values below 0."""
    real, plan = np.maximum(columns, 0), encoder.plan
    in_lists = (plan.storage[real] == LISTS) & encoder.columns.is_number[real]
    return (np.asarray(columns) != BOUNDARY) & in_lists & (values < plan.zeros[real])


def feature_name(schema: InputSchema | Encoder, j: int) -> str:
    """Name of a feature: its column name, its index after an x, or "symbol"."""
    if schema.form == "symbols":
        return "symbol"
    return f"x{j}" if schema.names is None else schema.names[j]


def feature_names(schema: InputSchema) -> np.ndarray:
    """Return the names of all features; an array of str objects."""
    names = [feature_name(schema, j) for j in range(schema.n_features)]
    return np.array(names, dtype=object)


def name_of_label_test(
    classes: np.ndarray, lag: int, symbol: int, *, backward: bool = False
) -> str:
    """Name of a test on a previous label.

    Parameters
    ----------
    classes : array (n_classes,)
    lag : int
        Number of positions from the label to the current position.
    symbol : int
        Index of a label in ``classes``, or their number for ``none``: the sequence has no label
        there.
    backward : bool, default=False
        Whether the previous labels are those to the right.
    """
    return f"label{bracketed(lag if backward else -lag)} is {_label(classes, symbol)}"


def name_of_labels(classes: np.ndarray, lag: int, mask: int, *, backward: bool = False) -> str:
    """Name of a condition on a previous label.

    It lists the labels that are possible, or those that are not if these are fewer.

    Parameters
    ----------
    classes : array (n_classes,)
    lag : int
        Number of positions from the label to the current position.
    mask : int
        Bit k is set if label k is possible; the bit after the last label stands for none.
    backward : bool, default=False
        Whether the previous labels are those to the right.
    """
    symbols = range(len(classes) + 1)
    within = [symbol for symbol in symbols if mask >> symbol & 1]
    beyond = [symbol for symbol in symbols if not mask >> symbol & 1]
    is_not = len(beyond) < len(within)
    chosen = beyond if is_not else within
    negation = "not " * is_not
    if len(chosen) == 1:
        return negation + name_of_label_test(classes, lag, chosen[0], backward=backward)
    labels = ", ".join(_label(classes, symbol) for symbol in chosen)
    return f"label{bracketed(lag if backward else -lag)} {negation}in ({labels})"


def _label(classes: np.ndarray, symbol: int) -> str:
    return "none" if symbol == len(classes) else repr(classes[symbol].item())
