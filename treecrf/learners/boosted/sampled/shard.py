"""Shards: partitions of the data with their scores, from which examples are drawn.

An iteration of sampled training needs one exchange. Each shard adds the latest trees to its scores
and draws examples. They are joined in one place, where trees grow on them. Every step states which
iterations it expects, so a step can be repeated. The state of a shard is a function of its
partitions and of the first iterations of the forest, so a shard that was lost can be made again.
All objects can be pickled.
"""

from __future__ import annotations

from contextlib import nullcontext
from threading import Lock

import numpy as np

from treecrf.chains.factored.constant_likelihood import TransitionSums
from treecrf.chains.likelihood import MeanSums
from treecrf.chains.sampled._samples import Sample
from treecrf.learners.base.validation_metrics import (
    OBJECTIVE_SCORINGS,
    POSITION_MEANS,
    PositionMean,
)
from treecrf.learners.boosted.booster import weights_in
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.engine import decoded
from treecrf.learners.boosted.sampled.examples import (
    DrawnExamples,
    ListedPositions,
    ResidentExamples,
    SampledExamples,
)
from treecrf.learners.boosted.sampled.exchange import (
    IterationRequest,
    SampleRequest,
    ShardAnswer,
    Stale,
    total,
)
from treecrf.learners.boosted.sampled.scores import sampled_scores
from treecrf.learners.boosted.sampled.setup import SampledSetup
from treecrf.trees.forest import Forest
from treecrf.utils.allocation import Allocate, relocated
from treecrf.utils.threads import Threads

# Partitions with fewer positions are joined, up to a number of positions: each takes some time in
# an iteration.
SMALL_PARTITION = 1 << 15
LARGE_PARTITION = 1 << 17


class Shard:
    """Partitions of the data with scores, in one process.

    The object can be pickled and copied. Its methods may be called from several threads.
    ``training`` lists its labeled sequences; ``held_out`` has validation sequences by the number of
    their partition.
    """

    def __init__(
        self,
        setup: SampledSetup,
        partitions: dict[int, EncodedPart],  # by number among all partitions
        n_threads: int = 1,
        # Makes the arrays of the scores, like `numpy.zeros`; copies of the shard do not use it.
        allocate: Allocate | None = None,
    ):
        self.setup = setup
        self.n_threads = n_threads
        self._allocate = allocate
        self._lock = Lock()
        # Whether trees grow in this process, on the rows of the only partition.
        self.is_resident = False
        self.training = self._in_large_partitions(
            [data for data in partitions.values() if data.position_weights is not None]
        )
        self.held_out = {
            number: data for number, data in partitions.items() if data.position_weights is None
        }
        self._begin()

    def _in_large_partitions(self, partitions: list[EncodedPart]) -> list[EncodedPart]:
        """Join small partitions with their neighbors."""
        groups: list[list[EncodedPart]] = []
        room = 0
        for data in partitions:
            n_positions = data.encoded.n_positions
            if n_positions > room:
                groups.append([])
                room = LARGE_PARTITION if n_positions < SMALL_PARTITION else n_positions
            groups[-1].append(data)
            room -= n_positions
        return list(map(self._joined, groups))

    def _joined(self, partitions: list[EncodedPart]) -> EncodedPart:
        joined = EncodedPart.joined(partitions)
        if joined is partitions[0] or self._allocate is None:
            return joined
        return relocated(joined, self._allocate)

    def _begin(self) -> None:
        """Set the scores to those without trees."""
        self._threads = Threads(self.n_threads)
        self.forest = self.setup.empty.copy()
        self._halvings: list[int] = []  # how many times each iteration was halved
        self._training = [self._scored(data) for data in self.training]
        self._held_out = {
            number: self._scored(data, is_validation=True) for number, data in self.held_out.items()
        }

    def _scored(self, data: EncodedPart, is_validation: bool = False) -> ScoredPartition:
        kind = ScoredValidation if is_validation else ScoredTraining
        return kind(self.setup, data, self._threads, self._allocate)

    def run(self, step: IterationRequest) -> ShardAnswer | Stale:
        """Add the trees that are new, and draw examples; a repeated step has the same result."""
        with self._lock:
            if not self._is_before(step):
                self._begin()
            if self.forest.n_iter < step.first:
                return Stale(self.forest.n_iter)
            try:
                with nullcontext() if self.is_resident else self._threads:
                    self._add_trees(step)
                    return self._answer(step)
            except BaseException:
                # Some scores may have trees that others lack.
                self._begin()
                raise

    def _is_before(self, step: IterationRequest) -> bool:
        """Return whether new trees, or halving the latest ones, lead to the trees of a step."""
        *earlier, latest = self._halvings or [0]
        n_known = self.forest.n_iter
        if n_known > step.n_iter or tuple(earlier) != step.halvings[: len(earlier)]:
            return False
        return n_known == 0 or latest <= step.halvings[n_known - 1]

    def _halve_latest(self) -> None:
        """Halve the latest iteration, in the forest and in those scores that it was added to."""
        n_iter = self.forest.n_iter
        latest = self.forest.halve_latest()
        for partition in self._partitions():
            if partition.scores.n_iter == n_iter:
                partition.scores.take_back(latest)
        self._halvings[-1] += 1

    def _add_trees(self, step: IterationRequest) -> None:
        while self._halvings and self._halvings[-1] < step.halvings[len(self._halvings) - 1]:
            self._halve_latest()
        self._halvings += step.halvings[len(self._halvings) :]
        n_known = self.forest.n_iter - step.first
        self.forest.extend(step.trees.iterations(n_known, step.trees.n_iter))
        for partition in self._training:
            partition.scores.add_trees(self.forest)

    def _answer(self, step: IterationRequest) -> ShardAnswer:
        examples = None
        transition_sums = None
        values: list[MeanSums | float] = []
        if step.request is not None and self._training:
            examples, values, transition_sums = self._draw(step)
        elif step.wants_value:
            values = [partition.value(self.forest) for partition in self._training]
        validation: list[MeanSums | float] = []
        predictions = {}
        scores = []
        if step.wants_validation:
            for number, partition in self._held_out.items():
                validation.append(partition.value(self.forest))
                if partition.mean is not None:
                    scores.append(partition.mean.sums(partition.predictions(self.forest)))
                elif partition.predicts:
                    codes = partition.predictions(self.forest)
                    predictions[number] = codes.astype(np.min_scalar_type(self.setup.n_labels))
        return ShardAnswer(
            examples,
            total(values),
            total(validation),
            transition_sums,
            predictions,
            total(scores),
            None if step.query is None else step.query(self),
        )

    def _draw(
        self, step: IterationRequest
    ) -> tuple[DrawnExamples, list[MeanSums | float], TransitionSums | None]:
        """Draw examples from all partitions.

        Return also the objective on each, and the sums that constant transitions need.
        """
        samples = []
        values = []
        transition_sums = []
        for partition in self._training:
            drawn, value, sums = partition.draw(step.n_iter, step.request)
            samples.append(drawn)
            values.append(value)
            transition_sums.append(sums)
        positions = [partition.positions for partition in self._training]
        examples: DrawnExamples
        if self.is_resident:
            examples = ResidentExamples(positions[0], samples[0])
        else:
            examples = SampledExamples.packed(samples, positions, self.setup.encoder.window)
        return examples, values, total(transition_sums)

    # Copies, and their size

    def __getstate__(self) -> dict:
        names = ("setup", "n_threads", "training", "held_out")
        with self._lock:
            return {
                "attributes": {name: getattr(self, name) for name in names},
                "forest": self.forest,
                "halvings": self._halvings,
                "scores": [partition.scores.state() for partition in self._partitions()],
            }

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state["attributes"])
        self._allocate = None
        self._lock = Lock()
        self.is_resident = False
        self._begin()
        self.forest = state["forest"]
        self._halvings = state["halvings"]
        for partition, scores in zip(self._partitions(), state["scores"], strict=True):
            vars(partition.scores).update(scores)

    def _partitions(self) -> list[ScoredPartition]:
        return [*self._training, *self._held_out.values()]

    def __sizeof__(self) -> int:
        return sum(partition.n_bytes() for partition in self._partitions())


class ScoredPartition:
    """Labeled sequences of a partition, and their scores."""

    is_validation: bool

    def __init__(
        self, setup: SampledSetup, data: EncodedPart, threads: Threads, allocate: Allocate | None
    ):
        self.setup = setup
        self.data = data
        kind = setup.spec.kind
        self.scores = sampled_scores(kind, setup.encoder, data, threads, self.is_validation)
        # All partitions have the same scale of the objective's value.
        self.scores.objective.scale_mean_to(setup.largest_weights[self.is_validation])
        if allocate is not None:
            self.scores.keep_in(allocate)

    def value(self, forest: Forest) -> MeanSums | float:
        """Add the trees that are new to the scores, and compute the objective."""
        objective = self.scores.objective
        sums = objective.sums(self.scores.value(forest))
        objective.forget_tables()
        return sums

    def n_bytes(self) -> int:
        """Return the memory of the arrays, roughly."""
        data = self.data
        encoded = data.encoded
        rows = encoded.codes.nbytes + encoded.bits.nbytes + encoded.list_ids.nbytes
        masks = data.labels.constraints.allowed, data.labels.candidates
        attributes = [*masks, data.start_state, *self.scores.state().values()]
        arrays = [value for value in attributes if isinstance(value, np.ndarray)]
        # Rows are stored twice, by rows and by columns.
        scores = 4 * self.setup.n_labels * encoded.n_positions
        return 2 * rows + scores + sum(array.nbytes for array in arrays)


class ScoredTraining(ScoredPartition):
    """Training sequences of a partition, their scores, and what draws examples."""

    is_validation = False

    def __init__(
        self, setup: SampledSetup, data: EncodedPart, threads: Threads, allocate: Allocate | None
    ):
        super().__init__(setup, data, threads, allocate)
        kind = setup.spec.kind
        depth = data.encoded.depth_of(kind.order)
        self.positions = ListedPositions(data.encoded, depth, self.scores.objective.given)
        self.sampler = self.scores.make_sampler(kind, data, threads)
        is_weighted = (data.position_weights != 1).any()
        self.weights = data.position_weights if is_weighted else None
        if kind.constant_transitions:
            self.scores.objective.total_weight = setup.weight

    def draw(
        self, iteration: int, request: SampleRequest
    ) -> tuple[list[Sample], MeanSums | float, TransitionSums | None]:
        """Draw examples, and compute the objective, and the sums that transitions need, if any."""
        tree_settings = self.setup.tree_settings
        offsets = self.data.encoded.offsets
        weights = weights_in(
            iteration, self.weights, offsets, self.data.keys, tree_settings, request.last_chosen
        )
        samples, value = self.scores.sample(
            self.sampler, iteration, tree_settings.seed, request, weights
        )
        self.scores.objective.forget_tables()
        sums = None
        if self.setup.spec.kind.constant_transitions:
            sums = self.scores.objective.transition_sums
        return samples, value, sums


class ScoredValidation(ScoredPartition):
    """Validation sequences of a partition, and their scores."""

    is_validation = True

    def __init__(
        self, setup: SampledSetup, data: EncodedPart, threads: Threads, allocate: Allocate | None
    ):
        super().__init__(setup, data, threads, allocate)
        scoring = setup.spec.scoring
        self.predicts = scoring not in OBJECTIVE_SCORINGS
        # Sums for a ``scoring`` that is a mean over positions; others need all predictions.
        self.mean = PositionMean(scoring, data.labels) if scoring in POSITION_MEANS else None

    def predictions(self, forest: Forest) -> np.ndarray:
        """Return the predictions that ``scoring`` needs."""
        return decoded(self.setup, self.scores, self.data, forest)
