"""The loss that a solver minimizes, and the monitor that follows the solver."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treecrf.learners.linear.base import Run, TrainingData
from treecrf.learners.linear.likelihood import Likelihood
from treecrf.learners.linear.solvers import dot
from treecrf.learners.linear.weights import Weights
from treecrf.learners.stopping import History, Stopping
from treecrf.utils.progress import Progress

# Convergence is judged over this many iterations, because a single one may gain little.
PERIOD = 10

# Approximate curvature of the loss that an indicator adds at each position where it is 1.
CURVATURE_OF_A_POSITION = 0.1


class Loss:
    """The loss to minimize, without the L1 penalty.

    Parameters
    ----------
    likelihood : Likelihood
    l2 : float
    """

    def __init__(self, likelihood: Likelihood, l2: float):
        self.likelihood = likelihood
        self.l2 = l2
        self.mean = np.nan  # mean log-likelihood of a position in the latest evaluation

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient."""
        weights = self.likelihood.data.layout.weights(vector)
        total, self.mean, gradient = self.likelihood.gradient(weights)
        value = self.l2 * dot(vector, vector) - total
        return value, 2.0 * self.l2 * vector - gradient.vector


@dataclass
class TrainingMonitor:
    """Monitor of a solver, which records the scores and decides when to stop.

    Attributes
    ----------
    loss : Loss
    held_out : Likelihood or None
        Likelihood of the validation sequences.
    tol : float
    stopping : Stopping or None
    progress : Progress
    scale : float64 array (n_weights,)
        The solver's variables are the weights divided by these numbers.
    run : Run
    values : list of float
        Losses, including the L1 penalty.
    history : History
    best : float64 array or None
        Weights to keep.
    """

    loss: Loss
    held_out: Likelihood | None
    tol: float
    stopping: Stopping | None
    progress: Progress
    scale: np.ndarray
    run: Run
    values: list[float] = field(default_factory=list)
    history: History = field(default_factory=History)
    best: np.ndarray | None = None

    def scaled(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient as functions of the solver's variables."""
        value, gradient = self.loss(vector * self.scale)
        return value, gradient * self.scale

    def start(self, weights: np.ndarray, penalty: float) -> None:
        """Record the weights that training starts from."""
        value, _ = self.loss(weights)
        self._record(weights, value + penalty)

    def __call__(self, vector: np.ndarray, value: float) -> bool:
        """Record an iteration; returns whether to stop."""
        weights = vector * self.scale
        self._record(weights, value)
        self._report()
        if self.run.after(len(self.values) - 1, self.history, lambda: self._state_at(weights)):
            return True
        if self.stopping is not None and self.stopping.is_reached(self.history.validation):
            return True
        if len(self.values) <= PERIOD:
            return False
        return self.values[-1 - PERIOD] - value < self.tol * max(1.0, abs(value))

    def _record(self, weights: np.ndarray, value: float) -> None:
        self.values.append(value)
        self.history.train.append(self.loss.mean)
        if self.held_out is not None:
            layout = self.held_out.data.layout
            self.history.validation.append(self.held_out.mean(layout.weights(weights)))
        if self.stopping is None or self.history.is_at_best():
            self.best = weights

    def _report(self) -> None:
        shown = {"loss": self.values[-1]} | self.history.latest("log-likelihood")
        self.progress.update(len(self.values) - 1, shown)

    def results(self) -> dict:
        """Return the fitted attributes, after an early stop those of the best iteration."""
        return self._results_of(self.history.kept(self.stopping))

    def _results_of(self, n_iter: int) -> dict:
        results = {"n_iter_": n_iter, "loss_": self.values[n_iter]}
        return results | self.history.until(n_iter).scores()

    def _state_at(self, weights: np.ndarray) -> tuple[Weights, dict]:
        """Return the weights and results of the latest iteration."""
        layout = self.loss.likelihood.data.layout
        return layout.weights(weights), self._results_of(len(self.values) - 1)


def scale_of(data: TrainingData, l2: float) -> np.ndarray:
    """Scale of each weight, such that the loss has similar curvature along all scaled weights.

    It is 1 for indicators. A numeric attribute gets the curvature of an indicator of its non-zero
    values. Without scaling, solvers need thousands of iterations if attributes differ in scale.
    """
    matrix = data.scores.table.matrix
    n_attributes = data.layout.n_attributes
    counts = np.bincount(matrix.indices, minlength=n_attributes)
    squares = np.bincount(matrix.indices, weights=matrix.data**2, minlength=n_attributes)
    like_indicator = CURVATURE_OF_A_POSITION * counts + 2.0 * l2
    # Attributes that never occur keep scale 1.
    curvature = np.where(counts > 0, CURVATURE_OF_A_POSITION * squares + 2.0 * l2, like_indicator)
    scale = data.layout.weights(np.ones(data.layout.size))
    ratio = np.where(like_indicator > 0, like_indicator, 1.0)
    ratio /= np.where(curvature > 0, curvature, 1.0)
    scale.attributes[:] = np.sqrt(ratio)[:, np.newaxis, np.newaxis]
    return scale.vector
