"""What a linear model has learned: the source of its attributes, and their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.learners.linear.attributes import Attributes

# Sums of products with the largest numbers that linear models take must be finite.
MAX_WEIGHT = 1e200


def are_weights(vector: np.ndarray) -> bool:
    """Return whether all scores with these weights are finite."""
    return bool((np.abs(vector) <= MAX_WEIGHT).all())


@dataclass(frozen=True)
class WeightLayout:
    """Number and order of the weights."""

    n_attributes: int  # including "outside", which comes last if there is a window
    n_offsets: int
    n_labels: int
    transition_features: bool  # whether attributes also have weights for pairs of labels

    @property
    def width(self) -> int:
        """Number of weights of an attribute at an offset."""
        return self.n_labels * (1 + self.n_labels * self.transition_features)

    @property
    def n_attribute_weights(self) -> int:
        """Number of weights of attributes."""
        return self.n_attributes * self.n_offsets * self.width

    @property
    def size(self) -> int:
        """Number of all weights."""
        return self.n_attribute_weights + (self.n_labels + 1) * self.n_labels

    def weights(self, vector: np.ndarray | None = None) -> Weights:
        """Make weights from a vector; zeros without one."""
        return Weights(self, np.zeros(self.size) if vector is None else vector)


@dataclass(frozen=True)
class Weights:
    """Weights, or one number per weight, such as a gradient; the properties are views."""

    layout: WeightLayout
    vector: np.ndarray

    @property
    def attributes(self) -> np.ndarray:
        """Weights of attributes, (n_attributes, n_offsets, width).

        ``[a, j]`` is for the position ``right - j`` positions before the attribute. The weights of
        labels come first, followed, with transition features, by the weights of pairs of previous
        label and label.
        """
        a = self.layout
        return self.vector[: a.n_attribute_weights].reshape(a.n_attributes, a.n_offsets, a.width)

    @property
    def transitions(self) -> np.ndarray:
        """Weights of pairs of labels, (n_labels + 1, n_labels); the last row is for starts."""
        n = self.layout.n_labels
        return self.vector[self.layout.n_attribute_weights :].reshape(n + 1, n)

    @property
    def labels(self) -> np.ndarray:
        """Weights of attributes for labels, (n_attributes, n_offsets, n_labels)."""
        return self.attributes[:, :, : self.layout.n_labels]

    @property
    def pairs(self) -> np.ndarray:
        """Weights of attributes for pairs, (n_attributes, n_offsets, n_labels, n_labels).

        Without transition features there are none, and the last two axes have length 0.
        """
        layout = self.layout
        n = layout.n_labels if layout.transition_features else 0
        block = self.attributes[:, :, layout.n_labels :]
        return block.reshape(layout.n_attributes, layout.n_offsets, n, n)

    def set_blocks(self, blocks: np.ndarray) -> None:
        """Set weights to those from a source of attributes, see `Attributes.starting_weights`.

        Without transition features, the weight of a label is the mean over the previous labels.
        """
        if self.layout.transition_features:
            self.labels[:, 0] = blocks[:, -1]
            self.pairs[:, 0] = blocks[:, :-1] - blocks[:, -1:]
        else:
            self.labels[:, 0] = blocks[:, :-1].mean(axis=1)

    def copy(self) -> Weights:
        """Copy the weights to a new array."""
        return Weights(self.layout, self.vector.copy())

    def widened(self, n_left: int, n_right: int) -> Weights:
        """Copy the weights, with weights of 0 at more offsets to the left and to the right."""
        n_offsets = self.layout.n_offsets
        wider = replace(self.layout, n_offsets=n_left + n_offsets + n_right).weights()
        wider.attributes[:, n_right : n_right + n_offsets] = self.attributes
        wider.transitions[:] = self.transitions
        return wider


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear model."""

    # The source of attributes, fitted.
    attributes: Attributes
    # The weights of the attributes, and of labels after labels.
    weights: Weights

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        if not hasattr(self.attributes, "reach"):
            raise TypeError(
                f"the window of {type(self.attributes).__name__} is unknown; expected the "
                "attributes of a window"
            )
        return self.attributes.reach()

    def widened(self, window: tuple[int, int]) -> LinearModel:
        """Return the same model with a wider window, and weights of 0 at the additional offsets."""
        n_left, n_right = np.subtract(window, self.attributes.window)
        attributes = self.attributes.with_window(window)
        return LinearModel(attributes, self.weights.widened(n_left, n_right))
