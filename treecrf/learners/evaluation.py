"""Scores of models on validation sequences after each iteration."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from treecrf.chains.objectives import MeanSums
from treecrf.inputs.offsets import offsets_of, split_sequences
from treecrf.learners.iterations import History
from treecrf.metrics.scorers import SCORERS, LogLikelihoodScorer, MetricScorer
from treecrf.trees.forest import Forest
from treecrf.utils.exact import ExactSum

# Values of the parameter ``scoring`` that stand for values of objectives.
OBJECTIVES = ("loss", "log_likelihood")
# The score of the probabilities of the labels, and all metrics that are means over positions.
NEG_LOG_LOSS = "neg_log_loss"
MEANS = ("accuracy", NEG_LOG_LOSS)
SCORINGS = {*OBJECTIVES, *MEANS, *SCORERS}
Labels = list[np.ndarray]


class Scored(Protocol):
    """Sequences that are scored after each iteration."""

    def value(self, forest: Forest) -> float:
        """Compute the score under the forest."""


@dataclass
class LabelScore:
    """Validation sequences that are scored by predictions: labels or their probabilities."""

    objective: Scored  # value of the objective on the same sequences
    metric: Callable[[np.ndarray], float]  # of codes, or of probabilities
    predict: Callable[[Forest], np.ndarray]  # after an update of ``objective``
    latest: float = np.nan  # latest value of the objective

    def value(self, forest: Forest) -> float:
        """Compute the metric under the forest."""
        self.latest = self.objective.value(forest)
        return self.metric(self.predict(forest))


@dataclass(frozen=True)
class TrueLabels:
    """Labels of validation sequences, in the direction of the chain."""

    codes: np.ndarray
    offsets: np.ndarray
    candidates: np.ndarray | None
    weights: np.ndarray | None

    @classmethod
    def joined(cls, parts: list[TrueLabels]) -> TrueLabels:
        """Append the labels of parts, which are weighted or partly unknown in all of them."""

        def join(name: str) -> np.ndarray | None:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays)

        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(join("codes"), offsets_of(lengths), join("candidates"), join("weights"))


def scoring_of(parameter: Any) -> Any:
    """Return what a value of the parameter ``scoring`` stands for.

    This is one of `OBJECTIVES` or `MEANS`, a `MetricScorer`, or a function of lists of labels.
    """
    if isinstance(parameter, str):
        return parameter if parameter in OBJECTIVES else SCORERS.get(parameter, parameter)
    return "log_likelihood" if isinstance(parameter, LogLikelihoodScorer) else parameter


def metric_of(
    scoring: Any, data: TrueLabels, classes: np.ndarray, backward: bool = False
) -> Callable[[np.ndarray], float]:
    """Return a function that scores predictions for all positions, by a result of `scoring_of`."""
    if scoring in MEANS:
        mean = PositionMean(scoring, data)
        mean.require_positions()
        return lambda predictions: float(mean.sums(predictions))
    if data.candidates is not None:
        raise ValueError(
            f"scoring={name_of(scoring)!r} needs all labels of the validation sequences; expected "
            "'loss', 'accuracy' or 'neg_log_loss'"
        )

    def as_read(codes: np.ndarray) -> Labels:
        labels = split_sequences(classes[codes], data.offsets)
        return [array[::-1] for array in labels] if backward else labels

    score = scoring.of_labels if isinstance(scoring, MetricScorer) else scoring
    true = as_read(data.codes)
    return lambda codes: _number(score(true, as_read(codes)), scoring)


class PositionMean:
    """One of `MEANS`: the accuracy, or the mean log-probability of a label.

    The accuracy does not count positions whose label is unknown.
    """

    def __init__(self, scoring: str, data: TrueLabels):
        self.scoring = scoring
        self.data = data
        ones = np.broadcast_to(np.ones(1), data.codes.shape)
        weights = ones if data.weights is None else data.weights
        if scoring == "accuracy" and data.candidates is not None:
            weights = weights * (data.candidates.sum(axis=1) == 1)
        self.weights = weights
        self._weight = ExactSum.of(weights)

    def require_positions(self) -> None:
        """Raise ValueError if no label is known whose prediction could be scored."""
        if not self._weight.units:
            raise no_known_labels()

    def sums(self, predictions: np.ndarray) -> MeanSums:
        """Return sums whose quotient is the mean; the sums of several parts can be added."""
        codes, candidates = self.data.codes, self.data.candidates
        if self.scoring == "accuracy":
            of_labels = predictions == codes
        else:
            # The probability of each true label, or of the set that contains it.
            if candidates is None:
                p = predictions[np.arange(len(codes)), codes]
            else:
                p = (predictions * candidates).sum(axis=1)
            of_labels = np.log(np.maximum(p, np.finfo(np.float64).tiny))
        return MeanSums(ExactSum.of(of_labels * self.weights), self._weight)


def no_known_labels() -> ValueError:
    """Return the error of a mean over no positions."""
    return ValueError("scoring='accuracy' needs known labels in the validation sequences")


def _number(score: Any, scoring: Any) -> float:
    if not isinstance(score, numbers.Real) or np.isnan(score):
        raise ValueError(f"scoring={name_of(scoring)!r} returned {score!r}; expected a number")
    return float(score)


def name_of(scoring: Any) -> str:
    """Return the name of a metric."""
    if isinstance(scoring, MetricScorer):
        return scoring.name
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))


class Evaluations:
    """Scores of several sets of sequences; None in the list stands for the validation data.

    ``scoring`` is a result of `scoring_of`.
    """

    def __init__(self, sets: list[Scored | None], validation: Scored | None, scoring: Any):
        self.sets = {f"valid_{i}": scored for i, scored in enumerate(sets)}
        self.validation = validation
        self.objective = "log_likelihood" if scoring == "log_likelihood" else "objective"
        self.metric = None if scoring in OBJECTIVES else name_of(scoring)

    def start(self, history: History, earlier: dict, forest: Forest) -> None:
        """Add the scores of the start, after the scores of an earlier fit; NaN if it has none."""
        metrics = [self.objective, *([self.metric] if self.metric else [])]
        unknown = np.full(forest.n_iter + 1, np.nan)
        for name in self.sets:
            before = earlier.get(name, {})
            history.evals[name] = {
                metric: before.get(metric, unknown)[:-1].tolist() for metric in metrics
            }
        self.add_to(history, forest)

    def add_to(self, history: History, forest: Forest) -> None:
        """Append the present scores to the history, which has the validation score."""
        for name, own in self.sets.items():
            scored = own or self.validation
            value = history.validation[-1] if own is None else own.value(forest)
            scores = history.evals[name]
            if self.metric:
                scores[self.metric].append(value)
                value = scored.latest
            scores[self.objective].append(value)
