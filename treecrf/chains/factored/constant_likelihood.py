"""The log-likelihood as a function of scores of labels at positions and of constant transitions.

Its examples are labels at positions: they have one context. What the transitions need are sums over
all positions. Everything is exact: it depends neither on the order of the sequences nor on the
partitions that they are in. See `_gradients`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from treecrf import _inference
from treecrf.chains.contexts import true_contexts
from treecrf.chains.factored import _gradients
from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.chains.factored.likelihood import FactoredLikelihood
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.partial_labels import unknown_contexts
from treecrf.inputs.offsets import offsets_of, positions_in_sequences
from treecrf.utils.exact import round_to, unit_of
from treecrf.utils.threads import Threads

# Sums of transitions have at most 2 to this power units. Each sum of a chain is rounded to a unit
# by adding a number with three more bits.
SUM_BITS = 50


@dataclass(frozen=True)
class TransitionSums:
    """Sums over positions, float64 (order + 1, n_labels, n_contexts); those of parts can be added.

    The first index is the number of previous labels, at most the order.
    """

    # Derivatives of the log-likelihood with respect to transitions.
    residuals: np.ndarray
    # Curvature of the pairs alone; in first order, weights of the positions with the true context.
    own: np.ndarray
    # Probabilities of the pairs, times their influence on other positions; None without a bound.
    influence: np.ndarray | None = None

    def __add__(self, other: TransitionSums) -> TransitionSums:
        influence = None
        if self.influence is not None:
            influence = self.influence + other.influence
        return TransitionSums(self.residuals + other.residuals, self.own + other.own, influence)

    def curvature(self, bound_share: float | None) -> np.ndarray:
        """Return the curvature: that of the pairs alone, but at least a share of the bound."""
        if self.influence is None:
            return self.own
        return np.maximum(self.own, bound_share * (self.own + self.influence))


class ConstantLikelihood(FactoredLikelihood):
    """Sum of log P over the sequences, with examples for labels at positions."""

    def __init__(self, data: ChainLabels, threads: Threads, bound_share: float | None = None):
        super().__init__(data, threads, bound_share)
        n_labels, n_positions, n_contexts = self._shape
        self._transition_shape = (data.order + 1, n_labels, n_contexts)
        self._shape = (n_labels, n_positions, 1)
        self._lengths = np.diff(self.chains)
        # Neighbors in this order have similar lengths, so that they can be computed side by side.
        self._by_length = np.argsort(self._lengths, kind="stable")
        self._is_short = _gradients.short_chains(self._lengths, n_labels)
        if data.order != 1:
            self._is_short[:] = False
        self._is_unknown = np.zeros(len(self._lengths), dtype=bool)
        if self._unknown is not None:
            self._is_unknown[self._unknown.numbers] = True
        # Sum of the weights of all positions, also those in other partitions of the data.
        self.total_weight = float(n_positions)
        # Sums at the latest scores.
        self.transition_sums: TransitionSums | None = None
        self._pairs: tuple[np.ndarray, np.ndarray] | None = None
        # The latest weights, and sums of them that do not depend on scores.
        self._counted: tuple[np.ndarray | None, np.ndarray, np.ndarray | None] | None = None
        self._lock = Lock()

    @property
    def unit(self) -> float:
        """Unit of the sums, which is the same in all partitions."""
        return unit_of(self.total_weight, SUM_BITS)

    def value(self, scores: FactoredScores) -> float:
        """Compute the value at the scores."""
        self._likelihoods_of(scores, self._by_length, self.likelihoods)
        if self._unknown is not None:
            numbers = self._unknown.numbers
            conditional = np.zeros(len(self.likelihoods))
            self._likelihoods_of(scores.restricted(self.candidates), numbers, conditional)
            self.likelihoods[numbers] -= conditional[numbers]
        return self._value()

    def _compute(self, scores: FactoredScores, weights: np.ndarray | None) -> float:
        """Compute the residuals, the curvature if there is one, and the sums."""
        has_weight = np.ones(len(self._lengths), dtype=bool)
        if weights is not None:
            has_weight = np.logical_or.reduceat(weights != 0, self.chains[:-1])
            self._clear(~has_weight)
        numbers = self._by_length
        sums = np.zeros((3, *self._transition_shape))
        chosen = numbers[has_weight[numbers] & ~self._is_unknown[numbers]]
        tables = (self._residuals[:, :, 0], None)
        if self._curvature is not None:
            tables = (self._residuals[:, :, 0], self._curvature[:, :, 0])
        self._gradients_of(scores, chosen, *tables, self.likelihoods, weights, sums)
        np.negative(sums[0], out=sums[0])
        if self._counted is None or self._counted[0] is not weights:
            contexts = self._context_weights(weights) if self.bound_share is None else None
            self._counted = (weights, self._true_pairs(weights), contexts)
        sums[0] += self._counted[1]
        if self._unknown is not None:
            self._add_unknown(scores, numbers[self._is_unknown[numbers]], weights, sums)
        self._likelihoods_of(
            scores, numbers[~has_weight[numbers] & ~self._is_unknown[numbers]], self.likelihoods
        )
        self.transition_sums = self._as_sums(sums)
        return self._value()

    def _as_sums(self, sums: np.ndarray) -> TransitionSums:
        if self.bound_share is None:
            return TransitionSums(sums[0], self._counted[2])
        return TransitionSums(sums[0], sums[1], sums[2] if self.bound_share > 0 else None)

    def _clear(self, is_chosen: np.ndarray) -> None:
        """Set the residuals and the curvature of some chains to 0."""
        positions = np.repeat(is_chosen, self._lengths)
        self._residuals[:, positions] = 0.0
        if self._curvature is not None:
            self._curvature[:, positions] = 0.0

    def forget_tables(self) -> None:
        """Free the memory of residuals and curvature."""
        self._residuals = None
        self._curvature = None

    # Kernels

    def _gradients_of(
        self,
        scores: FactoredScores,
        numbers: np.ndarray,  # of the chains, in the order of their lengths
        residuals: np.ndarray,
        curvature: np.ndarray | None,
        likelihoods: np.ndarray,
        weights: np.ndarray | None = None,
        sums: np.ndarray | None = None,
    ) -> None:
        """Compute the gradients of some chains, and add the sums of their pairs to ``sums``."""
        is_done = np.zeros(len(self._lengths), dtype=np.uint8)
        share = self.bound_share or 0.0

        def compute(kernel: Callable[..., None], chosen: np.ndarray, *more: np.ndarray) -> None:
            added = None if sums is None else np.zeros_like(sums)
            kernel(
                scores, self.chains, self.codes, chosen, residuals, curvature, likelihoods, share,
                weights, added, self.unit, *more,
            )  # fmt: skip
            if sums is not None:
                with self._lock:
                    sums.__iadd__(added)

        self._map(
            lambda chosen: compute(_gradients.lane_gradients, chosen, is_done),
            numbers[self._is_short[numbers]],
        )
        self._map(
            lambda chosen: compute(_gradients.single_gradients, chosen),
            numbers[is_done[numbers] == 0],
        )

    def _likelihoods_of(
        self, scores: FactoredScores, numbers: np.ndarray, likelihoods: np.ndarray
    ) -> None:
        """Compute log P of the codes of some chains, to the last bit as gradients do."""
        is_done = np.zeros(len(self._lengths), dtype=np.uint8)
        self._map(
            lambda chosen: _gradients.lane_log_likelihoods(
                scores, self.chains, self.codes, chosen, likelihoods, is_done
            ),
            numbers[self._is_short[numbers]],
        )
        self._map(
            lambda chosen: _gradients.single_log_likelihoods(
                scores, self.chains, self.codes, chosen, likelihoods
            ),
            numbers[is_done[numbers] == 0],
        )

    def _map(self, kernel: Callable[[np.ndarray], None], numbers: np.ndarray) -> None:
        """Call a function with the numbers of some chains in each thread."""
        if len(numbers):
            runs = self.threads.parts(offsets_of(self._lengths[numbers]))
            self.threads.map(lambda run: kernel(numbers[slice(*run)]), runs)

    # True labels

    def _true_pairs(self, weights: np.ndarray | None) -> np.ndarray:
        """Sum the weights of the positions by true label and context, if all of them are known."""
        depths, contexts = self._true_contexts()
        known = np.repeat(~self._is_unknown, self._lengths)
        groups = np.ravel_multi_index((depths, self.codes, contexts), self._transition_shape)
        values = None
        if weights is not None:
            values = self._rounded(weights[known])
        counts = np.bincount(groups[known], values, np.prod(self._transition_shape))
        return counts.reshape(self._transition_shape)

    def _context_weights(self, weights: np.ndarray | None) -> np.ndarray:
        """Sum the weights of the positions by true context; the same for all labels.

        The weight of a position whose context is unknown is shared by all contexts of its depth.
        """
        _, n_labels, n_contexts = self._transition_shape
        depths, contexts = self._true_contexts()
        shape = (self.order + 1, n_contexts)
        values = np.ones(len(depths)) if weights is None else self._rounded(weights)
        is_unknown = np.zeros(len(depths), dtype=bool)
        if self.candidates is not None:
            is_unknown = unknown_contexts(self.candidates, self.offsets, self.order)
        groups = np.ravel_multi_index((depths, contexts), shape)[~is_unknown]
        sums = np.bincount(groups, values[~is_unknown], np.prod(shape)).reshape(shape)
        for depth in range(self.order + 1):
            n = n_labels**depth
            sums[depth, :n] += self._rounded(values[is_unknown & (depths == depth)] / n).sum()
        return np.repeat(sums[:, np.newaxis], n_labels, axis=1)

    def _true_contexts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of previous labels, and the context, of each position."""
        if self._pairs is None:
            n_labels = self._transition_shape[1]
            self._pairs = true_contexts(self.offsets, self.codes, n_labels, self.order)
        return self._pairs

    def _rounded(self, values: np.ndarray) -> np.ndarray:
        """Round values to multiples of the unit."""
        rounded = values.copy()
        round_to(rounded, self.unit)
        return rounded

    # Chains with unknown labels

    def _add_unknown(
        self,
        scores: FactoredScores,
        numbers: np.ndarray,
        weights: np.ndarray | None,
        sums: np.ndarray,
    ) -> None:
        """Compute the gradients of chains with unknown labels, and their sums."""
        curvature = None if self._curvature is None else self._curvature[:, :, 0]
        self._gradients_of(scores, numbers, self._residuals[:, :, 0], curvature, self.likelihoods)
        conditional = np.zeros(self._residuals.shape)
        conditional_likelihoods = np.zeros(len(self.likelihoods))
        self._gradients_of(
            scores.restricted(self.candidates), numbers, conditional[:, :, 0], None,
            conditional_likelihoods,
        )  # fmt: skip
        positions = np.flatnonzero(np.repeat(self._is_unknown, self._lengths))
        _inference.subtract_residuals(
            self._residuals, self._curvature, positions, np.take(conditional, positions, axis=1)
        )
        self.likelihoods[numbers] -= conditional_likelihoods[numbers]
        for block in self._unknown.blocks:
            sums += self._block_sums(scores.at(block.positions, block.chains), block, weights)

    def _block_sums(
        self, scores: FactoredScores, block: Any, weights: np.ndarray | None
    ) -> np.ndarray:
        """Compute the sums of some chains with unknown labels from tables of their pairs."""
        table = scores.table()
        restricted = table.copy()
        restricted[~self.candidates[block.positions].T] = -np.inf
        codes = self.codes[block.positions]
        depths = np.minimum(positions_in_sequences(block.chains), self.order)
        conditional = np.empty_like(table)
        likelihoods = np.empty(len(block.numbers))
        everything = np.arange(len(block.positions))
        n_chains = len(block.numbers)
        _inference.residuals(
            restricted, block.chains, codes, 0, n_chains, conditional, None, likelihoods
        )

        def tables(share: float | None) -> tuple[np.ndarray, np.ndarray | None]:
            """Return residuals and curvature, with a share of the bound; None for no curvature."""
            residuals = np.empty_like(table)
            curvature = None if share is None else np.empty_like(table)
            _inference.residuals(
                table, block.chains, codes, 0, n_chains, residuals, curvature, likelihoods,
                share or 0.0,
            )  # fmt: skip
            _inference.subtract_residuals(residuals, curvature, everything, conditional)
            return residuals, curvature

        residuals, own = tables(None if self.bound_share is None else 0.0)
        summands = [residuals, own]
        if self.bound_share:
            summands.append(tables(1.0)[1] - own)
        sums = np.zeros((3, *self._transition_shape))
        for kind, values in enumerate(summands):
            if values is None:
                continue
            if weights is not None:
                values = values * weights[block.positions][None, :, None]
            for depth in range(self.order + 1):
                sums[kind, depth] = self._rounded(values[:, depths == depth]).sum(axis=1)
        return sums
