"""Metrics and scorers for label sequences.

Token metrics treat all positions of all sequences as one classification task and are computed by
scikit-learn. Span metrics compare whole spans (``B-PER I-PER``) and are computed by seqeval, an
optional dependency: ``pip install "treecrf[spans]"``.

In all functions, `y_true` and `y_pred` have the form that ``predict`` returns: a list with a 1-D
array or list of labels per sequence, or, for a long table, the labels of all positions as one
array, list, or column of a data frame. Metrics that need whole sequences also need ``lengths`` or
``groups`` in the second case. Labels are either all str, or all int or bool; floats that are whole
numbers count as int.

In a list of strings, each string may be one label, or a sequence of one-character labels, as in
``fit``. If the other argument is a list of sequences, strings are sequences. If it is an array or a
column of a data frame, they are labels. If both arguments are lists of strings, they are labels if
they are tags such as ``B-PER``, or single characters, or if ``lengths`` or ``groups`` are given;
all others raise ValueError. The strings of an array or of a column of a data frame are labels.

Each metric is available as a function of ``(y_true, y_pred)`` and as a scorer for the ``scoring=``
parameter of scikit-learn's model selection; see `SCORERS`, `get_scorer` and `make_scorer`.
"""

from treecrf.metrics.comparison import mcnemar_test, paired_bootstrap
from treecrf.metrics.scorers import (
    SCORERS,
    get_scorer,
    log_likelihood,
    make_scorer,
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
from treecrf.metrics.scores import (
    sequence_accuracy_score,
    span_classification_report,
    span_f1_score,
    span_precision_score,
    span_recall_score,
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
    "make_scorer",
    "mcnemar_test",
    "paired_bootstrap",
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
