"""Base class of the classifiers with boosted trees: training, scores, and saved state."""

from __future__ import annotations

import copy
import numbers
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from treecrf.encoding.columns import MAX_BINS
from treecrf.encoding.encoder import METHODS, Encoder
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.schema import InputSchema
from treecrf.learners.base.callbacks import MAX_LEARNING_RATE
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.history import Stopping
from treecrf.learners.base.learner import SequenceLearner, names_in
from treecrf.learners.base.opening import FitArguments
from treecrf.learners.base.validation_metrics import (
    NEG_LOG_LOSS,
    OBJECTIVE_SCORINGS,
    SCORINGS,
    resolved_scoring,
)
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.saved import LearnedTrees, restored_trees
from treecrf.learners.boosted.spec import LARGE, SMALL, BoostingSpec, Trained, penalty_of_large
from treecrf.learners.boosted.training import train
from treecrf.learners.boosted.training_scores import TrainingScores
from treecrf.learners.boosted.windows import AUTO, WINDOWS
from treecrf.learners.linear.base import linear_model
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest, to_file
from treecrf.trees.growing.settings import INTERACTIONS, MAX_DEPTH, TreeSettings
from treecrf.utils import model_file
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LengthsLike, ScoresLike, SequencesLike
from treecrf.utils.validation import Interval, Needs, StrOptions

# Bounds the leaf values of Newton steps, which can be far too large if the curvature is small.
MAX_NEWTON_STEP = 4.0


# Values of ``multi_strategy``, as XGBoost names them.
ONE_OUTPUT = "one_output_per_tree"
MULTI_OUTPUT = "multi_output_tree"


def wrapped_estimator(model: BoostedSequenceClassifier) -> Any:
    """Return the fitted estimator of rows that a window classifier has in place of trees, or None.

    A model that is not fitted has none.
    """
    return getattr(model, "estimator_", None)


# ``max_iter="auto"``: the number of iterations, and the most of them with early stopping. On words
# and characters, held-out data often choose 150 to 400.
N_ITER = 100
MAX_ITER = 500


def _has_iterations(model: BoostedSequenceClassifier) -> bool:
    """Return True; AttributeError if a fitted model has no boosting iterations."""
    estimator = wrapped_estimator(model)
    if estimator is not None:
        around = f"a {type(model).__name__} around {type(estimator).__name__}"
        raise AttributeError(f"{around} has no boosting iterations")
    return True


class BoostedSequenceClassifier(SequenceLearner):
    """Base class of the sequence classifiers whose scores are sums of regression trees.

    Subclasses define the kind of chains in training (`_kind`) and after it (`_chain`).
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceLearner._parameter_constraints,
        "max_iter": [StrOptions({"auto"}), Interval(numbers.Integral, 1, None, closed="left")],
        "max_leaf_nodes": [
            StrOptions({"auto"}),
            Interval(numbers.Integral, 2, None, closed="left"),
        ],
        "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, MAX_LEARNING_RATE, closed="right")],
        "second_order": ["boolean"],
        "min_gain": [Interval(numbers.Real, 0, None, closed="left")],
        "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_features": [Interval(numbers.Real, 0, 1, closed="right")],
        "max_features_per_tree": [Interval(numbers.Real, 0, 1, closed="right")],
        "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
        "sampling": [StrOptions({"auto"}), Interval(numbers.Real, 0, None, closed="neither"), None],
        "max_examples": [
            StrOptions({"auto"}),
            Interval(numbers.Integral, 1, None, closed="left"),
            None,
        ],
        "max_bins": [StrOptions({"auto"}), Interval(numbers.Integral, 2, MAX_BINS, closed="both")],
        "missing": [StrOptions(set(METHODS))],
        "monotonic_cst": ["array-like", dict, None],
        "interaction_cst": [StrOptions(set(INTERACTIONS)), list, tuple, set, None],
        "early_stopping": [StrOptions({"auto"}), "boolean"],
        "window": [StrOptions({AUTO}), numbers.Integral, tuple, list],
        "multi_strategy": [StrOptions({"auto", ONE_OUTPUT, MULTI_OUTPUT})],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "scoring": [StrOptions(SCORINGS), callable],
    }

    _needed: ClassVar[dict[str, Needs]] = SequenceLearner._needed | {
        "tol": Needs("early_stopping", (True, "auto")),
        "max_examples": Needs("sampling", unless=(None,)),
    }

    # Values of parameters that not all constructors take.
    monotonic_cst: Any = None
    interaction_cst: Any = None
    scoring: Any = "loss"
    multi_strategy: Any = ONE_OUTPUT
    calibration: Any = None

    # Advice for the case of too many contexts, for error messages.
    _alternative: ClassVar[str]

    # Linear model whose scores the trees start from.
    _start: LinearCRF | None = None
    # Direction of the chain in training.
    _direction = "left-to-right"
    # Class of the encoder in saved models.
    _encoder_class: ClassVar[type[Encoder]] = Encoder
    _takes_parts = True

    _fitted: ClassVar[tuple[str, ...]] = ("_forest", "_encoder", "_seed", "_max_leaf_nodes")

    def _train(self, arguments: FitArguments) -> dict:
        """Train and return the fitted attributes; the estimator itself does not change."""
        spec = self._spec()
        data = self._prepare(arguments)
        trained = train(spec, data, arguments.callbacks, self._copy_of)
        return self._attributes_of(trained) | {"_n_unlabeled": data.n_unlabeled}

    # Settings

    def _spec(self) -> BoostingSpec:
        """Return the settings of training."""
        scoring = self._resolved_scoring()
        kind = self._kind()
        decoder = None
        is_marginal = scoring == NEG_LOG_LOSS and kind.has_lattices
        if scoring not in OBJECTIVE_SCORINGS and not is_marginal:
            decoder = EstimatorDecoder(self._fitted_copy({}))
        stopping = None
        if self.early_stopping:
            stopping = Stopping(self.n_iter_no_change, self.tol)
        is_likelihood = getattr(self, "objective", "log") == "log"
        multi_outputs = multi_outputs_of(self)
        windows = self._windows()
        max_iter, n_iter_unstopped = iterations_of(self)
        settings = {
            "name": type(self).__name__,
            "starts": [None],
            "value_name": "log-likelihood" if is_likelihood else "objective",
            "kind": kind,
            "kinds": (kind,),
            "window": windows[0],
            "windows": windows,
            "linear": {
                "window": windows[0] if self.window == AUTO else self.window,
                "transitions": self.transitions,
            },
            "tree_settings": common_tree_settings(self, kind.has_curvature),
            "multi_output": multi_outputs[0],
            "multi_outputs": multi_outputs,
            "leaves": leaf_choices(self),
            "scoring": scoring,
            "stopping": stopping,
            "decoder": decoder,
            "max_iter": max_iter,
            "n_iter_unstopped": n_iter_unstopped,
        }
        for field in fields(BoostingSpec):
            if field.name not in settings:  # a parameter
                settings[field.name] = getattr(self, field.name)
        return BoostingSpec(**settings)

    def _resolved_scoring(self) -> Any:
        """Return what the parameter ``scoring`` stands for, see `resolved_scoring`."""
        return resolved_scoring(self.scoring)

    @abstractmethod
    def _kind(self) -> ChainKind:
        """Return what training does with the sequences."""

    def _window(self) -> tuple[int, int]:
        return WINDOWS[0] if self.window == AUTO else super()._window()

    def _windows(self) -> tuple[tuple[int, int], ...]:
        """Return the windows to choose from; in a warm start, that of the model."""
        if self.window != AUTO:
            return (self._window(),)
        if self.warm_start and hasattr(self, "_encoder"):
            return (self._encoder.max_window,)
        return WINDOWS

    # Warm start

    def _required_schema(self, earlier: dict) -> InputSchema | None:
        return earlier["_encoder"].schema if earlier else None

    def _earlier_fit(self) -> dict:
        earlier = super()._earlier_fit()
        if earlier and self.max_iter != "auto" and self.max_iter < self.n_iter_:
            raise ValueError(
                f"warm start: max_iter={self.max_iter} is less than the {self.n_iter_} iterations "
                "of the model"
            )
        return earlier

    def _fixed_settings(self) -> dict[str, Any]:
        encoder = self._encoder
        fixed = {"order": self._forest.order, "missing": encoder.missing}
        if self.window != AUTO:
            fixed["window"] = encoder.max_window
        if self.multi_strategy != "auto":
            fixed["multi_strategy"] = self.multi_strategy_
        return fixed

    # Fitted attributes

    def _copy_of(self, trained: Trained) -> BoostedSequenceClassifier:
        """Return a fitted copy."""
        return self._fitted_copy(self._attributes_of(trained))

    def _attributes_of(self, trained: Trained) -> dict:
        """Return the fitted attributes."""
        encoder = trained.encoder
        forest = trained.forest
        fitted = {
            "n_features_in_": encoder.n_features,
            "n_iter_": forest.n_iter,
            "feature_importances_": feature_importances(forest, encoder),
            "evals_result_": {
                name: {metric: np.array(scores) for metric, scores in evals.items()}
                for name, evals in trained.history.evals.items()
            },
            "_seed": trained.seed,
        }
        fitted |= names_in(encoder.names) | trained.history.scores()
        return fitted | self._model_attributes(trained)

    def _model_attributes(self, trained: Trained) -> dict:
        """Return the fitted attributes that predictions depend on."""
        return {
            "classes_": trained.classes,
            "multi_strategy_": strategy_of(trained.forest),
            "window_": self._window_of(trained.encoder),
            "_max_leaf_nodes": trained.max_leaf_nodes,
            "_encoder": trained.encoder,
            "_forest": trained.forest,
        }

    def _window_of(self, encoder: Encoder) -> tuple[int, int]:
        """Return the number of positions before and after one, in reading direction."""
        window = encoder.max_window
        return window[::-1] if self.direction == "right-to-left" else window

    @property
    def max_leaf_nodes_(self) -> int:
        """Maximum number of leaves per tree."""
        return self._max_leaf_nodes

    # Predictions

    def _forest_settings(self) -> dict[str, Any]:
        """Return the fields of a `ForestChain`."""
        start = None if self._start is None else linear_model(self._start)
        trees = LearnedTrees(self.classes_, self._encoder, self._forest, start)
        is_backward = self._direction == "right-to-left"
        return trees.settings(self.transitions, is_backward, self._alternative)

    @available_if(_has_iterations)
    def staged_predict_proba(
        self,
        X: SequencesLike,
        *,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Iterator[Any]:
        """Predict the probability of every label after each boosting iteration.

        Use it to see how predictions change during training, or to find the best number of
        iterations for a score of your own.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences to label, as in `predict`.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Yields
        ------
        list of float arrays of shape (n_positions, n_classes)
            Marginal probabilities after one more iteration, as from `predict_proba`. There are
            ``n_iter_`` results. For a long table, each is one array of all positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data. The message names the sequence and the reason.

        See Also
        --------
        predict_proba : Probabilities after the last iteration.
        truncated : The model with its first iterations only.

        Examples
        --------
        The probability of "v" at each of the three positions:

        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=3, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> for proba in crf.staged_predict_proba(["nab"]):
        ...     print(proba[0][:, 1].round(2))
        [0.29 0.65 0.42]
        [0.17 0.77 0.34]
        [0.11 0.84 0.28]
        """
        predictor = self._predictor()
        segmentation = predictor.segmentation(X, lengths, groups)
        sequences, _ = predictor.read(X, segmentation, init_score=init_score)
        empty = np.zeros((0, len(self.classes_)))
        if not sequences.n_positions:
            for _ in range(self.n_iter_):
                yield segmentation.join([empty] * sequences.n_sequences, empty)
            return
        with Threads(self.n_jobs) as threads:
            chain = predictor.chain
            present = sequences.without_empty()
            constraints = chain.constraints(present.offsets)
            ends = range(1, self.n_iter_ + 1)
            for lattice in chain.staged_lattices(present, constraints, threads, ends):
                probabilities = split_sequences(lattice.marginals(), sequences.offsets)
                yield segmentation.join(predictor.as_read(probabilities), empty)

    @available_if(_has_iterations)
    def truncated(self, n_iter: int) -> Self:
        """Return a fitted copy of the model with its first iterations only.

        All methods of the copy, such as `predict`, `decode` and `save`, use these iterations. Its
        fitted attributes are those of a model whose training stopped there. The copy shares the
        trees, so it takes hardly any memory.

        Parameters
        ----------
        n_iter : int
            Number of iterations to keep, from 0 to ``n_iter_``.

        Returns
        -------
        estimator
            A fitted estimator of the same class, with the same parameters.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        TypeError
            If ``n_iter`` is not an integer.
        ValueError
            If ``n_iter`` is not in this range.

        See Also
        --------
        staged_predict_proba : Probabilities after each iteration.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> X, y = ["banana", "cabana"], ["cvcvcv", "cvcvcv"]
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
        >>> first = crf.truncated(2)
        >>> first.n_iter_, crf.n_iter_
        (2, 5)
        >>> crf.predict_proba(["nab"])[0][:, 1].round(2).tolist()
        [0.05, 0.92, 0.2]
        >>> first.predict_proba(["nab"])[0][:, 1].round(2).tolist()
        [0.17, 0.77, 0.34]
        """
        check_is_fitted(self)
        if not isinstance(n_iter, numbers.Integral) or isinstance(n_iter, bool):
            raise TypeError(f"n_iter is of type {type(n_iter).__name__}; expected an integer")
        if not 0 <= n_iter <= self.n_iter_:
            raise ValueError(
                f"n_iter={n_iter}; expected 0 to {self.n_iter_}, the iterations of the model"
            )
        forest = self._forest.copy(int(n_iter))
        until = slice(0, forest.n_iter + 1)
        shorter = copy.copy(self)
        vars(shorter).update(
            _forest=forest,
            n_iter_=forest.n_iter,
            feature_importances_=feature_importances(forest, self._encoder),
            train_score_=self.train_score_[until],
            validation_score_=self.validation_score_[until],
            evals_result_={
                name: {metric: scores[until] for metric, scores in evals.items()}
                for name, evals in self.evals_result_.items()
            },
        )
        return shorter

    # Saved models

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""
        encoder_values, encoder_arrays = self._encoder.state()
        values = {
            "encoder": encoder_values,
            "n_iter": self.n_iter_,
            "seed": self._seed,
            "order": self._forest.order,
        }
        if self._max_leaf_nodes != usual_leaves(self):
            values["max_leaf_nodes"] = self._max_leaf_nodes
        arrays = {
            "train_score": self.train_score_,
            "validation_score": self.validation_score_,
            "feature_importances": self.feature_importances_,
        }
        forest = model_file.as_section(to_file(self._forest.pack()), "forest")
        return values, arrays | encoder_arrays | forest

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> BoostedSequenceClassifier:
        if self.scoring is None:  # files have no functions
            self.scoring = type(self).scoring
        self._validate_params()

        def check_size(n_labels: int, order: int) -> None:
            replace(self._kind(), order=order).check_size(n_labels, 1)

        trees = restored_trees(values, arrays, self._encoder_class, check_size)
        self.classes_ = trees.classes
        self._encoder = trees.encoder
        self._forest = trees.forest
        self.n_iter_ = trees.forest.n_iter
        self._seed = values["seed"]
        self._max_leaf_nodes = values.get("max_leaf_nodes", usual_leaves(self))
        model_file.check_counts(self._seed, self._max_leaf_nodes)
        model_file.require(self._max_leaf_nodes > 1, "leaves")
        self.multi_strategy_ = strategy_of(self._forest)
        self.window_ = self._window_of(self._encoder)
        self.train_score_ = arrays["train_score"]
        self.validation_score_ = arrays["validation_score"]
        self.feature_importances_ = arrays["feature_importances"]
        self.evals_result_: dict[str, dict[str, np.ndarray]] = {}
        self.n_features_in_ = self._encoder.n_features
        model_file.check_history(self.n_iter_, self.train_score_, self.validation_score_)
        model_file.check_series(self.feature_importances_, self.n_features_in_)
        vars(self).update(names_in(self._encoder.names))
        return self


@dataclass(frozen=True)
class EstimatorDecoder:
    """Predicts validation sequences by the decoding of an estimator."""

    estimator: BoostedSequenceClassifier  # parameters, not fitted

    def predict(
        self, trained: Trained, scores: TrainingScores, data: EncodedPart, n_jobs: int | None
    ) -> np.ndarray:
        """Return codes of labels, or all probabilities, which ``"neg_log_loss"`` needs."""
        model = self.estimator._fitted_copy(self.estimator._model_attributes(trained))
        model.n_jobs = n_jobs
        predictor = fitted_model(model).predictor
        lattice = scores.lattice(model.order)
        sequences = data.source.sequences
        allowed = data.source.allowed
        if resolved_scoring(model.scoring) == NEG_LOG_LOSS:
            if lattice is not None:
                return lattice.marginals()
            probabilities = predictor.in_runs(sequences, allowed, predictor.proba_in)
            return np.concatenate(predictor.as_read(probabilities))
        if lattice is not None:
            return predictor.best_codes(lattice)
        return predictor.codes(sequences, allowed)


def feature_importances(forest: Forest, encoder: Encoder) -> np.ndarray:
    """Return the fraction of the total gain due to each feature; float64 array (n_features,)."""
    gains = encoder.by_feature(forest.gains(len(encoder.columns)))
    return gains / max(gains.sum(), np.finfo(float).tiny)


def common_tree_settings(model: BoostedSequenceClassifier, has_curvature: bool) -> TreeSettings:
    """Return the settings of trees, without those that depend on the data."""
    max_depth = -1 if model.max_depth is None else min(model.max_depth, MAX_DEPTH)
    max_leaf_nodes = leaf_choices(model)[0]
    penalty = model.l2_regularization
    if model.max_leaf_nodes == "auto" and max_leaf_nodes == LARGE:
        penalty = penalty_of_large(penalty)
    return TreeSettings(
        max_leaf_nodes=max_leaf_nodes,
        l2_regularization=penalty,
        learning_rate=model.learning_rate,
        depth_limit=max_depth,
        min_gain=model.min_gain,
        # Each child has an example, or fractions of some, anyway.
        min_examples=0 if model.min_samples_leaf == 1 else model.min_samples_leaf,
        max_features=model.max_features,
        max_features_per_tree=model.max_features_per_tree,
        subsample=model.subsample,
        max_leaf_value=MAX_NEWTON_STEP if has_curvature else np.inf,
    )


def iterations_of(model: BoostedSequenceClassifier) -> tuple[int, int]:
    """Return the most iterations if held-out data end training, and their number if none do."""
    if model.max_iter != "auto":
        return model.max_iter, model.max_iter
    unstopped = N_ITER
    if model.warm_start and hasattr(model, "_forest"):
        unstopped = max(unstopped, model.n_iter_)
    return (MAX_ITER if model.early_stopping else unstopped), unstopped


def leaf_choices(model: BoostedSequenceClassifier) -> tuple[int, ...]:
    """Return the maximum numbers of leaves to choose from; in a warm start, that of the model."""
    if model.max_leaf_nodes != "auto":
        return (model.max_leaf_nodes,)
    if model.warm_start and hasattr(model, "_forest"):
        return (model._max_leaf_nodes,)
    return (SMALL, LARGE)


def usual_leaves(model: BoostedSequenceClassifier) -> int:
    """Return the maximum number of leaves without a choice, which saved models do not state."""
    return SMALL if model.max_leaf_nodes == "auto" else model.max_leaf_nodes


def strategy_of(forest: Forest) -> str:
    """Return the value of ``multi_strategy`` that the trees have."""
    return MULTI_OUTPUT if forest.is_multi_output else ONE_OUTPUT


def multi_outputs_of(model: BoostedSequenceClassifier) -> tuple[bool, ...]:
    """Return whether an iteration may have one tree for all labels: what there is to choose from.

    ValueError if it cannot have one, and the parameter requires it.
    """
    if model.multi_strategy == ONE_OUTPUT:
        return (False,)
    if model.multi_strategy == "auto" and model.warm_start and hasattr(model, "_forest"):
        return (model._forest.is_multi_output,)
    reason = why_no_multi_output(model)
    if model.multi_strategy == "auto":
        return (False,) if reason is not None else (False, True)
    if reason is not None:
        raise ValueError(reason)
    return (True,)


def why_no_multi_output(model: BoostedSequenceClassifier) -> str | None:
    """Return why an iteration cannot have one tree for all labels; None if it can."""
    may_have_one_context = model.order == 0 or getattr(model, "constant_transitions", False)
    for name, is_supported, expected in (
        ("order", may_have_one_context, "0, or constant_transitions"),
        ("beam_width", getattr(model, "beam_width", None) is None, "None"),
        ("missing", model.missing != "surrogate", "'weighting'"),
        ("monotonic_cst", model.monotonic_cst is None, "None, or a tree for each label"),
        ("sampling", model.sampling in (None, "auto"), "None or 'auto'"),
    ):
        if not is_supported:
            return (
                f"{name}={getattr(model, name)!r} with multi_strategy={MULTI_OUTPUT!r}; expected "
                f"{expected}"
            )
    return None
