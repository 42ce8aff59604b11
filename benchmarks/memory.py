"""Peak memory of `fit` beyond its input, on synthetic sequences: bytes for each position."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
from measure import markdown, peak_growth
from settings import papers_model
from suite.synthetic import sequences

from treecrf import TreeCRF

LENGTH = 100
CASES = (("symbols", 3), ("symbols", 5), ("20 numbers", 5))
# Ways to train: options, and number of threads.
SAMPLES = {"sampling": "auto"}
NEWTON = {"second_order": True, "curvature": "diagonal"}
WAYS = {
    "samples": (SAMPLES, 1),
    "samples, Newton": (SAMPLES | NEWTON, 1),
    "samples, Newton, 2 threads": (SAMPLES | NEWTON, 2),
    "samples, Newton, 4 threads": (SAMPLES | NEWTON, 4),
    "all examples": ({}, 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, default=1_000_000)
    n_sequences = parser.parse_args().positions // LENGTH
    rows = []
    for features, n_labels in CASES:
        cells = [features, str(n_labels)]
        for options, n_jobs in WAYS.values():
            fit = partial(fit_few, options, n_jobs)
            grown = peak_growth(partial(data, features), fit, n_sequences, n_labels)
            cells.append(f"{grown / (n_sequences * LENGTH):.0f}")
        rows.append(cells)
    print(markdown(("features", "labels", *WAYS), rows))


def data(features: str, n_sequences: int, n_labels: int) -> tuple[list, list]:
    X, y = sequences(n_sequences, LENGTH, n_labels)
    if features == "20 numbers":
        random = np.random.default_rng(0)
        X = [random.normal(size=(LENGTH, 20)) for _ in X]
    return X, y


def fit_few(options: dict[str, Any], n_jobs: int, data: tuple[list, list]) -> None:
    fixed = {"window": 2, "max_iter": 3, "random_state": 0}
    papers_model(TreeCRF, n_jobs=n_jobs, **fixed, **options).fit(*data)


if __name__ == "__main__":
    main()
