"""Lists of dicts, one a position, as CRFsuite takes them: a sparse table with a column a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain, repeat
from operator import methodcaller
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.column_reader import ColumnReader
from treecrf.inputs.segmentation import Segmentation, offsets_of_items
from treecrf.inputs.sequences import (
    CATEGORY,
    InputSchema,
    LongSequences,
    column_name,
    offsets_of,
    position_name,
)
from treecrf.inputs.tables import Places, rules_of, sparse_table_of


def are_dicts(item: Any) -> bool:
    """Whether a sequence begins with a dict."""
    listed = isinstance(item, (list, tuple)) or (isinstance(item, np.ndarray) and item.ndim == 1)
    return listed and len(item) > 0 and isinstance(item[0], Mapping)


def read_dicts(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences:
    """Lists of dicts, or a long one, as sequences.

    Strings are categories, numbers and booleans what they are; None and NaN are missing values, and
    a key that is absent is a category that is absent, False, or 0. Keys that training has not seen
    are ignored.

    Parameters
    ----------
    items : list
        One list of dicts for each sequence, or one for all.
    segmentation : Segmentation
        Where the sequences of a long one are.
    schema : InputSchema, optional
        What the columns must be like.
    categorical : "from_dtype", None, or list
        What is a category in training.

    Raises
    ------
    ValueError, TypeError
        If keys are no strings, or a value is of another kind than others of its key.
    """
    rows = list(chain.from_iterable(items))
    offsets = (
        segmentation.offsets(len(rows))
        if segmentation.is_long
        else offsets_of_items(list(map(len, items)))
    )
    _check_rows(rows, offsets)
    names, starts, positions, values = _by_column(rows, schema)
    data, kinds, categories = np.empty(len(values)), np.empty(len(names), dtype=np.uint8), {}
    for j, rule in enumerate(rules_of(names, len(names), schema, categorical)):
        part = slice(starts[j], starts[j + 1])
        reader = ColumnReader(rule, Places(offsets, column_name(names, j), positions[part]))
        reader.add_objects(values[part].tolist())
        cells = reader.finish()
        data[part], kinds[j] = cells.as_floats(), cells.kind
        if cells.kind == CATEGORY:
            categories[j] = cells.values
    table = sparse.csc_array((data, positions, starts), shape=(len(rows), len(names)))
    return sparse_table_of(table, offsets, names, kinds, categories)


def _check_rows(rows: list, offsets: np.ndarray) -> None:
    odd = {kind for kind in set(map(type, rows)) if not issubclass(kind, Mapping)}
    if odd:
        t = next(t for t, row in enumerate(rows) if type(row) in odd)
        raise TypeError(
            f"{position_name(t, offsets)} is of type {type(rows[t]).__name__}; expected a dict as "
            "at the other positions"
        )


def _by_column(
    rows: list, schema: InputSchema | None
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    """Names of the columns, where each starts among all entries, and their positions and values."""
    positions = np.repeat(np.arange(len(rows)), np.fromiter(map(len, rows), np.int64, len(rows)))
    values = chain.from_iterable(map(methodcaller("values"), rows))
    values = np.fromiter(values, object, len(positions))
    names, columns = _columns(rows, len(positions), schema)
    order = np.argsort(columns, kind="stable")
    order = order[np.count_nonzero(columns < 0) :]
    starts = offsets_of(np.bincount(columns[order], minlength=len(names)))
    return names, starts, positions[order], values[order]


def _columns(rows: list, n: int, schema: InputSchema | None) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the columns, and the column of each entry; -1 for keys not seen in training."""
    keys = chain.from_iterable(rows)
    if schema is not None:
        names = schema.names
        if names is None:
            raise ValueError("the columns of the training data have no names, X holds dicts")
        index = {name: j for j, name in enumerate(names)}
        return names, np.fromiter(map(index.get, keys, repeat(-1)), np.int32, n)
    index = defaultdict(None)
    index.default_factory = index.__len__
    columns = np.fromiter(map(index.__getitem__, keys), np.int32, n)
    odd = [key for key in index if not isinstance(key, str)]
    if odd:
        raise TypeError(f"the key {odd[0]!r} is of type {type(odd[0]).__name__}; expected strings")
    if not index:
        raise ValueError("the sequences have 0 features: all dicts are empty")
    names = sorted(index)
    ranks = np.empty(len(names), dtype=np.int32)
    ranks[[index[name] for name in names]] = np.arange(len(names))
    return tuple(names), ranks[columns]
