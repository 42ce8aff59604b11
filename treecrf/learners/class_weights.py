"""Weights of labels and of positions in training, from ``class_weight`` and sample weights."""

from __future__ import annotations

from numbers import Real

import numpy as np

from treecrf.chains.partial_labels import unknown_labels
from treecrf.inputs.weights import MAX_WEIGHT
from treecrf.learners.training_data import LabeledSequences
from treecrf.utils.exact import ExactSum


def position_weights(
    class_weight: dict | str | None, classes: np.ndarray, data: LabeledSequences
) -> np.ndarray:
    """Return the weight of each position in training; float64 array (n_positions,).

    It is the sample weight, multiplied by the weight of the label, see `label_weights`. The latter
    is 1 where the label is unknown. If all weights are 1, the array takes no memory and cannot be
    written to.
    """
    counts = count_labels(data, len(classes))
    return multiplied_weights(label_weights(class_weight, classes, counts), data)


def multiplied_weights(of_labels: np.ndarray, data: LabeledSequences) -> np.ndarray:
    """Multiply the sample weights by weights of the labels, see `position_weights`."""
    if (of_labels == 1).all():
        ones = np.broadcast_to(np.ones(1), data.codes.shape)
        return ones if data.weights is None else data.weights
    weights = of_labels[data.codes]
    if data.candidates is not None:
        weights = np.where(unknown_labels(data.candidates), 1.0, weights)
    return weights if data.weights is None else weights * data.weights


def label_weights(
    class_weight: dict | str | None, classes: np.ndarray, counts: list[ExactSum]
) -> np.ndarray:
    """Return the weight of each label; float64 array (n_labels,).

    Labels missing from a dict have weight 1. Labels that do not occur are ignored if the dict names
    all labels that do, as in scikit-learn; otherwise they raise ValueError as mistakes. ``counts``
    is from `count_labels`; the counts of several parts of the data can be added.
    """
    if class_weight is None:
        return np.ones(len(classes))
    labels = classes.tolist()
    if isinstance(class_weight, dict):
        weights = class_weight
        unknown = weights.keys() - set(labels)
        if unknown and not weights.keys() >= set(labels):
            raise ValueError(
                f"class_weight has {sorted(unknown, key=repr)}, but y holds only {labels}"
            )
    else:
        sums = np.array([float(count) for count in counts])
        n_positive = max(1, np.count_nonzero(sums))
        balanced = sums.sum() / (n_positive * np.where(sums > 0, sums, 1))
        weights = dict(zip(labels, balanced.tolist(), strict=True))
    for label, weight in weights.items():
        if not isinstance(weight, Real) or not 1 / MAX_WEIGHT <= weight <= MAX_WEIGHT:
            raise ValueError(
                f"class_weight: {label!r} has weight {weight!r}; expected a number from "
                f"{1 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
            )
    return np.array([weights.get(label, 1.0) for label in labels], dtype=np.float64)


def count_labels(data: LabeledSequences, n_labels: int) -> list[ExactSum]:
    """Sum the sample weights of the positions of each label; the same in any order."""
    known = slice(None) if data.candidates is None else ~unknown_labels(data.candidates)
    codes = data.codes[known]
    if data.weights is None:
        return list(map(ExactSum.of_integer, np.bincount(codes, minlength=n_labels).tolist()))
    weights = data.weights[known]
    return [ExactSum.of(weights[codes == k]) for k in range(n_labels)]
