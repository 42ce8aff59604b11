"""What objects are, before anything is read: files, batches, data frames, dicts, arrays or text."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from treecrf.inputs.values import short_repr

if TYPE_CHECKING:
    from treecrf.inputs.dataset import RawData

PARQUET = (".parquet", ".pq")
TEXT = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
FORMAT_OF_ENDING = dict.fromkeys(PARQUET, "parquet") | TEXT
TEXT_ENDINGS = (*TEXT, *(f"{ending}.gz" for ending in TEXT))
ENDINGS = (*PARQUET, *TEXT_ENDINGS)
# What strings that are meant as paths contain: a separator, a character of patterns, or an ending.
LIKE_PATH = re.compile(r"[/*?\[]|\.[A-Za-z]\w*$" + (r"|\\" if os.sep == "\\" else ""))

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


# Files and batches


def are_tables(raw: RawData) -> bool:
    """Return whether data are tables that can be read in pieces, instead of objects in memory.

    Strings may also be sequences of characters. In a list, they are paths if they are like paths
    and ``y`` can only be the name of a column. A single one is a path if ``groups`` is a name, or
    if it is like a path and neither ``lengths`` nor ``groups`` define sequences of its characters.
    """
    X, segmentation = raw.X, raw.segmentation
    if isinstance(X, str):
        if segmentation.column is not None and segmentation.lengths is None:
            return True
        return is_path_string(X, are_characters=segmentation.is_long)
    if hasattr(type(X), "reads_tables") or are_batches(X):
        return True
    names_column = isinstance(raw.y, str) and segmentation.lengths is None
    has_array = segmentation.is_long and segmentation.column is None
    is_list = names_column and not has_array and isinstance(X, (list, tuple)) and len(X) > 0
    if is_list and all(is_path_string(item, are_characters=False) for item in X):
        return True
    return are_paths(X, with_strings=names_column)


def are_paths(X: Any, with_strings: bool) -> bool:
    """Return whether X is a path of a table or a list of them; strings only ``with_strings``."""
    items = X if isinstance(X, (list, tuple)) else [X]
    for item in items:
        if isinstance(item, str):
            is_folder = os.sep in item and os.path.isdir(item)
            if not with_strings or not (item.lower().endswith(ENDINGS) or is_folder):
                return False
        elif not isinstance(item, os.PathLike):
            return False
    return len(items) > 0


def is_path_string(X: Any, are_characters: bool) -> bool:
    """Return whether a string is meant as a path; if it may be characters, the path must exist."""
    if not isinstance(X, str) or not LIKE_PATH.search(X):
        return False
    if not are_characters:
        return True
    return is_existing(X) and (os.sep in X or X.lower().endswith(ENDINGS))


def is_existing(X: Any) -> bool:
    """Return whether X is the path of a file or a folder, or a pattern that files match."""
    if not isinstance(X, (str, os.PathLike)):
        return False
    try:
        path = os.fspath(X)
        return os.path.exists(path) or (glob.has_magic(path) and bool(glob.glob(path)))
    except ValueError:  # a character of code 0
        return False


def are_batches(X: Any) -> bool:
    """Return whether X is a source of record batches of Arrow, other than a table in memory."""
    if hasattr(type(X), "read_next_batch") or is_dataset(X):
        return True
    items = X if isinstance(X, (list, tuple)) else [X]
    kinds = map(type, items)
    return len(items) > 0 and all(
        hasattr(kind, "__arrow_c_array__") and hasattr(kind, "num_columns") for kind in kinds
    )


def is_dataset(X: Any) -> bool:
    """Return whether X is a dataset of pyarrow."""
    of_pyarrow = type(X).__module__.startswith("pyarrow")
    return of_pyarrow and hasattr(X, "to_batches") and hasattr(X, "scanner")


def refuse_files(X: Any, are_characters: bool = False) -> None:
    """Raise TypeError for files and batches where data in memory are expected."""
    is_path = is_path_string(X, are_characters) or are_paths(X, with_strings=False)
    if is_path or are_batches(X):
        is_missing = isinstance(X, str) and not is_existing(X)
        missing = ", and there is no such file or folder" if is_missing else ""
        raise TypeError(
            f"X is {short_repr(X)}{missing}; files and batches are read by fit of the estimators "
            "other than HMMClassifier: here, pass a table in memory, such as "
            "pyarrow.parquet.read_table(path), or run treecrf predict on files"
        )
