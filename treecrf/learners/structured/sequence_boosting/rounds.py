"""The rounds of sequence boosting: choose a feature, change its weight, follow what changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar

from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.weights import Weights
from treecrf.learners.stopping import History
from treecrf.learners.structured.sequence_boosting.bounds import Choice, Chooser
from treecrf.learners.structured.sequence_boosting.loss import (
    Occurrences,
    SequenceExponentialLoss,
    SequenceLosses,
)

# Sums that are changed piece by piece keep the errors of the loss as it was. They are made anew
# when it has fallen by this much, and after so many rounds.
MAX_FALL = 10.0
MAX_ROUNDS = 200

# Below this logarithm of the loss nothing but rounding errors is left.
LOWEST_LOSS = -20.0

# How exactly a line search finds its step.
STEP_TOLERANCE = 1e-2


class Rounds:
    """The rounds of boosting.

    Parameters
    ----------
    data : TrainingData
    start : Weights
        Weights to begin with.
    bound : type of Chooser
    max_step : float
    piece_length : int or None
    """

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
        self._start_anew()

    def run(self, max_iter: int, tol: float, line_search: bool) -> Iterator[Choice]:
        """Take one feature a round, while a bound promises more than ``tol``."""
        for _ in range(max_iter):
            choice = self.chooser.choose()
            if not 1 - choice.bound > tol or self.loss.log_value < LOWEST_LOSS:
                return
            where = self.loss.occurrences(choice.feature)
            if line_search:
                choice = choice._replace(step=self._search(choice, where))
            self.loss.add(choice.feature, choice.step, where)
            self._follow(where.pieces)
            yield choice

    def _follow(self, chosen: np.ndarray) -> None:
        """Take account of changed scores."""
        self.loss.infer(chosen)
        self.chooser.follow(chosen)
        self._n_since += 1
        fall = self.loss.level - self.loss.log_value
        if fall > MAX_FALL or self._n_since >= MAX_ROUNDS:
            self._start_anew()

    def _start_anew(self) -> None:
        self.loss.forget()
        self.chooser.forget()
        self.loss.infer(self.loss.all_pieces)
        self.chooser.follow(self.loss.all_pieces)
        self._n_since = 0

    def _search(self, choice: Choice, where: Occurrences) -> float:
        """The step that lessens the loss most, if it is better than the choice's."""
        loss = self.loss
        kept = loss.losses.copy()
        latest = 0.0

        def value(step: float) -> float:
            nonlocal latest
            loss.add(choice.feature, step - latest, where)
            latest = step
            loss.update(where.pieces)
            return loss.log_value

        found = minimize_scalar(
            value, bounds=(-self._max_step, self._max_step), method="bounded",
            options={"xatol": STEP_TOLERANCE * self._max_step},
        )  # fmt: skip
        step = float(found.x) if found.fun < value(choice.step) else choice.step
        loss.add(choice.feature, -latest, where)
        loss.losses[:] = kept
        return step


@dataclass
class Record:
    """What the rounds have brought.

    Parameters
    ----------
    loss : SequenceExponentialLoss
    watched : SequenceLosses or None
        Held-out sequences.
    """

    loss: SequenceExponentialLoss
    watched: SequenceLosses | None
    choices: list[Choice] = field(default_factory=list)
    log_losses: list[float] = field(default_factory=list)
    history: History = field(default_factory=History)

    def __post_init__(self):
        self._note()

    def add(self, choice: Choice) -> None:
        """Take down a round."""
        self.choices.append(choice)
        if self.watched is not None:
            where = self.watched.occurrences(choice.feature)
            self.watched.add(choice.feature, choice.step, where)
            self.watched.update(where.pieces)
        self._note()

    def _note(self) -> None:
        self.log_losses.append(self.loss.log_value)
        self.history.train.append(self.loss.mean_log_likelihood)
        if self.watched is not None:
            self.history.validation.append(self.watched.mean_log_likelihood)

    def latest(self) -> dict[str, float]:
        """The latest scores by name."""
        return {"log loss": self.log_losses[-1]} | self.history.latest("log-likelihood")

    def results(self, n: int) -> dict:
        """Fitted attributes, those of the first n rounds."""
        choices = self.choices[:n]
        return {
            "n_iter_": n,
            "features_": np.array([choice.feature for choice in choices], dtype=np.int64),
            "steps_": np.array([choice.step for choice in choices], dtype=np.float64),
            "bounds_": np.array([choice.bound for choice in choices], dtype=np.float64),
            "loss_": np.array(self.log_losses[: n + 1]),
        } | self.history.until(n).scores()
