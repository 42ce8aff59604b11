"""The two growers of trees: on products of sets with all examples, and on lists of examples.

Settings and CPU milliseconds of an iteration early and late in training, and log-likelihoods per
label of the training data and of every third training sequence, which is held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import Spread, markdown
from papers_data import NAMES, load
from settings import papers_model

from treecrf import TreeCRF
from treecrf.datasets import fetch_conll2000
from treecrf.learners.boosted.loop import Booster
from treecrf.learners.boosted.sampled_booster import SampledBooster

# Thresholds of the sample; None for all examples, which is the grower on products of sets.
SAMPLINGS = (None, 1e-6, 0.02, 0.1)
SPANS = ((0, 10), (40, 60))
SETTINGS = {
    "first": {"l2_regularization": 40.0, "max_leaf_nodes": 100},
    "second": {"second_order": True, "l2_regularization": 5.0, "learning_rate": 0.3,
               "max_leaf_nodes": 64},
}  # fmt: skip
HEADER = ("data, steps", "sampling", *(f"ms, iterations {a + 1}-{b}" for a, b in SPANS),
          *(f"ratio to None, {a + 1}-{b}" for a, b in SPANS), "training", "held-out")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = (*NAMES, "numbers", "chunks")
    parser.add_argument("--data", nargs="+", choices=names, default=names)
    parser.add_argument("--steps", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1000, help="of the chunks")
    arguments = parser.parse_args()
    for name in arguments.data:
        rows = [row for steps in arguments.steps for row in rows_of(name, steps, arguments)]
        print(markdown(HEADER, rows), flush=True)


def rows_of(name: str, steps: str, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Rows of the table for a dataset and a kind of steps."""
    X, y, window = read(name, arguments.sentences)
    parts = [[s for i, s in enumerate(part) if i % 3] for part in (X, y)]
    held_out = [part[::3] for part in (X, y)]
    settings = {"window": window, "max_iter": SPANS[-1][1], "n_jobs": 1, "random_state": 0,
                "max_examples": None, **SETTINGS[steps]}  # fmt: skip
    models = [papers_model(TreeCRF, sampling=sampling, **settings) for sampling in SAMPLINGS]
    rounds = [[fit_timed(model, parts) for model in models] for _ in range(arguments.repeats)]
    spreads = [[Spread(times) for times in zip(*of_one, strict=True)]
               for of_one in zip(*rounds, strict=True)]  # fmt: skip
    for sampling, model, times in zip(SAMPLINGS, models, spreads, strict=True):
        means = [per_label(model, *of_part) for of_part in (parts, held_out)]
        yield [f"{name}, {steps}", str(sampling), *(time.show(1e3, 1) for time in times),
               *(time.over(first).show() for time, first in zip(times, spreads[0], strict=True)),
               *(f"{mean:.4f}" for mean in means)]  # fmt: skip


def read(name: str, n_sentences: int) -> tuple[list, list, Any]:
    """Read training sequences and the window over them."""
    if name == "chunks":
        X, y = fetch_conll2000(return_X_y=True, subset="train")
        return X[:n_sentences], y[:n_sentences], 2
    if name == "numbers":
        return (*draw_numbers(), 2)
    task = load(name)
    X, y, _, _ = task.arrays()
    return X, y, task.window


def draw_numbers() -> tuple[list, list]:
    """Draw 10,000 positions of 14 numbers with outliers, and two labels that last."""
    rng = np.random.default_rng(0)
    labels = [np.cumsum(rng.random(250) < 0.05) % 2 for _ in range(40)]
    X = [rng.normal(size=(250, 14)) + y[:, np.newaxis] * np.linspace(0, 1, 14) for y in labels]
    return [np.where(rng.random(x.shape) < 0.01, 20 * x, x) for x in X], labels


def fit_timed(model: TreeCRF, parts: list[list]) -> list[float]:
    """Fit a model; return the mean seconds of an iteration in each span."""
    times = []

    def timed(step: Callable[[Any], float]) -> Callable[[Any], float]:
        def timed_step(booster: Booster | SampledBooster) -> float:
            start = process_time()
            value = step(booster)
            times.append(process_time() - start)
            return value

        return timed_step

    with (
        patch.object(Booster, "step", timed(Booster.step)),
        patch.object(SampledBooster, "step", timed(SampledBooster.step)),
    ):
        model.fit(*parts)
    return [sum(times[start:end]) / (end - start) for start, end in SPANS]


def per_label(model: TreeCRF, X: list, y: list) -> float:
    """Return the mean log-likelihood of a label."""
    return float(model.predict_log_likelihood(X, y).sum() / sum(map(len, y)))


if __name__ == "__main__":
    main()
