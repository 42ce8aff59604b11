"""Threads that grow the trees of an iteration, and help each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock

import numpy as np

from treecrf.trees.lists._list_grower import ListGrower
from treecrf.utils.threads import Threads


class TreeScheduler:
    """Threads with a grower each.

    A thread grows one tree after another. When no tree is left to begin, it works on parts of the
    large nodes of other threads, as do threads without a grower. All sums are exact, so it does not
    matter which thread does what. ``helpers`` are from `ListGrower.new_part`, one for each thread.
    """

    def __init__(self, growers: list[ListGrower], helpers: list, threads: Threads):
        self.threads = threads
        self._members = [*growers, *[None] * (threads.n_threads - len(growers))]
        self._lock = Lock()
        self._helpers = list(helpers)
        self._waiting: list[int] = []
        self._tasks: SimpleQueue = SimpleQueue()
        self._n_open = 0
        # Growers read this without the lock, to return only if a thread can help.
        self._n_idle = np.zeros(1, dtype=np.int32)
        for grower in growers:
            grower.n_idle = self._n_idle

    def set_learning_rate(self, rate: float) -> None:
        """Set the factor of the leaf values of the next trees."""
        for grower in self._members:
            if grower is not None:
                grower.set_learning_rate(rate)

    def grow(self, numbers: Sequence[int], begin: Callable[[ListGrower, int], None]) -> dict:
        """Grow trees; return them as from `ListGrower.describe`, by number.

        ``begin`` begins a tree with a grower. The trees that take longest should come first.
        """
        if not numbers:
            return {}
        self._waiting = list(reversed(numbers))
        self._n_open = len(numbers)
        self._n_idle[0] = 0
        self._tasks = SimpleQueue()
        trees: dict[int, dict] = {}
        errors: list[BaseException] = []

        def work(grower: ListGrower | None) -> None:
            while grower is not None and (k := self._next()) is not None:
                try:
                    trees[k] = self._grow(grower, k, begin)
                except BaseException as error:
                    errors.append(error)
                    self._drop_waiting()
                self._finish_trees(1)
            self._help()

        try:
            self.threads.map(work, self._members)
        except BaseException:  # the user interrupts
            self._drop_waiting()
            raise
        if errors:
            raise errors[0]
        return trees

    def _next(self) -> int | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _drop_waiting(self) -> None:
        with self._lock:
            n_waiting = len(self._waiting)
            self._waiting = []
        self._finish_trees(n_waiting)

    def _grow(self, grower: ListGrower, k: int, begin: Callable[[ListGrower, int], None]) -> dict:
        begin(grower, k)
        while n_parts := grower.advance():
            helpers = self._borrow(n_parts - 1)
            try:
                self._work_together(grower, helpers)
                grower.finish(helpers)
            finally:
                # Not earlier: until they are joined, their sums belong to this tree.
                with self._lock:
                    self._helpers += helpers
        return grower.describe()

    def _work_together(self, grower: ListGrower, helpers: list) -> None:
        """Do all parts of a stage, one in this thread; raise the first error when all are done."""
        n_parts = len(helpers) + 1
        done: SimpleQueue = SimpleQueue()
        for i, helper in enumerate(helpers):
            self._tasks.put((grower, i + 1, n_parts, helper, done))
        try:
            grower.work(0, n_parts)
        finally:
            errors = [error for error in (done.get() for _ in helpers) if error]
        if errors:
            raise errors[0]

    def _borrow(self, n: int) -> list:
        """Reserve a histogram for each of up to n idle threads, which wait for its task."""
        with self._lock:
            n = min(n, int(self._n_idle[0]), len(self._helpers))
            self._n_idle[0] -= n
            helpers = self._helpers[:n]
            self._helpers = self._helpers[n:]
            return helpers

    def _help(self) -> None:
        """Work for the trees of other threads until all are complete."""
        while True:
            with self._lock:
                self._n_idle[0] += 1
            task = self._tasks.get()
            if task is None:
                return
            grower, part, n_parts, helper, done = task
            try:
                grower.work(part, n_parts, helper)
                done.put(None)
            except BaseException as error:
                done.put(error)

    def _finish_trees(self, n: int) -> None:
        """Note that trees are complete; after the last, the threads that help may return."""
        with self._lock:
            self._n_open -= n
            is_last = n > 0 and self._n_open == 0
        if is_last:
            for _ in self._members:
                self._tasks.put(None)
