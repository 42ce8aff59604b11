"""The log-likelihood of label sequences as a function of linear weights, with its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from treecrf.chains.objectives import Objective
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.weights import Weights


class Likelihood(ABC):
    """What is maximized on training data, before regularization: a sum over sequences.

    Parameters
    ----------
    data : TrainingData
    """

    def __init__(self, data: TrainingData):
        self.data = data

    @abstractmethod
    def slope(self, weights: Weights) -> tuple[float, float, Weights]:
        """The sum over weighted sequences, the mean of a position, and the gradient of the sum."""

    @abstractmethod
    def mean(self, weights: Weights) -> float:
        """The mean of a position, without the sequences' weights."""


class StateLikelihood(Likelihood):
    """Log-likelihood where attributes weigh on single labels alone and all labels are possible."""

    def __init__(self, data: TrainingData):
        super().__init__(data)
        self._rows = data.scores.new_rows()
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        table = data.scores.table
        first_rows = table.first_rows + table.window[1]
        self._chains = StateChains(data.offsets, first_rows, data.codes)
        n_labels = data.layout.n_labels
        self._transitions = np.zeros((len(table.parts), n_labels + 1, n_labels))

    def slope(self, weights: Weights) -> tuple[float, float, Weights]:
        """The sum over weighted sequences, the mean of a position, and the gradient of the sum."""
        data = self.data

        def follow(k: int) -> None:
            part = data.scores.table.parts[k]
            data.scores.fill_rows(weights, *part, self._rows)
            self._chains.residuals(
                self._rows, weights.transitions, data.weights, *part, self._transitions[k],
                self._log_likelihoods,
            )  # fmt: skip

        data.scores.threads.map(follow, range(len(data.scores.table.parts)))
        gradient = data.scores.gradient_of_rows(self._rows, self._transitions)
        return float(self._log_likelihoods @ data.weights), self._mean(), gradient

    def mean(self, weights: Weights) -> float:
        """The mean of a position, without the sequences' weights."""
        data = self.data

        def follow(part: tuple[int, int]) -> None:
            data.scores.fill_rows(weights, *part, self._rows)
            self._chains.log_likelihoods(
                self._rows, weights.transitions, *part, self._log_likelihoods
            )

        data.scores.threads.map(follow, data.scores.table.parts)
        return self._mean()

    def _mean(self) -> float:
        return float(self._log_likelihoods.sum() / len(self.data.codes))


class ScoreLikelihood(Likelihood):
    """Any objective that is a function of the scores of labels after labels.

    Parameters
    ----------
    data : TrainingData
    objective : Objective
        What to maximize; sequences are weighted only if it tells the values of all of them as its
        ``likelihoods``.
    """

    def __init__(self, data: TrainingData, objective: Objective):
        super().__init__(data)
        self.objective = objective
        self.is_weighted = bool((data.weights != 1).any())
        self._of_positions = np.repeat(data.weights, np.diff(data.offsets))

    def slope(self, weights: Weights) -> tuple[float, float, Weights]:
        """The sum over weighted sequences, the mean of a position, and the gradient of the sum."""
        residuals, _, mean = self.objective.examples(self._scores(weights), 0)
        total = mean * len(self.data.codes)
        if self.is_weighted:
            residuals *= self._of_positions[:, np.newaxis]
            total = float(self.objective.likelihoods @ self.data.weights)
        return total, mean, self.data.scores.gradient(residuals)

    def mean(self, weights: Weights) -> float:
        """The mean of a position, without the sequences' weights."""
        return self.objective.value(self._scores(weights))

    def _scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores.scores(weights)
        self.objective.constrain(scores)
        return scores
