"""Support vector machine for label sequences."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import require_memory
from treecrf.chains.lattice import Lattice
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.chain import LinearChain
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.lattices import pair_scores
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.training_run import TrainingRun
from treecrf.learners.structured.frank_wolfe import (
    KERNELS,
    Inputs,
    Kernel,
    KernelProblem,
    LinearProblem,
    Support,
    gamma_of,
    solve,
)
from treecrf.utils import model_file
from treecrf.utils.messages import warn
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    Decoding,
    RandomState,
    Transitions,
    Window,
)
from treecrf.utils.validation import Interval, Needs, StrOptions, documented_as


@dataclass(kw_only=True)
class KernelChain(LinearChain):
    """Sums of a kernel over training positions, and linear scores of labels after labels."""

    # The training positions with coefficients other than 0, and these.
    support: Support

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        require_memory(len(self.classes), self.order, sequences.n_positions)
        return pair_scores(*self.factors(sequences, threads), sequences.offsets)

    def factors(self, sequences: Sequences, threads: Threads) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of labels, and the weights of labels after labels."""
        inputs = Inputs.of(AttributeMatrix.of(self.attributes, sequences))
        rows = self.support.scores(inputs, threads)[inputs.indices]
        return rows, self.weights.transitions

    def lattice(self, sequences: Sequences, constraints: Constraints, threads: Threads) -> Lattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        return FittedChain.lattice(self, sequences, constraints, threads)

    def short_model(self, ignored: set[str]) -> None:
        """Return None: there is no form for short sequences."""


@documented_as(LinearCRF, without=["loss_", "train_score_", "validation_score_"])
@dataclass(kw_only=True, eq=False, repr=False)
class StructuredSVM(LinearSequenceClassifier):
    r"""Support vector machine for label sequences.

    Scores are those of `LinearCRF`, or sums of a kernel over training positions. Training maximizes
    the margin: a label sequence with n wrong labels should score at least n below the true one. The
    model is also known as a hidden Markov support vector machine, or as a max-margin Markov
    network.

    Parameters
    ----------
    window : int or (int, int), default=0
        Number of positions to the left and to the right whose values are attributes. Offsets
        outside of all training sequences are left out.
    attributes : source of attributes or None, default=None
        Source of attributes that replaces windows of the input, as in `LinearCRF`.
    transition_features : bool, default=False
        Whether each attribute also has weights for pairs of previous label and label, in addition
        to those for labels. Only with ``kernel="linear"``.
    C : float, default=0.1
        Cost of a label that is wrong or within the margin. Larger values mean less regularization.
    kernel : {"linear", "poly", "rbf"} or callable, default="linear"
        Kernel between two positions, computed from the attributes a and b in their windows:

        - ``"linear"``: ``a @ b``.
        - ``"poly"``: ``(gamma * a @ b + coef0) ** degree``.
        - ``"rbf"``: ``exp(-gamma * |a - b| ** 2)``.
        - A callable, which takes two CSR arrays of shapes (n_a, n_columns) and (n_b, n_columns) and
          returns an array of shape (n_a, n_b).

        Transitions are linear with every kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient in ``"poly"`` and ``"rbf"``. Each attribute at each offset in the window is a
        column.

        - ``"scale"``: 1 / (number of columns * variance of all their values).
        - ``"auto"``: 1 / number of columns.
        - A positive number: the coefficient itself.
    degree : float, default=3
        Degree of the ``"poly"`` kernel.
    coef0 : float, default=0.0
        Constant term of the ``"poly"`` kernel.
    max_iter : int, default=1000
        Maximum number of passes over the training sequences.
    tol : float, default=1e-2
        Training ends when the objective is at most this far above its minimum, as a fraction of its
        value before training, which is ``C`` times the number of positions.
    average : bool, default=False
        Whether the model uses a mean of the weights after each step, in which later steps count
        more, instead of the last weights. The mean is better when training ends far from the
        minimum.
    cache_size : float, default=2000
        Maximum size in megabytes of the kernel matrix between all distinct windows.
    decoding : {"marginal", "viterbi", "minimum_risk"}, default="viterbi"
        How `predict` chooses labels:

        - ``"marginal"``: the most probable label of each position.
        - ``"viterbi"``: the label sequence with the highest score.
        - ``"minimum_risk"``: the label with the lowest expected cost at each position.

        The notes explain the probabilities.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. The ``C`` of a sequence is multiplied by the mean weight of its
        labels.
    n_jobs : int or None, default=None
        Number of threads for prediction and for computing the objective. None is one thread, and -1
        uses all processors. Training steps are sequential. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the order in which sequences are visited.

    Attributes
    ----------
    n_iter_ : int
        Number of passes over the sequences.
    objective_ : float
        Minimized objective: half the sum of squared weights plus ``C`` times the hinge losses of
        all sequences.
    dual_gap_ : float
        Upper bound on the distance of ``objective_`` from its minimum.
    state_weights_ : float array of shape ``(n_attributes, n_classes)``
        Weights of the labels for each attribute, in the order of `get_attribute_names`. They are 0
        with a kernel other than ``"linear"``.

    Warns
    -----
    ConvergenceWarning
        If `fit` ends because of ``max_iter``.

    See Also
    --------
    LinearCRF : The same scores, trained to predict probabilities.
    StructuredPerceptron : Faster, without a margin.

    Notes
    -----
    The objective is

    .. math:: \frac{1}{2} |w|^2 + C \sum_i \max_Y \left[ \Delta(Y, Y_i) + F_w(X_i, Y)
              - F_w(X_i, Y_i) \right]

    where :math:`F_w` is the score of a label sequence and :math:`\Delta` the number of its wrong
    labels. Each step finds the maximum for one sequence by the Viterbi algorithm. It then moves
    that sequence's part of the weights toward the maximum, with the optimal step length
    (block-coordinate Frank-Wolfe). The maxima of all sequences together give the duality gap, which
    bounds the distance from the minimum.

    With a kernel, the score of a label at a position is a sum over training positions. Positions
    with the same window share one row of the kernel matrix. The matrix takes 8 bytes for each pair
    of distinct windows, or 2.3 GB for 17,000 windows. The cost of a step, and of a prediction, is
    proportional to the number of windows times the length of the sequence.

    Training aims at the order of the scores, not at probabilities. `predict_proba` treats scores as
    logarithms: the probability of a label sequence is proportional to the exponential of its score.
    Because the margin is 1 per wrong label, these probabilities have a reasonable magnitude, but
    they are flatter or steeper than those of a `LinearCRF`.

    References
    ----------
    .. [1] Y. Altun, I. Tsochantaridis, T. Hofmann, "Hidden Markov support vector machines", ICML
       2003.
    .. [2] B. Taskar, C. Guestrin, D. Koller, "Max-margin Markov networks",
       NIPS 2003.
    .. [3] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher, "Block-coordinate Frank-Wolfe
       optimization for structural SVMs", ICML 2013.

    Examples
    --------
    >>> from treecrf import StructuredSVM
    >>> X, y = ["abba", "aab", "ba"], ["0101", "001", "11"]
    >>> svm = StructuredSVM(window=(1, 0), C=10, random_state=0).fit(X, y)
    >>> svm.predict(["aba"])[0].tolist()
    ['0', '1', '1']

    Whether a letter repeats the previous one depends on both letters. A sum over single attributes
    cannot express this, but a kernel over pairs of attributes can:

    >>> X = ["aabbab", "babbaa", "abaab"]
    >>> y = [[int(a == b) for a, b in zip("-" + word, word)] for word in X]
    >>> svm.fit(X, y).score(X, y) < 0.9
    True
    >>> svm.set_params(kernel="poly", degree=2, coef0=1.0).fit(X, y).score(X, y)
    1.0
    """

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
    _needed: ClassVar[dict[str, Needs]] = LinearSequenceClassifier._needed | {
        "gamma": Needs("kernel", ("poly", "rbf")),
        "degree": Needs("kernel", ("poly",)),
        "coef0": Needs("kernel", ("poly",)),
        "cache_size": Needs("kernel", unless=("linear",)),
    }
    _fitted: ClassVar[tuple[str, ...]] = (*LinearSequenceClassifier._fitted, "_support")
    _results: ClassVar[tuple[str, ...]] = ("n_iter_", "objective_", "dual_gap_")

    window: Window = 0
    attributes: Any = None
    transition_features: bool = False
    C: float = 0.1
    kernel: Literal["linear", "poly", "rbf"] | Callable[..., Any] = "linear"
    gamma: Literal["scale", "auto"] | float = "scale"
    degree: float = 3
    coef0: float = 0.0
    max_iter: int = 1000
    tol: float = 1e-2
    average: bool = False
    cache_size: float = 2000
    min_count: int = 1
    missing: Literal["indicator", "impute"] = "indicator"
    standardize: bool = True
    categorical_features: CategoricalFeatures = "from_dtype"
    decoding: Decoding = "viterbi"
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    # Training

    def _learn(
        self, data: TrainingData, held_out: TrainingData | None, start: Weights, run: TrainingRun
    ) -> tuple[Weights, dict]:
        if held_out is not None:
            raise ValueError(
                "X_val and y_val have no effect because training ends by the duality gap; omit them"
            )
        if run.callbacks:
            raise ValueError(
                "callbacks: StructuredSVM calls none, because its passes change the solution of a "
                "dual problem; the parameter max_iter limits their number"
            )
        problem = self._problem(data)
        # The cost of all hinge losses while all weights are 0.
        start_value = float(problem.costs @ np.diff(data.offsets))
        max_gap = self.tol * start_value

        def report(n_iter: int, gap: float) -> None:
            run.progress.update(n_iter, {"gap": gap / start_value})

        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            dual, value, n_iter = solve(
                problem, self.max_iter, max_gap, self.average, run.rng, report
            )
        if not np.isfinite([value.primal, value.gap]).all():
            raise ValueError(
                f"the objective is not finite with C={self.C}; standardize the features, or lower C"
            )
        if value.gap > max_gap:
            warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} passes: the "
                f"objective may be {value.gap / start_value:.1e} above its minimum, more than "
                f"tol={self.tol}; raise max_iter or lower C",
                ConvergenceWarning,
            )
        weights, support = problem.solution(dual)
        return weights, {
            "n_iter_": n_iter,
            "objective_": float(value.primal),
            "dual_gap_": float(value.gap),
            "_support": support,
        }

    def _problem(self, data: TrainingData) -> LinearProblem | KernelProblem:
        costs = self.C * data.weights
        if self.kernel == "linear":
            return LinearProblem(data, costs)
        if self.transition_features:
            raise ValueError(
                f"transition_features has no effect on kernel={self.kernel!r}, whose transitions "
                'are always linear; pass transition_features=False or kernel="linear"'
            )
        inputs = Inputs.of(data.table)
        kernel = Kernel(self.kernel, gamma_of(self.gamma, inputs), self.degree, self.coef0)
        return KernelProblem(data, costs, inputs, kernel, self.cache_size * 1e6)

    def _chain(self) -> LinearChain:
        chain = super()._chain()
        if self._support is None:
            return chain
        return KernelChain(**vars(chain), support=self._support)

    # Saved models

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        values, arrays = super()._state()
        if self._support is None:
            return values, arrays
        kernel, support = self._support.state()
        return values | {"kernel": kernel}, arrays | model_file.as_section(support, "support")

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> StructuredSVM:
        super()._restore(values, arrays)
        model_file.check_counts(self.n_iter_)
        for number in (self.objective_, self.dual_gap_):
            model_file.require(isinstance(number, float), "results")
        support = model_file.Section(arrays, "support")
        self._support = None
        if support or "kernel" in values:
            layout = self._weights.layout
            n_columns = layout.n_attributes * layout.n_offsets
            self._support = Support.from_state(
                values["kernel"], support, n_columns, layout.n_labels
            )
        return self
