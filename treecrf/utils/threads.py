"""Sharing work between threads; the kernels hold no lock while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import effective_n_jobs

# More parts than threads, because parts differ in cost.
PARTS_PER_THREAD = 4


class Threads:
    """A pool of threads, or none at all for one job.

    Parameters
    ----------
    n_jobs : int or None
        As everywhere in scikit-learn: None means 1, -1 all processors.
    """

    def __init__(self, n_jobs: int | None):
        self.n_threads = effective_n_jobs(1 if n_jobs is None else n_jobs)
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list:
        """Results in the order of the items; the first error is raised when all are done."""
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def parts(self, offsets: np.ndarray) -> list[tuple[int, int]]:
        """Cut sequences into runs ``(first, last)`` of about the same number of positions."""
        n_parts = self.n_threads * PARTS_PER_THREAD if self.n_threads > 1 else 1
        targets = np.linspace(0, offsets[-1], n_parts + 1)
        cuts = np.unique(np.searchsorted(offsets, targets))
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
