"""Default settings on a panel of datasets: TreeCRF, LinearCRF, LightGBM and CRFsuite.

All models use the same window. LightGBM labels each position from the values in the window, and
python-crfsuite gets them as attributes, without conjunctions. Each model has its default settings,
except the window. A row of the table is the mean over the draws of a task. In bold: results that
are not worse than the best one by more than one standard error of their difference, over the test
sequences of all draws. In brackets: the accuracy of the most probable label sequence (Viterbi).
Times are those of `fit` alone; the tables of windows and the attributes are made before.

``--held-out`` uses other draws and no published test data, to choose defaults.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pycrfsuite
from measure import markdown
from panel import TASKS, Draw, Task
from sklearn.exceptions import ConvergenceWarning

from treecrf import LinearCRF, TreeCRF

# Probabilities are limited from below, so that a single position does not decide.
MIN_PROBABILITY = 1e-4


@dataclass(frozen=True)
class Result:
    """Test results of a model on one draw; float arrays (n_sequences,), and CPU seconds of `fit`.

    Attributes
    ----------
    correct, logs : float arrays (n_sequences,)
        Number of correct labels, and sum of the logarithms of the true labels' probabilities.
    viterbi : float
        Number of correct labels in the most probable label sequences; NaN without sequences.
    lengths : int array (n_sequences,)
    seconds : float
    """

    correct: np.ndarray
    logs: np.ndarray
    viterbi: float
    lengths: np.ndarray
    seconds: float


@dataclass(frozen=True)
class Contestant:
    """A model on one draw.

    Attributes
    ----------
    fit : callable
    predict : callable
        Returns the labels, and the probabilities of each at all test positions.
    decode : callable or None
        Returns the labels of the most probable label sequences at all test positions.
    """

    fit: Callable[[], Any]
    predict: Callable[[], tuple[list[str], np.ndarray]]
    decode: Callable[[], np.ndarray] | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--held-out", action="store_true", help="other draws, to choose settings")
    parser.add_argument("--settings", type=json.loads, default={}, help="of TreeCRF, as JSON")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for name in arguments.tasks:
        rows.append([name, *cells(TASKS[name], arguments)])
        print(*rows[-1], sep=" | ", flush=True)
    header = [f"{model}: accuracy %, log loss, fit s" for model in arguments.models]
    print(markdown(["task", *header], rows))


def cells(task: Task, arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the results of all models on a task."""
    draws = task.draws(arguments.held_out)
    settings = {"TreeCRF": arguments.settings}
    results = [[result(MODELS[model], task, draw, settings.get(model, {})) for draw in draws]
               for model in arguments.models]  # fmt: skip
    correct = [np.concatenate([one.correct for one in each]) for each in results]
    logs = [np.concatenate([one.logs for one in each]) for each in results]
    lengths = np.concatenate([one.lengths for one in results[0]])
    for i, each in enumerate(results):
        accuracy = f"{100 * correct[i].sum() / lengths.sum():.1f}"
        loss = f"{-logs[i].sum() / lengths.sum():.3f}"
        shown = [f"**{text}**" if is_as_good(values, i, lengths) else text
                 for text, values in ((accuracy, correct), (loss, logs))]  # fmt: skip
        viterbi = 100 * sum(one.viterbi for one in each) / lengths.sum()
        shown[0] += f" ({viterbi:.1f})" if viterbi == viterbi else ""
        yield f"{shown[0]}, {shown[1]}, {np.mean([one.seconds for one in each]):.2f}"


def is_as_good(values: list[np.ndarray], i: int, lengths: np.ndarray) -> bool:
    """Return whether a model is the best one or within a standard error of it.

    The error is that of the difference of two means over positions, with sequences as units.
    """
    best = int(np.argmax([each.sum() for each in values]))
    difference = values[best] - values[i]
    mean = difference.sum() / lengths.sum()
    error = np.sqrt(((difference - mean * lengths) ** 2).sum()) / lengths.sum()
    return bool(mean <= error)


def result(model: Callable[..., Contestant], task: Task, draw: Draw, settings: dict) -> Result:
    """Train a model on one draw, and test it."""
    contestant = model(task, draw, **settings)
    start = time.process_time()
    contestant.fit()
    seconds = time.process_time() - start
    labels, probabilities = contestant.predict()
    true = [np.asarray(each).astype(str) for each in draw.y_test]
    codes = {label: k for k, label in enumerate(labels)}
    columns = np.array([codes.get(label, -1) for label in np.concatenate(true)])
    of_true = np.where(columns < 0, 0.0, probabilities[np.arange(len(columns)), columns])
    lengths = np.array([len(each) for each in true])
    starts = np.append(0, np.cumsum(lengths)[:-1])
    viterbi = np.nan
    if contestant.decode is not None:
        viterbi = float((contestant.decode() == np.concatenate(true)).sum())
    return Result(
        np.add.reduceat((probabilities.argmax(axis=1) == columns).astype(float), starts),
        np.add.reduceat(np.log(np.maximum(of_true, MIN_PROBABILITY)), starts),
        viterbi,
        lengths,
        seconds,
    )


# Models


def by_treecrf(task: Task, draw: Draw, **settings: Any) -> Contestant:
    """Train a TreeCRF."""
    values = {"window": task.window, "random_state": 0} | settings
    return estimator(TreeCRF(**values), draw)


def by_linear(task: Task, draw: Draw) -> Contestant:
    """Train a LinearCRF."""
    return estimator(LinearCRF(window=task.window), draw)


def estimator(model: Any, draw: Draw, validation: tuple = ()) -> Contestant:
    """Train an estimator of this package, with validation data if there are any."""

    def decode() -> np.ndarray:
        model.set_params(decoding="viterbi")
        return np.concatenate([np.asarray(each) for each in model.predict(draw.X_test)]).astype(str)

    return Contestant(
        lambda: model.fit(draw.X, draw.y, *validation),
        lambda: ([str(label) for label in model.classes_],
                 np.concatenate(model.predict_proba(draw.X_test))),
        decode,
    )  # fmt: skip


def by_lightgbm(task: Task, draw: Draw) -> Contestant:
    """Train LightGBM on the values in the window."""
    tables = [pd.DataFrame([window for X in data for window in windows(task, X)])
              for data in (draw.X, draw.X_test)]  # fmt: skip
    train, test = tables[0], tables[1].reindex(columns=tables[0].columns)
    for column in train.columns:
        if not pd.api.types.is_float_dtype(train[column]):
            train[column] = train[column].astype("category")
            categories = train[column].cat.categories
            values = test[column].where(test[column].isin(categories)).astype(object)
            test[column] = pd.Categorical(values, categories=categories)
    model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
    labels = np.concatenate([np.asarray(each).astype(str) for each in draw.y])
    return Contestant(
        lambda: model.fit(train, labels), lambda: (list(model.classes_), model.predict_proba(test))
    )


def by_crfsuite(task: Task, draw: Draw) -> Contestant:
    """Train python-crfsuite on the values in the window."""
    trainer, tagger = pycrfsuite.Trainer(verbose=False), pycrfsuite.Tagger()
    for X, y in zip(draw.X, draw.y, strict=True):
        trainer.append([attributes(window) for window in windows(task, X)], list(map(str, y)))

    def fit() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            trainer.train(path)
            tagger.open(path)

    def predict() -> tuple[list[str], np.ndarray]:
        labels, rows = tagger.labels(), []
        for X in draw.X_test:
            tagger.set([attributes(window) for window in windows(task, X)])
            rows += [[tagger.marginal(label, t) for label in labels] for t in range(len(X))]
        return labels, np.array(rows)

    def decode() -> np.ndarray:
        tagged = [tagger.tag([attributes(window) for window in windows(task, X)])
                  for X in draw.X_test]  # fmt: skip
        return np.concatenate([np.array(each) for each in tagged])

    return Contestant(fit, predict, decode)


MODELS = {
    "TreeCRF": by_treecrf, "LinearCRF": by_linear, "LightGBM": by_lightgbm,
    "CRFsuite": by_crfsuite,
}  # fmt: skip


def windows(task: Task, X: Any) -> list[dict[str, Any]]:
    """Return the values in the window around each position, by names like ``x0_-1``."""
    left, right = (task.window, task.window) if np.isscalar(task.window) else task.window
    rows = [cells_of(row) for row in X]
    return [
        {f"{name}_{offset}": value
         for offset in range(-left, right + 1) if 0 <= t + offset < len(rows)
         for name, value in rows[t + offset].items()}
        for t in range(len(rows))
    ]  # fmt: skip


def cells_of(row: Any) -> dict[str, Any]:
    """Return the values at one position, by name."""
    if isinstance(row, dict):
        return row
    if np.ndim(row):
        return {f"x{j}": value for j, value in enumerate(np.asarray(row).tolist())}
    return {"symbol": str(row)}


def attributes(window: dict[str, Any]) -> dict[str, float]:
    """Return the attributes of one position; missing values have none."""
    texts = {f"{name}={value}": 1.0 for name, value in window.items() if isinstance(value, str)}
    numbers = {name: float(value) for name, value in window.items() if not isinstance(value, str)}
    return texts | {name: value for name, value in numbers.items() if value == value}


if __name__ == "__main__":
    main()
