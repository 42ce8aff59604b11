"""Helpers shared by token and span metrics: checked pairs of labels, and averages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Protocol, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treecrf.inputs.forms import is_frame
from treecrf.inputs.labels import label_array, label_kind
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.schemes import TAG
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import as_list, short_repr
from treecrf.utils.typing import LabelsLike
from treecrf.utils.validation import documented

AVERAGES = (None, "macro", "micro", "weighted")


# What the docstrings of scores say.
TOKENS = {
    "parameters": """Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `token_accuracy_score`.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.
    labels : array-like of shape (n_labels,), default=None
        The labels to average over, or to report in this order. By default, these are all labels in
        `y_true` or `y_pred`, sorted.
    average : {None, "macro", "micro", "weighted"}, default="macro"
        How the values of the labels are averaged, as in `token_precision_recall_fscore`.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0""",
    "returns": """Returns
    -------
    float, or float64 array of shape (n_labels,)
        A number between 0 and 1, or an array of one number per label if `average` is None.

    Raises
    ------
    ValueError, TypeError
        As `token_precision_recall_fscore`.""",
}
SPANS = {
    "parameters": """Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels (str), one item per sequence. Or the labels of all positions in one array-like,
        with `lengths` or `groups`. Lists of strings are read as in `sequence_accuracy_score`.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.""",
    "options": """average : {None, "macro", "micro", "weighted"}, default="micro"
        How the values of the types of spans are averaged, as in `span_f1_score`.
    scheme : {None, "iob1", "iob2", "ioe2", "iobes", "bilou"}, default=None
        Tagging scheme of the labels, as in `span_f1_score`.
    mode : {None, "strict"}, default=None
        As in `span_f1_score`.
    zero_division : {0, 1}, default=0.0""",
    "cuts": """lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if the labels are one long array.
    groups : array-like of shape (n_positions,), default=None
        Sequence of each position, if the labels are one long array. The positions of a sequence
        must be consecutive.""",
    "returns": """Returns
    -------
    float, or float64 array of shape (n_types,)
        A number between 0 and 1. If `average` is None, an array of one number per type of span, in
        the order of the sorted types.""",
    "raises": """Raises
    ------
    ImportError, ValueError, TypeError
        As `span_f1_score`.""",
}


class Options(TypedDict, total=False):
    """Arguments of scores; those of spans have no labels, those of tokens no scheme and no cuts."""

    labels: ArrayLike | None
    zero_division: float | str
    scheme: str | None
    mode: str | None
    lengths: ArrayLike | None
    groups: ArrayLike | None


class Score(Protocol):
    """A score: a number, or without an average an array."""

    @overload
    def __call__(
        self,
        y_true: LabelsLike,
        y_pred: LabelsLike,
        *,
        average: str = ...,
        **options: Unpack[Options],
    ) -> float: ...
    @overload
    def __call__(
        self, y_true: LabelsLike, y_pred: LabelsLike, *, average: None, **options: Unpack[Options]
    ) -> NDArray[np.float64]: ...


# Declare the types and complete the docstring of a function.
token_score: Callable[[Callable], Score] = documented(TOKENS)
span_score: Callable[[Callable], Score] = documented(SPANS)


def positions(y_true: LabelsLike, y_pred: LabelsLike) -> tuple[np.ndarray, np.ndarray]:
    """Check that both arguments match, and return the labels of all positions as 1-D arrays."""
    y_true = listed_labels(y_true, "y_true")
    y_pred = listed_labels(y_pred, "y_pred")
    _refuse_strings_of_two_meanings(y_true, y_pred)
    if _are_flat(y_true, y_pred):
        return _flat_pair(y_true, y_pred)
    return tuple(
        np.concatenate([labels for labels in sequences if labels.size])
        for sequences in _sequence_pair(y_true, y_pred)
    )


def sequences(
    y_true: LabelsLike, y_pred: LabelsLike, segmentation: Segmentation
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Check that both arguments match, and return the labels of each sequence as 1-D arrays."""
    y_true = listed_labels(y_true, "y_true")
    y_pred = listed_labels(y_pred, "y_pred")
    if not segmentation.is_long:
        _refuse_strings_of_two_meanings(y_true, y_pred)
    are_flat = _are_flat(y_true, y_pred)
    if are_flat and not segmentation.is_long:
        raise TypeError(
            "y_true and y_pred hold one label per position, but this metric needs whole sequences; "
            "pass lengths= or groups=, or lists of label sequences"
        )
    if not are_flat and segmentation.is_long:
        raise TypeError(
            "y_true and y_pred are lists of label sequences; expected one label per position, "
            "since lengths= or groups= is given"
        )
    if not are_flat:
        return _sequence_pair(y_true, y_pred)
    true, pred = _flat_pair(y_true, y_pred)
    bounds = list(pairwise(segmentation.offsets(len(true), name="y_true").tolist()))
    return [true[i:j] for i, j in bounds], [pred[i:j] for i, j in bounds]


# Form: one label per position, or one item per sequence


def listed_labels(labels: Any, name: str) -> Any:
    """Return an iterator as a list, and an Arrow array as an array of its values."""
    if is_frame(labels):
        raise TypeError(f"{name} is a data frame; expected its column of labels")
    if hasattr(labels, "__array__"):
        return labels if hasattr(labels, "dtype") else read_column(labels).array()
    if isinstance(labels, Iterator):
        return list(labels)
    return labels


def _refuse_strings_of_two_meanings(y_true: Any, y_pred: Any) -> None:
    """Raise ValueError if both arguments are lists of strings that are labels or sequences.

    `fit` reads such a list as sequences of one-character labels, unless it belongs to a long table.
    The strings of an array or a column are labels, as are tags, such as B-NP. With single
    characters, both meanings give the same scores.
    """
    if hasattr(y_true, "dtype") or hasattr(y_pred, "dtype"):
        return
    if not _forms(y_true, "y_true") == _forms(y_pred, "y_pred") == {"string"}:
        return
    strings = dict.fromkeys([*y_true, *y_pred])
    if all(len(text) == 1 for text in strings) or all(map(TAG.fullmatch, strings)):
        return
    example = next(text for text in strings if len(text) != 1)
    raise ValueError(
        f"y_true and y_pred are lists of strings such as {short_repr(example)}, each of which may "
        "be one label or the labels of a sequence; expected arrays, such as np.array(y_true), if "
        "each string is the label of a position, or lists of lists, such as [list(labels) for "
        "labels in y_true], if it is a sequence of one-character labels"
    )


def _are_flat(y_true: Any, y_pred: Any) -> bool:
    """Return whether both arguments hold one label per position, instead of one item per sequence.

    A string is a label, unless the other argument is a list of sequences, as `predict` returns it:
    then it is a sequence of one-character labels, as in `fit`.
    """
    forms = {"y_true": _forms(y_true, "y_true"), "y_pred": _forms(y_pred, "y_pred")}
    all_forms = forms["y_true"] | forms["y_pred"]
    if not all_forms:
        raise ValueError("y_true and y_pred are empty; expected at least one label")
    if "sequence" not in all_forms:
        return True
    flat = "y_pred"
    listed = "y_true"
    if "sequence" in forms["y_pred"]:
        flat = "y_true"
        listed = "y_pred"
    if "label" in forms[flat]:
        raise TypeError(
            f"{flat} holds one label per position, {listed} is a list of label sequences; expected "
            "both in the same form"
        )
    return False


def _forms(labels: Any, name: str) -> set[str]:
    """Return what the items are, by their types: "label", "string" and "sequence"."""
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind != "O":
        kinds = {labels.dtype.type} if labels.size else set()
    else:
        kinds = set(map(type, as_list(labels, name)))
    return set(map(_form, kinds))


def _form(kind: type) -> str:
    """Return what values of a type are."""
    if issubclass(kind, str):
        return "string"
    if hasattr(kind, "__len__") and not issubclass(kind, bytes):
        return "sequence"
    return "label"


# Checks


def _sequence_pair(y_true: Any, y_pred: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Check that both are sequences of the same lengths, and return their labels."""
    true, pred = (
        [label_array(item, f"sequence {i} of {name}") for i, item in enumerate(as_list(y, name))]
        for y, name in ((y_true, "y_true"), (y_pred, "y_pred"))
    )
    hint = ""
    for name, items in (("y_true", y_true), ("y_pred", y_pred)):
        if len(items) and all(isinstance(item, str) for item in items):
            hint = f"; each string in {name} counts as a sequence of one-character labels"
    if len(true) != len(pred):
        raise ValueError(f"y_true has {len(true)} sequences, y_pred has {len(pred)}{hint}")
    for i, (a, b) in enumerate(zip(true, pred, strict=True)):
        if a.size != b.size:
            raise ValueError(f"sequence {i}: {a.size} labels in y_true, {b.size} in y_pred{hint}")
    if not any(labels.size for labels in true):
        raise ValueError(f"no labels: all {len(true)} sequences are empty")
    _check_one_kind(
        (f"sequence {i} of {name}", labels)
        for name, arrays in (("y_true", true), ("y_pred", pred))
        for i, labels in enumerate(arrays)
        if labels.size
    )
    return true, pred


def _flat_pair(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check that both have as many labels, and return them."""
    true = label_array(y_true, "y_true")
    pred = label_array(y_pred, "y_pred")
    if len(true) != len(pred):
        raise ValueError(f"y_true has {len(true)} labels, y_pred has {len(pred)}")
    _check_one_kind((("y_true", true), ("y_pred", pred)))
    return true, pred


def _check_one_kind(arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """Raise unless the labels are either all str, or all int or bool."""
    first_of_kind: dict[str, str] = {}
    for where, labels in arrays:
        first_of_kind.setdefault(label_kind(labels), where)
    if len(first_of_kind) > 1:
        kinds = ", ".join(f"{kind} in {where}" for kind, where in first_of_kind.items())
        raise TypeError(f"mixed label types: {kinds}; expected all str, or all int or bool")


def check_average(average: str | None) -> None:
    """Raise if the average is unknown, or one of scikit-learn's for other tasks."""
    if average not in AVERAGES:
        raise ValueError(f"average={average!r}; expected one of {AVERAGES}")
