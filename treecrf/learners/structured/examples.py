"""Training data for learners that update their weights after each sequence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treecrf.inputs.offsets import runs
from treecrf.learners.linear.scores import AttributeMatrix
from treecrf.learners.linear.training import TrainingData
from treecrf.learners.structured._examples import AttributeRows, LabeledChains

# Kernels take this many positions at a time; between two calls, training can be interrupted.
BURST_POSITIONS = 1 << 16


def attribute_rows(
    table: AttributeMatrix, width: int, first_rows: np.ndarray | None = None
) -> AttributeRows:
    """Return the attributes in the form that kernels read; sequences may be cut into pieces."""
    first_rows = table.first_rows if first_rows is None else first_rows
    return AttributeRows(table.by_row, table.window, first_rows, width)


def labeled_chains(
    data: TrainingData, offsets: np.ndarray | None = None, before: np.ndarray | None = None
) -> LabeledChains:
    """Return labels and constraints in the form that kernels read.

    Sequences may be cut into pieces, with their own ``offsets`` and the label ``before`` each.
    """
    offsets = data.offsets if offsets is None else offsets
    follows, allowed = data.constraints.follows, data.constraints.allowed
    return LabeledChains(offsets, data.codes, len(data.classes), follows, allowed, before)


def bursts(offsets: np.ndarray, order: np.ndarray) -> Iterator[np.ndarray]:
    """Cut an order of sequences into parts that kernels process without interruption."""
    lengths = np.append(0, np.cumsum(np.diff(offsets)[order]))
    for first, last in runs(lengths, BURST_POSITIONS):
        yield order[first:last]
