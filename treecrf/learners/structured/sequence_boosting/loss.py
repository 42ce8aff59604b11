"""The exponential loss of label sequences, updated after every change of a weight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treecrf.chains.objectives import WeightedMean
from treecrf.encoding.encoded import rows_of_positions
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.learners.linear.training import TrainingData
from treecrf.learners.linear.weights import Weights
from treecrf.learners.structured._examples import LabeledChains
from treecrf.learners.structured.sequence_boosting._sequence_boosting import (
    Expectations,
    PieceLosses,
)


class Occurrences(NamedTuple):
    """Positions and pieces with a feature."""

    positions: np.ndarray
    values: np.ndarray  # of the feature's attribute at these positions
    pieces: np.ndarray  # whose scores depend on the feature


class SequenceLosses:
    """Losses -log P(labels) of all sequences, or of pieces of up to ``max_length`` positions.

    Training treats pieces, the smallest number of about equal length, as sequences.
    """

    def __init__(self, data: TrainingData, weights: Weights, max_length: int | None = None):
        self.data = data
        lengths = np.diff(data.offsets)
        n_pieces = np.ones_like(lengths) if max_length is None else -(-lengths // max_length)
        sequence = np.repeat(np.arange(len(lengths)), n_pieces)
        index = positions_in_sequences(np.append(0, np.cumsum(n_pieces)))
        starts = data.offsets[sequence] + index * lengths[sequence] // n_pieces[sequence]
        self.offsets = np.append(starts, data.offsets[-1])  # of the pieces
        self.lengths = np.diff(self.offsets)
        # Label before each piece, ``n_labels`` at the start of a sequence.
        self.before = data.codes[np.maximum(starts - 1, 0)].astype(np.int32)
        self.before[index == 0] = len(data.classes)
        self.log_weights = np.log(data.weights[sequence])
        self.piece_of = np.repeat(np.arange(len(self.before)), self.lengths)  # of each position
        self._mean = WeightedMean(data.sample_weights, self.offsets)
        self.rows = data.table.layout.rows
        self.transitions = weights.transitions.copy()
        table = data.table
        parts = [(data.scores.part_rows(weights, *p), table.within(*p)) for p in table.parts]
        self.scores = np.concatenate([rows[rows_of_positions(*of_part)] for rows, of_part in parts])
        self.losses = np.full(len(self.before), np.inf)
        self._position_of = np.full(data.table.n_rows, -1)
        self._position_of[self.rows] = np.arange(len(self.rows))
        self.chains = LabeledChains(data, self.offsets, self.before)
        self._inference = PieceLosses(self.chains, self.scores, self.transitions)
        self.update(self.all_pieces)

    @property
    def all_pieces(self) -> np.ndarray:
        """Indices of all pieces."""
        return np.arange(len(self.before))

    @property
    def mean_log_likelihood(self) -> float:
        """Mean of log P(labels) over the positions."""
        return -self._mean(self.losses)

    @property
    def log_value(self) -> float:
        """Logarithm of the weighted sum of 1 / P(labels) - 1."""
        terms = self.log_terms
        highest = terms.max()
        return float(highest + np.log(np.exp(terms - highest).sum()))

    @property
    def log_terms(self) -> np.ndarray:
        """Logarithms of the terms of that sum."""
        certainly = np.maximum(-np.expm1(-self.losses), np.finfo(float).tiny)
        return self.log_weights + self.losses + np.log(certainly)

    def update(self, chosen: np.ndarray) -> None:
        """Recompute the losses of some pieces."""
        parts = self.parts_of(chosen)
        self.data.threads.map(lambda part: self._inference.update(part, self.losses), parts)

    def parts_of(self, chosen: np.ndarray) -> list[np.ndarray]:
        """Cut some pieces into parts that threads work on."""
        parts = self.data.threads.even_parts(len(chosen))
        return [chosen[first:last] for first, last in parts]

    # One feature

    def occurrences(self, feature: int) -> Occurrences:
        """Find the positions and pieces with a feature, by its index in the vector of weights."""
        layout, table = self.data.layout, self.data.table
        if feature >= layout.n_of_attributes:
            no_positions = np.zeros(0, dtype=np.int64)
            is_start = self.before == layout.n_labels
            # Whether a piece can have the transition.
            can_have = self.lengths > is_start
            if feature - layout.n_of_attributes >= layout.n_labels**2:
                can_have = is_start
            return Occurrences(no_positions, np.zeros(0), np.flatnonzero(can_have))
        attribute, offset = divmod(feature // layout.width, layout.n_offsets)
        starts, rows, values = table.by_attribute
        entries = slice(starts[attribute], starts[attribute + 1])
        scored = rows[entries].astype(np.int64) + offset - table.window[1]
        is_row = (scored >= 0) & (scored < table.n_rows)
        positions = np.where(is_row, self._position_of[np.where(is_row, scored, 0)], -1)
        is_scored = positions >= 0
        positions = positions[is_scored]
        values = np.ones(len(positions)) if values is None else values[entries][is_scored]
        return Occurrences(positions, values, np.unique(self.piece_of[positions]))

    def add(self, feature: int, step: float, where: Occurrences) -> None:
        """Change the weight of a feature without updating the losses."""
        layout = self.data.layout
        if feature >= layout.n_of_attributes:
            self.transitions.reshape(-1)[feature - layout.n_of_attributes] += step
        else:
            self.scores[where.positions, feature % layout.width] += step * where.values


class SequenceExponentialLoss(SequenceLosses):
    """The weighted sum of 1 / P(labels) - 1, and the expected labels."""

    def __init__(self, data: TrainingData, weights: Weights, max_length: int | None):
        super().__init__(data, weights, max_length)
        self.expected = Expectations(self._inference, self.log_weights)
        self.level = 0.0  # logarithm of the loss that changes of expectations are relative to

    def reset(self) -> None:
        """Make the current loss the level; afterwards all pieces must be inferred again."""
        self.level = self.log_value
        self.losses[:] = np.inf

    def infer(self, chosen: np.ndarray) -> None:
        """Recompute the losses and the expectations of some pieces."""
        self.data.threads.map(
            lambda part: self.expected.infer(part, self.level, self.losses), self.parts_of(chosen)
        )

    @property
    def scales(self) -> np.ndarray:
        """Factor of each piece from its residuals to its part of the mean under the loss."""
        return np.exp(self.losses + self.log_weights - self.log_value)

    @property
    def fractions(self) -> np.ndarray:
        """Fraction of the loss of each piece."""
        return np.exp(self.log_terms - self.log_value)
