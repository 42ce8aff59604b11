"""Lists of dicts, one per position as in CRFsuite: a sparse table with one column per key."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.column_reader import Coder, ColumnReader
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.schema import CATEGORY, InputSchema, column_name
from treecrf.inputs.segmentation import Segmentation, offsets_of_items
from treecrf.inputs.sequences import LongSequences
from treecrf.inputs.tables import CellNames, column_specs, sparse_table_of


def are_dicts(item: Any) -> bool:
    """Return whether a sequence starts with a dict."""
    is_list = isinstance(item, (list, tuple)) or (isinstance(item, np.ndarray) and item.ndim == 1)
    return is_list and len(item) > 0 and isinstance(item[0], Mapping)


def read_dicts(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences:
    """Convert lists of dicts, or one long list, to sequences.

    Strings are categories, and None and NaN are missing values. A key that is absent is a category
    that is absent, False, or 0. Keys that did not occur in training are ignored.

    Parameters
    ----------
    items : list
        One list of dicts for each sequence, or one for all.
    segmentation : Segmentation
        Sequences of a long list.
    schema : InputSchema, optional
        Schema of the training data.
    categorical : "from_dtype", None, or list
        The parameter ``categorical_features``, used without a schema.

    Raises
    ------
    ValueError, TypeError
        If a key is not a string, or the values of a key are of different kinds.
    """
    rows = list(chain.from_iterable(items))
    if segmentation.is_long:
        offsets = segmentation.offsets(len(rows))
    else:
        offsets = offsets_of_items(list(map(len, items)))
    _check_rows(rows, offsets)
    names, starts, positions, values = _by_column(rows, schema)
    data, kinds, categories = np.empty(len(values)), np.empty(len(names), dtype=np.uint8), {}
    for j, spec in enumerate(column_specs(names, len(names), schema, categorical)):
        part = slice(starts[j], starts[j + 1])
        reader = ColumnReader(spec, CellNames(offsets, column_name(names, j), positions[part]))
        reader.add_objects(values[part].tolist())
        column = reader.finish()
        data[part], kinds[j] = column.as_floats(), column.kind
        if column.kind == CATEGORY:
            categories[j] = column.values
    table = sparse.csc_array((data, positions, starts), shape=(len(rows), len(names)))
    return sparse_table_of(table, offsets, names, kinds, categories)


def _check_rows(rows: list, offsets: np.ndarray) -> None:
    invalid = {kind for kind in set(map(type, rows)) if not issubclass(kind, Mapping)}
    if invalid:
        t = next(t for t, row in enumerate(rows) if type(row) in invalid)
        raise TypeError(
            f"{position_name(t, offsets)} is of type {type(rows[t]).__name__}; expected a dict, as "
            "at the other positions"
        )


def _by_column(
    rows: list, schema: InputSchema | None
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    """Group all entries by column.

    Returns
    -------
    names : tuple of str
        Names of the columns.
    starts : int64 array (n_columns + 1,)
        Start of each column among the entries.
    positions, values : arrays (n_entries,)
    """
    positions = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
    values = chain.from_iterable(map(methodcaller("values"), rows))
    values = np.fromiter(values, object, len(positions))
    names, columns = _columns(rows, len(positions), schema)
    order = np.argsort(columns, kind="stable")
    order = order[np.count_nonzero(columns < 0) :]
    starts = offsets_of(np.bincount(columns[order], minlength=len(names)))
    return names, starts, positions[order], values[order]


def _columns(rows: list, n: int, schema: InputSchema | None) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the columns, and the column of each entry; -1 for unseen keys."""
    keys = chain.from_iterable(rows)
    if schema is not None:
        if schema.names is None:
            raise ValueError("X holds dicts, but the columns of the training data have no names")
        return schema.names, Coder(schema.names).codes(keys, n) - 1
    coder = Coder()
    codes = coder.codes(keys, n)
    keys = coder.values if codes.all() else [None]
    invalid = [key for key in keys if not isinstance(key, str)]
    if invalid:
        raise TypeError(
            f"the key {invalid[0]!r} is of type {type(invalid[0]).__name__}; expected strings"
        )
    if not keys:
        raise ValueError("the sequences have 0 features: all dicts are empty")
    names, ranks = coder.ranks()
    return tuple(names), ranks[codes] - 1
