"""Standardization of numbers: the penalty of a linear model does not depend on their units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.imputation import means_of
from treecrf.inputs.schema import NUMBER
from treecrf.inputs.sequences import Sequences
from treecrf.utils import checks


@dataclass(frozen=True)
class Standardization:
    """Shift and scale of columns.

    Numbers of tables have a mean of 0 and a standard deviation of 1 to 2 afterwards. Sparse columns
    are not shifted, and their stored values have a mean square of 1 to 4. Categories and columns
    of 0 and 1 stay as they are.

    Attributes
    ----------
    shifts : float64 array (n_columns,)
    exponents : int64 array (n_columns,)
        The scales are these powers of 2, which round no number.
    """

    shifts: np.ndarray
    exponents: np.ndarray

    @classmethod
    def learn(cls, sequences: Sequences) -> Standardization:
        """Learn shifts and scales from training data; they do not depend on its order."""
        n = sequences.n_features
        if sequences.form == "symbols":
            return cls(np.zeros(n), np.zeros(n, dtype=np.int64))
        is_sparse = any(sparse.issparse(piece) for _, _, piece in sequences.pieces())
        means = np.zeros(n) if is_sparse else means_of(sequences)
        sums, counts, is_binary = np.zeros(n), np.zeros(n), np.ones(n, dtype=bool)
        largest = np.zeros(n)
        for values, columns in _entries(sequences):
            np.maximum.at(largest, columns, np.abs(values / 2 - means[columns] / 2))
            np.logical_and.at(is_binary, columns, (values == 0) | (values == 1))
        unit = np.frexp(largest)[1]
        for values, columns in _entries(sequences):
            deviations = np.ldexp(values / 2 - means[columns] / 2, -unit[columns])
            np.add.at(sums, columns, deviations**2)
            np.add.at(counts, columns, 1)
        is_free = (sequences.schema.kinds == NUMBER) & ~is_binary & (sums > 0)
        logarithms = np.log2(sums / np.maximum(counts, 1), where=is_free, out=np.zeros(n))
        # Sums depend on their order in the last digits; no simple data are near 2**-0.1.
        exponents = np.where(is_free, np.floor(logarithms / 2 + 0.1) + unit + 1, 0)
        return cls(np.where(is_free, means, 0.0), exponents.astype(np.int64))

    def apply(self, table: Any) -> Any:
        """Standardize the columns of a table; columns that follow them stay as they are."""
        n = len(self.shifts)
        if not sparse.issparse(table):
            with np.errstate(over="ignore"):
                table[:, :n] = np.ldexp(table[:, :n] - self.shifts, -self.exponents)
            return table
        rows = sparse.csr_array(table, copy=True)
        exponents = np.append(self.exponents, np.zeros(rows.shape[1] - n, dtype=np.int64))
        rows.data = np.ldexp(rows.data, -exponents[rows.indices])
        return rows

    def check(self, n_columns: int) -> None:
        """Raise ValueError if this does not fit the columns."""
        checks.require(self.shifts.shape == self.exponents.shape == (n_columns,), "scales")
        checks.require(np.isfinite(self.shifts).all(), "scales")
        checks.require((np.abs(self.exponents) <= 1100).all(), "scales")


def _entries(sequences: Sequences) -> Any:
    """Yield values that are not missing, and their columns; those of tables include zeros."""
    for _, _, piece in sequences.pieces():
        if sparse.issparse(piece):
            entries = piece.tocoo()
            values, columns = entries.data.astype(np.float64), entries.col
        else:
            values = piece.astype(np.float64).ravel()
            columns = np.tile(np.arange(piece.shape[1]), len(piece))
        present = ~np.isnan(values)
        yield values[present], columns[present]
