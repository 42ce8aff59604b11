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
    """Compute the accuracy: the fraction of positions with the correct label.

    All positions count equally, so long sequences have more influence than short ones.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels: an item for each sequence, or the labels of all positions in one array-like.
        They are all str, or all int or bool.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.

    Returns
    -------
    float
        A number between 0 and 1.

    Raises
    ------
    ValueError
        If the numbers of sequences or their lengths differ, there are no labels, a label is a
        fractional number, or lists of strings have two possible meanings (see the notes).
    TypeError
        If labels have mixed or unsupported types, or only one argument has one item per sequence.

    See Also
    --------
    sequence_accuracy_score : The fraction of sequences without any error.
    token_classification_report : Precision, recall, and F1 of each label.

    Notes
    -----
    A string in a list can be one label, or a sequence of one-character labels as in ``fit``:

    - Beside a list of sequences, strings are sequences.
    - Beside an array or a column of a data frame, strings are labels.
    - In two lists of strings, they are labels if all are tags such as B-PER, or single characters.
      Other strings raise ValueError: pass arrays of labels, or lists of lists.

    Examples
    --------
    >>> from treecrf.metrics import token_accuracy_score
    >>> token_accuracy_score([["a", "a", "b"], ["b"]], [["a", "b", "b"], ["b"]])
    0.75

    The true labels as strings, and labels of all positions in one array:

    >>> token_accuracy_score(["aab", "b"], [["a", "b", "b"], ["b"]])
    0.75
    >>> import numpy as np
    >>> token_accuracy_score(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
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

    All sequences count equally, whatever their length. An empty sequence counts as correct.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, one item per sequence. Or the labels of all positions in one array-like, with
        `lengths` or `groups`. They are all str, or all int or bool.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if the labels are one long array.
    groups : array-like of shape (n_positions,), default=None
        Sequence of each position, if the labels are one long array. The positions of a sequence
        must be consecutive.

    Returns
    -------
    float
        A number between 0 and 1.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`. TypeError also if the sequences of one long array are not given.

    See Also
    --------
    token_accuracy_score : The fraction of positions with the correct label.

    Notes
    -----
    Lists of strings are read as in `token_accuracy_score`. With `lengths` or `groups`, each string
    is one label.

    Examples
    --------
    >>> from treecrf.metrics import sequence_accuracy_score
    >>> y_true, y_pred = [["a", "a", "b"], ["b"]], [["a", "b", "b"], ["b"]]
    >>> sequence_accuracy_score(y_true, y_pred)
    0.5
    >>> sequence_accuracy_score(list("aabb"), list("abbb"), lengths=[3, 1])
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
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `token_accuracy_score`.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.
    labels : array-like of shape (n_labels,), default=None
        The labels to report in this order, or to average over. By default, these are all labels in
        `y_true` or `y_pred`, sorted.
    average : {None, "macro", "micro", "weighted"}, default=None
        How the values of the labels are averaged:

        - None: not at all, which gives one value per label.
        - ``"macro"``: all labels count equally.
        - ``"weighted"``: labels count by their support.
        - ``"micro"``: the counts of all labels are added up first.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Value of a precision, recall or F1 whose denominator is 0. ``"warn"`` is 0 with a warning.

    Returns
    -------
    precision, recall, fscore : float, or float64 array of shape (n_labels,)
        Numbers between 0 and 1, or arrays of one number per label if `average` is None.
    support : int64 array of shape (n_labels,) or None
        Number of positions with each true label. None if the values are averaged.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`. ValueError also if `average` is unknown.

    See Also
    --------
    token_classification_report : The same as a table.
    sklearn.metrics.precision_recall_fscore_support : The function of scikit-learn, for flat labels.

    Examples
    --------
    >>> from treecrf.metrics import token_precision_recall_fscore
    >>> y_true, y_pred = [["a", "a", "b"], ["b"]], [["a", "b", "b"], ["b"]]
    >>> found = token_precision_recall_fscore(y_true, y_pred)
    >>> precision, recall, fscore, support = found
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

    The precision of a label is the fraction of the positions predicted to have it that do have it.

    $parameters
        Precision of a label that is never predicted.

    $returns

    See Also
    --------
    token_recall_score : The counterpart for positions that have the label.
    token_precision_recall_fscore : All measures of each label.

    Examples
    --------
    >>> from treecrf.metrics import token_precision_score
    >>> y_true = [["a", "a", "b", "b"], ["b"]]
    >>> y_pred = [["a", "b", "b", "b"], ["b"]]
    >>> token_precision_score(y_true, y_pred)
    0.875
    >>> token_precision_score(y_true, y_pred, average=None)
    array([1.  , 0.75])
    """
    return _token_score(precision_score, y_true, y_pred, labels, average, zero_division)


@token_score
def token_recall_score(y_true, y_pred, *, labels=None, average="macro", zero_division=0.0):
    """Compute recall over all positions, averaged over the labels.

    The recall of a label is the fraction of the positions with this label that are predicted to
    have it.

    $parameters
        Recall of a label that never occurs in `y_true`.

    $returns

    See Also
    --------
    token_precision_score : The counterpart for positions predicted to have the label.
    token_precision_recall_fscore : All measures of each label.

    Examples
    --------
    >>> from treecrf.metrics import token_recall_score
    >>> y_true = [["a", "a", "b", "b"], ["b"]]
    >>> y_pred = [["a", "b", "b", "b"], ["b"]]
    >>> token_recall_score(y_true, y_pred)
    0.75
    >>> token_recall_score(y_true, y_pred, average=None)
    array([0.5, 1. ])
    """
    return _token_score(recall_score, y_true, y_pred, labels, average, zero_division)


@token_score
def token_f1_score(y_true, y_pred, *, labels=None, average="macro", zero_division=0.0):
    """Compute F1 over all positions, averaged over the labels.

    The F1 of a label is the harmonic mean of its precision and its recall. With ``average="micro"``
    over all labels, it equals the accuracy.

    $parameters
        F1 of a label that is neither true nor predicted anywhere.

    $returns

    See Also
    --------
    token_precision_recall_fscore : All measures of each label.
    span_f1_score : F1 over whole spans.

    Examples
    --------
    >>> from treecrf.metrics import token_f1_score
    >>> y_true = [["a", "a", "b", "b"], ["b"]]
    >>> y_pred = [["a", "b", "b", "b"], ["b"]]
    >>> round(token_f1_score(y_true, y_pred), 4)
    0.7619
    >>> token_f1_score(y_true, y_pred, average=None).round(4)
    array([0.6667, 0.8571])
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
    """Build a table of precision, recall, F1, and support of each label.

    The last rows are averages over the labels.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `token_accuracy_score`.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.
    labels : array-like of shape (n_labels,), default=None
        The labels to report, in this order. By default, these are all labels in `y_true` or
        `y_pred`, sorted.
    digits : int, default=2
        Number of decimal places in the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.
    zero_division : {0.0, 1.0, nan, "warn"}, default=0.0
        Value of a precision, recall or F1 whose denominator is 0. ``"warn"`` is 0 with a warning.

    Returns
    -------
    str or dict
        The table, from ``classification_report`` of scikit-learn. A dict has the values of each
        label in a dict, with numbers that are not rounded.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`.

    See Also
    --------
    token_confusion_matrix : Which labels are confused with each other.
    span_classification_report : The same for spans.

    Examples
    --------
    >>> from treecrf.metrics import token_classification_report
    >>> y_true, y_pred = [["a", "a", "b"], ["b"]], [["a", "b", "b"], ["b"]]
    >>> print(token_classification_report(y_true, y_pred))
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
    """Count the positions by true label (rows) and predicted label (columns).

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `token_accuracy_score`.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.
    labels : array-like of shape (n_labels,), default=None
        The labels of rows and columns, in this order. By default, these are all labels in `y_true`
        or `y_pred`, sorted.
    normalize : {None, "true", "pred", "all"}, default=None
        What the counts are divided by:

        - None: nothing.
        - ``"true"``: the sums of the rows.
        - ``"pred"``: the sums of the columns.
        - ``"all"``: the total.

    Returns
    -------
    int64 or float64 array of shape (n_labels, n_labels)
        Counts (int64), or fractions between 0 and 1 (float64) if they are normalized.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`.

    See Also
    --------
    token_classification_report : Precision, recall, and F1 of each label.

    Examples
    --------
    One *a* is taken for a *b*:

    >>> from treecrf.metrics import token_confusion_matrix
    >>> y_true, y_pred = [["a", "a", "b"], ["b"]], [["a", "b", "b"], ["b"]]
    >>> token_confusion_matrix(y_true, y_pred)
    array([[1, 1],
           [0, 2]])
    >>> token_confusion_matrix(y_true, y_pred, normalize="true")
    array([[0.5, 0.5],
           [0. , 1. ]])
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
    """Compute span precision: the fraction of the predicted spans that are correct.

    A predicted span is correct if a true span of the same type has the same first and last
    position.

    $parameters
    $options
        Precision if no span is predicted.
    $cuts

    $returns

    $raises

    See Also
    --------
    span_f1_score : F1 over spans. It also explains tagging schemes.
    span_recall_score : The fraction of the true spans that are predicted.

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
    """Compute span recall: the fraction of the true spans that are predicted.

    A true span is predicted if a predicted span of the same type has the same first and last
    position.

    $parameters
    $options
        Recall if `y_true` has no span.
    $cuts

    $returns

    $raises

    See Also
    --------
    span_f1_score : F1 over spans. It also explains tagging schemes.
    span_precision_score : The fraction of the predicted spans that are correct.

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

    A predicted span is correct if a true span of the same type has the same first and last
    position. Labels are ``O``, or a prefix, ``-`` and the type of a span, such as ``B-PER``. A
    prefix alone stands for spans of one nameless type.

    $parameters
    average : {None, "macro", "micro", "weighted"}, default="micro"
        How the values of the types of spans are averaged:

        - ``"micro"``: the counts of all types are added up first, as in the CoNLL shared tasks
          [1]_.
        - ``"macro"``: all types count equally.
        - ``"weighted"``: types count by their numbers of true spans.
        - None: not at all, which gives one value per type.
    scheme : {None, "iob1", "iob2", "ioe2", "iobes", "bilou"}, default=None
        Tagging scheme of the labels, in upper or lower case:

        - None reads the prefixes B, I, E and S leniently, like the CoNLL evaluation script. Any
          change of type starts a span, even at an ``I-``.
        - A scheme counts only spans that are valid in it. True labels that break its rules are an
          error. Predicted labels that break them are not part of any span, so they count neither as
          found nor as false.

        Other names of ``"iob2"`` are ``"bio"`` and ``"bio2"``, of ``"iob1"`` ``"bio1"``, of
        ``"iobes"`` ``"bioes"``, and of ``"bilou"`` ``"biluo"`` and ``"bioul"``.
    mode : {None, "strict"}, default=None
        ``"strict"`` requires a `scheme`. It has no further effect, because a scheme is always
        strict.
    zero_division : {0, 1}, default=0.0
        Value of a precision or recall whose denominator is 0.
    $cuts

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

    See Also
    --------
    span_precision_score : The fraction of the predicted spans that are correct.
    span_recall_score : The fraction of the true spans that are predicted.
    span_classification_report : A table of all measures by type.
    treecrf.inspection.find_spans : The spans themselves, with probabilities.

    Notes
    -----
    In ``"iob1"``, spans begin with ``I-``, and ``B-`` only separates a span from one of the same
    type right before it. A predicted ``B-`` elsewhere is not part of any span, as in seqeval, but
    an ``I-`` after it begins one.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz, "Introduction to the CoNLL-2000 shared task:
       chunking", CoNLL 2000.

    Examples
    --------
    >>> from treecrf.metrics import span_f1_score
    >>> y_true = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    >>> y_pred = [["B-PER", "O", "O"], ["B-LOC", "O"]]
    >>> span_f1_score(y_true, y_pred)
    0.5
    >>> span_f1_score(y_true, y_pred, average=None)  # LOC, PER
    array([1., 0.])

    A scheme is stricter than the default:

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
    """Build a table of precision, recall, F1, and support of each type of span.

    The last rows are averages over the types.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `span_f1_score`.
    y_pred : list of array-like of shape (n_positions,), or one array-like
        Predicted labels, in the same form.
    scheme : {None, "iob1", "iob2", "ioe2", "iobes", "bilou"}, default=None
        Tagging scheme of the labels, as in `span_f1_score`.
    mode : {None, "strict"}, default=None
        As in `span_f1_score`.
    digits : int, default=2
        Number of decimal places in the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.
    zero_division : {0, 1}, default=0.0
        Value of a precision or recall whose denominator is 0.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if the labels are one long array.
    groups : array-like of shape (n_positions,), default=None
        Sequence of each position, if the labels are one long array. The positions of a sequence
        must be consecutive.

    Returns
    -------
    str or dict
        The table, from ``classification_report`` of seqeval. A dict has the values of each type in
        a dict, with numbers that are not rounded.

    Raises
    ------
    ImportError, ValueError, TypeError
        As `span_f1_score`. ValueError also if there is no span in `y_true` or `y_pred`.

    See Also
    --------
    span_f1_score : F1 over spans. It also explains tagging schemes.
    token_classification_report : The same for single positions.

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
