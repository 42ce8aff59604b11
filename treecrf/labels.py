"""Label sequences: checked against their inputs and turned into codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from treecrf.sequences import characters


def as_label_arrays(y: Any, lengths: np.ndarray) -> list[np.ndarray]:
    """Check that ``y`` holds one label for every position.

    Raises
    ------
    ValueError, TypeError
        If the number of sequences or a length differs, a label is NaN or None, or types are mixed.
    """
    try:
        items = [y] if isinstance(y, str) else list(y)
    except TypeError:
        raise TypeError(
            f"y is of type {type(y).__name__}; expected a list of label sequences"
        ) from None
    if len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, y has {len(items)}")
    arrays = [_as_labels(item, i) for i, item in enumerate(items)]
    for i, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if len(array) != length:
            raise ValueError(f"sequence {i}: {len(array)} labels for {length} positions")
    kinds = {"i" if array.dtype.kind in "iub" else "U" for array in arrays}
    if len(kinds) > 1:
        raise TypeError("y mixes strings and numbers; labels are all strings or all integers")
    return arrays


def _as_labels(item: Any, i: int) -> np.ndarray:
    if isinstance(item, str):
        return characters(item)
    array = np.asarray(item)
    if array.ndim != 1:
        raise ValueError(f"sequence {i}: labels have {array.ndim} dimensions, expected 1")
    if array.dtype.kind == "f":
        return _whole_numbers(array, i)
    if array.dtype.kind in "iub" or (array.dtype.kind == "U" and isinstance(item, np.ndarray)):
        return array
    for t, label in enumerate(item):
        if not isinstance(label, str):
            raise TypeError(
                f"sequence {i}, position {t}: label {label!r} is of type "
                f"{type(label).__name__}; labels are all strings or all integers"
            )
    return array.astype(str)


def _whole_numbers(array: np.ndarray, i: int) -> np.ndarray:
    whole = np.isfinite(array) & (array == np.floor(array))
    if not whole.all():
        t = int(np.flatnonzero(~whole)[0])
        raise ValueError(f"sequence {i}, position {t}: label {array[t]} is not a whole number")
    return array.astype(np.int64)


def encode_labels(arrays: list[np.ndarray], classes: np.ndarray) -> np.ndarray:
    """Codes of all labels, one sequence after another.

    Raises
    ------
    ValueError
        If a label is not among the (sorted) classes.
    """
    flat = np.concatenate(arrays)
    if (flat.dtype.kind == "U") != (classes.dtype.kind == "U"):
        raise ValueError(f"labels are of type {flat.dtype}, the model's are {classes.dtype}")
    codes = np.minimum(np.searchsorted(classes, flat), len(classes) - 1)
    unknown = classes[codes] != flat
    if unknown.any():
        position = int(np.flatnonzero(unknown)[0])
        ends = np.cumsum([len(array) for array in arrays])
        i = int(np.searchsorted(ends, position, side="right"))
        t = position - int(ends[i] - len(arrays[i]))
        raise ValueError(
            f"sequence {i}, position {t}: label {flat[position].item()!r} was not seen in training"
        )
    return codes.astype(np.int32)


def find_classes(arrays: list[np.ndarray]) -> np.ndarray:
    """The distinct labels, sorted.

    Raises
    ------
    ValueError
        If there is only one.
    """
    classes = np.unique(np.concatenate(arrays))
    if len(classes) < 2:
        raise ValueError(f"y holds only the label {classes[0].item()!r}; at least 2 are needed")
    return classes
