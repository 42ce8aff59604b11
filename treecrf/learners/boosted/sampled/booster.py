"""Boosting on shards: one exchange an iteration, and growth of the trees in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.sampled.sampling import (
    KEEP_NONE,
    PROBABLE_DECREASE,
    floor_for,
    guess_for,
    probable_decrease,
)
from treecrf.learners.base.validation_metrics import (
    OBJECTIVE_SCORINGS,
    POSITION_MEANS,
    no_known_labels,
    validation_metric,
)
from treecrf.learners.boosted.booster import (
    Validation,
    halve_while_worse,
    subsample_hashes,
    subsample_size,
)
from treecrf.learners.boosted.sampled.exchange import (
    IterationRequest,
    IterationResult,
    SampleRequest,
    Stale,
)
from treecrf.learners.boosted.sampled.growth import SampledGrowth
from treecrf.learners.boosted.sampled.setup import SampledSetup
from treecrf.learners.boosted.sampled.shard import Shard
from treecrf.trees.forest import Forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils.allocation import Allocate
from treecrf.utils.exact import ExactSum
from treecrf.utils.partitions import Partitions, identity

MAX_HASH = (1 << 64) - 1
# Number of iterations whose subsamples are chosen at a time: each choice takes an exchange.
ITERATIONS_AT_A_TIME = 64


class LocalShards:
    """Shards in this process, among which partitions of `EncodedPart` are distributed."""

    def __init__(
        self,
        partitions: Partitions,
        setup: SampledSetup,
        n_shards: int = 1,
        n_threads: int = 1,  # threads of each shard, and of the growth of trees
        allocate: Allocate | None = None,
    ):
        numbered = list(enumerate(partitions.map(identity)))
        self.shards = [
            Shard(setup, dict(numbered[i::n_shards]), n_threads, allocate) for i in range(n_shards)
        ]
        if n_shards == 1 and len(self.shards[0].training) == 1:
            # Files would be read into memory.
            self.shards[0].is_resident = allocate is None
        self.growing = SampledGrowth(setup)
        self.n_threads = n_threads

    def iterate(
        self, step: IterationRequest, again: Callable[[int], IterationRequest]
    ) -> IterationResult:
        """Carry out a step on all shards, and grow trees on their examples in one place.

        If a shard answers `Stale`, ``again(stale.n_iter)`` is the step with the trees it lacks.
        """
        answers = []
        for shard in self.shards:
            answer = shard.run(step)
            if isinstance(answer, Stale):
                answer = shard.run(again(answer.n_iter))
            answers.append(answer)
        return self.growing.grow(answers, step, self.n_threads)

    def release_growers(self) -> None:
        """Release the working memory of growing trees; the next iteration takes it again."""
        self.growing.release_growers()


class SampledBooster:
    """The counterpart of `Booster` for trees on samples of the examples, which shards draw."""

    def __init__(
        self,
        forest: Forest,  # trees to start from; new trees are appended
        shards: Any,  # LocalShards or DaskShards
        setup: SampledSetup,
    ):
        self.forest = forest
        self.shards = shards
        self.setup = setup
        # For each iteration with a subsample: the largest hash of a sequence in it, and its weight.
        self._last_chosen: dict[int, int] = {}
        self._chosen_weights: dict[int, float] = {}
        self._learning_rate = setup.tree_settings.learning_rate
        # Sum of the absolute residuals at the latest scores, and a probable lower bound on its
        # ratio to the one before; see `guess_for`.
        self._size: int | None = None
        self._decrease = PROBABLE_DECREASE
        # Trees of the next iteration, which grow in the same exchange that computes the values at
        # the present scores, unless the learning rate changes between iterations.
        self._next: IterationResult | None = None
        self._looks_ahead = True
        # Result with the values at the present scores, if they were computed.
        self._present: IterationResult | None = None
        self._validates = False
        self._halvings = [0] * forest.n_iter  # how many times each iteration was halved

    @property
    def learning_rate(self) -> float:
        """Factor of the leaf values of the next trees."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        if rate != self._learning_rate and self._next is not None:
            self._next = None
            self._looks_ahead = False
        self._learning_rate = rate

    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""
        result = self._next
        self._next = None
        if result is None:
            result = self._run(self._request())
        self.forest.extend(result.trees)
        self._halvings.append(0)
        self._present = None
        if self.setup.halves_steps:
            halve_while_worse(result.value, self._look_ahead, self._halve_latest)
        return result.value

    def _look_ahead(self) -> float:
        """Compute the values at the present scores; return that of the objective."""
        is_last = self.forest.n_iter >= self.setup.spec.max_iter
        if is_last or not self._looks_ahead:
            self._present = self._run(wants_value=True, wants_validation=self._validates)
        else:
            self._next = self._run(self._request(), wants_validation=self._validates)
            self._present = self._next
        return self._present.value

    def _halve_latest(self) -> None:
        """Halve the latest iteration."""
        self.forest.halve_latest()
        self._halvings[-1] += 1

    def release_growers(self) -> None:
        """Release the working memory of growing trees, which must be in this process."""
        self.shards.release_growers()

    def value(self) -> float:
        """Compute the value of the objective at the current scores."""
        if self._present is not None:
            return self._present.value
        return self._run(wants_value=True).value

    def validate(self) -> IterationResult:
        """Return a result that has the value of the validation data."""
        if self._present is not None and self._validates:
            return self._present
        self._validates = True
        is_last = self.forest.n_iter >= self.setup.spec.max_iter
        if is_last or not self._looks_ahead or self._next is not None:
            return self._run(wants_validation=True)
        self._next = self._run(self._request(), wants_validation=True)
        return self._next

    def query_shards(self, query: Callable[[Shard], Any]) -> list:
        """Return the answers of all shards to a query, in any order."""
        return self._run(query=query).answers

    def _request(self) -> SampleRequest:
        """Return the request of the examples of the next iteration."""
        setup = self.setup
        iteration = self.forest.n_iter
        last_chosen = None
        if setup.tree_settings.subsample < 1:
            if iteration not in self._last_chosen:
                self._choose_subsamples(iteration)
            last_chosen = self._last_chosen[iteration]
        max_examples = setup.max_examples
        if max_examples is None:
            return SampleRequest(setup.threshold, self._floor(), last_chosen)
        if self._size is None:
            # The first request only computes the size.
            return SampleRequest(KEEP_NONE, 0.0, last_chosen)
        mu = guess_for(setup.threshold, self._size, max_examples, self._decrease)
        return SampleRequest(mu, self._floor(), last_chosen)

    def _floor(self) -> float:
        """Return the probability that an example of weight 1 without a residual is kept."""
        setup = self.setup
        kind = setup.spec.kind
        if kind.has_curvature:
            return 0.0
        weight = setup.weight
        if setup.tree_settings.subsample < 1:
            weight = self._chosen_weights[self.forest.n_iter]
        n_examples = kind.n_scores(setup.n_labels)
        return floor_for(setup.threshold, setup.max_examples, weight, n_examples)

    def _choose_subsamples(self, first: int) -> None:
        """Choose the subsamples of some iterations, which depend on all sequences."""
        tree_settings = self.setup.tree_settings
        n_sequences = self.setup.n_sequences
        iterations = list(range(first, first + ITERATIONS_AT_A_TIME))
        n_chosen = subsample_size(n_sequences, tree_settings)
        window = _quantile_window(n_chosen, n_sequences)
        answers = self.query_shards(partial(_hashes_near, tree_settings, iterations, *window))
        for i, iteration in enumerate(iterations):
            rank = n_chosen - 1 - sum(n_below[i] for n_below, _ in answers)
            hashes = np.concatenate([near[i] for _, near in answers])
            if not 0 <= rank < len(hashes):  # hardly ever
                every = partial(_hashes_near, tree_settings, [iteration], 0, MAX_HASH)
                hashes = np.concatenate([hashes[0] for _, hashes in self.query_shards(every)])
                rank = n_chosen - 1
            self._last_chosen[iteration] = int(np.partition(hashes, rank)[rank])
        if not self.setup.spec.kind.has_curvature:
            chosen = {iteration: self._last_chosen[iteration] for iteration in iterations}
            weights = self.query_shards(partial(_chosen_weights, tree_settings, chosen))
            sums = [sum(column, ExactSum()) for column in zip(*weights, strict=True)]
            self._chosen_weights |= dict(zip(iterations, map(float, sums), strict=True))

    def _run(self, request: SampleRequest | None = None, **wanted: Any) -> IterationResult:
        """Carry out a step, and another one if the threshold of the request is too large."""
        result = self._exchange(request, **wanted)
        if request is None:
            return result
        if self._size is not None:
            self._decrease = probable_decrease(self._size, result.size)
        self._size = result.size
        if result.trees is not None:
            return result
        repeated = self._exchange(replace(request, mu=result.mu, floor=self._floor()))
        return replace(result, trees=repeated.trees)

    def _exchange(self, request: SampleRequest | None, **wanted: Any) -> IterationResult:
        n_iter = self.forest.n_iter

        def step_from(first: int) -> IterationRequest:
            trees = self.forest.iterations(first, n_iter)
            halvings = tuple(self._halvings)
            rate = self._learning_rate
            return IterationRequest(first, n_iter, trees, halvings, request, rate, **wanted)

        return self.shards.iterate(step_from(max(n_iter - 1, 0)), step_from)


class ShardsValidation(Validation):
    """Validation data of all partitions, scored in the exchanges of a booster."""

    def __init__(self, booster: SampledBooster, metric: Callable[[IterationResult], float] | None):
        self.booster = booster
        self.metric = metric  # None: the objective
        self.latest = np.nan  # latest value of the objective

    def value(self, forest: Forest) -> float:
        """Compute the score under the booster's forest."""
        result = self.booster.validate()
        self.latest = result.validation
        return self.latest if self.metric is None else self.metric(result)


def validation_on_shards(booster: SampledBooster) -> ShardsValidation:
    """Return validation data that are scored by the parameter ``scoring``."""
    setup = booster.setup
    scoring = setup.spec.scoring
    if scoring in OBJECTIVE_SCORINGS:
        return ShardsValidation(booster, None)
    if scoring in POSITION_MEANS:
        return ShardsValidation(booster, _mean_score)
    true = ChainLabels.joined(_in_order(booster.query_shards(_true_labels)))
    metric = validation_metric(scoring, true, setup.classes, setup.spec.kind.is_backward)

    def score(result: IterationResult) -> float:
        return metric(np.concatenate(_in_order([result.predictions])))

    return ShardsValidation(booster, score)


def _in_order(answers: list[dict[int, Any]]) -> list:
    """Return what shards have for each partition, in the order of the partitions."""
    by_number: dict[int, Any] = {}
    for answer in answers:
        by_number |= answer
    return [by_number[number] for number in sorted(by_number)]


def _true_labels(shard: Shard) -> dict[int, ChainLabels]:
    return {number: data.labels for number, data in shard.held_out.items()}


def _mean_score(result: IterationResult) -> float:
    if np.isnan(result.score):
        raise no_known_labels()
    return result.score


# Subsamples


def _quantile_window(k: int, n: int) -> tuple[int, int]:
    """Return bounds between which the k-th smallest of n hashes almost certainly is."""
    margin = 8 * (k * max(n - k, 1) / n) ** 0.5 + 8
    low = max(0.0, (k - margin) / n)
    high = min(1.0, (k + margin) / n)
    return int(low * 2.0**64), min(int(high * 2.0**64), MAX_HASH)


def _hashes_near(
    tree_settings: TreeSettings, iterations: list[int], low: int, high: int, shard: Shard
) -> tuple[list[int], list[np.ndarray]]:
    """Return the number of sequences with hashes below a window, and the hashes in it."""
    none = np.zeros(0, dtype=np.uint64)  # a shard may have no training sequences
    keys = np.concatenate([none, *(data.keys for data in shard.training)])
    n_below = []
    near = []
    for iteration in iterations:
        hashes = subsample_hashes(keys, tree_settings, iteration)
        is_below = hashes < np.uint64(low)
        n_below.append(int(is_below.sum()))
        near.append(hashes[~is_below & (hashes <= np.uint64(high))])
    return n_below, near


def _chosen_weights(
    tree_settings: TreeSettings, last_chosen: dict[int, int], shard: Shard
) -> list[ExactSum]:
    """Return the weight of the positions in the subsample of each iteration."""
    sums = []
    for iteration, last in last_chosen.items():
        weight = ExactSum()
        for data in shard.training:
            is_chosen = subsample_hashes(data.keys, tree_settings, iteration) <= np.uint64(last)
            positions = np.repeat(is_chosen, np.diff(data.encoded.offsets))
            weight += ExactSum.of(data.position_weights[positions])
        sums.append(weight)
    return sums
