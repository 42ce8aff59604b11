"""Encoding of sequences into the rows that trees read.

A column is a boolean, a category or a number. Its tests are ``x``, ``x is category`` and
``x > threshold``, at each offset of the window. In boundary rows every test is false except the
boundary tests, one per offset, which are true there.

`treecrf.encoding.column_layout` defines how columns are stored, and `treecrf.encoding.encoded`
assigns positions to rows, which are written piece by piece.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.encoding._codes import ColumnCodes, write_dense, write_sparse
from treecrf.encoding.column_layout import CODES, ColumnLayout, make_layout
from treecrf.encoding.columns import MAX_BINS, BinLimits, Columns
from treecrf.encoding.encoded import (
    EncodedSequences,
    RowLayout,
    Windowed,
    check_windows,
    window_within,
)
from treecrf.encoding.imputation import FILLED, Imputation, imputed, learn_imputation
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.symbols import as_category
from treecrf.utils.model_file import Section, as_section, require
from treecrf.utils.scipy_sparse import sparse
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.encoding.sequence_keys import Content
    from treecrf.inputs.sequences import Description, Sequences
    from treecrf.utils.partitions import Partitions

# How missing values are handled: by the trees, or by imputation.
METHODS = ("weighting", "weighting-only", "surrogate", *FILLED)

# Encoding at least this number of positions may take megabytes in passing.
MANY_POSITIONS = 1 << 16
MAX_ROW = (1 << 31) - 1

# Where columns come from.
INPUT = "input"
INDICATOR_COLUMN = "indicator"
DERIVED = "derived"

# Arrays that all pieces are written to: codes, bits, and which columns have missing values.
Target = tuple[np.ndarray, np.ndarray, np.ndarray]
# The first position of a piece, how many ids each of its rows lists, and the ids.
PieceLists = tuple[int, np.ndarray, np.ndarray]


class Encoder(Windowed):
    """Encoder of sequences, which learns their columns from the training data."""

    columns: Columns  # categories and thresholds of each column
    layout: ColumnLayout  # where each column is stored in a row
    form: str  # "symbols" or "table"
    names: tuple[str, ...] | None  # of the features; None if they have no names
    imputation: Imputation | None  # None if the trees handle missing values
    n_features: int  # of the input
    schema: InputSchema  # of the training data, which all other data must match
    has_symbol_codes: bool  # whether the first code column holds symbols; every position has one

    # Number of trailing columns derived in training; their tests read the current position only.
    n_derived = 0

    def __init__(
        self,
        max_window: tuple[int, int],
        max_bins: int | str = MAX_BINS,
        missing: str = METHODS[0],
        max_leaf_nodes: int | None = None,  # of the trees, on which "auto" bins depend
    ):
        self.max_window = max_window  # positions to the left and to the right that tests may use
        self.bin_limits = BinLimits.of(max_bins, max_leaf_nodes)
        self.missing = missing
        # Whether trees test that a value is missing, of columns that lack some in training.
        self.tests_missing = missing != "weighting-only"

    def fit(self, sequences: Sequences, seed: int = 0) -> Encoder:
        """Learn categories and thresholds, and choose the storage of each column."""
        from treecrf.inputs.sequences import Description
        from treecrf.utils.partitions import InMemory

        return self.fit_parts(InMemory(sequences), Description.of(sequences), seed)

    def fit_parts(
        self,
        partitions: Partitions,
        described: Description,
        seed: int = 0,
        contents: Partitions | None = None,  # of the same sequences
    ) -> Encoder:
        """Learn them from parts of the sequences, none of which is empty.

        ``seed`` chooses the positions from which quantiles are computed, if there are many. With
        ``contents``, which of equally good tests is used does not depend on the order of columns.
        """
        from treecrf.encoding.learned_columns import learn_columns

        schema = described.schema
        imputation = None
        if self.missing in FILLED:
            imputation = learn_imputation(partitions, schema, self.missing)
            partitions = partitions.view(imputed, imputation, schema)
            if contents is not None:
                contents = contents.view(_imputed_content, imputation, schema)
            described = imputation.described(described)
        columns, fractions, missing = learn_columns(partitions, described, self.bin_limits, seed)
        window = window_within(self.max_window, described.longest)
        layout = make_layout(
            columns,
            fractions,
            missing,
            order=_order_of_columns(contents, columns),
            is_sparse=described.form == "sparse",
            are_symbols=schema.form == "symbols" and imputation is None,
            has_window=any(window),
            tests_missing=self.tests_missing,
        )
        return self.restore(
            window,
            schema.form,
            schema.names,
            columns,
            layout,
            imputation,
            absent_is_missing=schema.absent_is_missing,
        )

    def measured(self, partitions: Partitions) -> Encoder:
        """Return an encoder whose margins of thresholds also hold for further training data."""
        margins = partitions.map(_margins_in, self)
        other = copy.copy(self)
        other.columns = self.columns.with_margins([self.columns.margins, *margins])
        return other

    def restore(
        self,
        window: tuple[int, int],
        form: str,
        names: tuple[str, ...] | None,
        columns: Columns,
        layout: ColumnLayout,
        imputation: Imputation | None,
        absent_is_missing: bool,
    ) -> Encoder:
        """Set the attributes that training data determine."""
        self.window = window
        self.form = form
        self.names = names
        self.columns = columns
        self.layout = layout
        self.imputation = imputation
        if imputation is None:
            n = len(columns) - self.n_derived
        else:
            n = len(imputation.values)
        categories = {j: values for j, values in columns.categories.items() if j < n}
        self.n_features = n
        self.schema = InputSchema(form, n, names, columns.kinds[:n], categories, absent_is_missing)
        is_symbol = form == "symbols" and imputation is None
        self.has_symbol_codes = is_symbol and bool(layout.storage[0] == CODES)
        return self

    @property
    def max_bins(self) -> int:
        """Maximum number of bins of any column."""
        return self.bin_limits.recurring

    @property
    def reach(self) -> tuple[int, int] | None:
        """Number of positions to each side that tests depend on; None if it is not limited."""
        return self.window

    # Columns and features of the input

    @property
    def n_own_columns(self) -> int:
        """Number of columns that come from features, without those derived in training."""
        return len(self.columns) - self.n_derived

    def origin_of(self, column: int) -> tuple[str, int]:
        """Determine where a column comes from, and the index of its feature or derived column."""
        if column >= self.n_own_columns:
            return DERIVED, column - self.n_own_columns
        if column < self.n_features:
            return INPUT, column
        return INDICATOR_COLUMN, int(self.imputation.sources[column])

    def by_feature(self, gains: np.ndarray) -> np.ndarray:
        """Sum over the columns of each feature; float array (n_features,)."""
        if self.imputation is None:
            return gains
        return np.bincount(self.imputation.sources, weights=gains, minlength=self.n_features)

    def features_in_use(self, tested: np.ndarray) -> np.ndarray:
        """Mark the features that the values of some columns depend on."""
        return self.by_feature(tested.astype(float)) > 0

    # Encoding

    def prepared(self, sequences: Sequences) -> Sequences:
        """Return sequences with the columns to encode and the codes of the model's categories."""
        sequences = sequences.for_model(self.schema)
        if self.imputation is None:
            return sequences
        return imputed(sequences, self.imputation, self.schema)

    def encode(self, sequences: Sequences, threads: Threads | None = None) -> EncodedSequences:
        """Encode sequences; an unseen symbol or category fails all tests."""
        if threads is None:
            threads = Threads(1)
        sequences = self.prepared(sequences)
        row_layout = RowLayout(sequences.offsets, self.window)
        rows = row_layout.rows
        if len(rows) and rows[-1] > MAX_ROW - max(self.window):
            raise ValueError(f"{len(rows)} positions need more than 2**31 rows; expected fewer")
        rows = rows.astype(np.int32)  # the type that kernels read
        n_bytes = -(-self.layout.n_bits // 8)
        codes = np.zeros((row_layout.n_rows, len(self.layout.n_codes)), dtype=np.uint8)
        bits = np.zeros((row_layout.n_rows, n_bytes), dtype=np.uint8)
        has_missing = np.zeros(len(self.columns), dtype=bool)
        # Codes of symbols mark the boundary rows, too.
        if any(self.window) and not self.has_symbol_codes:
            codes[rows, 0] = 1
        target = (codes, bits, has_missing.view(np.uint8))
        lists = self._write_pieces(sequences, rows, target, threads)
        starts, ids = _joined_lists(lists, rows, len(codes))
        return EncodedSequences(
            row_of_position=rows,
            offsets=sequences.offsets,
            codes=codes,
            bits=bits,
            list_starts=starts,
            list_ids=ids,
            n_ids=self.layout.n_all_ids,
            has_missing=has_missing,
        )

    def _write_pieces(
        self, sequences: Sequences, rows: np.ndarray, target: Target, threads: Threads
    ) -> list[PieceLists]:
        """Write codes and bits of all pieces into the target, and return their lists."""
        # Code of no category, or of an unseen symbol.
        no_category = self.layout.unseen_symbol if self.has_symbol_codes else 0
        table = ColumnCodes(self.columns, self.layout, no_category)
        lists: list[PieceLists] = []
        threads.run(partial(self._write, table, rows, target, lists), sequences.pieces())
        if sequences.n_positions >= MANY_POSITIONS:
            threads.release_memory()
        return lists

    def _write(
        self,
        table: ColumnCodes,
        rows: np.ndarray,
        target: Target,
        lists: list[PieceLists],
        located: tuple[int, int, Any],
    ) -> None:
        """Encode values: the first position, the one after the last, and a piece of the input.

        Several threads may write different positions.
        """
        start, stop, piece = located
        rows = rows[start:stop]
        if piece.ndim == 1:
            piece = as_category(piece, self.columns[0].values)
        if sparse.issparse(piece):
            matrix = (
                piece.data.astype(np.float64, copy=False),
                piece.indices.astype(np.int32, copy=False),
                piece.indptr.astype(np.int64, copy=False),
            )
            counts, ids = write_sparse(table, matrix, rows, *target)
        elif piece.dtype.kind == "b":
            counts, ids = write_dense(table, piece.view(np.uint8), rows, *target)
        else:
            values = piece.astype(np.float64, copy=False)
            counts, ids = write_dense(table, values, rows, *target)
        lists.append((start, counts, ids))

    # Saved models

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""
        values = {name: getattr(self, name) for name in ("max_bins", "form", "missing")}
        values |= {"window": list(self.window), "max_window": list(self.max_window)}
        values["names"] = None if self.names is None else list(self.names)
        if self.schema.absent_is_missing:
            values["absent_is_missing"] = True
        counts, layout = self.layout.state()
        arrays = as_section(self.columns.state(), "columns") | as_section(layout, "plan")
        if self.imputation is not None:
            arrays |= as_section(self.imputation.state(), "imputation")
        return values | counts, arrays

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> Encoder:
        """Restore an object from its `state`."""
        columns = Columns.from_state(Section(arrays, "columns"))
        layout = ColumnLayout.from_state(columns, values, Section(arrays, "plan"))
        names = None if values["names"] is None else tuple(values["names"])
        imputation = None
        if imputation_arrays := Section(arrays, "imputation"):
            symbols = None
            if values["form"] == "symbols":
                symbols = columns.categories[0]
            imputation = Imputation.from_state(imputation_arrays, symbols)
        window = tuple(values["window"])
        # Models of earlier versions have no other window.
        max_window = tuple(values.get("max_window", window))
        encoder = cls(max_window, values["max_bins"], values["missing"])
        absent_is_missing = values.get("absent_is_missing", False)
        encoder.restore(
            window, values["form"], names, columns, layout, imputation, absent_is_missing
        )
        encoder._check()
        return encoder

    def _check(self) -> None:
        require(self.missing in METHODS, "missing values")
        require((self.imputation is not None) == (self.missing in FILLED), "missing values")
        if self.imputation is not None:
            self.imputation.check(len(self.imputation.values))
            require(len(self.imputation.sources) == len(self.columns), "missing values")
        self.schema.check()
        check_windows(self.window, self.max_window)
        if any(self.window) and not self.has_symbol_codes:
            is_free = not (self.layout.slots[self.layout.storage == CODES] == 0).any()
            require(len(self.layout.n_codes) > 0 and is_free, "plan")


def _order_of_columns(contents: Partitions | None, columns: Columns) -> np.ndarray:
    """Return the columns by their content, if it is known, else by their numbers."""
    if contents is None:
        return np.arange(len(columns))
    from treecrf.encoding.column_order import order_by_bins

    return order_by_bins(contents, columns)


def _imputed_content(content: Content, imputation: Imputation, schema: InputSchema) -> Content:
    return replace(content, sequences=imputed(content.sequences, imputation, schema))


def _joined_lists(
    lists: list[PieceLists], rows: np.ndarray, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Join the lists of pieces: where the list of each row starts, and all ids."""
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    # Without ids, nothing writes to the zeros, so the system need not find memory for them.
    if not any(len(ids) for _, _, ids in lists):
        return starts, np.zeros(0, dtype=np.int32)
    _, counts, ids = zip(*sorted(lists, key=lambda piece: piece[0]), strict=True)
    starts[1:][rows] = np.concatenate(counts)
    np.cumsum(starts, out=starts)
    return starts, np.concatenate(ids)


def _margins_in(sequences: Sequences, encoder: Encoder) -> np.ndarray:
    from treecrf.encoding.learned_columns import margins_in

    return margins_in(encoder.prepared(sequences), encoder.columns)
