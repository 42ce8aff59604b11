"""Block-coordinate Frank-Wolfe for the maximum margin of label sequences, and kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from treecrf.inputs.offsets import runs
from treecrf.learners.linear import _linear
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.structured._sequential import (
    AttributeRows,
    DualState,
    KernelDualState,
    LabeledChains,
    LinearDualState,
)
from treecrf.utils import model_file
from treecrf.utils.scipy_sparse import sparse
from treecrf.utils.threads import Threads

KERNELS = ("linear", "poly", "rbf")

# Sums of larger values leave too few digits for differences between scores.
MAX_VALUE = 1e15

# Number of kernel values that are computed at a time.
TILE_VALUES = 1 << 22


@dataclass(frozen=True)
class Inputs:
    """The distinct windows of some positions."""

    # A row for each distinct window, with a column for each attribute at each offset.
    rows: sparse.csr_array
    # Index of the window of each position.
    indices: np.ndarray

    @classmethod
    def of(cls, table: AttributeMatrix) -> Inputs:
        """Return the windows of all positions, in order of first occurrence."""
        left, right = table.window
        position_rows = table.layout.rows
        blocks = [table.matrix[position_rows + offset] for offset in range(-left, right + 1)]
        rows = sparse.csr_array(sparse.hstack(blocks, format="csr"))
        rows.sum_duplicates()
        windows = [
            (rows.indices[a:b].tobytes(), rows.data[a:b].tobytes())
            for a, b in pairwise(rows.indptr.tolist())
        ]
        numbers: dict[tuple[bytes, bytes], int] = {}
        indices = np.array([numbers.setdefault(window, len(numbers)) for window in windows])
        _, first = np.unique(indices, return_index=True)
        return cls(rows[first], indices)


@dataclass(frozen=True)
class Kernel:
    """A kernel function of two inputs; the fields are parameters of `StructuredSVM`."""

    kind: str | Callable
    gamma: float
    degree: float
    coef0: float

    def between(self, a: sparse.csr_array, b: sparse.csr_array) -> np.ndarray:
        """Compute the kernel of all pairs, (n_a, n_b); raises ValueError if it is not finite."""
        if callable(self.kind):
            values = self.kind(a, b)
            values = values.toarray() if sparse.issparse(values) else np.asarray(values)
            shape = (a.shape[0], b.shape[0])
            is_number = values.dtype.kind in "biuf"
            if values.shape != shape or not is_number or not np.isfinite(values).all():
                raise ValueError(
                    f"kernel: {shape[0]} and {shape[1]} inputs give an array of shape "
                    f"{values.shape} and dtype {values.dtype}; expected finite numbers of shape "
                    f"{shape}"
                )
            return np.ascontiguousarray(values, dtype=np.float64)
        products = (a @ b.T).toarray()
        if self.kind == "poly":
            with np.errstate(over="ignore", invalid="ignore"):
                values = (self.gamma * products + self.coef0) ** self.degree
            if not np.isfinite(values).all():
                raise ValueError(
                    f"kernel='poly': values of degree {self.degree} are not finite; standardize "
                    "the features, or choose a lower degree"
                )
            return values
        if self.kind == "rbf":
            distances = _squares(a)[:, np.newaxis] + _squares(b) - 2 * products
            with np.errstate(over="ignore"):  # the value of an infinite distance is 0
                return np.exp(-self.gamma * np.maximum(distances, 0.0))
        return products


def _squares(rows: sparse.csr_array) -> np.ndarray:
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()


def gamma_of(gamma: str | float, inputs: Inputs) -> float:
    """Return the value of ``gamma`` as a number, as in scikit-learn's SVC."""
    if not isinstance(gamma, str):
        return float(gamma)
    n_positions = len(inputs.indices)
    n_columns = inputs.rows.shape[1]
    if gamma == "auto" or n_columns == 0:
        return 1.0 / max(n_columns, 1)
    counts = np.bincount(inputs.indices, minlength=inputs.rows.shape[0])
    mean = counts @ inputs.rows.sum(axis=1) / (n_positions * n_columns)
    square = counts @ _squares(inputs.rows) / (n_positions * n_columns)
    variance = square - mean**2
    if variance <= 0:
        return 1.0
    return 1.0 / (n_columns * variance)


def gram_of(kernel: Kernel, inputs: Inputs, max_bytes: float) -> np.ndarray:
    """Compute the kernel matrix of all inputs, within ``max_bytes``; refuses large values."""
    n = inputs.rows.shape[0]
    n_bytes = n * n * np.dtype(np.float64).itemsize
    if n_bytes > max_bytes:
        raise MemoryError(
            f"the kernel matrix of {n} distinct windows needs {n_bytes / 1e6:.0f} MB, but "
            f"cache_size allows {max_bytes / 1e6:.0f} MB; raise cache_size, pass fewer sequences "
            'or a narrower window, or use kernel="linear"'
        )
    gram = np.empty((n, n))
    for first, last in _tiles(n, n):
        gram[first:last] = kernel.between(inputs.rows[first:last], inputs.rows)
    largest = max(gram.max(), -gram.min())
    if largest > MAX_VALUE:
        raise ValueError(
            f"kernel={kernel.kind!r}: values up to {largest:.2g}; expected at most {MAX_VALUE:g}: "
            "standardize the features, or choose a kernel of a lower degree"
        )
    return gram


def _tiles(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Cut the rows of a table into ranges that are computed at a time."""
    return runs(np.arange(n_rows + 1), max(1, TILE_VALUES // max(n_columns, 1)))


@dataclass(frozen=True)
class Support:
    """The inputs with non-zero coefficients of a model with a kernel."""

    kernel: Kernel
    # The inputs, as `Inputs.rows`.
    rows: sparse.csr_array
    # Coefficient of the kernel of each input in the score of each label, (n_support, n_labels).
    coefficients: np.ndarray

    def scores(self, inputs: Inputs, threads: Threads) -> np.ndarray:
        """Compute the scores of the labels for each input; float64 array (n_inputs, n_labels)."""
        n_inputs = inputs.rows.shape[0]
        scores = np.zeros((n_inputs, self.coefficients.shape[1]))

        def fill(tile: tuple[int, int]) -> None:
            values = self.kernel.between(inputs.rows[slice(*tile)], self.rows)
            _linear.add_product(values, self.coefficients, scores[slice(*tile)])

        threads.map(fill, _tiles(n_inputs, self.rows.shape[0]))
        return scores

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model; raises TypeError if the kernel is a callable."""
        kernel = self.kernel
        rows = self.rows
        if callable(kernel.kind):
            raise TypeError("a model with a callable kernel cannot be saved as data; use joblib")
        values = {name: getattr(kernel, name) for name in ("kind", "gamma", "degree", "coef0")}
        arrays = {name: getattr(rows, name) for name in ("data", "indices", "indptr")}
        return values, arrays | {"coefficients": self.coefficients}

    @classmethod
    def from_state(
        cls, values: dict, arrays: dict[str, np.ndarray], n_columns: int, n_labels: int
    ) -> Support:
        """Restore an object from its `state`."""
        kernel = Kernel(*(values[name] for name in ("kind", "gamma", "degree", "coef0")))
        model_file.require(kernel.kind in KERNELS, "kernel")
        for number in (kernel.gamma, kernel.degree, kernel.coef0):
            model_file.require(isinstance(number, int | float), "kernel")
            model_file.check_result(number)
        data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
        coefficients = arrays["coefficients"]
        for array in (data, coefficients):
            model_file.require(array.dtype == np.float64 and np.isfinite(array).all(), "support")
        n = len(coefficients)
        model_file.require(coefficients.shape == (n, n_labels), "support")
        model_file.require(data.shape == indices.shape, "support")
        model_file.check_indices(indices, n_columns, "support")
        model_file.check_indices(indptr, len(data) + 1, "support")
        model_file.require(len(indptr) == n + 1 and (np.diff(indptr) >= 0).all(), "support")
        model_file.require(indptr[0] == 0 and indptr[-1] == len(data), "support")
        return cls(kernel, sparse.csr_array((data, indices, indptr), (n, n_columns)), coefficients)


@dataclass(frozen=True)
class Dual:
    """Dual variables of all training sequences, defined in `_sequential`."""

    # Of labels at positions, (n_positions, width).
    deltas: np.ndarray
    # Of transitions, (n_sequences, n_labels + 1, n_labels).
    pairs: np.ndarray
    # Losses of the sequences, (n_sequences,).
    losses: np.ndarray

    @classmethod
    def start(cls, data: TrainingData, width: int) -> Dual:
        """Make dual variables with all weight on the true labels: zeros."""
        n_sequences = len(data.offsets) - 1
        n = len(data.classes)
        return cls(
            np.zeros((len(data.codes), width)),
            np.zeros((n_sequences, n + 1, n)),
            np.zeros(n_sequences),
        )

    def plus(self, other: Dual, factor: float) -> Dual:
        """Add a multiple of other dual variables."""
        return Dual(
            deltas=self.deltas + factor * other.deltas,
            pairs=self.pairs + factor * other.pairs,
            losses=self.losses + factor * other.losses,
        )


class Value(NamedTuple):
    """Value of the objective."""

    # Half the squared length of the weights plus the cost of all hinge losses.
    primal: float
    # Duality gap: an upper bound on the distance of ``primal`` from its minimum.
    gap: float


class Problem(ABC):
    """The optimization problem; subclasses define the scores."""

    def __init__(self, data: TrainingData, costs: np.ndarray, width: int):
        self.data = data
        self.width = width
        # Cost of the hinge loss of each sequence.
        self.costs = costs
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
        products = np.zeros(len(self.costs))
        hinges = np.zeros(len(self.costs))

        def measure(sequences: tuple[int, int]) -> None:
            first, last = sequences
            state.measure(first, last, products, hinges)

        data.threads.map(measure, data.table.ranges)
        loss = self.costs @ hinges
        square = products.sum()
        return Value(primal=0.5 * square + loss, gap=square + loss - dual.losses.sum())


class LinearProblem(Problem):
    """Problem whose scores are sums of attributes times weights."""

    def __init__(self, data: TrainingData, costs: np.ndarray):
        super().__init__(data, costs, data.layout.width)
        self._rows = AttributeRows(data.table, self.width)

    def weights(self, dual: Dual) -> Weights:
        """Return the weights of the dual variables."""
        table = self.data.table
        weights = self.data.gradient_of_rows(lambda k, _: table.range_rows(dual.deltas, k))
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
        support = np.flatnonzero((coefficients != 0).any(axis=1))
        return weights, Support(self._kernel, self._inputs.rows[support], coefficients[support])

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
    data = problem.data
    gaps = np.zeros(len(problem.costs))
    n_steps = 0
    dual = Dual.start(data, problem.width)
    state = problem.state(dual)
    late = None
    late_state = None
    if average:
        late = Dual.start(data, problem.width)
        late_state = problem.state(late)
    for n_iter in range(1, max_iter + 1):
        for burst in data.bursts(rng.permutation(len(gaps))):
            state.run(burst, gaps, late_state, n_steps)
            n_steps += len(burst)
        estimate = float(gaps.sum())
        report(n_iter, estimate)
        if estimate > max_gap and n_iter < max_iter:
            continue
        if late is None:
            # Recomputed weights are free of the rounding errors of the steps.
            solution = dual
            state = problem.state(dual)
            value = problem.value(state, dual)
        else:
            solution = dual.plus(late, -2.0 / (n_steps * (n_steps + 1.0)))
            value = problem.value(problem.state(solution), solution)
        if value.gap <= max_gap:
            break
    return solution, value, n_iter
