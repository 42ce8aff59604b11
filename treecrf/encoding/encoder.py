"""Encoding of sequences into the rows that trees read.

A column is a boolean, a category or a number. Its tests are ``x``, ``x is category`` and
``x > threshold``, at each offset of the window. In boundary rows every test is false except the
boundary tests, one per offset, which are true there.

`treecrf.encoding.plan` defines how columns are stored, and `treecrf.encoding.layout` assigns
positions to rows.
"""

from __future__ import annotations

import copy

import numpy as np

from treecrf.encoding.columns import Columns, learn_columns
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.imputation import FILLED, Imputation, ImputedSequences, learn_imputation
from treecrf.encoding.layout import RowLayout, check_windows, widest, window_within
from treecrf.encoding.plan import CODES, Plan, make_plan
from treecrf.encoding.writer import RowWriter
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Description, Sequences
from treecrf.utils.checks import require
from treecrf.utils.model_file import Section, as_section
from treecrf.utils.partitions import LocalPartitions, Partitions, view
from treecrf.utils.threads import Threads

# How missing values are handled: by the trees, or by imputation.
METHODS = ("weighting", "surrogate", *FILLED)

# Encoding at least this number of positions may take megabytes in passing.
MANY_POSITIONS = 1 << 16

INPUT, INDICATOR_COLUMN, DERIVED = "input", "indicator", "derived"


class Encoder:
    """Encoder of sequences, which learns their columns from the training data."""

    window: tuple[int, int]  # `max_window`, cut to the length of the training sequences
    columns: Columns
    plan: Plan
    form: str  # "symbols" or "table"
    names: tuple[str, ...] | None
    imputation: Imputation | None  # None if the trees handle missing values
    _schema: InputSchema | None

    # Number of trailing columns derived in training; their tests read the current position only.
    n_derived = 0

    def __init__(self, max_window: tuple[int, int], max_bins: int = 255, missing: str = METHODS[0]):
        self.max_window = max_window  # positions to the left and to the right that tests may use
        self.max_bins = max_bins
        self.missing = missing

    def fit(self, sequences: Sequences, seed: int = 0) -> Encoder:
        """Learn categories and thresholds, and choose the storage of each column."""
        return self.fit_parts(LocalPartitions([sequences]), Description.of(sequences), seed)

    def fit_parts(self, partitions: Partitions, described: Description, seed: int = 0) -> Encoder:
        """Learn them from parts of the sequences, none of which is empty.

        ``seed`` chooses the positions from which quantiles are computed, if there are many.
        """
        schema = described.schema
        self.window = window_within(self.max_window, described.longest)
        self.form, self.names = schema.form, schema.names
        self.imputation = self._schema = None
        if self.missing in FILLED:
            self.imputation = learn_imputation(partitions, schema, self.missing)
            partitions = view(partitions, ImputedSequences.of, self.imputation, schema)
            described = self.imputation.described(described)
        learned = learn_columns(partitions, described, self.max_bins, seed)
        self.columns = learned.columns
        self.plan = make_plan(
            learned,
            is_sparse=described.form == "sparse",
            of_symbols=self._of_symbols,
            has_window=any(self.window),
        )
        return self

    def widened(self, longest: int) -> Encoder:
        """Return an encoder whose window also suits training sequences of this length."""
        return self.with_window(widest(self.window, window_within(self.max_window, longest)))

    def with_window(self, window: tuple[int, int]) -> Encoder:
        """Return an encoder of the same columns with another window, within ``max_window``."""
        other = copy.copy(self)
        other.window = window
        return other

    def restore(
        self,
        window: tuple[int, int],
        form: str,
        names: tuple[str, ...] | None,
        columns: Columns,
        plan: Plan,
        imputation: Imputation | None,
    ) -> Encoder:
        """Set the learned attributes, from another encoder or a saved model."""
        self.window = window
        self.form, self.names, self.columns, self.plan = form, names, columns, plan
        self.imputation, self._schema = imputation, None
        return self

    @property
    def n_features(self) -> int:
        """Number of features of the input."""
        return len(self.columns) if self.imputation is None else len(self.imputation.values)

    @property
    def schema(self) -> InputSchema:
        """Description of the training data, which all other data must match."""
        if self._schema is None:
            columns, n = self.columns, self.n_features
            of_input = {j: values for j, values in columns.categories.items() if j < n}
            self._schema = InputSchema(self.form, n, self.names, columns.kinds[:n], of_input)
        return self._schema

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

    @property
    def _of_symbols(self) -> bool:
        """Whether the first column holds symbols, some of which may be missing."""
        return self.form == "symbols" and self.imputation is None

    def has_boundary_code(self) -> bool:
        """Return whether a separate code column marks the boundary rows.

        The code column of symbols marks them too, because every position has a symbol.
        """
        return any(self.window) and not self._has_symbol_codes()

    def _has_symbol_codes(self) -> bool:
        return self._of_symbols and bool(self.plan.storage[0] == CODES)

    def has_one_id(self) -> np.ndarray:
        """Mark the columns with one id in lists: those whose only test is false at 0."""
        return self.plan.has_one_id(self.columns)

    def storage_of(
        self, columns: np.ndarray, values: np.ndarray, plan: Plan | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Define how tests are evaluated on a row; see `Plan.lookups`."""
        return (plan or self.plan).lookups(self.columns, columns, values)

    def prepared(self, sequences: Sequences) -> Sequences:
        """Return sequences with the columns to encode and the codes of the model's categories."""
        schema = self.schema
        sequences = sequences.for_model(schema)
        if self.imputation is None:
            return sequences
        return ImputedSequences.of(sequences, self.imputation, schema)

    def encode(self, sequences: Sequences, threads: Threads | None = None) -> EncodedSequences:
        """Encode sequences; an unseen symbol or category fails all tests."""
        sequences = self.prepared(sequences)
        layout = RowLayout(sequences.offsets, self.window)
        writer = RowWriter(
            self.columns,
            self.plan,
            layout,
            boundary_code=self.has_boundary_code(),
            no_category=self.plan.unseen_symbol if self._has_symbol_codes() else 0,
        )
        threads = threads or Threads(1)
        threads.run(writer.write, sequences.pieces())
        if sequences.n_positions >= MANY_POSITIONS:
            threads.release_memory()
        return writer.finish()

    # Saved models

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""
        values = {name: getattr(self, name) for name in ("max_bins", "form", "missing")}
        values |= {"window": list(self.window), "max_window": list(self.max_window)}
        values["names"] = None if self.names is None else list(self.names)
        of_plan, plan = self.plan.state()
        arrays = as_section(self.columns.state(), "columns") | as_section(plan, "plan")
        if self.imputation is not None:
            arrays |= as_section(self.imputation.state(), "imputation")
        return values | of_plan, arrays

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> Encoder:
        """Restore an object from its `state`."""
        columns = Columns.from_state(Section(arrays, "columns"))
        plan = Plan.from_state(columns, values, Section(arrays, "plan"))
        names = None if values["names"] is None else tuple(values["names"])
        imputation = None
        if of_imputation := Section(arrays, "imputation"):
            symbols = columns.categories[0] if values["form"] == "symbols" else None
            imputation = Imputation.from_state(of_imputation, symbols)
        window = tuple(values["window"])
        # Models of earlier versions have no other window.
        max_window = tuple(values.get("max_window", window))
        encoder = cls(max_window, values["max_bins"], values["missing"])
        encoder.restore(window, values["form"], names, columns, plan, imputation)
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
        require(self.plan.has_free_first_code() or not self.has_boundary_code(), "plan")
