"""Encoded sequences of some positions only: the rows of their windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treecrf.encoding._windows import copy_rows, count_rows
from treecrf.encoding.encoded import EncodedSequences
from treecrf.inputs.offsets import offsets_of


def gathered(
    parts: Sequence[EncodedSequences], positions: Sequence[np.ndarray], window: tuple[int, int]
) -> EncodedSequences:
    """Copy the rows of the windows of some positions.

    Windows remain runs of adjacent rows. Rows that belong to several windows are copied once.

    Parameters
    ----------
    parts : sequence of EncodedSequences
        Sequences of the same columns.
    positions : sequence of int64 arrays
        Positions of each part, ascending, without duplicates.
    window : (int, int)
        Number of rows to the left and to the right of a position.

    Returns
    -------
    EncodedSequences
        The positions of all parts, as if they were one sequence.
    """
    counts = [
        count_rows(part.row_of_position, _starts_of_lists(part), kept, *window)
        for part, kept in zip(parts, positions, strict=True)
    ]
    first_rows, first_ids = (offsets_of(column) for column in zip(*counts, strict=True))
    first_positions = offsets_of([len(kept) for kept in positions])
    n_rows, n_ids = int(first_rows[-1]), int(first_ids[-1])
    target = _arrays(parts[0], n_rows, n_ids)
    rows = np.empty(first_positions[-1], dtype=np.int32)
    for i, (part, kept) in enumerate(zip(parts, positions, strict=True)):
        copy_rows(
            part.row_of_position,
            (part.codes, part.bits, part.list_starts, part.list_ids),
            kept,
            *window,
            rows[first_positions[i] : first_positions[i + 1]],
            target,
            first_rows[i],
            first_ids[i],
        )
    return EncodedSequences(
        rows, np.array([0, len(rows)]), *target, parts[0].n_ids, _any_missing(parts)
    )


def _starts_of_lists(encoded: EncodedSequences) -> np.ndarray:
    return encoded.list_starts if len(encoded.list_ids) else encoded.list_starts[:0]


def _arrays(like: EncodedSequences, n_rows: int, n_ids: int) -> tuple[np.ndarray, ...]:
    """Return new codes, bits, starts of lists, which are zeros, and ids."""
    return (
        np.empty((n_rows, like.codes.shape[1]), dtype=np.uint8),
        np.empty((n_rows, like.bits.shape[1]), dtype=np.uint8),
        np.zeros(n_rows + 1, dtype=np.int64),
        np.empty(n_ids, dtype=np.int32),
    )


def _any_missing(parts: Sequence[EncodedSequences]) -> np.ndarray:
    return np.logical_or.reduce([part.has_missing for part in parts])


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
        has_missing=_any_missing(parts),
    )
