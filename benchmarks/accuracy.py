"""Fit TREECRF to all training data, and evaluate the test data.

The settings are those of the papers, with shrinkage ("papers") and without ("original"), and those
of settings.json. The learners of a dataset take turns within each repeat. Times are CPU seconds of
the complete fit, also relative to the second-order learner of the same repeat.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from measure import Spread, markdown, seconds
from papers_data import CHOICES, NAMES, SETTINGS, Task, load
from settings import LEARNERS, chosen, make_model

from treecrf import TreeCRF, papers

HEADER = ("data, learner", "settings", "marginal decoding %", "Viterbi decoding %",
          "test log-likelihood per label", "fit s", "fit / second order")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows = [row for name in arguments.data for row in rows_of(load(name), arguments.repeats)]
    print(markdown(HEADER, rows))


def rows_of(task: Task, repeats: int) -> Iterator[list[str]]:
    """Rows of the table for a dataset."""
    X, y, _, _ = task.arrays()
    of_learners = published(task) | {learner: chosen(task.name, learner) for learner in LEARNERS}
    models = [make_model(task, settings) for settings in of_learners.values()]
    times = [[seconds(lambda model=model: model.fit(X, y)) for model in models]
             for _ in range(repeats)]  # fmt: skip
    spreads = [Spread(of_learner) for of_learner in zip(*times, strict=True)]
    by_learner = dict(zip(of_learners, spreads, strict=True))
    for (learner, settings), model in zip(of_learners.items(), models, strict=True):
        described = ", ".join(f"{key}={value}" for key, value in settings.items())
        time = by_learner[learner]
        yield [f"{task.name}, {learner}", described, *results(task, model), time.show(),
               time.over(by_learner["second"]).show()]  # fmt: skip


def published(task: Task) -> dict[str, dict[str, Any]]:
    """Settings of the papers, which have no number of iterations for the original trees."""
    of_data = SETTINGS[task.name.partition("-")[0]] | {"window": task.window}
    return {"papers": papers.TREECRF | of_data, "original": of_data | papers.TREECRF_ORIGINAL}


def results(task: Task, model: TreeCRF) -> list[str]:
    """Accuracies of both decodings and the log-likelihood of the test data."""
    _, _, X_test, y_test = task.arrays()
    truth = np.array(list("".join(task.test.labels)))
    fractions = [np.mean(task.test.rows_of(labels) == truth)
                 for labels in (model.predict(X_test), model.decode(X_test)[0])]  # fmt: skip
    log_likelihood = model.predict_log_likelihood(X_test, y_test).sum() / truth.size
    return [*(f"{100 * x:.2f}" for x in fractions), f"{log_likelihood:.4f}"]


if __name__ == "__main__":
    main()
