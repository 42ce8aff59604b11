"""Engines of boosting: an encoder, a booster that adds trees, and validation data.

There are two kinds of boosters. `Booster` fits trees to all examples, which are in this process.
`SampledBooster` fits them to samples of the examples, which shards draw from their partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.sequence_keys import SequenceHashes, encoded_hashes, keys_of, lists_ids
from treecrf.learners.boosted.labeled import EncodedLabeled, EncodedPart, TrainingParts
from treecrf.learners.boosted.loop import Booster
from treecrf.learners.boosted.sampled_booster import (
    LocalShards,
    SampledBooster,
    scored_on_shards,
)
from treecrf.learners.boosted.shard import (
    ShardSettings,
    predictions_for,
    total,
    totals_of,
    true_labels,
)
from treecrf.learners.boosted.spec import BoostingSpec, Trained
from treecrf.learners.boosted.start import starting_parts, table_of_parts
from treecrf.learners.iterations import (
    OBJECTIVES,
    Evaluations,
    History,
    LabelScore,
    Scored,
    metric_of,
)
from treecrf.learners.linear.crf import LinearCRF
from treecrf.learners.training_data import (
    LabeledSequences,
    count_labels,
    label_weights,
    multiplied_weights,
)
from treecrf.trees.forest import Forest
from treecrf.utils.partitions import (
    LocalPartitions,
    Partitions,
    PartitionsView,
    PerPartition,
    identity,
    view,
)
from treecrf.utils.scratch import Allocate
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class Engine:
    """Everything that the iterations of boosting need."""

    setup: ShardSettings
    start: LinearCRF | None
    booster: Booster | SampledBooster
    evaluations: Evaluations

    def trained(self, forest: Forest, history: History) -> Trained:
        """Return the result of training with a forest."""
        setup = self.setup
        return Trained(setup.classes, setup.growth.seed, setup.encoder, forest, self.start, history)


def make_engine(
    spec: BoostingSpec,
    data: TrainingParts,
    start: LinearCRF | None,  # that was chosen; it is not used if training continues
    threads: Threads,
) -> Engine:
    """Return the engine that trains from a start on the data, which it may release."""
    training, earlier = data.training, data.earlier
    if earlier:
        encoder = earlier["_encoder"].widened(training.described.longest)
        forest, start = earlier["_forest"].copy(), earlier.get("init_")
    else:
        sequences = view(training.partitions, attrgetter("sequences"))
        encoder = Encoder(spec.window, spec.max_bins, spec.missing)
        encoder.fit_parts(sequences, training.described, data.seed)
        forest = Forest(len(data.classes), spec.kind.order, spec.kind.constant_transitions)
    return engine_of(spec, data, encoder, forest, start, threads)


def engine_of(
    spec: BoostingSpec,
    data: TrainingParts,
    encoder: Encoder,
    forest: Forest,  # trees to start from; new trees are appended
    start: LinearCRF | None,
    threads: Threads,
) -> Engine:
    """Encode the data, and return the engine that trains on them."""
    growth = spec.growth(encoder, data.classes, data.seed)
    size = len(data.classes), data.training.n_positions
    threshold = spec.kind.threshold(spec.sampling, *size)
    setup = ShardSettings(spec, data.classes, encoder, growth, threshold)
    weights = np.ones(len(data.classes))
    if spec.class_weight is not None:
        counts = data.training.partitions.map(count_labels, len(data.classes))
        sums = [total(of_label) for of_label in zip(*counts, strict=True)]
        weights = label_weights(spec.class_weight, data.classes, sums)
    settings = setup, start, weights, threads if data.in_memory else None
    encoded = _encoded(data, *settings)
    sets, validation = [], None
    if data.in_memory:
        parts = encoded.map(identity)
        sets = [part and encode(part, *settings) for part in data.evaluated]
        held_out = parts[-1].held_out
        validation, *sets = [each and _scored(setup, each, threads) for each in (held_out, *sets)]
        encoded = LocalPartitions(parts[:1])  # without validation data
    if threshold is None:
        part, kind = parts[0].training, spec.kind
        objective = kind.objective(kind.chains(part, data.classes), threads)
        table = table_of_parts(
            part.start_state, part.start_transitions, part.encoded.offsets, kind.order
        )
        arguments = part.position_weights, threads, table
        booster = kind.booster_class(forest, encoder, part.encoded, objective, growth, *arguments)
    else:
        training, held_out = map(total, zip(*encoded.map(totals_of), strict=True))
        setup = replace(setup, training=training, held_out=held_out)
        data.release()
        shards = shards_of(encoded, setup, data.scratch and data.scratch.allocate)
        booster = SampledBooster(forest, shards, setup)
        if setup.held_out is not None:
            validation = scored_on_shards(booster)
    return Engine(setup, start, booster, Evaluations(sets, validation, spec.scoring))


def shards_of(
    partitions: Partitions, setup: ShardSettings, allocate: Allocate | None = None
) -> Any:
    """Return shards of encoded partitions, where these are; may release the partitions."""
    if hasattr(partitions, "make_shards"):
        return partitions.make_shards(setup)
    n_threads = Threads(setup.spec.n_jobs).n_threads
    shards = LocalShards(partitions, setup, n_threads=n_threads, allocate=allocate)
    # They hold the partitions, and have joined some of them.
    partitions.release()
    return shards


# What training starts from


def _encoded(data: TrainingParts, setup: ShardSettings, *settings: Any) -> Partitions:
    """Return the `EncodedPart` of all training data, and then of the validation data."""
    encoded = data.training.partitions.derive_all(
        encode_part, setup, *settings, otherwise=EncodedPart(None, None)
    ).kept()
    if data.validation is not None:
        held_out = data.validation.partitions.derive_all(
            encode_validation, setup, *settings, otherwise=EncodedPart(None, None)
        )
        encoded = encoded.chain(held_out.kept())
    # Samples depend on keys of the sequences.
    return encoded if setup.threshold is None else _with_keys(encoded)


# Encoding, where the partitions are


def encode(
    data: LabeledSequences,
    setup: ShardSettings,
    start: LinearCRF | None,
    of_labels: np.ndarray,  # float64 (n_labels,): weights of the labels
    threads: Threads | None = None,  # for data in this process
    is_training: bool = False,
) -> EncodedLabeled:
    """Encode sequences; those for training have position weights, and get their keys later."""
    spec, threads, weights = setup.spec, threads or Threads(1), np.ones(0)
    if is_training:
        weights = multiplied_weights(of_labels, data)
        if spec.kind.order == 0 and data.candidates is not None:
            # Without neighbors, positions at which all labels are possible have no residuals.
            weights = weights * ~data.candidates.all(axis=1)
    return EncodedLabeled(
        setup.encoder.encode(data.sequences, threads),
        data.codes,
        data.allowed,
        data.candidates,
        data.weights,
        weights,
        np.zeros(0, dtype=np.uint64),
        *starting_parts(start, data.sequences, threads),
        data.previous,
        sequences=None if is_training or spec.scoring in OBJECTIVES else data.sequences,
    )


def encode_part(data: LabeledSequences, setup: ShardSettings, *settings: Any) -> EncodedPart:
    """Encode a part of the training data; the settings are those of `encode`."""
    training, hashes = encode(data, setup, *settings, is_training=True), None
    if setup.threshold is not None:
        hashes = _hashes(training, [training.position_weights, *data.ties])
    return EncodedPart(training, None, hashes)


def _hashes(
    data: EncodedLabeled, ties: list[np.ndarray]
) -> tuple[SequenceHashes | None, SequenceHashes | None]:
    """Hash encoded sequences: if any part lists ids, and if none does."""
    arrays = data.encoded, data.codes, data.allowed, data.candidates
    are_possible = data.encoded.n_ids > 0, not lists_ids(data.encoded)
    with_lists, without = (
        encoded_hashes(*arrays, ties=ties, with_lists=case) if is_possible else None
        for case, is_possible in zip((True, False), are_possible, strict=True)
    )
    return with_lists, without


def encode_validation(data: LabeledSequences, *settings: Any) -> EncodedPart:
    """Encode a part of the validation data; the settings are those of `encode`."""
    return EncodedPart(None, encode(data, *settings))


def _with_keys(encoded: Partitions) -> Partitions:
    """Return encoded partitions with keys, on which samples depend."""
    own = PerPartition(encoded.derive(attrgetter("hashes")).reduce(_encoded_keys))
    if hasattr(encoded, "make_shards"):
        return encoded.derive(EncodedPart.with_keys, own)
    # Scratch files would store the parts again.
    return PartitionsView(encoded, EncodedPart.with_keys, own)


def _encoded_keys(
    parts: list[tuple[SequenceHashes | None, SequenceHashes | None] | None],
) -> list[np.ndarray | None]:
    """Return the keys of the training sequences of each part; None if it has none."""
    present = [part for part in parts if part is not None]
    no_part_lists = all(without is not None for _, without in present)
    keys = iter(keys_of([part[no_part_lists] for part in present]))
    return [None if part is None else next(keys) for part in parts]


def _scored(setup: ShardSettings, data: EncodedLabeled, threads: Threads) -> Scored:
    """Return validation data that are scored by ``scoring``."""
    spec = setup.spec
    scores = spec.kind.scores(setup, data, threads, is_validation=True)
    if spec.scoring in OBJECTIVES:
        return scores
    metric = metric_of(spec.scoring, true_labels(data), setup.classes, spec.kind.is_backward)
    return LabelScore(scores, metric, partial(predictions_for, setup, scores, data))
