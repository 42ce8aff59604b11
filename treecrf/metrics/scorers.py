"""Scorers: metrics as functions of an estimator, its input, and the true labels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from treecrf.metrics.common import LabelSequences, label_arrays
from treecrf.metrics.spans import span_f1_score, span_precision_score, span_recall_score
from treecrf.metrics.tokens import (
    sequence_accuracy_score,
    token_accuracy_score,
    token_f1_score,
    token_precision_score,
    token_recall_score,
)


def log_likelihood(estimator: Any, X: Sequence, y: LabelSequences) -> float:
    """Score a model by the mean of log P(y | X) per position.

    The sum of the log-likelihoods of all sequences, divided by the number of positions. At most 0;
    greater is better.

    Parameters
    ----------
    estimator : object
        A fitted estimator whose method ``predict_log_likelihood(X, y)`` returns an array of shape
        (n_sequences,).
    X : list
        The sequences, in a form that `estimator` accepts.
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
        If the labels of a sequence have mixed or unsupported types.

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
    n_positions = sum(labels.size for labels in label_arrays(y, "y"))
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
    """Return a scorer for the ``scoring=`` parameter of scikit-learn's model selection.

    Parameters
    ----------
    name : str
        A key of `SCORERS`.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)`` returns a float; greater is better. The scorer is a copy, so
        metadata requests set on it do not affect other scorers.

    Raises
    ------
    ValueError
        If there is no scorer with this name.

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
