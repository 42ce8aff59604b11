"""Token metrics: all positions of all sequences as one classification task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import (
    accuracy_score,
    classification_report,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
    precision_score,
    recall_score,
)

from treecrf.inputs.offsets import Segmentation
from treecrf.metrics.common import check_average, positions, sequences, token_score
from treecrf.utils.typing import LabelsLike


def token_accuracy_score(y_true: LabelsLike, y_pred: LabelsLike) -> float:
    """Compute the fraction of positions with the correct label.

    All positions count equally, so long sequences have more influence than short ones.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        True and predicted labels (all str, or all int or bool), one item per sequence; or the
        labels of all positions as one array-like.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, there are no labels, or a label is a
        fractional number.
    TypeError
        If labels have mixed or unsupported types, or only one argument has one item per sequence.

    Examples
    --------
    >>> from treecrf.metrics import token_accuracy_score
    >>> token_accuracy_score([list("aab"), ["b"]], [list("abb"), ["b"]])
    0.75
    """
    return float(accuracy_score(*positions(y_true, y_pred)))


def sequence_accuracy_score(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    lengths: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> float:
    """Compute the fraction of sequences whose labels are all correct.

    All sequences count equally, whatever their length; an empty sequence counts as correct.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        True and predicted labels (all str, or all int or bool), one item per sequence; or the
        labels of all positions as one array-like, with `lengths` or `groups`.
    lengths : array-like of shape (n_sequences,), optional
        Number of positions of each sequence in one long array of labels.
    groups : array-like of shape (n_positions,), optional
        Sequence that each position of one long array of labels belongs to. The positions of a
        sequence must be consecutive.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`. TypeError also if the sequences of one long array are not given.

    Examples
    --------
    >>> from treecrf.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([list("aab"), ["b"]], [list("abb"), ["b"]])
    0.5
    """
    pairs = zip(*sequences(y_true, y_pred, Segmentation(lengths, groups)), strict=True)
    return float(np.mean([np.array_equal(true, pred) for true, pred in pairs]))


def token_precision_recall_fscore(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    labels: ArrayLike | None = None,
    average: str | None = None,
    zero_division: float | str = 0.0,
) -> tuple:
    """Compute precision, recall, F1, and support of each label over all positions.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        True and predicted labels (all str, or all int or bool), one item per sequence; or the
        labels of all positions as one array-like.
    labels : array-like of shape (n_labels,), default=None
        The labels to report or average over, in this order. By default all labels in `y_true` or
        `y_pred`, sorted.
    average : {None, "macro", "micro", "weighted"}, default=None
        None returns one value per label, "macro" their unweighted mean, "weighted" their mean
        weighted by support, and "micro" the value of the pooled counts.
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
    ValueError, TypeError
        As `token_accuracy_score`; ValueError also if `average` is unknown.

    See Also
    --------
    sklearn.metrics.precision_recall_fscore_support : The same for flat labels.

    Examples
    --------
    >>> from treecrf.metrics import token_precision_recall_fscore
    >>> precision, recall, fscore, support = token_precision_recall_fscore(
    ...     [list("aab"), ["b"]], [list("abb"), ["b"]])
    >>> recall
    array([0.5, 1. ])
    >>> support
    array([2, 2])
    """
    check_average(average)
    return precision_recall_fscore_support(
        *positions(y_true, y_pred), labels=labels, average=average, zero_division=zero_division
    )


@token_score
def token_precision_score(y_true, y_pred, *, labels=None, average="macro", zero_division=0.0):
    """Compute precision over all positions, averaged over the labels.

    $parameters `zero_division`
        is the precision of a label that is never predicted.

    $returns

    Examples
    --------
    >>> from treecrf.metrics import token_precision_score
    >>> token_precision_score([list("aabb"), ["b"]], [list("abbb"), ["b"]])
    0.875
    """
    return _score(precision_score, y_true, y_pred, labels, average, zero_division)


@token_score
def token_recall_score(y_true, y_pred, *, labels=None, average="macro", zero_division=0.0):
    """Compute recall over all positions, averaged over the labels.

    $parameters `zero_division`
        is the recall of a label that never occurs in `y_true`.

    $returns

    Examples
    --------
    >>> from treecrf.metrics import token_recall_score
    >>> token_recall_score([list("aabb"), ["b"]], [list("abbb"), ["b"]])
    0.75
    """
    return _score(recall_score, y_true, y_pred, labels, average, zero_division)


@token_score
def token_f1_score(y_true, y_pred, *, labels=None, average="macro", zero_division=0.0):
    """Compute F1, the harmonic mean of precision and recall, averaged over the labels.

    $parameters "micro" over all
        labels equals accuracy. `zero_division` is the F1 of a label that is neither true nor
        predicted anywhere.

    $returns

    Examples
    --------
    >>> from treecrf.metrics import token_f1_score
    >>> round(token_f1_score([list("aabb"), ["b"]], [list("abbb"), ["b"]]), 4)
    0.7619
    """
    return _score(f1_score, y_true, y_pred, labels, average, zero_division)


def _score(
    score: Callable, y_true: Any, y_pred: Any, labels: Any, average: Any, zero_division: Any
) -> float | np.ndarray:
    check_average(average)
    options = {"labels": labels, "average": average, "zero_division": zero_division}
    value = score(*positions(y_true, y_pred), **options)
    return value if average is None else float(value)


def token_classification_report(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    labels: ArrayLike | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float | str = 0.0,
) -> str | dict:
    """Build a table of precision, recall, F1, and support per label, and their averages.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        As in `token_accuracy_score`.
    labels : array-like of shape (n_labels,), default=None
        The labels to report, in this order; by default all labels in `y_true` or `y_pred`, sorted.
    digits : int, default=2
        Number of decimal places in the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Value of a precision or recall whose denominator is 0.

    Returns
    -------
    str or dict
        As from scikit-learn's ``classification_report``.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`.

    Examples
    --------
    >>> from treecrf.metrics import token_classification_report
    >>> print(token_classification_report([list("aab"), ["b"]], [list("abb"), ["b"]]))
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
        *positions(y_true, y_pred),
        labels=labels,
        digits=digits,
        output_dict=output_dict,
        zero_division=zero_division,
    )


def token_confusion_matrix(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    labels: ArrayLike | None = None,
    normalize: str | None = None,
) -> np.ndarray:
    """Count the positions of each true label (row) by predicted label (column).

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        As in `token_accuracy_score`.
    labels : array-like of shape (n_labels,), default=None
        The labels to count, in this order; by default all labels in `y_true` or `y_pred`, sorted.
    normalize : {None, "true", "pred", "all"}, default=None
        Whether to divide by the row sums, the column sums, or the total.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        Counts (int64), or fractions (float64) if normalized.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`.

    Examples
    --------
    >>> from treecrf.metrics import token_confusion_matrix
    >>> token_confusion_matrix([list("aab"), ["b"]], [list("abb"), ["b"]])
    array([[1, 1],
           [0, 2]])
    """
    return confusion_matrix(*positions(y_true, y_pred), labels=labels, normalize=normalize)
