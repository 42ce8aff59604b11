"""Contributions of features and previous labels to the scores of linear models."""

from __future__ import annotations

import numpy as np

from treecrf.chains.contexts import context_contributions
from treecrf.encoding.column_layout import BOUNDARY
from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.base import LinearSequenceClassifier, linear_model
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.linear.model import LinearModel
from treecrf.trees.explain.shapley import Players
from treecrf.trees.forest import LABEL
from treecrf.utils.scipy_sparse import sparse


class LinearExplainer:
    """Explainer of the scores of a linear model, given the previous labels.

    An absent feature has attributes of 0, the mean of a standardized number, and an absent previous
    label stands for the mean over all labels. The contribution of a feature is the sum of its
    attributes, multiplied by their weights. Where a weight also depends on the previous label, the
    two share what they add together.
    """

    def __init__(self, model: LinearModel, codes: list[int]):
        check_window(model)
        # The labels whose scores are explained.
        self.codes = codes
        self._model = model
        weights = self._model.weights
        # Feature of each attribute, and offset of each column of weights.
        self._features = attribute_features(self._model)
        left, right = self._model.attributes.window
        self._offsets = np.arange(right, -left - 1, -1)
        # The features and offsets with weights other than 0, and the previous label.
        a, j = np.nonzero((weights.attributes != 0).any(axis=2))
        self.players = Players.from_pairs(
            np.append(self._features[a], LABEL), np.append(self._offsets[j], 1)
        )
        # Scores of labels in each context, if all attributes are 0: at first positions, and after
        # each label.
        n_labels = weights.layout.n_labels
        self._tables = np.zeros((2, n_labels, n_labels))
        self._tables[0, :, 0] = weights.transitions[-1]
        self._tables[1] = weights.transitions[:-1].T
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
        weights = self._model.weights
        table = AttributeMatrix.of(self._model.attributes, sequences)
        position_rows = table.layout.rows
        if position is not None:
            previous = previous[:, [position]]
            position_rows = position_rows[[position]]
        own = players.index_of(self.players.features, self.players.offsets)
        before = own[-1]  # the previous label
        _, label_contributions = context_contributions(self._tables, previous[:1])
        values[:, :, before] += label_contributions[:, self.codes, 0]
        for j, offset in enumerate(self._offsets):
            rows = table.matrix[position_rows + offset]
            has_weights = (weights.attributes[:, j] != 0).any(axis=1)
            features = self._features[has_weights]
            columns = np.zeros(len(has_weights), dtype=np.int64)
            columns[has_weights] = players.index_of(features, np.full(len(features), offset))
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
        pair_weights = np.zeros(len(mean))
        if label < pairs.shape[1]:  # first positions have no weights of pairs
            pair_weights = pairs[:, label]
        half = (pair_weights - mean) / 2
        changed = values[positions]
        add_by_player(changed, rows[positions], mean + half, columns)
        changed[:, before] += rows[positions] @ half
        values[positions] = changed


def add_by_player(
    values: np.ndarray, rows: sparse.csr_array, weights: np.ndarray, columns: np.ndarray
) -> None:
    """Add attributes times weights to ``values``, in the column of the player of each attribute."""
    shape = (len(weights), values.shape[1])
    attributes = np.flatnonzero(weights)
    places = (attributes, columns[attributes])
    spread = sparse.csr_array((weights[attributes], places), shape=shape)
    values += (rows @ spread).toarray()


def attribute_features(model: LinearModel) -> np.ndarray:
    """Return the feature of each attribute of a window, int64; `BOUNDARY` for "outside"."""
    features = model.attributes.features
    n_outside = model.weights.layout.n_attributes - len(features)
    return np.append(features, np.full(n_outside, BOUNDARY)).astype(np.int64)


def model_with_weights(model: LinearSequenceClassifier) -> LinearModel:
    """Return what an estimator has learned; TypeError if it has a kernel instead of weights."""
    if getattr(model, "_support", None) is not None:
        raise TypeError(
            f"the {type(model).__name__} has kernel={model.kernel!r}; expected kernel='linear', "
            "which has weights of attributes"
        )
    return linear_model(model)


def without_feature(
    model: LinearModel, feature: int, offset: int, value: np.ndarray
) -> tuple[LinearModel, np.ndarray, np.ndarray]:
    """Separate the scores of one value of a feature from the scores of all other features.

    ``value`` is one row of input. Returns a copy of the model without the weights of the feature at
    the offset, and the scores of the value for each label, (n_labels,), and for each previous label
    and label, (n_labels, n_labels), wherever there is a previous label.
    """
    check_window(model)
    weights = model.weights.copy()
    layout = weights.layout
    rest = LinearModel(model.attributes, weights)
    labels = np.zeros(layout.n_labels)
    pairs = np.zeros((layout.n_labels, layout.n_labels))
    left, right = model.attributes.window
    if not -left <= offset <= right:
        return rest, labels, pairs
    own = np.flatnonzero(attribute_features(model) == feature)
    x = model.attributes.piece_rows(value)[:, own].toarray()[0]
    labels += x @ weights.labels[own, right - offset]
    if layout.transition_features:
        pairs += np.tensordot(x, weights.pairs[own, right - offset], axes=1)
    weights.attributes[own, right - offset] = 0.0
    return rest, labels, pairs


def check_window(model: LinearModel) -> None:
    """Raise TypeError unless a model has weights of the values in a window."""
    if not isinstance(model.attributes, WindowAttributes):
        raise TypeError(
            "the attributes of the linear model are conjunctions or those of a transformer; "
            "expected those of a window"
        )
