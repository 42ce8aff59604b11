"""One process with two threads against a Dask cluster of two workers with one thread each.

Both fit the same files, in alternation, and the models are compared. The time lost to Dask is the
part of its elapsed time by which it exceeds that of one process. ``--scheduler`` shows the CPU time
of the scheduler by number of shards.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from dask import delayed
from distributed import Client, LocalCluster, wait
from measure import Spread, markdown
from settings import papers_model
from suite.synthetic import sequences
from words import plain_sentences

from treecrf import TreeCRF
from treecrf.dask import DaskTreeCRF
from treecrf.datasets import fetch_conll2000

N_WORKERS = 2
N_PARTS = 8
LENGTH = 100
N_NUMBERS = 20
SETTINGS = {
    "second_order": True,
    "curvature": "diagonal",
    "learning_rate": 0.3,
    "l2_regularization": 20.0,
    "max_leaf_nodes": 64,
    "sampling": 0.1,
    "random_state": 0,
}
# The first exchanges compute sizes and draw nearly all examples.
SETTLED = 2


@dataclass(frozen=True)
class Case:
    """Data of any number of positions, and the settings to fit them."""

    # Returns sequences and labels of at least so many positions, or of all that there are.
    read: Callable[[int], tuple[list, list]]
    settings: dict[str, Any]

    def data(self, n_positions: int) -> tuple[list, list]:
        """Return about so many positions; if there are fewer, sequences are repeated."""
        X, y = self.read(n_positions)
        order = np.random.default_rng(0).permutation(len(X))
        lengths = np.array([len(labels) for labels in y])
        n_rounds = -(-n_positions // int(lengths.sum()))
        ends = np.cumsum(np.tile(lengths[order], n_rounds))
        kept = list(islice(cycle(order), int(np.searchsorted(ends, n_positions)) + 1))
        return [X[i] for i in kept], [y[i] for i in kept]

    def model(self, **settings: Any) -> TreeCRF:
        """Return a model to fit in one thread."""
        return papers_model(TreeCRF, **(SETTINGS | {"n_jobs": 1} | self.settings | settings))


def symbols(n_positions: int) -> tuple[list, list]:
    return sequences(-(-n_positions // LENGTH), LENGTH)


def numbers(n_positions: int) -> tuple[list, list]:
    """Rows of numbers; half of the columns depend on the label."""
    _, y = sequences(-(-n_positions // LENGTH), LENGTH, 5)
    random = np.random.default_rng(0)
    signal = np.arange(N_NUMBERS) < N_NUMBERS // 2
    return [
        labels[:, None] * signal + random.normal(scale=3, size=(len(labels), N_NUMBERS))
        for labels in y
    ], y


def text(_: int) -> tuple[list, list]:
    X, y = fetch_conll2000(return_X_y=True)
    return plain_sentences(X), y


CASES = {
    "symbols, 3 labels": Case(symbols, {"window": 2}),
    "20 numbers, 5 labels": Case(numbers, {"window": 2}),
    "text, 22 labels": Case(
        text, {"window": 2, "max_features_per_tree": 0.4, "max_leaf_nodes": 128}
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--positions", type=int, default=1_000_000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scheduler", action="store_true")
    arguments = parser.parse_args()
    if arguments.scheduler:
        print(table_of_scheduler())
        return
    with cluster() as client, tempfile.TemporaryDirectory() as folder:
        rows = []
        for name in arguments.cases:
            files = write(CASES[name], arguments.positions, Path(folder, name.partition(",")[0]))
            rows.append(compare(name, files, client, arguments))
            print(markdown(HEADER, rows[-1:]), flush=True)
    print(f"\n{markdown(HEADER, rows)}")


@contextmanager
def cluster() -> Iterator[Client]:
    """Start workers with one thread each."""
    with (
        LocalCluster(
            N_WORKERS, threads_per_worker=1, dashboard_address=":0", memory_limit=0
        ) as workers,
        Client(workers) as client,
    ):
        yield client


def write(case: Case, n_positions: int, folder: Path) -> list[Path]:
    """Write the parts of the data, sequences dealt out in turn."""
    folder.mkdir()
    X, y = case.data(n_positions)
    files = [folder / f"{i}.pickle" for i in range(N_PARTS)]
    for i, file in enumerate(files):
        file.write_bytes(pickle.dumps((X[i::N_PARTS], y[i::N_PARTS]), protocol=5))
    return files


def read(file: Path) -> tuple[list, list]:
    """Read a part."""
    return pickle.loads(file.read_bytes())


@dataclass
class Run:
    """A fit: elapsed seconds, those of an iteration, and its CPU seconds."""

    model: TreeCRF
    elapsed: float
    iteration: float
    iteration_cpu: float


class Clock:
    """Callback that measures the iterations of a fit after the first ones."""

    def __init__(self, cpu: Callable[[], float], n_iter: int):
        self._cpu = cpu
        self._n_iter = n_iter
        self.spans: list[tuple[float, float]] = []
        self.cpu: list[float] = []

    def __call__(self, _: Any) -> None:
        """Note the time before and after this call."""
        begin = time.time()
        if len(self.spans) + 1 in (SETTLED, self._n_iter):
            self.cpu.append(self._cpu())
        self.spans.append((begin, time.time()))

    def iteration(self) -> float:
        """Return the median of the elapsed seconds."""
        settled = self.spans[SETTLED - 1 :]
        return median(after[0] - before[1] for before, after in pairwise(settled))

    def iteration_cpu(self) -> float:
        """Return the mean of the CPU seconds."""
        return (self.cpu[1] - self.cpu[0]) / (self._n_iter - SETTLED)


def run(fit: Callable[[Clock], TreeCRF], cpu: Callable[[], float], n_iter: int) -> Run:
    """Measure a fit."""
    clock = Clock(cpu, n_iter)
    start = time.perf_counter()
    model = fit(clock)
    elapsed = time.perf_counter() - start
    return Run(model, elapsed, clock.iteration(), clock.iteration_cpu())


def run_local(case: Case, files: list[Path], n_iter: int) -> Run:
    """Fit in this process, with as many threads as the cluster has."""

    def fit(clock: Clock) -> TreeCRF:
        parts = [read(file) for file in files]
        X, y = ([sequence for part in parts for sequence in part[i]] for i in (0, 1))
        return case.model(n_jobs=N_WORKERS, max_iter=n_iter).fit(X, y, callbacks=[clock])

    return run(fit, time.process_time, n_iter)


def run_dask(case: Case, files: list[Path], client: Client, n_iter: int) -> Run:
    """Fit on the workers; the scheduler is in this process."""

    def fit(clock: Clock) -> TreeCRF:
        model = DaskTreeCRF(client=client, **case.model(n_jobs=None, max_iter=n_iter).get_params())
        parts = [delayed(read)(file) for file in files]
        return model.fit(parts, callbacks=[clock]).to_local()

    return run(fit, partial(cpu_of_all, client), n_iter)


def cpu_of_all(client: Client) -> float:
    """Return the CPU seconds of this process, the scheduler and the workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


HEADER = ("data", "positions", "iteration, one process ms", "iteration, Dask ms", "lost %",
          "CPU, Dask / one process", "fit, one process s", "fit, Dask s", "fit, ratio")  # fmt: skip


def compare(name: str, files: list[Path], client: Client, arguments: argparse.Namespace) -> list:
    """Fit in alternation; return the cells of a row."""
    case, runs = CASES[name], []
    for _ in range(arguments.repeats):
        local = run_local(case, files, arguments.iterations)
        distributed = run_dask(case, files, client, arguments.iterations)
        assert_equal(local.model, distributed.model)
        runs.append((local, distributed))
    n_positions = sum(sum(map(len, read(file)[1])) for file in files)

    def spreads(value: Callable[[Run], float]) -> list[Spread]:
        return [Spread(tuple(map(value, column))) for column in zip(*runs, strict=True)]

    one, many = spreads(lambda run: run.iteration)
    lost = Spread(tuple(100 * (1 - 1 / ratio) for ratio in many.over(one).values))
    one_cpu, many_cpu = spreads(lambda run: run.iteration_cpu)
    fit_one, fit_many = spreads(lambda run: run.elapsed)
    return [name, f"{n_positions:,}", one.show(1e3, 0), many.show(1e3, 0), lost.show(1, 0),
            many_cpu.over(one_cpu).show(), fit_one.show(1, 1), fit_many.show(1, 1),
            fit_many.over(fit_one).show()]  # fmt: skip


def assert_equal(one: TreeCRF, other: TreeCRF) -> None:
    """Check that two models have the same trees and scores, to the bit."""
    packed, others = one._forest.pack(), other._forest.pack()
    assert packed.keys() == others.keys()
    for name, values in packed.items():
        np.testing.assert_array_equal(values, others[name], err_msg=name)
    np.testing.assert_array_equal(one.train_score_, other.train_score_)


# The scheduler


def table_of_scheduler(n_iter: int = 20) -> str:
    """Table of the CPU time of scheduler and client, by number of shards, in separate processes."""
    rows = []
    with separate_cluster() as client:
        for n_shards in (2, 16, 64, 256):
            shards = client.map(int, range(n_shards), pure=False)
            wait(shards)
            seconds = scheduled(client, shards, n_iter)
            rows.append([str(n_shards), *(f"{1e3 * s / n_iter:.1f}" for s in seconds)])
    return markdown(("shards", "scheduler CPU ms", "client CPU ms", "elapsed ms"), rows)


def scheduled(client: Client, shards: list, n_iter: int) -> tuple[float, float, float]:
    """Return the seconds of iterations without work: CPU of scheduler and client, and elapsed."""
    run_times = lambda: np.array([  # noqa: E731
        client.run_on_scheduler(time.process_time), time.process_time(), time.perf_counter()
    ])  # fmt: skip
    start = run_times()
    for _ in range(n_iter):
        drawn = client.map(draw_nothing, shards, pure=False)
        client.submit(grow_nothing, drawn, pure=False).result()
    return tuple(run_times() - start)


def draw_nothing(shard: Any) -> bytes:
    return bytes(1000)


def grow_nothing(drawn: list) -> int:
    return len(drawn)


@contextmanager
def separate_cluster() -> Iterator[Client]:
    """Start a scheduler in a process of its own, and workers with one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "scheduler.json"))
        command = [sys.executable, "-m", "distributed.cli.dask_"]
        options = ["--scheduler-file", file, "--no-dashboard"]
        kinds = ["scheduler", *["worker"] * N_WORKERS]
        own = {"scheduler": ["--port", "0"], "worker": ["--nthreads", "1", "--no-nanny"]}
        processes = [
            subprocess.Popen(
                [*command[:2], command[2] + kind, *options, *own[kind]], stderr=subprocess.DEVNULL
            )
            for kind in kinds
        ]
        try:
            with Client(scheduler_file=file) as client:
                client.wait_for_workers(N_WORKERS)
                yield client
        finally:
            for process in processes:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
