"""Imputation of missing values, and indicators of where they were missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.encoding.columns import columns_with_missing, count_missing
from treecrf.inputs.schema import BOOLEAN, InputSchema
from treecrf.inputs.symbols import as_category
from treecrf.utils.exact import from_integers, integer_parts
from treecrf.utils.model_file import check_indices, require
from treecrf.utils.scipy_sparse import sparse

if TYPE_CHECKING:
    from treecrf.inputs.sequences import Description, Sequences
    from treecrf.utils.partitions import Partitions

IMPUTE = "impute"
INDICATOR = "indicator"
FILLED = (IMPUTE, INDICATOR)
# Maximum number of values in sums of `integer_parts` in 64 bits.
MAX_VALUES = 1 << 31


@dataclass(frozen=True)
class Imputation:
    """Values that replace missing ones, and indicator columns that mark them."""

    # What replaces missing values, (n_features,); for a category the index of its value, counted
    # from 1, or 0 for no value.
    values: np.ndarray
    # Columns with an indicator: a boolean column, after all others, that is true where the value is
    # missing.
    indicator_columns: np.ndarray
    symbols: np.ndarray | None  # of the training data, if sequences consist of symbols

    @property
    def sources(self) -> np.ndarray:
        """Column of the input that each column comes from; int64 array (n_columns,)."""
        return np.append(np.arange(len(self.values)), self.indicator_columns).astype(np.int64)

    def kinds(self, kinds: np.ndarray) -> np.ndarray:
        """Return the kinds of all columns, given the kinds of the input's."""
        return np.append(kinds, np.full(len(self.indicator_columns), BOOLEAN)).astype(np.uint8)

    def described(self, base: Description) -> Description:
        """Describe sequences without missing values, given the description of those with them."""
        kinds = self.kinds(base.schema.kinds)
        schema = InputSchema("table", len(self.sources), None, kinds, base.schema.categories)
        return replace(base, schema=schema, form=_form_of_table(base.form), is_boolean=False)

    def fill(self, piece: Any) -> Any:
        """Return a table without missing values, followed by the indicator columns."""
        if piece.ndim == 1:
            piece = as_category(piece, self.symbols)
        if piece.dtype.kind != "f" and not len(self.indicator_columns):
            return piece
        if not sparse.issparse(piece):
            missing = np.isnan(piece)
            filled = np.where(missing, self.values, piece)
            if not len(self.indicator_columns):
                return filled
            return np.hstack([filled, missing[:, self.indicator_columns]])
        if not len(self.indicator_columns) and not np.isnan(piece.data).any():
            filled = piece.astype(np.float64)
            filled.eliminate_zeros()
            return filled
        entries = piece.tocoo()
        missing = np.isnan(entries.data)
        data = np.where(missing, self.values[entries.col], entries.data)
        filled = sparse.csr_array((data, (entries.row, entries.col)), shape=piece.shape)
        filled.eliminate_zeros()
        where = (entries.row[missing], entries.col[missing])
        marked = sparse.csc_array((np.ones(missing.sum()), where), shape=piece.shape)
        return sparse.hstack([filled, marked[:, self.indicator_columns]], format="csr")

    # Saved models

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a saved model."""
        return {"values": self.values, "indicator_columns": self.indicator_columns}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], symbols: np.ndarray | None) -> Imputation:
        """Restore an object from its `state`; the symbols are saved elsewhere."""
        return cls(arrays["values"], arrays["indicator_columns"], symbols)

    def check(self, n_features: int) -> None:
        """Raise ValueError unless there is a number for each feature."""
        require(self.values.shape == (n_features,), "missing values")
        require(self.values.dtype == np.float64, "missing values")
        require(np.isfinite(self.values).all(), "missing values")
        check_indices(self.indicator_columns, n_features, "missing values")


def _form_of_table(form: str) -> str:
    """Return the form of sequences with imputed values: symbols become a table."""
    if form == "sparse":
        return "sparse"
    return "dense"


def imputed(base: Sequences, imputation: Imputation, schema: InputSchema) -> Sequences:
    """Return sequences with imputed values, followed by the indicator columns."""
    from treecrf.inputs.sequences import ConvertedSequences

    return ConvertedSequences(
        form=_form_of_table(base.form),
        offsets=base.offsets,
        n_features=len(imputation.sources),
        dtype=np.dtype(np.float64),
        kinds=imputation.kinds(schema.kinds),
        categories=schema.categories,
        base=base,
        convert=imputation.fill,
    )


def learn_imputation(partitions: Partitions, schema: InputSchema, method: str) -> Imputation:
    """Learn the replacements of missing values.

    They are the most frequent values, and the means of numbers. With the method ``"indicator"``
    they are 0, and each column with missing values has an indicator.
    """
    symbols = None
    if schema.form == "symbols":
        symbols = schema.categories[0]
    if method != IMPUTE:
        marked = np.flatnonzero(np.any(partitions.map(columns_with_missing), axis=0))
        return Imputation(np.zeros(schema.n_features), marked, symbols)
    means = means_of(partitions)
    values = np.where(schema.kinds == BOOLEAN, means > 0.5, means)
    if schema.categories:
        counts_of_parts = partitions.map(_counts_of, schema.categories)
        for j in schema.categories:
            values[j] = sum(counts[j] for counts in counts_of_parts).argmax()
    return Imputation(values, np.zeros(0, dtype=np.int64), symbols)


def _counts_of(sequences: Sequences, categories: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Count the values of each category; index 0 counts absent values."""
    counts = {j: np.zeros(len(values) + 1, dtype=np.int64) for j, values in categories.items()}
    for _, _, piece in sequences.pieces():
        if piece.ndim == 1:
            piece = as_category(piece, categories[0])
        for j, column_counts in counts.items():
            column = piece[:, [j]]
            if sparse.issparse(column):
                column = column.toarray()
            values = column.ravel()
            present = values[~np.isnan(values)].astype(np.int64)
            column_counts += np.bincount(present, minlength=len(column_counts))
    return counts


def means_of(partitions: Partitions) -> np.ndarray:
    """Compute the mean of the values of each column that are not missing.

    It is 0 for symbols, and for columns without values.
    """
    exponents = np.frexp(np.max(partitions.map(_largest_of), axis=0))[1]
    highs, lows, n_present = zip(*partitions.map(_sums_of, exponents), strict=True)
    n_values = np.sum(n_present, axis=0)
    # Sums of more values may not fit 64 bits.
    dtype = object if n_values.max() >= MAX_VALUES else np.int64
    high = np.sum(highs, axis=0, dtype=dtype)
    low = np.sum(lows, axis=0, dtype=dtype)
    # The sum of large values may exceed the range of float64; their mean does not.
    means = from_integers(high, low) / np.maximum(n_values, 1)
    return np.ldexp(means, exponents)


def _sums_of(
    sequences: Sequences, exponents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum the integer parts of the values of each column, and count the values."""
    sums = np.zeros((2, sequences.n_features), dtype=np.int64)
    n_present = 0
    for piece in _number_pieces(sequences):
        if sparse.issparse(piece):
            table = _missing_to_zero(piece)
            values = np.ldexp(table.data.astype(np.float64), -exponents[table.indices])
            high, low = integer_parts(values)
            np.add.at(sums[0], table.indices, high)
            np.add.at(sums[1], table.indices, low)
        elif piece.dtype.kind == "b":
            ones = np.ldexp(1.0, -exponents)
            sums += piece.sum(axis=0) * np.stack(integer_parts(ones))
        else:
            table = _missing_to_zero(piece)
            high, low = integer_parts(np.ldexp(table.astype(np.float64), -exponents))
            sums[0] += high.sum(axis=0)
            sums[1] += low.sum(axis=0)
        n_present = n_present + piece.shape[0] - count_missing(piece)
    return sums[0], sums[1], np.broadcast_to(n_present, sequences.n_features)


def exponents_of(sequences: Sequences) -> np.ndarray:
    """Find the smallest powers of 2 above the absolute values of each column; int array."""
    return np.frexp(_largest_of(sequences))[1]


def _largest_of(sequences: Sequences) -> np.ndarray:
    """Find the largest absolute value of each column; 0 for symbols."""
    largest = np.zeros(sequences.n_features)
    for piece in _number_pieces(sequences):
        if piece.dtype.kind == "b" and not sparse.issparse(piece):
            np.maximum(largest, piece.any(axis=0), out=largest)
            continue
        highest = abs(_missing_to_zero(piece).astype(np.float64)).max(axis=0)
        if sparse.issparse(highest):
            highest = highest.toarray()
        np.maximum(largest, highest.ravel(), out=largest)
    return largest


def _number_pieces(sequences: Sequences) -> Iterator[Any]:
    """Yield the pieces of sequences, but none of symbols, which are not numbers."""
    if sequences.form != "symbols":
        for _, _, piece in sequences.pieces():
            yield piece


def _missing_to_zero(table: Any) -> Any:
    if table.dtype.kind != "f":
        return table
    if not sparse.issparse(table):
        return np.nan_to_num(table, nan=0.0)
    return sparse.csr_array((np.nan_to_num(table.data), table.indices, table.indptr), table.shape)
