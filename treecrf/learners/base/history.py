"""Scores of the iterations of training, and early stopping by the scores of validation data.

Every learner with early stopping follows the same rules. An iteration is better than another one if
its validation score is higher; the first of equal best iterations wins. Equal scores therefore
count as no improvement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Stopping:
    """Rule that ends training before its last iteration."""

    # Iterations without improvement before training stops.
    n_iter_no_change: int
    # Minimum improvement of the validation score that counts.
    tol: float = 0.0

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

    # Value of the objective on the training data after each iteration.
    train: list[float] = field(default_factory=list)
    # Scores of the validation data; empty without such data.
    validation: list[float] = field(default_factory=list)
    # Number of leading validation scores that do not count, because they are of other data.
    n_other: int = 0
    # Scores of further sets, by the names of the sets and the metrics.
    evals: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @classmethod
    def resumed(cls, train: np.ndarray, validation: np.ndarray, value: float | None) -> History:
        """Return the scores of an earlier training run, to be continued.

        ``value`` is the present score of the validation data. If it is the latest of the earlier
        scores, the data are the same, and early stopping goes on where it was.
        """
        train_scores = train[:-1].tolist()
        if value is None:
            return cls(train_scores)
        n_earlier = len(train_scores)
        if not len(validation):
            return cls(train_scores, [np.nan] * n_earlier + [value], n_earlier)
        earlier = validation[:-1]
        n_other = n_earlier
        if validation[-1] == value:
            # The scores after the last missing one are of these data.
            n_other = int(np.flatnonzero(np.isnan(np.append(np.nan, earlier)))[-1])
        return cls(train_scores, [*earlier.tolist(), value], n_other)

    def latest(self, name: str) -> dict[str, float]:
        """Return the latest scores, for display; ``name`` is for the training score."""
        scores = {name: self.train[-1]}
        if self.validation:
            scores["validation"] = self.validation[-1]
        return scores

    def best(self) -> int:
        """Return the index of the best validation score; ties go to the first."""
        return self.n_other + int(np.argmax(self.validation[self.n_other :]))

    def is_over(self, stopping: Stopping | None) -> bool:
        """Return whether early stopping ends training."""
        return stopping is not None and stopping.is_reached(self.validation[self.n_other :])

    def is_at_best(self) -> bool:
        """Return whether the latest validation score is better than all before it."""
        return self.best() == len(self.validation) - 1

    def index_to_keep(self, stopping: Stopping | None) -> int:
        """Return the index of the entry to keep: the best with early stopping, else the last."""
        if stopping is None or not self.validation:
            return len(self.train) - 1
        return self.best()

    def until(self, last: int) -> History:
        """Return the entries up to and including the one at ``last``."""
        n = last + 1
        evals = {
            name: {metric: scores[:n] for metric, scores in metrics.items()}
            for name, metrics in self.evals.items()
        }
        return History(self.train[:n], self.validation[:n], evals=evals)

    def continued_by(self, later: History) -> History:
        """Join two histories; the first entry of the later one replaces the last of this one."""
        return History(self.train[:-1] + later.train, self.validation[:-1] + later.validation)

    def scores(self) -> dict[str, np.ndarray]:
        """Return the fitted attributes ``train_score_`` and ``validation_score_``."""
        return {
            "train_score_": np.array(self.train),
            "validation_score_": np.array(self.validation),
        }
