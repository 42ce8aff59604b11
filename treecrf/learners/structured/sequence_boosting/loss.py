"""The exponential loss of label sequences while one weight after another changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treecrf.learners.linear.base import TrainingData
from treecrf.learners.linear.weights import Weights
from treecrf.learners.structured.examples import labeled_chains
from treecrf.learners.structured.sequence_boosting._sequence_boosting import (
    Expectations,
    PieceLosses,
)


@dataclass(frozen=True)
class Pieces:
    """Sequences, or parts of them that are taken for sequences.

    Attributes
    ----------
    offsets : int64 array (n_pieces + 1,)
    before : int32 array (n_pieces,)
        The label before each piece, ``n_labels`` at the start of a sequence.
    log_weights : float64 array (n_pieces,)
        Logarithm of what each counts.
    """

    offsets: np.ndarray
    before: np.ndarray
    log_weights: np.ndarray

    @classmethod
    def of(cls, data: TrainingData, most: int | None) -> Pieces:
        """Cut sequences in as few pieces of about the same length, ``most`` or less, as can be."""
        lengths = np.diff(data.offsets)
        n_pieces = np.ones_like(lengths) if most is None else -(-lengths // most)
        sequence = np.repeat(np.arange(len(lengths)), n_pieces)
        place = np.arange(len(sequence)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        starts = data.offsets[sequence] + place * lengths[sequence] // n_pieces[sequence]
        before = data.codes[np.maximum(starts - 1, 0)].astype(np.int32)
        before[place == 0] = len(data.classes)
        return cls(np.append(starts, data.offsets[-1]), before, np.log(data.weights[sequence]))

    @property
    def lengths(self) -> np.ndarray:
        """Number of positions of each."""
        return np.diff(self.offsets)

    @property
    def of_positions(self) -> np.ndarray:
        """The piece of each position."""
        return np.repeat(np.arange(len(self.before)), self.lengths)


@dataclass(frozen=True)
class Occurrences:
    """Where a feature occurs.

    Attributes
    ----------
    positions : int64 array (n,)
    values : float64 array (n,)
        Of its attribute there.
    pieces : int64 array
        Those whose scores it changes.
    """

    positions: np.ndarray
    values: np.ndarray
    pieces: np.ndarray


class SequenceLosses:
    """-log P(labels) of all sequences.

    Parameters
    ----------
    data : TrainingData
    weights : Weights
        To begin with.
    most : int or None
        Length of the pieces that sequences are cut in.
    """

    def __init__(self, data: TrainingData, weights: Weights, most: int | None = None):
        self.data = data
        self.pieces = Pieces.of(data, most)
        self.rows = data.scores.table.layout.rows
        self.transitions = weights.transitions.copy()
        self.scores = self._start_scores(weights)
        self.losses = np.full(len(self.pieces.before), np.inf)
        self._piece_of = self.pieces.of_positions
        self._position_of = np.full(data.scores.table.n_rows, -1)
        self._position_of[self.rows] = np.arange(len(self.rows))
        self.chains = labeled_chains(data, self.pieces.offsets, self.pieces.before)
        self._inference = PieceLosses(self.chains, self.scores, self.transitions)
        self.update(self.all_pieces)

    def _start_scores(self, weights: Weights) -> np.ndarray:
        scores = self.data.scores
        rows = scores.new_rows()
        for part in scores.table.parts:
            scores.fill_rows(weights, *part, rows)
        return rows[scores.table.window[1] + self.rows]

    @property
    def all_pieces(self) -> np.ndarray:
        """Numbers of all pieces."""
        return np.arange(len(self.pieces.before))

    @property
    def mean_log_likelihood(self) -> float:
        """Mean of log P(labels) over the positions."""
        return float(-self.losses.sum() / len(self.rows))

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
        """Compute the losses of some pieces anew."""
        self._share(chosen, lambda part: self._inference.update(part, self.losses))

    def _share(self, chosen: np.ndarray, work: Callable[[np.ndarray], None]) -> None:
        """Apply a function to all parts of the chosen pieces, shared by the threads."""
        threads = self.data.scores.threads
        parts = threads.even_parts(len(chosen))
        threads.map(lambda part: work(chosen[slice(*part)]), parts)

    # One feature

    def occurrences(self, feature: int) -> Occurrences:
        """Where a feature, a place in the vector of weights, occurs."""
        layout, table = self.data.layout, self.data.scores.table
        if feature >= layout.n_of_attributes:
            nowhere = np.zeros(0, dtype=np.int64)
            return Occurrences(nowhere, np.zeros(0), self._with_transitions(feature))
        attribute, offset = divmod(feature // layout.width, layout.n_offsets)
        starts, rows, values = table.by_attribute
        here = slice(starts[attribute], starts[attribute + 1])
        seen_from = rows[here].astype(np.int64) + offset - table.window[1]
        is_row = (seen_from >= 0) & (seen_from < table.n_rows)
        positions = np.where(is_row, self._position_of[np.where(is_row, seen_from, 0)], -1)
        found = positions >= 0
        positions = positions[found]
        return Occurrences(positions, values[here][found], np.unique(self._piece_of[positions]))

    def _with_transitions(self, feature: int) -> np.ndarray:
        """The pieces that have transitions like that of a feature."""
        layout, pieces = self.data.layout, self.pieces
        is_start = pieces.before == layout.n_labels
        if feature - layout.n_of_attributes >= layout.n_labels**2:
            return np.flatnonzero(is_start)
        return np.flatnonzero(pieces.lengths > is_start)

    def add(self, feature: int, step: float, where: Occurrences) -> None:
        """Change the weight of a feature; the losses are left as they were."""
        layout = self.data.layout
        if feature >= layout.n_of_attributes:
            self.transitions.reshape(-1)[feature - layout.n_of_attributes] += step
        else:
            self.scores[where.positions, feature % layout.width] += step * where.values


class SequenceExponentialLoss(SequenceLosses):
    """The weighted sum of 1 / P(labels) - 1, and what is expected of the labels.

    Parameters
    ----------
    data, weights, most
        As in `SequenceLosses`.

    Attributes
    ----------
    expected : Expectations
        Expected labels and pairs of labels.
    level : float
        Logarithm of the loss that changes of the expectations are relative to.
    """

    def __init__(self, data: TrainingData, weights: Weights, most: int | None):
        super().__init__(data, weights, most)
        self.expected = Expectations(self._inference, self.pieces.log_weights)
        self.level = 0.0

    def forget(self) -> None:
        """Take the present loss for the level; the next update is to be one of all pieces."""
        self.level = self.log_value
        self.losses[:] = np.inf

    def infer(self, chosen: np.ndarray) -> None:
        """Compute the losses of some pieces anew, and what is expected of them."""
        self._share(chosen, lambda part: self.expected.infer(part, self.level, self.losses))

    @property
    def scales(self) -> np.ndarray:
        """What turns the residuals of each piece into its part of the mean, by the loss."""
        return np.exp(self.losses + self.pieces.log_weights - self.log_value)

    @property
    def shares(self) -> np.ndarray:
        """The part of each piece in the loss."""
        return np.exp(self.log_terms - self.log_value)
