"""Likelihood of label sequences, or another objective, as a function of linear weights."""

from __future__ import annotations

import numpy as np

from treecrf.chains.objectives import LogLikelihood, Objective
from treecrf.learners.linear._linear import dot
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.training import TrainingData
from treecrf.learners.linear.weights import Weights


class StateLikelihood:
    """Log-likelihood without transition features."""

    def __init__(self, data: TrainingData):
        self.data = data
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        # The rows of each part are an array.
        first_rows, (firsts, ends) = data.table.first_rows, np.transpose(data.table.parts)
        first_rows = first_rows - np.repeat(first_rows[firsts], ends - firsts)
        self._chains = StateChains(data.offsets, first_rows, data.codes, *data.masks)

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def residuals(k: int, summed: np.ndarray) -> np.ndarray:
            part = data.table.parts[k]
            rows = data.part_rows(weights, *part)
            likelihoods = self._log_likelihoods
            self._chains.residuals(rows, transitions, data.weights, *part, summed, likelihoods)
            return rows

        gradient = data.gradient_of_rows(residuals)
        mean = data.mean(self._log_likelihoods)
        return dot(self._log_likelihoods, data.weights), mean, gradient

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self.data.mean(self.values(weights))

    def values(self, weights: Weights) -> np.ndarray:
        """Compute log P of the labels of each sequence, without its weight."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(part: tuple[int, int]) -> None:
            rows = data.part_rows(weights, *part)
            self._chains.log_likelihoods(rows, transitions, *part, self._log_likelihoods)

        data.threads.map(fill, data.table.parts)
        return self._log_likelihoods


class ScoreLikelihood:
    """Any objective that is a function of the scores of labels after labels."""

    def __init__(self, data: TrainingData, objective: Objective):
        self.data = data
        self.objective = objective  # with the weights in training
        self._position_weights = data.repeated_weights()

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
        residuals, _, value = self.objective.examples(self._scores(weights), 0)
        total = value * len(self.data.codes)
        if self._position_weights is not None:
            residuals *= self._position_weights[:, np.newaxis]
            total = value * float(self._position_weights.sum())
        return total, self._reported(value), self.data.gradient(residuals)

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self._reported(self.objective.value(self._scores(weights)))

    def _reported(self, value: float) -> float:
        """Return the value without ``class_weight``, which only the log-likelihood supports."""
        is_log = type(self.objective) is LogLikelihood
        return self.data.mean(self.objective.likelihoods) if is_log else value

    def _scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores(weights)
        self.objective.constrain(scores)
        return scores


# Objective to maximize, before regularization: a sum over sequences.
Likelihood = StateLikelihood | ScoreLikelihood


class Loss:
    """The loss to minimize, without the L1 penalty.

    Its variables are the ``free`` weights divided by their scales; all other weights are 0.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        l2: float,
        free: np.ndarray | slice = slice(None),
        scale: np.ndarray | float = 1.0,
    ):
        self.likelihood = likelihood
        self.l2 = l2
        self.free = free  # where they are in the vector of all weights
        self.scale = scale
        self.mean = np.nan  # mean log-likelihood of a position in the latest evaluation
        self._layout = likelihood.data.layout
        self._weights = self._layout.weights()

    def __call__(self, variables: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient."""
        values = variables * self.scale
        self._weights.vector[self.free] = values
        total, self.mean, gradient = self.likelihood.gradient(self._weights)
        value = self.l2 * dot(values, values) - total
        values *= 2.0 * self.l2
        values -= gradient.vector[self.free]
        values *= self.scale
        return value, values

    def variables(self, weights: Weights) -> np.ndarray:
        """Return the variables, given all weights."""
        return weights.vector[self.free] / self.scale

    def weights(self, variables: np.ndarray) -> Weights:
        """Return all weights, given the variables."""
        weights = self._layout.weights()
        weights.vector[self.free] = variables * self.scale
        return weights
