"""Hashes of 64-bit integers, for random choices that do not depend on the order of the data.

A random number that is the hash of an item, instead of the next number of a generator, does not
depend on the order in which the items are visited. Kernels use the header of the same name.
"""

from __future__ import annotations

import math

import numpy as np

_MODULUS = 1 << 64
_STEP = 0x9E3779B97F4A7C15
_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31


def mix(seed: int | np.ndarray, *parts: int | np.ndarray) -> np.ndarray:
    """Hash sequences of integers modulo 2**64, by SplitMix64 (Steele, Lea and Flood, 2014).

    The arguments are the first integers of all sequences, the second integers, and so on. Their
    shapes broadcast, and the result is a uint64 array.
    """
    state = _scrambled(_as_uint64(seed))
    for part in parts:
        state = _scrambled(state ^ _as_uint64(part))
    return state


def _as_uint64(values: int | np.ndarray) -> np.ndarray:
    if isinstance(values, int):
        values %= _MODULUS
    return np.asarray(values).astype(np.uint64, copy=False)


def _scrambled(values: np.ndarray) -> np.ndarray:
    """Apply a bijection of 64 bits in which each bit of the input changes half of the output."""
    with np.errstate(over="ignore"):
        state = np.atleast_1d(values + np.uint64(_STEP))
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(_SHIFTS[2])
    return state.reshape(np.shape(values))


def ranks_of_equals(values: np.ndarray) -> np.ndarray:
    """Count the equal values before each value; int64 array of the same shape."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    n_before = np.arange(len(values))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = n_before - np.maximum.accumulate(np.where(is_first, n_before, 0))
    return ranks


def likely_bound(n: int, n_items: int) -> int:
    """Return a bound that the n smallest of ``n_items`` hashes almost certainly do not exceed."""
    fraction = n / n_items
    # The number of hashes below a bound has a binomial distribution.
    fraction += 8 * math.sqrt(fraction / n_items) + 64 / n_items
    return min(_MODULUS - 1, int(fraction * _MODULUS))


def smallest(hashes: np.ndarray, n: int) -> np.ndarray:
    """Mark the n items with the smallest hashes, or all items if there are fewer.

    The n smallest of a subset of the items include all items of the subset that are marked here.
    """
    is_smallest = np.zeros(len(hashes), dtype=bool)
    is_smallest[np.argpartition(hashes, n - 1)[:n] if n < len(hashes) else slice(None)] = True
    return is_smallest
