"""A simulated clock of training on a cluster: what is assumed, and how an iteration takes place.

Seconds of computation and bytes come from the caller, which has measured them. Everything else is
an assumption, and all assumptions are the fields of `Cluster`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cluster:
    """Assumptions about machines and the network between them.

    Attributes
    ----------
    cores : int
        Number of cores of a worker, and of the one machine that it is compared with.
    efficiency : float
        Speed-up of the work on a shard by the cores, relative to their number. `threads.py`
        computes 0.6 to 0.8.
    growth_speedup : float
        Speed-up of the growth of trees by the cores of a worker. `threads.py` computes 5 to 6.
    latency : float
        Seconds that a message takes, whatever its size.
    bandwidth : float
        Bytes per second of the link of the worker that grows the trees. All answers arrive through
        this link, one after another, and the trees leave through it, a copy for each worker.
    overhead : float
        Seconds of the client and the scheduler for an iteration.
    task : float
        Seconds of the scheduler for the task of a shard; tasks follow one another.
    straggling : float
        Standard deviation of the logarithm of a random factor, with median 1, of the time that a
        shard takes.
    loss : float
        Probability that a worker is lost, for each worker and iteration.
    detection : float
        Seconds until a loss is noticed and another worker takes over.
    reading : float
        Bytes per second at which a worker reads its part of the data again.
    """

    cores: int = 16
    efficiency: float = 0.75
    growth_speedup: float = 6.0
    latency: float = 0.0005
    bandwidth: float = 1.25e9
    overhead: float = 0.01
    task: float = 0.0005
    straggling: float = 0.1
    loss: float = 1e-5
    detection: float = 10.0
    reading: float = 2e8


@dataclass(frozen=True)
class Exchange:
    """An iteration, as measured or extrapolated: seconds are those of one core.

    Attributes
    ----------
    shards : float array (n_shards,)
        Seconds of the step of each shard.
    answers : float array (n_shards,)
        Bytes of their answers.
    joining : float
        Seconds to unpickle and join the answers, which one core does.
    growth : float
        Seconds of the growth of the trees, which several cores share.
    trees : float
        Bytes of the trees.
    reading : float
        Bytes of the data of a shard, which are read again after a loss.
    rebuilding : float
        Seconds to encode the data of a shard, and to add the trees so far to its scores.
    """

    shards: np.ndarray
    answers: np.ndarray
    joining: float
    growth: float
    trees: float
    reading: float = 0.0
    rebuilding: float = 0.0


def elapsed(
    exchange: Exchange,
    cluster: Cluster,
    random: np.random.Generator,
    lost: np.ndarray | bool | None = None,
) -> float:
    """Return the seconds of an iteration by the simulated clock.

    ``lost`` are the shards that are lost in the iteration; by default, they are drawn.
    """
    n = len(exchange.shards)
    if lost is None:
        lost = random.random(n) < cluster.loss
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
