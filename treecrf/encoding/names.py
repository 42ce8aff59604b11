"""Tests of trees, and conjunctions of them, in words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.plan import BOUNDARY, LISTS
from treecrf.inputs.sequences import InputSchema

Test = tuple[int, int, int]


def conjunction(
    encoder: Encoder, tests: Iterable[tuple[Test, bool]], *, backward: bool = False
) -> str:
    """Tests of a window that must hold, or must not, as one condition.

    Parameters
    ----------
    encoder : Encoder
        Knows what the columns mean.
    tests : iterable of ((int, int, int), bool)
        Column, offset and value of each test, and whether it must hold.
    backward : bool, default=False
        Whether the sequences were read from their end, so that offsets count from there.

    Returns
    -------
    str
        Such as ``aa[-2] is 'P' and not aa[0] is 'G'``. The brackets count positions from the one
        that is labeled, to the right; a window of one position has none. ``outside[-2]`` says that
        there is no such position.
    """
    told = (
        ("" if holds else "not ") + name_of_test(encoder, *test, backward=backward)
        for test, holds in sorted(tests)
    )
    return " and ".join(told) or "anything"


def name_of_test(
    encoder: Encoder, column: int, offset: int, value: int, *, backward: bool = False
) -> str:
    """What a test asks, with the names of the input where it has any."""
    at = place(-offset if backward else offset) if offset else "[0]" * any(encoder.window)
    if column == BOUNDARY:
        return f"outside{at}"
    learned, (kind, index) = encoder.columns[column], encoder.origin_of(column)
    if kind == DERIVED:
        return f"future{index}{at} > {learned.values[value]:.6g}"
    name = feature_name(encoder, index)
    told = " is missing" if kind == INDICATOR_COLUMN else ""
    if learned.kind == "category":
        return f"{name}{at}{told} is {learned.values[value].item()!r}"
    if learned.kind == "number":
        sign = "<=" if points_down(encoder, column, value) else ">"
        return f"{name}{at}{told} {sign} {learned.values[value]:.6g}"
    return f"{name}{at}{told}"


def place(offset: int) -> str:
    """An offset in brackets."""
    return f"[{offset:+d}]" if offset else "[0]"


def points_down(encoder: Encoder, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which tests of numbers hold below their thresholds: in lists, those below 0."""
    real, plan = np.maximum(columns, 0), encoder.plan
    in_lists = (plan.storage[real] == LISTS) & encoder.columns.is_number[real]
    return (np.asarray(columns) != BOUNDARY) & in_lists & (values < plan.zeros[real])


def feature_name(schema: InputSchema | Encoder, j: int) -> str:
    """What tests and pictures call a feature."""
    if schema.form == "symbols":
        return "symbol"
    return f"x{j}" if schema.names is None else schema.names[j]


def feature_names(schema: InputSchema) -> np.ndarray:
    """What tests and pictures call the features; an array of str objects."""
    names = [feature_name(schema, j) for j in range(schema.n_features)]
    return np.array(names, dtype=object)


def name_of_label_test(
    classes: np.ndarray, lag: int, symbol: int, *, backward: bool = False
) -> str:
    """What a test of a previous label asks; one that is not there is ``none``.

    Parameters
    ----------
    classes : array (n_classes,)
    lag : int
        How many positions back.
    symbol : int
        The place of a label in ``classes``, or their number for none.
    backward : bool, default=False
        Whether back is to the right.
    """
    return f"label{place(lag if backward else -lag)} is {_label(classes, symbol)}"


def name_of_labels(classes: np.ndarray, lag: int, mask: int, *, backward: bool = False) -> str:
    """A condition on a previous label: which ones it may be, or which not if these are fewer.

    Parameters
    ----------
    classes : array (n_classes,)
    lag : int
        How many positions back.
    mask : int
        Its bits tell which labels are meant; the bit after the last one stands for none.
    backward : bool, default=False
        Whether back is to the right.
    """
    symbols = range(len(classes) + 1)
    within = [symbol for symbol in symbols if mask >> symbol & 1]
    beyond = [symbol for symbol in symbols if not mask >> symbol & 1]
    is_not = len(beyond) < len(within)
    chosen = beyond if is_not else within
    told = "not " * is_not
    if len(chosen) == 1:
        return told + name_of_label_test(classes, lag, chosen[0], backward=backward)
    labels = ", ".join(_label(classes, symbol) for symbol in chosen)
    return f"{told}label{place(lag if backward else -lag)} in ({labels})"


def _label(classes: np.ndarray, symbol: int) -> str:
    return "none" if symbol == len(classes) else repr(classes[symbol].item())
