"""Base class of the classifiers with boosted trees: training, scores, saved state."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from treecrf.chains.constraints import Constraints, as_transitions
from treecrf.chains.contexts import check_order
from treecrf.chains.lattice import Lattice, require_memory
from treecrf.chains.objectives import Objective
from treecrf.chains.sampling import TableSampler
from treecrf.encoding.encoded import EncodedColumns
from treecrf.encoding.encoder import METHODS, Encoder
from treecrf.encoding.sequence_keys import sequence_keys
from treecrf.inputs.labels import RawData
from treecrf.inputs.offsets import split
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.evaluation import (
    METRICS,
    NEG_LOG_LOSS,
    OBJECTIVES,
    Evaluations,
    LabelScore,
    Scored,
    TrueLabels,
    metric_of,
)
from treecrf.learners.boosted.loop import (
    Booster,
    IterationWeights,
    Validation,
    boost,
    report_to,
)
from treecrf.learners.boosted.parted.parts import EncodedLabeled
from treecrf.learners.boosted.sampled import (
    ListedPositions,
    ListGrowth,
    PartsValidation,
    SampledBooster,
    Sampling,
)
from treecrf.learners.boosted.selection import (
    MAX_EXAMPLES,
    MAX_POSITIONS,
    Choice,
    best_start,
    cross_validated,
    first_sample,
    folds,
    second_sample,
)
from treecrf.learners.boosted.start import LinearStart, starting_parts, table_of_parts
from treecrf.learners.boosted.training_scores import TableScores, TrainingScores
from treecrf.learners.boosted.transitions import TransitionGrowth
from treecrf.learners.boosted.tree_constraints import INTERACTIONS, read_constraints
from treecrf.learners.effects import Needs
from treecrf.learners.iterations import Callbacks, IterationInfo
from treecrf.learners.learner import SequenceLearner
from treecrf.learners.stopping import History, Stopping
from treecrf.learners.training_data import (
    FitArguments,
    LabeledSequences,
    TrainingInput,
    count_labels,
    has_validation,
    label_weights,
    multiplied_weights,
)
from treecrf.trees.forest import Forest, check_forest
from treecrf.trees.growing.growth import Growth
from treecrf.utils import checks, model_file
from treecrf.utils.fleet import Fleet, LocalFleet
from treecrf.utils.progress import Progress
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LengthsLike, ScoresLike, SequencesLike
from treecrf.utils.validation import Interval, StrOptions
from treecrf.utils.warn import warn

# With the default parameters, nothing is random.
CHOICE_SEED = 0
# Bounds the leaf values of Newton steps, which can be far too large if the curvature is small.
MAX_NEWTON_STEP = 4.0


def _has_iterations(model: BoostedSequenceClassifier) -> bool:
    model._require_iterations()
    return True


class BoostedSequenceClassifier(SequenceLearner):
    """Base class of the sequence classifiers whose scores are sums of regression trees.

    Subclasses define the objective (`_objective`).
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceLearner._parameter_constraints,
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left")],
        "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither")],
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
        "scoring": [StrOptions({*OBJECTIVES, *METRICS}), callable],
    }

    _needed: ClassVar[dict[str, Needs]] = SequenceLearner._needed | {
        "tol": Needs("early_stopping", (True, "auto")),
        "max_examples": Needs("sampling", unless=(None,)),
    }

    # Advice for the case of too many contexts, for error messages.
    _alternative: ClassVar[str]

    # Model whose scores the trees start from.
    _start: LinearStart | None = None

    # Where the constructor does not take them.
    scoring: Any = "loss"
    monotonic_cst: Any = None
    interaction_cst: Any = None

    # Name of the objective in the progress display.
    _value_name = "log-likelihood"

    _fitted: ClassVar[tuple[str, ...]] = ("_forest", "_encoder", "_seed")

    # Training

    def _train(self, arguments: FitArguments) -> dict:
        """Train and return the fitted attributes; the estimator itself does not change."""
        self._check_training()
        return self._trained_on(self._prepare(arguments), arguments.callbacks)

    def _trained_on(self, data: TrainingInput, callbacks: Callbacks) -> dict:
        """Train on data that have been read, and return the fitted attributes."""
        self._check_size(len(data.classes), self.order, data.training.sequences.n_positions)
        choice = self._choose(data)
        data, encoder, forest = self._started(data, choice.init)
        trained = self._boost(data, encoder, forest, choice, callbacks)
        return self._fitted_attributes(data, forest, *trained)

    def _train_parts(self, fleet: Fleet, arguments: FitArguments) -> dict:
        """Train on parts, each a `RawData`, and return the fitted attributes.

        The validation data are `RawData`, or a fleet in the same place.
        """
        # This module imports the estimators' base class.
        from treecrf.learners.boosted.parted.training import fit_parts

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

    def _started(self, data: TrainingInput, init: Any) -> tuple[TrainingInput, Encoder, Forest]:
        """Return the data with the model to start from, and the encoder and the forest."""
        if data.earlier:
            encoder, forest = data.earlier["_encoder"], data.earlier["_forest"].copy()
        else:
            encoder = Encoder(self._window(), self.max_bins, self.missing)
            encoder.fit(data.training.sequences, data.seed)
            forest = self._new_forest(len(data.classes))
        return replace(data, start=self._fit_start(data, init)), encoder, forest

    def _new_forest(self, n_labels: int) -> Forest:
        return Forest(n_labels, self.order)

    def _fit_start(self, data: TrainingInput, init: Any) -> LinearStart | None:
        """Return the model whose scores the trees start from; None stands for scores of 0."""
        return None

    def _choose(self, data: TrainingInput) -> Choice:
        """Choose the start, and with ``early_stopping="auto"`` the number of iterations."""
        n_positions = len(data.training.codes)
        limit = self._n_compared(len(data.classes), n_positions, data.held_out is not None)
        if limit is None:
            return self._plain_choice()
        training, is_whole = first_sample(data.training, limit, CHOICE_SEED), n_positions <= limit
        counts_iterations = is_whole and data.held_out is None
        return self._chosen(replace(data, training=training), is_whole, counts_iterations)

    def _plain_choice(self) -> Choice:
        return Choice(self._candidates()[-1], self.max_iter, [])

    def _n_compared(self, n_labels: int, n_positions: int, has_held_out: bool) -> int | None:
        """Return the maximum number of positions for a choice; None if there is none to make."""
        if not self.early_stopping or self.warm_start:
            return None
        limit = min(MAX_POSITIONS, MAX_EXAMPLES // self._n_scores(n_labels))
        counts_iterations = n_positions <= limit and not has_held_out
        return limit if counts_iterations or len(self._candidates()) > 1 else None

    def _chosen(self, data: TrainingInput, is_whole: bool, counts_iterations: bool) -> Choice:
        """Choose as `_choose` does, given all training sequences or the first sample of them."""
        data = replace(data, seed=CHOICE_SEED)
        rules = as_transitions(self.transitions, data.classes, self.order)
        if rules is not None and self._is_backward():
            rules = rules.reversed()
        candidates, n_scores = self._candidates(), self._n_scores(len(data.classes))
        if counts_iterations:
            choice = cross_validated(self, folds(data, n_scores, rules), candidates)
        else:
            limit = min(MAX_POSITIONS, MAX_EXAMPLES // n_scores)
            data = data if is_whole else second_sample(data, limit, rules)
            choice = best_start(self, folds(data, 1, rules), candidates)
        return choice or self._plain_choice()

    def _candidates(self) -> list:
        """Return the starts to choose from; the last one if there is nothing to judge them by."""
        return [None]

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
            "order": self._forest.order, "window": encoder.window, "missing": encoder.missing
        }  # fmt: skip

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
            evaluations = Evaluations(sets, validation, self.scoring)
            history = self._boost_by(booster, evaluations, data, encoder, choice, callbacks)
        return encoder, history

    def _boost_by(
        self,
        booster: Booster | SampledBooster,
        evaluations: Evaluations,
        data: TrainingInput,
        encoder: Encoder,
        choice: Choice,
        callbacks: Callbacks,
    ) -> History:
        """Run the iterations of a booster; return the scores."""
        n_iter, forest, threads = choice.n_iter, booster.forest, booster.threads
        with Progress(self.verbose, forest.n_iter, n_iter, type(self).__name__) as progress:
            validation = evaluations.validation
            value = None if validation is None else validation.value(forest, threads)
            history = _history_before(data.earlier, value)
            evaluations.start(history, data.earlier.get("evals_result_", {}), forest, threads)
            show = report_to(progress, self._value_name)

            def info(n_done: int) -> IterationInfo:
                def model() -> BoostedSequenceClassifier:
                    return self._copy_at(data, encoder, booster, history)

                name = type(self).__name__
                return IterationInfo(name, n_done, n_iter, history, model, booster)

            def report(n_done: int, history: History) -> bool:
                show(n_done, history)
                evaluations.add_to(history, forest, threads)
                return callbacks.after(info(n_done))

            callbacks.start(info(forest.n_iter))
            stopping = self._stopping()
            history = boost(booster, n_iter, validation, stopping, report, history)
        self._warn_of_end(history)
        return replace(history, validation=choice.scores or history.validation)

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

    def _scored(
        self,
        data: TrainingInput,
        held_out: LabeledSequences | None,
        encoder: Encoder,
        threads: Threads,
    ) -> Scored | None:
        """Return validation data that are scored by ``scoring``."""
        validation = self._validation(replace(data, held_out=held_out), encoder, threads)
        if validation is None or self.scoring in OBJECTIVES:
            return validation
        offsets, candidates = held_out.sequences.offsets, held_out.candidates
        true = TrueLabels(held_out.codes, offsets, candidates, held_out.weights)
        metric = metric_of(self.scoring, true, data.classes, self._is_backward())

        def predict(forest: Forest, threads: Threads) -> np.ndarray:
            return self._scored_predictions(validation, held_out, data, forest, encoder, threads)

        return LabelScore(validation, metric, predict)

    def _scored_predictions(
        self,
        validation: Validation,
        held_out: LabeledSequences | EncodedLabeled,
        data: TrainingInput,
        forest: Forest,
        encoder: Encoder,
        threads: Threads,
    ) -> np.ndarray:
        """Return the predictions for validation sequences that ``scoring`` needs.

        These are the codes of labels, or with ``"neg_log_loss"`` the probabilities of all labels.
        """
        copied = self._fitted_copy(self._model_attributes(data, forest, encoder))
        lattice = validation.lattice(self.order, threads)
        if self.scoring == NEG_LOG_LOSS:
            if lattice is not None:
                return lattice.marginals()
            return np.concatenate(
                copied._as_read(copied._proba(held_out.sequences, held_out.allowed))
            )
        if lattice is not None:
            return copied._best_codes(lattice)
        labels = copied._as_read(copied._labels(held_out.sequences, held_out.allowed))
        return np.searchsorted(data.classes, np.concatenate(labels))

    def _copy_at(
        self, data: TrainingInput, encoder: Encoder, booster: Booster, history: History
    ) -> BoostedSequenceClassifier:
        """Return a copy that is fitted with the iterations so far."""
        history = replace(history, train=[*history.train, booster.value()])
        fitted = self._attributes_of(data, booster.forest.copy(), encoder, history)
        return self._fitted_copy(fitted)

    def _booster(
        self, data: TrainingInput, encoder: Encoder, forest: Forest, threads: Threads
    ) -> Booster:
        """Make the `Booster` that adds trees to the forest."""
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
            _starting_scores(data.start, training.sequences, self.order, threads),
        )

    def _sampled_booster(
        self,
        data: TrainingInput,
        encoder: Encoder,
        forest: Forest,
        sampling: Sampling,
        threads: Threads,
    ) -> SampledBooster:
        """Make the booster that adds trees grown on samples of the examples to the forest."""
        training, classes, growth = data.training, data.classes, self._growth(data, encoder)
        weights = self._position_weights(training, self._weights_of_labels(training, classes))
        encoded = encoder.encode(training.sequences, threads)
        masks, ties = (training.allowed, training.candidates), [weights, *training.ties]
        labeled = EncodedLabeled(
            encoded,
            training.codes,
            *masks,
            training.weights,
            weights,
            sequence_keys(encoded, training.codes, *masks, ties=ties),
            *starting_parts(data.start, training.sequences, threads),
        )
        positions = self._listed_positions(labeled, len(classes))
        lists = ListGrowth(forest, encoder, positions, growth, self._is_newton(), threads)
        scores = self._training_scores(labeled, classes, encoder, growth, threads, lists.columns)
        return SampledBooster(scores, lists, sampling, self._transition_growth(forest, growth))

    def _listed_positions(self, data: EncodedLabeled, n_labels: int) -> ListedPositions:
        """Return what trees test at the positions of examples."""
        return ListedPositions(data.encoded, data.encoded.depth_of(self.order), None)

    def _training_scores(
        self,
        data: EncodedLabeled,
        classes: np.ndarray,
        encoder: Encoder,
        growth: Growth,
        threads: Threads,
        columns: EncodedColumns | None = None,
    ) -> TrainingScores:
        """Return the scores of training sequences without those of the trees.

        The ``columns`` are those of the encoded sequences, if there are any already.
        """
        return TableScores(
            encoder,
            data.encoded,
            self._objective_of(data, classes, threads),
            TableSampler(data.offsets, self.order, threads, data.keys, self._is_newton()),
            IterationWeights.of(data.position_weights, data.offsets, data.keys, growth),
            threads,
            table_of_parts(data.start_state, data.start_transitions, data.offsets, self.order),
        )

    def _transition_growth(self, forest: Forest, growth: Growth) -> TransitionGrowth | None:
        """Return the growth of constant transitions, if there are any."""
        return None

    def _sampling(self, n_labels: int, n_positions: int) -> Sampling | None:
        """Return the sampling of the examples that trees are fitted to; None for all of them."""
        n_examples = n_positions * self._n_scores(n_labels)
        return Sampling.of_parameters(self.sampling, self.max_examples, n_examples)

    def _n_scores(self, n_labels: int) -> int:
        """Return the number of scores of a position in training."""
        return n_labels ** (self.order + 1)

    def _validation(
        self, data: TrainingInput, encoder: Encoder, threads: Threads
    ) -> Validation | None:
        """Make the `Validation` that computes the objective on the validation sequences, if any."""
        held_out = data.held_out
        if held_out is None:
            return None
        if self._sampling(len(data.classes), len(data.training.codes)) is not None:
            labeled = EncodedLabeled(
                encoder.encode(held_out.sequences, threads),
                held_out.codes,
                held_out.allowed,
                held_out.candidates,
                held_out.weights,
                np.ones(0),
                np.zeros(0, dtype=np.uint64),
                *starting_parts(data.start, held_out.sequences, threads),
            )
            return self._sampled_validation(labeled, data.classes, encoder, threads)
        return self._validation_class()(
            encoder,
            encoder.encode(held_out.sequences, threads),
            self._validation_objective(held_out, data.classes, threads),
            _starting_scores(data.start, held_out.sequences, self.order, threads),
        )

    def _sampled_validation(
        self, data: EncodedLabeled, classes: np.ndarray, encoder: Encoder, threads: Threads
    ) -> Validation | PartsValidation:
        """Make the same for trees that are grown on samples."""
        start = table_of_parts(data.start_state, data.start_transitions, data.offsets, self.order)
        objective = self._validation_objective(data, classes, threads)
        return Validation(encoder, data.encoded, objective, start)

    def _stopping(self) -> Stopping | None:
        return Stopping(self.n_iter_no_change, self.tol) if self.early_stopping else None

    def _objective_of(
        self, data: LabeledSequences | EncodedLabeled, classes: np.ndarray, threads: Threads
    ) -> Objective:
        constraints = self._constraints_of(data, classes)
        return self._objective(data, len(classes), constraints, threads)

    def _validation_objective(
        self, data: LabeledSequences | EncodedLabeled, classes: np.ndarray, threads: Threads
    ) -> Objective:
        """Return the objective that is reported for validation data."""
        return self._objective_of(data, classes, threads)

    def _weights_of_labels(self, data: LabeledSequences, classes: np.ndarray) -> np.ndarray:
        """Return the weight of each label in tree fitting."""
        return label_weights(self.class_weight, classes, count_labels(data, len(classes)))

    def _position_weights(self, data: LabeledSequences, of_labels: np.ndarray) -> np.ndarray:
        """Return the weight of each position in tree fitting, given those of the labels."""
        return multiplied_weights(of_labels, data)

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

    def _fitted_attributes(
        self, data: TrainingInput, forest: Forest, encoder: Encoder, history: History
    ) -> dict:
        """Return the fitted attributes; with early stopping those of the best iteration."""
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

    def _booster_class(self) -> type[Booster]:
        return Booster

    def _validation_class(self) -> type:
        return Validation

    def _is_newton(self) -> bool:
        """Return whether training uses Newton steps."""
        return bool(self.second_order)

    def _check_size(self, n_labels: int, order: int, n_positions: int) -> None:
        """Raise an error if training would not fit in memory or in the kernels' integers."""
        check_order(n_labels, order, self._alternative)
        require_memory(n_labels, order, n_positions, 2 + self._is_newton())

    def _check_size_of_part(self, n_labels: int, n_positions: int) -> None:
        """Raise an error if a part of the data is too large for training on parts."""
        self._check_size(n_labels, self.order, n_positions)

    @abstractmethod
    def _objective(
        self,
        data: LabeledSequences | EncodedLabeled,
        n_labels: int,
        constraints: Constraints,
        threads: Threads,
    ) -> Objective:
        """Return the objective that training maximizes, for the given sequences."""

    # Scores

    @property
    def _schema(self) -> InputSchema:
        return self._encoder.schema

    @property
    def _trained_order(self) -> int:
        return self._forest.order

    def _reach(self) -> tuple[int, int]:
        reach = self._encoder.reach
        if reach is None:
            raise ValueError("the model has features of unlimited bags; expected bags of a size")
        if self._start is None:
            return reach
        return tuple(map(max, reach, self._start.estimator._reach()))

    def _scores_of(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        self._require_memory(sequences)
        encoded = self._encoder.encode(sequences, threads)
        start = self._start_of(sequences, threads)
        return self._forest.scores(self._encoder, encoded, threads, start=start)

    def _scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        encoded = self._encoder.encode(sequences, threads)
        here = slice(position, position + 1)
        start = self._start_of(sequences, threads)
        start = None if start is None else np.ascontiguousarray(start[:, here])
        depth = encoded.depth_of(self._trained_order)[here]
        encoded = replace(encoded, row_of_position=encoded.row_of_position[here])
        scores = self._forest.scores(self._encoder, encoded, threads, start=start, depth=depth)
        return scores[:, 0]

    def _start_of(self, sequences: Sequences, threads: Threads) -> np.ndarray | None:
        """Return the scores that the trees are added to; None stands for scores of 0."""
        return _starting_scores(self._start, sequences, self._trained_order, threads)

    def _require_memory(self, sequences: Sequences) -> None:
        """Raise MemoryError if the scores of the sequences would not fit in memory."""
        n_labels, order = len(self.classes_), self._trained_order
        check_order(n_labels, order, self._alternative)
        require_memory(n_labels, order, sequences.n_positions)

    @available_if(_has_iterations)
    def staged_predict_proba(
        self,
        X: SequencesLike,
        *,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Iterator[Any]:
        """Predict the probabilities of all labels after each boosting iteration.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        init_score, lengths, groups : optional
            As in `predict`.

        Yields
        ------
        list of float arrays of shape (n_positions, n_classes)
            Marginal probabilities, as from `predict_proba`. For a long table, one array of all
            positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data. The message names the sequence and the reason.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> len(list(crf.staged_predict_proba(["nab"])))
        5
        """
        segmentation = self._segmentation(X, lengths, groups)
        if self._is_empty(X, segmentation):
            yield from ([] for _ in range(self.n_iter_))
            return
        sequences, _ = self._read(X, segmentation=segmentation, init_score=init_score)
        with Threads(self.n_jobs) as threads:
            for lattice in self._staged_lattices(sequences, threads):
                yield segmentation.join(
                    self._as_read(split(lattice.marginals(), sequences.offsets))
                )

    @available_if(_has_iterations)
    def truncated(self, n_iter: int) -> Self:
        """Return a fitted copy with the first iterations only.

        All its methods, such as `predict`, `decode` and `save`, use these iterations, and its
        fitted attributes are those of a model that was trained no longer. It shares the trees, so
        it takes hardly any memory.

        Parameters
        ----------
        n_iter : int
            Number of iterations to keep, from 0 to ``n_iter_``.

        Returns
        -------
        estimator
            A fitted copy of the estimator, with the same parameters.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        TypeError
            If `n_iter` is not an integer.
        ValueError
            If `n_iter` is not in this range.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> X, y = ["banana", "cabana"], ["cvcvcv", "cvcvcv"]
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
        >>> first = crf.truncated(2)
        >>> first.n_iter_, crf.n_iter_
        (2, 5)
        >>> bool(first.score(X, y) <= crf.score(X, y))
        True
        """
        check_is_fitted(self)
        if not isinstance(n_iter, numbers.Integral) or isinstance(n_iter, bool):
            raise TypeError(f"n_iter is of type {type(n_iter).__name__}; expected an integer")
        if not 0 <= n_iter <= self.n_iter_:
            raise ValueError(
                f"n_iter={n_iter}; expected 0 to {self.n_iter_}, the iterations of the model"
            )
        kept, forest = slice(0, int(n_iter) + 1), self._forest.copy(int(n_iter))
        fitted = {name: value for name, value in vars(self).items() if self._is_fitted(name)}
        fitted |= {
            "_forest": forest,
            "n_iter_": forest.n_iter,
            "feature_importances_": feature_importances(forest, self._encoder),
            "train_score_": self.train_score_[kept],
            "validation_score_": self.validation_score_[kept],
            "evals_result_": {
                name: {metric: scores[kept] for metric, scores in of_set.items()}
                for name, of_set in self.evals_result_.items()
            },
        }
        return self._fitted_copy(fitted)

    def _require_iterations(self) -> None:
        """Raise AttributeError unless the fitted model has boosting iterations."""

    def _staged_lattices(self, sequences: Sequences, threads: Threads) -> Iterator[Lattice]:
        self._require_memory(sequences)
        encoded = self._encoder.encode(sequences, threads)
        scores = self._start_of(sequences, threads)
        constraints = self._constraints(sequences.offsets)
        for i in range(self._forest.n_iter):
            scores = self._forest.scores(self._encoder, encoded, threads, (i, i + 1), scores)
            yield self._constrained(scores.copy(), sequences.offsets, constraints, threads)

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
        arrays = {
            "train_score": self.train_score_,
            "validation_score": self.validation_score_,
            "feature_importances": self.feature_importances_,
        }
        forest = model_file.as_section(self._forest.pack(), "forest")
        return values, arrays | encoder_arrays | forest

    def _restored_encoder(self, values: dict, arrays: dict[str, np.ndarray]) -> Encoder:
        """Restore the encoder of a saved model; raises ValueError if its parts do not fit."""
        return Encoder.from_state(values, arrays)

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> BoostedSequenceClassifier:
        if self.scoring is None:  # files have no functions
            self.scoring = "loss"
        self._validate_params()
        packed = model_file.section(arrays, "forest")
        self.classes_ = arrays["classes"]
        self._encoder = self._restored_encoder(values["encoder"], arrays)
        self.n_iter_, self._seed, order = (values[name] for name in ("n_iter", "seed", "order"))
        checks.check_counts(self.n_iter_, self._seed, order)
        checks.check_classes(self.classes_)
        self._check_size(len(self.classes_), order, 1)
        check_forest(packed, self.n_iter_, len(self.classes_), order, self._encoder)
        self._forest = Forest.unpack(len(self.classes_), order, packed)
        self.train_score_ = arrays["train_score"]
        self.validation_score_ = arrays["validation_score"]
        self.feature_importances_ = arrays["feature_importances"]
        self.evals_result_: dict[str, dict[str, np.ndarray]] = {}
        self.n_features_in_ = self._encoder.n_features
        checks.check_history(self.n_iter_, self.train_score_, self.validation_score_)
        checks.check_series(self.feature_importances_, self.n_features_in_)
        vars(self).update(self._feature_names(self._encoder.names))
        return self


def feature_importances(forest: Forest, encoder: Encoder) -> np.ndarray:
    """Return the fraction of the total gain due to each feature; float64 array (n_features,)."""
    gains = encoder.by_feature(forest.gains(len(encoder.columns)))
    return gains / max(gains.sum(), np.finfo(float).tiny)


def _starting_scores(
    start: LinearStart | None, sequences: Sequences, order: int, threads: Threads
) -> np.ndarray | None:
    return table_of_parts(*starting_parts(start, sequences, threads), sequences.offsets, order)


def _history_before(earlier: dict, value: float | None) -> History:
    """Return the scores before training: those of the earlier fit, and that of the start."""
    if earlier:
        return History.resumed(earlier["train_score_"], earlier["validation_score_"], value)
    return History([], [] if value is None else [value])
