"""Fit TREECRF with the settings of settings.json to all training data; evaluate the test data."""

from __future__ import annotations

import argparse

import numpy as np
from measure import markdown
from papers_data import CHOICES, NAMES, load
from settings import LEARNERS, chosen

from treecrf import TreeCRF

HEADER = ("data, learner", "settings", "marginal decoding %", "Viterbi decoding %",
          "test log-likelihood per label")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--learner", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    arguments = parser.parse_args()
    rows = [row(name, learner, arguments.jobs)
            for name in arguments.data for learner in arguments.learner]  # fmt: skip
    print(markdown(HEADER, rows))


def row(name: str, learner: str, n_jobs: int) -> list[str]:
    task = load(name)
    X, y, X_test, y_test = task.arrays()
    settings = chosen(name, learner)
    model = TreeCRF(window=task.window, n_jobs=n_jobs, random_state=0, **settings).fit(X, y)
    truth = np.array(list("".join(task.test.labels)))
    fractions = [np.mean(task.test.rows_of(labels) == truth)
              for labels in (model.predict(X_test), model.decode(X_test)[0])]  # fmt: skip
    log_likelihood = model.predict_log_likelihood(X_test, y_test).sum() / truth.size
    described = ", ".join(f"{key}={value}" for key, value in settings.items())
    return [f"{name}, {learner} order", described, *(f"{100 * x:.2f}" for x in fractions),
            f"{log_likelihood:.4f}"]  # fmt: skip


if __name__ == "__main__":
    main()
