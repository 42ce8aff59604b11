"""Errors for files in place of data in memory."""

from __future__ import annotations

from typing import Any

from treecrf.inputs.files.batches import are_batches
from treecrf.inputs.files.paths import are_paths
from treecrf.inputs.values import short_repr


def refuse_files(X: Any) -> None:
    """Raise TypeError for files and batches where data in memory are expected.

    A single string is a path if it ends like one.
    """
    if are_paths(X, with_strings=isinstance(X, str)) or are_batches(X):
        raise TypeError(
            f"X is {short_repr(X)}; files and batches are read by fit of the estimators other than "
            "HMMClassifier: here, pass a table in memory, such as "
            "pyarrow.parquet.read_table(path), or run treecrf predict on files"
        )
