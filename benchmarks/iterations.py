"""CPU time of an iteration: on samples of examples, and with subsets of features and sequences.

``samples``: the two growers of trees, on products of sets with all examples, and on lists of
examples. The time early and late in training, and log-likelihoods per label of the training data
and of every third training sequence, which is held out.

``subsets``: the time relative to all features and sequences. The features are numbers, sparse
booleans, the words of CoNLL-2000, and letters of proteins. For numbers and booleans, tables of
nothing but a tenth or a hundredth of the columns are a yardstick.

``windows``: whole fits to 160,000 positions of 20 numbers, with windows of 2 + 1 + 2 positions, and
of LightGBM to shifted columns, which are made before.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any
from unittest.mock import patch

import lightgbm
import numpy as np
from measure import Spread, markdown, seconds
from papers_data import NAMES, load
from scipy import sparse
from settings import papers_model

from treecrf import SlidingWindowClassifier, TreeCRF
from treecrf.datasets import fetch_conll2000
from treecrf.learners.boosted.booster import Booster
from treecrf.learners.boosted.sampled.booster import SampledBooster

# Thresholds of the sample; None for all examples, which is the grower on products of sets.
SAMPLINGS = (None, 1e-6, 0.02, 0.1)
SPANS = ((0, 10), (40, 60))
STEPS = {
    "first": {"l2_regularization": 40.0, "max_leaf_nodes": 100},
    "second": {"second_order": True, "l2_regularization": 5.0, "learning_rate": 0.3,
               "max_leaf_nodes": 64},
}  # fmt: skip
SUBSETS = {
    "max_features_per_tree": (0.5, 0.3, 0.1, 0.01),
    "max_features": (0.5, 0.3, 0.1, 0.01),
    "subsample": (0.5, 0.25),
}
HEADERS = {
    "samples": ("data, steps", "sampling", *(f"ms, iterations {a + 1}-{b}" for a, b in SPANS),
                *(f"ratio to None, {a + 1}-{b}" for a, b in SPANS), "training", "held-out"),
    "subsets": ("data", "subset", "ms an iteration", "ratio to all"),
    "windows": ("data", "learner", "iterations", "CPU s", "ratio to LightGBM"),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=tuple(HEADERS))
    parser.add_argument("--data", nargs="+", choices=(*NAMES, *DRAWN, "text"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", nargs="+", choices=tuple(STEPS), default=tuple(STEPS))
    parser.add_argument("--iterations", type=int, default=10, help="with subsets and windows")
    parser.add_argument("--sentences", type=int, default=1000, help="of the text")
    arguments = parser.parse_args()
    rows_of, by_default = TABLES[arguments.table]
    for name in arguments.data or by_default:
        rows = list(rows_of(name, arguments))
        print(markdown(HEADERS[arguments.table], rows), flush=True)


def rows_of_samples(name: str, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Rows of the table for a dataset, by kind of steps and by sampling."""
    X, y, window = few_numbers() if name == "numbers" else read(name, arguments.sentences)
    parts = [[s for i, s in enumerate(part) if i % 3] for part in (X, y)]
    held_out = [part[::3] for part in (X, y)]
    for steps in arguments.steps:
        fixed = {"window": window, "max_iter": SPANS[-1][1], "n_jobs": 1, "random_state": 0}
        models = [papers_model(TreeCRF, sampling=sampling, **fixed, **STEPS[steps])
                  for sampling in SAMPLINGS]  # fmt: skip
        for model in models[1:]:
            model.set_params(max_examples=None)
        rounds = [[iteration_times(model, *parts) for model in models]
                  for _ in range(arguments.repeats)]  # fmt: skip
        spreads = [[Spread(tuple(float(np.mean(times[a:b])) for times in of_one))
                    for a, b in SPANS] for of_one in zip(*rounds, strict=True)]  # fmt: skip
        for sampling, model, spans in zip(SAMPLINGS, models, spreads, strict=True):
            means = [per_label(model, *of_part) for of_part in (parts, held_out)]
            ratios = [one.over(first) for one, first in zip(spans, spreads[0], strict=True)]
            yield [f"{name}, {steps}", str(sampling), *(span.show(1e3, 1) for span in spans),
                   *(ratio.show() for ratio in ratios),
                   *(f"{mean:.4f}" for mean in means)]  # fmt: skip


def rows_of_subsets(name: str, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Rows of the table for a dataset, by parameter and fraction."""
    X, y, window = read(name, arguments.sentences)
    runs = {"all": (X, {})}
    for parameter, fractions in SUBSETS.items():
        for fraction in fractions:
            runs[f"`{parameter}={fraction}`"] = X, {parameter: fraction}
    if name in DRAWN:
        for n in (DRAWN[name] // 10, DRAWN[name] // 100):
            runs[f"{n} columns alone"] = [x[:, :n] for x in X], {}
    fixed = {"window": window, "max_iter": arguments.iterations, "init": "zero"}
    fixed |= {"random_state": 0, "n_jobs": 1}
    rounds = [[np.mean(iteration_times(TreeCRF(**fixed, **options), table, y))
               for table, options in runs.values()] for _ in range(arguments.repeats)]  # fmt: skip
    spreads = [Spread(times) for times in zip(*rounds, strict=True)]
    for subset, times in zip(runs, spreads, strict=True):
        yield [name, subset, times.show(1e3, 1), times.over(spreads[0]).show()]


def rows_of_windows(name: str, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Rows of the table for drawn numbers, by learner; in each repeat, the learners take turns."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(500, 20)) for _ in range(320)]
    y = [(x[:, 0] > 0) * 1 + (np.append(0, x[:-1, 1]) > 0) for x in X]
    padded = [np.pad(x, ((2, 2), (0, 0)), constant_values=np.nan) for x in X]
    table = np.concatenate(
        [np.hstack([x[k : len(x) - 4 + k] for k in range(5)]) for x in padded], dtype=np.float32
    )
    others = {"objective": "multiclass", "num_class": 3, "num_threads": 1, "verbosity": -1}
    data, n = np.concatenate(y), arguments.iterations
    fixed = {"window": 2, "max_iter": n, "early_stopping": False, "n_jobs": 1, "random_state": 0}
    fits = {
        "LightGBM": lambda: lightgbm.train(others, lightgbm.Dataset(table, data), n),
        "SlidingWindowClassifier": lambda: SlidingWindowClassifier(**fixed).fit(X, y),
        "TreeCRF": lambda: TreeCRF(init="zero", **fixed).fit(X, y),
    }
    rounds = [[seconds(fit) for fit in fits.values()] for _ in range(arguments.repeats)]
    spreads = [Spread(times) for times in zip(*rounds, strict=True)]
    for learner, times in zip(fits, spreads, strict=True):
        yield [name, learner, str(n), times.show(1, 1), times.over(spreads[0]).show()]


def iteration_times(model: TreeCRF, X: list, y: list) -> list[float]:
    """Fit a model; return the CPU seconds of its iterations."""
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
        model.fit(X, y)
    return times


def per_label(model: TreeCRF, X: list, y: list) -> float:
    """Return the mean log-likelihood of a label."""
    return float(model.predict_log_likelihood(X, y).sum() / sum(map(len, y)))


# Data

# Drawn data, by the number of columns.
DRAWN = {"numbers": 300, "booleans": 2000}
SUBSET_DATA = ("numbers", "booleans", "text", "protein")


def read(name: str, n_sentences: int) -> tuple[list, list, Any]:
    """Read or draw training sequences and their labels; also return the window over them."""
    if name == "text":
        X, y = fetch_conll2000(return_X_y=True, subset="train")
        return X[:n_sentences], y[:n_sentences], 2
    if name in NAMES:
        task = load(name)
        X, y, _, _ = task.arrays()
        return X, y, task.window
    rng = np.random.default_rng(0)
    X = [draw(name, rng) for _ in range(40)]
    # Labels depend on a few columns and on their neighbors.
    sums = [np.asarray(x[:, ::50].sum(axis=1)).ravel() for x in X]
    return X, [(s + np.append(0, s[:-1]) > np.median(s)).astype(int) for s in sums], 1


def draw(name: str, rng: np.random.Generator) -> Any:
    """Draw a sequence of 100 positions."""
    if name == "numbers":
        return rng.normal(size=(100, DRAWN[name]))
    return sparse.csr_matrix(rng.random((100, DRAWN[name])) < 0.05)


def few_numbers() -> tuple[list, list, int]:
    """Draw 10,000 positions of 14 numbers with outliers, and two labels that last."""
    rng = np.random.default_rng(0)
    labels = [np.cumsum(rng.random(250) < 0.05) % 2 for _ in range(40)]
    X = [rng.normal(size=(250, 14)) + y[:, np.newaxis] * np.linspace(0, 1, 14) for y in labels]
    return [np.where(rng.random(x.shape) < 0.01, 20 * x, x) for x in X], labels, 2


TABLES = {
    "samples": (rows_of_samples, (*NAMES, "numbers", "text")),
    "subsets": (rows_of_subsets, SUBSET_DATA),
    "windows": (rows_of_windows, ("numbers",)),
}

if __name__ == "__main__":
    main()
