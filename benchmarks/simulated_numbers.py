"""Many sequences of numbers whose interactions decide the labels, made a batch at a time."""

from __future__ import annotations

import numpy as np

LENGTH = 100  # positions of a sequence
N_LABELS = 4
N_NUMBERS = 20
# Products of this number of thresholds on as many numbers, for each label.
N_PRODUCTS = 60
N_FACTORS = 3


class SimulatedNumbers:
    """Labels that depend on 20 numbers, by a linear function and by products of thresholds.

    Given the numbers and the label before, the label is drawn from the softmax of its scores.
    """

    def __init__(self, seed: int = 0, linear: float = 1.0, products: float = 1.0):
        rng = np.random.default_rng(seed)
        self.weights = linear * rng.normal(size=(N_NUMBERS, N_LABELS)) / 2
        shape = N_LABELS, N_PRODUCTS, N_FACTORS
        self.columns = rng.integers(N_NUMBERS, size=shape)
        self.thresholds = rng.normal(size=shape) / 2
        self.sizes = products * rng.normal(size=(N_LABELS, N_PRODUCTS)) * 2
        self.transitions = 2 * np.eye(N_LABELS) + rng.normal(size=(N_LABELS, N_LABELS)) / 2

    def draw(self, n_sequences: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers, float32 (n_sequences, LENGTH, N_NUMBERS), and labels of all positions."""
        rng = np.random.default_rng([1, seed])
        X = rng.standard_normal((n_sequences, LENGTH, N_NUMBERS), dtype=np.float32)
        scores = self._scores(X.reshape(-1, N_NUMBERS)).reshape(n_sequences, LENGTH, N_LABELS)
        # The largest of scores with Gumbel noise has the distribution of their softmax.
        scores += rng.gumbel(size=scores.shape)
        y = np.empty((n_sequences, LENGTH), dtype=np.int64)
        y[:, 0] = scores[:, 0].argmax(axis=1)
        for t in range(1, LENGTH):
            y[:, t] = (scores[:, t] + self.transitions[y[:, t - 1]]).argmax(axis=1)
        return X, y

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of the labels at rows of numbers, without the labels before."""
        scores = rows @ self.weights
        for label in range(N_LABELS):
            for k in range(N_PRODUCTS):
                is_above = rows[:, self.columns[label, k]] > self.thresholds[label, k]
                scores[:, label] += self.sizes[label, k] * is_above.all(axis=1)
        return scores
