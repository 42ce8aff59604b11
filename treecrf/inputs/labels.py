"""Label sequences: checked against their inputs and converted to codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.inputs.reading import as_sequences
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import (
    as_list,
    characters,
    plain_array,
    refuse_final_nul,
    short_repr,
    whole_numbers,
)


@dataclass(frozen=True)
class RawData:
    """Sequences and labels as passed by the user.

    Attributes
    ----------
    X, y : list of sequences and list of label sequences, or one long table and its labels
    segmentation : Segmentation
        Sequences of a long table.
    """

    X: Any
    y: Any
    segmentation: Segmentation

    def read(
        self, schema: InputSchema | None = None, categorical_features: Any = "from_dtype"
    ) -> tuple[Sequences, list[np.ndarray]]:
        """Check and convert both; see `as_sequences` and `as_label_arrays`."""
        sequences = as_sequences(self.X, schema, self.segmentation, categorical_features)
        if sequences.of_symbols and not len(sequences.symbols()):
            raise ValueError("all symbols of X are missing")
        return sequences, as_label_arrays(self.y, sequences.offsets, self.segmentation)


def as_label_arrays(y: Any, offsets: np.ndarray, segmentation: Segmentation) -> list[np.ndarray]:
    """Check that ``y`` holds one label for every position.

    Raises
    ------
    ValueError, TypeError
        If the number of sequences or a length differs, a label is missing, or types are mixed.
    """
    if segmentation.is_long:
        return segmentation.split(label_array(y, "y"), offsets, "y")
    items, lengths = as_list(y, "y"), np.diff(offsets)
    if len(items) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, y has {len(items)}")
    arrays = [label_array(item, f"sequence {i}") for i, item in enumerate(items)]
    for i, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if len(array) != length:
            raise ValueError(f"sequence {i}: {len(array)} labels for {length} positions")
    if len(set(map(label_kind, arrays))) > 1:
        raise TypeError("y mixes strings and numbers; expected all strings or all integers")
    return arrays


def label_array(item: Any, where: str) -> np.ndarray:
    """Convert the labels of one sequence to a 1-D array of strings, integers or booleans.

    Parameters
    ----------
    item : str or array-like of shape (n_positions,)
        A string counts as its characters, and a whole float as an integer.
    where : str
        Name of the sequence in error messages.

    Raises
    ------
    ValueError, TypeError
        If the number of dimensions is not 1, labels are neither all strings nor all numbers, a
        number is not whole or outside the range of int64, or a string ends with NUL.
    """
    if isinstance(item, str):
        refuse_final_nul(item, lambda t: f"{where}, position {t}: label {short_repr(item[t])}")
        return characters(item)
    if np.ma.is_masked(item):
        raise ValueError(f"{where}: labels are masked; expected a label at every position")
    # NumPy alone would convert ["a", 1] to two strings.
    array = np.asarray(item, dtype=None if hasattr(item, "dtype") else object)
    if array.ndim != 1:
        raise ValueError(f"{where}: labels have {array.ndim} dimensions; expected 1")
    array = plain_array(array, where, "label")
    return array if array.dtype.kind in "bU" else whole_numbers(array, where, "label")


def label_kind(array: np.ndarray) -> str:
    """Return the kind of the labels in a result of `label_array`: "str" or "number"."""
    return "str" if array.dtype.kind == "U" else "number"


def encode_labels(arrays: list[np.ndarray], classes: np.ndarray) -> np.ndarray:
    """Return the codes of all labels, one sequence after another.

    Raises
    ------
    ValueError
        If labels are of another type, or one is not among the sorted classes.
    """
    check_kind(arrays, classes)
    flat = np.concatenate(arrays)
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


def check_kind(arrays: list[np.ndarray], classes: np.ndarray) -> None:
    """Raise ValueError if labels are strings and those of the model are numbers, or the reverse."""
    if label_kind(arrays[0]) != label_kind(classes):
        types = {"str": "strings", "number": "integers"}
        here, there = (types[label_kind(array)] for array in (arrays[0], classes))
        raise ValueError(f"y holds {here}, but the labels of the model are {there}")


def find_classes(arrays: list[np.ndarray]) -> np.ndarray:
    """Return the distinct labels, sorted.

    Raises
    ------
    ValueError
        If there is only one label.
    """
    classes = np.unique(np.concatenate(arrays))
    if len(classes) < 2:
        raise ValueError(
            f"y holds only the label {classes[0].item()!r}; expected at least 2 different labels"
        )
    return classes
