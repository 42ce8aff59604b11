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
