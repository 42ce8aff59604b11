"""Standardization of the numbers that linear models multiply by weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.encoding.imputation import exponents_of
from treecrf.inputs.schema import NUMBER
from treecrf.utils.model_file import require
from treecrf.utils.scipy_sparse import sparse

if TYPE_CHECKING:
    from treecrf.inputs.sequences import Sequences

# Logarithms of standard deviations are rounded down after this is added to them. Simple data have
# standard deviations such as 1 or 1/2, whose logarithms are integers. The last digits of a sum
# depend on the order of the data: without a margin, so would the rounded logarithms.
MARGIN = 0.1
# Exponents of saved models that are larger than the range of float64 are not valid.
MAX_EXPONENT = 1100


@dataclass(frozen=True)
class Standardization:
    """Shift and scale of columns: the penalty does not depend on the units of numbers.

    Numbers of tables have a mean of 0 and a standard deviation of 1 to 2 afterwards. Sparse columns
    are not shifted, and their stored values have a mean square of 1 to 4. Categories and columns
    of 0 and 1 stay as they are.
    """

    # What is subtracted from each column; float64.
    shifts: np.ndarray
    # The scale of each column is a power of 2 with this exponent, which rounds no number; int64.
    exponents: np.ndarray

    @classmethod
    def learn(cls, sequences: Sequences, means: np.ndarray) -> Standardization:
        """Learn the scales from training data with these means; they do not depend on its order."""
        n = sequences.n_features
        is_sparse = sequences.form == "sparse"
        units = exponents_of(sequences)
        sums = ColumnSums.zeros(n)
        for _, _, piece in sequences.pieces():
            if is_sparse:
                sums.add_sparse(piece, units)
            else:
                sums.add_table(piece, means, units)
        is_number = sequences.schema.kinds == NUMBER
        is_scaled = is_number & (sums.n_others > 0) & (sums.squares > 0)
        variances = sums.squares / np.maximum(sums.n_values, 1)
        logarithms = np.log2(variances, where=is_scaled, out=np.zeros(n))
        exponents = np.where(is_scaled, np.floor(logarithms / 2 + MARGIN) + units, 0)
        shifts = np.where(is_scaled & (not is_sparse), means, 0.0)
        return cls(shifts, exponents.astype(np.int64))

    def apply(self, table: Any) -> Any:
        """Standardize the columns of a table; columns that follow them stay as they are."""
        n = len(self.shifts)
        if not sparse.issparse(table):
            standardized = table.copy()
            with np.errstate(over="ignore"):
                standardized[:, :n] = np.ldexp(table[:, :n] - self.shifts, -self.exponents)
            return standardized
        rows = sparse.csr_array(table, copy=True)
        exponents = np.append(self.exponents, np.zeros(rows.shape[1] - n, dtype=np.int64))
        rows.data = np.ldexp(rows.data, -exponents[rows.indices])
        return rows

    def check(self, n_columns: int) -> None:
        """Raise ValueError if this does not fit the columns."""
        require(self.shifts.shape == self.exponents.shape == (n_columns,), "scales")
        are_valid = self.shifts.dtype == np.float64 and np.isfinite(self.shifts).all()
        require(are_valid and self.exponents.dtype == np.int64, "scales")
        require((np.abs(self.exponents) <= MAX_EXPONENT).all(), "scales")


@dataclass(frozen=True)
class ColumnSums:
    """Sums over the values of each column that are not missing."""

    # Sum of squared deviations from the mean, or of squares if the column is sparse. The values are
    # divided by a power of 2 above all of them, so that no square overflows.
    squares: np.ndarray
    # Number of values; of a sparse column, only those that are stored.
    n_values: np.ndarray
    # Number of values other than 0 and 1.
    n_others: np.ndarray

    @classmethod
    def zeros(cls, n_columns: int) -> ColumnSums:
        """Start with no values."""
        return cls(*np.zeros((3, n_columns)))

    def add_table(self, table: np.ndarray, means: np.ndarray, units: np.ndarray) -> None:
        """Add the rows of a table; ``units`` are the exponents of the powers of 2."""
        table = table.astype(np.float64)
        present = ~np.isnan(table)
        deviations = np.ldexp(table, -units) - np.ldexp(means, -units)
        squares = np.square(deviations, where=present, out=np.zeros(table.shape))
        is_other = present & (table != 0) & (table != 1)
        self._add(squares.sum(axis=0), present.sum(axis=0), is_other.sum(axis=0))

    def add_sparse(self, table: Any, units: np.ndarray) -> None:
        """Add the stored values of a sparse table."""
        entries = table.tocoo()
        present = ~np.isnan(entries.data)
        values = entries.data[present].astype(np.float64)
        columns = entries.col[present]
        n = len(units)
        squares = np.ldexp(values, -units[columns]) ** 2
        is_other = (values != 0) & (values != 1)
        self._add(
            np.bincount(columns, squares, minlength=n),
            np.bincount(columns, minlength=n),
            np.bincount(columns, is_other, minlength=n),
        )

    def _add(self, squares: np.ndarray, n_values: np.ndarray, n_others: np.ndarray) -> None:
        self.squares[:] += squares
        self.n_values[:] += n_values
        self.n_others[:] += n_others
