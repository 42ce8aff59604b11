"""Parts of the data on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from distributed import Future

from treecrf.dask.cluster import Cluster, released
from treecrf.dask.shards import DaskShards
from treecrf.learners.boosted.shard import ShardSettings
from treecrf.learners.boosted.spec import BoostingSpec
from treecrf.utils.partitions import identity


class DaskPartitions:
    """Parts that are results of tasks.

    A part that is lost with a worker is computed again from the tasks that it depends on. If the
    cluster restarts, the tasks of all parts are submitted again. Unless the parts are kept in the
    memory of the workers, each operation computes them again.
    """

    def __init__(
        self,
        cluster: Cluster,
        n_parts: int,
        submit: Callable[[], list[Future]],
        keep: bool = True,
        origins: Sequence[DaskPartitions] = (),  # from which the parts are computed
    ):
        self.cluster = cluster
        self.n_parts = n_parts
        self._submit = submit
        self._keep = keep
        self._origins = origins
        self._futures: list[Future] | None = None
        self._generation = -1

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return self.cluster.run(lambda: self._calls(function, args))

    def derive(self, function: Callable[..., Any], *args: Any) -> DaskPartitions:
        """Return the partitions ``function(part, *args)``, computed on first use."""
        submit = partial(self._calls, function, args)
        return DaskPartitions(self.cluster, self.n_parts, submit, origins=[self])

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

    def chain(self, other: DaskPartitions) -> DaskPartitions:
        """Return these partitions, followed by others."""
        return DaskPartitions(
            self.cluster,
            self.n_parts + other.n_parts,
            lambda: [*self.futures(), *other.futures()],
            keep=False,
            origins=[self, other],
        )

    def make_shards(self, setup: ShardSettings) -> DaskShards:
        """Return shards of these parts, which are `EncodedPart`."""
        return DaskShards(self, setup)

    def futures(self) -> list[Future]:
        """Return the futures of the parts, which are submitted if necessary."""
        if self._futures is not None and self._generation == self.cluster.generation:
            return self._futures
        futures = self._submit()
        if self._keep:
            self._futures, self._generation = futures, self.cluster.generation
        return futures

    def release(self) -> None:
        """Let workers forget these parts, and the parts that they are computed from.

        The scheduler keeps the tasks that other tasks depend on, and can run them again.
        """
        if self._futures is not None:
            released(self._futures)
        self._futures = None
        for origin in self._origins:
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
