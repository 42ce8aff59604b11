"""Metrics and scorers for label sequences.

- **Token metrics** treat all positions of all sequences as one classification task. scikit-learn
  computes them.
- **Span metrics** compare whole spans, such as ``B-PER I-PER``. seqeval computes them, an optional
  dependency: ``pip install "treecrf[spans]"``.

All metrics are functions of ``(y_true, y_pred)``. Both arguments have the form that ``predict``
returns:

- a list with a 1-D array or a list of labels for each sequence;
- or, for a long table, the labels of all positions as one array, list, or column of a data frame.
  Metrics of whole sequences then also need ``lengths`` or ``groups``.

Labels are either all str, or all int or bool. Floats that are whole numbers count as int. Strings
in a list can be labels or sequences of one-character labels; the notes of `token_accuracy_score`
say which.

For the ``scoring`` parameter of scikit-learn's model selection, there are scorers of these metrics:
see `SCORERS`, `get_scorer` and `make_scorer`.
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
