"""Metrics of validation sequences, which the parameter ``scoring`` chooses."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from treecrf.chains.likelihood import ChainLabels, MeanSums
from treecrf.inputs.offsets import split_sequences
from treecrf.metrics.scorers import SCORERS, LogLikelihoodScorer, MetricScorer
from treecrf.utils.exact import ExactSum

# Values of the parameter ``scoring`` that stand for values of objectives.
OBJECTIVE_SCORINGS = ("loss", "log_likelihood")
# The score that needs the probabilities of the labels.
NEG_LOG_LOSS = "neg_log_loss"
# Metrics that are means over positions.
POSITION_MEANS = ("accuracy", NEG_LOG_LOSS)
SCORINGS = {*OBJECTIVE_SCORINGS, *POSITION_MEANS, *SCORERS}
# Label sequences.
Labels = list[np.ndarray]


def resolved_scoring(parameter: Any) -> Any:
    """Return what a value of the parameter ``scoring`` stands for.

    This is one of `OBJECTIVE_SCORINGS` or `POSITION_MEANS`, a `MetricScorer`, or a function of
    lists of labels.
    """
    if isinstance(parameter, LogLikelihoodScorer):
        return "log_likelihood"
    if isinstance(parameter, str) and parameter not in OBJECTIVE_SCORINGS:
        return SCORERS.get(parameter, parameter)
    return parameter


def validation_metric(
    scoring: Any, data: ChainLabels, classes: np.ndarray, backward: bool = False
) -> Callable[[np.ndarray], float]:
    """Return a function that scores predictions for all positions.

    ``scoring`` is a result of `resolved_scoring`, but no objective.
    """
    if scoring in POSITION_MEANS:
        mean = PositionMean(scoring, data)
        mean.require_positions()
        return lambda predictions: float(mean.sums(predictions))
    if data.candidates is not None:
        name = scoring_name(scoring)
        raise ValueError(
            f"scoring={name!r} needs all labels of the validation sequences; expected 'loss', "
            "'accuracy' or 'neg_log_loss'"
        )

    def as_read(codes: np.ndarray) -> Labels:
        labels = split_sequences(classes[codes], data.offsets)
        if backward:
            return [array[::-1] for array in labels]
        return labels

    metric = scoring.score_labels if isinstance(scoring, MetricScorer) else scoring
    true_labels = as_read(data.codes)

    def score(codes: np.ndarray) -> float:
        value = metric(true_labels, as_read(codes))
        if not isinstance(value, numbers.Real) or np.isnan(value):
            name = scoring_name(scoring)
            raise ValueError(f"scoring={name!r} returned {value!r}; expected a number")
        return float(value)

    return score


class PositionMean:
    """One of `POSITION_MEANS`: the accuracy, or the mean log-probability of a label.

    The accuracy does not count positions whose label is unknown.
    """

    def __init__(self, scoring: str, data: ChainLabels):
        self.scoring = scoring
        self.data = data
        weights = data.weights
        if weights is None:
            weights = np.broadcast_to(np.ones(1), data.codes.shape)
        if scoring == "accuracy" and data.candidates is not None:
            weights = weights * (data.candidates.sum(axis=1) == 1)
        self.weights = weights
        self._total_weight = ExactSum.of(weights)

    def require_positions(self) -> None:
        """Raise ValueError if no label is known whose prediction could be scored."""
        if not self._total_weight.units:
            raise no_known_labels()

    def sums(self, predictions: np.ndarray) -> MeanSums:
        """Return sums whose quotient is the mean; sums of several partitions can be added.

        ``predictions`` are codes of labels for the accuracy, else probabilities of all labels.
        """
        return self.sums_of(self.values(predictions))

    def values(self, predictions: np.ndarray) -> np.ndarray:
        """Return the values of all positions, whose mean it is."""
        if self.scoring == "accuracy":
            return predictions == self.data.codes
        return self._log_probabilities(predictions)

    def sums_of(self, values: np.ndarray) -> MeanSums:
        """Return sums whose quotient is the mean of values of all positions."""
        return MeanSums(ExactSum.of(values * self.weights), self._total_weight)

    def _log_probabilities(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the log-probability of each true label, or of the set that contains it."""
        codes = self.data.codes
        candidates = self.data.candidates
        if candidates is None:
            p = probabilities[np.arange(len(codes)), codes]
        else:
            p = (probabilities * candidates).sum(axis=1)
        return np.log(np.maximum(p, np.finfo(np.float64).tiny))


def no_known_labels() -> ValueError:
    """Return the error of a mean over no positions."""
    return ValueError("scoring='accuracy' needs known labels in the validation sequences")


def scoring_name(scoring: Any) -> str:
    """Return the name of a metric."""
    if isinstance(scoring, MetricScorer):
        return scoring.name
    if isinstance(scoring, str):
        return scoring
    return getattr(scoring, "__name__", repr(scoring))
