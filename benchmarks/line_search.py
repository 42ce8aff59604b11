"""A line search of the step in each iteration, compared with steps of a fixed length.

The papers propose to search for the step length that maximizes the likelihood of the training
data. `TreeCRF` takes steps of a fixed length instead, with shrinkage or with a bound of the
curvature. Here, each iteration is trained with several learning rates, and the one with the best
training likelihood is kept: a line search on a grid. Models are evaluated on a held-out third of
the training data. The test data are not used.
"""

from __future__ import annotations

import argparse
import copy

import numpy as np
from measure import markdown
from papers_data import NAMES, Task, load
from settings import make_model
from sklearn.model_selection import KFold

from treecrf import TreeCRF

FIRST = {"l2_regularization": 80.0}
NEWTON = {"second_order": True, "learning_rate": 0.3, "l2_regularization": 20.0}
STEPS = {
    "first order": FIRST,
    "Newton, bound": NEWTON | {"curvature": "bound"},
    "Newton, auto": NEWTON | {"curvature": "auto"},
    "Newton, diagonal": NEWTON | {"curvature": "diagonal"},
}
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
HEADER = ("data", "steps", "lengths", "iterations", "training", "held out, end", "held out, best",
          "best at", "decreases", "mean factor")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.data:
        task = load(name)
        kept, held = next(KFold(3, shuffle=True, random_state=0).split(task.train.labels))
        task = Task(name, task.train.take(kept), task.train.take(held))
        for steps in STEPS:
            for factors in (1.0,), FACTORS:
                rows.append(row(task, steps, factors, arguments.iterations))
                print(rows[-1], flush=True)
    print(markdown(HEADER, rows))


def row(task: Task, steps: str, factors: tuple[float, ...], n_iter: int) -> list[str]:
    X, y, X_out, y_out = task.arrays()
    n = sum(map(len, y_out))
    model, chosen, held_out = make_model(task, STEPS[steps]), [], []
    rate = model.learning_rate
    for i in range(n_iter):
        tried = {factor: one_more(model, rate * factor, i + 1, X, y) for factor in factors}
        best = max(tried, key=lambda factor: tried[factor].train_score_[-1])
        model = tried[best]
        chosen.append(best)
        held_out.append(model.predict_log_likelihood(X_out, y_out).sum() / n)
    lengths = "fixed" if len(factors) == 1 else "searched"
    top = int(np.argmax(held_out))
    scores = (model.train_score_[-1], held_out[-1], held_out[top])
    return [task.name, steps, lengths, str(n_iter), *(f"{score:.4f}" for score in scores),
            str(top + 1), str(np.sum(np.diff(model.train_score_) < 0)),
            f"{np.mean(chosen):.2f}"]  # fmt: skip


def one_more(model: TreeCRF, rate: float, n_iter: int, X: list, y: list) -> TreeCRF:
    """Return a copy of a model with one more iteration, trained with a learning rate."""
    settings = {"warm_start": True, "learning_rate": rate, "max_iter": n_iter}
    return copy.copy(model).set_params(**settings).fit(X, y)


if __name__ == "__main__":
    main()
