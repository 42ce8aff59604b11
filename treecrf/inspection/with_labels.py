"""Sequences with labels, which are given or predicted."""

from __future__ import annotations

import numpy as np

from treecrf.inputs.dataset import RawData
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.offsets import reversed_positions
from treecrf.inputs.sequences import Sequences
from treecrf.learners.classifier import SequenceClassifier


def with_labels(model: SequenceClassifier, data: RawData) -> tuple[Sequences, np.ndarray]:
    """Return sequences and codes of their labels, in the direction of the chain.

    The labels are those of the data, or if it has none, those that the model predicts.

    Raises
    ------
    ValueError, TypeError
        If the data does not match the training data, or a label is unknown.
    """
    return in_chain(model, *read_labeled(model, data))


def read_labeled(
    model: SequenceClassifier, data: RawData
) -> tuple[Sequences, list[np.ndarray] | None]:
    """Return sequences and their labels, if the data has any, in the direction of the input."""
    if data.y is None:
        return model._sequences(data.X, data.segmentation), None
    sequences, labels = model._read_labeled(data)
    return sequences, labels.complete()


def in_chain(
    model: SequenceClassifier, sequences: Sequences, labels: list[np.ndarray] | None
) -> tuple[Sequences, np.ndarray]:
    """Return sequences and codes of given or predicted labels, in the direction of the chain."""
    codes = encode_labels(model.predict(sequences) if labels is None else labels, model.classes_)
    if model._trained_backward:
        sequences, codes = sequences.reversed(), codes[reversed_positions(sequences.offsets)]
    return sequences, codes
