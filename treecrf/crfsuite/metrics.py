"""Metrics of sklearn-crfsuite: those of scikit-learn on the labels of all positions.

Label sequences are lists or arrays. See `treecrf.metrics` for metrics of spans, and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sklearn import metrics


def flat_accuracy_score(y_true: Sequence, y_pred: Sequence) -> float:
    """Return the fraction of correct labels."""
    return metrics.accuracy_score(flattened(y_true), flattened(y_pred))


def flat_precision_score(y_true: Sequence, y_pred: Sequence, **options: Any) -> Any:
    """Return the precision; options are those of `sklearn.metrics.precision_score`."""
    return metrics.precision_score(flattened(y_true), flattened(y_pred), **options)


def flat_recall_score(y_true: Sequence, y_pred: Sequence, **options: Any) -> Any:
    """Return the recall; options are those of `sklearn.metrics.recall_score`."""
    return metrics.recall_score(flattened(y_true), flattened(y_pred), **options)


def flat_f1_score(y_true: Sequence, y_pred: Sequence, **options: Any) -> Any:
    """Return the F1 score; options are those of `sklearn.metrics.f1_score`."""
    return metrics.f1_score(flattened(y_true), flattened(y_pred), **options)


def flat_fbeta_score(y_true: Sequence, y_pred: Sequence, beta: float, **options: Any) -> Any:
    """Return the F-beta score; options are those of `sklearn.metrics.fbeta_score`."""
    return metrics.fbeta_score(flattened(y_true), flattened(y_pred), beta=beta, **options)


def flat_classification_report(
    y_true: Sequence, y_pred: Sequence, labels: Any = None, **options: Any
) -> Any:
    """Return a report; options are those of `sklearn.metrics.classification_report`."""
    return metrics.classification_report(
        flattened(y_true), flattened(y_pred), labels=labels, **options
    )


def sequence_accuracy_score(y_true: Sequence, y_pred: Sequence) -> float:
    """Return the fraction of sequences whose labels are all correct; 0 if there are none."""
    if not len(y_true):
        return 0.0
    pairs = zip(y_true, y_pred, strict=True)
    return sum(list(true) == list(predicted) for true, predicted in pairs) / len(y_true)


def flattened(y: Sequence) -> list:
    """Return the labels of all positions."""
    return list(chain.from_iterable(y))
