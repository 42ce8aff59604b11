"""The log-likelihood of label sequences, its gradient, and the examples that trees are fitted to.

The score of a label sequence is the sum over its positions of ``scores[v, t, c]``: the score of its
label v at position t in context c, which is the labels at the last ``order`` positions. Its
probability P is the exponential of its score, divided by the sum of the exponentials over all label
sequences. The log-likelihood is the sum of log P over the training sequences. Its derivative with
respect to a score is

    residual[v, t, c] = I(v follows c at t in the true labels) - P(v follows c at t),

and the kernel `treecrf._inference` computes it. Every (label, position, context) is an example that
trees are fitted to, with the residual as its target.

Other objectives have the same interface, `Objective`; see `treecrf.chains.objectives`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    """Labels of sequences, whose probability an objective measures."""

    # First position of each sequence, and the number of positions.
    offsets: np.ndarray
    # Code of the label at each position; where labels are unknown, of one possible label sequence.
    codes: np.ndarray
    n_labels: int
    # Number of previous labels in a context.
    order: int
    # Labels that are allowed at each position and after each other.
    constraints: Constraints
    # Possible labels of each position, bool (n_positions, n_labels); None if all labels are known.
    candidates: np.ndarray | None = None
    # Weight of each position in the value; a sequence has the mean weight of its positions. The
    # weights do not change the residuals. None stands for ones.
    weights: np.ndarray | None = None
    # Codes of the labels that later ones depend on in local models; None stands for ``codes``.
    previous: np.ndarray | None = None

    @classmethod
    def joined(cls, partitions: Sequence[ChainLabels]) -> ChainLabels:
        """Append the labels of all partitions.

        An optional array, except for masks, is in all of them or in none.
        """
        lengths = [np.diff(labels.offsets) for labels in partitions]
        constraints = replace(partitions[0].constraints, allowed=joined_masks(partitions))
        return replace(
            partitions[0],
            offsets=offsets_of(np.concatenate(lengths)),
            codes=joined_arrays(partitions, "codes"),
            constraints=constraints,
            candidates=joined_arrays(partitions, "candidates"),
            weights=joined_arrays(partitions, "weights"),
            previous=joined_arrays(partitions, "previous"),
        )


def joined_masks(partitions: Sequence[ChainLabels]) -> np.ndarray | None:
    """Append the masks of allowed labels; None if no partition has one."""
    if all(labels.constraints.allowed is None for labels in partitions):
        return None
    masks = []
    for labels in partitions:
        mask = labels.constraints.allowed
        if mask is None:
            mask = np.ones((len(labels.codes), labels.n_labels), dtype=bool)
        masks.append(mask)
    return np.concatenate(masks)


# Means per position


@dataclass(frozen=True)
class MeanSums:
    """The two sums whose quotient is a mean; the sums of partitions of the data can be added."""

    # Sum of the values, multiplied by their weights.
    values: ExactSum
    # Sum of the weights of the positions.
    positions: ExactSum

    def __add__(self, other: MeanSums) -> MeanSums:
        return MeanSums(self.values + other.values, self.positions + other.positions)

    def __float__(self) -> float:
        if not self.positions.units:
            return math.nan
        return float(self.values) / float(self.positions)


class WeightedMean:
    """Mean per position of values that are sums over the positions of items, such as sequences.

    The weight of an item is the mean weight of its positions. Sums are exact, so that means do not
    depend on the order of the items.
    """

    def __init__(
        self, weights: np.ndarray | None, offsets: np.ndarray, largest: float | None = None
    ):
        self._weights = weights  # of each position; None stands for ones
        self._offsets = offsets  # first position of each item
        if weights is None:
            self.item_weights = None
            self.n_items = float(len(offsets) - 1)
            self._positions = ExactSum.of(np.array([offsets[-1]], dtype=np.float64))
        else:
            # Exact sums need weights of at most 1: they are divided by a power of 2.
            if largest is None:
                largest = weights.max()
            scale = 2.0 ** math.frexp(largest)[1]
            lengths = np.diff(offsets)
            self.item_weights = np.add.reduceat(weights, offsets[:-1]) / (lengths * scale)
            self.n_items = exact_sum(self.item_weights)
            self._positions = ExactSum.of(self.item_weights * lengths)
        self.n_positions = float(self._positions)

    def scaled_to(self, largest: float | None) -> WeightedMean:
        """Return this mean for a partition of data whose largest weight is this one."""
        return WeightedMean(self._weights, self._offsets, largest)

    def __call__(self, values: np.ndarray) -> float:
        """Compute the mean per position, given one value per item."""
        return float(self.sums(values))

    def sums(self, values: np.ndarray) -> MeanSums:
        """Return the two sums whose quotient is the mean."""
        if self.item_weights is not None:
            # Values of items without weight may be infinite.
            values = np.where(self.item_weights > 0, values, 0.0) * self.item_weights
        return MeanSums(ExactSum.of(values), self._positions)


# Examples


@dataclass(frozen=True)
class ExampleTable:
    """All examples that trees may be fitted to: arrays (n_labels, n_positions, n_contexts).

    With n_contexts = 1 and an order above 0, each position only has the context of its true labels.
    """

    # Derivatives of the objective with respect to the scores.
    residuals: np.ndarray
    # Weights of the examples in a Newton step; None for gradient steps.
    curvature: np.ndarray | None = None
    # Without a curvature: number of examples that a position counts as, (n_positions,).
    counts: np.ndarray | None = None

    def weighted(self, weights: np.ndarray | None) -> ExampleTable:
        """Multiply the examples by weights of their positions; None stands for ones."""
        if weights is None:
            return self
        position_weights = weights[None, :, None]
        if self.counts is None and ((weights == 0) | (weights == 1)).all():
            # Such weights only select positions, so the rounded values are multiplied in place.
            for values in (self.residuals, self.curvature):
                if values is not None:
                    values *= position_weights
            return ExampleTable(self.residuals, self.curvature, weights)
        curvature = self.curvature
        counts = weights
        if curvature is not None:
            curvature = rounded(curvature * position_weights)
        if self.counts is not None:
            counts = rounded(self.counts * weights, np.ceil)
        return ExampleTable(rounded(self.residuals * position_weights), curvature, counts)

    def are_mirrored(self) -> bool:
        """Return whether the examples of two labels differ in the signs of their residuals only."""
        if self.curvature is not None and not np.array_equal(*self.curvature):
            return False
        first, second = self.residuals
        return np.array_equal(first, -second)


# Objectives


class Objective(ABC):
    """Function of the scores that a learner maximizes, a sum over sequences."""

    # The previous labels of each position, if scores are only those of this context.
    given: np.ndarray | None = None
    # Number of examples that each position stands for in tree fitting, after the latest call of
    # `examples`, in multiples of 2**-32: for residuals that are not limited to [-1, 1]. None means
    # one example per position, now and always.
    counts: np.ndarray | None = None
    # Turns the values of sequences, or of other items, into the value per position.
    mean: WeightedMean
    # Log-likelihoods of the sequences, or of other items, at the latest scores; None if the value
    # is not their mean.
    likelihoods: np.ndarray | None = None

    @abstractmethod
    def constrain(self, scores: np.ndarray) -> None:
        """Set the scores of forbidden labels to minus infinity, in place."""

    @abstractmethod
    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the residuals, the curvature (or None) and the value at the scores.

        Where all positions of a sequence have weight 0, its gradient may be left out. The arrays
        have the shape (n_labels, n_positions, n_contexts) and hold multiples of 2**-32.
        """

    @abstractmethod
    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores, per position."""

    def sums(self, value: float) -> MeanSums | float:
        """Return the latest value as sums, which can be added over partitions of the data.

        Most objectives only have a value of all data together, which is returned as it is.
        """
        return value

    def forget_tables(self) -> None:
        """Free the memory of residuals that `value` computes as well; most have none."""
        return

    def scale_mean_to(self, largest: float | None) -> None:
        """Prepare `sums` for a partition of data whose largest weight is this one."""
        self.mean = self.mean.scaled_to(largest)


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
        # Sequences or, with order 0, single positions: labels of different chains are independent.
        self.chains = chains_of(data.offsets, data.order)
        self.mean = WeightedMean(data.weights, self.chains)
        self.threads = threads
        self.bound_share = bound_share
        self._runs = threads.parts(self.chains)  # runs of chains that threads share
        self._shape = (data.n_labels, len(data.codes), data.n_labels**data.order)
        self._residuals: np.ndarray | None = None
        self._curvature: np.ndarray | None = None

    def constrain(self, scores: np.ndarray) -> None:
        """Set the scores of forbidden labels to minus infinity, in place."""
        self.constraints.forbid(scores, self.offsets)

    def examples(
        self, scores: np.ndarray, iteration: int, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Compute the residuals, the curvature (or None) and the value at the scores."""
        residuals, curvature = self.tables()
        value = self._compute(scores, weights)
        return residuals, curvature, value

    def tables(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the arrays of residuals and of curvature, which iterations overwrite."""
        if self._residuals is None:
            self._residuals = np.empty(self._shape)
            if self.bound_share is not None:
                self._curvature = np.empty(self._shape)
        return self._residuals, self._curvature

    def run_in_threads(self, kernel: Callable[[int, int], None]) -> None:
        """Call a function with the first chain of each run, and the chain after its last."""
        self.threads.map(lambda run: kernel(*run), self._runs)

    @abstractmethod
    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        """Compute the residuals, and the curvature if there is one; return the value."""


class LogLikelihood(ChainObjective):
    """Sum of log P over the sequences; its value is the mean of log P / mean length.

    Unknown labels change it as `treecrf.chains.partial_labels` explains.
    """

    def __init__(self, data: ChainLabels, threads: Threads, bound_share: float | None = None):
        super().__init__(data, threads, bound_share)
        # log P of each chain, at the latest scores.
        self.likelihoods = np.zeros(len(self.chains) - 1)
        self._unknown: UnknownLabels | None = None
        if self.candidates is not None:
            self._unknown = UnknownLabels(
                self.chains, self.codes, self.candidates, self._shape[2], self.threads
            )

    def value(self, scores: np.ndarray) -> float:
        """Compute the value at the scores."""

        def compute(first: int, last: int) -> None:
            _inference.log_likelihood(
                scores, self.chains, self.codes, first, last, self.likelihoods
            )

        self.run_in_threads(compute)
        if self._unknown is not None:
            self._unknown.subtract_likelihoods(scores, self.likelihoods)
        return self._value()

    def sums(self, value: float) -> MeanSums:
        """Return the latest value as sums over the sequences."""
        return self.mean.sums(self.likelihoods)

    def _value(self) -> float:
        return self.mean(self.likelihoods)

    def _compute(self, scores: np.ndarray, weights: np.ndarray | None) -> float:
        bound_share = self.bound_share or 0.0

        def compute(first: int, last: int) -> None:
            _inference.residuals(
                scores, self.chains, self.codes, first, last, self._residuals, self._curvature,
                self.likelihoods, bound_share, weights,
            )  # fmt: skip

        self.run_in_threads(compute)
        if self._unknown is not None:
            self._unknown.subtract_residuals(
                scores, self._residuals, self._curvature, self.likelihoods
            )
        return self._value()
