"""Sequences with labels, which are given or predicted."""

from __future__ import annotations

import numpy as np

from treecrf.inputs.labels import RawData, encode_labels
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
    if data.y is not None:
        sequences, read = model._read_labeled(data)
        labels = read.complete()
    else:
        sequences = model._sequences(data.X, data.segmentation)
        labels = model.predict(sequences)
    codes = encode_labels(labels, model.classes_)
    if model._trained_backward:
        sequences, codes = sequences.reversed(), codes[reversed_positions(sequences.offsets)]
    return sequences, codes
