"""Orders of CRF and MEMM beside each other on the problems of Hao's dissertation (2009).

Table 5.5 is NETtalk with two labels, whether a letter has any stress, from the letter alone. Table
5.4 is synthetic: labels that depend on a bag of future positions. Number of iterations and size of
trees are chosen on held-out data by the accuracy of marginal decoding; test data judges them once.
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
from sklearn.model_selection import KFold
from tune import N_FOLDS, smooth

import treecrf
from treecrf.datasets import make_future_bags

BAGS = ("xor", "or", "extra")
PROBLEMS = ("stress", *BAGS)
STRESSED = ("1", "2")
N_TRAIN, N_VALIDATION = 400, 200
# Ten times the dissertation's, so that chance matters less.
N_TEST = 1000

GRID = {"max_leaf_nodes": [10, 30], "l2_regularization": [10.0, 40.0]}

# Percent by problem and learner, from the lowest order to the highest; a window classifier (SW in
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
HEADER = ("learner", "order", "leaves", "lambda", "iterations", "held-out %", "marginal %",
          "Viterbi %", "published %")  # fmt: skip

Labeled = tuple[list, list]


@dataclass(frozen=True)
class Problem:
    """Sequences with labels to train on, to test on, and pairs of such to choose settings by."""

    train: Labeled
    test: Labeled
    folds: list[tuple[Labeled, Labeled]]


def main() -> None:
    arguments = parse_arguments()
    for name in arguments.problem:
        problem = stress() if name == "stress" else bags(name, arguments.full_bags)
        rows = [row(name, problem, learner, order, arguments)
                for learner, order in cases(name, arguments)]  # fmt: skip
        print(f"\n## {name}\n\n{markdown(HEADER, rows)}", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    learners = ("TreeMEMM", "TreeCRF")
    parser.add_argument("--learner", nargs="+", choices=learners, default=learners)
    parser.add_argument("--order", nargs="+", type=int, help="default: all that were published")
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--full-bags", action="store_true", help="bags beyond the end as well")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


def cases(name: str, arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Learners and orders of a problem's table."""
    for learner in arguments.learner:
        for order in arguments.order or PUBLISHED[name, learner]:
            yield learner, order


def stress() -> Problem:
    X, marks, X_test, marks_test = load("nettalk").arrays()
    y, y_test = ([np.isin(list(word), STRESSED) for word in words] for words in (marks, marks_test))
    thirds = KFold(N_FOLDS, shuffle=True, random_state=0).split(X)
    folds = [tuple(take((X, y), indices) for indices in fold) for fold in thirds]
    return Problem((X, y), (X_test, y_test), folds)


def bags(kind: str, full: bool) -> Problem:
    total = N_TRAIN + N_VALIDATION + N_TEST
    labeled = make_future_bags(kind, n_sequences=total, full_bags=full, random_state=0)
    parts = np.split(np.arange(total), [N_TRAIN, N_TRAIN + N_VALIDATION])
    train, validation, test = (take(labeled, part) for part in parts)
    return Problem(train, test, [(train, validation)])


def take(labeled: Labeled, indices: np.ndarray) -> Labeled:
    """Choose sequences and their labels."""
    return tuple([items[i] for i in indices] for items in labeled)


def row(
    name: str, problem: Problem, learner: str, order: int, arguments: argparse.Namespace
) -> list[str]:
    settings, held_out = choose(problem, learner, order, arguments)
    model = make(learner, order, settings).fit(*problem.train)
    shares = [model.set_params(decoding=way).score(*problem.test) for way in DECODINGS]
    published = PUBLISHED[name, learner].get(order, "")
    percents = [f"{100 * share:.1f}" for share in (held_out, *shares)]
    return [learner, str(order), *map(str, settings.values()), *percents, str(published)]


def choose(
    problem: Problem, learner: str, order: int, arguments: argparse.Namespace
) -> tuple[dict[str, Any], float]:
    """Find the settings that label most of the held-out positions right, and their share."""
    grid = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    grid = [settings | {"max_iter": arguments.max_iter} for settings in grid]
    work = [delayed(right_after_each)(learner, order, settings, fold)
            for settings, fold in product(grid, problem.folds)]  # fmt: skip
    counts = np.array(Parallel(n_jobs=arguments.jobs)(work)).reshape(
        len(grid), len(problem.folds), -1
    )
    n_judged = sum(map(len, (labels for _, (_, y) in problem.folds for labels in y)))
    curves = np.array([smooth(curve) for curve in counts.sum(axis=1) / n_judged])
    best, iteration = np.unravel_index(curves.argmax(), curves.shape)
    return grid[best] | {"max_iter": int(iteration) + 1}, curves[best, iteration]


def right_after_each(
    learner: str, order: int, settings: dict[str, Any], fold: tuple[Labeled, Labeled]
) -> list[int]:
    """Count the held-out labels that are right after each iteration."""
    training, (X, y) = fold
    model = make(learner, order, settings).fit(*training)
    truth = np.concatenate(y)
    return [np.sum(model.classes_[np.concatenate(probabilities).argmax(axis=1)] == truth)
            for probabilities in model.staged_predict_proba(X)]  # fmt: skip


def make(learner: str, order: int, settings: dict[str, Any]) -> Any:
    return getattr(treecrf, learner)(order=order, window=0, random_state=0, **settings)


if __name__ == "__main__":
    main()
