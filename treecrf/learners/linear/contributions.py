"""Contributions of features and previous labels to the scores of linear models."""

from __future__ import annotations

import copy

import numpy as np
from scipy import sparse

from treecrf.chains.contexts import context_contributions
from treecrf.encoding.column_layout import BOUNDARY
from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.trees.explain.shapley import Players
from treecrf.trees.forest import LABEL


class LinearExplainer:
    """Explainer of the scores of a linear model, given the previous labels.

    An absent feature has attributes of 0, the mean of a standardized number, and an absent previous
    label stands for the mean over all labels. The contribution of a feature is the sum of its
    attributes, multiplied by their weights. Where a weight also depends on the previous label, the
    two share what they add together.
    """

    def __init__(self, model: LinearSequenceClassifier, codes: list[int]):
        check_window(model)
        self.model = model
        self.codes = codes  # the labels whose scores to explain
        self._features = attribute_features(model)
        left, right = model._attributes.window
        self._offsets = np.arange(right, -left - 1, -1)  # of the columns of weights
        weights = model._weights
        # The features and offsets with weights other than 0, and the previous label.
        a, j = np.nonzero((weights.attributes != 0).any(axis=2))
        self.players = Players.of_pairs(
            np.append(self._features[a], LABEL), np.append(self._offsets[j], 1)
        )
        n_labels = weights.layout.n_labels
        self._tables = np.zeros((2, n_labels, n_labels))
        self._tables[0, :, 0], self._tables[1] = weights.transitions[-1], weights.transitions[:-1].T
        # The scores if all attributes are 0, as means over previous labels.
        self.base_values = self._tables[1].mean(axis=1)[codes]

    def add_contributions(
        self,
        sequences: Sequences,
        previous: np.ndarray,
        players: Players,
        values: np.ndarray,
        position: int | None = None,
    ) -> None:
        """Add the contributions to the scores of all labels at all positions, or at one.

        ``previous`` is the label at each lag before each position, ``n_labels`` for none; only the
        first lag matters. The players of ``values``, (n_positions, n_codes, n_players), include the
        players of this model.
        """
        weights, table = self.model._weights, AttributeMatrix.of(self.model._attributes, sequences)
        rows_of_positions = table.layout.rows
        if position is not None:
            previous, rows_of_positions = previous[:, [position]], rows_of_positions[[position]]
        own = players.index_of(self.players.features, self.players.offsets)
        before = own[-1]  # the previous label
        _, of_labels = context_contributions(self._tables, previous[:1])
        values[:, :, before] += of_labels[:, self.codes, 0]
        for j, offset in enumerate(self._offsets):
            rows = table.matrix[rows_of_positions + offset]
            used = (weights.attributes[:, j] != 0).any(axis=1)
            columns = np.zeros(len(used), dtype=np.int64)
            of_used = self._features[used]
            columns[used] = players.index_of(of_used, np.full(len(of_used), offset))
            for k, code in enumerate(self.codes):
                add_by_player(values[:, k], rows, weights.labels[:, j, code], columns)
                if weights.layout.transition_features:
                    pairs = weights.pairs[:, j, :, code]
                    _add_pairs(values[:, k], rows, pairs, previous[0], columns, before)


def _add_pairs(
    values: np.ndarray,
    rows: sparse.csr_array,
    pairs: np.ndarray,
    previous: np.ndarray,
    columns: np.ndarray,
    before: int,
) -> None:
    """Add the weights of pairs of labels: half of the interaction to each of the players.

    ``before`` is the column of the previous label.
    """
    mean = pairs.mean(axis=1)
    for label in np.unique(previous):
        positions = np.flatnonzero(previous == label)
        # First positions have no weights of pairs.
        of_label = pairs[:, label] if label < pairs.shape[1] else np.zeros(len(mean))
        half, changed = (of_label - mean) / 2, values[positions]
        add_by_player(changed, rows[positions], mean + half, columns)
        changed[:, before] += rows[positions] @ half
        values[positions] = changed


def add_by_player(
    values: np.ndarray, rows: sparse.csr_array, weights: np.ndarray, columns: np.ndarray
) -> None:
    """Add attributes times weights to ``values``, in the column of the player of each attribute."""
    shape = len(weights), values.shape[1]
    used = np.flatnonzero(weights)
    spread = sparse.csr_array((weights[used], (used, columns[used])), shape=shape)
    values += (rows @ spread).toarray()


def attribute_features(model: LinearSequenceClassifier) -> np.ndarray:
    """Return the feature of each attribute of a window, int64; `BOUNDARY` for "outside"."""
    features = model._attributes.features
    n_outside = model._weights.layout.n_attributes - len(features)
    return np.append(features, np.full(n_outside, BOUNDARY)).astype(np.int64)


def check_weights(model: LinearSequenceClassifier) -> None:
    """Raise TypeError if a model has a kernel instead of weights of attributes."""
    if getattr(model, "_support", None) is not None:
        raise TypeError(
            f"the {type(model).__name__} has kernel={model.kernel!r}; expected kernel='linear', "
            "which has weights of attributes"
        )


def without_feature(
    model: LinearSequenceClassifier, feature: int, offset: int, value: np.ndarray
) -> tuple[LinearSequenceClassifier, np.ndarray, np.ndarray]:
    """Separate the scores of one value of a feature from the scores of all other features.

    ``value`` is one row of input. Returns a copy of the model without the weights of the feature at
    the offset, and the scores of the value for each label, (n_labels,), and for each previous label
    and label, (n_labels, n_labels), wherever there is a previous label.
    """
    check_window(model)
    weights = model._weights
    copied, rest = copy.copy(model), weights.copy()
    pairs = np.zeros((weights.layout.n_labels, weights.layout.n_labels))
    labels = np.zeros(weights.layout.n_labels)
    copied._weights = rest
    left, right = model._attributes.window
    if not -left <= offset <= right:
        return copied, labels, pairs
    own = np.flatnonzero(attribute_features(model) == feature)
    x = model._attributes.piece_rows(value)[:, own].toarray()[0]
    labels += x @ weights.labels[own, right - offset]
    if weights.layout.transition_features:
        pairs += np.tensordot(x, weights.pairs[own, right - offset], axes=1)
    rest.attributes[own, right - offset] = 0.0
    return copied, labels, pairs


def check_window(model: LinearSequenceClassifier) -> None:
    """Raise TypeError unless a model has weights of the values in a window."""
    check_weights(model)
    if not isinstance(model._attributes, WindowAttributes):
        raise TypeError(
            f"the attributes of the {type(model).__name__} are conjunctions or those of a "
            "transformer; expected those of a window"
        )
