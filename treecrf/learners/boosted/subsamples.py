"""Choices of an iteration that depend on all sequences: subsamples and their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.chains.sampling import floor_for
from treecrf.learners.boosted.loop import subsample_hashes, subsample_size
from treecrf.learners.boosted.messages import ShardSettings
from treecrf.learners.boosted.shard import Shard
from treecrf.trees.growing.growth import Growth
from treecrf.utils.exact import ExactSum

MAX_HASH = (1 << 64) - 1
# Number of iterations whose subsamples are chosen at a time.
ITERATIONS_AT_A_TIME = 64


class Subsamples:
    """Choices of an iteration that depend on all sequences.

    These are the subsample, and the number of examples that are kept for their weight alone.
    """

    def __init__(
        self, setup: ShardSettings, query_shards: Callable[[Callable[[Shard], Any]], list]
    ):
        self.setup = setup
        self.query_shards = query_shards  # returns the answers of all shards to a query
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
        if setup.spec.kind.has_curvature:
            return 0.0
        weight = float(setup.totals.training.weight)
        if setup.growth.subsample < 1:
            self.last_chosen(iteration)
            weight = self._weights[iteration]
        n_examples = setup.spec.kind.n_scores(setup.n_labels)
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
        if not self.setup.spec.kind.has_curvature:
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
