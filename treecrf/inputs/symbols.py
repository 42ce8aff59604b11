"""Sequences of symbols: strings, and 1-D arrays or lists of strings or integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.column_reader import ColumnReader, Rule
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import (
    TYPES,
    InputSchema,
    ListedSequences,
    LongSequences,
    Sequences,
    position_name,
)
from treecrf.inputs.tables import table_of
from treecrf.inputs.values import (
    FLOATS,
    characters,
    find_missing,
    plain_array,
    refuse_cut_strings,
    whole_numbers,
)


def as_symbols(item: Any, what: str) -> Any:
    """A string, or an array of strings or of int64; of objects where some are missing: None.

    Raises
    ------
    ValueError, TypeError
        If these are no symbols.
    """
    if isinstance(item, str):
        refuse_cut_strings(item, what, "symbol")
        return item
    array = np.asarray(item)
    if np.ma.is_masked(item):
        array = array.astype(object)
        array[np.ma.getmaskarray(item)] = None
    if array.dtype.kind == "T":
        array = array.astype(object)
    missing = find_missing(array) if array.dtype.kind == "O" else None
    if missing is None:
        return _plain(array, what)
    array = array.copy()
    array[missing] = None
    if not missing.all():
        # The place of a missing symbol is kept, so that messages count right.
        filler = array[int(np.argmin(missing))]
        array[~missing] = _plain(np.where(missing, filler, array), what)[~missing]
    return array


def _plain(array: np.ndarray, what: str) -> np.ndarray:
    array = plain_array(array, what, "symbol")
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "fO" and any(issubclass(kind, FLOATS) for kind in set(map(type, array))):
        raise TypeError(
            f"{what} is a 1-D array of floats; symbols are strings or integers, and a "
            "sequence with one numeric feature has the shape (positions, 1)"
        )
    return whole_numbers(array, what, "symbol")


def read_symbols(
    items: list, offsets: np.ndarray, segmentation: Segmentation, schema: InputSchema | None
) -> Sequences:
    """Symbols, or a long run of them, as sequences; where some are missing as a table."""
    if any(isinstance(item, np.ndarray) and item.dtype.kind == "O" for item in items):
        return _with_gaps(items, offsets, schema)
    dtype = _common_type(items)
    if schema is not None:
        schema.check_symbols(dtype)
    description = {"form": "symbols", "offsets": offsets, "n_features": 1, "dtype": dtype}
    if segmentation.is_long:
        table = characters(items[0]) if isinstance(items[0], str) else items[0]
        return LongSequences.of(table, **description)
    return ListedSequences(items=_of_one_kind(items), **description)


def _with_gaps(items: list, offsets: np.ndarray, schema: InputSchema | None) -> Sequences:
    rule = Rule(is_category=True)
    if schema is not None:
        known = schema.categories[0]
        rule = Rule(True, known=known, reason=f"in training all were {TYPES[known.dtype.kind]}")
    reader = ColumnReader(rule, lambda position: position_name(position, offsets))
    for item in items:
        reader.add_objects(list(item))
    return table_of([reader.finish()], offsets, None, of_symbols=True)


def _common_type(items: list) -> np.dtype:
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
