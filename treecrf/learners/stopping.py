"""Early stopping: scores of the iterations, the best iteration, and when training ends.

Every learner with early stopping follows the same rules. An iteration is better than another one if
its validation score is higher; the first of equal best iterations wins. Equal scores therefore
count as no improvement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Stopping:
    """Rule that ends training before its last iteration."""

    n_iter_no_change: int  # iterations without improvement before training stops
    tol: float = 0.0  # minimum improvement of the validation score that counts

    def is_reached(self, scores: list[float]) -> bool:
        """Return whether none of the latest validation scores improves on the earlier best one."""
        if len(scores) <= self.n_iter_no_change:
            return False
        best = max(scores[: -self.n_iter_no_change])
        latest = max(scores[-self.n_iter_no_change :])
        return latest <= best or latest < best + self.tol


@dataclass
class History:
    """Scores of the iterations on the training data and, if there are any, on validation data.

    The first entry is usually the score before the first iteration.
    """

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    # Number of validation scores that do not count, because they are of other data.
    n_other: int = 0
    # Scores of further sets, by the names of the sets and the metrics.
    evals: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @classmethod
    def resumed(cls, train: np.ndarray, validation: np.ndarray, value: float | None) -> History:
        """Return the scores of an earlier training run, to be continued.

        ``value`` is the present score of the validation data. If it is the latest of the earlier
        scores, the data are the same, and early stopping goes on where it was.
        """
        train = train[:-1].tolist()
        if value is None:
            return cls(train)
        if not len(validation):
            return cls(train, [*[np.nan] * len(train), value], len(train))
        n_other = len(train)
        if validation[-1] == value:
            n_other = int(np.flatnonzero(np.isnan(np.append(np.nan, validation[:-1])))[-1])
        return cls(train, [*validation[:-1].tolist(), value], n_other)

    def latest(self, name: str) -> dict[str, float]:
        """Return the latest scores, for display; ``name`` is for the training score."""
        shown = {name: self.train[-1]}
        return shown | ({"validation": self.validation[-1]} if self.validation else {})

    def best(self) -> int:
        """Return the index of the best validation score; ties go to the first."""
        return self.n_other + int(np.argmax(self.validation[self.n_other :]))

    def is_over(self, stopping: Stopping | None) -> bool:
        """Return whether early stopping ends training."""
        return stopping is not None and stopping.is_reached(self.validation[self.n_other :])

    def is_at_best(self) -> bool:
        """Return whether the latest validation score is better than all before it."""
        return self.best() == len(self.validation) - 1

    def kept(self, stopping: Stopping | None) -> int:
        """Return the index of the entry to keep: the best with early stopping, else the last."""
        if stopping is None or not self.validation:
            return len(self.train) - 1
        return self.best()

    def until(self, last: int) -> History:
        """Return the entries up to and including the one at ``last``."""
        return History(
            self.train[: last + 1],
            self.validation[: last + 1],
            evals=self._evals(lambda scores: scores[: last + 1]),
        )

    def evals_result(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the fitted attribute ``evals_result_``."""
        return self._evals(np.array)

    def _evals(self, function: Callable[[list[float]], Any]) -> dict[str, dict[str, Any]]:
        return {
            name: {metric: function(scores) for metric, scores in of_set.items()}
            for name, of_set in self.evals.items()
        }

    def continued_by(self, later: History) -> History:
        """Join two histories; the first entry of the later one replaces the last of this one."""
        return History(self.train[:-1] + later.train, self.validation[:-1] + later.validation)

    def scores(self) -> dict[str, np.ndarray]:
        """Return the fitted attributes ``train_score_`` and ``validation_score_``."""
        return {
            "train_score_": np.array(self.train),
            "validation_score_": np.array(self.validation),
        }
