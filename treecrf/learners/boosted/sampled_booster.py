"""Boosting on shards: one exchange an iteration, and growth of the trees in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from treecrf.chains.sampling import KEEP_NONE, PROBABLE_DECREASE, guess_for, probable_decrease
from treecrf.learners.boosted.growing import ListGrowing
from treecrf.learners.boosted.messages import (
    IterationRequest,
    IterationResult,
    ShardAnswer,
    ShardSettings,
    Stale,
)
from treecrf.learners.boosted.scores import SampleRequest
from treecrf.learners.boosted.shard import Shard, true_labels
from treecrf.learners.boosted.subsamples import Subsamples
from treecrf.learners.evaluation import (
    MEANS,
    OBJECTIVES,
    LabelScore,
    Scored,
    TrueLabels,
    metric_of,
    no_known_labels,
)
from treecrf.trees.forest import Forest
from treecrf.utils.partitions import Partitions, identity
from treecrf.utils.scratch import Allocate


class Shards(Protocol):
    """All shards of the data, wherever they are."""

    def iterate(
        self, step: IterationRequest, again: Callable[[int], IterationRequest]
    ) -> IterationResult:
        """Carry out a step on all shards, and grow trees on their examples in one place.

        If a shard answers `Stale`, ``again(stale.n_iter)`` is the step with the trees it lacks.
        """


class LocalShards:
    """Shards in this process."""

    def __init__(self, shards: list[Shard], growing: ListGrowing, n_threads: int = 1):
        self.shards = shards
        self.growing = growing
        self.n_threads = n_threads

    @classmethod
    def of(
        cls,
        partitions: Partitions,
        setup: ShardSettings,
        n_shards: int = 1,
        n_threads: int = 1,  # threads of each shard, and of the growth of trees
        allocate: Allocate | None = None,
    ) -> Shards:
        """Distribute partitions of `EncodedPart` among shards."""
        parts = list(enumerate(partitions.map(identity)))
        shards = [
            Shard(setup, dict(parts[i::n_shards]), n_threads, allocate) for i in range(n_shards)
        ]
        if n_shards == 1 and len(shards[0].training) == 1:
            # Files would be read into memory.
            shards[0].is_resident = allocate is None
        return cls(shards, ListGrowing(setup), n_threads)

    def iterate(
        self, step: IterationRequest, again: Callable[[int], IterationRequest]
    ) -> IterationResult:
        """Carry out a step on all shards, one after another."""
        drawn = [self._run(shard, step, again) for shard in self.shards]
        return self.growing.grow(drawn, step, self.n_threads)

    @staticmethod
    def _run(
        shard: Shard, step: IterationRequest, again: Callable[[int], IterationRequest]
    ) -> ShardAnswer:
        answer = shard.run(step)
        return shard.run(again(answer.n_iter)) if isinstance(answer, Stale) else answer


class SampledBooster:
    """The counterpart of `Booster` for trees on samples of the examples, which shards draw."""

    def __init__(
        self,
        forest: Forest,  # trees to start from; new trees are appended
        shards: Shards,
        setup: ShardSettings,
        max_iter: int,  # no trees grow after it
    ):
        self.forest = forest
        self.shards = shards
        self.setup = setup
        self.choices = Subsamples(setup, self.query_shards)
        self.max_iter = max_iter
        self._learning_rate = setup.growth.learning_rate
        self._size: int | None = None
        self._decrease = PROBABLE_DECREASE
        # Trees of the next iteration, which grow in the same exchange that computes the value of
        # the validation data, unless the learning rate changes between iterations.
        self._next: IterationResult | None = None
        self._looks_ahead = True

    @property
    def learning_rate(self) -> float:
        """Factor of the leaf values of the next trees."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        if rate != self._learning_rate and self._next is not None:
            self._next, self._looks_ahead = None, False
        self._learning_rate = rate

    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""
        grown, self._next = self._next or self._run(self._request()), None
        self.forest.extend(grown.trees)
        return grown.value

    def value(self) -> float:
        """Compute the value of the objective at the current scores."""
        return self._run(wants_value=True).value

    def validate(self) -> IterationResult:
        """Return a result that has the value of the validation data."""
        request = None
        if self._looks_ahead and self.forest.n_iter < self.max_iter and self._next is None:
            request = self._request()
        grown = self._run(request, wants_validation=True)
        if request is not None:
            self._next = grown
        return grown

    def query_shards(self, query: Callable[[Shard], Any]) -> list:
        """Return the answers of all shards to a query, in any order."""
        return self._run(query=query).answers

    def _request(self) -> SampleRequest:
        """Return the request of the examples of the next iteration."""
        sampling, iteration = self.setup.sampling, self.forest.n_iter
        mu, floor = sampling.threshold, self.choices.floor(iteration)
        if sampling.max_examples is not None:
            if self._size is None:
                mu, floor = KEEP_NONE, 0.0  # which only computes the size
            else:
                mu = guess_for(mu, self._size, sampling.max_examples, self._decrease)
        return SampleRequest(mu, floor, self.choices.last_chosen(iteration))

    def _run(self, request: SampleRequest | None = None, **wanted: Any) -> IterationResult:
        """Carry out a step, and another one if the threshold of the request is too large."""
        grown = self._exchange(request, **wanted)
        if request is None:
            return grown
        if self._size is not None:
            self._decrease = probable_decrease(self._size, grown.size)
        self._size = grown.size
        if grown.trees is not None:
            return grown
        floor = self.choices.floor(self.forest.n_iter)
        again = self._exchange(replace(request, mu=grown.mu, floor=floor))
        return replace(grown, trees=again.trees)

    def _exchange(self, request: SampleRequest | None, **wanted: Any) -> IterationResult:
        n_iter, rate = self.forest.n_iter, self._learning_rate

        def step(first: int) -> IterationRequest:
            trees = self.forest.iterations(first, n_iter).pack()
            return IterationRequest(first, n_iter, trees, request, rate, **wanted)

        return self.shards.iterate(step(max(n_iter - 1, 0)), step)


class ShardsValidation:
    """Validation data of all parts, scored in the exchanges of a booster."""

    def __init__(self, booster: SampledBooster):
        self.booster = booster
        self.latest: IterationResult | None = None

    def value(self, forest: Forest) -> float:
        """Compute the value of the objective under the booster's forest."""
        self.latest = self.booster.validate()
        return self.latest.validation

    def predictions(self, forest: Forest) -> np.ndarray:
        """Return the latest predictions for all positions, in the order of the parts."""
        of_parts = self.latest.predictions
        return np.concatenate([of_parts[number] for number in sorted(of_parts)])


def scored_on_shards(booster: SampledBooster) -> Scored:
    """Return validation data that are scored by the parameter ``scoring``."""
    setup, validation = booster.setup, ShardsValidation(booster)
    spec = setup.spec
    if spec.scoring in OBJECTIVES:
        return validation
    if spec.scoring in MEANS:
        return LabelScore(validation, _mean_score, lambda _: validation.latest.score)
    answers = booster.query_shards(_true_labels)
    by_number = {number: part for answer in answers for number, part in answer.items()}
    true = TrueLabels.joined([by_number[number] for number in sorted(by_number)])
    metric = metric_of(spec.scoring, true, setup.classes, spec.kind.is_backward)
    return LabelScore(validation, metric, validation.predictions)


def _true_labels(shard: Shard) -> dict[int, TrueLabels]:
    return {number: true_labels(data) for number, data in shard.held_out.items()}


def _mean_score(score: float) -> float:
    if np.isnan(score):
        raise no_known_labels()
    return score
