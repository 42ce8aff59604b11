"""Attributes of positions: the numbers that linear learners multiply by weights.

A source of attributes turns sequences into one sparse row per position. It only defines how wide
the window is: learners apply the window to the rows, and no windowed copy is made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from treecrf.encoding.columns import columns_with_missing, one_hot
from treecrf.encoding.encoded import check_windows, widest, window_within
from treecrf.encoding.imputation import (
    FILLED,
    IMPUTE,
    Imputation,
    exponents_of,
    learn_imputation,
    means_of,
)
from treecrf.encoding.names import bracketed, feature_at
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.sequences import CATEGORY, NUMBER, InputSchema, Sequences, as_category
from treecrf.utils import model_file
from treecrf.utils.model_file import Section, as_section
from treecrf.utils.partitions import InMemory

# Squares of numbers, and their products with weights, must be finite.
MAX_NUMBER = 1e100


class Attributes(Protocol):
    """A source of attributes.

    A source may also have a method ``reach``, which returns the number of positions to the left and
    to the right that attributes depend on. Online labeling needs it.

    Attributes
    ----------
    kind : str
        Name in saved models, see `SOURCES`.
    window : (int, int)
        Number of positions to the left and to the right whose attributes a position has.
    schema : InputSchema or None
        Schema that all sequences must match; None if `fit` learns it from the training data.
    """

    kind: ClassVar[str]
    window: tuple[int, int]
    schema: InputSchema | None

    def fit(self, sequences: Sequences) -> Attributes:
        """Learn the attributes from training data; learners call it on a shallow copy."""

    def rows(self, sequences: Sequences) -> sparse.csr_array:
        """Compute the attributes of all positions; float64 array (n_positions, n_attributes)."""

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""

    def names_at(self, offset: int) -> list[str]:
        """Return the names of the attributes at an offset in the window."""

    def starting_weights(self, classes: np.ndarray) -> np.ndarray | None:
        """Return the weights that training starts from, if the source provides any.

        A float64 array (n_attributes, n_labels + 1, n_labels): ``[a, u, v]`` is for label v after
        label u, and ``[a, n_labels, v]`` for label v at the first position. Only for sources with
        the window (0, 0).
        """

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> Attributes:
        """Restore an object from its `state`; raises ValueError if parts do not fit together."""


@dataclass(frozen=True)
class Standardization:
    """Shift and scale of columns: the penalty does not depend on the units of numbers.

    Numbers of tables have a mean of 0 and a standard deviation of 1 to 2 afterwards. Sparse columns
    are not shifted, and their stored values have a mean square of 1 to 4. Categories and columns
    of 0 and 1 stay as they are.
    """

    shifts: np.ndarray
    exponents: np.ndarray  # the scales are these powers of 2, which round no number

    @classmethod
    def learn(cls, sequences: Sequences, means: np.ndarray) -> Standardization:
        """Learn the scales from training data with these means; they do not depend on its order."""
        n = sequences.n_features
        is_sparse = sequences.form == "sparse"
        shifts, units = np.zeros(n) if is_sparse else means, exponents_of(sequences)
        squares, n_values, n_others = np.zeros((3, n))
        for _, _, piece in sequences.pieces():
            sums = _sums_of_sparse(piece, units) if is_sparse else _sums(piece, means, units)
            for total, of_piece in zip((squares, n_values, n_others), sums, strict=True):
                total += of_piece
        is_free = (sequences.schema.kinds == NUMBER) & (n_others > 0) & (squares > 0)
        logarithms = np.log2(squares / np.maximum(n_values, 1), where=is_free, out=np.zeros(n))
        # Sums depend on their order in the last digits; no simple data are near 2**-0.1.
        exponents = np.where(is_free, np.floor(logarithms / 2 + 0.1) + units, 0)
        return cls(np.where(is_free, shifts, 0.0), exponents.astype(np.int64))

    def apply(self, table: Any) -> Any:
        """Standardize the columns of a table; columns that follow them stay as they are."""
        n = len(self.shifts)
        if not sparse.issparse(table):
            found = table.copy()
            with np.errstate(over="ignore"):
                found[:, :n] = np.ldexp(table[:, :n] - self.shifts, -self.exponents)
            return found
        rows = sparse.csr_array(table, copy=True)
        exponents = np.append(self.exponents, np.zeros(rows.shape[1] - n, dtype=np.int64))
        rows.data = np.ldexp(rows.data, -exponents[rows.indices])
        return rows

    def check(self, n_columns: int) -> None:
        """Raise ValueError if this does not fit the columns."""
        model_file.require(self.shifts.shape == self.exponents.shape == (n_columns,), "scales")
        are_valid = self.shifts.dtype == np.float64 and np.isfinite(self.shifts).all()
        model_file.require(are_valid and self.exponents.dtype == np.int64, "scales")
        model_file.require((np.abs(self.exponents) <= 1100).all(), "scales")


def _sums(table: np.ndarray, means: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sum the squared deviations of each column; count its values, and those other than 0 and 1.

    Deviations are divided by powers of 2 above the values, so that no square overflows.
    """
    table = table.astype(np.float64)
    present = ~np.isnan(table)
    deviations = np.ldexp(table, -units) - np.ldexp(means, -units)
    is_other = present & (table != 0) & (table != 1)
    squares = np.square(deviations, where=present, out=np.zeros(table.shape))
    return squares.sum(axis=0), present.sum(axis=0), is_other.sum(axis=0)


def _sums_of_sparse(table: Any, units: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sum the squared stored values of each column, and count as `_sums`; the means are 0."""
    entries = table.tocoo()
    present = ~np.isnan(entries.data)
    values, columns = entries.data[present].astype(np.float64), entries.col[present]
    squares = np.ldexp(values, -units[columns]) ** 2
    weights = squares, np.ones(len(values)), (values != 0) & (values != 1)
    return tuple(np.bincount(columns, each, minlength=len(units)) for each in weights)


def _joined(pieces: Iterator[sparse.csr_array], most: int) -> sparse.csr_array:
    """Join rows with at most this number of entries; indices are not held twice."""
    # Memory that is not written to does not exist.
    indices, n_entries, data, counts = np.empty(most, dtype=np.int32), 0, [], []
    for piece in pieces:
        indices[n_entries : n_entries + piece.nnz] = piece.indices
        n_entries += piece.nnz
        data.append(piece.data)
        counts.append(np.diff(piece.indptr))
    starts = offsets_of(np.concatenate(counts))
    starts = starts.astype(np.int32 if n_entries < 1 << 31 else np.int64)
    parts = np.concatenate(data), indices[:n_entries], starts
    return sparse.csr_array(parts, shape=(len(starts) - 1, piece.shape[1]))


class WindowAttributes:
    """The values in a window of the input; see `LinearCRF` for its parameters.

    A categorical feature is one-hot encoded, with an attribute for each value. Booleans and numbers
    are attributes themselves. Absent values are 0. The window is cut to the length of the training
    sequences, see `window_within`.
    """

    kind: ClassVar[str] = "window"

    window: tuple[int, int]
    schema: InputSchema | None = None
    imputation: Imputation
    standardization: Standardization | None = None
    # The least and the greatest number of each column in training, (2, n_features); infinite for
    # other columns, and None without columns of numbers.
    ranges: np.ndarray | None = None
    # Whether numbers are cut to their ranges. They are in starts of trees, which cannot correct a
    # linear function where there are no training data.
    is_cut: bool = False
    kept: np.ndarray  # indices of the attributes that are not dropped

    def __init__(
        self,
        max_window: tuple[int, int],
        missing: str = "indicator",
        min_count: int = 1,
        standardize: bool = True,
    ):
        self.max_window = max_window
        self.standardize = standardize
        self.missing = missing
        self.min_count = min_count

    def fit(self, sequences: Sequences) -> WindowAttributes:
        """Learn the columns, the imputation of missing values, and which attributes to keep."""
        vars(self).pop("_sizes", None)
        self.window = window_within(self.max_window, sequences.longest)
        self.schema = sequences.schema
        schema, partitions = sequences.schema, InMemory(sequences)
        if self.missing == IMPUTE:
            self.imputation = learn_imputation(partitions, schema, IMPUTE)
        else:
            values = np.where(schema.kinds == CATEGORY, 0.0, means_of(partitions))
            of_symbols = schema.form == "symbols"
            is_marked = np.zeros(0) if of_symbols else columns_with_missing(sequences)
            symbols = schema.categories[0] if of_symbols else None
            self.imputation = Imputation(values, np.flatnonzero(is_marked), symbols)
        self.kept = np.arange(self.n_all)
        self.standardization = None
        self.is_cut, self.ranges, numbers = False, None, np.flatnonzero(schema.kinds == NUMBER)
        counts = np.zeros(self.n_all, dtype=np.int64)
        lows, highs = np.full(self.n_all, np.inf), np.full(self.n_all, -np.inf)
        for piece in self._pieces(sequences):
            counts += np.bincount(piece.indices, minlength=len(counts))
            if len(numbers):
                np.minimum.at(lows, piece.indices, piece.data)
                np.maximum.at(highs, piece.indices, piece.data)
        self.kept = np.flatnonzero(counts >= self.min_count)
        if len(numbers):
            zeros = np.where(counts < sequences.n_positions, 0.0, np.nan)
            places = np.cumsum(np.abs(self._sizes))[numbers] - 1
            self.ranges = np.repeat([[-np.inf], [np.inf]], schema.n_features, axis=1)
            self.ranges[0, numbers] = np.fmin(lows, zeros)[places]
            self.ranges[1, numbers] = np.fmax(highs, zeros)[places]
        if self.standardize and len(numbers):
            # The values that replace missing numbers are means.
            self.standardization = Standardization.learn(sequences, means=self.imputation.values)
        return self

    def widened(self, longest: int) -> WindowAttributes:
        """Return attributes whose window also suits training sequences of this length."""
        return self.with_window(widest(self.window, window_within(self.max_window, longest)))

    def with_window(self, window: tuple[int, int]) -> WindowAttributes:
        """Return the same attributes with another window, within ``max_window``."""
        other = copy.copy(self)
        other.window = window
        return other

    @property
    def has_zeros(self) -> bool:
        """Whether numbers of 0 have attributes of 0, so that those of sparse rows have none."""
        is_shifted = self.standardization is not None and self.standardization.shifts.any()
        return not is_shifted and not (self.is_cut and np.clip(0.0, *self.ranges).any())

    def rows(self, sequences: Sequences) -> sparse.csr_array:
        """Compute the attributes of all positions; raises ValueError for numbers too large."""
        most = sequences.n_positions * len(self.imputation.sources)
        if sequences.form == "sparse" and self.has_zeros:
            most = 2 * sum(piece.nnz for _, _, piece in sequences.pieces())
        rows = _joined(self._pieces(sequences), most)
        # Products with weights must be finite.
        large = np.abs(rows.data) > MAX_NUMBER
        if large.any():
            k = int(np.argmax(large))
            position = int(np.searchsorted(rows.indptr, k, side="right")) - 1
            raise ValueError(
                f"{position_name(position, sequences.offsets)}: {rows.data[k]} is too large for a "
                f"linear model; expected numbers up to {MAX_NUMBER:g}"
            )
        return rows

    def _pieces(self, sequences: Sequences) -> Iterator[sparse.csr_array]:
        for _, _, piece in sequences.for_model(self.schema).pieces():
            yield self._rows_of(piece)

    def _rows_of(self, piece: Any) -> sparse.csr_array:
        if piece.ndim == 1:
            piece = as_category(piece, self.schema.categories[0])
        if sparse.issparse(piece) and not self.has_zeros:
            piece = piece.toarray()
        if self.is_cut and sparse.issparse(piece):
            piece = piece.copy()
            piece.data = np.clip(piece.data, *self.ranges[:, piece.indices])
        elif self.is_cut:
            piece = np.clip(piece, *self.ranges)
        filled = self.imputation.fill(piece)
        table = filled.astype(np.float64, copy=False)
        if self.standardization is not None:
            table = self.standardization.apply(table)
        rows = one_hot(table, self._sizes)
        if len(self.kept) < rows.shape[1]:
            rows = sparse.csr_array(rows[:, self.kept])
        if (rows.data == 1).all():
            rows.data = rows.data.astype(bool)  # an eighth of the memory
        return rows

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return len(self.kept)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """Number of values of each category, -1 for the other columns."""
        sizes = np.full(len(self.imputation.sources), -1)
        for j, values in self.schema.categories.items():
            sizes[j] = len(values)
        return sizes

    @property
    def n_all(self) -> int:
        """Number of attributes before those that are too rare are dropped."""
        return int(np.abs(self._sizes).sum())

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that attributes depend on."""
        return self.window

    @property
    def features(self) -> np.ndarray:
        """Feature of each attribute, int64 array (n_attributes,)."""
        n_values = np.where(self._sizes >= 0, self._sizes, 1)
        return np.repeat(self.imputation.sources, n_values)[self.kept]

    def names_at(self, offset: int) -> list[str]:
        """Return names such as ``aa[-2] is 'P'``; no brackets if the window has one position."""
        at = bracketed(offset) if offset or any(self.window) else ""
        schema = self.schema
        names = []
        for column, source in enumerate(self.imputation.sources):
            name = feature_at(schema, source, at)
            if column >= schema.n_features:
                names.append(f"{name} is missing")
            elif schema.kinds[column] == CATEGORY:
                names += [f"{name} is {value!r}" for value in schema.categories[column].tolist()]
            else:
                names.append(name)
        return [names[k] for k in self.kept]

    def starting_weights(self, classes: np.ndarray) -> None:
        """Return None: training starts from zeros."""

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model."""
        schema = self.schema
        values = {name: getattr(self, name) for name in ("missing", "min_count", "standardize")}
        values["standardized"] = self.standardization is not None
        values |= {name: getattr(schema, name) for name in ("form", "n_features")}
        values |= {"window": list(self.window), "max_window": list(self.max_window)}
        values["names"] = None if schema.names is None else list(schema.names)
        if schema.absent_is_missing:
            values["absent_is_missing"] = True
        arrays = {"kinds": schema.kinds, "kept": self.kept}
        arrays |= {f"categories.{j}": array for j, array in schema.categories.items()}
        arrays |= as_section(self.imputation.state(), "imputation")
        if self.standardization is not None:
            arrays |= as_section(vars(self.standardization), "standardization")
        if self.ranges is not None:
            values["is_cut"], arrays["ranges"] = self.is_cut, self.ranges
        return values, arrays

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> WindowAttributes:
        """Restore an object from its `state`."""
        kinds = arrays["kinds"]
        categories = {j: arrays[f"categories.{j}"] for j in np.flatnonzero(kinds == CATEGORY)}
        names = None if values["names"] is None else tuple(values["names"])
        window = tuple(values["window"])
        # Models of earlier versions have no other window.
        max_window = tuple(values.get("max_window", window))
        is_standardized = values["standardized"]
        # Models of earlier versions have no choice.
        standardize = values.get("standardize", is_standardized)
        restored = cls(max_window, values["missing"], values["min_count"], standardize)
        restored.window = window
        absent_is_missing = values.get("absent_is_missing", False)
        restored.schema = InputSchema(
            values["form"], values["n_features"], names, kinds, categories, absent_is_missing
        )
        model_file.require(restored.missing in FILLED, "missing values")
        model_file.check_counts(restored.min_count)
        check_windows(window, max_window)
        restored.schema.check()
        symbols = categories[0] if restored.schema.form == "symbols" else None
        restored.imputation = Imputation.from_state(Section(arrays, "imputation"), symbols)
        restored.imputation.check(len(kinds))
        model_file.require(isinstance(standardize, bool), "scales")
        model_file.require(isinstance(is_standardized, bool), "scales")
        if is_standardized:
            restored.standardization = Standardization(**Section(arrays, "standardization"))
            restored.standardization.check(len(kinds))
        if "is_cut" in values:  # models of earlier versions have no ranges
            restored.is_cut, restored.ranges = values["is_cut"], arrays["ranges"]
            model_file.require(isinstance(restored.is_cut, bool), "ranges")
            model_file.require(restored.ranges.shape == (2, len(kinds)), "ranges")
            model_file.require(restored.ranges.dtype == np.float64, "ranges")
            model_file.require((restored.ranges[0] <= restored.ranges[1]).all(), "ranges")
        restored.kept = arrays["kept"]
        model_file.check_indices(restored.kept, restored.n_all, "attributes")
        return restored


# Sources in saved models by their kinds; packages above this one add theirs.
SOURCES: dict[str, type[Attributes]] = {WindowAttributes.kind: WindowAttributes}
