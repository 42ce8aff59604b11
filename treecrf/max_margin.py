"""The support vector machine for label sequences."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from treecrf import _linear
from treecrf.base import require_memory
from treecrf.frank_wolfe import KernelProblem, LinearProblem, Schedule, solve
from treecrf.input_kernels import KERNELS, Inputs, Kernel, Support, gamma_of
from treecrf.linear_base import LinearSequenceClassifier, TrainingData
from treecrf.linear_table import Table
from treecrf.linear_weights import Weights
from treecrf.progress import Progress
from treecrf.sequences import Sequences
from treecrf.threads import Threads


class StructuredSVM(LinearSequenceClassifier):
    """Support vector machine for label sequences."""

    _parameter_constraints: ClassVar[dict] = {
        **LinearSequenceClassifier._parameter_constraints,
        "C": [Interval(numbers.Real, 0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(numbers.Real, 0, None, closed="neither")],
        "degree": [Interval(numbers.Real, 0, None, closed="neither")],
        "coef0": [Interval(numbers.Real, None, None, closed="neither")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "average": ["boolean"],
        "cache_size": [Interval(numbers.Real, 0, None, closed="neither")],
    }
    _fitted: ClassVar[tuple[str, ...]] = (*LinearSequenceClassifier._fitted, "_support")
    _results: ClassVar[tuple[str, ...]] = ("n_iter_", "objective_", "dual_gap_")

    def __init__(
        self,
        *,
        window=0,
        attributes=None,
        transition_features=False,
        C=1.0,
        kernel="linear",
        gamma="scale",
        degree=3,
        coef0=0.0,
        max_iter=100,
        tol=1e-2,
        average=False,
        cache_size=2000,
        min_count=1,
        missing="indicator",
        categorical_features="from_dtype",
        decoding="viterbi",
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
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_iter = max_iter
        self.tol = tol
        self.average = average
        self.cache_size = cache_size
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

    # Training

    def _learn(
        self,
        training: TrainingData,
        held_out: TrainingData | None,
        start: Weights,
        rng: np.random.Generator,
    ) -> tuple[Weights, dict]:
        problem = self._problem(training)
        lengths = np.diff(training.offsets)
        # What all hinge losses cost before there are any weights.
        at_start = float(problem.costs @ lengths)
        schedule = Schedule(self.max_iter, self.tol * at_start, self.average)
        with Progress(self.verbose, 0, self.max_iter, type(self).__name__) as progress:
            dual, value, n_iter = solve(
                problem, schedule, rng,
                lambda n, gap: progress.update(n, {"gap": gap / at_start}),
            )  # fmt: skip
        results = {"n_iter_": n_iter, "objective_": value.primal, "dual_gap_": value.gap}
        if isinstance(problem, LinearProblem):
            return problem.weights(dual), results | {"_support": None}
        weights = training.layout.weights()
        weights.transitions[:] = dual.pairs.sum(axis=0)
        return weights, results | {"_support": problem.support(dual)}

    def _problem(self, data: TrainingData) -> LinearProblem | KernelProblem:
        costs = self.C * data.weights
        if self.kernel == "linear":
            return LinearProblem(data, costs)
        if self.transition_features:
            raise ValueError(
                f"transition_features with kernel={self.kernel!r}: a kernel is for the labels of "
                'positions, and transitions are linear; take kernel="linear"'
            )
        inputs = Inputs.of(data.scores.table)
        kernel = Kernel(self.kernel, gamma_of(self.gamma, inputs), self.degree, self.coef0)
        return KernelProblem(data, costs, inputs, kernel, self.cache_size * 1e6)

    # Scores

    def _scores_of(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        if self._support is None:
            return super()._scores_of(sequences, threads)
        n_labels, offsets = len(self.classes_), sequences.offsets
        require_memory(n_labels, self.order, sequences.n_positions)
        inputs = Inputs.of(Table.of(self._attributes, sequences))
        rows = self._support.scores(inputs, threads)[inputs.places]
        out = np.empty((n_labels, len(rows), n_labels))
        _linear.chain_scores(
            rows, self._weights.transitions, offsets, 0, len(offsets) - 1, offsets[:-1], 0, out
        )
        return out

    # Saved models

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        values, arrays = super()._state()
        if self._support is None:
            return values | {"kernel": None}, arrays
        kernel, support = self._support.state()
        support = {f"support.{name}": array for name, array in support.items()}
        return values | {"kernel": kernel}, arrays | support

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> StructuredSVM:
        super()._restore(values, arrays)
        self._support = None
        if values["kernel"] is not None:
            support = {
                name.removeprefix("support."): array
                for name, array in arrays.items()
                if name.startswith("support.")
            }
            layout = self._weights.layout
            n_columns = layout.n_attributes * layout.n_offsets
            self._support = Support.from_state(
                values["kernel"], support, n_columns, layout.n_labels
            )
        return self
