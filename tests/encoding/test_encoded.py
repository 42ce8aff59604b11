"""Rows of positions among boundary rows, of the windows of some, and joined encoded sequences."""

from __future__ import annotations

import pickle
from dataclasses import fields

import numpy as np
import pytest
from support.cases import (
    STORAGES,
    STORAGES_WITH_MISSING,
    pack,
    random_sequences,
    random_with_missing,
)
from support.sweeps import sweep

from treecrf.encoding.encoded import chained, gathered
from treecrf.encoding.encoder import Encoder

LENGTHS = [9, 1, 14, 3, 60]


def encoded_of(kind, rng, window, missing=False):
    if missing:
        sequences = random_with_missing(kind, rng, LENGTHS, 0.2)
    else:
        sequences = pack(random_sequences(kind, rng, LENGTHS))
    encoder = Encoder(window)
    encoder.fit(sequences)
    return encoder.encode(sequences)


def row(encoded, r):
    """Return what is stored in a row."""
    listed = encoded.list_ids[encoded.list_starts[r] : encoded.list_starts[r + 1]]
    return encoded.codes[r].tolist(), encoded.bits[r].tolist(), listed.tolist()


def check_windows(whole, positions, part, window):
    left, right = window
    assert part.n_positions == len(positions)
    assert part.row_of_position[0] == left
    assert len(part.codes) == len(part.bits) == len(part.list_starts) - 1
    assert len(part.codes) == part.row_of_position[-1] + right + 1
    for i, position in enumerate(positions):
        for offset in range(-left, right + 1):
            expected = row(whole, whole.row_of_position[position] + offset)
            assert row(part, part.row_of_position[i] + offset) == expected


CASES = [(kind, False) for kind in STORAGES] + [(kind, True) for kind in STORAGES_WITH_MISSING]


@pytest.mark.parametrize(("kind", "missing"), CASES)
@pytest.mark.parametrize("window", [(0, 0), (2, 1), (0, 3)])
@pytest.mark.parametrize("seed", sweep(range(10), 1))
def test_windows_are_those_of_the_whole(kind, missing, window, seed):
    rng = np.random.default_rng(seed)
    whole = encoded_of(kind, rng, window, missing)
    n = whole.n_positions
    for fraction in (0.1, 0.5, 1.0):
        positions = np.flatnonzero(rng.random(n) < fraction)
        positions = positions if len(positions) else np.array([n - 1])
        part = gathered([whole], [positions], window)
        check_windows(whole, positions, part, window)
        rows = whole.row_of_position[positions]
        windows = {r + o for r in rows.tolist() for o in range(-window[0], window[1] + 1)}
        assert len(part.codes) == len(windows)  # each row once


@pytest.mark.parametrize("kind", STORAGES)
def test_chained_sequences(kind):
    rng = np.random.default_rng(3)
    whole = encoded_of(kind, rng, (1, 2))
    cuts = [np.array([4]), np.arange(10, 30, 3), np.arange(whole.n_positions)]
    parts = [gathered([whole], [positions], (1, 2)) for positions in cuts]
    both = chained(parts)
    check_windows(whole, np.concatenate(cuts), both, (1, 2))
    assert both.offsets.tolist() == np.cumsum([0, *map(len, cuts)]).tolist()
    assert both.row_of_position.dtype == np.int32
    np.testing.assert_array_equal(both.has_missing, whole.has_missing)


@pytest.mark.parametrize("kind", STORAGES)
def test_windows_of_several_parts(kind):
    whole = encoded_of(kind, np.random.default_rng(4), (1, 2))
    kept = [np.array([4]), np.arange(10, 30, 3), np.array([0, whole.n_positions - 1])]
    found = gathered([whole] * len(kept), kept, (1, 2))
    check_windows(whole, np.concatenate(kept), found, (1, 2))


@pytest.mark.parametrize(("kind", "missing"), CASES)
def test_pickled_sequences_are_equal_and_without_the_starts_of_no_lists(kind, missing):
    encoded = encoded_of(kind, np.random.default_rng(0), (2, 1), missing)
    whole = encoded.rows_from_first
    data = pickle.dumps(encoded, protocol=5)
    copied = pickle.loads(data)
    for field in fields(encoded):
        expected, found = getattr(encoded, field.name), getattr(copied, field.name)
        np.testing.assert_array_equal(found, expected, strict=isinstance(expected, np.ndarray))
    np.testing.assert_array_equal(copied.rows_from_first, whole)
    kept = [encoded.codes, encoded.bits, encoded.row_of_position, encoded.offsets]
    if len(encoded.list_ids):
        kept += [encoded.list_starts, encoded.list_ids]
    assert len(data) < sum(array.nbytes for array in kept) + 1000
