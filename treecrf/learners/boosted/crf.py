"""The conditional random field with boosted regression trees as potentials."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from sklearn.base import clone

from treecrf.chains.objectives import CUSTOM, OBJECTIVES
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.label_rules import LabelRules
from treecrf.learners.base.learner import SequenceLearner
from treecrf.learners.base.validation_metrics import NEG_LOG_LOSS, SCORINGS, resolved_scoring
from treecrf.learners.base.warm_start import refuse_lost_objective
from treecrf.learners.boosted.base import MULTI_OUTPUT, BoostedSequenceClassifier
from treecrf.learners.boosted.chains import ForestChain
from treecrf.learners.boosted.engines import crf_kind
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.saved import ALTERNATIVE, crf_chain
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.learners.boosted.starts import FRACTION, TRANSITIONS, WHOLE, is_linear
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.linear.start import restored_start, saved_start
from treecrf.utils import model_file
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    Decoding,
    EarlyStopping,
    InteractionCst,
    Missing,
    MonotonicCst,
    MultiStrategy,
    ObjectiveLike,
    RandomState,
    Scoring,
    Transitions,
    Window,
)
from treecrf.utils.validation import HasMethods, Interval, Needs, StrOptions, documented_as

# Values of ``init`` that are no estimators.
Init = Literal["auto", "zero", "transitions", "linear", "pseudo_likelihood"]
INITS = get_args(Init)

# Number of initial iterations that follow the pseudo-likelihood, as in the 2004 paper.
N_PSEUDO_ITERATIONS = 3


@documented_as(SequenceLearner)
@dataclass(kw_only=True, eq=False, repr=False)
class TreeCRF(BoostedSequenceClassifier):
    """Conditional random field trained by gradient tree boosting.

    The score of a label at a position, given the previous labels, is a sum of regression trees.
    The trees test the input in a window around the position and the previous labels. Each boosting
    iteration computes the differences between the true labels and their probabilities by
    forward-backward, and adds one tree per label that is fitted to these differences.

    Parameters
    ----------
    Model

    order
    window : int, (int, int) or "auto", default="auto"
        Number of positions to the left and to the right whose features the trees can use.
        Offsets outside of all training sequences are left out. With ``early_stopping``, ``"auto"``
        chooses among 0, 1, 2, 5, 10, 20 and 50 on each side by cross-validation, with at most 400
        columns in all, see :ref:`windows`; otherwise, and for rows of attributes, it is 0, and in a
        warm start what the model has.
    transitions
    constant_transitions : "auto" or bool, default="auto"
        Whether the scores of labels after labels are the same at all positions. The trees test the
        input only, and each iteration adds to one matrix of transition scores, which inspection of
        the trees does not cover. With many labels, this saves memory and time: an example is a
        label at a position, without a context. It requires ``objective="log"`` and an ``order``
        of at least 1, and works neither with a beam nor with ``init="pseudo_likelihood"``. With
        ``early_stopping``, ``"auto"`` chooses by cross-validation, where it is possible; otherwise,
        it is False, and in a warm start what the model has. With more than 255 labels, it is True
        up to 100,000,000 labels times positions; most of them occurring only once, as measurements
        do, is an error.

    Objective

    objective : {"log", "exponential", "hamming_log", "hamming_exponential"} or callable, \
            default="log"
        Objective to maximize. If P is the probability of the labels of a sequence, and q of the
        label of a position: the sum of log P (``"log"``), minus the sum of 1/P (``"exponential"``),
        the sum of log q (``"hamming_log"``), or minus the sum of 1/q (``"hamming_exponential"``).
        Exponential objectives emphasize the worst-labeled sequences or positions; Hamming
        objectives count single labels rather than whole sequences. Objectives other than ``"log"``
        use first-order steps and no beam.
        A function is a loss to minimize, see :ref:`custom_objective`: ``losses, gradient =
        objective(y, proba)`` from the codes of the true labels, indices in ``classes_``, and the
        probability of each label at each position.
    second_order : "auto" or bool, default="auto"
        Whether to use Newton boosting: leaf values are divided by the curvature of the likelihood
        instead of the number of examples. Only for ``objective="log"``, where it is the meaning of
        ``"auto"``.
    curvature : {"auto", "bound", "diagonal"}, default="auto"
        Curvature of Newton steps. ``"diagonal"`` is 2 p (1 - p) with the probability p of the label
        and its context; it takes the least time, but its steps can be too long where labels far
        apart depend on each other. ``"bound"`` is an upper bound for which steps of length 1 are
        safe. ``"auto"`` is the diagonal, but at least ``learning_rate`` times the bound, so that
        steps are safe as well. With an order above 1, successive contexts share labels: the bound
        is larger, steps are shorter, and ``"diagonal"`` often gets about as far in a third of the
        time. With constant transitions and such an order, its steps would be too long, and it means
        ``"auto"``. Steps that lower the log-likelihood of the training sequences all the same are
        halved, see :ref:`halved_steps`. Only for ``second_order``.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. In tree fitting, each position has the weight of its true label; the
        reported objective is unweighted. Labels missing from a dict have weight 1; a dict may name
        labels that do not occur in y, as long as it also names all that do.

    Trees

    max_iter : int or "auto", default="auto"
        Number of boosting iterations, each with one tree per label; with early stopping, the
        maximum. ``"auto"`` is up to 500 iterations with early stopping, and a warning if that is
        too few; 100 iterations without.
    learning_rate : float, default=0.3
        Factor by which the leaf values of each tree are multiplied.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        Whether each label has trees of its own, or an iteration adds one tree for all labels, whose
        leaves have a value for each (``"multi_output_tree"``, as in XGBoost). With many labels, it
        takes much less time, in training and in prediction. Its tests read the input only, so it
        requires constant transitions, which ``constant_transitions="auto"`` then stands for, or
        ``order=0``. It supports neither ``missing="surrogate"`` nor monotonic constraints nor a
        number as ``sampling``. With ``early_stopping``, ``"auto"`` chooses by cross-validation,
        from 24 labels on and below a million examples; otherwise, each label has trees of its own,
        and in a warm start it is what the model has.
    max_leaf_nodes : int or "auto", default="auto"
        Maximum number of leaves per tree. Trees grow best-first. With ``early_stopping``, symbols
        or categories, at least 8,192 training positions, and at most 32,768 values at the offsets
        of the window, ``"auto"`` chooses 64 or 1024 by cross-validation; a quarter of
        ``l2_regularization`` counts in trees of 1024 leaves, whose leaves have little weight.
        Otherwise, it is 64, and in a warm start what the model has.
    max_depth : int or None, default=None
        Maximum number of tests from the root of a tree to a leaf, including tests of previous
        labels. None is no limit.

    Features

    categorical_features
    missing : {"weighting", "weighting-only", "surrogate", "impute", "indicator"}, \
            default="weighting"
        How missing values are handled. ``"weighting"`` sends the position to both children of a
        test, with part of its weight to each. ``"surrogate"`` uses the test that agrees best with
        it. With both, trees may also test whether a value is missing; with ``"weighting-only"``,
        they do not. ``"impute"`` fills in the mean of numeric features and the most common value of
        all others. ``"indicator"`` sets the value to 0 and adds a boolean feature that marks it as
        missing.
    max_bins : "auto" or int, default="auto"
        Maximum number of quantile bins per numeric feature, at most 255. There are fewer bins, but
        at least 16, if they would hold fewer than 16 training positions on average. ``"auto"``
        takes a quarter of the number of training positions per leaf, at least 128 and at most 255:
        finer thresholds take time and hardly improve trees. Values that recur at least four times
        on average have a bin each, up to ``max_bins`` or 255.
    monotonic_cst : array-like of int of shape (n_features,), dict or None, default=None
        Monotonic constraints: 1 for features whose higher values may only raise the score of the
        second of two labels in ``classes_``, -1 for features whose higher values may only lower it,
        and 0 for all others. They hold at each offset of the window. A dict has the signs of some
        features, by name or index; with more than two labels, each is a dict of signs by label.
        Only for numbers and booleans. Positions that lack the value are not ordered.
    interaction_cst : {"pairwise", "no_interactions"}, list of lists or None, default=None
        Sets of features, by name or index, that may interact: a branch of a tree tests features of
        one set only, at any offsets. Features in no set form another set. ``"pairwise"`` stands for
        all pairs, ``"no_interactions"`` for single features. Previous labels may always be tested.

    Regularization

    l2_regularization : float, default=20.0
        Shrinkage of the leaf values, as a number of imaginary examples with target 0 in each leaf.
        With ``second_order``, it is added to the sum of their curvature. A quarter of it counts in
        trees for all labels (``multi_strategy``), because a label has little weight in many leaves.
    min_gain : float, default=0.0
        Minimum reduction of the squared error by a split.
    min_samples_leaf : int, default=1
        Minimum number of examples, pairs of a position and its previous labels, in each child.
    max_features : float, default=1.0
        Fraction of the windowed features considered at each node, chosen at random. Previous labels
        are always considered.
    max_features_per_tree : float, default=1.0
        Fraction of the windowed features that each tree may test, chosen at random. With many
        features, a small fraction saves time.
    subsample : float, default=1.0
        Fraction of the training sequences used in each iteration, chosen at random.

    Samples of examples

    sampling : "auto", float or None, default="auto"
        Which examples each tree is fitted to. With a float, examples with an absolute residual of
        at least this value are always used. The others are used with a probability proportional to
        their residual, and weighted by the inverse, so that all sums are unbiased. None uses all
        examples. ``"auto"`` is 0.1 for at least a million examples, or at least 80 per position
        (10 with ``constant_transitions``), and otherwise None.
    max_examples : "auto", int or None, default="auto"
        Maximum number of examples per iteration, on average, if they are sampled. The threshold of
        ``sampling`` is raised accordingly. ``"auto"`` is 300,000 up to a million training
        positions, and grows with their cube root from there on. None is no limit.

    Start

    init : {"auto", "zero", "transitions", "linear", "pseudo_likelihood"} or LinearCRF, \
            default="auto"
        What training starts from. ``"linear"`` fits a `LinearCRF` to the values in the window and
        adds the trees to 0.4 times its scores. Its penalty is 1; from 10,000 training positions on
        it grows with their square root, and from 16 numbers in a window on with their number. From
        100,000 positions on, or from 100 for each column and category on if these are more (up to
        1,000,000), it is fitted to a sample of the sequences. ``"transitions"`` fits such a model
        without attributes, so that its scores depend on the previous label only, and adds the trees
        to half of them. An estimator replaces it, with its own window and all of its scores, fitted
        to up to 1,000,000 positions; if it is fitted, it is used as it is. None of these works with
        a beam or ``order=0``, and all cut numbers to their range in the training data of the linear
        model.
        ``"pseudo_likelihood"`` starts from scores of 0 and follows the gradient of the
        pseudo-likelihood in the first three iterations, whatever the objective. With
        ``early_stopping``, ``"auto"`` chooses among ``"linear"``, all scores of the linear model,
        ``"transitions"`` and ``"zero"``, by cross-validation, with ``objective="log"`` and without
        ``monotonic_cst``; otherwise, and where none of them works, it is ``"zero"``.
    warm_start : bool, default=False
        Whether `fit` adds iterations to the previously fitted model, up to ``max_iter`` in total.

    Beam

    beam_width : int or None, default=None
        Number of contexts (tuples of the previous ``order`` labels) that inference keeps at each
        position, in training and in prediction. Set it for many labels or high orders. None keeps
        all contexts.
    beam : {"two-pass", "forward-only"}, default="two-pass"
        Training with a beam uses probabilities given the whole sequence (``"two-pass"``) or given
        only the positions up to each (``"forward-only"``).

    Decoding

    decoding
    cost_matrix

    Stopping

    early_stopping : "auto" or bool, default="auto"
        Whether to stop when the score of the validation sequences has not improved by ``tol`` for
        ``n_iter_no_change`` iterations. The model keeps the iterations up to the best. With
        ``"auto"`` and without validation data, cross-validation chooses the number of iterations,
        and then all sequences are used for training; :ref:`folds` says what it holds out. Above
        100,000 positions, this is done on a sample of the sequences. Without cross-validation,
        with fewer than 50 training positions and in a warm start, all iterations are run.
    validation_fraction
    n_iter_no_change : int, default=10
        Number of iterations without improvement before training stops; half as many in
        cross-validation.
    tol : float, default=1e-4
        Minimum increase of the score that counts as an improvement, in the units of
        ``validation_score_``.
    scoring : str or callable, default="auto"
        Score of the validation sequences in ``validation_score_``, by which early stopping chooses
        the number of iterations, and cross-validation also the model. ``"auto"``, of `TreeCRF`
        only, agrees with `predict`: it is the mean logarithm of the marginal probability of the
        true label (``"neg_log_loss"``), but with ``decoding="viterbi"`` the objective of training
        (``"loss"``), as with other objectives than ``"log"``, and with a beam.
        Others are the mean log-likelihood per position (``"log_likelihood"``), ``"accuracy"``,
        another name in `treecrf.metrics.SCORERS`, a scorer of that module, or a function of the
        lists of true and predicted label sequences. Higher is better. Labels are predicted as by
        `predict`.
    calibration : {"auto"} or None, default=None
        Whether all scores are divided by a temperature, at least 1, so that the probabilities of
        new sequences can be trusted: models tend to be too sure. With ``early_stopping="auto"`` and
        without validation data, cross-validation compares models at their best temperatures, if
        marginal probabilities are scored (``scoring``), folds hold out whole sequences, and there
        are no ``init_score``. With few held-out sequences, temperatures are close to 1. None leaves
        the scores as they are: on held-out data, with folds of whole sequences, temperatures hardly
        changed the mean log loss.

    Running

    n_jobs
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices: validation sequences, subsamples, features.
    verbose : int, default=0
        Whether to show progress (1) or not (0), and at the end the start that was chosen and the
        number of iterations.

    Attributes
    ----------
    n_iter_ : int
        Number of boosting iterations of the model.
    init_ : LinearCRF or None
        The linear model whose scores the trees are added to, with ``init="linear"``,
        ``"transitions"`` or an estimator. Its weights are rounded to multiples of 2**-20. With
        ``init="linear"``, the penalty of its weights was larger than its ``l2_regularization`` if
        there were more than 10,000 positions, or more than 16 numbers in a window. Functions that
        inspect trees do not cover it.
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Objective on the training data per position, before the first and after each iteration: the
        mean of log P divided by the mean length; minus the logarithm of the mean of 1/P, divided by
        the mean length; the mean of log q; or minus the logarithm of the mean of 1/q.
    validation_score_ : float array
        The ``scoring`` of the validation sequences; empty without them, and if the number of
        iterations was chosen on a sample. With ``calibration``, each is the score at the best
        temperature T of its iteration, less log(T)**2 / (2 n) with the number n of held-out
        sequences or groups. With a beam, which overestimates the likelihood of sequences, the
        objective is the mean of log q over the validation positions.
    temperature_ : float
        Number that all scores of the model were divided by after training (``calibration``), a
        multiple of 2**-10; 1 if none was chosen. ``train_score_`` is of the scores before. A warm
        start continues from the divided scores.
    constant_transitions_ : bool
        Whether the scores of labels after labels are the same at all positions.
    multi_strategy_ : {"one_output_per_tree", "multi_output_tree"}
        Whether each label has trees of its own, or an iteration has one tree for all labels.
    max_leaf_nodes_ : int
        Maximum number of leaves per tree.
    window_ : (int, int)
        Number of positions to the left and to the right whose features the trees can use.
    evals_result_ : dict
        Scores of the sets in ``eval_set``: for each set, ``"valid_0"`` and so on, a dict of float
        arrays of shape ``(n_iter_ + 1,)``, the ``"objective"`` and the metric of ``scoring``.
    feature_importances_ : float array of shape ``(n_features_in_,)``
        Fraction of the total gain of all splits that is due to each feature, over all offsets; 0
        for all if there are no trees (``n_iter_`` is 0): see the weights of ``init_`` instead.

    See Also
    --------
    LinearCRF : Conditional random field with linear scores.
    TreeMEMM : Trains faster, with probabilities normalized at each position.
    treecrf.load : Load a saved model.

    References
    ----------
    .. [1] T. G. Dietterich, A. Ashenfelter, Y. Bulatov, "Training conditional random fields via
       gradient tree boosting", ICML 2004.
    .. [2] T. G. Dietterich, G. Hao, A. Ashenfelter, "Gradient tree boosting for training
       conditional random fields", JMLR 9, 2008.
    .. [3] Y. Altun, T. Hofmann, M. Johnson, "Discriminative learning for label sequences via
       boosting", NIPS 2002. The exponential and the Hamming objectives.
    .. [4] S. Kakade, Y. W. Teh, S. Roweis, "An alternate objective function for Markovian fields",
       ICML 2002. The Hamming objective and its gradient.
    .. [5] T. Chen, S. Singh, B. Taskar, C. Guestrin, "Efficient second-order gradient boosting
       for conditional random fields", AISTATS 2015.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> crf = TreeCRF(window=1, max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(crf.predict(["bacan"])[0])
    'cvcvc'
    """

    _fitted: ClassVar[tuple[str, ...]] = (*BoostedSequenceClassifier._fitted, "_trained_objective")
    _alternative: ClassVar[str] = ALTERNATIVE
    _parameter_constraints: ClassVar[dict] = {
        **BoostedSequenceClassifier._parameter_constraints,
        "objective": [StrOptions(set(OBJECTIVES)), callable],
        "second_order": [StrOptions({"auto"}), "boolean"],
        "curvature": [StrOptions({"auto", "bound", "diagonal"})],
        "init": [StrOptions(set(INITS)), HasMethods(["fit"])],
        "beam_width": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "beam": [StrOptions({"two-pass", "forward-only"})],
        "constant_transitions": [StrOptions({"auto"}), "boolean"],
        "scoring": [StrOptions({"auto", *SCORINGS}), callable],
        "calibration": [StrOptions({"auto"}), None],
    }

    _needed: ClassVar[dict[str, Needs]] = BoostedSequenceClassifier._needed | {
        "curvature": Needs("second_order", ("auto", True)),
        "beam": Needs("beam_width", unless=(None,)),
    }

    order: int = 1
    window: Literal["auto"] | Window = "auto"
    max_iter: Literal["auto"] | int = "auto"
    max_leaf_nodes: Literal["auto"] | int = "auto"
    max_depth: int | None = None
    multi_strategy: MultiStrategy = "auto"
    l2_regularization: float = 20.0
    learning_rate: float = 0.3
    objective: ObjectiveLike = "log"
    second_order: Literal["auto"] | bool = "auto"
    curvature: Literal["auto", "bound", "diagonal"] = "auto"
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    sampling: Literal["auto"] | float | None = "auto"
    max_examples: Literal["auto"] | int | None = "auto"
    max_bins: Literal["auto"] | int = "auto"
    missing: Missing = "weighting"
    categorical_features: CategoricalFeatures = "from_dtype"
    monotonic_cst: MonotonicCst = None
    interaction_cst: InteractionCst = None
    init: Init | SequenceClassifier = "auto"
    beam_width: int | None = None
    beam: Literal["two-pass", "forward-only"] = "two-pass"
    decoding: Decoding = "marginal"
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    constant_transitions: Literal["auto"] | bool = "auto"
    early_stopping: EarlyStopping = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    scoring: Scoring = "auto"
    calibration: Literal["auto"] | None = None
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    def _fixed_settings(self) -> dict[str, Any]:
        # Functions cannot be compared, and files have none.
        is_custom = self._trained_objective == CUSTOM and callable(self.objective)
        fixed = super()._fixed_settings() | {
            "objective": self.objective if is_custom else self._trained_objective
        }
        if self.constant_transitions != "auto":
            fixed["constant_transitions"] = self.constant_transitions_
        return fixed

    # Settings

    def _resolved_scoring(self) -> Any:
        if self.scoring != "auto":
            return super()._resolved_scoring()
        # In a beam, the objective is a mean over labels anyway.
        is_log = self.objective == "log" and self.beam_width is None
        is_of_labels = is_log and self.decoding != "viterbi"
        return NEG_LOG_LOSS if is_of_labels else "loss"

    def _kind(self) -> ChainKind:
        is_constant = self.constant_transitions
        if is_constant == "auto":
            is_earlier = self.warm_start and getattr(self, "constant_transitions_", False)
            is_constant = is_earlier or needs_constant_transitions(self)
        return kind_of(self, is_constant)

    def _spec(self) -> BoostingSpec:
        check_combinations(self)
        starts = [self.init if is_linear(self.init) else None]
        is_log = self.objective == "log" and self.order > 0 and self.beam_width is None
        if self.init == "linear":
            starts = [FRACTION]
        elif self.init == "auto" and is_log and self.monotonic_cst is None:
            # Without data to compare them on, none is used.
            starts = [FRACTION, WHOLE, TRANSITIONS, None]
        spec = replace(super()._spec(), starts=starts)
        is_open = self.constant_transitions == "auto" and not needs_constant_transitions(self)
        if is_open and why_no_constant_transitions(self) is None:
            # Starts are compared by the first kind, which takes less time and memory.
            spec = replace(spec, kinds=(kind_of(self, constant_transitions=True), spec.kind))
        return spec

    @property
    def _start(self) -> LinearCRF | None:
        return self.init_

    def _earlier_fit(self) -> dict:
        if self._trained_objective == CUSTOM:
            refuse_lost_objective(self.objective)
        earlier = super()._earlier_fit()
        if earlier and self.init != "auto" and is_linear(self.init) != (self.init_ is not None):
            raise ValueError(
                f"warm start: the model was trained {'without' if self.init_ is None else 'with'} "
                f"a linear start, which init={self.init!r} cannot change"
            )
        return earlier

    def _label_rules(self) -> LabelRules:
        needs = "needs all labels in training; expected"
        error = None
        if self.beam_width is not None:
            error = f"beam_width={self.beam_width!r} {needs} None"
        elif self.init == "pseudo_likelihood":
            error = f"init='pseudo_likelihood' {needs} 'zero', 'linear' or a LinearCRF"
        return replace(super()._label_rules(), unknown_error=error)

    @property
    def _init_score_error(self) -> str | None:
        if self.beam_width is None:
            return None
        return f"init_score needs all contexts; expected beam_width=None, not {self.beam_width}"

    # Predictions

    def _chain(self) -> ForestChain:
        return crf_chain(
            beam_width=self.beam_width,
            forward_only=self.beam == "forward-only",
            **self._forest_settings(),
        )

    # Fitted attributes and files

    def _model_attributes(self, trained: Trained) -> dict:
        objective = CUSTOM if callable(self.objective) else self.objective
        settings = {
            "init_": trained.start,
            "constant_transitions_": trained.forest.transitions is not None,
            "temperature_": trained.temperature,
            "_trained_objective": objective,
        }
        return super()._model_attributes(trained) | settings

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        values, arrays = super()._state()
        values["objective"] = self._trained_objective
        values["temperature"] = self.temperature_
        if self.init_ is not None:
            values["init"], start_arrays = saved_start(self.init_)
            arrays |= model_file.as_section(start_arrays, "init")
        return values, arrays

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> TreeCRF:
        if self.objective is None:  # files have no functions
            self.objective = "log"
        self._trained_objective = values["objective"]
        if self._trained_objective not in (*OBJECTIVES, CUSTOM):
            raise ValueError(f"unknown objective {self._trained_objective!r}")
        self.temperature_ = values.get("temperature", 1.0)  # not in earlier files
        model_file.require(0 < self.temperature_ < np.inf, "temperature")
        self.init_ = None
        start_arrays = model_file.Section(arrays, "init")
        model_file.require(("init" in values) == bool(start_arrays), "start")
        if start_arrays:
            self.init_ = restored_start(values["init"], start_arrays, arrays["classes"])
            if self.init is None:  # files have no estimators among the parameters
                self.init = clone(self.init_)
        super()._restore(values, arrays)
        self.constant_transitions_ = self._forest.transitions is not None
        return self


def kind_of(crf: TreeCRF, constant_transitions: bool) -> ChainKind:
    """Return what training does with the sequences, with or without constant transitions."""
    is_newton = crf.objective == "log" and bool(crf.second_order)
    return crf_kind(
        objective=crf.objective,
        reports_likelihood=resolved_scoring(crf.scoring) == "log_likelihood",
        constant_transitions=constant_transitions,
        beam_width=crf.beam_width,
        forward_only=crf.beam == "forward-only",
        alternative=crf._alternative,
        n_pseudo=N_PSEUDO_ITERATIONS if crf.init == "pseudo_likelihood" else 0,
        order=crf.order,
        transitions=crf.transitions,
        has_curvature=is_newton,
        bound_share=bound_share_of(crf, constant_transitions) if is_newton else None,
    )


def bound_share_of(crf: TreeCRF, constant_transitions: bool) -> float:
    """Return the minimum fraction of the bound in the curvature; 0 for the diagonal alone.

    A constant transition counts at every position, and with an order above 1, successive ones share
    labels. By the diagonal alone, steps then overshoot until training diverges.
    """
    if crf.curvature == "bound":
        return 1.0
    diverges = constant_transitions and crf.order > 1
    if crf.curvature == "diagonal" and not diverges:
        return 0.0
    return min(crf.learning_rate, 1.0)


def check_combinations(crf: TreeCRF) -> None:
    """Raise an error that names both settings if two cannot be combined."""
    _check_objective(crf)
    _check_init(crf)
    _check_constant_transitions(crf)


def _check_objective(crf: TreeCRF) -> None:
    is_newton = crf.second_order not in ("auto", False)
    if is_newton and crf.objective != "log":
        raise ValueError(
            f"second_order=True requires objective='log'; {crf.objective!r} has no curvature "
            "for Newton steps"
        )
    if crf.beam_width is not None and crf.objective != "log":
        raise ValueError(
            f"objective={crf.objective!r} needs all contexts; a beam requires objective='log'"
        )


def _check_init(crf: TreeCRF) -> None:
    init = crf.init
    if not isinstance(init, str) and not is_linear(init):
        raise TypeError(
            f"init is of type {type(init).__name__}; expected 'auto', 'zero', "
            "'transitions', 'linear', 'pseudo_likelihood' or a LinearCRF"
        )
    if is_linear(init) and crf.order == 0:
        raise ValueError(
            f"init={init!r} requires order=1 or higher; the linear model has weights for the "
            "previous label"
        )
    if crf.beam_width is not None and init not in ("auto", "zero"):
        raise ValueError(f"init={init!r} needs all contexts; a beam requires init='zero'")
    is_warm = crf.warm_start and getattr(crf, "init_", None) is not None
    if crf.monotonic_cst is not None and (is_warm or is_linear(init)):
        raise ValueError(
            "monotonic_cst with a linear start, which is not constrained; expected init='zero' "
            "or 'pseudo_likelihood'"
        )


def _check_constant_transitions(crf: TreeCRF) -> None:
    is_required = crf.constant_transitions not in ("auto", False)
    reason = why_no_constant_transitions(crf)
    if reason is not None and (is_required or needs_constant_transitions(crf)):
        raise ValueError(reason)


def needs_constant_transitions(crf: TreeCRF) -> bool:
    """Return whether trees for all labels are required, which do not test previous labels."""
    return crf.order > 0 and crf.multi_strategy == MULTI_OUTPUT


def why_no_constant_transitions(crf: TreeCRF) -> str | None:
    """Return why transitions cannot be constant, for an error message; None if they can."""
    for name, is_supported, expected in (
        ("order", crf.order > 0, "1 or higher"),
        ("objective", crf.objective == "log", "'log'"),
        ("init", crf.init != "pseudo_likelihood", "'zero', 'linear' or a LinearCRF"),
        ("beam_width", crf.beam_width is None, "None"),
    ):
        if not is_supported:
            return (
                f"{name}={getattr(crf, name)!r} with constant_transitions=True; expected {expected}"
            )
    return None
