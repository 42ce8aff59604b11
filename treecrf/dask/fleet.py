"""Parts of the data on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distributed import Future

from treecrf.dask.cluster import Cluster, released
from treecrf.learners.boosted.parted.fleet import Each


class DaskFleet:
    """Parts that are results of tasks.

    A part that is lost with a worker is computed again from the tasks that it depends on. The
    tasks of all parts can be submitted again, for the case that the cluster restarts.

    Parameters
    ----------
    cluster : Cluster
    n_parts : int
    submit : callable
        Submits the tasks, and returns their futures.
    keep : bool, default=True
        Whether to keep the parts in the memory of the workers. Otherwise, each operation computes
        them again.
    """

    def __init__(
        self,
        cluster: Cluster,
        n_parts: int,
        submit: Callable[[], list[Future]],
        keep: bool = True,
    ):
        self.cluster = cluster
        self._n_parts = n_parts
        self._submit = submit
        self._keep = keep
        self._futures: list[Future] | None = None
        self._generation = -1

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self._n_parts

    def map(self, function: Callable[..., Any], *args: Any) -> list:
        """Return ``function(part, *args)`` for each part, in the order of the parts."""
        return self.cluster.run(lambda: self._calls(function, args))

    def derive(self, function: Callable[..., Any], *args: Any, keep: bool = True) -> DaskFleet:
        """Return the fleet of which the parts are ``function(part, *args)``.

        They are computed when they are first used.
        """
        return DaskFleet(self.cluster, self.n_parts, lambda: self._calls(function, args), keep)

    def reduce(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(parts, *args)``, computed on a worker."""
        return self.cluster.run(lambda: self.cluster.submit_call(function, self.futures(), *args))

    def futures(self) -> list[Future]:
        """Return the futures of the parts, which are submitted if necessary."""
        if self._futures is not None and self._generation == self.cluster.generation:
            return self._futures
        futures = self._submit()
        if self._keep:
            self._futures, self._generation = futures, self.cluster.generation
        return futures

    def release(self) -> None:
        """Let workers forget the parts, unless other tasks need them."""
        if self._futures is not None:
            released(self._futures)
        self._futures = None

    def _calls(self, function: Callable[..., Any], args: Sequence[Any]) -> list[Future]:
        are_own = [isinstance(arg, Each) for arg in args]
        shared = tuple(arg for arg in args if not isinstance(arg, Each))
        columns = [arg.items for arg in args if isinstance(arg, Each)]
        own = [tuple(column[i] for column in columns) for i in range(self.n_parts)]
        parts = [(future,) for future in self.futures()]
        return self.cluster.submit_calls(function, parts, shared, own, are_own)
