"""Sequences of symbols: strings, and 1-D arrays or lists of strings or integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.inputs.columns import ColumnReader, ColumnSpec, category_columns, table_of
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.schema import TYPES, InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import ListedSequences, LongSequences, Sequences
from treecrf.inputs.values import (
    FLOATS,
    characters,
    find_missing,
    plain_array,
    refuse_final_nul,
    short_repr,
    whole_numbers,
)


def are_plain_strings(items: list) -> bool:
    """Return whether all items are strings that need no further checks; this takes little time."""
    return set(map(type, items)) == {str} and all(items) and "\0" not in "".join(items)


def as_symbols(item: Any, where: str) -> Any:
    """Check the symbols of one sequence, a string or an array.

    Returns a string, an array of strings or int64, or an array of objects in which None marks
    missing symbols.
    """
    if isinstance(item, str):
        refuse_final_nul(item, lambda t: f"{where}, position {t}: symbol {short_repr(item[t])}")
        return item
    array = np.asarray(item)
    if np.ma.is_masked(item):
        array = array.astype(object)
        array[np.ma.getmaskarray(item)] = None
    if array.dtype.kind == "T":
        array = array.astype(object)
    missing = find_missing(array) if array.dtype.kind == "O" else None
    if missing is None:
        return _check_present(array, where)
    array = array.copy()
    array[missing] = None
    if not missing.all():
        # Fill in missing symbols instead of dropping them, so that errors count positions right.
        filler = array[int(np.argmin(missing))]
        array[~missing] = _check_present(np.where(missing, filler, array), where)[~missing]
    return array


def _check_present(array: np.ndarray, where: str) -> np.ndarray:
    """Convert symbols, none of them missing, to strings or int64."""
    array = plain_array(array, where, "symbol")
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "fO" and any(issubclass(kind, FLOATS) for kind in set(map(type, array))):
        raise TypeError(
            f"{where} is a 1-D array of floats; expected symbols that are strings or integers, or "
            "an array of shape (positions, 1) for one numeric feature"
        )
    return whole_numbers(array, where, "symbol")


def read_strings(items: list[str], schema: InputSchema | None, categorical: Any) -> Sequences:
    """Convert strings for which `are_plain_strings` is true."""
    dtype = np.dtype("U1")
    if schema is not None:
        schema.check_form("symbols")
        schema.check_symbols(dtype)
    category_columns(1, None, categorical)
    offsets = offsets_of(np.fromiter(map(len, items), dtype=np.int64, count=len(items)))
    return ListedSequences(items=items, form="symbols", offsets=offsets, n_features=1, dtype=dtype)


def read_symbols(
    items: list, offsets: np.ndarray, segmentation: Segmentation, schema: InputSchema | None
) -> Sequences:
    """Convert checked symbols to sequences; if some are missing, to a table of one category."""
    if any(isinstance(item, np.ndarray) and item.dtype.kind == "O" for item in items):
        return _read_with_missing(items, offsets, schema)
    dtype = _common_type(items)
    if schema is not None:
        schema.check_symbols(dtype)
    description = {"form": "symbols", "offsets": offsets, "n_features": 1, "dtype": dtype}
    if segmentation.is_long:
        table = characters(items[0]) if isinstance(items[0], str) else items[0]
        return LongSequences.of(table, **description)
    return ListedSequences(items=segmentation.in_places(_unified(items)), **description)


def _read_with_missing(
    items: list, offsets: np.ndarray, schema: InputSchema | None
) -> LongSequences:
    spec = ColumnSpec(is_category=True)
    if schema is not None:
        known = schema.categories[0]
        held = TYPES[known.dtype.kind]
        spec = ColumnSpec(True, known=known, reason=f"in training all symbols were {held}")
    reader = ColumnReader(spec, lambda position: position_name(position, offsets))
    for item in items:
        reader.add_objects(list(item))
    return table_of([reader.finish()], offsets, None, of_symbols=True)


def _common_type(items: list) -> np.dtype:
    kinds = {"U" if isinstance(item, str) else item.dtype.kind for item in items}
    if len(kinds) > 1:
        raise TypeError("some sequences hold strings, others integers; expected a single type")
    if kinds == {"i"}:
        return np.dtype(np.int64)
    return np.dtype("U1") if all(isinstance(item, str) for item in items) else np.dtype("U")


def _unified(items: list) -> list:
    """Return strings if all sequences are strings, otherwise arrays."""
    if all(isinstance(item, str) for item in items):
        return items
    return [characters(item) if isinstance(item, str) else item for item in items]
