"""Minimization of the loss of a linear model: by L-BFGS, and by stochastic gradient descent."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from treecrf.chains.likelihood import LogLikelihood, Objective
from treecrf.learners.linear._linear import add_scaled, dot
from treecrf.learners.linear._linear_chain import LinearSteps, StateChains
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import LinearFunction, TrainingData
from treecrf.learners.linear.training_run import TrainingRun
from treecrf.utils.hashing import mix


class StateLikelihood:
    """Log-likelihood without transition features."""

    def __init__(self, data: TrainingData):
        self.data = data
        self._log_likelihoods = np.zeros(len(data.offsets) - 1)
        # The rows of each part are an array.
        first_rows, (firsts, ends) = data.table.first_rows, np.transpose(data.table.ranges)
        first_rows = first_rows - np.repeat(first_rows[firsts], ends - firsts)
        self._chains = StateChains(data.offsets, first_rows, data.codes, *data.masks)

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def residuals(k: int, summed: np.ndarray) -> np.ndarray:
            part = data.table.ranges[k]
            rows = data.range_scores(weights, *part)
            likelihoods = self._log_likelihoods
            self._chains.residuals(rows, transitions, data.weights, *part, summed, likelihoods)
            return rows

        gradient = data.gradient_of_rows(residuals)
        mean = data.mean(self._log_likelihoods)
        return dot(self._log_likelihoods, data.weights), mean, gradient

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self.data.mean(self.values(weights))

    def values(self, weights: Weights) -> np.ndarray:
        """Compute log P of the labels of each sequence, without its weight."""
        data, transitions = self.data, self.data.constraints.limited(weights.transitions)

        def fill(part: tuple[int, int]) -> None:
            rows = data.range_scores(weights, *part)
            self._chains.log_likelihoods(rows, transitions, *part, self._log_likelihoods)

        data.threads.map(fill, data.table.ranges)
        return self._log_likelihoods


class GeneralLikelihood:
    """Any objective that is a function of the scores of labels after labels."""

    def __init__(self, data: TrainingData, objective: Objective):
        self.data = data
        self.objective = objective  # with the weights in training
        self._position_weights = data.repeated_weights()

    def gradient(self, weights: Weights) -> tuple[float, float, Weights]:
        """Return the weighted sum over sequences, unweighted mean per position, and gradient."""
        residuals, _, value = self.objective.examples(self._scores(weights), 0)
        total = value * len(self.data.codes)
        if self._position_weights is not None:
            residuals *= self._position_weights[:, np.newaxis]
            total = value * float(self._position_weights.sum())
        return total, self._reported(value), self.data.gradient(residuals)

    def mean(self, weights: Weights) -> float:
        """Compute the mean per position, without ``class_weight``."""
        return self._reported(self.objective.value(self._scores(weights)))

    def _reported(self, value: float) -> float:
        """Return the value without ``class_weight``, which only the log-likelihood supports."""
        is_log = type(self.objective) is LogLikelihood
        return self.data.mean(self.objective.likelihoods) if is_log else value

    def _scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores(weights)
        self.objective.constrain(scores)
        return scores


# Objective to maximize, before regularization: a sum over sequences.
Likelihood = StateLikelihood | GeneralLikelihood


class Loss:
    """The loss to minimize, without the L1 penalty.

    Its variables are the ``free`` weights divided by their scales; all other weights are 0.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        l2: float,
        free: np.ndarray | slice = slice(None),
        scale: np.ndarray | float = 1.0,
    ):
        self.likelihood = likelihood
        self.l2 = l2
        self.free = free  # where they are in the vector of all weights
        self.scale = scale
        self.mean = np.nan  # mean log-likelihood of a position in the latest evaluation
        self._layout = likelihood.data.layout
        self._weights = self._layout.weights()

    def __call__(self, variables: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value and the gradient."""
        values = variables * self.scale
        self._weights.vector[self.free] = values
        total, self.mean, gradient = self.likelihood.gradient(self._weights)
        value = self.l2 * dot(values, values) - total
        values *= 2.0 * self.l2
        values -= gradient.vector[self.free]
        values *= self.scale
        return value, values

    def variables(self, weights: Weights) -> np.ndarray:
        """Return the variables, given all weights."""
        return weights.vector[self.free] / self.scale

    def weights(self, variables: np.ndarray) -> Weights:
        """Return all weights, given the variables."""
        weights = self._layout.weights()
        weights.vector[self.free] = variables * self.scale
        return weights


# Approximate curvature of the loss that an indicator adds at each position where it is 1.
CURVATURE_OF_A_POSITION = 0.1


def scale_of(data: TrainingData, l2: float) -> np.ndarray:
    """Scale of each weight, such that the loss has similar curvature along all scaled weights.

    It is 1 for indicators. A numeric attribute gets the curvature of an indicator of its non-zero
    values. Without scaling, solvers need thousands of iterations if attributes differ in scale.
    """
    (_, indices, values), n_attributes = data.table.by_row, data.layout.n_attributes
    scale = data.layout.weights(np.ones(data.layout.size))
    if values is None:
        return scale.vector
    counts = np.bincount(indices, minlength=n_attributes)
    squares = np.bincount(indices, weights=values**2, minlength=n_attributes)
    like_indicator = CURVATURE_OF_A_POSITION * counts + 2.0 * l2
    # Attributes that never occur keep scale 1.
    curvature = np.where(counts > 0, CURVATURE_OF_A_POSITION * squares + 2.0 * l2, like_indicator)
    ratio = np.where(like_indicator > 0, like_indicator, 1.0)
    ratio /= np.where(curvature > 0, curvature, 1.0)
    scale.attributes[:] = np.sqrt(ratio)[:, np.newaxis, np.newaxis]
    return scale.vector


def observed_weights(data: TrainingData, start: Weights) -> np.ndarray:
    """Return the indices of the weights whose attributes and labels occur together.

    Transitions, and weights that do not start from 0, are among them.
    """
    layout, offsets = data.layout, data.offsets
    possible = data.candidates
    if possible is None:
        possible = data.codes[:, np.newaxis] == np.arange(layout.n_labels)
    if layout.transition_features:
        both = possible[1:, np.newaxis] & possible[:-1, :, np.newaxis]
        both[offsets[1:-1] - 1] = False
        both = np.concatenate([np.zeros_like(both[:1]), both]).reshape(len(possible), -1)
        possible = np.concatenate([possible, both], axis=1)
    table, (starts, indices, values) = data.table, data.table.by_row
    if values is not None:
        table = replace(table, by_row=(starts, indices, (values != 0).astype(np.float64)))
    scores = LinearFunction(table, layout, data.threads)
    occur = scores.gradient_of_rows(lambda k, _: table.range_rows(possible, k))
    occur.transitions[:] = 1
    return np.flatnonzero((occur.vector != 0) | (start.vector != 0))


# Number of steps and gradient changes from which the curvature is estimated.
MEMORY = 10
# A step must gain this fraction of the decrease that the gradient predicts; otherwise it is halved,
# at most this many times.
SUFFICIENT_GAIN = 1e-4
MAX_HALVINGS = 50
# Steps along which the gradient changes by less are not used to estimate the curvature.
MIN_CURVATURE = 1e-10
# The optimum is far as long as iterations lower the value by more than this fraction.
FAR = 0.003


def descend(
    loss: Loss,
    start: Weights,
    l1: float,
    tol: float,
    validation: Callable[[Weights], float] | None,
    run: TrainingRun,
) -> tuple[Weights, dict, bool]:
    """Minimize a loss with an L1 penalty of ``l1``.

    Returns the weights to keep, their results, and whether it ended before ``max_iter``.
    """
    history, has_ended = run.history, True
    run.start()

    def state(variables: np.ndarray, n_iter: int) -> tuple[Weights, dict]:
        results = {"n_iter_": n_iter, "loss_": run.losses[n_iter]} | history.until(n_iter).scores()
        return loss.weights(variables), results

    iterations = minimize(loss, loss.variables(start), l1 * loss.scale if l1 else None)
    for n_iter, (variables, value) in enumerate(iterations):
        run.losses.append(value)
        history.train.append(loss.mean)
        run.record(variables, validation and validation(loss.weights(variables)))
        if n_iter == 0:
            continue
        shown = {"loss": value} | history.latest("log-likelihood")
        stops = run.stops_after(n_iter, shown, partial(state, variables, n_iter))
        if stops or run.has_converged(tol):
            break
        if n_iter == run.max_iter:
            has_ended = False
            break
    return *state(run.best, history.index_to_keep(run.stopping)), has_ended


def minimize(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    penalties: np.ndarray | None = None,
) -> Iterator[tuple[np.ndarray, float]]:
    """Minimize ``function(w) + sum(penalties * |w|)`` by a quasi-Newton method, L-BFGS [1]_.

    With penalties, each step stays in one orthant, given by the signs of the weights and, for
    weights that are 0, of the steepest descent. In the orthant the sum is smooth, with the
    curvature of ``function``. Weights that would leave the orthant become exactly 0.

    The method differs from OWL-QN [2]_ in two ways, which save 50 to 90 % of the evaluations. The
    curvature is estimated among the weights that are not held at 0, as in [3]_. And the direction
    is aligned with the steepest descent only for weights that are 0, since the others are free to
    move within the orthant. Far from the optimum, however, all are aligned: on text, this finds the
    weights that become 0 much sooner.

    ``function`` returns value and gradient. Yields the weights and the sum, at the start and after
    each iteration, and ends when no step lowers the sum.

    References
    ----------
    .. [1] D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization",
       Mathematical Programming 45, 1989.
    .. [2] G. Andrew, J. Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
    .. [3] R. H. Byrd, G. M. Chin, J. Nocedal, F. Oztoprak, "A family of second-order methods for
       convex l1-regularized optimization", Mathematical Programming 159, 2016.
    """
    search = _LineSearch(function, penalties)
    weights, (value, gradient) = start, search.evaluate(start)
    while True:
        yield weights, value
        better = search.step(weights, value, gradient)
        if better is None and search.steps:
            # The estimated curvature may mislead; the steepest descent does not.
            search.steps.clear()
            better = search.step(weights, value, gradient)
        if better is None:
            return
        before, gradient_before = weights, gradient
        weights, value, gradient = better
        search.remember(weights - before, gradient - gradient_before)


class _LineSearch:
    """Search along the directions of L-BFGS; with penalties, within orthants."""

    def __init__(self, function: Callable, penalties: np.ndarray | None):
        self.function = function
        self.penalties = penalties
        # Step, change of the gradient and their product.
        self.steps: deque = deque(maxlen=MEMORY)
        self.is_far = True  # from the optimum

    def evaluate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value with any penalty, and the gradient without it."""
        value, gradient = self.function(weights)
        if self.penalties is not None:
            value += dot(self.penalties, np.abs(weights))
        return value, gradient

    def remember(self, step: np.ndarray, change: np.ndarray) -> None:
        """Use a step and the change of the gradient to estimate the curvature."""
        product = dot(step, change)
        if product > MIN_CURVATURE * dot(change, change):
            self.steps.append((step, change, product))

    def step(
        self, weights: np.ndarray, value: float, gradient: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Halve a step until it is sufficient; return the new weights, value and gradient."""
        if self.penalties is None:
            descent, orthant = -gradient, None
            direction = _newton_direction(descent, self.steps)
        else:
            descent = self._steepest_descent(weights, gradient)
            at_zero = weights == 0
            direction = self._sparse_direction(descent, ~at_zero | (descent != 0))
            rises = direction * descent <= 0
            direction[rises if self.is_far else rises & at_zero] = 0.0
            orthant = np.sign(np.where(at_zero, descent, weights))
        size = 1.0 if self.steps else 1.0 / max(1.0, np.sqrt(dot(descent, descent)))
        for _ in range(MAX_HALVINGS):
            moved = weights + size * direction
            if orthant is not None:
                moved[moved * orthant <= 0] = 0.0
            predicted = dot(descent, moved - weights)
            if predicted > np.finfo(float).eps * abs(value):  # a gain above rounding errors
                new_value, gradient = self.evaluate(moved)
                if new_value <= value - SUFFICIENT_GAIN * predicted:
                    self.is_far = value - new_value > FAR * abs(new_value)
                    return moved, new_value, gradient
            size *= 0.5
        return None

    def _steepest_descent(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the shortest negative subgradient; 0 for weights that are held at 0."""
        beyond = np.maximum(np.abs(gradient) - self.penalties, 0.0) * np.sign(gradient)
        return -np.where(weights != 0, gradient + self.penalties * np.sign(weights), beyond)

    def _sparse_direction(self, descent: np.ndarray, is_free: np.ndarray) -> np.ndarray:
        """Return the direction of the free weights; it is 0 for all others."""
        free = np.flatnonzero(is_free)
        steps = [(step[free], change[free]) for step, change, _ in self.steps]
        products = [(step, change, dot(step, change)) for step, change in steps]
        steps = [(s, c, p) for s, c, p in products if p > MIN_CURVATURE * dot(c, c)]
        direction = np.zeros_like(descent)
        direction[free] = _newton_direction(descent[free], steps)
        return direction


def _newton_direction(descent: np.ndarray, steps: deque | list) -> np.ndarray:
    """Multiply the descent by the inverse of the estimated curvature, by two loops."""
    direction, coefficients = descent.copy(), []
    for step, change, product in reversed(steps):
        coefficients.append(dot(step, direction) / product)
        add_scaled(direction, change, -coefficients[-1])
    if steps:
        _, change, product = steps[-1]
        direction *= product / dot(change, change)
    for (step, change, product), a in zip(steps, reversed(coefficients), strict=True):
        add_scaled(direction, step, a - dot(change, direction) / product)
    return direction


# Positions with smaller residuals are sampled.
SMALLEST_RESIDUAL = 0.03
# In the average of the iterates, epoch i has a weight of about i ** AVERAGING.
AVERAGING = 3
# Step sizes fall at least as fast as with this L2 penalty, so that they also fall without one.
MIN_PENALTY = 0.5
# The first step size is chosen among powers of 2, on this many positions.
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
        scale = data.layout.weights(scale_of(data, l2)).attributes[:, 0, 0]
        self.scale = np.exp2(np.rint(np.log2(scale)))
        self.decay = 2.0 * l2 / self.n_sequences
        starts, attributes, _ = data.table.by_row
        self._by_row = starts, attributes, data.table.values * self.scale[attributes]
        self._blocks = (start.attributes / self.scale[:, None, None]).astype(np.float32)
        self._transitions = start.transitions.copy()
        self._steps = self._steps_from(self._blocks, self._transitions)
        self._keys = self._steps.keys()
        self._size = self._first_size()
        self._average = self._blocks.copy(), self._transitions.copy()
        self.n_iter = 0

    def run_epoch(self) -> np.ndarray:
        """Make a step for each sequence; return log P of its labels before its step."""
        self.n_iter += 1
        out = np.zeros(self.n_sequences)
        numbers = mix(self.seed, self.n_iter, self._keys)
        order = np.argsort(numbers, kind="stable")
        sizes = self._sizes(self._size, (self.n_iter - 1) * len(order), len(order))
        for first in range(0, len(order), PART_SEQUENCES):
            part = slice(first, first + PART_SEQUENCES)
            self._steps.run(order[part], numbers, sizes[part], self.decay, SMALLEST_RESIDUAL, out)
        self._steps.settle()
        rate = (AVERAGING + 1) / (AVERAGING + self.n_iter)
        for average, latest in zip(self._average, (self._blocks, self._transitions), strict=True):
            average += rate * (latest - average)
        return out

    def weights(self) -> Weights:
        """Return the average of the weights after each epoch."""
        blocks, transitions = self._average
        weights = self.data.layout.weights()
        weights.attributes[:] = blocks * self.scale[:, None, None]
        weights.transitions[:] = transitions
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
            self.scale**2,
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
    data, history = solver.data, run.history

    def loss_of(log_likelihoods: np.ndarray, weights: Weights) -> float:
        likelihood = math.fsum(log_likelihoods * data.weights)
        return l2 * dot(weights.vector, weights.vector) - likelihood

    def state(weights: Weights, n_iter: int) -> tuple[Weights, dict]:
        log_likelihoods, scores = StateLikelihood(data).values(weights), history.until(n_iter)
        scores.train[n_iter:] = [data.mean(log_likelihoods)]
        results = {"n_iter_": n_iter, "loss_": loss_of(log_likelihoods, weights)}
        return weights, results | scores.scores()

    run.start()
    weights = solver.weights()
    run.record(weights, validation and validation(weights))
    for n_iter in range(1, run.max_iter + 1):
        log_likelihoods, weights = solver.run_epoch(), solver.weights()
        history.train.append(data.mean(log_likelihoods))
        run.record(weights, validation and validation(weights))
        run.losses.append(loss_of(log_likelihoods, weights))
        shown = {"loss": run.losses[-1]} | history.latest("log-likelihood")
        stops = run.stops_after(n_iter, shown, partial(state, weights, n_iter))
        if stops or run.has_converged(tol):
            break
    return state(run.best, n_iter if run.stopping is None else history.best())
