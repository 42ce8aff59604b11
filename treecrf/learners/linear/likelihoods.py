"""The loss of a linear model: objectives as functions of the weights, and the L2 penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treecrf.chains.likelihood import LogLikelihood, Objective
from treecrf.learners.linear._linear import dot
from treecrf.learners.linear._linear_chain import StateChains
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import LinearFunction, TrainingData


class StateLikelihood:
    """Log-likelihood without transition features."""

    def __init__(self, data: TrainingData):
        self.data = data
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        # Rows are counted from the first row of each range, because each range has its own array.
        firsts, ends = np.transpose(data.table.ranges)
        first_rows = data.table.first_rows
        first_rows = first_rows - np.repeat(first_rows[firsts], ends - firsts)
        self._chains = StateChains(data.offsets, first_rows, data.codes, *data.masks)

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
        data = self.data
        transitions = data.constraints.limited(weights.transitions)
        blocks = data.blocks(weights)

        def residuals(k: int, summed: np.ndarray) -> np.ndarray:
            first, last = data.table.ranges[k]
            rows = data.range_scores(blocks, first, last)
            self._chains.residuals(
                rows, transitions, data.weights, first, last, summed, self._log_likelihoods
            )
            return rows

        gradient = data.gradient_of_rows(residuals)
        mean = data.mean(self._log_likelihoods)
        return dot(self._log_likelihoods, data.weights), mean, gradient

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self.data.mean(self.values(weights))

    def values(self, weights: Weights) -> np.ndarray:
        """Compute log P of the labels of each sequence, without its weight."""
        data = self.data
        transitions = data.constraints.limited(weights.transitions)
        blocks = data.blocks(weights)

        def fill(sequences: tuple[int, int]) -> None:
            first, last = sequences
            rows = data.range_scores(blocks, first, last)
            self._chains.log_likelihoods(rows, transitions, first, last, self._log_likelihoods)

        data.threads.map(fill, data.table.ranges)
        return self._log_likelihoods


class GeneralLikelihood:
    """Any objective that is a function of the scores of labels after labels.

    The objective has the weights of training.
    """

    def __init__(self, data: TrainingData, objective: Objective):
        self.data = data
        self.objective = objective
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
        if type(self.objective) is LogLikelihood:
            return self.data.mean(self.objective.likelihoods)
        return value

    def _scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores(weights)
        self.objective.constrain(scores)
        return scores


# Objective to maximize, before regularization: a sum over sequences.
Likelihood = StateLikelihood | GeneralLikelihood


class Loss:
    """The loss to minimize, without the L1 penalty.

    Its variables are the ``free`` weights divided by their scales; all other weights are 0.

    Parameters
    ----------
    likelihood : StateLikelihood or GeneralLikelihood
        Objective to maximize.
    l2 : float
        Penalty of squared weights.
    free : int array or slice
        Indices of the free weights in the vector of all weights.
    scales : float array or float
        Scale of each free weight.

    Attributes
    ----------
    mean : float
        Mean log-likelihood of a position in the latest evaluation.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        l2: float,
        free: np.ndarray | slice = slice(None),
        scales: np.ndarray | float = 1.0,
    ):
        self.likelihood = likelihood
        self.l2 = l2
        self.free = free
        self.scales = scales
        self.mean = np.nan
        self._layout = likelihood.data.layout
        self._weights = self._layout.weights()

    def __call__(self, variables: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient."""
        values = variables * self.scales
        self._weights.vector[self.free] = values
        total, self.mean, gradient = self.likelihood.gradient(self._weights)
        value = self.l2 * dot(values, values) - total
        values *= 2.0 * self.l2
        values -= gradient.vector[self.free]
        values *= self.scales
        return value, values

    def variables(self, weights: Weights) -> np.ndarray:
        """Return the variables, given all weights."""
        return weights.vector[self.free] / self.scales

    def weights(self, variables: np.ndarray) -> Weights:
        """Return all weights, given the variables."""
        weights = self._layout.weights()
        weights.vector[self.free] = variables * self.scales
        return weights


# Approximate curvature of the loss that an indicator adds at each position where it is 1: the
# variance of a label that is right with probability 0.9. Only the number of iterations depends
# on it.
POSITION_CURVATURE = 0.1


def weight_scales(data: TrainingData, l2: float) -> np.ndarray:
    """Return the scale of each weight: along all scaled weights, the loss has similar curvature.

    It is 1 for indicators. A numeric attribute gets the curvature of an indicator of its non-zero
    values. Without scaling, solvers need thousands of iterations if attributes differ in scale.
    """
    _, indices, values = data.table.by_row
    n_attributes = data.layout.n_attributes
    scales = data.layout.weights(np.ones(data.layout.size))
    if values is None:
        return scales.vector
    counts = np.bincount(indices, minlength=n_attributes)
    squares = np.bincount(indices, weights=values**2, minlength=n_attributes)
    indicator_curvature = POSITION_CURVATURE * counts + 2.0 * l2
    curvature = POSITION_CURVATURE * squares + 2.0 * l2
    # Attributes that never occur keep scale 1.
    curvature = np.where(counts > 0, curvature, indicator_curvature)
    ratios = np.where(indicator_curvature > 0, indicator_curvature, 1.0)
    ratios /= np.where(curvature > 0, curvature, 1.0)
    scales.attributes[:] = np.sqrt(ratios)[:, np.newaxis, np.newaxis]
    return scales.vector


# An attribute that never occurs with a label says something about it if it was expected to, at
# least this often: weights for labels that are expected less often make hardly any difference on
# new data, those for labels that are expected more often do.
INFORMATIVE = 1.0


def possible_states(data: TrainingData, min_expected: float) -> np.ndarray:
    """Return which attributes and labels occur together, as `Weights.attributes`.

    So do attributes and labels that would occur together at least ``min_expected`` times if they
    were independent; numbers that are hardly ever 0 therefore have weights for all labels.
    """
    possible = _possible_labels(data)
    if data.layout.transition_features:
        pairs = possible[1:, np.newaxis] & possible[:-1, :, np.newaxis]
        # First positions have no label before them.
        pairs[data.offsets[1:-1] - 1] = False
        pairs = np.concatenate([np.zeros_like(pairs[:1]), pairs]).reshape(len(possible), -1)
        possible = np.concatenate([possible, pairs], axis=1)
    table = data.table
    starts, indices, values = table.by_row
    occurs = np.ones(len(indices)) if values is None else (values != 0).astype(np.float64)
    if values is not None:
        table = replace(table, by_row=(starts, indices, occurs))
    counts = sums_by_label(LinearFunction(table, data.layout, data.threads), possible)
    occurrences = np.bincount(indices, weights=occurs, minlength=data.layout.n_attributes)
    expected = np.outer(occurrences, possible.mean(axis=0))
    return (counts > 0) | (expected >= min_expected)[:, np.newaxis]


def sums_by_label(function: LinearFunction, labels: np.ndarray) -> np.ndarray:
    """Return the sum of each attribute's values, times a row of ``labels`` for each position.

    The result is as `Weights.attributes`; ``labels`` has shape (n_positions, width).
    """
    # The gradient counts how often an attribute occurs with a label.
    table = function.table
    return function.gradient_of_rows(lambda k, _: table.range_rows(labels, k)).attributes


def possible_transitions(data: TrainingData) -> np.ndarray:
    """Return which labels follow each other, bool array (n_labels, n_labels)."""
    possible = _possible_labels(data).astype(np.float32)
    previous = possible[:-1].copy()
    # First positions have no label before them.
    previous[data.offsets[1:-1] - 1] = 0
    return previous.T @ possible[1:] > 0


def _possible_labels(data: TrainingData) -> np.ndarray:
    """Return the labels that positions may have, bool array (n_positions, n_labels)."""
    if data.candidates is not None:
        return data.candidates
    return data.codes[:, np.newaxis] == np.arange(data.layout.n_labels)
