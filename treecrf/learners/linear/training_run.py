"""A training run of the weights of a linear model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treecrf.learners.base.callbacks import Callback, IterationInfo, call_all, start_callbacks
from treecrf.learners.base.history import History, Stopping
from treecrf.utils.messages import Progress

# Convergence is judged over this many iterations, because a single one may gain little: with fewer
# training may stop too early, and with more it goes on in vain for that many iterations.
PERIOD = 10


@dataclass
class TrainingRun:
    """A training run of weights: scores of its iterations, progress, callbacks, early stopping."""

    # Name of the class of the estimator.
    estimator: str
    # Number of iterations at which training ends.
    max_iter: int
    # Random numbers, seeded by ``random_state``.
    rng: np.random.Generator
    callbacks: tuple[Callback, ...]
    # Rule of early stopping; None without.
    stopping: Stopping | None
    progress: Progress
    # Makes a fitted estimator of weights and results.
    model: Callable[[Any, dict], Any]
    # Scores of the iterations so far.
    history: History = field(default_factory=History)
    # Values that training minimizes, after each iteration.
    losses: list[float] = field(default_factory=list)
    # Weights to keep so far; the latest without early stopping.
    best: Any = None

    def start(self) -> None:
        """Call the callbacks before the first iteration."""
        if self.callbacks:
            start_callbacks(self.callbacks, self._info(0, History(), self._refuse_model))

    def record(self, weights: Any, score: float | None) -> None:
        """Keep weights, which training must not change, if their validation score is the best."""
        if score is not None:
            self.history.validation.append(score)
        if self.stopping is None or self.history.is_at_best():
            self.best = weights

    def stops_after(
        self, n_iter: int, shown: dict[str, float], state: Callable[[], tuple[Any, dict]]
    ) -> bool:
        """Show an iteration and call the callbacks; return whether training stops.

        ``state`` returns the present weights, which training must not change, and results.
        """
        self.progress.update(n_iter, shown)
        if self.callbacks:
            info = self._info(n_iter, self.history, lambda: self.model(*state()))
            if call_all(self.callbacks, info):
                return True
        return self.history.is_over(self.stopping)

    def has_converged(self, tol: float) -> bool:
        """Return whether the latest iterations together have hardly lowered the loss."""
        if len(self.losses) <= PERIOD:
            return False
        latest = self.losses[-1]
        return self.losses[-1 - PERIOD] - latest < tol * max(1.0, abs(latest))

    def _info(self, n_iter: int, history: History, model: Callable[[], Any]) -> IterationInfo:
        return IterationInfo(self.estimator, n_iter, self.max_iter, history, model)

    def _refuse_model(self) -> None:
        raise ValueError(f"{self.estimator} has no model before its first iteration")


def silent_run(estimator: str, max_iter: int, seed: int) -> TrainingRun:
    """Return a run that nothing shows, stops early or looks at."""
    return TrainingRun(
        estimator=estimator,
        max_iter=max_iter,
        rng=np.random.default_rng(seed),
        callbacks=(),
        stopping=None,
        progress=Progress(0, 0, max_iter, estimator),
        model=lambda weights, results: None,
    )
