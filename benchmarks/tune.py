"""Choose settings of TREECRF on held-out thirds of the training data; the test data is not read.

Every setting is trained on two thirds of the training sequences and evaluated on the remaining
third after each iteration. This is done for all three thirds of several random splits. The setting
with the best held-out likelihood, which is a smooth criterion, is written to settings.json together
with the number of iterations at which it is most accurate.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from measure import markdown
from papers_data import CHOICES, NAMES, Task, load
from settings import LEARNERS, make_model, write
from sklearn.model_selection import KFold

# The papers fix the number of leaves and choose shrinkage on held-out data.
GRIDS = {
    "first": {"max_leaf_nodes": [100], "l2_regularization": [5.0, 10.0, 20.0, 40.0, 80.0]},
    "second": {
        "second_order": [True],
        "max_leaf_nodes": [64],
        "l2_regularization": [3.0, 5.0, 10.0],
        "learning_rate": [0.2, 0.5, 1.0],
    },
    # Few iterations with long steps, from scores of 0 or from a linear model.
    "fast": {
        "second_order": [True],
        "curvature": ["diagonal"],
        "max_leaf_nodes": [64, 128],
        "l2_regularization": [10.0, 20.0],
        "learning_rate": [0.1, 0.2, 0.3],
        "linear_start": [None, 20.0],
    },
}
MAX_ITER = {"first": 250, "second": 250, "fast": 125}
N_FOLDS = 3
# The accuracies of neighboring iterations differ by chance; their mean varies less.
SMOOTHED_OVER = 9


@dataclass(frozen=True)
class Curves:
    """Held-out accuracy and log-likelihood per label after each iteration."""

    accuracy: np.ndarray
    log_likelihood: np.ndarray

    def most_accurate(self) -> int:
        """Find the most accurate iteration, counted from 0."""
        return int(np.argmax(smooth(self.accuracy)))

    def best_log_likelihood(self) -> float:
        return float(self.log_likelihood.max())


def main() -> None:
    arguments = parse_arguments()
    for name, learner in product(arguments.data, arguments.learner):
        settings = [dict(zip(GRIDS[learner], values, strict=True))
                    for values in product(*GRIDS[learner].values())]  # fmt: skip
        curves = evaluate(name, settings, MAX_ITER[learner], arguments)
        report(name, learner, settings, curves)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--learner", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--splits", type=int, default=2, help="number of splits into thirds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


def evaluate(
    name: str, settings: list[dict], max_iter: int, arguments: argparse.Namespace
) -> list[Curves]:
    """Curves of each setting, over all held-out thirds combined."""
    n_fits = arguments.splits * N_FOLDS
    work = [
        delayed(held_out)(name, setting, fit, max_iter)
        for setting, fit in product(settings, range(n_fits))
    ]
    totals = np.array(Parallel(n_jobs=arguments.jobs)(work)).reshape(len(settings), n_fits, 2, -1)
    n_judged = arguments.splits * load(name).train.lengths.sum()
    return [Curves(*sums / n_judged) for sums in totals.sum(axis=1)]


def held_out(name: str, setting: dict[str, Any], fit: int, max_iter: int) -> np.ndarray:
    """Correct labels and log-likelihood of a held-out third, summed; shape (2, max_iter)."""
    whole = load(name).train
    split, fold = divmod(fit, N_FOLDS)
    folds = KFold(N_FOLDS, shuffle=True, random_state=split).split(whole.labels)
    task = Task(name, *map(whole.take, list(folds)[fold]))
    X, y, X_out, y_out = task.arrays()
    model = make_model(task, setting, max_iter=max_iter).fit(X, y, X_out, y_out)
    truth = task.codes(task.test)
    right = [np.sum(task.test.rows_of(probabilities).argmax(axis=1) == truth)
             for probabilities in model.staged_predict_proba(X_out)]  # fmt: skip
    return np.array([right, sum(map(len, y_out)) * np.asarray(model.validation_score_[1:])])


def smooth(curve: np.ndarray) -> np.ndarray:
    """Average over neighbors, with fewer neighbors at the ends."""
    kernel = np.ones(min(SMOOTHED_OVER, len(curve)))
    return np.convolve(curve, kernel, "same") / np.convolve(np.ones_like(curve), kernel, "same")


def report(name: str, learner: str, settings: list[dict], curves: list[Curves]) -> None:
    """Print every setting and save the best one."""
    best = int(np.argmax([curve.best_log_likelihood() for curve in curves]))
    print(f"\n## {name}, {learner}\n")
    header = (*settings[0], "best held-out log-likelihood", "iterations", "held-out accuracy %",
              "held-out log-likelihood", "chosen")  # fmt: skip
    rows = [
        [*map(str, setting.values()), *cells_of(curve), "x" if setting is settings[best] else ""]
        for setting, curve in zip(settings, curves, strict=True)
    ]
    print(markdown(header, rows), flush=True)
    i = curves[best].most_accurate()
    found = {
        "parameters": {k: v for k, v in settings[best].items() if v is not None}
        | {"max_iter": i + 1},
        "held_out": {
            "accuracy": round(float(curves[best].accuracy[i]), 4),
            "log_likelihood": round(float(curves[best].log_likelihood[i]), 4),
        },
    }
    write(name, learner, found)


def cells_of(curve: Curves) -> list[str]:
    """Cells of a row: the best likelihood, then the values at the most accurate iteration."""
    i = curve.most_accurate()
    return [f"{curve.best_log_likelihood():.4f}", str(i + 1), f"{100 * curve.accuracy[i]:.2f}",
            f"{curve.log_likelihood[i]:.4f}"]  # fmt: skip


if __name__ == "__main__":
    main()
