"""Encoded sequences of some positions only: the rows of their windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treecrf.encoding.encoded import EncodedSequences
from treecrf.inputs.offsets import offsets_of


def gathered(
    encoded: EncodedSequences, positions: np.ndarray, window: tuple[int, int]
) -> EncodedSequences:
    """Copy the rows of the windows of some positions.

    Windows remain runs of adjacent rows. Rows that belong to several windows are copied once.

    Parameters
    ----------
    encoded : EncodedSequences
    positions : int array (n,)
        Ascending, without duplicates.
    window : (int, int)
        Number of rows to the left and to the right of a position.

    Returns
    -------
    EncodedSequences
        The positions, as if they were one sequence.
    """
    left, right = window
    rows = encoded.row_of_position[positions].astype(np.int64)
    ends = rows + right + 1
    firsts = np.maximum(rows - left, np.append(0, ends[:-1])[: len(rows)])
    starts = offsets_of(ends - firsts)
    copied = np.repeat(firsts - starts[:-1], ends - firsts) + np.arange(starts[-1])
    list_starts, list_ids = _lists(encoded, copied)
    return replace(
        encoded,
        row_of_position=(starts[1:] - 1 - right).astype(np.int32),
        offsets=np.array([0, len(rows)]),
        codes=encoded.codes.take(copied, axis=0),
        bits=encoded.bits.take(copied, axis=0),
        list_starts=list_starts,
        list_ids=list_ids,
    )


def _lists(encoded: EncodedSequences, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts and the ids of the lists of some rows."""
    if not len(encoded.list_ids):
        return np.zeros(len(rows) + 1, dtype=np.int64), encoded.list_ids
    firsts = encoded.list_starts[rows]
    lengths = encoded.list_starts[rows + 1] - firsts
    starts = offsets_of(lengths)
    ids = np.repeat(firsts - starts[:-1], lengths) + np.arange(starts[-1])
    return starts, encoded.list_ids[ids]


def chained(parts: Sequence[EncodedSequences]) -> EncodedSequences:
    """Join encoded sequences of the same columns; those of the first come first."""
    first_rows = offsets_of([len(part.codes) for part in parts])
    first_positions = offsets_of([part.n_positions for part in parts])
    first_ids = offsets_of([len(part.list_ids) for part in parts])

    def shifted(name: str, by: np.ndarray, rest: slice) -> list[np.ndarray]:
        pairs = zip(parts, by.tolist(), strict=False)
        return [getattr(part, name)[rest] + shift for part, shift in pairs]

    tail = slice(1, None)
    starts = np.zeros(first_rows[-1] + 1, dtype=np.int64)
    if first_ids[-1]:
        starts[1:] = np.concatenate(shifted("list_starts", first_ids, tail))
    rows = np.concatenate(shifted("row_of_position", first_rows, slice(None)))
    return EncodedSequences(
        row_of_position=rows.astype(np.int32, copy=False),
        offsets=np.concatenate([[0], *shifted("offsets", first_positions, tail)]),
        codes=np.concatenate([part.codes for part in parts]),
        bits=np.concatenate([part.bits for part in parts]),
        list_starts=starts,
        list_ids=np.concatenate([part.list_ids for part in parts]),
        n_ids=parts[0].n_ids,
        has_missing=np.logical_or.reduce([part.has_missing for part in parts]),
    )
