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
from suite.synthetic import sequences

from treecrf import TreeCRF

MB = 1e6
# Range of iterations that are timed; the first ones are excluded along with the preparation.
FROM_ITERATION, TO_ITERATION = 5, 25
# Fits end at these iterations; the differences give the time of the iterations in between.
STAGES = (1, 20, 40, 60, 80, 100, 120, 140)
LENGTH = 100
MEMORY_CASES = (
    ("symbols", 1000, 3),
    ("bool", 1000, 3),
    ("float", 1000, 3),
    ("symbols", 1000, 10),
    ("symbols", 1000, 22),
    ("float", 10000, 3),
    ("symbols", 200, 50),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat, small cases only")
    arguments = parser.parse_args()
    repeats, parts = (1, 3) if arguments.quick else (arguments.repeats, None)
    for table in (over_positions, over_windows, over_training):
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
    rows = []
    for kind, n_sequences, n_labels in MEMORY_CASES[:parts]:
        grown = peak_growth(partial(memory_case, kind), fit_few, n_sequences, n_labels)
        n_positions = n_sequences * LENGTH
        allowed = 4 * n_positions * n_labels**2 * 8 + 100 * MB
        rows.append([kind, str(n_positions), str(n_labels), f"{grown / MB:.0f}",
                     f"{allowed / MB:.0f}", f"{grown / allowed:.2f}"])  # fmt: skip
    header = ("features", "positions", "labels", "MB grown in fit", "MB allowed", "fraction")
    return titled("Peak memory beyond the input features", header, rows)


def iteration_time(X: list, y: list, window: Any, repeats: int) -> Spread:
    times = stage_times(X, y, window, (FROM_ITERATION, TO_ITERATION), repeats)
    return times[0]


def stage_times(X: list, y: list, window: Any, stages: Sequence[int], repeats: int) -> list[Spread]:
    """Time per iteration between each stage and the next, from fits that end at the stages."""
    totals = np.array([[fit_time(X, y, window, n) for n in stages] for _ in range(repeats)])
    return [Spread(tuple(times)) for times in (np.diff(totals) / np.diff(stages)).T]


def fit_time(X: list, y: list, window: Any, n_iterations: int) -> float:
    model = TreeCRF(window=window, max_iter=n_iterations, n_jobs=1, random_state=0)
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
    if kind == "bool":
        X = [random.random((LENGTH, 50)) < 0.2 for _ in X]
    elif kind == "float":
        X = [random.normal(size=(LENGTH, 20)) for _ in X]
    return X, y


def fit_few(data: tuple[list, list]) -> None:
    TreeCRF(window=2, max_iter=5, n_jobs=1, random_state=0).fit(*data)


def titled(title: str, header: tuple, rows: list[list[str]]) -> str:
    return f"## {title}\n\n{markdown(header, rows)}\n"


if __name__ == "__main__":
    main()
