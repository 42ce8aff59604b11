"""Random input of every form and storage, for the tests of encoding, trees and evaluation."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from treecrf.encoding.columns import BOOLEAN, CATEGORY, NUMBER
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.sequences import ListedSequences, Sequences

# Each kind of input, and the storages (codes 0, bits 1, lists 2) that it is there to reach.
STORAGES = {
    "letters": {0},
    "words": {2},
    "integers": {0, 1},
    "floats": {0, 1, 2},
    "booleans": {1, 2},
    "sparse": {1, 2},
    "sparse booleans": {1, 2},
    "indicators": {2},
}
WORDS = np.array([f"w{i}" for i in range(500)])


def random_sequences(kind: str, rng: np.random.Generator, lengths, new: bool = False) -> list:
    """Return sequences of the given lengths; new ones also hold values beyond those of training."""
    return [_random_sequence(kind, rng, length, new) for length in lengths]


def _random_sequence(kind: str, rng: np.random.Generator, length: int, new: bool):
    if kind == "letters":
        return "".join(rng.choice(list("abcdxyz" if new else "abcd"), length))
    if kind == "words":
        return rng.choice(WORDS[: 500 if new else 400], length).tolist()
    if kind == "integers":
        return np.stack([rng.integers(-n, n + new, length) for n in (1, 2, 5)], axis=1)
    table = _random_table(rng, length)
    if kind == "floats":
        return table * rng.choice([0.0, 1.0, 3.0, 1e300], table.shape) if new else table
    if kind == "booleans":
        return table > 0
    if kind == "sparse":
        return sparse.csr_array(table * rng.choice([0.0, 1.0, 3.0], table.shape) if new else table)
    if kind == "sparse booleans":
        return sparse.csr_array(table > 0)
    if kind == "indicators":
        return sparse.csr_array(_random_indicators(rng, length, new))
    raise ValueError(f"unknown kind of input: {kind!r}")


def _random_table(rng: np.random.Generator, length: int) -> np.ndarray:
    """Numbers with many and few values, of either sign and of both, often and rarely zero."""
    columns = [
        rng.integers(-3, 4, length) / 2,
        rng.random(length) < 0.4,
        (rng.random(length) < 0.08) * 1.0,
        (rng.random(length) < 0.08) * -1.0,
        (rng.random(length) < 0.9) * -2.0,
        (rng.random(length) < 0.3) * rng.integers(-2, 3, length),
        (rng.random(length) < 0.3) * rng.integers(-4, 0, length),
        (rng.random(length) < 0.05) * 1.0,
        rng.choice([-1.0, 1.0], length, p=[0.95, 0.05]),
        rng.choice([-3.0, -1.0, 1.0, 3.0], length),
        np.full(length, 7.0),
    ]
    return np.stack(columns, axis=1)


def _random_indicators(rng: np.random.Generator, length: int, new: bool) -> np.ndarray:
    """Two groups of exclusive columns; in new sequences, columns are not exclusive."""
    if new:
        return (rng.random((length, 24)) < 0.1) * 2.0
    chosen = [rng.integers(0, 12, length), rng.integers(12, 26, length)]  # 24 and 25: none
    return sum(np.arange(24) == group[:, np.newaxis] for group in chosen) * 2.0


def dense(sequences: list | Sequences) -> list:
    """Return the same sequences as arrays, lists or strings, which the oracles can index."""
    items = sequences.items if isinstance(sequences, Sequences) else sequences
    return [s.toarray() if sparse.issparse(s) else s for s in items]


def pack(sequences: list | Sequences) -> Sequences:
    """Return sequences in the form that encoders read."""
    return sequences if isinstance(sequences, Sequences) else as_sequences(sequences)


# Input with missing values, and the storages that each kind is there to reach.
STORAGES_WITH_MISSING = {
    "letters": {0},
    "numbers": {0},
    "booleans": {0},
    "mixture": {0, 2},
    "sparse": {1, 2},
    "sparse mixture": {0, 1, 2},
}
# Kinds of the columns, and the number of values of each category.
MIXTURE = {
    "letters": ([CATEGORY], {0: 4}),
    "booleans": ([BOOLEAN] * 4, {}),
    "mixture": ([CATEGORY, NUMBER, BOOLEAN, CATEGORY, NUMBER], {0: 3, 3: 7}),
    "sparse mixture": ([NUMBER, CATEGORY, BOOLEAN, BOOLEAN, CATEGORY], {1: 3, 4: 7}),
}


def random_with_missing(
    kind: str, rng: np.random.Generator, lengths, rate: float | np.ndarray, new: bool = False
) -> Sequences:
    """Return sequences in which a fraction of the values is missing; it may differ by column.

    New ones hold values beyond those of training; a category is the number of its value.
    """
    tables = [_gapped_table(kind, rng, length, new) for length in lengths]
    for table in tables:
        table[rng.random(table.shape) < rate] = np.nan
    items = [sparse.csr_array(table) if "sparse" in kind else table for table in tables]
    if kind not in MIXTURE:
        return as_sequences(items)
    kinds, sizes = MIXTURE[kind]
    categories = {j: np.arange(1, n + 1 + 2 * new) for j, n in sizes.items()}
    offsets = np.append(0, np.cumsum(lengths))
    return ListedSequences(
        form="sparse" if "sparse" in kind else "dense",
        offsets=offsets,
        n_features=len(kinds),
        dtype=np.dtype(np.float64),
        kinds=np.array(kinds, dtype=np.uint8),
        categories=categories,
        items=items,
    )


def _gapped_table(kind: str, rng: np.random.Generator, length: int, new: bool) -> np.ndarray:
    if kind in ("numbers", "sparse"):
        table = _random_table(rng, length)
        return table * rng.choice([0.0, 1.0, 3.0], table.shape) if new else table * 1.0
    kinds, sizes = MIXTURE[kind]
    columns = [
        rng.integers(1, sizes[j] + 1 + 2 * new, length)
        if k == CATEGORY
        else rng.random(length) < 0.3
        if k == BOOLEAN
        else rng.integers(-3, 4 + new, length) / 2
        for j, k in enumerate(kinds)
    ]
    table = np.stack(columns, axis=1) * 1.0
    return table * (rng.random(table.shape) >= 0.5 * ("sparse" in kind))
