"""Elapsed time of default fits with one thread and with several, on data of `sizes.py`.

The model is the same, to the bit. Each round trains with each number of threads in turn; the table
shows the shortest times, and the CPU time of several threads relative to that of one. Other work on
the machine must be light, because elapsed times are compared.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from measure import markdown
from sizes import KINDS, draws
from sklearn.exceptions import ConvergenceWarning

from treecrf import TreeCRF


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[2_000, 9_000, 20_000])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for name in arguments.kinds:
        for size in arguments.sizes:
            rows.append([name, f"{size:,}", *cells(name, size, arguments)])
            print(*rows[-1], sep=" | ", flush=True)
    header = ["data", "positions", "1 thread, s", f"{arguments.jobs} threads, s", "ratio", "CPU"]
    print(markdown(header, rows))


def cells(name: str, size: int, arguments: argparse.Namespace) -> list[str]:
    """Return the elapsed times, their ratio, and the ratio of the CPU times."""
    kind = KINDS[name]
    draw, _ = draws(kind, size, 0)

    def seconds(n_jobs: int) -> tuple[float, float]:
        model = TreeCRF(window=kind.window, random_state=0, n_jobs=n_jobs)
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(draw.X, draw.y)
        return time.perf_counter() - start, time.process_time() - cpu

    rounds = [[seconds(1), seconds(arguments.jobs)] for _ in range(arguments.rounds)]
    (one, cpu_of_one), (several, cpu_of_several) = np.min(rounds, axis=0)
    return [f"{one:.2f}", f"{several:.2f}", f"{one / several:.2f}",
            f"{cpu_of_several / cpu_of_one:.2f}"]  # fmt: skip


if __name__ == "__main__":
    main()
