"""Types of the columns of several tables whose columns have types, such as Parquet files."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from treecrf.inputs.large.table_sources import Table, import_pyarrow


def common_types(
    tables: Sequence[Table], names: list[str], named_values: Container[str]
) -> dict[str, Any]:
    """Return a type of each column for its values in all tables; TypeError if there is none.

    Whole numbers in the columns ``named_values`` are labels or categories, which no float replaces.
    """
    is_null = import_pyarrow().types.is_null
    types = {}
    for name in names:
        types[name] = tables[0].schema.field(name).type
        owner = tables[0]
        for table in tables[1:]:
            kind = table.schema.field(name).type
            common = types[name]
            if is_null(kind) or kind == common:
                continue
            if is_null(common):
                types[name] = kind
                owner = table
                continue
            types[name] = _combined(common, kind, name in named_values)
            if types[name] is None:
                raise TypeError(
                    f"{table.name}: column {name!r} is of type {kind}, but in {owner.name} of type "
                    f"{common}"
                )
    return types


def _combined(one: Any, other: Any, are_names: bool) -> Any:
    """Return a type for the values of two types, or None; of whole numbers, if they are names."""
    pa = import_pyarrow()
    types = pa.types
    values = [kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other)]
    if all(types.is_string(kind) or types.is_large_string(kind) for kind in values):
        return pa.large_string()
    if any(map(types.is_dictionary, (one, other))):
        is_same = types.is_dictionary(one) == types.is_dictionary(other)
        if is_same and values[0] == values[1]:
            return pa.dictionary(pa.int32(), values[0])
        return None
    numeric = (types.is_integer, types.is_floating, types.is_boolean)
    if not all(any(is_numeric(kind) for is_numeric in numeric) for kind in values):
        return None
    if are_names and not all(map(types.is_floating, values)):
        return pa.int64()
    is_float = [types.is_floating(kind) or types.is_uint64(kind) for kind in values]
    if any(is_float):
        return pa.float64()
    return pa.int64()


def cast_columns(types: dict[str, Any], batch: Any) -> Any:
    """Convert the columns of a record batch to types; others remain as they are."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, array in arrays.items():
        kind = types.get(name, array.type)
        if array.type != kind:
            arrays[name] = _as_type(array, kind, name)
    return import_pyarrow().record_batch(arrays)


def _as_type(array: Any, kind: Any, name: str) -> Any:
    """Convert an array to another type; ValueError if a number is not whole, or too large."""
    pa = import_pyarrow()
    if not pa.types.is_int64(kind):
        return array.cast(kind, safe=False)
    if pa.types.is_floating(array.type):
        array = pa.compute.replace_with_mask(
            array, pa.compute.is_nan(array), pa.scalar(None, array.type)
        )
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {name!r} holds whole numbers in one table, but in another one numbers that "
            f"are not whole or outside the range of int64: {error}"
        ) from None
