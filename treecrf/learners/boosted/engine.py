"""From data that have been read to a run of boosting: encoded data, booster, and validation data.

An engine is a way to fit trees. The one here fits them to all examples, which are in this process.
The other one, behind `engines`, fits them to samples of the examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.history import History
from treecrf.learners.base.training_data import (
    LabeledSequences,
    TrainingInput,
    count_labels,
    label_weights,
    multiplied_weights,
)
from treecrf.learners.base.validation_metrics import OBJECTIVE_SCORINGS, validation_metric
from treecrf.learners.boosted.booster import Booster, Validation
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.spec import BoostingSetup, BoostingSpec, Trained
from treecrf.learners.boosted.training_scores import (
    TrainingScores,
    starting_scores,
    starting_table,
)
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings, read_constraints
from treecrf.utils.exact import ExactSum
from treecrf.utils.partitions import Partitions, PerPartition, identity
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class TrainingRun:
    """Everything that the iterations of boosting need."""

    trained: Trained  # before the iterations; the booster appends trees to its forest
    booster: Any  # `Booster`, or another one with its methods
    validation: Validation | None  # data that are scored after each iteration
    sets: list[Validation | None]  # further sets that are scored; None: the validation data


class Engine(ABC):
    """A way to fit trees to the examples of training sequences."""

    # Whether data in partitions can stay there.
    takes_partitions: ClassVar[bool]

    @abstractmethod
    def needs_keys(self, tree_settings: TreeSettings) -> bool:
        """Return whether random choices need the keys of the sequences."""

    @abstractmethod
    def scores(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> TrainingScores:
        """Return the scores that trees are added to, with their objective."""

    @abstractmethod
    def booster(
        self,
        forest: Forest,  # trees to start from; new trees are appended
        encoded: Partitions,  # of `EncodedPart`
        setup: BoostingSetup,
        data: TrainingInput,  # before it was encoded; may be released
        threads: Threads,
    ) -> Any:
        """Return what adds trees."""

    def validation(self, booster: Any) -> Validation:
        """Return validation data in partitions that the booster has."""
        raise NotImplementedError

    def run(
        self,
        spec: BoostingSpec,
        data: TrainingInput,
        start: LinearCRF | None,  # that was chosen; it is not used if training continues
        threads: Threads,
    ) -> TrainingRun:
        """Return the run that trains from a start on the data, which it may release."""
        training, earlier = data.training, data.earlier
        sequences = training.partitions.view(attrgetter("sequences"))
        if earlier:
            encoder = earlier["_encoder"].widened(training.described.longest).measured(sequences)
            forest, start = earlier["_forest"].copy(), earlier.get("init_")
        else:
            encoder = Encoder(spec.window, spec.max_bins, spec.missing)
            encoder.fit_parts(sequences, training.described, data.seed)
            forest = Forest(len(data.classes), spec.kind.order, spec.kind.constant_transitions)
        return self.run_from(spec, data, encoder, forest, start, threads)

    def run_from(
        self,
        spec: BoostingSpec,
        data: TrainingInput,
        encoder: Encoder,
        forest: Forest,  # trees to start from; new trees are appended
        start: LinearCRF | None,
        threads: Threads,
    ) -> TrainingRun:
        """Encode the data, and return the run that trains on them."""
        classes, training = data.classes, data.training
        constraints = None
        if spec.monotonic_cst is not None or spec.interaction_cst is not None:
            constraints = read_constraints(
                spec.monotonic_cst, spec.interaction_cst, encoder, classes
            )
        tree_settings = replace(spec.tree_settings, seed=data.seed, constraints=constraints)
        setup = BoostingSetup(spec, classes, encoder, tree_settings)
        weights = np.ones(len(classes))
        if spec.class_weight is not None:
            counts = training.partitions.map(count_labels, len(classes))
            sums = [sum(label_counts, ExactSum()) for label_counts in zip(*counts, strict=True)]
            weights = label_weights(spec.class_weight, classes, sums)
        settings = setup, start, weights, threads if data.in_memory else None
        keys = PerPartition(training.keys()) if self.needs_keys(tree_settings) else None
        encoded = training.partitions.derive(encode_part, *settings, True, keys).kept()
        held_out = None
        if data.held_out is not None:
            held_out = data.held_out.partitions.derive(encode_part, *settings).kept()
        validation, sets = None, []
        if data.in_memory:
            parts = [part and encode_part(part, *settings) for part in data.evaluated]
            parts = [held_out and held_out.map(identity)[0], *parts]
            validation, *sets = [
                part and self._validation_data(setup, part, threads) for part in parts
            ]
        elif held_out is not None:
            encoded = encoded.chain(held_out)
        booster = self.booster(forest, encoded, setup, data, threads)
        if held_out is not None and not data.in_memory:
            validation = self.validation(booster)
        trained = Trained(classes, data.seed, encoder, forest, start, History())
        return TrainingRun(trained, booster, validation, sets)

    def _validation_data(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads
    ) -> Validation:
        """Return validation data that are scored by ``scoring``."""
        spec = setup.spec
        scores = self.scores(setup, data, threads, is_validation=True)
        if spec.scoring in OBJECTIVE_SCORINGS:
            return scores
        metric = validation_metric(spec.scoring, data.labels, setup.classes, spec.kind.is_backward)
        return DecodedValidation(scores, metric, partial(decoded, setup, scores, data))


class AllExamples(Engine):
    """Trees are fitted to all examples, which are in this process."""

    takes_partitions = False

    def needs_keys(self, tree_settings: TreeSettings) -> bool:
        """Return whether random choices need the keys of the sequences: subsamples do."""
        return tree_settings.subsample < 1

    def scores(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> TrainingScores:
        """Return the scores that trees are added to, with their objective."""
        return setup.spec.kind.scores(setup.encoder, data, threads, is_validation)

    def booster(
        self,
        forest: Forest,
        encoded: Partitions,
        setup: BoostingSetup,
        data: TrainingInput,
        threads: Threads,
    ) -> Booster:
        """Return what adds trees."""
        kind = setup.spec.kind
        part = encoded.map(identity)[0]
        return kind.booster_class(
            forest,
            setup.encoder,
            part.encoded,
            kind.objective(part, threads),
            setup.tree_settings,
            part.position_weights,
            threads,
            starting_table(part, kind.order),
            part.keys,
        )


# Encoding, where the partitions are


def encode_part(
    data: LabeledSequences,
    setup: BoostingSetup,
    start: LinearCRF | None,
    of_labels: np.ndarray,  # float64 (n_labels,): weights of the labels
    threads: Threads | None = None,  # for data in this process
    is_training: bool = False,
    keys: np.ndarray | None = None,  # of the sequences, for random choices in training
) -> EncodedPart:
    """Encode sequences; those for training have position weights."""
    spec, threads, weights = setup.spec, threads or Threads(1), None
    if is_training:
        weights = multiplied_weights(of_labels, data)
        if spec.kind.order == 0 and data.candidates is not None:
            # Without neighbors, positions at which all labels are possible have no residuals.
            weights = weights * ~data.candidates.all(axis=1)
    return EncodedPart(
        setup.encoder.encode(data.sequences, threads),
        spec.kind.labels(data, setup.classes),
        weights,
        *starting_scores(start, data.sequences, threads),
        source=None if is_training or spec.scoring in OBJECTIVE_SCORINGS else data,
        keys=keys,
    )


# Validation data


@dataclass
class DecodedValidation(Validation):
    """Validation sequences that are scored by predictions: labels or their probabilities."""

    objective: Validation  # value of the objective on the same sequences
    metric: Callable[[np.ndarray], float]  # of codes, or of probabilities
    predict: Callable[[Forest], np.ndarray]  # after an update of ``objective``
    latest: float = np.nan  # latest value of the objective

    def value(self, forest: Forest) -> float:
        """Compute the metric under the forest."""
        self.latest = self.objective.value(forest)
        return self.metric(self.predict(forest))


def decoded(
    setup: BoostingSetup, scores: TrainingScores, data: EncodedPart, forest: Forest
) -> np.ndarray:
    """Return the predictions for validation sequences that ``scoring`` needs."""
    start = None  # lattices include it, and other models have none
    trained = Trained(
        setup.classes, setup.tree_settings.seed, setup.encoder, forest, start, History()
    )
    return setup.spec.decoder.predict(trained, scores, data, setup.spec.n_jobs)
