"""Contestants of `compare.py`: each is trained on a `Task` and labels its test sequences."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

import lightgbm
import numpy as np
import pycrfsuite
from papers_data import Split, Task, row_slices
from settings import chosen, make_model


class Contestant(ABC):
    """One model on one dataset; inputs are prepared in advance and not timed."""

    name: str
    trees_per_iteration = 0

    def __init__(self, task: Task, n_iterations: int) -> None:
        self.task = task
        self.n_iterations = n_iterations
        self.true_labels = task.codes(task.test)

    @abstractmethod
    def fit(self) -> None:
        """Train on the training sequences."""

    @abstractmethod
    def predict(self) -> np.ndarray:
        """Label codes of all test positions in one array."""

    @abstractmethod
    def log_likelihood(self) -> float:
        """Mean log-probability of a true test label."""

    def accuracy(self) -> float:
        """Fraction of correct test labels."""
        return float(np.mean(self.predict() == self.true_labels))


class Trees(Contestant):
    """TREECRF of this package, in one thread, with the settings of the papers or others."""

    def __init__(self, task: Task, n_iterations: int, **parameters: object) -> None:
        super().__init__(task, n_iterations)
        self.name = "TreeCRF second_order" if parameters.get("second_order") else "TreeCRF"
        self.trees_per_iteration = len(task.classes)
        self.X, self.y, self.X_test, self.y_test = task.arrays()
        self.model = make_model(task, parameters, max_iter=n_iterations)

    def fit(self) -> None:
        self.model.fit(self.X, self.y)

    def predict(self) -> np.ndarray:
        return np.searchsorted(
            self.model.classes_, self.task.test.rows_of(self.model.predict(self.X_test))
        )

    def log_likelihood(self) -> float:
        likelihoods = self.model.predict_log_likelihood(self.X_test, self.y_test)
        return float(likelihoods.sum() / self.true_labels.size)


class CRFsuite(Contestant):
    """python-crfsuite: L-BFGS, indicators of the window as attributes, posterior decoding."""

    name = "python-crfsuite"

    def __init__(self, task: Task, n_iterations: int = 200) -> None:
        super().__init__(task, n_iterations)
        self.X = attributes(task.train)
        self.X_test = attributes(task.test)

    def fit(self) -> None:
        self.train(self.collect())

    def collect(self) -> pycrfsuite.Trainer:
        """Load the data; separate from `train`, which only runs the L-BFGS iterations."""
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": self.n_iterations})
        for attributes_, labels in zip(self.X, self.task.train.labels, strict=True):
            trainer.append(attributes_, list(labels))
        return trainer

    def train(self, trainer: pycrfsuite.Trainer) -> None:
        """Run L-BFGS; it may stop before the maximum number of iterations."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            trainer.train(path)
            self.model = Path(path).read_bytes()
        self.n_iterations = trainer.logparser.last_iteration["num"]

    def predict(self) -> np.ndarray:
        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(self.model)
        return np.concatenate([self._marginals(tagger, x).argmax(axis=1) for x in self.X_test])

    def _marginals(self, tagger: pycrfsuite.Tagger, sequence: list[list[str]]) -> np.ndarray:
        tagger.set(sequence)
        positions = range(len(sequence))
        return np.array([[tagger.marginal(k, t) for k in self.task.classes] for t in positions])

    def log_likelihood(self) -> float:
        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(self.model)
        total = 0.0
        for sequence, labels in zip(self.X_test, self.task.test.labels, strict=True):
            tagger.set(sequence)
            total += np.log(tagger.probability(list(labels)))
        return total / self.true_labels.size


class SlidingWindow(Contestant):
    """LightGBM labels every position separately, from the indicators of its window."""

    name = "LightGBM, sliding window"

    def __init__(self, task: Task, n_iterations: int = 200, **parameters: object) -> None:
        super().__init__(task, n_iterations)
        self.trees_per_iteration = len(task.classes)
        self.y = task.codes(task.train)
        self.X = task.train.windowed
        self.X_test = task.test.windowed
        # As many trees per iteration as classes, even with two classes, as in TreeCRF.
        self.parameters = {
            "objective": "multiclass", "num_class": len(task.classes),
            "num_threads": 1, "verbosity": -1, **parameters,
        }  # fmt: skip

    def fit(self) -> None:
        data = lightgbm.Dataset(self.X, self.y)
        self.model = lightgbm.train(self.parameters, data, self.n_iterations)

    def predict(self) -> np.ndarray:
        return self._probabilities().argmax(axis=1)

    def _probabilities(self) -> np.ndarray:
        return self.model.predict(self.X_test, num_threads=1)

    def log_likelihood(self) -> float:
        p = self._probabilities()[np.arange(self.true_labels.size), self.true_labels]
        return float(np.log(p).mean())


def make(kind: str, task: Task, n_iterations: int | None = None) -> Contestant:
    """Build a contestant with the given number of iterations, or its own by default."""
    if kind == "crfsuite":
        return CRFsuite(task, n_iterations or 200)
    if kind == "lightgbm":
        return SlidingWindow(task, n_iterations or 200)
    parameters = dict(chosen(task.name, "second" if kind == "treecrf-second" else "first"))
    chosen_iterations = parameters.pop("max_iter")
    return Trees(task, n_iterations or chosen_iterations, **parameters)


KINDS = ("treecrf", "treecrf-second", "crfsuite", "lightgbm")


def attributes(split: Split) -> list[list[list[str]]]:
    """Names of the nonzero indicators of every position, one list per sequence."""
    names = split.windowed.indices.astype(str).reshape(split.windowed.shape[0], -1).tolist()
    return [names[rows] for rows in row_slices(split.lengths)]
