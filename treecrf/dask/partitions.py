"""Parts of the data, and shards of them in training, on the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

from distributed import Future, get_worker
from distributed.comm import get_address_host
from distributed.sizeof import sizeof

from treecrf.dask.cluster import ADVICE, MAX_LOSSES, Cluster, WorkersLostError, released
from treecrf.encoding.encoded import window_within
from treecrf.inputs.large.local_partitions import PartitionsView
from treecrf.learners.base.training_data import TrainingInput
from treecrf.learners.boosted.engines import example_limit
from treecrf.learners.boosted.sampled.exchange import IterationRequest, IterationResult, Stale
from treecrf.learners.boosted.sampled.growth import SampledGrowth
from treecrf.learners.boosted.sampled.setup import SampledSetup
from treecrf.learners.boosted.sampled.shard import Shard
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.utils.partitions import PerPartition, StoredPartitions, identity
from treecrf.utils.threads import Threads, keeping_freed_memory, size_text

# Seconds between two checks of whether shards should move to new workers.
SECONDS_BETWEEN_MOVES = 10.0
# Fraction of its memory limit at which Dask ends a worker.
USABLE = 0.95
# Bytes of a position besides its features and scores: labels, offsets, keys, rows.
FIXED_BYTES = 40
# Bytes of an example besides the rows of features in its window: values, labels, numbers.
EXAMPLE_BYTES = 64


@dataclass(eq=False)
class DaskPartitions(StoredPartitions):
    """Parts that are results of tasks.

    A part that is lost with a worker is computed again from the tasks that it depends on. If the
    cluster restarts, the tasks of all parts are submitted again. Unless the parts are kept in the
    memory of the workers, each operation computes them again.
    """

    cluster: Cluster
    n_parts: int
    submit: Callable[[], list[Future]]  # submits the tasks of the parts
    keep: bool = True
    origins: Sequence[DaskPartitions] = ()  # from which the parts are computed
    _futures: list[Future] | None = None
    _generation: int = -1

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return self.cluster.run(lambda: self._calls(function, args))

    def derive(self, function: Callable[..., Any], *args: Any) -> DaskPartitions:
        """Return the partitions ``function(part, *args)``, computed on first use."""
        submit = partial(self._calls, function, args)
        return DaskPartitions(self.cluster, self.n_parts, submit, origins=[self])

    def view(self, function: Callable[..., Any], *args: Any) -> PartitionsView:
        """Return the partitions ``function(part, *args)``, which are computed at each use."""
        return PartitionsView(self, function, *args)

    def persisted(self) -> DaskPartitions:
        """Return the same partitions: workers hold derived ones in memory, or on their disks."""
        return self

    kept = persisted

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, computed on a worker.

        A function that shows progress is called in this process.
        """
        if _shows_progress(args):
            return function(self.map(identity), *args)
        return self.cluster.run(lambda: self.cluster.submit_call(function, self.futures(), *args))

    def only(self, chosen: Sequence[bool]) -> DaskPartitions:
        """Return the partitions that are marked."""
        return DaskPartitions(
            self.cluster,
            sum(chosen),
            lambda: list(compress(self.futures(), chosen)),
            keep=False,
            origins=[self],
        )

    def chain(self, other: DaskPartitions) -> DaskPartitions:
        """Return these partitions, followed by others."""
        return DaskPartitions(
            self.cluster,
            self.n_parts + other.n_parts,
            lambda: [*self.futures(), *other.futures()],
            keep=False,
            origins=[self, other],
        )

    def make_shards(self, make: Callable[..., Any], setup: SampledSetup) -> DaskShards:
        """Return shards of these parts on the workers; ``make`` is for partitions elsewhere."""
        return DaskShards(self, setup)

    def futures(self) -> list[Future]:
        """Return the futures of the parts, which are submitted if necessary."""
        if self._futures is not None and self._generation == self.cluster.generation:
            return self._futures
        futures = self.submit()
        if self.keep:
            self._futures = futures
            self._generation = self.cluster.generation
        return futures

    def release(self) -> None:
        """Let workers forget these parts, and the parts that they are computed from.

        The scheduler keeps the tasks that other tasks depend on, and can run them again.
        """
        if self._futures is not None:
            released(self._futures)
        self._futures = None
        for origin in self.origins:
            origin.release()

    def _calls(self, function: Callable[..., Any], args: Sequence[Any]) -> list[Future]:
        return self.cluster.submit_calls(function, [(part,) for part in self.futures()], args)


def local_partitions(cluster: Cluster, parts: Sequence[Any]) -> DaskPartitions:
    """Return partitions on the cluster from those in this process."""
    return DaskPartitions(
        cluster, len(parts), lambda: [cluster.submit_value(part, "local") for part in parts]
    )


def _shows_progress(args: Any) -> bool:
    """Return whether settings that show progress are among the arguments."""
    if isinstance(args, (tuple, list)):
        return any(map(_shows_progress, args))
    return isinstance(args, BoostingSpec) and bool(args.verbose)


# Shards


class DaskShards:
    """Shards, one for each worker, that are results of tasks.

    Dask assumes that results do not change, but a shard changes with each step. This is safe
    because its state is a function of its parts and of the first iterations of the forest. A new
    shard, made after a worker was lost, and an older copy answer `Stale`, and are sent the trees
    that they lack.
    """

    # Makes a shard of the settings, parts by number, and a number of threads.
    make: Callable[..., Any] = Shard

    def __init__(self, partitions: DaskPartitions, setup: SampledSetup):
        """Take encoded parts, which the shards own from now on."""
        self.cluster = partitions.cluster
        self.setup = setup
        self._n_jobs = setup.spec.n_jobs
        self.growing: Any = SampledGrowth(setup)
        self._partitions = partitions
        self._shards: list[Future] = []
        # Worker of each shard. Other workers may have copies that lack trees.
        self.homes: list[str] = []
        self.growing_future: Future | None = None
        self._generation = -1
        self._checked_at = time.monotonic()
        self._host_threads: Counter[str] = Counter()

    def iterate(
        self, step: IterationRequest, again: Callable[[int], IterationRequest]
    ) -> IterationResult:
        """Carry out a step on all shards, and grow trees on a worker.

        ``again`` returns the step with the trees from an iteration on.
        """
        cluster = self.cluster
        generation = -1
        answers: dict[int, Future] = {}  # of the shards that have carried out the step
        steps: dict[int, IterationRequest] = {}  # with more trees, for shards that lack them

        def submit() -> Future:
            """Submit the tasks that are not done yet."""
            nonlocal generation
            self._move_shards()
            shards = self.futures()
            if generation != cluster.generation:
                answers.clear()
                generation = cluster.generation
            left = [i for i in range(len(shards)) if i not in answers]
            late = [i for i in left if i in steps]
            # The trees of a usual step are sent once to each worker.
            usual = [i for i in left if i not in steps]
            requests = (usual, step), (late, PerPartition([steps[i] for i in late]))
            for numbers, request in requests:
                parts = [(shards[i],) for i in numbers]
                workers = [self.homes[i] for i in numbers]
                drawn = cluster.submit_calls(draw, parts, (request,), workers)
                answers.update(zip(numbers, drawn, strict=True))
            given = [self.growing_future, *(answers[i] for i in range(len(shards)))]
            without_trees = again(step.n_iter)
            host_threads = dict(self._host_threads)
            return cluster.submit_call(grow, given, without_trees, self._n_jobs, host_threads)

        for _ in range(2 + MAX_LOSSES):
            result = cluster.run(submit, limit=MAX_LOSSES)
            if not isinstance(result, StaleShards):
                return result
            cluster.check_workers()
            for i, answer in result:
                # Copies of a shard may have different numbers of iterations.
                steps[i] = again(0 if i in steps else answer.n_iter)
                answers.pop(i, None)
        raise WorkersLostError(f"shards of the data were lost again and again; {ADVICE}")

    def futures(self) -> list[Future]:
        """Return the futures of the shards, which are submitted if necessary."""
        if self._generation != self.cluster.generation:
            self._shards = self._submit()
            self._generation = self.cluster.generation
        return self._shards

    def release(self) -> None:
        """Let workers forget the shards."""
        released(self._shards)
        self._generation = -1

    def _submit(self) -> list[Future]:
        """Submit a task for the shard of each worker."""
        cluster = self.cluster
        sizes = self._partitions.map(size_of)
        parts = self._partitions.futures()
        has = cluster.client.who_has(parts)
        holders = [has.get(part.key, ()) for part in parts]
        n_threads = cluster.wait_for_workers()
        self._host_threads = _by_host(n_threads)
        chosen = _shared_out(sizes, holders, n_threads)
        self.homes = list(chosen)
        setup = cluster.submit_value(self.setup, "setup")
        self.growing_future = cluster.submit_value(self.growing, "growing")
        shards = [
            cluster.submit_call(
                make_shard,
                [setup, *(parts[i] for i in numbers)],
                numbers,
                self.make,
                self._n_jobs,
                worker=worker,
            )
            for worker, numbers in chosen.items()
        ]
        # Subsamples are chosen among the parts.
        if self.setup.tree_settings.subsample >= 1:
            # The scheduler keeps the tasks of the parts, which shards depend on.
            self._partitions.release()
        return shards

    def _move_shards(self) -> None:
        """Move shards from workers that have several to workers without one."""
        now = time.monotonic()
        if now - self._checked_at < SECONDS_BETWEEN_MOVES or not self._shards:
            return
        self._checked_at = now
        client = self.cluster.client
        n_threads = client.nthreads()
        self._host_threads = _by_host(n_threads)
        free = set(n_threads)
        holders = client.who_has(self._shards)
        crowded = []
        for i, shard in enumerate(self._shards):
            workers = set(holders.get(shard.key, ()))
            if workers and self.homes[i] not in workers:
                self.homes[i] = min(workers)
            if workers and not workers & free:
                crowded.append(i)
            free -= workers
        for i, worker in zip(crowded, sorted(free), strict=False):
            self.homes[i] = worker
            self._shards[i] = self.cluster.submit_call(move_shard, [self._shards[i]], worker=worker)


class StaleShards(list):
    """Pairs of the number of a shard and its answer `Stale`."""


def make_shard(
    given: list, numbers: list[int], make: Callable[..., Any], n_jobs: int | None
) -> Any:
    """Make a shard of a list of the setup and parts, which have these numbers among all parts."""
    setup, *parts = given
    return make(setup, dict(zip(numbers, parts, strict=True)), _n_threads(n_jobs))


def move_shard(shards: list) -> Any:
    """Return the shard; its task runs on another worker."""
    return shards[0]


@keeping_freed_memory()
def draw(shard: Any, step: IterationRequest) -> Any:
    """Carry out a step on a shard."""
    return shard.run(step)


@keeping_freed_memory()
def grow(
    given: list,
    step: IterationRequest,
    n_jobs: int | None,
    host_threads: dict[str, int],  # number of threads of all workers on each host
) -> Any:
    """Grow trees on the examples of all shards, or return the shards that lack trees, if any.

    The list has a `SampledGrowth` and the answer of each shard, a `ShardAnswer` or `Stale`. The
    trees of the step are not read.
    """
    growing, *drawn = given
    stale = StaleShards((i, answer) for i, answer in enumerate(drawn) if isinstance(answer, Stale))
    own = n_threads = _n_threads(n_jobs)
    if n_jobs is None:
        # The other workers on this host wait for the trees.
        n_on_host = host_threads.get(get_address_host(get_worker().address), own)
        n_threads = max(own, min(n_on_host, Threads(-1).n_threads))
    return stale or growing.grow(drawn, step, n_threads)


def _n_threads(n_jobs: int | None) -> int:
    """Return the number of threads on this worker; by default, all that Dask gives it."""
    return get_worker().state.nthreads if n_jobs is None else Threads(n_jobs).n_threads


def _by_host(n_threads: dict[str, int]) -> Counter[str]:
    """Add the numbers of threads of the workers, by address, on each host."""
    host_threads: Counter[str] = Counter()
    for address, n in n_threads.items():
        host_threads[get_address_host(address)] += n
    return host_threads


def size_of(part: Any) -> int:
    """Return the size of a part in memory, in bytes."""
    return sizeof(part)


def _shared_out(
    sizes: list[int], holders: list[Iterable[str]], n_threads: dict[str, int]
) -> dict[str, list[int]]:
    """Choose a worker for each part: equal bytes for each thread, and few parts that move.

    The holders are the workers that have each part.
    """
    fair = 1.1 * sum(sizes) / max(1, sum(n_threads.values()))
    used = dict.fromkeys(sorted(n_threads), 0)
    chosen: dict[str, list[int]] = {worker: [] for worker in used}
    left = []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        own = [worker for worker in holders[i] if worker in used]
        best = min(own, key=lambda w: used[w] / n_threads[w], default=None)
        if best is not None and used[best] + sizes[i] <= fair * n_threads[best]:
            chosen[best].append(i)
            used[best] += sizes[i]
        else:
            left.append(i)
    for i in left:
        best = min(used, key=lambda w: (used[w] + sizes[i]) / n_threads[w])
        chosen[best].append(i)
        used[best] += sizes[i]
    return {worker: sorted(numbers) for worker, numbers in chosen.items() if numbers}


# Prediction of the memory that training takes on each worker


def require_memory_of_workers(cluster: Cluster, spec: BoostingSpec, data: TrainingInput) -> None:
    """Raise MemoryError unless the shards of the data fit in the memory of the workers.

    A worker's share of the positions is proportional to its number of threads.
    """
    described = [data.training.described]
    if data.held_out is not None:
        described.append(data.held_out.described)
    n_positions = sum(each.n_positions for each in described)
    n_labels = len(data.classes)
    schema = described[0].schema
    # Features that every position stores: by position and by column, and while they are encoded,
    # also as numbers.
    n_features = schema.n_features if described[0].form == "dense" else 0
    # A table of the scores, or the residuals, of all labels in all contexts.
    table = (4 if spec.kind.is_factored else 8) * spec.kind.n_scores(n_labels)
    position_bytes = FIXED_BYTES + table + max(2 * n_features + 8 * n_labels, 9 * n_features)
    width = sum(window_within(spec.window, data.training.described.longest)) + 1
    exchanged = (example_limit(spec, data.training.n_positions) or 0) * (
        EXAMPLE_BYTES + width * n_features
    )
    workers = cluster.workers()
    n_threads = sum(worker["nthreads"] for worker in workers.values())
    for address, worker in workers.items():
        limit = worker.get("memory_limit")
        share = worker["nthreads"] / n_threads
        needed = n_positions * position_bytes * share + exchanged
        if limit and needed > USABLE * limit:
            raise MemoryError(
                f"training on {n_positions} positions needs about {size_text(needed)} on worker "
                f"{address}, which may use {size_text(limit)}: {position_bytes} bytes for each "
                f"position, on {len(workers)} workers, and up to {size_text(exchanged)} of "
                "examples in an iteration; expected more workers, more memory for each, or a lower "
                "max_examples"
            )
