"""Use of several threads by the sampled engine: speedups, serial fractions and their limits.

Elapsed times depend on what else the machine runs. ``ideal`` does not: it is computed from the CPU
time of each task, in the thread that ran it. It is the CPU time of all tasks, divided by the time
that they would take if every thread had a core of its own. It includes serial code and the
different sizes of tasks, but not the competition of cores for memory. Multiplied by the ratio of
the CPU times, it is the speedup to expect. ``limit`` is that of Amdahl's law at 16 threads, for the
serial fraction at one thread, in which a tree counts as parallel.
"""

from __future__ import annotations

import argparse
import heapq
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import Spread, markdown
from settings import papers_model
from suite.synthetic import sequences

from treecrf import TreeCRF
from treecrf.chains.sampling import LikelihoodSampler
from treecrf.datasets import fetch_conll2000
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted import base, growing
from treecrf.learners.boosted.tree_scheduler import TreeScheduler
from treecrf.trees.forest import Forest
from treecrf.trees.growing._list_grower import ListGrower
from treecrf.utils.threads import Threads

N_POSITIONS = 1_000_000
LENGTH = 100
N_NUMBERS = 20
SETTINGS = {"window": 2, "second_order": True, "sampling": 0.1, "random_state": 0}
CASES = {
    "symbols, 3 labels": {},
    "20 numbers, 5 labels": {},
    "text, 22 labels": {"max_features_per_tree": 0.4, "max_leaf_nodes": 128},
}
# Parts of an iteration, of which the first call is not counted.
REPEATED = ("draw", "grow", "route")
ONCE = ("encode", "keys", "predict")
HEADER = ("part", "CPU s", "serial %", "2: CPU", "2: elapsed", "2: ideal", "16: ideal", "limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, default=N_POSITIONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    for name in arguments.cases:
        if name.startswith("text") and not os.environ.get("TREECRF_DATA"):
            continue
        X, y = data(name, arguments.positions)
        settings = SETTINGS | CASES[name] | {"max_iter": arguments.iterations}
        runs = defaultdict(list)
        for _ in range(arguments.repeats):
            for n_jobs in (1, 2):
                runs[n_jobs].append(measured(X, y, n_jobs, settings))
        runs[16].append(measured(X, y, 16, settings))
        print(f"## {name}: {sum(map(len, X))} positions\n", flush=True)
        rows = [row(part, runs, (part,)) for part in (*ONCE, *REPEATED)]
        rows.append(row("iteration", runs, REPEATED))
        print(markdown(HEADER, rows), "\n", flush=True)


def data(name: str, n_positions: int) -> tuple[list, list]:
    """Return sequences and labels with about this many positions; the text has its own number."""
    if name.startswith("text"):
        return fetch_conll2000(return_X_y=True)
    if name.startswith("symbols"):
        return sequences(n_positions // LENGTH, LENGTH)
    _, y = sequences(n_positions // LENGTH, LENGTH, 5)
    random = np.random.default_rng(0)
    # Half of the numbers depend on the label.
    signal = np.arange(N_NUMBERS) < N_NUMBERS // 2
    return [
        labels[:, None] * signal + random.normal(scale=3, size=(len(labels), N_NUMBERS))
        for labels in y
    ], y


@dataclass
class Tree:
    """CPU seconds of a tree, in the code that one thread runs and in what several share."""

    alone: float = 0.0
    shared: float = 0.0


@dataclass
class Call:
    """One call of a part of the work.

    ``tasks`` are the CPU seconds of the tasks of each parallel region, ``trees`` those of the
    trees in each region that grows them.
    """

    elapsed: float = 0.0
    cpu: float = 0.0
    serial: float = 0.0
    tasks: list[list[float]] = field(default_factory=list)
    trees: list[list[Tree]] = field(default_factory=list)

    def total(self) -> float:
        """Return the CPU seconds of all tasks and of the serial code."""
        of_trees = sum(tree.alone + tree.shared for trees in self.trees for tree in trees)
        return self.serial + sum(map(sum, self.tasks)) + of_trees

    def ideal(self, n_threads: int) -> float:
        """Return the seconds that this takes if each thread has a core of its own."""
        return (
            self.serial
            + sum(makespan(tasks, n_threads) for tasks in self.tasks)
            + sum(time_of_trees(trees, n_threads) for trees in self.trees)
        )


def makespan(tasks: Iterable[float], n_threads: int) -> float:
    """Return the time until all tasks are done, each begun by the first thread that is free."""
    free = [0.0] * n_threads
    for seconds in tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def time_of_trees(trees: list[Tree], n_threads: int) -> float:
    """Return an upper bound of the time for trees.

    One thread grows a tree, and others help when no tree is left to begin.
    """
    shared = sum(tree.shared for tree in trees)
    begun = makespan((tree.alone for tree in trees), n_threads)
    return begun + shared / n_threads


class Recorder:
    """Times of the parts of training and prediction, while it is in use."""

    def __init__(self):
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self._call: Call | None = None
        self._regions = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Record a call of a part, unless it belongs to another one."""
        if self._call is not None:
            yield
            return
        self._call, self._regions = Call(), 0.0
        start = time.perf_counter(), time.process_time(), time.thread_time()
        yield
        self._call.elapsed = time.perf_counter() - start[0]
        self._call.cpu = time.process_time() - start[1]
        self._call.serial = time.thread_time() - start[2] - self._regions
        self.calls[name].append(self._call)
        self._call = None

    def timed(self, name: str, function: Callable) -> Callable:
        """Wrap a function as a part."""

        def wrapper(*arguments: Any, **named: Any) -> Any:
            with self.part(name):
                return function(*arguments, **named)

        return wrapper

    def mapped(self, run: Callable) -> Callable:
        """Wrap `Threads.map` or `Threads.run`."""

        def wrapper(threads: Threads, function: Callable, items: Iterable) -> list:
            seconds, caller, in_caller = [], threading.get_ident(), []

            def timed(item: Any) -> Any:
                start = time.thread_time()
                try:
                    return function(item)
                finally:
                    seconds.append(time.thread_time() - start)
                    if threading.get_ident() == caller:
                        in_caller.append(seconds[-1])

            results = run(threads, timed, items)
            if self._call is not None:
                self._regions += sum(in_caller)
                self._call.tasks.append(seconds)
            return results

        return wrapper

    def scheduled(self, grow: Callable) -> Callable:
        """Wrap `TreeScheduler.grow`, whose threads work for several trees."""

        def wrapper(scheduler: TreeScheduler, *arguments: Any) -> dict:
            self.trees = []
            trees = grow(scheduler, *arguments)
            self._call.tasks.pop()
            self._call.trees.append(self.trees)
            return trees

        return wrapper

    def grower_class(self) -> type:
        """Return a class of growers that record the time of their trees."""
        recorder = self

        class TimedGrower(ListGrower):
            def _timed(self, attribute: str, function: Callable, *arguments: Any) -> Any:
                start = time.thread_time()
                result = function(*arguments)
                spent = time.thread_time() - start
                with_lock(self.tree, attribute, spent)
                return result

            def begin(self, *arguments: Any) -> None:
                self.tree = Tree()
                recorder.trees.append(self.tree)
                self._timed("alone", super().begin, *arguments)

            def advance(self) -> int:
                return self._timed("alone", super().advance)

            def work(self, *arguments: Any) -> None:
                self._timed("shared", super().work, *arguments)

            def finish(self, helpers: list) -> None:
                self._timed("alone", super().finish, helpers)

            def describe(self) -> dict:
                return self._timed("alone", super().describe)

        def with_lock(tree: Tree, attribute: str, spent: float) -> None:
            setattr(tree, attribute, getattr(tree, attribute) + spent)

        return TimedGrower

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Record what is called in this context."""
        timed = self.timed
        replaced = [
            (Encoder, "fit", timed("encode", Encoder.fit)),
            (Encoder, "encode", timed("encode", Encoder.encode)),
            (base, "sequence_keys", timed("keys", base.sequence_keys)),
            (LikelihoodSampler, "sample", timed("draw", LikelihoodSampler.sample)),
            (growing.ListGrowth, "grow", timed("grow", growing.ListGrowth.grow)),
            (Forest, "add_to_parts", timed("route", Forest.add_to_parts)),
            (TreeCRF, "predict", timed("predict", TreeCRF.predict)),
            (Threads, "map", self.mapped(Threads.map)),
            (Threads, "run", self.mapped(Threads.run)),
            (TreeScheduler, "grow", self.scheduled(TreeScheduler.grow)),
            (growing, "ListGrower", self.grower_class()),
        ]
        with ExitStack() as stack:
            for target, name, value in replaced:
                stack.enter_context(patch.object(target, name, value))
            yield


def measured(X: list, y: list, n_jobs: int, settings: dict) -> dict[str, list[Call]]:
    """Fit and predict; return the calls of each part."""
    recorder = Recorder()
    with recorder.in_use():
        papers_model(TreeCRF, n_jobs=n_jobs, **settings).fit(X, y).predict(X)
    first = {name: int(name in REPEATED) for name in recorder.calls}
    return {name: calls[first[name] :] for name, calls in recorder.calls.items()}


def row(name: str, runs: dict[int, list[dict[str, list[Call]]]], parts: tuple) -> list[str]:
    """Lay out measurements, by number of threads: seconds per call of each of the parts."""

    def each(n_jobs: int, value: Callable[[Call], float]) -> list[float]:
        return [
            sum(sum(map(value, run[part])) / len(run[part]) for part in parts)
            for run in runs[n_jobs]
        ]

    def middle(n_jobs: int, value: Callable[[Call], float]) -> float:
        return median(each(n_jobs, value))

    one = middle(1, lambda call: call.cpu)
    serial = middle(1, lambda call: call.serial) / one
    elapsed = [Spread(tuple(each(n, lambda call: call.elapsed))) for n in (1, 2)]
    ideal = {n: middle(n, Call.total) / middle(n, lambda call, n=n: call.ideal(n)) for n in (2, 16)}
    return [
        name,
        f"{one:.3f}",
        f"{100 * serial:.1f}",
        f"{middle(2, lambda call: call.cpu) / one:.2f}",
        elapsed[0].over(elapsed[1]).show(),
        f"{ideal[2]:.2f}",
        f"{ideal[16]:.1f}",
        f"{1 / (serial + (1 - serial) / 16):.1f}",
    ]


if __name__ == "__main__":
    main()
