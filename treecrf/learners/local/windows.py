"""Window classifiers: boosted trees, or any estimator of rows."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils import Tags, get_tags

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.imputation import FILLED
from treecrf.inputs.dataset import named
from treecrf.learners.base.learner import names_in
from treecrf.learners.base.opening import FitArguments
from treecrf.learners.base.training_data import LabeledSequences, TrainingInput
from treecrf.learners.boosted.base import wrapped_estimator
from treecrf.learners.boosted.spec import Trained
from treecrf.learners.boosted.training import train
from treecrf.learners.local.chains import LocalForestChain
from treecrf.learners.local.memm import LocalClassifier, TreeMEMM
from treecrf.learners.local.rows import RowChain, fit_rows
from treecrf.learners.local.saved import DIRECTIONS
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    EarlyStopping,
    InteractionCst,
    LocalDecoding,
    Missing,
    MonotonicCst,
    MultiStrategy,
    RandomState,
    Scoring,
    Transitions,
    Window,
)
from treecrf.utils.validation import HasMethods, Interval, Needs, StrOptions, documented_as

# Parameters of boosted trees, without effect on other estimators.
TREE_PARAMETERS = (
    "max_iter", "max_leaf_nodes", "max_depth", "multi_strategy", "l2_regularization",
    "learning_rate", "second_order", "min_gain", "min_samples_leaf", "max_features",
    "max_features_per_tree", "subsample", "sampling", "max_examples", "validation_fraction",
    "n_iter_no_change", "tol",
)  # fmt: skip


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
        if self.estimator is None:
            return super()._needed
        return super()._needed | dict.fromkeys(TREE_PARAMETERS, Needs("estimator", (None,)))

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
        arguments_and_settings = {
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
        unused = [name for name, value in arguments_and_settings.items() if value is not None]
        for name in ("early_stopping", "warm_start", "class_weight"):
            if getattr(self, name) not in (None, False, "auto"):
                unused.append(name)
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
        estimator = wrapped_estimator(self)
        if estimator is None:
            return super()._chain()
        return RowChain(
            schema=self._encoder.schema,
            classes=self.classes_,
            order=self._order,
            transitions=self.transitions,
            is_backward=self._direction == "right-to-left",
            encoder=self._encoder,
            estimator=estimator,
            width=self._search_width(),
            alternative=self._alternative,
        )

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        estimator = wrapped_estimator(self)
        if estimator is not None:
            raise TypeError(
                f"a {type(self).__name__} around {type(estimator).__name__} cannot be saved "
                "in a file that loads without executing code; use joblib.dump, and load such "
                "files only from sources you trust"
            )
        return super()._state()


@documented_as(TreeMEMM)
@dataclass(kw_only=True, eq=False, repr=False)
class SlidingWindowClassifier(WindowClassifier):
    """Sliding window classifier, which labels each position independently.

    A position is labeled from a window of the input around it. Labels do not depend on each other.
    The classifier is either a sum of boosted trees, as in the other estimators, or any classifier
    of scikit-learn. Use it as a baseline, or when the input alone determines the labels.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A scikit-learn classifier to train on rows of window values: one-hot encoded categories, raw
        numbers, and indicators of offsets outside the sequence. None boosts trees. With an
        estimator, the parameters of trees have no effect.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        Whether each label has its own trees, or one tree per iteration has a value for each label
        in its leaves, as in XGBoost. With many labels, ``"multi_output_tree"`` makes training
        and prediction much faster.

        These trees support neither ``missing="surrogate"`` nor monotonic constraints nor a number
        as ``sampling``.

        ``"auto"`` chooses by cross-validation if there are at least 24 labels and fewer than a
        million examples. Otherwise, and without ``early_stopping``, each label has its own trees. A
        warm start keeps the kind of the model.
    learning_rate : float, default=0.15
        Factor by which the leaf values of each tree are multiplied.
    max_features : float, default=1.0
        Fraction of the features in the window that are considered at each node, chosen at random.
    decoding : {"marginal", "minimum_risk"}, default="marginal"
        How `predict` chooses labels:

        - ``"marginal"``: the most probable label of each position.
        - ``"minimum_risk"``: the label with the lowest expected cost at each position.

    Attributes
    ----------
    multi_strategy_ : {"one_output_per_tree", "multi_output_tree"}
        Whether each label has its own trees, or each iteration has one tree for all labels.
    estimator_ : classifier
        The fitted copy of ``estimator``. Only a model with an ``estimator`` has it. The only other
        fitted attributes of such a model are ``classes_``, ``n_features_in_``, and
        ``feature_names_in_``.

    See Also
    --------
    TreeCRF : Models the dependence of neighboring labels.
    RecurrentSlidingWindowClassifier : Also uses the labels that were predicted before.

    References
    ----------
    .. [1] T. J. Sejnowski, C. R. Rosenberg, "Parallel networks that learn to pronounce English
       text", Complex Systems 1, 1987.
    .. [2] T. G. Dietterich, "Machine learning for sequential data: a review", Structural,
       Syntactic, and Statistical Pattern Recognition, 2002.

    Examples
    --------
    >>> from treecrf import SlidingWindowClassifier
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> model = SlidingWindowClassifier(window=1, max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
    'cvcvc'

    With a classifier of scikit-learn, which is trained on 20 columns of window values:

    >>> from sklearn.linear_model import LogisticRegression
    >>> model = SlidingWindowClassifier(LogisticRegression(), window=1).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
    'cvcvc'
    >>> model.estimator_.n_features_in_
    20
    """

    _parameter_constraints: ClassVar[dict] = {
        **WindowClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "minimum_risk"})],
    }

    # Labels do not depend on each other.
    order = 0

    estimator: Any = field(default=None, kw_only=False)
    window: Literal["auto"] | Window = 0
    max_iter: Literal["auto"] | int = "auto"
    max_leaf_nodes: Literal["auto"] | int = 64
    max_depth: int | None = None
    multi_strategy: MultiStrategy = "auto"
    l2_regularization: float = 20.0
    learning_rate: float = 0.15
    second_order: bool = True
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
    """Recurrent sliding window classifier, whose features include previously predicted labels.

    A position is labeled from a window of the input and the previous labels. With
    ``direction="right-to-left"``, the previous labels are those that follow in reading order.

    Training uses the true previous labels, or predictions of them (``cv``). Prediction follows the
    predicted labels, or sums over all possible labels, depending on ``decoding``.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A scikit-learn classifier to train on rows of window values and one-hot encoded previous
        labels, as in `SlidingWindowClassifier`. None boosts trees. With an estimator, the
        parameters of trees have no effect.
    direction : {"left-to-right", "right-to-left"}, default="left-to-right"
        Direction in which sequences are labeled. ``window`` always counts positions in reading
        order, from left to right.
    cv : int or None, default=None
        Number of folds for predicting the previous labels that training uses, as in scikit-learn's
        ``ClassifierChain``: the labels in each fold are predicted by a model that was trained on
        the other folds. The final model then relies less on previous labels, and a wrong one
        misleads it less. None uses the true labels. :ref:`own-predictions` shows when this helps.
    transitions : str, dict, bool array-like or None, default=None
        Which labels may follow each other in reading order, in either ``direction``: a tagging
        scheme, a dict, or a matrix, as in `TreeMEMM`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted copy of ``estimator``. Only a model with an ``estimator`` has it. The only other
        fitted attributes of such a model are ``classes_``, ``n_features_in_``, and
        ``feature_names_in_``.

    See Also
    --------
    TreeMEMM : The same model from left to right, with exact decoding by default.
    SlidingWindowClassifier : Does not use labels as features.

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

    Trained with predicted instead of true previous labels:

    >>> model = model.set_params(cv=3).fit(X, y)
    >>> "".join(model.predict(["bacan"])[0])
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
    window: Literal["auto"] | Window = 0
    max_iter: Literal["auto"] | int = "auto"
    max_leaf_nodes: Literal["auto"] | int = 64
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
    max_examples: Literal["auto"] | int | None = "auto"
    max_bins: Literal["auto"] | int = "auto"
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
        data = super()._prepare(arguments)
        if self.cv is None:
            return data
        is_weighted = arguments.raw.sample_weight is not None
        return with_predictions(self, data, is_weighted)

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
    training = data.training
    classes = data.classes
    model._kind().check_size(len(classes), len(training.codes))
    encoder = Encoder(model._window(), model.max_bins, model.missing).fit(training.sequences)
    estimator = fit_rows(model.estimator, training, classes, encoder, model.order, is_weighted)
    return names_in(encoder.names) | {
        "classes_": classes,
        "n_features_in_": encoder.n_features,
        "estimator_": estimator,
        "_encoder": encoder,
        "_order": model.order,
        "_direction": model.direction,
    }


def with_predictions(
    model: RecurrentSlidingWindowClassifier, data: TrainingInput, is_weighted: bool
) -> TrainingInput:
    """Predict the previous labels by cross-validation, in folds that depend on the content."""
    training = data.training
    lengths = np.diff(training.sequences.offsets)
    n_folds = model.cv
    if model.transitions is not None:
        raise ValueError(
            "cv cannot be used with transitions, which may forbid the true label after a predicted "
            "one"
        )
    if len(lengths) < n_folds:
        raise ValueError(f"cv={n_folds}; expected at most {len(lengths)}, one for each sequence")
    fold_numbers = np.argsort(np.argsort(training.hashes(data.seed))) % n_folds
    previous = training.codes.copy()
    for fold in range(n_folds):
        is_left_out = fold_numbers == fold
        others, left_out = training.parted(is_left_out)
        fold_data = replace(data, training=others, earlier={}, evaluated=())
        with named(f"training without fold {fold} of {n_folds}"):
            predictor = model._fitted_copy(learned(model, fold_data, is_weighted))._predictor()
        codes = predictor.codes(left_out.sequences, left_out.allowed)
        previous[np.repeat(is_left_out, lengths)] = codes

    # Other sequences have the previous labels that the model of the last fold predicts.
    def with_predicted(other: LabeledSequences) -> LabeledSequences:
        return replace(other, previous=predictor.codes(other.sequences, other.allowed))

    held_out = None
    if data.held_out is not None:
        held_out = with_predicted(data.held_out)
    evaluated = tuple(
        # Training scores a set once that is also held out.
        held_out if other is data.held_out else with_predicted(other)
        for other in data.evaluated
    )
    training = replace(training, previous=previous)
    return replace(data, training=training, held_out=held_out, evaluated=evaluated)
