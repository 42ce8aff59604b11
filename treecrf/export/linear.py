"""Tables of a linear model: weights of values, by their places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.export.columns import MISSING_CODE, UNKNOWN_CODE, LabelerColumns, Values
from treecrf.export.tables import Tables
from treecrf.inputs.offsets import offsets_of
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.symbols import as_category
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.model import LinearModel


@dataclass(frozen=True)
class ValueWeights:
    """Weights of the values of the input."""

    # The values, each once.
    values: Values
    # Their weights, (n_values, n_offsets, n_labels): [i, j] is for the position ``right - j``
    # positions before the value.
    weights: np.ndarray
    # Weights of positions outside of the sequence, (n_offsets, n_labels).
    outside: np.ndarray
    # Number of positions to the left and to the right whose values count.
    window: tuple[int, int]

    def useful(self) -> ValueWeights:
        """Return the values with weights other than 0."""
        is_useful = self.weights.any(axis=(1, 2))
        values = Values(self.values.columns[is_useful], self.values.codes[is_useful])
        return ValueWeights(values, self.weights[is_useful], self.outside, self.window)

    def tables(self, columns: LabelerColumns) -> Tables:
        """Return the weights other than 0 of each place and offset."""
        n_offsets, n_labels = self.outside.shape
        by_place = np.zeros((columns.n_places + 1, n_offsets, n_labels))
        by_place[columns.places_of(self.values)] = self.weights
        by_place[-1] = self.outside
        rows = by_place.reshape(-1, n_labels)
        labels = np.nonzero(rows)[1]
        constants = {
            "HAS_LINEAR": 1,
            "N_OFFSETS": n_offsets,
            "LINEAR_LEFT": self.window[0],
            "LINEAR_RIGHT": self.window[1],
        }
        arrays = {
            "weight_starts": offsets_of(np.count_nonzero(rows, axis=1)),
            "weight_labels": padded(labels),
            "weights": padded(rows[rows != 0]),
        }
        return Tables(constants, arrays)


def padded(array: np.ndarray) -> np.ndarray:
    """Return an array of at least one item: C has no empty arrays."""
    return array if len(array) else np.zeros(1, dtype=array.dtype)


def weights_of_linear(linear: LinearModel, schema: InputSchema) -> ValueWeights:
    """Return the weights of a linear model; other categories than the schema's cannot occur."""
    attributes = linear.attributes
    columns, codes = _attribute_values(attributes)
    columns = columns[attributes.kept]
    codes = codes[attributes.kept]
    for j, own in attributes.schema.categories.items():
        here = np.flatnonzero((columns == j) & (codes > UNKNOWN_CODE))
        codes[here] = as_category(own, schema.categories[j])[codes[here] - 1, 0]
    possible = (codes != UNKNOWN_CODE) & (columns < schema.n_features)
    n = attributes.n_attributes
    outside = np.zeros(linear.weights.labels.shape[1:])
    if any(attributes.window):
        outside = linear.weights.labels[n]
    return ValueWeights(
        Values(columns[possible], codes[possible]),
        linear.weights.labels[:n][possible],
        outside,
        attributes.window,
    )


def _attribute_values(attributes: WindowAttributes) -> tuple[np.ndarray, np.ndarray]:
    """Return the column and the code of each attribute before rare ones are dropped."""
    schema = attributes.schema
    columns = [np.repeat(np.arange(schema.n_features), _sizes_of(schema))]
    codes = [np.arange(1, size + 1) for size in _sizes_of(schema).tolist()]
    marked = attributes.imputation.indicator_columns
    columns.append(marked)
    codes.append(np.full(len(marked), MISSING_CODE))
    return np.concatenate(columns).astype(np.int64), np.concatenate(codes)


def _sizes_of(schema: InputSchema) -> np.ndarray:
    """Return the number of attributes of each column."""
    sizes = np.ones(schema.n_features, dtype=np.int64)
    for j, values in schema.categories.items():
        sizes[j] = len(values)
    return sizes


def weights_of_symbols(by_symbol: np.ndarray) -> ValueWeights:
    """Return scores of symbols, the last two of unknown and missing ones, as weights."""
    n_symbols = len(by_symbol) - 2
    codes = np.append(np.arange(1, n_symbols + 1), [UNKNOWN_CODE, MISSING_CODE])
    values = Values(np.zeros(len(codes), dtype=np.int64), codes)
    outside = np.zeros_like(by_symbol[:1])
    return ValueWeights(values, by_symbol[:, np.newaxis], outside, (0, 0))


def filled_values(attributes: WindowAttributes, schema: InputSchema) -> np.ndarray:
    """Return what replaces missing values, with the schema's codes of categories."""
    fills = attributes.imputation.values.copy()
    for j, own in attributes.schema.categories.items():
        codes = np.append(0.0, as_category(own, schema.categories[j]))
        fills[j] = codes[int(fills[j])]
    return fills


def scale_tables(attributes: WindowAttributes, columns: LabelerColumns) -> Tables:
    """Return how numbers are cut, replaced if they are missing, and standardized."""
    constants = {}
    arrays = {}
    fills = columns.fills_of(filled_values(attributes, columns.schema))
    if fills.any():
        constants["HAS_LINEAR_FILLS"] = 1
        arrays["linear_fills"] = fills
    if attributes.is_cut:
        constants["HAS_RANGES"] = 1
        arrays["linear_lows"], arrays["linear_highs"] = attributes.ranges[:, columns.chosen]
    scales = attributes.standardization
    if scales is not None and (scales.shifts.any() or scales.exponents.any()):
        constants["HAS_SCALES"] = 1
        arrays["linear_shifts"] = scales.shifts[columns.chosen]
        arrays["linear_exponents"] = scales.exponents[columns.chosen]
    return Tables(constants, arrays)


def is_number_added(attributes: WindowAttributes) -> bool:
    """Return whether numbers of 0 have attributes other than 0."""
    return not attributes.has_zeros and bool((attributes.schema.kinds != CATEGORY).any())
