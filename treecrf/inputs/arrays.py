"""Arrays, sparse matrices and lists as sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from treecrf.inputs.column_reader import ColumnReader, Rule
from treecrf.inputs.segmentation import Segmentation, offsets_of_items
from treecrf.inputs.sequences import (
    BOOLEAN,
    CATEGORY,
    NUMBER,
    InputSchema,
    ListedSequences,
    LongSequences,
    Sequences,
    position_name,
)
from treecrf.inputs.symbols import as_symbols, read_symbols
from treecrf.inputs.tables import (
    Places,
    category_columns,
    check_width,
    readers_of,
    sparse_table_of,
    table_of,
)
from treecrf.inputs.values import is_number, stands_for_missing

FORMS = (
    "a sequence is a 2-D array (positions, features), a scipy sparse matrix, a data frame, a list "
    "of dicts, a string, or a 1-D array or list of symbols"
)


def read_arrays(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> Sequences:
    """Arrays, matrices, lists and strings, or a long one, as sequences.

    Parameters
    ----------
    items : list
        One for each sequence, or one for all.
    segmentation : Segmentation
        Where the sequences of a long one are.
    schema : InputSchema, optional
        What the sequences must be like.
    categorical : "from_dtype", None, or list
        What is a category in training.

    Raises
    ------
    ValueError, TypeError
        If the sequences are not of one form, or hold what they cannot.
    """
    whats = ["X"] if segmentation.is_long else [f"sequence {i}" for i in range(len(items))]
    items = [_as_item(item, what) for item, what in zip(items, whats, strict=True)]
    if not items:
        raise ValueError("X holds no sequences")
    forms = [_form(item) for item in items]
    form = forms[0]
    for item, what, other in zip(items, whats, forms, strict=True):
        if other != form:
            raise ValueError(
                f"{what} is {describe(item)}, {whats[0]} is {describe(items[0])}: all sequences "
                "must have the same form"
            )
    lengths = [len(item) if isinstance(item, str) else item.shape[0] for item in items]
    offsets = (
        segmentation.offsets(lengths[0]) if segmentation.is_long else offsets_of_items(lengths)
    )
    if schema is not None:
        schema.check_form(form)
    if form == "symbols":
        category_columns(1, None, categorical)
        return read_symbols(items, offsets, segmentation, schema)
    for item, what in zip(items, whats, strict=True):
        check_width(item.shape[1], what, items[0].shape[1], schema)
    return _read_tables(items, form, offsets, segmentation, schema, categorical)


def _read_tables(
    items: list,
    form: str,
    offsets: np.ndarray,
    segmentation: Segmentation,
    schema: InputSchema | None,
    categorical: Any,
) -> Sequences:
    width = items[0].shape[1]
    of_objects = any(item.dtype.kind in "OU" for item in items)
    if of_objects or len(category_columns(width, schema, categorical)):
        read = _read_sparse_columns if form == "sparse" else _read_columns
        return read(items, offsets, schema, categorical)
    _refuse_infinite(items, offsets)
    _refuse_no_booleans(items, offsets, schema)
    dtype = np.result_type(*{item.dtype for item in items})
    description = {"form": form, "offsets": offsets, "n_features": width, "dtype": dtype}
    if segmentation.is_long:
        return LongSequences.of(items[0], **description)
    return ListedSequences(items=items, **description)


def _read_columns(
    items: list, offsets: np.ndarray, schema: InputSchema | None, categorical: Any
) -> Sequences:
    """Tables of which some columns are categories."""
    cells = []
    names, width = None if schema is None else schema.names, items[0].shape[1]
    for j, reader in enumerate(readers_of(names, width, schema, categorical, offsets)):
        for item in items:
            if item.dtype.kind in "OU":
                reader.add_objects(item[:, j].tolist())
            else:
                reader.add_numbers(item[:, j])
        cells.append(reader.finish())
    return table_of(cells, offsets, None)


def _read_sparse_columns(
    items: list, offsets: np.ndarray, schema: InputSchema | None, categorical: Any
) -> Sequences:
    """Sparse matrices of which some columns are categories; 0 is the absence of any."""
    _refuse_infinite(items, offsets)
    table = sparse.csc_array(sparse.vstack(items), dtype=np.float64)
    kinds = np.full(table.shape[1], NUMBER, dtype=np.uint8)
    categories = {}
    for j in category_columns(table.shape[1], schema, categorical):
        rule = Rule(is_category=True) if schema is None else Rule.trained(schema, j)
        part = slice(table.indptr[j], table.indptr[j + 1])
        column = f"feature {j}" if schema is None else schema.column(j)
        reader = ColumnReader(rule, Places(offsets, column, table.indices[part]))
        reader.add_numbers(table.data[part])
        cells = reader.finish()
        kinds[j], table.data[part], categories[j] = CATEGORY, cells.as_floats(), cells.values
    return sparse_table_of(table, offsets, None, kinds, categories)


# One item


def _as_item(item: Any, what: str) -> Any:
    """A string, a 1-D array of symbols, a 2-D array or a CSR matrix."""
    if isinstance(item, str):
        return as_symbols(item, what)
    if sparse.issparse(item) and item.ndim == 2:
        return _tidy(_numeric(item, what))
    if sparse.issparse(item):
        raise ValueError(f"{what} has {item.ndim} dimensions; {FORMS}")
    array = _as_array(item, what)
    if array.ndim == 2:
        return _numeric(_without_gaps(array), what)
    if array.ndim == 1:
        # NumPy turns [1, "a"] into strings and [2**63, -1] into floats; the values as given tell.
        as_given = hasattr(item, "dtype") or array.dtype.kind in "biu"
        return as_symbols(array if as_given else np.asarray(item, dtype=object), what)
    if isinstance(item, Mapping):
        raise TypeError(f"{what} is a dict; a sequence is a list of dicts, one for each position")
    raise ValueError(f"{what} has {array.ndim} dimensions; {FORMS}")


def _as_array(item: Any, what: str) -> np.ndarray:
    """An array, masked if the item is."""
    of_masked = isinstance(item, (list, tuple)) and np.ma.MaskedArray in set(map(type, item))
    try:
        array = np.ma.array(item) if of_masked else np.asanyarray(item)
        if array.dtype.kind == "U" and not hasattr(item, "dtype"):
            # NumPy turns [["a", 1]] into strings.
            array = np.array(item, dtype=object)
    except ValueError as error:
        raise ValueError(f"{what} is ragged or not an array: {error}; {FORMS}") from None
    return array if np.ma.is_masked(array) else np.asarray(array)


def _numeric(array: Any, what: str) -> Any:
    if array.dtype.kind not in ("biufOU" if isinstance(array, np.ndarray) else "biuf"):
        raise TypeError(
            f"{what} holds values of type {array.dtype}; a table needs booleans, integers, floats "
            "or strings"
        )
    return array


def _tidy(matrix: Any) -> Any:
    """A CSR matrix of its own, without stored zeros and duplicates."""
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _without_gaps(array: np.ndarray) -> np.ndarray:
    """Masked values as NaN, and objects as floats if they are numbers or missing."""
    if isinstance(array, np.ma.MaskedArray):
        is_plain, mask = array.dtype.kind in "biuf", np.ma.getmaskarray(array)
        array = np.asarray(array).astype(np.float64 if is_plain else object)
        array[mask] = np.nan
    if array.dtype.kind == "T":
        return array.astype(object)
    if array.dtype.kind != "O":
        return array
    kinds = set(map(type, array.flat))
    if not all(is_number(kind) or stands_for_missing(kind) for kind in kinds):
        return array
    gone = {kind for kind in kinds if stands_for_missing(kind)} - {type(None)}
    if gone:
        array = array.copy()
        array[np.frompyfunc(lambda value: type(value) in gone, 1, 1)(array).astype(bool)] = None
    try:
        return array.astype(np.float64)
    except OverflowError:
        return array  # the reader of columns tells where


def _form(item: Any) -> str:
    if sparse.issparse(item):
        return "sparse"
    return "dense" if getattr(item, "ndim", 1) == 2 else "symbols"


def describe(item: Any) -> str:
    """What messages call an object."""
    if isinstance(item, str):
        return "a string"
    if sparse.issparse(item):
        return f"a sparse matrix of shape {item.shape}"
    if isinstance(item, np.ndarray):
        return f"a {item.ndim}-D array of {item.dtype}"
    return f"of type {type(item).__name__}"


def _refuse_infinite(items: list, offsets: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        found = _find(items, lambda values, _: _are_infinite(values))
    if found is not None:
        position, feature, value = found
        raise ValueError(
            f"{position_name(position, offsets)}, feature {feature}: {value} is infinite; expected "
            "a finite number, or NaN for a missing value"
        )


def _are_infinite(values: np.ndarray) -> np.ndarray | None:
    # A sum is finite unless a value is not (or the sum overflows, which the second look sees).
    if values.dtype.kind != "f" or np.isfinite(values.sum(dtype=np.float64)):
        return None
    return np.isinf(values.astype(np.float64, copy=False))


def _refuse_no_booleans(items: list, offsets: np.ndarray, schema: InputSchema | None) -> None:
    """Refuse numbers other than 0 and 1 where training had booleans."""
    if schema is None or not (schema.kinds == BOOLEAN).any():
        return
    boolean = schema.kinds == BOOLEAN

    def are_others(values: np.ndarray, columns: Any) -> np.ndarray | None:
        if values.dtype.kind == "b":
            return None
        return boolean[columns] & (values != 0) & (values != 1) & (values == values)

    found = _find(items, are_others)
    if found is not None:
        position, feature, value = found
        raise TypeError(
            f"{position_name(position, offsets)}, {schema.column(feature)}: {value} is neither 0 "
            "nor 1; in training the column held booleans"
        )


def _find(items: list, are_bad: Callable) -> tuple[int, int, Any] | None:
    """Position, column and value of the first that is bad.

    ``are_bad`` is a function of values and their columns.
    """
    start = 0
    for item in items:
        is_sparse = sparse.issparse(item)
        values, columns = (item.data, item.indices) if is_sparse else (item, slice(None))
        bad = are_bad(values, columns)
        if bad is not None and bad.any():
            place = np.unravel_index(np.argmax(bad), bad.shape)
            row, column = (item.tocoo().row[place], columns[place]) if is_sparse else place
            return start + int(row), int(column), values[place]
        start += item.shape[0]
    return None
