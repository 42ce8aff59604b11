"""Comparison of two labelers of the same sequences: whether they differ by more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, chdtrc
from sklearn.utils import Bunch, check_random_state

from treecrf.inputs.segmentation import Segmentation
from treecrf.metrics.common import listed_labels, positions, sequences
from treecrf.metrics.scores import token_accuracy_score
from treecrf.utils.typing import LabelsLike
from treecrf.utils.validation import check_positive

# With fewer discordant positions, the distribution of chi-square is a poor approximation.
MIN_DISCORDANT = 25


def mcnemar_test(
    y_true: LabelsLike,
    y_pred_a: LabelsLike,
    y_pred_b: LabelsLike,
    *,
    exact: bool | str = "auto",
    correction: bool = True,
) -> Bunch:
    """Test whether two labelers differ in accuracy, with McNemar's test.

    The test counts the positions that only one of the two labels correctly [1]_. If both are
    equally good, each of these positions is as likely to be labeled correctly by one as by the
    other.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `token_accuracy_score`.
    y_pred_a, y_pred_b : list of array-like of shape (n_positions,), or one array-like
        Predictions of the two labelers, in the same form.
    exact : bool or "auto", default="auto"
        Which distribution the p-value comes from:

        - True: the binomial distribution.
        - False: the chi-square distribution with one degree of freedom.
        - ``"auto"``: the binomial distribution if fewer than 25 positions are labeled correctly by
          only one of the two.
    correction : bool, default=True
        Whether to apply the continuity correction to chi-square.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``table`` : int64 array of shape (2, 2). Numbers of positions. Rows are right and wrong
          labels of the first labeler, and columns those of the second.
        - ``statistic`` : float. The smaller of the two counts off the diagonal of the table if the
          test is exact, and otherwise chi-square.
        - ``pvalue`` : float. The two-sided p-value. It is 1 if the labelers are right at the same
          positions.

    Raises
    ------
    ValueError, TypeError
        As `token_accuracy_score`. ValueError also if ``exact`` is invalid.

    See Also
    --------
    paired_bootstrap : A comparison for any metric that keeps sequences whole.

    Notes
    -----
    The test assumes that positions are independent. Errors at neighboring positions often come
    together, so the p-value may be too small.

    References
    ----------
    .. [1] Q. McNemar, "Note on the sampling error of the difference between correlated proportions
       or percentages", Psychometrika 12, 1947.

    Examples
    --------
    Three positions are labeled correctly by the first labeler only, and none by the second only:

    >>> from treecrf.metrics import mcnemar_test
    >>> y_true = [["a", "a", "b", "b"], ["a", "b", "a", "b"]]
    >>> y_pred_a = [["a", "a", "b", "b"], ["a", "b", "a", "b"]]
    >>> y_pred_b = [["a", "b", "a", "b"], ["a", "b", "a", "a"]]
    >>> found = mcnemar_test(y_true, y_pred_a, y_pred_b)
    >>> found.table
    array([[5, 3],
           [0, 0]])
    >>> found.pvalue
    0.25
    """
    if not isinstance(exact, bool | np.bool_) and exact != "auto":
        raise ValueError(f"exact={exact!r}; expected True, False or 'auto'")
    (true, pred_a), (true_b, pred_b) = _of_both(positions, y_true, y_pred_a, y_pred_b)
    if not np.array_equal(true, true_b):
        raise TypeError(
            f"the strings in y_true are {true.size} labels beside y_pred_a and {true_b.size} "
            "labels beside y_pred_b; expected both predictions in the same form"
        )
    a = true == pred_a
    b = true == pred_b
    table = np.array([[np.sum(a & b), np.sum(a & ~b)], [np.sum(~a & b), np.sum(~a & ~b)]])
    first = int(table[0, 1])
    second = int(table[1, 0])
    n = first + second
    is_exact = n < MIN_DISCORDANT if exact == "auto" else exact
    if is_exact:
        statistic = float(min(first, second))
        pvalue = min(1.0, 2 * float(bdtr(statistic, n, 0.5)))
    else:
        distance = max(abs(first - second) - bool(correction), 0)
        statistic = distance**2 / max(n, 1)
        pvalue = float(chdtrc(1, statistic))
    return Bunch(statistic=statistic, pvalue=pvalue, table=table)


def paired_bootstrap(
    y_true: LabelsLike,
    y_pred_a: LabelsLike,
    y_pred_b: LabelsLike,
    metric: Callable[..., float] = token_accuracy_score,
    *,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Any = None,
    lengths: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    **options: Any,
) -> Bunch:
    """Compare any metric of two labelers by resampling whole sequences.

    A resample draws as many sequences as there are, with replacement [1]_. The metric of both
    labelers is computed on the same resamples, so hard sequences affect both.

    Parameters
    ----------
    y_true : list of array-like of shape (n_positions,), or one array-like
        True labels, in a form of `sequence_accuracy_score`. Empty sequences are left out.
    y_pred_a, y_pred_b : list of array-like of shape (n_positions,), or one array-like
        Predictions of the two labelers, in the same form.
    metric : callable, default=token_accuracy_score
        A metric of this module, or another function of the lists of true and predicted label
        sequences that returns a number. It is computed ``2 * n_resamples + 2`` times.
    n_resamples : int, default=1000
        Number of resamples.
    confidence_level : float, default=0.95
        Probability of the confidence interval, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples.
    lengths : array-like of int of shape (n_sequences,), default=None
        Number of positions of each sequence, if the labels are one long array.
    groups : array-like of shape (n_positions,), default=None
        Sequence of each position, if the labels are one long array. The positions of a sequence
        must be consecutive.
    **options
        Further arguments of the metric, such as ``average="micro"``.

    Returns
    -------
    Bunch
        An object with these attributes:

        - ``scores`` : float64 array of shape (2,). The metric of both labelers on all sequences.
        - ``difference`` : float. The score of the first labeler minus that of the second.
        - ``confidence_interval`` : (float, float). Quantiles of the resampled differences.
        - ``pvalue`` : float. The two-sided p-value: the fraction of resamples whose difference is
          at least as far from ``difference`` as that is from 0 [2]_. It is at least ``1 /
          (n_resamples + 1)``.
        - ``differences`` : float64 array of shape (n_resamples,). The resampled differences.

    Raises
    ------
    ValueError, TypeError
        As `sequence_accuracy_score` and the metric. ValueError also if there are fewer than two
        sequences that are not empty, or a parameter is invalid.

    See Also
    --------
    mcnemar_test : A quick test for accuracy, which treats positions as independent.

    References
    ----------
    .. [1] B. Efron, R. J. Tibshirani, "An introduction to the bootstrap", 1993.
    .. [2] T. Berg-Kirkpatrick, D. Burkett, D. Klein, "An empirical investigation of statistical
       significance in NLP", EMNLP 2012.

    Examples
    --------
    The first labeler makes no errors, the second always predicts *abab*:

    >>> from treecrf.metrics import paired_bootstrap, token_f1_score
    >>> y_true = [list("aabb"), list("abab"), list("bbab"), list("baba")] * 5
    >>> y_pred_a = y_true
    >>> y_pred_b = [list("abab")] * 20
    >>> found = paired_bootstrap(
    ...     y_true, y_pred_a, y_pred_b, token_f1_score, average="micro",
    ...     n_resamples=200, random_state=0,
    ... )
    >>> found.scores.tolist(), found.difference
    ([1.0, 0.5625], 0.4375)
    >>> [round(bound, 2) for bound in found.confidence_interval]
    [0.29, 0.62]
    >>> round(found.pvalue, 3)
    0.005
    """
    check_positive("n_resamples", n_resamples)
    if not 0 < confidence_level < 1:
        raise ValueError(
            f"confidence_level={confidence_level!r}; expected a number between 0 and 1"
        )
    cuts = Segmentation(lengths, groups)
    (true, first), (_, second) = _of_both(sequences, y_true, y_pred_a, y_pred_b, cuts)
    present = [i for i, labels in enumerate(true) if labels.size]
    if len(present) < 2:
        raise ValueError(f"sequences that are not empty: {len(present)}; expected at least 2")

    def scores_of(chosen: list[int]) -> list[float]:
        truth = [true[i] for i in chosen]
        return [metric(truth, [pred[i] for i in chosen], **options) for pred in (first, second)]

    scores = np.array(scores_of(present), dtype=float)
    difference = float(scores[0] - scores[1])
    rng = check_random_state(random_state)
    drawn = (rng.choice(present, len(present)).tolist() for _ in range(n_resamples))
    differences = np.subtract(*np.array([scores_of(chosen) for chosen in drawn], dtype=float).T)
    tail = (1 - confidence_level) / 2
    low, high = np.quantile(differences, [tail, 1 - tail]).tolist()
    n_extreme = int(np.sum(np.abs(differences - difference) >= abs(difference)))
    return Bunch(
        scores=scores,
        difference=difference,
        confidence_interval=(low, high),
        pvalue=(n_extreme + 1) / (n_resamples + 1),
        differences=differences,
    )


def _of_both(
    pair: Callable[..., tuple], y_true: Any, y_pred_a: Any, y_pred_b: Any, *arguments: Any
) -> Iterator[tuple]:
    """Yield the checked labels of both labelers; errors name the argument."""
    y_true = listed_labels(y_true, "y_true")
    for name, y_pred in (("y_pred_a", y_pred_a), ("y_pred_b", y_pred_b)):
        try:
            yield pair(y_true, y_pred, *arguments)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("y_pred", name)) from None
