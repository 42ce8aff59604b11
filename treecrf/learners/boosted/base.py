"""Base class of the classifiers with boosted trees: their training."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from treecrf.encoding.encoder import METHODS
from treecrf.inputs.dataset import RawData
from treecrf.inputs.schema import InputSchema
from treecrf.learners.boosted.encoded import EncodedLabeled
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.labeled import TrainingParts, read_partitions
from treecrf.learners.boosted.model import BoostedModel, feature_importances
from treecrf.learners.boosted.scores import Scores
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.learners.boosted.training import train
from treecrf.learners.boosted.tree_constraints import INTERACTIONS
from treecrf.learners.evaluation import NEG_LOG_LOSS, OBJECTIVES, SCORINGS
from treecrf.learners.iterations import MAX_LEARNING_RATE, Callbacks, Stopping
from treecrf.learners.parameters import Needs
from treecrf.learners.training_data import FitArguments, has_validation
from treecrf.utils.partitions import LocalPartitions, Partitions
from treecrf.utils.scratch import Allocate
from treecrf.utils.validation import Interval, StrOptions


class BoostedSequenceClassifier(BoostedModel):
    """Base class of the sequence classifiers whose scores are sums of regression trees.

    Subclasses define the kind of chains (`_kind`).
    """

    _parameter_constraints: ClassVar[dict] = {
        **BoostedModel._parameter_constraints,
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left")],
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
        "max_examples": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
        "missing": [StrOptions(set(METHODS))],
        "monotonic_cst": ["array-like", dict, None],
        "interaction_cst": [StrOptions(set(INTERACTIONS)), list, tuple, set, None],
        "early_stopping": [StrOptions({"auto"}), "boolean"],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "scoring": [StrOptions(SCORINGS), callable],
    }

    _needed: ClassVar[dict[str, Needs]] = BoostedModel._needed | {
        "tol": Needs("early_stopping", (True, "auto")),
        "max_examples": Needs("sampling", unless=(None,)),
    }

    # Where the constructor does not take them.
    monotonic_cst: Any = None
    interaction_cst: Any = None

    # Name of the objective in the progress display.
    _value_name = "log-likelihood"

    def _train(self, arguments: FitArguments) -> dict:
        """Train and return the fitted attributes; the estimator itself does not change."""
        self._check_training()
        data = TrainingParts.of(self._prepare(arguments))
        return self._trained(data, arguments.callbacks)

    def _train_parts(self, partitions: Partitions, arguments: FitArguments) -> dict:
        """Train on parts, each a `RawData`, and return the fitted attributes.

        The validation data are `RawData`, or partitions in the same place.
        """
        if not self._supports_parts() or arguments.eval_sets:
            return super()._train_parts(partitions, arguments)
        given, validation = arguments.validation, arguments.validation
        if isinstance(given, RawData):
            arguments.check_init_scores()
            validation = LocalPartitions([given]) if has_validation(given) else None
        self._check_training()
        data = read_partitions(self, partitions, validation, arguments.allowed)
        return self._trained(data, arguments.callbacks, partitions.allocate)

    def _trained(
        self, data: TrainingParts, callbacks: Callbacks, allocate: Allocate | None = None
    ) -> dict:
        """Train on data that have been read, and return the fitted attributes."""
        trained = train(self._spec(), data, callbacks, self._copy_of, allocate)
        return self._attributes_of(trained)

    def _supports_parts(self) -> bool:
        """Return whether parts of the data need not be joined for training."""
        return True

    def _check_training(self) -> None:
        """Raise an error if parameters cannot be combined."""

    # Settings

    def _spec(self) -> BoostingSpec:
        """Return the settings of training."""
        names = {field.name for field in fields(BoostingSpec)}
        predictor = None if self._scoring in OBJECTIVES else ScoringPredictor(self._fitted_copy({}))
        settings = {
            "name": type(self).__name__,
            "value_name": self._value_name,
            "kind": self._kind(),
            "window": self._window(),
            "starts": self._starts(),
            "linear": {"window": self.window, "transitions": self.transitions},
            "scoring": self._scoring,
            "predictor": predictor,
        }
        return BoostingSpec(
            **settings, **{name: getattr(self, name) for name in names - settings.keys()}
        )

    @abstractmethod
    def _kind(self) -> ChainKind:
        """Return what training does with the sequences."""

    def _starts(self) -> list:
        """Return the starts to choose from; without data to judge them by, several are None."""
        return [None]

    def _is_newton(self) -> bool:
        """Return whether training uses Newton steps."""
        return bool(self.second_order)

    def _check_size(self, n_labels: int, order: int, n_positions: int) -> None:
        """Raise an error if training would not fit in memory or in the kernels' integers."""
        replace(self._kind(), order=order).check_size(n_labels, n_positions)

    # Warm start

    def _required_schema(self, earlier: dict) -> InputSchema | None:
        return earlier["_encoder"].schema if earlier else None

    def _earlier_fit(self) -> dict:
        earlier = super()._earlier_fit()
        if earlier and self.max_iter < self.n_iter_:
            raise ValueError(
                f"warm start: max_iter={self.max_iter} is less than the {self.n_iter_} iterations "
                "of the model"
            )
        return earlier

    def _fixed_settings(self) -> dict[str, Any]:
        encoder = self._encoder
        return {
            "order": self._forest.order, "window": encoder.max_window, "missing": encoder.missing
        }  # fmt: skip

    def _stopping(self) -> Stopping | None:
        return Stopping(self.n_iter_no_change, self.tol) if self.early_stopping else None

    # Fitted attributes

    def _copy_of(self, trained: Trained) -> BoostedSequenceClassifier:
        """Return a fitted copy."""
        return self._fitted_copy(self._attributes_of(trained))

    def _attributes_of(self, trained: Trained) -> dict:
        """Return the fitted attributes."""
        encoder, forest, history = trained.encoder, trained.forest, trained.history
        fitted = {
            "n_features_in_": encoder.n_features,
            "n_iter_": forest.n_iter,
            "feature_importances_": feature_importances(forest, encoder),
            "evals_result_": history.evals_result(),
            "_seed": trained.seed,
        }
        fitted |= self._feature_names(encoder.names) | history.scores()
        return fitted | self._model_attributes(trained)

    def _model_attributes(self, trained: Trained) -> dict:
        """Return the fitted attributes that predictions depend on."""
        model = {
            "classes_": trained.classes, "_encoder": trained.encoder, "_forest": trained.forest
        }  # fmt: skip
        return model | self._trained_settings()


@dataclass(frozen=True)
class ScoringPredictor:
    """Predictions of validation sequences by the decoding of an estimator, for ``scoring``."""

    estimator: BoostedSequenceClassifier  # parameters, not fitted

    def predictions(
        self, trained: Trained, scores: Scores, data: EncodedLabeled, n_jobs: int | None
    ) -> np.ndarray:
        """Return the codes of labels, or with ``"neg_log_loss"`` all probabilities."""
        model = self.estimator._fitted_copy(self.estimator._model_attributes(trained))
        model.n_jobs = n_jobs
        lattice = scores.lattice(model.order)
        if model._scoring == NEG_LOG_LOSS:
            if lattice is not None:
                return lattice.marginals()
            return np.concatenate(model._as_read(model._proba(data.sequences, data.allowed)))
        if lattice is not None:
            return model._best_codes(lattice)
        labels = model._as_read(model._labels(data.sequences, data.allowed))
        return np.searchsorted(trained.classes, np.concatenate(labels))
