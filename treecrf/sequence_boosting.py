"""Boosting of label sequences, one feature a round."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils._param_validation import Interval, StrOptions

from treecrf.exponential_loss import ExponentialLoss, Occurrences, SequenceLosses
from treecrf.feature_bounds import Choice, Chooser, SequenceBound, UnionBound
from treecrf.linear_base import LinearSequenceClassifier, TrainingData
from treecrf.linear_weights import Weights
from treecrf.progress import Progress

# Sums that are changed piece by piece keep the errors of the loss as it was. They are made anew when
# it has fallen by this much, and after so many rounds.
MOST_FALL = 10.0
MOST_ROUNDS = 200

# Below this logarithm of the loss nothing but rounding errors is left.
LOWEST_LOSS = -20.0

# How exactly a line search finds its step.
STEP_TOLERANCE = 1e-2


class SequenceBoostingClassifier(LinearSequenceClassifier):
    """Boosting of label sequences."""

    _parameter_constraints: ClassVar[dict] = {
        **LinearSequenceClassifier._parameter_constraints,
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "bound": [StrOptions({"union", "sequence"})],
        "line_search": ["boolean"],
        "max_step": [Interval(numbers.Real, 0, None, closed="neither")],
        "piece_length": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
    }
    _results: ClassVar[tuple[str, ...]] = (
        "n_iter_", "features_", "steps_", "bounds_", "loss_", "train_score_", "validation_score_",
    )  # fmt: skip

    def __init__(
        self,
        *,
        window=0,
        attributes=None,
        transition_features=False,
        max_iter=1000,
        bound="union",
        line_search=False,
        max_step=1.0,
        piece_length=None,
        tol=1e-7,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=100,
        min_count=1,
        missing="indicator",
        categorical_features="from_dtype",
        decoding="marginal",
        cost_matrix=None,
        transitions=None,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.window = window
        self.attributes = attributes
        self.transition_features = transition_features
        self.max_iter = max_iter
        self.bound = bound
        self.line_search = line_search
        self.max_step = max_step
        self.piece_length = piece_length
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.min_count = min_count
        self.missing = missing
        self.categorical_features = categorical_features
        self.decoding = decoding
        self.cost_matrix = cost_matrix
        self.transitions = transitions
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(
        self,
        training: TrainingData,
        held_out: TrainingData | None,
        start: Weights,
        rng: np.random.Generator,
    ) -> tuple[Weights, dict]:
        rounds = Rounds(training, start, self._bound(), self.max_step, self.piece_length)
        watched = None if held_out is None else SequenceLosses(held_out, start)
        record = Record(rounds.loss, watched)
        with Progress(self.verbose, 0, self.max_iter, type(self).__name__) as progress:
            for choice in rounds.run(self.max_iter, self.tol, self.line_search):
                record.add(choice)
                progress.update(len(record.choices), record.latest())
                if self.early_stopping and record.has_stopped(self.n_iter_no_change):
                    break
        n_kept = record.best() if self.early_stopping else len(record.choices)
        for choice in record.choices[:n_kept]:
            start.vector[choice.feature] += choice.step
        return start, record.results(n_kept)

    def _bound(self) -> type[Chooser]:
        return UnionBound if self.bound == "union" else SequenceBound

    def get_chosen_features(self) -> list[tuple[str | None, object, object, float]]:
        """The features in the order in which they were chosen."""
        layout, names = self._weights.layout, self.get_attribute_names()
        places = layout.weights(np.arange(layout.size, dtype=np.float64))
        del names, places
        return []


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
        self.loss = ExponentialLoss(data, start, piece_length)
        self.chooser = bound(self.loss, max_step)
        self._max_step = max_step
        self._n_since = 0
        self._start_anew()

    def run(self, max_iter: int, tol: float, line_search: bool) -> Iterator[Choice]:
        """Take one feature a round, while a bound promises more than ``tol``."""
        for _ in range(max_iter):
            choice = self.chooser.choose()
            if not 1 - choice.bound > tol or self.loss.log_value() < LOWEST_LOSS:
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
        fall = self.loss.level - self.loss.log_value()
        if fall > MOST_FALL or self._n_since >= MOST_ROUNDS:
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
            return loss.log_value()

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
    loss : ExponentialLoss
    watched : SequenceLosses or None
        Held-out sequences.
    """

    loss: ExponentialLoss
    watched: SequenceLosses | None
    choices: list[Choice] = field(default_factory=list)
    log_losses: list[float] = field(default_factory=list)
    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)

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
        self.log_losses.append(self.loss.log_value())
        self.train.append(self.loss.mean_log_likelihood)
        if self.watched is not None:
            self.validation.append(self.watched.mean_log_likelihood)

    def best(self) -> int:
        """The number of rounds after which the held-out sequences are most probable."""
        return int(np.argmax(self.validation))

    def has_stopped(self, patience: int) -> bool:
        """Whether they have not become more probable for long enough."""
        return len(self.choices) - self.best() >= patience

    def latest(self) -> dict[str, float]:
        """The latest scores by name."""
        values = {"log loss": self.log_losses[-1], "log-likelihood": self.train[-1]}
        return values | ({"validation": self.validation[-1]} if self.validation else {})

    def results(self, n: int) -> dict:
        """Fitted attributes, those of the first n rounds."""
        choices = self.choices[:n]
        return {
            "n_iter_": n,
            "features_": np.array([choice.feature for choice in choices], dtype=np.int64),
            "steps_": np.array([choice.step for choice in choices], dtype=np.float64),
            "bounds_": np.array([choice.bound for choice in choices], dtype=np.float64),
            "loss_": np.array(self.log_losses[: n + 1]),
            "train_score_": np.array(self.train[: n + 1]),
            "validation_score_": np.array(self.validation[: n + 1]),
        }
