"""The lines that CRFsuite writes during training, and a parser of them."""

from __future__ import annotations

import fractions
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

# Marks of the progress of feature generation: one for every 2 %.
N_MARKS = 51


class LabelScore(NamedTuple):
    """Performance of a label on the holdout data."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


def _number(pattern: str) -> tuple[re.Pattern[str], type]:
    return re.compile(rf"{pattern}: (-?\d+\.\d+(?:e[+-]?\d+)?)"), float


def _count(pattern: str) -> tuple[re.Pattern[str], type]:
    return re.compile(rf"{pattern}: (\d+)"), int


HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
SECONDS = _number("Seconds required")[0]
TOTAL_SECONDS = _number("Total seconds required for training")[0]
N_FEATURES = _count("Number of features")[0]
# What a line of an iteration adds to its record.
FIELDS = {
    "loss": _number("Loss"),
    "feature_norm": _number("Feature norm"),
    "error_norm": _number("Error norm"),
    "active_features": _count("Active features"),
    "linesearch_trials": _count("Line search trials"),
    "linesearch_step": _number("Line search step"),
    "time": _number("Seconds required for this iteration"),
}
AVERAGES = re.compile(r"Macro-average precision, recall, F1: \((\S+), (\S+), (\S+)\)")
ACCURACIES = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
LABEL = re.compile(r"\s{4}(.+): \((\d+), (\d+), (\d+)\) \((\S+), (\S+), (\S+)\)")


class TrainLogParser:
    """Reads the log of a training run, and keeps a record of each iteration.

    `Trainer` passes each line to it, and has it as the attribute ``logparser``.

    Attributes
    ----------
    iterations : list of dict
        What the log says about each iteration: ``num``, ``loss``, ``feature_norm``,
        ``active_features``, ``time`` and others. With holdout data, also ``scores`` (a
        ``LabelScore`` for each label), ``avg_precision``, ``avg_recall``, ``avg_f1``,
        ``item_accuracy_float`` and ``instance_accuracy_float``.
    last_iteration : dict or None
        The record of the latest iteration. None before the first one.
    featgen_num_features : int
        Number of weights.
    featgen_seconds, training_seconds, storing_seconds : float
        Times for reading the sequences, training, and storing the model, in seconds.
    log : list of str
        All lines of the log.
    events : list of (str, int, int)
        Name, first line and line after the last of each part of the log.

    Examples
    --------
    >>> from treecrf.crfsuite import Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([{"word": "to"}, {"word": "Rome"}], ["O", "PLACE"])
    >>> trainer.train("")
    >>> [round(iteration["loss"], 2) for iteration in trainer.logparser.iterations]
    [1.17, 1.17, 1.17, 1.17]
    """

    def __init__(self) -> None:
        self._read: Callable[[str], str | None] = self._start
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []

    def feed(self, line: str) -> str | None:
        """Read a line; return the name of the event that it ends, if it ends one."""
        self.log.append(line)
        event = self._read(line)
        if event is not None:
            start = self.events[-1][2] if self.events else 0
            end = len(self.log)
            if event in ("prepared", "optimization_end"):
                end -= 1  # The line belongs to what follows.
            self.events.append((event, start, end))
        return event

    @property
    def last_log(self) -> str:
        """The lines of the latest event."""
        _, start, end = self.events[-1]
        return "".join(self.log[start:end])

    # The parts of a log

    def _start(self, line: str) -> str | None:
        self._read = self._before_features
        if line.startswith("Feature generation"):
            self._read = self._features
        return "start"

    def _before_features(self, line: str) -> None:
        if line.startswith("Feature generation"):
            self._read = self._features

    def _features(self, line: str) -> str | None:
        if line == "." or line.isdigit():
            self.featgen_percent += 2
            return "featgen_progress"
        found = N_FEATURES.match(line)
        if found:
            self.featgen_num_features = int(found[1])
        found = SECONDS.match(line)
        if not found:
            return None
        self.featgen_seconds = float(found[1])
        self._read = self._settings
        return "featgen_end"

    def _settings(self, line: str) -> str | None:
        if "terminated with error" in line:
            self._read = self._between
            return "prepare_error"
        return "prepared" if self._begins_iteration(line) else None

    def _begins_iteration(self, line: str) -> bool:
        found = HEAD.match(line)
        if found:
            self.last_iteration = {"num": int(found[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
            self._read = self._iteration
        return found is not None

    def _iteration(self, line: str) -> str | None:
        if line == "\n":
            self._read = self._between
            return "iteration"
        assert self.last_iteration is not None
        self.last_iteration |= fields_of(line)
        label = LABEL.match(line)
        if label:
            self.last_iteration["scores"][label[1]] = label_score(label)
        return None

    def _between(self, line: str) -> str | None:
        if self._begins_iteration(line):
            return None
        found = TOTAL_SECONDS.match(line)
        if found:
            self.training_seconds = float(found[1])
        if not line.startswith("Storing the model"):
            return None
        self._read = self._storing
        return "optimization_end"

    def _storing(self, line: str) -> str | None:
        found = SECONDS.match(line)
        if found:
            self.storing_seconds = float(found[1])
        return "end" if line == "\n" else None


def fields_of(line: str) -> dict[str, Any]:
    """Return what a line says of an iteration."""
    fields: dict[str, Any] = {}
    for name, (pattern, kind) in FIELDS.items():
        found = pattern.match(line)
        if found:
            fields[name] = kind(found[1])
    found = AVERAGES.match(line)
    if found:
        names = ("avg_precision", "avg_recall", "avg_f1")
        fields |= {name: float(value) for name, value in zip(names, found.groups(), strict=True)}
    found = ACCURACIES.match(line)
    if found:
        name = f"{found[1].lower()}_accuracy"
        fields[name] = fractions.Fraction(int(found[2]), int(found[3]))
        fields[f"{name}_float"] = float(fields[name])
    return fields


def label_score(found: re.Match[str]) -> LabelScore:
    """Return the performance of a label; ratios are None if there is nothing to count."""
    counts = map(int, found.groups()[1:4])
    ratios = (None if text.startswith("*") else float(text) for text in found.groups()[4:])
    return LabelScore(*counts, *ratios)


class TrainLog:
    """The log of a training run: lines in CRFsuite's format, which go to ``write``."""

    def __init__(self, write: Callable[[str], None]):
        self.write = write

    def start(self, settings: dict[str, Any], holdout: int) -> None:
        """Write the settings of the model, and the progress of reading, which is over."""
        if holdout >= 0:
            self.lines(f"Holdout group: {holdout + 1}", "")
        self.lines("Feature generation", "type: CRF1d")
        self.settings(settings)
        for mark in range(N_MARKS):
            self.write("." if mark % 5 else str(mark // 5))
        self.lines("")

    def features(self, n_features: int, seconds: float) -> None:
        """Write the number of weights."""
        self.lines(f"Number of features: {n_features}", f"Seconds required: {seconds:.3f}", "")

    def algorithm(self, title: str, settings: dict[str, Any]) -> None:
        """Write the settings of the algorithm."""
        self.lines(title)
        self.settings(settings)
        self.lines("")

    def settings(self, settings: dict[str, Any]) -> None:
        """Write names and values."""
        for name, value in settings.items():
            text = f"{value:f}" if isinstance(value, float) else str(value)
            if isinstance(value, bool):
                text = str(int(value))
            self.lines(f"{name}: {text}")

    def iteration(self, number: int, fields: Iterable[str], holdout: Holdout | None) -> None:
        """Write the lines of an iteration."""
        self.lines(f"***** Iteration #{number} *****", *fields)
        if holdout is not None:
            self.lines(*holdout.report())
        self.lines("")

    def end(self, message: str, seconds: float) -> None:
        """Write why training is over."""
        self.lines(message, f"Total seconds required for training: {seconds:.3f}", "")

    def stored(self, counts: dict[str, tuple[int, int]], seconds: float) -> None:
        """Write what of the model has been stored."""
        self.lines("Storing the model")
        for name, (n_active, n_all) in counts.items():
            self.lines(f"Number of active {name}: {n_active} ({n_all})")
        self.lines(f"Seconds required: {seconds:.3f}", "")

    def lines(self, *lines: str) -> None:
        """Write lines, one at a time."""
        for line in lines:
            self.write(f"{line}\n")


class Holdout:
    """Counts of labels that a model finds on the holdout data."""

    def __init__(self, true: list[list[str]], predicted: list[list[str]]):
        self.n_instances = len(true)
        self.n_right = sum(a == b for a, b in zip(true, predicted, strict=True))
        flat_true = np.array([label for labels in true for label in labels])
        flat_predicted = np.array([label for labels in predicted for label in labels])
        self.n_items = len(flat_true)
        self.labels, codes = np.unique(
            np.concatenate([flat_true, flat_predicted]), return_inverse=True
        )
        true_codes = codes[: self.n_items]
        predicted_codes = codes[self.n_items :]
        n_labels = len(self.labels)
        self.refs = np.bincount(true_codes, minlength=n_labels)
        self.models = np.bincount(predicted_codes, minlength=n_labels)
        matches = true_codes[true_codes == predicted_codes]
        self.matches = np.bincount(matches, minlength=n_labels)

    def report(self) -> list[str]:
        """Return the lines of CRFsuite's report."""
        precision = self.matches / np.maximum(self.models, 1)
        recall = self.matches / np.maximum(self.refs, 1)
        f1 = 2 * self.matches / np.maximum(self.models + self.refs, 1)
        lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):"]
        for v, label in enumerate(self.labels):
            counts = f"({self.matches[v]}, {self.models[v]}, {self.refs[v]})"
            ratios = f"({precision[v]:.4f}, {recall[v]:.4f}, {f1[v]:.4f})"
            lines.append(f"    {label}: {counts} {ratios}")
        means = ", ".join(f"{ratio.mean():f}" for ratio in (precision, recall, f1))
        return [
            *lines,
            f"Macro-average precision, recall, F1: ({means})",
            _accuracy("Item", int(self.matches.sum()), self.n_items),
            _accuracy("Instance", self.n_right, self.n_instances),
        ]


def _accuracy(name: str, n_right: int, n: int) -> str:
    return f"{name} accuracy: {n_right} / {n} ({n_right / max(n, 1):.4f})"
