"""The rounds of sequence boosting: choose a feature, change its weight, update the loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize_scalar

from treecrf.learners.linear.training import TrainingData
from treecrf.learners.linear.weights import Weights
from treecrf.learners.structured.sequence_boosting.bounds import Chooser, FeatureStep
from treecrf.learners.structured.sequence_boosting.loss import (
    Occurrences,
    SequenceExponentialLoss,
)

# Rounding errors of incrementally updated sums are relative to the loss at the start of the sums.
# The sums are recomputed when the logarithm of the loss has fallen by this much, and after this
# many rounds.
MAX_FALL = 10.0
MAX_ROUNDS = 200

# Below this logarithm the loss consists of rounding errors.
MIN_LOG_LOSS = -20.0

# Tolerance of the line search, relative to the maximum step.
STEP_TOLERANCE = 1e-2


class Rounds:
    """The rounds of boosting."""

    def __init__(
        self,
        data: TrainingData,
        start: Weights,
        bound: type[Chooser],
        max_step: float,
        piece_length: int | None,
    ):
        self.loss = SequenceExponentialLoss(data, start, piece_length)
        self.chooser = bound(self.loss, max_step)
        self._max_step = max_step
        self._n_since = 0
        self._restart()

    def run(self, max_iter: int, tol: float, line_search: bool) -> Iterator[FeatureStep]:
        """Choose one feature per round until no bound guarantees a decrease by ``tol``."""
        for _ in range(max_iter):
            choice = self.chooser.choose()
            if not 1 - choice.bound > tol or self.loss.log_value < MIN_LOG_LOSS:
                return
            where = self.loss.occurrences(choice.feature)
            if line_search:
                choice = choice._replace(step=self._search(choice, where))
            self.loss.add(choice.feature, choice.step, where)
            self._update(where.pieces)
            yield choice

    def _update(self, chosen: np.ndarray) -> None:
        """Update loss and bounds after the scores of some pieces have changed."""
        self.loss.infer(chosen)
        self.chooser.update(chosen)
        self._n_since += 1
        fall = self.loss.level - self.loss.log_value
        if fall > MAX_FALL or self._n_since >= MAX_ROUNDS:
            self._restart()

    def _restart(self) -> None:
        """Recompute all sums."""
        self.loss.reset()
        self.chooser.reset()
        self.loss.infer(self.loss.all_pieces)
        self.chooser.update(self.loss.all_pieces)
        self._n_since = 0

    def _search(self, choice: FeatureStep, where: Occurrences) -> float:
        """Search the step with the lowest loss; keep the chosen one if none is better."""
        loss = self.loss
        losses = loss.losses.copy()
        latest = 0.0

        def value(step: float) -> float:
            nonlocal latest
            loss.add(choice.feature, step - latest, where)
            latest = step
            loss.update(where.pieces)
            return loss.log_value

        search = minimize_scalar(
            value, bounds=(-self._max_step, self._max_step), method="bounded",
            options={"xatol": STEP_TOLERANCE * self._max_step},
        )  # fmt: skip
        step = float(search.x) if search.fun < value(choice.step) else choice.step
        loss.add(choice.feature, -latest, where)
        loss.losses[:] = losses
        return step
