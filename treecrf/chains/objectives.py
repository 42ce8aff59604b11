"""Objectives that learners maximize, and their gradients with respect to the scores.

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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from treecrf import _inference
from treecrf.chains import _objectives, _sampling
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import chains_of, previous_labels
from treecrf.chains.partial_labels import UnknownLabels
from treecrf.chains.score_parts import ScoreParts
from treecrf.inputs.offsets import joined_arrays, offsets_of
from treecrf.utils.exact import UNIT, ExactSum, exact_sum, rounded, unit_for
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class ChainLabels:
    """Labels of chains, whose probability objectives measure."""

    offsets: np.ndarray
    codes: np.ndarray  # a possible label sequence, if there are candidates
    n_labels: int
    order: int
    constraints: Constraints
    candidates: np.ndarray | None = None  # if not all labels are known
    # Weights in the value; a sequence has the mean weight of its positions. They do not change the
    # residuals.
    weights: np.ndarray | None = None
    # Codes of the labels that later ones depend on in local models; None: ``codes``.
    previous: np.ndarray | None = None

    @classmethod
    def joined(cls, parts: Sequence[ChainLabels]) -> ChainLabels:
        """Append the labels of all parts, which are weighted or partly unknown in all of them."""
        first, masks = parts[0], [part.constraints.allowed for part in parts]
        if not all(mask is None for mask in masks):
            for i, part in enumerate(parts):
                if masks[i] is None:
                    masks[i] = np.ones((len(part.codes), part.n_labels), dtype=bool)
            masks = [np.concatenate(masks)]
        arrays = {
            name: joined_arrays(parts, name)
            for name in ("codes", "candidates", "weights", "previous")
        }
        return replace(
            first,
            offsets=offsets_of(np.concatenate([np.diff(part.offsets) for part in parts])),
            constraints=replace(first.constraints, allowed=masks[0]),
            **arrays,
        )


@dataclass(frozen=True)
class MeanSums:
    """The two sums whose quotient is a mean; the sums of parts of the data can be added."""

    values: ExactSum  # weighted
    positions: ExactSum  # their weights

    def __add__(self, other: MeanSums) -> MeanSums:
        return MeanSums(self.values + other.values, self.positions + other.positions)

    def __float__(self) -> float:
        return float(self.values) / float(self.positions) if self.positions.units else math.nan


class WeightedMean:
    """Mean per position of values that are sums over the positions of items.

    The weight of an item is the mean weight of its positions. Means do not depend on the order of
    the items.
    """

    def __init__(
        self, weights: np.ndarray | None, offsets: np.ndarray, largest: float | None = None
    ):
        self._weights, self._offsets = weights, offsets
        self.of_items = None  # weight of each item, at most 1: divided by a power of 2
        self.n_items = float(len(offsets) - 1)
        self._positions = ExactSum.of(np.array([offsets[-1]], dtype=np.float64))
        if weights is not None:
            lengths = np.diff(offsets)
            scale = 2.0 ** math.frexp(weights.max() if largest is None else largest)[1]
            self.of_items = np.add.reduceat(weights, offsets[:-1]) / (lengths * scale)
            self.n_items = exact_sum(self.of_items)
            self._positions = ExactSum.of(self.of_items * lengths)
        self.n_positions = float(self._positions)

    def of_part(self, largest: float | None) -> WeightedMean:
        """Return this mean for data that are a part of others, with this largest weight."""
        return WeightedMean(self._weights, self._offsets, largest)

    def __call__(self, values: np.ndarray) -> float:
        """Compute the mean per position, given one value per item."""
        return float(self.sums(values))

    def sums(self, values: np.ndarray) -> MeanSums:
        """Return the two sums whose quotient is the mean."""
        if self.of_items is not None:
            values = np.where(self.of_items > 0, values, 0.0) * self.of_items
        return MeanSums(ExactSum.of(values), self._positions)


@dataclass(frozen=True)
class ExampleTable:
    """All examples that trees may be fitted to: residuals, and what weighs them."""

    residuals: np.ndarray  # with n_contexts = 1 and an order above 0, each position has one context
    curvature: np.ndarray | None = None
    counts: np.ndarray | None = None  # without a curvature, examples that a position counts as

    def weighted(self, weights: np.ndarray | None) -> ExampleTable:
        """Multiply the examples by weights of their positions; None stands for ones."""
        if weights is None:
            return self
        of_positions = weights[None, :, None]
        if self.counts is None and ((weights == 0) | (weights == 1)).all():
            # Those of a subset stay in their place, and what is left out was rounded already.
            for values in (self.residuals, self.curvature):
                if values is not None:
                    values *= of_positions
            return ExampleTable(self.residuals, self.curvature, weights)
        return ExampleTable(
            rounded(self.residuals * of_positions),
            None if self.curvature is None else rounded(self.curvature * of_positions),
            weights if self.counts is None else rounded(self.counts * weights, np.ceil),
        )


class ChainObjective(ABC):
    """Objective over label sequences, as a function of the scores of all contexts.

    Residuals are its partial derivatives with respect to the scores, multiplied by the number of
    positions.
    """

    # The previous labels of each position, if scores are only those of this context.
    given = None
    # Number of examples that each position stands for in tree fitting, after the latest call of
    # `examples`, in multiples of 2**-32: for residuals that are not limited to [-1, 1]. None means
    # one example per position, now and always.
    counts: np.ndarray | None = None

    def __init__(
        self,
        data: ChainLabels,
        threads: Threads,
        bound_share: float | None = None,  # see `_curvature`; of the log-likelihood only
        n_pseudo: int = 0,  # initial iterations that maximize the pseudo-likelihood instead
    ):
        self.offsets = data.offsets
        self.codes = data.codes
        self.order = data.order
        self.constraints = data.constraints
        self.candidates = data.candidates
        self.chains = chains_of(data.offsets, data.order)
        self.mean = WeightedMean(data.weights, self.chains)
        self.threads = threads
        self.parts = threads.parts(self.chains)
        self.bound_share = bound_share
        self.n_pseudo = n_pseudo
        self._shape = (data.n_labels, len(data.codes), data.n_labels**data.order)
        self._residuals: np.ndarray | None = None
        self._curvature: np.ndarray | None = None

    def constrain(self, scores: np.ndarray) -> None:
        """Set the scores of forbidden labels to minus infinity, in place."""
        self.constraints.forbid(scores, self.offsets)

    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the functional gradient, curvature (or None) and value at the scores.

        Where all positions of a sequence have weight 0, its gradient may be left out. The arrays
        have the shape (n_labels, n_positions, n_contexts) and hold multiples of 2**-32.
        """
        if self._residuals is None:
            self._residuals = np.empty(self._shape)
            self._curvature = None if self.bound_share is None else np.empty(self._shape)
        if iteration < self.n_pseudo:
            self.threads.map(
                lambda part: _inference.pseudo_residuals(
                    scores, self.chains, self.codes, *part, self._residuals, self._curvature
                ),
                self.parts,
            )
            value = self.value(scores)
        else:
            value = self._compute(scores, weights)
        return self._residuals, self._curvature, value

    @abstractmethod
    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores, per position."""

    def sums(self, value: float) -> MeanSums | float:
        """Return the latest value, in a form in which values of parts of the data add up if any.

        Most objectives only have a value of all data together.
        """
        return value

    @abstractmethod
    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        """Compute the residuals, and the curvature if there is one; return the value."""

    def _weight_residuals(self, weights: np.ndarray, unit: float) -> None:
        """Multiply the residuals of each position by its weight, and round them."""
        self.threads.map(
            lambda part: _objectives.weight_residuals(
                self._residuals, weights, unit, self.chains[part[0]], self.chains[part[1]]
            ),
            self.parts,
        )

    def _set_counts(self, counts: np.ndarray) -> None:
        """Set ``counts``, rounded up so that sums over all contexts are exact."""
        unit = unit_for(counts, self._shape[2])
        self.counts = np.ceil(counts / unit) * unit


class LogLikelihood(ChainObjective):
    """Sum of log P over the sequences.

    Unknown labels change it as `treecrf.chains.partial_labels` explains.
    """

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.likelihoods = np.zeros(len(self.chains) - 1)
        self._unknown: UnknownLabels | None = None
        if self.candidates is not None:
            self._unknown = UnknownLabels(
                self.chains, self.codes, self.candidates, self._shape[2], self.threads
            )

    def value(self, scores: np.ndarray | ScoreParts) -> float:
        """Compute the value at the scores; with parts, in the precision of samples."""
        is_sampled = isinstance(scores, ScoreParts) and self._unknown is None
        kernel = _sampling if is_sampled else _inference
        self.threads.map(
            lambda part: kernel.log_likelihood(
                scores, self.chains, self.codes, *part, self.likelihoods
            ),
            self.parts,
        )
        if self._unknown is not None:
            self._unknown.subtract_likelihoods(scores, self.likelihoods)
        return self._value()

    def sums(self, value: float) -> MeanSums:
        """Return the latest value as sums over the sequences."""
        return self.mean.sums(self.likelihoods)

    def _value(self) -> float:
        return self.mean(self.likelihoods)

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        self.threads.map(
            lambda part: _inference.residuals(
                scores, self.chains, self.codes, *part, self._residuals, self._curvature,
                self.likelihoods, self.bound_share or 0.0, weights,
            ),
            self.parts,
        )  # fmt: skip
        if self._unknown is not None:
            self._unknown.subtract_residuals(
                scores, self._residuals, self._curvature, self.likelihoods
            )
        return self._value()


class ExponentialLoss(LogLikelihood):
    """Minus the sum of 1/P - 1 over the sequences, on a logarithmic scale.

    In tree fitting, a position counts as many examples as the weight of its sequence.
    """

    def __init__(self, data: ChainLabels, *arguments: Any, **options: Any):
        super().__init__(data, *arguments, **options)
        self.mean = WeightedMean(data.weights, data.offsets)
        self.counts = np.ones(len(self.codes))
        self._weights = np.ones(len(self.offsets) - 1)

    sums = ChainObjective.sums

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


class HammingLogLikelihood(ChainObjective):
    """Sum of log q over the positions.

    A label also contributes to the residuals of the positions around it. If neighbors depend on
    each other, a position can have larger residuals than those of a likelihood, whose positive
    ones sum to at most 1. Such a position counts as more than one example in tree fitting, so that
    steps are no longer than for a likelihood.
    """

    exponential = False

    def __init__(self, data: ChainLabels, *arguments: Any, **options: Any):
        super().__init__(data, *arguments, **options)
        self._positions = np.arange(len(self.codes) + 1)  # each is an item of the mean
        self.mean = WeightedMean(data.weights, self._positions)
        self.counts = np.ones(len(self.codes))
        self.log_q = np.zeros(len(self.codes))
        self._sizes = np.zeros(len(self.codes))
        possible = self._possible()
        self._label_probabilities = partial(
            _objectives.label_probabilities,
            self.chains,
            self.codes,
            self.exponential,
            self.log_q,
            self._sizes,
            None if possible is None else possible.view(np.uint8),
            None,
        )

    def _possible(self) -> np.ndarray | None:
        """Return the possible labels; all of them where all allowed labels are possible."""
        allowed = self.constraints.allowed
        if self.candidates is None or allowed is None:
            return self.candidates
        return self.candidates | (self.candidates | ~allowed).all(axis=1, keepdims=True)

    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores."""
        self.threads.map(lambda part: self._label_probabilities(scores, *part), self.parts)
        return self._value()

    def _value(self) -> float:
        return self.mean(self.log_q)

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        self.threads.map(
            lambda part: self._label_probabilities(scores, *part, self._residuals), self.parts
        )
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

    def __init__(self, data: ChainLabels, *arguments: Any, **options: Any):
        super().__init__(data, *arguments, **options)
        weights = data.weights
        self._weights = np.ones(len(self.codes))
        if weights is not None:  # a chain shares one weight, as its residuals share one scale
            lengths = np.diff(self.chains)
            means = np.add.reduceat(weights, self.chains[:-1]) / lengths
            weights = np.repeat(means, lengths)
            self.mean = WeightedMean(weights, self._positions)
        if self.candidates is not None:  # the terms of unknown labels are constant
            known = ~self._possible().all(axis=1)
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

    def __init__(self, function: Callable, data: ChainLabels, *arguments: Any, **options: Any):
        super().__init__(data, *arguments, **options)
        if self.candidates is not None:
            raise ValueError(
                "a function as objective needs all labels; some are unknown, or sets of labels"
            )
        self._function = function
        self._slopes = np.zeros((len(self.codes), data.n_labels))
        self._label_probabilities = partial(
            _objectives.label_probabilities,
            self.chains,
            self.codes,
            False,
            self.log_q.copy(),
            self._sizes,
            None,
            self._slopes,
        )

    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores."""
        self._evaluate(scores)
        return self._value()

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        marginals, gradient = self._evaluate(scores)
        means = (gradient * marginals).sum(axis=1, keepdims=True)
        np.subtract(means, gradient, out=self._slopes)
        return super()._compute(scores, weights)

    def _evaluate(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the losses; return the marginal probabilities, and the gradient at them."""
        marginals, log_z = np.zeros(self._slopes.shape), np.zeros(len(self.chains) - 1)
        self.threads.map(
            lambda part: _inference.marginals(scores, self.chains, *part, marginals, log_z),
            self.parts,
        )
        returned = self._function(self.codes.copy(), marginals.copy())
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise ValueError("objective: the function must return two arrays, losses and gradient")
        losses = _returned("losses", returned[0], (len(self.codes),))
        gradient = _returned("gradient", returned[1], marginals.shape)
        self.log_q[:] = -losses
        return marginals, gradient


def _returned(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
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


class LocalObjective:
    """Log-likelihood of each label given the true labels before it, and its functional gradient."""

    counts = None
    candidates = None

    def __init__(self, data: ChainLabels, threads: Threads, second_order: bool):
        previous = data.codes if data.previous is None else data.previous
        self.given = previous_labels(previous, data.offsets, data.n_labels, data.order)
        self.codes = data.codes
        self.constraints = data.constraints
        self.threads = threads
        # With weights, every position has its own likelihood.
        self.offsets = data.offsets if data.weights is None else np.arange(len(data.codes) + 1)
        self.parts = threads.parts(self.offsets)
        self.likelihoods = np.zeros(len(self.offsets) - 1)
        self.mean = WeightedMean(data.weights, self.offsets)
        self._shape = data.n_labels, len(data.codes), 1
        self._second_order = second_order
        self.forget_tables()

    def constrain(self, scores: np.ndarray) -> None:
        """Set the scores of forbidden labels to minus infinity, in place."""
        self.constraints.forbid_given(scores, self.given)

    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the residuals, curvature and mean log-likelihood at the scores."""
        value = self.value(scores)
        return self._residuals, self._curvature, value

    def sums(self, value: float) -> MeanSums:
        """Return the latest value as sums over the sequences."""
        return self.mean.sums(self.likelihoods)

    def forget_tables(self) -> None:
        """Free the memory of the residuals and the curvature, which `value` computes again."""
        self._residuals: np.ndarray | None = None
        self._curvature: np.ndarray | None = None

    def value(self, scores: np.ndarray) -> float:
        """Compute the mean log-likelihood of a position, and the residuals."""
        if self._residuals is None:
            self._residuals = np.zeros(self._shape)
            self._curvature = np.zeros(self._shape) if self._second_order else None
        columns, residuals = scores[:, :, 0], self._residuals[:, :, 0]
        curvature = None if self._curvature is None else self._curvature[:, :, 0]
        self.threads.map(
            lambda part: _inference.local_residuals(
                columns, self.offsets, self.codes, *part, residuals, curvature, self.likelihoods
            ),
            self.parts,
        )
        return self.mean(self.likelihoods)


# Functions of the scores that learners maximize, sums over sequences.
Objective = ChainObjective | LocalObjective


def normalize(scores: np.ndarray, threads: Threads) -> None:
    """Turn scores into log-probabilities of the labels, in place."""
    every = np.arange(scores.shape[1] + 1)
    threads.map(lambda part: _inference.normalize(scores, every, *part), threads.parts(every))


OBJECTIVES: dict[str, type[ChainObjective]] = {
    "log": LogLikelihood,
    "exponential": ExponentialLoss,
    "hamming_log": HammingLogLikelihood,
    "hamming_exponential": HammingExponentialLoss,
}


# Name of an objective that is a function.
CUSTOM = "custom"


def make_objective(objective: str | Callable, *arguments: Any, **options: Any) -> ChainObjective:
    """Make an objective by its name, or from a loss; the others are those of `ChainObjective`."""
    if callable(objective):
        return MarginalLoss(objective, *arguments, **options)
    return OBJECTIVES[objective](*arguments, **options)


def minus_log_mean_inverse(
    logs: np.ndarray, terms: np.ndarray, mean: WeightedMean | None = None
) -> float:
    """Compute minus the logarithm of the mean of ``exp(-logs)``, with the weights of ``mean``.

    ``terms`` receives the terms divided by their mean. Logarithms that are not finite have the
    term 0; the value is -inf or NaN if there are any.
    """
    if mean is None or mean.of_items is None:
        value = -_objectives.inverse_weights(logs, terms)
    else:
        weights = mean.of_items * (np.count_nonzero(mean.of_items) / mean.n_items)
        with np.errstate(divide="ignore"):
            value = -_objectives.inverse_weights(logs - np.log(weights), terms)
        np.divide(terms, weights, out=terms, where=weights > 0)
    return value if np.isfinite(logs).all() else float(logs.min())
