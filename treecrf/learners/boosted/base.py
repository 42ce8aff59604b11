"""Base class of the classifiers with boosted trees: their training."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import check_order
from treecrf.chains.lattice import require_memory
from treecrf.chains.objectives import ChainLabels, Objective
from treecrf.chains.sampling import TableSampler
from treecrf.encoding.encoder import METHODS, Encoder
from treecrf.encoding.sequence_keys import sequence_keys
from treecrf.inputs.dataset import RawData
from treecrf.inputs.schema import InputSchema
from treecrf.learners.boosted.loop import (
    Booster,
    IterationWeights,
    boost,
    report_to,
)
from treecrf.learners.boosted.model import BoostedModel, feature_importances, starting_scores
from treecrf.learners.boosted.parted.booster import FleetBooster, LocalShards
from treecrf.learners.boosted.parted.encoding import encoded_labeled
from treecrf.learners.boosted.parted.parts import EncodedLabeled, EncodedPart
from treecrf.learners.boosted.parted.steps import ShardSetup, Totals
from treecrf.learners.boosted.parted.training import fit_parts
from treecrf.learners.boosted.sampled import ListedPositions, Sampling
from treecrf.learners.boosted.scores import ExampleSampler, Scores, TableScores
from treecrf.learners.boosted.selection import Choice, choose
from treecrf.learners.boosted.start import LinearStart, table_of_parts
from treecrf.learners.boosted.transitions import TransitionGrowth
from treecrf.learners.boosted.tree_constraints import INTERACTIONS, read_constraints
from treecrf.learners.class_weights import count_labels, label_weights, multiplied_weights
from treecrf.learners.effects import Needs
from treecrf.learners.evaluation import (
    NEG_LOG_LOSS,
    OBJECTIVES,
    SCORINGS,
    Evaluations,
    LabelScore,
    Scored,
    TrueLabels,
    metric_of,
)
from treecrf.learners.iterations import MAX_LEARNING_RATE, Callbacks, IterationInfo
from treecrf.learners.stopping import History, Stopping
from treecrf.learners.training_data import (
    FitArguments,
    LabeledSequences,
    TrainingInput,
    has_validation,
)
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.utils.fleet import Fleet, LocalFleet
from treecrf.utils.progress import Progress
from treecrf.utils.threads import Threads
from treecrf.utils.validation import Interval, StrOptions
from treecrf.utils.warn import warn

# Bounds the leaf values of Newton steps, which can be far too large if the curvature is small.
MAX_NEWTON_STEP = 4.0


class BoostedSequenceClassifier(BoostedModel):
    """Base class of the sequence classifiers whose scores are sums of regression trees.

    Subclasses define the objective (`_objective`).
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
        return self._trained_on(self._prepare(arguments), arguments.callbacks)

    def _trained_on(self, data: TrainingInput, callbacks: Callbacks) -> dict:
        """Train on data that have been read, and return the fitted attributes."""
        self._check_size(len(data.classes), self.order, data.training.sequences.n_positions)
        choice = choose(self, data)
        data, encoder, forest = self._started(data, choice.init)
        trained = self._boost(data, encoder, forest, choice, callbacks)
        return self._fitted_attributes(data, forest, *trained)

    def _train_parts(self, fleet: Fleet, arguments: FitArguments) -> dict:
        """Train on parts, each a `RawData`, and return the fitted attributes.

        The validation data are `RawData`, or a fleet in the same place.
        """
        if not self._supports_parts() or arguments.eval_sets:
            return super()._train_parts(fleet, arguments)
        given, validation = arguments.validation, arguments.validation
        if isinstance(given, RawData):
            arguments.check_init_scores()
            validation = LocalFleet([given]) if has_validation(given) else None
        return fit_parts(
            self, fleet, validation, allowed=arguments.allowed, callbacks=arguments.callbacks
        )

    def _supports_parts(self) -> bool:
        """Return whether parts of the data need not be joined for training."""
        return True

    def _draws_in_parts(self) -> bool:
        """Return whether examples of a part are drawn without the other parts."""
        return True

    def _check_training(self) -> None:
        """Raise an error if parameters cannot be combined."""

    # What training starts from

    def _started(self, data: TrainingInput, init: Any) -> tuple[TrainingInput, Encoder, Forest]:
        """Return the data with the model to start from, and the encoder and the forest."""
        if data.earlier:
            encoder = data.earlier["_encoder"].widened(data.training.sequences.longest)
            forest = data.earlier["_forest"].copy()
        else:
            encoder = Encoder(self._window(), self.max_bins, self.missing)
            encoder.fit(data.training.sequences, data.seed)
            forest = self._new_forest(len(data.classes))
        return replace(data, start=self._fit_start(data, init)), encoder, forest

    def _new_forest(self, n_labels: int) -> Forest:
        return Forest(n_labels, self.order)

    def _candidates(self) -> list:
        """Return the starts to choose from; without data to judge them by, several are None."""
        return [None]

    def _fit_start(self, data: TrainingInput, init: Any) -> LinearStart | None:
        """Return the model whose scores the trees start from; None stands for scores of 0."""
        return None

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

    # Iterations

    def _boost(
        self,
        data: TrainingInput,
        encoder: Encoder,
        forest: Forest,
        choice: Choice,
        callbacks: Callbacks,
    ) -> tuple[Encoder, History]:
        """Add trees to the forest; return the encoder for the forest, and the scores."""
        with Threads(self.n_jobs) as threads:
            booster = self._booster(data, encoder, forest, threads)
            validation = self._scored(data, data.held_out, encoder, threads)
            sets = [
                None if part is data.held_out else self._scored(data, part, encoder, threads)
                for part in data.evaluated
            ]
            evaluations = Evaluations(sets, validation, self._scoring)
            history = self._boost_by(booster, evaluations, data, encoder, choice, callbacks)
        return encoder, history

    def _boost_by(
        self,
        booster: Booster | FleetBooster,
        evaluations: Evaluations,
        data: TrainingInput,
        encoder: Encoder,
        choice: Choice,
        callbacks: Callbacks,
    ) -> History:
        """Run the iterations of a booster; return the scores."""
        n_iter, forest = choice.n_iter, booster.forest
        with Progress(self.verbose, forest.n_iter, n_iter, type(self).__name__) as progress:
            validation = evaluations.validation
            value = None if validation is None else validation.value(forest)
            history = _history_before(data.earlier, value)
            evaluations.start(history, data.earlier.get("evals_result_", {}), forest)
            show = report_to(progress, self._value_name)

            def info(n_done: int) -> IterationInfo:
                def model() -> BoostedSequenceClassifier:
                    return self._copy_at(data, encoder, booster, history)

                name = type(self).__name__
                return IterationInfo(name, n_done, n_iter, history, model, booster)

            def report(n_done: int, history: History) -> bool:
                show(n_done, history)
                evaluations.add_to(history, forest)
                return callbacks.after(info(n_done))

            callbacks.start(info(forest.n_iter))
            stopping = self._stopping()
            history = boost(booster, n_iter, validation, stopping, report, history)
        self._warn_of_end(history)
        return replace(history, validation=choice.scores or history.validation)

    def _copy_at(
        self, data: TrainingInput, encoder: Encoder, booster: Booster, history: History
    ) -> BoostedSequenceClassifier:
        """Return a copy that is fitted with the iterations so far."""
        history = replace(history, train=[*history.train, booster.value()])
        fitted = self._attributes_of(data, booster.forest.copy(), encoder, history)
        return self._fitted_copy(fitted)

    def _stopping(self) -> Stopping | None:
        return Stopping(self.n_iter_no_change, self.tol) if self.early_stopping else None

    def _warn_of_end(self, history: History) -> None:
        """Warn if the score was still improving in the last iteration, with early stopping."""
        if self.early_stopping in (False, "auto") or not history.is_at_best():
            return
        if len(history.train) > self.max_iter:
            warn(
                "early stopping did not end training: the score of the validation sequences was "
                f"still improving at max_iter={self.max_iter}; raise max_iter",
                ConvergenceWarning,
            )

    # Boosters

    def _booster(
        self, data: TrainingInput, encoder: Encoder, forest: Forest, threads: Threads
    ) -> Booster | FleetBooster:
        """Make the booster that adds trees to the forest."""
        sampling = self._sampling(len(data.classes), len(data.training.codes))
        if sampling is not None:
            return self._sampled_booster(data, encoder, forest, sampling, threads)
        training, classes = data.training, data.classes
        return self._booster_class()(
            forest,
            encoder,
            encoder.encode(training.sequences, threads),
            self._objective_of(training, classes, threads),
            self._growth(data, encoder),
            self._position_weights(training, self._weights_of_labels(training, classes)),
            threads,
            starting_scores(data.start, training.sequences, self.order, threads),
        )

    def _booster_class(self) -> type[Booster]:
        return Booster

    def _growth(self, data: TrainingInput, encoder: Encoder) -> Growth:
        constraints = self.monotonic_cst, self.interaction_cst
        return Growth(
            max_leaf_nodes=self.max_leaf_nodes,
            l2_regularization=self.l2_regularization,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            min_gain=self.min_gain,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            max_features_per_tree=self.max_features_per_tree,
            subsample=self.subsample,
            max_leaf_value=MAX_NEWTON_STEP if self._is_newton() else np.inf,
            seed=data.seed,
            constraints=read_constraints(*constraints, encoder, data.classes),
        )

    def _is_newton(self) -> bool:
        """Return whether training uses Newton steps."""
        return bool(self.second_order)

    def _weights_of_labels(self, data: LabeledSequences, classes: np.ndarray) -> np.ndarray:
        """Return the weight of each label in tree fitting."""
        return label_weights(self.class_weight, classes, count_labels(data, len(classes)))

    def _position_weights(self, data: LabeledSequences, of_labels: np.ndarray) -> np.ndarray:
        """Return the weight of each position in tree fitting, given the weights of the labels."""
        return multiplied_weights(of_labels, data)

    # Samples of the examples

    def _sampling(self, n_labels: int, n_positions: int) -> Sampling | None:
        """Return the sampling of the examples that trees are fitted to; None for all of them."""
        n_scores = self._n_scores(n_labels)
        return Sampling.of_parameters(self.sampling, self.max_examples, n_positions, n_scores)

    def _n_scores(self, n_labels: int) -> int:
        """Return the number of scores of a position in training."""
        return n_labels ** (self.order + 1)

    def _sampled_booster(
        self,
        data: TrainingInput,
        encoder: Encoder,
        forest: Forest,
        sampling: Sampling,
        threads: Threads,
    ) -> FleetBooster:
        """Make the booster that adds trees grown on samples of the examples to the forest."""
        training, classes = data.training, data.classes
        weights = self._position_weights(training, self._weights_of_labels(training, classes))
        encoded = encoder.encode(training.sequences, threads)
        masks, ties = (training.allowed, training.candidates), [weights, *training.ties]
        keys = sequence_keys(encoded, training.codes, *masks, ties=ties)
        labeled = encoded_labeled(training, encoded, data.start, threads, weights)
        part = EncodedPart(replace(labeled, keys=keys), None)
        growth, totals = self._growth(data, encoder), Totals.of(part)
        setup = ShardSetup(self, classes, encoder, growth, sampling, totals)
        shards = LocalShards.of(LocalFleet([part]), setup, n_threads=threads.n_threads)
        return FleetBooster(forest, shards, setup, self.max_iter)

    def _listed_positions(self, data: EncodedLabeled, n_labels: int) -> ListedPositions:
        """Return what trees test at the positions of examples."""
        return ListedPositions(data.encoded, data.encoded.depth_of(self.order), None)

    def _example_sampler(
        self,
        data: EncodedLabeled,
        classes: np.ndarray,
        encoder: Encoder,
        growth: Growth,
        threads: Threads,
    ) -> ExampleSampler:
        """Return the sampler of training sequences, at the scores before any trees."""
        objective = self._objective_of(data, classes, threads)
        return ExampleSampler(
            self._scores_with(objective, data, classes, encoder, threads, True),
            TableSampler(data.offsets, self.order, threads, data.keys),
            IterationWeights.of(data.position_weights, data.offsets, data.keys, growth),
        )

    def _scores_with(
        self,
        objective: Objective,
        data: EncodedLabeled,
        classes: np.ndarray,
        encoder: Encoder,
        threads: Threads,
        is_sampled: bool,
    ) -> Scores:
        """Return the scores that trees are added to, which may be grown on samples."""
        start = table_of_parts(data.start_state, data.start_transitions, data.offsets, self.order)
        return TableScores(encoder, data.encoded, objective, threads, start)

    def _transition_growth(self, forest: Forest, growth: Growth) -> TransitionGrowth | None:
        """Return the growth of constant transitions, if there are any."""
        return None

    # Validation data

    def _scored(
        self,
        data: TrainingInput,
        held_out: LabeledSequences | None,
        encoder: Encoder,
        threads: Threads,
    ) -> Scored | None:
        """Return validation data that are scored by ``scoring``."""
        validation = self._validation(replace(data, held_out=held_out), encoder, threads)
        if validation is None or self._scoring in OBJECTIVES:
            return validation
        offsets, candidates = held_out.sequences.offsets, held_out.candidates
        true = TrueLabels(held_out.codes, offsets, candidates, held_out.weights)
        metric = metric_of(self._scoring, true, data.classes, self._is_backward())

        def predict(forest: Forest) -> np.ndarray:
            return self._scored_predictions(validation, held_out, data, forest, encoder)

        return LabelScore(validation, metric, predict)

    def _scored_predictions(
        self,
        validation: Scores,
        held_out: LabeledSequences | EncodedLabeled,
        data: TrainingInput,
        forest: Forest,
        encoder: Encoder,
    ) -> np.ndarray:
        """Return the predictions for validation sequences that ``scoring`` needs.

        These are the codes of labels, or with ``"neg_log_loss"`` the probabilities of all labels.
        """
        copied = self._fitted_copy(self._model_attributes(data, forest, encoder))
        lattice = validation.lattice(self.order)
        if self._scoring == NEG_LOG_LOSS:
            if lattice is not None:
                return lattice.marginals()
            return np.concatenate(
                copied._as_read(copied._proba(held_out.sequences, held_out.allowed))
            )
        if lattice is not None:
            return copied._best_codes(lattice)
        labels = copied._as_read(copied._labels(held_out.sequences, held_out.allowed))
        return np.searchsorted(data.classes, np.concatenate(labels))

    def _validation(self, data: TrainingInput, encoder: Encoder, threads: Threads) -> Scores | None:
        """Return the scores of the validation sequences, if any."""
        held_out = data.held_out
        if held_out is None:
            return None
        is_sampled = self._sampling(len(data.classes), len(data.training.codes)) is not None
        encoded = encoder.encode(held_out.sequences, threads)
        labeled = encoded_labeled(held_out, encoded, data.start, threads)
        return self._validation_scores(labeled, data.classes, encoder, threads, is_sampled)

    def _validation_scores(
        self,
        data: EncodedLabeled,
        classes: np.ndarray,
        encoder: Encoder,
        threads: Threads,
        is_sampled: bool,
    ) -> Scores:
        objective = self._validation_objective(data, classes, threads)
        return self._scores_with(objective, data, classes, encoder, threads, is_sampled)

    # Objectives

    def _objective_of(
        self, data: LabeledSequences | EncodedLabeled, classes: np.ndarray, threads: Threads
    ) -> Objective:
        chains = ChainLabels(
            data.offsets,
            data.codes,
            len(classes),
            self.order,
            self._constraints_of(data, classes),
            data.candidates,
            data.weights,
        )
        return self._objective(chains, threads)

    @abstractmethod
    def _objective(self, data: ChainLabels, threads: Threads) -> Objective:
        """Return the objective that training maximizes."""

    def _validation_objective(
        self, data: LabeledSequences | EncodedLabeled, classes: np.ndarray, threads: Threads
    ) -> Objective:
        """Return the objective that is reported for validation data."""
        return self._objective_of(data, classes, threads)

    def _constraints_of(
        self, data: LabeledSequences | EncodedLabeled, classes: np.ndarray
    ) -> Constraints:
        """Return the constraints on the labels of training or validation data."""
        return Constraints.of_parameters(
            self.transitions,
            self.order,
            classes,
            data.offsets,
            data.allowed,
            self._is_backward(),
        )

    # Limits of memory

    def _check_size(self, n_labels: int, order: int, n_positions: int) -> None:
        """Raise an error if training would not fit in memory or in the kernels' integers."""
        check_order(n_labels, order, self._alternative)
        require_memory(n_labels, order, n_positions, 2 + self._is_newton())

    def _check_size_of_part(self, n_labels: int, n_positions: int) -> None:
        """Raise an error if a part of the data is too large for training on parts."""
        self._check_size(n_labels, self.order, n_positions)

    # Fitted attributes

    def _fitted_attributes(
        self, data: TrainingInput, forest: Forest, encoder: Encoder, history: History
    ) -> dict:
        """Return the fitted attributes; with early stopping, of the best iteration."""
        n_kept = history.kept(self._stopping())
        return self._attributes_of(data, forest.copy(n_kept), encoder, history.until(n_kept))

    def _attributes_of(
        self, data: TrainingInput, forest: Forest, encoder: Encoder, history: History
    ) -> dict:
        """Return the fitted attributes for all iterations of the forest."""
        fitted = {
            "n_features_in_": encoder.n_features,
            "n_iter_": forest.n_iter,
            "feature_importances_": feature_importances(forest, encoder),
            "evals_result_": history.evals_result(),
            "_seed": data.seed,
        }
        fitted |= self._feature_names(encoder.names) | history.scores()
        return fitted | self._model_attributes(data, forest, encoder)

    def _model_attributes(self, data: TrainingInput, forest: Forest, encoder: Encoder) -> dict:
        """Return the fitted attributes that predictions depend on."""
        model = {"classes_": data.classes, "_encoder": encoder, "_forest": forest}
        return model | self._trained_settings()


def _history_before(earlier: dict, value: float | None) -> History:
    """Return the scores before training: of the earlier fit, and of the start."""
    if earlier:
        return History.resumed(earlier["train_score_"], earlier["validation_score_"], value)
    return History([], [] if value is None else [value])
