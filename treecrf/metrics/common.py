"""What token and span metrics share: pairs of label sequences, checked, and averages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from treecrf.inputs.labels import label_array, label_kind
from treecrf.inputs.values import listed

LabelSequences = Iterable[ArrayLike | str]

AVERAGES = (None, "macro", "micro", "weighted")


def label_arrays(sequences: LabelSequences, name: str) -> list[np.ndarray]:
    """The labels of each sequence as a 1-D array of str, int or bool."""
    if (
        isinstance(sequences, np.ndarray)
        and sequences.ndim == 1
        and sequences.dtype.kind in "biufU"
    ):
        raise TypeError(
            f"{name} is a 1-D array of labels, as of a long table; expected a list of label "
            f"sequences: [{name}] where it does not matter which are neighbors, or else "
            f"np.split({name}, np.cumsum(lengths)[:-1])"
        )
    items = listed(sequences, name)
    return [label_array(item, f"sequence {i} of {name}") for i, item in enumerate(items)]


def paired(
    y_true: LabelSequences, y_pred: LabelSequences
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Check both lists of sequences against each other and return them as lists of arrays."""
    true, pred = label_arrays(y_true, "y_true"), label_arrays(y_pred, "y_pred")
    if len(true) != len(pred):
        raise ValueError(f"y_true has {len(true)} sequences, y_pred has {len(pred)}")
    if not true:
        raise ValueError("y_true and y_pred are empty; expected at least one sequence")
    for i, (a, b) in enumerate(zip(true, pred, strict=True)):
        if a.size != b.size:
            raise ValueError(f"sequence {i}: {a.size} labels in y_true, {b.size} in y_pred")
    if not any(labels.size for labels in true):
        raise ValueError(f"no labels: all {len(true)} sequences are empty")
    _check_one_kind(true, pred)
    return true, pred


def _check_one_kind(y_true: list[np.ndarray], y_pred: list[np.ndarray]) -> None:
    """Raise unless the labels of all sequences are str, or those of all are int or bool."""
    first_of_kind: dict[str, str] = {}
    for name, arrays in (("y_true", y_true), ("y_pred", y_pred)):
        for i, labels in enumerate(arrays):
            if labels.size:
                first_of_kind.setdefault(label_kind(labels), f"sequence {i} of {name}")
    if len(first_of_kind) > 1:
        found = ", ".join(f"{kind} in {where}" for kind, where in first_of_kind.items())
        raise TypeError(f"mixed label types: {found}; expected all str, or all int or bool")


def check_average(average: str | None) -> None:
    """Raise if scikit-learn's averages for other tasks, or anything else, are asked for."""
    if average not in AVERAGES:
        raise ValueError(f"average: expected one of {AVERAGES}, got {average!r}")


def scalar_or_array(score: Any) -> float | np.ndarray:
    """An average as a plain float; an array of one score per label as it is."""
    return score if isinstance(score, np.ndarray) else float(score)
