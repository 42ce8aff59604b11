"""Growth of iteration time and of the memory of `fit`, on synthetic sequences in one thread.

Times are CPU seconds: median (min-max) of the repeats.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from measure import Spread, markdown, peak_growth, seconds
from papers_data import NAMES, load
from settings import papers_model
from suite.synthetic import sequences

from treecrf import TreeCRF

# Range of iterations that are timed; the first ones are excluded along with the preparation.
FROM_ITERATION, TO_ITERATION = 5, 25
# Fits end at these iterations; the differences give the time of the iterations in between.
STAGES = (1, 20, 40, 60, 80, 100, 120, 140)
LENGTH = 100
MEMORY_CASES = (("symbols", 3), ("symbols", 5), ("float", 5))
# Ways to train: options, and number of threads.
SAMPLES = {"sampling": "auto"}
NEWTON = {"second_order": True, "curvature": "diagonal"}
WAYS = {
    "samples": (SAMPLES, 1),
    "samples, Newton": (SAMPLES | NEWTON, 1),
    "samples, Newton, 2 threads": (SAMPLES | NEWTON, 2),
    "samples, Newton, 4 threads": (SAMPLES | NEWTON, 4),
    "all examples": ({}, 1),
    "all examples, Newton": (NEWTON, 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat, small cases only")
    parser.add_argument("--memory", action="store_true", help="the table of memory only")
    arguments = parser.parse_args()
    repeats, parts = (1, 3) if arguments.quick else (arguments.repeats, None)
    times = () if arguments.memory else (over_positions, over_windows, over_training)
    for table in times:
        print(table(repeats, parts), flush=True)
    print(over_memory(parts))


def over_positions(repeats: int, parts: int | None) -> str:
    rows = []
    for n_sequences in (100, 200, 400, 800, 1600)[:parts]:
        X, y = sequences(n_sequences)
        n_positions = sum(map(len, X))
        time = iteration_time(X, y, 5, repeats)
        rows.append([str(n_positions), time.show(1e3), f"{1e9 * time.median / n_positions:.0f}"])
    return titled("Positions", ("positions", "iteration ms", "ns per position"), rows)


def over_windows(repeats: int, parts: int | None) -> str:
    X, y = sequences(400)
    half_windows = (1, 2, 3, 4, 5, 10)[:parts]
    times = [iteration_time(X, y, half_window, repeats) for half_window in half_windows]
    steps = [""] + [
        f"{1e3 * (after.median - before.median) / (2 * (b - a)):.2f}"
        for (a, b), (before, after) in zip(pairwise(half_windows), pairwise(times), strict=True)
    ]
    rows = [
        [str(2 * half_window + 1), time.show(1e3), step]
        for half_window, time, step in zip(half_windows, times, steps, strict=True)
    ]
    return titled("Window size", ("window", "iteration ms", "ms per additional offset"), rows)


def over_training(repeats: int, parts: int | None) -> str:
    stages = STAGES[: parts and parts + 1]
    columns = [
        [time.show(1e3) for time in stage_times(X, y, window, stages, repeats)]
        for X, y, window in training_cases().values()
    ]
    spans = [f"{start + 1} to {stop}" for start, stop in pairwise(stages)]
    rows = [list(cells) for cells in zip(spans, *columns, strict=True)]
    header = ("iterations", *(f"{name}, ms each" for name in training_cases()))
    return titled("Start and end of training", header, rows)


def over_memory(parts: int | None) -> str:
    n_sequences = 10000 if parts is None else 1000
    rows = []
    for kind, n_labels in MEMORY_CASES:
        cells = [kind, str(n_labels)]
        for options, n_jobs in WAYS.values():
            fit = partial(fit_few, options, n_jobs)
            grown = peak_growth(partial(memory_case, kind), fit, n_sequences, n_labels)
            cells.append(f"{grown / (n_sequences * LENGTH):.0f}")
        rows.append(cells)
    title = f"Peak memory beyond the input, bytes per position, {n_sequences * LENGTH} positions"
    return titled(title, ("features", "labels", *WAYS), rows)


def iteration_time(X: list, y: list, window: Any, repeats: int) -> Spread:
    times = stage_times(X, y, window, (FROM_ITERATION, TO_ITERATION), repeats)
    return times[0]


def stage_times(X: list, y: list, window: Any, stages: Sequence[int], repeats: int) -> list[Spread]:
    """Time per iteration between each stage and the next, from fits that end at the stages."""
    totals = np.array([[fit_time(X, y, window, n) for n in stages] for _ in range(repeats)])
    return [Spread(tuple(times)) for times in (np.diff(totals) / np.diff(stages)).T]


def fit_time(X: list, y: list, window: Any, n_iterations: int) -> float:
    model = papers_model(TreeCRF, window=window, max_iter=n_iterations, n_jobs=1, random_state=0)
    return seconds(lambda: model.fit(X, y))


def training_cases() -> dict[str, tuple]:
    """Training data and windows: synthetic, and those of the papers if available."""
    cases = {"synthetic": (*sequences(200), 5)}
    if os.environ.get("TREECRF_DATA"):
        for task in map(load, NAMES):
            X, y, _, _ = task.arrays()
            cases[task.name] = (X, y, task.window)
    return cases


def memory_case(kind: str, n_sequences: int, n_labels: int) -> tuple[list, list]:
    X, y = sequences(n_sequences, LENGTH, n_labels)
    random = np.random.default_rng(0)
    if kind == "float":
        X = [random.normal(size=(LENGTH, 20)) for _ in X]
    return X, y


def fit_few(options: dict[str, Any], n_jobs: int, data: tuple[list, list]) -> None:
    fixed = {"window": 2, "max_iter": 3, "random_state": 0}
    papers_model(TreeCRF, n_jobs=n_jobs, **fixed, **options).fit(*data)


def titled(title: str, header: tuple, rows: list[list[str]]) -> str:
    return f"## {title}\n\n{markdown(header, rows)}\n"


if __name__ == "__main__":
    main()
