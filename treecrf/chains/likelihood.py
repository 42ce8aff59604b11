"""The log-likelihood of label sequences, its gradient, and the examples that trees are fitted to.

An objective is a function of the scores of labels in their contexts, which a learner maximizes. The
log-likelihood of conditional random fields is the sum of log P over the sequences, with P the
probability of the labels of a sequence. Other objectives are in `treecrf.chains.losses`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treecrf import _inference
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import chains_of
from treecrf.chains.partial_labels import UnknownLabels
from treecrf.inputs.offsets import joined_arrays, offsets_of
from treecrf.utils.exact import ExactSum, exact_sum, rounded
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


class Objective(ABC):
    """Function of the scores that a learner maximizes, a sum over sequences."""

    # The previous labels of each position, if scores are only those of this context.
    given: np.ndarray | None = None
    # Number of examples that each position stands for in tree fitting, after the latest call of
    # `examples`, in multiples of 2**-32: for residuals that are not limited to [-1, 1]. None means
    # one example per position, now and always.
    counts: np.ndarray | None = None

    @abstractmethod
    def constrain(self, scores: np.ndarray) -> None:
        """Set the scores of forbidden labels to minus infinity, in place."""

    @abstractmethod
    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the functional gradient, curvature (or None) and value at the scores.

        Where all positions of a sequence have weight 0, its gradient may be left out. The arrays
        have the shape (n_labels, n_positions, n_contexts) and hold multiples of 2**-32.
        """

    @abstractmethod
    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores, per position."""

    def sums(self, value: float) -> MeanSums | float:
        """Return the latest value, in a form in which values of parts of the data add up if any.

        Most objectives only have a value of all data together.
        """
        return value

    def forget_tables(self) -> None:
        """Free the memory of residuals that `value` computes as well; most have none."""
        return


class ChainObjective(Objective):
    """Objective over label sequences, as a function of the scores of all contexts.

    Residuals are its partial derivatives with respect to the scores, multiplied by the number of
    positions.
    """

    def __init__(
        self,
        data: ChainLabels,
        threads: Threads,
        bound_share: float | None = None,  # see `_curvature`; of the log-likelihood only
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
        self._shape = (data.n_labels, len(data.codes), data.n_labels**data.order)
        self._residuals: np.ndarray | None = None
        self._curvature: np.ndarray | None = None

    def constrain(self, scores: np.ndarray) -> None:
        """Set the scores of forbidden labels to minus infinity, in place."""
        self.constraints.forbid(scores, self.offsets)

    def tables(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the arrays of the residuals and of the curvature, if there is one."""
        if self._residuals is None:
            self._residuals = np.empty(self._shape)
            self._curvature = None if self.bound_share is None else np.empty(self._shape)
        return self._residuals, self._curvature

    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the functional gradient, curvature (or None) and value at the scores."""
        residuals, curvature = self.tables()
        return residuals, curvature, self._compute(scores, weights)

    @abstractmethod
    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        """Compute the residuals, and the curvature if there is one; return the value."""


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

    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores."""
        self.threads.map(
            lambda part: _inference.log_likelihood(
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
