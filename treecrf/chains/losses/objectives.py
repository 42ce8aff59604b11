"""Objectives other than the log-likelihood, and their gradients with respect to the scores.

For conditional random fields, with P the probability of the labels of a sequence, and q the
probability of the label of a position:

=================== =================== ==================================
name                maximized           value, per position
=================== =================== ==================================
log                 sum of log P        mean of log P / mean length
exponential         - sum of (1/P - 1)  - log(mean of 1/P) / mean length
hamming_log         sum of log q        mean of log q
hamming_exponential - sum of (1/q - 1)  - log(mean of 1/q)
a function          - sum of losses     - mean of losses
=================== =================== ==================================

Where labels are unknown, P is the sum of the probabilities of all label sequences with the known
labels, q is the sum of the probabilities of the possible labels, and positions at which all labels
are possible contribute nothing to sums over positions.

For long sequences 1/P exceeds the range of doubles. The logarithm of its mean has the same optimum
as the sum of 1/P - 1. Its gradient is a mean of the gradients of log P, weighted by the softmax of
-log P, which stays in range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treecrf import _inference
from treecrf.chains.likelihood import ChainLabels, ChainObjective, LogLikelihood, WeightedMean
from treecrf.chains.losses import _gradients
from treecrf.utils.exact import UNIT, unit_for
from treecrf.utils.threads import Threads


class CountedObjective(ChainObjective):
    """An objective whose residuals are not limited to [-1, 1].

    In tree fitting, a position with large residuals counts as more than one example.
    """

    def _weight_residuals(self, weights: np.ndarray, unit: float) -> None:
        """Multiply the residuals of each position by its weight, and round them."""

        def multiply(first: int, last: int) -> None:
            _gradients.weight_residuals(
                self._residuals, weights, unit, self.chains[first], self.chains[last]
            )

        self.run_in_threads(multiply)

    def _set_counts(self, counts: np.ndarray) -> None:
        """Set ``counts``, rounded up so that sums over all contexts are exact."""
        unit = unit_for(counts, self._shape[2])
        self.counts = np.ceil(counts / unit) * unit


class ExponentialLoss(CountedObjective, LogLikelihood):
    """Minus the sum of 1/P - 1 over the sequences, on a logarithmic scale.

    In tree fitting, a position counts as many examples as the weight of its sequence.
    """

    def __init__(self, data: ChainLabels, threads: Threads):
        super().__init__(data, threads)
        self.mean = WeightedMean(data.weights, data.offsets)
        self.counts = np.ones(len(self.codes))
        self._weights = np.ones(len(self.offsets) - 1)  # 1/P of each sequence, divided by its mean

    sums = CountedObjective.sums

    def _value(self) -> float:
        logs = self.likelihoods
        if not self.order:
            logs = np.add.reduceat(logs, self.offsets[:-1])
        mean = minus_log_mean_inverse(logs, self._weights, self.mean)
        return mean * self.mean.n_items / self.mean.n_positions

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        value = super()._compute(scores, weights)
        counts = np.repeat(self._weights, np.diff(self.offsets))
        self._weight_residuals(counts, unit_for(counts, 2))
        self._set_counts(counts)
        return value


class HammingLogLikelihood(CountedObjective):
    """Sum of log q over the positions.

    A label also contributes to the residuals of the positions around it. If neighbors depend on
    each other, a position can have larger residuals than those of a likelihood, whose positive
    ones sum to at most 1. Such a position counts as more than one example in tree fitting, so that
    steps are no longer than for a likelihood.
    """

    exponential = False

    def __init__(self, data: ChainLabels, threads: Threads):
        super().__init__(data, threads)
        n_positions = len(self.codes)
        self._positions = np.arange(n_positions + 1)  # each is an item of the mean
        self.mean = WeightedMean(data.weights, self._positions)
        self.counts = np.ones(n_positions)
        self.log_q = np.zeros(n_positions)  # at the latest scores
        self._sizes = np.zeros(n_positions)  # sums of the absolute residuals
        self._possible = self._possible_labels()

    def _possible_labels(self) -> np.ndarray | None:
        """Return the possible labels; all of them where all allowed labels are possible."""
        allowed = self.constraints.allowed
        if self.candidates is None or allowed is None:
            return self.candidates
        return self.candidates | (self.candidates | ~allowed).all(axis=1, keepdims=True)

    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores."""
        self._update(scores, None)
        return self._value()

    def _update(self, scores: np.ndarray, residuals: np.ndarray | None) -> None:
        """Compute log q, and the residuals if there is an array for them."""
        mask = None
        if self._possible is not None:
            mask = self._possible.view(np.uint8)

        def compute(first: int, last: int) -> None:
            _gradients.label_probabilities(
                self.chains, self.codes, self.exponential, self.log_q, self._sizes, mask, None,
                scores, first, last, residuals,
            )  # fmt: skip

        self.run_in_threads(compute)

    def _value(self) -> float:
        return self.mean(self.log_q)

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        self._update(scores, self._residuals)
        value = self._value()
        self._balance()
        return value

    def _balance(self) -> None:
        """Bring the residuals of all sequences to one scale, and set the counts."""
        unit = unit_for(self._sizes)
        if unit > UNIT:
            self._weight_residuals(np.ones(len(self.codes)), unit)
        self._set_counts(np.maximum(0.5 * self._sizes, 1.0))


class HammingExponentialLoss(HammingLogLikelihood):
    """Minus the sum of 1/q - 1 over the positions, on a logarithmic scale."""

    exponential = True

    def __init__(self, data: ChainLabels, threads: Threads):
        super().__init__(data, threads)
        weights = data.weights
        self._weights = np.ones(len(self.codes))  # 1/q of each position, divided by its mean
        if weights is not None:  # a chain shares one weight, as its residuals share one scale
            lengths = np.diff(self.chains)
            means = np.add.reduceat(weights, self.chains[:-1]) / lengths
            weights = np.repeat(means, lengths)
            self.mean = WeightedMean(weights, self._positions)
        if self.candidates is not None:  # the terms of unknown labels are constant
            known = ~self._possible.all(axis=1)
            weights = known * (1.0 if weights is None else weights)
            self.mean = WeightedMean(weights, self._positions)

    def _value(self) -> float:
        return minus_log_mean_inverse(self.log_q, self._weights, self.mean)

    def _balance(self) -> None:
        # The kernel gives the weight 1 to the least probable label of each chain.
        largest = np.maximum.reduceat(self._weights, self.chains[:-1])
        factors = np.repeat(largest, np.diff(self.chains))
        sizes = factors * self._sizes
        self._weight_residuals(factors, unit_for(sizes))
        self._set_counts(np.maximum(0.5 * sizes, self._weights))


class MarginalLoss(HammingLogLikelihood):
    """Minus the sum over the positions of a loss, a function of the marginal probabilities."""

    def __init__(self, function: Callable, data: ChainLabels, threads: Threads):
        super().__init__(data, threads)
        if self.candidates is not None:
            raise ValueError(
                "a function as objective needs all labels; some are unknown, or sets of labels"
            )
        self._function = function
        # Derivatives of minus the losses with respect to the probabilities, less their means.
        self._slopes = np.zeros((len(self.codes), data.n_labels))
        self._unused = np.zeros(len(self.codes))  # receives log q; ``log_q`` holds minus the losses

    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores."""
        self._evaluate(scores)
        return self._value()

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        marginals, gradient = self._evaluate(scores)
        means = (gradient * marginals).sum(axis=1, keepdims=True)
        np.subtract(means, gradient, out=self._slopes)
        return super()._compute(scores, weights)

    def _update(self, scores: np.ndarray, residuals: np.ndarray | None) -> None:
        def compute(first: int, last: int) -> None:
            _gradients.label_probabilities(
                self.chains, self.codes, False, self._unused, self._sizes, None, self._slopes,
                scores, first, last, residuals,
            )  # fmt: skip

        self.run_in_threads(compute)

    def _evaluate(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the losses; return the marginal probabilities, and the gradient at them."""
        marginals = np.zeros(self._slopes.shape)
        log_z = np.zeros(len(self.chains) - 1)

        def compute(first: int, last: int) -> None:
            _inference.marginals(scores, self.chains, first, last, marginals, log_z)

        self.run_in_threads(compute)
        returned = self._function(self.codes.copy(), marginals.copy())
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise ValueError("objective: the function must return two arrays, losses and gradient")
        losses = checked_array("losses", returned[0], (len(self.codes),))
        gradient = checked_array("gradient", returned[1], marginals.shape)
        self.log_q[:] = -losses
        return marginals, gradient


def checked_array(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Check an array that a function of the user returned."""
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"objective: {name} of shape {array.shape}; expected {shape}")
    if array.dtype.kind not in "iuf" or np.ma.is_masked(value):
        what = "masked values" if np.ma.is_masked(value) else f"dtype {array.dtype}"
        raise TypeError(f"objective: {name} with {what}; expected numbers, such as float64")
    if not np.isfinite(array).all():
        raise ValueError(f"objective: some {name} are not finite; probabilities can be 0 or 1")
    return array


LOSSES: dict[str, type[ExponentialLoss | HammingLogLikelihood]] = {
    "exponential": ExponentialLoss,
    "hamming_log": HammingLogLikelihood,
    "hamming_exponential": HammingExponentialLoss,
}


def make_loss(objective: str | Callable, data: ChainLabels, threads: Threads) -> ChainObjective:
    """Make an objective other than the log-likelihood by its name, or from a function."""
    if callable(objective):
        return MarginalLoss(objective, data, threads)
    return LOSSES[objective](data, threads)


def minus_log_mean_inverse(
    logs: np.ndarray, terms: np.ndarray, mean: WeightedMean | None = None
) -> float:
    """Compute minus the logarithm of the mean of ``exp(-logs)``, with the weights of ``mean``.

    ``terms`` receives the terms divided by their mean. Logarithms that are not finite have the
    term 0; the value is -inf or NaN if there are any.
    """
    if mean is None or mean.item_weights is None:
        value = -_gradients.inverse_weights(logs, terms)
    else:
        n_weighted = np.count_nonzero(mean.item_weights)
        weights = mean.item_weights * (n_weighted / mean.n_items)
        with np.errstate(divide="ignore"):
            value = -_gradients.inverse_weights(logs - np.log(weights), terms)
        np.divide(terms, weights, out=terms, where=weights > 0)
    if np.isfinite(logs).all():
        return value
    return float(logs.min())
