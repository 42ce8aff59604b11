"""The weights of a linear model: one vector for solvers, and its parts for everything else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Layout:
    """What weights there are.

    Attributes
    ----------
    n_attributes : int
        "outside" among them, which comes last where there is a window.
    n_offsets : int
        Number of positions of a window.
    n_labels : int
    transition_features : bool
        Whether each attribute weighs on pairs of labels too.
    """

    n_attributes: int
    n_offsets: int
    n_labels: int
    transition_features: bool

    @property
    def width(self) -> int:
        """Number of weights of an attribute at an offset."""
        return self.n_labels * (1 + self.n_labels * self.transition_features)

    @property
    def n_of_attributes(self) -> int:
        """Number of the attributes' weights."""
        return self.n_attributes * self.n_offsets * self.width

    @property
    def size(self) -> int:
        """Number of all weights."""
        return self.n_of_attributes + (self.n_labels + 1) * self.n_labels

    def weights(self, vector: np.ndarray | None = None) -> Weights:
        """A vector as weights; without one all are 0."""
        return Weights(self, np.zeros(self.size) if vector is None else vector)


@dataclass(frozen=True)
class Weights:
    """Weights, or numbers for each of them such as a gradient.

    Attributes
    ----------
    layout : Layout
    vector : float64 array (layout.size,)
        All of them; the properties are views.
    """

    layout: Layout
    vector: np.ndarray

    @property
    def attributes(self) -> np.ndarray:
        """(n_attributes, n_offsets, width): ``[a, j]`` is for a position ``right - j`` before a.

        First come the weights of the labels, then with transition features those of the pairs of
        previous label and label.
        """
        a = self.layout
        return self.vector[: a.n_of_attributes].reshape(a.n_attributes, a.n_offsets, a.width)

    @property
    def transitions(self) -> np.ndarray:
        """(n_labels + 1, n_labels): previous label and label; no previous one in the last row."""
        n = self.layout.n_labels
        return self.vector[self.layout.n_of_attributes :].reshape(n + 1, n)

    @property
    def labels(self) -> np.ndarray:
        """(n_attributes, n_offsets, n_labels): the attributes' weights of the labels."""
        return self.attributes[:, :, : self.layout.n_labels]

    @property
    def pairs(self) -> np.ndarray:
        """(n_attributes, n_offsets, n_labels, n_labels): those of previous label and label.

        Without transition features there are none, and the last two axes are of length 0.
        """
        layout = self.layout
        n = layout.n_labels if layout.transition_features else 0
        block = self.attributes[:, :, layout.n_labels :]
        return block.reshape(layout.n_attributes, layout.n_offsets, n, n)

    def set_blocks(self, blocks: np.ndarray) -> None:
        """Take over weights (n_attributes, n_labels + 1, n_labels) that attributes bring.

        ``[a, u, v]`` is for label v after u, and the last row for v at a first position. Without
        transition features a label weighs the mean over the previous labels.
        """
        if self.layout.transition_features:
            self.labels[:, 0] = blocks[:, -1]
            self.pairs[:, 0] = blocks[:, :-1] - blocks[:, -1:]
        else:
            self.labels[:, 0] = blocks[:, :-1].mean(axis=1)

    def copy(self) -> Weights:
        """The same numbers in an array of their own."""
        return Weights(self.layout, self.vector.copy())
