"""Comparison of linear learners: likelihood, perceptron, margin, boosting.

All learners use the same windows. The setting of each is the one of a few with the highest accuracy
on a held-out third of the training data; the final model is trained on all training data. The
averaged perceptron of CRFsuite uses the same attributes; its time covers the training only.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
from compare import environment
from linear import items_of
from measure import Spread, markdown, seconds
from papers_data import CHOICES, NAMES, Task, load
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from treecrf import LinearCRF, SequenceBoostingClassifier, StructuredPerceptron, StructuredSVM

N_FOLDS = 3
# Megabytes, enough for the kernel of all windows of the proteins.
CACHE = 4000
EPOCHS = (5, 10, 20, 50)
HEADER = ("learner", "setting", "viterbi %", "marginal %", "weights", "iterations", "fit s")


class Learner(ABC):
    """A learner and the settings to choose from.

    Parameters
    ----------
    name : str
    grid : dict
        Values of parameters.
    """

    def __init__(self, name: str, grid: dict[str, tuple]):
        self.name = name
        self.grid = grid

    @property
    def settings(self) -> Iterator[dict[str, Any]]:
        """All combinations of the grid."""
        return (
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        )

    @abstractmethod
    def result(self, task: Task, setting: dict[str, Any]) -> Result:
        """Train and label."""


@dataclass
class Result:
    """Accuracies, number of weights, iterations and training time."""

    viterbi: float
    marginal: float
    n_weights: int
    n_iter: int
    seconds: float

    @property
    def best(self) -> float:
        """The better accuracy."""
        return np.nanmax([self.viterbi, self.marginal])


class Ours(Learner):
    """A learner of this package."""

    def __init__(self, name: str, model: Any, grid: dict[str, tuple]):
        super().__init__(name, grid)
        self.model = model

    def result(self, task: Task, setting: dict[str, Any]) -> Result:
        """Train and label."""
        X, y, X_test, _ = task.arrays()
        model = self.model.set_params(window=task.window, **setting)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = seconds(lambda: model.fit(X, y))
        fractions = []
        for decoding in ("viterbi", "marginal"):
            labels = task.test.rows_of(model.set_params(decoding=decoding).predict(X_test))
            codes = np.searchsorted(model.classes_, labels)
            fractions.append(100 * float(np.mean(codes == task.codes(task.test))))
        support = getattr(model, "_support", None)
        of_model = model._weights.vector if support is None else support.coefficients
        return Result(*fractions, np.count_nonzero(of_model), model.n_iter_, fit)


class AveragedPerceptron(Learner):
    """CRFsuite's averaged perceptron."""

    def result(self, task: Task, setting: dict[str, Any]) -> Result:
        """Train and label."""
        X, y, X_test, _ = task.arrays()
        trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
        trainer.set_params({
            "max_iterations": setting["max_iter"], "epsilon": 0.0,
            "feature.possible_states": True, "feature.possible_transitions": True,
        })  # fmt: skip
        for word, labels in zip(X, y, strict=True):
            trainer.append(items_of(word, task.window), [str(label) for label in labels])
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            fit = seconds(lambda: trainer.train(path))
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            found = [tagger.tag(items_of(word, task.window)) for word in X_test]
            n_weights = len(tagger.info().state_features) + len(tagger.info().transitions)
            tagger.close()
        labels = task.test.rows_of([np.array(path) for path in found])
        codes = np.searchsorted(task.classes, labels)
        fraction = 100 * float(np.mean(codes == task.codes(task.test)))
        return Result(fraction, np.nan, n_weights, setting["max_iter"], fit)


def learners() -> list[Learner]:
    """All learners in their variants."""
    l2, C = (0.1, 0.3, 1.0, 3.0, 10.0), (0.01, 0.03, 0.1, 0.3, 1.0)
    with_pairs = {"transition_features": (True,)}
    alone = {"transition_features": (False,)}
    return [
        Ours("LinearCRF", LinearCRF(), alone | {"l2_regularization": l2}),
        Ours("LinearCRF, pairs", LinearCRF(), with_pairs | {"l2_regularization": l2}),
        AveragedPerceptron("CRFsuite, perceptron", {"max_iter": EPOCHS}),
        Ours("StructuredPerceptron", StructuredPerceptron(random_state=0),
             alone | {"max_iter": EPOCHS}),
        Ours("StructuredPerceptron, pairs", StructuredPerceptron(random_state=0),
             with_pairs | {"max_iter": EPOCHS}),
        Ours("StructuredSVM", StructuredSVM(random_state=0), alone | {"C": C}),
        Ours("StructuredSVM, pairs", StructuredSVM(random_state=0), with_pairs | {"C": C}),
        Ours("StructuredSVM, rbf",
             StructuredSVM(kernel="rbf", max_iter=100, cache_size=CACHE, random_state=0),
             {"C": (0.3, 1.0, 3.0)}),
        Ours("SequenceBoosting", SequenceBoostingClassifier(line_search=True),
             alone | {"piece_length": (1, 3, 5, 10), "max_iter": (300, 1000)}),
        Ours("SequenceBoosting, pairs", SequenceBoostingClassifier(line_search=True),
             with_pairs | {"piece_length": (3, 5), "max_iter": (1000,)}),
    ]  # fmt: skip


def row(learner: Learner, task: Task, repeats: int) -> list[str]:
    """Choose a setting, train with it, and report the results."""
    kept, out = next(KFold(N_FOLDS, shuffle=True, random_state=0).split(task.train.labels))
    part = Task(task.name, task.train.take(kept), task.train.take(out))
    settings = list(learner.settings)
    held_out = [learner.result(part, setting).best for setting in settings]
    chosen = settings[int(np.argmax(held_out))]
    results = [learner.result(task, chosen) for _ in range(repeats)]
    shown = ", ".join(f"{k}={v}" for k, v in chosen.items() if len(learner.grid[k]) > 1)
    first = results[0]
    fractions = [f"{x:.2f}" if x == x else "" for x in (first.viterbi, first.marginal)]
    fit = Spread(tuple(result.seconds for result in results)).show()
    return [learner.name, shown, *fractions, str(first.n_weights), str(first.n_iter), fit]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--only", help="run only learners whose name contains this")
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    print(environment())
    chosen = [x for x in learners() if not arguments.only or arguments.only in x.name]
    with threadpool_limits(1):
        for name in arguments.data:
            rows = [row(learner, load(name), arguments.repeats) for learner in chosen]
            print(f"\n{name}\n\n{markdown(HEADER, rows)}", flush=True)


if __name__ == "__main__":
    main()
