"""Descriptions of the parts of the data, merged into that of all data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from treecrf.inputs.description import Description
from treecrf.inputs.labels import label_kind
from treecrf.inputs.parts import PartDescription
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER, TYPES, InputSchema, column_name
from treecrf.inputs.tables import order_of

FORMS = {"symbols": "symbols", "dense": "tables", "sparse": "sparse tables"}
KINDS_OF_LABELS = {"str": "strings", "number": "integers"}


def has_attributes(parts: Sequence[PartDescription]) -> bool:
    """Return whether lists of strings that look like rows of a table in parts are attributes."""
    widths = frozenset().union(*(part.widths for part in parts))
    is_sparse = any(part.described.form == "sparse" for part in parts)
    return len(widths) > 1 or (bool(widths) and is_sparse)


def merged(
    parts: Sequence[PartDescription | None], schema: InputSchema | None = None
) -> Description:
    """Describe all data.

    A column whose values are all missing in a part has no kind there, and joins with any other.

    Parameters
    ----------
    parts : sequence of PartDescription or None
    schema : InputSchema, optional
        Schema of all parts, if it is fixed.

    Raises
    ------
    ValueError, TypeError
        If the forms or the columns of two parts, or the kinds of a column in them, do not fit
        together. The message names the column and both parts.
    """
    present = [part for part in parts if part is not None]
    if not present:
        raise ValueError("X holds no sequences in any partition")
    _check_forms(present)
    described = [part.described for part in present]
    is_symbols = described[0].schema.form == "symbols"
    if schema is None:
        schema = _merged_symbols(present) if is_symbols else _merged_tables(present)
    with_missing = is_symbols and any(each.form == "dense" for each in described)
    return Description(
        schema,
        "dense" if with_missing else described[0].form,
        all(each.is_boolean for each in described),
        sum(each.n_sequences for each in described),
        sum(each.n_positions for each in described),
        max(each.longest for each in described),
    )


def merged_labels(parts: Sequence[PartDescription | None]) -> np.ndarray:
    """Return the distinct labels of all parts, sorted.

    Raises
    ------
    TypeError
        If some parts have strings, and others numbers.
    ValueError
        If there is only one label, or none.
    """
    known = [(part.place, part.labels) for part in parts if part is not None and len(part.labels)]
    _refuse_different(
        known,
        label_kind,
        lambda kind, place: f"the labels are {KINDS_OF_LABELS[kind]} in {place}",
        "all strings or all integers",
        TypeError,
    )
    classes = np.zeros(0, dtype=bool)
    if known:
        classes = np.unique(np.concatenate([labels for _, labels in known]))
    if len(classes) < 2:
        found = f"only the label {classes[0].item()!r}" if len(classes) else "no labels"
        raise ValueError(f"y holds {found}; expected at least 2 different labels")
    return classes


def find_shared_group(
    parts: Sequence[PartDescription | None],
) -> tuple[int, list[str]] | None:
    """Find a group with positions in several parts.

    Returns
    -------
    hashed : int
        Its hash, for `group_of_hash`.
    places : list of str
        The parts, in their order.
    """
    owners = [part for part in parts if part is not None and part.groups is not None]
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


def check_kinds_of_groups(parts: Sequence[PartDescription | None]) -> None:
    """Raise TypeError if the same group would have different names in two parts."""
    _refuse_different(
        _placed([part for part in parts if part is not None and len(part.kinds_of_groups) == 1]),
        lambda part: next(iter(part.kinds_of_groups)),
        lambda kind, place: f"groups holds {kind} in {place}",
        "a single type",
        TypeError,
    )


def _check_forms(parts: list[PartDescription]) -> None:
    def form_of(part: PartDescription) -> str:
        described = part.described
        return "symbols" if described.schema.form == "symbols" else described.form

    _refuse_different(
        _placed(parts),
        form_of,
        lambda form, place: f"{place} holds {FORMS[form]}",
        "sequences of the same form",
        ValueError,
    )


def _placed(parts: list[PartDescription]) -> list[tuple[str, PartDescription]]:
    return [(part.place, part) for part in parts]


def _refuse_different(
    placed: list[tuple[str, Any]],
    kind_of: Callable[[Any], Any],
    describe: Callable[[Any, str], str],
    expected: str,
    error: type[Exception],
) -> None:
    """Raise an error if values, each with the place of its part, are of different kinds."""
    kinds: dict[Any, str] = {}
    for place, value in placed:
        kinds.setdefault(kind_of(value), place)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise error(f"{describe(one, first)}, but {describe(other, second)}; expected {expected}")


def _merged_symbols(parts: list[PartDescription]) -> InputSchema:
    symbols = [(part.place, part.described.schema.categories[0]) for part in parts]
    values = _united("X", symbols)
    if not len(values):
        raise ValueError("all symbols of X are missing")
    return replace(parts[0].described.schema, categories={0: values})


def _united(column: str, categories: list[tuple[str, np.ndarray]]) -> np.ndarray:
    """Return the values of a category in any part, sorted."""
    known = [(place, values) for place, values in categories if len(values)]
    _refuse_different(
        known,
        lambda values: values.dtype.kind,
        lambda kind, place: f"{column} holds {TYPES[kind]} in {place}",
        "a single type",
        TypeError,
    )
    if not known:
        return np.zeros(0, dtype=np.str_)
    return np.unique(np.concatenate([values for _, values in known]))


def _merged_tables(parts: list[PartDescription]) -> InputSchema:
    names, indices = _matched_columns(parts)
    n = len(indices[0]) if names is None else len(names)
    with_categories, with_numbers, are_numbers, are_booleans = np.zeros((4, n), dtype=bool)
    categories: dict[int, list] = {}
    for part, at in zip(parts, indices, strict=True):
        kinds = part.described.schema.kinds
        with_numbers[at[(kinds != CATEGORY) & part.has_values]] = True
        are_numbers[at[kinds == NUMBER]] = True
        are_booleans[at[kinds == BOOLEAN]] = True
        for k, values in part.described.schema.categories.items():
            categories.setdefault(int(at[k]), []).append((part.place, values))
            with_categories[at[k]] |= len(values) > 0
    mixed = np.flatnonzero(with_categories & with_numbers)
    if len(mixed):
        _refuse_mixture(int(mixed[0]), names, parts, indices)
    kinds = np.select(
        [with_categories, are_numbers, are_booleans], [CATEGORY, NUMBER, BOOLEAN], CATEGORY
    ).astype(np.uint8)
    schema = InputSchema("table", n, names, kinds, {})
    united = {
        j: _united(schema.column(j), values)
        for j, values in sorted(categories.items())
        if kinds[j] == CATEGORY
    }
    return replace(schema, categories=united)


def _matched_columns(
    parts: list[PartDescription],
) -> tuple[tuple[str, ...] | None, list[np.ndarray]]:
    """Match the columns of parts by their names, or by their order if they have none.

    Returns
    -------
    names : tuple of str or None
        Those of data frames in the order of the first part, and the keys of dicts, sorted.
    indices : list of int arrays
        For each column of each part, its index among all columns.
    """
    schemas = [part.described.schema for part in parts]
    _refuse_different(
        _placed(parts),
        lambda part: part.described.schema.names is None,
        lambda lacks, place: f"{place} has {'no column names' if lacks else 'column names'}",
        "column names in all partitions, or in none",
        ValueError,
    )
    if schemas[0].names is None:
        _refuse_different(
            _placed(parts),
            lambda part: part.described.schema.n_features,
            lambda n, place: f"{place} has {n} features",
            "the same number in all partitions",
            ValueError,
        )
        return None, [np.arange(schema.n_features) for schema in schemas]
    if parts[0].described.form == "sparse":
        names = tuple(sorted(set().union(*(schema.names for schema in schemas))))
        if not names:
            raise ValueError("the sequences have 0 features: all dicts are empty")
        index = {name: j for j, name in enumerate(names)}
        return names, [
            np.fromiter(map(index.__getitem__, schema.names), np.intp, len(schema.names))
            for schema in schemas
        ]
    names, indices = schemas[0].names, []
    for part, schema in zip(parts, schemas, strict=True):
        order = order_of(schema.names, names, part.place, parts[0].place)
        indices.append(np.argsort(order))
    return names, indices


def _refuse_mixture(
    j: int,
    names: tuple[str, ...] | None,
    parts: list[PartDescription],
    indices: list[np.ndarray],
) -> NoReturn:
    """Raise TypeError for a column of categories in one part, and of numbers in another."""
    owners: dict[bool, str] = {}
    for part, at in zip(parts, indices, strict=True):
        for k in np.flatnonzero(at == j).tolist():
            schema = part.described.schema
            is_category = schema.kinds[k] == CATEGORY
            if len(schema.categories[k]) if is_category else part.has_values[k]:
                owners.setdefault(bool(is_category), part.place)
    raise TypeError(
        f"{column_name(names, j)} holds categories in {owners[True]}, but numbers in "
        f"{owners[False]}; expected a single type"
    )
