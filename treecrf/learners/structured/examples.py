"""Training data for learners that take a step after each sequence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treecrf.inputs.sequences import runs
from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.table import Table
from treecrf.learners.structured._attribute_rows import AttributeRows
from treecrf.learners.structured._labeled_chains import LabeledChains

# A kernel works on sequences of about so many positions at a time, and can be interrupted then.
BURST_POSITIONS = 1 << 16


def attribute_rows(table: Table, width: int) -> AttributeRows:
    """The attributes of all rows, as kernels read them."""
    return AttributeRows(*table.by_row, *table.window, width)


def labeled_chains(data: TrainingData) -> LabeledChains:
    """The labels of all sequences, and which others are possible, as kernels read them."""
    constraints = data.constraints
    return LabeledChains(
        data.offsets, data.codes, len(data.classes), constraints.follows, constraints.allowed
    )


def bursts(offsets: np.ndarray, order: np.ndarray) -> Iterator[np.ndarray]:
    """Cut an order of sequences in pieces of a bearable length."""
    lengths = np.append(0, np.cumsum(np.diff(offsets)[order]))
    for first, last in runs(lengths, BURST_POSITIONS):
        yield order[first:last]


def position_rows(table: Table) -> np.ndarray:
    """The row of each position."""
    return np.arange(table.n_positions) + np.repeat(
        table.first_rows - table.offsets[:-1], np.diff(table.offsets)
    )
