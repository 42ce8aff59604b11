"""Block-coordinate Frank-Wolfe: training for the maximum margin of label sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treecrf.learners.linear.training import TrainingData, bursts
from treecrf.learners.linear.weights import Weights
from treecrf.learners.structured._examples import AttributeRows, LabeledChains
from treecrf.learners.structured.max_margin._max_margin import (
    DualState,
    KernelDualState,
    LinearDualState,
)
from treecrf.learners.structured.max_margin.kernels import Inputs, Kernel, Support, gram_of


@dataclass(frozen=True)
class Dual:
    """Dual variables of all training sequences, defined in `_max_margin`."""

    deltas: np.ndarray  # (n_positions, width)
    pairs: np.ndarray  # (n_sequences, n_labels + 1, n_labels)
    losses: np.ndarray  # (n_sequences,)

    @classmethod
    def start(cls, data: TrainingData, width: int) -> Dual:
        """Make dual variables with all weight on the true labels: zeros."""
        n_sequences, n = len(data.offsets) - 1, len(data.classes)
        return cls(
            np.zeros((len(data.codes), width)),
            np.zeros((n_sequences, n + 1, n)),
            np.zeros(n_sequences),
        )

    def plus(self, other: Dual, factor: float) -> Dual:
        """Add a multiple of other dual variables."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Dual(*(a + factor * b for a, b in pairs))


class Value(NamedTuple):
    """Value of the objective."""

    primal: float  # half the squared length of the weights plus the cost of all hinge losses
    gap: float  # duality gap: an upper bound on the distance of ``primal`` from its minimum


class Problem(ABC):
    """The optimization problem; subclasses define the scores."""

    def __init__(self, data: TrainingData, costs: np.ndarray, width: int):
        self.data = data
        self.width = width
        self.costs = costs  # of the hinge loss of each sequence
        self.chains = LabeledChains(data)

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
        super().__init__(data, costs, data.layout.width)
        self._rows = AttributeRows(data.table, self.width)

    def weights(self, dual: Dual) -> Weights:
        """Return the weights of the dual variables."""
        table = self.data.table
        weights = self.data.gradient_of_rows(lambda k, _: table.part_of(dual.deltas, k))
        weights.transitions[:] = dual.pairs.sum(axis=0)
        return weights

    def state(self, dual: Dual) -> LinearDualState:
        """Make a state from dual variables, with their weights; steps change these in place."""
        return LinearDualState(self.chains, self.costs, dual, self._rows, self.weights(dual))

    def solution(self, dual: Dual) -> tuple[Weights, None]:
        """Return the weights."""
        return self.weights(dual), None


class KernelProblem(Problem):
    """Problem whose scores are sums of a kernel over the training positions."""

    def __init__(
        self,
        data: TrainingData,
        costs: np.ndarray,
        inputs: Inputs,
        kernel: Kernel,
        max_bytes: float,
    ):
        super().__init__(data, costs, len(data.classes))
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


def solve(
    problem: Problem,
    max_iter: int,
    max_gap: float,
    average: bool,
    rng: np.random.Generator,
    report: Callable[[int, float], None],
) -> tuple[Dual, Value, int]:
    """Pass over the sequences until the duality gap is small enough; return the number of passes.

    Each pass yields the gap of every block before its step. Their sum is not a bound, but it is
    small only if the gap is. Therefore all sequences are decoded again, to compute the gap itself,
    only when the sum is small. With ``average``, the result is a weighted mean over all steps, in
    which later steps have larger weights.
    """
    data, gaps, n_steps = problem.data, np.zeros(len(problem.costs)), 0
    dual = Dual.start(data, problem.width)
    state = problem.state(dual)
    late = Dual.start(data, problem.width) if average else None
    late_state = None if late is None else problem.state(late)
    for n_iter in range(1, max_iter + 1):
        for burst in bursts(data.offsets, rng.permutation(len(gaps))):
            state.run(burst, gaps, late_state, n_steps)
            n_steps += len(burst)
        estimate = float(gaps.sum())
        report(n_iter, estimate)
        if estimate > max_gap and n_iter < max_iter:
            continue
        if late is None:
            # Recomputed weights are free of the rounding errors of the steps.
            found, state = dual, problem.state(dual)
            value = problem.value(state, dual)
        else:
            found = dual.plus(late, -2.0 / (n_steps * (n_steps + 1.0)))
            value = problem.value(problem.state(found), found)
        if value.gap <= max_gap:
            break
    return found, value, n_iter
