"""The log-linear conditional random field."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treecrf.chains.lattice import Lattice
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.objectives import OBJECTIVES, make_objective
from treecrf.chains.transitions import as_transitions
from treecrf.learners.base.callbacks import Callback
from treecrf.learners.base.folds import SEED
from treecrf.learners.base.learner import SequenceLearner
from treecrf.learners.base.predictor import best_codes
from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.base.validation_metrics import (
    NEG_LOG_LOSS,
    SCORINGS,
    resolved_scoring,
    validation_metric,
)
from treecrf.learners.base.warm_start import refuse_lost_objective
from treecrf.learners.linear.base import LinearSequenceClassifier, starting_weights
from treecrf.learners.linear.lbfgs import descend
from treecrf.learners.linear.likelihoods import (
    INFORMATIVE,
    GeneralLikelihood,
    Likelihood,
    Loss,
    StateLikelihood,
    possible_states,
    possible_transitions,
    weight_scales,
)
from treecrf.learners.linear.model import Weights
from treecrf.learners.linear.penalty import (
    AUTO,
    TOLERANCE,
    PenaltyFold,
    best_penalty,
    check_penalty,
    folds_of_sample,
)
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.sgd import StochasticSolver, run_epochs
from treecrf.learners.linear.training_run import TrainingRun, silent_run
from treecrf.utils import model_file
from treecrf.utils.messages import warn
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    Decoding,
    ObjectiveLike,
    RandomState,
    Scoring,
    Transitions,
    Window,
)
from treecrf.utils.validation import Interval, StrOptions, documented_as

# The penalty of a start of trees is the parameter up to this many positions, and grows with the
# square root of their number beyond it.
POSITIONS_OF_PENALTY = 10_000
# It also grows with the numbers in a window beyond this many: many small weights of numbers that
# mean nothing add up to large scores, which trees are slow to correct.
NUMBERS_OF_PENALTY = 16


@documented_as(SequenceLearner)
@dataclass(kw_only=True, eq=False, repr=False)
class LinearCRF(LinearSequenceClassifier):
    """Log-linear conditional random field.

    The score of a label, given the previous label, is a weighted sum of attributes: the values in a
    window of the input. All weights are fitted jointly, to the global optimum of a convex loss.
    This is the model of CRFsuite, CRF++ and MALLET.

    Parameters
    ----------
    window : int or (int, int), default=0
        Number of positions to the left and to the right whose values are attributes. Each value at
        each offset in the window has its own weights, and so does each offset outside the sequence.
        Offsets outside of all training sequences are left out.
    attributes : source of attributes or None, default=None
        Source of attributes that replaces windows of the input, such as a `FlatModel` with its
        conjunctions. ``window`` must then be 0, and ``min_count``, ``missing`` and
        ``categorical_features`` have no effect. If the source provides weights, training starts
        from them.
    transition_features : bool, default=False
        Whether each attribute also has weights for pairs of previous label and label, in addition
        to those for labels.
    all_possible_states : {"auto"} or bool, default="auto"
        Labels for which an attribute has weights:

        - True: all labels.
        - False: the labels that occur with the attribute in the training data, the default of
          CRFsuite. It requires ``solver="lbfgs"``.
        - ``"auto"``: these, and the labels that would be expected with the attribute at least once
          if it did not depend on the label. On text, this adds few weights, and labels are about as
          accurate as with True. With ``solver="sgd"``, it is True.

        The same holds for pairs of labels with ``transition_features``. Numbers that are hardly
        ever 0 have weights for all labels.
    all_possible_transitions : bool, default=True
        Whether all pairs of labels have weights (True), or those that follow each other in the
        training data (False), the default of CRFsuite. False requires ``solver="lbfgs"``.
    start_weights : bool, default=True
        Whether labels have weights at first positions. CRFsuite has none. False requires
        ``solver="lbfgs"``.
    objective : {"log", "exponential", "hamming_log", "hamming_exponential"} or callable, \
            default="log"
        Objective to maximize, where P is the probability of the true labels of a sequence, and q
        that of the true label of a position:

        - ``"log"``: the sum of log P, the only objective with a fast gradient;
        - ``"exponential"``: minus the sum of 1/P, which emphasizes the worst sequences;
        - ``"hamming_log"``: the sum of log q, which counts labels rather than sequences;
        - ``"hamming_exponential"``: minus the sum of 1/q, which emphasizes the worst positions.

        For sums of 1/P and 1/q, the regularization is added to the logarithm of their mean times
        their number. Hamming objectives may converge to a local optimum.

        A function is a loss to minimize: ``losses, gradient = objective(y, proba)`` from the true
        labels, as indices in ``classes_``, and the probability of each label at each position
        (:ref:`custom_objective`).
    l2_regularization : float or "auto", default=1.0
        Coefficient of the sum of squared weights; ``c2`` in CRFsuite. ``"auto"`` chooses a power of
        10 by cross-validation, with the score that ``scoring`` names (:ref:`penalty`). With fewer
        than 50 training positions it is 1, and a warm start keeps that of the model.
    l1_regularization : float, default=0.0
        Coefficient of the sum of absolute weights; ``c1`` in CRFsuite. It sets weights to exactly
        0.
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        ``"lbfgs"`` finds the optimum. ``"sgd"``, stochastic gradient descent, comes close to it in
        a few passes over the training sequences (``max_iter=10`` to 30), which is faster for many
        attributes. It requires ``objective="log"`` and supports neither ``l1_regularization`` nor
        ``transition_features``.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS, or of passes over the training sequences with
        ``solver="sgd"``.
    tol : float, default=1e-5
        Training ends when ten iterations together lower the loss by less than this fraction of it
        (of 1 if the loss is below 1).
    min_count : int, default=1
        Attributes that occur (are non-zero) at fewer training positions are dropped.
    missing : {"indicator", "impute"}, default="indicator"
        How missing values are handled:

        - ``"indicator"`` sets all one-hot attributes of a category to 0, and fills in the mean of
          numbers and booleans. If a column has missing values in the training data, it also has
          an attribute that marks them.
        - ``"impute"`` fills in the mean of numeric features, and the most common value of others.
    standardize : bool, default=True
        Whether to scale numbers so that the penalties do not depend on units. Numbers are shifted
        to a mean of 0 and divided by the power of 2 that brings their standard deviation to between
        1 and 2. Columns of sparse matrices and of dicts are divided, but not shifted. Categories
        and columns of 0 and 1 stay as they are. Weights are those of the scaled numbers.
    early_stopping : bool, default=False
        Whether to stop when the score of the validation sequences has not improved for
        ``n_iter_no_change`` iterations. The model keeps the weights of the best iteration.
    n_iter_no_change : int, default=10
        Number of iterations without improvement before training stops.
    warm_start : bool, default=False
        Whether `fit` starts from the weights of the previous fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. Each sequence has the mean weight of its labels; the reported
        likelihoods are not weighted. Only for ``objective="log"``. Labels that a dict does not name
        have weight 1. A dict may name labels that do not occur in y if it names all those that do.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of validation sequences and, with ``solver="sgd"``, of the order in which
        the sequences are visited.
    verbose : int, default=0
        Whether to show progress (1) or not (0).

    Attributes
    ----------
    n_iter_ : int
        Number of iterations; with ``solver="sgd"``, of passes over the training sequences.
    l2_regularization_ : float
        Coefficient of the sum of squared weights that was used.
    loss_ : float
        Minimized loss: the sum over the training sequences of ``-weight * log P(y | X)``, or the
        negative of another objective, plus ``l2_regularization_`` times the sum of squared weights,
        plus ``l1_regularization`` times the sum of absolute weights. All weights are penalized.
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood per training position, before the first and after each iteration; for
        other objectives, their value divided by the number of positions. With ``solver="sgd"``,
        all entries except the last are means over a pass, with each sequence before its step.
    validation_score_ : float array
        The same for the validation sequences, or their ``scoring``; empty without them.
    state_weights_ : float array of shape ``(n_attributes, n_classes)``
        Weights of the labels for each attribute, in the order of `get_attribute_names`.
    transition_feature_weights_ : float array of shape ``(n_attributes, n_classes, n_classes)``
        Weights of previous label and label with ``transition_features``; otherwise the last two
        axes have length 0.
    transition_weights_ : float array of shape ``(n_classes, n_classes)``
        Weights of previous label (row) and label (column), independent of the attributes.
    start_weights_ : float array of shape ``(n_classes,)``
        Weights of the labels at first positions, which have no previous label.
    state_features_, transition_features_ : mapping
        The weights other than 0 by ``(attribute, label)`` and by ``(previous label, label)``, as in
        sklearn-crfsuite. They are made once, and are read-only.

    See Also
    --------
    TreeCRF : Finds conjunctions of attributes and thresholds of numbers automatically.
    treecrf.load : Read a saved model.

    Notes
    -----
    With the same attributes, ``start_weights=False``, and ``standardize=False`` if there are
    numbers other than 0 and 1, the loss is that of CRFsuite: ``all_possible_transitions`` is its
    option ``feature.possible_transitions``, and ``all_possible_states``, if True or False,
    ``feature.possible_states``. `treecrf.crfsuite` has these settings by default.

    References
    ----------
    .. [1] J. Lafferty, A. McCallum, F. Pereira, "Conditional random fields: probabilistic models
       for segmenting and labeling sequence data", ICML 2001.
    .. [2] D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization",
       Mathematical Programming 45, 1989.
    .. [3] G. Andrew, J. Gao, "Scalable training of L1-regularized log-linear models",
       ICML 2007.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> crf = LinearCRF(window=1, l2_regularization=0.1).fit(X, y)
    >>> "".join(crf.predict(["bacan"])[0])
    'cvcvc'
    >>> max(crf.state_features_, key=crf.state_features_.get)
    ("symbol[0] is 'a'", 'v')
    """

    _needs_all_labels = False
    _results: ClassVar[tuple[str, ...]] = ("n_iter_", "loss_", "train_score_", "validation_score_")

    _parameter_constraints: ClassVar[dict] = {
        **LinearSequenceClassifier._parameter_constraints,
        "all_possible_states": [StrOptions({"auto"}), "boolean"],
        "all_possible_transitions": ["boolean"],
        "start_weights": ["boolean"],
        "objective": [StrOptions(set(OBJECTIVES)), callable],
        "l2_regularization": [StrOptions({AUTO}), Interval(numbers.Real, 0, None, closed="left")],
        "l1_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "solver": [StrOptions({"lbfgs", "sgd"})],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "scoring": [StrOptions(SCORINGS), callable],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
    }

    window: Window = 0
    attributes: Any = None
    transition_features: bool = False
    all_possible_states: Literal["auto"] | bool = "auto"
    all_possible_transitions: bool = True
    start_weights: bool = True
    objective: ObjectiveLike = "log"
    l2_regularization: float | Literal["auto"] = 1.0
    l1_regularization: float = 0.0
    solver: Literal["lbfgs", "sgd"] = "lbfgs"
    max_iter: int = 1000
    tol: float = 1e-5
    min_count: int = 1
    missing: Literal["indicator", "impute"] = "indicator"
    standardize: bool = True
    categorical_features: CategoricalFeatures = "from_dtype"
    decoding: Decoding = "marginal"
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    scoring: Scoring = "loss"
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    _fitted: ClassVar[tuple[str, ...]] = (
        *LinearSequenceClassifier._fitted,
        "_lacks_objective",
        "_penalty",
    )
    # Whether the model was trained with a function, and comes from a file, which has none.
    _lacks_objective = False

    def _trained(
        self,
        prepared: TrainingInput,
        callbacks: tuple[Callback, ...] = (),
        column_order: np.ndarray | None = None,
    ) -> dict:
        learner = self
        if self.l2_regularization == AUTO:
            check_solver(self)
            learner = copy.copy(self)
            learner._penalty = chosen_penalty(self, prepared)
        return LinearSequenceClassifier._trained(learner, prepared, callbacks, column_order)

    def _learn(
        self, data: TrainingData, held_out: TrainingData | None, start: Weights, run: TrainingRun
    ) -> tuple[Weights, dict]:
        check_solver(self)
        validation = None if held_out is None else self._validation_score(held_out)
        penalty = {"_penalty": l2_penalty(self, data)}
        make_model = run.model
        run.model = lambda weights, results: make_model(weights, results | penalty)
        weights, results, has_ended = minimized(self, data, validation, start, run)
        if not has_ended and not self._is_start:
            warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} iterations; "
                "raise max_iter or tol",
                ConvergenceWarning,
            )
        return weights, results | penalty

    @property
    def l2_regularization_(self) -> float:
        """Coefficient of the sum of squared weights that was used."""
        return self._penalty

    def _earlier_fit(self) -> dict:
        if self._lacks_objective:
            refuse_lost_objective(self.objective)
        return super()._earlier_fit()

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        values, arrays = super()._state()
        if self._lacks_objective:
            values["lacks_objective"] = True
        if self._penalty != self.l2_regularization:
            values["l2_regularization"] = self._penalty
        return values, arrays

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> LinearCRF:
        if self.scoring is None:  # files have no functions
            self.scoring = "loss"
        self._lacks_objective = self.objective is None or "lacks_objective" in values
        if self.objective is None:
            self.objective = "log"
        super()._restore(values, arrays)
        self._penalty = values.get("l2_regularization", self.l2_regularization)
        check_penalty(self._penalty)
        model_file.check_counts(self.n_iter_)
        model_file.check_history(self.n_iter_, self.train_score_, self.validation_score_)
        return self

    def _validation_score(self, data: TrainingData) -> Callable[[Weights], float]:
        """Return the score of the validation data as a function of the weights."""
        scoring = resolved_scoring(self.scoring)
        if scoring == "loss":
            return self._likelihood(data).mean
        if scoring == "log_likelihood":
            return self._likelihood(data, "log").mean
        metric = validation_metric(scoring, _chain_labels(data, data.sample_weights), data.classes)
        predict = Lattice.marginals
        if scoring != NEG_LOG_LOSS:
            predict = partial(best_codes, self.decoding, self.cost_matrix, data.classes)
        return lambda weights: metric(predict(data.lattice(weights)))

    def _likelihood(self, data: TrainingData, name: str | None = None) -> Likelihood:
        """Return the objective of training, or another one, in its fastest implementation."""
        name = name or self.objective
        if name == "log" and not self.transition_features:
            return StateLikelihood(data)
        if name != "log" and self.class_weight is not None:
            raise ValueError(
                f"class_weight has no effect with objective={name!r}; it needs objective='log'"
            )
        labels = _chain_labels(data, data.repeated_weights())
        return GeneralLikelihood(data, make_objective(name, labels, data.threads))


def minimized(
    crf: LinearCRF,
    data: TrainingData,
    validation: Callable[[Weights], float] | None,
    start: Weights,
    run: TrainingRun,
) -> tuple[Weights, dict, bool]:
    """Minimize the loss; return the weights, their results, and whether it was the minimum."""
    penalty = l2_penalty(crf, data)
    if crf.solver == "sgd":
        seed = int(run.rng.integers(np.iinfo(np.int64).max))
        solver = StochasticSolver(data, penalty, start, seed)
        return *run_epochs(solver, penalty, crf.tol, validation, run), True
    free = free_weights(crf, data, start)
    scales = weight_scales(data, penalty)[free]
    loss = Loss(crf._likelihood(data), penalty, free, scales)
    return descend(loss, start, crf.l1_regularization, crf.tol, validation, run)


def free_weights(crf: LinearCRF, data: TrainingData, start: Weights) -> np.ndarray | slice:
    """Return the indices of the weights to be fitted; all others are 0."""
    all_states = crf.all_possible_states is True
    if all_states and crf.all_possible_transitions and crf.start_weights:
        return slice(None)
    free = data.layout.weights(start.vector != 0)
    if all_states:
        free.attributes[:] = True
    else:
        min_expected = INFORMATIVE if crf.all_possible_states == "auto" else np.inf
        free.attributes[:] |= possible_states(data, min_expected)
    free.transitions[:-1] |= crf.all_possible_transitions or possible_transitions(data)
    free.transitions[-1] |= crf.start_weights
    return np.flatnonzero(free.vector)


def l2_penalty(crf: LinearCRF, data: TrainingData) -> float:
    """Return the penalty of squared weights, which grows with the data for a start of trees."""
    if crf.l2_regularization == AUTO:
        return crf._penalty
    if not crf._is_start:
        return crf.l2_regularization
    position_factor = max(1.0, len(data.codes) / POSITIONS_OF_PENALTY) ** 0.5
    number_factor = max(1.0, data.table.numbers_in_window / NUMBERS_OF_PENALTY)
    return crf.l2_regularization * (position_factor * number_factor)


def chosen_penalty(crf: LinearCRF, data: TrainingInput) -> float:
    """Return what ``l2_regularization="auto"`` stands for."""
    if data.earlier:
        return data.earlier["_penalty"]
    rules = as_transitions(crf.transitions, data.classes, crf.order)
    with Threads(crf.n_jobs) as threads:
        folds = [penalty_fold(crf, fold, threads) for fold in folds_of_sample(data, rules)]
        return best_penalty(folds)


def penalty_fold(crf: LinearCRF, fold: TrainingInput, threads: Threads) -> PenaltyFold:
    """Return the data of a fold, with weights of 0 or those of the source of attributes."""
    attributes = copy.copy(crf._source()).fit(fold.training.sequences)
    data = crf._training_data(attributes, fold.training, fold.classes, threads)
    held_out = crf._training_data(attributes, fold.held_out, fold.classes, threads)
    return PenaltyFold(
        data=data,
        weights=starting_weights(data, attributes, {}),
        fit=partial(fit_to_fold, crf),
        score=crf._validation_score(held_out),
        n_held_out=len(held_out.codes),
    )


def fit_to_fold(crf: LinearCRF, data: TrainingData, start: Weights, penalty: float) -> Weights:
    """Return the weights of a fold with a penalty, without their last digits."""
    learner = copy.copy(crf)
    learner.l2_regularization = penalty
    learner.tol = max(crf.tol, TOLERANCE)
    run = silent_run(type(crf).__name__, crf.max_iter, SEED)
    weights, _, _ = minimized(learner, data, None, start, run)
    return weights


def check_solver(crf: LinearCRF) -> None:
    """Raise ValueError for settings that only L-BFGS supports."""
    refused = {
        "transition_features": crf.transition_features,
        "all_possible_states": not crf.all_possible_states,
        "all_possible_transitions": not crf.all_possible_transitions,
        "start_weights": not crf.start_weights,
        "objective": crf.objective != "log",
        "l1_regularization": crf.l1_regularization > 0,
    }
    for name, is_set in refused.items():
        if is_set and crf.solver != "lbfgs":
            raise ValueError(
                f"{name}={getattr(crf, name)!r} requires solver='lbfgs'; solver='sgd' does not "
                "support it"
            )


def _chain_labels(data: TrainingData, weights: np.ndarray | None) -> ChainLabels:
    n_labels = len(data.classes)
    return ChainLabels(
        data.offsets, data.codes, n_labels, 1, data.constraints, data.candidates, weights
    )
