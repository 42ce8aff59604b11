"""Inference and tree growth in isolation: one pass, and one tree with the papers' settings."""

from __future__ import annotations

import numpy as np

from treecrf import _inference, _tree
from treecrf.chains import _decode
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import as_sequences
from treecrf.trees.growing.settings import TreeSettings
from treecrf.trees.growing.window_tests import number_tests

from . import HALF_WINDOWS, LABELS, LENGTHS
from .synthetic import sequences


class _Inference:
    """Passes over random scores; subclasses call `draw`."""

    def draw(self, length: int, n_labels: int) -> None:
        _, y = sequences(length=length, n_labels=n_labels)
        self.labels = np.concatenate(y).astype(np.int32)
        self.offsets = np.arange(len(y) + 1, dtype=np.int64) * length
        shape = (n_labels, self.labels.size, n_labels)
        self.scores = np.random.default_rng(0).normal(size=shape)
        self.residuals = np.empty(shape)
        self.marginals = np.empty(shape[:2][::-1])
        self.per_sequence = np.empty(len(y))
        self.best = np.empty(self.labels.size, dtype=np.int32)

    def time_residuals(self, _: int) -> None:
        _inference.residuals(self.scores, self.offsets, self.labels, 0, self.per_sequence.size,
                             self.residuals, None, self.per_sequence)  # fmt: skip

    def time_marginals(self, _: int) -> None:
        _inference.marginals(self.scores, self.offsets, 0, self.per_sequence.size,
                             self.marginals, self.per_sequence)  # fmt: skip

    def time_viterbi(self, _: int) -> None:
        _decode.viterbi(self.scores, self.offsets, 0, self.per_sequence.size,
                        self.best, self.per_sequence)  # fmt: skip


class InferenceOverLengths(_Inference):
    """100 sequences, 3 labels: figure 3.3a."""

    params = LENGTHS
    param_names = ("length",)

    def setup(self, length: int) -> None:
        self.draw(length, 3)


class InferenceOverLabels(_Inference):
    """100 sequences of 100 positions."""

    params = LABELS
    param_names = ("n_labels",)

    def setup(self, n_labels: int) -> None:
        self.draw(100, n_labels)


class _Growth:
    """One tree for the residuals when all scores are equal; subclasses call `draw`."""

    def draw(self, length: int = 100, half_window: int = 1, n_labels: int = 3) -> None:
        X, y = sequences(length=length, n_labels=n_labels)
        packed = as_sequences(X)
        encoder = Encoder((half_window, half_window)).fit(packed, np.random.default_rng(0))
        encoded = encoder.encode(packed)
        tests = number_tests(encoder)
        tree_settings = TreeSettings(max_leaf_nodes=100, l2_regularization=40.0)
        self.grower = _tree.TreeGrower(encoded, tests, tree_settings, n_labels, order=1)
        self.targets = residuals_of_equal_scores(np.concatenate(y), encoded.offsets, n_labels)
        self.weights = np.ones(self.targets.shape[0])
        self.scores = np.zeros(self.targets.shape)

    def time_grow(self, _: int) -> None:
        self.grower.grow(self.targets, None, self.weights, 0, self.scores)


class GrowthOverLengths(_Growth):
    """100 sequences, 3 labels, a window of 3."""

    params = LENGTHS
    param_names = ("length",)

    def setup(self, length: int) -> None:
        self.draw(length=length)


class GrowthOverWindows(_Growth):
    """100 sequences of 100 positions, 3 labels, windows of 3 to 11: figure 3.3b."""

    params = HALF_WINDOWS
    param_names = ("half_window",)

    def setup(self, half_window: int) -> None:
        self.draw(half_window=half_window)


class GrowthOverLabels(_Growth):
    """100 sequences of 100 positions, a window of 3."""

    params = LABELS
    param_names = ("n_labels",)

    def setup(self, n_labels: int) -> None:
        self.draw(n_labels=n_labels)


def residuals_of_equal_scores(labels: np.ndarray, offsets: np.ndarray, n_labels: int) -> np.ndarray:
    """Compute the initial targets of the tree for label 0, shape (n_positions, n_labels)."""
    n_sequences = len(offsets) - 1
    scores = np.zeros((n_labels, labels.size, n_labels))
    residuals = np.empty_like(scores)
    _inference.residuals(scores, offsets, labels.astype(np.int32), 0, n_sequences,
                         residuals, None, np.empty(n_sequences))  # fmt: skip
    return residuals[0].copy()
