"""Results of the benchmark `real.py` and tables of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from measure import markdown
from real_sequences import Predicted

# Probabilities are limited from below, so that a single position does not decide.
MIN_PROBABILITY = 1e-4
N_BOOTSTRAPS = 1000
HEADER = ["contestant", "accuracy %", "macro F1", "log loss", "changes", "CPU s", "memory MB"]


@dataclass
class Result:
    """Results of a contestant on the test sequences of all folds.

    Attributes
    ----------
    lengths, correct, losses : list (n_sequences,)
        Number of positions and of correct labels, and sum of the log losses.
    true_changes, predicted_changes : int
        Number of positions with another label than the one before.
    confusion : nested list (n_labels, n_labels)
        Number of positions by true and predicted label.
    seconds, megabytes : float
        CPU seconds and growth of memory while learning and predicting; means of the folds.
    """

    lengths: list[int]
    correct: list[int]
    losses: list[float]
    true_changes: int
    predicted_changes: int
    confusion: list[list[int]]
    seconds: float
    megabytes: float

    @property
    def accuracy(self) -> float:
        """Percentage of correct labels."""
        return 100 * sum(self.correct) / sum(self.lengths)

    @property
    def log_loss(self) -> float:
        """Mean log loss of a position."""
        return sum(self.losses) / sum(self.lengths)

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels that occur, in percent."""
        counts = np.array(self.confusion)
        true, predicted = counts.sum(axis=1), counts.sum(axis=0)
        f1 = 2 * counts.diagonal() / np.maximum(true + predicted, 1)
        return 100 * float(f1[true > 0].mean())

    @property
    def changes(self) -> float:
        """Ratio of predicted to true changes of the label."""
        return self.predicted_changes / max(self.true_changes, 1)


def result(
    y: list[np.ndarray], predicted: Predicted, n_labels: int, seconds: float, megabytes: float
) -> Result:
    """Compare predictions with the true labels."""
    confusion = np.zeros((n_labels, n_labels), dtype=int)
    losses = []
    for true, labels, probabilities in zip(y, *predicted, strict=True):
        np.add.at(confusion, (true, labels), 1)
        of_true = probabilities[np.arange(len(true)), true]
        losses.append(-float(np.log(np.maximum(of_true, MIN_PROBABILITY)).sum()))
    return Result(
        [len(true) for true in y],
        [int((true == labels).sum()) for true, labels in zip(y, predicted.labels, strict=True)],
        losses,
        sum(map(_n_changes, y)),
        sum(map(_n_changes, predicted.labels)),
        confusion.tolist(),
        seconds,
        megabytes,
    )


def _n_changes(labels: np.ndarray) -> int:
    return int((labels[1:] != labels[:-1]).sum())


def table(results: dict[str, Result]) -> str:
    """Lay out the results of one set, with differences to the best and their errors."""
    accuracies, losses = (
        compared(results, percent_correct, 1),
        compared(results, log_likelihoods, 3),
    )
    rows = [[name, accuracies[name], f"{each.macro_f1:.1f}", losses[name], f"{each.changes:.2f}",
             f"{each.seconds:.1f}", f"{each.megabytes:.0f}"]
            for name, each in results.items()]  # fmt: skip
    return markdown(HEADER, rows)


def percent_correct(result: Result) -> np.ndarray:
    """Return 100 times the number of correct labels of each sequence."""
    return 100.0 * np.array(result.correct)


def log_likelihoods(result: Result) -> np.ndarray:
    """Return the sum of the log-probabilities of the labels of each sequence."""
    return -np.array(result.losses)


def compared(
    results: dict[str, Result], gains: Callable[[Result], np.ndarray], digits: int
) -> dict[str, str]:
    """Show the mean gain of each contestant and, of others than the best, the difference to it.

    ``gains`` returns sums over the positions of each sequence, of which larger ones are better.
    """
    sums = {name: gains(each) for name, each in results.items()}
    best = max(sums, key=lambda name: sums[name].sum())
    shown = {}
    for name, each in results.items():
        lengths = np.array(each.lengths)
        mean, error = difference(sums[name] - sums[best], lengths)
        value = f"{abs(sums[name].sum()) / lengths.sum():.{digits}f}"
        bold = f"**{value}**" if -mean <= error else value
        shown[name] = bold if name == best else f"{bold} ({mean:+.{digits}f} ± {error:.{digits}f})"
    return shown


def difference(sums: np.ndarray, lengths: np.ndarray) -> tuple[float, float]:
    """Return the mean over positions, and its standard error by a bootstrap over sequences."""
    rng = np.random.RandomState(0)
    drawn = rng.randint(len(lengths), size=(N_BOOTSTRAPS, len(lengths)))
    means = sums[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    return float(sums.sum() / lengths.sum()), float(means.std())


def summary(results: dict[str, dict[str, Result]]) -> str:
    """Lay out accuracy and log loss of all contestants, a row for each set."""
    names = list(dict.fromkeys(name for of_set in results.values() for name in of_set))
    rows = []
    for set_name, of_set in results.items():
        accuracies, losses = (
            compared(of_set, percent_correct, 1),
            compared(of_set, log_likelihoods, 3),
        )
        cells = [f"{accuracies[name].split(' (')[0]} / {losses[name].split(' (')[0]}"
                 if name in of_set else "" for name in names]  # fmt: skip
        rows.append([set_name, *cells])
    return markdown(["accuracy % / log loss", *names], rows)
