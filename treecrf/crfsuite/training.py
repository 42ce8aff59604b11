"""Training sequences in groups, and models trained on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from treecrf.crfsuite.items import attributes_in
from treecrf.crfsuite.objective import ChainModel, Settings
from treecrf.crfsuite.tagger import FittedTagger
from treecrf.crfsuite.training_log import Holdout, TrainLog
from treecrf.learners.base.callbacks import IterationInfo


@dataclass
class Dataset:
    """Labeled sequences."""

    items: list[list[dict[str, float]]] = field(default_factory=list)
    labels: list[list[str]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    def append(self, xseq: Any, yseq: Iterable[Any], group: int, weight: float) -> None:
        """Add a sequence; nothing is added if it is not valid."""
        items = attributes_in(xseq)
        labels = [as_label(label) for label in yseq]
        if len(items) != len(labels):
            raise ValueError(
                f"xseq has {len(items)} items and yseq {len(labels)} labels; expected as many"
            )
        if not (weight >= 0 and isfinite(weight)):
            raise ValueError(f"weight={weight!r}; expected a finite number that is not negative")
        for t, attributes in enumerate(items):
            for name, value in attributes.items():
                if not isfinite(value):
                    raise ValueError(f"position {t}: attribute {name!r} is {value}")
        if not items:
            return
        self.items.append(items)
        self.labels.append(labels)
        self.weights.append(float(weight))
        self.groups.append(int(group))

    def split(self, group: int) -> tuple[Dataset, Dataset]:
        """Return the sequences of all other groups, and those of a group."""
        is_held_out = np.array(self.groups, dtype=np.int64) == group
        return self.take(~is_held_out), self.take(is_held_out)

    def take(self, chosen: np.ndarray) -> Dataset:
        """Return the chosen sequences."""
        indices = np.flatnonzero(chosen).tolist()
        return Dataset(
            [self.items[i] for i in indices],
            [self.labels[i] for i in indices],
            [self.weights[i] for i in indices],
            [self.groups[i] for i in indices],
        )

    @property
    def sample_weight(self) -> list[float] | None:
        """The weights of the sequences; None if all are 1."""
        return None if all(weight == 1 for weight in self.weights) else self.weights

    @property
    def n_attributes(self) -> int:
        """Number of distinct attributes."""
        return len(set().union(*(row for item in self.items for row in item)))


def as_label(label: Any) -> str:
    """Check a label; bytes are UTF-8, as in CRFsuite."""
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bytes):
        return label.decode("utf-8")
    raise TypeError(f"the label {label!r} is of type {type(label).__name__}; expected a string")


def train_model(
    data: Dataset,
    holdout: int,
    algorithm: str,
    values: dict[str, Any],
    estimator: Any,
    log: TrainLog,
) -> Any:
    """Train a model on all groups but ``holdout``; return the fitted estimator."""
    training = data
    held_out = Dataset()
    if holdout >= 0:
        training, held_out = data.split(holdout)
    if not training.items:
        raise ValueError("there are no training sequences; append some with items first")
    features = {name: v for name, v in values.items() if name.startswith("feature.")}
    log.start(features if estimator is None else {}, holdout)
    if estimator is None:
        return train_chain(training, held_out, algorithm, values, log)
    return train_estimator(training, held_out, estimator, log)


def train_chain(
    training: Dataset, held_out: Dataset, algorithm: str, values: dict[str, Any], log: TrainLog
) -> Any:
    """Train CRFsuite's linear model."""
    model = ChainModel.of(
        Settings(algorithm, values, log, held_out.labels if held_out.items else None)
    )
    validation: dict[str, Any] = {}
    if held_out.items:
        # The holdout group may have labels of its own; its true labels are compared elsewhere.
        known = training.labels[0][0]
        places = [[known] * len(labels) for labels in held_out.labels]
        validation = {"X_val": held_out.items, "y_val": places}
    model.fit(training.items, training.labels, sample_weight=training.sample_weight, **validation)
    return model.as_linear()


def train_estimator(training: Dataset, held_out: Dataset, estimator: Any, log: TrainLog) -> Any:
    """Train another estimator, such as boosted trees."""
    begin = process_time()
    log.features(training.n_attributes, 0.0)
    log.algorithm(type(estimator).__name__, {})
    reporter = Reporter(log, len(training.items), sum(map(len, training.labels)))
    options: dict[str, Any] = {}
    if held_out.items and has_fit_parameter(estimator, "X_val"):
        classes = {label for labels in training.labels for label in labels}
        y_val = [
            [label if label in classes else None for label in labels] for labels in held_out.labels
        ]
        options = {"X_val": held_out.items, "y_val": y_val}
    if has_fit_parameter(estimator, "callbacks"):
        options["callbacks"] = [reporter]
    if training.sample_weight is not None:
        options["sample_weight"] = training.sample_weight
    fitted = clone(estimator).fit(training.items, training.labels, **options)
    holdout = None
    if held_out.items:
        labeler = FittedTagger(fitted)
        holdout = Holdout(held_out.labels, [labeler.labels_of(item) for item in held_out.items])
    reporter.finish(holdout)
    log.end(f"{type(fitted).__name__} ended", process_time() - begin)
    return fitted


class Reporter:
    """A callback that writes iterations to a log; the last one with the holdout group."""

    def __init__(self, log: TrainLog, n_sequences: int, n_positions: int):
        self.log = log
        self.n_positions = n_positions
        self.began = process_time()
        # The latest iteration, which is written when the next one has begun.
        self.latest: tuple[int, list[str]] | None = None

    def __call__(self, info: IterationInfo) -> None:
        """Write the iteration before this one."""
        self.finish(None)
        now = process_time()
        fields = [f"Seconds required for this iteration: {now - self.began:.3f}"]
        if info.train_scores:
            fields.insert(0, f"Loss: {-info.train_scores[-1] * self.n_positions:f}")
        self.latest = info.n_iter, fields
        self.began = now

    def finish(self, holdout: Holdout | None) -> None:
        """Write the latest iteration."""
        if self.latest is not None:
            self.log.iteration(*self.latest, holdout)
        self.latest = None


def counts_of(model: Any) -> dict[str, tuple[int, int]]:
    """Return the numbers of active and of all features, attributes and labels of a model."""
    n_labels = len(model.classes_)
    n_attributes = len(model.feature_names_in_)
    counts = {"attributes": (n_attributes, n_attributes), "labels": (n_labels, n_labels)}
    if not hasattr(model, "state_weights_"):
        return counts
    weights = model.state_weights_
    n_active = np.count_nonzero(weights) + np.count_nonzero(model.transition_weights_)
    n_used = np.count_nonzero((weights != 0).any(axis=1))
    n_features = weights.size + model.transition_weights_.size
    return {
        "features": (int(n_active), n_features),
        "attributes": (int(n_used), n_attributes),
        "labels": (n_labels, n_labels),
    }
