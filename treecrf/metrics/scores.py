"""Scores of predictions by scikit-learn and seqeval: of single positions and of whole spans."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
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

from treecrf.inputs.labels import label_kind
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.schemes import (
    SCHEME_NAMES,
    find_forbidden,
    letters_of,
    scheme_named,
    split_tag,
    tag_transitions,
)
from treecrf.inputs.segmentation import Segmentation
from treecrf.metrics.common import check_average, positions, sequences, span_score, token_score
from treecrf.utils.typing import LabelsLike

# The letters of tags that seqeval reads without a scheme.
LENIENT_LETTERS = "IOBES"


def token_accuracy_score(y_true: LabelsLike, y_pred: LabelsLike) -> float:
    """Compute the fraction of positions with the correct label.

    All positions count equally, so long sequences have more influence than short ones.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        True and predicted labels (all str, or all int or bool), one item per sequence; or the
        labels of all positions as one array-like. In a list of strings beside a list of sequences,
        each string is a sequence of one-character labels, as in ``fit``.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, there are no labels, or a label is a
        fractional number; or if both arguments are lists of strings, and these are neither tags,
        such as B-PER, nor single characters: pass arrays of labels, or lists of lists.
    TypeError
        If labels have mixed or unsupported types, or only one argument has one item per sequence.

    Examples
    --------
    >>> from treecrf.metrics import token_accuracy_score
    >>> token_accuracy_score([list("aab"), ["b"]], [list("abb"), ["b"]])
    0.75
    >>> token_accuracy_score(["aab", "b"], [list("abb"), ["b"]])
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
        labels of all positions as one array-like, with `lengths` or `groups`. Lists of strings as
        in `token_accuracy_score`, with `lengths` or `groups` always labels.
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
        As in `token_accuracy_score`.
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
    return _token_score(precision_score, y_true, y_pred, labels, average, zero_division)


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
    return _token_score(recall_score, y_true, y_pred, labels, average, zero_division)


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
    return _token_score(f1_score, y_true, y_pred, labels, average, zero_division)


def _token_score(
    score: Callable, y_true: Any, y_pred: Any, labels: Any, average: Any, zero_division: Any
) -> float | np.ndarray:
    """Compute a score of scikit-learn on the labels of all positions."""
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


def _span_labels(arrays: list[np.ndarray], name: str, scheme: str | None) -> list[list[str]]:
    """Return lists of labels, none of which seqeval would misread.

    True labels must follow the scheme. Otherwise, seqeval would leave out those that break its
    rules, and so count fewer true spans than there are.
    """
    if any(labels.size and label_kind(labels) != "str" for labels in arrays):
        raise TypeError(f"{name}: labels are numbers; spans need str labels such as 'B-PER'")
    offsets = offsets_of([labels.size for labels in arrays])
    every = np.concatenate([labels for labels in arrays if labels.size])
    classes, codes = np.unique(every, return_inverse=True)
    letters = LENIENT_LETTERS if scheme is None else letters_of(scheme)
    tags = [split_tag(label, letters) for label in classes.tolist()]
    if None in tags:
        are_tags = np.array([tag is not None for tag in tags])
        first = int(np.argmin(are_tags[codes]))
        hint = "" if scheme else " (or the scheme of the labels)"
        raise ValueError(
            f"{position_name(first, offsets, name)}: label {every[first].item()!r}; expected 'O', "
            f"or one of {', '.join(sorted(set(letters) - {'O'}))} followed by '-' and a type{hint}"
        )
    if scheme is not None and name == "y_true":
        rules = tag_transitions(scheme, tags)
        forbidden = find_forbidden(codes, offsets, classes, *rules, name)
        if forbidden is not None:
            raise ValueError(
                f"{forbidden} is forbidden by scheme={scheme!r}; correct the labels, or "
                "pass the scheme that they follow"
            )
    return [labels.tolist() for labels in arrays]


def _span_arguments(
    y_true: Any,
    y_pred: Any,
    cuts: Segmentation,
    scheme: str | None,
    mode: str | None,
    zero_division: float,
) -> tuple[ModuleType, list[list[list[str]]], dict[str, Any]]:
    """Return seqeval's metrics, its checked true and predicted labels, and keyword arguments."""
    if mode not in (None, "strict"):
        raise ValueError(f"mode={mode!r}; expected None or 'strict'")
    if scheme is None and mode is not None:
        raise ValueError(f"mode={mode!r} without a scheme; expected one of {SCHEME_NAMES}")
    # seqeval would treat any other value, such as nan, as 1.
    if zero_division not in (0, 1):
        raise ValueError(f"zero_division={zero_division!r}; expected 0 or 1")
    try:
        from seqeval import metrics
        from seqeval import scheme as schemes
    except ImportError as error:
        raise ImportError('span metrics need seqeval: pip install "treecrf[spans]"') from error
    keywords: dict[str, Any] = {"zero_division": zero_division}
    if scheme is not None:
        # seqeval ignores a scheme without the mode.
        token_class = getattr(schemes, scheme_named(scheme).upper())
        keywords |= {"scheme": token_class, "mode": "strict"}
    pair = zip(sequences(y_true, y_pred, cuts), ("y_true", "y_pred"), strict=True)
    return metrics, [_span_labels(arrays, name, scheme) for arrays, name in pair], keywords


def _span_score(name: str, average: str | None, *arguments: Any) -> float | np.ndarray:
    check_average(average)
    metrics, pair, options = _span_arguments(*arguments)
    score = getattr(metrics, name)
    # Without any span, seqeval's macro average alone would be the mean of an empty array.
    if average == "macro" and not len(score(*pair, average=None, **options)):
        return float(options["zero_division"])
    value = score(*pair, average=average, **options)
    return value if average is None else float(value)


@span_score
def span_precision_score(
    y_true, y_pred, *, average="micro", scheme=None, mode=None, zero_division=0.0, lengths=None,
    groups=None,
):  # fmt: skip
    """Compute the fraction of predicted spans that are correct: same type, first and last position.

    $parameters
    $options `zero_division` is the precision if no span is predicted.

    $returns

    $raises

    Examples
    --------
    >>> from treecrf.metrics import span_precision_score
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "O", "O"]]
    >>> span_precision_score(y_true, y_pred)
    1.0
    """
    cuts = Segmentation(lengths, groups)
    return _span_score(
        "precision_score", average, y_true, y_pred, cuts, scheme, mode, zero_division
    )


@span_score
def span_recall_score(
    y_true, y_pred, *, average="micro", scheme=None, mode=None, zero_division=0.0, lengths=None,
    groups=None,
):  # fmt: skip
    """Compute the fraction of true spans that are predicted: same type, first and last position.

    $parameters
    $options `zero_division` is the recall if `y_true` has no span.

    $returns

    $raises

    Examples
    --------
    >>> from treecrf.metrics import span_recall_score
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "O", "O"]]
    >>> span_recall_score(y_true, y_pred)
    0.5
    """
    cuts = Segmentation(lengths, groups)
    return _span_score("recall_score", average, y_true, y_pred, cuts, scheme, mode, zero_division)


@span_score
def span_f1_score(
    y_true, y_pred, *, average="micro", scheme=None, mode=None, zero_division=0.0, lengths=None,
    groups=None,
):  # fmt: skip
    """Compute F1 over spans, the harmonic mean of span precision and span recall.

    A predicted span is right if a true span of the same type has the same first and last position.
    A label is ``O`` or a prefix, ``-`` and the type of its span (``B-PER``); a prefix alone stands
    for spans of one nameless type.

    $parameters
    average : {None, "macro", "micro", "weighted"}, default="micro"
        "micro" pools the counts of all types (as the CoNLL shared tasks do), None gives one value
        per type, "macro" their plain mean, "weighted" their mean weighted by true spans.
    scheme : {None, "iob1", "iob2", "ioe2", "iobes", "bilou"}, default=None
        Tagging scheme of the labels, in upper or lower case. Other names of "iob2" are "bio" and
        "bio2", of "iob1" "bio1", of "iobes" "bioes", and of "bilou" "biluo" and "bioul". Only
        spans that are valid in the scheme count. True labels that break its rules are an error.
        Predicted labels that do are no spans: they count neither as found nor as false. None reads
        the prefixes ``B, I, E, S`` leniently, like the CoNLL evaluation script: any change of type
        starts a span, even at an ``I-``. In "iob1", spans begin with ``I-``, and ``B-`` only
        separates a span from one of the same type right before it; a predicted ``B-`` elsewhere is
        no part of a span, as in seqeval, but an ``I-`` after it begins one.
    mode : {None, "strict"}, default=None
        "strict" requires a `scheme`, and has no further effect: a scheme is always strict.
    zero_division : {0, 1}, default=0.0
        Value of a precision or recall whose denominator is 0.
    lengths : array-like of shape (n_sequences,), optional
        Number of positions of each sequence in one long array of labels.
    groups : array-like of shape (n_positions,), optional
        Sequence that each position of one long array of labels belongs to. The positions of a
        sequence must be consecutive.

    $returns

    Raises
    ------
    ImportError
        If seqeval is not installed.
    ValueError
        If the numbers of sequences or their lengths differ, there are no labels, a label is not a
        span label, true labels break the rules of `scheme`, an option is unknown, or `mode` is
        given without `scheme`. The message names the sequence and the position of a label.
    TypeError
        If labels are not str, only one argument has one item per sequence, or the sequences of one
        long array are not given.

    Examples
    --------
    >>> from treecrf.metrics import span_f1_score
    >>> y_true = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    >>> y_pred = [["B-PER", "O", "O"], ["B-LOC", "O"]]
    >>> span_f1_score(y_true, y_pred)
    0.5
    >>> span_f1_score(y_true, y_pred, average=None)
    array([1., 0.])
    >>> span_f1_score([["B-PER", "O"]], [["I-PER", "O"]])
    1.0
    >>> span_f1_score([["B-PER", "O"]], [["I-PER", "O"]], scheme="iob2")
    0.0
    """
    cuts = Segmentation(lengths, groups)
    return _span_score("f1_score", average, y_true, y_pred, cuts, scheme, mode, zero_division)


def span_classification_report(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    scheme: str | None = None,
    mode: str | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float = 0.0,
    lengths: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> str | dict:
    """Build a table of precision, recall, F1, and support per type of span, and their averages.

    Parameters
    ----------
    y_true, y_pred : list of array-like of shape (n_positions,), or one array-like
        As in `span_f1_score`.
    scheme, mode : optional
        As in `span_f1_score`.
    digits : int, default=2
        Number of decimal places in the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.
    zero_division : {0, 1}, default=0.0
        Value of a precision or recall whose denominator is 0.
    lengths, groups : optional
        As in `span_f1_score`.

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
    cuts = Segmentation(lengths, groups)
    metrics, pair, options = _span_arguments(y_true, y_pred, cuts, scheme, mode, zero_division)
    if not len(metrics.f1_score(*pair, average=None, **options)):
        raise ValueError("nothing to report: no span in y_true or y_pred")
    return metrics.classification_report(*pair, digits=digits, output_dict=output_dict, **options)
