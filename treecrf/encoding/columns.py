"""Columns of the training data: their categories, thresholds and density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.thresholds import learn_thresholds
from treecrf.inputs.schema import BOOLEAN, CATEGORY, KINDS, NUMBER
from treecrf.inputs.sequences import Description, Sequences
from treecrf.utils.checks import check_categories, require
from treecrf.utils.partitions import Partitions

# Names of the arrays of `Columns`, in the order of its constructor.
ARRAYS = ("kinds", "sizes", "thresholds")


@dataclass(frozen=True)
class Column:
    """A column with the categories or thresholds that its tests compare with."""

    kind: str
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def n_tests(self) -> int:
        """Number of tests at one offset."""
        return 1 if self.kind == "boolean" else len(self.values)


class Columns(Sequence):
    """All columns, in a few arrays no matter how many columns there are."""

    def __init__(
        self,
        kinds: np.ndarray,  # uint8, indices into `KINDS`
        sizes: np.ndarray,  # int64, number of categories or thresholds of each column
        thresholds: np.ndarray,  # of all numbers, one column after another
        categories: dict[int, np.ndarray],  # sorted values of each category, by column
    ):
        self.kinds = kinds
        self.sizes = sizes
        self.thresholds = thresholds
        self.categories = categories
        self.starts = np.append(0, np.cumsum(np.where(self.is_number, sizes, 0)))

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, j: int) -> Column:
        kind = KINDS[self.kinds[j]]
        if kind == "category":
            return Column(kind, self.categories[j])
        return Column(kind, self.thresholds[self.starts[j] : self.starts[j + 1]])

    @cached_property
    def is_number(self) -> np.ndarray:
        """Mask of the columns that are numbers."""
        return self.kinds == NUMBER

    @cached_property
    def is_category(self) -> np.ndarray:
        """Mask of the columns that are categories."""
        return self.kinds == CATEGORY

    @cached_property
    def n_tests(self) -> np.ndarray:
        """Number of tests of each column at one offset."""
        return np.where(self.kinds == BOOLEAN, 1, self.sizes)

    @cached_property
    def is_single(self) -> np.ndarray:
        """Mask of the columns that have a single test and are not categories."""
        return (self.n_tests == 1) & ~self.is_category

    @cached_property
    def only_thresholds(self) -> np.ndarray:
        """The threshold of each number with one test, 0 for booleans and all others."""
        only = np.zeros(len(self))
        chosen = self.is_single & self.is_number
        only[chosen] = self.thresholds[self.starts[:-1][chosen]]
        return only

    def n_negative(self) -> np.ndarray:
        """Return the number of thresholds below 0 of each number."""
        before = np.append(0, np.cumsum(self.thresholds < 0))
        return before[self.starts[1:]] - before[self.starts[:-1]]

    # Saved models

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a saved model."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return arrays | {f"categories.{j}": values for j, values in self.categories.items()}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray]) -> Columns:
        """Restore an object from its `state`."""
        kinds = arrays["kinds"]
        of_categories = np.flatnonzero(kinds == CATEGORY).tolist()
        categories = {j: arrays[f"categories.{j}"] for j in of_categories}
        columns = cls(*(arrays[name] for name in ARRAYS), categories)
        columns._check()
        return columns

    def _check(self) -> None:
        kinds, sizes, thresholds = self.kinds, self.sizes, self.thresholds
        require(kinds.ndim == 1 and kinds.dtype == np.uint8, "columns")
        require((kinds < len(KINDS)).all(), "columns")
        require(sizes.shape == kinds.shape and sizes.dtype == np.int64, "columns")
        require((sizes >= 0).all() and (sizes[kinds == BOOLEAN] == 0).all(), "columns")
        require(self.starts[-1] == len(thresholds), "columns")
        for j, values in self.categories.items():
            check_categories(values)
            require(len(values) == sizes[j], "categories")
        require(thresholds.ndim == 1 and thresholds.dtype == np.float64, "thresholds")
        require(np.isfinite(thresholds).all(), "thresholds")
        of_column = np.repeat(np.arange(len(self)), np.diff(self.starts))
        falls = thresholds[1:] <= thresholds[:-1]
        require(not (falls & (of_column[1:] == of_column[:-1])).any(), "thresholds")

    # Bins

    def bins_of(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Count the thresholds of its column that each value exceeds, by binary search."""
        first, end = self.starts[columns], self.starts[columns + 1]
        found = first
        step = 1 << int(np.diff(self.starts).max()).bit_length()
        while step := step >> 1:
            probe = np.minimum(found + step, end)
            found = np.where(values > self.thresholds[probe - 1], probe, found)
        return found - first


@dataclass(frozen=True)
class ColumnStatistics:
    """Columns of the training data, with statistics of their values."""

    columns: Columns
    # Fraction of the positions at which a list would hold each column; only meaningful for columns
    # with a single test.
    fractions: np.ndarray
    has_missing: np.ndarray


def learn_columns(
    partitions: Partitions, described: Description, max_bins: int, seed: int
) -> ColumnStatistics:
    """Learn categories, thresholds, density and missing values of all columns."""
    schema = described.schema
    if described.form == "symbols":
        symbols = schema.categories[0]
        sizes = np.array([len(symbols)], dtype=np.int64)
        columns = Columns(schema.kinds, sizes, np.zeros(0), {0: symbols})
        return ColumnStatistics(columns, np.ones(1), np.zeros(1, dtype=bool))
    if described.is_boolean:
        columns, fractions = _booleans(partitions, described)
        return ColumnStatistics(columns, fractions, np.zeros(len(columns), dtype=bool))
    no_categories = np.flatnonzero(schema.kinds != CATEGORY)
    sizes = np.zeros(schema.n_features, dtype=np.int64)
    sizes[no_categories], thresholds = learn_thresholds(
        partitions, described, no_categories, max_bins, seed
    )
    numbers = Columns(np.full(len(sizes), NUMBER, dtype=np.uint8), sizes, thresholds, {})
    columns = _with_kinds(numbers, schema.kinds, schema.categories)
    counts, missing = zip(*partitions.map(_count_listed, columns.only_thresholds), strict=True)
    fractions = np.sum(counts, axis=0) / described.n_positions
    return ColumnStatistics(columns, fractions, np.any(missing, axis=0))


def _with_kinds(numbers: Columns, kinds: np.ndarray, categories: dict[int, np.ndarray]) -> Columns:
    """Make columns of the given kinds; constant booleans become numbers without thresholds."""
    kinds = np.where((kinds == BOOLEAN) & (numbers.sizes == 0), NUMBER, kinds).astype(np.uint8)
    kept = np.repeat(kinds == NUMBER, numbers.sizes)
    sizes = np.where(kinds == NUMBER, numbers.sizes, 0)
    for j, values in categories.items():
        sizes[j] = len(values)
    return Columns(kinds, sizes, numbers.thresholds[kept], categories)


def columns_with_missing(sequences: Sequences) -> np.ndarray:
    """Mark the columns that have missing values."""
    found = np.zeros(sequences.n_features, dtype=bool)
    for _, _, piece in sequences.pieces():
        _mark_missing(piece, found)
    return found


def _mark_missing(piece: Any, found: np.ndarray) -> None:
    if piece.dtype.kind != "f":
        return
    if sparse.issparse(piece):
        found[piece.indices[np.isnan(piece.data)]] = True
    else:
        found |= np.isnan(piece).any(axis=0)


def _booleans(partitions: Partitions, described: Description) -> tuple[Columns, np.ndarray]:
    """Make boolean columns; those with constant values become numbers without thresholds."""
    counted = partitions.map(_count_listed, np.zeros(described.schema.n_features))
    fractions = np.sum([counts for counts, _ in counted], axis=0) / described.n_positions
    kinds = np.where((fractions > 0) & (fractions < 1), BOOLEAN, NUMBER).astype(np.uint8)
    return Columns(kinds, np.zeros(len(kinds), dtype=np.int64), np.zeros(0), {}), fractions


def _count_listed(sequences: Sequences, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the values above their column's threshold, or with a negative one; find missing ones.

    Zeros of sparse columns do not count as values.
    """
    counts, missing = np.zeros(sequences.n_features), np.zeros(sequences.n_features, dtype=bool)
    for _, _, piece in sequences.pieces():
        _mark_missing(piece, missing)
        if sparse.issparse(piece):
            coo = piece.tocoo()
            limits = thresholds[coo.col]
            listed = (coo.data > limits) | (limits < 0)
            counts += np.bincount(coo.col[listed], minlength=len(counts))
        elif piece.dtype.kind == "b":
            counts += piece.sum(axis=0)
        else:
            counts += ((piece > thresholds) | (thresholds < 0)).sum(axis=0)
    return counts, missing
