"""From data that have been read to a run of boosting: encoded data, booster, and validation data.

An engine is a way to fit trees. The one here fits them to all examples, which are in this process.
The other one, behind `engines`, fits them to samples of the examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.history import History
from treecrf.learners.base.training_data import (
    LabeledSequences,
    TrainingInput,
    label_weights,
    multiplied_weights,
)
from treecrf.learners.base.validation_metrics import (
    OBJECTIVE_SCORINGS,
    PositionMean,
    validation_metric,
)
from treecrf.learners.boosted.booster import Booster, Validation
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.spec import BoostingSetup, BoostingSpec, Trained
from treecrf.learners.boosted.starting_scores import starting_scores
from treecrf.learners.boosted.training_scores import (
    TrainingScores,
)
from treecrf.learners.linear.base import linear_model
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings, read_constraints
from treecrf.utils.partitions import Partitions, PerPartition
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class BoostingRun:
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

    def run(
        self,
        spec: BoostingSpec,
        data: TrainingInput,
        start: LinearCRF | None,  # that was chosen; it is not used if training continues
        threads: Threads,
    ) -> BoostingRun:
        """Return the run that trains from a start on the data, which it may release."""
        earlier = data.earlier
        sequences = data.training.unlabeled()
        described = data.training.described
        if earlier:
            encoder = earlier["_encoder"].widened(described.longest).measured(sequences)
            forest = earlier["_forest"].copy()
            start = earlier.get("init_")
        else:
            encoder = spec.new_encoder()
            encoder.fit_parts(sequences, described, data.seed, data.training.contents())
            forest = Forest(
                len(data.classes),
                spec.kind.order,
                spec.kind.constant_transitions,
                spec.multi_output,
            )
        return self.run_from(spec, data, encoder, forest, start, threads)

    def run_from(
        self,
        spec: BoostingSpec,
        data: TrainingInput,
        encoder: Encoder,
        forest: Forest,  # trees to start from; new trees are appended
        start: LinearCRF | None,
        threads: Threads,
    ) -> BoostingRun:
        """Encode the data, and return the run that trains on them."""
        setup = make_setup(spec, data, encoder)
        encoded = self._encoded(setup, data, start, threads)
        if data.training.in_memory:
            validation, sets = self._validations(setup, data, start, threads)
            booster = self.booster(forest, encoded, setup, data, threads)
        else:
            sets = []
            booster, validation = self.on_partitions(forest, encoded, setup, data, start, threads)
        temperature = data.earlier.get("temperature_", 1.0)
        trained = Trained(
            data.classes,
            data.seed,
            encoder,
            forest,
            start,
            History(),
            spec.tree_settings.max_leaf_nodes,
            temperature,
        )
        return BoostingRun(trained, booster, validation, sets)

    def on_partitions(
        self,
        forest: Forest,
        encoded: Partitions,
        setup: BoostingSetup,
        data: TrainingInput,
        start: LinearCRF | None,
        threads: Threads,
    ) -> tuple[Any, Validation | None]:
        """Return what adds trees on data that stay in partitions, and the validation data."""
        raise NotImplementedError

    def _encoded(
        self, setup: BoostingSetup, data: TrainingInput, start: LinearCRF | None, threads: Threads
    ) -> Partitions:
        """Encode the training data where they are."""
        training = data.training
        weight_of_label = np.ones(setup.n_labels)
        if setup.spec.class_weight is not None:
            counts = training.count_labels(setup.n_labels)
            weight_of_label = label_weights(setup.spec.class_weight, data.classes, counts)
        keys = None
        if self.needs_keys(setup.tree_settings):
            keys = PerPartition(training.keys())
        # Partitions are encoded side by side, if they are on a cluster.
        own_threads = threads if training.in_memory else None
        return training.derive(encode_part, setup, start, own_threads, weight_of_label, keys)

    def _validations(
        self, setup: BoostingSetup, data: TrainingInput, start: LinearCRF | None, threads: Threads
    ) -> tuple[Validation | None, list[Validation | None]]:
        """Return the validation data in memory, and further sets that are scored."""

        def validation(labeled: LabeledSequences) -> Validation:
            encoded = encode_part(labeled, setup, start, threads)
            return self._validation_data(setup, encoded, threads)

        held_out = None
        if data.held_out is not None:
            held_out = validation(data.held_out)
        others = [
            None if labeled is data.held_out else validation(labeled) for labeled in data.evaluated
        ]
        return held_out, others

    def _validation_data(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads
    ) -> Validation:
        """Return validation data that are scored by ``scoring``."""
        spec = setup.spec
        scores = self.scores(setup, data, threads, is_validation=True)
        if spec.scoring in OBJECTIVE_SCORINGS:
            return scores
        if spec.decoder is None:
            mean = PositionMean(spec.scoring, data.labels)
            return MarginalValidation(scores, mean, spec.kind.order)
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

    def booster_class(self, kind: ChainKind) -> type[Booster]:
        """Return the class of what adds trees."""
        return kind.booster_class

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
        part = encoded.reduce(EncodedPart.joined)
        halves_steps = kind.halves_steps and part.weighs_sequences
        return self.booster_class(kind)(
            forest,
            setup.encoder,
            part.encoded,
            kind.objective(part, threads),
            setup.tree_settings,
            part.position_weights,
            threads,
            kind.start(part),
            part.keys,
            halves_steps,
        )


# Encoding, where the data are


def make_setup(spec: BoostingSpec, data: TrainingInput, encoder: Encoder) -> BoostingSetup:
    """Return the settings that follow from the parameters and from the training data."""
    constraints = None
    if spec.monotonic_cst is not None or spec.interaction_cst is not None:
        constraints = read_constraints(
            spec.monotonic_cst, spec.interaction_cst, encoder, data.classes
        )
    ranks = np.argsort(data.training.label_order(len(data.classes))).astype(np.int32)
    tree_settings = replace(
        spec.tree_settings, seed=data.seed, constraints=constraints, label_ranks=ranks
    )
    return BoostingSetup(spec, data.classes, encoder, tree_settings)


def encode_part(
    data: LabeledSequences,
    setup: BoostingSetup,
    start: LinearCRF | None,
    threads: Threads | None,  # None for one
    weight_of_label: np.ndarray | None = None,  # float64 (n_labels,); None for validation data
    keys: np.ndarray | None = None,  # of the sequences, for random choices in training
) -> EncodedPart:
    """Encode sequences for training, or to be scored after each iteration."""
    spec = setup.spec
    threads = threads or Threads(1)
    linear = None if start is None else linear_model(start)
    weights = None
    source = None
    if weight_of_label is not None:
        weights = multiplied_weights(weight_of_label, data)
        if spec.kind.order == 0 and data.candidates is not None:
            # Without neighbors, positions at which all labels are possible have no residuals.
            weights = weights * ~data.candidates.all(axis=1)
    elif spec.decoder is not None:
        source = data
    return EncodedPart(
        setup.encoder.encode(data.sequences, threads),
        spec.kind.labels(data, setup.classes),
        weights,
        *starting_scores(linear, data.sequences, threads),
        source=source,
        keys=keys,
        label_ranks=setup.tree_settings.label_ranks,
    )


# Validation data


@dataclass
class MarginalValidation(Validation):
    """Validation sequences that are scored by the marginal probabilities of their labels."""

    scores: TrainingScores
    mean: PositionMean
    order: int
    # Logarithms of the probabilities of the labels, at the latest scores.
    likelihoods: np.ndarray | None = None

    @property
    def latest(self) -> float:
        """Latest value of the objective."""
        return self.scores.present_value()

    def value(self, forest: Forest) -> float:
        """Compute the metric under the forest."""
        self.scores.add_trees(forest)
        return self.present_value()

    def values(self, grown: Iterable[Forest]) -> Iterator[float]:
        """Compute the metric after each new iteration of a forest that grows."""
        for _ in self.scores.stages(grown):
            yield self.present_value()

    def present_value(self, temperature: float = 1.0) -> float:
        """Compute the metric of the present scores, divided by a temperature."""
        lattice = self.scores.lattice(self.order, temperature)
        values = self.mean.values(lattice.marginals())
        if temperature == 1:
            self.likelihoods = values
        return float(self.mean.sums_of(values))


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
    if setup.spec.decoder is None:
        return scores.lattice(setup.spec.kind.order).marginals()
    start = None  # lattices include it, and other models have none
    trained = Trained(
        setup.classes,
        setup.tree_settings.seed,
        setup.encoder,
        forest,
        start,
        History(),
        setup.tree_settings.max_leaf_nodes,
    )
    return setup.spec.decoder.predict(trained, scores, data, setup.spec.n_jobs)
