"""CRF and MEMM of different orders on the problems of Hao's dissertation (2009).

Table 5.5 is NETtalk with two labels, whether or not a letter is stressed, predicted from the letter
alone. Table 5.4 is synthetic: labels that depend on a bag of future positions. The number of
iterations and the size of trees are chosen on held-out data by the accuracy of marginal decoding;
the test data is used only once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from measure import markdown
from papers_data import load
from settings import papers_model
from sklearn.model_selection import KFold
from tune import N_FOLDS, smooth

import treecrf
from treecrf.datasets import make_future_bags

BAGS = ("xor", "or", "extra")
PROBLEMS = ("stress", *BAGS)
STRESSED = ("1", "2")
N_TRAIN, N_VALIDATION = 400, 200
# Ten times as many as in the dissertation, to reduce the effect of chance.
N_TEST = 1000
# Sequences extend beyond the evaluated positions, so that the models see all bag contents.
N_JUDGED, BAG_SIZE = 30, 6

GRID = {"max_leaf_nodes": [10, 30], "l2_regularization": [10.0, 40.0]}

# Percent by problem and learner, from the lowest to the highest order; a window classifier (SW in
# the dissertation) is a MEMM of order 0.
PUBLISHED = {
    ("stress", "TreeMEMM"): {0: 84.2, 1: 85.7, 2: 87.1, 3: 88.9, 4: 89.0},
    ("stress", "TreeCRF"): {1: 85.7, 2: 90.4, 3: 91.8, 4: 91.4},
    ("xor", "TreeMEMM"): {0: 51.6, 1: 50.7},
    ("xor", "TreeCRF"): {1: 56.0, 2: 57.3, 3: 57.6, 4: 58.4},
    ("or", "TreeMEMM"): {0: 67.5, 1: 66.5},
    ("or", "TreeCRF"): {1: 76.6, 2: 85.9, 3: 91.1, 4: 93.9},
    ("extra", "TreeMEMM"): {0: 84.4, 1: 84.9},
    ("extra", "TreeCRF"): {1: 87.1, 2: 90.2, 3: 92.5, 4: 92.9},
}

DECODINGS = ("marginal", "viterbi")
# Decoding of the published numbers. It is not specified for MEMMs; their numbers for stress agree
# with Viterbi.
DECODING = {"TreeMEMM": "viterbi", "TreeCRF": "marginal"}
HEADER = ("learner", "order", "leaves", "lambda", "iterations", "held-out %", "marginal %",
          "Viterbi %", "published %", "difference")  # fmt: skip

Labeled = tuple[list, list]


@dataclass(frozen=True)
class Problem:
    """Labeled training and test sequences, and folds (training, held out) to choose settings.

    Only the first ``n_evaluated`` positions of a sequence are evaluated, or all if it is None.
    """

    train: Labeled
    test: Labeled
    folds: list[tuple[Labeled, Labeled]]
    n_evaluated: int | None = None

    def evaluated(self, sequences: list[np.ndarray]) -> np.ndarray:
        """Concatenate the values of the positions that are evaluated."""
        return np.concatenate([values[: self.n_evaluated] for values in sequences])


def main() -> None:
    arguments = parse_arguments()
    for name in arguments.problem:
        seeds = range(arguments.seeds)
        problems = [stress()] if name == "stress" else [bags(name, seed) for seed in seeds]
        rows = [row(name, problems, learner, order, arguments)
                for learner, order in cases(name, arguments)]  # fmt: skip
        print(f"\n## {name}\n\n{markdown(HEADER, rows)}", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    learners = ("TreeMEMM", "TreeCRF")
    parser.add_argument("--learner", nargs="+", choices=learners, default=learners)
    parser.add_argument("--order", nargs="+", type=int, help="default: all published orders")
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=10, help="number of draws of synthetic data")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


def cases(name: str, arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Learners and orders in the table of a problem."""
    for learner in arguments.learner:
        for order in arguments.order or PUBLISHED[name, learner]:
            yield learner, order


def stress() -> Problem:
    X, marks, X_test, marks_test = load("nettalk").arrays()
    y, y_test = ([np.isin(list(word), STRESSED) for word in words] for words in (marks, marks_test))
    thirds = KFold(N_FOLDS, shuffle=True, random_state=0).split(X)
    folds = [tuple(take((X, y), indices) for indices in fold) for fold in thirds]
    return Problem((X, y), (X_test, y_test), folds)


def bags(kind: str, seed: int) -> Problem:
    total = N_TRAIN + N_VALIDATION + N_TEST
    length = N_JUDGED + BAG_SIZE
    labeled = make_future_bags(
        kind, n_sequences=total, length=length, bag_size=BAG_SIZE, random_state=seed
    )
    parts = np.split(np.arange(total), [N_TRAIN, N_TRAIN + N_VALIDATION])
    train, validation, test = (take(labeled, part) for part in parts)
    return Problem(train, test, [(train, validation)], N_JUDGED)


def take(labeled: Labeled, indices: np.ndarray) -> Labeled:
    """Select sequences and their labels."""
    return tuple([items[i] for i in indices] for items in labeled)


def row(
    name: str, problems: list[Problem], learner: str, order: int, arguments: argparse.Namespace
) -> list[str]:
    """Ranges of the settings and means of the accuracies."""
    evaluated = [evaluate(problem, learner, order, arguments) for problem in problems]
    settings, fractions = zip(*evaluated, strict=True)
    percents = dict(zip(("held-out", *DECODINGS), 100 * np.mean(fractions, axis=0), strict=True))
    published = PUBLISHED[name, learner].get(order, np.nan)
    return [
        learner,
        str(order),
        *(span([chosen[key] for chosen in settings]) for key in settings[0]),
        *(f"{percent:.1f}" for percent in percents.values()),
        str(published),
        # Avoid -0.0.
        f"{round(percents[DECODING[learner]] - published, 1) + 0.0:+.1f}",
    ]


def span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def evaluate(
    problem: Problem, learner: str, order: int, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[float]]:
    """Settings, held-out accuracy, and test accuracy with each decoding."""
    settings, held_out = choose(problem, learner, order, arguments)
    model = make(learner, order, settings).fit(*problem.train)
    X, y = problem.test
    predicted = [model.set_params(decoding=way).predict(X) for way in DECODINGS]
    fractions = [np.mean(problem.evaluated(labels) == problem.evaluated(y)) for labels in predicted]
    return settings, [held_out, *fractions]


def choose(
    problem: Problem, learner: str, order: int, arguments: argparse.Namespace
) -> tuple[dict[str, Any], float]:
    """Find the settings with the highest held-out accuracy; return both."""
    grid = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    grid = [settings | {"max_iter": arguments.max_iter} for settings in grid]
    work = [delayed(right_after_each)(problem, learner, order, settings, fold)
            for settings, fold in product(grid, range(len(problem.folds)))]  # fmt: skip
    counts = np.array(Parallel(n_jobs=arguments.jobs)(work)).reshape(
        len(grid), len(problem.folds), -1
    )
    n_evaluated = sum(len(problem.evaluated(y)) for _, (_, y) in problem.folds)
    curves = np.array([smooth(curve) for curve in counts.sum(axis=1) / n_evaluated])
    best, iteration = np.unravel_index(curves.argmax(), curves.shape)
    return grid[best] | {"max_iter": int(iteration) + 1}, curves[best, iteration]


def right_after_each(
    problem: Problem, learner: str, order: int, settings: dict[str, Any], fold: int
) -> list[int]:
    """Count the correct held-out labels after each iteration."""
    training, (X, y) = problem.folds[fold]
    model = make(learner, order, settings).fit(*training)
    truth = problem.evaluated(y)
    return [np.sum(model.classes_[problem.evaluated(probabilities).argmax(axis=1)] == truth)
            for probabilities in model.staged_predict_proba(X)]  # fmt: skip


def make(learner: str, order: int, settings: dict[str, Any]) -> Any:
    kind = getattr(treecrf, learner)
    return papers_model(kind, order=order, window=0, random_state=0, **settings)


if __name__ == "__main__":
    main()
