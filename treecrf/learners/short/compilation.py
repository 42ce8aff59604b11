"""Compilation of fitted models for short sequences; see ``_short_model``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import BOUNDARY, CODES, LISTS
from treecrf.inputs.data_warnings import may_go_back
from treecrf.inputs.forms import is_frame
from treecrf.inputs.offsets import offsets_of
from treecrf.inputs.sequences import CATEGORY, InputSchema
from treecrf.inputs.values import column_names
from treecrf.learners.linear.attributes import MAX_NUMBER, WindowAttributes
from treecrf.learners.linear.scores import Weights
from treecrf.learners.short._short_model import CompiledModel, CompiledTests, CompiledWeights
from treecrf.trees.forest import Forest
from treecrf.trees.scoring.packed_trees import MAX_CONTEXTS, PackedTrees
from treecrf.utils.exact import LEAF_UNIT

# Data frames with more columns are read faster like all others.
MAX_COLUMNS = 128


def compiled(
    schema: InputSchema,
    n_labels: int,
    order: int,
    trees: tuple[Forest, Encoder] | None,
    linear: tuple[WindowAttributes, Weights] | None,
    ignored: set[str],
) -> CompiledModel | None:
    """Compile trees, a linear model, or both; None if this is not supported.

    The scores of a linear model that trees are added to are rounded. Columns with names in
    ``ignored`` may be in data frames, though not in the training data.
    """
    if n_labels**order > MAX_CONTEXTS or schema.vectors:
        return None
    tests = None
    evaluator = None
    weights = None
    if trees is not None:
        forest, encoder = trees
        if not _supports(encoder) or forest.transitions is not None:
            return None
        if forest.n_iter:
            forest_evaluator = forest.evaluator(encoder, 0, forest.n_iter, False)
            evaluator = forest_evaluator.block_evaluator
            if evaluator is None:
                return None
            tests = compiled_tests(schema, forest_evaluator.trees.packed, encoder)
    if linear is not None:
        attributes, of_attributes = linear
        if order == 0 or not _fits(attributes, of_attributes, schema):
            return None
        weights = compiled_weights(attributes, of_attributes, is_start=trees is not None)
    categories = schema.categories
    columns, names = range(schema.n_features), schema.names
    return CompiledModel(
        n_labels,
        order,
        schema.kinds,
        [
            {value: code for code, value in enumerate(categories[j].tolist(), 1)}
            if j in categories
            else None
            for j in columns
        ],
        [j in categories and categories[j].dtype.kind == "U" for j in columns],
        # Names may be of a class of the user, with methods of its own.
        None if names is None else {str.__str__(name): j for j, name in enumerate(names)},
        schema.form == "symbols",
        schema.absent_is_missing,
        tests or compiled_tests(schema),
        weights,
        evaluator,
        partial(columns_of_frame, list(names or ()), ignored.difference(names or ())),
    )


def _supports(encoder: Encoder) -> bool:
    """Return whether the encoder's columns are those of the input."""
    if type(encoder) is not Encoder or encoder.imputation is not None:
        return False
    plan = encoder.plan
    # Models of earlier versions treat symbols that they do not know as missing.
    return not (
        encoder.form == "symbols"
        and plan.storage[0] == CODES
        and plan.unseen_symbol == plan.missing_codes[0]
    )


def _fits(attributes: Any, weights: Weights, schema: InputSchema) -> bool:
    """Return whether a linear model reads the same columns, each separately."""
    if type(attributes) is not WindowAttributes or weights.layout.transition_features:
        return False
    known, own = attributes.schema.categories, schema.categories
    return known.keys() == own.keys() and all(
        known[j] is own[j] or np.array_equal(known[j], own[j]) for j in own
    )


def _first_places(schema: InputSchema, before: int) -> np.ndarray:
    """Return offsets of columns: ``before`` and a place for each category, or one for a number."""
    counts = np.ones(schema.n_features, dtype=np.int64)
    for j, values in schema.categories.items():
        counts[j] = before + len(values)
    return offsets_of(counts)


def columns_of_frame(names: list[str], ignored: set[str], frame: Any) -> list[list] | None:
    """Return the values of the columns of training; None if the frame needs closer inspection."""
    if len(names) > MAX_COLUMNS or not is_frame(frame) or not hasattr(frame, "__getitem__"):
        return None
    found = list(column_names(frame))
    if found != names:
        is_known = all(type(name) is str for name in found) and len(set(found)) == len(found)
        if not is_known or {*found} - ignored != {*names}:
            return None
    index = getattr(frame, "index", None)
    if may_go_back(index) or getattr(index, "nlevels", 1) > 1:
        return None
    columns = [frame[name] for name in names]
    if not all(hasattr(column, "to_list") for column in columns):
        return None
    return [column.to_list() for column in columns]


# Tests and weights, by the values that pass the tests and have the weights


def compiled_tests(
    schema: InputSchema, packed: PackedTrees | None = None, encoder: Encoder | None = None
) -> CompiledTests:
    """Sort the window tests of trees, if there are any, by the values that pass them."""
    n = 0 if packed is None else packed.tests.n_plain
    columns, offsets, values = tests = np.zeros((3, n), dtype=np.int64)
    thresholds, are_reversed = np.zeros(n), np.zeros(n, dtype=bool)
    if n:
        on_window = (packed.test_of_node >= 0) & (packed.test_of_node < n)
        for row, name in zip(tests, ("column", "offset", "value"), strict=True):
            row[packed.test_of_node[on_window]] = packed.nodes[name][on_window]
        learned, plan = encoder.columns, encoder.plan
        of_numbers = learned.is_number & (plan.storage == LISTS) & ~plan.has_one_id
        # These tests are true for the values that are listed, see `Plan.lookups`.
        are_reversed = of_numbers[columns] & (values < plan.zeros[columns])
        is_number = (columns >= 0) & learned.is_number[columns]
        places = (learned.starts[columns] + values)[is_number]
        thresholds[is_number] = learned.thresholds[places]
    is_boundary = columns == BOUNDARY
    on_category = ~is_boundary & (schema.kinds == CATEGORY)[columns]
    on_number = ~is_boundary & ~on_category
    first_codes = _first_places(schema, before=1)
    codes = np.where(on_category, first_codes[columns] + values + 1, -1)
    by_code = np.argsort(codes, kind="stable")[np.count_nonzero(~on_category) :]
    keys = (columns << 32) + values
    cuts, cut_of = np.unique(keys[on_number], return_inverse=True)
    of_cuts = np.zeros(len(cuts))
    of_cuts[cut_of] = thresholds[on_number]
    number_tests = [np.flatnonzero(on_number), offsets[on_number], cut_of, are_reversed[on_number]]
    return CompiledTests(
        first_codes=first_codes,
        code_starts=np.searchsorted(codes[by_code], np.arange(first_codes[-1] + 1)),
        code_tests=by_code.astype(np.int32),
        code_offsets=offsets[by_code].astype(np.int32),
        cut_starts=np.searchsorted(cuts, np.arange(schema.n_features + 1) << 32),
        cuts=of_cuts,
        number_tests=_table(number_tests),
        boundary_tests=_table([np.flatnonzero(is_boundary), offsets[is_boundary]]),
        n_tests=n,
    )


def _table(columns: list[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int32)


def compiled_weights(
    attributes: WindowAttributes, weights: Weights, is_start: bool
) -> CompiledWeights:
    """Sort the weights of a linear model by column."""
    schema, n = attributes.schema, attributes.schema.n_features
    places = np.full(attributes.n_all, -1, dtype=np.int32)
    places[attributes.kept] = np.arange(len(attributes.kept))
    shifts, exponents = np.zeros(n), np.zeros(n, dtype=np.int32)
    if attributes.standardization is not None:
        shifts = attributes.standardization.shifts
        exponents = attributes.standardization.exponents.astype(np.int32)
    unlimited = np.repeat([[-np.inf], [np.inf]], n, axis=1)
    return CompiledWeights(
        first_attributes=_first_places(schema, before=0),
        attributes=places,
        shifts=shifts,
        exponents=exponents,
        weights=weights.attributes,
        transitions=weights.transitions,
        window=attributes.window,
        max_number=MAX_NUMBER,
        unit=LEAF_UNIT if is_start else 0.0,
        has_zeros=attributes.has_zeros,
        ranges=attributes.ranges if attributes.is_cut else unlimited,
    )
