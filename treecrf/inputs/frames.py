"""Data frames of pandas, polars, pyarrow and other libraries, read column by column."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from treecrf.inputs.columns import ColumnSpecs, check_width, order_of
from treecrf.inputs.data_warnings import warn_of_dropped_groups, warn_of_time
from treecrf.inputs.forms import is_frame
from treecrf.inputs.frame_columns import read_parts
from treecrf.inputs.paths import refuse_files
from treecrf.inputs.raw_column import are_exact
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.segmentation import Segmentation, refuse_missing_groups
from treecrf.inputs.sequences import LongSequences
from treecrf.inputs.values import closest_name, column_names, index_columns, require_same_names


def column_of(X: Any, name: str) -> list:
    """Return the values of the column of X that ``groups`` names."""
    if not is_frame(X):
        refuse_files(X)
        raise ValueError(
            f"groups={name!r} names a column, but X is not a data frame; expected an array with "
            "the group of each position"
        )
    return _group_column(_wrap(X, "X"), name)


def _group_column(frame: Any, name: str) -> list:
    if name not in frame.columns:
        raise ValueError(f"groups={name!r} is not a column of X{closest_name(name, frame.columns)}")
    return frame.get_column(name).to_list()


def segmentation_of(X: Any, lengths: Any, groups: Any, may_be_empty: bool = False) -> Segmentation:
    """Return the sequences of X, whose groups may be several columns or levels of its index.

    Without arguments, all levels but the last of an index of several levels are the groups.
    """
    plain = Segmentation(lengths, groups, may_be_empty)
    if lengths is not None or isinstance(X, (list, tuple, str, np.ndarray)) or not is_frame(X):
        return plain
    levels = index_levels(X)
    if groups is None:
        names = ()
        columns = [X.index.get_level_values(k) for k in range(len(levels) - 1)]
        if not columns:
            return plain
    else:
        names = groups
        if isinstance(groups, str):
            names = (groups,)
        known = column_names(X)
        is_column = isinstance(groups, str) and groups in known
        if is_column or not _are_names(names, known, levels, len(X)):
            return plain
        columns = [values_of(X, name) for name in names]
    keys = np.empty(len(X), dtype=object)
    columns = [list(column) for column in columns]
    for column in columns:
        refuse_missing_groups(column)
    if len(columns) == 1:
        keys[:] = columns[0]
    else:
        keys[:] = list(zip(*columns, strict=True))
    return Segmentation(None, keys, may_be_empty, names=tuple(names))


def group_column(X: Any, group: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    """Return the names of the groups in training, if X is one data frame with all of them."""
    if group is None or not is_frame(X):
        return None
    names = {group} if isinstance(group, str) else set(group)
    if names <= {*column_names(X), *index_levels(X)}:
        return group
    return None


def values_of(X: Any, name: str) -> Any:
    """Return the values of a column of a data frame, or of a level of its index."""
    if name in column_names(X):
        return column_of(X, name)
    return X.index.get_level_values(name)


def index_levels(X: Any) -> list:
    """Return the names of the levels of the index of a data frame of pandas."""
    return list(getattr(getattr(X, "index", None), "names", []))


def _are_names(groups: Any, columns: list, levels: list, n_rows: int) -> bool:
    """Return whether groups are the names of columns and levels, not the group of each row."""
    if not isinstance(groups, (list, tuple)) or not all(isinstance(name, str) for name in groups):
        return False
    known = [name for name in groups if name in columns or name in levels]
    if known and len(known) < len(groups) < n_rows:
        name = next(name for name in groups if name not in known)
        raise ValueError(
            f"groups={groups!r}: {name!r} is neither a column of X nor a level of its index"
            f"{closest_name(name, [*columns, *levels])}"
        )
    return 0 < len(groups) == len(known) == len(set(groups))


def rows_of(
    X: Any, bounds: list[tuple[int, int]], without: set[str] | frozenset[str] = frozenset()
) -> list:
    """Return parts of a data frame, without some of its columns."""
    frame = _wrap(X, "X")
    if dropped := [name for name in frame.columns if name in without]:
        frame = frame.drop(*dropped)
    return [frame[i:j].to_native() for i, j in bounds]


def concatenated(frames: list) -> Any:
    """Return one long data frame of several ones, with the columns in the order of the first.

    ValueError if large integers would become floats, because the types of a column differ.
    """
    import narwhals.stable.v2 as narwhals

    wrapped = [_wrap(frame, f"sequence {i}") for i, frame in enumerate(frames)]
    names = wrapped[0].columns
    for i, frame in enumerate(wrapped):
        require_same_names(f"sequence {i}", frame.columns, "sequence 0", names)
    ordered = [frame if frame.columns == names else frame.select(names) for frame in wrapped]
    # One selection of a column may cost as much as all columns.
    columns = zip(*(frame.iter_columns() for frame in ordered), strict=True)
    for name, parts in zip(names, columns, strict=True):
        _refuse_inexact(parts, name)
    return narwhals.concat(ordered).to_native()


def _refuse_inexact(parts: tuple, name: Any) -> None:
    """Raise ValueError for a large integer in a column that also has another type."""
    import narwhals.stable.v2 as narwhals

    dtypes = [part.dtype for part in parts]
    if len(set(dtypes)) == 1 or not all(dtype.is_numeric() for dtype in dtypes):
        return
    for i, part in enumerate(parts):
        is_large = part.dtype.is_integer() and not are_exact(part.cast(narwhals.Float64).to_numpy())
        other = next((dtype for dtype in dtypes if not _holds(dtype, part.dtype)), None)
        if is_large and other is not None:
            raise ValueError(
                f"sequence {i}, column {name!r} holds integers beyond 2**53, and other sequences "
                f"values of type {other}, so that they would be rounded; expected a single type, "
                "such as pandas' Int64 for integers with gaps"
            )


def _holds(dtype: Any, integer: Any) -> bool:
    """Return whether columns of two types can be joined without floats."""
    return dtype.is_integer() and dtype.is_signed_integer() == integer.is_signed_integer()


def read_frames(
    frames: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences:
    """Convert data frames, or one long data frame, to sequences."""
    wheres = segmentation.item_names(len(frames))
    group = segmentation.column
    runs = _joined(frames, wheres)
    groups = None
    if group is not None:
        groups = _group_column(runs[0][0], group)
    offsets = segmentation.item_offsets(list(map(len, frames)), groups)
    warn_of_time(frames, offsets)
    others = segmentation.group_columns
    known = None
    if schema is not None:
        known = schema.names
    columns = []
    for frame, _ in runs:
        names = frame.columns
        excluded = index_columns(names, known) | others
        columns.append({name: j for j, name in enumerate(names) if name not in excluded})
    wheres = [where for _, where in runs]
    names = _names_of(columns[0], wheres[0])
    orders = _match(columns, names, wheres, schema, others)
    ordered = _in_order([frame for frame, _ in runs], orders, wheres)
    # In errors, columns without names have the names of the training data.
    specs = ColumnSpecs(known or names, len(orders[0]), schema, categorical)
    return read_parts(ordered, offsets, names, specs)


def _in_order(frames: list, orders: list[list[int]], wheres: list[str]) -> list:
    """Return the features of data frames in one order; few long frames, as they are joined."""
    ordered = [
        frame if order == list(range(frame.shape[1])) else frame[:, order]
        for frame, order in zip(frames, orders, strict=True)
    ]
    if len(ordered) == 1:
        return ordered
    return [frame for frame, _ in _joined([frame.to_native() for frame in ordered], wheres)]


def _joined(frames: list, wheres: list[str]) -> list[tuple[Any, str]]:
    """Join consecutive data frames with the same columns: few long ones are read faster.

    Returns data frames of narwhals, and the name of the first part of each.
    """
    layouts = [_layout(frame) for frame in frames]
    starts = [i for i in range(len(frames)) if i == 0 or layouts[i] != layouts[i - 1]]
    joined = []
    for start, stop in pairwise([*starts, len(frames)]):
        first = _wrap(frames[start], wheres[start])
        if stop > start + 1:
            first = _wrap(_concatenated_natively(first, frames[start:stop]), wheres[start])
        joined.append((first, wheres[start]))
    return joined


def _layout(frame: Any) -> tuple:
    """Return what data frames need to have in common to be joined: columns and their types."""
    if hasattr(frame, "column_names"):
        return type(frame), frame.schema
    return type(frame), column_names(frame), list(getattr(frame, "dtypes", ()))


def _concatenated_natively(first: Any, frames: list) -> Any:
    """Join data frames of one library; it takes longer to convert each to one of narwhals."""
    library = first.implementation.to_native_namespace()
    if hasattr(library, "concat_tables"):
        return library.concat_tables(frames)
    if first.implementation.is_pandas_like():
        return library.concat(frames, ignore_index=True)
    return library.concat(frames)


def _wrap(frame: Any, where: str) -> Any:
    """Return a data frame of narwhals; ``where`` names the frame in error messages."""
    import narwhals.stable.v2 as narwhals  # here, because not every program has data frames

    try:
        return narwhals.from_native(frame, eager_only=True)
    except narwhals.exceptions.DuplicateError:
        names = column_names(frame)
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where} has more than one column {twice!r}") from None
    except TypeError:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        hint = "; collect it first" if hasattr(type(frame), "collect") else ""
        raise TypeError(
            f"{where} is of type {kind}; expected a data frame in memory, such as those of pandas, "
            f"polars or pyarrow{hint}"
        ) from None


def _names_of(columns: dict[Any, int], where: str) -> tuple[str, ...] | None:
    """Return the names of the columns; None if they are numbered."""
    are_strings = {isinstance(name, str) for name in columns}
    if are_strings == {True, False}:
        raise TypeError(f"{where}: some column names are strings, others are not")
    if are_strings == {True}:
        return tuple(columns)
    return None


def _match(
    columns: list[dict[Any, int]],
    names: tuple[str, ...] | None,
    wheres: list[str],
    schema: InputSchema | None,
    groups: set[str],
) -> list[list[int]]:
    """Find the features of each frame, in the order of the model or the first frame."""
    if schema is None:
        expected = names
        owner = wheres[0]
    else:
        expected = schema.names
        owner = "the training data"
    orders = []
    for own_columns, where in zip(columns, wheres, strict=True):
        own = _names_of(own_columns, where)
        indices = list(own_columns.values())
        if own is None and names is not None:
            raise ValueError(f"{wheres[0]} has column names, {where} does not")
        if own is not None and names is None:
            raise ValueError(f"{where} has column names, {wheres[0]} does not")
        if own is None or expected is None:
            check_width(len(own_columns), where, len(columns[0]), schema)
            orders.append(indices)
            continue
        mend = ""
        if schema is not None:
            mend = f"; pass {_features_in(where, groups)}"
        order = order_of(own, expected, where, owner, mend)
        orders.append([indices[k] for k in order])
    return orders


def _features_in(where: str, groups: set[str]) -> str:
    """Write how to select the features of a model, and the groups, of one data frame."""
    frame = "X"
    if where != "X":
        frame = where.replace("sequence ", "X[") + "]"
    names = ", ".join(["*model.feature_names_in_", *map(repr, sorted(groups))])
    return f"{frame}[[{names}]]"


# Grouped frames, and labels that are a column


def as_groups(items: Any, name: str) -> Any:
    """Return a list of the groups of pandas, without the keys; other objects unchanged."""
    kind = type(items)
    if hasattr(kind, "ngroups"):  # grouped frames and columns of pandas
        parts = [part for _, part in items]
        n_rows = len(items.obj)
        warn_of_dropped_groups(n_rows - sum(map(len, parts)), n_rows, name)
        if not parts or not is_frame(parts[0]):
            return parts
        if isinstance(items.keys, list):
            keys = items.keys
        else:
            keys = [items.keys]
        names = {key if isinstance(key, str) else getattr(key, "name", None) for key in keys}
        return [part.drop(columns=[n for n in names if n in part.columns]) for part in parts]
    if kind.__module__.startswith("polars") and kind.__name__ == "GroupBy":
        raise TypeError(
            f"{name} is a polars GroupBy, whose groups have no fixed order; pass the data frame "
            "sorted by group, and groups= with the name of the column"
        )
    return items


def label_column(X: Any, name: str, is_long: bool) -> tuple[Any, Any]:
    """Split data frames, or lists of them, into features and the column with the labels.

    A string that is not the name of a column may hold one label for each row of a long table.
    """
    if is_frame(X) and is_long and name not in column_names(X) and len(X) == len(name):
        return X, name
    return split_column(X, name, "y")


def split_column(X: Any, name: str, argument: str) -> tuple[Any, Any]:
    """Split data frames, or lists of them, into features and the column that an argument names.

    Other objects have no columns, and are returned with the name.
    """
    if is_frame(X):
        return _split(X, name, argument, "X")
    if not isinstance(X, (list, tuple)) or not X or not all(map(is_frame, X)):
        return X, name
    pairs = [_split(frame, name, argument, f"sequence {i}") for i, frame in enumerate(X)]
    return [frame for frame, _ in pairs], [values for _, values in pairs]


def _split(frame: Any, name: str, argument: str, where: str) -> tuple[Any, Any]:
    table = _wrap(frame, where)
    if name not in table.columns:
        hint = closest_name(name, table.columns)
        raise ValueError(f"{argument}={name!r} is not a column of {where}{hint}")
    values = table.get_column(name).to_native()
    if not hasattr(values, "dtype"):
        values = values.to_pylist()
    return table.drop(name).to_native(), values


def without_columns(X: Any, names: set[str]) -> Any:
    """Return data frames, or a list of them, without some columns; other objects unchanged."""
    X = as_groups(X, "X")
    if isinstance(X, (list, tuple)) and any(map(is_frame, X)):
        return [without_columns(item, names) if is_frame(item) else item for item in X]
    dropped = ()
    if is_frame(X):
        dropped = names.intersection(column_names(X))
    if dropped:
        return _wrap(X, "X").drop(*dropped).to_native()
    return X
