"""The rows that trees read: where positions are among them, and what they hold."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self
from weakref import ref

import numpy as np

from treecrf.encoding._codes import copy_rows, count_rows
from treecrf.inputs.offsets import offsets_of, positions_in_sequences
from treecrf.utils.model_file import check_counts, require
from treecrf.utils.scipy_sparse import sparse

# Memory and time grow with the window, and offsets must fit the kernels' integers.
MAX_WINDOW = 10_000
# Kernels that read a column in whole words of 64 rows may read so far beyond its last row.
SLACK = 64


def window_within(max_window: tuple[int, int], longest: int) -> tuple[int, int]:
    """Cut a window to the offsets that may lie inside of a sequence.

    At offsets beyond them, all positions are alike. Nothing can be learned there, but every offset
    takes time and memory. A side of the window keeps at least one position, so that the sequences
    do not determine whether there are boundary rows.
    """
    farthest = max(longest - 1, 1)
    return min(max_window[0], farthest), min(max_window[1], farthest)


def widest(*windows: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest window that contains all of them."""
    lefts, rights = zip(*windows, strict=True)
    return max(lefts), max(rights)


class Windowed:
    """Base of what reads a window of positions around each position."""

    max_window: tuple[int, int]  # positions to the left and to the right
    window: tuple[int, int]  # `max_window`, cut to the length of the training sequences

    def widened(self, longest: int) -> Self:
        """Return a copy whose window also suits training sequences of this length."""
        return self.with_window(widest(self.window, window_within(self.max_window, longest)))

    def with_window(self, window: tuple[int, int]) -> Self:
        """Return a copy with another window, within ``max_window``."""
        other = copy.copy(self)
        other.window = window
        return other


def check_windows(window: tuple[int, ...], max_window: tuple[int, ...]) -> None:
    """Raise ValueError unless these are the window of a saved model, and that before the cut."""
    require(len(window) == len(max_window) == 2, "window")
    check_counts(*window, *max_window)
    require(max(max_window) <= MAX_WINDOW, "window")
    sides = zip(window, max_window, strict=True)
    require(all(min(most, 1) <= side <= most for side, most in sides), "window")


class RowLayout:
    """Assignment of positions to rows.

    Boundary rows lie before the first sequence, between sequences and after the last one, as many
    as the window reaches beyond the ends. The window of a position is then a run of rows, and no
    windowed copy is made. Neighboring sequences share their boundary rows.
    """

    def __init__(self, offsets: np.ndarray, window: tuple[int, int]):
        self.offsets = offsets
        self.window = window  # positions to the left and to the right
        n_between = max(window)
        n_sequences = len(offsets) - 1
        # Row of the first position of each sequence; int64 array (n_sequences,).
        self.first_rows = offsets[:-1] + window[0] + n_between * np.arange(n_sequences)
        # Boundary rows included.
        self.n_rows = int(offsets[-1]) + n_between * (n_sequences - 1) + sum(window)

    @property
    def rows(self) -> np.ndarray:
        """Row of each position; int64 array (n_positions,)."""
        return rows_of_positions(self.offsets, self.first_rows)


def rows_of_positions(offsets: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Compute the row of each position, given the row at which each sequence starts."""
    if len(offsets) == 2:
        return np.arange(first_rows[0], first_rows[0] + offsets[-1])
    return np.arange(offsets[-1]) + np.repeat(first_rows - offsets[:-1], np.diff(offsets))


@dataclass(frozen=True)
class EncodedSequences:
    """Encoded positions of some sequences."""

    row_of_position: np.ndarray  # int32 (n_positions,); the other rows are boundary rows
    offsets: np.ndarray
    codes: np.ndarray  # uint8 (n_rows, n_code_columns); the bin or category of columns with codes
    bits: np.ndarray  # uint8 (n_rows, n_bytes); columns of one bit
    # int64 (n_rows + 1,); row r lists ``list_ids[list_starts[r] : list_starts[r + 1]]``, ascending.
    list_starts: np.ndarray
    list_ids: np.ndarray  # int32, below ``n_ids``; values that are present in columns in lists
    n_ids: int  # number of ids that a row may list
    has_missing: np.ndarray  # bool (n_columns,); whether a value is missing

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return len(self.row_of_position)

    @cached_property
    def rows_from_first(self) -> np.ndarray:
        """Row of each position, counted from the first row of a position."""
        return self.row_of_position - self.row_of_position[:1]

    @property
    def n_padded_rows(self) -> int:
        """Number of rows from the first position's on, in whole words of 64 rows.

        Bit sets of rows, and tables with an entry for each row, have this size.
        """
        return -(-int(self.rows_from_first.max() + 1) // 64) * 64

    def __getstate__(self) -> dict[str, Any]:
        # Without lists, their starts are zeros, of more bytes than a row with few codes.
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        if not len(self.list_ids):
            state["list_starts"] = len(self.list_starts)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        starts = state["list_starts"]
        if not isinstance(starts, np.ndarray):
            state["list_starts"] = np.zeros(starts, dtype=np.int64)
        vars(self).update(state)

    def postings(self) -> tuple[np.ndarray, np.ndarray]:
        """Invert the lists: starts of the ids, and the rows that list each id, ascending."""
        if not len(self.list_ids):
            return np.zeros(self.n_ids + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        shape = (len(self.list_starts) - 1, self.n_ids)
        values = np.ones(len(self.list_ids), dtype=np.uint8)
        by_id = sparse.csr_array((values, self.list_ids, self.list_starts), shape=shape).tocsc()
        return by_id.indptr.astype(np.int64), by_id.indices.astype(np.int32, copy=False)

    def depth_of(self, order: int) -> np.ndarray:
        """Count the labels before each position, at most ``order``; uint8."""
        return np.minimum(positions_in_sequences(self.offsets), order).astype(np.uint8)


@dataclass(frozen=True)
class EncodedColumns:
    """The rows of encoded sequences, column by column."""

    codes: np.ndarray  # uint8 (n_code_columns, n_rows + SLACK)
    bits: np.ndarray  # uint8 (n_bytes, n_rows + SLACK)
    posting_starts: np.ndarray  # int64 (n_ids + 1,)
    postings: np.ndarray  # int32; rows that list an id, as ``list_ids`` are ids that a row lists

    @classmethod
    def of(cls, encoded: EncodedSequences) -> EncodedColumns:
        """Transpose rows. All who use the columns of the same sequences at a time share them."""
        weak = vars(encoded).get("columns")
        shared = weak and weak()
        if shared is None:
            columns = []
            for table in (encoded.codes, encoded.bits):
                columns.append(np.zeros((table.shape[1], len(table) + SLACK), dtype=np.uint8))
                columns[-1][:, : len(table)] = table.T
            shared = cls(*columns, *encoded.postings())
            vars(encoded)["columns"] = ref(shared)
        return shared


def gathered(
    parts: Sequence[EncodedSequences], positions: Sequence[np.ndarray], window: tuple[int, int]
) -> EncodedSequences:
    """Copy the rows of the windows of some positions of each part, as of one sequence.

    Windows remain runs of adjacent rows. Rows that belong to several windows are copied once. The
    positions ascend, without duplicates.
    """
    counts = []
    for part, selected in zip(parts, positions, strict=True):
        starts = part.list_starts
        if not len(part.list_ids):
            starts = starts[:0]
        counts.append(count_rows(part.row_of_position, starts, selected, *window))
    row_counts, id_counts = zip(*counts, strict=True)
    first_rows = offsets_of(row_counts)
    first_ids = offsets_of(id_counts)
    first_positions = offsets_of([len(selected) for selected in positions])
    n_rows = int(first_rows[-1])
    n_ids = int(first_ids[-1])
    target = (
        np.empty((n_rows, parts[0].codes.shape[1]), dtype=np.uint8),
        np.empty((n_rows, parts[0].bits.shape[1]), dtype=np.uint8),
        np.zeros(n_rows + 1, dtype=np.int64),
        np.empty(n_ids, dtype=np.int32),
    )
    rows = np.empty(first_positions[-1], dtype=np.int32)
    for i, (part, selected) in enumerate(zip(parts, positions, strict=True)):
        copy_rows(
            part.row_of_position,
            (part.codes, part.bits, part.list_starts, part.list_ids),
            selected,
            *window,
            rows[first_positions[i] : first_positions[i + 1]],
            target,
            first_rows[i],
            first_ids[i],
        )
    has_missing = np.any([part.has_missing for part in parts], axis=0)
    return EncodedSequences(rows, np.array([0, len(rows)]), *target, parts[0].n_ids, has_missing)


def chained(parts: Sequence[EncodedSequences]) -> EncodedSequences:
    """Join encoded sequences of the same columns, in the order of the parts."""
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
        has_missing=np.any([part.has_missing for part in parts], axis=0),
    )
