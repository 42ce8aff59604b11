"""How a solver is followed: the loss that it sees, what it has reached, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.likelihood import Likelihood
from treecrf.learners.stopping import History, Stopping
from treecrf.utils.progress import Progress

# Training ends by what so many iterations have gained together, as one alone may gain little.
PERIOD = 10

# About what an indicator adds to the curvature at a position where it is set.
CURVATURE_OF_A_POSITION = 0.1


class Loss:
    """What is minimized, without the L1 penalty.

    Parameters
    ----------
    likelihood : Likelihood
    l2 : float
    """

    def __init__(self, likelihood: Likelihood, l2: float):
        self.likelihood = likelihood
        self.l2 = l2
        self.mean = np.nan  # log-likelihood of a position at the weights asked last

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        weights = self.likelihood.data.layout.weights(vector)
        total, self.mean, gradient = self.likelihood.slope(weights)
        value = self.l2 * float(vector @ vector) - total
        return value, 2.0 * self.l2 * vector - gradient.vector


@dataclass
class TrainingMonitor:
    """Follows a solver, and says when to end.

    The solver sees each weight divided by its ``scale``.
    """

    loss: Loss
    held_out: Likelihood | None
    tol: float
    stopping: Stopping | None
    progress: Progress
    scale: np.ndarray
    values: list[float] = field(default_factory=list)
    history: History = field(default_factory=History)
    best: np.ndarray | None = None

    def scaled(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient as the solver sees them."""
        value, gradient = self.loss(vector * self.scale)
        return value, gradient * self.scale

    def start(self, weights: np.ndarray, penalty: float) -> None:
        """Note the weights that training starts from."""
        value, _ = self.loss(weights)
        self._note(weights, value + penalty)

    def __call__(self, vector: np.ndarray, value: float) -> bool:
        """Note an iteration; whether it is the last."""
        self._note(vector * self.scale, value)
        self._report()
        if self.stopping is not None and self.stopping.is_reached(self.history.validation):
            return True
        if len(self.values) <= PERIOD:
            return False
        return self.values[-1 - PERIOD] - value < self.tol * max(1.0, abs(value))

    def _note(self, weights: np.ndarray, value: float) -> None:
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
        """Fitted attributes, after an early stop those of the best iteration."""
        n_iter = self.history.kept(self.stopping)
        results = {"n_iter_": n_iter, "loss_": self.values[n_iter]}
        return results | self.history.until(n_iter).scores()


def scale_of(data: TrainingData, l2: float) -> np.ndarray:
    """What to divide weights by, so that the loss bends alike along all of them.

    It is 1 for indicators. Numbers are made to bend it like an indicator that is set where they
    are not 0; without that, solvers need thousands of iterations where scales differ.
    """
    matrix = data.scores.table.matrix
    n_attributes = data.layout.n_attributes
    counts = np.bincount(matrix.indices, minlength=n_attributes)
    squares = np.bincount(matrix.indices, weights=matrix.data**2, minlength=n_attributes)
    like_indicator = CURVATURE_OF_A_POSITION * counts + 2.0 * l2
    # An attribute that never occurs bends nothing.
    bend = np.where(counts > 0, CURVATURE_OF_A_POSITION * squares + 2.0 * l2, like_indicator)
    scale = data.layout.weights(np.ones(data.layout.size))
    ratio = np.where(like_indicator > 0, like_indicator, 1.0) / np.where(bend > 0, bend, 1.0)
    scale.attributes[:] = np.sqrt(ratio)[:, np.newaxis, np.newaxis]
    return scale.vector
