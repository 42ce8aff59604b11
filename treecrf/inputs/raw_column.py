"""One column of any container, read without changing a value.

Labels, symbols, categories and groups are names, even if they are integers. As floats, integers
beyond 2**53 would become other ones, and NumPy makes floats of nullable columns with gaps and of
lists that also hold floats. Everything that reads names therefore reads them here.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from treecrf.inputs.values import FIRST_INEXACT, find_missing, whole_decimals

# Libraries whose objects are no series, but lists, strings or arrays.
PLAIN = ("builtins", "numpy")


class RawColumn(NamedTuple):
    """The values of one column, and where they are missing."""

    values: np.ndarray  # booleans, numbers, strings or objects; arbitrary where they are missing
    missing: np.ndarray | None  # bool, of the same shape; None if all values are present

    def objects(self) -> list:
        """Return the values as Python objects, None where they are missing."""
        if self.missing is None:
            return self.values.tolist()
        objects = self.values.astype(object)
        objects[self.missing] = None
        return objects.tolist()

    def array(self) -> np.ndarray:
        """Return the values as an array that shows which are missing.

        These are NaN among floats, and None or what the user passed among objects.
        """
        if self.missing is None or self.values.dtype.kind in "fO":
            return self.values
        return as_objects(self.objects())


def read_column(items: Any) -> RawColumn:
    """Read an array, a list, or a series of any library.

    Lists of lists may have several dimensions, which the caller has to refuse.
    """
    if isinstance(items, np.ma.MaskedArray):
        return _column_of(np.asarray(items), np.ma.getmaskarray(items))
    dtype = getattr(items, "dtype", None)
    if not isinstance(dtype, np.dtype):
        series = _as_series(items)
        if series is not None:
            return _read_series(series)
    # NumPy alone would convert ["a", 1] to strings, and [2**63, -1] to floats.
    return _column_of(np.asarray(items, dtype=object if dtype is None else None))


def is_series(item: Any) -> bool:
    """Return whether an object is one column of a library of data frames."""
    return type(item).__module__.partition(".")[0] not in PLAIN and _as_series(item) is not None


def as_objects(values: list) -> np.ndarray:
    """Make a 1-D array of objects, even if they are lists of the same length."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def are_exact(floats: np.ndarray) -> bool:
    """Return whether floats are too small to stand for different integers."""
    return not (np.abs(floats) >= FIRST_INEXACT).any()


def joined_exactly(arrays: list[np.ndarray]) -> np.ndarray:
    """Join arrays in a type that holds the values of all of them; objects if no other type does.

    NumPy alone would make strings of texts and numbers, and floats of integers and floats.
    """
    joined = np.concatenate(arrays)
    if all(array.dtype.kind == joined.dtype.kind for array in arrays):
        return joined
    if joined.dtype.kind == "U" or (joined.dtype.kind == "f" and not are_exact(joined)):
        return np.concatenate([array.astype(object) for array in arrays])
    return joined


def _column_of(array: np.ndarray, masked: np.ndarray | None = None) -> RawColumn:
    """Find the missing values of an array, some of which may be masked."""
    if array.dtype.kind == "T":
        array = array.astype(object)
    missing = None
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    elif array.dtype.kind == "O" and array.ndim == 1:
        array = whole_decimals(array)
        missing = find_missing(array)
    if masked is not None:
        missing = masked if missing is None else masked | missing
        if array.dtype.kind == "O":
            array = np.where(masked, None, array)
    return RawColumn(array, missing if missing is not None and missing.any() else None)


def _as_series(items: Any) -> Any:
    """Return a column of pandas, polars, Arrow or another library as a series of narwhals.

    None for other objects, and for tables.
    """
    library = type(items).__module__.partition(".")[0]
    if library in PLAIN or not hasattr(items, "__len__") or hasattr(items, "columns"):
        return None
    import narwhals.stable.v2 as narwhals  # here, because not every program has data frames

    if library == "pandas":
        items = sys.modules["pandas"].Series(items)  # of an index or of an array
    elif library == "pyarrow" and not hasattr(items, "chunks"):
        items = sys.modules["pyarrow"].chunked_array([items])
    series = narwhals.from_native(items, allow_series=True, pass_through=True)
    if isinstance(series, narwhals.Series):
        return series
    return None


def _read_series(series: Any) -> RawColumn:
    """Read a series of narwhals: integers and booleans with a mask, floats, or objects."""
    import narwhals.stable.v2 as narwhals

    dtype = series.dtype
    is_wide = dtype in (narwhals.Int128, narwhals.UInt128)
    if dtype.is_float():
        return _column_of(series.to_numpy())
    if dtype == narwhals.Boolean or (dtype.is_integer() and not is_wide):
        if not series.null_count():
            return _column_of(series.to_numpy())
        missing = series.is_null().to_numpy()
        placeholder = False if dtype == narwhals.Boolean else 0
        return _column_of(series.fill_null(placeholder).to_numpy(), missing)
    return _column_of(as_objects(series.to_list()))
