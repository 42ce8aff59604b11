"""Attributes as CRFsuite names them: nested dicts, collections of strings, strings beside numbers.

A string is the value of a category, ``{"w": "a"}``, unless its key also has numbers, or the same
string is an attribute elsewhere, as in ``{"w": {"a", "b"}}``. Then strings are attributes with the
names that CRFsuite gives them, ``w:a``. This depends on all data, not on their order or on how they
are divided into parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from treecrf.inputs._nested import SEPARATOR, Flattener, PositionError
from treecrf.inputs.offsets import position_name
from treecrf.inputs.schema import InputSchema


def flat_rows(rows: list, offsets: np.ndarray, flattener: Flattener) -> list[dict]:
    """Return flat dicts with plain strings as keys; errors name the position."""
    try:
        return flattener.rows(rows)
    except PositionError as failed:
        t, error = failed.args
        raise type(error)(f"{position_name(t, offsets)} {error}") from None


def flattener_of(schema: InputSchema) -> Flattener:
    """Return the flattener for the columns of a model."""
    return Flattener(
        categories=schema.known_values,
        columns=schema.index,
        prefixes=schema.prefixes,
        is_strict=schema.absent_is_missing,
    )


def split_keys(strings: Mapping[str, Iterable[str]], others: set[str]) -> set[str]:
    """Return the keys whose strings are attributes; ``others``, which get them, are other names.

    ``strings`` are the values of each key that has some.
    """
    split: set[str] = set()
    # Most data have no such names, and very many others.
    joined = {name for name in others if SEPARATOR in name}
    is_complete = False
    while not is_complete:
        is_complete = True
        for key in strings.keys() - split:
            names = ()
            if joined or key in others:
                names = [key + SEPARATOR + value for value in strings[key]]
            if key in others or not joined.isdisjoint(names):
                split.add(key)
                others.update(names)
                joined.update(names)
                is_complete = False
    return split
