"""Block-coordinate Frank-Wolfe: training for the maximum margin of label sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treecrf.learners.linear.training import TrainingData
from treecrf.learners.linear.weights import Weights
from treecrf.learners.structured.examples import (
    attribute_rows,
    bursts,
    labeled_chains,
)
from treecrf.learners.structured.max_margin._max_margin import (
    DualState,
    KernelDualState,
    LinearDualState,
)
from treecrf.learners.structured.max_margin.kernels import Inputs, Kernel, Support, gram_of


@dataclass(frozen=True)
class Dual:
    """Dual variables of all training sequences, defined in `_max_margin`.

    Attributes
    ----------
    deltas : float64 array (n_positions, width)
    pairs : float64 array (n_sequences, n_labels + 1, n_labels)
    losses : float64 array (n_sequences,)
    """

    deltas: np.ndarray
    pairs: np.ndarray
    losses: np.ndarray

    @classmethod
    def start(cls, data: TrainingData, width: int) -> Dual:
        """Make dual variables with all weight on the true labels: zeros."""
        n_sequences, n = len(data.offsets) - 1, len(data.classes)
        return cls(
            np.zeros((len(data.codes), width)),
            np.zeros((n_sequences, n + 1, n)),
            np.zeros(n_sequences),
        )

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays."""
        return self.deltas, self.pairs, self.losses

    def plus(self, other: Dual, factor: float) -> Dual:
        """Add a multiple of other dual variables."""
        return Dual(*(a + factor * b for a, b in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True)
class Value:
    """Value of the objective.

    Attributes
    ----------
    primal : float
        Half the squared length of the weights plus the cost of all hinge losses.
    gap : float
        Duality gap: an upper bound on the distance of ``primal`` from its minimum.
    """

    primal: float
    gap: float


class Problem(ABC):
    """The optimization problem; subclasses define the scores.

    Parameters
    ----------
    data : TrainingData
    costs : float64 array (n_sequences,)
        Cost of the hinge loss of each sequence.
    """

    width: int

    def __init__(self, data: TrainingData, costs: np.ndarray):
        self.data = data
        self.costs = costs
        self.chains = labeled_chains(data)

    @abstractmethod
    def state(self, dual: Dual) -> DualState:
        """Make a state from dual variables, with their scores; steps change these in place."""

    @abstractmethod
    def solution(self, dual: Dual) -> tuple[Weights, Support | None]:
        """Return the model: weights and, with a kernel, the inputs with coefficients."""

    def value(self, state: DualState, dual: Dual) -> Value:
        """Compute the objective and the duality gap by decoding all sequences."""
        data = self.data
        inner, hinges = np.zeros(len(self.costs)), np.zeros(len(self.costs))
        data.threads.map(lambda part: state.measure(*part, inner, hinges), data.table.parts)
        loss, square = self.costs @ hinges, inner.sum()
        return Value(0.5 * square + loss, square + loss - dual.losses.sum())


class LinearProblem(Problem):
    """Problem whose scores are sums of attributes times weights."""

    def __init__(self, data: TrainingData, costs: np.ndarray):
        super().__init__(data, costs)
        self.width = data.layout.width
        self._rows = attribute_rows(data.scores.table, self.width)

    def weights(self, dual: Dual) -> Weights:
        """Return the weights of the dual variables."""
        scores = self.data.scores
        rows = scores.new_rows()
        rows[scores.table.window[1] + scores.table.layout.rows] = dual.deltas
        return scores.gradient_of_rows(rows, dual.pairs)

    def state(self, dual: Dual) -> LinearDualState:
        """Make a state from dual variables, with their weights; steps change these in place."""
        return LinearDualState(self.chains, self.costs, dual, self._rows, self.weights(dual))

    def solution(self, dual: Dual) -> tuple[Weights, None]:
        """Return the weights."""
        return self.weights(dual), None


class KernelProblem(Problem):
    """Problem whose scores are sums of a kernel over the training positions.

    Parameters
    ----------
    data : TrainingData
    costs : float64 array (n_sequences,)
    inputs : Inputs
        Those of the training positions.
    kernel : Kernel
    max_bytes : float
        Maximum memory for the kernel matrix.
    """

    def __init__(
        self,
        data: TrainingData,
        costs: np.ndarray,
        inputs: Inputs,
        kernel: Kernel,
        max_bytes: float,
    ):
        super().__init__(data, costs)
        self.width = len(data.classes)
        self._inputs = inputs
        self._kernel = kernel
        self._gram = gram_of(kernel, inputs, max_bytes)

    def state(self, dual: Dual) -> KernelDualState:
        """Make a state from dual variables, with their scores; steps change these in place."""
        scores = np.ascontiguousarray((self._gram @ self._coefficients(dual)).T)
        return KernelDualState(
            self.chains, self.costs, dual, dual.pairs.sum(axis=0), self._inputs.indices, self._gram,
            scores,
        )  # fmt: skip

    def solution(self, dual: Dual) -> tuple[Weights, Support]:
        """Return the weights of the transitions, and the inputs with coefficients."""
        weights = self.data.layout.weights()
        weights.transitions[:] = dual.pairs.sum(axis=0)
        coefficients = self._coefficients(dual)
        used = np.flatnonzero((coefficients != 0).any(axis=1))
        return weights, Support(self._kernel, self._inputs.rows[used], coefficients[used])

    def _coefficients(self, dual: Dual) -> np.ndarray:
        """Sum the deltas over the positions with the same input."""
        coefficients = np.zeros((self._inputs.rows.shape[0], self.width))
        np.add.at(coefficients, self._inputs.indices, dual.deltas)
        return coefficients


@dataclass(frozen=True)
class Schedule:
    """Settings of the training.

    Attributes
    ----------
    max_iter : int
        Maximum number of passes over the sequences.
    max_gap : float
        Duality gap at which training ends.
    average : bool
        Whether the result is a weighted mean over all steps; later steps have larger weights.
    """

    max_iter: int
    max_gap: float
    average: bool


def solve(
    problem: Problem,
    schedule: Schedule,
    rng: np.random.Generator,
    report: Callable[[int, float], None],
) -> tuple[Dual, Value, int]:
    """Pass over the sequences until the duality gap is small enough.

    Each pass yields the gap of every block before its step. Their sum is not a bound, but it is
    small only if the gap is. Therefore all sequences are decoded again, to compute the gap itself,
    only when the sum is small.

    Returns
    -------
    dual : Dual
    value : Value
    n_iter : int
        Number of passes.
    """
    steps = Steps(problem, schedule.average)
    for n_iter in range(1, schedule.max_iter + 1):
        estimate = steps.run(rng)
        report(n_iter, estimate)
        if estimate <= schedule.max_gap or n_iter == schedule.max_iter:
            dual, value = steps.result()
            if value.gap <= schedule.max_gap:
                break
    return dual, value, n_iter


class Steps:
    """Dual variables during training, and their mean over all steps.

    Parameters
    ----------
    problem : Problem
    average : bool
    """

    def __init__(self, problem: Problem, average: bool):
        self._problem = problem
        self._gaps = np.zeros(len(problem.costs))
        self._dual = Dual.start(problem.data, problem.width)
        self._state = problem.state(self._dual)
        self._late = Dual.start(problem.data, problem.width) if average else None
        self._late_state = problem.state(self._late) if average else None
        self._n_steps = 0

    def run(self, rng: np.random.Generator) -> float:
        """Pass over the sequences once; returns the sum of their gaps before their steps."""
        order = rng.permutation(len(self._gaps))
        for some in bursts(self._problem.data.offsets, order):
            self._state.run(some, self._gaps, self._late_state, self._n_steps)
            self._n_steps += len(some)
        return float(self._gaps.sum())

    def result(self) -> tuple[Dual, Value]:
        """Return the dual variables, or their mean, and their value."""
        problem, n = self._problem, self._n_steps
        if self._late is not None:
            dual = self._dual.plus(self._late, -2.0 / (n * (n + 1.0)))
            return dual, problem.value(problem.state(dual), dual)
        # Recomputed weights are free of the rounding errors of the steps.
        self._state = problem.state(self._dual)
        return self._dual, problem.value(self._state, self._dual)
