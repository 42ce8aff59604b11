"""Sequences of which nothing occurred in training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.offsets import split
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.sequences import ColumnTable, ListedSequences, LongSequences, Sequences
from treecrf.inputs.values import short_repr
from treecrf.utils.warn import warn


def warn_of_unknown(sequences: Sequences, schema: InputSchema, X: Any, is_long: bool) -> None:
    """Warn of the first sequence that holds something, but nothing that occurred in training.

    Numbers are never unknown.

    Parameters
    ----------
    sequences : Sequences
        Read with the schema.
    schema : InputSchema
        Schema of the training data.
    X : list of sequences, or one long table
        What they were read from.
    is_long : bool
    """
    found = None
    if sequences.form == "symbols":
        found = _find_symbols(sequences, schema)
    elif sequences.form == "sparse" and sequences.names is not None:
        found = _find_dicts(sequences, schema, X, is_long)
    elif schema.is_categorical and sequences.form == "dense":
        found = _find_categories(sequences, schema)
    if found is not None:
        i, what = found
        warn(
            f"nothing in sequence {i} is known: {what} did not occur in training; check how X was "
            "made, such as the case of its letters"
        )


def _find_symbols(sequences: Sequences, schema: InputSchema) -> tuple[int, str] | None:
    known = schema.known_symbols
    if isinstance(sequences, ListedSequences):
        items = sequences.items
    else:
        items = split(sequences.table, sequences.offsets)
    for i, item in enumerate(items):
        # Nearly always, the first symbol is known.
        if (
            len(item)
            and item[0] not in known
            and known.isdisjoint(item if isinstance(item, str) else item.tolist())
        ):
            return i, f"its symbols, such as {short_repr(item[0])},"
    return None


def _find_categories(sequences: Sequences, schema: InputSchema) -> tuple[int, str] | None:
    is_read = isinstance(sequences, LongSequences) and isinstance(sequences.table, ColumnTable)
    if not is_read or any(v is not schema.categories[j] for j, v in sequences.categories.items()):
        return None
    columns, offsets = sequences.table.columns, sequences.offsets
    present = np.flatnonzero(offsets[1:] > offsets[:-1])
    known = np.zeros(len(present), dtype=bool)
    for codes in columns:
        known |= codes[offsets[present]] > 0
    for i in present[~known].tolist():
        rows = slice(offsets[i], offsets[i + 1])
        is_known = any((codes[rows] > 0).any() for codes in columns)
        if not is_known and any((codes[rows] < 0).any() for codes in columns):
            return i, "its categories"
    return None


def _find_dicts(
    sequences: Sequences, schema: InputSchema, X: Any, is_long: bool
) -> tuple[int, str] | None:
    offsets, table = sequences.offsets, sequences.table
    if not isinstance(X, (list, tuple, np.ndarray)) or not sparse.issparse(table):
        return None
    n_values = table.indptr[offsets[1:]] - table.indptr[offsets[:-1]]
    for i in np.flatnonzero(n_values == 0).tolist():
        rows = X[offsets[i] : offsets[i + 1]] if is_long else X[i]
        unknown = _unknown_name(rows, schema)
        if unknown is not None:
            return i, f"its keys and categories, such as {unknown},"
    return None


def _unknown_name(rows: Any, schema: InputSchema) -> str | None:
    """Return an unknown attribute of dicts, or of lists of attributes; None if any is known."""
    index = {name: j for j, name in enumerate(schema.names)}
    found = None
    for row in rows:
        for key, value in (row if isinstance(row, Mapping) else dict.fromkeys(row, True)).items():
            j = index.get(key)
            is_category = j is not None and schema.kinds[j] == CATEGORY
            if j is not None and not (is_category and value not in schema.categories[j]):
                return None
            found = found or (short_repr(key) if j is None else f"{key!r}: {short_repr(value)}")
    return found
