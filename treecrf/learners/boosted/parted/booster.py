"""Boosting on shards: one exchange an iteration, and growth of the trees in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from treecrf.chains._sampling import Sample
from treecrf.chains.sampling import (
    KEEP_NONE,
    PROBABLE_DECREASE,
    Draw,
    RawDraw,
    floor_for,
    guess_for,
    mu_for,
    probable_decrease,
)
from treecrf.encoding.gathered import chained
from treecrf.learners.boosted.evaluation import (
    MEANS,
    OBJECTIVES,
    Evaluations,
    LabelScore,
    Scored,
    TrueLabels,
    metric_of,
    no_known_labels,
)
from treecrf.learners.boosted.loop import subsample_hashes, subsample_size
from treecrf.learners.boosted.parted.shard import (
    Behind,
    Drawn,
    DrawnExamples,
    DrawRequest,
    Shard,
    ShardSetup,
    Step,
    total,
    true_labels,
)
from treecrf.learners.boosted.sampled import ListedPositions, ListGrowth, grow_iteration
from treecrf.learners.boosted.selection import Choice
from treecrf.learners.iterations import Callbacks
from treecrf.learners.stopping import History
from treecrf.learners.training_data import TrainingInput
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import TestTable, number_tests
from treecrf.utils.exact import ExactSum
from treecrf.utils.fleet import Fleet, itself
from treecrf.utils.scratch import Allocate
from treecrf.utils.threads import Threads

MAX_HASH = (1 << 64) - 1
# Number of iterations whose subsamples are chosen at a time.
ITERATIONS_AT_A_TIME = 64


@dataclass(frozen=True)
class Grown:
    """Result of a step, from the answers of all shards.

    Attributes
    ----------
    trees : dict of arrays or None
        The trees of iteration ``n_iter`` of the step, as from `Forest.pack`; None if there was no
        request, or the step must be repeated with this smaller ``mu``.
    mu : float
        The threshold that keeps no more examples than wanted.
    size : int
        Sum of the absolute residuals of all examples, in units of 2**-30.
    value : float
        Value of the objective on the training data; NaN if it was not computed.
    validation : float
        The same for the validation data.
    predictions : dict of arrays
        Codes of labels for the validation sequences of each part, by its number, for metrics that
        need them in one place.
    score : float
        Value of a metric that is a mean over the positions of the validation sequences.
    answers : list
        Answers of all shards to the query of the step, in any order.
    """

    trees: dict[str, np.ndarray] | None
    mu: float
    size: int
    value: float
    validation: float
    predictions: dict[int, np.ndarray]
    score: float
    answers: list


class ListGrowing:
    """Growth of the trees of an iteration on the examples of all shards.

    It can be pickled, and does the same in any process.

    Parameters
    ----------
    setup : ShardSetup
    """

    def __init__(self, setup: ShardSetup):
        self.setup = setup

    @cached_property
    def _table(self) -> TestTable:
        return number_tests(self.setup.encoder)

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "_table"}

    def grow(self, drawn: list[Drawn], step: Step, n_threads: int = 1) -> Grown:
        """Join the answers of all shards to a step, and grow trees.

        Parameters
        ----------
        drawn : list of Drawn
            Answers in any order.
        step : Step
            Its trees are not read.
        n_threads : int, default=1
        """
        sampling = self.setup.sampling
        examples = [answer.examples for answer in drawn if answer.examples is not None]
        size = sum(part.size for part in examples)
        mu = mu_for(sampling.threshold, size, sampling.max_examples)
        trees = None
        if step.request is not None and mu >= step.request.mu:
            of_contexts = total(answer.of_contexts for answer in drawn)
            trees = self._trees(examples, mu, size, of_contexts, step, n_threads)
        return Grown(
            trees,
            mu,
            size,
            _mean(answer.value for answer in drawn),
            _mean(answer.validation for answer in drawn),
            {number: p for answer in drawn for number, p in answer.predictions.items()},
            _mean(answer.score for answer in drawn),
            [answer.answer for answer in drawn],
        )

    def _trees(
        self,
        examples: list[DrawnExamples],
        mu: float,
        size: int,
        of_contexts: np.ndarray | None,
        step: Step,
        n_threads: int,
    ) -> dict[str, np.ndarray]:
        """Grow the trees of an iteration; return them as from `Forest.pack`."""
        setup, estimator, forest = self.setup, self.setup.estimator, self.setup.new_forest()
        growth = replace(setup.growth, learning_rate=step.learning_rate)
        with Threads(n_threads) as threads:
            lists = ListGrowth(
                forest,
                setup.encoder,
                _joined([part.positions for part in examples]),
                growth,
                estimator._is_newton(),
                threads,
                step.n_iter,
                self._table,
            )
            raw = RawDraw(_samples(examples, forest.order), step.request.mu, step.request.floor)
            weighted = raw.lists(mu, threads, counted=lists.with_counts, release=True)
            transitions = estimator._transition_growth(forest, growth)
            grow_iteration(Draw(weighted, mu, size), lists, transitions, of_contexts)
        return forest.pack()


def _mean(sums: Iterable) -> float:
    joined = total(sums)
    if joined is None or not joined.positions.units:
        return np.nan
    return float(joined)


def _joined(parts: list[ListedPositions]) -> ListedPositions:
    """Join the positions of all parts, those of the first ones first."""
    has_given = parts[0].given is not None
    return ListedPositions(
        chained([part.encoded for part in parts]),
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.given for part in parts], axis=1) if has_given else None,
    )


def _samples(examples: list[DrawnExamples], order: int) -> list[Sample]:
    """Unpack the samples of all parts; their positions are those of `_joined`."""
    samples, first = [], 0
    for part in examples:
        n_lags = 0 if part.positions.given is not None else order
        samples.append(Sample.unpack(part.examples, part.starts, n_lags, part.size, first))
        first += len(part.positions.depth)
    return samples


class Shards(Protocol):
    """All shards of the data, wherever they are."""

    def iterate(self, step: Step, again: Callable[[int], Step]) -> Grown:
        """Carry out a step on all shards, and grow trees on their examples in one place.

        Parameters
        ----------
        step : Step
        again : callable
            Returns the same step with the trees from an iteration on, for shards that answer
            `Behind`: ``again(behind.n_iter)``.
        """


class LocalShards:
    """Shards in this process.

    Parameters
    ----------
    shards : list of Shard
    growing : ListGrowing
    n_threads : int, default=1
        Number of threads that grow trees.
    """

    def __init__(self, shards: list[Shard], growing: ListGrowing, n_threads: int = 1):
        self.shards = shards
        self.growing = growing
        self.n_threads = n_threads

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        setup: ShardSetup,
        n_shards: int = 1,
        n_threads: int = 1,
        allocate: Allocate | None = None,
    ) -> Shards:
        """Distribute the parts of a fleet among shards.

        Parameters
        ----------
        fleet : Fleet of EncodedPart
        setup : ShardSetup
        n_shards : int, default=1
        n_threads : int, default=1
            Number of threads of each shard, and of the growth of trees.
        allocate : callable, optional
            As for `Shard`.
        """
        parts = list(enumerate(fleet.map(itself)))
        shards = [
            Shard(setup, dict(parts[i::n_shards]), n_threads, allocate) for i in range(n_shards)
        ]
        return cls(shards, ListGrowing(setup), n_threads)

    def iterate(self, step: Step, again: Callable[[int], Step]) -> Grown:
        """Carry out a step on all shards, one after another."""
        drawn = [self._run(shard, step, again) for shard in self.shards]
        return self.growing.grow(drawn, step, self.n_threads)

    @staticmethod
    def _run(shard: Shard, step: Step, again: Callable[[int], Step]) -> Drawn:
        answer = shard.run(step)
        return shard.run(again(answer.n_iter)) if isinstance(answer, Behind) else answer


class FleetBooster:
    """Booster of trees on the examples of shards, with the interface of `SampledBooster`.

    Parameters
    ----------
    forest : Forest
        Receives the trees; those to start from are in it.
    shards : Shards
    setup : ShardSetup
    max_iter : int
        Number of iterations after which no trees grow.
    """

    def __init__(
        self,
        forest: Forest,
        shards: Shards,
        setup: ShardSetup,
        max_iter: int,
    ):
        self.forest = forest
        self.shards = shards
        self.setup = setup
        self.choices = IterationChoices(setup, self.query_shards)
        self.max_iter = max_iter
        self.threads = Threads(1)
        self._learning_rate = setup.growth.learning_rate
        self._size: int | None = None
        self._decrease = PROBABLE_DECREASE
        # Trees of the next iteration, which grow in the same exchange that computes the value of
        # the validation data, unless the learning rate changes between iterations.
        self._next: Grown | None = None
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

    def validate(self) -> Grown:
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

    def _request(self) -> DrawRequest:
        """Return the request of the examples of the next iteration."""
        sampling, iteration = self.setup.sampling, self.forest.n_iter
        mu, floor = sampling.threshold, self.choices.floor(iteration)
        if sampling.max_examples is not None:
            if self._size is None:
                mu, floor = KEEP_NONE, 0.0  # which only computes the size
            else:
                mu = guess_for(mu, self._size, sampling.max_examples, self._decrease)
        return DrawRequest(mu, floor, self.choices.last_chosen(iteration))

    def _run(self, request: DrawRequest | None = None, **wanted: Any) -> Grown:
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

    def _exchange(self, request: DrawRequest | None, **wanted: Any) -> Grown:
        n_iter, rate = self.forest.n_iter, self._learning_rate

        def step(first: int) -> Step:
            trees = self.forest.iterations(first, n_iter).pack()
            return Step(first, n_iter, trees, request, rate, **wanted)

        return self.shards.iterate(step(max(n_iter - 1, 0)), step)


class FleetValidation:
    """Validation data of all parts, scored in the exchanges of a booster.

    Parameters
    ----------
    booster : FleetBooster

    Attributes
    ----------
    latest : Grown or None
        The latest result.
    """

    def __init__(self, booster: FleetBooster):
        self.booster = booster
        self.latest: Grown | None = None

    def value(self, forest: Forest, threads: Threads) -> float:
        """Compute the value of the objective under the forest, that of the booster."""
        self.latest = self.booster.validate()
        return self.latest.validation

    def predictions(self, forest: Forest, threads: Threads) -> np.ndarray:
        """Return the latest predictions for all positions, in the order of the parts."""
        of_parts = self.latest.predictions
        return np.concatenate([of_parts[number] for number in sorted(of_parts)])


def boost_on_shards(
    data: TrainingInput,
    setup: ShardSetup,
    shards: Shards,
    forest: Forest,
    choice: Choice,
    callbacks: Callbacks,
) -> History:
    """Add trees to a forest that grow on the examples of shards; return the scores.

    Parameters
    ----------
    data : TrainingInput
        Its sequences are not read.
    setup : ShardSetup
    shards : Shards
    forest : Forest
        Trees to start from; new ones are appended.
    choice : Choice
    callbacks : Callbacks
    """
    estimator = setup.estimator
    booster = FleetBooster(forest, shards, setup, choice.n_iter)
    validation = _scored(booster) if setup.totals.held_out.n_sequences else None
    evaluations = Evaluations([], validation, estimator.scoring)
    return estimator._boost_by(booster, evaluations, data, setup.encoder, choice, callbacks)


def _scored(booster: FleetBooster) -> Scored:
    """Return validation data that are scored by the parameter ``scoring``."""
    setup, validation = booster.setup, FleetValidation(booster)
    estimator = setup.estimator
    if estimator.scoring in OBJECTIVES:
        return validation
    if estimator.scoring in MEANS:
        return MeanScore(validation)
    answers = booster.query_shards(_true_labels)
    by_number = {number: part for answer in answers for number, part in answer.items()}
    true = TrueLabels.joined([by_number[number] for number in sorted(by_number)])
    metric = metric_of(estimator.scoring, true, setup.classes, estimator._is_backward())
    return LabelScore(validation, metric, validation.predictions)


def _true_labels(shard: Shard) -> dict[int, TrueLabels]:
    return {number: true_labels(data) for number, data in shard.held_out.items()}


class MeanScore:
    """Validation data that are scored by a mean over their positions.

    Parameters
    ----------
    objective : FleetValidation

    Attributes
    ----------
    latest : float
        The latest value of the objective.
    """

    def __init__(self, objective: FleetValidation):
        self.objective = objective
        self.latest = np.nan

    def value(self, forest: Forest, threads: Threads) -> float:
        """Compute the metric under the forest."""
        self.latest = self.objective.value(forest, threads)
        score = self.objective.latest.score
        if np.isnan(score):
            raise no_known_labels()
        return score


class IterationChoices:
    """Choices of an iteration that depend on all sequences.

    These are the subsample, and the number of examples that are kept for their weight alone.

    Parameters
    ----------
    setup : ShardSetup
    query_shards : callable
        Returns the answers of all shards to a query.
    """

    def __init__(self, setup: ShardSetup, query_shards: Callable[[Callable[[Shard], Any]], list]):
        self.setup = setup
        self.query_shards = query_shards
        self._last_chosen: dict[int, int] = {}
        self._weights: dict[int, float] = {}

    def last_chosen(self, iteration: int) -> int | None:
        """Return the largest hash of a sequence in the subsample; None if there is none."""
        if self.setup.growth.subsample >= 1:
            return None
        if iteration not in self._last_chosen:
            self._choose(iteration)
        return self._last_chosen[iteration]

    def floor(self, iteration: int) -> float:
        """Return the probability that an example of weight 1 without a residual is kept."""
        setup = self.setup
        if setup.estimator._is_newton():
            return 0.0
        weight = float(setup.totals.training.weight)
        if setup.growth.subsample < 1:
            self.last_chosen(iteration)
            weight = self._weights[iteration]
        n_examples = setup.estimator._n_scores(setup.n_labels)
        threshold, max_examples = setup.sampling.threshold, setup.sampling.max_examples
        return floor_for(threshold, max_examples, weight, n_examples)

    def _choose(self, first: int) -> None:
        """Choose the subsamples of some iterations."""
        growth, n = self.setup.growth, self.setup.totals.training.n_sequences
        iterations = list(range(first, first + ITERATIONS_AT_A_TIME))
        n_chosen = subsample_size(n, growth)
        near = _HashesNear(growth, iterations, *_quantile_window(n_chosen, n))
        answers = self.query_shards(near)
        for i, iteration in enumerate(iterations):
            rank = n_chosen - 1 - sum(counts[i] for counts, _ in answers)
            hashes = np.concatenate([hashes[i] for _, hashes in answers])
            if not 0 <= rank < len(hashes):  # hardly ever
                rank, every = n_chosen - 1, _HashesNear(growth, [iteration], 0, MAX_HASH)
                hashes = np.concatenate([hashes[0] for _, hashes in self.query_shards(every)])
            self._last_chosen[iteration] = int(np.partition(hashes, rank)[rank])
        if not self.setup.estimator._is_newton():
            chosen = {iteration: self._last_chosen[iteration] for iteration in iterations}
            weights = self.query_shards(_ChosenWeights(growth, chosen))
            sums = [sum(column, ExactSum()) for column in zip(*weights, strict=True)]
            self._weights |= dict(zip(iterations, map(float, sums), strict=True))


def _quantile_window(k: int, n: int) -> tuple[int, int]:
    """Return bounds between which the k-th smallest of n hashes almost certainly is."""
    margin = 8 * (k * max(n - k, 1) / n) ** 0.5 + 8
    low, high = max(0.0, (k - margin) / n), min(1.0, (k + margin) / n)
    return int(low * 2.0**64), min(int(high * 2.0**64), MAX_HASH)


@dataclass(frozen=True)
class _HashesNear:
    """Query of the hashes of sequences in a window, and of the number of those below it."""

    growth: Growth
    iterations: list[int]
    low: int
    high: int

    def __call__(self, shard: Shard) -> tuple[list[int], list[np.ndarray]]:
        keys = [np.zeros(0, dtype=np.uint64), *(data.keys for data in shard.training)]
        keys, counts, near = np.concatenate(keys), [], []
        for iteration in self.iterations:
            hashes = subsample_hashes(keys, self.growth, iteration)
            is_below = hashes < np.uint64(self.low)
            counts.append(int(is_below.sum()))
            near.append(hashes[~is_below & (hashes <= np.uint64(self.high))])
        return counts, near


@dataclass(frozen=True)
class _ChosenWeights:
    """Query of the weight of the positions in the subsamples of some iterations.

    ``last_chosen`` has the largest chosen hash of each iteration.
    """

    growth: Growth
    last_chosen: dict[int, int]

    def __call__(self, shard: Shard) -> list[ExactSum]:
        sums = []
        for iteration, last in self.last_chosen.items():
            total_here = ExactSum()
            for data in shard.training:
                chosen = subsample_hashes(data.keys, self.growth, iteration) <= np.uint64(last)
                positions = np.repeat(chosen, np.diff(data.offsets))
                total_here += ExactSum.of(data.position_weights[positions])
            sums.append(total_here)
        return sums
