"""Training by L-BFGS, which is orthant-wise with an L1 penalty."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from treecrf.learners.linear._linear import add_scaled, dot
from treecrf.learners.linear.likelihood import Loss
from treecrf.learners.linear.training import Run
from treecrf.learners.linear.weights import Weights

# Number of steps and gradient changes from which the curvature is estimated.
MEMORY = 10
# A step must gain this fraction of the decrease that the gradient predicts; otherwise it is halved,
# at most this many times.
SUFFICIENT_GAIN = 1e-4
MAX_HALVINGS = 50
# Steps along which the gradient changes by less are not used to estimate the curvature.
MIN_CURVATURE = 1e-10

# From weights to value and gradient.
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
# Called with weights and value at the start and after each iteration; returns whether to stop.
Monitor = Callable[[np.ndarray, float], bool]


class Descent:
    """Minimization of a loss; ``penalties`` of absolute values are those of its variables."""

    def __init__(self, loss: Loss, validation: Callable[[Weights], float] | None, run: Run):
        self.loss = loss
        self.validation = validation
        self.run = run  # its losses include the L1 penalty

    def minimize(self, start: Weights, l1: float, tol: float) -> tuple[Weights, dict, bool]:
        """Return the weights to keep, their results, and whether it ended before ``max_iter``."""
        run, loss = self.run, self.loss
        run.start()

        def monitor(variables: np.ndarray, value: float) -> bool:
            n_iter = self._record(variables, value)
            if n_iter == 0:
                return False
            shown = {"loss": value} | run.history.latest("log-likelihood")
            stops = run.stops_after(
                n_iter, shown, lambda: (loss.weights(variables), self._results(n_iter))
            )
            return stops or run.has_converged(tol)

        penalties = l1 * loss.scale if l1 else None
        _, has_ended = minimize(loss, loss.variables(start), run.max_iter, monitor, penalties)
        results = self._results(run.history.kept(run.stopping))
        return loss.weights(run.best), results, has_ended

    def _record(self, variables: np.ndarray, value: float) -> int:
        """Record an iteration; return its number."""
        self.run.losses.append(value)
        self.run.history.train.append(self.loss.mean)
        score = self.validation and self.validation(self.loss.weights(variables))
        self.run.record(variables, score)
        return len(self.run.losses) - 1

    def _results(self, n_iter: int) -> dict:
        scores = self.run.history.until(n_iter).scores()
        return {"n_iter_": n_iter, "loss_": self.run.losses[n_iter]} | scores


def minimize(
    function: Function,
    start: np.ndarray,
    max_iter: int,
    monitor: Monitor,
    penalties: np.ndarray | None = None,
) -> tuple[np.ndarray, bool]:
    """Minimize ``function(w) + sum(penalties * |w|)`` by a quasi-Newton method, L-BFGS [1]_.

    With penalties, each step stays in one orthant, given by the signs of the weights and, for
    weights that are 0, of the steepest descent. In the orthant the sum is smooth, with the
    curvature of ``function``. Weights that would leave the orthant become exactly 0.

    The method differs from OWL-QN [2]_ in two ways, which save 50 to 90 % of the evaluations. The
    curvature is estimated among the weights that are not held at 0, as in [3]_. And the direction
    is aligned with the steepest descent only for weights that are 0, since the others are free to
    move within the orthant.

    Returns the weights, and whether it ended before ``max_iter``, because ``monitor`` returned true
    or no step lowered the value.

    References
    ----------
    .. [1] D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization",
       Mathematical Programming 45, 1989.
    .. [2] G. Andrew, J. Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
    .. [3] R. H. Byrd, G. M. Chin, J. Nocedal, F. Oztoprak, "A family of second-order methods for
       convex l1-regularized optimization", Mathematical Programming 159, 2016.
    """
    run = _LimitedMemory(function) if penalties is None else _OrthantWise(function, penalties)
    return run.minimize(start.copy(), max_iter, monitor)


class _LimitedMemory:
    """L-BFGS, for a smooth function."""

    def __init__(self, function: Function):
        self.function = function
        # Step, change of the gradient and their product.
        self.steps: deque = deque(maxlen=MEMORY)

    def minimize(
        self, weights: np.ndarray, max_iter: int, monitor: Monitor
    ) -> tuple[np.ndarray, bool]:
        """Iterate; returns the weights and whether it ended before ``max_iter``."""
        value, gradient = self._value(weights)
        monitor(weights, value)
        for _ in range(max_iter):
            better = self._search(weights, value, gradient)
            if better is None and self.steps:
                # The estimated curvature may mislead; the steepest descent does not.
                self.steps.clear()
                better = self._search(weights, value, gradient)
            if better is None:
                return weights, True
            before, gradient_before = weights, gradient
            weights, value, gradient = better
            self._remember(weights - before, gradient - gradient_before)
            if monitor(weights, value):
                return weights, True
        return weights, False

    def _value(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value with any penalty, and the gradient without it."""
        return self.function(weights)

    def _remember(self, step: np.ndarray, change: np.ndarray) -> None:
        product = dot(step, change)
        if product > MIN_CURVATURE * dot(change, change):
            self.steps.append((step, change, product))

    def _search(
        self, weights: np.ndarray, value: float, gradient: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Find a sufficient step; return the new weights, value and gradient, or None."""
        direction = self._direction(-gradient, self.steps)
        return self._search_along(direction, weights, value, -gradient, lambda moved: moved)

    def _search_along(
        self,
        direction: np.ndarray,
        weights: np.ndarray,
        value: float,
        descent: np.ndarray,
        project: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Halve the step until it is sufficient."""
        size = 1.0 if self.steps else 1.0 / max(1.0, np.sqrt(dot(descent, descent)))
        for _ in range(MAX_HALVINGS):
            moved = project(weights + size * direction)
            predicted = dot(descent, moved - weights)
            if predicted > np.finfo(float).eps * abs(value):  # a gain above rounding errors
                new_value, gradient = self._value(moved)
                if new_value <= value - SUFFICIENT_GAIN * predicted:
                    return moved, new_value, gradient
            size *= 0.5
        return None

    def _direction(self, descent: np.ndarray, steps: deque | list) -> np.ndarray:
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


class _OrthantWise(_LimitedMemory):
    """L-BFGS within orthants, for a smooth function and an L1 penalty."""

    def __init__(self, function: Function, penalties: np.ndarray):
        super().__init__(function)
        self.penalties = penalties

    def _value(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.function(weights)
        return value + dot(self.penalties, np.abs(weights)), gradient

    def _search(
        self, weights: np.ndarray, value: float, gradient: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        descent = self._steepest_descent(weights, gradient)
        at_zero = weights == 0
        free = np.flatnonzero(~at_zero | (descent != 0))
        direction = np.zeros_like(weights)
        direction[free] = self._direction(descent[free], self._steps_among(free))
        direction[at_zero & (direction * descent <= 0)] = 0.0
        orthant = np.sign(np.where(at_zero, descent, weights))

        def project(moved: np.ndarray) -> np.ndarray:
            moved[moved * orthant <= 0] = 0.0
            return moved

        return self._search_along(direction, weights, value, descent, project)

    def _steepest_descent(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the shortest negative subgradient; 0 for weights that are held at 0."""
        beyond = np.maximum(np.abs(gradient) - self.penalties, 0.0) * np.sign(gradient)
        return -np.where(weights != 0, gradient + self.penalties * np.sign(weights), beyond)

    def _steps_among(self, free: np.ndarray) -> list:
        """Return the steps of the free weights, given by their indices, with positive curvature."""
        steps = [(step[free], change[free]) for step, change, _ in self.steps]
        products = [(step, change, dot(step, change)) for step, change in steps]
        return [(s, c, p) for s, c, p in products if p > MIN_CURVATURE * dot(c, c)]
