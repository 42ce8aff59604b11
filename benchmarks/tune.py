"""Choose settings of TREECRF on held-out thirds of the training data; the test data is not read.

Every setting is trained on two thirds of the training sequences and judged on the other third after
each iteration, three times over, for several ways to part the sequences. The best setting and
number of iterations go to settings.json.
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
from settings import LEARNERS, write
from sklearn.model_selection import KFold

from treecrf import TreeCRF

GRIDS = {
    "first": {"max_leaf_nodes": [50, 75, 100], "l2_regularization": [20.0, 40.0, 80.0]},
    "second": {
        "second_order": [True],
        "max_leaf_nodes": [64, 100],
        "l2_regularization": [3.0, 5.0, 10.0],
        "learning_rate": [0.1, 0.2, 0.5, 1.0],
    },
}
N_FOLDS = 3
# The accuracy of neighboring iterations differs by chance; their mean does less so.
SMOOTHED_OVER = 9


@dataclass(frozen=True)
class Curves:
    """Held-out accuracy and log-likelihood a label after each iteration."""

    accuracy: np.ndarray
    log_likelihood: np.ndarray

    def best(self, criterion: str) -> int:
        """Find the best iteration, counted from 0."""
        return int(np.argmax(smooth(getattr(self, criterion))))


def main() -> None:
    arguments = parse_arguments()
    for name, learner in product(arguments.data, arguments.learner):
        settings = [dict(zip(GRIDS[learner], values, strict=True))
                    for values in product(*GRIDS[learner].values())]  # fmt: skip
        curves = judge(name, settings, arguments)
        report(name, learner, settings, curves, arguments.criterion)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--learner", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--max-iter", type=int, default=250)
    parser.add_argument("--splits", type=int, default=3, help="ways to part into thirds")
    parser.add_argument("--criterion", choices=("accuracy", "log_likelihood"), default="accuracy")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


def judge(name: str, settings: list[dict], arguments: argparse.Namespace) -> list[Curves]:
    """Curves of each setting, over all held-out thirds together."""
    n_fits = arguments.splits * N_FOLDS
    work = [
        delayed(held_out)(name, setting, fit, arguments.max_iter)
        for setting, fit in product(settings, range(n_fits))
    ]
    totals = np.array(Parallel(n_jobs=arguments.jobs)(work)).reshape(len(settings), n_fits, 2, -1)
    n_judged = arguments.splits * load(name).train.lengths.sum()
    return [Curves(*sums / n_judged) for sums in totals.sum(axis=1)]


def held_out(name: str, setting: dict[str, Any], fit: int, max_iter: int) -> np.ndarray:
    """Sum right labels and log-likelihood of a held-out third, shape (2, max_iter)."""
    whole = load(name).train
    split, fold = divmod(fit, N_FOLDS)
    folds = KFold(N_FOLDS, shuffle=True, random_state=split).split(whole.labels)
    task = Task(name, *map(whole.take, list(folds)[fold]))
    X, y, X_out, y_out = task.arrays()
    model = TreeCRF(window=task.window, max_iter=max_iter, n_jobs=1, random_state=0, **setting)
    model.fit(X, y, X_out, y_out)
    truth = task.codes(task.test)
    right = [np.sum(task.test.rows_of(probabilities).argmax(axis=1) == truth)
             for probabilities in model.staged_predict_proba(X_out)]  # fmt: skip
    return np.array([right, sum(map(len, y_out)) * np.asarray(model.validation_score_[1:])])


def smooth(curve: np.ndarray) -> np.ndarray:
    """Average over neighbors, fewer of them at the ends."""
    kernel = np.ones(min(SMOOTHED_OVER, len(curve)))
    return np.convolve(curve, kernel, "same") / np.convolve(np.ones_like(curve), kernel, "same")


def report(
    name: str, learner: str, settings: list[dict], curves: list[Curves], criterion: str
) -> None:
    """Print every setting at its best iteration, and write down the best of them."""
    iterations = [curve.best(criterion) for curve in curves]
    peaks = [smooth(getattr(curve, criterion)).max() for curve in curves]
    best = int(np.argmax(peaks))
    print(f"\n## {name}, {learner} order, by held-out {criterion}\n")
    header = (*settings[0], "iterations", "held-out accuracy %", "held-out log-likelihood", "best")
    rows = [
        [*map(str, setting.values()), *judgment(curve, i), "x" if setting is settings[best] else ""]
        for setting, curve, i in zip(settings, curves, iterations, strict=True)
    ]
    print(markdown(header, rows), flush=True)
    i = iterations[best]
    found = {
        "parameters": {**settings[best], "max_iter": i + 1},
        "held_out": {
            "accuracy": round(float(curves[best].accuracy[i]), 4),
            "log_likelihood": round(float(curves[best].log_likelihood[i]), 4),
        },
    }
    write(name, learner, found)


def judgment(curve: Curves, i: int) -> list[str]:
    accuracy, log_likelihood = curve.accuracy[i], curve.log_likelihood[i]
    return [str(i + 1), f"{100 * accuracy:.2f}", f"{log_likelihood:.4f}"]


if __name__ == "__main__":
    main()
