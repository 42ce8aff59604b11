"""Scores of linear models, and data to train them on.

Scores are sums of attributes times weights; the gradient is their transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.lattice import Lattice
from treecrf.chains.likelihood import WeightedMean
from treecrf.encoding.encoded import rows_of_positions
from treecrf.inputs.offsets import runs
from treecrf.learners.linear import _linear
from treecrf.learners.linear.matrix import (
    RANGE_POSITIONS,
    AttributeMatrix,
    DistinctRows,
    SparseArrays,
)
from treecrf.learners.linear.model import WeightLayout, Weights
from treecrf.utils.threads import PARTS_PER_THREAD, Threads

# Kernels take this many positions at a time; between two calls, training can be interrupted.
BURST_POSITIONS = 1 << 16

# Number of entries from which threads divide the attributes among themselves: enough for shares of
# about the same size, and few enough to be sorted in no time.
N_SAMPLES = 4096


@dataclass
class LinearFunction:
    """Scores of sequences as a linear function of the weights, and its transpose.

    Results do not depend on the number of threads.
    """

    table: AttributeMatrix
    layout: WeightLayout
    threads: Threads

    # The distinct rows of the table, if there are few of them and it pays to look for them.
    distinct: ClassVar[DistinctRows | None] = None

    # Scores of labels after labels

    def scores(self, weights: Weights) -> np.ndarray:
        """Compute the scores of pairs of labels, float64 array (n_labels, n_positions, n_labels).

        ``[v, t, u]`` is for label v at position t after label u; at first positions only
        ``[v, t, 0]`` is used.
        """
        table = self.table
        n_labels = self.layout.n_labels
        out = np.empty((n_labels, table.n_positions, n_labels))
        blocks = self.blocks(weights)

        def fill(sequences: tuple[int, int]) -> None:
            rows = self.range_scores(blocks, *sequences)
            _linear.chain_scores(
                rows, weights.transitions, table.offsets, table.first_rows, sequences, out
            )

        self.threads.map(fill, table.ranges)
        return out

    def state_scores(self, weights: Weights) -> np.ndarray:
        """Compute the scores without the transitions, float64 (n_positions, width).

        ``width`` is the number of labels, unless there are transition features.
        """
        table = self.table
        out = np.empty((table.n_positions, self.layout.width))
        blocks = self.blocks(weights)

        def fill(sequences: tuple[int, int]) -> None:
            first, last = sequences
            positions = slice(table.offsets[first], table.offsets[last])
            rows = self.range_scores(blocks, first, last)
            out[positions] = rows[rows_of_positions(*table.layout_within(first, last))]

        self.threads.map(fill, table.ranges)
        return out

    def gradient(self, residuals: np.ndarray) -> Weights:
        """Convert derivatives with respect to the scores to those with respect to the weights."""
        table = self.table
        width = self.layout.width
        return self.gradient_of_rows(
            lambda k, transitions: _linear.chain_residuals(
                residuals, table.offsets, table.first_rows, table.ranges[k], width, transitions
            )
        )

    # Scores of labels in rows, without the transitions

    def blocks(self, weights: Weights) -> np.ndarray:
        """Return what attributes, or distinct rows, add to the scores of the rows around them.

        Float64 array (n, n_offsets, width), in the order of the weights of an attribute.
        """
        if self.distinct is None:
            return weights.attributes
        by_row = self.distinct.by_row
        n_rows = len(by_row[0]) - 1
        out = np.empty((n_rows, self.layout.n_offsets * self.layout.width))
        flat = weights.attributes.reshape(self.layout.n_attributes, 1, -1)

        def fill(rows: tuple[int, int]) -> None:
            first, last = rows
            _linear.score_rows(by_row, (0, 0), flat, first, last, out[first:last])

        self.threads.map(fill, runs(np.arange(n_rows + 1), RANGE_POSITIONS))
        return out.reshape(n_rows, self.layout.n_offsets, -1)

    def range_scores(self, blocks: np.ndarray, first: int, last: int) -> np.ndarray:
        """Compute the scores of a range of sequences, in an array that starts with its first row.

        ``blocks`` are those of the weights, see above. Scores of boundary rows have no meaning.
        """
        table = self.table
        start = int(table.first_rows[first])
        length = table.offsets[last] - table.offsets[last - 1]
        stop = int(table.first_rows[last - 1] + length)
        rows = np.empty((stop - start, self.layout.width))
        _linear.score_rows(self._by_row, table.window, blocks, start, stop, rows)
        return rows

    def gradient_of_rows(self, derivatives: Callable[[int, np.ndarray], np.ndarray]) -> Weights:
        """Compute the derivatives with respect to the weights, a few ranges at a time.

        ``derivatives(k, transitions)`` returns those with respect to the scores of the rows of
        range k, 0 for boundary rows, and may write those with respect to the transitions.
        """
        out = self.layout.weights()
        if self.distinct is None:
            out.transitions[:] = self._add_to_blocks(derivatives, out.attributes)
            return out
        by_row = self.distinct.by_row
        n_rows = len(by_row[0]) - 1
        blocks = np.zeros((n_rows, self.layout.n_offsets, self.layout.width))
        out.transitions[:] = self._add_to_blocks(derivatives, blocks)
        flat = out.attributes.reshape(self.layout.n_attributes, 1, -1)
        parts = [(0, blocks.reshape(n_rows, -1))]
        self.threads.map(
            partial(_linear.add_gradient, by_row, (0, 0), parts, flat),
            self._shares(by_row, len(flat)),
        )
        return out

    @property
    def _by_row(self) -> SparseArrays:
        """The attributes of each row, or its distinct row."""
        return self.table.by_row if self.distinct is None else self.distinct.numbers

    def _add_to_blocks(
        self, derivatives: Callable[[int, np.ndarray], np.ndarray], blocks: np.ndarray
    ) -> np.ndarray:
        """Add the derivatives with respect to blocks; return those of the transitions."""
        table = self.table
        n_threads = self.threads.n_threads
        first_rows = [int(table.first_rows[first]) for first, _ in table.ranges]
        n_labels = self.layout.n_labels
        transitions = np.zeros((len(table.ranges), n_labels + 1, n_labels))

        def row_derivatives(k: int) -> tuple[int, np.ndarray]:
            return first_rows[k], derivatives(k, transitions[k])

        shares = self._shares(self._by_row, len(blocks))
        n_at_once = PARTS_PER_THREAD * n_threads if n_threads > 1 else 1
        for k in range(0, len(first_rows), n_at_once):
            at_once = range(len(first_rows))[k : k + n_at_once]
            rows = self.threads.map(row_derivatives, at_once)
            add = partial(_linear.add_gradient, self._by_row, table.window, rows, blocks)
            self.threads.map(add, shares)
        return transitions.sum(axis=0)

    def _shares(self, by_row: SparseArrays, n_columns: int) -> list[tuple[int, int]]:
        """Divide the columns among threads, so that each has about the same number of entries."""
        n_threads = self.threads.n_threads
        indices = by_row[1]
        if n_threads == 1 or not len(indices):
            return [(0, n_columns)]
        sample = np.sort(indices[:: 1 + len(indices) // N_SAMPLES])
        cuts = [int(sample[len(sample) * i // n_threads]) for i in range(1, n_threads)]
        return list(pairwise([0, *cuts, n_columns]))


@dataclass
class TrainingData(LinearFunction):
    """Training or validation data of a linear learner."""

    # Codes of the labels of all positions.
    codes: np.ndarray
    # The labels themselves, by code.
    classes: np.ndarray
    # What is allowed; the scores of all other labels must be minus infinity.
    constraints: Constraints
    # Of each sequence: the mean over its positions of sample weight times weight of the label.
    weights: np.ndarray
    # Of each position, for reported scores; None for ones.
    sample_weights: np.ndarray | None = None
    # Labels that are possible, bool (n_positions, n_labels); None if all labels are known.
    candidates: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.offsets = self.table.offsets
        self.distinct = DistinctRows.of(self.table.by_row)
        self.mean = WeightedMean(self.sample_weights, self.offsets)

    @property
    def masks(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The allowed labels, and the candidates, as bytes for kernels."""
        return _as_bytes(self.constraints.allowed), _as_bytes(self.candidates)

    def repeated_weights(self) -> np.ndarray | None:
        """Return the weight in training of the sequence of each position; None for ones."""
        if (self.weights == 1).all():
            return None
        return np.repeat(self.weights, np.diff(self.offsets))

    def lattice(self, weights: Weights) -> Lattice:
        """Return the lattice of all sequences under the constraints."""
        scores = self.scores(weights)
        self.constraints.forbid(scores, self.offsets)
        return Lattice(scores, self.offsets, 1, self.threads)

    def bursts(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Cut an order of sequences into pieces that kernels process without interruption."""
        ends = np.append(0, np.cumsum(np.diff(self.offsets)[order]))
        for first, last in runs(ends, BURST_POSITIONS):
            yield order[first:last]


def _as_bytes(mask: np.ndarray | None) -> np.ndarray | None:
    return None if mask is None else np.ascontiguousarray(mask).view(np.uint8)
