"""Threads, and the parts of work that they share; kernels release the GIL while they run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
from joblib import cpu_count

from treecrf.utils.memory import return_freed_memory

# More parts than threads, because the cost of parts varies.
PARTS_PER_THREAD = 4
# More threads than processors gain nothing, but each takes memory; tests need a few.
MAX_THREADS = 16


class Threads:
    """A pool of threads, or none for a single job.

    ``n_jobs`` is as in scikit-learn; numbers far above the number of processors are lowered.
    """

    def __init__(self, n_jobs: int | None):
        self._n_jobs = 1 if n_jobs is None else n_jobs
        self._pool: ThreadPoolExecutor | None = None

    @cached_property
    def n_threads(self) -> int:
        """Number of threads, which is determined only when needed, because this takes time."""
        return min(_count(self._n_jobs), max(MAX_THREADS, os.cpu_count() or 1))

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list:
        """Return the results of a function for all items, in the order of the items.

        An error of the function is raised when all items before it are done.
        """
        items = list(items)
        if len(items) <= 1 or self.n_threads == 1:
            return [function(item) for item in items]
        return list(self._started().map(function, items))

    def run(self, function: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Call a function on each item.

        The items are taken from the iterable only as threads become free, so that few of them exist
        at the same time.
        """
        items = iter(items)
        head = list(islice(items, 2))
        if len(head) <= 1 or self.n_threads == 1:
            for item in chain(head, items):
                function(item)
            return
        running: deque[Future] = deque()
        for item in chain(head, items):
            running.append(self._started().submit(function, item))
            if len(running) > 2 * self.n_threads:
                running.popleft().result()
        for future in running:
            future.result()

    def _started(self) -> ThreadPoolExecutor:
        """Return the pool, which starts only if it is used."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads)
        return self._pool

    def release_memory(self) -> None:
        """Return memory that the threads have freed to the system, if there are several."""
        if self._pool is not None:
            return_freed_memory()

    def parts(self, offsets: np.ndarray) -> list[tuple[int, int]]:
        """Cut sequences into runs with about the same number of positions.

        Return the first sequence of each run, and the one after its last.
        """
        if len(offsets) == 2 or self.n_threads == 1:
            return [(0, len(offsets) - 1)]
        n_parts = min(self.n_threads * PARTS_PER_THREAD, int(offsets[-1]))
        targets = np.linspace(0, offsets[-1], n_parts + 1)
        cuts = np.unique(np.searchsorted(offsets, targets))
        return list(pairwise(cuts.tolist()))

    def even_parts(self, n: int, min_size: int = 1) -> list[tuple[int, int]]:
        """Cut n items into runs of about the same length, not far below ``min_size``.

        Return the first item of each run, and the one after its last.
        """
        n_parts = -(-n // min_size)
        if n_parts <= 1 or self.n_threads == 1:
            return [(0, n)]
        n_parts = min(self.n_threads * PARTS_PER_THREAD, n_parts)
        return list(pairwise(np.linspace(0, n, n_parts + 1).astype(int).tolist()))


def _count(n_jobs: int) -> int:
    """Return the number of threads that a parameter ``n_jobs`` stands for.

    In contrast to `joblib.effective_n_jobs`, it is the same in daemonic processes such as the
    workers of Dask, which cannot start processes, but threads.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs=0; expected the number of threads, or -1 for all processors")
    return n_jobs if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs)
