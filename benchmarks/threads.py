"""Elapsed time with one thread and with several, on data of `sizes.py`.

``default`` are default fits, ``exact`` 60 iterations on all examples from scores of 0, and
``predict`` are labels of 100,000 positions from models of 100 iterations. Results are the same, to
the bit. Each round runs with each number of threads in turn; the table shows the shortest times,
the CPU time of several threads relative to that of one, and the ratio that would be reached if
threads other than the calling one shared all the work that it does not do itself. That *bound* is
made of CPU times, which other work on the machine hardly changes; elapsed times need an idle one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import product

import numpy as np
from measure import markdown
from sizes import KINDS, draws
from sklearn.exceptions import ConvergenceWarning

from treecrf import TreeCRF

HEADER = ("work", "data", "positions", "1 thread, s", "several, s", "ratio", "CPU", "bound")
N_LABELED = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[2_000, 9_000, 20_000])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for work, name in product(arguments.work, arguments.kinds):
        for size in arguments.sizes if work != "predict" else arguments.sizes[:1]:
            n_positions, run = WORK[work](name, size)
            *numbers, bound = cells(run, arguments.jobs, arguments.rounds)
            # The calling thread of a default fit works beside another one.
            numbers.append("" if work == "default" else bound)
            rows.append([work, name, f"{n_positions:,}", *numbers])
            print(*rows[-1], sep=" | ", flush=True)
    print(markdown(HEADER, rows))


def cells(run: Callable[[int], object], jobs: int, n_rounds: int) -> list[str]:
    """Return the elapsed times, their ratio, the ratio of the CPU times, and the bound."""

    def times(n_jobs: int) -> list[float]:
        clocks = time.perf_counter, time.process_time, time.thread_time
        before = [clock() for clock in clocks]
        run(n_jobs)
        return [clock() - start for clock, start in zip(clocks, before, strict=True)]

    rounds = [[times(1), times(jobs)] for _ in range(n_rounds)]
    (one, cpu_of_one, _), (several, cpu, of_caller) = np.min(rounds, axis=0)
    bound = cpu_of_one / (of_caller + (cpu - of_caller) / jobs)
    return [f"{one:.3g}", f"{several:.3g}", f"{one / several:.2f}", f"{cpu / cpu_of_one:.2f}",
            f"{bound:.2f}"]  # fmt: skip


def fits(name: str, size: int, **parameters: object) -> tuple[int, Callable]:
    """Return the number of positions, and a fit."""
    kind = KINDS[name]
    draw, _ = draws(kind, size, 0)

    def fit(n_jobs: int) -> TreeCRF:
        model = TreeCRF(window=kind.window, random_state=0, n_jobs=n_jobs, **parameters)
        return model.fit(draw.X, draw.y)

    return size, fit


def exact(name: str, size: int, max_iter: int = 60) -> tuple[int, Callable]:
    """Return the number of positions, and a fit on all examples."""
    settings = {"init": "zero", "early_stopping": False, "sampling": None}
    return fits(name, size, max_iter=max_iter, **settings)


def predictions(name: str, size: int) -> tuple[int, Callable]:
    """Return the number of positions, and their labeling by a model of 100 iterations."""
    model = exact(name, size, max_iter=100)[1](1)
    X = draws(KINDS[name], size, 0)[0].X_test
    X = X * -(-N_LABELED // sum(map(len, X)))
    return sum(map(len, X)), lambda n_jobs: model.set_params(n_jobs=n_jobs).predict(X)


WORK = {"default": fits, "exact": exact, "predict": predictions}


if __name__ == "__main__":
    main()
