"""Random subsets of features and of sequences: CPU time of an iteration, relative to all of them.

The features are numbers, sparse booleans, the words of CoNLL-2000, and letters of proteins. For
numbers and booleans, tables of nothing but a tenth or a hundredth of the columns are a yardstick.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import Spread, markdown
from papers_data import load
from scipy import sparse

from treecrf import TreeCRF
from treecrf.datasets import fetch_conll2000
from treecrf.learners.boosted.loop import Booster
from treecrf.learners.boosted.sampled_booster import SampledBooster

DATA = ("numbers", "booleans", "text", "protein")
FRACTIONS = {
    "max_features_per_tree": (0.5, 0.3, 0.1, 0.01),
    "max_features": (0.5, 0.3, 0.1, 0.01),
    "subsample": (0.5, 0.25),
}
HEADER = ("data", "subset", "ms an iteration", "ratio to all")


@dataclass(frozen=True)
class Task:
    """Sequences, their labels, and the settings of models."""

    X: list
    y: list
    settings: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    arguments = parser.parse_args()
    for name in arguments.data:
        rows = rows_of(name, arguments.repeats, arguments.iterations)
        print(markdown(HEADER, list(rows)), flush=True)


def rows_of(name: str, repeats: int, n_iter: int) -> Iterator[list[str]]:
    """Rows of the table for a dataset."""
    runs = list(runs_on(name))
    rounds = [[iteration_time(task, options, n_iter) for _, task, options in runs]
              for _ in range(repeats)]  # fmt: skip
    spreads = [Spread(times) for times in zip(*rounds, strict=True)]
    for (subset, _, _), times in zip(runs, spreads, strict=True):
        yield [name, subset, times.show(1e3, 1), times.over(spreads[0]).show()]


def runs_on(name: str) -> Iterator[tuple[str, Task, dict[str, float]]]:
    """Names of subsets, with the sequences and the parameters that make them."""
    task = read(name)
    yield "all", task, {}
    for parameter, fractions in FRACTIONS.items():
        for fraction in fractions:
            yield f"`{parameter}={fraction}`", task, {parameter: fraction}
    if name in ("numbers", "booleans"):
        n = task.X[0].shape[1]
        for share in (10, 100):
            few = Task([x[:, : n // share] for x in task.X], task.y, task.settings)
            yield f"{n // share} columns alone", few, {}


def read(name: str) -> Task:
    """Read or draw a dataset."""
    if name == "text":
        X, y = fetch_conll2000(return_X_y=True, subset="train")
        return Task(X[:1000], y[:1000], {"window": 2})
    if name == "protein":
        task = load(name)
        X, y, _, _ = task.arrays()
        return Task(X, y, {"window": task.window})
    rng = np.random.default_rng(0)
    X = [draw(name, rng) for _ in range(40)]
    # Labels depend on a few columns and on their neighbors.
    sums = [np.asarray(x[:, ::50].sum(axis=1)).ravel() for x in X]
    return Task(X, [(s + np.append(0, s[:-1]) > np.median(s)).astype(int) for s in sums],
                {"window": 1})  # fmt: skip


def draw(name: str, rng: np.random.Generator) -> Any:
    """Draw a sequence of 100 positions."""
    if name == "numbers":
        return rng.normal(size=(100, 300))
    return sparse.csr_matrix(rng.random((100, 2000)) < 0.05)


def iteration_time(task: Task, options: dict[str, float], n_iter: int) -> float:
    """Fit a model; return the mean CPU seconds of an iteration."""
    times = []

    def timed(step: Any) -> Any:
        def timed_step(booster: Booster | SampledBooster) -> float:
            start = process_time()
            value = step(booster)
            times.append(process_time() - start)
            return value

        return timed_step

    settings = {"max_iter": n_iter, "init": "zero", "random_state": 0, "n_jobs": 1}
    model = TreeCRF(**settings, **task.settings, **options)
    with (
        patch.object(Booster, "step", timed(Booster.step)),
        patch.object(SampledBooster, "step", timed(SampledBooster.step)),
    ):
        model.fit(task.X, task.y)
    return sum(times) / len(times)


if __name__ == "__main__":
    main()
