"""Threads, the parts of work that they share, and memory.

Kernels release the GIL while they run. The C library keeps freed memory for each thread.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property
from itertools import chain, islice, pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# More parts than threads, because the cost of parts varies.
PARTS_PER_THREAD = 4
# More threads than processors gain nothing, but each takes memory; tests need a few.
MAX_THREADS = 16

# Numbers of two parameters of the GNU C library, and values with which it keeps freed memory.
TRIM_THRESHOLD = -1
MMAP_THRESHOLD = -3
LARGE_TRIM_THRESHOLD = 1 << 30
LARGEST_MMAP_THRESHOLD = 1 << 25
DEFAULT_MMAP_THRESHOLD = 1 << 17

# None unless this is the GNU C library.
_library = None
if sys.platform == "linux":
    _library = ctypes.CDLL(None)
_mallopt = getattr(_library, "mallopt", None)
_malloc_trim = getattr(_library, "malloc_trim", None)

_lock = Lock()
_n_keeping = 0


class Threads(AbstractContextManager["Threads"]):
    """A pool of threads, or none for a single job.

    ``n_jobs`` is as in scikit-learn; numbers far above the number of processors are lowered.
    """

    def __init__(self, n_jobs: int | None):
        self._n_jobs = 1 if n_jobs is None else n_jobs
        self._pool: ThreadPoolExecutor | None = None

    @cached_property
    def n_threads(self) -> int:
        """Number of threads, which is determined only when needed, because this takes time.

        In contrast to `joblib.effective_n_jobs`, it is the same in daemonic processes such as the
        workers of Dask, which cannot start processes, but threads.
        """
        n = self._n_jobs
        if n == 0:
            raise ValueError("n_jobs=0; expected the number of threads, or -1 for all processors")
        if n < 0:
            n = max(1, n_processors() + 1 + n)
        return min(n, max(MAX_THREADS, os.cpu_count() or 1))

    def __exit__(self, *_: object) -> None:
        pool = self._pool
        self._pool = None
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
            from concurrent.futures import ThreadPoolExecutor  # and logging, which takes long

            self._pool = ThreadPoolExecutor(self.n_threads)
        return self._pool

    def release_memory(self) -> None:
        """Return memory that the threads have freed to the system, if there are several.

        The GNU C library keeps it for the thread that allocated it; no other thread can use it.
        """
        if self._pool is not None and _malloc_trim is not None:
            _malloc_trim(0)

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


def n_processors() -> int:
    """Return the number of processors that this process may use, as joblib counts them.

    Without joblib, limits of containers are not known.
    """
    try:
        from joblib import cpu_count  # takes as long as labeling many sequences
    except ModuleNotFoundError:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return cpu_count()


class Background:
    """Items of a generator that are computed in another thread, as fast as it can.

    When the context ends, the generator is closed at its next item. After an error, the context
    does not wait for that.
    """

    def __init__(self, items: Generator[Any, None, None]):
        self._items = items
        # Items, and at the end an error or `StopIteration`.
        self._found: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._is_over = False
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._is_over = True
        if error is None:  # an interruption must not wait
            self._thread.join()

    def __iter__(self) -> Background:
        return self

    def __next__(self) -> Any:
        item, end = self._found.get()
        if end is not None:
            self._found.put((None, end))
            raise end
        return item

    @property
    def is_ready(self) -> bool:
        """Whether the next item, or the end, is known."""
        return not self._found.empty()

    def _run(self) -> None:
        end: BaseException = StopIteration()
        try:
            with closing(self._items) as items:
                for item in items:
                    self._found.put((item, None))
                    if self._is_over:
                        break
        except BaseException as error:
            end = error
        self._found.put((None, end))


# Memory


def size_text(n_bytes: float) -> str:
    """Return a number of bytes in the unit that fits, for messages."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= 0.9995 * size:
            value = n_bytes / size
            if value >= 100:
                return f"{value:.0f} {unit}"
            return f"{value:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"


def check_memory(n_bytes: int, message: str) -> None:
    """Raise MemoryError with a message if the system refuses to allocate this number of bytes."""
    try:
        np.empty(n_bytes, dtype=np.uint8)
    except MemoryError:
        raise MemoryError(message) from None


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Keep freed memory for the next arrays, even if the environment says otherwise.

    Dask starts workers with the environment variable ``MALLOC_TRIM_THRESHOLD_``. With it, the GNU C
    library returns the arrays of each node of a tree to the system as soon as they are freed, and
    growth takes half as long again because of page faults. Without the variable, the library adapts
    to the program, and this changes nothing.
    """
    trim = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    mmap = os.environ.get("MALLOC_MMAP_THRESHOLD_", str(DEFAULT_MMAP_THRESHOLD))
    if _mallopt is None or not (trim.isdigit() and mmap.isdigit()):
        yield
        return
    _change_keeping(1, LARGE_TRIM_THRESHOLD, LARGEST_MMAP_THRESHOLD)
    try:
        yield
    finally:
        _change_keeping(-1, int(trim), int(mmap))


def _change_keeping(change: int, trim: int, mmap: int) -> None:
    """Count the threads that keep memory; the first and the last one set the thresholds."""
    global _n_keeping
    with _lock:
        was_keeping = _n_keeping > 0
        _n_keeping += change
        if was_keeping != (_n_keeping > 0):
            _mallopt(TRIM_THRESHOLD, trim)
            _mallopt(MMAP_THRESHOLD, mmap)
