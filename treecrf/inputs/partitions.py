"""Training data as partitions in one process, so that they need not fit in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from treecrf.inputs.dataset import RawData
from treecrf.inputs.frames import column_of, rows_of
from treecrf.inputs.offsets import offsets_of, runs
from treecrf.inputs.tables import are_tables, open_tables, piece_rows
from treecrf.inputs.values import column_names, is_frame
from treecrf.utils.partitions import LocalPartitions, identity
from treecrf.utils.scratch import Scratch

# Size of a value that has been read.
VALUE_BYTES = 8


def partitions_of(
    raw: RawData, scratch: str | PathLike | None, categorical_features: Any
) -> LocalPartitions | None:
    """Return the parts of data that need not fit in memory; None for other data.

    These are files and batches, and all data if ``scratch``, a folder of temporary files, is given.
    """
    files = None if scratch is None else Scratch(scratch)
    if are_tables(raw):
        pieces = open_tables(raw, categorical_features, None if files is None else files.folder)
        return LocalPartitions.reading([partial(pieces.read, i) for i in range(len(pieces))], files)
    if files is None:
        return None
    parts = partitioned(raw, piece_rows(VALUE_BYTES * n_values(raw)))
    return LocalPartitions.reading([partial(identity, part) for part in parts], files)


def partitioned(raw: RawData, n_rows: int) -> list[RawData]:
    """Cut a list of sequences, or a data frame with groups, into runs of whole sequences.

    Runs have at most ``n_rows`` positions, unless a single sequence has more. Other data, and data
    that the arguments do not match, are one piece.
    """
    offsets = _known_offsets(raw)
    arguments = {name: getattr(raw, name) for name in ("y", "sample_weight", "init_score")}
    if offsets is None or not all(_matches(raw, offsets, a) for a in arguments.values()):
        return [raw]
    for name, values in arguments.items():
        if values is not None and not isinstance(values, (str, list, tuple, np.ndarray)):
            dtype = None if hasattr(values, "dtype") else object
            arguments[name] = np.asarray(values, dtype=dtype)
    bounds = list(runs(offsets, n_rows))
    if raw.segmentation.is_long:
        tables = rows_of(raw.X, [(int(offsets[i]), int(offsets[j])) for i, j in bounds])
    else:
        tables = [raw.X[i:j] for i, j in bounds]
    parts = []
    for X, (i, j) in zip(tables, bounds, strict=True):
        cut = {}
        for name, values in arguments.items():
            if values is None or isinstance(values, str):
                continue
            of_sequences = len(values) == len(offsets) - 1
            cut[name] = values[i:j] if of_sequences else values[int(offsets[i]) : int(offsets[j])]
        place = "" if len(bounds) == 1 else f"part from sequence {i} on"
        parts.append(replace(raw, X=X, place=place, **cut))
    return parts


def n_values(raw: RawData) -> int:
    """Return the number of values of a position; 1 if it is not certain."""
    items = raw.X if isinstance(raw.X, (list, tuple)) else [raw.X]
    shape = getattr(items[0], "shape", ()) if items else ()
    return int(shape[1]) if len(shape) == 2 else 1


def _known_offsets(raw: RawData) -> np.ndarray | None:
    """Return the starts of the sequences, and the end of the last one; None for other data."""
    X, name = raw.X, raw.segmentation.column
    if raw.segmentation.is_long:
        is_cut = name is not None and is_frame(X) and name in column_names(X)
        return raw.segmentation.offsets(len(X), column_of(X, name)) if is_cut else None
    if not isinstance(X, (list, tuple)) or not X:
        return None
    lengths = []
    for item in X:
        shape = getattr(item, "shape", None) or (len(item) if hasattr(item, "__len__") else 0,)
        lengths.append(int(shape[0]))
    return None if min(lengths) == 0 else offsets_of(lengths)


def _matches(raw: RawData, offsets: np.ndarray, argument: Any) -> bool:
    """Return whether an argument has an item for each sequence or for each position."""
    if argument is None:
        return True
    if isinstance(argument, str):
        frames = [raw.X] if raw.segmentation.is_long else raw.X
        return all(is_frame(frame) and argument in column_names(frame) for frame in frames)
    if not hasattr(argument, "__len__"):
        return False
    expected = (len(offsets) - 1, *([int(offsets[-1])] if raw.segmentation.is_long else []))
    return len(argument) in expected
