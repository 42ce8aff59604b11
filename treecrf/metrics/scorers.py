"""Scorers: metrics as functions of an estimator, its input, and the true labels."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import metadata_routing
from sklearn.utils.metadata_routing import _MetadataRequester

from treecrf.inputs.forms import is_frame
from treecrf.inputs.frames import column_of, label_column
from treecrf.inputs.labels import count_labeled
from treecrf.inputs.segmentation import Segmentation
from treecrf.metrics.scores import (
    sequence_accuracy_score,
    span_f1_score,
    span_precision_score,
    span_recall_score,
    token_accuracy_score,
    token_f1_score,
    token_precision_score,
    token_recall_score,
)


class BaseScorer(_MetadataRequester):
    """Base class of scorers, which compute a score of an estimator. Higher is better.

    A scorer is called as ``scorer(estimator, X, y)``. For a long table, it is called as
    ``scorer(estimator, X, y, groups=groups)``, or with ``lengths``. In scikit-learn's model
    selection with metadata routing, ``scorer.set_score_request(groups=True)`` requests the groups.
    """

    # The estimator is no metadata.
    __metadata_request__score: ClassVar[dict] = {"estimator": metadata_routing.UNUSED}

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, lengths: Any = None, groups: Any = None
    ) -> float:
        """Compute the score.

        Parameters
        ----------
        estimator : object
            A fitted estimator, or a pipeline or search with one.
        X : list of sequences, or one long table
            In a form that the estimator accepts.
        y : list of array-like of shape (n_positions,), or one array-like for a long table, or str
            True labels, or the name of the column of data frames that holds them.
        lengths, groups : optional
            Sequences of a long table, as in ``predict`` of the estimator.

        Returns
        -------
        float
        """
        if isinstance(y, str):
            X, y = label_column(X, y, is_long=True)
        return self.score(estimator, X, y, lengths=lengths, groups=groups)

    # scikit-learn derives `set_score_request` from the method `score` of subclasses.

    def _accept_sample_weight(self) -> bool:
        # Called by scikit-learn without metadata routing.
        return False

    def _routing_repr(self) -> str:
        return repr(self)


class MetricScorer(BaseScorer):
    """Scorer that compares the predicted labels with the true ones.

    Parameters
    ----------
    metric : callable
        Function of the true and the predicted labels, such as `token_f1_score`.
    **options
        Further arguments of the metric.
    """

    def __init__(self, metric: Callable, **options: Any):
        self._metric = metric
        self._options = options

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"make_scorer({self._metric.__name__}{options})"

    @property
    def name(self) -> str:
        """The name in `SCORERS`, or else the representation."""
        for name, other in SCORERS.items():
            if isinstance(other, MetricScorer) and repr(other) == repr(self):
                return name
        return repr(self)

    def score_labels(self, y_true: Any, y_pred: Any) -> float:
        """Compute the score of predicted label sequences."""
        return float(self._metric(y_true, y_pred, **self._options))

    def score(
        self, estimator: Any, X: Any, y: Any, *, lengths: Any = None, groups: Any = None
    ) -> float:
        """Compute the score, as when the scorer is called."""
        given = _given(estimator, X, lengths, groups)
        if not given:
            return self.score_labels(y, estimator.predict(X))
        model, inputs = _final(estimator, X, given)
        predicted = model.predict(inputs, **given)
        if "groups" in inspect.signature(self._metric).parameters:
            cuts = _with_values(given, X)
            return float(self._metric(y, predicted, **cuts, **self._options))
        return self.score_labels(y, predicted)


class LogLikelihoodScorer(BaseScorer):
    """Scorer by the mean of log P(y | X) per position. It is at most 0, and higher is better.

    The sum of the log-likelihoods of all sequences, in nats, is divided by the number of positions.

    Labels may be unknown, as in ``fit``. The probability is then the sum over all label sequences
    that have the known labels. Sequences without known labels do not count.

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

    def __repr__(self) -> str:
        return "log_likelihood"

    def score(
        self, estimator: Any, X: Any, y: Any, *, lengths: Any = None, groups: Any = None
    ) -> float:
        """Compute the score, as when the scorer is called."""
        given = _given(estimator, X, lengths, groups)
        n_positions = count_labeled(y, Segmentation(**_with_values(given, X)))
        if n_positions == 0:
            raise ValueError("y holds no known labels")
        model, inputs = _final(estimator, X, given)
        return float(np.sum(model.predict_log_likelihood(inputs, y, **given)) / n_positions)


def _given(estimator: Any, X: Any, lengths: Any, groups: Any) -> dict[str, Any]:
    """Return the arguments that are given; by default, the groups are those of training."""
    if lengths is None and groups is None and is_frame(X):
        *_, last = _opened(estimator)
        predictor = getattr(last, "_predictor", None)
        groups = None if predictor is None else predictor().group_column(X)
    arguments = {"lengths": lengths, "groups": groups}
    return {name: value for name, value in arguments.items() if value is not None}


def _opened(estimator: Any) -> Iterator[Any]:
    """Yield the best estimators of searches and the last steps of pipelines inside each other."""
    yield estimator
    while hasattr(estimator, "best_estimator_") or isinstance(estimator, Pipeline):
        is_search = hasattr(estimator, "best_estimator_")
        estimator = estimator.best_estimator_ if is_search else estimator[-1]
        yield estimator


def _with_values(given: dict[str, Any], X: Any) -> dict[str, Any]:
    """Replace the name of a column by the group of each position."""
    name = given.get("groups")
    if isinstance(name, str):
        return given | {"groups": column_of(X, name)}
    return given


def _final(estimator: Any, X: Any, given: dict[str, Any]) -> tuple[Any, Any]:
    """Return the last estimator of a pipeline or search, and its input.

    Pipelines have no ``predict_log_likelihood``, and a search passes no metadata to ``predict``.
    """
    for last in _opened(estimator):
        if isinstance(last, Pipeline) and len(last) > 1:
            router = metadata_routing.get_routing_for_object(last[:-1])
            requested = router.consumes("transform", given.keys())
            X = last[:-1].transform(X, **{name: given[name] for name in requested})
    return last, X


def make_scorer(metric: Callable, **options: Any) -> MetricScorer:
    """Make a scorer from a metric, with options of your choice.

    Parameters
    ----------
    metric : callable
        A metric of this module, or another function of true and predicted labels. Higher values
        must be better.
    **options
        Further arguments of the metric, such as ``labels=["B"]``.

    Returns
    -------
    callable
        A scorer, which is called as ``scorer(estimator, X, y)`` and returns a float. For a long
        table, pass ``groups`` or ``lengths`` as well.

    See Also
    --------
    get_scorer : A scorer of `SCORERS`, by its name.

    Notes
    -----
    Unlike scorers of scikit-learn, these pass the ``lengths`` and ``groups`` of a long table to the
    ``predict`` of the estimator. They also pass them to the metric, if it has these parameters.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.metrics import make_scorer, token_recall_score
    >>> crf = TreeCRF(window=1, max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> recall_of_y = make_scorer(token_recall_score, labels=["y"])
    >>> recall_of_y(crf, ["ab", "ba"], ["xy", "yx"])
    1.0
    """
    return MetricScorer(metric, **options)


token_accuracy = make_scorer(token_accuracy_score)
sequence_accuracy = make_scorer(sequence_accuracy_score)
token_precision_macro = make_scorer(token_precision_score, average="macro")
token_recall_macro = make_scorer(token_recall_score, average="macro")
token_f1_macro = make_scorer(token_f1_score, average="macro")
token_f1_weighted = make_scorer(token_f1_score, average="weighted")
span_precision = make_scorer(span_precision_score)
span_recall = make_scorer(span_recall_score)
span_f1 = make_scorer(span_f1_score)
log_likelihood = LogLikelihoodScorer()

#: All scorers by name.
SCORERS: dict[str, BaseScorer] = {
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


def get_scorer(name: str) -> BaseScorer:
    """Return a scorer for the ``scoring`` parameter of scikit-learn's model selection.

    Parameters
    ----------
    name : str
        A key of `SCORERS`.

    Returns
    -------
    callable
        A scorer, which is called as ``scorer(estimator, X, y)`` and returns a float. Higher is
        better. For a long table, pass ``groups`` or ``lengths`` as well. The scorer is a copy, so
        metadata requests that you set on it (``set_score_request``) do not affect other scorers.

    Raises
    ------
    ValueError
        If there is no scorer with this name.

    See Also
    --------
    make_scorer : A scorer with other options.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from treecrf import LinearCRF
    >>> from treecrf.metrics import get_scorer
    >>> X, y = ["abab", "ba", "baab", "aba"], ["xyxy", "yx", "yxxy", "xyx"]
    >>> scorer = get_scorer("token_accuracy")
    >>> cross_val_score(LinearCRF(), X, y, cv=2, scoring=scorer)
    array([1., 1.])
    """
    if name not in SCORERS:
        raise ValueError(f"unknown scorer {name!r}; expected one of {', '.join(SCORERS)}")
    return copy.deepcopy(SCORERS[name])
