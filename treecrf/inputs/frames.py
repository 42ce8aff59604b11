"""Data frames of pandas, polars, pyarrow and others, read through narwhals column by column."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np

from treecrf.inputs.column_reader import CHUNK, ColumnReader, ColumnValues
from treecrf.inputs.segmentation import Segmentation, offsets_of_items
from treecrf.inputs.sequences import InputSchema, LongSequences
from treecrf.inputs.tables import check_width, order_of, readers_of, table_of


def is_frame(item: Any) -> bool:
    """Whether an object is a data frame, as far as its class tells."""
    return hasattr(type(item), "columns")


def read_frames(
    frames: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences:
    """Data frames, or a long one, as sequences.

    Parameters
    ----------
    frames : list
        One data frame for each sequence, or one for all.
    segmentation : Segmentation
        Where the sequences of a long one are.
    schema : InputSchema, optional
        What the columns must be like; they are matched by name.
    categorical : "from_dtype", None, or list
        What is a category in training.

    Raises
    ------
    ImportError
        If narwhals is not installed.
    ValueError, TypeError
        If columns differ, or hold what they cannot.
    """
    narwhals = _narwhals()
    whats = ["X"] if segmentation.is_long else [f"sequence {i}" for i in range(len(frames))]
    wrapped = [_wrap(frame, what, narwhals) for frame, what in zip(frames, whats, strict=True)]
    offsets = _offsets(wrapped, segmentation)
    columns = [_columns_of(frame, segmentation.column) for frame in wrapped]
    names = _names_of(columns[0], whats[0])
    orders = _match(columns, names, whats, schema)
    names = names if schema is None else schema.names or names
    ordered = [
        frame if order == list(range(frame.shape[1])) else frame[:, order]
        for frame, order in zip(wrapped, orders, strict=True)
    ]
    parts = [narwhals.concat(run) for _, run in groupby(ordered, _types_of)]
    readers = readers_of(names, len(orders[0]), schema, categorical, offsets)
    cells = [
        _read_column([part[:, j] for part in parts], reader, narwhals)
        for j, reader in enumerate(readers)
    ]
    return table_of(cells, offsets, names)


def _narwhals() -> ModuleType:
    try:
        import narwhals.stable.v2 as narwhals
    except ImportError as error:
        raise ImportError(
            'X holds data frames, which are read with narwhals: pip install "treecrf[frames]"; '
            "or give arrays, such as frame.to_numpy()"
        ) from error
    return narwhals


def _wrap(frame: Any, what: str, narwhals: ModuleType) -> Any:
    try:
        return narwhals.from_native(frame, eager_only=True)
    except narwhals.exceptions.DuplicateError:
        names = getattr(frame, "column_names", None) or list(frame.columns)
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} has more than one column {twice!r}") from None
    except TypeError:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        hint = "; collect it first" if hasattr(type(frame), "collect") else ""
        raise TypeError(
            f"{what} is of type {kind}; expected a data frame in memory, of pandas, polars or "
            f"pyarrow{hint}"
        ) from None


def _offsets(frames: list, segmentation: Segmentation) -> np.ndarray:
    if not segmentation.is_long:
        return offsets_of_items([len(frame) for frame in frames])
    groups, name = None, segmentation.column
    if name is not None:
        if name not in frames[0].columns:
            raise ValueError(f"groups={name!r}: X has no such column")
        groups = frames[0].get_column(name).to_list()
    return segmentation.offsets(len(frames[0]), groups)


def _columns_of(frame: Any, groups: str | None) -> dict[Any, int]:
    """Names and places of the columns that are features."""
    return {name: j for j, name in enumerate(frame.columns) if groups is None or name != groups}


def _names_of(columns: dict[Any, int], what: str) -> tuple[str, ...] | None:
    """Names that are strings; a frame whose columns are numbered has none."""
    are_strings = {isinstance(name, str) for name in columns}
    if are_strings == {True, False}:
        raise TypeError(f"{what}: some names of columns are strings, others are not")
    return tuple(columns) if are_strings == {True} else None


def _match(
    columns: list[dict[Any, int]],
    names: tuple[str, ...] | None,
    whats: list[str],
    schema: InputSchema | None,
) -> list[list[int]]:
    """Places of the features in each frame, in the order of the model, or of the first frame."""
    expected = names if schema is None else schema.names
    owner = whats[0] if schema is None else "the training data"
    orders = []
    for here, what in zip(columns, whats, strict=True):
        own, places = _names_of(here, what), list(here.values())
        if (own is None) != (names is None):
            raise ValueError(f"{what} or {whats[0]} has no names of columns, but the other has")
        if own is None or expected is None:
            check_width(len(here), what, len(columns[0]), schema)
            orders.append(places)
        else:
            orders.append([places[k] for k in order_of(own, expected, what, owner)])
    return orders


def _types_of(frame: Any) -> Any:
    """What frames have in common that can be put together: few large columns are read faster."""
    native = frame.to_native()
    return native.schema if hasattr(native, "schema") else [*native.columns, *native.dtypes]


def _read_column(parts: list, reader: ColumnReader, narwhals: ModuleType) -> ColumnValues:
    typed = any(series.dtype in (narwhals.Categorical, narwhals.Enum) for series in parts)
    if typed and reader.rule.is_category is None:
        reader.rule = replace(reader.rule, is_category=True)
    for series in parts:
        if _is_plain(series, narwhals) and not reader.rule.is_category:
            reader.add_numbers(_as_array(series, narwhals))
            continue
        for start in range(0, len(series), CHUNK):
            reader.add_objects(series[start : start + CHUNK].to_list())
    return reader.finish()


def _is_plain(series: Any, narwhals: ModuleType) -> bool:
    """Whether narwhals knows the values for numbers, or for booleans of which none is missing."""
    if series.dtype == narwhals.Boolean:
        return series.null_count() == 0
    return series.dtype.is_numeric()


def _as_array(series: Any, narwhals: ModuleType) -> np.ndarray:
    large = (narwhals.Decimal, narwhals.Int128, narwhals.UInt128)
    return (series.cast(narwhals.Float64) if series.dtype in large else series).to_numpy()
