"""What sequences are, before anything is read: data frames, dicts, arrays or text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treecrf.utils.scipy_sparse import sparse

FORMS = (
    "a sequence is a 2-D array (positions, features), a scipy sparse matrix, a data frame, a list "
    "of dicts, a string, or a 1-D array or list of symbols"
)


def is_frame(item: Any) -> bool:
    """Return whether an object is a data frame; TypeError for lazy ones, which have no rows yet."""
    kind = type(item)
    if kind.__module__.startswith("dask.") and hasattr(kind, "columns"):
        raise TypeError(
            "a Dask data frame has no rows in this process; pass frame.compute(), or use fit, "
            "predict, predict_proba, decode or score of an estimator of treecrf.dask"
        )
    if kind.__name__ == "LazyFrame" and kind.__module__.startswith("polars."):
        raise TypeError("a polars LazyFrame has no rows yet; pass frame.collect()")
    return hasattr(kind, "columns")


def are_dicts(item: Any) -> bool:
    """Return whether a sequence starts with a dict."""
    is_list = isinstance(item, (list, tuple)) or (isinstance(item, np.ndarray) and item.ndim == 1)
    # It takes much longer to recognize a dict as a Mapping.
    return is_list and len(item) > 0 and isinstance(item[0], (dict, Mapping))


def is_empty_list(X: Any) -> bool:
    """Return whether X is a list of sequences that has none."""
    if isinstance(X, np.ndarray):
        return X.shape[:1] == (0,) and (X.ndim == 3 or (X.ndim == 1 and X.dtype == object))
    return isinstance(X, (list, tuple)) and not X


def is_empty(item: Any) -> bool:
    """Return whether a sequence or a long table has no positions, whatever its form."""
    shape = getattr(item, "shape", None)
    if isinstance(shape, tuple) and shape:
        return type(shape[0]) is int and shape[0] == 0
    return isinstance(item, (str, list, tuple)) and not item


def describe(item: Any) -> str:
    """Describe an object by its type and shape in error messages."""
    if isinstance(item, str):
        return "a string"
    if sparse.issparse(item):
        return f"a sparse matrix of shape {item.shape}"
    if isinstance(item, np.ndarray):
        return f"a {item.ndim}-D array of {item.dtype}"
    return f"of type {type(item).__name__}"
