"""Compilation of fitted models for short sequences; see ``_short_model``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.encoding.column_layout import BOUNDARY, CODES, LISTS, MISSING
from treecrf.inputs.offsets import offsets_of
from treecrf.inputs.schema import BOOLEAN, CATEGORY, InputSchema
from treecrf.inputs.unknown_values import warn_of_nothing_known
from treecrf.learners.linear.attributes import MAX_NUMBER, WindowAttributes
from treecrf.learners.short._column_weights import ColumnWeights
from treecrf.learners.short._short_model import ShortModel
from treecrf.learners.short._value_tests import ValueTests
from treecrf.utils.exact import LEAF_UNIT

if TYPE_CHECKING:  # a linear model needs no modules of trees
    from treecrf.encoding.encoder import Encoder
    from treecrf.learners.linear.model import LinearModel
    from treecrf.trees.forest import Forest
    from treecrf.trees.scoring._block_evaluator import BlockEvaluator
    from treecrf.trees.scoring._context_walker import ContextWalker
    from treecrf.trees.scoring.packed_trees import PackedTrees

# Maximum number of contexts of a position.
MAX_CONTEXTS = 1 << 12
# Data frames with more columns are read faster like all others.
MAX_COLUMNS = 128
# Keys of tests are 64-bit numbers: the column in the upper half, the value in the lower one.
COLUMN_SHIFT = 32


def compiled(
    schema: InputSchema,
    n_labels: int,
    order: int,
    trees: tuple[Forest, Encoder] | None,
    linear: LinearModel | None,
    ignored: set[str],
) -> ShortModel | None:
    """Compile trees, a linear model, or both; None if this is not supported.

    The scores of a linear model that trees are added to are rounded. Columns with names in
    ``ignored`` may be in data frames, though not in the training data.
    """
    if n_labels**order > MAX_CONTEXTS or schema.vectors:
        return None
    tests = None
    evaluators: tuple = (None, None, None)
    transitions = None
    if trees is not None:
        forest, encoder = trees
        if not _supports_columns(encoder):
            return None
        if forest.n_iter:
            tests, evaluators = compiled_trees(schema, forest, encoder)
            if forest.transitions is not None:
                transitions = forest.sum_of_transitions((0, forest.n_iter)) * LEAF_UNIT
    if tests is None:
        tests = compiled_tests(schema, no_tests())
    weights = None
    if linear is not None:
        if order == 0 or not _supports_linear(linear, schema):
            return None
        weights = compiled_weights(linear, is_start=trees is not None)
    index = None
    if schema.names is not None:
        index = schema.index
    names = list(schema.names or ())
    codes_by_value, has_strings = _category_tables(schema)
    return ShortModel(
        n_labels,
        order,
        schema.kinds,
        codes_by_value,
        has_strings,
        index,
        schema.prefixes,
        schema.form == "symbols",
        schema.absent_is_missing,
        tests,
        weights,
        *evaluators,
        transitions,
        partial(columns_of_frame, names, ignored.difference(names)),
        partial(warn_of_nothing_known, schema),
    )


def _supports_columns(encoder: Encoder) -> bool:
    """Return whether the encoder's columns are the input's."""
    from treecrf.encoding.encoder import Encoder

    if type(encoder) is not Encoder or encoder.imputation is not None:
        return False
    layout = encoder.layout
    # Models of earlier versions treat symbols that they do not know as missing.
    return not (
        encoder.form == "symbols"
        and layout.storage[0] == CODES
        and layout.unseen_symbol == layout.missing_codes[0]
    )


def _supports_linear(linear: LinearModel, schema: InputSchema) -> bool:
    """Return whether a linear model reads the same columns, each separately."""
    attributes = linear.attributes
    if type(attributes) is not WindowAttributes or linear.weights.layout.transition_features:
        return False
    own = attributes.schema.categories
    categories = schema.categories
    return own.keys() == categories.keys() and all(
        own[j] is categories[j] or np.array_equal(own[j], categories[j]) for j in categories
    )


def _category_tables(schema: InputSchema) -> tuple[list[dict[Any, int] | None], list[bool]]:
    """Return the code of each value of each column, and whether its values are strings.

    Columns that are no categories have no codes. There may be very many of them.
    """
    codes_by_value: list[dict[Any, int] | None] = [None] * schema.n_features
    has_strings = [False] * schema.n_features
    for j, values in schema.categories.items():
        codes_by_value[j] = {value: code for code, value in enumerate(values.tolist(), 1)}
        has_strings[j] = values.dtype.kind == "U"
    return codes_by_value, has_strings


def _first_places(schema: InputSchema, n_before: int) -> np.ndarray:
    """Return offsets of columns, whose values lie one after another.

    A category has ``n_before`` places and one for each of its values; a number has one place.
    """
    counts = np.ones(schema.n_features, dtype=np.int64)
    for j, values in schema.categories.items():
        counts[j] = n_before + len(values)
    return offsets_of(counts)


# Data frames


def columns_of_frame(names: list[str], ignored: set[str], frame: Any) -> list[list] | None:
    """Return the values of the columns of training; None if the frame needs closer inspection."""
    from treecrf.inputs.data_warnings import may_go_back
    from treecrf.inputs.forms import is_frame
    from treecrf.inputs.values import column_names

    if len(names) > MAX_COLUMNS or not is_frame(frame) or not hasattr(frame, "__getitem__"):
        return None
    if not _has_columns(list(column_names(frame)), names, ignored):
        return None
    index = getattr(frame, "index", None)
    if may_go_back(index) or getattr(index, "nlevels", 1) > 1:
        return None
    columns = [frame[name] for name in names]
    if not all(hasattr(column, "to_list") for column in columns):
        return None
    return [column.to_list() for column in columns]


def _has_columns(frame_names: list, names: list[str], ignored: set[str]) -> bool:
    """Return whether a frame has the columns of training, each once, and no other but ignored."""
    if frame_names == names:
        return True
    if not all(type(name) is str for name in frame_names):
        return False
    distinct = set(frame_names)
    return len(distinct) == len(frame_names) and distinct - ignored == set(names)


# Tests and weights, by the values that pass the tests and have the weights


@dataclass(frozen=True)
class TreeTests:
    """The distinct tests of trees, one entry for each test."""

    # Column, or `BOUNDARY`; int64.
    columns: np.ndarray
    # Position of the value that is tested, relative to the labeled position; int64.
    offsets: np.ndarray
    # Index of the category or of the threshold, among those of the column, or `MISSING`; int64.
    values: np.ndarray
    # Threshold of tests of numbers, 0 for other tests; float64.
    thresholds: np.ndarray
    # Whether values up to the threshold pass, instead of values above it; bool.
    are_reversed: np.ndarray


def no_tests() -> TreeTests:
    """Return no tests, for models without trees."""
    integers = np.zeros(0, dtype=np.int64)
    return TreeTests(integers, integers, integers, np.zeros(0), np.zeros(0, dtype=bool))


def tests_of_trees(packed: PackedTrees, encoder: Encoder) -> TreeTests:
    """Collect the distinct tests of trees; where no value is missing, no others matter."""
    n = packed.tests.n_plain
    is_plain = (packed.test_of_node >= 0) & (packed.test_of_node < n)
    test_of_node = packed.test_of_node[is_plain]

    def by_test(name: str) -> np.ndarray:
        values = np.zeros(n, dtype=np.int64)
        values[test_of_node] = packed.nodes[name][is_plain]
        return values

    columns = by_test("column")
    values = by_test("value")
    learned = encoder.columns
    layout = encoder.layout
    # Lists have entries for the values other than 0. Tests for a threshold below 0 are stored as
    # tests for the listed values up to it, see `ColumnLayout.lookups`.
    is_listed = learned.is_number & (layout.storage == LISTS) & ~layout.has_one_id
    are_reversed = is_listed[columns] & (values < layout.zeros[columns])
    is_number = (columns >= 0) & learned.is_number[columns]
    thresholds = np.zeros(n)
    thresholds[is_number] = learned.thresholds[(learned.starts[columns] + values)[is_number]]
    return TreeTests(columns, by_test("offset"), values, thresholds, are_reversed)


def compiled_trees(
    schema: InputSchema, forest: Forest, encoder: Encoder
) -> tuple[ValueTests, tuple[BlockEvaluator, ContextWalker, Callable]]:
    """Return the tests of trees, and the evaluators of the trees, as `ShortModel` has them.

    With constant transitions, trees do not test previous labels, and one context is evaluated.
    """
    is_one_context = forest.transitions is not None
    evaluator = forest.evaluator(encoder, 0, forest.n_iter, is_one_context)
    tests = tests_of_trees(evaluator.trees.packed, encoder)
    evaluators = evaluator.block_evaluator, evaluator.walker, evaluator.columns_evaluator
    return compiled_tests(schema, tests), evaluators


def compiled_tests(schema: InputSchema, tests: TreeTests) -> ValueTests:
    """Sort tests by the values that pass them."""
    columns = tests.columns
    is_boundary = columns == BOUNDARY
    # Where no value is missing, no position passes a test of whether one is.
    has_value = ~is_boundary & (tests.values != MISSING)
    is_category = has_value & (schema.kinds == CATEGORY)[columns]
    is_boolean = has_value & (schema.kinds == BOOLEAN)[columns]
    is_number = has_value & ~is_category & ~is_boolean

    # These tests follow the codes that pass them. Each column has a place before its categories,
    # for code 0, or for the booleans that are true.
    first_codes = _first_places(schema, n_before=1)
    codes = np.where(is_boolean, first_codes[columns], -1)
    codes = np.where(is_category, first_codes[columns] + tests.values + 1, codes)
    n_others = np.count_nonzero(codes < 0)
    by_code = np.argsort(codes, kind="stable")[n_others:]
    ranks = _ranked_numbers(schema, tests, is_number)
    by_column = np.argsort(columns, kind="stable")[np.count_nonzero(is_boundary) :]
    return ValueTests(
        first_codes=first_codes,
        code_starts=np.searchsorted(codes[by_code], np.arange(first_codes[-1] + 1)),
        code_tests=by_code.astype(np.int32),
        code_offsets=tests.offsets[by_code].astype(np.int32),
        boundary_tests=_table(np.flatnonzero(is_boundary), tests.offsets[is_boundary]),
        column_starts=np.searchsorted(columns[by_column], np.arange(schema.n_features + 1)),
        column_tests=_table(
            by_column, tests.offsets[by_column], tests.values[by_column] == MISSING
        ),
        n_tests=len(columns),
        **ranks,
    )


def _ranked_numbers(schema: InputSchema, tests: TreeTests, is_number: np.ndarray) -> dict:
    """Return the columns of numbers that trees test, with their thresholds and tests."""
    # Tests share the comparison with a threshold, whatever the offset.
    keys = (tests.columns << COLUMN_SHIFT) + tests.values
    cuts, cut_of_test = np.unique(keys[is_number], return_inverse=True)
    thresholds = np.zeros(len(cuts))
    thresholds[cut_of_test] = tests.thresholds[is_number]
    tested, column_of_cut = np.unique(cuts >> COLUMN_SHIFT, return_inverse=True)
    number_columns = np.full(schema.n_features, -1, dtype=np.int32)
    number_columns[tested] = np.arange(len(tested))
    # A number exceeds a threshold if its rank is higher; columns have a rank more than thresholds.
    rank_of_test = cut_of_test + column_of_cut[cut_of_test] + 1
    below = thresholds < 0
    return {
        "number_columns": number_columns,
        "cut_starts": np.searchsorted(column_of_cut, np.arange(len(tested) + 1)),
        "cuts": thresholds,
        "zero_ranks": np.bincount(column_of_cut[below], minlength=len(tested)).astype(np.int32),
        "number_tests": _table(
            np.flatnonzero(is_number),
            tests.offsets[is_number],
            rank_of_test,
            tests.are_reversed[is_number],
        ),
    }


def _table(*columns: np.ndarray) -> np.ndarray:
    """Return an int32 table of columns."""
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int32)


def compiled_weights(linear: LinearModel, is_start: bool) -> ColumnWeights:
    """Sort the weights of a linear model by column."""
    attributes = linear.attributes
    n_columns = attributes.schema.n_features
    rows = np.full(attributes.n_all, -1, dtype=np.int32)
    rows[attributes.kept] = np.arange(len(attributes.kept))
    shifts = np.zeros(n_columns)
    exponents = np.zeros(n_columns, dtype=np.int32)
    if attributes.standardization is not None:
        shifts = attributes.standardization.shifts
        exponents = attributes.standardization.exponents.astype(np.int32)
    ranges = np.repeat([[-np.inf], [np.inf]], n_columns, axis=1)
    if attributes.is_cut:
        ranges = attributes.ranges
    imputation = attributes.imputation
    first_attributes = _first_places(attributes.schema, n_before=0)
    indicators = np.full(n_columns, -1, dtype=np.int32)
    n_indicators = len(imputation.indicator_columns)
    indicators[imputation.indicator_columns] = first_attributes[-1] + np.arange(n_indicators)
    return ColumnWeights(
        first_attributes=first_attributes,
        rows=rows,
        shifts=shifts,
        exponents=exponents,
        fills=imputation.values,
        indicators=indicators,
        weights=linear.weights.attributes,
        transitions=linear.weights.transitions,
        window=attributes.window,
        max_number=MAX_NUMBER,
        unit=LEAF_UNIT if is_start else 0.0,
        has_zeros=attributes.has_zeros,
        ranges=ranges,
    )
