"""Paths, patterns and folders as lists of files, and errors for files where data are expected."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Any

from treecrf.inputs.table_sources import are_batches
from treecrf.inputs.values import short_list, short_repr

PARQUET = (".parquet", ".pq")
TEXT = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
FORMAT_OF_ENDING = dict.fromkeys(PARQUET, "parquet") | TEXT
TEXT_ENDINGS = (*TEXT, *(f"{ending}.gz" for ending in TEXT))
ENDINGS = (*PARQUET, *TEXT_ENDINGS)
EXPECTED_ENDINGS = f"expected a file with one of the endings {', '.join(ENDINGS)}"
# What strings that are meant as paths contain: a separator, a character of patterns, or an ending.
LIKE_PATH = re.compile(r"[/*?\[]|\.[A-Za-z]\w*$" + (r"|\\" if os.sep == "\\" else ""))


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


def find_files(X: Any) -> list[str]:
    """Return the files of a path, a pattern, a folder, or a list of them, sorted by name."""
    files: list[str] = []
    for path in map(os.fspath, X if isinstance(X, (list, tuple)) else [X]):
        if os.path.isdir(path):
            files += _files_in(path)
        elif os.path.exists(path):
            files.append(path)
        elif not glob.has_magic(path):
            raise FileNotFoundError(f"{path}: there is no such file or folder")
        else:
            matches = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
            if not matches:
                raise FileNotFoundError(f"{path}: no file matches this pattern")
            files += sorted(matches, key=_in_natural_order)
    for file in files:
        if not file.lower().endswith(ENDINGS):
            raise ValueError(f"{file}: the ending is not that of a table; {EXPECTED_ENDINGS}")
    is_parquet = [file.lower().endswith(PARQUET) for file in files]
    if len(set(is_parquet)) > 1:
        raise ValueError(
            f"{files[is_parquet.index(True)]} is a Parquet file, and "
            f"{files[is_parquet.index(False)]} is a text file; expected files of one format"
        )
    return files


def _files_in(folder: str) -> list[str]:
    inside = [path.relative_to(folder) for path in Path(folder).rglob("*")]
    tables = [
        path
        for path in inside
        if not any(part.startswith(("_", ".")) for part in path.parts)
        and path.name.lower().endswith(ENDINGS)
    ]
    if not tables:
        names = sorted(map(str, inside))
        content = f"; it contains {short_list(names)}" if names else ", and is empty"
        raise ValueError(f"{folder}: the folder holds no tables{content}; {EXPECTED_ENDINGS}")
    for path in tables:
        if any("=" in part for part in path.parts[:-1]):
            raise ValueError(
                f"{folder}: the folder {str(path.parent)!r} holds a value of a column in its name; "
                'pass pyarrow.dataset.dataset(folder, partitioning="hive"), or on a Dask cluster '
                "dask.dataframe.read_parquet(folder)"
            )
    return sorted((str(Path(folder, path)) for path in tables), key=_in_natural_order)


def _in_natural_order(path: str) -> list:
    """Return a key by which part-2 comes before part-10."""
    pieces = re.split(r"(\d+)", path)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)]


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
