"""Attributes of positions: the numbers that linear learners multiply by weights.

A source of attributes turns sequences into one sparse row per position. It only defines how wide
the window is: learners apply the window to the rows, and no windowed copy is made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from treecrf.encoding.columns import columns_with_missing, one_hot
from treecrf.encoding.encoded import Windowed, check_windows, window_within
from treecrf.encoding.imputation import (
    FILLED,
    IMPUTE,
    Imputation,
    learn_imputation,
    means_of,
)
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.schema import CATEGORY, NUMBER, InputSchema
from treecrf.inputs.symbols import as_category
from treecrf.learners.linear.standardization import Standardization
from treecrf.utils import model_file
from treecrf.utils.imported_classes import ImportedClasses
from treecrf.utils.model_file import Section, as_section
from treecrf.utils.scipy_sparse import sparse

if TYPE_CHECKING:
    from treecrf.inputs.sequences import Sequences

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


class WindowAttributes(Windowed):
    """The values in a window of the input; see `LinearCRF` for its parameters.

    A categorical feature is one-hot encoded, with an attribute for each value. Booleans and numbers
    are attributes themselves. Absent values are 0. The window is cut to the length of the training
    sequences, see `window_within`.
    """

    kind: ClassVar[str] = "window"

    # Form and columns of the training sequences; None before `fit`.
    schema: InputSchema | None = None
    # Replaces missing values, and may add columns that mark them.
    imputation: Imputation
    # Shifts and scales numbers; None if they stay as they are.
    standardization: Standardization | None = None
    # The least and the greatest number of each column in training, (2, n_features); infinite for
    # other columns, and None without columns of numbers.
    ranges: np.ndarray | None = None
    # Whether numbers are cut to their ranges. They are in starts of trees, which cannot correct a
    # linear function where there are no training data.
    is_cut: bool = False
    # Indices of the attributes that are not dropped.
    kept: np.ndarray

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
        self.imputation = self._learned_imputation(sequences)
        # What follows depends on all attributes, as they are before standardization.
        self.kept = np.arange(self.n_all)
        self.standardization = None
        self.is_cut = False
        self.ranges = None
        has_numbers = (self.schema.kinds == NUMBER).any()
        if has_numbers:
            counts, self.ranges = self._counts_and_ranges(sequences)
        else:
            counts = self._counts(sequences)
        self.kept = np.flatnonzero(counts >= self.min_count)
        if self.standardize and has_numbers:
            # The values that replace missing numbers are means.
            self.standardization = Standardization.learn(sequences, means=self.imputation.values)
        return self

    def _learned_imputation(self, sequences: Sequences) -> Imputation:
        schema = sequences.schema
        from treecrf.utils.partitions import InMemory

        data = InMemory(sequences)
        if self.missing == IMPUTE:
            return learn_imputation(data, schema, IMPUTE)
        values = np.where(schema.kinds == CATEGORY, 0.0, means_of(data))
        if schema.form == "symbols":
            return Imputation(values, np.zeros(0, dtype=np.intp), schema.categories[0])
        return Imputation(values, np.flatnonzero(columns_with_missing(sequences)), None)

    def _counts(self, sequences: Sequences) -> np.ndarray:
        """Count the positions where each attribute is not 0."""
        counts = np.zeros(self.n_all, dtype=np.int64)
        for piece in self._pieces(sequences):
            counts += np.bincount(piece.indices, minlength=len(counts))
        return counts

    def _counts_and_ranges(self, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """Return counts as `_counts`, and the ranges of columns of numbers."""
        counts = np.zeros(self.n_all, dtype=np.int64)
        lows = np.full(self.n_all, np.inf)
        highs = np.full(self.n_all, -np.inf)
        for piece in self._pieces(sequences):
            counts += np.bincount(piece.indices, minlength=len(counts))
            np.minimum.at(lows, piece.indices, piece.data)
            np.maximum.at(highs, piece.indices, piece.data)
        # Attributes that do not occur at all positions are also 0.
        zeros = np.where(counts < sequences.n_positions, 0.0, np.nan)
        numbers = np.flatnonzero(self.schema.kinds == NUMBER)
        number_attributes = np.cumsum(np.abs(self._sizes))[numbers] - 1
        ranges = np.repeat([[-np.inf], [np.inf]], self.schema.n_features, axis=1)
        ranges[0, numbers] = np.fmin(lows, zeros)[number_attributes]
        ranges[1, numbers] = np.fmax(highs, zeros)[number_attributes]
        return counts, ranges

    def ordered(self, columns: np.ndarray) -> WindowAttributes:
        """Return the same attributes in another order of the columns; int64 (n_features,)."""
        other = copy.copy(self)
        ranks = np.argsort(columns)[self.features]
        other.kept = self.kept[np.argsort(ranks, kind="stable")]
        return other

    def with_ranges(self) -> WindowAttributes:
        """Return the same attributes with numbers cut to their ranges in training."""
        other = copy.copy(self)
        other.is_cut = self.ranges is not None
        return other

    @property
    def has_zeros(self) -> bool:
        """Whether numbers of 0 have attributes of 0, so that sparse rows need not store them."""
        is_shifted = self.standardization is not None and self.standardization.shifts.any()
        return not is_shifted and not (self.is_cut and np.clip(0.0, *self.ranges).any())

    def rows(self, sequences: Sequences) -> sparse.csr_array:
        """Compute the attributes of all positions; raises ValueError for numbers too large."""
        max_entries = sequences.n_positions * len(self.imputation.sources)
        if sequences.form == "sparse" and self.has_zeros:
            # Each value has an attribute, and a missing value may have another one that marks it.
            max_entries = 2 * sum(piece.nnz for _, _, piece in sequences.pieces())
        rows = _joined_rows(self._pieces(sequences), max_entries)
        # Products with weights must be finite.
        is_large = np.abs(rows.data) > MAX_NUMBER
        if is_large.any():
            k = int(np.argmax(is_large))
            position = int(np.searchsorted(rows.indptr, k, side="right")) - 1
            raise ValueError(
                f"{position_name(position, sequences.offsets)}: {rows.data[k]} is too large for a "
                f"linear model; expected numbers up to {MAX_NUMBER:g}"
            )
        return rows

    def _pieces(self, sequences: Sequences) -> Iterator[sparse.csr_array]:
        for _, _, piece in sequences.for_model(self.schema).pieces():
            yield self.piece_rows(piece)

    def piece_rows(self, piece: Any) -> sparse.csr_array:
        """Compute the attributes of a piece of checked sequences."""
        if not len(self.kept):
            return sparse.csr_array((piece.shape[0], 0))
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
        if not np.array_equal(self.kept, np.arange(rows.shape[1])):
            rows = sparse.csr_array(rows[:, self.kept])
            rows.sort_indices()
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
        from treecrf.encoding.names import bracketed, feature_at

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
            values["is_cut"] = self.is_cut
            arrays["ranges"] = self.ranges
        return values, arrays

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> WindowAttributes:
        """Restore an object from its `state`."""
        schema = _restored_schema(values, arrays)
        window = tuple(values["window"])
        # Models of earlier versions have no other window.
        max_window = tuple(values.get("max_window", window))
        # Models of earlier versions have no choice.
        standardize = values.get("standardize", values["standardized"])
        restored = cls(max_window, values["missing"], values["min_count"], standardize)
        restored.window = window
        restored.schema = schema
        model_file.require(restored.missing in FILLED, "missing values")
        model_file.check_counts(restored.min_count)
        check_windows(window, max_window)
        schema.check()
        symbols = schema.categories[0] if schema.form == "symbols" else None
        restored.imputation = Imputation.from_state(Section(arrays, "imputation"), symbols)
        restored.imputation.check(schema.n_features)
        restored._restore_scales(values, arrays)
        restored.kept = arrays["kept"]
        model_file.check_indices(restored.kept, restored.n_all, "attributes")
        return restored

    def _restore_scales(self, values: dict, arrays: dict[str, np.ndarray]) -> None:
        """Restore how numbers are standardized and cut."""
        n_columns = self.schema.n_features
        is_standardized = values["standardized"]
        model_file.require(isinstance(self.standardize, bool), "scales")
        model_file.require(isinstance(is_standardized, bool), "scales")
        if is_standardized:
            self.standardization = Standardization(**Section(arrays, "standardization"))
            self.standardization.check(n_columns)
        if "is_cut" in values:  # models of earlier versions have no ranges
            self.is_cut = values["is_cut"]
            self.ranges = arrays["ranges"]
            model_file.require(isinstance(self.is_cut, bool), "ranges")
            model_file.require(self.ranges.shape == (2, n_columns), "ranges")
            model_file.require(self.ranges.dtype == np.float64, "ranges")
            model_file.require((self.ranges[0] <= self.ranges[1]).all(), "ranges")


def _restored_schema(values: dict, arrays: dict[str, np.ndarray]) -> InputSchema:
    """Restore the form and the columns of sequences from a saved model, not checked."""
    kinds = arrays["kinds"]
    return InputSchema(
        form=values["form"],
        n_features=values["n_features"],
        names=None if values["names"] is None else tuple(values["names"]),
        kinds=kinds,
        categories={j: arrays[f"categories.{j}"] for j in np.flatnonzero(kinds == CATEGORY)},
        absent_is_missing=values.get("absent_is_missing", False),
    )


def _joined_rows(pieces: Iterator[sparse.csr_array], max_entries: int) -> sparse.csr_array:
    """Join rows with at most this number of entries; indices are not held twice."""
    # The system only provides memory that is written to.
    indices = np.empty(max_entries, dtype=np.int32)
    n_entries = 0
    data = []
    counts = []
    for piece in pieces:
        indices[n_entries : n_entries + piece.nnz] = piece.indices
        n_entries += piece.nnz
        data.append(piece.data)
        counts.append(np.diff(piece.indptr))
    starts = offsets_of(np.concatenate(counts))
    starts = starts.astype(np.int32 if n_entries < 1 << 31 else np.int64)
    arrays = (np.concatenate(data), indices[:n_entries], starts)
    return sparse.csr_array(arrays, shape=(len(starts) - 1, piece.shape[1]))


# Sources in saved models by their kinds.
SOURCES = ImportedClasses(
    {
        "window": (__name__, "WindowAttributes"),
        "flat": ("treecrf.learners.flat.model", "FlatAttributes"),
    }
)
