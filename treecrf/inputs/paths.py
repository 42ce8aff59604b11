"""Whether data are files or batches of Arrow, which are read in pieces, or objects in memory."""

from __future__ import annotations

import codecs
import glob
import os
import re
from typing import TYPE_CHECKING, Any

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
# How files begin: compressed ones, and text in an encoding in which a line feed is not one byte.
GZIP_MAGIC = b"\x1f\x8b"
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def are_tables(raw: RawData) -> bool:
    """Return whether data are tables that can be read in pieces, instead of objects in memory.

    Strings may also be sequences of characters. In a list, they are paths if they are like paths
    and ``y`` can only be the name of a column. A single one is a path if ``groups`` is a name, or
    if it is like a path and neither ``lengths`` nor ``groups`` define sequences of its characters.
    """
    X = raw.X
    segmentation = raw.segmentation
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
    items = X
    if not isinstance(X, (list, tuple)):
        items = [X]
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
    items = X
    if not isinstance(X, (list, tuple)):
        items = [X]
    kinds = map(type, items)
    return len(items) > 0 and all(
        hasattr(kind, "__arrow_c_array__") and hasattr(kind, "num_columns") for kind in kinds
    )


def is_dataset(X: Any) -> bool:
    """Return whether X is a dataset of pyarrow."""
    is_pyarrow = type(X).__module__.startswith("pyarrow")
    return is_pyarrow and hasattr(X, "to_batches") and hasattr(X, "scanner")


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
