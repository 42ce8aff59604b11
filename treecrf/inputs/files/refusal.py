"""Errors for files in place of data in memory."""

from __future__ import annotations

from typing import Any

from treecrf.inputs.files.batches import are_batches
from treecrf.inputs.files.paths import are_paths, is_existing, is_path_string
from treecrf.inputs.values import short_repr


def refuse_files(X: Any, are_characters: bool = False) -> None:
    """Raise TypeError for files and batches where data in memory are expected.

    Parameters
    ----------
    X : object
    are_characters : bool
        Whether a single string holds the characters of sequences, unless it is an existing path.
    """
    is_path = is_path_string(X, are_characters) or are_paths(X, with_strings=False)
    if is_path or are_batches(X):
        is_missing = isinstance(X, str) and not is_existing(X)
        missing = ", and there is no such file or folder" if is_missing else ""
        raise TypeError(
            f"X is {short_repr(X)}{missing}; files and batches are read by fit of the estimators "
            "other than HMMClassifier: here, pass a table in memory, such as "
            "pyarrow.parquet.read_table(path), or run treecrf predict on files"
        )
