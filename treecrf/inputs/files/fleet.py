"""Training data as a fleet of parts in one process."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from treecrf.inputs.files.memory import cut, n_values
from treecrf.inputs.files.pieces import are_tables, open_pieces, piece_rows
from treecrf.inputs.labels import RawData
from treecrf.utils.fleet import LocalFleet, itself
from treecrf.utils.scratch import Scratch

# Size of a value that has been read.
VALUE_BYTES = 8


def fleet_of(
    raw: RawData, scratch: str | PathLike | None, categorical_features: Any
) -> LocalFleet | None:
    """Return the parts of data that need not fit in memory; None for other data.

    Parameters
    ----------
    raw : RawData
    scratch : str or path-like, optional
        Folder of temporary files.
    categorical_features : "from_dtype", None, or list
        The parameter of estimators.

    Raises
    ------
    OSError, ImportError, ValueError, TypeError
        As from `open_pieces`.
    """
    files = None if scratch is None else Scratch(scratch)
    if are_tables(raw):
        pieces = open_pieces(raw, categorical_features, None if files is None else files.folder)
        return LocalFleet.reading(pieces.loads(), files)
    if files is None:
        return None
    parts = cut(raw, piece_rows(VALUE_BYTES * n_values(raw)))
    return LocalFleet.reading([partial(itself, part) for part in parts], files)
