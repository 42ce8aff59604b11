"""Engines of boosting: encoded data, a booster that adds trees, and validation data.

There are two kinds of boosters. `Booster` fits trees to all examples, which are in this process.
`SampledBooster` fits them to samples of the examples, which shards draw from their partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.learners.base.iterations import OBJECTIVES, History, metric_of
from treecrf.learners.base.training_data import (
    LabeledSequences,
    TrainingInput,
    count_labels,
    label_weights,
    multiplied_weights,
)
from treecrf.learners.boosted.booster import Booster, Scored
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.sampled.booster import LocalShards, SampledBooster, scored_on_shards
from treecrf.learners.boosted.sampled.shard import predictions_for, total, totals_of
from treecrf.learners.boosted.spec import BoostingSetup, BoostingSpec, Trained
from treecrf.learners.boosted.training_scores import starting_parts, table_of_parts
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import read_constraints
from treecrf.utils.allocation import Allocate
from treecrf.utils.partitions import Partitions, PerPartition, identity
from treecrf.utils.threads import Threads


@dataclass
class LabelScore(Scored):
    """Validation sequences that are scored by predictions: labels or their probabilities."""

    objective: Scored  # value of the objective on the same sequences
    metric: Callable[[np.ndarray], float]  # of codes, or of probabilities
    predict: Callable[[Forest], np.ndarray]  # after an update of ``objective``
    latest: float = np.nan  # latest value of the objective

    def value(self, forest: Forest) -> float:
        """Compute the metric under the forest."""
        self.latest = self.objective.value(forest)
        return self.metric(self.predict(forest))


@dataclass(frozen=True)
class Engine:
    """Everything that the iterations of boosting need."""

    trained: Trained  # before the iterations; the booster appends trees to its forest
    booster: Booster | SampledBooster
    validation: Scored | None
    sets: list[Scored | None]  # further sets that are scored; None stands for the validation data


def make_engine(
    spec: BoostingSpec,
    data: TrainingInput,
    start: LinearCRF | None,  # that was chosen; it is not used if training continues
    threads: Threads,
) -> Engine:
    """Return the engine that trains from a start on the data, which it may release."""
    training, earlier = data.training, data.earlier
    sequences = training.partitions.view(attrgetter("sequences"))
    if earlier:
        encoder = earlier["_encoder"].widened(training.described.longest).measured(sequences)
        forest, start = earlier["_forest"].copy(), earlier.get("init_")
    else:
        encoder = Encoder(spec.window, spec.max_bins, spec.missing)
        encoder.fit_parts(sequences, training.described, data.seed)
        forest = Forest(len(data.classes), spec.kind.order, spec.kind.constant_transitions)
    return engine_of(spec, data, encoder, forest, start, threads)


def engine_of(
    spec: BoostingSpec,
    data: TrainingInput,
    encoder: Encoder,
    forest: Forest,  # trees to start from; new trees are appended
    start: LinearCRF | None,
    threads: Threads,
) -> Engine:
    """Encode the data, and return the engine that trains on them."""
    kind, classes, training = spec.kind, data.classes, data.training
    constraints = None
    if spec.monotonic_cst is not None or spec.interaction_cst is not None:
        constraints = read_constraints(spec.monotonic_cst, spec.interaction_cst, encoder, classes)
    tree_settings = replace(spec.tree_settings, seed=data.seed, constraints=constraints)
    threshold = kind.threshold(spec.sampling, len(classes), training.described.n_positions)
    setup = BoostingSetup(spec, classes, encoder, tree_settings, threshold)
    weights = np.ones(len(classes))
    if spec.class_weight is not None:
        counts = training.partitions.map(count_labels, len(classes))
        sums = [total(of_label) for of_label in zip(*counts, strict=True)]
        weights = label_weights(spec.class_weight, classes, sums)
    settings = setup, start, weights, threads if data.in_memory else None
    keys = None
    if threshold is not None or tree_settings.subsample < 1:
        keys = PerPartition(training.keys())
    encoded = training.partitions.derive(encode_part, *settings, True, keys).kept()
    held_out = None
    if data.held_out is not None:
        held_out = data.held_out.partitions.derive(encode_part, *settings).kept()
    validation, sets = None, []
    if data.in_memory:
        parts = [part and encode_part(part, *settings) for part in data.evaluated]
        parts = [held_out and held_out.map(identity)[0], *parts]
        validation, *sets = [part and _scored(setup, part, threads) for part in parts]
    elif held_out is not None:
        encoded = encoded.chain(held_out)
    if threshold is None:
        part = encoded.map(identity)[0]
        objective = kind.objective(part, threads)
        table = table_of_parts(
            part.start_state, part.start_transitions, part.encoded.offsets, kind.order
        )
        arguments = part.position_weights, threads, table, part.keys
        booster = kind.booster_class(
            forest, encoder, part.encoded, objective, tree_settings, *arguments
        )
    else:
        booster = _sampled_booster(forest, encoded, setup, data)
        if held_out is not None and not data.in_memory:
            validation = scored_on_shards(booster)
    trained = Trained(classes, data.seed, encoder, forest, start, History())
    return Engine(trained, booster, validation, sets)


def _sampled_booster(
    forest: Forest, encoded: Partitions, setup: BoostingSetup, data: TrainingInput
) -> SampledBooster:
    """Return a booster on shards of encoded data; the data before encoding are released."""
    totals = encoded.map(totals_of)
    largest = [
        max((w for weight, w in totals if w and (weight is None) == is_held_out), default=None)
        for is_held_out in (False, True)
    ]
    setup = replace(
        setup,
        empty=forest.copy(0),
        n_sequences=data.training.described.n_sequences,
        weight=float(total(weight for weight, _ in totals)),
        largest_weights=tuple(largest),
    )
    for parts in (data.training, data.held_out):
        if parts is not None:
            parts.partitions.release()
    shards = encoded.make_shards(local_shards, setup)
    return SampledBooster(forest, shards, setup)


def local_shards(
    partitions: Partitions, setup: BoostingSetup, allocate: Allocate | None
) -> LocalShards:
    """Return shards of encoded partitions in this process, in memory from ``allocate`` if any."""
    n_threads = Threads(setup.spec.n_jobs).n_threads
    return LocalShards(partitions, setup, n_threads=n_threads, allocate=allocate)


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
        *starting_parts(start, data.sequences, threads),
        source=None if is_training or spec.scoring in OBJECTIVES else data,
        keys=keys,
    )


def _scored(setup: BoostingSetup, data: EncodedPart, threads: Threads) -> Scored:
    """Return validation data that are scored by ``scoring``."""
    spec = setup.spec
    scores = spec.kind.scores(setup, data, threads, is_validation=True)
    if spec.scoring in OBJECTIVES:
        return scores
    metric = metric_of(spec.scoring, data.labels, setup.classes, spec.kind.is_backward)
    return LabelScore(scores, metric, partial(predictions_for, setup, scores, data))
