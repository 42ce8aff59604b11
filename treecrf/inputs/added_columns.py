"""Sequences and long tables with additional columns, in the form that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treecrf.inputs._dicts import positions_of
from treecrf.inputs._nested import Flattener
from treecrf.inputs.arrays import rows_as_array
from treecrf.inputs.forms import are_dicts, is_frame
from treecrf.inputs.schema import InputSchema
from treecrf.utils.scipy_sparse import sparse


def with_columns(
    x: Any, values: np.ndarray, names: Sequence[str], dropped: Sequence[int] = ()
) -> Any:
    """Append columns of numbers to a sequence or a long table, which keeps its form.

    ``names`` are those of the new columns, and ``dropped`` are indices of columns to leave out of
    an array or a sparse matrix. Symbols become a table with a column of symbols.
    """
    if sparse.issparse(x):
        kept = sparse.csr_array(x)[:, _others(x.shape[1], dropped)]
        return sparse.hstack([kept, sparse.csr_array(values)], format="csr")
    if is_frame(x):
        return _frame_with_columns(x, values, names)
    if are_dicts(x):
        rows = (dict(zip(names, row, strict=True)) for row in values.tolist())
        flat = Flattener(frozenset(names)).rows(list(x))
        return [{**features, **more} for features, more in zip(flat, rows, strict=True)]
    table = _table(x)
    kind = np.float64 if table.dtype.kind in "biuf" else object
    kept = table[:, _others(table.shape[1], dropped)]
    return np.hstack([kept.astype(kind), values.astype(kind)])


def with_dicts(x: Any, schema: InputSchema) -> Any:
    """Return lists of attributes as dicts, if a model takes attributes; others as they are."""
    if schema.takes_attributes and isinstance(x, (list, tuple)) and positions_of([x]) is not None:
        return Flattener().rows(list(x))
    return x


def without_names(x: Any, names: Sequence[str]) -> Any:
    """Return a data frame, or a list of dicts, without some columns of numbers.

    If their keys also have strings in dicts, these are other columns, and remain as attributes.
    """
    if are_dicts(x):
        flat = Flattener(frozenset(names)).rows(list(x))
        return [{key: value for key, value in row.items() if key not in names} for row in flat]
    import narwhals.stable.v2 as narwhals

    table = narwhals.from_native(x, eager_only=True)
    return table.drop(*[name for name in names if name in table.columns]).to_native()


def with_numbered_names(frame: Any, names: Sequence[str]) -> Any:
    """Return a data frame of pandas whose columns with numbers as names have other names."""
    numbered = [name for name in frame.columns if not isinstance(name, str)]
    return frame.rename(columns=dict(zip(numbered, names, strict=True)))


def _others(n: int, dropped: Sequence[int]) -> np.ndarray | slice:
    """Return the indices of the columns that are not dropped."""
    return np.setdiff1d(np.arange(n), dropped) if len(dropped) else slice(None)


def _table(x: Any) -> np.ndarray:
    """Return an array, a list of rows or symbols as a 2-D array."""
    if isinstance(x, str):
        x = list(x)
    plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
    table = x if plain else rows_as_array(x, "X")
    if table.ndim == 1:
        # Numbers that are symbols remain categorical only as strings.
        table = table[:, None].astype(str)
    return table


def _frame_with_columns(frame: Any, values: np.ndarray, names: Sequence[str]) -> Any:
    import narwhals.stable.v2 as narwhals

    table = narwhals.from_native(frame, eager_only=True)
    added = narwhals.from_numpy(
        np.asarray(values), schema=list(names), backend=table.implementation
    )
    if table.implementation.is_pandas_like():
        native = added.to_native()
        native.index = frame.index
        added = narwhals.from_native(native, eager_only=True)
    if not table.columns:
        return added.to_native()
    return narwhals.concat([table, added], how="horizontal").to_native()
