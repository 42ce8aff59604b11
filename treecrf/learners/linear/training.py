"""What the linear learners train on, and the record of a training run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.lattice import Lattice
from treecrf.chains.objectives import WeightedMean
from treecrf.inputs.offsets import runs
from treecrf.learners.iterations import (
    Callback,
    History,
    IterationInfo,
    Stopping,
    call_all,
    start_callbacks,
)
from treecrf.learners.linear.scores import LinearScores, Weights
from treecrf.utils.messages import Progress

# Convergence is judged over this many iterations, because a single one may gain little.
PERIOD = 10

# Kernels take this many positions at a time; between two calls, training can be interrupted.
BURST_POSITIONS = 1 << 16

# Approximate curvature of the loss that an indicator adds at each position where it is 1.
CURVATURE_OF_A_POSITION = 0.1


@dataclass
class TrainingData(LinearScores):
    """Training or validation data of a linear learner."""

    codes: np.ndarray
    classes: np.ndarray
    constraints: Constraints  # the scores of all other labels must be minus infinity
    # Of each sequence: the mean over its positions of sample weight times weight of the label.
    weights: np.ndarray
    sample_weights: np.ndarray | None = None  # of each position, for reported scores
    candidates: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.offsets = self.table.offsets
        self.mean = WeightedMean(self.sample_weights, self.offsets)

    @property
    def masks(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The allowed labels, and the candidates, as bytes for kernels."""
        masks = self.constraints.allowed, self.candidates
        allowed, candidates = (
            None if mask is None else np.ascontiguousarray(mask).view(np.uint8) for mask in masks
        )
        return allowed, candidates

    def repeated_weights(self) -> np.ndarray | None:
        """Return the weight in training of the sequence of each position; None for ones."""
        if (self.weights == 1).all():
            return None
        return np.repeat(self.weights, np.diff(self.offsets))

    def lattice(self, weights: Weights) -> Lattice:
        """Return the lattice of all sequences under the constraints."""
        scores = self.scores(weights)
        self.constraints.forbid(scores, self.offsets)
        return Lattice(scores, self.offsets, 1, self.threads)


@dataclass
class Run:
    """A training run: the scores of its iterations, progress, callbacks and early stopping."""

    estimator: str  # name of the class
    max_iter: int
    rng: np.random.Generator  # seeded by ``random_state``
    callbacks: tuple[Callback, ...]
    stopping: Stopping | None
    progress: Progress
    model: Callable[[Weights, dict], Any]  # makes a fitted estimator of weights and results
    history: History = field(default_factory=History)
    losses: list[float] = field(default_factory=list)
    best: Any = None  # weights to keep so far; the latest without early stopping

    def start(self) -> None:
        """Call the callbacks before the first iteration."""
        start_callbacks(self.callbacks, self._info(0, History(), self._refuse_model))

    def record(self, weights: Any, score: float | None) -> None:
        """Keep weights, which training must not change, if their validation score is the best."""
        if score is not None:
            self.history.validation.append(score)
        if self.stopping is None or self.history.is_at_best():
            self.best = weights

    def stops_after(
        self, n_iter: int, shown: dict[str, float], state: Callable[[], tuple[Weights, dict]]
    ) -> bool:
        """Show an iteration and call the callbacks; return whether training stops.

        ``state`` returns the present weights, which training must not change, and results.
        """
        self.progress.update(n_iter, shown)
        info = self._info(n_iter, self.history, lambda: self.model(*state()))
        return call_all(self.callbacks, info) or self.history.is_over(self.stopping)

    def has_converged(self, tol: float) -> bool:
        """Return whether the latest iterations together have hardly lowered the loss."""
        if len(self.losses) <= PERIOD:
            return False
        return self.losses[-1 - PERIOD] - self.losses[-1] < tol * max(1.0, abs(self.losses[-1]))

    def _info(self, n_iter: int, history: History, model: Callable[[], Any]) -> IterationInfo:
        return IterationInfo(self.estimator, n_iter, self.max_iter, history, model)

    def _refuse_model(self) -> None:
        raise ValueError(f"{self.estimator} has no model before its first iteration")


def bursts(offsets: np.ndarray, order: np.ndarray) -> Iterator[np.ndarray]:
    """Cut an order of sequences into parts that kernels process without interruption."""
    lengths = np.append(0, np.cumsum(np.diff(offsets)[order]))
    for first, last in runs(lengths, BURST_POSITIONS):
        yield order[first:last]


def scale_of(data: TrainingData, l2: float) -> np.ndarray:
    """Scale of each weight, such that the loss has similar curvature along all scaled weights.

    It is 1 for indicators. A numeric attribute gets the curvature of an indicator of its non-zero
    values. Without scaling, solvers need thousands of iterations if attributes differ in scale.
    """
    (_, indices, values), n_attributes = data.table.by_row, data.layout.n_attributes
    scale = data.layout.weights(np.ones(data.layout.size))
    if values is None:
        return scale.vector
    counts = np.bincount(indices, minlength=n_attributes)
    squares = np.bincount(indices, weights=values**2, minlength=n_attributes)
    like_indicator = CURVATURE_OF_A_POSITION * counts + 2.0 * l2
    # Attributes that never occur keep scale 1.
    curvature = np.where(counts > 0, CURVATURE_OF_A_POSITION * squares + 2.0 * l2, like_indicator)
    ratio = np.where(like_indicator > 0, like_indicator, 1.0)
    ratio /= np.where(curvature > 0, curvature, 1.0)
    scale.attributes[:] = np.sqrt(ratio)[:, np.newaxis, np.newaxis]
    return scale.vector


def observed_weights(data: TrainingData, start: Weights) -> np.ndarray:
    """Return the indices of the weights whose attributes and labels occur together.

    Transitions, and weights that do not start from 0, are among them.
    """
    layout, offsets = data.layout, data.offsets
    possible = data.candidates
    if possible is None:
        possible = data.codes[:, np.newaxis] == np.arange(layout.n_labels)
    if layout.transition_features:
        both = possible[1:, np.newaxis] & possible[:-1, :, np.newaxis]
        both[offsets[1:-1] - 1] = False
        both = np.concatenate([np.zeros_like(both[:1]), both]).reshape(len(possible), -1)
        possible = np.concatenate([possible, both], axis=1)
    table, (starts, indices, values) = data.table, data.table.by_row
    if values is not None:
        table = replace(table, by_row=(starts, indices, (values != 0).astype(np.float64)))
    scores = LinearScores(table, layout, data.threads)
    occur = scores.gradient_of_rows(lambda k, _: table.part_of(possible, k))
    occur.transitions[:] = 1
    return np.flatnonzero((occur.vector != 0) | (start.vector != 0))
