"""Arrays, sparse matrices, strings and lists as sequences."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from itertools import chain, groupby, islice, pairwise
from typing import Any

import numpy as np

from treecrf.inputs._dicts import are_plain, codes_of_rows
from treecrf.inputs.columns import (
    CHUNK,
    ColumnReader,
    ColumnSpecs,
    ColumnValues,
    check_width,
    selected_columns,
    sparse_table_of,
    table_of,
)
from treecrf.inputs.forms import FORMS, describe
from treecrf.inputs.offsets import offsets_of, position_name
from treecrf.inputs.raw_column import are_exact, is_series, joined_exactly, read_column
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER, InputSchema, column_name
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import TYPES, ListedSequences, LongSequences, Sequences
from treecrf.inputs.values import (
    FLOATS,
    IGNORE_OVERFLOW,
    characters,
    first_infinite,
    floats_of_codes,
    is_number,
    plain_array,
    refuse_final_nul,
    refuse_infinite,
    short_repr,
    stands_for_missing,
    whole_numbers,
)
from treecrf.utils.scipy_sparse import sparse


def read_arrays(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> Sequences:
    """Convert arrays, matrices, lists and strings, or one long item, to sequences."""
    wheres = segmentation.item_names(len(items))
    items = [_as_item(item, where) for item, where in zip(items, wheres, strict=True)]
    lengths = [len(item) if isinstance(item, str) else item.shape[0] for item in items]
    offsets = segmentation.item_offsets(lengths)  # refuses empty lists, which have no form
    form = _common_form(items, wheres)
    if schema is not None:
        schema.check_form(form)
    if form == "symbols":
        selected_columns(categorical, None, 1)  # refuses values that are not valid
        return read_symbols(items, offsets, segmentation, schema)
    width = items[0].shape[1]
    for item, where in zip(items, wheres, strict=True):
        check_width(item.shape[1], where, width, schema)
    names = None
    if schema is not None:
        names = schema.names
    specs = ColumnSpecs(names, width, schema, categorical)
    if form == "sparse":
        _refuse_infinite(items, offsets)
        if specs.is_category.any():
            return _read_sparse_columns(items, offsets, specs)
        return _plain_tables(items, form, offsets, segmentation, schema)
    floats = [_as_floats(item) for item in items]
    if specs.is_category.any() or any(item.dtype.kind in "OU" for item in floats):
        return _read_columns(items, floats, offsets, specs)
    _refuse_infinite(floats, offsets)
    return _plain_tables(floats, form, offsets, segmentation, schema)


def _common_form(items: list, wheres: list[str]) -> str:
    """Return the form of all items; ValueError if they differ, or there are none."""
    if not items:
        raise ValueError("X holds no sequences")
    form = _form(items[0])
    for item, where in zip(items, wheres, strict=True):
        if _form(item) != form:
            raise ValueError(
                f"{where} is {describe(item)}, {wheres[0]} is {describe(items[0])}; expected "
                "sequences of the same form"
            )
    return form


def _plain_tables(
    items: list,
    form: str,
    offsets: np.ndarray,
    segmentation: Segmentation,
    schema: InputSchema | None,
) -> Sequences:
    """Return tables of numbers and booleans, which are used without a copy."""
    if schema is not None:
        _check_booleans(items, offsets, schema)
    description = {
        "form": form,
        "offsets": offsets,
        "n_features": items[0].shape[1],
        "dtype": np.result_type(*{item.dtype for item in items}),
    }
    if segmentation.is_long:
        return LongSequences.of(items[0], **description)
    return ListedSequences(items=segmentation.in_places(items), **description)


def _read_columns(
    exact: list, items: list, offsets: np.ndarray, specs: ColumnSpecs
) -> LongSequences:
    """Read tables with some columns that are categories, whose values have to be exact."""
    columns = []
    for j in range(items[0].shape[1]):
        reader = specs.reader(j, offsets)
        tables = items
        if specs.is_category[j]:
            tables = exact
        for are_objects, run in groupby(tables, lambda item: item.dtype.kind in "OU"):
            # Few long parts are read faster than many short ones.
            values = [item[:, j] for item in run]
            if not are_objects:
                for part in values:
                    reader.add_numbers(part)
                continue
            joined = chain.from_iterable(part.tolist() for part in values)
            while part := list(islice(joined, CHUNK)):
                reader.add_objects(part)
        columns.append(reader.finish())
    return table_of(columns, offsets, None)


def read_rows(
    items: list, segmentation: Segmentation, schema: InputSchema | None, categorical: Any
) -> LongSequences | None:
    """Convert lists of rows of strings for a model; None if they have to be read as arrays."""
    if schema is None or schema.form != "table" or not all(items):
        return None
    codes = schema.known_strings
    if None in codes:
        return None
    offsets = segmentation.item_offsets(list(map(len, items)))
    table = codes_of_rows(items, codes, int(offsets[-1]))
    if table is None:
        return None
    columns = [ColumnValues(CATEGORY, c, schema.categories[j]) for j, c in enumerate(table)]
    return table_of(columns, offsets, None)


def _read_sparse_columns(items: list, offsets: np.ndarray, specs: ColumnSpecs) -> LongSequences:
    """Read sparse matrices with some columns that are categories; 0 is no category."""
    exact = joined_exactly([item.data for item in items])
    table = _numbered_entries(items)
    order = table.data
    table.data = exact[order].astype(np.float64)
    kinds = np.where(specs.is_category, CATEGORY, NUMBER).astype(np.uint8)
    categories = {}
    for j in np.flatnonzero(specs.is_category).tolist():
        part = slice(table.indptr[j], table.indptr[j + 1])
        reader = specs.reader(j, offsets, table.indices[part])
        reader.add(exact[order[part]])
        column = reader.finish()
        table.data[part] = floats_of_codes(column.data)
        categories[j] = column.values
    return sparse_table_of(table, offsets, None, kinds, categories)


def _numbered_entries(items: list) -> sparse.csc_array:
    """Join CSR matrices to one by columns, whose entries are their numbers in the order of rows."""
    offsets = offsets_of([item.nnz for item in items])
    numbered = [
        sparse.csr_array((np.arange(first, last), item.indices, item.indptr), shape=item.shape)
        for item, (first, last) in zip(items, pairwise(offsets.tolist()), strict=True)
    ]
    return sparse.csc_array(sparse.vstack(numbered, format="csr"))


# One item


def rows_as_array(rows: Any, where: str) -> np.ndarray:
    """Convert a list of rows, or a masked array, to an array that holds the same values.

    What is masked is NaN among floats, and None among objects.
    """
    array = _as_array(rows, where)
    if np.ma.is_masked(array):
        return _with_none(array)
    return array


def _as_item(item: Any, where: str) -> Any:
    """Convert an item to a string, a 1-D array of symbols, a 2-D array or a CSR matrix."""
    if type(item) is np.ndarray and item.ndim == 2 and item.dtype.kind in "biuf":
        return item
    if isinstance(item, str):
        return as_symbols(item, where)
    if sparse.issparse(item) and item.ndim == 2:
        return as_csr(_check_type(item, where), where)
    if sparse.issparse(item):
        raise ValueError(f"{where} has {item.ndim} dimensions; {FORMS}")
    if is_series(item):
        return as_symbols(item, where)
    array = _as_array(item, where)
    if array.ndim == 2:
        return _check_type(_with_none(array), where)
    if array.ndim == 1:
        if array.dtype.kind in "biu":
            return as_symbols(array, where)
        return as_symbols(item, where)
    if isinstance(item, Mapping):
        raise TypeError(f"{where} is a dict; expected a list of dicts, one for each position")
    if isinstance(item, bytes):
        raise TypeError(f"{where} is of type bytes; decode it to a string")
    if array.ndim == 0 and array.dtype.kind in "biuf":
        raise ValueError(
            f"{where} is the number {array.item()}; expected a list of sequences: for a single "
            "sequence x of numbers, pass [numpy.reshape(x, (-1, 1))]; for row i of a data frame, "
            "frame.iloc[i:i + 1]"
        )
    raise ValueError(f"{where} has {array.ndim} dimensions; {FORMS}")


def _as_array(item: Any, where: str) -> np.ndarray:
    """Convert an item to an array that holds the same values, masked if some of them are."""
    are_masked = isinstance(item, (list, tuple)) and np.ma.MaskedArray in set(map(type, item))
    if are_masked:
        convert = np.ma.array
    else:
        convert = np.asanyarray
    try:
        array = convert(item)
        if not hasattr(item, "dtype") and _may_differ(array):
            array = convert(item, dtype=object)
    except ValueError as error:
        raise ValueError(f"{where} is ragged{_reason_of(item, error)}") from None
    if np.ma.is_masked(array):
        return array
    return np.asarray(array)


def _may_differ(array: np.ndarray) -> bool:
    """Return whether NumPy may have changed values while it made an array of them."""
    # It makes strings of [["a", 1]], and floats of [[2**53 + 1, 0.5]].
    return array.dtype.kind == "U" or (array.dtype.kind == "f" and not are_exact(array))


def _reason_of(item: Any, error: ValueError) -> str:
    """Return where rows of different lengths are, or what NumPy says, and the expected form."""
    sizes = [len(row) if isinstance(row, (list, tuple, np.ndarray)) else -1 for row in item]
    t = next((t for t, size in enumerate(sizes) if size != sizes[0]), None)
    if t is None or min(sizes) < 0:
        place = f" or not an array: {error}"
    else:
        place = f": position 0 has {sizes[0]} values, position {t} has {sizes[t]}"
    rows = [row for row in item if isinstance(row, (list, tuple)) and row]
    if rows and all(isinstance(value, str) for row in rows for value in row):
        return (
            f"{place}; expected lists of the same length, because the model was trained on tables; "
            "to use lists of attributes, train on dicts {name: True}"
        )
    return f"{place}; {FORMS}"


def _check_type(array: Any, where: str) -> Any:
    kinds = "biuf"
    if isinstance(array, np.ndarray):
        kinds = "biufOU"
    if array.dtype.kind not in kinds:
        raise TypeError(
            f"{where} holds values of type {array.dtype}; expected booleans, integers, floats or "
            "strings"
        )
    return array


def _with_none(array: np.ndarray) -> np.ndarray:
    """Convert an array with missing values to floats or, unless they are exact, to objects."""
    if array.dtype.kind == "T":
        array = array.astype(object)
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        array = np.asarray(array)
        if array.dtype.kind in "biuf":
            floats = array.astype(np.float64)
            floats[mask] = np.nan
            if array.dtype.kind == "f" or are_exact(floats):
                return floats
        array = array.astype(object)
        array[mask] = None
    floats = _as_floats(array)
    if floats.dtype.kind == "f" and are_exact(floats):
        return floats
    return array


def _as_floats(array: np.ndarray) -> np.ndarray:
    """Convert objects to floats, NaN if missing, unless some are neither numbers nor missing."""
    if array.dtype.kind != "O":
        return array
    kinds = set(map(type, array.flat))
    if not all(is_number(kind) or stands_for_missing(kind) for kind in kinds):
        return array
    missing = {kind for kind in kinds if stands_for_missing(kind)} - {type(None)}
    if missing:
        array = array.copy()
        array[np.frompyfunc(lambda value: type(value) in missing, 1, 1)(array).astype(bool)] = None
    try:
        return array.astype(np.float64)
    except OverflowError:
        return array  # The column reader raises an error that names the position.


def _form(item: Any) -> str:
    if sparse.issparse(item):
        return "sparse"
    if getattr(item, "ndim", 1) == 2:
        return "dense"
    return "symbols"


# Values


def _cell_name(
    item: Any, start: int, offsets: np.ndarray, names: tuple[str, ...] | None, i: int
) -> str:
    """Name the i-th value in C order, or the i-th stored one, of an item that starts somewhere."""
    if sparse.issparse(item):
        row = int(np.searchsorted(item.indptr, i, side="right")) - 1
        column = int(item.indices[i])
    else:
        row, column = divmod(i, item.shape[1])
    return f"{position_name(start + row, offsets)}, {column_name(names, column)}"


def _refuse_infinite(items: list, offsets: np.ndarray) -> None:
    start = 0
    with np.errstate(**IGNORE_OVERFLOW):  # once, because it costs more than a short sequence
        for item in items:
            values = item
            if sparse.issparse(item):
                values = item.data
            if first_infinite(values) is not None:
                refuse_infinite(values, partial(_cell_name, item, start, offsets, None))
            start += item.shape[0]


def _check_booleans(items: list, offsets: np.ndarray, schema: InputSchema) -> None:
    """Raise TypeError for numbers other than 0 and 1 in columns that were boolean in training."""
    boolean = schema.kinds == BOOLEAN
    if not boolean.any():
        return
    start = 0
    for item in items:
        is_sparse = sparse.issparse(item)
        if is_sparse:
            values = item.data
            columns = item.indices
        else:
            values = item
            columns = slice(None)
        if values.dtype.kind != "b":
            bad = boolean[columns] & (values != 0) & (values != 1) & (values == values)
            if bad.any():
                i = int(np.argmax(bad))
                raise TypeError(
                    f"{_cell_name(item, start, offsets, schema.names, i)}: {values.flat[i]} is "
                    "neither 0 nor 1; in training the column held booleans"
                )
        start += item.shape[0]


def as_csr(matrix: Any, where: str) -> sparse.csr_array:
    """Copy a sparse matrix to CSR without stored zeros and duplicates, after checks of its arrays.

    The conversion does not check them, and would read and write outside its arrays.
    """
    try:
        # A copy, because the checks of SciPy may replace attributes.
        _check(copy.copy(matrix))
        converted = sparse.csr_array(matrix, copy=True)
        converted.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{where} is a damaged sparse matrix: {error}") from None
    converted.sum_duplicates()
    converted.eliminate_zeros()
    return converted


def _check(matrix: Any) -> None:
    if matrix.format in ("csc", "bsr"):
        matrix.check_format(full_check=True)
    elif matrix.format == "dia" and matrix.offsets.shape != matrix.data.shape[:1]:
        raise ValueError("offsets and data have different lengths")
    elif matrix.format == "coo":
        for indices, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
            if indices.shape != matrix.data.shape:
                raise ValueError("coordinates and data have different lengths")
            if indices.size and not (indices.min() >= 0 and indices.max() < size):
                raise ValueError(f"a coordinate is outside the shape {matrix.shape}")
        if not all(np.issubdtype(a.dtype, np.integer) for a in (matrix.row, matrix.col)):
            raise ValueError("the coordinates are not integers")


# Symbols


def read_plain(items: list, schema: InputSchema | None, categorical: Any) -> Sequences | None:
    """Convert strings, lists of strings, or arrays of int64, if they need no further checks."""
    kinds = set(map(type, items))
    if kinds == {np.ndarray}:
        dtype = np.dtype(np.int64)
        is_plain = all(item.ndim == 1 and item.dtype == dtype and len(item) for item in items)
    elif not kinds <= {str, list, tuple} or not items or not all(items):
        return None
    elif kinds == {str}:
        dtype = np.dtype("U1")
        is_plain = "\0" not in "".join(items)
    else:
        dtype = np.dtype("U")
        is_plain = str not in kinds and are_plain(items)
    if not is_plain:
        return None
    if schema is not None:
        schema.check_form("symbols")
        schema.check_symbols(dtype)
    selected_columns(categorical, None, 1)  # refuses values that are not valid
    offsets = offsets_of(np.fromiter(map(len, items), dtype=np.int64, count=len(items)))
    return ListedSequences(items=items, form="symbols", offsets=offsets, n_features=1, dtype=dtype)


def as_symbols(item: Any, where: str) -> Any:
    """Return symbols as a string, an array of strings or int64, or one of objects with None."""
    if isinstance(item, str):
        item = str.__str__(item)  # derived classes may have another length
        refuse_final_nul(item, lambda t: f"{where}, position {t}: symbol {short_repr(item[t])}")
        return item
    array, missing = read_column(item)
    if missing is None:
        return _check_present(array, where)
    symbols = array.astype(object)
    symbols[missing] = None
    if not missing.all():
        # Fill in missing symbols instead of dropping them, so that errors count positions right.
        filled = array.copy()
        filled[missing] = array[int(np.argmin(missing))]
        symbols[~missing] = _check_present(filled, where)[~missing]
    return symbols


def _check_present(array: np.ndarray, where: str) -> np.ndarray:
    """Convert symbols, none of them missing, to strings or int64."""
    array = plain_array(array, where, "symbol")
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "fO" and any(issubclass(kind, FLOATS) for kind in set(map(type, array))):
        raise TypeError(
            f"{where} is a 1-D array of floats; expected symbols that are strings or integers, or "
            "an array of shape (positions, 1) for one numeric feature"
        )
    return whole_numbers(array, where, "symbol")


def read_symbols(
    items: list, offsets: np.ndarray, segmentation: Segmentation, schema: InputSchema | None
) -> Sequences:
    """Convert checked symbols to sequences; if some are missing, to a table of one category."""
    if any(isinstance(item, np.ndarray) and item.dtype.kind == "O" for item in items):
        return _read_with_missing(items, offsets, schema)
    are_strings = [isinstance(item, str) for item in items]
    kinds = {"U" if isinstance(item, str) else item.dtype.kind for item in items}
    if len(kinds) > 1:
        raise TypeError("some sequences hold strings, others integers; expected a single type")
    if kinds == {"i"}:
        dtype = np.dtype(np.int64)
    elif all(are_strings):
        dtype = np.dtype("U1")
    else:
        dtype = np.dtype("U")
    if schema is not None:
        schema.check_symbols(dtype)
    description = {"form": "symbols", "offsets": offsets, "n_features": 1, "dtype": dtype}
    if segmentation.is_long or not all(are_strings):
        items = [characters(item) if isinstance(item, str) else item for item in items]
    if segmentation.is_long:
        return LongSequences.of(items[0], **description)
    return ListedSequences(items=segmentation.in_places(items), **description)


def _read_with_missing(
    items: list, offsets: np.ndarray, schema: InputSchema | None
) -> LongSequences:
    """Convert symbols of which some are missing to a table of one category."""
    known = None
    reason = ""
    if schema is not None:
        known = schema.categories[0]
        reason = f"in training all symbols were {TYPES[known.dtype.kind]}"
    where = partial(position_name, offsets=offsets)
    reader = ColumnReader(where, is_category=True, known=known, reason=reason)
    for item in items:
        reader.add_objects(list(item))
    return table_of([reader.finish()], offsets, None, are_symbols=True)
