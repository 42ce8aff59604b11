"""A simulated clock of training on a cluster: what is assumed, and how an iteration takes place.

Seconds of computation and bytes come from the caller, which has measured them. Everything else is
an assumption, and all assumptions are the fields of `Cluster`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cluster:
    """Assumptions about machines and the network between them. Times are in seconds."""

    cores: int = 16  # of a worker, and of the one machine that it is compared with
    efficiency: float = (
        0.75  # speed-up of the work on a shard by the cores, relative to their number
    )
    growth_speedup: float = 6.0  # of the growth of trees by the cores of a worker
    latency: float = 0.0005  # of a message, whatever its size
    # Bytes per second of the link of the worker that grows the trees. All answers arrive through
    # this link, one after another, and the trees leave through it, a copy for each worker.
    bandwidth: float = 1.25e9
    overhead: float = 0.01  # of the client and the scheduler in an iteration
    task: float = 0.0005  # of the scheduler for the task of a shard; tasks follow one another
    # Standard deviation of the logarithm of a random factor, with median 1, of a shard's time.
    straggling: float = 0.1
    loss: float = 1e-5  # probability that a worker is lost, for each worker and iteration
    detection: float = 10.0  # until a loss is noticed and another worker takes over
    reading: float = 2e8  # bytes per second at which a worker reads its part of the data again


@dataclass(frozen=True)
class Exchange:
    """An iteration, as measured or extrapolated. Times are seconds of one core."""

    shards: np.ndarray  # the step of each shard
    answers: np.ndarray  # bytes of their answers
    joining: float  # unpickling and joining of the answers, which one core does
    growth: float  # growth of the trees, which several cores share
    trees: float  # bytes of the trees
    reading: float = 0.0  # bytes of the data of a shard, which are read again after a loss
    rebuilding: float = 0.0  # encoding of a shard's data, and additions of the trees so far


def elapsed(
    exchange: Exchange, cluster: Cluster, random: np.random.Generator, lost: np.ndarray | bool
) -> float:
    """Return the seconds of an iteration by the simulated clock, in which shards may be lost."""
    n = len(exchange.shards)
    sent = cluster.overhead + n * exchange.trees / cluster.bandwidth + 2 * cluster.latency
    begun = sent + cluster.task * np.arange(1, n + 1)
    steps = exchange.shards / (cluster.cores * cluster.efficiency)
    steps = steps * random.lognormal(sigma=cluster.straggling, size=n)
    ended = begun + steps + lost * recovery(exchange, cluster)
    last = arrival(ended + cluster.latency, exchange.answers / cluster.bandwidth)
    growth = exchange.joining + exchange.growth / cluster.growth_speedup
    return float(last + growth + cluster.latency)


def recovery(exchange: Exchange, cluster: Cluster) -> float:
    """Return the seconds until a lost shard is ready again on another worker."""
    rebuilding = exchange.rebuilding / (cluster.cores * cluster.efficiency)
    return cluster.detection + exchange.reading / cluster.reading + rebuilding


def arrival(ready: np.ndarray, transfers: np.ndarray) -> float:
    """Return when the last answer has arrived, if one link takes them one after another."""
    order = np.argsort(ready)
    # Each answer waits for itself and for all earlier ones.
    before = np.cumsum(transfers[order]) - transfers[order]
    return float((ready[order] - before).max() + transfers.sum())


def elapsed_on_one(seconds: float, growth: float, cluster: Cluster) -> float:
    """Return the seconds of an iteration on one machine, without messages and losses."""
    return seconds / (cluster.cores * cluster.efficiency) + growth / cluster.growth_speedup


def mean_elapsed(exchange: Exchange, cluster: Cluster, n_iter: int = 50, seed: int = 0) -> float:
    """Return the mean seconds of an iteration.

    Losses are rare, so iterations with one loss and without any are simulated apart and weighted by
    their probabilities. Several losses in one iteration take no longer than one.
    """
    random = np.random.default_rng(seed)
    n = len(exchange.shards)
    none = np.mean([elapsed(exchange, cluster, random, False) for _ in range(n_iter)])
    one = np.mean([
        elapsed(exchange, cluster, random, np.arange(n) == random.integers(n))
        for _ in range(n_iter)
    ])  # fmt: skip
    probability = -np.expm1(n * np.log1p(-cluster.loss))
    return float((1 - probability) * none + probability * one)
