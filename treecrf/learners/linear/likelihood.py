"""Likelihood of label sequences, or another objective, as a function of linear weights."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from treecrf.chains.objectives import LogLikelihood, Objective
from treecrf.encoding.layout import rows_of_positions
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.weights import Weights


class Likelihood(ABC):
    """Objective to maximize, before regularization: a sum over sequences.

    Parameters
    ----------
    data : TrainingData
    """

    def __init__(self, data: TrainingData):
        self.data = data

    @abstractmethod
    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, mean per position, and gradient.

        ``class_weight`` does not count in the mean.
        """

    @abstractmethod
    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""


class StateLikelihood(Likelihood):
    """Log-likelihood without transition features."""

    def __init__(self, data: TrainingData):
        super().__init__(data)
        self._rows = data.scores.new_rows()
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        table = data.scores.table
        first_rows = table.first_rows + table.window[1]
        self._row_of_position = rows_of_positions(data.offsets, first_rows)
        self._chains = StateChains(data.offsets, first_rows, data.codes)
        n_labels = data.layout.n_labels
        self._transitions = np.zeros((len(table.parts), n_labels + 1, n_labels))

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, mean per position, and gradient.

        ``class_weight`` does not count in the mean.
        """
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(k: int) -> None:
            part = data.scores.table.parts[k]
            self._fill_rows(weights, *part)
            self._chains.residuals(
                self._rows, transitions, data.weights, *part, self._transitions[k],
                self._log_likelihoods,
            )  # fmt: skip

        data.scores.threads.map(fill, range(len(data.scores.table.parts)))
        gradient = data.scores.gradient_of_rows(self._rows, self._transitions)
        mean = data.mean(self._log_likelihoods)
        return float(self._log_likelihoods @ data.weights), mean, gradient

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self.data.mean(self.values(weights))

    def values(self, weights: Weights) -> np.ndarray:
        """Compute log P of the labels of each sequence, without its weight."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(part: tuple[int, int]) -> None:
            self._fill_rows(weights, *part)
            self._chains.log_likelihoods(self._rows, transitions, *part, self._log_likelihoods)

        data.scores.threads.map(fill, data.scores.table.parts)
        return self._log_likelihoods

    def _fill_rows(self, weights: Weights, first: int, last: int) -> None:
        """Compute the scores of some sequences, minus infinity for labels that are not allowed."""
        self.data.scores.fill_rows(weights, first, last, self._rows)
        allowed = self.data.constraints.allowed
        if allowed is not None:
            positions = slice(self.data.offsets[first], self.data.offsets[last])
            rows = self._row_of_position[positions]
            self._rows[rows] = np.where(allowed[positions], self._rows[rows], -np.inf)


class ScoreLikelihood(Likelihood):
    """Any objective that is a function of the scores of labels after labels.

    Parameters
    ----------
    data : TrainingData
    objective : Objective
        Its weights are those of the sequences in training.
    """

    def __init__(self, data: TrainingData, objective: Objective):
        super().__init__(data)
        self.objective = objective
        self._position_weights = data.repeated_weights()

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, mean per position, and gradient.

        ``class_weight`` does not count in the mean.
        """
        residuals, _, value = self.objective.examples(self._scores(weights), 0)
        total = value * len(self.data.codes)
        if self._position_weights is not None:
            residuals *= self._position_weights[:, np.newaxis]
            total = value * float(self._position_weights.sum())
        return total, self._reported(value), self.data.scores.gradient(residuals)

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self._reported(self.objective.value(self._scores(weights)))

    def _reported(self, value: float) -> float:
        """Return the value without ``class_weight``, which only the log-likelihood supports."""
        is_log = type(self.objective) is LogLikelihood
        return self.data.mean(self.objective.likelihoods) if is_log else value

    def _scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores.scores(weights)
        self.objective.constrain(scores)
        return scores
