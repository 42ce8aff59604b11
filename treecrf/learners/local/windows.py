"""Local models, which are normalized at each position: boosted trees, or any estimator of rows."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils import Tags, get_tags

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.imputation import FILLED
from treecrf.inputs.dataset import named
from treecrf.learners.base.label_rules import LabelRules
from treecrf.learners.base.learner import names_in
from treecrf.learners.base.opening import FitArguments
from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.base import BoostedSequenceClassifier
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.boosted.spec import Trained
from treecrf.learners.boosted.training import train
from treecrf.learners.local.chains import LocalChain, LocalForestChain
from treecrf.learners.local.kind import LocalKind
from treecrf.learners.local.rows import RowChain, fit_rows
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    EarlyStopping,
    InteractionCst,
    LocalDecoding,
    Missing,
    MonotonicCst,
    RandomState,
    Scoring,
    Transitions,
    Window,
)
from treecrf.utils.validation import HasMethods, Interval, Needs, StrOptions, documented_as

# Values of ``decoding`` that follow predictions.
SEARCHES = ("greedy", "beam")
# Parameters of boosted trees, without effect on other estimators.
OF_TREES = (
    "max_iter", "max_leaf_nodes", "max_depth", "l2_regularization", "learning_rate",
    "second_order", "min_gain", "min_samples_leaf", "max_features", "max_features_per_tree",
    "subsample", "sampling", "max_examples", "validation_fraction", "n_iter_no_change", "tol",
)  # fmt: skip
DIRECTIONS = ("left-to-right", "right-to-left")


class LocalClassifier(BoostedSequenceClassifier):
    """Base of the models of P(label | input, previous labels), normalized at each position.

    Training uses the true previous labels and needs no inference. Positions whose label or previous
    labels are not known have weight 0 in it. Prediction either sums over the previous labels or
    follows its own predictions.
    """

    _alternative: ClassVar[str] = "lower the order, or predict with decoding='greedy' or 'beam'"
    _parameter_constraints: ClassVar[dict] = {
        **BoostedSequenceClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk", "greedy", "beam"})],
        "beam_width": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    _needed: ClassVar[dict[str, Needs]] = BoostedSequenceClassifier._needed | {
        "beam_width": Needs("decoding", ("beam",))
    }

    def _kind(self) -> LocalKind:
        return LocalKind(
            name=type(self).__name__,
            order=self.order,
            transitions=self.transitions,
            has_curvature=bool(self.second_order),
            is_backward=self.direction == "right-to-left",
        )

    def _chain(self) -> LocalChain:
        return LocalForestChain(**self._forest_settings(), width=self._search_width())

    def _search_width(self) -> int | None:
        """Return the number of label sequences that prediction follows; None if it sums."""
        if self.decoding not in SEARCHES:
            return None
        return self.beam_width if self.decoding == "beam" else 1

    def _label_rules(self) -> LabelRules:
        return replace(super()._label_rules(), uses_known_examples=True)


@documented_as(TreeCRF, without=["init_"])
@dataclass(kw_only=True, eq=False, repr=False)
class TreeMEMM(LocalClassifier):
    """Maximum-entropy Markov model trained by gradient tree boosting.

    The probability of a label, given the input and the previous labels, is a softmax of boosted
    trees. They are trained with the true previous labels, which needs no inference and is therefore
    faster than training a `TreeCRF`. However, evidence at a position cannot change the
    probabilities of earlier labels (the label bias problem), which often costs accuracy.

    Parameters
    ----------
    order : int, default=1
        Number of previous labels that a label depends on.
    second_order : bool, default=True
        Whether to use Newton boosting: leaf values are divided by the curvature of the likelihood
        instead of the number of examples.
    min_samples_leaf : int, default=1
        Minimum number of positions in each child.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. In tree fitting, each position has the weight of its true label; the
        reported likelihoods are unweighted.
    verbose : int, default=0
        Whether to show progress (1) or not (0).

    Decoding

    decoding : {"marginal", "viterbi", "minimum_risk", "greedy", "beam"}, default="marginal"
        How `predict` chooses labels: the most probable label of each position (``"marginal"``), the
        most probable label sequence (``"viterbi"``), or the label with the lowest expected cost at
        each position (``"minimum_risk"``); ``"greedy"`` takes the best label at one position after
        another, and ``"beam"`` keeps the ``beam_width`` best label sequences. The last two need not
        score all contexts, so they suit many labels and high orders.
    beam_width : int, default=10
        Number of label sequences that ``decoding="beam"`` keeps.

    Attributes
    ----------
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood per training position, before the first and after each iteration.
    validation_score_ : float array
        The same for the validation sequences, or their ``scoring``; empty without them.

    See Also
    --------
    TreeCRF : Probabilities normalized over whole label sequences.
    RecurrentSlidingWindowClassifier : The same model in either direction, or with any estimator.

    References
    ----------
    .. [1] A. McCallum, D. Freitag, F. Pereira, "Maximum entropy Markov models for information
       extraction and segmentation", ICML 2000.
    .. [2] G. Hao, "Efficient training and feature induction in sequential supervised learning",
       dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf import TreeMEMM
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> memm = TreeMEMM(window=1, max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(memm.predict(["bacan"])[0])
    'cvcvc'
    """

    order: int = 1
    window: Window = 0
    max_iter: int = 100
    max_leaf_nodes: int = 64
    max_depth: int | None = None
    l2_regularization: float = 20.0
    learning_rate: float = 0.3
    second_order: bool = True
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    sampling: Literal["auto"] | float | None = "auto"
    max_examples: int | None = 300_000
    max_bins: int = 255
    missing: Missing = "weighting"
    categorical_features: CategoricalFeatures = "from_dtype"
    monotonic_cst: MonotonicCst = None
    interaction_cst: InteractionCst = None
    decoding: LocalDecoding = "marginal"
    beam_width: int = 10
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    early_stopping: EarlyStopping = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    scoring: Scoring = "loss"
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0


class WindowClassifier(LocalClassifier):
    """Base of the window classifiers: boosted trees, or any estimator of rows.

    With an ``estimator``, each position is one row of numbers (see `WindowTable`). Such a model has
    an attribute ``estimator_`` and no trees.
    """

    _parameter_constraints: ClassVar[dict] = {
        **LocalClassifier._parameter_constraints,
        "estimator": [HasMethods(["fit", "predict"]), None],
    }
    _fitted: ClassVar[tuple[str, ...]] = (*LocalClassifier._fitted, "_order", "_direction")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is not None and self.missing not in FILLED:
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    @property
    def _needed(self) -> dict[str, Needs]:
        without_trees = dict.fromkeys(OF_TREES, Needs("estimator", (None,)))
        return super()._needed | ({} if self.estimator is None else without_trees)

    @property
    def _takes_parts(self) -> bool:
        return self.estimator is None

    def _train(self, arguments: FitArguments) -> dict:
        if self.estimator is None:
            return super()._train(arguments)
        self._check_unused(arguments)
        data = self._prepare(arguments)
        is_weighted = arguments.raw.sample_weight is not None
        return learned(self, data, is_weighted) | {"_n_unlabeled": data.n_unlabeled}

    def _check_unused(self, arguments: FitArguments) -> None:
        """Raise ValueError for arguments and settings that have no effect with ``estimator``."""
        given = {
            "X_val": arguments.validation,
            "y_val": arguments.validation,
            "allowed": arguments.raw.allowed,
            "eval_set": arguments.eval_sets or None,
            "init_score": arguments.raw.init_score,
            "callbacks": arguments.callbacks or None,
            "monotonic_cst": self.monotonic_cst,
            "interaction_cst": self.interaction_cst,
            "scoring": None if self.scoring == "loss" else self.scoring,
        }
        unused = [name for name, value in given.items() if value is not None]
        names = ("early_stopping", "warm_start", "class_weight")
        unused += [name for name in names if getattr(self, name) not in (None, False, "auto")]
        if unused:
            raise ValueError(
                f"{', '.join(unused)} cannot be used with an estimator, which trains once on all "
                "rows; it applies to boosted trees only"
            )

    def _model_attributes(self, trained: Trained) -> dict:
        return super()._model_attributes(trained) | {"_direction": self.direction}

    def _fixed_settings(self) -> dict[str, Any]:
        # A change of direction also mirrors the window, so it comes first.
        return {"direction": self._direction} | super()._fixed_settings()

    def _chain(self) -> LocalForestChain | RowChain:
        if not hasattr(self, "estimator_"):
            return super()._chain()
        return RowChain(
            schema=self._encoder.schema,
            classes=self.classes_,
            order=self._order,
            transitions=self.transitions,
            is_backward=self._direction == "right-to-left",
            encoder=self._encoder,
            estimator=self.estimator_,
            width=self._search_width(),
            alternative=self._alternative,
        )

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        if hasattr(self, "estimator_"):
            raise TypeError(
                f"a {type(self).__name__} around {type(self.estimator_).__name__} cannot be saved "
                "in a file that loads without executing code; use joblib.dump, and load such "
                "files only from sources you trust"
            )
        return super()._state()


@documented_as(TreeMEMM)
@dataclass(kw_only=True, eq=False, repr=False)
class SlidingWindowClassifier(WindowClassifier):
    """Sliding window classifier: labels each position independently from a window of the input.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A scikit-learn classifier to train on rows of window values: one-hot encoded categories, raw
        numbers, and indicators of offsets outside the sequence. If None, trees are boosted as in
        the other estimators.
    max_features : float, default=1.0
        Fraction of the windowed features considered at each node, chosen at random.
    decoding : {"marginal", "minimum_risk"}, default="marginal"
        How `predict` chooses labels: the most probable label (``"marginal"``) or the label with the
        lowest expected cost (``"minimum_risk"``).

    Attributes
    ----------
    estimator_ : classifier
        The fitted copy of ``estimator``, if one is given; the only other fitted attributes are then
        ``classes_`` and ``n_features_in_``.

    See Also
    --------
    TreeCRF : Models the dependence of neighboring labels.
    RecurrentSlidingWindowClassifier : Also uses the labels predicted before.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from treecrf import SlidingWindowClassifier
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> model = SlidingWindowClassifier(LogisticRegression(), window=1).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
    'cvcvc'
    """

    _parameter_constraints: ClassVar[dict] = {
        **WindowClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "minimum_risk"})],
    }

    # Labels do not depend on each other.
    order = 0

    estimator: Any = field(default=None, kw_only=False)
    window: Window = 0
    max_iter: int = 100
    max_leaf_nodes: int = 64
    max_depth: int | None = None
    l2_regularization: float = 20.0
    learning_rate: float = 0.3
    second_order: bool = True
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    sampling: Literal["auto"] | float | None = "auto"
    max_examples: int | None = 300_000
    max_bins: int = 255
    missing: Missing = "weighting"
    categorical_features: CategoricalFeatures = "from_dtype"
    monotonic_cst: MonotonicCst = None
    interaction_cst: InteractionCst = None
    decoding: Literal["marginal", "minimum_risk"] = "marginal"
    cost_matrix: CostMatrix = None
    early_stopping: EarlyStopping = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    scoring: Scoring = "loss"
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0


@documented_as(TreeMEMM)
@dataclass(kw_only=True, eq=False, repr=False)
class RecurrentSlidingWindowClassifier(WindowClassifier):
    """Recurrent sliding window classifier: its features include the previously predicted labels.

    Each position is labeled from a window of the input and the previous labels; with
    ``direction="right-to-left"``, these are the labels that follow in reading order. Training uses
    the true labels, or predictions (``cv``). Prediction uses the predicted labels, or sums over all
    possible labels, depending on ``decoding``.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A scikit-learn classifier to train on rows of window values and one-hot encoded previous
        labels; see `SlidingWindowClassifier`. If None, trees are boosted.
    direction : {"left-to-right", "right-to-left"}, default="left-to-right"
        Direction in which the sequence is labeled. ``window`` always counts positions in reading
        order, from left to right.
    cv : int or None, default=None
        Number of folds for predicting the previous labels that training uses: those in each fold
        come from a model trained on the other folds, as in scikit-learn's ``ClassifierChain``. The
        model then relies less on previous labels, and a wrong one misleads it less. None uses the
        true labels. :ref:`own-predictions` shows when it helps.
    transitions : str, bool array-like or None, default=None
        Which labels may follow each other, in training and in decoding: the rules of a tagging
        scheme for tags like ``B-X``, ``I-X`` and ``O`` (``"bio"`` or ``"iob2"``, ``"iob1"``,
        ``"ioe2"``, ``"bioes"`` or ``"iobes"``, ``"bilou"``), or a matrix of shape (n_classes,
        n_classes) with a row for each previous label, in the order of ``classes_``. An optional
        extra row marks the labels that may come first. Rows and columns follow the reading order
        from left to right, whatever the ``direction``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted copy of ``estimator``, if one is given; the only other fitted attributes are then
        ``classes_`` and ``n_features_in_``.

    See Also
    --------
    TreeMEMM : The same model from left to right, with exact decoding by default.

    References
    ----------
    .. [1] G. Bakiri, T. G. Dietterich, "Achieving high-accuracy text-to-speech with machine
       learning", in R. Damper (ed.), Data Mining Techniques in Speech Synthesis, 2001.

    Examples
    --------
    >>> from treecrf import RecurrentSlidingWindowClassifier
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> model = RecurrentSlidingWindowClassifier(max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
    'cvcvc'
    >>> "".join(model.set_params(cv=3).fit(X, y).predict(["bacan"])[0])
    'cvcvc'
    """

    _parameter_constraints: ClassVar[dict] = {
        **WindowClassifier._parameter_constraints,
        "direction": [StrOptions(set(DIRECTIONS))],
        "cv": [Interval(numbers.Integral, 2, None, closed="left"), None],
    }

    estimator: Any = field(default=None, kw_only=False)
    direction: Literal["left-to-right", "right-to-left"] = "left-to-right"
    order: int = 1
    cv: int | None = None
    window: Window = 0
    max_iter: int = 100
    max_leaf_nodes: int = 64
    max_depth: int | None = None
    l2_regularization: float = 20.0
    learning_rate: float = 0.3
    second_order: bool = True
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    max_features_per_tree: float = 1.0
    subsample: float = 1.0
    sampling: Literal["auto"] | float | None = "auto"
    max_examples: int | None = 300_000
    max_bins: int = 255
    missing: Missing = "weighting"
    categorical_features: CategoricalFeatures = "from_dtype"
    monotonic_cst: MonotonicCst = None
    interaction_cst: InteractionCst = None
    decoding: LocalDecoding = "greedy"
    beam_width: int = 10
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    early_stopping: EarlyStopping = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    scoring: Scoring = "loss"
    warm_start: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    @property
    def _takes_parts(self) -> bool:
        return super()._takes_parts and self.cv is None

    def _prepare(self, arguments: FitArguments) -> TrainingInput:
        data, is_weighted = super()._prepare(arguments), arguments.raw.sample_weight is not None
        return data if self.cv is None else with_predictions(self, data, is_weighted)

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        values, arrays = super()._state()
        return values | {"direction": self._direction}, arrays

    def _restore(
        self, values: dict, arrays: dict[str, np.ndarray]
    ) -> RecurrentSlidingWindowClassifier:
        self._direction = values["direction"]
        if self._direction not in DIRECTIONS:
            raise ValueError(f"unknown direction {self._direction!r}")
        return super()._restore(values, arrays)


def learned(model: WindowClassifier, data: TrainingInput, is_weighted: bool) -> dict:
    """Train trees or the estimator; return the fitted attributes that predictions depend on."""
    if model.estimator is None:
        return model._model_attributes(train(model._spec(), data))
    training, classes = data.training, data.classes
    model._kind().check_size(len(classes), len(training.codes))
    encoder = Encoder(model._window(), model.max_bins, model.missing).fit(training.sequences)
    return names_in(encoder.names) | {
        "classes_": classes,
        "n_features_in_": encoder.n_features,
        "estimator_": fit_rows(
            model.estimator, training, classes, encoder, model.order, is_weighted
        ),
        "_encoder": encoder,
        "_order": model.order,
        "_direction": model.direction,
    }


def with_predictions(
    model: RecurrentSlidingWindowClassifier, data: TrainingInput, is_weighted: bool
) -> TrainingInput:
    """Predict the previous labels by cross-validation, in folds that depend on the content."""
    training, lengths, n_folds = data.training, np.diff(data.training.sequences.offsets), model.cv
    if model.transitions is not None:
        raise ValueError(
            "cv cannot be used with transitions, which may forbid the true label after a predicted "
            "one"
        )
    if len(lengths) < n_folds:
        raise ValueError(f"cv={n_folds}; expected at most {len(lengths)}, one for each sequence")
    previous = training.codes.copy()
    fold_of = np.argsort(np.argsort(training.hashes(data.seed))) % n_folds
    for fold in range(n_folds):
        kept, left_out = training.parted(fold_of == fold)
        part = replace(data, training=kept, earlier={}, evaluated=())
        with named(f"training without fold {fold} of {n_folds}"):
            predictor = model._fitted_copy(learned(model, part, is_weighted))._predictor()
        found = predictor.codes(left_out.sequences, left_out.allowed)
        previous[np.repeat(fold_of == fold, lengths)] = found

    held_out, *evaluated = (
        part and replace(part, previous=predictor.codes(part.sequences, part.allowed))
        for part in (data.held_out, *data.evaluated)
    )
    training = replace(training, previous=previous)
    return replace(data, training=training, held_out=held_out, evaluated=tuple(evaluated))
