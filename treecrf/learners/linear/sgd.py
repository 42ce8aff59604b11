"""Minimization of the loss of a linear model by stochastic gradient descent."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from treecrf.learners.linear._linear import dot
from treecrf.learners.linear._linear_chain import LinearSteps
from treecrf.learners.linear.likelihoods import StateLikelihood, weight_scales
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.training_run import TrainingRun
from treecrf.utils.hashing import mix

# Positions with smaller residuals are sampled, in proportion to the residual: steps of fewer
# positions take less time, and have more noise.
SMALLEST_RESIDUAL = 0.03
# In the average of the iterates, epoch i has a weight of about i ** AVERAGING: epochs far from the
# optimum soon count little, and the latest ones still average their noise.
AVERAGING = 3
# Step sizes fall at least as fast as with this L2 penalty, so that they also fall without one.
MIN_PENALTY = 0.5
# The first step size is chosen among powers of 2, from this one on, in at most this many trials on
# about this many positions. More positions take longer, and choose better.
FIRST_GUESS = 2.0**-5
MAX_TRIALS = 20
SAMPLE_POSITIONS = 20_000
# Sequences between two chances to interrupt training.
BURST_SEQUENCES = 4096


class StochasticSolver:
    """Weights that move by one step for each sequence, and their average over the epochs.

    An epoch visits the sequences in the order of hashes of their contents and the seed. The result
    depends neither on the order in which they are given nor on the number of threads.

    The steps are those of [1]_, with the penalty as a factor common to all weights. Their first
    size is chosen on a sample of the sequences, as in CRFsuite. Weights of numbers are rescaled as
    for L-BFGS, see `weight_scales`.

    References
    ----------
    .. [1] L. Bottou, "Stochastic gradient descent tricks", in Neural Networks: Tricks of the Trade,
       2012.
    .. [2] O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization", ICML
       2013. The average of the iterates.
    """

    def __init__(self, data: TrainingData, l2: float, start: Weights, seed: int):
        self.data = data
        self.n_sequences = len(data.weights)
        self.seed = seed
        # A power of 2 for each attribute, so that scaling is exact.
        scales = data.layout.weights(weight_scales(data, l2)).attributes[:, 0, 0]
        self.scales = np.exp2(np.rint(np.log2(scales)))
        # Part of all weights that the penalty takes off in a step of size 1.
        self.decay = 2.0 * l2 / self.n_sequences
        starts, attributes, _ = data.table.by_row
        self._by_row = (starts, attributes, data.table.values * self.scales[attributes])
        # Scaled weights of the attributes, and weights of labels after labels.
        self._blocks = (start.attributes / self.scales[:, None, None]).astype(np.float32)
        self._transitions = start.transitions.copy()
        self._steps = self._steps_from(self._blocks, self._transitions)
        self._keys = self._steps.keys()
        self._size = self._first_size()
        # Averages of these weights over the epochs so far.
        self._mean_blocks = self._blocks.copy()
        self._mean_transitions = self._transitions.copy()
        self.n_iter = 0

    def run_epoch(self) -> np.ndarray:
        """Make a step for each sequence; return log P of its labels before its step."""
        self.n_iter += 1
        out = np.zeros(self.n_sequences)
        numbers = mix(self.seed, self.n_iter, self._keys)
        order = np.argsort(numbers, kind="stable")
        sizes = self._sizes(self._size, (self.n_iter - 1) * len(order), len(order))
        for first in range(0, len(order), BURST_SEQUENCES):
            burst = slice(first, first + BURST_SEQUENCES)
            self._steps.run(order[burst], numbers, sizes[burst], self.decay, SMALLEST_RESIDUAL, out)
        self._steps.settle()
        rate = (AVERAGING + 1) / (AVERAGING + self.n_iter)
        self._mean_blocks += rate * (self._blocks - self._mean_blocks)
        self._mean_transitions += rate * (self._transitions - self._mean_transitions)
        return out

    def weights(self) -> Weights:
        """Return the average of the weights after each epoch."""
        weights = self.data.layout.weights()
        weights.attributes[:] = self._mean_blocks * self.scales[:, None, None]
        weights.transitions[:] = self._mean_transitions
        return weights

    def _steps_from(self, blocks: np.ndarray, transitions: np.ndarray) -> LinearSteps:
        data = self.data
        return LinearSteps(
            self._by_row,
            data.table.window,
            data.offsets,
            data.table.first_rows,
            data.codes,
            data.weights,
            self.scales**2,
            blocks,
            transitions,
            data.constraints.limited(np.zeros(transitions.shape)),
            *data.masks,
        )

    def _sizes(self, first: float, n_before: int, n: int) -> np.ndarray:
        """Return the sizes of n steps, which fall in proportion to 1 / (1 + first * slope * k)."""
        slope = max(self.decay, 2.0 * MIN_PENALTY / self.n_sequences)
        # A longer step would overshoot the optimum of the penalty alone.
        first = min(first, 1.0 / slope)
        return first / (1.0 + first * slope * np.arange(n_before, n_before + n))

    def _first_size(self) -> float:
        """Return the size with the best likelihoods, each before the step of its sequence."""
        numbers = mix(self.seed, 0, self._keys)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.diff(self.data.offsets)[order])
        sample = order[: np.searchsorted(ends, SAMPLE_POSITIONS) + 1]
        best = FIRST_GUESS
        best_value = self._trial(sample, numbers, best)
        n_trials = 0
        for factor in (0.5, 2.0):
            while n_trials < MAX_TRIALS:
                n_trials += 1
                value = self._trial(sample, numbers, best * factor)
                if not value > best_value:
                    break
                best *= factor
                best_value = value
            if best != FIRST_GUESS:
                break
        return best

    def _trial(self, sample: np.ndarray, numbers: np.ndarray, first: float) -> float:
        """Return the likelihood of the sample during steps from the start."""
        out = np.zeros(self.n_sequences)
        steps = self._steps_from(self._blocks.copy(), self._transitions.copy())
        sizes = self._sizes(first, 0, len(sample))
        steps.run(sample, numbers, sizes, self.decay, SMALLEST_RESIDUAL, out)
        return math.fsum(out[sample] * self.data.weights[sample])


def run_epochs(
    solver: StochasticSolver,
    l2: float,
    tol: float,
    validation: Callable[[Weights], float] | None,
    run: TrainingRun,
) -> tuple[Weights, dict]:
    """Run epochs until training is over; return the weights to keep, and their results.

    The loss of an epoch takes each likelihood before the step of its sequence.
    """
    data = solver.data
    history = run.history

    def loss_with(log_likelihoods: np.ndarray, weights: Weights) -> float:
        likelihood = math.fsum(log_likelihoods * data.weights)
        return l2 * dot(weights.vector, weights.vector) - likelihood

    def state(weights: Weights, n_iter: int) -> tuple[Weights, dict]:
        log_likelihoods = StateLikelihood(data).values(weights)
        earlier = history.until(n_iter)
        earlier.train[n_iter:] = [data.mean(log_likelihoods)]
        results = {"n_iter_": n_iter, "loss_": loss_with(log_likelihoods, weights)}
        return weights, results | earlier.scores()

    run.start()
    weights = solver.weights()
    run.record(weights, validation and validation(weights))
    for n_iter in range(1, run.max_iter + 1):
        log_likelihoods = solver.run_epoch()
        weights = solver.weights()
        history.train.append(data.mean(log_likelihoods))
        run.record(weights, validation and validation(weights))
        run.losses.append(loss_with(log_likelihoods, weights))
        shown = {"loss": run.losses[-1]} | history.latest("log-likelihood")
        stops = run.stops_after(n_iter, shown, partial(state, weights, n_iter))
        if stops or run.has_converged(tol):
            break
    return state(run.best, n_iter if run.stopping is None else history.best())
