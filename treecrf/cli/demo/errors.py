"""Errors of a model: how often labels are confused, and the lines of a file where it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treecrf.cli.demo.files import SourceFile

MAX_CONFUSIONS = 6


@dataclass(frozen=True)
class ErrorRun:
    """Consecutive lines with the same wrong label.

    Attributes
    ----------
    first, last : int
        Line numbers, from 1.
    true, label : str
        The true and the predicted label.
    """

    first: int
    last: int
    true: str
    label: str

    @property
    def lines(self) -> str:
        """The line numbers as text."""
        if self.first == self.last:
            return f"line {self.first}"
        return f"lines {self.first} to {self.last}"


def error_runs(file: SourceFile, labels: Sequence[str]) -> list[ErrorRun]:
    """Return the wrong lines of a file, consecutive ones with the same labels together."""
    runs: list[ErrorRun] = []
    for number, (true, label) in enumerate(zip(file.labels, labels, strict=True), start=1):
        if label == true:
            continue
        first = number
        if runs and (runs[-1].last, runs[-1].true, runs[-1].label) == (number - 1, true, label):
            first = runs.pop().first
        runs.append(ErrorRun(first, number, str(true), str(label)))
    return runs


def confusion_rows(
    files: Sequence[SourceFile], predictions: Sequence[Sequence[np.ndarray]]
) -> list[tuple[str, list[str]]]:
    """Count the wrong labels of each model in all files, the most frequent confusion first.

    Parameters
    ----------
    files : list of SourceFile
    predictions : list of list of ndarray of str
        The predicted labels of each file, for each model.

    Returns
    -------
    list of (str, list of str)
        Descriptions such as "docstring labeled code", with a number of lines for each model.
    """
    counts = [_confusions(files, of_model) for of_model in predictions]
    total = sum(counts, Counter())
    ranked = sorted(total, key=lambda pair: (-total[pair], pair))
    rows = [
        (f"{true} labeled {label}", [f"{of_model[true, label]:,}" for of_model in counts])
        for true, label in ranked[:MAX_CONFUSIONS]
    ]
    rest = ranked[MAX_CONFUSIONS:]
    if rest:
        others = [sum(of_model[pair] for pair in rest) for of_model in counts]
        rows.append(("other errors", [f"{count:,}" for count in others]))
    return rows


def _confusions(
    files: Sequence[SourceFile], predictions: Sequence[np.ndarray]
) -> Counter[tuple[str, str]]:
    pairs: Counter[tuple[str, str]] = Counter()
    for file, labels in zip(files, predictions, strict=True):
        wrong = np.asarray(labels) != file.labels
        true, label = file.labels[wrong].tolist(), np.asarray(labels)[wrong].tolist()
        pairs.update(zip(true, label, strict=True))
    return pairs
