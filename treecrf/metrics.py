"""Metrics and scorers for lists of label sequences.

Token metrics treat all positions of all sequences as one long classification task and leave the
arithmetic to scikit-learn. Span metrics compare whole spans (``B-PER I-PER``) and leave it to
seqeval, an optional dependency: ``pip install "treecrf[spans]"``.

Everywhere, `y_true` and `y_pred` are lists with one item per sequence; an item is a 1-D array or
list of labels, or a string (one label a character). Labels are all str, or all int or bool;
whole numbers of type float count as int.

Each metric comes as a function of ``(y_true, y_pred)`` and, ready for ``scoring=`` in
scikit-learn's model selection, as a scorer: see `SCORERS` and `get_scorer`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import (
    accuracy_score,
    classification_report,
    confusion_matrix,
    make_scorer,
    precision_recall_fscore_support,
)

__all__ = [
    "SCORERS",
    "get_scorer",
    "log_likelihood",
    "sequence_accuracy",
    "sequence_accuracy_score",
    "span_classification_report",
    "span_f1",
    "span_f1_score",
    "span_precision",
    "span_precision_score",
    "span_recall",
    "span_recall_score",
    "token_accuracy",
    "token_accuracy_score",
    "token_classification_report",
    "token_confusion_matrix",
    "token_f1_macro",
    "token_f1_score",
    "token_f1_weighted",
    "token_precision_macro",
    "token_precision_recall_fscore",
    "token_precision_score",
    "token_recall_macro",
    "token_recall_score",
]

LabelSequences = Iterable[ArrayLike | str]

_AVERAGES = (None, "macro", "micro", "weighted")

# IOE1 is left out: seqeval 1.2.2 misses one-label spans that another span of their type follows.
_SCHEMES = ("IOB1", "IOB2", "IOE2", "IOBES", "BILOU")


# Checking and flattening


def _label_kind(label_type: type) -> str:
    if issubclass(label_type, str):
        return "str"
    if issubclass(label_type, (Integral, np.bool_, float, np.floating)):
        return "number"
    return label_type.__name__


def _whole_numbers(labels: np.ndarray, where: str) -> np.ndarray:
    whole = np.isfinite(labels) & (labels == np.floor(labels))
    if not whole.all():
        t = int(np.argmin(whole))
        raise ValueError(f"{where}, position {t}: label {labels[t]} is not a whole number")
    return labels.astype(np.int64)


def _label_array(labels: ArrayLike | str, where: str) -> np.ndarray:
    """Return the labels of one sequence as a 1-D array of str, int or bool."""
    if isinstance(labels, str):
        labels = list(labels)
    # A list goes through object, for NumPy would turn ["A", 1] into two strings.
    array = np.asarray(labels, dtype=None if hasattr(labels, "dtype") else object)
    if array.ndim != 1:
        raise ValueError(f"{where}: expected a 1-D sequence of labels, got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    holds_objects = array.dtype.kind in "OT"  # T: NumPy's variable-width strings
    types = set(map(type, array)) if holds_objects else {array.dtype.type}
    kinds = {_label_kind(label_type) for label_type in types}
    if kinds not in ({"str"}, {"number"}):
        found = ", ".join(sorted(kinds))
        raise TypeError(f"{where}: labels of type {found}; expected all str, or all int or bool")
    array = np.array(array.tolist()) if holds_objects else array
    return _whole_numbers(array, where) if array.dtype.kind == "f" else array


def _label_arrays(sequences: LabelSequences, name: str) -> list[np.ndarray]:
    if isinstance(sequences, str) or not isinstance(sequences, Iterable):
        given = type(sequences).__name__
        raise TypeError(f"{name}: expected a list of label sequences, got {given}")
    return [_label_array(labels, f"sequence {i} of {name}") for i, labels in enumerate(sequences)]


def _check_one_kind(y_true: list[np.ndarray], y_pred: list[np.ndarray]) -> None:
    """Raise unless the labels of all sequences are str, or those of all are int or bool."""
    first_of_kind: dict[str, str] = {}
    for name, arrays in (("y_true", y_true), ("y_pred", y_pred)):
        for i, labels in enumerate(arrays):
            if labels.size:
                kind = _label_kind(labels.dtype.type)
                first_of_kind.setdefault(kind, f"sequence {i} of {name}")
    if len(first_of_kind) > 1:
        found = ", ".join(f"{kind} in {where}" for kind, where in first_of_kind.items())
        raise TypeError(f"mixed label types: {found}; expected all str, or all int or bool")


def _paired(
    y_true: LabelSequences, y_pred: LabelSequences
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Check both lists of sequences against each other and return them as lists of arrays."""
    true, pred = _label_arrays(y_true, "y_true"), _label_arrays(y_pred, "y_pred")
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


def _concatenate(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([labels for labels in arrays if labels.size])


def _flat(y_true: LabelSequences, y_pred: LabelSequences) -> tuple[np.ndarray, np.ndarray]:
    true, pred = _paired(y_true, y_pred)
    return _concatenate(true), _concatenate(pred)


def _check_average(average: str | None) -> None:
    if average not in _AVERAGES:
        raise ValueError(f"average: expected one of {_AVERAGES}, got {average!r}")


def _scalar_or_array(score: Any) -> float | np.ndarray:
    return score if isinstance(score, np.ndarray) else float(score)


# Token metrics


def token_accuracy_score(y_true: LabelSequences, y_pred: LabelSequences) -> float:
    """Share of positions whose label is right.

    Long sequences weigh more than short ones: all positions count alike.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,)
        True labels (str, or int or bool), one item per sequence.
    y_pred : list of array-like of shape (n_positions,)
        Predicted labels, of the same lengths and type.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, or there are no labels.
    TypeError
        If labels are of mixed or other types.

    Examples
    --------
    >>> from treecrf.metrics import token_accuracy_score
    >>> token_accuracy_score(["aab", "b"], ["abb", "b"])
    0.75
    """
    return float(accuracy_score(*_flat(y_true, y_pred)))


def sequence_accuracy_score(y_true: LabelSequences, y_pred: LabelSequences) -> float:
    """Share of sequences all of whose labels are right.

    Every sequence counts alike, whatever its length; one without positions counts as right.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,)
        True labels (str, or int or bool), one item per sequence.
    y_pred : list of array-like of shape (n_positions,)
        Predicted labels, of the same lengths and type.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, or there are no labels.
    TypeError
        If labels are of mixed or other types.

    Examples
    --------
    >>> from treecrf.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score(["aab", "b"], ["abb", "b"])
    0.5
    """
    pairs = zip(*_paired(y_true, y_pred), strict=True)
    return float(np.mean([np.array_equal(true, pred) for true, pred in pairs]))


def token_precision_recall_fscore(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: ArrayLike | None = None,
    average: str | None = None,
    zero_division: float | str = 0.0,
) -> tuple:
    """Precision, recall, F1 and support of each label over all positions.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,)
        True labels (str, or int or bool), one item per sequence.
    y_pred : list of array-like of shape (n_positions,)
        Predicted labels, of the same lengths and type.
    labels : array-like of shape (n_labels,), default=None
        The labels to report or average over, in this order. By default all labels in `y_true` or
        `y_pred`, sorted.
    average : {None, "macro", "micro", "weighted"}, default=None
        None gives one value per label, "macro" their plain mean, "weighted" their mean weighted
        by support, "micro" the value of the pooled counts.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Value of a precision or recall whose denominator is 0; see scikit-learn.

    Returns
    -------
    precision, recall, fscore : float, or ndarray of shape (n_labels,) of float64
        Arrays if `average` is None.
    support : None, or ndarray of shape (n_labels,) of int64
        Number of positions with each true label; None if averaged.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, there are no labels, or `average` is
        unknown.
    TypeError
        If labels are of mixed or other types.

    See Also
    --------
    sklearn.metrics.precision_recall_fscore_support : The same for flat labels.

    Examples
    --------
    >>> from treecrf.metrics import token_precision_recall_fscore
    >>> precision, recall, fscore, support = token_precision_recall_fscore(
    ...     ["aab", "b"], ["abb", "b"])
    >>> recall
    array([0.5, 1. ])
    >>> support
    array([2, 2])
    """
    _check_average(average)
    return precision_recall_fscore_support(
        *_flat(y_true, y_pred), labels=labels, average=average, zero_division=zero_division
    )


def token_precision_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: ArrayLike | None = None,
    average: str | None = "macro",
    zero_division: float | str = 0.0,
) -> float | np.ndarray:
    """Precision over all positions, averaged over the labels.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels, one item per sequence.
    labels : array-like of shape (n_labels,), default=None
        The labels to average over; by default all in `y_true` or `y_pred`.
    average : {None, "macro", "micro", "weighted"}, default="macro"
        As in `token_precision_recall_fscore`.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Precision of a label that is never predicted.

    Returns
    -------
    float, or ndarray of shape (n_labels,) of float64
        An array if `average` is None.

    Raises
    ------
    ValueError, TypeError
        As `token_precision_recall_fscore`.

    Examples
    --------
    >>> from treecrf.metrics import token_precision_score
    >>> token_precision_score(["aabb", "b"], ["abbb", "b"])
    0.875
    """
    scores = token_precision_recall_fscore(
        y_true, y_pred, labels=labels, average=average, zero_division=zero_division
    )
    return _scalar_or_array(scores[0])


def token_recall_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: ArrayLike | None = None,
    average: str | None = "macro",
    zero_division: float | str = 0.0,
) -> float | np.ndarray:
    """Recall over all positions, averaged over the labels.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels, one item per sequence.
    labels : array-like of shape (n_labels,), default=None
        The labels to average over; by default all in `y_true` or `y_pred`.
    average : {None, "macro", "micro", "weighted"}, default="macro"
        As in `token_precision_recall_fscore`.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Recall of a label that never occurs in `y_true`.

    Returns
    -------
    float, or ndarray of shape (n_labels,) of float64
        An array if `average` is None.

    Raises
    ------
    ValueError, TypeError
        As `token_precision_recall_fscore`.

    Examples
    --------
    >>> from treecrf.metrics import token_recall_score
    >>> token_recall_score(["aabb", "b"], ["abbb", "b"])
    0.75
    """
    scores = token_precision_recall_fscore(
        y_true, y_pred, labels=labels, average=average, zero_division=zero_division
    )
    return _scalar_or_array(scores[1])


def token_f1_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: ArrayLike | None = None,
    average: str | None = "macro",
    zero_division: float | str = 0.0,
) -> float | np.ndarray:
    """F1, the harmonic mean of precision and recall, averaged over the labels.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels, one item per sequence.
    labels : array-like of shape (n_labels,), default=None
        The labels to average over; by default all in `y_true` or `y_pred`.
    average : {None, "macro", "micro", "weighted"}, default="macro"
        As in `token_precision_recall_fscore`. The "micro" average over all labels is the accuracy.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        F1 of a label that is neither true nor predicted anywhere.

    Returns
    -------
    float, or ndarray of shape (n_labels,) of float64
        An array if `average` is None.

    Raises
    ------
    ValueError, TypeError
        As `token_precision_recall_fscore`.

    Examples
    --------
    >>> from treecrf.metrics import token_f1_score
    >>> round(token_f1_score(["aabb", "b"], ["abbb", "b"]), 4)
    0.7619
    """
    scores = token_precision_recall_fscore(
        y_true, y_pred, labels=labels, average=average, zero_division=zero_division
    )
    return _scalar_or_array(scores[2])


def token_classification_report(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: ArrayLike | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float | str = 0.0,
) -> str | dict:
    """Table of precision, recall, F1 and support of each label and their averages.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels, one item per sequence.
    labels : array-like of shape (n_labels,), default=None
        The labels to report, in this order; by default all in `y_true` or `y_pred`, sorted.
    digits : int, default=2
        Decimal places of the text.
    output_dict : bool, default=False
        Return a dict in place of text.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Value of a precision or recall whose denominator is 0.

    Returns
    -------
    str or dict
        As from scikit-learn's ``classification_report``.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, or there are no labels.
    TypeError
        If labels are of mixed or other types.

    Examples
    --------
    >>> from treecrf.metrics import token_classification_report
    >>> print(token_classification_report(["aab", "b"], ["abb", "b"]))
                  precision    recall  f1-score   support
    <BLANKLINE>
               a       1.00      0.50      0.67         2
               b       0.67      1.00      0.80         2
    <BLANKLINE>
        accuracy                           0.75         4
       macro avg       0.83      0.75      0.73         4
    weighted avg       0.83      0.75      0.73         4
    <BLANKLINE>
    """
    return classification_report(
        *_flat(y_true, y_pred),
        labels=labels,
        digits=digits,
        output_dict=output_dict,
        zero_division=zero_division,
    )


def token_confusion_matrix(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    labels: ArrayLike | None = None,
    normalize: str | None = None,
) -> np.ndarray:
    """Count the positions of each true label (row) by predicted label (column).

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels, one item per sequence.
    labels : array-like of shape (n_labels,), default=None
        The labels to count, in this order; by default all in `y_true` or `y_pred`, sorted.
    normalize : {None, "true", "pred", "all"}, default=None
        Divide by the sums of the rows, of the columns, or of everything.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        Counts (int64), or shares (float64) if normalized.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, or there are no labels.
    TypeError
        If labels are of mixed or other types.

    Examples
    --------
    >>> from treecrf.metrics import token_confusion_matrix
    >>> token_confusion_matrix(["aab", "b"], ["abb", "b"])
    array([[1, 1],
           [0, 2]])
    """
    return confusion_matrix(*_flat(y_true, y_pred), labels=labels, normalize=normalize)


# Span metrics


def _import_seqeval() -> tuple[ModuleType, ModuleType]:
    try:
        from seqeval import metrics, scheme
    except ImportError as error:
        raise ImportError('span metrics need seqeval: pip install "treecrf[spans]"') from error
    return metrics, scheme


def _span_options(
    scheme: str | None, mode: str | None, zero_division: float
) -> tuple[ModuleType, dict[str, Any]]:
    """Return seqeval's metrics module and its keyword arguments for the given options."""
    if mode not in (None, "strict"):
        raise ValueError(f"mode: expected None or 'strict', got {mode!r}")
    if scheme not in (None, *_SCHEMES):
        raise ValueError(f"scheme: expected None or one of {_SCHEMES}, got {scheme!r}")
    # seqeval would ignore one without the other, and its score and report would disagree.
    if (scheme is None) != (mode is None):
        raise ValueError(
            f"got scheme={scheme!r} with mode={mode!r}: mode='strict' and a scheme go together"
        )
    # seqeval would read every other value (nan, say) as 1.
    if zero_division not in (0, 1):
        raise ValueError(f"zero_division: expected 0 or 1, got {zero_division!r}")
    metrics, schemes = _import_seqeval()
    token_class = getattr(schemes, scheme) if scheme else None
    return metrics, {"scheme": token_class, "mode": mode, "zero_division": zero_division}


def _check_span_labels(sequences: list[list[str]], name: str, scheme: str | None) -> None:
    """Raise at a label that seqeval would misread: as outside, or as a span of a wrong type."""
    prefixes = sorted(set((scheme or "IOBES").rstrip("12")) - {"O"})
    label_pattern = re.compile(f"O|[{''.join(prefixes)}](-.+)?")
    for i, labels in enumerate(sequences):
        for t, label in enumerate(labels):
            if not label_pattern.fullmatch(label):
                hint = "" if scheme else " (or mode='strict' and the scheme of the labels)"
                raise ValueError(
                    f"sequence {i} of {name}, position {t}: label {label!r}; expected 'O', or one "
                    f"of {', '.join(prefixes)} followed by '-' and a type{hint}"
                )


def _span_labels(
    y_true: LabelSequences, y_pred: LabelSequences, scheme: str | None
) -> list[list[list[str]]]:
    """Return both arguments as the lists of lists of str that seqeval wants."""
    both = []
    for name, arrays in zip(("y_true", "y_pred"), _paired(y_true, y_pred), strict=True):
        kinds = {_label_kind(labels.dtype.type) for labels in arrays if labels.size}
        if kinds != {"str"}:
            raise TypeError(f"{name}: labels are numbers; spans need str labels such as 'B-PER'")
        sequences = [labels.tolist() for labels in arrays]
        _check_span_labels(sequences, name, scheme)
        both.append(sequences)
    return both


def _span_score(
    metric: str,
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    average: str | None,
    scheme: str | None,
    mode: str | None,
    zero_division: float,
) -> float | np.ndarray:
    _check_average(average)
    metrics, options = _span_options(scheme, mode, zero_division)
    true, pred = _span_labels(y_true, y_pred, scheme)
    score = getattr(metrics, metric)
    # Without spans seqeval's macro average is the mean of nothing, its other averages are not.
    if average == "macro" and not len(score(true, pred, average=None, **options)):
        return float(zero_division)
    return _scalar_or_array(score(true, pred, average=average, **options))


def span_precision_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    average: str | None = "micro",
    scheme: str | None = None,
    mode: str | None = None,
    zero_division: float = 0.0,
) -> float | np.ndarray:
    """Share of the predicted spans that are right: same type, first and last position.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels (str), one item per sequence.
    average : {None, "macro", "micro", "weighted"}, default="micro"
        As in `span_f1_score`.
    scheme : {None, "IOB1", "IOB2", "IOE2", "IOBES", "BILOU"}, default=None
        As in `span_f1_score`; goes with ``mode="strict"``.
    mode : {None, "strict"}, default=None
        As in `span_f1_score`; goes with `scheme`.
    zero_division : {0, 1}, default=0.0
        Precision where no span is predicted.

    Returns
    -------
    float, or ndarray of shape (n_types,) of float64
        An array, in the order of the sorted types, if `average` is None.

    Raises
    ------
    ImportError, ValueError, TypeError
        As `span_f1_score`.

    Examples
    --------
    >>> from treecrf.metrics import span_precision_score
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "O", "O"]]
    >>> span_precision_score(y_true, y_pred)
    1.0
    """
    return _span_score(
        "precision_score",
        y_true,
        y_pred,
        average=average,
        scheme=scheme,
        mode=mode,
        zero_division=zero_division,
    )


def span_recall_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    average: str | None = "micro",
    scheme: str | None = None,
    mode: str | None = None,
    zero_division: float = 0.0,
) -> float | np.ndarray:
    """Share of the true spans that are found: same type, first and last position.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels (str), one item per sequence.
    average : {None, "macro", "micro", "weighted"}, default="micro"
        As in `span_f1_score`.
    scheme : {None, "IOB1", "IOB2", "IOE2", "IOBES", "BILOU"}, default=None
        As in `span_f1_score`; goes with ``mode="strict"``.
    mode : {None, "strict"}, default=None
        As in `span_f1_score`; goes with `scheme`.
    zero_division : {0, 1}, default=0.0
        Recall where `y_true` has no span.

    Returns
    -------
    float, or ndarray of shape (n_types,) of float64
        An array, in the order of the sorted types, if `average` is None.

    Raises
    ------
    ImportError, ValueError, TypeError
        As `span_f1_score`.

    Examples
    --------
    >>> from treecrf.metrics import span_recall_score
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "O", "O"]]
    >>> span_recall_score(y_true, y_pred)
    0.5
    """
    return _span_score(
        "recall_score",
        y_true,
        y_pred,
        average=average,
        scheme=scheme,
        mode=mode,
        zero_division=zero_division,
    )


def span_f1_score(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    average: str | None = "micro",
    scheme: str | None = None,
    mode: str | None = None,
    zero_division: float = 0.0,
) -> float | np.ndarray:
    """F1 over spans, the harmonic mean of span precision and span recall.

    A predicted span is right if a true span of the same type has the same first and last position.
    A label is ``O`` or a prefix, ``-`` and the type of its span (``B-PER``); a prefix alone stands
    for spans of one nameless type.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,)
        True labels (str), one item per sequence.
    y_pred : list of array-like of shape (n_positions,)
        Predicted labels, of the same lengths.
    average : {None, "macro", "micro", "weighted"}, default="micro"
        "micro" pools the counts of all types (as the CoNLL shared tasks do), None gives one value
        per type, "macro" their plain mean, "weighted" their mean weighted by true spans.
    scheme : {None, "IOB1", "IOB2", "IOE2", "IOBES", "BILOU"}, default=None
        How ``mode="strict"`` reads the prefixes; needed there, and of no use elsewhere.
    mode : {None, "strict"}, default=None
        None reads prefixes ``B, I, E, S`` with forgiveness, as the CoNLL evaluation script does:
        any change of type begins a span, even at an ``I-``. "strict" counts only spans that
        `scheme` allows.
    zero_division : {0, 1}, default=0.0
        Value of a precision or recall whose denominator is 0.

    Returns
    -------
    float, or ndarray of shape (n_types,) of float64
        An array, in the order of the sorted types, if `average` is None.

    Raises
    ------
    ImportError
        If seqeval is not installed.
    ValueError
        If the numbers of sequences or their lengths differ, there are no labels, a label is no
        span label, an option is unknown, or only one of `scheme` and `mode` is given.
    TypeError
        If labels are not str.

    Examples
    --------
    >>> from treecrf.metrics import span_f1_score
    >>> y_true = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    >>> y_pred = [["B-PER", "O", "O"], ["B-LOC", "O"]]
    >>> span_f1_score(y_true, y_pred)
    0.5
    >>> span_f1_score(y_true, y_pred, average=None)
    array([1., 0.])
    >>> span_f1_score([["I-PER", "O"]], [["B-PER", "O"]])
    1.0
    >>> span_f1_score([["I-PER", "O"]], [["B-PER", "O"]], scheme="IOB2", mode="strict")
    0.0
    """
    return _span_score(
        "f1_score",
        y_true,
        y_pred,
        average=average,
        scheme=scheme,
        mode=mode,
        zero_division=zero_division,
    )


def span_classification_report(
    y_true: LabelSequences,
    y_pred: LabelSequences,
    *,
    scheme: str | None = None,
    mode: str | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float = 0.0,
) -> str | dict:
    """Table of precision, recall, F1 and support of each type of span and their averages.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,)
        True and predicted labels (str), one item per sequence.
    scheme : {None, "IOB1", "IOB2", "IOE2", "IOBES", "BILOU"}, default=None
        As in `span_f1_score`; goes with ``mode="strict"``.
    mode : {None, "strict"}, default=None
        As in `span_f1_score`; goes with `scheme`.
    digits : int, default=2
        Decimal places of the text.
    output_dict : bool, default=False
        Return a dict in place of text.
    zero_division : {0, 1}, default=0.0
        Value of a precision or recall whose denominator is 0.

    Returns
    -------
    str or dict
        As from seqeval's ``classification_report``.

    Raises
    ------
    ImportError, ValueError, TypeError
        As `span_f1_score`; ValueError also if there is no span in `y_true` or `y_pred`.

    Examples
    --------
    >>> from treecrf.metrics import span_classification_report
    >>> y_true = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    >>> y_pred = [["B-PER", "O", "O"], ["B-LOC", "O"]]
    >>> print(span_classification_report(y_true, y_pred))
                  precision    recall  f1-score   support
    <BLANKLINE>
             LOC       1.00      1.00      1.00         1
             PER       0.00      0.00      0.00         1
    <BLANKLINE>
       micro avg       0.50      0.50      0.50         2
       macro avg       0.50      0.50      0.50         2
    weighted avg       0.50      0.50      0.50         2
    <BLANKLINE>
    """
    metrics, options = _span_options(scheme, mode, zero_division)
    true, pred = _span_labels(y_true, y_pred, scheme)
    if not len(metrics.f1_score(true, pred, average=None, **options)):
        raise ValueError("nothing to report: no span in y_true or y_pred")
    return metrics.classification_report(
        true, pred, digits=digits, output_dict=output_dict, **options
    )


# Scorers


def log_likelihood(estimator: Any, X: Sequence, y: LabelSequences) -> float:
    """Scorer: mean log P(y | X) per position.

    The sum of the sequences' log-likelihoods over the number of their positions. At most 0;
    greater is better.

    Parameters
    ----------
    estimator : object
        A fitted estimator with a method ``predict_log_likelihood(X, y)`` that gives an array of
        shape (n_sequences,).
    X : list
        The sequences, in a form that `estimator` takes.
    y : list of array-like of shape (n_positions,)
        True labels, one item per sequence.

    Returns
    -------
    float
        Mean log-likelihood per position, in nats.

    Raises
    ------
    ValueError
        If there are no labels.
    TypeError
        If the labels of a sequence are of mixed or other types.

    Examples
    --------
    >>> import numpy as np
    >>> from treecrf.metrics import log_likelihood
    >>> class FairCoin:
    ...     def predict_log_likelihood(self, X, y):
    ...         return np.array([len(labels) * np.log(0.5) for labels in y])
    >>> round(log_likelihood(FairCoin(), [None, None], ["HTT", "H"]), 4)
    -0.6931
    """
    n_positions = sum(labels.size for labels in _label_arrays(y, "y"))
    if n_positions == 0:
        raise ValueError("y has no labels")
    return float(np.sum(estimator.predict_log_likelihood(X, y)) / n_positions)


token_accuracy = make_scorer(token_accuracy_score)
sequence_accuracy = make_scorer(sequence_accuracy_score)
token_precision_macro = make_scorer(token_precision_score, average="macro")
token_recall_macro = make_scorer(token_recall_score, average="macro")
token_f1_macro = make_scorer(token_f1_score, average="macro")
token_f1_weighted = make_scorer(token_f1_score, average="weighted")
span_precision = make_scorer(span_precision_score)
span_recall = make_scorer(span_recall_score)
span_f1 = make_scorer(span_f1_score)

#: All scorers by name.
SCORERS: dict[str, Callable[[Any, Sequence, LabelSequences], float]] = {
    "token_accuracy": token_accuracy,
    "sequence_accuracy": sequence_accuracy,
    "token_precision_macro": token_precision_macro,
    "token_recall_macro": token_recall_macro,
    "token_f1_macro": token_f1_macro,
    "token_f1_weighted": token_f1_weighted,
    "span_precision": span_precision,
    "span_recall": span_recall,
    "span_f1": span_f1,
    "log_likelihood": log_likelihood,
}


def get_scorer(name: str) -> Callable[[Any, Sequence, LabelSequences], float]:
    """Return the scorer of that name, for ``scoring=`` in scikit-learn's model selection.

    Parameters
    ----------
    name : str
        A key of `SCORERS`.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)`` gives a float; greater is better. The scorer is a copy, so
        requests for metadata set on it stay with it.

    Raises
    ------
    ValueError
        If there is no scorer of that name.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from treecrf.metrics import get_scorer
    >>> class AlwaysA(BaseEstimator):
    ...     def predict(self, X):
    ...         return ["a" * len(sequence) for sequence in X]
    >>> scorer = get_scorer("token_accuracy")
    >>> scorer(AlwaysA(), ["ABA", "C"], ["aba", "c"])
    0.5
    """
    if name not in SCORERS:
        raise ValueError(f"unknown scorer {name!r}; expected one of {', '.join(SCORERS)}")
    return copy.deepcopy(SCORERS[name])
