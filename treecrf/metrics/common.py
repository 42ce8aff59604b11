"""Helpers shared by token and span metrics: checked pairs of label sequences, and averages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from treecrf.inputs.labels import label_array, label_kind
from treecrf.inputs.values import as_list

LabelSequences = Iterable[ArrayLike | str]

AVERAGES = (None, "macro", "micro", "weighted")


def label_arrays(sequences: LabelSequences, name: str) -> list[np.ndarray]:
    """Return the labels of each sequence as a 1-D array of str, int or bool."""
    if (
        isinstance(sequences, np.ndarray)
        and sequences.ndim == 1
        and sequences.dtype.kind in "biufU"
    ):
        raise TypeError(
            f"{name} is a 1-D array of labels; expected a list of label sequences. Pass "
            f"np.split({name}, np.cumsum(lengths)[:-1]), or [{name}] if sequence boundaries do "
            "not matter"
        )
    items = as_list(sequences, name)
    return [label_array(item, f"sequence {i} of {name}") for i, item in enumerate(items)]


def paired(
    y_true: LabelSequences, y_pred: LabelSequences
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Check that both lists of sequences match, and return them as lists of arrays."""
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
    """Raise unless the labels are either all str, or all int or bool."""
    first_of_kind: dict[str, str] = {}
    for name, arrays in (("y_true", y_true), ("y_pred", y_pred)):
        for i, labels in enumerate(arrays):
            if labels.size:
                first_of_kind.setdefault(label_kind(labels), f"sequence {i} of {name}")
    if len(first_of_kind) > 1:
        found = ", ".join(f"{kind} in {where}" for kind, where in first_of_kind.items())
        raise TypeError(f"mixed label types: {found}; expected all str, or all int or bool")


def check_average(average: str | None) -> None:
    """Raise if the average is unknown, or one of scikit-learn's for other tasks."""
    if average not in AVERAGES:
        raise ValueError(f"average={average!r}; expected one of {AVERAGES}")


def scalar_or_array(score: Any) -> float | np.ndarray:
    """Convert a single score to float; return an array of scores per label unchanged."""
    return score if isinstance(score, np.ndarray) else float(score)
