"""Stochastic gradient descent for linear chains: one step per sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from treecrf.learners.linear._sgd import LinearSteps, StepSizes
from treecrf.learners.linear.base import Run, TrainingData
from treecrf.learners.linear.likelihood import Likelihood, StateLikelihood
from treecrf.learners.linear.solvers import dot
from treecrf.learners.linear.training import PERIOD, scale_of
from treecrf.learners.linear.weights import Weights
from treecrf.learners.stopping import History, Stopping
from treecrf.utils.hashing import mix
from treecrf.utils.progress import Progress

# Positions with smaller residuals are sampled.
SMALLEST_RESIDUAL = 0.03
# In the average of the iterates, that of epoch i has a weight of about i ** AVERAGING.
AVERAGING = 3
# Step sizes fall at least as fast as with this L2 penalty, so that they also fall without one.
MIN_PENALTY = 0.5
# The first step size is chosen among powers of 2, on so many positions.
FIRST_GUESS = 2.0**-5
MAX_TRIALS = 20
SAMPLE_POSITIONS = 20_000
# Sequences between two chances to interrupt training.
PART_SEQUENCES = 4096


class StochasticSolver:
    """Weights that move by one step for each sequence, and their average over the epochs.

    An epoch visits the sequences in the order of hashes of their contents and the seed. The result
    depends neither on the order in which they are given nor on the number of threads.

    The steps are those of [1]_, with the penalty as a factor common to all weights. Their first
    size is chosen on a sample of the sequences, as in CRFsuite. Weights of numbers are rescaled as
    for L-BFGS, see `scale_of`.

    Parameters
    ----------
    training : TrainingData
        Without transition features.
    l2 : float
        Coefficient of the sum of squared weights.
    start : Weights
    seed : int

    References
    ----------
    .. [1] L. Bottou, "Stochastic gradient descent tricks", in Neural Networks: Tricks of the Trade,
       2012.
    .. [2] O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization", ICML
       2013. The average of the iterates.
    """

    def __init__(self, training: TrainingData, l2: float, start: Weights, seed: int):
        self.training = training
        self.layout = training.layout
        self.seed = seed
        self.scale = _powers_of_2(self.layout.weights(scale_of(training, l2)))
        self.decay = 2.0 * l2 / self.n_sequences
        self._by_row = self._scaled_rows()
        self._blocks = (start.attributes / self.scale[:, None, None]).astype(np.float32)
        self._transitions = start.transitions.copy()
        self._steps = self._steps_from(self._blocks, self._transitions)
        self._keys = self._steps.keys()
        self._sizes = self._new_sizes(self._first_size())
        self._average = self._blocks.copy(), self._transitions.copy()
        self.n_iter = 0

    @property
    def n_sequences(self) -> int:
        """Number of training sequences."""
        return len(self.training.weights)

    def run_epoch(self) -> np.ndarray:
        """Make a step for each sequence; return log P of its labels before its step."""
        self.n_iter += 1
        found = np.zeros(self.n_sequences)
        numbers = mix(self.seed, self.n_iter, self._keys)
        for part in _parts(np.argsort(numbers, kind="stable")):
            self._run(self._steps, part, numbers, self._sizes, found)
        self._steps.settle()
        rate = (AVERAGING + 1) / (AVERAGING + self.n_iter)
        for average, latest in zip(self._average, (self._blocks, self._transitions), strict=True):
            average += rate * (latest - average)
        return found

    def weights(self) -> Weights:
        """Return the average of the weights after each epoch."""
        blocks, transitions = self._average
        weights = self.layout.weights()
        weights.attributes[:] = blocks * self.scale[:, None, None]
        weights.transitions[:] = transitions
        return weights

    def _scaled_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the attributes in rows, for the rescaled weights."""
        starts, attributes, values = self.training.scores.table.by_row
        return starts, attributes, values * self.scale[attributes]

    def _steps_from(self, blocks: np.ndarray, transitions: np.ndarray) -> LinearSteps:
        table, constraints = self.training.scores.table, self.training.constraints
        allowed, candidates = (
            None if mask is None else np.ascontiguousarray(mask).view(np.uint8)
            for mask in (constraints.allowed, self.training.candidates)
        )
        return LinearSteps(
            self._by_row,
            table.window,
            table.offsets,
            table.first_rows,
            self.training.codes,
            self.training.weights,
            self.scale**2,
            blocks,
            transitions,
            constraints.limited(np.zeros(transitions.shape)),
            allowed,
            candidates,
        )

    def _new_sizes(self, first: float) -> StepSizes:
        slope = max(self.decay, 2.0 * MIN_PENALTY / self.n_sequences)
        # A longer step would overshoot the optimum of the penalty alone.
        return StepSizes(min(first, 1.0 / slope), slope)

    def _run(
        self,
        steps: LinearSteps,
        order: np.ndarray,
        numbers: np.ndarray,
        sizes: StepSizes,
        found: np.ndarray,
    ) -> None:
        steps.run(order, numbers, sizes, self.decay, SMALLEST_RESIDUAL, found)

    # The first step size

    def _first_size(self) -> float:
        """Return the size with the best likelihoods, each before the step of its sequence."""
        numbers = mix(self.seed, 0, self._keys)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.diff(self.training.offsets)[order])
        sample = order[: np.searchsorted(ends, SAMPLE_POSITIONS) + 1]
        best, n_left = FIRST_GUESS, MAX_TRIALS
        value = self._trial(sample, numbers, best)
        for factor in (0.5, 2.0):
            first = best
            while n_left:
                n_left -= 1
                other = self._trial(sample, numbers, best * factor)
                if not other > value:
                    break
                best, value = best * factor, other
            if best != first:
                break
        return best

    def _trial(self, sample: np.ndarray, numbers: np.ndarray, first: float) -> float:
        """Return the likelihood of the sample during steps from the start."""
        found = np.zeros(self.n_sequences)
        steps = self._steps_from(self._blocks.copy(), self._transitions.copy())
        self._run(steps, sample, numbers, self._new_sizes(first), found)
        return math.fsum(found[sample] * self.training.weights[sample])


@dataclass
class EpochMonitor:
    """Monitor of a `StochasticSolver`, which records the epochs and decides when to stop.

    Attributes
    ----------
    solver : StochasticSolver
    l2 : float
    held_out : Likelihood or None
        Score of the validation sequences.
    tol : float
    stopping : Stopping or None
    progress : Progress
    run : Run
    values : list of float
        Loss of each epoch, with each likelihood before the step of its sequence.
    history : History
    best : Weights or None
        Weights to keep.
    """

    solver: StochasticSolver
    l2: float
    held_out: Likelihood | None
    tol: float
    stopping: Stopping | None
    progress: Progress
    run: Run
    values: list[float] = field(default_factory=list)
    history: History = field(default_factory=History)
    best: Weights | None = None

    def run_epochs(self, max_iter: int) -> None:
        """Run epochs, until training is over."""
        training = self.solver.training
        self._record()
        for _ in range(max_iter):
            found = self.solver.run_epoch()
            self.history.train.append(training.mean(found))
            self._record()
            self.values.append(self._loss(found, self.solver.weights()))
            shown = {"loss": self.values[-1]} | self.history.latest("log-likelihood")
            n_iter = self.solver.n_iter
            self.progress.update(n_iter, shown)
            stops = self.run.after(
                n_iter, self.history, lambda n=n_iter: self._state_at(self.solver.weights(), n)
            )
            if stops or self._is_over():
                return

    def _record(self) -> None:
        """Evaluate the present weights, and keep them if they are the best so far."""
        if self.held_out is None:
            return
        weights = self.solver.weights()
        self.history.validation.append(self.held_out.mean(weights))
        if self.stopping is not None and self.history.is_at_best():
            self.best = weights

    def _loss(self, found: np.ndarray, weights: Weights) -> float:
        likelihood = math.fsum(found * self.solver.training.weights)
        return self.l2 * dot(weights.vector, weights.vector) - likelihood

    def _is_over(self) -> bool:
        if self.stopping is not None and self.stopping.is_reached(self.history.validation):
            return True
        if len(self.values) <= PERIOD:
            return False
        value = self.values[-1]
        return self.values[-1 - PERIOD] - value < self.tol * max(1.0, abs(value))

    def results(self) -> tuple[Weights, dict]:
        """Return the weights and the fitted attributes, after an early stop those of the best."""
        if self.best is None:
            return self._state_at(self.solver.weights(), self.solver.n_iter)
        return self._state_at(self.best, self.history.best())

    def _state_at(self, weights: Weights, n_iter: int) -> tuple[Weights, dict]:
        """Return the weights of an iteration and the fitted attributes."""
        training = self.solver.training
        found = StateLikelihood(training).values(weights)
        history = self.history.until(n_iter)
        history.train[n_iter:] = [training.mean(found)]
        results = {"n_iter_": n_iter, "loss_": self._loss(found, weights)}
        return weights, results | history.scores()


def _powers_of_2(scale: Weights) -> np.ndarray:
    """Return the scale of each attribute as a power of 2, so that scaling is exact."""
    return np.exp2(np.rint(np.log2(scale.attributes[:, 0, 0])))


def _parts(order: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(order), PART_SEQUENCES):
        yield order[first : first + PART_SEQUENCES]
