"""Comparison of a model of the window with a model of the window and the previous label."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from treecrf import TreeCRF
from treecrf.cli.demo.files import SourceFile
from treecrf.cli.demo.lines import LABELS
from treecrf.metrics import log_likelihood, token_accuracy_score, token_precision_recall_fscore

# With second-order steps, 60 iterations suffice, several times fewer than without. The values
# worked well for both models on the files that other seeds select.
SETTINGS = {
    "second_order": True,
    "learning_rate": 0.2,
    "l2_regularization": 5.0,
    "max_leaf_nodes": 32,
    "early_stopping": False,
}


@dataclass(frozen=True)
class Result:
    """Predictions and scores of a model on the test files.

    Attributes
    ----------
    name : str
        Name of the model in the table and the picture.
    predictions : list of ndarray of str
        The predicted labels of each test file.
    accuracy, log_likelihood : float
        Fraction of lines with the correct label, and mean per line of log P(labels of a file).
    recall, f1 : dict of str to float
        For each of `LABELS`.
    seconds, lines_per_second : float
        Training time and prediction speed.
    """

    name: str
    predictions: list[np.ndarray]
    accuracy: float
    log_likelihood: float
    recall: dict[str, float]
    f1: dict[str, float]
    seconds: float
    lines_per_second: float


def make_models(
    window: int, iterations: int, n_jobs: int | None = None, seed: int = 0
) -> dict[str, TreeCRF]:
    """Create the two models, which differ only in the order."""
    return {
        name: TreeCRF(
            order=order,
            window=window,
            max_iter=iterations,
            n_jobs=n_jobs,
            random_state=seed,
            **SETTINGS,
        )
        for name, order in (("window only", 0), ("TREECRF", 1))
    }


def evaluate(name: str, model: TreeCRF, train: list[SourceFile], test: list[SourceFile]) -> Result:
    """Train a model and evaluate it on the test files."""
    features, truth = [file.features for file in test], [file.labels for file in test]
    started = time.perf_counter()
    model.fit([file.features for file in train], [file.labels for file in train])
    trained = time.perf_counter()
    predictions = model.predict(features)
    predicted = time.perf_counter()
    _, recall, f1, _ = token_precision_recall_fscore(truth, predictions, labels=LABELS)
    return Result(
        name=name,
        predictions=predictions,
        accuracy=token_accuracy_score(truth, predictions),
        log_likelihood=log_likelihood(model, features, truth),
        recall=dict(zip(LABELS, recall.tolist(), strict=True)),
        f1=dict(zip(LABELS, f1.tolist(), strict=True)),
        seconds=trained - started,
        lines_per_second=sum(map(len, truth)) / (predicted - trained),
    )


def table_rows(results: list[Result]) -> list[tuple[str, list[str]]]:
    """Return the names of the scores, and their formatted values for each result."""
    rows = [
        ("accuracy", [f"{result.accuracy:.2%}" for result in results]),
        ("errors per 1,000 lines", [f"{1000 * (1 - result.accuracy):.1f}" for result in results]),
    ]
    for label in LABELS:
        rows.append((f"recall of {label}", [f"{result.recall[label]:.2%}" for result in results]))
    for label in LABELS:
        rows.append((f"F1 of {label}", [f"{result.f1[label]:.2%}" for result in results]))
    return [
        *rows,
        ("log-likelihood per line", [f"{result.log_likelihood:.4f}" for result in results]),
        ("training time", [f"{result.seconds:.1f} s" for result in results]),
        ("lines labeled per second", [f"{result.lines_per_second:,.0f}" for result in results]),
    ]


def format_table(results: list[Result]) -> str:
    """Format the comparison as text, with one column per result."""
    rows = [("", [result.name for result in results]), *table_rows(results)]
    left = max(len(title) for title, _ in rows)
    right = max(len(value) for _, values in rows for value in values)
    return "\n".join(
        "  ".join([title.ljust(left), *(value.rjust(right) for value in values)])
        for title, values in rows
    )
