"""Boundaries of sequences: positions of many sequences, one after another, as index arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def offsets_of(lengths: Any) -> np.ndarray:
    """Return the starts of sequences with the given lengths, and the end of the last one."""
    if len(lengths) == 1:
        return np.array([0, lengths[0]], dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def split_sequences(values: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    """Return one array per sequence, views of ``values``."""
    return [values[start:stop] for start, stop in pairwise(offsets.tolist())]


def joined_arrays(parts: Sequence[Any], name: str, axis: int = 0) -> np.ndarray | None:
    """Join the arrays of all parts that an attribute holds; None if they have none."""
    arrays = [getattr(part, name) for part in parts]
    if arrays[0] is None:
        return None
    return np.concatenate(arrays, axis)


def runs(starts: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Group consecutive parts, given their starts, into runs with at most ``size`` elements.

    A part with more elements is a run of its own. A run is the index of its first part, and that of
    the part after its last.
    """
    first = 0
    while first < len(starts) - 1:
        if starts[-1] - starts[first] <= size:
            yield first, len(starts) - 1
            return
        reach = np.searchsorted(starts, starts[first] + size, side="right")
        last = max(first + 1, int(reach) - 1)
        yield first, last
        first = last


def positions_in_sequences(offsets: np.ndarray) -> np.ndarray:
    """Return the index of each position within its sequence, from 0."""
    if len(offsets) == 2:
        return np.arange(offsets[-1])
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def reversed_positions(offsets: np.ndarray) -> np.ndarray:
    """Map each position to the position at the same index of the reversed sequences."""
    n = int(offsets[-1])
    return np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(n)


def position_name(position: int, offsets: np.ndarray, argument: str = "") -> str:
    """Name a sequence, of an argument, and a position, given the position among all."""
    i = int(np.searchsorted(offsets, position, side="right")) - 1
    owner = ""
    if argument:
        owner = f" of {argument}"
    return f"sequence {i}{owner}, position {position - int(offsets[i])}"
