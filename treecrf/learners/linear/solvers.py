"""Minimizers of convex functions of many weights: with L2 by L-BFGS, with L1 too orthant-wise."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

# Of the last steps and gradients so many tell the curvature.
MEMORY = 10
# A step must gain this share of what the gradient promises, and is halved at most so many times.
SUFFICIENT_GAIN = 1e-4
MAX_HALVINGS = 50
# Steps along which the gradient changes by less tell nothing of the curvature.
MIN_CURVATURE = 1e-10

# From weights to value and gradient.
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
# Called with the weights and the value after each iteration; whether to end there.
TrainingMonitor = Callable[[np.ndarray, float], bool]


def minimize_smooth(
    function: Function, start: np.ndarray, max_iter: int, watch: TrainingMonitor
) -> tuple[np.ndarray, bool]:
    """L-BFGS, SciPy's.

    Returns
    -------
    weights : float64 array
    ended : bool
        Whether it ended before ``max_iter``: because ``watch`` said so, or no step gained anything.
    """

    def call_back(intermediate_result) -> None:  # SciPy looks for this name
        if watch(intermediate_result.x, float(intermediate_result.fun)):
            raise StopIteration

    options = {"maxiter": max_iter, "maxfun": np.inf, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0}
    # Vectors of weights are too short to be worth more threads.
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
    watch: TrainingMonitor,
) -> tuple[np.ndarray, bool]:
    """Orthant-wise limited-memory quasi-Newton method.

    Minimizes ``function(w) + sum(penalties * |w|)``. Each step stays in the orthant that the
    weights, or where they are 0 the steepest descent, point to; there the sum is smooth, and its
    curvature is that of ``function``. Weights that would leave the orthant become exactly 0.

    It differs from OWL-QN [1]_ in two ways, which save half to nine tenths of the evaluations: the
    curvature is that among the weights which are not held at 0, as in [2]_; and a direction is
    aligned with the steepest descent only where weights are 0, since elsewhere all of the orthant
    is free.

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
        return _OrthantWise(function, penalties).run(start.copy(), max_iter, watch)


class _OrthantWise:
    """One run of `minimize_sparse`."""

    def __init__(self, function: Function, penalties: np.ndarray):
        self.function = function
        self.penalties = penalties
        self.steps: deque = deque(maxlen=MEMORY)  # steps, and the changes of the gradient

    def run(
        self, weights: np.ndarray, max_iter: int, watch: TrainingMonitor
    ) -> tuple[np.ndarray, bool]:
        """Iterate; the weights, and whether it ended before ``max_iter``."""
        value, gradient = self._value(weights)
        for _ in range(max_iter):
            descent = self._steepest_descent(weights, gradient)
            found = self._search(weights, value, descent)
            if found is None and self.steps:
                # The curvature may mislead; the steepest descent does not.
                self.steps.clear()
                found = self._search(weights, value, descent)
            if found is None:
                return weights, True
            before, gradient_before = weights, gradient
            weights, value, gradient = found
            self.steps.append((weights - before, gradient - gradient_before))
            if watch(weights, value):
                return weights, True
        return weights, False

    def _value(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Value with the penalty, and gradient without it."""
        value, gradient = self.function(weights)
        return value + float(self.penalties @ np.abs(weights)), gradient

    def _steepest_descent(self, weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Of the subgradients' negatives the shortest; 0 for weights that are held at 0."""
        beyond = np.maximum(np.abs(gradient) - self.penalties, 0.0) * np.sign(gradient)
        return -np.where(weights != 0, gradient + self.penalties * np.sign(weights), beyond)

    def _search(
        self, weights: np.ndarray, value: float, descent: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Weights, value and gradient after a step that gains enough; None if there is none."""
        at_zero = weights == 0
        direction = self._direction(descent, ~at_zero | (descent != 0))
        direction[at_zero & (direction * descent <= 0)] = 0.0
        orthant = np.sign(np.where(at_zero, descent, weights))
        size = 1.0 if self.steps else 1.0 / max(1.0, float(np.linalg.norm(descent)))
        for _ in range(MAX_HALVINGS):
            moved = weights + size * direction
            moved[moved * orthant <= 0] = 0.0
            promised = float(descent @ (moved - weights))
            if promised > np.finfo(float).eps * abs(value):  # a gain that would show
                new_value, gradient = self._value(moved)
                if new_value <= value - SUFFICIENT_GAIN * promised:
                    return moved, new_value, gradient
            size *= 0.5
        return None

    def _direction(self, descent: np.ndarray, free: np.ndarray) -> np.ndarray:
        """The descent times the inverse curvature among free weights, by L-BFGS's two loops."""
        pairs = [(step * free, change * free) for step, change in self.steps]
        pairs = [(s, c, float(s @ c)) for s, c in pairs]
        pairs = [(s, c, p) for s, c, p in pairs if p > MIN_CURVATURE * float(c @ c)]
        direction, shares = descent.copy(), []
        for step, change, product in reversed(pairs):
            shares.append(float(step @ direction) / product)
            direction -= shares[-1] * change
        if pairs:
            _, change, product = pairs[-1]
            direction *= product / float(change @ change)
        for (step, change, product), share in zip(pairs, reversed(shares), strict=True):
            direction += (share - float(change @ direction) / product) * step
        return direction
