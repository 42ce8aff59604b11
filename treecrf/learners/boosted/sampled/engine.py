"""The engine that fits trees to samples, and shards of the data for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.engine import Engine, encode_part
from treecrf.learners.boosted.sampled.booster import (
    LocalShards,
    SampledBooster,
    ShardsValidation,
    validation_on_shards,
)
from treecrf.learners.boosted.sampled.exchange import total
from treecrf.learners.boosted.sampled.scores import SampledScores, sampled_scores
from treecrf.learners.boosted.sampled.setup import SampledSetup
from treecrf.learners.boosted.spec import BoostingSetup
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils.allocation import Allocate
from treecrf.utils.exact import ExactSum
from treecrf.utils.partitions import Partitions, StoredPartitions
from treecrf.utils.threads import Threads


@dataclass(frozen=True)
class SampledEngine(Engine):
    """Trees are fitted to samples of the examples, which shards draw from their partitions.

    Most examples, triples of a position, its previous labels and a label, have small residuals
    once a few trees have been grown. Trees grow on a sample in which the probability of an example
    is proportional to its residual, at most 1 (minimal variance sampling, Ibragimov and Gusev,
    NeurIPS 2019). Its values are divided by that probability, so that all sums are unbiased. The
    complete trees are then added to the scores of all positions.
    """

    # Absolute residuals of at least this size are always sampled.
    threshold: float
    # Maximum number of examples in an iteration, on average; None is no limit.
    max_examples: int | None

    takes_partitions = True

    def needs_keys(self, tree_settings: TreeSettings) -> bool:
        """Return whether random choices need the keys of the sequences: those of examples do."""
        return True

    def scores(
        self, setup: BoostingSetup, data: EncodedPart, threads: Threads, is_validation: bool = False
    ) -> SampledScores:
        """Return the scores that trees are added to, with their objective."""
        return sampled_scores(setup.spec.kind, setup.encoder, data, threads, is_validation)

    def booster(
        self,
        forest: Forest,
        encoded: Partitions,
        setup: BoostingSetup,
        data: TrainingInput,
        threads: Threads,
    ) -> SampledBooster:
        """Return a booster on shards of encoded data; the data before encoding are released."""
        totals = encoded.map(weight_totals)
        kind = setup.spec.kind
        sampled_setup = SampledSetup(
            setup.spec,
            setup.classes,
            setup.encoder,
            setup.tree_settings,
            threshold=self.threshold,
            max_examples=self.max_examples,
            empty=forest.copy(0),
            n_sequences=data.training.n_sequences,
            weight=float(total(weight for weight, *_ in totals)),
            halves_steps=kind.halves_steps and all(weighs for *_, weighs in totals),
            largest_weights=(
                _largest(largest for weight, largest, _ in totals if weight is not None),
                _largest(largest for weight, largest, _ in totals if weight is None),
            ),
        )
        data.release()
        shards = encoded.make_shards(local_shards, sampled_setup)
        return SampledBooster(forest, shards, sampled_setup)

    def on_partitions(
        self,
        forest: Forest,
        encoded: StoredPartitions,
        setup: BoostingSetup,
        data: TrainingInput,
        start: LinearCRF | None,
        threads: Threads,
    ) -> tuple[SampledBooster, ShardsValidation | None]:
        """Return a booster on partitions, and the validation data, which it has, too."""
        if data.held_out is None:
            return self.booster(forest, encoded, setup, data, threads), None
        held_out = data.held_out.derive(encode_part, setup, start, None)
        booster = self.booster(forest, encoded.chain(held_out), setup, data, threads)
        return booster, validation_on_shards(booster)


def weight_totals(data: EncodedPart) -> tuple[ExactSum | None, float | None, bool]:
    """Return the sum of the position weights, the largest sample weight, and `weighs_sequences`.

    The first is None for validation data, and the second if all are 1.
    """
    weights = data.labels.weights
    largest = None if weights is None else float(weights.max())
    if data.position_weights is None:
        return None, largest, True
    return ExactSum.of(data.position_weights), largest, data.weighs_sequences


def _largest(weights: Any) -> float | None:
    """Return the largest of some weights; None if all are None."""
    return max((weight for weight in weights if weight), default=None)


def local_shards(
    partitions: Partitions, setup: SampledSetup, allocate: Allocate | None
) -> LocalShards:
    """Return shards of encoded partitions in this process, in memory from ``allocate`` if any."""
    n_threads = Threads(setup.spec.n_jobs).n_threads
    return LocalShards(partitions, setup, n_threads=n_threads, allocate=allocate)
