"""Metrics and scorers for lists of label sequences.

Token metrics treat all positions of all sequences as one classification task and are computed by
scikit-learn. Span metrics compare whole spans (``B-PER I-PER``) and are computed by seqeval, an
optional dependency: ``pip install "treecrf[spans]"``.

In all functions, `y_true` and `y_pred` are lists with one item per sequence: a 1-D array or list of
labels, or a string with one label per character. Labels are either all str, or all int or bool;
floats that are whole numbers count as int.

Each metric is available as a function of ``(y_true, y_pred)`` and as a scorer for the ``scoring=``
parameter of scikit-learn's model selection; see `SCORERS` and `get_scorer`.
"""

from treecrf.metrics.scorers import (
    SCORERS,
    get_scorer,
    log_likelihood,
    sequence_accuracy,
    span_f1,
    span_precision,
    span_recall,
    token_accuracy,
    token_f1_macro,
    token_f1_weighted,
    token_precision_macro,
    token_recall_macro,
)
from treecrf.metrics.spans import (
    span_classification_report,
    span_f1_score,
    span_precision_score,
    span_recall_score,
)
from treecrf.metrics.tokens import (
    sequence_accuracy_score,
    token_accuracy_score,
    token_classification_report,
    token_confusion_matrix,
    token_f1_score,
    token_precision_recall_fscore,
    token_precision_score,
    token_recall_score,
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
