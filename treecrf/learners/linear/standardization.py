"""Standardization of numbers: the penalty of a linear model does not depend on their units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.encoding.imputation import exponents_of
from treecrf.inputs.schema import NUMBER
from treecrf.inputs.sequences import Sequences
from treecrf.utils import checks


@dataclass(frozen=True)
class Standardization:
    """Shift and scale of columns.

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
        if sequences.form == "symbols":
            return cls(np.zeros(n), np.zeros(n, dtype=np.int64))
        is_sparse = any(sparse.issparse(piece) for _, _, piece in sequences.pieces())
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
