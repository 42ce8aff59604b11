"""Online algorithms: each sequence whose labels are not found moves the weights.

The weights move along the features of the true labels minus those of the labels that are found.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.learners.linear.lattices import pair_scores
from treecrf.learners.linear.model import WeightLayout
from treecrf.utils.threads import Threads


@dataclass
class Sequence:
    """A training sequence."""

    # Start of the entries of each item; attributes and values of all entries.
    starts: np.ndarray
    attributes: np.ndarray
    values: np.ndarray
    # The true labels.
    codes: np.ndarray
    weight: float
    layout: WeightLayout
    # Of all weights: whether the model has them.
    is_free: np.ndarray

    @cached_property
    def true_features(self) -> tuple[np.ndarray, np.ndarray]:
        """The features of the true labels."""
        return self.features(self.codes)

    def features(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the weights of a label sequence, and the values of its features."""
        layout = self.layout
        labels = np.repeat(codes, np.diff(self.starts))
        states = self.attributes * layout.n_labels + labels
        pairs = layout.n_attribute_weights + codes[:-1] * layout.n_labels + codes[1:]
        return np.append(states, pairs), np.append(self.values, np.ones(len(pairs)))

    def best_codes(self, weights: np.ndarray) -> np.ndarray:
        """Return the label sequence with the highest score."""
        views = self.layout.weights(weights)
        rows = np.zeros((len(self.codes), self.layout.n_labels))
        items = np.repeat(np.arange(len(rows)), np.diff(self.starts))
        scores = views.labels[self.attributes, 0] * self.values[:, np.newaxis]
        np.add.at(rows, items, scores)
        offsets = np.array([0, len(rows)])
        table = pair_scores(rows, views.transitions, offsets)
        return Lattice(table, offsets, 1, Threads(1)).best_codes().astype(np.int64)


class OnlineRule(ABC):
    """Weights that move by a rule, and their mean over all visits."""

    averages = True
    epsilon: float

    def start(self, size: int) -> None:
        """Start from weights of 0."""
        self.weights = np.zeros(size)
        # The moves of the weights, each times the number of visits before it.
        self._late = np.zeros(size)
        self._n_visits = 1

    def visit(self, sequence: Sequence) -> float:
        """Move the weights if the labels of a sequence are not found; return its loss."""
        found = sequence.best_codes(self.weights)
        n_wrong = np.count_nonzero(found != sequence.codes)
        loss = 0.0
        if n_wrong:
            indices, difference = self.difference(sequence, found)
            margin = -float(self.weights[indices] @ difference)
            loss = self.loss(margin, int(n_wrong), len(found)) * sequence.weight
            move = self.move(indices, difference, margin, int(n_wrong))
            move = move * sequence.weight
            self.weights[indices] += move
            self._late[indices] += self._n_visits * move
        self._n_visits += 1
        return loss

    def difference(self, sequence: Sequence, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights whose features differ between two label sequences, and by how much."""
        right, right_values = sequence.true_features
        wrong, wrong_values = sequence.features(found)
        indices, inverse = np.unique(np.append(right, wrong), return_inverse=True)
        sums = np.bincount(inverse, weights=np.append(right_values, -wrong_values))
        moves = (sums != 0) & sequence.is_free[indices]
        return indices[moves], sums[moves]

    def model(self) -> np.ndarray:
        """Return the weights of the model so far."""
        if self.averages:
            return self.weights - self._late / self._n_visits
        return self.weights.copy()

    @abstractmethod
    def loss(self, margin: float, n_wrong: int, length: int) -> float:
        """Return the loss of a sequence; the labels found score higher by the margin."""

    @abstractmethod
    def move(
        self, indices: np.ndarray, difference: np.ndarray, margin: float, n_wrong: int
    ) -> np.ndarray:
        """Return by how much weights move, given the difference of their features."""


class AveragedPerceptron(OnlineRule):
    """Steps of size 1 [1]_.

    References
    ----------
    .. [1] M. Collins, "Discriminative training methods for hidden Markov models: theory and
       experiments with perceptron algorithms", EMNLP 2002.
    """

    def __init__(self, values: dict[str, Any]):
        self.epsilon = values["epsilon"]

    def loss(self, margin: float, n_wrong: int, length: int) -> float:
        """Return the ratio of wrong labels."""
        return n_wrong / length

    def move(
        self, indices: np.ndarray, difference: np.ndarray, margin: float, n_wrong: int
    ) -> np.ndarray:
        """Return the difference of the features."""
        return difference


class PassiveAggressive(OnlineRule):
    """Steps just long enough for the margin, and of limited length [1]_.

    References
    ----------
    .. [1] K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer, "Online
       passive-aggressive algorithms", JMLR 7, 2006.
    """

    def __init__(self, values: dict[str, Any]):
        self.epsilon = values["epsilon"]
        self.averages = values["averaging"]
        self.type = values["type"]
        self.c = values["c"]
        self.error_sensitive = values["error_sensitive"]

    def loss(self, margin: float, n_wrong: int, length: int) -> float:
        """Return by how much the true labels miss the margin."""
        return margin + (math.sqrt(n_wrong) if self.error_sensitive else 1.0)

    def move(
        self, indices: np.ndarray, difference: np.ndarray, margin: float, n_wrong: int
    ) -> np.ndarray:
        """Return a step along the difference."""
        loss = self.loss(margin, n_wrong, len(difference))
        square = float(difference @ difference)
        if self.type == 2:
            square += 0.5 / self.c if self.c else math.inf
        step = loss / square if square else 0.0
        if self.type == 1:
            step = min(self.c, step)
        return step * difference


class Arow(OnlineRule):
    """Weights with variances, which fall with each step: rare features move further [1]_.

    References
    ----------
    .. [1] A. Mejer, K. Crammer, "Confidence in structured-prediction using confidence-weighted
       models", EMNLP 2010.
    """

    averages = False

    def __init__(self, values: dict[str, Any]):
        self.epsilon = values["epsilon"]
        self.variance = values["variance"]
        self.gamma = values["gamma"]

    def start(self, size: int) -> None:
        """Start from weights of 0 with equal variances."""
        super().start(size)
        self._variances = np.full(size, self.variance)

    def loss(self, margin: float, n_wrong: int, length: int) -> float:
        """Return by how much the true labels miss the margin."""
        return margin + n_wrong

    def move(
        self, indices: np.ndarray, difference: np.ndarray, margin: float, n_wrong: int
    ) -> np.ndarray:
        """Return a step along the difference times the variances, which become smaller."""
        variances = self._variances[indices]
        squares = difference**2
        spread = self.gamma + float(squares @ variances)
        step = self.loss(margin, n_wrong, len(difference)) / spread if spread else 0.0
        if self.gamma:
            self._variances[indices] = variances / (1.0 + variances * squares / self.gamma)
        return step * variances * difference


RULES = {
    "averaged-perceptron": AveragedPerceptron,
    "passive-aggressive": PassiveAggressive,
    "arow": Arow,
}
