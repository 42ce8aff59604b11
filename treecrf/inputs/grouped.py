"""Grouped data frames, and labels that are a column of data frames, as lists of sequences."""

from __future__ import annotations

from typing import Any

from treecrf.inputs.values import closest_name, column_names, is_frame

# A class of pandas for grouped frames and columns, recognized without importing pandas.
_GROUPS_OF_PANDAS = "ngroups"


def as_groups(items: Any, name: str) -> Any:
    """Return one data frame, or one column, for each group of pandas; other objects unchanged.

    The columns by which frames are grouped are left out.

    Raises
    ------
    TypeError
        If these are groups of polars, whose order is not defined.
    """
    kind = type(items)
    if hasattr(kind, _GROUPS_OF_PANDAS):
        parts = [part for _, part in items]
        if not parts or not is_frame(parts[0]):
            return parts
        there = [name for name in _names_of_keys(items) if name in parts[0].columns]
        return [part.drop(columns=there) for part in parts]
    if kind.__module__.startswith("polars") and kind.__name__ == "GroupBy":
        raise TypeError(
            f"{name} is a polars GroupBy, whose groups have no fixed order; pass the data frame "
            "sorted by group, and groups= with the name of the column"
        )
    return items


def _names_of_keys(grouped: Any) -> list:
    """Return the names of the columns by which frames are grouped; None for other keys."""
    keys = grouped.keys if isinstance(grouped.keys, list) else [grouped.keys]
    return [key if isinstance(key, str) else getattr(key, "name", None) for key in keys]


def label_column(X: Any, name: str, is_long: bool) -> tuple[Any, Any]:
    """Split data frames into features and the column with the labels.

    A string that is not the name of a column may hold one label for each row of a long table.

    Parameters
    ----------
    X : data frame, or list of data frames
    name : str
        Name of the column with the labels.
    is_long : bool
        Whether X is one long table.

    Returns
    -------
    X, y : the other columns, and the labels, or lists of them
        The arguments if X does not hold data frames.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    if is_frame(X):
        return (X, name) if is_long and _are_labels(X, name) else _split(X, name, "X")
    if not isinstance(X, (list, tuple)) or not X or not all(map(is_frame, X)):
        return X, name
    pairs = [_split(frame, name, f"sequence {i}") for i, frame in enumerate(X)]
    return [frame for frame, _ in pairs], [labels for _, labels in pairs]


def _are_labels(frame: Any, text: str) -> bool:
    return text not in column_names(frame) and len(frame) == len(text)


def _split(frame: Any, name: str, where: str) -> tuple[Any, Any]:
    import narwhals.stable.v2 as narwhals

    table = narwhals.from_native(frame, eager_only=True)
    if name not in table.columns:
        raise ValueError(
            f"y={name!r} is not a column of {where}{closest_name(name, table.columns)}"
        )
    labels = table.get_column(name).to_native()
    labels = labels if hasattr(labels, "dtype") else labels.to_pylist()
    return table.drop(name).to_native(), labels


def without_columns(X: Any, names: set[str]) -> Any:
    """Return data frames, or a list of them, without some columns; other objects unchanged."""
    X = as_groups(X, "X")
    if is_frame(X):
        return _without(X, names)
    if isinstance(X, (list, tuple)) and any(map(is_frame, X)):
        return [_without(item, names) if is_frame(item) else item for item in X]
    return X


def _without(frame: Any, names: set[str]) -> Any:
    there = names.intersection(column_names(frame))
    if not there:
        return frame
    import narwhals.stable.v2 as narwhals

    return narwhals.from_native(frame, eager_only=True).drop(*there).to_native()
