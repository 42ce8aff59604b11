"""Parts of the data that are read one by one: their descriptions, and what all have in common.

A part is read twice. Without a schema, it shows which columns, categories and labels it has. Then
all parts are read with the schema of all data, as new data are for a prediction, so that the values
of a column have the same codes in all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from treecrf.inputs._nested import MAX_DEPTH, SEPARATOR
from treecrf.inputs.columns import ColumnValues, order_of, table_of
from treecrf.inputs.dataset import RawData, as_sequences, named, read_weights
from treecrf.inputs.dicts import ROWS
from treecrf.inputs.fold_groups import hash_of_group
from treecrf.inputs.forms import is_empty, is_empty_list
from treecrf.inputs.frames import column_of
from treecrf.inputs.labels import KINDS_OF_LABELS, as_labels, find_classes, label_kind
from treecrf.inputs.nested import split_keys
from treecrf.inputs.raw_column import read_column
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER, InputSchema, column_name
from treecrf.inputs.sequences import TYPES, Description, Sequences
from treecrf.inputs.symbols import as_category
from treecrf.inputs.values import short_repr
from treecrf.utils.scipy_sparse import sparse

NAMES_OF_FORMS = {"symbols": "symbols", "dense": "tables", "sparse": "sparse tables"}
# The schema of a part in which no position has an attribute.
EMPTY_ROWS = InputSchema("table", 0, (), np.zeros(0, dtype=np.uint8), {})


@dataclass(frozen=True, kw_only=True)
class PartDescription(Description):
    """Description of a part that has been read on its own."""

    place: str  # in error messages
    has_values: np.ndarray  # which columns have a value that is not missing
    n_unlabeled: int  # number of positions where any label is possible
    labels: np.ndarray  # the distinct labels, known or possible, sorted
    padding: tuple  # those that are probably padding
    # Hashes of the names of the sequences, if they are groups of a long table.
    groups: np.ndarray | None
    kinds_of_groups: frozenset[str]  # kinds of these names
    is_weighted: bool  # whether there are weights other than 1
    has_weight: bool  # whether any weight is positive
    has_init_score: bool


# Reading


def describe_part(
    raw: RawData,
    categorical: Any,
    schema: InputSchema | None = None,
) -> PartDescription | None:
    """Read a part and describe it; None if it has no sequences.

    The part must match the schema of an earlier model.
    """
    if _has_no_positions(raw):
        return None
    with named(raw.place):
        raw = raw.resolved()
        sequences = _read(raw, categorical, schema)
        labels = as_labels(raw.y, sequences.offsets, raw.segmentation)
        weights = read_weights(raw.sample_weight, sequences.offsets, raw.segmentation)
        groups = _names_of_groups(raw, sequences.offsets)
    distinct = _distinct(labels.present())
    return PartDescription.of(
        sequences,
        place=raw.place,
        has_values=_find_values(sequences),
        n_unlabeled=labels.n_unlabeled,
        labels=distinct,
        padding=tuple(labels.padding(distinct)),
        groups=None if groups is None else np.array([*map(hash_of_group, groups)], dtype=np.uint64),
        kinds_of_groups=frozenset(map(_kind_of_group, groups or [])),
        is_weighted=weights is not None and bool((weights != 1).any()),
        has_weight=weights is None or bool(weights.any()),
        has_init_score=raw.init_score is not None,
    )


def read_part(raw: RawData, described: Description) -> tuple[Sequences, RawData]:
    """Read the sequences of a part with the schema and the form of all data.

    Also returns the part with labels that are not the name of a column.
    """
    raw = raw.resolved()
    schema = described.schema
    sequences = _read(raw, None, schema)
    if sequences.form != "symbols" or described.form != "dense":
        return sequences, raw
    # Other parts have missing symbols, and are tables of one category.
    symbols = schema.categories[0]
    pieces = [as_category(piece, symbols)[:, 0] for _, _, piece in sequences.pieces()]
    column = ColumnValues(CATEGORY, np.concatenate(pieces).astype(np.int32), symbols)
    return table_of([column], sequences.offsets, None, are_symbols=True), raw


def _read(raw: RawData, categorical: Any, schema: InputSchema | None) -> Sequences:
    if schema is None and _has_no_attributes(raw):
        return as_sequences(raw.X, EMPTY_ROWS, raw.segmentation)
    return as_sequences(raw.X, schema, raw.segmentation, categorical)


def _has_no_attributes(raw: RawData) -> bool:
    """Return whether all positions are dicts or lists of attributes that have none."""
    items = [raw.X] if raw.segmentation.is_long else raw.X
    is_listed = isinstance(items, (list, tuple)) and all(
        isinstance(item, (list, tuple)) and len(item) for item in items
    )
    return is_listed and all(map(_is_nothing, chain.from_iterable(items)))


def _is_nothing(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether a position, or the value of a key, has no attributes."""
    if isinstance(value, Mapping):
        return depth > 0 and all(_is_nothing(inner, depth - 1) for inner in value.values())
    return isinstance(value, ROWS) and not value


def _has_no_positions(raw: RawData) -> bool:
    if raw.segmentation.is_long:
        return is_empty(raw.X)
    return is_empty_list(raw.X)


def _find_values(sequences: Sequences) -> np.ndarray:
    """Mark the columns that hold any value."""
    has_values = np.zeros(sequences.n_features, dtype=bool)
    if sequences.form == "symbols":
        return ~has_values
    for _, _, piece in sequences.pieces():
        if sparse.issparse(piece):
            has_values[piece.indices[~np.isnan(piece.data)]] = True
        elif piece.dtype.kind == "f":
            has_values |= ~np.isnan(piece).all(axis=0)
        else:
            return ~np.zeros_like(has_values)
    return has_values


# Merging


def merged(parts: Sequence[PartDescription], schema: InputSchema | None = None) -> Description:
    """Describe all data, with a fixed schema, or with the schemas of all parts merged.

    A column whose values are all missing in a part has no kind there, and joins with any other.
    """
    # Symbols of which some are missing have the form of a table.
    forms = ["symbols" if part.schema.form == "symbols" else part.form for part in parts]
    _refuse_different(
        zip([part.place for part in parts], forms, strict=True),
        lambda form, place: f"{place} holds {NAMES_OF_FORMS[form]}",
        "sequences of the same form",
        ValueError,
    )
    if schema is None and forms[0] == "symbols":
        values = _united("X", [(part.place, part.schema.categories[0]) for part in parts])
        if not len(values):
            raise ValueError("all symbols of X are missing")
        schema = replace(parts[0].schema, categories={0: values})
    elif schema is None:
        schema = _merged_tables(parts)
    return Description(
        schema,
        min(part.form for part in parts),  # the form of a table, if one part has it
        all(part.is_boolean for part in parts),
        sum(part.n_sequences for part in parts),
        sum(part.n_positions for part in parts),
        max(part.longest for part in parts),
    )


def merged_labels(parts: Sequence[PartDescription]) -> np.ndarray:
    """Return the distinct labels of all parts, sorted; ValueError unless there are two."""
    known = [(part.place, part.labels) for part in parts if len(part.labels)]
    _refuse_different(
        [(place, label_kind(labels)) for place, labels in known],
        lambda kind, place: f"the labels are {KINDS_OF_LABELS[kind]} in {place}",
        "all strings or all integers",
        TypeError,
    )
    return find_classes([labels for _, labels in known])


def merged_padding(parts: Sequence[PartDescription]) -> list:
    """Return the labels that are probably padding in every part that has them."""
    labels = dict.fromkeys(chain.from_iterable(part.padding for part in parts))
    return [
        label
        for label in labels
        if all(label in part.padding for part in parts if label in part.labels.tolist())
    ]


def _united(column: str, categories: list[tuple[str, np.ndarray]]) -> np.ndarray:
    """Return the values of a category in any part, sorted."""
    known = [(place, values) for place, values in categories if len(values)]
    _refuse_different(
        [(place, values.dtype.kind) for place, values in known],
        lambda kind, place: f"{column} holds {TYPES[kind]} in {place}",
        "a single type",
        TypeError,
    )
    return _distinct([values for _, values in known] or [np.zeros(0, dtype=np.str_)])


def _distinct(arrays: list[np.ndarray]) -> np.ndarray:
    """Return the distinct values of arrays, sorted; the types of empty ones do not matter."""
    present = [array for array in arrays if len(array)] or arrays[:1] or [np.zeros(0, dtype=bool)]
    return np.unique(np.concatenate(present))


def _merged_tables(parts: list[PartDescription]) -> InputSchema:
    if len(parts) == 1 and parts[0].schema.n_features:
        return parts[0].schema
    parts = _with_split_keys(parts)
    names, indices = _matched_columns(parts)
    n_columns = len(indices[0])
    if names is not None:
        n_columns = len(names)
    kinds = _merged_kinds(parts, names, indices, n_columns)
    categories = _merged_categories(parts, names, indices, kinds)
    absent_is_missing = names is not None and parts[0].form == "dense"
    return InputSchema("table", n_columns, names, kinds, categories, absent_is_missing)


def _with_split_keys(parts: list[PartDescription]) -> list[PartDescription]:
    """Make attributes of the strings of dicts in parts where they would be in all data."""
    if not all(part.form == "sparse" and part.schema.names is not None for part in parts):
        return parts
    strings: dict[str, set[str]] = {}
    others: set[str] = set()
    for part in parts:
        schema = part.schema
        others.update(schema.names[j] for j in np.flatnonzero(schema.kinds != CATEGORY).tolist())
        for name, values in schema.known_values.items():
            strings.setdefault(name, set()).update(values)
    split = split_keys(strings, others)
    if not split:
        return parts
    return [_with_attributes(part, split) for part in parts]


def _with_attributes(part: PartDescription, split: set[str]) -> PartDescription:
    """Replace categories in a part by attributes, one for each value."""
    schema = part.schema
    names = schema.names or ()
    kinds = dict(zip(names, schema.kinds.tolist(), strict=True))
    has_values = dict(zip(names, part.has_values.tolist(), strict=True))
    categories = {names[j]: values for j, values in schema.categories.items()}
    replaced = categories.keys() & split
    for name in replaced:
        del kinds[name]
    for name in replaced:
        for value in categories[name].tolist():
            attribute = name + SEPARATOR + value
            if kinds.get(attribute, CATEGORY) == CATEGORY:
                kinds[attribute] = BOOLEAN
            has_values[attribute] = True
    columns = sorted(kinds)
    schema = InputSchema(
        "table",
        len(columns),
        tuple(columns),
        np.array([kinds[name] for name in columns], dtype=np.uint8),
        {j: categories[name] for j, name in enumerate(columns) if kinds[name] == CATEGORY},
    )
    return replace(
        part, schema=schema, has_values=np.array([has_values[name] for name in columns], dtype=bool)
    )


def _merged_kinds(
    parts: list[PartDescription],
    names: tuple[str, ...] | None,
    indices: list[np.ndarray],  # from `_matched_columns`
    n_columns: int,
) -> np.ndarray:
    """Return the kind of each column; TypeError if it is a category in some parts only."""
    with_categories = np.zeros(n_columns, dtype=bool)
    with_numbers = np.zeros(n_columns, dtype=bool)
    are_numbers = np.zeros(n_columns, dtype=bool)
    are_booleans = np.zeros(n_columns, dtype=bool)
    for part, columns in zip(parts, indices, strict=True):
        kinds = part.schema.kinds
        with_numbers[columns[(kinds != CATEGORY) & part.has_values]] = True
        are_numbers[columns[kinds == NUMBER]] = True
        are_booleans[columns[kinds == BOOLEAN]] = True
        for k, values in part.schema.categories.items():
            with_categories[columns[k]] |= len(values) > 0
    mixed = np.flatnonzero(with_categories & with_numbers)
    if len(mixed):
        _refuse_mixed_kinds(parts, names, indices, mixed[0])
    return np.select(
        [with_categories, are_numbers, are_booleans], [CATEGORY, NUMBER, BOOLEAN], CATEGORY
    ).astype(np.uint8)


def _refuse_mixed_kinds(
    parts: list[PartDescription],
    names: tuple[str, ...] | None,
    indices: list[np.ndarray],
    column: int,
) -> None:
    """Raise TypeError for a column with categories in one part, and with numbers in another."""
    places: dict[bool, str] = {}  # the first part with categories, and the first without
    for part, columns in zip(parts, indices, strict=True):
        is_column = columns == column
        if part.has_values[is_column].any():
            is_category = bool(part.schema.kinds[is_column][0] == CATEGORY)
            places.setdefault(is_category, part.place)
    raise TypeError(
        f"{column_name(names, column)} holds categories in {places[True]}, but numbers in "
        f"{places[False]}; expected a single type"
    )


def _merged_categories(
    parts: list[PartDescription],
    names: tuple[str, ...] | None,
    indices: list[np.ndarray],
    kinds: np.ndarray,
) -> dict[int, np.ndarray]:
    """Return the values in all parts of each column that is a category."""
    values_in_parts: dict[int, list] = {}
    for part, columns in zip(parts, indices, strict=True):
        for k, values in part.schema.categories.items():
            values_in_parts.setdefault(int(columns[k]), []).append((part.place, values))
    return {
        j: _united(column_name(names, j), values)
        for j, values in sorted(values_in_parts.items())
        if kinds[j] == CATEGORY
    }


def _matched_columns(
    parts: list[PartDescription],
) -> tuple[tuple[str, ...] | None, list[np.ndarray]]:
    """Match the columns of parts by their names, or by their order if they have none.

    Returns the names of data frames in the order of the first part, or the keys of dicts, sorted,
    and for each column of each part its index among all columns.
    """
    schemas = [part.schema for part in parts]
    _refuse_different(
        [(part.place, part.schema.names is None) for part in parts],
        lambda lacks, place: f"{place} has {'no column names' if lacks else 'column names'}",
        "column names in all partitions, or in none",
        ValueError,
    )
    if schemas[0].names is None:
        _refuse_different(
            [(part.place, part.schema.n_features) for part in parts],
            lambda n, place: f"{place} has {n} features",
            "the same number in all partitions",
            ValueError,
        )
        return None, [np.arange(schema.n_features) for schema in schemas]
    if parts[0].form == "sparse":
        names = tuple(sorted(set().union(*(schema.names for schema in schemas))))
        if not names:
            raise ValueError("the sequences have 0 features: all positions are empty")
        index = {name: j for j, name in enumerate(names)}
        return names, [np.array([index[name] for name in s.names], np.intp) for s in schemas]
    names = schemas[0].names
    first = parts[0].place
    return names, [
        np.argsort(order_of(part.schema.names, names, part.place, first)) for part in parts
    ]


def _refuse_different(
    kinds: Iterable[tuple[str, Any]],
    describe: Callable[[Any, str], str],
    expected: str,
    error: type[Exception],
) -> None:
    """Raise an error if parts, by their places, are of different kinds."""
    places: dict[Any, str] = {}
    for place, kind in kinds:
        places.setdefault(kind, place)
    if len(places) > 1:
        (one, first), (other, second) = list(places.items())[:2]
        raise error(f"{describe(one, first)}, but {describe(other, second)}; expected {expected}")


# Groups


def find_shared_group(parts: Sequence[PartDescription]) -> tuple[int, list[str]] | None:
    """Find a group with positions in several parts: its hash, and the places of the parts.

    TypeError if the same group would have different names in two parts.
    """
    _refuse_different(
        [(part.place, *part.kinds_of_groups) for part in parts if len(part.kinds_of_groups) == 1],
        lambda kind, place: f"groups holds {kind} in {place}",
        "a single type",
        TypeError,
    )
    owners = [part for part in parts if part.groups is not None]
    if len(owners) < 2:
        return None
    hashes = np.concatenate([part.groups for part in owners])
    numbers = np.repeat(range(len(owners)), [len(part.groups) for part in owners])
    order = np.argsort(hashes, kind="stable")
    equal = np.flatnonzero(np.diff(hashes[order]) == 0)
    if not len(equal):
        return None
    shared = hashes[order[equal[0]]]
    return int(shared), [owners[i].place for i in np.unique(numbers[hashes == shared])]


def group_of_hash(raw: RawData, hashed: int) -> str | None:
    """Write the group with this hash, if it is in a part."""
    raw = raw.resolved()
    offsets = as_sequences(raw.X, None, raw.segmentation).offsets
    groups = _names_of_groups(raw, offsets) or []
    return next((short_repr(group) for group in groups if hash_of_group(group) == hashed), None)


def _names_of_groups(raw: RawData, offsets: np.ndarray) -> list | None:
    """Return the name of each sequence, if there are names."""
    groups = raw.segmentation.groups
    if groups is None:
        return None
    column = raw.segmentation.column
    if column is not None:
        groups = column_of(raw.X, column)
    return read_column(groups).array()[offsets[:-1]].tolist()


def _kind_of_group(group: Any) -> str:
    """Return the kind of the name of a group; groups of different kinds are different."""
    kinds = {str: "strings", int: "numbers", float: "numbers"}
    return kinds.get(type(group), f"values of type {type(group).__name__}")
