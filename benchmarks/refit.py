"""Flattened boosted trees whose weights are jointly refitted.

The trees use the settings of ``settings.json`` (first order), but fewer iterations. The penalty of
the refit is the one with the best likelihood on a held-out third of the training sequences, with
trees trained on the other two thirds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from measure import markdown
from papers_data import NAMES, Task, load
from settings import chosen, make_model

from treecrf import LinearCRF, flatten

PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0)
HEADER = ("data, iterations", "weights", "trees: labels %", "log-likelihood", "l2",
          "refit: labels %", "log-likelihood", "s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--iterations", nargs="+", type=int, default=[10, 40])
    arguments = parser.parse_args()
    rows = []
    for name in arguments.data:
        for n_iter in arguments.iterations:
            rows.append(row(name, n_iter))
            print(*rows[-1], flush=True)
    print(markdown(HEADER, rows))


def row(name: str, n_iter: int) -> list[str]:
    task = load(name)
    X, y, *test = task.arrays()
    trees = make_model(task, chosen(name, "first") | {"max_iter": n_iter})
    held_out = X[::3], y[::3]
    kept = X[1::3] + X[2::3], y[1::3] + y[2::3]
    flat = flatten(trees.fit(*kept))
    scores = [again(flat, c).fit(*kept).predict_log_likelihood(*held_out).sum() for c in PENALTIES]
    best = PENALTIES[int(np.argmax(scores))]
    flat = flatten(trees.fit(X, y))
    start = time.process_time()
    model = again(flat, best).fit(X, y)
    seconds = time.process_time() - start
    return [f"{name}, {n_iter}", str(flat.n_weights_), *shown(trees, task, *test), f"{best:g}",
            *shown(model, task, *test), f"{seconds:.1f}"]  # fmt: skip


def again(flat, penalty: float) -> LinearCRF:
    """Model for the refit, which starts from the weights of the trees."""
    return LinearCRF(attributes=flat, transition_features=True, l2_regularization=penalty, tol=1e-4)


def shown(model, task: Task, X: list, y: list) -> list[str]:
    """Test accuracy and mean log-likelihood of the test labels."""
    truth = np.array(list("".join(task.test.labels)))
    fraction = np.mean(task.test.rows_of(model.predict(X)) == truth)
    log_likelihood = model.predict_log_likelihood(X, y).sum() / truth.size
    return [f"{100 * fraction:.2f}", f"{log_likelihood:.4f}"]


if __name__ == "__main__":
    main()
