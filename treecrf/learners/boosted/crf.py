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
    The trees test the input in a window around the position, and the previous labels. Each boosting
    iteration computes the probabilities of the labels by forward-backward, and fits one tree per
    label to the differences between the true labels and these probabilities.

    Where a parameter is ``"auto"``, `fit` chooses its value, most often by cross-validation. This
    requires ``early_stopping`` (the default); a warm start keeps the value of the model.

    Parameters
    ----------
    Model

    order
    window : int, (int, int) or "auto", default="auto"
        Number of positions to the left and to the right whose features the trees can test. Offsets
        outside of all training sequences are left out. ``"auto"`` compares 0, 1, 2, 5, 10, 20, and
        50 on each side by cross-validation, with at most 400 columns in all (:ref:`windows`). It is
        0 for rows of attributes, and without ``early_stopping``.
    transitions
    constant_transitions : "auto" or bool, default="auto"
        Whether the scores of labels after labels are the same at all positions. If so, the trees
        test the input only, and each iteration also updates a matrix of transition scores. With
        many labels, this saves memory and time, because an example is a label at a position,
        without its context. Functions that inspect trees do not cover the matrix.

        Constant transitions require ``objective="log"`` and an ``order`` of at least 1. They work
        neither with a beam nor with ``init="pseudo_likelihood"``.

        ``"auto"`` chooses by cross-validation where they are possible; without ``early_stopping``,
        it is False. With more than 255 labels, it is True up to 100,000,000 labels times positions;
        if most of so many labels occur only once, as measurements do, `fit` raises an error.

    Objective

    objective : {"log", "exponential", "hamming_log", "hamming_exponential"} or callable, \
            default="log"
        Objective to maximize, where P is the probability of the true labels of a sequence, and q
        that of the true label of a position:

        - ``"log"``: the sum of log P;
        - ``"exponential"``: minus the sum of 1/P, which emphasizes the worst sequences;
        - ``"hamming_log"``: the sum of log q, which counts labels rather than sequences;
        - ``"hamming_exponential"``: minus the sum of 1/q, which emphasizes the worst positions.

        A function is a loss to minimize: ``losses, gradient = objective(y, proba)`` from the true
        labels, as indices in ``classes_``, and the probability of each label at each position
        (:ref:`custom_objective`). All but ``"log"`` use first-order steps and no beam.
    second_order : "auto" or bool, default="auto"
        Whether to use Newton boosting, which divides leaf values by the curvature of the likelihood
        instead of the number of examples. It requires ``objective="log"``; ``"auto"`` is True
        for this objective.
    curvature : {"auto", "bound", "diagonal"}, default="auto"
        Curvature of Newton steps. Only for ``second_order``.

        - ``"diagonal"`` is 2 p (1 - p), with the probability p of the label and its context. It
          takes the least time, but its steps can be too long if labels far apart depend on each
          other.
        - ``"bound"`` is an upper bound, with which steps of length 1 are safe.
        - ``"auto"`` is the diagonal, but at least ``learning_rate`` times the bound, with which
          steps are safe as well.

        With an order above 1, the bound is larger because successive contexts share labels. Steps
        are shorter, and ``"diagonal"`` often gets about as far in a third of the time. With
        constant transitions and such an order, its steps would be too long, so it is the same as
        ``"auto"``. Steps that lower the log-likelihood of the training sequences are halved
        (:ref:`halved_steps`).
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. When trees are fitted, each position has the weight of its true
        label; the reported objective is not weighted. Labels that a dict does not name have
        weight 1. A dict may name labels that do not occur in y if it names all those that do.

    Trees

    max_iter : int or "auto", default="auto"
        Number of boosting iterations, each with one tree per label. With early stopping, it is the
        maximum. ``"auto"`` is 500 with early stopping, with a warning if this is too few, and 100
        without.
    learning_rate : float, default=0.3
        Factor by which the leaf values of each tree are multiplied.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        Whether each label has its own trees, or one tree per iteration has a value for each label
        in its leaves, as in XGBoost. With many labels, ``"multi_output_tree"`` makes training
        and prediction much faster.

        These trees test the input only. They require constant transitions, so
        ``constant_transitions="auto"`` means True, or ``order=0``. They support neither
        ``missing="surrogate"`` nor monotonic constraints nor a number as ``sampling``.

        ``"auto"`` chooses by cross-validation if there are at least 24 labels and fewer than a
        million examples. Otherwise, and without ``early_stopping``, each label has its own trees.
    max_leaf_nodes : int or "auto", default="auto"
        Maximum number of leaves per tree. Trees grow best-first. ``"auto"`` is 64, unless the
        features are symbols or categories with at most 32,768 values at the offsets of the window,
        and there are at least 8,192 training positions: then it is 64 or 1024, by cross-validation,
        where 1024 has to be better by more than two standard errors over held-out sequences. Trees
        of 1024 leaves use a quarter of ``l2_regularization``, because each leaf has few examples.
    max_depth : int or None, default=None
        Maximum number of tests from the root of a tree to a leaf, including tests of previous
        labels. None is no limit.

    Features

    categorical_features
    missing : {"weighting", "weighting-only", "surrogate", "impute", "indicator"}, \
            default="weighting"
        How missing values are handled:

        - ``"weighting"`` sends a position to both children of a test, with part of its weight
          to each. Trees may also test whether a value is missing.
        - ``"weighting-only"`` does the same without tests of whether a value is missing.
        - ``"surrogate"`` uses the test that agrees best with the test that cannot be made. Trees
          may also test whether a value is missing.
        - ``"impute"`` fills in the mean of a numeric feature, and the most common value of others.
        - ``"indicator"`` fills in 0 and adds a boolean feature that marks the value as missing.
    max_bins : "auto" or int, default="auto"
        Maximum number of quantile bins per numeric feature, at most 255. ``"auto"`` is a quarter of
        the number of training positions per leaf, between 128 and 255; finer thresholds take time
        and hardly improve trees. Bins hold at least 16 training positions on average, unless there
        are only 16 bins. Values that occur at least four times on average have a bin each, up to
        ``max_bins`` or 255.
    monotonic_cst : array-like of int of shape (n_features,), dict or None, default=None
        Monotonic constraints on numbers and booleans, at each offset of the window: 1 if higher
        values may only raise the score of the second of the two labels in ``classes_``, -1 if they
        may only lower it, and 0 for no constraint. A dict has the signs of some features, by name
        or index; with more than two labels, each of its values is a dict of signs by label.
        Positions where the value is missing are not constrained.
    interaction_cst : {"pairwise", "no_interactions"}, list of lists or None, default=None
        Sets of features, by name or index, that may interact: each branch of a tree tests features
        of one set only, at any offsets. The features in no set form another set. ``"pairwise"``
        allows all pairs of features, and ``"no_interactions"`` single features. All branches may
        test previous labels.

    Regularization

    l2_regularization : float, default=20.0
        Shrinkage of the leaf values: each leaf counts this number of additional examples with
        target 0. With ``second_order``, it is added to the sum of the curvatures in the leaf. Trees
        for all labels (``multi_strategy``) use a quarter of it, because a label has little weight
        in many of their leaves.
    min_gain : float, default=0.0
        Minimum reduction of the squared error by a split.
    min_samples_leaf : int, default=1
        Minimum number of examples in each child. An example is a position with its previous labels.
    max_features : float, default=1.0
        Fraction of the features in the window that are considered at each node, chosen at random.
        Previous labels are always considered.
    max_features_per_tree : float, default=1.0
        Fraction of the features in the window that each tree may test, chosen at random. With many
        features, a small fraction saves time.
    subsample : float, default=1.0
        Fraction of the training sequences used in each iteration, chosen at random.

    Samples of examples

    sampling : "auto", float or None, default="auto"
        Which examples each tree is fitted to. With a float, examples whose absolute residual is at
        least this value are always used. The others are used with a probability proportional to
        their residual, and weighted by its inverse, which makes all sums unbiased. None uses all
        examples. ``"auto"`` is 0.1 for at least a million examples, or at least 80 per position
        (10 with ``constant_transitions``), and otherwise None.
    max_examples : "auto", int or None, default="auto"
        Maximum number of sampled examples per iteration, on average. The threshold of ``sampling``
        is raised accordingly. ``"auto"`` is 300,000 up to a million training positions, and grows
        with the cube root of their number above. None is no limit.

    Start

    init : {"auto", "zero", "transitions", "linear", "pseudo_likelihood"} or LinearCRF, \
            default="auto"
        Scores that training starts from:

        - ``"zero"``: all scores are 0.
        - ``"linear"``: 0.4 times the scores of a `LinearCRF` that is fitted to the values in the
          window. Its penalty is 1 up to 10,000 training positions and grows with the square root of
          their number above; it also grows with the number of numeric columns in the window, from
          16 on. Above 100,000 positions, or 100 for each column and category if these are more (up
          to 1,000,000), it is fitted to a sample of the sequences.
        - ``"transitions"``: half of the scores of a linear model without attributes, which depend
          on the previous label only.
        - A `LinearCRF`: all of its scores, with its own window. It is fitted to at most 1,000,000
          positions, unless it is fitted already.
        - ``"pseudo_likelihood"``: all scores are 0, and the first three iterations follow the
          gradient of the pseudo-likelihood, for any objective.

        ``"auto"`` compares ``"linear"``, all scores of the same linear model, ``"transitions"``,
        and ``"zero"`` by cross-validation, with ``objective="log"`` and without ``monotonic_cst``.
        Otherwise, and without ``early_stopping``, it is ``"zero"``. Linear models work neither with
        a beam nor with ``order=0``, and cut numbers to their range in the training data.
    warm_start : bool, default=False
        Whether `fit` adds iterations to the previously fitted model, up to ``max_iter`` in total.

    Beam

    beam_width : int or None, default=None
        Number of contexts (tuples of the previous ``order`` labels) that inference keeps at each
        position, in training and in prediction. Set it for many labels or high orders. None keeps
        all contexts.
    beam : {"two-pass", "forward-only"}, default="two-pass"
        Whether training with a beam uses probabilities given the whole sequence (``"two-pass"``),
        or given the positions up to the present one (``"forward-only"``).

    Decoding

    decoding
    cost_matrix

    Stopping

    early_stopping : "auto" or bool, default="auto"
        Whether to stop when the score of the validation sequences has not improved by ``tol`` for
        ``n_iter_no_change`` iterations. The model keeps the iterations up to the best one. With
        ``"auto"`` and without validation data, cross-validation chooses the number of iterations,
        and the model is then trained on all sequences (:ref:`folds`). Above 100,000 positions,
        cross-validation uses a sample of the sequences. With fewer than 50 training positions and
        in a warm start, there is no cross-validation, and all iterations are run.
    validation_fraction
    n_iter_no_change : int, default=10
        Number of iterations without improvement before training stops; half as many in
        cross-validation.
    tol : float, default=1e-4
        Minimum increase of the score that counts as an improvement, in the units of
        ``validation_score_``.
    scoring : str or callable, default="auto"
        Score of the validation sequences (``validation_score_``), by which early stopping chooses
        the number of iterations, and cross-validation also the model. Higher is better.

        - ``"auto"`` agrees with `predict`. It is ``"neg_log_loss"`` for marginal decoding. It is
          ``"loss"`` with ``decoding="viterbi"``, with a beam, and for all objectives but ``"log"``.
        - ``"neg_log_loss"``: the mean logarithm of the marginal probability of the true label.
        - ``"loss"``: the objective of training.
        - ``"log_likelihood"``: the log-likelihood of the sequences, per position.
        - ``"accuracy"``, or another name in `treecrf.metrics.SCORERS`.
        - A scorer of `treecrf.metrics`, or a function of the lists of true and predicted label
          sequences. Labels are predicted as by `predict`.
    calibration : {"auto"} or None, default=None
        ``"auto"`` divides all scores by a temperature of at least 1, because models tend to be too
        sure of the labels of new sequences. Cross-validation then compares models at their
        best temperatures. It requires ``early_stopping="auto"`` without validation data, a
        ``scoring`` of marginal probabilities, folds of whole sequences, and no ``init_score``. With
        few held-out sequences, the temperature is close to 1. None leaves the scores as they are
        (:ref:`temperature`).

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
        ``init="linear"``, its penalty can be larger than its ``l2_regularization`` (see ``init``).
        Functions that inspect trees do not cover it.
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Objective on the training data per position, before the first and after each iteration: the
        mean of log P divided by the mean length; minus the logarithm of the mean of 1/P, divided by
        the mean length; the mean of log q; or minus the logarithm of the mean of 1/q.
    validation_score_ : float array
        The ``scoring`` of the validation sequences before the first and after each iteration; empty
        without them, and if the number of iterations was chosen on a sample. With ``calibration``,
        each is the score at the best temperature T of its iteration, less log(T)**2 / (2 n) with
        the number n of held-out sequences or groups. With a beam, which overestimates the
        likelihood of sequences, the objective is the mean of log q over the validation positions.
    temperature_ : float
        Number by which all scores of the model were divided after training (``calibration``), a
        multiple of 2**-10; 1 if none was chosen. ``train_score_`` is computed before the division.
        A warm start continues from the divided scores.
    constant_transitions_ : bool
        Whether the scores of labels after labels are the same at all positions.
    multi_strategy_ : {"one_output_per_tree", "multi_output_tree"}
        Whether each label has its own trees, or each iteration has one tree for all labels.
    max_leaf_nodes_ : int
        Maximum number of leaves per tree.
    window_ : (int, int)
        Number of positions to the left and to the right whose features the trees can test.
    evals_result_ : dict
        Scores of the sets in ``eval_set``: for each set, ``"valid_0"`` and so on, a dict of float
        arrays of shape ``(n_iter_ + 1,)``, the ``"objective"`` and the metric of ``scoring``.
    feature_importances_ : float array of shape ``(n_features_in_,)``
        Fraction of the total gain of all splits that is due to each feature, over all offsets. All
        are 0 if there are no trees (``n_iter_`` is 0); inspect the weights of ``init_`` instead.

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
