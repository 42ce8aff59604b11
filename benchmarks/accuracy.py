"""Fit TREECRF to all training data, and evaluate the test data.

The settings are those of the papers, with shrinkage ("papers") and without ("original"), and those
of settings.json. The learners of a dataset take turns within each repeat. Times are CPU seconds of
the complete fit, also relative to the second-order learner of the same repeat. McNemar's test
compares the labels of marginal decoding with those of this learner.
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
from treecrf.metrics import mcnemar_test

HEADER = ("data, learner", "settings", "marginal decoding %", "Viterbi decoding %",
          "test log-likelihood per label", "McNemar p", "fit s", "fit / second order")  # fmt: skip


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
    reference = predicted(task, models[list(of_learners).index("second")])
    for (learner, settings), model in zip(of_learners.items(), models, strict=True):
        described = ", ".join(f"{key}={value}" for key, value in settings.items())
        time = by_learner[learner]
        yield [f"{task.name}, {learner}", described, *results(task, model, reference), time.show(),
               time.over(by_learner["second"]).show()]  # fmt: skip


def published(task: Task) -> dict[str, dict[str, Any]]:
    """Settings of the papers, which have no number of iterations for the original trees."""
    of_data = SETTINGS[task.name.partition("-")[0]] | {"window": task.window}
    return {"papers": papers.TREECRF | of_data, "original": of_data | papers.TREECRF_ORIGINAL}


def predicted(task: Task, model: TreeCRF) -> np.ndarray:
    """Labels of the test data by marginal decoding."""
    return task.test.rows_of(model.predict(task.arrays()[2]))


def results(task: Task, model: TreeCRF, reference: np.ndarray) -> list[str]:
    """Accuracies of both decodings, the log-likelihood of the test data, and the p-value."""
    _, _, X_test, y_test = task.arrays()
    truth, labels = np.array(list("".join(task.test.labels))), predicted(task, model)
    of_viterbi = task.test.rows_of(model.decode(X_test)[0])
    log_likelihood = model.predict_log_likelihood(X_test, y_test).sum() / truth.size
    p = mcnemar_test(truth, labels, reference).pvalue
    return [*(f"{100 * np.mean(found == truth):.2f}" for found in (labels, of_viterbi)),
            f"{log_likelihood:.4f}", f"{p:.2g}"]  # fmt: skip


if __name__ == "__main__":
    main()
