"""The log-likelihood of each label given the labels before it."""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import previous_labels
from treecrf.chains.likelihood import ChainLabels, MeanSums, Objective, WeightedMean
from treecrf.chains.local import _softmax
from treecrf.utils.threads import Threads


class LocalObjective(Objective):
    """Log-likelihood of each label given the true labels before it, and its functional gradient."""

    candidates = None

    def __init__(self, data: ChainLabels, threads: Threads, second_order: bool):
        previous = data.previous
        if previous is None:
            previous = data.codes
        self.given = previous_labels(previous, data.offsets, data.n_labels, data.order)
        self.codes = data.codes
        self.constraints = data.constraints
        self.threads = threads
        self.offsets = data.offsets
        if data.weights is not None:  # every position has its own likelihood
            self.offsets = np.arange(len(data.codes) + 1)
        self._runs = threads.parts(self.offsets)  # runs of sequences that threads share
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
            if self._second_order:
                self._curvature = np.zeros(self._shape)
        columns = scores[:, :, 0]
        residuals = self._residuals[:, :, 0]
        curvature = None
        if self._curvature is not None:
            curvature = self._curvature[:, :, 0]

        def compute(run: tuple[int, int]) -> None:
            _softmax.local_residuals(
                columns, self.offsets, self.codes, *run, residuals, curvature, self.likelihoods
            )

        self.threads.map(compute, self._runs)
        return self.mean(self.likelihoods)


def normalize(scores: np.ndarray, threads: Threads) -> None:
    """Turn scores into log-probabilities of the labels, in place."""
    every = np.arange(scores.shape[1] + 1)
    threads.map(lambda run: _softmax.normalize(scores, every, *run), threads.parts(every))
