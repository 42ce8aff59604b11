"""Checked sequences, which can be read in pieces, and their schema: columns and categories."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np

from treecrf.inputs.offsets import (
    offsets_of,
    positions_in_sequences,
    reversed_positions,
    runs,
    split_sequences,
)
from treecrf.inputs.schema import BOOLEAN, CATEGORY, KINDS, NUMBER, TYPES, InputSchema
from treecrf.inputs.symbols import as_category
from treecrf.inputs.values import characters, floats_of_codes
from treecrf.utils.scipy_sparse import sparse

# Approximate size of the pieces that are read at a time: few NumPy calls for many short sequences,
# and little memory in addition to the input.
PIECE_BYTES = 1 << 21
SPARSE_ROW_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Checked sequences, one after another; subclasses store the values or read them on demand.

    NaN marks a missing value. In a column of categories, 0 stands for no category, and for one that
    did not occur in training: both fail every test.
    """

    form: str  # "symbols", "dense" or "sparse": 1-D arrays, 2-D arrays or CSR matrices
    offsets: np.ndarray  # first position of each sequence, and the number of positions
    n_features: int  # number of columns; 1 for symbols
    dtype: np.dtype  # of all values; of kind b, i, u or f for tables, i or U for symbols
    names: tuple[str, ...] | None = None
    # Indices into `KINDS`, if columns differ in kind. Pieces hold floats: numbers, booleans as 0
    # and 1, and the ranks of categories among the sorted values of a column, from 1.
    kinds: np.ndarray | None = None
    categories: dict[int, np.ndarray] = field(default_factory=dict)  # the sorted values
    are_symbols: bool = False  # a table of one category, symbols of which some are missing
    init_scores: np.ndarray | None = None  # (n_positions, n_labels), to which a model adds its own

    @abstractmethod
    def rows(self, first: int, last: int) -> Any:
        """Return the concatenated values of sequences ``first`` to ``last - 1``."""

    @abstractmethod
    def _taken(self, indices: np.ndarray) -> dict[str, Any]:
        """Return the values of the selected sequences, by the names of fields."""

    @abstractmethod
    def _reversed(self) -> dict[str, Any]:
        """Return the values of the sequences in reverse order, by the names of fields."""

    def take(self, indices: np.ndarray) -> Sequences:
        """Return the selected sequences, in the order of the indices."""
        offsets = offsets_of(np.diff(self.offsets)[indices])
        scores = self.init_scores
        if scores is not None:
            parts = split_sequences(scores, self.offsets)
            scores = np.concatenate([parts[i] for i in indices])
        return replace(self, offsets=offsets, init_scores=scores, **self._taken(indices))

    def reversed(self) -> Sequences:
        """Return the same sequences, each in reverse order."""
        scores = self.init_scores
        if scores is not None:
            scores = scores[reversed_positions(self.offsets)]
        return replace(self, init_scores=scores, **self._reversed())

    @cached_property
    def schema(self) -> InputSchema:
        """Schema that other sequences need to be compatible with these."""
        is_symbols = self.form == "symbols" or self.are_symbols
        if is_symbols:
            categories = {0: self.symbols()}
        else:
            categories = self.categories
        form = "symbols" if is_symbols else "table"
        absent_is_missing = self.form == "dense" and self.names is not None
        return InputSchema(
            form, self.n_features, self.names, self.column_kinds, categories, absent_is_missing
        )

    def symbols(self) -> np.ndarray:
        """Return the distinct symbols, sorted."""
        if self.are_symbols:
            return self.categories[0]
        return np.unique(np.concatenate([np.unique(piece) for _, _, piece in self.pieces()]))

    @property
    def column_kinds(self) -> np.ndarray:
        """The kind of each column, determined by ``dtype`` if ``kinds`` is None."""
        if self.kinds is not None:
            return self.kinds
        plain = BOOLEAN if self.dtype.kind == "b" else NUMBER
        kind = CATEGORY if self.form == "symbols" else plain
        return np.full(self.n_features, kind, dtype=np.uint8)

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    @property
    def n_positions(self) -> int:
        """Number of positions in all sequences together."""
        return int(self.offsets[-1])

    @property
    def longest(self) -> int:
        """Number of positions of the longest sequence."""
        return int(np.diff(self.offsets).max())

    def pieces(self) -> Iterator[tuple[int, int, Any]]:
        """Yield runs of whole sequences: first position, position after the last, and values."""
        row_bytes = max(1, self.n_features * self.dtype.itemsize)
        if self.form != "dense":
            row_bytes = min(row_bytes, SPARSE_ROW_BYTES)
        for first, last in runs(self.offsets, max(1, PIECE_BYTES // row_bytes)):
            start = int(self.offsets[first])
            stop = int(self.offsets[last])
            rows = self.rows(first, last)
            # Compiled code relies on it, and objects of the user may have changed meanwhile.
            if rows.shape[0] != stop - start:
                raise RuntimeError("a sequence changed size while it was read")
            yield start, stop, rows

    def without_empty(self) -> Sequences:
        """Drop sequences without positions, which chains and encoders do not have."""
        present = np.diff(self.offsets) > 0
        if present.all():
            return self
        return self.take(np.flatnonzero(present))

    def with_used_categories(self) -> Sequences:
        """Drop categories that do not occur."""
        if not self.categories:
            return self
        used = {j: np.zeros(len(values) + 1, bool) for j, values in self.categories.items()}
        for _, _, piece in self.pieces():
            table = piece
            if sparse.issparse(piece):
                table = sparse.csc_array(piece)
            for j, is_used in used.items():
                codes = _column(table, j)
                is_used[codes[~np.isnan(codes)].astype(np.intp)] = True
        categories = {j: values[used[j][1:]] for j, values in self.categories.items()}
        return self.with_categories(categories)

    def with_categories(self, categories: dict[int, np.ndarray]) -> Sequences:
        """Recode sequences by the given categories; all others become 0."""
        tables = {}
        for j, values in self.categories.items():
            if values is not categories[j] and not np.array_equal(values, categories[j]):
                # 0, followed by the rank of each value among the known ones, from 1.
                tables[j] = np.zeros(len(values) + 1)
                known = categories[j]
                if known.dtype.kind == values.dtype.kind:
                    tables[j][1:] = as_category(values, known)[:, 0]
        if not tables:
            return self
        return ConvertedSequences(
            **_description(self, categories),
            base=self if self.init_scores is None else replace(self, init_scores=None),
            convert=partial(_recoded, tables),
        )

    def for_model(self, schema: InputSchema) -> Sequences:
        """Recode sequences by the categories of a model; errors if they do not fit its schema."""
        schema.check_form("symbols" if self.are_symbols else self.form)
        if self.form == "symbols":
            schema.check_symbols(self.dtype)
            return self
        schema.check_width(self.n_features)
        if self.kinds is None and not schema.categories:
            return self
        kinds = self.column_kinds
        for j in np.flatnonzero((kinds == CATEGORY) != (schema.kinds == CATEGORY)):
            before = KINDS[schema.kinds[j]]
            now = KINDS[kinds[j]]
            raise TypeError(f"{schema.column(j)} was a {before} in training, but is a {now} in X")
        for j, values in self.categories.items():
            known = schema.categories[j]
            if len(values) and len(known) and values.dtype.kind != known.dtype.kind:
                raise TypeError(
                    f"{schema.column(j)} held {TYPES[known.dtype.kind]} in training, but holds "
                    f"{TYPES[values.dtype.kind]} in X"
                )
        return self.with_categories(schema.categories)


@dataclass(frozen=True)
class Description:
    """Schema, form and size of sequences."""

    schema: InputSchema
    form: str  # "symbols", "dense" or "sparse", as of `Sequences`
    is_boolean: bool  # whether they hold booleans only
    n_sequences: int
    n_positions: int
    longest: int  # number of positions of the longest sequence

    @classmethod
    def of(cls, sequences: Sequences, **others: Any) -> Self:
        """Describe sequences; subclasses have other fields."""
        is_boolean = sequences.kinds is None and sequences.dtype.kind == "b"
        sizes = sequences.n_sequences, sequences.n_positions, sequences.longest
        return cls(sequences.schema, sequences.form, is_boolean, *sizes, **others)


def _description(sequences: Sequences, categories: dict[int, np.ndarray]) -> dict:
    names = Sequences.__dataclass_fields__
    return {name: getattr(sequences, name) for name in names} | {"categories": categories}


def _column(table: Any, j: int) -> np.ndarray:
    """Return a view of a column of an array, or of its stored values in a CSC matrix."""
    if sparse.issparse(table):
        return table.data[table.indptr[j] : table.indptr[j + 1]]
    return table[:, j]


@dataclass(frozen=True, kw_only=True)
class ListedSequences(Sequences):
    """An item for each sequence: an array or CSR matrix, or a string or list of symbols."""

    items: list

    def rows(self, first: int, last: int) -> Any:
        """Return the concatenated values of some sequences."""
        items = self.items[first:last]
        if self.form == "sparse":
            if len(items) == 1:
                return items[0]
            return sparse.vstack(items, format="csr")
        if self.form == "symbols" and isinstance(items[0], str):
            return characters("".join(items))
        if isinstance(items[0], (list, tuple)):
            symbols = list(chain.from_iterable(items))
            joined = "".join(symbols)
            are_characters = len(joined) == len(symbols) and all(symbols)
            if are_characters:
                return characters(joined)
            return np.array(symbols, dtype=np.str_)
        if len(items) == 1:
            return items[0]
        return np.concatenate(items)

    def _taken(self, indices: np.ndarray) -> dict[str, Any]:
        return {"items": [self.items[i] for i in indices]}

    def _reversed(self) -> dict[str, Any]:
        return {"items": [item[::-1] for item in self.items]}


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """A table stored as columns of numbers, booleans, or codes; its rows are read as floats."""

    columns: Iterable[np.ndarray]  # arrays, or a file that yields them each time it is iterated
    is_category: np.ndarray  # bool; which columns hold codes

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        parts = [column[rows] for column in self.columns]
        table = np.empty((len(parts[0]), len(parts)), order="F")
        for j, part in enumerate(parts):
            table[:, j] = part
            if self.is_category[j]:
                table[:, j] = floats_of_codes(part)
        return table


@dataclass(frozen=True, kw_only=True)
class LongSequences(Sequences):
    """Sequences that are rows of one long table."""

    table: Any  # a 1-D or 2-D array, a CSR matrix or a `ColumnTable`
    starts: np.ndarray  # the first row of each sequence
    backward: bool = False  # whether sequences are read in reverse order

    @classmethod
    def of(cls, table: Any, offsets: np.ndarray, **description: Any) -> LongSequences:
        """Make contiguous sequences of a table."""
        return cls(table=table, starts=offsets[:-1], offsets=offsets, **description)

    def rows(self, first: int, last: int) -> Any:
        """Return the concatenated values of some sequences."""
        starts = self.starts[first:last]
        lengths = np.diff(self.offsets[first : last + 1])
        ends = starts + lengths
        if not self.backward and np.array_equal(starts[1:], ends[:-1]):
            # Adjacent rows of an array or a CSR matrix are views.
            table = self.table
            first = int(starts[0])
            last = int(ends[-1])
            if not sparse.issparse(table):
                return table[first:last]
            entries = slice(table.indptr[first], table.indptr[last])
            indptr = table.indptr[first : last + 1] - table.indptr[first]
            parts = table.data[entries], table.indices[entries], indptr
            return sparse.csr_array(parts, shape=(last - first, table.shape[1]))
        positions = positions_in_sequences(offsets_of(lengths))
        if self.backward:
            return self.table[np.repeat(ends - 1, lengths) - positions]
        return self.table[np.repeat(starts, lengths) + positions]

    def _taken(self, indices: np.ndarray) -> dict[str, Any]:
        return {"starts": self.starts[indices]}

    def _reversed(self) -> dict[str, Any]:
        return {"backward": not self.backward}


@dataclass(frozen=True, kw_only=True)
class ConvertedSequences(Sequences):
    """Sequences whose values are converted while they are read."""

    base: Sequences
    convert: Callable[[Any], Any]  # of concatenated values

    def rows(self, first: int, last: int) -> Any:
        """Return the concatenated values of some sequences."""
        return self.convert(self.base.rows(first, last))

    def _taken(self, indices: np.ndarray) -> dict[str, Any]:
        return {"base": self.base.take(indices)}

    def _reversed(self) -> dict[str, Any]:
        return {"base": self.base.reversed()}


def _recoded(tables: dict[int, np.ndarray], piece: Any) -> Any:
    """Replace the codes in some columns, given the new code for each old one."""
    if sparse.issparse(piece):
        table = sparse.csc_array(piece)
    else:
        table = piece.copy()
    for j, codes in tables.items():
        values = _column(table, j)
        known = ~np.isnan(values)
        values[known] = codes[values[known].astype(np.intp)]
    if not sparse.issparse(table):
        return table
    table.eliminate_zeros()
    return sparse.csr_array(table)


def cut(sequences: Sequences, offsets: np.ndarray) -> Sequences:
    """Cut sequences into shorter ones; their offsets include the offsets of the sequences."""
    bounds = np.searchsorted(offsets, sequences.offsets).tolist()
    items = []
    for item, (first, last) in zip(_items(sequences), pairwise(bounds), strict=True):
        ends = (offsets[first : last + 1] - offsets[first]).tolist()
        items += [item[start:stop] for start, stop in pairwise(ends)]
    description = _description(sequences, sequences.categories) | {"offsets": offsets}
    return ListedSequences(**description, items=items)


def _items(sequences: Sequences) -> list:
    """Return the values of each sequence."""
    return [sequences.rows(i, i + 1) for i in range(sequences.n_sequences)]
