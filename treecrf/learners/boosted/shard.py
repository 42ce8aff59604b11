"""Shards: parts of the data with their scores, to which trees are added and examples drawn.

The state of a shard is a function of its parts and of the first iterations of the forest. The
requests that a shard answers are in `messages`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np

from treecrf.chains._sampling import Sample
from treecrf.chains.objectives import LocalObjective, MeanSums, WholeValue
from treecrf.learners.boosted.encoded import EncodedLabeled, EncodedPart
from treecrf.learners.boosted.loop import weights_in
from treecrf.learners.boosted.messages import (
    IterationRequest,
    ResidentExamples,
    SampledExamples,
    ShardAnswer,
    ShardSettings,
    Stale,
    total,
)
from treecrf.learners.boosted.scores import SampleRequest, Scores
from treecrf.learners.boosted.spec import Trained
from treecrf.learners.boosted.transitions import ContextWeights
from treecrf.learners.evaluation import MEANS, OBJECTIVES, PositionMean, TrueLabels
from treecrf.learners.iterations import History
from treecrf.trees.forest import Forest
from treecrf.utils.scratch import Allocate, relocated
from treecrf.utils.threads import Threads

# Parts with fewer positions are joined, up to a number of positions.
SMALL_PART = 1 << 15
LARGE_PART = 1 << 17


class Shard:
    """Parts of the data with scores, in one process.

    The object can be pickled and copied. Its methods may be called from several threads.
    ``training`` lists its labeled sequences; ``held_out`` has validation sequences by part number.
    """

    def __init__(
        self,
        setup: ShardSettings,
        parts: dict[int, EncodedPart],  # by number among all parts
        n_threads: int = 1,
        # Makes the arrays of the scores, like `numpy.zeros`; copies of the shard do not use it.
        allocate: Allocate | None = None,
    ):
        self.setup = setup
        self.n_threads = n_threads
        self._allocate = allocate
        # Whether trees grow in this process, on the rows of the only part.
        self.is_resident = False
        self.training = self._with_large_parts(
            [part.training for part in parts.values() if part.training is not None]
        )
        self.held_out = {
            number: part.held_out for number, part in parts.items() if part.held_out is not None
        }
        self._begin()

    def _with_large_parts(self, parts: list[EncodedLabeled]) -> list[EncodedLabeled]:
        """Join small parts with their neighbors; each part takes some time in an iteration."""
        groups: list[list[EncodedLabeled]] = []
        room = 0
        for part in parts:
            n = len(part.codes)
            if n > room:
                groups.append([])
                room = LARGE_PART if n < SMALL_PART else n
            groups[-1].append(part)
            room -= n
        return list(map(self._joined, groups))

    def _joined(self, parts: list[EncodedLabeled]) -> EncodedLabeled:
        joined = EncodedLabeled.joined(parts, self.setup.n_labels)
        if joined is parts[0] or self._allocate is None:
            return joined
        return relocated(joined, self._allocate)

    def _begin(self) -> None:
        """Set the scores to those without trees."""
        self._lock = Lock()
        self._threads = Threads(self.n_threads)
        self.forest = self.setup.new_forest()
        arguments = self._threads, self._allocate
        self._training = [ShardPart(self.setup, data, *arguments) for data in self.training]
        self._held_out = {
            number: ShardPart(self.setup, data, *arguments, is_validation=True)
            for number, data in self.held_out.items()
        }

    @property
    def n_iter(self) -> int:
        """Number of iterations in the scores."""
        return self.forest.n_iter

    def run(self, step: IterationRequest) -> ShardAnswer | Stale:
        """Add the trees that are new, and draw examples; a repeated step has the same result."""
        with self._lock:
            if self.n_iter > step.n_iter:
                self._restart()
            if self.n_iter < step.first:
                return Stale(self.n_iter)
            try:
                with nullcontext() if self.is_resident else self._threads:
                    self._add_trees(step)
                    return self._answer(step)
            except BaseException:
                # Some scores may have trees that others lack.
                self._restart()
                raise

    def _restart(self) -> None:
        lock = self._lock
        self._begin()
        self._lock = lock

    def _add_trees(self, step: IterationRequest) -> None:
        self.forest.extend(step.trees.iterations(self.n_iter - step.first, step.trees.n_iter))
        for part in self._training:
            part.scores.add_trees(self.forest)

    def _answer(self, step: IterationRequest) -> ShardAnswer:
        sums, of_contexts, examples = [], [], None
        if step.wants_value:
            sums = [part.sums(self.forest) for part in self._training]
        if step.request is not None and self._training:
            drawn = [part.draw(step.n_iter, step.request) for part in self._training]
            samples, sums, of_contexts = map(list, zip(*drawn, strict=True))
            positions = [part.positions for part in self._training]
            if self.is_resident:
                examples = ResidentExamples(positions[0], samples[0])
            else:
                examples = SampledExamples.of(samples, positions, self.setup.encoder.window)
        validation, predictions, scores = [], {}, []
        for number, part in self._held_out.items() if step.wants_validation else ():
            validation.append(part.sums(self.forest))
            if part.predicts:
                found = predictions_for(self.setup, part.scores, part.data, self.forest)
                if part.mean is not None:
                    scores.append(part.mean.sums(found))
                else:
                    predictions[number] = found.astype(np.min_scalar_type(self.setup.n_labels))
        return ShardAnswer(
            examples,
            total(sums),
            total(validation),
            total(of_contexts),
            predictions,
            total(scores),
            None if step.query is None else step.query(self),
        )

    def __getstate__(self) -> dict:
        kept = "setup", "n_threads", "training", "held_out"
        with self._lock:
            return {
                "kept": {name: getattr(self, name) for name in kept},
                "forest": self.forest,
                "scores": [part.state() for part in self._parts()],
            }

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state["kept"])
        self._allocate, self.is_resident = None, False
        self._begin()
        self.forest = state["forest"]
        for part, scores in zip(self._parts(), state["scores"], strict=True):
            vars(part.scores).update(scores)

    def _parts(self) -> list[ShardPart]:
        return [*self._training, *self._held_out.values()]

    def __sizeof__(self) -> int:
        return sum(part.n_bytes() for part in self._parts())


class ShardPart:
    """Labeled sequences of a part, and their scores; examples are drawn from training sequences."""

    # State of `scores` that the trees change.
    CHANGING = ("parts", "scores", "n_iter")

    def __init__(
        self,
        setup: ShardSettings,
        data: EncodedLabeled,
        threads: Threads,
        allocate: Allocate | None,
        *,
        is_validation: bool = False,
    ):
        self.setup = setup
        scoring, kind = setup.spec.scoring, setup.spec.kind
        totals = setup.totals.held_out if is_validation else setup.totals.training
        # Sums for a ``scoring`` that is a mean over positions; others need predictions.
        self.mean = None
        if is_validation and scoring in MEANS:
            self.mean = PositionMean(scoring, true_labels(data))
        self.predicts = is_validation and scoring not in OBJECTIVES
        if totals.is_partial and data.candidates is None:
            # All parts take the same way to the value of the objective.
            known = np.eye(setup.n_labels, dtype=bool)[data.codes]
            data = replace(data, candidates=known)
        self.data = data
        self.scores = setup.scores_of(data, threads, is_validation)
        # All parts have the same scale of the objective's value.
        objective = self.scores.objective
        objective.mean = objective.mean.of_part(totals.largest_weight)
        if allocate is not None:
            self.scores.keep_in(allocate)
        if not is_validation:
            self.positions = kind.listed_positions(data, setup.n_labels)
            weights = data.position_weights
            self.weights = weights if (weights != 1).any() else None
            self.sampler = kind.sampler(data, threads)
            self.contexts = None
            if kind.constant_transitions and not kind.has_curvature:
                labels = data.codes, setup.n_labels, kind.order, data.candidates
                self.contexts = ContextWeights(data.offsets, *labels)

    def draw(
        self, iteration: int, request: SampleRequest
    ) -> tuple[list[Sample], MeanSums | WholeValue, np.ndarray | None]:
        """Draw examples, and compute the objective, and the sums that transitions need, if any."""
        data, growth = self.data, self.setup.growth
        arguments = data.offsets, data.keys, growth, request.last_chosen
        weights = weights_in(iteration, self.weights, *arguments)
        samples, value = self.scores.sample(self.sampler, iteration, growth.seed, request, weights)
        self._forget_tables()
        return samples, value, None if self.contexts is None else self.contexts.sums(weights)

    def sums(self, forest: Forest) -> MeanSums | WholeValue:
        """Add the trees that are new to the scores, and compute the objective."""
        sums = self.scores.objective.sums(self.scores.value(forest))
        self._forget_tables()
        return sums

    def _forget_tables(self) -> None:
        """Free the memory of residuals until the next step."""
        if isinstance(self.scores.objective, LocalObjective):
            self.scores.objective.forget_tables()

    def state(self) -> dict[str, Any]:
        """Return the state that the trees have changed."""
        return {name: value for name, value in vars(self.scores).items() if name in self.CHANGING}

    def n_bytes(self) -> int:
        """Return the memory of the arrays, roughly."""
        data, encoded = self.data, self.data.encoded
        rows = encoded.codes.nbytes + encoded.bits.nbytes + encoded.list_ids.nbytes
        masks = (data.allowed, data.candidates, data.start_state, *self.state().values())
        arrays = [value for value in masks if isinstance(value, np.ndarray)]
        # Rows are stored twice, by rows and by columns.
        scores = 4 * self.setup.n_labels * encoded.n_positions
        return 2 * rows + scores + sum(array.nbytes for array in arrays)


def predictions_for(
    setup: ShardSettings, scores: Scores, data: EncodedLabeled, forest: Forest
) -> np.ndarray:
    """Return the predictions for validation sequences that ``scoring`` needs."""
    start = None  # lattices include it, and other models have none
    trained = Trained(setup.classes, setup.growth.seed, setup.encoder, forest, start, History())
    return setup.spec.predict(trained, scores, data, setup.spec.n_jobs)


def true_labels(data: EncodedLabeled) -> TrueLabels:
    """Return the labels of validation sequences."""
    return TrueLabels(data.codes, data.offsets, data.candidates, data.weights)
