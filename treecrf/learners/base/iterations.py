"""Iterations of training: their scores, early stopping, callbacks, and metrics of validation data.

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

from treecrf.chains.likelihood import ChainLabels, MeanSums
from treecrf.inputs.offsets import split_sequences
from treecrf.metrics.scorers import SCORERS, LogLikelihoodScorer, MetricScorer
from treecrf.utils.exact import ExactSum
from treecrf.utils.messages import Progress, warn

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


def refuse_lost_objective(objective: Any) -> None:
    """Raise ValueError if a model from a file lacks the function that it was trained with."""
    if not callable(objective):
        raise ValueError(
            f"warm start: the model was trained with a function as its objective, not with "
            f"{objective!r}; set objective to that function, which files do not contain"
        )


def warn_without_new_iterations(n_before: int, max_iter: int) -> None:
    """Warn if a warm start leaves a model as it is, whatever the new data."""
    if n_before >= max_iter:
        warn(
            f"warm start: the model has max_iter={max_iter} iterations already, and gets no new "
            "ones; increase max_iter to continue, or set warm_start=False to train a new model"
        )


def as_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return the callbacks of a training run; TypeError if they are not callables."""
    if callbacks is None:
        return ()
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, (str, dict)):
        raise TypeError(
            f"callbacks is of type {type(callbacks).__name__}; expected a list of callables"
        )
    callbacks = tuple(callbacks)
    for i, callback in enumerate(callbacks):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{i}] is of type {type(callback).__name__}; expected a callable"
            )
    return callbacks


def start_callbacks(callbacks: tuple[Callback, ...], info: IterationInfo) -> None:
    """Call the ``start`` methods, before the first iteration."""
    for callback in callbacks:
        if hasattr(callback, "start"):
            callback.start(info)


def call_all(callbacks: tuple[Callback, ...], info: IterationInfo) -> bool:
    """Call the callbacks after an iteration; return whether one of them stops training."""
    results = [callback(info) for callback in callbacks]
    return any(isinstance(result, (bool, np.bool_)) and bool(result) for result in results)


# Convergence is judged over this many iterations, because a single one may gain little.
PERIOD = 10


@dataclass
class Run:
    """A training run of weights: scores of its iterations, progress, callbacks, early stopping."""

    estimator: str  # name of the class
    max_iter: int
    rng: np.random.Generator  # seeded by ``random_state``
    callbacks: tuple[Callback, ...]
    stopping: Stopping | None
    progress: Progress
    model: Callable[[Any, dict], Any]  # makes a fitted estimator of weights and results
    history: History = field(default_factory=History)
    losses: list[float] = field(default_factory=list)
    best: Any = None  # weights to keep so far; the latest without early stopping

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
        return self.losses[-1 - PERIOD] - self.losses[-1] < tol * max(1.0, abs(self.losses[-1]))

    def _info(self, n_iter: int, history: History, model: Callable[[], Any]) -> IterationInfo:
        return IterationInfo(self.estimator, n_iter, self.max_iter, history, model)

    def _refuse_model(self) -> None:
        raise ValueError(f"{self.estimator} has no model before its first iteration")


# Scores of models on validation sequences, after each iteration

# Values of the parameter ``scoring`` that stand for values of objectives.
OBJECTIVES = ("loss", "log_likelihood")
# The score of the probabilities of the labels, and all metrics that are means over positions.
NEG_LOG_LOSS = "neg_log_loss"
MEANS = ("accuracy", NEG_LOG_LOSS)
SCORINGS = {*OBJECTIVES, *MEANS, *SCORERS}
Labels = list[np.ndarray]


def scoring_of(parameter: Any) -> Any:
    """Return what a value of the parameter ``scoring`` stands for.

    This is one of `OBJECTIVES` or `MEANS`, a `MetricScorer`, or a function of lists of labels.
    """
    if isinstance(parameter, str):
        return parameter if parameter in OBJECTIVES else SCORERS.get(parameter, parameter)
    return "log_likelihood" if isinstance(parameter, LogLikelihoodScorer) else parameter


def metric_of(
    scoring: Any, data: ChainLabels, classes: np.ndarray, backward: bool = False
) -> Callable[[np.ndarray], float]:
    """Return a function that scores predictions for all positions, by a result of `scoring_of`."""
    if scoring in MEANS:
        mean = PositionMean(scoring, data)
        mean.require_positions()
        return lambda predictions: float(mean.sums(predictions))
    if data.candidates is not None:
        raise ValueError(
            f"scoring={name_of(scoring)!r} needs all labels of the validation sequences; expected "
            "'loss', 'accuracy' or 'neg_log_loss'"
        )

    def as_read(codes: np.ndarray) -> Labels:
        labels = split_sequences(classes[codes], data.offsets)
        return [array[::-1] for array in labels] if backward else labels

    score = scoring.of_labels if isinstance(scoring, MetricScorer) else scoring
    true = as_read(data.codes)
    return lambda codes: _number(score(true, as_read(codes)), scoring)


class PositionMean:
    """One of `MEANS`: the accuracy, or the mean log-probability of a label.

    The accuracy does not count positions whose label is unknown.
    """

    def __init__(self, scoring: str, data: ChainLabels):
        self.scoring = scoring
        self.data = data
        ones = np.broadcast_to(np.ones(1), data.codes.shape)
        weights = ones if data.weights is None else data.weights
        if scoring == "accuracy" and data.candidates is not None:
            weights = weights * (data.candidates.sum(axis=1) == 1)
        self.weights = weights
        self._weight = ExactSum.of(weights)

    def require_positions(self) -> None:
        """Raise ValueError if no label is known whose prediction could be scored."""
        if not self._weight.units:
            raise no_known_labels()

    def sums(self, predictions: np.ndarray) -> MeanSums:
        """Return sums whose quotient is the mean; the sums of several parts can be added."""
        codes, candidates = self.data.codes, self.data.candidates
        if self.scoring == "accuracy":
            of_labels = predictions == codes
        else:
            # The probability of each true label, or of the set that contains it.
            if candidates is None:
                p = predictions[np.arange(len(codes)), codes]
            else:
                p = (predictions * candidates).sum(axis=1)
            of_labels = np.log(np.maximum(p, np.finfo(np.float64).tiny))
        return MeanSums(ExactSum.of(of_labels * self.weights), self._weight)


def no_known_labels() -> ValueError:
    """Return the error of a mean over no positions."""
    return ValueError("scoring='accuracy' needs known labels in the validation sequences")


def _number(score: Any, scoring: Any) -> float:
    if not isinstance(score, numbers.Real) or np.isnan(score):
        raise ValueError(f"scoring={name_of(scoring)!r} returned {score!r}; expected a number")
    return float(score)


def name_of(scoring: Any) -> str:
    """Return the name of a metric."""
    if isinstance(scoring, MetricScorer):
        return scoring.name
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))
