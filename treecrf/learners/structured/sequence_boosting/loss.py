"""The exponential loss of label sequences, updated after every change of a weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treecrf.chains.objectives import WeightedMean
from treecrf.inputs.offsets import positions_in_sequences
from treecrf.learners.linear.training import TrainingData
from treecrf.learners.linear.weights import Weights
from treecrf.learners.structured._examples import LabeledChains
from treecrf.learners.structured.sequence_boosting._sequence_boosting import (
    Expectations,
    PieceLosses,
)


@dataclass(frozen=True)
class SequencePieces:
    """Pieces of sequences, which training treats as sequences."""

    offsets: np.ndarray  # int64 (n_pieces + 1,)
    before: np.ndarray  # label before each piece, ``n_labels`` at the start of a sequence
    log_weights: np.ndarray  # of each piece

    @classmethod
    def of(cls, data: TrainingData, max_length: int | None) -> SequencePieces:
        """Cut sequences into the smallest number of pieces of about equal length."""
        lengths = np.diff(data.offsets)
        n_pieces = np.ones_like(lengths) if max_length is None else -(-lengths // max_length)
        sequence = np.repeat(np.arange(len(lengths)), n_pieces)
        index = positions_in_sequences(np.append(0, np.cumsum(n_pieces)))
        starts = data.offsets[sequence] + index * lengths[sequence] // n_pieces[sequence]
        before = data.codes[np.maximum(starts - 1, 0)].astype(np.int32)
        before[index == 0] = len(data.classes)
        return cls(np.append(starts, data.offsets[-1]), before, np.log(data.weights[sequence]))

    @property
    def lengths(self) -> np.ndarray:
        """Number of positions of each piece."""
        return np.diff(self.offsets)

    @property
    def of_positions(self) -> np.ndarray:
        """The piece of each position."""
        return np.repeat(np.arange(len(self.before)), self.lengths)


class Occurrences(NamedTuple):
    """Positions and pieces with a feature."""

    positions: np.ndarray
    values: np.ndarray  # of the feature's attribute at these positions
    pieces: np.ndarray  # whose scores depend on the feature


class SequenceLosses:
    """Losses -log P(labels) of all sequences, or of pieces of up to ``max_length`` positions."""

    def __init__(self, data: TrainingData, weights: Weights, max_length: int | None = None):
        self.data = data
        self.pieces = SequencePieces.of(data, max_length)
        self._mean = WeightedMean(data.sample_weights, self.pieces.offsets)
        self.rows = data.table.layout.rows
        self.transitions = weights.transitions.copy()
        rows = data.scores.new_rows()
        for part in data.table.parts:
            data.scores.part_rows(weights, *part, rows)
        self.scores = rows[data.table.window[1] + self.rows]
        self.losses = np.full(len(self.pieces.before), np.inf)
        self._piece_of = self.pieces.of_positions
        self._position_of = np.full(data.table.n_rows, -1)
        self._position_of[self.rows] = np.arange(len(self.rows))
        self.chains = LabeledChains(data, self.pieces.offsets, self.pieces.before)
        self._inference = PieceLosses(self.chains, self.scores, self.transitions)
        self.update(self.all_pieces)

    @property
    def all_pieces(self) -> np.ndarray:
        """Indices of all pieces."""
        return np.arange(len(self.pieces.before))

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
        return self.pieces.log_weights + self.losses + np.log(certainly)

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
            return Occurrences(no_positions, np.zeros(0), self._with_transitions(feature))
        attribute, offset = divmod(feature // layout.width, layout.n_offsets)
        starts, rows, values = table.by_attribute
        entries = slice(starts[attribute], starts[attribute + 1])
        scored = rows[entries].astype(np.int64) + offset - table.window[1]
        is_row = (scored >= 0) & (scored < table.n_rows)
        positions = np.where(is_row, self._position_of[np.where(is_row, scored, 0)], -1)
        is_scored = positions >= 0
        positions = positions[is_scored]
        values = np.ones(len(positions)) if values is None else values[entries][is_scored]
        return Occurrences(positions, values, np.unique(self._piece_of[positions]))

    def _with_transitions(self, feature: int) -> np.ndarray:
        """Find the pieces in which the transition of a feature can occur."""
        layout, pieces = self.data.layout, self.pieces
        is_start = pieces.before == layout.n_labels
        if feature - layout.n_of_attributes >= layout.n_labels**2:
            return np.flatnonzero(is_start)
        return np.flatnonzero(pieces.lengths > is_start)

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
        self.expected = Expectations(self._inference, self.pieces.log_weights)
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
        return np.exp(self.losses + self.pieces.log_weights - self.log_value)

    @property
    def fractions(self) -> np.ndarray:
        """Fraction of the loss of each piece."""
        return np.exp(self.log_terms - self.log_value)
