"""Tests of trees, and conjunctions of them, in words."""

from __future__ import annotations

from collections.abc import Iterable

from treecrf.encoding import BOUNDARY, LISTS, Encoder

Test = tuple[int, int, int]


def conjunction(encoder: Encoder, tests: Iterable[tuple[Test, bool]]) -> str:
    """Tests of a window that must hold, or must not, as one condition.

    Parameters
    ----------
    encoder : Encoder
        Knows what the columns mean.
    tests : iterable of ((int, int, int), bool)
        Column, offset and value of each test, and whether it must hold.

    Returns
    -------
    str
        Such as ``aa[-2] is 'P' and not aa[0] is 'G'``. The brackets count positions from the one
        that is labeled; a window of one position has none. ``outside[-2]`` says that there is no
        such position.
    """
    told = (
        ("" if holds else "not ") + name_of_test(encoder, *test) for test, holds in sorted(tests)
    )
    return " and ".join(told) or "anything"


def name_of_test(encoder: Encoder, column: int, offset: int, value: int) -> str:
    """What a test asks, with the names of the input where it has any."""
    at = f"[{offset:+d}]" if offset else "[0]" * any(encoder.window)
    if column == BOUNDARY:
        return f"outside{at}"
    learned, made = encoder.columns[column], column - len(encoder.columns) + encoder.n_made
    if made >= 0:
        return f"future{made}{at} > {learned.values[value]:.6g}"
    source = column if encoder.filling is None else int(encoder.filling.sources[column])
    name = f"x{source}" if encoder.names is None else encoder.names[source]
    if encoder.form == "symbols":
        name = "symbol"
    told = "" if column == source or column < encoder.n_features else " is missing"
    if learned.kind == "category":
        return f"{name}{at}{told} is {learned.values[value].item()!r}"
    if learned.kind == "number":
        # Columns in lists ask for negative numbers from the other side: they list no zeros.
        is_below = encoder.plan.storage[column] == LISTS and value < encoder.plan.zeros[column]
        return f"{name}{at}{told} {'<=' if is_below else '>'} {learned.values[value]:.6g}"
    return f"{name}{at}{told}"
