"""Readable names of tests and of their conjunctions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np

from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.plan import BOUNDARY, LISTS, MISSING
from treecrf.inputs.sequences import InputSchema

Test = tuple[int, int, int]


def conjunction(
    encoder: Encoder, tests: Iterable[tuple[Test, bool]], *, backward: bool = False
) -> str:
    """Write tests of a window, each with whether it must hold or fail, as one condition.

    Such as ``aa[-2] is 'P' and not aa[0] is 'G'``, or ``aa[0] not in ('G', 'P')`` for several tests
    that fail, or ``0.5 < size[0] <= 2`` for an interval. The brackets hold the offset from the
    current position. ``backward`` reverses offsets, for sequences that were read from their end.
    """
    by_place: dict[tuple[int, int, bool], list[tuple[Test, bool]]] = {}
    for test, holds in sorted(tests):
        column, offset, value = test
        by_place.setdefault((column, offset, value == MISSING), []).append((test, holds))
    names = (_names_of_place(encoder, some, backward) for some in by_place.values())
    return " and ".join(chain.from_iterable(names)) or "anything"


def _names_of_place(encoder: Encoder, tests: list[tuple[Test, bool]], backward: bool) -> list[str]:
    """Name tests of one column at one offset; several values that fail, and intervals, are one."""
    names = [name_of_test(encoder, *test, backward=backward) for test, _ in tests]
    (column, _, first), results = tests[0][0], [holds for _, holds in tests]
    written = ["" if holds else "not " for holds in results]
    written = [negation + name for negation, name in zip(written, names, strict=True)]
    kind = None if column == BOUNDARY else encoder.columns[column].kind
    if kind == "category" and results.count(False) > 1:
        values = encoder.columns[column].values
        what = names[0].removesuffix(f" is {values[first].item()!r}")
        excluded = [values[test[2]].item() for test, holds in tests if not holds]
        kept = [name for name, holds in zip(names, results, strict=True) if holds]
        return [*kept, f"{what} not in ({', '.join(map(repr, excluded))})"]
    if kind == "number" and results == [True, False]:
        low, high = (f"{encoder.columns[column].values[test[2]]:.6g}" for test, _ in tests)
        if names[0].endswith(f" > {low}") and names[1].endswith(f" > {high}"):
            return [f"{low} < {names[0].removesuffix(f' > {low}')} <= {high}"]
    return written


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
    what = f"{name}{at}"
    if kind == INDICATOR_COLUMN or value == MISSING:
        return f"{what} is missing"
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
    is_below = (np.asarray(values) != MISSING) & (values < plan.zeros[real])
    return (np.asarray(columns) != BOUNDARY) & in_lists & is_below


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
    chosen = beyond if is_not else within
    negation = "not " * is_not
    if len(chosen) == 1:
        return negation + name_of_label_test(classes, lag, chosen[0], backward=backward)
    labels = ", ".join(label_or_none(classes, symbol) for symbol in chosen)
    return f"label{bracketed(lag if backward else -lag)} {negation}in ({labels})"


def label_or_none(classes: np.ndarray, symbol: int) -> str:
    """Write a label, or "none" for the symbol after all labels."""
    return "none" if symbol == len(classes) else repr(classes[symbol].item())
