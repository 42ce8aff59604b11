"""Iterations of training: their scores, early stopping, and callbacks.

Every learner with early stopping follows the same rules. An iteration is better than another one if
its validation score is higher; the first of equal best iterations wins. Equal scores therefore
count as no improvement.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Callback = Callable[["IterationInfo"], Any]

# Larger leaf values leave too few digits for differences between scores.
MAX_LEARNING_RATE = 1e6


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
        kept = slice(last + 1)
        evals = {
            name: {metric: scores[kept] for metric, scores in of_set.items()}
            for name, of_set in self.evals.items()
        }
        return History(self.train[kept], self.validation[kept], evals=evals)

    def evals_result(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the fitted attribute ``evals_result_``."""
        return {
            name: {metric: np.array(scores) for metric, scores in of_set.items()}
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


class IterationInfo:
    """State of training, as callbacks receive it.

    Attributes
    ----------
    estimator : str
        Name of the class.
    n_iter : int
        Number of iterations of the model so far.
    max_iter : int
        Number of iterations at which training ends.
    """

    def __init__(
        self,
        estimator: str,
        n_iter: int,
        max_iter: int,
        history: History,
        make_model: Callable[[], Any],
        booster: Any = None,
    ):
        self.estimator = estimator
        self.n_iter = n_iter
        self.max_iter = max_iter
        self._history = history
        self._make_model = make_model
        self._booster = booster

    @property
    def train_scores(self) -> list[float]:
        """Objective on the training data, as in ``train_score_``.

        An iteration of boosting computes the value before it, so the value after the latest is not
        included.
        """
        return list(self._history.train)

    @property
    def validation_scores(self) -> list[float]:
        """Scores of the validation sequences, as in ``validation_score_``; empty without them."""
        return list(self._history.validation)

    @property
    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Scores of the sets in ``eval_set``, as in ``evals_result_``."""
        return {
            name: {metric: list(scores) for metric, scores in of_set.items()}
            for name, of_set in self._history.evals.items()
        }

    @property
    def learning_rate(self) -> float:
        """Learning rate of the following iterations of boosting, which callbacks may set."""
        return self._with_rate().learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        if not isinstance(rate, numbers.Real) or not 0 < rate <= MAX_LEARNING_RATE:
            raise ValueError(
                f"learning_rate={rate!r}; expected a positive number up to {MAX_LEARNING_RATE:g}"
            )
        self._with_rate().learning_rate = float(rate)

    def _with_rate(self) -> Any:
        if self._booster is None:
            raise ValueError(f"learning_rate: {self.estimator} has none")
        return self._booster

    def model(self) -> Any:
        """Return a fitted copy of the estimator with the iterations so far.

        It takes the time of one evaluation of the training data.
        """
        return self._make_model()

    def __repr__(self) -> str:
        return f"<{self.estimator}: iteration {self.n_iter} of {self.max_iter}>"


class Callbacks:
    """The callbacks of a training run."""

    def __init__(self, callbacks: Any):
        if callbacks is None:
            callbacks = ()
        if not isinstance(callbacks, Iterable) or isinstance(callbacks, (str, dict)):
            raise TypeError(
                f"callbacks is of type {type(callbacks).__name__}; expected a list of callables"
            )
        self.callbacks: tuple[Callback, ...] = tuple(callbacks)
        for i, callback in enumerate(self.callbacks):
            if not callable(callback):
                raise TypeError(
                    f"callbacks[{i}] is of type {type(callback).__name__}; expected a callable"
                )

    def __bool__(self) -> bool:
        return bool(self.callbacks)

    def start(self, info: IterationInfo) -> None:
        """Call the ``start`` methods, before the first iteration."""
        for callback in self.callbacks:
            if hasattr(callback, "start"):
                callback.start(info)

    def after(self, info: IterationInfo) -> bool:
        """Call the callbacks after an iteration; return whether one of them stops training."""
        results = [callback(info) for callback in self.callbacks]
        return any(isinstance(result, (bool, np.bool_)) and bool(result) for result in results)


NO_CALLBACKS = Callbacks(None)
