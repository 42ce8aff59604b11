"""Columns of the training data: their categories and thresholds, and what their values become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.inputs.schema import BOOLEAN, CATEGORY, KINDS, NUMBER
from treecrf.utils.model_file import check_categories, require
from treecrf.utils.scipy_sparse import sparse

if TYPE_CHECKING:
    from treecrf.inputs.sequences import Sequences

# Names of the first arrays of `Columns`, in the order of its constructor.
ARRAYS = ("kinds", "sizes", "thresholds")

# Bins hold at least this number of positions on average, unless a column has fewer bins than this.
MIN_POSITIONS_OF_BIN = 16
MIN_BINS = 16
# With ``max_bins="auto"``, the bins of a leaf hold at least this number of its positions on
# average, unless a column has fewer bins than the next number. Most nodes are nearly as small as
# leaves, and thresholds between fewer positions are noise, but each bin of a node is cleared,
# subtracted and searched. The first nodes of a tree have many more positions and find finer
# thresholds. On simulated data of 5,000 to 100,000 positions, 128 bins were as good as 255 and
# took 0.7 to 1.0 of the time of an iteration; 64 took 0.5 to 0.9, but lost where effects have
# sharp steps or narrow bands, and where values have long tails.
MIN_POSITIONS_OF_LEAF_BIN = 4
ENOUGH_BINS = 128
MAX_BINS = 255


@dataclass(frozen=True)
class Column:
    """A column with the categories or thresholds that its tests compare with."""

    kind: str  # one of `KINDS`
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))  # categories or thresholds
    # For each threshold a bound: no training value is closer to it.
    margins: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def n_tests(self) -> int:
        """Number of tests at one offset."""
        if self.kind == "boolean":
            return 1
        return len(self.values)


class Columns(Sequence):
    """All columns, in a few arrays no matter how many columns there are."""

    def __init__(
        self,
        kinds: np.ndarray,  # uint8, indices into `KINDS`
        sizes: np.ndarray,  # int64, number of categories or thresholds of each column
        thresholds: np.ndarray,  # of all numbers, one column after another
        categories: dict[int, np.ndarray],  # sorted values of each category, by column
        # float32, of all thresholds: no training value is closer to a threshold than its margin;
        # 0 where this is not known, as in models of earlier versions.
        margins: np.ndarray | None = None,
    ):
        self.kinds = kinds
        self.sizes = sizes
        self.thresholds = thresholds
        self.categories = categories
        self.margins = margins
        if margins is None:
            self.margins = np.zeros(len(thresholds), np.float32)
        self.is_number = kinds == NUMBER
        self.is_category = kinds == CATEGORY
        self.n_tests = np.where(kinds == BOOLEAN, 1, sizes)  # of each column at one offset
        # Columns with a single test that are not categories.
        self.is_single = (self.n_tests == 1) & ~self.is_category
        # First threshold of each column, and the number of all.
        self.starts = np.append(0, np.cumsum(np.where(self.is_number, sizes, 0)))

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, j: int) -> Column:
        kind = KINDS[self.kinds[j]]
        if kind == "category":
            return Column(kind, self.categories[j])
        own = slice(self.starts[j], self.starts[j + 1])
        return Column(kind, self.thresholds[own], self.margins[own])

    @cached_property
    def only_thresholds(self) -> np.ndarray:
        """The threshold of each number with one test, 0 for booleans and all others."""
        only = np.zeros(len(self.kinds))
        chosen = self.is_single & self.is_number
        only[chosen] = self.thresholds[self.starts[:-1][chosen]]
        return only

    # Saved models

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a saved model."""
        arrays = {name: getattr(self, name) for name in (*ARRAYS, "margins")}
        return arrays | {f"categories.{j}": values for j, values in self.categories.items()}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray]) -> Columns:
        """Restore an object from its `state`."""
        kinds = arrays["kinds"]
        categories = {
            j: arrays[f"categories.{j}"] for j in np.flatnonzero(kinds == CATEGORY).tolist()
        }
        margins = arrays.get("margins")
        columns = cls(*(arrays[name] for name in ARRAYS), categories, margins)
        columns._check()
        return columns

    def _check(self) -> None:
        kinds = self.kinds
        sizes = self.sizes
        thresholds = self.thresholds
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
        columns = np.repeat(np.arange(len(self)), np.diff(self.starts))
        falls = thresholds[1:] <= thresholds[:-1]
        require(not (falls & (columns[1:] == columns[:-1])).any(), "thresholds")
        require(self.margins.shape == thresholds.shape, "thresholds")
        require(self.margins.dtype == np.float32 and (self.margins >= 0).all(), "thresholds")

    # Margins

    def with_margins(self, margins_of_parts: Sequence[np.ndarray]) -> Columns:
        """Return the columns with the smallest of the margins in several parts of the data."""
        margins = np.minimum(np.min(margins_of_parts, axis=0), np.finfo(np.float32).max)
        margins = margins.astype(np.float32)
        return Columns(self.kinds, self.sizes, self.thresholds, self.categories, margins)

    # Bins

    def bins_of(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Count the thresholds of its column that each value exceeds, by binary search."""
        first = self.starts[columns]
        end = self.starts[columns + 1]
        above = first  # the thresholds before it are below the value
        step = 1 << int(np.diff(self.starts).max()).bit_length()
        while step := step >> 1:
            probe = np.minimum(above + step, end)
            above = np.where(values > self.thresholds[probe - 1], probe, above)
        return above - first


@dataclass(frozen=True)
class BinLimits:
    """Maximum numbers of bins of a number."""

    recurring: int = MAX_BINS  # of a column whose values recur
    max_leaf_nodes: int | None = None  # of the trees, if they limit the bins of other columns

    @classmethod
    def of(cls, max_bins: int | str, max_leaf_nodes: int | None = None) -> BinLimits:
        """Return the limits that follow from parameters; ``max_bins`` is a number or "auto"."""
        if max_bins == "auto":
            return cls(MAX_BINS, max_leaf_nodes)
        return cls(max_bins)

    def quantiles(self, n_positions: int) -> int:
        """Return the maximum number of bins of a column whose values seldom recur."""
        n_bins = min(self.recurring, max(MIN_BINS, n_positions // MIN_POSITIONS_OF_BIN))
        if self.max_leaf_nodes is None:
            return n_bins
        fitting = n_positions // (MIN_POSITIONS_OF_LEAF_BIN * self.max_leaf_nodes)
        return min(n_bins, max(ENOUGH_BINS, fitting))


def columns_with_missing(sequences: Sequences) -> np.ndarray:
    """Mark the columns that have missing values."""
    counts = np.zeros(sequences.n_features)
    for _, _, piece in sequences.pieces():
        counts += count_missing(piece)
    return counts > 0


def count_missing(piece: Any) -> np.ndarray | int:
    """Count the missing values of each column."""
    if piece.dtype.kind != "f":
        return 0
    if sparse.issparse(piece):
        return np.bincount(piece.indices[np.isnan(piece.data)], minlength=piece.shape[1])
    return np.isnan(piece).sum(axis=0)


def one_hot(table: Any, sizes: np.ndarray) -> sparse.csr_array:
    """Replace each category by one indicator column per value.

    A category holds the index of its value, counted from 1, and 0 for no value. ``sizes`` holds the
    number of values of each category, -1 for the other columns, which are copied. The indicators of
    a missing category (NaN) are all 0; other missing values stay NaN.
    """
    is_category = sizes >= 0
    widths = np.where(is_category, sizes, 1)
    firsts = np.cumsum(widths) - widths
    # The values other than 0: the first of each row, and the column and value of each.
    if sparse.issparse(table):
        table = sparse.csr_array(table, copy=True)
        table.sum_duplicates()
        starts = table.indptr
        columns = table.indices
        data = table.data
    else:
        rows, columns = np.nonzero(table)
        data = table[rows, columns]
        starts = np.zeros(len(table) + 1, dtype=np.int32)
        np.cumsum(np.bincount(rows, minlength=len(table)), out=starts[1:])
    are_codes = is_category[columns]
    known = ~(are_codes & np.isnan(data))
    if not known.all():
        starts = np.append(0, np.cumsum(known))[starts]
        columns = columns[known]
        data = data[known]
        are_codes = are_codes[known]
    indicators = firsts[columns]
    indicators[are_codes] += data[are_codes].astype(np.intp) - 1
    data[are_codes] = 1
    shape = (table.shape[0], int(widths.sum()))
    return sparse.csr_array((data, indicators.astype(np.int32), starts), shape=shape)
