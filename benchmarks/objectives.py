"""The four objectives of TREECRF on the data of the papers.

Shrinkage and the number of iterations are chosen for each objective by the accuracy on held-out
thirds of the training data, averaged over neighboring iterations. The test data is used only once,
with the chosen settings.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
from measure import Spread, markdown, seconds
from papers_data import NAMES, Split, Task, load
from settings import make_model
from sklearn.model_selection import KFold
from tune import N_FOLDS, smooth

from treecrf import TreeCRF
from treecrf.chains.objectives import OBJECTIVES

HEADER = ("data, objective", "l2, iterations", "labels %, marginal", "labels %, Viterbi",
          "sequences %, marginal", "sequences %, Viterbi", "log P per label", "log q per label",
          "decreases in training", "CPU ms per iteration", "relative to log")  # fmt: skip
N_TIMED = 30


def main() -> None:
    arguments = parse_arguments()
    rows = []
    for name in arguments.data:
        task, spent = load(name), times(load(name), arguments.repeats)
        for objective in OBJECTIVES:
            setting = choose(task.train, name, objective, arguments)
            rows.append(row(task, objective, setting, spent))
    print(markdown(HEADER, rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--l2", type=float, nargs="+", default=[20.0, 40.0, 80.0])
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def learner(task: Task, objective: str, **setting: Any) -> TreeCRF:
    return make_model(task, setting, objective=objective)


def choose(train: Split, name: str, objective: str, arguments: argparse.Namespace) -> dict:
    """Find the setting with the highest accuracy on the held-out thirds."""
    best: tuple[float, dict] = (-np.inf, {})
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(train.labels))
    for l2 in arguments.l2:
        curve = np.zeros(arguments.max_iter)
        for kept, held in folds:
            task = Task(name, train.take(kept), train.take(held))
            X, y, X_out, _ = task.arrays()
            model = learner(task, objective, max_iter=len(curve), l2_regularization=l2).fit(X, y)
            truth = task.codes(task.test)
            curve += [np.sum(task.test.rows_of(p).argmax(axis=1) == truth)
                      for p in model.staged_predict_proba(X_out)]  # fmt: skip
        found = {"l2_regularization": l2, "max_iter": int(smooth(curve).argmax()) + 1}
        best = max(best, (smooth(curve).max(), found), key=lambda pair: pair[0])
    return best[1]


def row(task: Task, objective: str, setting: dict, spent: dict[str, Spread]) -> list[str]:
    X, y, X_test, y_test = task.arrays()
    model = learner(task, objective, **setting).fit(X, y)
    truth = np.array(list("".join(task.test.labels)))
    right = [task.test.rows_of(labels) == truth
             for labels in (model.predict(X_test), model.decode(X_test)[0])]  # fmt: skip
    ends = np.append(0, np.cumsum(task.test.lengths)).tolist()
    whole = [np.mean([one[a:b].all() for a, b in pairwise(ends)]) for one in right]
    log_p = model.predict_log_likelihood(X_test, y_test).sum() / truth.size
    q = task.test.rows_of(model.predict_proba(X_test))[np.arange(truth.size), task.codes(task.test)]
    fractions = [100 * np.mean(one) for one in (*right, *whole)]
    return [
        f"{task.name}, `{objective}`",
        f"{setting['l2_regularization']:g}, {setting['max_iter']}",
        *(f"{fraction:.2f}" for fraction in fractions),
        f"{log_p:.3f}",
        f"{np.log(q).mean():.3f}",
        str(np.sum(np.diff(model.train_score_) < 0)),
        spent[objective].show(1e3, 1),
        spent[objective].over(spent["log"]).show(),
    ]


def times(task: Task, repeats: int) -> dict[str, Spread]:
    """Seconds per iteration of each objective; the objectives take turns."""
    X, y, _, _ = task.arrays()
    rounds = [
        [seconds(lambda o=o: learner(task, o, max_iter=N_TIMED).fit(X, y)) / N_TIMED
         for o in OBJECTIVES]
        for _ in range(repeats)
    ]  # fmt: skip
    return dict(zip(OBJECTIVES, map(Spread, map(tuple, zip(*rounds, strict=True))), strict=True))


if __name__ == "__main__":
    main()
